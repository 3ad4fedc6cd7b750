"""Readers of tables: CSV and TSV by Python's csv module, JSON lines, and Parquet.

A text column becomes its words, scaled to length 1; a categorical cell becomes "column=value"; a number keeps its
value under the name of its column. All are hashed into the same features by scikit-learn. The words of every text
column but the first are hashed with the column's name, so that the same word in title and body is two features.
"""

import csv
import json
import os
import re
import stat
import tempfile
import weakref
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import scipy.sparse
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import HashingVectorizer

from .chunks import Piece, Reader
from .errors import DataError, Fault, decoded, is_utf8, optional_module, shown
from .lines import LONGEST_LINE, LOOK_AHEAD_LINES, Block, ByteStream, plain_name
from .reading import Reading
from .values import FLOAT32_END, checked_labels, finite, is_number, label_arrays, why_not_finite

_DELIMITERS = {"csv": ",", "tsv": "\t"}
_LONG_TEXT = 40  # cells of this many characters are text, even if they have only one or two words
_PARQUET_BATCH = 4096
_COLUMNS_SHOWN = 100  # names of columns in an error message


# -- cells to features ---------------------------------------------------------------------------------------------


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def _text(name: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list | dict | bytes):
        raise Fault(f"column {shown(name)} contains a {type(value).__name__} instead of a text", cell=name)
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if not is_utf8(text):
        raise Fault(f"column {shown(name)} contains half a character (an unpaired surrogate)", cell=name)
    return text


def _number(name: str, value: Any) -> float:
    if _is_missing(value):
        return 0.0
    token = str(int(value) if isinstance(value, bool) else value).strip()
    number = finite(token)
    if number is None:
        raise Fault(f"{shown(token)} in the numeric column {shown(name)} is {why_not_finite(token)}", cell=name)
    return number


class TableReader(Reader):
    """Turns records into rows. A subclass may define how a record becomes cells and where its cells are."""

    place = "line"  # what the numbers of records count

    def __init__(self, path: str, reading: Reading, labelled: bool, skip: bool) -> None:
        super().__init__(path, reading, labelled, skip)
        words = HashingVectorizer().build_analyzer()
        self._vectorizers = [
            HashingVectorizer(
                n_features=reading.width,
                alternate_sign=False,
                norm="l2",
                analyzer=(lambda text, name=name: [f"{name}={word}" for word in words(text)]) if i else "word",
            )
            for i, name in enumerate(reading.text)
        ]
        self._hasher = FeatureHasher(n_features=reading.width, input_type="pair", alternate_sign=False)
        self._start()

    def _start(self) -> None:
        self._labels: list[list[Any]] = []
        self._texts: list[list[str]] = []
        self._pairs: list[list[tuple[str, float]]] = []
        self._kept: list[tuple] = []

    def _take(self, record: Any) -> None:
        """Add a record to the rows, or raise Fault."""
        self._add(record)

    def _add(self, cells: Mapping[str, Any]) -> None:
        """Add one row. If a cell is wrong, add nothing and raise Fault."""
        reading = self.reading
        labels = self._row_labels(cells) if self.labelled else []
        texts = [_text(name, cells.get(name)) for name in reading.text]
        pairs, total = [], float(len(reading.categorical) + len(reading.text))
        for name in reading.numeric:
            number = _number(name, cells.get(name))
            total += abs(number)
            if total >= FLOAT32_END:  # two columns may share a feature
                raise Fault("the sum of the numbers in the row is too large for 32-bit floats", cell=name)
            pairs.append((name, number))
        for name in reading.categorical:
            value = cells.get(name)
            if not _is_missing(value):
                pairs.append((f"{name}={_text(name, value)}", 1.0))
        self._labels.append(labels)
        self._texts.append(texts)
        self._pairs.append(pairs)
        if self.keep:
            self._kept.append(tuple(cells.get(name) for name in self.keep))

    def _row_labels(self, cells: Mapping[str, Any]) -> list[Any]:
        name = self.reading.label or ""
        value = cells.get(name)
        if _is_missing(value):
            raise Fault(f"the label (column {shown(name)}) is missing", cell=name)
        values = value if isinstance(value, list) else [value]
        separator = self.reading.label_separator
        if separator is not None and isinstance(value, str):
            values = [part.strip() for part in value.split(separator)]
        try:
            return checked_labels(values, self.reading)
        except Fault as fault:
            raise Fault(fault.what, cell=name) from None

    def piece(self, records: Iterable[tuple[int, Any]]) -> Piece:
        """The rows of records, each given with its line or row number in the file."""
        bad, error = [], None
        for number, record in records:
            try:
                self._take(record)
            except Fault as fault:
                bad.append(len(self._pairs))
                if not self.skip:
                    column = fault.column if self.place == "line" else None
                    error = DataError(self.path, fault.what, number + fault.line, column, place=self.place)
                    break
        n_rows = len(self._pairs)
        X = self._features() if n_rows else scipy.sparse.csr_array((0, self.reading.width), dtype=np.float64)
        X.sum_duplicates()
        labels, pointer = label_arrays(self._labels, self.reading)
        kept, places = tuple(self._kept), np.array(bad, dtype=np.int64)
        self._start()
        return Piece(X.astype(np.float32), labels, pointer, np.ones(n_rows), places, error, kept)


    def _features(self) -> scipy.sparse.csr_array:
        """The sum of the features of all columns."""
        parts = [v.transform([texts[i] for texts in self._texts]) for i, v in enumerate(self._vectorizers)]
        parts = [scipy.sparse.csr_array(part) for part in (*parts, self._hasher.transform(self._pairs))]
        while len(parts) > 1:  # in pairs: one after the other would take time quadratic in the number of columns
            last = parts[-1:] if len(parts) % 2 else []
            parts = [a + b for a, b in zip(parts[::2], parts[1::2], strict=False)] + last
        return parts[0]


