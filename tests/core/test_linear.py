"""Linear predictors: hashed weights, growth, and steps that do not depend on the unit of the inputs."""

import numpy as np
import pytest

from manyclass.core import linear
from manyclass.core.inputs import Csr, Dense
from manyclass.core.linear import grow_bank, make_bank
from manyclass.core.state import Scale, make
from manyclass.core.updates import NORMALIZED_ADAGRAD, SGD, observe_scale, pace
from manyclass.jit import kernel
from manyclass.one_against_all.kernels import buckets


def test_slots_are_spread_evenly():
    mask = 2**12 - 1
    slots = np.array([linear.slot(row, f, mask) for row in range(128) for f in range(128)])
    assert slots.min() >= 0
    assert slots.max() <= mask
    counts = np.bincount(slots, minlength=mask + 1)  # mean 4
    assert 3.0 < counts.var() < 5.0
    assert len(np.unique(slots[:128])) > 120  # the features of one row hardly collide


def test_buckets_are_spread_evenly_and_nest():
    features = np.arange(2**14, dtype=np.int32)
    fine, coarse = buckets(features, 1023), buckets(features, 255)
    assert np.bincount(fine, minlength=1024).max() < 50
    np.testing.assert_array_equal(fine & 255, coarse)
    np.testing.assert_array_equal(buckets(features, 0), features)


def trained_bank(rows, n_features, adaptive):
    rng = np.random.default_rng(0)
    bank = make_bank(rows, n_features, 20, adaptive)
    bank.weight[:] = rng.standard_normal(bank.weight.shape)
    bank.bias[:] = rng.standard_normal(rows)
    bank.bias_grad_sq[:] = rng.random(rows)
    if adaptive:
        bank.grad_sq[:] = rng.random(bank.grad_sq.shape)
    return bank


def free_slots(rows, n_features, bits):
    slots = {linear.slot(row, f, 2**bits - 1) for row in range(rows) for f in range(n_features)}
    return len(slots) == rows * n_features


@pytest.mark.parametrize("adaptive", [False, True])
def test_moving_to_the_table_keeps_scores_without_collisions(adaptive):
    rows, n_features = 4, 3
    bits = next(bits for bits in range(8, 30) if free_slots(rows, n_features, bits))
    direct = trained_bank(rows, n_features, adaptive)
    hashed = make_bank(2**bits, n_features, bits, adaptive)
    assert hashed.mask[0] == 2**bits - 1
    assert hashed.weight.shape == (1, 2**bits)
    linear.hash_rows(direct, hashed, adaptive)
    batch = Dense(np.random.default_rng(1).standard_normal((5, n_features)).astype(np.float32))
    for row in range(rows):
        for i in range(5):
            assert linear.score(hashed, row, batch, i) == pytest.approx(linear.score(direct, row, batch, i), abs=1e-6)
    assert hashed.grad_sq.sum() == pytest.approx(direct.grad_sq.sum() if adaptive else 0.0)
    np.testing.assert_array_equal(hashed.bias_grad_sq[:rows], direct.bias_grad_sq)


def test_growing_keeps_weights_until_they_no_longer_fit():
    bank = trained_bank(4, 10, True)
    larger = grow_bank(bank, 8, 10, 8, True)
    assert larger.weight.shape == larger.grad_sq.shape == (8, 10)
    np.testing.assert_array_equal(larger.weight[:4], bank.weight)
    assert not larger.weight[4:].any()
    moved = grow_bank(larger, 32, 10, 8, True)
    assert moved.weight.shape == moved.grad_sq.shape == (1, 256)
    assert moved.bias.shape == (32,)
    assert grow_bank(moved, 64, 10, 8, True).weight is moved.weight


@pytest.mark.parametrize("adaptive", [False, True])
def test_a_bank_of_one_number_grows_by_its_learner(adaptive):
    """Its shape does not tell whether it has sums of squared gradients."""
    larger = grow_bank(make_bank(1, 1, 20, adaptive), 4, 1, 20, adaptive)
    assert larger.weight.shape == (4, 1)
    assert larger.grad_sq.shape == ((4, 1) if adaptive else (1, 1))


@kernel
def learn_and_score(bank, batch, scale, update, scores):
    for i in range(scores.shape[0]):
        step = pace(update, 2.0, scale, observe_scale(scale, batch, i))
        scores[i] = linear.score(bank, 1, batch, i)
        linear.learn(bank, 1, batch, i, 1.0 if scores[i] > i % 3 - 1.0 else -1.0, step, scale)


@pytest.mark.parametrize("update", [SGD, NORMALIZED_ADAGRAD])
@pytest.mark.parametrize("table_bits", [20, 3])
def test_steps_do_not_depend_on_the_unit(update, table_bits):
    """Down to values of 1e-30, the smallest that `fit` accepts: products of two steps leave the range of float32."""
    X = np.random.default_rng(0).standard_normal((50, 6)).astype(np.float32)
    expected = None
    for power in (0, -50, -64, -65, -66, -75, -85, -98):
        bank, scale, scores = make_bank(2, 6, table_bits, update != SGD), make(Scale, feature=6), np.empty(50)
        learn_and_score(bank, Dense(X * np.float32(2.0**power)), scale, update, scores)
        expected = scores if expected is None else expected
        np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-4)


def test_dense_and_sparse_rows_score_alike():
    bank = trained_bank(3, 6, False)
    values = np.array([[0.0, 1.5, 0.0, -2.0, 0.0, 0.5]], np.float32)
    f = np.flatnonzero(values[0])
    sparse = Csr(np.array([0, len(f)]), f.astype(np.int32), values[0, f])
    for row in range(3):
        expected = linear.score(bank, row, Dense(values), 0)
        assert expected == pytest.approx(float(bank.weight[row] @ values[0] + bank.bias[row]), abs=1e-5)
        assert linear.score(bank, row, sparse, 0) == pytest.approx(expected, abs=1e-6)
