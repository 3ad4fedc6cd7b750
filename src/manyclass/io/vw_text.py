"""Vowpal Wabbit's text: `label [weight [base]] ['tag]|namespace:weight name:value ... |...`."""

import re
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from . import line_parser as kernel
from . import name_parser as names
from .errors import DataError, Fault, shown
from .feature_merge import merge_features
from .labels import LabelList
from .lines import Block
from .name_parser import parse_names
from .numbers import finite, mostly_text, why_not_finite
from .pieces import Piece
from .reading import Reading
from .sparse_lines import NO_TOKENS, room

_WORD = re.compile(r"[^ \t]+")
_TOKEN = re.compile(rb"[^ \t|\r\n]{0,200}")


class _Head(NamedTuple):
    """What stands before the first bar."""

    labels: list[str]
    label_column: int
    weight: float


def hashed(name: str, namespace: str, width: int) -> int:
    """The feature of a name, as the kernel finds it: for looking a feature up."""
    line = f"|{namespace} {name}".encode()
    (index,) = _parsed(line, np.array([[0, len(line)]]), width, False)[0].indices
    return int(index)


def _number(token: str, column: int, name: str) -> float:
    number = finite(token)
    if number is None:
        raise Fault(f"{name} {shown(token)} is {why_not_finite(token)}", column)
    return number


def _head(line: str, bar: int) -> _Head:
    """Labels, weight, base and tag. A lone word at the bar is a label here; Vowpal Wabbit takes it as a tag."""
    if bar > 1 and line[bar - 1] == " " and line[: bar - 1].isalnum():  # nearly all lines: one label
        return _Head([line[: bar - 1]], 1, 1.0)
    words = list(_WORD.finditer(line, 0, bar))
    if words and (words[-1].group().startswith("'") or (len(words) > 1 and words[-1].end() == bar)):
        words.pop()
    if len(words) > 3:
        raise Fault(f"{shown(words[3].group())} is one word too many before the |", words[3].start() + 1)
    weight = 1.0
    for word, name in zip(words[1:], ("weight", "base"), strict=False):
        number = _number(word.group(), word.start() + 1, name)
        if name == "weight":
            weight = number
            if weight < 0:
                raise Fault(f"weight {shown(word.group())} is negative", word.start() + 1)
    if not words:
        return _Head([], 1, weight)
    labels = words[0].group().split(",")
    if "" in labels:
        raise Fault("an empty label between commas", words[0].start() + 1)
    return _Head(labels, words[0].start() + 1, weight)


def _parsed(block: bytes, spans: np.ndarray, width: int, skip: bool) -> tuple[Piece, kernel.Parsed]:
    """Features of the lines whose first bar and end are `spans`, as rows without labels."""
    data = np.frombuffer(block, dtype=np.uint8)
    n_features = sum(int(np.count_nonzero(data == byte)) for byte in b" \t|")  # one of them precedes every feature
    refused = NO_TOKENS
    while True:
        parsed = room(len(spans), n_features, 0)
        parse_names(data, spans, width, int(skip), parsed, refused)
        n_rows = int(parsed.size[kernel.ROWS])
        n_features_now = int(parsed.size[kernel.FEATURES])
        indptr, indices = parsed.indptr[: n_rows + 1], parsed.indices[:n_features_now]
        values, too_large = parsed.values[:n_features_now], np.empty(n_rows, dtype=np.int64)
        n_merged, n_too_large = merge_features(indptr, indices, values, parsed.places, too_large)
        if not n_too_large:
            return Piece(indptr, indices[:n_merged], values[:n_merged], None, None), parsed
        refused = np.union1d(refused, too_large[:n_too_large])


def _what(why: int, token: str) -> str:
    """What is wrong with a token."""
    return {
        names.NO_NAMESPACE: "a namespace without a name",
        names.NO_NAME: "a feature without a name",
        names.BAD_WEIGHT: f"weight {shown(token)} is {why_not_finite(token)}",
        names.PRODUCT_TOO_LARGE: "value times the namespace's weight is beyond 32-bit floats",
        names.SUM_TOO_LARGE: "the sum of this feature's values is beyond 32-bit floats",
    }.get(why, f"value {shown(token)} is {why_not_finite(token)}")


