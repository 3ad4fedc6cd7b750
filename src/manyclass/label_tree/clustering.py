"""A tree over labels from their mean rows: like labels near each other, all branches of about the same size."""

import math
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import eigh

from ..core.state import LabelTree, make

_POWER_STEPS, _SWEEPS = 2, 10
_FEW_LABELS = 512


def mean_directions(X: Any, Y: sp.csr_array) -> Any:
    """The sum of each label's rows, scaled to length 1; sparse if X is. Labels without rows give zeros."""
    sums = Y.T.tocsr() @ X
    if sp.issparse(sums):
        lengths = np.sqrt(np.asarray(sums.multiply(sums).sum(axis=1)).ravel())
        return sp.csr_array(sp.diags_array(_inverse(lengths)) @ sums)
    share = np.asarray(Y.sum(axis=0))
    sums = sums - sums.sum(axis=0) * (share / max(share.sum(), 1e-30))[:, None]
    return sums * _inverse(np.linalg.norm(sums, axis=1))[:, None]


def _inverse(lengths: np.ndarray) -> np.ndarray:
    return np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)


def _orthonormal(columns: np.ndarray) -> np.ndarray:
    """An orthonormal basis of the columns' span, from their few inner products (20x faster than QR here)."""
    values, vectors = np.linalg.eigh((columns.T @ columns).astype(np.float64))
    used = values > max(values.max(initial=0.0) * 1e-12, 1e-30)
    return columns @ (vectors[:, used] / np.sqrt(values[used])).astype(np.float32)


def _from_products(directions: Any, n_dims: int) -> np.ndarray:
    """Rows whose inner products are those of the directions, as nearly as so many dimensions allow."""
    products = directions @ directions.T
    products = np.asarray(products.toarray() if sp.issparse(products) else products, np.float64)
    n = len(products)
    values, vectors = eigh(products, subset_by_index=(max(0, n - n_dims), n - 1))
    values[values <= values.max(initial=0.0) * 1e-12] = 0.0
    rows = vectors * np.sqrt(values)
    rows[np.diagonal(products) == 0.0] = 0.0  # not rounding errors: they would be scaled up
    return rows


def embed(directions: Any, n_dims: int, rng: np.random.Generator) -> np.ndarray:
    """Rows in the few dimensions that hold most of them, scaled to length 1.

    Few rows: from all their inner products. Many: a randomised SVD.
    """
    if directions.shape[0] <= _FEW_LABELS:
        rows = _from_products(directions, n_dims)
        return np.asarray(rows * _inverse(np.linalg.norm(rows, axis=1))[:, None], np.float32)
    basis = rng.standard_normal((directions.shape[1], min(n_dims, *directions.shape))).astype(np.float32)
    for _ in range(_POWER_STEPS):
        basis = _orthonormal(directions.T @ _orthonormal(directions @ basis))
    rows = directions @ basis
    return np.asarray(rows * _inverse(np.linalg.norm(rows, axis=1))[:, None], np.float32)


def _halve(rows: np.ndarray, n_left: int, rng: np.random.Generator) -> np.ndarray:
    """Which rows go left, n_left of them: two-means with a fixed number on each side."""
    n = len(rows)
    a, b = rng.choice(n, 2, replace=False)
    direction = rows[a] - rows[b]
    left = np.zeros(n, bool)
    for _ in range(_SWEEPS):
        best = np.argpartition(-(rows @ direction), n_left - 1)[:n_left]
        new = np.zeros(n, bool)
        new[best] = True
        if np.array_equal(new, left):
            break
        left = new
        means = rows[left].sum(axis=0), rows[~left].sum(axis=0)
        direction = means[0] / max(np.linalg.norm(means[0]), 1e-9) - means[1] / max(np.linalg.norm(means[1]), 1e-9)
    return left


def divide(rows: np.ndarray, ids: np.ndarray, n_parts: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Divide ids into parts of like rows and equal size (one more or less), by halves."""
    if n_parts <= 1 or len(ids) <= 1:
        return [ids]
    n_left_parts = n_parts // 2
    n_left = min(max(1, round(len(ids) * n_left_parts / n_parts)), len(ids) - 1)
    left = _halve(rows[ids], n_left, rng)
    return divide(rows, ids[left], n_left_parts, rng) + divide(rows, ids[~left], n_parts - n_left_parts, rng)


def grow_tree(rows: np.ndarray, labels: np.ndarray, arity: int, n_classes: int, rng: np.random.Generator) -> LabelTree:
    """A tree over `labels` with at most `arity` outputs a node, all leaves at the same depth.

    Parameters
    ----------
    rows : array of shape (n_classes, n_dims)
        Where each label lies.
    labels : array of int
        The labels to place.
    arity : int
        Most outputs of a node.
    n_classes : int
        Length of the label arrays.
    rng : Generator
        Source of the starts of two-means.
    """
    levels: list[list[np.ndarray]] = [[labels]]
    height = 0
    while arity ** (height + 1) < len(labels):
        height += 1
    parents: list[list[int]] = [[-1]]
    for below in range(height, 0, -1):
        groups, above = [], []
        for number, ids in enumerate(levels[-1]):
            n_leaves = math.ceil(len(ids) / arity)
            # As even as can be: the same number of children on all levels below.
            fewest, even = math.ceil(n_leaves / arity ** (below - 1)), math.ceil(n_leaves ** (1 / below) - 1e-9)
            n_parts = min(arity, max(fewest, even))
            parts = divide(rows, ids, n_parts, rng)
            groups += parts
            above += [number] * len(parts)
        levels.append(groups)
        parents.append(above)
    n_nodes = sum(map(len, levels))
    tree = make(LabelTree, node=n_nodes, output=arity, **{"class": n_classes})
    first = 0
    for level, (groups, above) in enumerate(zip(levels, parents, strict=True)):
        for number, ids in enumerate(groups):
            node = first + number
            if level:
                _append(tree, first - len(levels[level - 1]) + above[number], node)
            if level == height:
                tree.outputs[node, : len(ids)] = ids
                tree.size[node] = len(ids)
                tree.leaf_of[ids], tree.place_of[ids] = node, np.arange(len(ids))
            else:
                tree.is_leaf[node] = 0
        first += len(groups)
    tree.n_nodes[0] = n_nodes
    return tree


def _append(tree: LabelTree, parent: int, node: int) -> None:
    tree.parent[node], tree.place[node] = parent, tree.size[parent]
    tree.outputs[parent, tree.size[parent]] = node
    tree.size[parent] += 1
