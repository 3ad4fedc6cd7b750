"""A file of rows, in any known format, read in passes of chunks."""

import os
from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from .compressed import ByteStream, plain_name
from .errors import DataError
from .lines import LONGEST_LINE, Block, blocks, look_ahead
from .pieces import Chunk, Piece, cut, empty_piece
from .reading import FORMATS, Reading

if TYPE_CHECKING:
    from .parquet import ParquetTable

_EXTENSIONS = {
    ".svm": "svmlight",
    ".svmlight": "svmlight",
    ".libsvm": "svmlight",
    ".xmc": "xmc",
    ".vw": "vw",
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
}


class _Reader(Protocol):
    """What makes rows of blocks of lines, for one pass."""

    def read(self, block: Block) -> Piece:
        """The rows of a block."""
        ...

    def end(self) -> Piece | None:
        """What is left at the end of the file."""
        ...


def _by_name(path: str | Path, first_line: Callable[[], bytes]) -> str | None:
    """The format by the extension; a .txt file has to show the header of an xmc file."""
    extension = os.path.splitext(plain_name(path))[1].lower()
    if extension == ".txt":
        from .xmc import header_of

        return "xmc" if header_of(first_line()) is not None else None
    return _EXTENSIONS.get(extension)


def known_format(path: str | Path) -> str | None:
    """The format of a file by its extension, or None. A .txt file is opened: it may begin as xmc files do.

    Examples
    --------
    >>> known_format("train.svm.gz"), known_format("train.csv"), known_format("train.doc")
    ('svmlight', 'csv', None)
    """

    def first_line() -> bytes:
        stream = ByteStream(path)
        try:
            return look_ahead(stream).data.split(b"\n", 1)[0]
        finally:
            stream.close()

    return _by_name(path, first_line)


def _resolved(path: str, reading: Reading, block: Block, labelled: bool) -> Reading:
    """Find out from the first lines what the reading leaves open."""
    # Imported here: the kernels' compiler and scikit-learn take a second each.
    if reading.format == "svmlight":
        from .svmlight import resolve
    elif reading.format == "xmc":
        from .xmc import resolve
    elif reading.format == "vw":
        from .vw_text import resolve
    elif reading.format == "jsonl":
        from .tables import resolve_jsonl as resolve
    else:
        from .tables import resolve_csv as resolve
    return resolve(path, reading, block, labelled)


def _reader(path: str, reading: Reading, labelled: bool, skip: bool) -> _Reader:
    """A reader for one pass."""
    make: Callable[[str, Reading, bool, bool], _Reader]
    if reading.format == "svmlight":
        from . import svmlight

        make = svmlight.svmlight_reader
    elif reading.format == "xmc":
        from . import xmc

        make = xmc.XmcReader
    elif reading.format == "vw":
        from . import vw_text

        make = vw_text.VwReader
    else:
        from . import tables

        make = tables.JsonlReader if reading.format == "jsonl" else tables.CsvReader
    return make(path, reading, labelled, skip)


class Source:
    """The rows of a file, in bounded memory, as often as wanted.

    Parameters
    ----------
    path : str or Path
        The file, plain or packed by gzip or zstd; "-" is standard input. That and pipes can be read once.
    reading : Reading
        How it is read. What it leaves open is found out from at most the first 1 MB or 10,000 lines.
    labelled : bool
        False: labels are not needed, and passed over where they stand.
    skip_bad_lines : bool
        Count bad lines and go on, instead of raising DataError.

    Attributes
    ----------
    reading : Reading
        With everything found out.
    n_rows, n_skipped : int
        Good rows and bad lines so far in the present pass.
    """

    def __init__(
        self,
        path: str | Path,
        reading: Reading = Reading(),  # noqa: B008  (frozen)
        *,
        labelled: bool = True,
        skip_bad_lines: bool = False,
    ) -> None:
        self.path = os.fspath(path)
        self.n_rows, self.n_skipped = 0, 0
        self._labelled, self._skip = labelled, skip_bad_lines
        self._n_passes, self._once = 0, False
        self._table: ParquetTable | None = None
        self._stream: ByteStream | None = None
        file_format = reading.format or _by_name(path, lambda: b"")
        if file_format == "parquet":
            from .parquet import ParquetTable as Table  # here, because scikit-learn takes a second to import

            self._table = Table(path)
            try:
                self.reading = self._table.resolve(replace(reading, format="parquet"), labelled)
            finally:
                self._table.close()
            return
        stream = ByteStream(path)
        try:
            block = look_ahead(stream)
            file_format = file_format or _by_name(path, lambda: block.data.split(b"\n", 1)[0])
            if file_format is None:
                what = f"the name does not tell the format; give one (format=, --input-format): {', '.join(FORMATS)}"
                raise DataError(self.path, what, 1, 1)
            reading = replace(reading, format=file_format)
            self.reading = _resolved(self.path, reading, block, labelled)
        except BaseException:
            stream.close()
            raise
        self._once = stream.total is None  # a pipe
        if self._once:
            self._stream = stream
        else:
            stream.close()
        self._at = (0, stream.total)

    @property
    def position(self) -> tuple[int, int | None]:
        """Bytes of the file read so far in this pass, and bytes in all (None: unknown)."""
        if self._table is not None:
            return self._table.consumed, self._table.total
        return (self._stream.consumed, self._stream.total) if self._stream is not None else self._at

    def chunks(self, rows: int = 4096) -> Iterator[Chunk]:
        """Begin a pass: chunks of exactly `rows` rows, the last one shorter."""
        if rows < 1:
            raise ValueError(f"rows must be at least 1, not {rows}")
        self._n_passes += 1
        if self._once and self._n_passes > 1:
            what = "standard input and pipes can be read only once; write a file for several passes"
            raise DataError(self.path, what, 1, 1)
        return self._chunks(rows)

    def _chunks(self, rows: int) -> Iterator[Chunk]:
        self.n_rows, self.n_skipped = 0, 0
        pieces = self._pieces() if self._table is None else self._table_pieces(self._table)
        n_bad = 0

        def counted() -> Iterator[Piece]:
            nonlocal n_bad
            for piece in pieces:
                n_bad += len(piece.bad)
                yield piece

        try:
            for chunk in cut(counted(), rows, self.reading.width):
                self.n_rows += chunk.X.shape[0]
                self.n_skipped = chunk.n_skipped
                yield chunk
        finally:
            pieces.close()  # closes the file, also when the caller has had enough or a row was bad
        self.n_skipped = n_bad

    def _table_pieces(self, table: "ParquetTable") -> Generator[Piece, None, None]:
        try:
            yield from table.pieces(self.reading, self._labelled, self._skip)
        finally:
            table.close()

    def _pieces(self) -> Generator[Piece, None, None]:
        stream = self._stream if self._once and self._stream is not None else ByteStream(self.path)
        self._stream = stream
        reader = _reader(self.path, self.reading, self._labelled, self._skip)
        try:
            for block in blocks(stream):
                yield self._too_long(block) if block.too_long else reader.read(block)
            last = reader.end()
            if last is not None:
                yield last
        finally:
            stream.close()
            self._at = (stream.consumed, stream.total)

    def _too_long(self, block: Block) -> Piece:
        """A line that is too long, as a piece without rows."""
        error: DataError | None = None
        if not self._skip:
            what = f"the line is longer than {LONGEST_LINE // 2**20} MB; is this a file of lines?"
            error = DataError(self.path, what, block.first_line, 1)
        return empty_piece(self.reading, self._labelled, 1, error)