# -- columns -------------------------------------------------------------------------------------------------------


def _is_numeric(value: Any) -> bool:
    return is_number(value.strip()) if isinstance(value, str) else isinstance(value, int | float)


def _is_integer(label: Any) -> bool:
    return label.is_integer() if isinstance(label, float) else isinstance(label, int) and not isinstance(label, bool)


def _kind(values: list[Any]) -> str:
    """Whether the cells of a column are "numeric", "text" or "categorical"."""
    if values and not any(isinstance(value, bool) for value in values) and all(map(_is_numeric, values)):
        return "numeric"
    n_texts = sum(isinstance(value, str) and (len(value.split()) > 2 or len(value) >= _LONG_TEXT) for value in values)
    return "text" if 2 * n_texts > len(values) else "categorical"


def _check_columns(
    path: str, reading: Reading, names: list[str], labelled: bool, keep: tuple[str, ...] = ()
) -> None:
    """Raise DataError if the table lacks a column of the reading, or one to keep."""
    there = ", ".join(shown(name) for name in names[:_COLUMNS_SHOWN]) + (", ..." if names[_COLUMNS_SHOWN:] else "")
    known = set(names)
    for name in [*([reading.label] if labelled else []), *reading.columns, *keep]:
        if name is None:
            raise DataError(path, f"name the column of the label (label=, --label); the columns are {there}", 1, 1)
        if name not in known:
            raise DataError(path, f"there is no column {shown(name)}; the columns are {there}", 1, 1)


def _resolved(
    path: str, reading: Reading, names: list[str], rows: Sequence[Mapping[str, Any]], labelled: bool
) -> Reading:
    """Find the columns to use and the kind of labels from the first rows."""
    _check_columns(path, reading, names, labelled)
    found: dict[str, Any] = {}
    if not reading.columns:
        kinds: dict[str, list[str]] = {"numeric": [], "text": [], "categorical": []}
        for name in names:
            if name != reading.label:
                kinds[_kind([row[name] for row in rows if not _is_missing(row.get(name))])].append(name)
        found = {kind: tuple(columns) for kind, columns in kinds.items()}
    if labelled:
        cells = [cell for row in rows if not _is_missing(cell := row.get(reading.label or ""))]
        if reading.labels is None:
            several = reading.label_separator is not None or any(isinstance(cell, list) for cell in cells)
            found["labels"] = "several" if several else "one"
        if reading.label_kind is None:
            flat = [label for cell in cells for label in (cell if isinstance(cell, list) else [cell])]
            integers = flat and reading.format not in _DELIMITERS and all(map(_is_integer, flat))
            found["label_kind"] = "int" if integers else "text"
    return replace(reading, **found)


