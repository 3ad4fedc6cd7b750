"""A tree written as one-against-all over its path features: the proposition of [RT §3.2] as a construction."""

from typing import Any

import numpy as np
import scipy.sparse as sp


def path_weights(parent: Any, labels: Any, n_labels: int | None = None) -> sp.csr_array:
    """Construct one-against-all weights over path features that answer as a tree does. [RT §3.2, Proposition]

    The path features of a row are one indicator for each node that it passes, root included (`decision_path`). Times
    these weights they score 1 for the labels of the node at which the row stops and 0 for all others.

    The weights are 1 for the labels of a node and −1 for those of the nearest node above that has labels: along a path
    all terms cancel but the last. Where only leaves have labels, these are the weights of the paper's proof. The paper
    needs that; a tree that stops at inner nodes too, as the Recall Tree does, needs the −1.

    Parameters
    ----------
    parent : array of int of shape (n_nodes,)
        Parent of each node, -1 for the root.
    labels : array of int of shape (n_nodes,) or (n_nodes, n_candidates)
        What each node answers, or its candidates; -1 is none. A node at which no row stops needs no label.
    n_labels : int, optional
        Number of labels; by default the largest + 1.

    Returns
    -------
    csr_array of float64 of shape (n_nodes, n_labels)
        All weights are -1, 0 or 1. With candidates, scores of labels by other features plus a large multiple of these
        choose the best candidate.

    Raises
    ------
    ValueError
        If the nodes are no tree, or the labels do not fit them.

    Examples
    --------
    A root with two leaves, which answer 2 and 0; one row goes to each leaf:

    >>> from reproduce.theory.path_weights import path_weights
    >>> weights = path_weights([-1, 0, 0], [-1, 2, 0])
    >>> ([[1, 1, 0], [1, 0, 1]] @ weights).argmax(axis=1)
    array([2, 0])
    """
    parent, labels = np.asarray(parent), np.asarray(labels)
    labels = labels[:, None] if labels.ndim == 1 else labels
    n_nodes = len(parent)
    if parent.ndim != 1 or labels.ndim != 2 or len(labels) != n_nodes or n_nodes == 0:
        raise ValueError(f"parent and labels must have one entry for each node, got {parent.shape}, {labels.shape}.")
    if {parent.dtype.kind, labels.dtype.kind} - set("iu"):
        raise ValueError(f"parent and labels must hold integers, got {parent.dtype} and {labels.dtype}.")
    largest = int(labels.max(initial=-1))
    width = largest + 1 if n_labels is None else n_labels
    if labels.min(initial=0) < -1 or largest >= width:
        raise ValueError(f"labels must be in -1..{width - 1}, got {labels.min()}..{largest}.")
    above = _nearest_with_labels(parent, (labels >= 0).any(axis=1))

    node, place = np.nonzero(labels >= 0)
    own = sp.coo_array((np.ones(len(node)), (node, labels[node, place])), shape=(n_nodes, width)).tocsr()
    if own.nnz and own.data.max() > 1:
        raise ValueError("labels holds a label twice for one node.")
    there = np.flatnonzero((above >= 0) & (labels >= 0).any(axis=1))
    picked = sp.csr_array((np.ones(len(there)), (there, above[there])), shape=(n_nodes, n_nodes))
    weights = sp.csr_array(own - picked @ own)
    weights.eliminate_zeros()
    return weights


def _nearest_with_labels(parent: np.ndarray, has_labels: np.ndarray) -> np.ndarray:
    """For each node the nearest node above it that has labels, -1 where there is none."""
    n_nodes = len(parent)
    if np.count_nonzero(parent < 0) != 1 or parent.min() < -1 or parent.max() >= n_nodes:
        raise ValueError("parent must name nodes, and -1 for exactly one of them, the root.")
    reached = parent.astype(np.int64)
    for _ in range(n_nodes):
        reached = np.where(reached < 0, -1, parent[reached])
        if np.all(reached < 0):
            break
    else:
        raise ValueError("parent has a cycle: some nodes do not hang from the root.")
    above = parent.astype(np.int64)
    while True:  # one turn a level of the longest stretch without labels
        skip = (above >= 0) & ~has_labels[above]
        if not skip.any():
            return above
        above[skip] = parent[above[skip]]
