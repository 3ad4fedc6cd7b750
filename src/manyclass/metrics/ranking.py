"""Metrics for ranked predictions: each looks at the first k predicted labels of every row.

True labels are either an array of class ids, one per row, or an indicator matrix (rows x labels, 0 or 1), dense or
sparse. Sparse matrices stay sparse. Rows without labels score 0 and stay in the average, as in the evaluation scripts
of the Extreme Classification Repository. Remove such rows first to average over the others only.
"""

from collections.abc import Sequence
from itertools import pairwise
from operator import index
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from .matrices import as_labels


def precision_at_k(Y_true: Any, top_labels: Any, k: int) -> float:
    """Compute P@k, the fraction of correct labels among the first k predictions, averaged over rows.

    The number of correct labels is always divided by k, even if a row has fewer than k labels or fewer than k
    predictions. For data with one label per row, P@1 is the accuracy.

    Parameters
    ----------
    Y_true : array-like of int of shape (n_rows,), or array-like or sparse matrix of shape (n_rows, n_labels)
        True class ids, or an indicator matrix of the true labels.
    top_labels : array-like of int of shape (n_rows, at least k)
        Predicted label ids, best first. -1 means no prediction.
    k : int
        Number of predictions to evaluate.

    Returns
    -------
    float
        P@k, between 0 and 1.

    Raises
    ------
    ValueError
        If `Y_true` or `top_labels` have the wrong shape or contain invalid ids, or if they do not match.

    Examples
    --------
    >>> from manyclass.metrics import precision_at_k
    >>> labels = [[1, 0, 1], [0, 1, 0]]
    >>> precision_at_k(labels, [[2, 1], [0, 1]], 1), precision_at_k(labels, [[2, 1], [0, 1]], 2)
    (0.5, 0.5)
    >>> precision_at_k([2, 0, 1], [[2], [1], [1]], 1)
    0.6666666666666666
    """
    _, _, hits = find_hits(Y_true, top_labels, k)
    return float(hits.mean())


def recall_at_k(Y_true: Any, top_labels: Any, k: int) -> float:
    """Compute R@k, the fraction of true labels that are among the first k predictions, averaged over rows.

    Parameters
    ----------
    Y_true, top_labels, k
        See `precision_at_k`.

    Returns
    -------
    float
        R@k, between 0 and 1.

    Examples
    --------
    >>> from manyclass.metrics import recall_at_k
    >>> recall_at_k([[1, 0, 1], [0, 1, 0]], [[2, 1], [0, 1]], 2)
    0.75
    """
    truth, _, hits = find_hits(Y_true, top_labels, k)
    return float(np.mean(hits.sum(axis=1) / np.maximum(truth.labels_per_row(), 1)))


def ndcg_at_k(Y_true: Any, top_labels: Any, k: int) -> float:
    """Compute nDCG@k, the normalized discounted cumulative gain of the first k predictions, averaged over rows.

    A correct label at rank i (1 is the first) gains 1 / log2(i + 1). The sum is divided by the gain of a perfect
    ranking, which starts with the true labels of the row.

    Parameters
    ----------
    Y_true, top_labels, k
        See `precision_at_k`.

    Returns
    -------
    float
        nDCG@k, between 0 and 1.

    Examples
    --------
    >>> from manyclass.metrics import ndcg_at_k
    >>> round(ndcg_at_k([[1, 0, 1], [0, 1, 0]], [[2, 0], [0, 1]], 2), 4)
    0.8155
    """
    truth, top, hits = find_hits(Y_true, top_labels, k)
    gain = 1.0 / np.log2(np.arange(2, top.shape[1] + 2))
    perfect = np.cumsum(gain)[np.clip(truth.labels_per_row(), 1, top.shape[1]) - 1]
    return float(np.mean(hits @ gain / perfect))


def coverage_at_k(Y_true: Any, top_labels: Any, k: int) -> float:
    """Compute C@k, the fraction of labels that are predicted correctly for at least one row.

    Only labels that occur in `Y_true` count, and a rare label counts as much as a frequent one. The coverage is low for
    a model that predicts only frequent labels. It is 0 if `Y_true` contains no label.

    Parameters
    ----------
    Y_true, top_labels, k
        See `precision_at_k`.

    Returns
    -------
    float
        C@k, between 0 and 1.

    Examples
    --------
    >>> from manyclass.metrics import coverage_at_k
    >>> coverage_at_k([0, 0, 0, 1], [[0], [0], [0], [0]], 1)
    0.5
    """
    truth, top, hits = find_hits(Y_true, top_labels, k)
    return len(np.unique(top[hits])) / max(len(np.unique(truth.labels)), 1)