# -- CSV and TSV ---------------------------------------------------------------------------------------------------


class _Record(NamedTuple):
    """A record of a CSV file: its cells, or why it has none."""

    number: int  # of its first line
    lines: list[str]
    cells: list[str]
    broken: str = ""


def cell_place(text: str, delimiter: str, number: int) -> tuple[int, int]:
    """Line (from 0) and column (from 1) of a cell of a record, counted from 0.

    -1 or a number past the end is the last cell, which is where the csv rules are broken.
    """
    cell = re.compile(rf'"(?:[^"]++|"")*+"?|[^{delimiter}\r\n]*+')
    starts = [0]
    while True:
        end = cell.match(text, starts[-1]).end()  # type: ignore[union-attr]
        if text[end : end + 1] != delimiter or end - starts[-1] > csv.field_size_limit():
            break
        starts.append(end + 1)
    start = starts[min(number, len(starts) - 1)]
    return text.count("\n", 0, start), start - text.rfind("\n", 0, start)


class CsvReader(TableReader):
    """Reads CSV and TSV. A record that continues in the next block waits for it."""

    def __init__(self, path: str, reading: Reading, labelled: bool, skip: bool) -> None:
        super().__init__(path, reading, labelled, skip)
        self._delimiter = _DELIMITERS[str(reading.format)]
        self._waiting: list[str] = []
        self._first_line = 1  # of the waiting lines
        self._header: list[str] = []

    @classmethod
    def resolve(cls, path: str, reading: Reading, block: Block, labelled: bool) -> Reading:
        """Find the columns to use from the first rows."""
        reader, rows = cls(path, Reading(format=reading.format), False, True), []
        for _, record in reader._records(block, final=True):
            if not reader._header:
                reader._take(record)
            elif len(record.cells) == len(reader._header):
                rows.append(dict(zip(reader._header, record.cells, strict=True)))
        return _resolved(path, reading, reader._checked_header(), rows, labelled)

    def read(self, block: Block) -> Piece:
        """The rows of a block."""
        return self.piece(self._records(block, final=False))

    def end(self) -> Piece | None:
        """The rows that are still waiting."""
        piece = self.piece(self._records(Block(b"", self._first_line), final=True))
        self._checked_header()
        return piece

    def _checked_header(self) -> list[str]:
        if not self._header:
            raise DataError(self.path, "the file is empty; its first line must contain the names of the columns", 1, 1)
        return self._header

    def _records(self, block: Block, final: bool) -> Iterator[tuple[int, _Record]]:
        """The complete records. After a broken record, reading continues with its second line."""
        if not self._waiting:
            self._first_line = block.first_line
        # Bytes that are not UTF-8 stay in the text as surrogates until the record is complete.
        new = [raw.decode("utf-8", "surrogateescape") + "\n" for raw in block.data.split(b"\n")[:-1]]
        lines, first = self._waiting + new, 0
        while first < len(lines):
            rest = map(lines.__getitem__, range(first, len(lines)))
            reader, start = csv.reader(rest, delimiter=self._delimiter, strict=True), first
            try:
                for cells in reader:
                    stop, number = start + reader.line_num, self._first_line + first
                    yield number, _Record(number, lines[first:stop], cells)
                    first = stop
            except csv.Error as error:
                at_end = start + reader.line_num >= len(lines)
                if at_end and not final and sum(map(len, lines[first:])) <= LONGEST_LINE:
                    break
                number = self._first_line + first
                yield number, _Record(number, lines[first : first + 1], [], str(error))
                first += 1
        self._waiting = lines[first:]
        self._first_line += first

    def _take(self, record: _Record) -> None:
        if self._header:
            self._take_row(record)
            return
        try:
            self._take_header(record)
        except Fault as fault:  # never skipped
            raise DataError(self.path, fault.what, record.number + fault.line, fault.column) from None

    def _take_row(self, record: _Record) -> None:
        cells, header = self._cells(record), self._header
        if cells and len(cells) != len(header):
            what = f"{len(cells)} cells, but the header has {len(header)} columns"
            raise self._fault(record, min(len(cells) - 1, len(header)), what)
        if cells:
            try:
                self._add(dict(zip(header, cells, strict=True)))
            except Fault as fault:
                raise self._fault(record, header.index(str(fault.cell)), fault.what) from None

    def _take_header(self, record: _Record) -> None:
        cells, known = self._cells(record), set[str]()
        for i, name in enumerate(cells):
            if not name.strip():
                raise self._fault(record, i, "a column without a name; name it in the first line")
            if name in known:
                raise self._fault(record, i, f"two columns are called {shown(name)}; rename one")
            known.add(name)
        if cells:
            _check_columns(self.path, self.reading, cells, self.labelled, self.keep)
            self._header = cells

    def _cells(self, record: _Record) -> list[str]:
        """The cells of a record; none for a blank line."""
        if record.broken:
            raise self._fault(record, -1, f"invalid CSV ({record.broken}); correct the quotes")
        for number, line in enumerate(record.lines if record.cells else []):
            if not line.isascii():
                decoded(line.encode("utf-8", "surrogateescape"), number)
        return record.cells

    def _fault(self, record: _Record, cell: int, what: str) -> Fault:
        """The error in a cell, counted from 0; -1 is the last."""
        line, column = cell_place("".join(record.lines), self._delimiter, cell)
        return Fault(what, column, line=line)


