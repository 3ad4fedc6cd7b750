"""Partitions of rows: checked by the workers that hold them, encoded, and cut at multiples of `ALIGNED` rows."""

import warnings
from itertools import pairwise
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from dask import delayed
from dask.base import is_dask_collection
from sklearn.base import clone

from ..core.classes import ClassIndex
from ..core.columns import ColumnScaling, apply, as_matrix, column_sizes, column_sums, columns_of, larger
from ..core.inputs import Csr, rows_at
from ..core.multilabel import column_names, labels_of
from ..core.protocol import Labels, as_labels
from ..core.state import Array
from ..core.steps import add
from ..core.validation import NARROW, as_batch, is_indicator, without_padding
from ..label_tree.estimator import LabelTreeClassifier
from ..label_tree.parts import ALIGNED, Given, join_batches
from ..metrics import ThresholdSearch
from .cluster import Cluster


class Checked(NamedTuple):
    """A partition that the estimator accepts."""

    X: Any
    y: Any  # one label per row, or a sparse matrix of zeros and ones
    weight: Array


class Info(NamedTuple):
    """What all partitions must agree on, and sizes."""

    n_rows: int
    n_features: int
    sparse: bool
    feature_names: tuple | None
    multilabel: bool
    n_columns: int
    label_type: tuple  # (sparse, type) of a matrix, (kind,) of labels
    n_learned: int  # rows with a weight above 0
    n_labels: int  # of these rows
    label_names: tuple | None = None  # columns of a data frame y


def partitions(X: Any, y: Any, sample_weight: Any = None) -> list:
    """(X, y, weights) of each partition, as a tuple or as a delayed object that computes one."""
    if y is None and isinstance(X, (list, tuple)):
        if sample_weight is not None:
            raise ValueError("sample_weight requires y; without y, each partition is a tuple (X, y, weights).")
        return list(X)
    lists = [_blocks(X, "X"), _blocks(y, "y")]
    lists.append([None] * len(lists[0]) if sample_weight is None else _blocks(sample_weight, "sample_weight"))
    for name, own in zip(("y", "sample_weight"), lists[1:], strict=True):
        if len(own) != len(lists[0]):
            raise ValueError(
                f"X has {len(lists[0])} partitions but {name} has {len(own)}: rechunk or repartition them alike."
            )
    return list(zip(*lists, strict=True))


def _blocks(given: Any, name: str) -> list:
    """The partitions of a Dask array, data frame or bag, or a list of partitions."""
    if isinstance(given, (list, tuple)):
        return list(given)
    if not is_dask_collection(given) or not hasattr(given, "to_delayed"):
        raise TypeError(
            f"{name} must be a Dask array or data frame, or a list of partitions (delayed, futures or arrays), got "
            f"{type(given).__name__}. For data in memory use LabelTreeClassifier."
        )
    blocks = np.asarray(given.to_delayed(), dtype=object)
    if blocks.ndim == 2 and blocks.shape[1] > 1:
        raise ValueError(
            f"{name} is cut into {blocks.shape[1]} blocks of columns: a row must be in one block. Use "
            f"{name}.rechunk({{1: -1}})."
        )
    return blocks.ravel().tolist()


