"""Losses against scipy, gradients against finite differences, random numbers against what is asked of them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, log_expit, softmax

from manyclass.core import losses
from manyclass.core.rng import uniform

some_scores = st.lists(st.floats(-30, 30), min_size=1, max_size=6).map(np.array)


@given(st.floats(-1e4, 1e4))
def test_sigmoid_equals_scipy(score):
    assert losses.sigmoid(score) == pytest.approx(expit(score), rel=1e-12)
    assert losses.log_sigmoid(score) == pytest.approx(log_expit(score), rel=1e-12)


@given(some_scores)
def test_softmax_probabilities_equal_scipy(scores):
    out = np.empty_like(scores)
    losses.probabilities(scores, len(scores), losses.SOFTMAX, out)
    np.testing.assert_allclose(out, softmax(scores), rtol=1e-12)


@given(some_scores)
def test_logistic_probabilities_are_shares(scores):
    out = np.empty_like(scores)
    losses.probabilities(scores, len(scores), losses.LOGISTIC, out)
    np.testing.assert_allclose(out, expit(scores) / expit(scores).sum(), rtol=1e-9)


@pytest.mark.parametrize("loss", [losses.SOFTMAX, losses.LOGISTIC])
@pytest.mark.parametrize("scores", [[-900.0, -901.0], [900.0, -900.0], [0.0], [1e30, 1e30]])
def test_probabilities_never_overflow(loss, scores):
    out = np.empty(len(scores))
    losses.probabilities(np.array(scores), len(scores), loss, out)
    assert np.all(np.isfinite(out))
    assert out.sum() == pytest.approx(1.0)


def value(scores, truth, loss):
    if loss == losses.SOFTMAX:
        return -np.log(softmax(scores)[truth])
    signs = np.where(np.arange(len(scores)) == truth, 1.0, -1.0)
    return -log_expit(signs * scores).sum()


@pytest.mark.parametrize("loss", [losses.SOFTMAX, losses.LOGISTIC])
@given(data=st.data(), scores=st.lists(st.floats(-5, 5), min_size=1, max_size=5).map(np.array))
def test_gradient_equals_finite_differences(loss, data, scores):
    truth = data.draw(st.integers(0, len(scores) - 1))
    out, h = np.empty_like(scores), 1e-5
    losses.gradients(scores, len(scores), truth, loss, out)
    for c in range(len(scores)):
        step = h * (np.arange(len(scores)) == c)
        slope = (value(scores + step, truth, loss) - value(scores - step, truth, loss)) / (2 * h)
        assert out[c] == pytest.approx(slope, abs=1e-6)


def test_probabilities_batch_leaves_the_rest_alone():
    scores = np.array([[1.0, 2.0, 7.0], [3.0, 9.0, 9.0], [5.0, 5.0, 5.0]])
    losses.probabilities_batch(scores, np.array([2, 1, 0]), losses.SOFTMAX)
    np.testing.assert_allclose(scores[0], [*softmax([1.0, 2.0]), 7.0])
    np.testing.assert_array_equal(scores[1:], [[1.0, 9.0, 9.0], [5.0, 5.0, 5.0]])


def test_uniform_is_uniform_and_depends_on_seed_and_counter_only():
    draws = np.array([uniform(7, counter) for counter in range(20_000)])
    assert draws.min() >= 0.0
    assert draws.max() < 1.0
    counts = np.histogram(draws, bins=20, range=(0, 1))[0]
    assert np.sum((counts - 1000.0) ** 2 / 1000.0) < 50.0  # chi-squared with 19 degrees: 1 in 10,000
    assert abs(np.corrcoef(draws[1:], draws[:-1])[0, 1]) < 0.03
    assert uniform(7, 123) == draws[123]
    assert uniform(8, 123) != draws[123]


@given(st.integers(0, 2**31 - 2), st.integers(0, 2**40))
def test_uniform_stays_below_one(seed, counter):
    assert 0.0 <= uniform(seed, counter) < 1.0