# -- JSON lines ----------------------------------------------------------------------------------------------------


def _refuse_constant(name: str) -> float:
    raise Fault(f"{name} is not allowed")


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise Fault(f"the name {shown(twice)} appears twice in a JSON object; remove one", cell=twice)
    return out


def _object(raw: bytes) -> dict[str, Any]:
    """The JSON object of a line."""
    text = decoded(raw)
    try:
        value = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_unique_keys)
    except json.JSONDecodeError as error:
        raise Fault(f"invalid JSON ({error.msg})", error.colno) from None
    except (RecursionError, ValueError) as error:
        raise Fault(f"JSON that cannot be read ({error})") from None
    except Fault as fault:
        wrong = ("NaN", "Infinity") if fault.cell is None else (json.dumps(fault.cell, ensure_ascii=False),)
        raise Fault(fault.what, min((text.find(name) for name in wrong if name in text), default=0) + 1) from None
    if not isinstance(value, dict):
        raise Fault('not a JSON object; write {"column": value, ...}', len(text) - len(text.lstrip()) + 1)
    return value


class JsonlReader(TableReader):
    """Reads one JSON object per line."""

    @classmethod
    def resolve(cls, path: str, reading: Reading, block: Block, labelled: bool) -> Reading:
        """Find the columns to use from the good ones of the first rows."""
        rows: list[dict[str, Any]] = []
        for raw in block.data.split(b"\n")[:-1]:
            try:
                rows.append(_object(raw))
            except Fault:
                continue
        # A missing key is an empty cell, even if all of the first rows lack it.
        keys = [name for row in rows for name in row if is_utf8(name)]
        names = dict.fromkeys([*keys, *reading.columns])
        if not rows:
            names[reading.label or ""] = None
        return _resolved(path, reading, list(names), rows, labelled)

    def read(self, block: Block) -> Piece:
        """The rows of a block."""
        lines = enumerate(block.data.split(b"\n")[:-1], block.first_line)
        return self.piece((number, raw) for number, raw in lines if raw.strip())

    def _take(self, raw: bytes) -> None:
        cells = _object(raw)
        try:
            self._add(cells)
        except Fault as fault:
            place = raw.decode().find(json.dumps(fault.cell, ensure_ascii=False))
            raise Fault(fault.what, max(place, 0) + 1) from None