def check(part: tuple, estimator: LabelTreeClassifier, number: int) -> tuple[Checked, Info]:
    """A partition in the form of `fit`, or the error that `fit` would raise."""
    if not isinstance(part, (list, tuple)) or len(part) != 3 or part[1] is None:
        raise ValueError(f"partition {number} has no labels: pass y, or partitions (X, y, weights) without y.")
    X, y, weight = part
    y, estimator = without_padding(y), clone(estimator)  # other tasks may have the same object
    if not (X.shape[0] if hasattr(X, "shape") else len(X)):
        return Checked(X, y, np.empty(0)), Info(0, 0, False, None, False, 0, (), 0, 0)
    label_type: tuple
    label_names = tuple(column_names(y, 0)) if is_indicator(y) and hasattr(y, "columns") else None
    try:
        if is_indicator(y):
            X, y, weight = estimator._check_matrix(X, y, weight, reset=True)
            label_type = estimator._sparse_y, estimator._y_dtype
            sizes = np.diff(y.indptr)
        else:
            X, y, weight = estimator._check_rows(X, y, weight, reset=True)
            label_type, sizes = (y.dtype.kind,), np.ones(len(y), int)
    except ValueError as error:
        raise ValueError(f"partition {number}: {error}") from error
    names = getattr(estimator, "feature_names_in_", None)
    learned = weight > 0
    info = Info(
        X.shape[0],
        X.shape[1],
        sp.issparse(X),
        None if names is None else tuple(names),
        sp.issparse(y),
        y.shape[1] if sp.issparse(y) else 0,
        label_type,
        int(learned.sum()),
        int(sizes[learned].sum()),
        label_names,
    )
    return Checked(X, y, weight), info


def agreed(infos: list[Info]) -> Info:
    """What holds for all partitions; ValueError if they do not agree."""
    numbers = [k for k, info in enumerate(infos) if info.n_rows]
    infos = [info for info in infos if info.n_rows]
    if not infos:
        raise ValueError("X has no rows in any partition: there is nothing to learn.")
    for name, what in (
        ("n_features", "features"),
        ("sparse", "sparse rows (True) and dense rows (False)"),
        ("feature_names", "names of features"),
        ("multilabel", "a matrix y (True) and one label per row (False)"),
        ("n_columns", "columns of y"),
        ("label_type", "types of y"),
        ("label_names", "names of labels"),
    ):
        values = [getattr(info, name) for info in infos]
        other = next((k for k, value in enumerate(values) if value != values[0]), None)
        if other is not None:
            raise ValueError(
                f"Partitions have different {what}: {values[0]} in partition {numbers[0]}, {values[other]} in "
                f"partition {numbers[other]}."
            )
    sums = (sum(getattr(info, name) for info in infos) for name in ("n_rows", "n_learned", "n_labels"))
    n_rows, n_learned, n_labels = sums
    return infos[0]._replace(n_rows=n_rows, n_learned=n_learned, n_labels=n_labels)


def labels_in(checked: Checked) -> Array:
    """The labels of a partition, each once."""
    return np.unique(checked.y)


def count_labels(checked: Checked, classes: Array) -> Array:
    """The rows of each class with a weight above 0."""
    return np.bincount(np.searchsorted(classes, checked.y), checked.weight > 0, len(classes))


def encode(checked: Checked, classes: Array | None, class_weight: Any) -> Given:
    """The rows with a weight above 0; `class_weight` is an array, a dict or None."""
    X, y, weight = checked
    if sp.issparse(y):
        labels = labels_of(y)
    else:
        assert classes is not None
        labels = as_labels(ClassIndex(classes).encode(y))
        if isinstance(class_weight, dict):
            weight = weight * np.array([class_weight.get(label, 1.0) for label in y.tolist()], float)
        elif class_weight is not None:
            weight = weight * class_weight[labels.label]
    batch = as_batch(X)
    if not weight.all():  # rows of weight 0 have no effect at all
        kept = np.flatnonzero(weight)
        batch, labels, weight = rows_at(batch, kept), labels.rows(kept), weight[kept]
    return Given(batch, labels, weight)


def chosen_rows(checked: Checked, rows: Array) -> Checked:
    """Some rows of a partition."""
    return Checked(*(array[rows] for array in checked))


def has_weight(checked: Checked) -> Array:
    """Whether the weight of each row is above 0."""
    return checked.weight > 0


def rows_of_labels(checked: Checked) -> Array:
    """The number of rows of each label, with several labels per row."""
    return np.bincount(checked.y.indices, minlength=checked.y.shape[1])


def known_labels(given: Given, known: Array) -> Given:
    """The rows without labels that are not known."""
    return given._replace(labels=given.labels.where(known[given.labels.label]))


