"""The k best of many, kept sorted."""

import numpy as np

from ..jit import device, kernel

_FEW = 256  # inserting one by one takes O(k) for each


@device
def offer(labels, scores, size, label, score):
    """Insert (label, score) into the k best; return the new size. Of equal scores the first stays ahead.

    Mutates: labels, scores. Cost: O(k).
    """
    k = labels.shape[0]
    if size == k:
        if not score > scores[k - 1]:
            return size
        at = k - 1
    else:
        at = size
        size += 1
    while at > 0 and scores[at - 1] < score:
        labels[at], scores[at] = labels[at - 1], scores[at - 1]
        at -= 1
    labels[at], scores[at] = label, score
    return size


def best_columns(scores: np.ndarray, labels_out: np.ndarray, scores_out: np.ndarray) -> None:
    """The best columns of each row of a score matrix, best first. Mutates: labels_out, scores_out.

    Cost: O(n x K) for a small number of columns, O(n x K log K) for a large one.
    """
    k = labels_out.shape[1]
    if k <= _FEW:
        _best_few(scores, labels_out, scores_out)
    else:
        labels_out[:] = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        scores_out[:] = np.take_along_axis(scores, labels_out, axis=1)


@kernel
def _best_few(scores, labels_out, scores_out):
    for r in range(scores.shape[0]):
        size = np.int64(0)
        for c in range(scores.shape[1]):
            size = offer(labels_out[r], scores_out[r], size, c, scores[r, c])
