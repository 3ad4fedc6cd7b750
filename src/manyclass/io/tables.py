"""Readers of tables: CSV and TSV by Python's csv module, JSON lines, and Parquet.

A text column becomes its words, scaled to length 1; a categorical cell becomes "column=value"; a number keeps its
value under the name of its column. All are hashed into the same features by scikit-learn. The words of every text
column but the first are hashed with the column's name, so that the same word in title and body is two features. With
the weights of a model, see `weighting`, words have document frequencies and numbers are divided into quantiles.
"""

import csv
import io
import json
import os
import re
import stat
import tempfile
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import scipy.sparse
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import HashingVectorizer

from .chunks import Piece, Reader
from .column_kinds import find_kinds, is_missing, is_month_first, no_value, parse_date, with_decimal_comma, with_point
from .errors import DataError, Fault, decoded, is_utf8, optional_module, shown
from .lines import LONGEST_LINE, LOOK_AHEAD_LINES, Block, ByteStream, close_with, plain_name
from .reading import COLUMN_KINDS, DELIMITERS, Reading
from .values import FLOAT32_END, checked_labels, finite, is_integer, is_number, label_arrays, why_not_finite
from .weighting import N_KNOTS, Layout, weigh

_DELIMITERS = {"csv": ",", "tsv": "\t"}
_NO_LABEL = ("nan", "nat", "<na>")  # how pandas writes a missing label
_LINES_TO_COMPARE = 50
_AGAIN = 16  # times the length of a CSV file that is read again after wrong quotes, and 1 MB; then reading ends
_PARQUET_BATCH = 4096
_NOT_IN_PYTHON = (OverflowError, ValueError, KeyError)  # what pyarrow raises for values such as a date in the year 0
CHARS = (2, 4)  # characters of short texts such as names
_CHARS_READ = 10_000  # of a cell, for sequences of characters, which take 400 bytes of memory per character
_MOST_PLACES, _LEAST_FILLED = 1 << 24, 0.01  # of the first rows: time and memory grow with rows x columns
_COLUMNS_SHOWN = 100  # names of columns in an error message


# -- cells to features ---------------------------------------------------------------------------------------------


def _text(name: str, value: Any) -> str:
    if is_missing(value):
        return ""
    if isinstance(value, list | dict | bytes):
        raise Fault(f"column {shown(name)} contains a {type(value).__name__} instead of a text", cell=name)
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if not is_utf8(text):
        raise Fault(f"column {shown(name)} contains half a character (an unpaired surrogate)", cell=name)
    return text


def _number(name: str, value: Any, comma: bool, mixed: bool) -> float | None:
    """The number in a cell, possibly with a decimal comma; None if there is none and the column is mixed."""
    token = str(int(value) if isinstance(value, bool) else value).strip()
    plain = with_point(token) if comma and isinstance(value, str) else token
    number = finite(plain)
    if number is None and not (mixed and not is_number(plain)):
        raise Fault(f"{shown(token)} in the numeric column {shown(name)} is {why_not_finite(plain)}", cell=name)
    return number


def _date_orders(reading: Reading) -> list[tuple[str, bool | None, bool]]:
    """The columns of dates, each with whether the month is first in dates such as 3/4/2024, and whether it is mixed."""
    months, mixed = set(reading.month_first or ()), set(reading.mixed or ())
    order = {name: None if reading.month_first is None else name in months for name in reading.date}
    return [(name, order[name], name in mixed) for name in reading.date]


def _date(name: str, value: Any, month_first: bool | None, mixed: bool) -> tuple[float, list[str]] | None:
    """The days since 1970, and the parts that may repeat; None if the cell has no date."""
    if is_missing(value) or no_value(value):
        return None
    moment = parse_date(value, month_first)
    if moment is None and mixed:
        return None
    if moment is None:
        like = f"2024-12-31 or {'12/31/2024' if month_first else '31/12/2024'}"
        what = f"{shown(str(value))} in the date column {shown(name)} is not a date such as {like}"
        raise Fault(f"{what}; skip such rows with --skip-bad-lines, or the column with --ignore", cell=name)
    parts = {"year": moment.year, "month": moment.month, "weekday": moment.isoweekday(), "hour": moment.hour}
    return moment.timestamp() / 86_400, [f"{name}.{part}={number}" for part, number in parts.items()]


