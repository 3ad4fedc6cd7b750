"""The old Unix `compress` (files *.Z): Isolet comes so, and the standard library cannot read it."""

_MAGIC = b"\x1f\x9d"
_CLEAR = 256


class _Codes:
    """Numbers of growing width, lowest bit first, in groups of eight.

    When the width changes, `compress` fills the group up: the reader passes over the rest of it.
    """

    def __init__(self, data: bytes, start: int) -> None:
        self._data, self._group, self._taken = data, start, 0
        self.width = 9

    def next(self) -> int | None:
        """The next number, or None at the end."""
        first = self._group * 8 + self._taken * self.width
        if first + self.width > len(self._data) * 8:
            return None
        self._taken += 1
        window = int.from_bytes(self._data[first // 8 : first // 8 + 4], "little")
        return window >> (first % 8) & ((1 << self.width) - 1)

    def change(self, width: int) -> None:
        """Go on with another width, at the next group."""
        groups = -(-self._taken // 8)
        self._group, self._taken, self.width = self._group + groups * self.width, 0, width


def unpack_lzw(data: bytes) -> bytes:
    """The content of a .Z file; a ValueError if it is none or is damaged."""
    if len(data) < 3 or data[:2] != _MAGIC:
        raise ValueError("not a .Z file")
    longest, blocks = data[2] & 31, bool(data[2] & 128)
    if not 10 <= longest <= 16:  # programs disagree on what 9 means
        raise ValueError(f"a .Z file with codes of {longest} bits; 10 to 16 can be read")
    codes = _Codes(data, 3)
    table = _fresh(blocks)
    parts: list[bytes] = []
    before = b""
    while (code := codes.next()) is not None:
        if blocks and code == _CLEAR:
            codes.change(9)
            table, before = _fresh(blocks), b""
            continue
        if code < len(table):
            entry = table[code]
        elif before and code == len(table):
            entry = before + before[:1]  # the entry that this very code makes
        else:
            raise ValueError("the .Z data are damaged")
        parts.append(entry)
        if before and len(table) < 1 << longest:
            table.append(before + entry[:1])
        before = entry
        if len(table) >= 1 << codes.width and codes.width < longest:
            codes.change(codes.width + 1)
    return b"".join(parts)


def _fresh(blocks: bool) -> list[bytes]:
    """The table at the start: all bytes, and a place that the clear code takes."""
    return [bytes([value]) for value in range(256)] + ([b""] if blocks else [])
