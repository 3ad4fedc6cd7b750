"""Metrics of predictions in a taxonomy: how much of the path to the true label is right."""

from typing import Any

import numpy as np


def accuracy_by_depth(y_true: Any, y_pred: Any, taxonomy: Any) -> np.ndarray:
    """Share of the rows whose node at each depth is predicted correctly.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_rows,)
        True labels, and predicted labels or keys of nodes, such as those of `predict_path`.
    taxonomy : Taxonomy
        The tree. Rows whose true label it does not have are left out; other predictions count as wrong.

    Returns
    -------
    accuracy : ndarray of shape (depth,)
        For depth 1, 2, ..., among the rows whose true label is at least that deep. A prediction that is less deep
        counts as wrong. NaN if no true label is that deep.

    Examples
    --------
    >>> from manyclass import Taxonomy
    >>> from manyclass.metrics import accuracy_by_depth
    >>> taxonomy = Taxonomy.from_parents({"apple": "fruit", "pear": "fruit", "car": "vehicle"})
    >>> accuracy_by_depth(["apple", "pear", "car"], ["apple", "apple", "car"], taxonomy).round(2).tolist()
    [1.0, 0.67]
    """
    true, predicted = _nodes(y_true, y_pred, taxonomy)
    shared = _shared(true, predicted, taxonomy)
    depths = np.arange(1, taxonomy.depth.max(initial=0) + 1)
    n_rows = (taxonomy.depth[np.maximum(true, 0)] >= depths[:, None]).sum(axis=1)
    right = (shared >= depths[:, None]).sum(axis=1)
    return np.divide(right, n_rows, out=np.full(len(depths), np.nan), where=n_rows > 0)


def hierarchical_scores(y_true: Any, y_pred: Any, taxonomy: Any) -> tuple[float, float, float]:
    """Hierarchical precision, recall and F1.

    Each label stands for all nodes from the top to it. Precision is the share of the nodes of the predictions that are
    nodes of the true labels. Recall is the share of the nodes of the true labels that are nodes of the predictions.
    Both are over all rows together [1]_.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_rows,)
        True labels, and predicted labels or keys of nodes.
    taxonomy : Taxonomy
        The tree.

    Returns
    -------
    precision, recall, f1 : float
        0 where they are not defined.

    References
    ----------
    .. [1] Kiritchenko, Matwin, Nock and Famili: Learning and evaluation in the presence of class hierarchies, 2006.

    Examples
    --------
    >>> from manyclass import Taxonomy
    >>> from manyclass.metrics import hierarchical_scores
    >>> taxonomy = Taxonomy.from_parents({"apple": "fruit", "pear": "fruit", "car": "vehicle"})
    >>> hierarchical_scores(["apple", "car"], ["pear", "vehicle"], taxonomy)
    (0.6666666666666666, 0.5, 0.5714285714285714)
    """
    true, predicted = _nodes(y_true, y_pred, taxonomy)
    n_true, n_predicted = (int(taxonomy.depth[np.maximum(nodes, 0)].sum()) for nodes in (true, predicted))
    shared = int(_shared(true, predicted, taxonomy).sum())
    precision, recall, both = shared / max(n_predicted, 1), shared / max(n_true, 1), n_true + n_predicted
    return precision, recall, 2 * shared / max(both, 1)


def path_accuracy(y_true: Any, y_pred: Any, taxonomy: Any) -> float:
    """Share of the predictions that are the true label or a node above it.

    Use it for coarser predictions, such as those of `predict_path` of the estimators. Rows whose prediction is the root
    have no prediction and do not count: report their share, and the mean depth, as well.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (n_rows,)
        True labels, and predicted labels or keys of nodes.
    taxonomy : Taxonomy
        The tree.

    Returns
    -------
    accuracy : float
        NaN if no row has a prediction.

    Examples
    --------
    >>> from manyclass import Taxonomy
    >>> from manyclass.metrics import path_accuracy
    >>> taxonomy = Taxonomy.from_parents({"apple": "fruit", "pear": "fruit", "car": "vehicle"})
    >>> path_accuracy(["apple", "car"], ["fruit", "fruit"], taxonomy)
    0.5
    """
    true, predicted = _nodes(y_true, y_pred, taxonomy)
    inside = (predicted >= 0) & (_shared(true, predicted, taxonomy) == taxonomy.depth[predicted])
    return float(np.mean(inside[predicted != 0])) if predicted.any() else np.nan


def _nodes(y_true: Any, y_pred: Any, taxonomy: Any) -> tuple[np.ndarray, np.ndarray]:
    """The nodes of both; -1 for labels that the taxonomy does not have."""
    true, predicted = taxonomy.find(y_true), taxonomy.find(y_pred)
    if len(true) != len(predicted) or not len(true):
        raise ValueError(f"y_true has {len(true)} rows and y_pred {len(predicted)}: pass one prediction per row.")
    return true, predicted


def _shared(true: np.ndarray, predicted: np.ndarray, taxonomy: Any) -> np.ndarray:
    """How many nodes, without the root, the two paths of each row have in common."""
    return np.asarray(taxonomy.ancestors(true).multiply(taxonomy.ancestors(predicted)).sum(axis=1)).ravel() - 1