def layout_of(reading: Reading) -> Layout:
    """Where the raw features of a row are."""
    names = [name if k == 0 else f"{name}#{k}" for name in reading.numbers for k in range(1 + N_KNOTS)]
    hasher = FeatureHasher(n_features=reading.width, input_type="string", alternate_sign=False)
    hashed = hasher.transform([name] for name in names).indices if names else np.zeros(0, np.int32)
    features = hashed.reshape(len(reading.numbers), 1 + N_KNOTS)
    return Layout(reading.width, len(reading.text) + len(reading.chars_of), features)


def _vectorizers(reading: Reading) -> list[tuple[str, Any]]:
    """The columns of text, each with what turns its words or characters into features."""
    if reading.vectorizer is not None:
        return [(reading.text[0], reading.vectorizer)]
    common: dict[str, Any] = {"n_features": reading.width, "alternate_sign": False, "norm": None}
    words: dict[str, Any] = {"ngram_range": (1, reading.ngrams)}
    found = [
        (name, HashingVectorizer(**common, **(words if i == 0 else {"analyzer": _prefixed(f"{name}=", None, **words)})))
        for i, name in enumerate(reading.text)
    ]
    chars = {"analyzer": "char_wb", "ngram_range": reading.chars}
    return found + [
        (name, HashingVectorizer(**common, analyzer=_prefixed(f"{name}~", _CHARS_READ, **chars)))
        for name in reading.chars_of
    ]


def _prefixed(prefix: str, length: int | None, **options: Any) -> Any:
    """An analyzer of the first characters of a text whose features begin with a prefix."""
    analyze = HashingVectorizer(**options).build_analyzer()
    return lambda text: [prefix + feature for feature in analyze(text[:length])]


