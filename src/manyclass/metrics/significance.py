"""Significance of the difference between two error rates.

`mcnemar` compares two models on the same test rows. The other functions assume independent samples; on the same test
rows they are conservative: the p-value is too large and the interval too wide.
"""

from math import sqrt
from operator import index

from scipy.special import erfc
from scipy.stats import binomtest


def mcnemar(only_a: int, only_b: int) -> float:
    """Test whether the error rates of two models on the same rows differ, with McNemar's exact test.

    Only the rows that exactly one of the models predicts correctly are used. If both error rates are equal, each of
    these rows is equally likely to be correct for either model, so that the counts are binomial.

    Parameters
    ----------
    only_a, only_b : int
        Number of rows that only the first model predicts correctly, and number of rows that only the second does.

    Returns
    -------
    p_value : float
        Probability of a difference at least as large if both error rates are equal; 1 if there are no such rows.

    Raises
    ------
    TypeError
        If a count is not an integer.
    ValueError
        If a count is negative.

    References
    ----------
    McNemar, "Note on the sampling error of the difference between correlated proportions or percentages",
    Psychometrika 12 (1947).

    Examples
    --------
    >>> from manyclass.metrics import mcnemar
    >>> round(mcnemar(10, 2), 4)
    0.0386
    """
    only_a, only_b = index(only_a), index(only_b)
    if min(only_a, only_b) < 0:
        raise ValueError(f"only_a and only_b must be at least 0, got {only_a} and {only_b}.")
    return float(binomtest(only_a, only_a + only_b).pvalue) if only_a + only_b else 1.0


def n_minus_1_chi_squared(wrong_a: int, n_a: int, wrong_b: int, n_b: int) -> tuple[float, float]:
    """Test whether two error rates differ, with the N - 1 chi-squared test of two proportions.

    The statistic is Pearson's chi-squared of the 2 x 2 table, without continuity correction, times (N - 1) / N, where
    N = n_a + n_b. The samples are assumed to be independent; for two models on the same test rows the test is
    conservative.

    Parameters
    ----------
    wrong_a, n_a : int
        Number of wrong predictions and number of predictions of the first model.
    wrong_b, n_b : int
        The same for the second model.

    Returns
    -------
    statistic : float
        Chi-squared statistic with one degree of freedom.
    p_value : float
        Probability of a statistic at least as large if both error rates are equal. If all predictions of both models
        are wrong, or all are correct, the statistic is 0 and the p-value is 1.

    Raises
    ------
    TypeError
        If a count is not an integer.
    ValueError
        If `n_a` or `n_b` is not positive, or if there are more wrong predictions than predictions.

    References
    ----------
    Campbell, "Chi-squared and Fisher-Irwin tests of two-by-two tables with small sample recommendations",
    Statistics in Medicine 26 (2007).

    Examples
    --------
    Of 10,800 predictions, 929 (8.6 %) of the first model and 1,307 (12.1 %) of the second are wrong:

    >>> from manyclass.metrics import n_minus_1_chi_squared
    >>> statistic, p_value = n_minus_1_chi_squared(929, 10_800, 1307, 10_800)
    >>> round(statistic, 2), p_value < 0.0001
    (71.28, True)
    """
    # Python integers: the products of large counts exceed 64 bits.
    wrong_a, n_a, wrong_b, n_b = _check_counts(wrong_a, n_a, wrong_b, n_b)
    wrong, correct = wrong_a + wrong_b, n_a + n_b - wrong_a - wrong_b
    if wrong == 0 or correct == 0:
        return 0.0, 1.0
    difference = wrong_a * n_b - wrong_b * n_a
    statistic = (n_a + n_b - 1) * difference**2 / (n_a * n_b * wrong * correct)
    # With one degree of freedom, chi-squared is the square of a normal variable.
    return statistic, float(erfc(sqrt(statistic / 2.0)))


def difference_interval(
    wrong_a: int, n_a: int, wrong_b: int, n_b: int, confidence: float = 0.95
) -> tuple[float, float]:
    """Compute a confidence interval for the difference of two error rates, a - b, by Newcombe's score method.

    The interval combines Wilson's intervals of the two rates (Newcombe's method 10, without continuity correction).
    Unlike the usual normal approximation, it stays within -1 and 1 and does not shrink to a point if a rate is 0 or 1.
    The samples are assumed to be independent; for two models on the same test rows the interval is too wide.

    Parameters
    ----------
    wrong_a, n_a, wrong_b, n_b
        See `n_minus_1_chi_squared`.
    confidence : float, default=0.95
        Confidence level, between 0 and 1.

    Returns
    -------
    low, high : float
        Limits of the interval.

    Raises
    ------
    TypeError, ValueError
        As in `n_minus_1_chi_squared`, or if `confidence` is not between 0 and 1.

    References
    ----------
    Newcombe, "Interval estimation for the difference between independent proportions: comparison of eleven methods",
    Statistics in Medicine 17 (1998).

    Examples
    --------
    >>> from manyclass.metrics import difference_interval
    >>> low, high = difference_interval(929, 10_800, 1307, 10_800)
    >>> f"{100 * low:.2f} to {100 * high:.2f} points"
    '-4.31 to -2.69 points'
    """
    wrong_a, n_a, wrong_b, n_b = _check_counts(wrong_a, n_a, wrong_b, n_b)
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence must be between 0 and 1, got {confidence}.")
    rate_a, rate_b = wrong_a / n_a, wrong_b / n_b
    low_a, high_a = binomtest(wrong_a, n_a).proportion_ci(confidence, "wilson")
    low_b, high_b = binomtest(wrong_b, n_b).proportion_ci(confidence, "wilson")
    below = sqrt((rate_a - low_a) ** 2 + (high_b - rate_b) ** 2)
    above = sqrt((high_a - rate_a) ** 2 + (rate_b - low_b) ** 2)
    return rate_a - rate_b - below, rate_a - rate_b + above


def _check_counts(*counts: int) -> tuple[int, int, int, int]:
    """Return wrong_a, n_a, wrong_b, n_b as Python integers."""
    wrong_a, n_a, wrong_b, n_b = map(index, counts)
    for name, wrong, n in (("a", wrong_a, n_a), ("b", wrong_b, n_b)):
        if n < 1 or not 0 <= wrong <= n:
            raise ValueError(f"wrong_{name} must be in 0..n_{name} and n_{name} positive, got {wrong} of {n}.")
    return wrong_a, n_a, wrong_b, n_b