def macro_at_k(Y_true: Any, top_labels: Any, k: int) -> dict[str, float]:
    """Compute precision, recall and F1 of the first k predictions per label, averaged over labels.

    Only labels that occur in `Y_true` count. The precision of a label that is never predicted is 0.

    Parameters
    ----------
    Y_true, top_labels, k
        See `precision_at_k`.

    Returns
    -------
    dict of str to float
        `precision`, `recall` and `f1`, each between 0 and 1.

    Examples
    --------
    Label 0 is found in both of its rows, label 1 is not found:

    >>> from manyclass.metrics import macro_at_k
    >>> macro_at_k([0, 0, 1], [[0], [0], [0]], 1)["recall"]
    0.5
    """
    counts = np.stack(_label_counts(Y_true, top_labels, k)[1:])
    found, predicted, true = counts[:, counts[2] > 0]
    if not len(true):
        return {"precision": 0.0, "recall": 0.0, "f1": 0.0}
    ratios = {
        "precision": found / np.maximum(predicted, 1),
        "recall": found / true,
        "f1": 2 * found / (predicted + true),
    }
    return {name: float(ratio.mean()) for name, ratio in ratios.items()}


def recall_by_frequency(
    Y_true: Any, top_labels: Any, k: int, Y_train: Any, edges: Sequence[int] = (10, 100)
) -> list[dict[str, float]]:
    """Compute the recall of the first k predictions for groups of rare and frequent labels.

    Parameters
    ----------
    Y_true, top_labels, k
        See `precision_at_k`.
    Y_train : as `Y_true`
        True labels of the training rows. They determine how frequent a label is.
    edges : sequence of int, default=(10, 100)
        Limits between the groups, in training rows. The default gives three groups: fewer than 10 training rows, 10 to
        99, and 100 or more.

    Returns
    -------
    list of dict
        One dictionary per group, rarest labels first. `from` and `below` are the limits of the group; `below` is
        infinite for the last group. `labels` is the number of its labels that occur in `Y_true`, and `true` is how
        often they occur. `recall` is the fraction of these that were predicted (NaN if there are none).

    Raises
    ------
    ValueError
        If `edges` are not positive and increasing, or as in `precision_at_k`.

    Examples
    --------
    >>> from manyclass.metrics import recall_by_frequency
    >>> groups = recall_by_frequency([0, 0, 1], [[0], [0], [0]], 1, Y_train=[0] * 50 + [1], edges=(10,))
    >>> [(group["labels"], group["recall"]) for group in groups]
    [(1, 0.0), (1, 1.0)]
    """
    limits = [0, *edges, float("inf")]
    if any(high <= low for low, high in pairwise(limits)):
        raise ValueError(f"edges must be positive and increasing, got {tuple(edges)}.")
    labels, found, _, true = _label_counts(Y_true, top_labels, k)
    trained = _read_truth(Y_train, "Y_train").labels
    trained = trained[np.isin(trained, labels)]
    frequency = np.bincount(np.searchsorted(labels, trained), minlength=len(labels))
    return grouped_recall(found, true, frequency, limits)


def grouped_recall(
    found: np.ndarray, true: np.ndarray, frequency: np.ndarray, limits: Sequence[float]
) -> list[dict[str, float]]:
    """The groups of `recall_by_frequency` from how often each label is predicted correctly and occurs."""
    groups = []
    for low, high in pairwise(limits):
        group = (frequency >= low) & (frequency < high) & (true > 0)
        n_true = int(true[group].sum())
        recall = float(found[group].sum() / n_true) if n_true else float("nan")
        groups.append({"from": low, "below": high, "labels": int(group.sum()), "true": n_true, "recall": recall})
    return groups


