"""Streams of bytes cut into blocks of whole lines."""

from collections.abc import Iterator
from typing import NamedTuple

from .compressed import BrokenStream, ByteStream
from .errors import DataError

BLOCK = 2**20
LONGEST_LINE = 64 * 2**20
LOOK_AHEAD_BYTES = 2**20
LOOK_AHEAD_LINES = 10_000
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Block(NamedTuple):
    """Whole lines, each ended by a newline; or one line that is too long, and then no data."""

    data: bytes
    first_line: int  # its number in the file, from 1
    too_long: bool = False


def blocks(stream: ByteStream) -> Iterator[Block]:
    """Cut a stream into blocks. Memory: a block, or the longest line allowed.

    A line that is too long is passed over and reported by an empty block.
    """
    line, rest, passing_over = 1, bytearray(), False
    first = True
    while True:
        try:
            data = stream.read(BLOCK)
        except BrokenStream as broken:
            raise DataError(stream.name, str(broken), line, len(rest) + 1) from None
        if not data:
            break
        if first and data.startswith(BYTE_ORDER_MARK):
            data = data[len(BYTE_ORDER_MARK) :]
        first = False
        newline = data.find(b"\n")
        if passing_over or len(rest) + (newline if newline >= 0 else len(data)) > LONGEST_LINE:
            rest.clear()
            passing_over = newline < 0
            if passing_over:
                continue
            yield Block(b"", line, too_long=True)
            line += 1
            data = data[newline + 1 :]
        end = data.rfind(b"\n") + 1
        if end:
            whole = bytes(rest) + data[:end]
            rest.clear()
            yield Block(whole, line)
            line += whole.count(b"\n")
        rest += data[end:]
    if passing_over:
        yield Block(b"", line, too_long=True)
    elif rest:
        yield Block(bytes(rest) + b"\n", line)


def look_ahead(stream: ByteStream) -> Block:
    """The first lines, which are put back into the stream; an empty block if the first line is too long."""
    data = b""
    try:
        while len(data) < LOOK_AHEAD_BYTES or (b"\n" not in data and len(data) <= LONGEST_LINE):
            piece = stream.read(LOOK_AHEAD_BYTES)
            if not piece:
                break
            data += piece
        else:
            piece = b"more"
    except BrokenStream as broken:
        raise DataError(stream.name, str(broken), data.count(b"\n") + 1, len(data) - data.rfind(b"\n")) from None
    stream.unread(data)
    data = data.removeprefix(BYTE_ORDER_MARK)
    if not piece and data and not data.endswith(b"\n"):
        data += b"\n"
    end = -1
    for _ in range(LOOK_AHEAD_LINES):
        newline = data.find(b"\n", end + 1)
        if newline < 0:
            break
        end = newline
    return Block(data[: end + 1], 1)