class TableReader(Reader):
    """Turns records into rows. A subclass may define how a record becomes cells and where its cells are.

    If the reading is weighted and has no weights yet, the rows are raw, see `weighting`.
    """

    place = "line"  # what the numbers of records count

    def __init__(self, path: str, reading: Reading, labelled: bool, skip: bool) -> None:
        super().__init__(path, reading, labelled, skip)
        self.vectorizers = _vectorizers(reading)
        self._hasher = FeatureHasher(n_features=reading.width, input_type="pair", alternate_sign=False)
        self._layout = layout_of(reading)
        self._raw = reading.weighted and reading.weighting is None
        commas, mixed = set(reading.decimal_comma or ()), set(reading.mixed or ())
        self._numeric = [(name, name in commas, name in mixed) for name in reading.numeric]
        self._dates = _date_orders(reading)
        self._start()

    @property
    def width(self) -> int:
        """The number of features of a row."""
        return self._layout.n_columns if self._raw else super().width

    def _start(self) -> None:
        self._labels: list[list[Any]] = []
        self._texts: list[dict[str, str]] = []
        self._pairs: list[list[tuple[str, float]]] = []
        self._kept: list[tuple] = []
        self._numbers: list[list[tuple[int, float]]] = []

    def _take(self, record: Any) -> None:
        """Add a record to the rows, or raise Fault."""
        self._add(record)

    def _add(self, cells: Mapping[str, Any]) -> None:
        """Add one row. If a cell is wrong, add nothing and raise Fault."""
        reading = self.reading
        labels = self._row_labels(cells) if self.labelled else []
        texts = {name: _text(name, cells.get(name)) for name in reading.text}
        numbers, pairs = [], []
        total = float(len(reading.categorical) + len(reading.text))
        for j, (name, comma, mixed) in enumerate(self._numeric):
            value = cells.get(name)
            if is_missing(value) or (reading.weighted and no_value(value)):
                continue
            number = _number(name, value, comma, mixed)
            if number is None:
                continue
            total += 0.0 if reading.weighted else abs(number)
            if total >= FLOAT32_END:  # two columns may share a feature
                raise Fault("the sum of the numbers in the row is too large for 32-bit floats", cell=name)
            numbers.append((j, number))
        for name in reading.categorical:
            value = cells.get(name)
            if not is_missing(value):
                pairs.append((f"{name}={_text(name, value)}", 1.0))
        for j, (name, month_first, mixed) in enumerate(self._dates, len(reading.numeric)):
            if found := _date(name, cells.get(name), month_first, mixed):
                numbers.append((j, found[0]))
                pairs += [(part, 0.5) for part in found[1]]  # together as long as a category
        self._labels.append(labels)
        self._texts.append(texts)
        self._numbers.append(numbers)
        self._pairs.append(pairs)
        if self.keep:
            self._kept.append(tuple(cells.get(name) for name in self.keep))

    def _row_labels(self, cells: Mapping[str, Any]) -> list[Any]:
        name = self.reading.label or ""
        value = cells.get(name)
        if is_missing(value) or (isinstance(value, str) and value.strip().lower() in _NO_LABEL):
            kind = "missing" if is_missing(value) else shown(str(value))
            what = f"the label (column {shown(name)}) is {kind}; skip such rows with --skip-bad-lines"
            raise Fault(f"{what} (skip_bad_lines=True)", cell=name)
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
        X = self._features()
        labels, pointer = label_arrays(self._labels, self.reading)
        kept, places = tuple(self._kept), np.array(bad, dtype=np.int64)
        self._start()
        return Piece(X, labels, pointer, np.ones(n_rows), places, error, kept)

    def _features(self) -> scipy.sparse.csr_array:
        """The raw features of all columns side by side, or their weighted sum."""
        layout, n = self._layout, len(self._pairs)
        if not n:
            return scipy.sparse.csr_array((0, self.width), dtype=np.float32)
        blocks = [v.transform([texts[name] for texts in self._texts]) for name, v in self.vectorizers]
        if self.reading.vectorizer is not None:
            return scipy.sparse.csr_array(blocks[0].astype(np.float32))
        pointer = np.cumsum([0, *map(len, self._numbers)], dtype=np.int32)
        flat = [pair for row in self._numbers for pair in row]
        columns, values = np.array([j for j, _ in flat], np.int32), np.array([value for _, value in flat], np.float64)
        numbers = scipy.sparse.csr_array((values, columns, pointer), shape=(n, len(layout.numbers)))
        raw = scipy.sparse.hstack([*blocks, self._hasher.transform(self._pairs), numbers], format="csr")
        raw = scipy.sparse.csr_array(raw)
        raw.sum_duplicates()
        return raw.astype(np.float32) if self._raw else weigh(raw, layout, self.reading.weighting)


# -- rows in memory ------------------------------------------------------------------------------------------------


def is_table(X: Any) -> bool:
    """Whether X is a table in memory: a DataFrame, texts, or dictionaries of cells."""
    if isinstance(X, Mapping) or hasattr(X, "columns") or hasattr(X, "to_pylist") or hasattr(X, "to_dicts"):
        return True  # a single dictionary is refused with a better message than that of numpy
    one_dimensional = isinstance(X, list | tuple) or getattr(X, "ndim", 0) == 1
    return one_dimensional and len(X) > 0 and isinstance(next((x for x in X if x is not None), ""), str | Mapping)


def table_rows(X: Any, reading: Reading) -> scipy.sparse.csr_array:
    """The features of a table in memory; a ValueError if it lacks columns or has wrong cells."""
    reader = TableReader("X", reading, False, False)
    reader.place = "row"
    piece = reader.piece(enumerate(_records(X, reading), 1))
    if piece.error is not None:
        raise piece.error
    return piece.X