def propensities(Y_train: Any, n_labels: int | None = None, A: float = 0.55, B: float = 1.5) -> np.ndarray:
    """Estimate the probability that a label is recorded for a row to which it applies.

    In large label sets, annotators miss many labels, and rare labels most often. The model of Jain et al. estimates the
    propensity of a label from the number of training rows that have it: 1 / (1 + C exp(-A log(count + B))) with
    C = (log(n_rows) - 1) (B + 1)^A.

    Parameters
    ----------
    Y_train : array-like of int of shape (n_rows,), or array-like or sparse matrix of shape (n_rows, n_labels)
        True labels of at least 3 training rows, see `precision_at_k`.
    n_labels : int, optional
        Number of labels, needed if `Y_train` is an array of class ids that lacks the last ones. By default the largest
        class id + 1, or the number of columns.
    A, B : float
        Constants of the model. The defaults are those of the paper. The Extreme Classification Repository uses A = 0.5,
        B = 0.4 for Wikipedia and A = 0.6, B = 2.6 for Amazon data.

    Returns
    -------
    ndarray of float64 of shape (n_labels,)
        Propensities, between 0 and 1.

    Raises
    ------
    ValueError
        If `Y_train` is not valid or does not match `n_labels`, or if `A` or `B` is not positive.

    References
    ----------
    Jain, Prabhu and Varma, "Extreme Multi-label Loss Functions for Recommendation, Tagging, Ranking & Other Missing
    Label Applications", KDD 2016.

    Examples
    --------
    >>> from manyclass.metrics import propensities
    >>> propensities([0, 0, 0, 0, 1], n_labels=3).round(3)
    array([0.717, 0.621, 0.553])
    """
    if not (A > 0 and B > 0):
        raise ValueError(f"A and B must be positive, got {A} and {B}.")
    truth = _read_truth(Y_train, "Y_train")
    n_known = truth.n_labels if n_labels is None else index(n_labels)
    if truth.is_matrix and n_known != truth.n_labels:
        raise ValueError(f"n_labels is {n_labels}, but Y_train has {truth.n_labels} columns; omit n_labels.")
    if n_known < truth.n_labels:
        raise ValueError(f"n_labels is {n_known}, but Y_train contains class {truth.n_labels - 1}; increase n_labels.")
    if truth.n_rows < 3:
        raise ValueError(f"propensities requires at least 3 training rows, got {truth.n_rows}.")
    return propensities_of_counts(np.bincount(truth.labels, minlength=n_known), truth.n_rows, A, B)


def propensities_of_counts(counts: np.ndarray, n_rows: int, A: float = 0.55, B: float = 1.5) -> np.ndarray:
    """The same from the number of training rows of each label and of all training rows."""
    return 1.0 / (1.0 + (np.log(n_rows) - 1.0) * (B + 1.0) ** A * (counts + B) ** -A)


def psp_at_k(Y_true: Any, top_labels: Any, k: int, propensity: Any) -> float:
    """Compute PSP@k, the propensity-scored precision of the first k predictions.

    A correct label gains 1 / propensity, so that rare labels count more. The sum over all rows is divided by the
    largest possible sum, as in the Extreme Classification Repository; it is not an average over rows. PSP@k is 0 if
    `Y_true` contains no label.

    Parameters
    ----------
    Y_true, top_labels, k
        See `precision_at_k`.
    propensity : array-like of float of shape (n_labels,)
        Propensity of each label, above 0 and at most 1, as returned by `propensities` for the training rows.

    Returns
    -------
    float
        PSP@k, between 0 and 1.

    Raises
    ------
    ValueError
        If `propensity` is not valid or does not match `Y_true`, or as in `precision_at_k`.

    Examples
    --------
    Both labels of the first row are found. The label of the second row is missed; it is rare and counts more:

    >>> from manyclass.metrics import psp_at_k
    >>> psp_at_k([[1, 1, 0], [0, 0, 1]], [[0, 1], [0, 1]], 2, propensity=[1.0, 1.0, 0.25])
    0.3333333333333333
    """
    gained, possible = psp_sums(Y_true, top_labels, k, propensity)
    return gained / possible if possible else 0.0


def psp_sums(Y_true: Any, top_labels: Any, k: int, propensity: Any) -> tuple[float, float]:
    """The two sums whose ratio is PSP@k, which can be added up over parts of the rows."""
    truth, top, hits = find_hits(Y_true, top_labels, k)
    try:
        propensity = np.asarray(propensity, dtype=np.float64)
    except (TypeError, ValueError):
        propensity = np.zeros(1)
    if propensity.ndim != 1 or not np.all((propensity > 0) & (propensity <= 1)):
        raise ValueError("propensity must be a 1-D array with one number per label, above 0 and at most 1.")
    if len(propensity) < truth.n_labels or (truth.is_matrix and len(propensity) > truth.n_labels):
        raise ValueError(
            f"propensity has {len(propensity)} entries, but Y_true has {truth.n_labels} labels; compute it from "
            "training labels with the same columns, or pass n_labels to propensities."
        )
    gain = 1.0 / propensity
    order = np.lexsort((-gain[truth.labels], truth.rows))  # per row, the most valuable labels first
    rows, gains = truth.rows[order], gain[truth.labels[order]]
    rank = np.arange(len(rows)) - np.searchsorted(rows, rows)
    return float(gain[top[hits]].sum()), float(gains[rank < top.shape[1]].sum())


