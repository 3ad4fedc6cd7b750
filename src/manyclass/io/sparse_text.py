"""Readers of sparse text: svmlight, the extreme-classification repository (xmc) and Vowpal Wabbit."""

import re
from dataclasses import replace
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
        size=np.zeros(7, dtype=np.int64),
        indptr=np.zeros(n_lines + 1, dtype=np.int64),
        indices=np.empty(n_features, dtype=np.int32),
        values=np.empty(n_features, dtype=np.float32),
        places=np.empty(n_features, dtype=np.int32),
        pointer=np.zeros(n_lines + 1, dtype=np.int64),
        labels=np.empty(n_labels, dtype=np.int64),
        spans=np.empty((n_labels, 2), dtype=np.int32),
        bad=np.empty((n_lines, 4), dtype=np.int64),
        slow=np.empty((n_features, 3), dtype=np.int64),
    )


def _parse(block: bytes, spans: np.ndarray, rules: Rules) -> tuple[Piece, Parsed]:
    """The rows at `spans`, and the kernel's result with the bad lines.

    A few tokens are found to be wrong only after the kernel: a number or a sum that is just too large for float32, a
    label that is not UTF-8. The block is then parsed again with these refused, at most three times.
    """
    data = np.frombuffer(block, dtype=np.uint8)
    kernel, separators = (parser.parse_names, b" \t|") if rules.format == parser.VW else (parser.parse_lines, b":")
    n_features = sum(int(np.count_nonzero(data == byte)) for byte in separators)  # each feature has one
    n_labels = len(spans) + int(np.count_nonzero(data == ord(",")))
    refused = np.zeros(0, dtype=np.int64)
    while True:
        parsed = _empty_parsed(len(spans), n_features, n_labels)
        kernel(data, spans, rules, parsed, refused)
        wrong = _round_slow(block, parsed)
        labels = parsed.labels[: parsed.size[parser.LABELS]]
        if rules.text_labels:
            labels, not_utf8 = _text_labels(block, parsed)
            wrong += not_utf8
        X, too_large = _matrix(parsed, rules.width)
        wrong += too_large
        if not wrong:
            break
        refused = np.union1d(refused, np.array(wrong, dtype=np.int64))
    bad = parsed.bad[: parsed.size[parser.BAD], 3].copy()
    return Piece(X, labels, parsed.pointer[: X.shape[0] + 1], np.ones(X.shape[0]), bad), parsed


def _round_slow(block: bytes, parsed: Parsed) -> list[int]:
    """Round the numbers that the kernel could not: the positions of those too large for float32. Mutates: values."""
    too_large = []
    for feature, start, stop in parsed.slow[: parsed.size[parser.SLOW]].tolist():
        number = float(block[start:stop])
        if abs(number) >= FLOAT32_END:
            too_large.append(start)
        else:
            parsed.values[feature] = number
    return too_large


def _text_labels(block: bytes, parsed: Parsed) -> tuple[np.ndarray, list[int]]:
    """Labels as text, and the positions of those that are not UTF-8."""
    spans = parsed.spans[: parsed.size[parser.LABELS]].tolist()
    labels = np.empty(len(spans), dtype=object)
    wrong = []
    for i, (start, stop) in enumerate(spans):
        try:
            labels[i] = block[start:stop].decode()
        except UnicodeDecodeError:
            wrong.append(start)
    return labels, wrong


def _matrix(parsed: Parsed, width: int) -> tuple[scipy.sparse.csr_array, list[int]]:
    """The features with repeated ones added up, and per row the position of the first sum too large for float32."""
    n_rows, n_features = parsed.size[[parser.ROWS, parser.FEATURES]].tolist()
    indptr, indices = parsed.indptr[: n_rows + 1].astype(np.int32), parsed.indices[:n_features]
    X = scipy.sparse.csr_array((parsed.values[:n_features], indices, indptr), shape=(n_rows, width))
    if X.has_canonical_format:
        return X, []
    X = scipy.sparse.csr_array((X.data.astype(np.float64), indices.copy(), indptr.copy()), shape=X.shape)
    X.sum_duplicates()
    wrong = {}
    for at in np.flatnonzero(np.abs(X.data) >= FLOAT32_END)[::-1].tolist():
        row = int(np.searchsorted(X.indptr, at, side="right")) - 1
        same = np.flatnonzero(indices[indptr[row] : indptr[row + 1]] == X.indices[at])
        wrong[row] = int(parsed.places[indptr[row] + same[-1]])
        X.data[at] = 0
    return X.astype(np.float32), list(wrong.values())


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


