"""Judging ranked answers: precision, nDCG, recall, coverage and propensity scored precision of the first k.

All functions read the truth in one of two forms: a vector of class ids (0, 1, ...), one for each row, or a matrix of
rows x labels, sparse or dense, with 1 where a row has the label and 0 elsewhere. The answers are label ids, best first,
an array of rows x answers, with -1 where there is no answer. Sparse truth is never made dense. All answers lie in 0..1.

Rows without labels count as 0 and stay in the average, as in the evaluation scripts of the extreme classification
repository (pyxclib). Leave such rows out beforehand to average over the others only.
"""

from operator import index
from typing import Any

import numpy as np
import scipy.sparse as sp


def precision_at_k(Y_true: Any, top_labels: Any, k: int) -> float:
    """Compute P@k: the share of right answers among the first k, averaged over rows.

    The sum of right answers is divided by k for every row, also where fewer than k answers are given or the row has
    fewer than k labels. For one class a row, P@1 is the accuracy. A row without labels counts as 0.

    Parameters
    ----------
    Y_true : array of int of shape (n_rows,), or array or sparse matrix of shape (n_rows, n_labels)
        The classes, or an indicator matrix of the labels.
    top_labels : array of int of shape (n_rows, at least k)
        Predictions, best first; -1 is no answer.
    k : int
        How many answers count.

    Returns
    -------
    float
        In 0..1.

    Raises
    ------
    ValueError
        If truth and answers do not fit each other, or one of them is not as described.

    Examples
    --------
    >>> from manyclass.metrics import precision_at_k
    >>> labels = [[1, 0, 1], [0, 1, 0]]
    >>> precision_at_k(labels, [[2, 1], [0, 1]], 1), precision_at_k(labels, [[2, 1], [0, 1]], 2)
    (0.5, 0.5)
    >>> precision_at_k([2, 0, 1], [[2], [1], [1]], 1)
    0.6666666666666666
    """
    hits = _Judged(Y_true, top_labels, k).hits
    return float(hits.sum() / hits.size)


def recall_at_k(Y_true: Any, top_labels: Any, k: int) -> float:
    """Compute R@k: the share of a row's labels that are among its first k answers, averaged over rows.

    A row without labels counts as 0.

    Parameters
    ----------
    Y_true, top_labels, k
        As for `precision_at_k`.

    Returns
    -------
    float
        In 0..1.

    Raises
    ------
    ValueError
        As `precision_at_k`.

    Examples
    --------
    >>> from manyclass.metrics import recall_at_k
    >>> recall_at_k([[1, 0, 1], [0, 1, 0]], [[2, 1], [0, 1]], 2)
    0.75
    """
    judged = _Judged(Y_true, top_labels, k)
    return float(np.mean(judged.hits.sum(axis=1) / np.maximum(judged.n_labels_of_row(), 1)))


def ndcg_at_k(Y_true: Any, top_labels: Any, k: int) -> float:
    """Compute nDCG@k: right answers, weighted by their rank, against the best that a row allows; averaged over rows.

    A right answer in place i (from 1) is worth 1 / log2(i + 1). The sum is divided by that of an ideal answer, which
    has all labels of the row, or k of them, in front. A row without labels counts as 0.

    Parameters
    ----------
    Y_true, top_labels, k
        As for `precision_at_k`.

    Returns
    -------
    float
        In 0..1.

    Raises
    ------
    ValueError
        As `precision_at_k`.

    Examples
    --------
    >>> from manyclass.metrics import ndcg_at_k
    >>> round(ndcg_at_k([[1, 0, 1], [0, 1, 0]], [[2, 0], [0, 1]], 2), 4)
    0.8155
    """
    judged = _Judged(Y_true, top_labels, k)
    worth = 1.0 / np.log2(np.arange(2, judged.k + 2))
    ideal = np.cumsum(worth)[np.clip(judged.n_labels_of_row(), 1, judged.k) - 1]
    return float(np.mean(judged.hits @ worth / ideal))


def coverage_at_k(Y_true: Any, top_labels: Any, k: int) -> float:
    """Compute C@k: the share of labels that are rightly among the first k answers of some row.

    Only labels that occur in `Y_true` are counted. Rare labels weigh as much as common ones, so that a model which
    answers the common ones only is found out. Without any label it is 0.

    Parameters
    ----------
    Y_true, top_labels, k
        As for `precision_at_k`.

    Returns
    -------
    float
        In 0..1.

    Raises
    ------
    ValueError
        As `precision_at_k`.

    Examples
    --------
    >>> from manyclass.metrics import coverage_at_k
    >>> coverage_at_k([0, 0, 0, 1], [[0], [0], [0], [0]], 1)
    0.5
    """
    judged = _Judged(Y_true, top_labels, k)
    found, there = np.unique(judged.top[judged.hits]), np.unique(judged.labels)
    return len(found) / max(len(there), 1)