def names_of(X: Any, reading: Reading) -> dict[int, str]:
    """The words, categories and numbers behind the features of a table of one row, by feature.

    Words that share a feature are listed together.
    """
    (cells,) = _records(X, reading)
    vocabulary = getattr(reading.vectorizer, "vocabulary_", None)
    if vocabulary is not None:
        found = reading.vectorizer.build_analyzer()(_text(reading.text[0], cells[reading.text[0]]))
        return {int(vocabulary[word]): word for word in found if word in vocabulary}
    hasher = FeatureHasher(n_features=reading.width, input_type="string", alternate_sign=False)
    words: list[str] = []
    for name, vectorizer in _vectorizers(reading):
        words += vectorizer.build_analyzer()(_text(name, cells[name]))
    words += [f"{name}={_text(name, cells[name])}" for name in reading.categorical if not is_missing(cells[name])]
    for name, month_first, mixed in _date_orders(reading):
        if found := _date(name, cells[name], month_first, mixed):
            words += found[1]
    words = list(dict.fromkeys(words))
    named: dict[int, str] = {}
    features = hasher.transform([word] for word in words).indices.tolist() if words else []
    for feature, word in zip(features, words, strict=True):
        named[feature] = f"{named[feature]} / {word}" if feature in named else word
    for name, (first, *knots) in zip(reading.numbers, layout_of(reading).numbers.tolist(), strict=True):
        limits = () if reading.weighting is None else reading.weighting.numbers[name].knots
        named.setdefault(first, name)
        for feature, limit in zip(knots, limits, strict=False):
            named.setdefault(feature, f"{name} near {limit:.4g}")
    return named


def _records(X: Any, reading: Reading) -> list[Mapping[str, Any]]:
    """The rows as dictionaries."""
    if isinstance(X, Mapping):
        raise ValueError("X is a dictionary, not a list: pass a list of rows, [X], or a DataFrame.")
    given = Counter(getattr(X, "column_names", getattr(X, "columns", ())))
    if twice := [name for name in reading.columns if given[name] > 1]:
        raise ValueError(f"X has several columns that are called {shown(twice[0])}; rename or remove them.")
    if hasattr(X, "to_dict") and hasattr(X, "columns"):
        rows = X.astype(object).where(X.notna(), None).to_dict("records")  # pandas
    elif hasattr(X, "to_dicts"):
        rows = X.to_dicts()  # polars
    elif hasattr(X, "to_pylist") and hasattr(X, "column_names"):
        rows = X.to_pylist()  # pyarrow
    else:
        rows = list(X)
    if rows and isinstance(next((row for row in rows if row is not None), ""), str):
        if len(reading.text) != 1:
            columns = ", ".join(map(shown, reading.columns))
            raise ValueError(f"X contains texts, but the model was trained on the columns {columns}: pass a DataFrame.")
        return [{reading.text[0]: text} for text in rows]
    if None in rows:
        raise ValueError(f"X has no cells in row {rows.index(None) + 1}: it is None.")
    there = list(rows[0]) if rows else list(reading.columns)
    stripped = {str(name).strip(): name for name in there}  # as in the header of a CSV file
    renamed = {name: stripped[name] for name in reading.columns if name not in there and name in stripped}
    if renamed:
        rows = [{**row, **{name: row.get(old) for name, old in renamed.items()}} for row in rows]
        there += renamed
    if missing := [name for name in reading.columns if name not in there]:
        names = ", ".join(map(shown, there[:_COLUMNS_SHOWN]))
        raise ValueError(f"X lacks the column {shown(missing[0])} that the model was trained on; it has {names}.")
    return rows


# -- columns -------------------------------------------------------------------------------------------------------


