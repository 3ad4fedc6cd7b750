"""Bytes of a file or of standard input, decompressed and cut into blocks of whole lines in bounded memory."""

import os
import stat
import sys
import weakref
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from .errors import DataError, Fault, optional_module

BLOCK = 2**20
LONGEST_LINE = 64 * 2**20
LOOK_AHEAD_BYTES = 2**20
LOOK_AHEAD_LINES = 10_000
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")  # its byte order marks
# Compressed bytes that are decompressed at once. The result is at most 1,032 times as long for gzip (2 MiB) and
# 32,768 times as long for zstd (64 MiB).
_STEP = 2**11
_BEGINNINGS = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
_EXTENSIONS = {".gz": "gzip", ".zst": "zstd"}


def compression(path: str | Path) -> str | None:
    """How a file is compressed, by its extension: "gzip", "zstd" or None."""
    return _EXTENSIONS.get(os.path.splitext(os.fspath(path))[1].lower())


def plain_name(path: str | Path) -> str:
    """The name without .gz or .zst."""
    return os.path.splitext(path)[0] if compression(path) else os.fspath(path)


def _decompressed(read: Callable[[int], bytes], method: str) -> Iterator[bytes]:
    """The decompressed bytes of one or more gzip members or zstd frames."""
    start: Callable[[], Any] = partial(zlib.decompressobj, 31)
    errors: tuple[type[Exception], ...] = (zlib.error,)
    if method == "zstd":
        zstandard = optional_module("zstandard")
        start, errors = zstandard.ZstdDecompressor().decompressobj, (zstandard.ZstdError, MemoryError)
    frame, n_frames, data = None, 0, b""
    while data or (data := read(_STEP)):
        if frame is None:
            if n_frames and not (data := data.lstrip(b"\0")):  # the end may be padded with zeros
                continue
            frame, n_frames = start(), n_frames + 1
        try:
            plain = frame.decompress(data)
        except errors as error:
            raise Fault(f"the {method} data are damaged ({error}); create or download the file again") from None
        data = b""
        if frame.eof:
            data, frame = frame.unused_data, None
        if plain:
            yield plain
    if frame is not None or not n_frames:
        raise Fault(f"the {method} data end too early; create or download the file again")


def close_with(owner: object, file: BinaryIO) -> None:
    """Close a temporary file when its owner is deleted. A full disk was an error before and is ignored here."""

    def close() -> None:
        with suppress(OSError):
            file.close()

    weakref.finalize(owner, close)


class ByteStream:
    """One pass over the bytes of a file.

    `consumed` and `total` count bytes of the file itself, before decompression; `total` is None for pipes. Data are
    decompressed by the extension of the file, or else by their first bytes.
    """

    def __init__(self, path: str | Path) -> None:
        self.name = os.fspath(path)
        self.consumed = 0
        self.total: int | None = None
        self._peeked = b""  # bytes of the file
        self._back = b""  # decompressed bytes that were not used yet
        self._fault: Fault | None = None
        if self.name == "-":
            if sys.stdin is None:
                raise DataError("-", "it is closed; redirect a file or a pipe to it")
            self._file: BinaryIO = sys.stdin.buffer
        else:
            self._file = open(self.name, "rb")
            status = os.fstat(self._file.fileno())
            self.total = status.st_size if stat.S_ISREG(status.st_mode) else None
        method = compression(self.name)
        if method is None:
            self._peeked = self._file.read(4)
            method = next((found for start, found in _BEGINNINGS.items() if self._peeked.startswith(start)), None)
        plain = iter(lambda: self._read_file(2**20), b"")
        self._pieces = plain if method is None else _decompressed(self._read_file, method)

    def _read_file(self, size: int) -> bytes:
        data, self._peeked = self._peeked or self._file.read(size), b""
        self.consumed += len(data)
        if not data and self.total is not None and self.consumed < self.total:
            raise Fault("the file became shorter while it was being read; read it again")
        return data

    def read(self, size: int) -> bytes:
        """The next `size` bytes: fewer only at the end or before damaged data, none after the end.

        Bytes before the damage are returned first; the next call raises Fault.
        """
        parts, length = [self._back], len(self._back)
        try:
            while length < size and self._fault is None and (piece := next(self._pieces, b"")):
                parts.append(piece)
                length += len(piece)
        except Fault as fault:
            self._fault = fault
        if self._fault is not None and not length:
            raise self._fault
        data = b"".join(parts)
        self._back = data[size:]
        return data[:size]

    def unread(self, data: bytes) -> None:
        """Put bytes back, to be read next."""
        self._back = data + self._back

    def close(self) -> None:
        """Close the file; standard input stays open."""
        if self.name != "-":
            self._file.close()


class Block(NamedTuple):
    """Whole lines, each with its newline. A line that is too long is a block without data."""

    data: bytes
    first_line: int  # counted from 1 in the file
    too_long: bool = False
    at_end: bool = False  # whether the first lines of a file are the whole file


def blocks(stream: ByteStream) -> Iterator[Block]:
    """Cut a stream into blocks. Memory: a block, or the longest line allowed."""
    line, rest, skipping, first = 1, bytearray(), False, True
    while True:
        try:
            data = stream.read(BLOCK)
        except Fault as fault:
            raise DataError(stream.name, fault.what, line, len(rest) + 1) from None
        if not data:
            break
        if first:
            data, first = data.removeprefix(_BYTE_ORDER_MARK), False
        newline = data.find(b"\n")
        if skipping or len(rest) + (newline if newline >= 0 else len(data)) > LONGEST_LINE:
            if not skipping:  # at once: the line may be endless
                yield Block(b"", line, too_long=True)
            rest.clear()
            skipping = newline < 0
            if skipping:
                continue
            line += 1
            data = data[newline + 1 :]
        end = data.rfind(b"\n") + 1
        if end:
            whole = bytes(rest) + data[:end]
            rest.clear()
            yield Block(whole, line)
            line += whole.count(b"\n")
        rest += data[end:]
    if rest:
        yield Block(bytes(rest) + b"\n", line)


def look_ahead(stream: ByteStream) -> Block:
    """The first lines, which stay in the stream; an empty block if the first line is too long."""
    data, at_end = b"", False
    try:
        while not at_end and (len(data) < LOOK_AHEAD_BYTES or (b"\n" not in data and len(data) <= LONGEST_LINE)):
            piece = stream.read(LOOK_AHEAD_BYTES)
            at_end = not piece
            data += piece
    except Fault as fault:
        raise DataError(stream.name, fault.what, data.count(b"\n") + 1, len(data) - data.rfind(b"\n")) from None
    stream.unread(data)
    if why := _other_text(data):
        raise DataError(stream.name, why, 1, 1)
    data = data.removeprefix(_BYTE_ORDER_MARK)
    if at_end and data and not data.endswith(b"\n"):
        data += b"\n"
    end = 0
    for _ in range(LOOK_AHEAD_LINES):
        newline = data.find(b"\n", end)
        if newline < 0 or newline - end > LONGEST_LINE:
            break
        end = newline + 1
    return Block(data[:end], 1, at_end=at_end and end == len(data))


def _other_text(data: bytes) -> str | None:
    """Why the beginning of a file is not made of lines of UTF-8 text, if it is a kind of text that is recognised."""
    if data.startswith(_UTF_16):
        return 'the file is UTF-16 text; convert it to UTF-8 (in a spreadsheet program, choose "CSV UTF-8")'
    if b"\n" not in data and b"\r" in data.rstrip(b"\r"):
        return "the lines end with CR only, as on old Macs; convert the line ends to LF"
    return None
