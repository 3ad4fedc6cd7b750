"""A trained model with what the command line and the service store beside it: how rows are read, labels, counts."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from .core.model_file import ModelFormatError
from .core.validation import ones
from .estimators import load_model
from .io import Chunk, Reading

MAX_COLUMNS = 4_000_000  # limit of a label matrix whose columns are the label numbers in the file


@dataclass
class Trained:
    """An estimator and how its data were read."""

    estimator: Any
    reading: Reading
    names: list[str] | None = None  # several labels per row: the label of each column; None: labels are column numbers
    training: dict[str, Any] = field(default_factory=dict)  # progress and options of the training run
    label_counts: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))  # training rows of each class
    n_counted: int = 0  # training rows counted there; 0: unknown
    serving: dict[str, int] = field(default_factory=dict)  # of `manyclass serve`: the last row of the journal learned

    def count(self, y: Any) -> None:
        """Count the labels of rows that were learned, each row once."""
        classes = y.indices if sp.issparse(y) else self.estimator._index.find(y)
        missing = len(self.estimator._index) - len(self.label_counts)
        if missing > 0:
            self.label_counts = np.pad(self.label_counts, (0, missing))
        np.add.at(self.label_counts, classes, 1)
        self.n_counted += y.shape[0]

    def save(self, path: str, slim: bool = False, prune: float = 0.0, precision: str = "float32") -> None:
        """Write the model with its reading and training record."""
        self.estimator._extra = {"reading": self.reading, "training": self.training}
        if self.n_counted:
            self.estimator._extra["labels"] = {"n_rows": self.n_counted, "counts": self.label_counts.tolist()}
        if self.serving:
            self.estimator._extra["serving"] = self.serving
        self.estimator._names = self.names
        self.estimator.save(path, slim, prune, precision)

    @cached_property
    def label_numbers(self) -> np.ndarray:
        """A number for each class: the label if all are non-negative integers, otherwise its position in the model."""
        classes = self.estimator.classes_
        if self.names and all(name.isdecimal() for name in self.names):
            return np.array([int(name) for name in self.names])
        integers = self.names is None and classes.dtype.kind in "iu" and classes.min() >= 0
        return classes if integers else np.arange(len(classes))

    def labels(self, indices: Any) -> list:
        """The labels of some classes, as in the data file."""
        classes = self.estimator.classes_[indices].tolist()
        return classes if self.names is None else [self.names[column] for column in classes]

    def as_labels(self, texts: Sequence[str]) -> list[Any]:
        """Labels given as text, in the type of those of the model."""
        if self.names is not None or self.estimator.classes_.dtype.kind not in "iu":
            return list(texts)
        try:
            return [int(text) for text in texts]
        except ValueError as error:
            raise ValueError(f"the labels of the model are integers, got {', '.join(texts)}.") from error


def open_model(path: str, threads: int | None = None) -> Trained:
    """Load a model file. A model saved from Python has no reading: it reads svmlight, xmc and VW files of its width."""
    estimator = load_model(path)
    if threads is not None:
        estimator.n_jobs = threads
    extra = estimator._extra
    reading = extra.get("reading")
    if reading is None:
        several = estimator._multilabel
        text = not several and isinstance(estimator.classes_[0], str)
        reading = Reading(
            n_features=estimator.n_features_in_,
            labels="several" if several else "one",
            label_kind="text" if text else "int",
            hashed=False,
        )
    training, serving = extra.get("training", {}), extra.get("serving", {})
    if not _is_record(training) or not _is_record(serving):
        raise ModelFormatError(f"{path}: the record of the training run is invalid.")
    try:
        counts, n_counted = _label_counts(extra.get("labels", {"n_rows": 0, "counts": []}), len(estimator.classes_))
    except (TypeError, ValueError, KeyError) as error:
        raise ModelFormatError(f"{path}: the description of the training data is invalid ({error}).") from error
    return Trained(estimator, reading, estimator._names, training, counts, n_counted, serving)


def _is_record(values: Any) -> bool:
    """Whether this is a record as `train` or the service writes it."""
    counted = ("epochs", "rows", "examples", "pace", "applied")
    errors = ("progressive_errors", "held_out_errors")
    return (
        isinstance(values, dict)
        and all(type(values[name]) is int and 0 <= values[name] < 2**62 for name in counted if name in values)
        and all(isinstance(values[name], list) for name in errors if name in values)
        and all(error is None or type(error) is float for name in errors for error in values.get(name, []))
    )


def _label_counts(values: Any, n_classes: int) -> tuple[np.ndarray, int]:
    """The number of training rows of each class and of all, as stored in a model."""
    counts, n_rows = values["counts"], values["n_rows"]
    sound = type(n_rows) is int and 0 <= n_rows < 2**62 and isinstance(counts, list) and len(counts) <= n_classes
    if not sound or not all(type(count) is int and 0 <= count <= n_rows for count in counts):
        raise ValueError("the number of training rows of the labels is wrong")
    return np.pad(np.array(counts, np.int64), (0, n_classes - len(counts))), n_rows


class LabelColumns:
    """Label matrices for several labels per row.

    With `names`, each name is a column, in order of appearance. Without, labels are the column numbers themselves.
    """

    def __init__(self, names: list[str] | None, n_columns: int = 0):
        self.names = names
        self.n_columns = max(1, n_columns if names is None else len(names))
        self._columns = {name: column for column, name in enumerate(names or [])}

    @classmethod
    def of_model(cls, trained: Trained) -> "LabelColumns | None":
        """The columns of a model; None for one label per row."""
        if trained.reading.labels != "several":
            return None
        n_known = len(trained.estimator.classes_) if hasattr(trained.estimator, "_index") else 0
        return cls(trained.names, max(n_known, min(trained.reading.n_labels or 0, MAX_COLUMNS)))

    def number(self, name: Any) -> int:
        """The column of a name, -1 if it is unknown."""
        return self._columns.get(name, -1)

    def matrix(self, chunk: Chunk, learn: bool) -> sp.csr_array:
        """The labels of the rows as zeros and ones. New labels get new columns, which are kept if `learn`."""
        labels, pointer = chunk.labels, chunk.pointer
        assert labels is not None and pointer is not None
        if self.names is None:
            if labels.dtype.kind != "i" or (labels < 0).any() or (labels >= MAX_COLUMNS).any():
                raise ValueError(f"the labels must be column numbers from 0 to {MAX_COLUMNS - 1:,}.")
            columns = labels.astype(np.int64)
            n_columns = max(self.n_columns, int(columns.max(initial=-1)) + 1)
        else:
            known = self._columns if learn else dict(self._columns)
            columns = np.array([known.setdefault(str(label), len(known)) for label in labels.tolist()], np.int64)
            n_columns = max(1, len(known))
            if learn:
                self.names += list(known)[len(self.names) :]
        if learn:
            self.n_columns = n_columns
        return ones(columns, pointer, n_columns)


def initial_names(reading: Reading) -> list[str] | None:
    """The column names before training: None if labels are column numbers (xmc) or rows have one label."""
    numbered = reading.format == "xmc" and (reading.n_labels or 0) <= MAX_COLUMNS
    return None if numbered or reading.labels != "several" else []


def nodes_with_labels(clf: Any) -> list[dict[str, Any]]:
    """The nodes, parents first; `labels` are the indices of all labels below a node, the most frequent first."""
    if not hasattr(clf._model, "tree_table"):
        return []
    nodes = clf._model.tree_table(clf._state)
    tree = clf._state["tree"]
    if hasattr(tree, "leaf_of"):  # a label tree has its labels in the leaves: collect them upwards
        known = np.flatnonzero(tree.leaf_of >= 0)
        known = known[np.argsort(-tree.mass[known], kind="stable")]
        owner = tree.leaf_of[known].astype(np.int64)
        below: dict[int, np.ndarray] = {}
        while len(owner) and owner[0] >= 0:  # level by level: all leaves are equally deep
            order = np.argsort(owner, kind="stable")
            owners, first = np.unique(owner[order], return_index=True)
            below |= dict(zip(owners.tolist(), np.split(known[order], first[1:]), strict=True))
            owner = tree.parent[owner].astype(np.int64)
        nodes = [{**node, "labels": below.get(node["node"], known[:0])} for node in nodes]
    return [{**node, "labels": node["labels"].tolist()} for node in nodes]
