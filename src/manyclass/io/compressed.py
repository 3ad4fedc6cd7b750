"""Bytes of a file or of standard input, unpacked on the way, in bounded memory."""

import os
import stat
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

_PIECE = 2**17  # compressed bytes read at once
_UNPACKED = 2**20  # bytes that a piece of gzip may become at once
_ZSTD_PIECE = 2**11  # zstd cannot limit what comes out; 2 KiB become 64 MiB at the very most
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"

SUFFIXES = (".gz", ".zst")


class BrokenStream(Exception):
    """The bytes end early or cannot be unpacked; who counts the lines makes a DataError of it."""


def plain_name(path: str | Path) -> str:
    """The name without .gz or .zst."""
    name = os.fspath(path)
    return name.rsplit(".", 1)[0] if name.lower().endswith(SUFFIXES) else name


def _gunzip(read: Callable[[int], bytes]) -> Iterator[bytes]:
    inflater, data, n_members = None, b"", 0
    while data or (data := read(_PIECE)):
        if inflater is None:
            if n_members:  # zeros may fill the last sector of a tape
                data = data.lstrip(b"\0")
                if not data:
                    continue
            inflater, n_members = zlib.decompressobj(31), n_members + 1
        try:
            unpacked = inflater.decompress(data, _UNPACKED)
        except zlib.error as error:
            raise BrokenStream(f"the gzip data are damaged ({error}); make or fetch the file again") from None
        data = inflater.unconsumed_tail
        if inflater.eof:
            data, inflater = inflater.unused_data, None
        if unpacked:
            yield unpacked
    if inflater is not None or not n_members:
        raise BrokenStream("the gzip data end too early; make or fetch the file again")


def _unzstd(read: Callable[[int], bytes]) -> Iterator[bytes]:
    import zstandard

    decompressor = zstandard.ZstdDecompressor()
    frame, data, n_frames = None, b"", 0
    while data or (data := read(_PIECE)):
        if frame is None:
            frame, n_frames = decompressor.decompressobj(), n_frames + 1
        try:
            unpacked = frame.decompress(data[:_ZSTD_PIECE])
        except (zstandard.ZstdError, MemoryError) as error:
            raise BrokenStream(f"the zstd data are damaged ({error}); make or fetch the file again") from None
        data = data[_ZSTD_PIECE:]
        if frame.eof:
            data, frame = frame.unused_data + data, None
        if unpacked:
            yield unpacked
    if frame is not None or not n_frames:
        raise BrokenStream("the zstd data end too early; make or fetch the file again")


def _as_is(read: Callable[[int], bytes]) -> Iterator[bytes]:
    while data := read(2**20):
        yield data


class ByteStream:
    """One pass over the bytes of a file.

    `consumed` and `total` count bytes of the file itself, packed if it is. What comes from standard input is
    unpacked if it begins as gzip or zstd do; a file, if its name says so.
    """

    def __init__(self, path: str | Path) -> None:
        self.name = os.fspath(path)
        self.consumed = 0
        self.total: int | None = None
        self._back = b""  # unread or peeked bytes, unpacked
        self._peeked = b""
        self._broken: BrokenStream | None = None
        if self.name == "-":
            self._file: BinaryIO = sys.stdin.buffer
            self._peeked = self._file.read(4)
            packing = "gzip" if self._peeked[:2] == _GZIP else "zstd" if self._peeked == _ZSTD else ""
        else:
            self._file = open(self.name, "rb", buffering=0)
            status = os.fstat(self._file.fileno())
            if stat.S_ISREG(status.st_mode):
                self.total = status.st_size
            lowered = self.name.lower()
            packing = "gzip" if lowered.endswith(".gz") else "zstd" if lowered.endswith(".zst") else ""
        self._pieces = {"gzip": _gunzip, "zstd": _unzstd, "": _as_is}[packing](self._read_file)

    def _read_file(self, size: int) -> bytes:
        data, self._peeked = self._peeked or self._file.read(size), b""
        self.consumed += len(data)
        if not data and self.total is not None and self.consumed < self.total:
            raise BrokenStream("the file became shorter while it was being read; read it again")
        return data

    def read(self, size: int) -> bytes:
        """The next `size` bytes: fewer only at the end or before damage, none after the end.

        What can still be unpacked before the damage is handed out first; the next call raises BrokenStream.
        """
        if self._broken is not None and not self._back:
            raise self._broken
        parts, length = [self._back] if self._back else [], len(self._back)
        self._back = b""
        try:
            while length < size and self._broken is None and (piece := next(self._pieces, b"")):
                parts.append(piece)
                length += len(piece)
        except BrokenStream as broken:
            self._broken = broken
            if not parts:
                raise
        data = b"".join(parts)
        self._back = data[size:]
        return data[:size]

    def unread(self, data: bytes) -> None:
        """Put bytes back in front."""
        self._back = data + self._back

    def close(self) -> None:
        """Close the file; standard input stays open, it is not ours."""
        if self.name != "-":
            self._file.close()
