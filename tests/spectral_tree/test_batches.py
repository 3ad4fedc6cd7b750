"""Training on the rows of one leaf together, against plain numpy and against training row by row."""

import numpy as np
import pytest

from manyclass import SGD
from manyclass.core.linear import make_bank
from manyclass.core.losses import LOGISTIC, SOFTMAX
from manyclass.core.state import Scale, Seen, copy, make
from manyclass.spectral_tree.batches import Leaf, learn_leaf
from manyclass.spectral_tree.filter import Node, assemble, nodes_of, rows_with
from manyclass.spectral_tree.kernels import OWN_BIAS, OWN_NOTHING, Classifier, learn_batch
from tests.reference import spectral_tree as reference
from tests.spectral_tree.rows import both, labels_of, options_of, random_rows

CANDIDATES = np.array([5, 1, 3, 0], np.int32)


def train(X_batch, Y, options, order=None, n_features=50, table_bits=20, size=1.0, own_row=0):
    """(shared, own) predictors after one pass over the rows of a leaf."""
    n = len(Y)
    shared, own = make_bank(7, n_features, table_bits, False), make_bank(own_row + 4, 1, 20, False)
    scale = make(Scale, feature=n_features)
    scale.n_rows[0], scale.sq_norm[0] = n, n * size**2
    rows = rows_with(X_batch, labels_of(Y), np.ones(n))
    order = np.arange(n) if order is None else order
    learn_leaf(Classifier(shared, own, None), scale, make(Seen), rows, order, Leaf(CANDIDATES, own_row), options)
    return shared, own


def expected(X, Y, options, order):
    W, b = np.zeros((7, X.shape[1])), np.zeros(7)
    truth = [np.flatnonzero(y).tolist() for y in Y]
    rates = options.rate, options.bias_rate, options.loss == SOFTMAX
    reference.learn_shared(W, b, X.astype(float), truth, CANDIDATES.tolist(), order, *rates)
    return W, b


@pytest.mark.parametrize("loss", [SOFTMAX, LOGISTIC])
@pytest.mark.parametrize("table_bits", [20, 9])
def test_it_is_plain_sgd(loss, table_bits):
    X, Y, _ = random_rows(4, n=30, d=300, several=loss == LOGISTIC)
    order = np.random.default_rng(0).permutation(30)
    options = options_of(own=OWN_NOTHING, loss=loss, update=SGD.update, rate=0.7, bias_rate=0.3)
    W, b = expected(X, Y, options, order)
    for batch in both(X):
        bank, _ = train(batch, Y, options, order, 300, table_bits)
        if bank.mask[0] == 0:
            np.testing.assert_allclose(bank.bias, b, atol=1e-4)
            np.testing.assert_allclose(bank.weight, W, atol=1e-4)
        else:  # weights share slots: their sum is kept
            np.testing.assert_allclose(bank.bias, b, atol=0.1)
            np.testing.assert_allclose(bank.weight.sum(), W.sum(), atol=0.1 * np.abs(W).sum())


def test_steps_of_weights_that_share_a_slot_add_up():
    """With two slots for all weights, each step of every candidate is in one of them."""
    X, Y, _ = random_rows(4, n=12, d=40)
    options = options_of(own=OWN_NOTHING, loss=LOGISTIC, update=SGD.update, rate=1e-3, bias_rate=0.0)
    bank, _ = train(both(X)[1], Y, options, n_features=40, table_bits=1)
    W, _ = expected(X, Y, options, np.arange(12))
    assert bank.weight.sum() == pytest.approx(W.sum(), rel=0.02, abs=1e-5)


@pytest.mark.parametrize("size", [1e-15, 1e15])
def test_steps_stay_in_the_range_of_floats(size):
    X, Y, _ = random_rows(4, n=30, d=50)
    X[3] = 0
    options = options_of(own=OWN_NOTHING, loss=LOGISTIC, update=SGD.update, rate=0.5, bias_rate=1.0)
    bank, _ = train(both((X * size).astype(np.float32))[0], Y, options, size=size)
    assert np.isfinite(bank.weight).all() and np.abs(bank.weight * size).max() > 0.1


def test_a_leaf_may_have_biases():
    X, Y, _ = random_rows(4, n=30, d=50)
    options = options_of(own=OWN_BIAS, loss=SOFTMAX, update=SGD.update, rate=0.5, bias_rate=1.0)
    bank, own = train(both(X)[0], Y, options, own_row=8)
    assert not own.bias[:8].any()
    np.testing.assert_allclose(own.bias[8:], bank.bias[CANDIDATES], atol=1e-6)


@pytest.mark.parametrize("own", [OWN_NOTHING, OWN_BIAS])
@pytest.mark.parametrize("loss", [SOFTMAX, LOGISTIC])
def test_it_equals_training_row_by_row(own, loss):
    X, Y, mass = random_rows(6, n=40, d=50, several=loss == LOGISTIC)
    options = options_of(own=own, loss=loss, update=SGD.update, rate=0.5, bias_rate=0.5)
    leaf = Node(labels=CANDIDATES, masses=np.arange(4.0, 0.0, -1.0), total=10.0, covered=10.0)
    nodes, order = nodes_of(assemble([[leaf]]), 50), np.random.default_rng(1).permutation(40)
    scale = make(Scale, feature=50)
    scale.n_rows[0] = scale.sq_norm[0] = 40
    for batch in both(X):
        rows = rows_with(batch, labels_of(Y), mass)
        results = []
        for together in (True, False):
            classifier, seen = Classifier(make_bank(7, 50, 20, False), make_bank(4, 1, 20, False), None), make(Seen)
            if together:
                learn_leaf(classifier, copy(scale), seen, rows, order, Leaf(CANDIDATES, 0), options)
            else:
                learn_batch(nodes, classifier, copy(scale), seen, rows, order, np.zeros(40, np.int64), options)
            results.append((classifier.scorer.weight, classifier.scorer.bias, classifier.own.bias, *seen))
        for one, other in zip(*results, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-5)
