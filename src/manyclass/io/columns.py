"""Columns of a table into features and labels, by scikit-learn's hashing.

A text column becomes its words, scaled to length 1; a categorical cell becomes "column=value"; a number keeps its
value under the column's name. All are hashed into the same features. The words of every text column but the first are
hashed with the column's name, so that a word in the title and the same word in the body are two features.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import HashingVectorizer

from .errors import DataError, Fault, is_text, shown
from .labels import LabelList
from .numbers import FLOAT32_END, NOT_FINITE, TOO_LARGE, finite, reads_as_number, why_not_finite
from .pieces import Piece
from .reading import Reading

_LONG_TEXT = 40  # characters from which a cell reads as a text, however few its words


class CellFault(Exception):
    """One cell is wrong; the reader that knows where it stands makes a DataError of it."""

    def __init__(self, name: str, what: str) -> None:
        self.name, self.what = name, what
        super().__init__(what)


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def _named_words(analyzer, name: str, text: str) -> list[str]:
    return [f"{name}={word}" for word in analyzer(text)]


def _text(name: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list | dict | bytes):
        raise CellFault(name, f"column {shown(name)} holds no text here but a {type(value).__name__}")
    try:
        text = str(value).lower() if isinstance(value, bool) else str(value)
    except ValueError:  # Python refuses to print numbers of thousands of digits
        raise CellFault(name, f"the number in column {shown(name)} is too long") from None
    if not is_text(text):
        raise CellFault(name, f"column {shown(name)} holds half a character here, which is no text")
    return text


def _number(name: str, value: Any) -> float:
    if _is_missing(value):
        return 0.0
    if isinstance(value, str):
        number = finite(value.strip())
        reason = "" if number is not None else why_not_finite(value.strip())
    else:
        try:
            number = float(value)
            reason = NOT_FINITE if not math.isfinite(number) else ""
        except OverflowError:
            number, reason = math.inf, TOO_LARGE
        except (TypeError, ValueError):
            number, reason = None, "not a number; correct it"
    if number is not None and not reason and abs(number) >= FLOAT32_END:
        reason = TOO_LARGE
    if number is None or reason:
        raise CellFault(name, f"{shown(str(value))} in the numeric column {shown(name)} is {reason}")
    return number


class RowEncoder:
    """Gathers rows, one by one, and makes a piece of them.

    A row that is refused leaves nothing behind.
    """

    def __init__(self, reading: Reading, labelled: bool) -> None:
        self._reading, self._labelled = reading, labelled
        self._vectorizers = []
        for i, name in enumerate(reading.text):
            vectorizer = HashingVectorizer(n_features=reading.width, alternate_sign=False, norm="l2")
            if i:
                words = partial(_named_words, vectorizer.build_analyzer(), name)
                vectorizer.set_params(analyzer=words)
            self._vectorizers.append(vectorizer)
        self._hasher = FeatureHasher(n_features=reading.width, input_type="pair", alternate_sign=False)
        self._start()

    def _start(self) -> None:
        self._labels = LabelList(self._reading)
        self._texts: list[list[str]] = []
        self._pairs: list[list[tuple[str, float]]] = []

    @property
    def n_rows(self) -> int:
        """Rows gathered since the last piece."""
        return len(self._pairs)

    def add(self, cells: Mapping[str, Any]) -> None:
        """Add one row, or raise CellFault."""
        reading = self._reading
        labels = self._row_labels(cells) if self._labelled else []
        texts = [_text(name, cells.get(name)) for name in reading.text]
        pairs, total = [], float(len(reading.categorical) + len(reading.text))
        for name in reading.numeric:
            number = _number(name, cells.get(name))
            total += abs(number)
            if total >= FLOAT32_END:  # two columns may share a feature
                raise CellFault(name, "the sum of the row's numbers is beyond 32-bit floats")
            pairs.append((name, number))
        for name in reading.categorical:
            value = cells.get(name)
            if not _is_missing(value):
                pairs.append((f"{name}={_text(name, value)}", 1.0))
        self._labels.append(labels)
        self._texts.append(texts)
        self._pairs.append(pairs)

    def _row_labels(self, cells: Mapping[str, Any]) -> list[Any]:
        name = self._reading.label or ""
        value = cells.get(name)
        if _is_missing(value):
            raise CellFault(name, f"the label (column {shown(name)}) is missing")
        values = value if isinstance(value, list) else [value]
        separator = self._reading.label_separator
        if separator is not None and isinstance(value, str):
            values = [part.strip() for part in value.split(separator)]
        try:
            return self._labels.checked(values)
        except Fault as fault:
            raise CellFault(name, fault.what) from None

    def piece(self, bad: list[int], error: DataError | None) -> Piece:
        """The rows gathered since the last piece."""
        X = scipy.sparse.csr_array((self.n_rows, self._reading.width), dtype=np.float64)
        if self.n_rows:
            for i, vectorizer in enumerate(self._vectorizers):
                X = X + scipy.sparse.csr_array(vectorizer.transform([texts[i] for texts in self._texts]))
            if self._reading.numeric or self._reading.categorical:
                X = X + scipy.sparse.csr_array(self._hasher.transform(self._pairs))
        X.sum_duplicates()
        labels, pointer = self._labels.arrays() if self._labelled else (None, None)
        self._start()
        return Piece(
            X.indptr.astype(np.int64), X.indices.astype(np.int32), X.data.astype(np.float32), labels, pointer,
            bad=np.array(bad, dtype=np.int64), error=error,
        )  # fmt: skip


def _kind(values: list[Any]) -> str:
    """Whether the cells of a column read as "numeric", "text" or "categorical"."""
    if values and not any(isinstance(value, bool) for value in values):
        if all(_reads_as_number(value) for value in values):
            return "numeric"
    n_texts = sum(isinstance(value, str) and (len(value.split()) > 2 or len(value) >= _LONG_TEXT) for value in values)
    return "text" if 2 * n_texts > len(values) else "categorical"


def _reads_as_number(value: Any) -> bool:
    return reads_as_number(value.strip()) if isinstance(value, str) else isinstance(value, int | float)


def check_columns(path: str, reading: Reading, names: Iterable[str], labelled: bool) -> None:
    """Refuse a table that lacks a column that the reading names."""
    names = list(names)
    wanted = [reading.label] if labelled and reading.label is not None else []
    for name in [*wanted, *reading.text, *reading.numeric, *reading.categorical]:
        if name not in names:
            there = ", ".join(shown(other) for other in names)
            raise DataError(path, f"there is no column {shown(name)}; the columns are {there}", 1, 1)


def resolve_table(
    path: str, reading: Reading, names: list[str], rows: Sequence[Mapping[str, Any]], labelled: bool
) -> Reading:
    """Find out the columns to use and the kind of labels from the first rows."""
    if labelled and reading.label is None:
        there = ", ".join(shown(name) for name in names)
        raise DataError(path, f"say which column holds the label (label=, --label); the columns are {there}", 1, 1)
    found: dict[str, Any] = {}
    if not reading.names_columns:
        kinds: dict[str, list[str]] = {"numeric": [], "text": [], "categorical": []}
        for name in names:
            if name != reading.label:
                values = [row[name] for row in rows if not _is_missing(row.get(name))]
                kinds[_kind(values)].append(name)
        found = {kind: tuple(columns) for kind, columns in kinds.items()}
    if labelled:
        cells = [cell for row in rows if not _is_missing(cell := row.get(reading.label or ""))]
        if reading.labels is None:
            several = reading.label_separator is not None or any(isinstance(cell, list) for cell in cells)
            found["labels"] = "several" if several else "one"
        if reading.label_kind is None:
            flat = [label for cell in cells for label in (cell if isinstance(cell, list) else [cell])]
            numbers = reading.format not in ("csv", "tsv") and all(_is_whole(label) for label in flat)
            found["label_kind"] = "int" if numbers and flat else "text"
    resolved = replace(reading, **found)
    check_columns(path, resolved, names, labelled)
    return resolved


def _is_whole(label: Any) -> bool:
    whole_float = isinstance(label, float) and label.is_integer()
    return whole_float or (isinstance(label, int) and not isinstance(label, bool))
