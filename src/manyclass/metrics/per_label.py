"""Judging answers label by label: every label counts the same, however rare; and groups of labels by frequency.

Truth and answers are given as in `ranking.py`.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from .ranking import _Judged, _read_truth


def macro_at_k(Y_true: Any, top_labels: Any, k: int) -> dict[str, float]:
    """Precision, recall and F1 of the first k answers, averaged over labels instead of rows.

    A label's precision is the share of its answers that are right, 0 where it is never answered; its recall is the
    share of its rows that are answered with it. Labels without a row in `Y_true` do not count.

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
    dict of str to float
        `precision`, `recall` and `f1`, the mean of the labels' own F1; all in 0..1.

    Examples
    --------
    Label 0 is found in both of its rows, label 1 in none:

    >>> from manyclass.metrics import macro_at_k
    >>> macro_at_k([0, 0, 1], [[0], [0], [0]], 1)["recall"]
    0.5
    """
    found, answered, true = _counts(Y_true, top_labels, k)
    met = true > 0
    if not met.any():
        return {"precision": 0.0, "recall": 0.0, "f1": 0.0}
    precision = found[met] / np.maximum(answered[met], 1)
    recall = found[met] / true[met]
    f1 = 2 * found[met] / (answered[met] + true[met])
    return {"precision": float(precision.mean()), "recall": float(recall.mean()), "f1": float(f1.mean())}


def recall_by_frequency(
    Y_true: Any, top_labels: Any, k: int, Y_train: Any, edges: Sequence[int] = (10, 100)
) -> list[dict[str, float]]:
    """Recall of the first k answers for rare labels, and for frequent ones.

    Parameters
    ----------
    Y_true, top_labels, k
        As for `macro_at_k`.
    Y_train : as `Y_true`
        The training rows, which say how frequent a label is.
    edges : sequence of int, default=(10, 100)
        Where groups begin and end. The default: tail (fewer than 10 training rows), middle, and head (100 and more).

    Returns
    -------
    list of dict
        For each group, rarest first: `from` and `below` (rows; infinity for the last), `labels` (with a row in
        `Y_true`), `true` (their rows in `Y_true`) and `recall`, the share of these that were answered (NaN where there
        is none).

    Examples
    --------
    >>> from manyclass.metrics import recall_by_frequency
    >>> groups = recall_by_frequency([0, 0, 1], [[0], [0], [0]], 1, Y_train=[0] * 50 + [1], edges=(10,))
    >>> [(group["labels"], group["recall"]) for group in groups]
    [(1, 0.0), (1, 1.0)]
    """
    limits = [0, *edges, float("inf")]
    if any(high <= low for low, high in pairwise(limits)):
        raise ValueError(f"edges must be whole numbers above 0 that rise, got {tuple(edges)}.")
    found, _, true = _counts(Y_true, top_labels, k)
    _, labels, _, _ = _read_truth(Y_train, "Y_train")
    frequency = np.bincount(labels, minlength=len(true))[: len(true)]
    out = []
    for low, high in pairwise(limits):
        group = (frequency >= low) & (frequency < high) & (true > 0)
        n_true = int(true[group].sum())
        recall = float(found[group].sum() / n_true) if n_true else float("nan")
        out.append({"from": low, "below": high, "labels": int(group.sum()), "true": n_true, "recall": recall})
    return out


def _counts(Y_true: Any, top_labels: Any, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of each label: right answers, answers, rows."""
    judged = _Judged(Y_true, top_labels, k)
    n = max(int(judged.labels.max(initial=-1)), int(judged.top.max(initial=-1)), (judged.n_columns or 0) - 1) + 1
    found = np.bincount(judged.top[judged.hits], minlength=n)
    answered = np.bincount(judged.top[judged.top >= 0], minlength=n)
    return found, answered, np.bincount(judged.labels, minlength=n)
