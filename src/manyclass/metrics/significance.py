"""Tests of significance for error rates."""

from math import sqrt
from operator import index

from scipy.special import erfc, ndtri


def n_minus_1_chi_squared(wrong_a: int, n_a: int, wrong_b: int, n_b: int) -> tuple[float, float]:
    """Test whether two error rates differ: the N - 1 chi-squared test of two proportions.

    Pearson's chi-squared statistic of the 2 x 2 table, without continuity correction, times (N - 1) / N, with
    N the number of answers of both sides together. It takes the two sides for independent samples; for two
    models on the same test rows, whose errors go together, it is on the cautious side.

    Parameters
    ----------
    wrong_a, n_a : int
        Wrong answers and all answers of one side.
    wrong_b, n_b : int
        The same of the other side.

    Returns
    -------
    statistic : float
        Chi-squared with one degree of freedom.
    p_value : float
        Chance of a statistic at least as large if both sides have the same error rate. Where nothing can
        differ (all answers wrong, or none) the statistic is 0 and the p-value 1.

    Raises
    ------
    TypeError
        If a count is not a whole number.
    ValueError
        If a side has no answers, or more of them are wrong than there are.

    References
    ----------
    Campbell, "Chi-squared and Fisher-Irwin tests of two-by-two tables with small sample recommendations",
    Statistics in Medicine 26 (2007).

    Examples
    --------
    Of 10,800 answers 929 (8.6 %) are wrong on one side and 1,307 (12.1 %) on the other:

    >>> from manyclass.metrics import n_minus_1_chi_squared
    >>> statistic, p_value = n_minus_1_chi_squared(929, 10_800, 1307, 10_800)
    >>> round(statistic, 2), p_value < 0.0001
    (71.28, True)
    """
    # Python's integers: the products of large counts do not fit into 64 bits.
    wrong_a, n_a, wrong_b, n_b = _counts(wrong_a, n_a, wrong_b, n_b)
    wrong, right = wrong_a + wrong_b, n_a + n_b - wrong_a - wrong_b
    if wrong == 0 or right == 0:
        return 0.0, 1.0
    difference = wrong_a * n_b - wrong_b * n_a
    statistic = (n_a + n_b - 1) * difference**2 / (n_a * n_b * wrong * right)
    # One degree of freedom: the square of a normal variable.
    return statistic, float(erfc(sqrt(statistic / 2.0)))


def difference_interval(
    wrong_a: int, n_a: int, wrong_b: int, n_b: int, confidence: float = 0.95
) -> tuple[float, float]:
    """Confidence interval of the difference of two error rates, a - b, by Newcombe's score method.

    Wilson's intervals of the two rates are joined (Newcombe's method 10, without continuity correction). Unlike the
    textbook interval it stays within -1 and 1 and has a width where a rate is 0 or 1. It takes the two sides for
    independent samples; for two models on the same test rows it is too wide rather than too narrow.

    Parameters
    ----------
    wrong_a, n_a : int
        Wrong answers and all answers of one side.
    wrong_b, n_b : int
        The same of the other side.
    confidence : float, default=0.95
        Share of such intervals that hold the true difference, between 0 and 1.

    Returns
    -------
    low, high : float
        The ends of the interval; the observed difference lies between them.

    Raises
    ------
    TypeError
        If a count is not a whole number.
    ValueError
        If a side has no answers, or more of them are wrong than there are, or `confidence` is not between 0 and 1.

    References
    ----------
    Newcombe, "Interval estimation for the difference between independent proportions: comparison of eleven methods",
    Statistics in Medicine 17 (1998).

    Examples
    --------
    Of 10,800 answers 929 (8.6 %) are wrong on one side and 1,307 (12.1 %) on the other:

    >>> from manyclass.metrics import difference_interval
    >>> low, high = difference_interval(929, 10_800, 1307, 10_800)
    >>> f"{100 * low:.2f} to {100 * high:.2f} points"
    '-4.31 to -2.69 points'
    """
    wrong_a, n_a, wrong_b, n_b = _counts(wrong_a, n_a, wrong_b, n_b)
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence must be between 0 and 1, got {confidence}.")
    z = float(ndtri((1.0 + confidence) / 2.0))
    rate_a, rate_b = wrong_a / n_a, wrong_b / n_b
    (low_a, high_a), (low_b, high_b) = _wilson(rate_a, n_a, z), _wilson(rate_b, n_b, z)
    below = sqrt((rate_a - low_a) ** 2 + (high_b - rate_b) ** 2)
    above = sqrt((high_a - rate_a) ** 2 + (rate_b - low_b) ** 2)
    return rate_a - rate_b - below, rate_a - rate_b + above


def _counts(wrong_a: int, n_a: int, wrong_b: int, n_b: int) -> tuple[int, int, int, int]:
    """The counts as Python's integers, checked."""
    wrong_a, n_a, wrong_b, n_b = index(wrong_a), index(n_a), index(wrong_b), index(n_b)
    for name, wrong, n in (("a", wrong_a, n_a), ("b", wrong_b, n_b)):
        if n < 1 or not 0 <= wrong <= n:
            raise ValueError(f"wrong_{name} must be in 0..n_{name} and n_{name} above 0, got {wrong} of {n}.")
    return wrong_a, n_a, wrong_b, n_b


def _wilson(rate: float, n: int, z: float) -> tuple[float, float]:
    """Wilson's score interval of one rate."""
    middle = rate + z * z / (2 * n)
    half = z * sqrt(rate * (1.0 - rate) / n + (z / (2 * n)) ** 2)
    share = 1.0 + z * z / n
    # Rounding must not put an end on the wrong side of the rate itself.
    return min(rate, max(0.0, (middle - half) / share)), max(rate, min(1.0, (middle + half) / share))