def _decoded(line: bytes) -> str:
    try:
        return line.removesuffix(b"\r").decode()
    except UnicodeDecodeError as error:
        raise Fault("not UTF-8 text; convert the file", len(line[: error.start].decode()) + 1) from None


def _bar(line: str) -> int:
    bar = line.find("|")
    if bar < 0:
        raise Fault("no | between the label and the features", len(line) - len(line.lstrip()) + 1)
    return bar


def resolve(path: str, reading: Reading, block: Block, labelled: bool) -> Reading:
    """Find out labels a row and their kind from the first lines, as far as these are good."""
    if not labelled:
        return reading
    several, labels = False, []
    for raw in block.data.split(b"\n"):
        try:
            line = _decoded(raw)
            head = _head(line, _bar(line))
        except Fault:
            continue
        several |= len(head.labels) > 1
        labels += head.labels
    kind = reading.label_kind or ("text" if mostly_text(labels) else "int")
    return replace(reading, labels=reading.labels or ("several" if several else "one"), label_kind=kind)


class VwReader:
    """Reads blocks of lines."""

    def __init__(self, path: str, reading: Reading, labelled: bool, skip: bool) -> None:
        self._path, self._reading, self._labelled, self._skip = path, reading, labelled, skip

    def read(self, block: Block) -> Piece:
        """The rows of a block: Python reads what stands before the first bar, the kernel the rest."""
        heads: list[tuple[list, float, int]] = []  # labels, weight, line
        spans: list[tuple[int, int]] = []
        faults: dict[int, Fault] = {}  # by line
        start, checker = 0, LabelList(self._reading)
        for number, raw in enumerate(block.data.split(b"\n")[:-1]):
            try:
                line = _decoded(raw)
                if line.strip(" \t"):
                    bar = _bar(line)
                    head = _head(line, bar) if self._labelled else _Head([], 1, 1.0)
                    labels = self._row_labels(checker, head) if self._labelled else []
                    heads.append((labels, head.weight, number))
                    spans.append((start + raw.index(b"|"), start + len(raw.removesuffix(b"\r"))))
            except Fault as fault:
                faults[number] = fault
                if not self._skip:
                    break
            start += len(raw) + 1
        places = np.array(spans, dtype=np.int64).reshape(-1, 2)
        piece, parsed = _parsed(block.data, places, self._reading.width, self._skip)
        for section, where, why, _ in parsed.bad[: parsed.size[kernel.BAD]].tolist():
            faults[heads[section][2]] = self._fault(block.data, where, why)
        return self._finished(piece, heads, faults, block.first_line)

    def _fault(self, block: bytes, where: int, why: int) -> Fault:
        before = block[block.rfind(b"\n", 0, where) + 1 : where]
        token = _TOKEN.match(block, where).group().decode("utf-8", "replace")  # type: ignore[union-attr]
        return Fault(_what(why, token), len(before.decode()) + 1)

    def _finished(self, piece: Piece, heads: list, faults: dict[int, Fault], first_line: int) -> Piece:
        """The rows with labels and weights, and what is wrong."""
        error: DataError | None = None
        if faults and not self._skip:
            first = min(faults)
            error = DataError(self._path, faults[first].what, first_line + first, faults[first].column)
        good = [head for head in heads if head[2] not in faults][: piece.n_rows]
        labels = LabelList(self._reading)
        for row_labels, _, _ in good:
            labels.append(row_labels)
        flat, pointer = labels.arrays() if self._labelled else (None, None)
        bad = np.searchsorted([number for _, _, number in good], sorted(faults))
        weights = np.array([weight for _, weight, _ in good])
        return piece._replace(labels=flat, pointer=pointer, weights=weights, bad=bad.astype(np.int64), error=error)

    def _row_labels(self, labels: LabelList, head: _Head) -> list:
        try:
            return labels.checked(head.labels)
        except Fault as fault:
            raise Fault(fault.what, head.label_column) from None

    def end(self) -> Piece | None:
        """What is left at the end of the file: nothing."""
        return None
