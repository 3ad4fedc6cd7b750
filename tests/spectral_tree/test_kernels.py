"""Kernels of the spectral tree against plain numpy."""

import numpy as np
import pytest
import scipy.sparse as sp

from manyclass.core.inputs import Csr, Dense
from manyclass.core.linear import make_bank
from manyclass.core.losses import LOGISTIC, SOFTMAX
from manyclass.core.state import Scale, Seen, make
from manyclass.core.updates import SGD
from manyclass.core.validation import as_batch
from manyclass.spectral_tree.blocks import learn_leaf
from manyclass.spectral_tree.filter import STEPS
from manyclass.spectral_tree.node import split_node
from manyclass.spectral_tree.paths import OWN_BIAS, OWN_NOTHING, Options
from tests.reference import spectral_tree as reference


def rows(seed, n=60, d=9, k=7, several=False):
    rng = np.random.default_rng(seed)
    Y = np.zeros((n, k))
    for i in range(n):
        Y[i, rng.choice(k, rng.integers(1, 4) if several else 1, replace=False)] = 1
    X = Y @ rng.normal(size=(k, d)) + 0.3 * rng.normal(size=(n, d))
    X[np.abs(X) < 0.5] = 0  # sparse
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-9)
    return X.astype(np.float32), Y, rng.uniform(0.1, 2.0, n)


def both(X):
    matrix = sp.csr_array(X)
    return Dense(X), Csr(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.data)


def labels_of(Y):
    matrix = sp.csr_array(Y)
    return matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32)


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_the_steps_that_are_taken_come_near(seed, several):
    X, Y, mass = rows(seed, n=300, d=40, k=25, several=several)
    _, value = reference.direction(X.astype(float), Y, mass)
    _, _, found, _ = split_node(
        both(X)[1], *labels_of(Y), np.arange(len(X)), mass, several, (X.shape[1], Y.shape[1]), STEPS, 5
    )
    assert 0.95 * value < found < 1.001 * value


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_direction_is_the_constrained_top_eigenvector(seed, several):
    X, Y, mass = rows(seed, several=several)
    w, value = reference.direction(X.astype(float), Y, mass)
    for batch in both(X):
        features, weight, found, margin = split_node(
            batch, *labels_of(Y), np.arange(len(X)), mass, several, (X.shape[1], Y.shape[1]), (9, 60), 5
        )
        full = np.zeros(X.shape[1])
        full[features] = weight
        assert found == pytest.approx(value, rel=1e-4)
        assert abs(full @ w) == pytest.approx(1, abs=1e-3)
        assert abs(mass @ (X @ full)) < 1e-3 * mass.sum()  # [ST Eq. 2]: no mean along the direction
        np.testing.assert_allclose(margin, X @ full, atol=1e-5)


def test_only_the_rows_of_a_node_and_their_features_count():
    X, Y, mass = rows(9)
    some = np.array([3, 17, 20, 41, 55, 58])
    X[:, 2] = 0
    X[some, 4] = 0
    for batch in both(X):
        features, weight, value, _ = split_node(
            batch, *labels_of(Y), some, mass[some], False, (X.shape[1], Y.shape[1]), (9, 5), 5
        )
        w, expected = reference.direction(X[some].astype(float), Y[some], mass[some])
        assert value == pytest.approx(expected, rel=1e-4)
        assert not {2, 4} & set(features.tolist())
        assert (np.diff(features) > 0).all()
        assert abs(weight @ w[features]) == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("same", ["rows", "class", "zeros"])
def test_a_node_without_a_direction_makes_no_nonsense(same):
    X, Y, mass = rows(1)
    if same == "rows":
        X[:] = X[0]
    elif same == "zeros":
        X[:] = 0
    else:
        Y[:] = Y[0]
    for batch in both(X):
        _, weight, value, margin = split_node(
            batch, *labels_of(Y), np.arange(len(X)), mass, False, (X.shape[1], Y.shape[1]), (9, 5), 0
        )
        assert np.isfinite(weight).all() and np.isfinite(value) and np.isfinite(margin).all()
        assert value < 1e-3


