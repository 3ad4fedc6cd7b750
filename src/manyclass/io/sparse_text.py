"""Readers of sparse text: svmlight, the extreme-classification repository (xmc) and Vowpal Wabbit."""

import re
from dataclasses import replace
from itertools import groupby, islice
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from . import parser
from .chunks import Piece, Reader, empty_piece
from .errors import DataError, Fault, decoded, shown
from .lines import Block
from .parser import Parsed, Rules
from .reading import Reading
from .values import FLOAT32_END, checked_labels, finite, label_arrays, mostly_text, why_not_finite

_HEADER = re.compile(rb"[ \t]*([0-9]{1,18})[ \t]+([0-9]{1,18})[ \t]+([0-9]{1,18})[ \t\r]*")
_WORD = re.compile(r"[^ \t]+")


# -- blocks through the kernels ------------------------------------------------------------------------------------


def _empty_parsed(n_lines: int, n_features: int, n_labels: int) -> Parsed:
    """Arrays for the most that a block can contain."""
    return Parsed(
        size=np.zeros(6, dtype=np.int64),
        lines=np.empty(n_lines, dtype=np.int64),
        indptr=np.zeros(n_lines + 1, dtype=np.int64),
        indices=np.empty(n_features, dtype=np.int32),
        values=np.empty(n_features, dtype=np.float32),
        places=np.empty(n_features, dtype=np.int32),
        pointer=np.zeros(n_lines + 1, dtype=np.int64),
        labels=np.empty(n_labels, dtype=np.int64),
        spans=np.empty((n_labels, 2), dtype=np.int32),
        bad=np.empty((n_lines, 3), dtype=np.int64),
        slow=np.empty((n_features, 3), dtype=np.int64),
    )


class _Rows(NamedTuple):
    """Rows of a block."""

    X: scipy.sparse.csr_array
    labels: np.ndarray
    pointer: np.ndarray
    lines: np.ndarray  # the line of each row
    bad: dict[int, Any]  # bad lines: a Fault, or the position in the block and the kernel's reason
    n_beyond: int  # indices beyond the number of features


def _parse(block: bytes, spans: np.ndarray, rules: Rules) -> _Rows:
    """The rows at `spans` (start and stop of each line in the block)."""
    data = np.frombuffer(block, dtype=np.uint8)
    kernel, separators = (parser.parse_names, b" \t|") if rules.format == parser.VW else (parser.parse_lines, b":")
    n_features = sum(int(np.count_nonzero(data == byte)) for byte in separators)  # each feature has one
    parsed = _empty_parsed(len(spans), n_features, len(spans) + int(np.count_nonzero(data == ord(","))))
    kernel(data, spans, rules, parsed)
    sizes = parsed.size[[parser.ROWS, parser.LABELS, parser.BAD, parser.BEYOND]]
    n_rows, n_labels, n_bad, n_beyond = sizes.tolist()
    wrong: list[tuple[int, int]] = []  # position and reason of tokens that are found to be wrong only now
    _round_slow(block, parsed, wrong)
    X = _matrix(parsed, rules, wrong)
    labels, pointer = parsed.labels[:n_labels], parsed.pointer[: n_rows + 1]
    if rules.text_labels:
        labels = _text_labels(block, parsed.spans[:n_labels].tolist(), wrong)
    lines, bad = parsed.lines[:n_rows], {line: tuple(fault) for line, *fault in parsed.bad[:n_bad].tolist()}
    if wrong:
        for where, reason in sorted(wrong, reverse=True):  # the first error of a line remains
            bad[int(np.searchsorted(spans[:, 0], where, side="right")) - 1] = (where, reason)
        keep = ~np.isin(lines, list(bad)) & (bool(rules.skip) | (lines < min(bad)))
        per_row = np.diff(pointer)
        labels, pointer = labels[np.repeat(keep, per_row)], np.cumsum(np.append(0, per_row[keep]))
        X, lines = X[keep], lines[keep]
    return _Rows(X, labels, pointer, lines, bad, n_beyond)


def _round_slow(block: bytes, parsed: Parsed, wrong: list[tuple[int, int]]) -> None:
    """Round the numbers that the kernel could not. Mutates: parsed, wrong."""
    for feature, start, stop in parsed.slow[: parsed.size[parser.SLOW]].tolist():
        number = float(block[start:stop])
        if abs(number) < FLOAT32_END:
            parsed.values[feature] = number
        else:
            wrong.append((start, parser.TOO_LARGE))


def _text_labels(block: bytes, spans: list, wrong: list[tuple[int, int]]) -> np.ndarray:
    """Labels as text. Mutates: wrong."""
    labels = np.empty(len(spans), dtype=object)
    for i, (start, stop) in enumerate(spans):
        try:
            labels[i] = block[start:stop].decode()
        except UnicodeDecodeError:
            wrong.append((start, parser.LABEL_NOT_UTF8))
    return labels


