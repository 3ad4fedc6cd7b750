"""Tables as text: CSV and TSV by the rules of Python's csv module, and one JSON object a line."""

import csv
import json
from collections.abc import Iterator
from typing import Any

from .columns import CellFault, RowEncoder, check_columns, resolve_table
from .errors import DataError, Fault, shown
from .lines import LONGEST_LINE, Block
from .pieces import Piece
from .reading import Reading

DELIMITERS = {"csv": ",", "tsv": "\t"}


class _Record:
    """A record of a CSV file, or why there is none, and the lines it was read from."""

    __slots__ = ("cells", "first", "stop", "what")

    def __init__(self, cells: list[str], first: int, stop: int, what: str = "") -> None:
        self.cells, self.first, self.stop, self.what = cells, first, stop, what


def cell_places(text: str, delimiter: str) -> list[tuple[int, int]]:
    """Line (from 0) and column (from 1) of each cell of a record; the last one is where the csv rules are broken."""
    places, position, line, line_start = [(0, 1)], 0, 0, 0
    limit = csv.field_size_limit()
    begin = 0
    while position < len(text) and position - begin <= limit:
        quoted = text[begin] == '"'
        if quoted:
            position = begin + 1
            while position < len(text) and position - begin <= limit:
                if text[position] == "\n":
                    line, line_start = line + 1, position + 1
                if text[position] == '"':
                    if text[position + 1 : position + 2] != '"':
                        break
                    position += 1
                position += 1
            position += 1
        else:
            while position < len(text) and text[position] not in (delimiter, "\n", "\r"):
                position += 1
        if text[position : position + 1] != delimiter:
            break
        position += 1
        begin = position
        places.append((line, position - line_start + 1))
    return places


def _decoded(raw: bytes) -> str:
    """A line as text; bytes that are not UTF-8 stay recognisable until the whole record is known."""
    return raw.decode("utf-8", "surrogateescape")