def _check_columns(path: str, reading: Reading, names: list[str], labelled: bool, keep: tuple[str, ...] = ()) -> None:
    """Raise DataError if the table lacks a column to use, to keep or, while those to use are unknown, to ignore."""
    there = ", ".join(shown(name) for name in names[:_COLUMNS_SHOWN]) + (", ..." if names[_COLUMNS_SHOWN:] else "")
    known = set(names)
    for name in [*([reading.label] if labelled else []), *(reading.columns or reading.ignored), *keep]:
        if name is None:
            raise DataError(path, f"name the column of the label (label=, --label); the columns are {there}", 1, 1)
        if name not in known:
            raise DataError(path, f"there is no column {shown(name)}; the columns are {there}", 1, 1)


def _resolved(
    path: str, reading: Reading, names: list[str], rows: Sequence[Mapping[str, Any]], labelled: bool
) -> Reading:
    """Find the columns to use, how their cells are written, and the kind of labels from the first rows."""
    n_cells, n_places = sum(map(len, rows)), len(rows) * len(names)
    if n_places > _MOST_PLACES and n_cells < _LEAST_FILLED * n_places:
        what = f"the first {len(rows)} rows have {len(names)} different keys, {n_cells / len(rows):.0f} per row"
        raise DataError(path, f"{what}: this is no table; write the rows as svmlight or Vowpal Wabbit text", 1, 1)
    _check_columns(path, reading, names, labelled)
    used = {reading.label, *(reading.columns or reading.ignored)}
    free = [name for name in names if name not in used]
    found: dict[str, Any] = {"ignored": tuple(free)}
    if not reading.columns:
        kinds = find_kinds({name: [row.get(name) for row in rows] for name in free}, reading.weighted)
        found = {kind: tuple(kinds[kind]) for kind in COLUMN_KINDS}
        found["mixed"] = (*kinds["mixed"], *kinds["mixed dates"])
        found["ignored"] = reading.ignored + tuple(kinds["ignored"])
        if not any(found[kind] for kind in COLUMN_KINDS):
            there = ", ".join(map(shown, free[:_COLUMNS_SHOWN])) or "none"
            what = f"no column can be used as it is ({there}); name one, for example with --text (text=)"
            if not rows:
                what = "the table has no rows, or none of the first ones can be read; add or correct them"
            raise DataError(path, what, 1, 1)
        if reading.weighted and not reading.chars:
            found |= {"chars": CHARS, "chars_of": tuple(kinds["short"])} if kinds["short"] else {}
    if reading.chars and not reading.chars_of:
        found["chars_of"] = found.get("text", reading.text)
    if reading.mixed is None:
        found.setdefault("mixed", ())
    for formatted, kind, chosen in (
        ("decimal_comma", "numeric", with_decimal_comma),
        ("month_first", "date", lambda columns: [name for name, cells in columns.items() if is_month_first(cells)]),
    ):
        if getattr(reading, formatted) is None:
            columns = found.get(kind, getattr(reading, kind))
            found[formatted] = tuple(chosen({name: [row.get(name) for row in rows] for name in columns}))
    if labelled:
        cells = [cell for row in rows if not is_missing(cell := row.get(reading.label or ""))]
        if reading.labels is None:
            several = reading.label_separator is not None or any(isinstance(cell, list) for cell in cells)
            found["labels"] = "several" if several else "one"
        if reading.label_kind is None:
            flat = [label for cell in cells for label in (cell if isinstance(cell, list) else [cell])]
            integers = flat and reading.format not in _DELIMITERS and all(map(is_integer, flat))
            found["label_kind"] = "int" if integers else "text"
    return replace(reading, **found)


# -- CSV and TSV ---------------------------------------------------------------------------------------------------


_TOO_MANY = "too many records with wrong quotes to skip them all; correct the quotes"


class _Record(NamedTuple):
    """A record of a CSV file: its cells, or why it has none."""

    number: int  # of its first line
    raw: bytes
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
        if text[end : end + 1] != delimiter:
            break
        starts.append(end + 1)
    start = starts[min(number, len(starts) - 1)]
    return text.count("\n", 0, start), start - text.rfind("\n", 0, start)