def _matrix(parsed: Parsed, rules: Rules, wrong: list[tuple[int, int]]) -> scipy.sparse.csr_array:
    """The features with repeated ones added up. Mutates: wrong."""
    n_rows, n_features = parsed.size[[parser.ROWS, parser.FEATURES]].tolist()
    indptr, indices = parsed.indptr[: n_rows + 1].astype(np.int32), parsed.indices[:n_features]
    X = scipy.sparse.csr_array((parsed.values[:n_features], indices, indptr), shape=(n_rows, rules.width))
    if X.has_canonical_format:
        return X
    X = scipy.sparse.csr_array((X.data.astype(np.float64), indices.copy(), indptr.copy()), shape=X.shape)
    X.sum_duplicates()
    reason = parser.SUM_TOO_LARGE if rules.format == parser.VW else parser.TOO_LARGE
    large = np.flatnonzero(np.abs(X.data) >= FLOAT32_END)
    rows = np.searchsorted(X.indptr, large, side="right") - 1
    for row, entries in groupby(zip(rows.tolist(), X.indices[large].tolist(), strict=True), key=itemgetter(0)):
        start, stop = indptr[row], indptr[row + 1]
        last = dict(zip(indices[start:stop].tolist(), parsed.places[start:stop].tolist(), strict=True))
        wrong.extend((last[feature], reason) for _, feature in entries)
    X.data[large] = 0
    return X.astype(np.float32)


def _fault(block: bytes, where: int, reason: int, rules: Rules) -> Fault:
    """The error at a position of the block that a kernel refused."""
    vw, svmlight = rules.format == parser.VW, rules.format == parser.SVMLIGHT
    ends = rb" \t|\r\n" if vw else rb"\s#"
    if reason in (parser.BAD_LABEL, parser.LABEL_TOO_LARGE, parser.LABEL_NOT_UTF8):
        ends += b","
    elif reason in (parser.BAD_INDEX, parser.INDEX_BEYOND, parser.INDEX_TOO_LARGE):
        ends += b":"
    raw = re.match(rb"[^%b]*" % ends, block[where : where + 200]).group()  # type: ignore[union-attr]
    token, not_finite = shown(raw), why_not_finite(raw.decode("utf-8", "replace"))
    as_text = " or read the labels as text" if svmlight else ""
    limit = "larger than 2**63 - 1" if svmlight else "not less than the number of labels in the header"
    what = {
        parser.NO_LABEL: "the line has no label; begin it with one",
        parser.BAD_LABEL: f"label {token} is not a whole number; correct it{as_text}",
        parser.ONE_LABEL_ONLY: "a second label, but earlier rows have one each; read the file with several labels",
        parser.LABEL_TOO_LARGE: f"label {token} is {limit}",
        parser.LABEL_NOT_UTF8: f"label {token} is not UTF-8 text; convert the file to UTF-8",
        parser.NO_COLON: f"{token} is not index:value; write a colon between them",
        parser.BAD_INDEX: f"index {token} is not a whole number from 0 on; correct it",
        parser.INDEX_ZERO: "index 0, but earlier indices begin with 1; set index_base=0 (--index-base 0)",
        parser.INDEX_TOO_LARGE: f"index {token} is larger than 2**62; use smaller indices",
        parser.INDEX_BEYOND: f"index {token} is not less than the number of features in the header",
        parser.BAD_VALUE: f"value {token} is {not_finite}",
        parser.TOO_LARGE: f"value {token}, or a sum with it, is too large for 32-bit floats; scale it down",
        parser.NO_NAMESPACE: "a namespace without a name; write one after the |",
        parser.NO_NAME: "a feature without a name; write one before the colon",
        parser.BAD_WEIGHT: f"weight {token} is {not_finite}",
        parser.PRODUCT_TOO_LARGE: "value times namespace weight is too large for 32-bit floats; scale it down",
        parser.SUM_TOO_LARGE: "the sum of the values of this feature is too large for 32-bit floats; scale them down",
    }[reason]
    before = block[block.rfind(b"\n", 0, where) + 1 : where]
    return Fault(what, len(before.decode() if vw else before) + 1)


# -- svmlight and xmc ----------------------------------------------------------------------------------------------


def _piece(reader: Reader, block: Block, rows: _Rows, weights: np.ndarray, rules: Rules) -> Piece:
    """The piece of a block."""
    error = None
    if rows.bad and not reader.skip:
        line, fault = min(rows.bad.items(), key=lambda item: item[0])
        if not isinstance(fault, Fault):
            where, reason = fault
            fault = _fault(block.data, where, reason, rules)
        error = DataError(reader.path, fault.what, block.first_line + line, fault.column)
    bad = np.searchsorted(rows.lines, sorted(rows.bad)).astype(np.int64)
    return Piece(rows.X, rows.labels, rows.pointer, weights, bad, error, n_beyond=rows.n_beyond)


