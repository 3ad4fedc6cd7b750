"""The N - 1 chi-squared test against scipy's table test; Newcombe's interval against the values of his paper."""

from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, chi2, chi2_contingency

from manyclass.metrics import difference_interval, mcnemar, n_minus_1_chi_squared

counts = st.integers(1, 10**6).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


def by_table(wrong_a, n_a, wrong_b, n_b):
    """Pearson's chi-squared of the table by scipy, times (N - 1) / N."""
    table = [[wrong_a, n_a - wrong_a], [wrong_b, n_b - wrong_b]]
    n = n_a + n_b
    statistic = chi2_contingency(table, correction=False).statistic * (n - 1) / n
    return statistic, chi2.sf(statistic, 1)


@given(a=counts, b=counts)
def test_equals_the_table_test_scaled(a, b):
    if 0 < a[0] + b[0] < a[1] + b[1]:
        np.testing.assert_allclose(n_minus_1_chi_squared(*a, *b), by_table(*a, *b), rtol=1e-6, atol=1e-12)


@given(a=counts, b=counts)
def test_symmetric_in_models_and_in_wrong_and_correct(a, b):
    result = n_minus_1_chi_squared(*a, *b)
    np.testing.assert_allclose(n_minus_1_chi_squared(*b, *a), result)
    complement = n_minus_1_chi_squared(a[1] - a[0], a[1], b[1] - b[0], b[1])
    np.testing.assert_allclose(complement, result)
    assert result[0] >= 0.0 and 0.0 <= result[1] <= 1.0


def test_an_example_by_hand():
    # 15 of 50 against 5 of 50: Pearson's (100 (15 x 45 - 5 x 35)^2) / (50 x 50 x 20 x 80) = 6.25.
    statistic, p_value = n_minus_1_chi_squared(15, 50, 5, 50)
    assert statistic == pytest.approx(6.25 * 99 / 100)
    assert p_value == pytest.approx(0.0129, abs=1e-4)


@pytest.mark.parametrize("table", [(0, 5, 0, 7), (5, 5, 7, 7), (0, 1, 0, 1), (3, 10, 30, 100)])
def test_equal_error_rates(table):
    assert n_minus_1_chi_squared(*table) == (0.0, 1.0)


@given(only_a=st.integers(0, 60), only_b=st.integers(0, 60))
def test_mcnemar_is_the_tail_of_fair_coins(only_a, only_b):
    n = only_a + only_b
    tail = sum(comb(n, i) for i in range(min(only_a, only_b) + 1)) / 2**n
    assert mcnemar(only_a, only_b) == pytest.approx(min(1.0, 2 * tail)) == mcnemar(only_b, only_a)


@pytest.mark.parametrize(("counts", "error"), [((-1, 2), ValueError), ((1.5, 2), TypeError)])
def test_mcnemar_rejects_what_is_no_count(counts, error):
    with pytest.raises(error):
        mcnemar(*counts)


def test_huge_counts_do_not_overflow():
    a, b = np.int64(4 * 10**9), np.int64(5 * 10**9)
    statistic, p_value = n_minus_1_chi_squared(a, b, a - 10**6, b)
    assert statistic > 0.0 and 0.0 <= p_value < 1e-10


@pytest.mark.parametrize("table", [(0, 0, 1, 2), (3, 2, 1, 2), (-1, 2, 1, 2), (1, 2, 1, 0), (1, 2, 3, 2)])
def test_invalid_counts_are_rejected(table):
    for function in (n_minus_1_chi_squared, difference_interval):
        with pytest.raises(ValueError, match="wrong_"):
            function(*table)


@pytest.mark.parametrize("position", range(4))
def test_counts_must_be_integers(position):
    table = [1, 2, 1, 2]
    table[position] = 0.5
    with pytest.raises(TypeError):
        n_minus_1_chi_squared(*table)


@pytest.mark.parametrize(
    ("table", "low", "high"),
    [  # method 10 in Table II of Newcombe (1998)
        ((56, 70, 48, 80), 0.0524, 0.3339),
        ((9, 10, 3, 10), 0.1705, 0.8090),
        ((6, 7, 2, 7), 0.0582, 0.8062),
        ((5, 56, 0, 29), -0.0381, 0.1926),
        ((0, 10, 0, 20), -0.1611, 0.2775),
        ((0, 10, 0, 10), -0.2775, 0.2775),
        ((10, 10, 0, 20), 0.6791, 1.0),
        ((10, 10, 0, 10), 0.6075, 1.0),
    ],
)
def test_interval_equals_the_paper(table, low, high):
    assert difference_interval(*table) == pytest.approx((low, high), abs=6e-5)


@given(a=counts, b=counts)
def test_interval_combines_two_wilson_intervals(a, b):
    ends = [binomtest(*side).proportion_ci(0.9, method="wilson") for side in (a, b)]
    rates = [wrong / n for wrong, n in (a, b)]
    below = np.hypot(rates[0] - ends[0].low, ends[1].high - rates[1])
    above = np.hypot(ends[0].high - rates[0], rates[1] - ends[1].low)
    middle = rates[0] - rates[1]
    np.testing.assert_allclose(difference_interval(*a, *b, 0.9), (middle - below, middle + above), atol=1e-9)


@given(a=counts, b=counts)
def test_interval_contains_the_difference_and_is_antisymmetric(a, b):
    low, high = difference_interval(*a, *b)
    assert -1.0 - 1e-12 <= low <= a[0] / a[1] - b[0] / b[1] <= high <= 1.0 + 1e-12
    np.testing.assert_allclose(difference_interval(*b, *a), (-high, -low))
    wide_low, wide_high = difference_interval(*a, *b, confidence=0.99)
    assert wide_low <= low and high <= wide_high


def test_interval_has_its_confidence_level():
    rng = np.random.default_rng(0)
    drawn = rng.binomial(200, 0.1, 4000), rng.binomial(300, 0.2, 4000)
    ends = np.array([difference_interval(int(a), 200, int(b), 300) for a, b in zip(*drawn, strict=True)])
    assert np.mean((ends[:, 0] <= -0.1) & (ends[:, 1] >= -0.1)) == pytest.approx(0.95, abs=0.012)


@pytest.mark.parametrize("confidence", [0.0, 1.0, -1.0, float("nan")])
def test_invalid_confidence_is_rejected(confidence):
    with pytest.raises(ValueError, match="confidence"):
        difference_interval(1, 2, 1, 2, confidence)