def _find_delimiter(block: Block) -> str:
    """The delimiter with which most of the first lines have the same number of cells as the first one."""
    lines = block.data.decode("utf-8", "replace").splitlines()[:_LINES_TO_COMPARE]

    def n_alike(delimiter: str) -> tuple[int, int]:
        try:
            with _long_fields():
                sizes = [len(cells) for cells in csv.reader(lines, delimiter=delimiter) if cells]
        except csv.Error:  # a cell that is too long
            return 0, 0
        return (sizes.count(sizes[0]), sizes[0]) if sizes and sizes[0] > 1 else (0, 0)

    return max(DELIMITERS, key=n_alike)  # the first of equals


@contextmanager
def _long_fields() -> Iterator[None]:
    """Allow cells of any length: the limit of the csv module is one for the whole process."""
    before = csv.field_size_limit(LONGEST_LINE)
    try:
        yield
    finally:
        csv.field_size_limit(before)


class CsvReader(TableReader):
    """Reads CSV and TSV. A record that continues in the next block waits for it.

    Waiting bytes are parsed again when there are twice as many, so that the time is linear in the length of the file.
    """

    def __init__(self, path: str, reading: Reading, labelled: bool, skip: bool) -> None:
        super().__init__(path, reading, labelled, skip)
        self._delimiter = reading.delimiter or _DELIMITERS[str(reading.format)]
        self._waiting, self._enough = bytearray(), 0  # how many bytes have to wait before they are parsed again
        self._first_line = 1  # of the waiting lines
        self._again = 2**20  # bytes that may be parsed again after wrong quotes
        self._header: list[str] = []

    @classmethod
    def resolve(cls, path: str, reading: Reading, block: Block, labelled: bool) -> Reading:
        """Find the columns to use from the first rows."""
        if not block.data and not block.at_end:
            raise DataError(path, f"the header is longer than {LONGEST_LINE // 2**20} MB; is this a text file?", 1, 1)
        if reading.delimiter is None and reading.format == "csv":
            reading = replace(reading, delimiter=_find_delimiter(block))
        reader, rows = cls(path, reading, labelled, True), []
        records = reader._records(block, final=block.at_end)
        if len(records) < 2:  # a quote that is never closed, or a very long record
            records += reader._records(Block(b"", reader._first_line), final=True)
        for _, record in records:
            if not reader._header:
                reader._take(record)
            elif len(record.cells) == len(reader._header):
                rows.append(dict(zip(reader._header, record.cells, strict=True)))
        return _resolved(path, reading, reader._checked_header(), rows, labelled)

    def read(self, block: Block) -> Piece:
        return self.piece(self._records(block, final=False))

    def end(self) -> Piece | None:
        piece = self.piece(self._records(Block(b"", self._first_line), final=True))
        self._checked_header()
        return piece

    def _checked_header(self) -> list[str]:
        if not self._header:
            raise DataError(self.path, "the file is empty; its first line must contain the names of the columns", 1, 1)
        return self._header

    def _records(self, block: Block, final: bool) -> list[tuple[int, _Record]]:
        """The complete records. After a broken record, reading ends, or continues with its second line."""
        if not self._waiting:
            self._first_line = block.first_line
        self._waiting += block.data
        self._again += _AGAIN * len(block.data)
        if len(self._waiting) < self._enough and not final:
            return []
        data, start, self._enough = bytes(self._waiting), 0, 0
        file, found = io.BytesIO(data), list[tuple[int, _Record]]()
        while start < len(data):
            file.seek(start)
            # Bytes that are not UTF-8 stay in the text as surrogates until the record is complete.
            texts = (raw.decode("utf-8", "surrogateescape") for raw in file)
            reader, number = csv.reader(texts, delimiter=self._delimiter, strict=True), self._first_line
            try:
                with _long_fields():
                    for cells in reader:
                        stop = file.tell()
                        found.append((self._first_line, _Record(self._first_line, data[start:stop], cells)))
                        start, self._first_line = stop, number + reader.line_num
            except csv.Error as error:
                size = len(data) - start
                if file.tell() == len(data) and not final and size <= LONGEST_LINE:
                    self._enough = min(2 * size, LONGEST_LINE + 1)
                    break
                stop = data.index(b"\n", start) + 1
                self._again -= file.tell() - stop
                broken = str(error) if self._again >= 0 else _TOO_MANY
                found.append((self._first_line, _Record(self._first_line, data[start:stop], [], broken)))
                start, self._first_line = stop, self._first_line + 1
                if not self.skip or self._again < 0:
                    start = len(data)
        del self._waiting[:start]
        return found

    def _take(self, record: _Record) -> None:
        if record.broken is _TOO_MANY:
            raise DataError(self.path, _TOO_MANY, record.number, 1)
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
        """Take the names of the columns, without spaces around them unless the model has them.

        pandas writes an index without a name as the first column, and reads it as "Unnamed: 0".
        """
        reading, names = self.reading, dict[str, None]()
        known = {reading.label, *reading.columns, *reading.ignored, *self.keep}
        for i, cell in enumerate(self._cells(record)):
            name = cell if cell in known else cell.strip() or ("" if i else "Unnamed: 0")
            if not name:
                raise self._fault(record, i, "a column without a name; name it in the first line")
            if name in names:
                raise self._fault(record, i, f"two columns are called {shown(name)}; rename one")
            names[name] = None
        if names:
            self._header = list(names)
            _check_columns(self.path, reading, self._header, self.labelled, self.keep)

    def _cells(self, record: _Record) -> list[str]:
        """The cells of a record; none for a blank line."""
        if record.broken:
            raise self._fault(record, -1, f"invalid CSV ({record.broken}); correct the quotes")
        if record.cells and not record.raw.isascii():
            for number, line in enumerate(record.raw.split(b"\n")):
                decoded(line, number)
        return record.cells

    def _fault(self, record: _Record, cell: int, what: str) -> Fault:
        """The error in a cell, counted from 0; -1 is the last."""
        line, column = cell_place(record.raw.decode("utf-8", "surrogateescape"), self._delimiter, cell)
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

    def __init__(self, path: str, reading: Reading, labelled: bool, skip: bool) -> None:
        super().__init__(path, reading, labelled, skip)
        self._known = {reading.label, *reading.columns, *reading.ignored}
        self.absent_columns = set(reading.columns)

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
        if rows and reading.columns and not set(keys) & set(reading.columns):
            lists = reading.columns, sorted(set(keys))
            wanted, there = (", ".join(map(shown, names[:_COLUMNS_SHOWN])) for names in lists)
            raise DataError(path, f"the first rows have none of the columns {wanted}; their columns are {there}", 1, 1)
        names = dict.fromkeys([*keys, *reading.columns, *reading.ignored])
        if not rows:
            names[reading.label or ""] = None
        return _resolved(path, reading, list(names), rows, labelled)

    def read(self, block: Block) -> Piece:
        lines = enumerate(block.data.split(b"\n")[:-1], block.first_line)
        return self.piece((number, raw) for number, raw in lines if raw.strip())

    def _take(self, raw: bytes) -> None:
        cells = _object(raw)
        self.absent_columns.difference_update(cells)
        if not self._known.issuperset(cells) and len(self.late_columns) < _COLUMNS_SHOWN:
            self.late_columns |= dict.fromkeys(name for name in cells if name not in self._known and is_utf8(name))
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