class SvmlightReader(Reader):
    """Reads `label[,label...] [qid:n] index:value ... # comment`."""

    def __init__(self, path: str, reading: Reading, labelled: bool, skip: bool) -> None:
        super().__init__(path, reading, labelled, skip)
        self._rules = Rules(
            format=parser.SVMLIGHT,
            width=reading.width,
            hashed=int(reading.hashed),
            base=reading.index_base or 0,
            n_features=parser.LARGEST_INDEX + 1,
            n_labels=-1,
            text_labels=int(reading.label_kind == "text"),
            several=int(reading.labels == "several"),
            labelled=int(labelled),
            skip=int(skip),
        )

    @classmethod
    def resolve(cls, path: str, reading: Reading, block: Block, labelled: bool) -> Reading:
        """Find the index base, the number of labels per row and their kind from the good ones of the first lines."""
        general = replace(
            reading, labels="several", label_kind="text", index_base=0, n_features=2**31 - 1, hashed=False
        )
        rows = cls(path, general, labelled, True)._rows(block)
        found: dict[str, Any] = {}
        if reading.index_base is None:
            found["index_base"] = 0 if 0 in rows.X.indices else 1
        if labelled and reading.labels is None:
            found["labels"] = "several" if np.any(np.diff(rows.pointer) != 1) else "one"
        if labelled and reading.label_kind is None:
            found["label_kind"] = "text" if mostly_text(rows.labels) else "int"
        return replace(reading, **found)

    def _rows(self, block: Block) -> _Rows:
        ends = np.flatnonzero(np.frombuffer(block.data, dtype=np.uint8) == ord("\n"))
        starts = np.concatenate([np.zeros(1, dtype=np.int64), ends[:-1] + 1])[: len(ends)]
        return _parse(block.data, np.column_stack([starts, ends]), self._rules)

    def read(self, block: Block) -> Piece:
        rows = self._rows(block)
        return _piece(self, block, rows, np.ones(rows.X.shape[0]), self._rules)


def xmc_header(line: bytes) -> tuple[int, int, int] | None:
    """The numbers of rows, features and labels if the line is the header of an xmc file."""
    match = _HEADER.fullmatch(line)
    return None if match is None else (int(match[1]), int(match[2]), int(match[3]))


def _checked_header(path: str, block: Block) -> tuple[int, int, int]:
    header = xmc_header(block.data.split(b"\n", 1)[0])
    if header is None:
        raise DataError(path, "the first line must be: n_rows n_features n_labels", 1, 1)
    if not 1 <= header[1] < 2**31 or header[2] < 1:
        raise DataError(path, "the header must have 1 to 2**31 - 1 features and at least one label", 1, 1)
    return header


class XmcReader(SvmlightReader):
    """Reads a header `n_rows n_features n_labels`, then `label,label index:value ...`."""

    def __init__(self, path: str, reading: Reading, labelled: bool, skip: bool) -> None:
        super().__init__(path, replace(reading, index_base=0), labelled, skip)
        self._n_rows: int | None = None  # in the header
        self._n_read, self._n_bad, self._last_line = 0, 0, 1

    @classmethod
    def resolve(cls, path: str, reading: Reading, block: Block, labelled: bool) -> Reading:
        """Take the sizes from the header; labels are always lists of integers."""
        _, n_features, n_labels = _checked_header(path, block)
        if reading.label_kind == "text" or reading.labels == "one":
            raise DataError(path, "labels of an xmc file are lists of integers; omit labels and label_kind", 1, 1)
        if reading.n_features is None:  # larger indices are errors
            reading = replace(reading, n_features=n_features, hashed=False)
        return replace(reading, labels="several", label_kind="int", n_labels=n_labels)

    def read(self, block: Block) -> Piece:
        self._last_line = block.first_line + block.data.rstrip(b"\n").count(b"\n")
        if self._n_rows is None:
            self._n_rows, n_features, n_labels = _checked_header(self.path, block)
            self._rules = self._rules._replace(format=parser.XMC, n_features=n_features, n_labels=n_labels)
            block = Block(block.data.split(b"\n", 1)[1], block.first_line + 1)
        piece = super().read(block)
        self._n_read, self._n_bad = self._n_read + piece.n_rows, self._n_bad + len(piece.bad)
        return piece

    def end(self) -> Piece | None:
        """Check the number of rows. If bad lines are skipped, missing rows count as such."""
        if self._n_rows is None:
            raise DataError(self.path, "the file is empty; its first line must be: n_rows n_features n_labels", 1, 1)
        n_missing = self._n_rows - self._n_read - self._n_bad
        if not n_missing or (self.skip and n_missing < 0):
            return None
        if self.skip:
            return empty_piece(self.reading.width, n_missing)
        advice = "download it again or correct the header" if n_missing > 0 else "correct the header"
        what = f"the file has {self._n_read} rows, but its header says {self._n_rows}; {advice}"
        return empty_piece(self.reading.width, error=DataError(self.path, what, self._last_line, 1))


