"""The filter of the spectral tree: its nodes against plain numpy, masses, depth."""

import numpy as np
import pytest

from manyclass.core.protocol import Labels
from manyclass.core.validation import as_batch
from manyclass.spectral_tree import filter as spectral_filter
from manyclass.spectral_tree.filter import (
    assemble,
    best_depth,
    cut_tree,
    find_candidates,
    grow_forest,
    grow_tree,
    nodes_of,
    rows_with,
)
from tests.reference import spectral_tree as reference
from tests.spectral_tree.rows import options_of


def rows(seed=0, n=200, d=6, k=12):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, k, n)
    X = rng.normal(size=(k, d))[y] + 0.4 * rng.normal(size=(n, d))
    X = (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32)
    return X, np.eye(k)[y], Labels(np.arange(n + 1), y.astype(np.int32))


def grow_nodes(X, labels, n_jobs=1, weights=None, **changes):
    weights = np.ones(len(X)) if weights is None else weights
    sizes = (X.shape[1], int(labels.label.max()) + 1)
    options = options_of(**changes)
    return grow_tree(options, rows_with(as_batch(X), labels, weights), sizes, options.seed, n_jobs, lambda share: None)


def grow(*args, **changes):
    return nodes_of(assemble([grow_nodes(*args, **changes)]), 6)


def test_the_first_levels_are_those_of_plain_numpy():
    X, Y, labels = rows()
    grown = grow(X, labels, max_depth=2)
    assert grown.tree.depth.max() == 2 and len(grown.tree.parent) == 7
    parts = {0: np.ones(len(X))}
    for node in range(len(grown.tree.parent)):
        mass = parts[node]
        kept = mass > 0
        expected, masses = reference.leaf_labels(Y, mass, 4)
        size = grown.candidates.size[node]
        np.testing.assert_array_equal(grown.candidates.label[node, :size], expected)
        np.testing.assert_allclose(grown.candidates.mass[node, :size], masses, rtol=1e-3)
        assert grown.counts.total[node] == pytest.approx(mass.sum(), rel=1e-3)
        left, right = grown.tree.children[node]
        if left < 0:
            continue
        chance, goes_right = reference.split(X[kept].astype(float), Y[kept], mass[kept], 0.02)
        features = grown.routers.feature[grown.routers.first[node] : grown.routers.first[node + 1]]
        weight = grown.routers.weight[grown.routers.first[node] : grown.routers.first[node + 1]]
        margin = X[kept][:, features] @ weight - grown.routers.bias[node]
        if np.corrcoef(margin, chance)[0, 1] < 0:  # an eigenvector has no sign
            goes_right = mass[kept] - goes_right
        parts[right], parts[left] = np.zeros(len(X)), np.zeros(len(X))
        parts[right][kept], parts[left][kept] = goes_right, mass[kept] - goes_right


@pytest.mark.parametrize("spread", [0.0, 1.0])
def test_no_mass_is_lost(spread):
    X, _, labels = rows(1)
    weights = np.random.default_rng(0).uniform(0.2, 3, len(X))
    grown = grow(X, labels, weights=weights, max_depth=5, spread=spread)
    for node, (left, right) in enumerate(grown.tree.children):
        if left >= 0:
            assert grown.counts.total[[left, right]].sum() == pytest.approx(grown.counts.total[node])
    inner = np.flatnonzero(grown.tree.children[:, 0] >= 0)
    share = grown.counts.total[grown.tree.children[inner, 1]] / grown.counts.total[inner]
    assert (np.abs(share - 0.5) < 0.2).all()  # the median: about half of the mass goes either way


def same_groups(one, other):
    for a, b in zip(one[:-1], other[:-1], strict=True):
        for x, y in zip(a, b, strict=True):
            np.testing.assert_array_equal(x, y)


def test_threads_change_nothing_and_rows_without_weight_are_ignored():
    X, _, labels = rows(2)
    one = grow(X, labels, max_depth=5)
    same_groups(one, grow(X, labels, n_jobs=3, max_depth=5))
    weights = (np.arange(len(X)) % 3 > 0).astype(float)
    kept = np.flatnonzero(weights)
    some, without = grow(X, labels, weights=weights), grow(X[kept], labels.rows(kept))
    np.testing.assert_allclose(some.counts.total, without.counts.total)