class _Truth(NamedTuple):
    """True labels as (row, label) pairs, sorted by row and label."""

    rows: np.ndarray
    labels: np.ndarray
    n_rows: int
    n_labels: int  # columns of a matrix, or largest class id + 1
    is_matrix: bool

    def labels_per_row(self) -> np.ndarray:
        return np.bincount(self.rows, minlength=self.n_rows)


def find_hits(Y_true: Any, top_labels: Any, k: int) -> tuple[_Truth, np.ndarray, np.ndarray]:
    """Return the true labels, the first k predictions, and which of these are correct."""
    truth = _read_truth(Y_true, "Y_true")
    top = _read_predictions(top_labels, k, truth)
    if not truth.is_matrix:
        return truth, top, top == truth.labels[:, None]
    # A binary search for the number of each (row, label) pair avoids a dense matrix.
    pairs = truth.rows * truth.n_labels + truth.labels
    predicted = np.arange(truth.n_rows)[:, None] * truth.n_labels + top
    hits = np.append(pairs, -1)[np.searchsorted(pairs, predicted)] == predicted
    return truth, top, hits & (top >= 0)


def _label_counts(Y_true: Any, top_labels: Any, k: int) -> tuple[np.ndarray, ...]:
    """Return the labels that occur or are predicted, sorted, and how often each is found, is predicted, and occurs.

    Memory does not depend on the largest class id.
    """
    truth, top, hits = find_hits(Y_true, top_labels, k)
    parts = top[hits], top[top >= 0], truth.labels
    labels = np.union1d(parts[1], parts[2])
    return labels, *(np.bincount(np.searchsorted(labels, part), minlength=len(labels)) for part in parts)


def _read_truth(Y: Any, name: str) -> _Truth:
    """Check true labels and convert them to pairs."""
    expected = f"{name} must be a 1-D array of class ids (0, 1, ...) or a 2-D indicator matrix of zeros and ones"
    Y = Y if sp.issparse(Y) else np.asarray(Y)
    if Y.ndim > 2 or Y.ndim < 1 + sp.issparse(Y):
        raise ValueError(f"{expected}; got {Y.ndim} dimensions.")
    if Y.shape[0] == 0:
        raise ValueError(f"{name} has no rows; at least one is required.")
    if Y.ndim == 1:
        if Y.dtype.kind not in "iu":
            hint = "Pass ids, or labels and classes=model.classes_ where the metric has this argument."
            raise ValueError(f"{expected}; got an array of {Y.dtype}. {hint}")
        if Y.min() < 0:
            raise ValueError(f"{expected}; got class {Y.min()} in row {np.argmin(Y)}.")
        return _Truth(np.arange(len(Y)), Y.astype(np.int64), len(Y), int(Y.max()) + 1, False)
    if Y.dtype.kind not in "biuf":
        raise ValueError(f"{expected}; got a matrix of {Y.dtype}.")
    Y = as_labels(Y, name)
    rows = np.repeat(np.arange(Y.shape[0]), np.diff(Y.indptr))
    invalid = np.flatnonzero(Y.data != 1)
    if len(invalid):
        at = invalid[0]
        raise ValueError(f"{expected}; got {Y.data[at]} in row {rows[at]}. Pass class ids as a 1-D array.")
    return _Truth(rows, Y.indices.astype(np.int64), Y.shape[0], Y.shape[1], True)


def _read_predictions(top_labels: Any, k: int, truth: _Truth) -> np.ndarray:
    """Check predictions and return the first k of each row."""
    k, top = index(k), np.asarray(top_labels)
    if top.ndim != 2 or top.dtype.kind not in "iu":
        raise ValueError(
            f"top_labels must be a 2-D array of integers, got {top.ndim} dimensions of {top.dtype}; "
            "for one prediction per row use top_labels[:, None]."
        )
    if len(top) != truth.n_rows:
        raise ValueError(f"top_labels has {len(top)} rows, but Y_true has {truth.n_rows}; they must match.")
    if not 1 <= k <= top.shape[1]:
        raise ValueError(f"k must be in 1..{top.shape[1]}, the number of predictions per row, got {k}.")
    top = top[:, :k].astype(np.int64)
    invalid = np.argwhere((top < -1) | (top >= (truth.n_labels if truth.is_matrix else np.inf)))
    if len(invalid):
        row, column = invalid[0]
        limit = f" and below {truth.n_labels}, the number of columns of Y_true" if truth.is_matrix else ""
        raise ValueError(f"top_labels must be at least -1{limit}; got {top[row, column]} in row {row}.")
    ordered = np.sort(top, axis=1)
    repeated = np.argwhere((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0))
    if len(repeated):
        row, column = repeated[0]
        raise ValueError(f"top_labels contains label {ordered[row, column]} twice in row {row}; remove duplicates.")
    return top