def _reason(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


class ParquetFile:
    """A Parquet file that is read in passes. It has no lines, so errors contain the row."""

    once = False  # whether it can be read only once
    keep: tuple[str, ...] = ()

    def __init__(self, path: str, reading: Reading, labelled: bool, skip: bool) -> None:
        self._path, self._labelled, self._skip = path, labelled, skip
        self.late_columns: dict[str, None] = {}  # the schema has all columns
        self.absent_columns: set[str] = set()
        self._arrow, self._parquet = optional_module("pyarrow"), optional_module("pyarrow.parquet")
        self._copy = _temporary_copy(path)
        if self._copy is not None:
            close_with(self, self._copy)
        self.position: tuple[int, int | None] = (0, None)  # bytes read, estimated from the rows, and bytes in total
        self.reading = self._resolve(reading)

    def _batches(
        self, choose: Callable[[Any], Iterable[str]]
    ) -> Generator[tuple[list[str], list[dict[str, Any]]], None, None]:
        """Names of all columns, and rows of those that are chosen from the schema; the first batch has no rows."""
        n_read = 0
        file = self._copy or open(self._path, "rb")
        size = os.fstat(file.fileno()).st_size
        self.position = (0, size)
        try:
            file.seek(0)
            table = self._parquet.ParquetFile(file)
            names = list(table.schema_arrow.names)
            yield names, []
            columns = list(dict.fromkeys(choose(table.schema_arrow)))
            for batch in table.iter_batches(batch_size=_PARQUET_BATCH, columns=columns):
                rows = self._rows(batch, n_read + 1)
                n_read += batch.num_rows
                self.position = (size * n_read // max(table.metadata.num_rows, 1), size)
                yield names, rows
        except (self._arrow.ArrowException, EOFError, UnicodeDecodeError, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:  # not an error of pyarrow
                raise
            what = f"invalid Parquet ({_reason(error)}); create or download the file again"
            raise self._error(n_read + 1, what) from None
        finally:
            if file is not self._copy:
                file.close()

    def _rows(self, batch: Any, first: int) -> list[dict[str, Any]]:
        """The rows of a batch, or a DataError for a value that Python does not have, such as a date in the year 0."""
        try:
            return batch.to_pylist()
        except _NOT_IN_PYTHON:
            for name, cells in zip(batch.schema.names, batch.columns, strict=True):
                for row, cell in enumerate(cells, first):
                    try:
                        cell.as_py()
                    except _NOT_IN_PYTHON as error:
                        what = f"column {shown(name)} has a value that cannot be read ({_reason(error)})"
                        raise self._error(row, f"{what}; correct it, or leave out the column") from None
            raise

    def _error(self, row: int, what: str) -> DataError:
        return DataError(self._path, what, row, None, place="row")

    def _resolve(self, reading: Reading) -> Reading:
        """Find the columns to use from the first rows."""
        names: list[str] = []
        rows: list[dict[str, Any]] = []

        def choose(schema: Any) -> list[str]:
            if repeated := sorted(name for name, n in Counter(schema.names).items() if n > 1):
                raise self._error(1, f"two columns are called {shown(repeated[0])}; rename one")
            plain = [field.name for field in schema if not self._is_compound(field.type)]
            used = reading.columns or set(plain).difference(reading.ignored)
            return [name for name in schema.names if name in used or name == reading.label]

        batches = self._batches(choose)
        for names, batch in batches:  # noqa: B007
            rows += batch
            if len(rows) >= LOOK_AHEAD_LINES:
                batches.close()
        return _resolved(self._path, reading, names, rows, self._labelled)

    def _is_compound(self, kind: Any) -> bool:
        """Whether a type is one of those that are never used: lists, structs, maps and bytes."""
        types = self._arrow.types
        return types.is_nested(kind) or any(
            test(kind) for test in (types.is_binary, types.is_large_binary, types.is_fixed_size_binary)
        )

    def pieces(self) -> Generator[Piece, None, None]:
        """One pass over the rows."""
        reading, n_read = self.reading, 0
        reader = TableReader(self._path, reading, self._labelled, self._skip)
        reader.place, reader.keep = "row", self.keep
        label = [reading.label] if self._labelled and reading.label is not None else []
        for names, rows in self._batches(lambda schema: [*label, *reading.columns, *self.keep]):
            if not rows:
                _check_columns(self._path, reading, names, self._labelled, self.keep)
            yield reader.piece(enumerate(rows, n_read + 1))
            n_read += len(rows)