class SvmlightReader(Reader):
    """Reads `label[,label...] [qid:n] index:value ... # comment`."""

    def __init__(self, path: str, reading: Reading, labelled: bool, skip: bool) -> None:
        super().__init__(path, reading, labelled, skip)
        self._rules = Rules(
            format=parser.SVMLIGHT,
            width=reading.width,
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
        general = replace(reading, labels="several", label_kind="text", index_base=0)
        piece, parsed = cls(path, general, labelled, True)._parsed(block)
        found: dict[str, Any] = {}
        if reading.index_base is None:
            found["index_base"] = 0 if parsed.size[parser.ZERO_ROWS] else 1
        if labelled and reading.labels is None:
            found["labels"] = "several" if np.any(np.diff(piece.pointer) != 1) else "one"
        if labelled and reading.label_kind is None:
            found["label_kind"] = "text" if mostly_text(piece.labels) else "int"
        return replace(reading, **found)

    def _parsed(self, block: Block) -> tuple[Piece, Parsed]:
        ends = np.flatnonzero(np.frombuffer(block.data, dtype=np.uint8) == ord("\n"))
        starts = np.concatenate([np.zeros(1, dtype=np.int64), ends[:-1] + 1])[: len(ends)]
        return _parse(block.data, np.column_stack([starts, ends]), self._rules)

    def read(self, block: Block) -> Piece:
        """The rows of a block."""
        piece, parsed = self._parsed(block)
        if self.skip or not len(piece.bad):
            return piece
        line, where, reason, _ = parsed.bad[0].tolist()
        fault = _fault(block.data, where, reason, self._rules)
        return piece._replace(error=DataError(self.path, fault.what, block.first_line + line, fault.column))


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
        self._n_read, self._last_line = 0, 1

    @classmethod
    def resolve(cls, path: str, reading: Reading, block: Block, labelled: bool) -> Reading:
        """Take the sizes from the header; labels are always lists of integers."""
        _, n_features, n_labels = _checked_header(path, block)
        if reading.label_kind == "text" or reading.labels == "one":
            raise DataError(path, "labels of an xmc file are lists of integers; omit labels and label_kind", 1, 1)
        width = reading.n_features if reading.n_features is not None else n_features
        return replace(reading, labels="several", label_kind="int", n_features=width, n_labels=n_labels)

    def read(self, block: Block) -> Piece:
        """The rows of a block."""
        self._last_line = block.first_line + block.data.rstrip(b"\n").count(b"\n")
        if self._n_rows is None:
            self._n_rows, n_features, n_labels = _checked_header(self.path, block)
            self._rules = self._rules._replace(format=parser.XMC, n_features=n_features, n_labels=n_labels)
            block = Block(block.data.split(b"\n", 1)[1], block.first_line + 1)
        piece = super().read(block)
        self._n_read += piece.n_rows
        return piece

    def end(self) -> Piece | None:
        """Check the number of rows, unless bad lines were skipped."""
        if self._n_rows is None:
            raise DataError(self.path, "the file is empty; its first line must be: n_rows n_features n_labels", 1, 1)
        if self._n_read == self._n_rows or self.skip:
            return None
        what = f"the file ends after {self._n_read} rows, but its header says {self._n_rows}"
        what += "; download it again or correct the header"
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
    words = list(_WORD.finditer(line, 0, bar))
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
        rows: list[tuple[int, list, float]] = []  # line, labels, weight
        spans: list[tuple[int, int]] = []
        faults: dict[int, Fault] = {}  # by line
        start = 0
        for number, raw in enumerate(block.data.split(b"\n")[:-1]):
            try:
                line = decoded(raw.removesuffix(b"\r"))
                if line.strip(" \t"):
                    bar = _find_bar(line)
                    rows.append((number, *self._labels_and_weight(line, bar)))
                    spans.append((start + raw.index(b"|"), start + len(raw.removesuffix(b"\r"))))
            except Fault as fault:
                faults[number] = fault
                if not self.skip:
                    break
            start += len(raw) + 1
        rules = Rules(parser.VW, self.reading.width, 0, 0, 0, 0, 0, 0, int(self.skip))
        piece, parsed = _parse(block.data, np.array(spans, dtype=np.int64).reshape(-1, 2), rules)
        for row, where, reason, _ in parsed.bad[: len(piece.bad)].tolist():
            faults[rows[row][0]] = _fault(block.data, where, reason, rules)
        error = None
        if faults and not self.skip:
            first = min(faults)
            error = DataError(self.path, faults[first].what, block.first_line + first, faults[first].column)
        good = [row for row in rows if row[0] not in faults][: piece.n_rows]
        labels, pointer = label_arrays([row[1] for row in good], self.reading)
        bad = np.searchsorted([row[0] for row in good], sorted(faults)).astype(np.int64)
        return Piece(piece.X, labels, pointer, np.array([row[2] for row in good], dtype=np.float64), bad, error)

    def _labels_and_weight(self, line: str, bar: int) -> tuple[list, float]:
        if not self.labelled:
            return [], 1.0
        head = _read_head(line, bar)
        try:
            return checked_labels(head.labels, self.reading), head.weight
        except Fault as fault:
            raise Fault(fault.what, head.label_column) from None
