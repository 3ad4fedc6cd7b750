"""Rows of requests: checked, and turned into features and labels of a model."""

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.utils import murmurhash3_32

from ..core.classes import label_array
from ..core.inputs import Batch, Csr
from ..core.validation import NARROW, as_batch
from ..io import Chunk, Reading
from ..io.tables import TableReader, layout_of, names_of
from ..io.weighting import Weighting, weigh
from ..trained import MAX_COLUMNS, LabelColumns, Trained

LONGEST_LABEL = 1000
MOST_LABELS = 1000  # of a row
MOST_NEW = 10_000  # numbers between the largest known label and a new one, if labels are the numbers of columns
WIDEST = 100_000  # features; rows of more are sparse
LARGEST_VALUE = 1e6  # of a feature that a request gives as a number; larger ones could make training diverge
_NAMES_SHOWN = 20
_VISIBLE = re.compile(r"[^\s\x00-\x1f\x7f-\x9f]")
_INTEGER = re.compile(r"-?[0-9]{1,16}")
_FEW = 64  # texts that are vectorised one by one


class BadRow(ValueError):
    """A row that the model cannot read. The message says what is wrong."""


def of_each(rows: Sequence[Any], work: Callable[[Any], Any]) -> list[Any]:
    """What `work` returns for each row. If there are several rows, a BadRow says which one is bad, counted from 0."""
    out = []
    for number, row in enumerate(rows):
        try:
            out.append(work(row))
        except BadRow as error:
            raise (BadRow(f"rows.{number}: {error}") if len(rows) > 1 else error) from None
    return out