# -- Parquet -------------------------------------------------------------------------------------------------------


def _temporary_copy(path: str) -> BinaryIO | None:
    """A copy of standard input, a pipe or a compressed file, because Parquet is read from its end. None: not needed."""
    if path != "-" and plain_name(path) == path and stat.S_ISREG(os.stat(path).st_mode):
        return None
    stream = ByteStream(path)
    copy = tempfile.TemporaryFile()
    try:
        while data := stream.read(2**20):
            copy.write(data)
        copy.flush()
    except Fault as fault:
        copy.close()
        raise DataError(path, fault.what, 1, None, place="row") from None
    finally:
        stream.close()
    return copy


class ParquetFile:
    """A Parquet file that is read in passes. It has no lines, so errors contain the row."""

    once = False  # whether it can be read only once
    keep: tuple[str, ...] = ()

    def __init__(self, path: str, reading: Reading, labelled: bool, skip: bool) -> None:
        self._path, self._labelled, self._skip = path, labelled, skip
        self._arrow, self._parquet = optional_module("pyarrow"), optional_module("pyarrow.parquet")
        self._copy = _temporary_copy(path)
        if self._copy is not None:
            weakref.finalize(self, self._copy.close)
        self.position: tuple[int, int | None] = (0, None)  # bytes read, estimated from the rows, and bytes in total
        self.reading = self._resolve(reading)

    def _batches(self, columns: list[str] | None) -> Generator[tuple[list[str], list[dict[str, Any]]], None, None]:
        """Names of all columns, and rows; the first batch has no rows."""
        n_read = 0
        file = self._copy or open(self._path, "rb")
        size = os.fstat(file.fileno()).st_size
        self.position = (0, size)
        try:
            file.seek(0)
            table = self._parquet.ParquetFile(file)
            names = list(table.schema_arrow.names)
            yield names, []
            for batch in table.iter_batches(batch_size=_PARQUET_BATCH, columns=columns):
                n_read += batch.num_rows
                self.position = (size * n_read // max(table.metadata.num_rows, 1), size)
                yield names, batch.to_pylist()
        except (self._arrow.ArrowException, EOFError, UnicodeDecodeError, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:  # not an error of pyarrow
                raise
            reason = " ".join(str(error).split())[:200]
            raise self._error(n_read + 1, f"invalid Parquet ({reason}); create or download the file again") from None
        finally:
            if file is not self._copy:
                file.close()

    def _error(self, row: int, what: str) -> DataError:
        return DataError(self._path, what, row, None, place="row")

    def _resolve(self, reading: Reading) -> Reading:
        """Find the columns to use from the first rows."""
        names: list[str] = []
        rows: list[dict[str, Any]] = []
        batches = self._batches(None)
        for names, batch in batches:  # noqa: B007
            rows += batch
            if len(rows) >= LOOK_AHEAD_LINES:
                batches.close()
        if repeated := sorted({name for name in names if names.count(name) > 1}):
            raise self._error(1, f"two columns are called {shown(repeated[0])}; rename one")
        return _resolved(self._path, reading, names, rows, self._labelled)

    def pieces(self) -> Generator[Piece, None, None]:
        """One pass over the rows."""
        reading, n_read = self.reading, 0
        reader = TableReader(self._path, reading, self._labelled, self._skip)
        reader.place, reader.keep = "row", self.keep
        label = [reading.label] if self._labelled and reading.label is not None else []
        for names, rows in self._batches(list(dict.fromkeys([*label, *reading.columns, *self.keep]))):
            if not rows:
                _check_columns(self._path, reading, names, self._labelled, self.keep)
            yield reader.piece(enumerate(rows, n_read + 1))
            n_read += len(rows)