def _undecodable(text: str) -> int:
    """Position of the first byte that was not UTF-8, or -1."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return error.start
    return -1


class CsvReader:
    """Reads blocks of lines; a record that a block cuts waits for the next one."""

    def __init__(self, path: str, reading: Reading, labelled: bool, skip: bool) -> None:
        self._path, self._reading, self._labelled, self._skip = path, reading, labelled, skip
        self._delimiter = DELIMITERS[str(reading.format)]
        self._waiting: list[str] = []
        self._first_line = 1  # of the lines waiting
        self._header: list[str] | None = None
        self._encoder = RowEncoder(reading, labelled)

    def read(self, block: Block) -> Piece:
        """The rows of a block."""
        if not self._waiting:
            self._first_line = block.first_line
        self._waiting += [_decoded(raw) + "\n" for raw in block.data.split(b"\n")[:-1]]
        return self._rows(final=False)

    def end(self) -> Piece | None:
        """The rows still waiting."""
        piece = self._rows(final=True)
        if self._header is None:
            raise DataError(self._path, "the file is empty; its first line must name the columns", 1, 1)
        return piece

    def _records(self, lines: list[str], final: bool) -> Iterator[_Record]:
        """The whole records among the lines. A broken one gives up its first line only, so that the next are read."""
        first = 0
        while first < len(lines):
            rest = map(lines.__getitem__, range(first, len(lines)))
            reader, base = csv.reader(rest, delimiter=self._delimiter, strict=True), first
            try:
                for cells in reader:
                    stop = base + reader.line_num
                    yield _Record(cells, first, stop)
                    first = stop
            except csv.Error as error:
                at_end = base + reader.line_num >= len(lines)
                if at_end and not final and sum(map(len, lines[first:])) <= LONGEST_LINE:
                    return
                yield _Record([], first, first + 1, str(error))
                first += 1

    def _rows(self, final: bool) -> Piece:
        lines, bad, done = self._waiting, [], 0
        error: DataError | None = None
        for record in self._records(lines, final):
            done = record.stop
            try:
                self._take(record, lines)
            except Fault as fault:
                error = DataError(
                    self._path, fault.what, self._first_line + record.first + fault.line_offset, fault.column
                )
                if self._header is None:
                    raise error from None
                bad.append(self._encoder.n_rows)
                if not self._skip:
                    break
                error = None
        self._waiting = lines[done:]
        self._first_line += done
        return self._encoder.piece(bad, error)

    def _fault(self, record: _Record, lines: list[str], cell: int, what: str) -> Fault:
        """What is wrong with a cell, counted from 0 or -1 for the last."""
        text = "".join(lines[record.first : record.stop])
        places = cell_places(text, self._delimiter)
        line, column = places[cell] if cell < len(places) else places[-1]
        return Fault(what, column, line_offset=line)

    def _take(self, record: _Record, lines: list[str]) -> None:
        """Add a record to the rows, or take it as the header."""
        if record.what:
            raise self._fault(record, lines, -1, f"broken CSV ({record.what}); correct the quotes")
        cells = record.cells
        if not cells:
            return
        for number in range(record.first, record.stop):
            position = -1 if lines[number].isascii() else _undecodable(lines[number])
            if position >= 0:
                raise Fault("not UTF-8 text; convert the file", position + 1, line_offset=number - record.first)
        if self._header is None:
            self._take_header(record, lines)
            return
        if len(cells) != len(self._header):
            what = f"{len(cells)} cells, but the header names {len(self._header)} columns"
            raise self._fault(record, lines, min(len(cells) - 1, len(self._header)), what)
        try:
            self._encoder.add(dict(zip(self._header, cells, strict=True)))
        except CellFault as fault:
            raise self._fault(record, lines, self._header.index(fault.name), fault.what) from None

    def _take_header(self, record: _Record, lines: list[str]) -> None:
        for i, name in enumerate(record.cells):
            if not name.strip():
                raise self._fault(record, lines, i, "a column without a name; name it in the first line")
            if name in record.cells[:i]:
                raise self._fault(record, lines, i, f"two columns are called {shown(name)}; rename one")
        check_columns(self._path, self._reading, record.cells, self._labelled)
        self._header = record.cells

    def look(self, block: Block) -> tuple[list[str], list[dict[str, Any]]]:
        """The names of the columns and the whole rows of the first lines."""
        lines = [_decoded(raw) + "\n" for raw in block.data.split(b"\n")[:-1]]
        rows: list[dict[str, Any]] = []
        for record in self._records(lines, final=True):
            if self._header is None:
                try:
                    self._take(record, lines)
                except Fault as fault:
                    line = 1 + record.first + fault.line_offset
                    raise DataError(self._path, fault.what, line, fault.column) from None
            elif len(record.cells) == len(self._header):
                rows.append(dict(zip(self._header, record.cells, strict=True)))
        if self._header is None:
            raise DataError(self._path, "the file is empty; its first line must name the columns", 1, 1)
        return self._header, rows


def resolve_csv(path: str, reading: Reading, block: Block, labelled: bool) -> Reading:
    """Find out the columns to use from the first rows."""
    bare = Reading(format=reading.format)
    names, rows = CsvReader(path, bare, False, True).look(block)
    return resolve_table(path, reading, names, rows, labelled)


def _refuse_constant(name: str) -> float:
    raise Fault(f"{name} cannot be learned")


def _object(raw: bytes) -> dict[str, Any]:
    """The object of a line."""
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise Fault("not UTF-8 text; convert the file", len(raw[: error.start].decode()) + 1) from None
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise Fault(f"broken JSON ({error.msg})", error.colno) from None
    except (RecursionError, ValueError) as error:
        raise Fault(f"JSON that cannot be read ({error})") from None
    except Fault as fault:
        constants = [text.find(name) for name in ("NaN", "Infinity") if name in text]
        raise Fault(fault.what, min(constants) + 1) from None
    if not isinstance(value, dict):
        raise Fault('JSON but no object; write {"column": value, ...}', len(text) - len(text.lstrip()) + 1)
    return value


class JsonlReader:
    """Reads blocks of lines, one object each."""

    def __init__(self, path: str, reading: Reading, labelled: bool, skip: bool) -> None:
        self._path, self._skip = path, skip
        self._encoder = RowEncoder(reading, labelled)

    def read(self, block: Block) -> Piece:
        """The rows of a block."""
        bad: list[int] = []
        error: DataError | None = None
        for number, raw in enumerate(block.data.split(b"\n")[:-1]):
            if not raw.strip():
                continue
            try:
                self._take(raw)
            except Fault as fault:
                bad.append(self._encoder.n_rows)
                if not self._skip:
                    error = DataError(self._path, fault.what, block.first_line + number, fault.column)
                    break
        return self._encoder.piece(bad, error)

    def _take(self, raw: bytes) -> None:
        cells = _object(raw)
        try:
            self._encoder.add(cells)
        except CellFault as fault:
            place = raw.decode().find(json.dumps(fault.name, ensure_ascii=False))
            raise Fault(fault.what, max(place, 0) + 1) from None

    def end(self) -> Piece | None:
        """What is left at the end of the file: nothing."""
        return None


def resolve_jsonl(path: str, reading: Reading, block: Block, labelled: bool) -> Reading:
    """Find out the columns to use from the first rows that are good."""
    names: dict[str, None] = {}
    rows: list[dict[str, Any]] = []
    for raw in block.data.split(b"\n")[:-1]:
        try:
            row = _object(raw)
        except Fault:
            continue
        rows.append(row)
        names.update(dict.fromkeys(row))
    # A missing key is an empty cell, also if the first rows have none of it.
    names.update(dict.fromkeys([*reading.text, *reading.numeric, *reading.categorical]))
    if not rows:
        names.update(dict.fromkeys([reading.label or ""]))
    return resolve_table(path, reading, list(names), rows, labelled)