class RequestFeatures:
    """Turns rows of requests into features of a model. Each thread requires its own.

    A row is a text; a dictionary of cells by column, if the model was trained on a table, or of values by feature name;
    a list of all values; or a dictionary of `indices` and `values`.
    """

    def __init__(self, trained: Trained):
        self.reading, clf = trained.reading, trained.estimator
        self.n_features = clf.n_features_in_
        self.table = bool(self.reading.columns)
        self.dense = not self.table and (self.n_features <= NARROW or "neighbors" in clf._state)
        names = getattr(clf, "feature_names_in_", None)
        self._analyze: Any = None  # text to words, if a row is nothing but a text
        self._places = {} if names is None else {str(name): place for place, name in enumerate(names)}
        if self.table:
            self._reader = _reader(self.reading)
            self._raw = _reader(replace(self.reading, weighting=None)) if self.reading.weighted else self._reader
            self._layout = layout_of(self.reading)
            only_words = self.reading.columns == self.reading.text and len(self._reader.vectorizers) == 1
            if only_words and self.n_features > NARROW:
                self._analyze = self._reader.vectorizers[0][1].build_analyzer()

    def __call__(self, rows: Sequence[Any]) -> Any:
        """Features of rows to predict, all of them sparse or all dense."""
        if self.table:
            return self._table(self._reader, rows)
        vectors = of_each(rows, self._vector)
        if self.dense or all(isinstance(vector, np.ndarray) for vector in vectors):
            return np.vstack([vector if isinstance(vector, np.ndarray) else vector.toarray()[0] for vector in vectors])
        sparse = [sp.csr_array(one[None]) if isinstance(one, np.ndarray) else one for one in vectors]
        return sp.csr_array(sp.vstack(sparse, format="csr"))

    def batch(self, rows: Sequence[Any]) -> Batch:
        """Rows to predict as kernels take them."""
        weighting = self.reading.weighting
        if weighting is None or not self._few_texts(rows):
            return as_batch(self(rows))
        return Csr(*_joined([_weighed(self._counts(row), weighting) for row in rows], np.int64))

    def _few_texts(self, rows: Sequence[Any]) -> bool:
        """Whether `_counts` can read the rows: ten times faster than scikit-learn's vectorizers, made for many rows."""
        return self._analyze is not None and len(rows) <= _FEW and all(isinstance(row, str) for row in rows)

    def _counts(self, text: str) -> tuple[np.ndarray, np.ndarray]:
        """The features of a text and how often each appears."""
        counts = Counter([abs(murmurhash3_32(word, seed=0)) % self.n_features for word in self._analyze(text)])
        feature = sorted(counts)
        return np.array(feature, np.int32), np.array([counts[one] for one in feature], np.float32)

    def names(self, row: Any) -> dict[int, str] | None:
        """The words, categories and numbers behind the features of a row, if the model was trained on a table."""
        if not self.table:
            return None
        cells = self._cells(row)
        return names_of([{name: cells.get(name) for name in self.reading.columns}], self.reading)

    def to_learn(self, rows: Sequence[Any]) -> list[tuple[int, Any]]:
        """Features of rows to learn, as parts of which each is sparse or dense, with their numbers of rows.

        New words become known: `reading` changes. The result for a row does not depend on the rows after it.
        """
        if not self.table:
            kinds = groupby(rows, key=lambda row: isinstance(row, list))
            return [(len(part), self(part)) for part in (list(group) for _, group in kinds)]
        if not self.reading.weighted or self.reading.weighting is None:
            return [(len(rows), self._table(self._raw, rows))]
        few = [self._counts(row) for row in rows] if self._few_texts(rows) else None
        raw = self._table(self._raw, rows) if few is None else _sparse(few, self._layout.n_columns)
        weighting = self.reading.weighting.with_rows(raw, self._layout, self.reading.idf)
        self.follow(replace(self.reading, weighting=weighting))
        if few is None:
            return [(len(rows), weigh(raw, self._layout, weighting))]
        return [(len(rows), _sparse([_weighed(counts, weighting) for counts in few], self.n_features))]

    def follow(self, reading: Reading) -> None:
        """Use the words of a later reading of the same model."""
        self.reading = reading
        if self.table:
            self._reader.reading = reading

    def _table(self, reader: TableReader, rows: Sequence[Any]) -> sp.csr_array:
        piece = reader.piece(enumerate(of_each(rows, self._cells), 1))
        if piece.error is not None:
            raise BadRow(f"row {piece.error.line}: {piece.error.what}.")
        return piece.X

    def _cells(self, row: Any) -> Mapping[str, Any]:
        columns = self.reading.columns
        if isinstance(row, str):
            if len(self.reading.text) != 1:
                raise BadRow(f"the model was trained on several columns: pass features with {_some(columns)}.")
            return {self.reading.text[0]: row}
        if not isinstance(row, dict):
            raise BadRow(f"pass a text, or an object with the columns {_some(columns)}.")
        unknown = [name for name in row if name not in columns]
        if unknown or not row:
            what = f"the column {unknown[0]!r} is unknown" if unknown else "features is empty"
            raise BadRow(f"{what}: the model has {_some(columns)}.")
        for name, value in row.items():
            if isinstance(value, list | dict) or (isinstance(value, int) and abs(value) > 2**63):
                raise BadRow(f"the column {name!r} must be a text or a number of at most 2**63.")
        return row

    def _vector(self, row: Any) -> Any:
        """One row as a float32 array, or as a sparse row."""
        if isinstance(row, str):
            raise BadRow("the model was not trained on text by the command line: pass features.")
        if isinstance(row, list):
            if self.n_features > WIDEST:
                raise BadRow(f'the model has {self.n_features} features: pass {{"indices": [...], "values": [...]}}.')
            if len(row) != self.n_features:
                raise BadRow(f"the row has {len(row)} values, the model has {self.n_features} features.")
            return _numbers(row)
        if set(row) == {"indices", "values"} and isinstance(row["indices"], list) and isinstance(row["values"], list):
            indices, values = row["indices"], row["values"]
        elif self._places:
            unknown = [name for name in row if name not in self._places]
            if unknown:
                raise BadRow(f"the feature {unknown[0]!r} is unknown: the model has {_some(list(self._places))}.")
            indices, values = [self._places[name] for name in row], list(row.values())
        else:
            raise BadRow(f'pass {self.n_features} numbers, or {{"indices": [...], "values": [...]}}.')
        if len(indices) != len(values):
            raise BadRow(f"there are {len(indices)} indices and {len(values)} values.")
        if not all(type(index) is int and 0 <= index < self.n_features for index in indices):
            raise BadRow(f"indices must be integers from 0 to {self.n_features - 1}.")
        if len(set(indices)) < len(indices):
            raise BadRow("an index appears twice.")
        order = np.argsort(indices).astype(np.int64)
        where = np.array(indices, np.int32)[order], np.array([0, len(indices)], np.int32)
        return sp.csr_array((_numbers(values)[order], *where), shape=(1, self.n_features))


