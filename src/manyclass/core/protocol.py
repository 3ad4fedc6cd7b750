"""What an algorithm's `model.py` offers to the code that all algorithms share.

An algorithm is a module of plain functions over a state; the shared code finds them by name. `state` is a dictionary
of groups (named tuples of arrays, see `state.py`); `options` is the algorithm's resolved options, one named tuple of
plain values that the kernels take too.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

from .classes import ClassIndex
from .inputs import Batch, gather
from .state import State


class Predictions(NamedTuple):
    """The best labels of some rows, and the work of finding them."""

    labels: np.ndarray  # (row, k) i4
    scores: np.ndarray  # (row, k) f8; -inf where a label was not scored
    work: np.ndarray  # (row, 4) i8: depth, nodes visited, routers scored, candidates scored

    @classmethod
    def empty(cls, n_rows: int, k: int) -> "Predictions":
        """Arrays for a kernel to fill; labels that it leaves out have no score."""
        return cls(np.zeros((n_rows, k), np.int32), np.full((n_rows, k), -np.inf), np.empty((n_rows, 4), np.int64))


class Scored(NamedTuple):
    """All labels that were scored for some rows, row after row."""

    sizes: np.ndarray  # (row,) number of labels
    labels: np.ndarray  # (sum of sizes,) i4
    probabilities: np.ndarray  # (sum of sizes,) f8; they sum to one over a row unless rows have several labels


class Labels(NamedTuple):
    """Labels of rows that may have several, row after row."""

    pointer: np.ndarray  # (row + 1,) i8: where the labels of a row begin
    label: np.ndarray  # (label,) i4

    def rows(self, order: np.ndarray) -> "Labels":
        """The labels of some rows, in the given order."""
        pointer, at = gather(self.pointer[order], self.pointer[order + 1] - self.pointer[order])
        return Labels(pointer, self.label[at])

    def where(self, kept: np.ndarray) -> "Labels":
        """The same rows with some of their labels; `kept` is whether each label is kept."""
        return Labels(np.concatenate([[0], np.cumsum(kept)])[self.pointer], self.label[kept])


def as_labels(labels: Any) -> Labels:
    """One label per row as lists of labels."""
    if isinstance(labels, Labels):
        return labels
    return Labels(np.arange(len(labels) + 1, dtype=np.int64), np.ascontiguousarray(labels, np.int32))


def rows_of(batch: Batch) -> int:
    """Number of rows of a batch."""
    return len(batch.values) if len(batch) == 1 else len(batch[0]) - 1


class Mixin:
    """Attributes that the mixins of an estimator share.

    The underscore marks what users must not rely on; the command line, the service and the Dask layer may use it.
    scikit-learn reserves names without one for options and for results of `fit`.
    """

    _model: Any  # a module with the functions of `Model`
    _options: Any
    _state: State
    _index: ClassIndex
    _multilabel = False  # whether rows have several labels
    _slim = False
    _extra: dict[str, Any] = {}  # "reading": how the training file was read; JSON of the command line or service
    _names: list[str] | None = None  # names of the columns of y
    n_features_in_: int
    _batch: Any
    _check_inputs: Any
    _check_options: Any
    _from_table: Any
    _names_at: Any
    _calibrated: Any
    _predict: Any
    _prediction_options: Any
    _probabilities: Any
    _scoring_blocks: Any
    get_params: Any


class Model(Protocol):
    """The functions of an algorithm's `model.py`.

    Optional functions and numbers:

    - `learn(options, state, batch, labels, weights, epoch, n_jobs)`: learn rows one by one; without it the estimator
      has no `partial_fit`;
    - `fit(options, state, X, batch, labels, weights, n_jobs, report)`: learn all rows at once and return
      the options, which it may have completed; for subclasses of `MultilabelClassifier`, which call it in `fit`;
    - `tree_table(state, max_depth)`: the nodes as dictionaries, parents first;
    - `arrays_from_file(arrays)`: the arrays of a file by name, which may be of an older version;
    - `state_from_file(state, version)`: the state of a file of this or an older version of the format;
    - `trim(state, n_classes)`: the state without spare capacity, for files;
    - `predict_one(options, state, k, n_classes)`: a faster function for single rows;
    - `PRUNES`: `slim` takes `prune`, the absolute value up to which it leaves weights out;
    - `MOST_ROWS`: rows that one call of `predict` should get;
    - `ROWS_PER_THREAD`: fewer rows are not worth another thread.
    """

    NAME: str
    Options: type
    # Group name -> type, or several types of which one fits; None among them: may be absent. `tree_*`: numbered groups.
    GROUPS: dict[str, Any]

    @property
    def init(self) -> Callable[[Any, int, int], State]:
        """(options, n_features, classes known beforehand or 0): an untrained state."""

    @property
    def predict(self) -> Callable[..., Predictions]:
        """(options, state, batch, k, n_classes): the k best labels."""

    @property
    def score(self) -> Callable[..., Scored]:
        """(options, state, batch): all candidates with their probabilities."""

    @property
    def paths(self) -> Callable[..., list[np.ndarray]]:
        """(options, state, batch): the nodes that each row passes."""

    @property
    def explain(self) -> Callable[..., list[Any]]:
        """(options, state, batch, labels): for a single row, the score of each label as `explanation.Parts`."""

    @property
    def n_nodes(self) -> Callable[[State], int]:
        """(state): number of nodes."""

    @property
    def width(self) -> Callable[[Any, State], int]:
        """(options, state): the most labels scored per row."""

    @property
    def memory(self) -> Callable[..., int]:
        """(options, n_features, n_classes[, n_rows or None, n_epochs]): approximate bytes of a trained model."""

    @property
    def check(self) -> Callable[..., None]:
        """(options, state, n_features, n_classes, slim): ModelFormatError unless kernels may run on the state."""

    @property
    def slim(self) -> Callable[..., tuple[Any, State]]:
        """(options, state, n_classes[, prune]): what predictions need."""

    @property
    def options_from_file(self) -> Callable[[dict[str, Any]], dict[str, Any]]:
        """(values): the fields of `Options` from the values in a file, which may be of an older version."""