def test_head_labels_are_candidates_everywhere_and_not_in_the_tree():
    X, _, labels = rows(3)
    mass = np.bincount(labels.label)
    head = np.argsort(-mass, kind="stable")[:3]
    grown = grow(X, labels, n_head=3)
    np.testing.assert_array_equal(grown.candidates.label[:, :3], np.tile(head, (len(grown.tree.parent), 1)))
    assert not np.isin(grown.candidates.label[:, 3:], head).any()
    assert grown.counts.total[0] == mass.sum() - mass[head].sum()


@pytest.mark.parametrize("changes", [{"max_depth": 0}, {"n_candidates": 11}, {"n_candidates": 12}])
def test_a_node_that_need_not_be_split_stays_a_leaf(monkeypatch, changes):
    X, _, labels = rows(4)
    monkeypatch.setattr(spectral_filter, "RECALL", 0.9)
    assert grow(X, labels, max_depth=1).tree.depth.max() == 1
    assert grow(X, labels, **{"max_depth": 1, **changes}).tree.depth.max() == 0


def test_a_cut_tree_is_one_grown_less_deep():
    X, _, labels = rows(5)
    cut = cut_tree(grow_nodes(X, labels, max_depth=4), 2)
    same_groups(nodes_of(assemble([cut]), 6), grow(X, labels, max_depth=2))


def test_trees_are_numbered_one_after_the_other():
    X, _, labels = rows(8)
    one, two = grow_nodes(X, labels, max_depth=2), grow_nodes(X, labels, max_depth=3, n_candidates=2)
    both, second = assemble([one, two]), assemble([two])
    n = len(one)
    np.testing.assert_array_equal(both["forest"].root, [0, n])
    np.testing.assert_array_equal(both["tree"].parent[n + 1 :], second["tree"].parent[1:] + n)
    np.testing.assert_array_equal(np.diff(both["routers"].first)[n:], np.diff(second["routers"].first))
    leaf = both["tree"].children[:, 0] < 0
    ends = both["forest"].own_row[leaf] + both["candidates"].size[leaf]
    np.testing.assert_array_equal(both["forest"].own_row[leaf], [0, *ends[:-1]])


def test_held_out_rows_choose_the_depth():
    X, _, labels = rows(6, n=600, k=40)
    options = options_of(n_candidates=3, validate=True, max_depth=9)
    all_rows = rows_with(as_batch(X), labels, np.ones(len(X)))
    chosen = grow_forest(options, all_rows, (6, 40), 1, lambda share: None)["tree"].depth.max()
    # Few rows and few candidates: the deepest tree overfits.
    assert 0 < chosen < 9
    held_out = np.random.default_rng(options.seed).random(len(X)) < spectral_filter.HELD_OUT
    full = grow_nodes(X, labels, weights=np.where(held_out, 0.0, 1.0), max_depth=9, n_candidates=3)
    found = []
    for depth in range(full[-1].depth + 1):
        part = nodes_of(assemble([cut_tree(full, depth)]), 6)
        candidates = find_candidates(options, part, None, as_batch(X[held_out])).label
        found.append((candidates == labels.label[held_out][:, None]).any(axis=1).sum())
    assert chosen == np.argmax(found) == best_depth(options, full, all_rows, np.flatnonzero(held_out), 6)


@pytest.mark.parametrize("same", ["rows", "zeros"])
def test_rows_without_a_difference_stay_together(monkeypatch, same):
    X, _, labels = rows(7)
    X[:] = X[0] if same == "rows" else 0
    monkeypatch.setattr(spectral_filter, "CUTOFF", 1e-6)
    assert len(grow(X, labels, max_depth=8).tree.parent) == 1


def test_a_node_whose_labels_all_fit_stays_a_leaf_also_for_full_recall(monkeypatch):
    monkeypatch.setattr(spectral_filter, "RECALL", 1.0)
    for seed in range(5):
        X, _, labels = rows(seed)
        weights = np.random.default_rng(seed).uniform(0.1, 1, len(X))
        assert grow(X, labels, weights=weights, n_candidates=12).tree.depth.max() == 0
