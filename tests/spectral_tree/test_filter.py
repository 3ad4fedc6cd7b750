"""The filter of the spectral tree: its nodes against plain numpy, masses, cut-offs, depth."""

import numpy as np
import pytest

from manyclass import SpectralTreeClassifier
from manyclass.core.protocol import Labels
from manyclass.core.validation import as_batch
from manyclass.spectral_tree.filter import Growth, cut_filter, gather, grow_filter, join
from manyclass.spectral_tree.model import grow_filters
from manyclass.spectral_tree.state import options_of
from tests.reference import spectral_tree as reference


def rows(seed=0, n=200, d=6, k=12):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, k, n)
    X = rng.normal(size=(k, d))[y] + 0.4 * rng.normal(size=(n, d))
    X = (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32)
    return X, np.eye(k)[y], Labels(np.arange(n + 1), y.astype(np.int32))


def grow(X, labels, n_jobs=1, weights=None, **changes):
    growth = Growth(3, 4, 0, 0.999, 1.0, 0.02, 0)._replace(**changes)
    weights = np.ones(len(X)) if weights is None else weights
    sizes = (X.shape[1], int(labels.label.max()) + 1)
    return grow_filter(as_batch(X), labels, weights, sizes, growth, n_jobs, lambda share: None)


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
def test_mass_is_shared_out_and_never_lost(spread):
    X, _, labels = rows(1)
    weights = np.random.default_rng(0).uniform(0.2, 3, len(X))
    grown = grow(X, labels, weights=weights, max_depth=5, spread=spread)
    for node, (left, right) in enumerate(grown.tree.children):
        if left >= 0:
            assert grown.counts.total[[left, right]].sum() == pytest.approx(grown.counts.total[node])
    inner = np.flatnonzero(grown.tree.children[:, 0] >= 0)
    share = grown.counts.total[grown.tree.children[inner, 1]] / grown.counts.total[inner]
    assert (np.abs(share - 0.5) < 0.2).all()  # the median: about half of the mass goes either way


def test_threads_change_nothing_and_rows_of_no_weight_are_not_there():
    X, _, labels = rows(2)
    one = grow(X, labels, max_depth=5)
    for a, b in zip(one, grow(X, labels, n_jobs=3, max_depth=5), strict=True):
        for x, y in zip(a, b, strict=True):
            np.testing.assert_array_equal(x, y)
    weights = (np.arange(len(X)) % 3 > 0).astype(float)
    kept = np.flatnonzero(weights)
    some, without = grow(X, labels, weights=weights), grow(X[kept], labels.rows(kept))
    np.testing.assert_allclose(some.counts.total, without.counts.total)


def test_head_labels_are_candidates_everywhere_and_no_concern_of_the_tree():
    X, _, labels = rows(3)
    mass = np.bincount(labels.label)
    head = np.argsort(-mass, kind="stable")[:3]
    grown = grow(X, labels, n_head=3)
    np.testing.assert_array_equal(grown.candidates.label[:, :3], np.tile(head, (len(grown.tree.parent), 1)))
    assert not np.isin(grown.candidates.label[:, 3:], head).any()
    assert grown.counts.total[0] == mass.sum() - mass[head].sum()


@pytest.mark.parametrize(("changes", "depth"), [({"max_depth": 0}, 0), ({"recall": 0.0}, 0), ({"n_candidates": 12}, 0)])
def test_a_node_that_need_not_be_split_stays_a_leaf(changes, depth):
    X, _, labels = rows(4)
    assert grow(X, labels, **changes).tree.depth.max() == depth


def test_a_cut_filter_is_one_grown_less_deep():
    X, _, labels = rows(5)
    deep, shallow = cut_filter(grow(X, labels, max_depth=4), 2), grow(X, labels, max_depth=2)
    for a, b in zip(deep, shallow, strict=True):
        for name, x, y in zip(a._fields, a, b, strict=True):
            if name not in ("bias", "spread"):  # of leaves: nobody asks
                np.testing.assert_array_equal(x, y)


def test_held_out_rows_choose_the_depth():
    X, _, labels = rows(6, n=600, k=40)
    clf = SpectralTreeClassifier(n_candidates=3, max_depth=9, validation_fraction=0.3)
    clf._n_known = 40
    config = clf._make_config(X.shape[1], False, 1)
    args = (as_batch(X), labels, np.ones(len(X)), (X.shape[1], 40), 1, lambda share: None)
    chosen = grow_filters(config, *args)[0]
    # few rows, few candidates: the deepest tree remembers the rows it saw and forgets the others
    assert 0 < chosen.tree.depth.max() < 9
    held_out = np.random.default_rng(config.seed).random(len(X)) < config.held_out
    weights = np.where(held_out, 0.0, 1.0)
    growth = Growth(9, 3, 0, config.recall, config.spread, config.cutoff, config.seed)
    full = grow_filter(args[0], labels, weights, args[3], growth, 1, args[-1])
    found = []
    for depth in range(full.tree.depth.max() + 1):
        part = join([cut_filter(full, depth)])
        _, candidates, _ = gather(part, as_batch(X[held_out]), options_of(config, X.shape[1]))
        found.append((candidates == labels.label[held_out][:, None]).any(axis=1).sum())
    assert chosen.tree.depth.max() == np.argmax(found)


@pytest.mark.parametrize("same", ["rows", "zeros"])
def test_rows_that_nothing_parts_stay_together(same):
    X, _, labels = rows(7)
    X[:] = X[0] if same == "rows" else 0
    assert len(grow(X, labels, max_depth=8, cutoff=1e-6).tree.parent) == 1


def test_a_node_whose_labels_all_fit_stays_a_leaf_also_for_full_recall():
    for seed in range(5):
        X, _, labels = rows(seed)
        weights = np.random.default_rng(seed).uniform(0.1, 1, len(X))
        assert grow(X, labels, weights=weights, n_candidates=12, recall=1.0).tree.depth.max() == 0