@pytest.mark.parametrize("loss", [SOFTMAX, LOGISTIC])
@pytest.mark.parametrize("table_bits", [20, 9])
def test_learning_a_leaf_is_plain_sgd(loss, table_bits):
    X, Y, _ = rows(4, n=30, d=300, several=loss == LOGISTIC)
    truth = [np.flatnonzero(y).tolist() for y in Y]
    candidates, order = np.array([5, 1, 3, 0], np.int32), np.random.default_rng(0).permutation(30)
    options = Options(300, 4, 1, loss, True, OWN_NOTHING, True, SGD, 0.7, 0.3, 0)
    for batch in both(X):
        bank, own = make_bank(7, 300, table_bits, False), make_bank(1, 1, table_bits, False)
        scale = make(Scale, feature=300)
        scale.n_rows[0] = scale.sq_norm[0] = 30
        learn_leaf(
            bank, own, 0, candidates, scale, make(Seen), batch, *labels_of(Y), np.ones(30), order, options
        )
        W, b = np.zeros((7, 300)), np.zeros(7)
        reference.learn_shared(W, b, X.astype(float), truth, candidates.tolist(), order, 0.7, 0.3, loss == SOFTMAX)
        if bank.mask[0] == 0:
            np.testing.assert_allclose(bank.bias, b, atol=1e-4)
            np.testing.assert_allclose(bank.weight, W, atol=1e-4)
        else:  # weights share slots: what all of them together learned is there, nothing lost
            np.testing.assert_allclose(bank.bias, b, atol=0.1)
            np.testing.assert_allclose(bank.weight.sum(), W.sum(), atol=0.1 * np.abs(W).sum())


def test_weights_of_one_slot_add_up_what_they_learned():
    """With two slots for everything, each step of every candidate is in one of them."""
    X, Y, _ = rows(4, n=12, d=40)
    options = Options(40, 4, 1, LOGISTIC, True, OWN_NOTHING, True, SGD, 1e-3, 0.0, 0)
    bank, own = make_bank(7, 40, 1, False), make_bank(1, 1, 8, False)
    scale = make(Scale, feature=40)
    scale.n_rows[0] = scale.sq_norm[0] = 12
    candidates = np.array([5, 1, 3, 0], np.int32)
    learn_leaf(
        bank, own, 0, candidates, scale, make(Seen), as_batch(sp.csr_array(X)), *labels_of(Y), np.ones(12),
        np.arange(12), options,
    )  # fmt: skip
    W, b = np.zeros((7, 40)), np.zeros(7)
    truth = [np.flatnonzero(y).tolist() for y in Y]
    reference.learn_shared(W, b, X.astype(float), truth, candidates.tolist(), np.arange(12), 1e-3, 0.0, False)
    assert bank.weight.sum() == pytest.approx(W.sum(), rel=0.02, abs=1e-5)


@pytest.mark.parametrize("size", [1e-15, 1e15])
def test_steps_stay_in_the_range_of_floats(size):
    X, Y, _ = rows(4, n=30, d=50)
    X[3] = 0
    options = Options(50, 4, 1, LOGISTIC, True, OWN_NOTHING, True, SGD, 0.5, 1.0, 0)
    bank, own = make_bank(7, 50, 20, False), make_bank(1, 1, 20, False)
    scale = make(Scale, feature=50)
    scale.n_rows[0], scale.sq_norm[0] = 30, 30 * size**2
    rows_of_size = Dense((X * size).astype(np.float32))
    learn_leaf(
        bank, own, 0, np.array([5, 1], np.int32), scale, make(Seen), rows_of_size, *labels_of(Y), np.ones(30),
        np.arange(30), options,
    )  # fmt: skip
    assert np.isfinite(bank.weight).all() and np.abs(bank.weight * size).max() > 0.1


def test_a_leaf_has_biases_of_its_own():
    X, Y, _ = rows(4, n=30, d=50)
    options = Options(50, 4, 1, SOFTMAX, True, OWN_BIAS, True, SGD, 0.5, 1.0, 0)
    bank, own = make_bank(7, 50, 20, False), make_bank(12, 1, 20, False)
    scale = make(Scale, feature=50)
    scale.n_rows[0] = scale.sq_norm[0] = 30
    learn_leaf(
        bank, own, 8, np.array([5, 1, 3, 0], np.int32), scale, make(Seen), as_batch(X), *labels_of(Y), np.ones(30),
        np.arange(30), options,
    )  # fmt: skip
    assert not own.bias[:8].any()
    np.testing.assert_allclose(own.bias[8:], bank.bias[[5, 1, 3, 0]], atol=1e-6)