def propensities(Y_train: Any, n_labels: int | None = None, A: float = 0.55, B: float = 1.5) -> np.ndarray:
    """Estimate how likely a label is written down where it belongs, from how often it occurs in the training rows.

    The model of Jain et al.: 1 / (1 + C exp(-A log(count + B))) with C = (log(n_rows) - 1) (B + 1)^A. The rarer a
    label, the more often it is missing.

    Parameters
    ----------
    Y_train : array of int of shape (n_rows,), or array or sparse matrix of shape (n_rows, n_labels)
        The truth of the training rows; at least 3.
    n_labels : int, optional
        The number of labels, where classes come as a vector and the last of them may not occur in it. By default the
        largest class + 1, or the number of columns.
    A, B : float
        The paper's constants; its own are the default. The extreme classification repository uses A = 0.5, B = 0.4 for
        Wikipedia and A = 0.6, B = 2.6 for Amazon.

    Returns
    -------
    ndarray of float64 of shape (n_labels,)
        In 0..1.

    Raises
    ------
    ValueError
        If the truth is not as described or the constants are not above 0.

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
        raise ValueError(f"A and B must be above 0, got {A} and {B}.")
    _, labels, n_rows, n_columns = _read_truth(Y_train, "Y_train")
    largest = int(labels.max(initial=-1)) + 1
    if n_columns is not None and n_labels not in (None, n_columns):
        raise ValueError(f"Y_train has {n_columns} columns, but n_labels is {n_labels}; leave n_labels out.")
    known = largest if n_labels is None else index(n_labels)
    known = known if n_columns is None else n_columns
    if largest > known:
        raise ValueError(f"Y_train holds class {largest - 1}, but n_labels is {known}; it must be at least {largest}.")
    if n_rows < 3:
        raise ValueError(f"Propensities need at least 3 training rows, got {n_rows}.")
    counts = np.bincount(labels, minlength=known)
    return 1.0 / (1.0 + (np.log(n_rows) - 1.0) * (B + 1.0) ** A * (counts + B) ** -A)


def psp_at_k(Y_true: Any, top_labels: Any, k: int, propensity: Any) -> float:
    """Compute PSP@k: precision in which a right answer is worth 1 / propensity, so that rare labels count more.

    The sum over all rows is divided by the largest sum possible: of the k labels of each row that are worth most. (A
    ratio of sums, as in the extreme classification repository, not a mean of ratios.) A row without labels adds
    nothing to either sum; without any label the answer is 0.

    Parameters
    ----------
    Y_true, top_labels, k
        As for `precision_at_k`.
    propensity : array of float of shape (n_labels,)
        From `propensities` of the training rows, or given; above 0, at most 1.

    Returns
    -------
    float
        In 0..1.

    Raises
    ------
    ValueError
        As `precision_at_k`, or if the propensities are not as described.

    Examples
    --------
    Both right answers of the first row, none of the second, whose label is rare and worth more:

    >>> from manyclass.metrics import psp_at_k
    >>> psp_at_k([[1, 1, 0], [0, 0, 1]], [[0, 1], [0, 1]], 2, propensity=[1.0, 1.0, 0.25])
    0.3333333333333333
    """
    judged = _Judged(Y_true, top_labels, k)
    propensity = np.asarray(propensity, dtype=np.float64)
    n_labels = int(judged.labels.max(initial=-1)) + 1 if judged.n_columns is None else judged.n_columns
    if propensity.ndim != 1 or not np.all((propensity > 0) & (propensity <= 1)):
        raise ValueError("propensity must be a vector of numbers above 0 and at most 1, one for each label.")
    if len(propensity) < n_labels or (judged.n_columns is not None and len(propensity) > n_labels):
        raise ValueError(
            f"propensity has {len(propensity)} entries for {n_labels} labels of Y_true; "
            "take the propensities of the training rows with the same columns, or with n_labels."
        )
    worth = 1.0 / propensity
    reached = worth[judged.top[judged.hits]].sum()
    order = np.lexsort((-worth[judged.labels], judged.rows))
    rows, of_label = judged.rows[order], worth[judged.labels[order]]
    first = np.searchsorted(rows, rows)  # where this label's row begins
    possible = of_label[np.arange(len(rows)) - first < judged.k].sum()
    return float(reached / possible) if len(rows) else 0.0


class _Judged:
    """Truth and answers after all checks: which of the first k answers are right."""

    def __init__(self, Y_true: Any, top_labels: Any, k: int):
        self.rows, self.labels, self.n_rows, self.n_columns = _read_truth(Y_true, "Y_true")
        self.top = _read_answers(top_labels, k, self.n_rows, self.n_columns)
        self.k = self.top.shape[1]
        if self.n_columns is None:
            self.hits = self.top == self.labels[:, None]
            return
        # One number for each pair of row and label, in order: looking them up needs no dense matrix.
        pairs = self.rows * self.n_columns + self.labels
        asked = np.arange(self.n_rows)[:, None] * self.n_columns + self.top
        place = np.searchsorted(pairs, asked)
        self.hits = (np.append(pairs, -1)[place] == asked) & (self.top >= 0)

    def n_labels_of_row(self) -> np.ndarray:
        return np.bincount(self.rows, minlength=self.n_rows)


def _read_truth(Y: Any, name: str) -> tuple[np.ndarray, np.ndarray, int, int | None]:
    """Return row and id of every label, in order, the number of rows and, of a matrix, the number of columns."""
    forms = f"{name} must be a vector of class ids (0, 1, ...) or a matrix of zeros and ones, rows x labels"
    n_columns = None
    if not sp.issparse(Y):
        Y = np.asarray(Y)
    if Y.ndim == 1 and not sp.issparse(Y):
        if Y.dtype.kind not in "iu":
            raise ValueError(f"{forms}; got a vector of {Y.dtype}. Turn labels into ids, as np.unique does.")
        if Y.size and Y.min() < 0:
            raise ValueError(f"{forms}; got the class {Y.min()} in row {int(np.argmin(Y))}.")
        rows, labels = np.arange(len(Y)), Y.astype(np.int64)
    elif Y.ndim == 2:
        n_columns = Y.shape[1]
        if Y.dtype.kind not in "biuf":
            raise ValueError(f"{forms}; got a matrix of {Y.dtype}.")
        Y = sp.csr_matrix(Y, copy=True)  # the caller's matrix keeps its order
        Y.sum_duplicates()
        if odd := np.flatnonzero((Y.data != 0) & (Y.data != 1)).tolist():
            row = int(np.searchsorted(Y.indptr, odd[0], side="right")) - 1
            raise ValueError(f"{forms}; got {Y.data[odd[0]]} in row {row}. Class ids belong in a vector.")
        coordinates = Y.tocoo()
        kept = coordinates.data != 0
        rows, labels = coordinates.row[kept].astype(np.int64), coordinates.col[kept].astype(np.int64)
    else:
        raise ValueError(f"{forms}; got {Y.ndim} dimensions.")
    if Y.shape[0] == 0:
        raise ValueError(f"{name} has no rows; there is nothing to judge.")
    return rows, labels, Y.shape[0], n_columns


def _read_answers(top_labels: Any, k: int, n_rows: int, n_columns: int | None) -> np.ndarray:
    """Return the first k answers of every row as int64."""
    k, top = index(k), np.asarray(top_labels)
    if top.ndim != 2 or top.dtype.kind not in "iu":
        raise ValueError(
            f"top_labels must be an array of integers, rows x answers, got {top.ndim} dimensions of {top.dtype}; "
            "one answer a row is a column: top_labels[:, None]."
        )
    if len(top) != n_rows:
        raise ValueError(f"top_labels has {len(top)} rows, but Y_true has {n_rows}; both must judge the same rows.")
    if not 1 <= k <= top.shape[1]:
        raise ValueError(f"k must be in 1..{top.shape[1]}, the answers in a row of top_labels, got {k}.")
    top = top[:, :k].astype(np.int64)
    wrong = (top < -1) | (top >= (np.inf if n_columns is None else n_columns))
    if wrong.any():
        row, place = np.argwhere(wrong)[0]
        limit = "" if n_columns is None else f" and below {n_columns}, the columns of Y_true"
        raise ValueError(f"top_labels must hold label ids, -1 or more{limit}; got {top[row, place]} in row {row}.")
    ordered = np.sort(top, axis=1)
    twice = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)
    if twice.any():
        row, place = np.argwhere(twice)[0]
        raise ValueError(f"top_labels holds label {ordered[row, place]} twice in row {row}; each answer counts once.")
    return top
