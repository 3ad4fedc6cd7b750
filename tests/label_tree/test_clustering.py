"""Trees over labels: like labels together, branches of equal size, every label once."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from manyclass.label_tree import clustering
from manyclass.label_tree.clustering import divide, embed, grow_tree, mean_directions
from tests.reference.label_tree_states import check_structure


def rng(seed=0):
    return np.random.default_rng(seed)


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1)[:, None]


# -- the tree --------------------------------------------------------------------------------------------------


@settings(max_examples=80)
@given(st.integers(1, 300), st.integers(1, 20), st.integers(0, 10**6))
def test_parts_are_of_equal_size_and_hold_every_id_once(n, n_parts, seed):
    n_parts = min(n, n_parts)
    ids = rng(seed).permutation(400)[:n]
    parts = divide(rng(seed).standard_normal((400, 4)), ids, n_parts, rng(seed))
    assert len(parts) == n_parts
    assert sorted(np.concatenate(parts).tolist()) == sorted(ids.tolist())
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= 1


@settings(max_examples=80)
@given(st.integers(1, 400), st.integers(2, 20), st.integers(0, 10**6), st.booleans())
def test_a_tree_places_every_label_within_its_arity(n, arity, seed, all_equal):
    rows = np.ones((500, 3)) if all_equal else rng(seed).standard_normal((500, 3))
    labels = np.sort(rng(seed).permutation(500)[:n])
    tree = grow_tree(rows, labels, arity, 500, rng(seed))
    height = check_structure(tree, arity, labels.tolist())
    assert height == max(0, int(np.ceil(np.log(n) / np.log(arity) - 1e-9)) - 1)  # no deeper than need be
    leaves = tree.size[tree.is_leaf != 0]
    assert leaves.max() <= 2 * leaves.min() + 1


def hierarchy(seed, n_groups=8, n_each=8):
    """Rows of labels in groups of groups, and the group of each label; labels are in a random order."""
    random = rng(seed)
    group = random.permutation(np.repeat(np.arange(n_groups), n_each))
    signs = 2.0 * (group[:, None] >> np.arange(3) & 1) - 1
    return unit(signs * [1.5, 1.2, 1.0] + 0.15 * random.standard_normal((len(group), 3))), group


@pytest.mark.parametrize("seed", range(5))
def test_planted_groups_are_found(seed):
    rows, group = hierarchy(seed)
    tree = grow_tree(rows, np.arange(64), 8, 64, rng(seed))
    leaves = [group[tree.outputs[node, : tree.size[node]]] for node in np.flatnonzero(tree.is_leaf)]
    assert len(leaves) == 8
    assert all(len(leaf) == 8 and len(set(leaf.tolist())) == 1 for leaf in leaves)


def test_the_seed_chooses_the_tree():
    rows = rng().standard_normal((60, 5))
    trees = [grow_tree(rows, np.arange(60), 4, 60, rng(seed)) for seed in (1, 1, 2)]
    for one, same in zip(trees[0], trees[1], strict=True):
        np.testing.assert_array_equal(one, same)
    assert not np.array_equal(trees[0].leaf_of, trees[2].leaf_of)


def test_labels_without_rows_are_left_out():
    tree = grow_tree(rng().standard_normal((30, 5)), np.array([3, 4, 11, 29]), 2, 30, rng())
    assert np.flatnonzero(tree.leaf_of >= 0).tolist() == [3, 4, 11, 29]


# -- where labels lie ------------------------------------------------------------------------------------------


def rows_and_labels():
    X = rng().standard_normal((40, 7)).astype(np.float32)
    Y = (rng(1).random((40, 5)) < 0.3) * rng(2).random((40, 5))
    Y[:, 3] = 0.0  # a label without rows
    return X, Y.astype(np.float32)


def test_mean_directions_of_sparse_rows():
    X, Y = rows_and_labels()
    found = mean_directions(sp.csr_array(X), sp.csr_array(Y))
    assert sp.issparse(found)
    expected = unit(np.delete(Y.T @ X, 3, axis=0))
    np.testing.assert_allclose(np.delete(found.toarray(), 3, axis=0), expected, atol=1e-5)
    assert not found.toarray()[3].any()


def test_mean_directions_of_dense_rows_point_away_from_the_mean_of_all():
    X, Y = rows_and_labels()
    mean = (Y.T @ X).sum(axis=0) / Y.sum()
    expected = unit(np.delete(Y.T @ X - Y.sum(axis=0)[:, None] * mean, 3, axis=0))
    found = mean_directions(X + 100, sp.csr_array(Y))  # an offset of all rows is no likeness
    np.testing.assert_allclose(np.delete(found, 3, axis=0), expected, atol=1e-3)
    assert not found[3].any()


def test_mean_directions_do_not_depend_on_the_unit_of_the_weights():
    X, Y = rows_and_labels()
    once, smaller = (mean_directions(X + 5, sp.csr_array(Y * factor)) for factor in (4.0, 2.0**-20))
    np.testing.assert_allclose(once, smaller, atol=1e-4)


@pytest.mark.parametrize("few", [0, 512])
@pytest.mark.parametrize("sparse", [False, True])
def test_few_dimensions_keep_the_angles(sparse, few, monkeypatch):
    monkeypatch.setattr(clustering, "_FEW_LABELS", few)
    low = rng().standard_normal((120, 5)) @ rng(1).standard_normal((5, 90))
    low[7] = 0.0
    rows = embed(sp.csr_array(low) if sparse else low, 8, rng(2))
    assert rows.shape[1] <= 8
    others = np.delete(np.arange(120), 7)
    np.testing.assert_allclose(rows[others] @ rows[others].T, unit(low[others]) @ unit(low[others]).T, atol=1e-3)
    assert not rows[7].any()


@pytest.mark.parametrize("shape", [(20, 6), (5, 40), (1, 3), (3, 1)])
def test_few_labels_or_features_keep_all_angles(shape):
    low = rng().standard_normal(shape)
    for form in (low, sp.csr_array(low)):
        rows = embed(form, 8, rng())
        np.testing.assert_allclose(rows @ rows.T, unit(low) @ unit(low).T, atol=1e-4)


@pytest.mark.parametrize("shape", [(100, 80), (20, 6)])
def test_rows_without_values_lie_nowhere(shape):
    for form in (np.zeros(shape), sp.csr_array(shape)):
        rows = embed(form, 8, rng())
        assert len(rows) == shape[0]
        assert not rows.any()
