"""Online learning on several machines: every partition is learned from the same model, then the copies are merged."""

from copy import copy, deepcopy
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..core.multilabel import labels_of
from ..core.validation import as_batch
from ..label_tree.estimator import LabelTreeClassifier
from ..label_tree.merging import merge
from .cluster import Cluster
from .rows import Checked, chosen_rows


def learn_partitions(run: Cluster, model: LabelTreeClassifier, checked: list) -> LabelTreeClassifier:
    """The model after the rows of all partitions; each partition is learned by one task. Mutates: model."""
    fitted = hasattr(model, "_state")
    _check_mergeable(model)
    known = run.share(np.asarray(model._known_labels()))
    first = _once(run.get(run.each(_new_labels, [checked], known)))
    if not fitted and not any(map(len, first)):  # several labels per row, and no row has one
        first[0] = np.array([0])
    for X, y, weight in run.get(run.each(chosen_rows, [checked, first])):  # here, so that all copies have the same tree
        if len(weight):
            model.partial_fit(X, y, sample_weight=weight)
    _check_mergeable(model)
    _unpack(model)
    base = run.share(model)
    merged: LabelTreeClassifier = run.get(run.call(_merged, base, run.each(_learned, [checked, first], base)))
    return merged


def _check_mergeable(model: LabelTreeClassifier) -> None:
    if "neighbors" in getattr(model, "_state", {}):
        raise ValueError("partial_fit cannot merge models that keep training rows: fit with neighbors=False.")
    if hasattr(model, "_state") and model._index.target is not None:
        raise ValueError("partial_fit cannot merge models with removed or merged classes: use to_local().partial_fit.")


def _new_labels(checked: Checked, known: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The labels that the model does not know, the first row of each, and whether its weight is above 0.

    A row with a weight above 0 is preferred.
    """
    if sp.issparse(checked.y):
        labels = labels_of(checked.y)
        label, row = labels.label, np.repeat(np.arange(checked.y.shape[0]), np.diff(labels.pointer))
    else:
        label, row = checked.y, np.arange(len(checked.y))
    new = np.flatnonzero(~np.isin(label, known)) if len(known) else np.arange(len(label))
    new = new[np.argsort(checked.weight[row[new]] == 0, kind="stable")]
    found, place = np.unique(label[new], return_index=True)
    rows = row[new[place]]
    return found, rows, checked.weight[rows] > 0


def _once(found: list[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> list[np.ndarray]:
    """The rows of each partition whose label no earlier partition has, if possible with a weight above 0."""
    home: dict[Any, int] = {}
    for wanted in (True, False):
        for part, (labels, _, heavy) in enumerate(found):
            for label in labels[heavy == wanted].tolist():
                home.setdefault(label, part)
    return [
        np.unique(rows[np.array([home[label] == part for label in labels.tolist()], bool)])
        for part, (labels, rows, _) in enumerate(found)
    ]


def _unpack(model: LabelTreeClassifier) -> None:
    """Bring the weights into the form that online learning changes."""
    no_rows = as_batch(sp.csr_array((0, model.n_features_in_), dtype=np.float32))
    model._model.learn(model._options, model._state, no_rows, np.empty(0, np.int32), np.empty(0))


def _learned(checked: Checked, first: np.ndarray, model: LabelTreeClassifier) -> LabelTreeClassifier:
    """A copy of the model that has learned the rows of a partition except those of `first`."""
    rows, model = np.delete(np.arange(len(checked.weight)), first), deepcopy(model)
    X, y, weight = chosen_rows(checked, rows)
    return model.partial_fit(X, y, sample_weight=weight) if len(rows) else model


def _merged(model: LabelTreeClassifier, copies: list[LabelTreeClassifier]) -> LabelTreeClassifier:
    out: Any = copy(copies[0])
    out._state = merge(model._options, model._state, [one._state for one in copies])
    return out
