"""A file of rows in any known format, read in passes of chunks."""

import os
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from .chunks import Chunk, Piece, Reader, cut, empty_piece
from .errors import DataError
from .lines import LONGEST_LINE, Block, ByteStream, blocks, look_ahead, plain_name
from .reading import FORMATS, TABLES, Reading

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
# Imported when needed: the compiler of the kernels and scikit-learn take a second each.
_READERS = {
    "svmlight": ("sparse_text", "SvmlightReader"),
    "xmc": ("sparse_text", "XmcReader"),
    "vw": ("sparse_text", "VwReader"),
    "csv": ("tables", "CsvReader"),
    "tsv": ("tables", "CsvReader"),
    "jsonl": ("tables", "JsonlReader"),
    "parquet": ("tables", "ParquetFile"),
}


def _reader(file_format: str) -> Any:
    module, name = _READERS[file_format]
    return getattr(import_module(f".{module}", __package__), name)


def _extension(path: str | Path) -> str:
    return os.path.splitext(plain_name(path))[1].lower()


def _text_file_format(path: str | Path, block: Block) -> str | None:
    """The format of a .txt file, which may begin with the header of an xmc file."""
    from .sparse_text import xmc_header

    return "xmc" if _extension(path) == ".txt" and xmc_header(block.data.split(b"\n", 1)[0]) else None


def named_format(path: str | Path) -> str | None:
    """The format of a file by its extension, or None; the file need not exist."""
    return _EXTENSIONS.get(_extension(path))


def known_format(path: str | Path) -> str | None:
    """The format of a file by its extension, or None. A .txt file is opened to see if it begins like an xmc file.

    A pipe is not opened, because it can be read only once.

    Examples
    --------
    >>> known_format("train.svm.gz"), known_format("train.csv"), known_format("train.doc")
    ('svmlight', 'csv', None)
    """
    if _extension(path) != ".txt":
        return named_format(path)
    if os.path.exists(path) and not os.path.isfile(path):
        return None
    stream = ByteStream(path)
    try:
        return _text_file_format(path, look_ahead(stream))
    finally:
        stream.close()


class _TextFile:
    """A file of lines that is read in passes."""

    keep: tuple[str, ...] = ()

    def __init__(self, path: str, reading: Reading, labelled: bool, skip: bool) -> None:
        self._path, self._labelled, self._skip = path, labelled, skip
        self._columns_named = bool(reading.columns)
        self.late_columns: dict[str, None] = {}
        self.absent_columns: set[str] = set()
        self._stream = ByteStream(path)
        try:
            block = look_ahead(self._stream)
            file_format = reading.format or _text_file_format(path, block)
            if file_format is None:
                what = f"unknown format; specify one of {', '.join(FORMATS)} (format=, --input-format)"
                if block.data.startswith(b"__label__"):
                    what = "fastText's format is not supported; docs/from_fasttext.md converts it to a table"
                raise DataError(path, what, 1, 1)
            self._reader: type[Reader] = _reader(file_format)
            self.reading = self._reader.resolve(path, replace(reading, format=file_format), block, labelled)
        except BaseException:
            self._stream.close()
            raise
        self.once = self._stream.total is None  # a pipe, which cannot be opened again
        if not self.once:
            self._stream.close()
            self._stream.consumed = 0

    @property
    def position(self) -> tuple[int, int | None]:
        """Bytes of the file read so far in this pass, and bytes in total (None: unknown)."""
        return self._stream.consumed, self._stream.total

    def pieces(self) -> Generator[Piece, None, None]:
        """One pass over the rows."""
        self._stream = stream = self._stream if self.once else ByteStream(self._path)
        reader = self._reader(self._path, self.reading, self._labelled, self._skip)
        reader.keep = self.keep
        if not self._columns_named:
            reader.late_columns = self.late_columns
        self.absent_columns = reader.absent_columns
        try:
            for block in blocks(stream):
                yield self._too_long(block, reader.width) if block.too_long else reader.read(block)
            last = reader.end()
            if last is not None:
                yield last
        finally:
            stream.close()

    def _too_long(self, block: Block, width: int) -> Piece:
        what = f"the line is longer than {LONGEST_LINE // 2**20} MB; is this a text file?"
        error = None if self._skip else DataError(self._path, what, block.first_line, 1)
        return empty_piece(width, 1, error)


