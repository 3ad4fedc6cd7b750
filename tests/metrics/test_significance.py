"""The N - 1 chi-squared test against scipy's own table test and its plain properties."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2, chi2_contingency

from manyclass.metrics import n_minus_1_chi_squared

counts = st.integers(1, 10**6).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


def by_table(wrong_a, n_a, wrong_b, n_b):
    """Pearson's chi-squared of the table as scipy computes it, times (N - 1) / N."""
    table = [[wrong_a, n_a - wrong_a], [wrong_b, n_b - wrong_b]]
    n = n_a + n_b
    statistic = chi2_contingency(table, correction=False).statistic * (n - 1) / n
    return statistic, chi2.sf(statistic, 1)


@given(a=counts, b=counts)
def test_equals_the_table_test_scaled(a, b):
    if 0 < a[0] + b[0] < a[1] + b[1]:
        np.testing.assert_allclose(n_minus_1_chi_squared(*a, *b), by_table(*a, *b), rtol=1e-6, atol=1e-12)


@given(a=counts, b=counts)
def test_sides_may_be_swapped_and_wrong_may_be_right(a, b):
    answer = n_minus_1_chi_squared(*a, *b)
    np.testing.assert_allclose(n_minus_1_chi_squared(*b, *a), answer)
    complement = n_minus_1_chi_squared(a[1] - a[0], a[1], b[1] - b[0], b[1])
    np.testing.assert_allclose(complement, answer)
    assert answer[0] >= 0.0 and 0.0 <= answer[1] <= 1.0


def test_a_table_worked_by_hand():
    # 15 of 50 against 5 of 50: Pearson's (100 (15 x 45 - 5 x 35)^2) / (50 x 50 x 20 x 80) = 6.25.
    statistic, p_value = n_minus_1_chi_squared(15, 50, 5, 50)
    assert statistic == pytest.approx(6.25 * 99 / 100)
    assert p_value == pytest.approx(0.0129, abs=1e-4)


@pytest.mark.parametrize("table", [(0, 5, 0, 7), (5, 5, 7, 7), (0, 1, 0, 1), (3, 10, 30, 100)])
def test_nothing_differs(table):
    assert n_minus_1_chi_squared(*table) == (0.0, 1.0)


def test_huge_counts_do_not_overflow():
    a, b = np.int64(4 * 10**9), np.int64(5 * 10**9)
    statistic, p_value = n_minus_1_chi_squared(a, b, a - 10**6, b)
    assert statistic > 0.0 and 0.0 <= p_value < 1e-10


@pytest.mark.parametrize("table", [(0, 0, 1, 2), (3, 2, 1, 2), (-1, 2, 1, 2), (1, 2, 1, 0), (1, 2, 3, 2)])
def test_impossible_tables_are_refused(table):
    with pytest.raises(ValueError, match="wrong_"):
        n_minus_1_chi_squared(*table)


@pytest.mark.parametrize("place", range(4))
def test_shares_are_no_counts(place):
    table = [1, 2, 1, 2]
    table[place] = 0.5
    with pytest.raises(TypeError):
        n_minus_1_chi_squared(*table)
