"""Running sums of classes: their lengths, their cosines, and that moving to the hashed table keeps both."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyclass.core import linear
from manyclass.core.inputs import Dense
from manyclass.recall_tree import means_kernels as means
from manyclass.recall_tree.means import grow_means, make_means, means_bytes, no_means, slim_means


def dense(seed, n_rows, n_features, unit=1.0):
    return (unit * np.random.default_rng(seed).standard_normal((n_rows, n_features))).astype(np.float32)


def taught(group, X, labels, weights):
    for i, (label, weight) in enumerate(zip(labels, weights, strict=True)):
        means.add_row(group, label, Dense(X), i, weight)
    return group


def cosines(group, label, X):
    lengths = np.linalg.norm(X.astype(float), axis=1)
    return np.array([means.cosine(group, label, Dense(X), i, np.float32(1 / lengths[i])) for i in range(len(X))])


@given(st.integers(0, 10**6), st.sampled_from([1e-20, 1.0, 1e15]))
def test_lengths_and_cosines_are_those_of_the_sums(seed, unit):
    X, rng = dense(seed, 20, 4, unit), np.random.default_rng(seed)
    labels, weights = rng.integers(0, 3, 20), rng.uniform(0.5, 1.5, 20)
    group = taught(make_means(3, 4, 20), X, labels, weights)
    for label in range(3):
        total = weights[labels == label] @ X[labels == label].astype(float)
        assert group.sq_norm[label] == pytest.approx(total @ total, rel=1e-3, abs=1e-5 * unit**2)
        if total @ total > 1e-2 * unit**2:
            lengths = np.linalg.norm(X.astype(float), axis=1) * np.linalg.norm(total)
            np.testing.assert_allclose(cosines(group, label, X), X @ total / lengths, atol=1e-3)


def test_a_class_without_rows_and_a_row_of_zeros_start_nowhere():
    group = taught(make_means(3, 4, 20), dense(0, 2, 4), [0, 0], [1.0, 1.0])
    assert cosines(group, 1, dense(1, 3, 4)).tolist() == [0.0, 0.0, 0.0]
    nothing = np.zeros((1, 4), np.float32)
    before = group.sq_norm.copy()
    taught(group, nothing, [0], [1.0])
    np.testing.assert_array_equal(group.sq_norm, before)
    assert means.squared_length(Dense(nothing), 0) <= means.NOTHING  # so `add_start` passes it over


def test_rows_that_cancel_never_give_more_than_a_cosine():
    X = dense(2, 50, 4, 1e3)
    group = taught(make_means(1, 4, 20), np.vstack([X, -X]), np.zeros(100, int), np.ones(100))
    assert np.abs(cosines(group, 0, X)).max() <= 1.0


def free_of_collisions(rows, n_features, bits):
    return len({linear.slot(row, f, 2**bits - 1) for row in range(rows) for f in range(n_features)}) == rows * n_features


def test_moving_to_the_table_keeps_cosines_without_collisions():
    bits = next(bits for bits in range(8, 30) if free_of_collisions(4, 3, bits))
    X = dense(0, 12, 3)
    direct = taught(make_means(4, 3, bits), X, np.arange(12) % 4, np.ones(12))
    moved = grow_means(direct, 2**bits, 3, bits)
    assert moved.mask[0] == 2**bits - 1 and moved.total.shape == (1, 2**bits)
    for group in (direct, moved):  # and goes on alike
        taught(group, X[::-1].copy(), np.arange(12) % 4, np.full(12, 0.5))
    np.testing.assert_allclose(moved.sq_norm[:4], direct.sq_norm, rtol=1e-6)
    for label in range(4):
        np.testing.assert_allclose(cosines(moved, label, X), cosines(direct, label, X), atol=1e-6)


def test_collisions_leave_cosines_cosines():
    group = make_means(64, 60, 8)
    assert group.mask[0] == 255  # 3,840 sums share 256 slots
    X = dense(3, 640, 60)
    taught(group, X, np.arange(640) % 64, np.ones(640))
    assert all(np.abs(cosines(group, label, X[:20])).max() <= 1.0 for label in range(64))


def test_growing_keeps_sums_until_they_no_longer_fit():
    group = taught(make_means(4, 10, 8), dense(0, 4, 10), range(4), np.ones(4))
    larger = grow_means(group, 8, 10, 8)
    assert larger.total.shape == (8, 10) and larger.sq_norm.shape == (8,)
    np.testing.assert_array_equal(larger.total[:4], group.total)
    np.testing.assert_array_equal(larger.sq_norm[:4], group.sq_norm)
    moved = grow_means(larger, 32, 10, 8)
    assert moved.total.shape == (1, 256) and moved.sq_norm.shape == (32,)
    assert grow_means(moved, 64, 10, 8).total is moved.total
    for one in (larger, moved):
        assert slim_means(one, 3).sq_norm.shape == (3,)
    assert slim_means(larger, 3).total.shape == (3, 10) and slim_means(moved, 3).total is not None
    assert sum(array.nbytes for array in larger) == means_bytes(8, 10, 8) + 8
    assert sum(array.nbytes for array in moved) == means_bytes(32, 10, 8) + 8
    assert all(array.size == 1 for array in no_means())