def _weighed(counts: tuple[np.ndarray, np.ndarray], weighting: Weighting) -> tuple[np.ndarray, np.ndarray]:
    """The same as `weigh` for a single text."""
    feature, count = counts
    place, known = weighting.find(feature)
    value = count[known].astype(np.float64) * weighting.idf[place[known]]
    length = math.sqrt(sum((value**2).tolist()))
    return feature[known], (value / (length or 1.0)).astype(np.float32)


def _joined(rows: list[tuple[np.ndarray, np.ndarray]], kind: type) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where each row begins, the features of all rows, and their values."""
    pointer: np.ndarray = np.cumsum([0, *(len(feature) for feature, _ in rows)], dtype=kind)
    return pointer, np.concatenate([feature for feature, _ in rows]), np.concatenate([value for _, value in rows])


def _sparse(rows: list[tuple[np.ndarray, np.ndarray]], n_features: int) -> sp.csr_array:
    pointer, feature, value = _joined(rows, np.int32)
    return sp.csr_array((value, feature, pointer), shape=(len(rows), n_features))


def _reader(reading: Reading) -> TableReader:
    reader = TableReader("X", reading, False, False)
    reader.place = "row"
    return reader


def _numbers(values: list[Any]) -> np.ndarray:
    for value in values:
        if type(value) not in (int, float) or not abs(value) <= LARGEST_VALUE:
            raise BadRow(f"features must be numbers from {-LARGEST_VALUE:g} to {LARGEST_VALUE:g}.")
    return np.array(values, np.float32)


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    return ", ".join(map(repr, names[:_NAMES_SHOWN])) + more


# -- rows to learn -------------------------------------------------------------------------------------------------


class Learned(NamedTuple):
    """A row of the journal."""

    row: Any
    labels: list

    def body(self) -> bytes:
        """As it is written to the journal."""
        return json.dumps([self.row, self.labels], ensure_ascii=False, separators=(",", ":")).encode()

    @classmethod
    def of(cls, body: bytes) -> "Learned":
        """From the journal."""
        return cls(*json.loads(body))


class RequestLabels:
    """The labels of a model, and how those of requests are checked."""

    def __init__(self, trained: Trained):
        self.several = trained.reading.labels == "several"
        self.text = trained.names is not None or isinstance(trained.estimator._index.first(), str)
        self.columns = LabelColumns.of_model(trained)

    def check(self, labels: Sequence[Any]) -> list:
        """The labels of a row, or a BadRow that says what is wrong."""
        if not self.several and len(labels) != 1:
            raise BadRow(f"the model has one label per row, got {len(labels)}.")
        if len(labels) > MOST_LABELS:
            raise BadRow(f"a row may have up to {MOST_LABELS} labels, got {len(labels)}.")
        return [self._label(label) for label in labels]

    def _label(self, label: Any) -> Any:
        if self.text:
            if not isinstance(label, str) or not _VISIBLE.search(label) or len(label) > LONGEST_LABEL:
                raise BadRow(f"a label must be a text of 1 to {LONGEST_LABEL} characters, some of them visible.")
            if label.endswith("\0"):
                raise BadRow("a label must not end with the character NUL: arrays of texts would drop it.")
            return label
        number = int(label) if isinstance(label, str) and _INTEGER.fullmatch(label) else label
        least, most = -(2**53), 2**53
        if self.columns is not None:  # labels are the numbers of columns
            least, most = 0, min(MAX_COLUMNS, self.columns.n_columns + MOST_NEW) - 1
        if type(number) is not int or not least <= number <= most:
            raise BadRow(f"the labels of the model are integers: pass one from {least} to {most}.")
        return number

    def id(self, trained: Trained, label: Any) -> int:
        """The number of a label in the model, -1 if it is new."""
        if self.columns is None:
            return int(trained.estimator._index.find(label_array([label], "U" if self.text else "i"))[0])
        if self.columns.names is not None:
            return self.columns.number(label)
        return label if isinstance(label, int) and 0 <= label < self.columns.n_columns else -1

    def array(self, rows: Sequence[list]) -> Any:
        """The labels of rows to learn: an array, or a matrix of zeros and ones. New labels are added to the columns."""
        flat = [label for labels in rows for label in labels]
        values = label_array(flat, "U") if self.text else np.array(flat, np.int64)
        if self.columns is None:
            return values
        pointer = np.cumsum([0, *map(len, rows)], dtype=np.int64)
        return self.columns.matrix(Chunk(None, values, pointer, None, 0), learn=True)