def n_labels_of(given: Given) -> int:
    """Number of labels of all rows."""
    return len(given.labels.label)


def search_threshold(given: Given, model: LabelTreeClassifier) -> ThresholdSearch:
    """The micro-F1 of the predictions of a block of rows at each threshold."""
    return model._search_threshold(as_matrix(given.batch, model.n_features_in_), given.labels)


def rows_between(given: Given, first: int, last: int) -> Given:
    """Rows first..last-1."""
    chosen = np.arange(first, last)
    return Given(rows_at(given.batch, chosen), given.labels.rows(chosen), given.weight[first:last])


def join(*parts: Given) -> Given:
    """The rows of all, in order."""
    sizes = np.concatenate([np.diff(part.labels.pointer) for part in parts])
    labels = Labels(np.concatenate([[0], np.cumsum(sizes)]), np.concatenate([part.labels.label for part in parts]))
    return Given(join_batches([part.batch for part in parts]), labels, np.concatenate([part.weight for part in parts]))


def edges_of(n_rows: int, n_parts: int) -> list[int]:
    """Where to cut all rows: parts of about the same size that begin at multiples of `ALIGNED`."""
    inner = np.unique(np.linspace(0, n_rows, n_parts + 1)[1:-1].astype(int) // ALIGNED * ALIGNED)
    return [0, *inner[inner > 0].tolist(), n_rows]


def align(run: Cluster, given: list, sizes: list[int], edges: list[int]) -> list:
    """The same rows, cut at the edges instead."""
    firsts = np.concatenate([[0], np.cumsum(sizes)]).tolist()
    out = []
    for first, last in pairwise(edges):
        own = []
        for number, begin in enumerate(firsts[:-1]):
            low, high = max(first, begin), min(last, firsts[number + 1])
            if low < high:
                whole = high - low == sizes[number]
                piece = given[number] if whole else run.call(rows_between, given[number], low - begin, high - begin)
                own.append(piece)
        out.append(own[0] if len(own) == 1 else run.call(join, *own))
    return out


def scale_columns(run: Cluster, given: list, n_features: int) -> tuple[list, ColumnScaling | None]:
    """The rows with columns of comparable size, dense ones centred, and what was changed."""
    sizes = run.combine(larger, run.each(_column_sizes, [given], n_features))
    sums = run.combine(add, run.each(_column_sums, [given], sizes))
    columns = run.get(run.call(columns_of, sums, run.call(_is_dense, given[0])))
    if columns is None:
        return given, None
    return run.each(_scaled, [given], run.call(ColumnScaling, *columns)), columns


def _column_sizes(given: Given, n_features: int) -> Any:
    return column_sizes(given.batch, given.weight, n_features)


def _column_sums(given: Given, sizes: Any) -> Any:
    return column_sums(given.batch, given.weight, sizes)


def _is_dense(given: Given) -> bool:
    return not isinstance(given.batch, Csr)


def _scaled(given: Given, columns: ColumnScaling) -> Given:
    return given._replace(batch=apply({"scaling": columns}, given.batch))


def is_sparse(info: Info) -> bool:
    """Whether kernels get sparse rows."""
    return info.sparse and info.n_features > NARROW


def checked_parts(run: Cluster, parts: list, estimator: LabelTreeClassifier) -> tuple[list, list[Info]]:
    """Futures of the partitions with rows, checked, and what is known of each."""
    if not run.client.nthreads():
        warnings.warn("The cluster has no workers: waiting for the first one.", stacklevel=4)
    parts = [delayed(tuple)(list(part)) if isinstance(part, (list, tuple)) else part for part in parts]
    tasks = [delayed(check)(part, estimator, k) for k, part in enumerate(parts)]
    pairs = run.compute(tasks)
    infos = run.get(run.each(itemgetter(1), [pairs]))
    full = [pair for pair, info in zip(pairs, infos, strict=True) if info.n_rows]
    return run.each(itemgetter(0), [full]) if full else [], infos
