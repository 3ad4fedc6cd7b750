"""Measures of ranked answers against plain loops over sets, by hand, and what they refuse."""

from math import log2

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from manyclass.metrics import coverage_at_k, ndcg_at_k, precision_at_k, propensities, psp_at_k, recall_at_k

MEASURES = [precision_at_k, recall_at_k, ndcg_at_k, coverage_at_k, psp_at_k]


def measure(function, Y, top, k):
    """Call a measure; where it takes propensities, with some that differ from label to label."""
    n_labels = Y.shape[1] if np.ndim(Y) == 2 or sp.issparse(Y) else 50
    return function(Y, top, k, 1.0 / (1.0 + np.arange(n_labels))) if function is psp_at_k else function(Y, top, k)


def by_loops(function, truth, answers, k):
    """The same from sets of labels and lists of answers, one row after the other."""
    n, worth = len(truth), lambda label: 1.0 + label
    hits = [[label for label in row[:k] if label in labels] for row, labels in zip(answers, truth, strict=True)]
    if function is precision_at_k:
        return sum(len(row) / k for row in hits) / n
    if function is recall_at_k:
        return sum(len(row) / len(labels) for row, labels in zip(hits, truth, strict=True) if labels) / n
    if function is ndcg_at_k:
        total = 0.0
        for row, labels in zip(answers, truth, strict=True):
            gain = sum(1 / log2(place + 2) for place, label in enumerate(row[:k]) if label in labels)
            ideal = sum(1 / log2(place + 2) for place in range(min(k, len(labels))))
            total += gain / ideal if labels else 0.0
        return total / n
    if function is coverage_at_k:
        there = set().union(*truth)
        return len(set().union(*hits)) / len(there) if there else 0.0
    possible = sum(sum(sorted(map(worth, labels), reverse=True)[:k]) for labels in truth)
    return sum(sum(map(worth, row)) for row in hits) / possible if possible else 0.0


@st.composite
def rankings(draw):
    """Sets of labels, lists of answers (None as -1, each label once), the number of labels, and k."""
    n_labels, width = draw(st.integers(1, 8)), draw(st.integers(1, 5))
    labels = st.integers(0, n_labels - 1)
    row = st.lists(labels, max_size=width, unique=True).flatmap(
        lambda found: st.permutations(found + [-1] * (width - len(found)))
    )
    pairs = draw(st.lists(st.tuples(st.sets(labels), row), min_size=1, max_size=6))
    truth, answers = zip(*pairs, strict=True)
    return truth, answers, n_labels, draw(st.integers(1, width))


def indicator(truth, n_labels):
    return np.array([[int(label in labels) for label in range(n_labels)] for labels in truth])


@pytest.mark.parametrize("function", MEASURES)
@given(ranking=rankings())
def test_sets_of_labels_equal_loops(function, ranking):
    truth, answers, n_labels, k = ranking
    Y, top = indicator(truth, n_labels), np.array(answers)
    expected = by_loops(function, truth, answers, k)
    assert 0.0 <= expected <= 1.0
    for form in (np.asarray, sp.csr_matrix, sp.csc_array, sp.coo_matrix, lambda Y: Y.astype(bool), sp.lil_matrix):
        assert measure(function, form(Y), top, k) == pytest.approx(expected)


@pytest.mark.parametrize("function", MEASURES)
@given(ranking=rankings(), data=st.data())
def test_classes_equal_sets_of_one(function, ranking, data):
    _, answers, n_labels, k = ranking
    y = data.draw(st.lists(st.integers(0, n_labels - 1), min_size=len(answers), max_size=len(answers)))
    expected = by_loops(function, [{label} for label in y], answers, k)
    assert measure(function, np.array(y), np.array(answers), k) == pytest.approx(expected)


def test_a_case_worked_by_hand():
    Y, top = [[1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]], [[1, 3, 0], [3, 2, -1], [0, 1, 2]]
    assert precision_at_k(Y, top, 1) == pytest.approx(1 / 3)
    assert precision_at_k(Y, top, 3) == pytest.approx((2 + 1 + 0) / 9)
    assert recall_at_k(Y, top, 2) == pytest.approx((1 / 2 + 1 + 0) / 3)
    assert ndcg_at_k(Y, top, 2) == pytest.approx((1 / (1 + 1 / log2(3)) + 1 / log2(3) + 0) / 3)
    assert coverage_at_k(Y, top, 1) == pytest.approx(1 / 3)
    # Labels are worth 1, 2, 4 and 4; the best two answers of the rows 3 and 4, of which 2 and 4 are reached.
    assert psp_at_k(Y, top, 2, [1.0, 0.5, 0.25, 0.25]) == pytest.approx(6 / 7)