# -- Vowpal Wabbit -------------------------------------------------------------------------------------------------


class _Head(NamedTuple):
    """The part of a line before the first bar."""

    labels: list[str]
    label_column: int = 1
    weight: float = 1.0


def _read_head(line: str, bar: int) -> _Head:
    """Labels, weight, base and tag. A single word before the bar is a label; Vowpal Wabbit reads it as a tag."""
    if bar > 1 and line[bar - 1] == " " and line[: bar - 1].isalnum():  # fast path for a single label
        return _Head([line[: bar - 1]])
    words = list(islice(_WORD.finditer(line, 0, bar), 5))  # with a tag, five words are one too many
    if words and (words[-1].group().startswith("'") or (len(words) > 1 and words[-1].end() == bar)):
        words.pop()
    if len(words) > 3:
        raise Fault(f"{shown(words[3].group())} is one word too many before the |", words[3].start() + 1)
    numbers = []
    for word, name in zip(words[1:], ("weight", "base"), strict=False):
        number = finite(word.group())
        if number is None:
            raise Fault(f"{name} {shown(word.group())} is {why_not_finite(word.group())}", word.start() + 1)
        if name == "weight" and number < 0:
            raise Fault(f"weight {shown(word.group())} is negative", word.start() + 1)
        numbers.append(number)
    if not words:
        return _Head([])
    labels = words[0].group().split(",")
    if "" in labels:
        raise Fault("an empty label between commas", words[0].start() + 1)
    return _Head(labels, words[0].start() + 1, numbers[0] if numbers else 1.0)


def _find_bar(line: str) -> int:
    bar = line.find("|")
    if bar < 0:
        raise Fault("no | between the label and the features", len(line) - len(line.lstrip()) + 1)
    return bar


class VwReader(Reader):
    """Reads `label [weight [base]] ['tag]|namespace:weight name:value ... |...`."""

    @classmethod
    def resolve(cls, path: str, reading: Reading, block: Block, labelled: bool) -> Reading:
        """Find the number of labels per row and their kind from the good ones of the first lines."""
        if not labelled:
            return reading
        several, labels = False, []
        for raw in block.data.split(b"\n"):
            try:
                line = decoded(raw.removesuffix(b"\r"))
                head = _read_head(line, _find_bar(line))
            except Fault:
                continue
            several |= len(head.labels) > 1
            labels += head.labels
        kind = reading.label_kind or ("text" if mostly_text(labels) else "int")
        return replace(reading, labels=reading.labels or ("several" if several else "one"), label_kind=kind)

    def read(self, block: Block) -> Piece:
        """The rows of a block: Python reads the part before the first bar, the kernel the rest."""
        heads: list[tuple[int, list, float]] = []  # line, labels, weight
        spans: list[tuple[int, int]] = []
        bad: dict[int, Any] = {}
        start = 0
        for number, raw in enumerate(block.data.split(b"\n")[:-1]):
            try:
                line = decoded(raw.removesuffix(b"\r"))
                if line.strip(" \t"):
                    heads.append((number, *self._labels_and_weight(line, _find_bar(line))))
                    spans.append((start + raw.index(b"|"), start + len(raw.removesuffix(b"\r"))))
            except Fault as fault:
                bad[number] = fault
                if not self.skip:
                    break
            start += len(raw) + 1
        rules = Rules(parser.VW, self.reading.width, 1, 0, 0, 0, 0, 0, 0, int(self.skip))
        rows = _parse(block.data, np.array(spans, dtype=np.int64).reshape(-1, 2), rules)
        bad |= {heads[row][0]: fault for row, fault in rows.bad.items()}
        good = [heads[row] for row in rows.lines.tolist()]
        labels, pointer = label_arrays([head[1] for head in good], self.reading)
        lines = np.array([head[0] for head in good], dtype=np.int64)
        rows = rows._replace(labels=labels, pointer=pointer, lines=lines, bad=bad)
        return _piece(self, block, rows, np.array([head[2] for head in good], dtype=np.float64), rules)

    def _labels_and_weight(self, line: str, bar: int) -> tuple[list, float]:
        if not self.labelled:
            return [], 1.0
        head = _read_head(line, bar)
        try:
            return checked_labels(head.labels, self.reading), head.weight
        except Fault as fault:
            raise Fault(fault.what, head.label_column) from None