class Source:
    """The rows of a file, read in bounded memory, any number of times.

    Parameters
    ----------
    path : str or Path
        The file, possibly compressed by gzip or zstd; "-" is standard input. Standard input and pipes can be read once.
    reading : Reading
        How it is read. Values that are None are found from the first 1 MB or 10,000 lines.
    labelled : bool
        False: labels are not read and may be missing.
    skip_bad_lines : bool
        Count bad lines and continue, instead of raising DataError.
    keep : sequence of str
        Columns whose cells are returned unchanged, in `chunk.kept`; tables only.

    Attributes
    ----------
    reading : Reading
        The reading, with all values filled in.
    n_rows, n_skipped : int
        Good rows and bad lines so far in the current pass.
    n_beyond : int
        Indices beyond the number of features so far in the current pass, see `Reading.hashed`.

    Examples
    --------
    >>> import os, tempfile
    >>> from manyclass.io import Reading, Source
    >>> path = os.path.join(tempfile.mkdtemp(), "train.csv")
    >>> with open(path, "w") as file:
    ...     _ = file.write("topic,question\\nsize,is it too small\\npayment,can I pay later\\n")
    >>> source = Source(path, Reading(label="topic"))
    >>> [chunk.labels.tolist() for chunk in source.chunks(rows=1)]
    [['size'], ['payment']]
    >>> source.position
    (60, 60)
    """

    def __init__(
        self,
        path: str | Path,
        reading: Reading = Reading(),
        *,
        labelled: bool = True,
        skip_bad_lines: bool = False,
        keep: Sequence[str] = (),
    ) -> None:
        self.path = os.fspath(path)
        self.n_rows, self.n_skipped, self.n_beyond = 0, 0, 0
        self._skipped: list[np.ndarray] = []
        self._labelled, self._n_passes = labelled, 0
        reading = replace(reading, format=reading.format or named_format(path))
        kind = _reader("parquet") if reading.format == "parquet" else _TextFile
        self._file = kind(self.path, reading, labelled, skip_bad_lines)
        self.reading: Reading = self._file.reading
        self.keep = self._file.keep = tuple(keep)
        if keep and self.reading.format not in TABLES:
            raise DataError(self.path, f"{self.reading.format} files have no columns to keep", 1, 1)

    @property
    def position(self) -> tuple[int, int | None]:
        """Bytes of the file read so far in this pass, and bytes in total (None: unknown)."""
        return self._file.position

    @property
    def late_columns(self) -> list[str]:
        """Columns of a JSON lines file that are not used because its first rows lack them, as far as it was read.

        There are none if columns were named.
        """
        return list(self._file.late_columns)

    @property
    def absent_columns(self) -> list[str]:
        """Columns to use that no row of a JSON lines file had in the last pass. Other tables must have them."""
        return sorted(self._file.absent_columns)

    @property
    def rows_before_skipped(self) -> np.ndarray:
        """For each line skipped in the last pass, the number of good rows before it: which lines these were."""
        return np.concatenate([np.zeros(0, np.int64), *self._skipped])

    def chunks(self, rows: int = 4096) -> Iterator[Chunk]:
        """Start a pass over the file. All chunks have exactly `rows` rows, except a shorter last one."""
        if rows < 1:
            raise ValueError(f"rows must be at least 1, got {rows}")
        if self._file.once and self._n_passes:
            what = "standard input and pipes can be read only once; write a file for several passes"
            raise DataError(self.path, what, 1, 1)
        self._n_passes += 1
        return self._chunks(rows)

    def _chunks(self, rows: int) -> Iterator[Chunk]:
        self.n_rows, self.n_skipped, self.n_beyond, n_bad, n_good = 0, 0, 0, 0, 0
        self._skipped = []
        pieces = self._file.pieces()

        def counted() -> Iterator[Piece]:
            nonlocal n_bad, n_good
            for piece in pieces:
                if len(piece.bad):
                    self._skipped.append(piece.bad + n_good)
                n_bad, n_good = n_bad + len(piece.bad), n_good + piece.n_rows
                self.n_beyond += piece.n_beyond
                yield piece

        try:
            for chunk in cut(counted(), rows, self.reading, self._labelled):
                self.n_rows += chunk.X.shape[0]
                self.n_skipped = chunk.n_skipped
                yield chunk
        finally:
            pieces.close()  # closes the file, also if the caller stops early or a line is bad
        self.n_skipped = n_bad  # also if no good row follows