@pytest.mark.parametrize("function", MEASURES)
def test_perfect_answers_reach_one_and_none_reaches_nothing(function):
    y = np.array([3, 0, 3, 1])
    assert measure(function, y, y[:, None], 1) == 1.0
    assert measure(function, y, np.full((4, 2), -1), 2) == 0.0
    assert measure(function, sp.csr_matrix((3, 5)), np.zeros((3, 1), int), 1) == 0.0


def test_large_sparse_truth_is_not_made_dense():
    n_rows, n_labels = 1000, 10**9
    rows = np.arange(n_rows)
    Y = sp.csr_matrix((np.ones(n_rows), (rows, rows * 10**6)), shape=(n_rows, n_labels))
    assert precision_at_k(Y, (rows * 10**6)[:, None], 1) == 1.0
    assert ndcg_at_k(Y, (rows * 10**6)[:, None] + 1, 1) == 0.0


def test_the_matrix_given_is_left_alone():
    Y = sp.csr_matrix((np.array([1.0, 1.0, 0.0]), np.array([3, 1, 0]), np.array([0, 3])), shape=(1, 4))
    assert recall_at_k(Y, [[3]], 1) == 0.5
    np.testing.assert_array_equal(Y.indices, [3, 1, 0])


def test_propensities_are_the_papers():
    y = np.repeat([0, 1, 3], [50, 5, 1])
    # C = (log 56 - 1) 2.5^0.55; then by label 1 / (1 + C exp(-0.55 log(count + 1.5))).
    C = (np.log(56) - 1) * 2.5**0.55
    expected = [1 / (1 + C * np.exp(-0.55 * np.log(count + 1.5))) for count in (50, 5, 0, 1, 0)]
    np.testing.assert_allclose(propensities(y, n_labels=5), expected)
    np.testing.assert_allclose(propensities(y), expected[:4])
    matrix = sp.csr_matrix((np.ones(56), (np.arange(56), y)), shape=(56, 5))
    np.testing.assert_allclose(propensities(matrix), expected)
    assert np.all(np.diff(propensities(y, A=0.6, B=2.6)[[2, 3, 1, 0]]) > 0)


@pytest.mark.parametrize(
    ("Y", "top", "k", "message"),
    [
        ([0.0, 1.0], [[0], [1]], 1, "float64"),
        ([0, -1], [[0], [1]], 1, "class -1 in row 1"),
        ([[0, 2], [1, 0]], [[0], [1]], 1, "got 2 in row 0"),
        ([[0.0, 1.0], [np.nan, 0.0]], [[0], [1]], 1, "nan in row 1"),
        (sp.csr_matrix([[0, 1], [-1, 0]]), [[0], [1]], 1, "-1 in row 1"),
        ([["a", "b"]], [[0]], 1, "matrix of <U1"),
        ([[[0]]], [[0]], 1, "3 dimensions"),
        (np.zeros(0, int), np.zeros((0, 1), int), 1, "no rows"),
        ([0, 1], [[0]], 1, "1 rows, but Y_true has 2"),
        ([0, 1], [0, 1], 1, "1 dimensions"),
        ([0, 1], [[0.0], [1.0]], 1, "float64"),
        ([0, 1], [[0], [1]], 2, "k must be in 1..1"),
        ([0, 1], [[0], [1]], 0, "k must be in 1..1"),
        ([0, 1], [[0], [-2]], 1, "-2 in row 1"),
        ([[0, 1], [1, 0]], [[0], [2]], 1, "below 2"),
        ([0, 1], [[0, 1], [1, 1]], 2, "label 1 twice in row 1"),
    ],
)
@pytest.mark.parametrize("function", MEASURES)
def test_what_does_not_fit_is_refused(function, Y, top, k, message):
    with pytest.raises(ValueError, match=message):
        function(Y, top, k, [0.5, 0.5]) if function is psp_at_k else function(Y, top, k)


@pytest.mark.parametrize("propensity", [[0.5], [0.5, 0.0], [0.5, 2.0], [0.5, np.nan], [[0.5, 0.5]], [0.5, 0.5, 0.5]])
def test_propensities_that_do_not_fit_are_refused(propensity):
    with pytest.raises(ValueError, match="propensity"):
        psp_at_k([[0, 1], [1, 0]], [[0], [1]], 1, propensity)


@pytest.mark.parametrize(
    ("Y", "options", "message"),
    [
        ([0, 1, 2], {"n_labels": 2}, "at least 3"),
        ([[1, 0]] * 3, {"n_labels": 3}, "2 columns"),
        ([0, 1], {}, "3 training rows"),
        ([0, 1, 1], {"A": 0.0}, "above 0"),
        ([0, 1, 1], {"B": -1.0}, "above 0"),
    ],
)
def test_propensities_of_what_does_not_fit(Y, options, message):
    with pytest.raises(ValueError, match=message):
        propensities(Y, **options)
