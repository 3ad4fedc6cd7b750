"""Ranking metrics against plain loops over sets, scikit-learn and examples computed by hand."""

from math import log2

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import precision_recall_fscore_support

from manyclass.metrics import (
    ClassCounts,
    coverage_at_k,
    macro_at_k,
    ndcg_at_k,
    precision_at_k,
    propensities,
    psp_at_k,
    recall_at_k,
    recall_by_frequency,
)

METRICS = [precision_at_k, recall_at_k, ndcg_at_k, coverage_at_k, psp_at_k]


def compute(metric, Y, top, k):
    """Call a metric, with a different propensity for each label where it takes propensities."""
    n_labels = Y.shape[1] if np.ndim(Y) == 2 or sp.issparse(Y) else 50
    return metric(Y, top, k, 1.0 / (1.0 + np.arange(n_labels))) if metric is psp_at_k else metric(Y, top, k)


def by_loops(metric, truth, predictions, k):
    """The same from sets of labels and lists of predictions, row by row."""
    n, gain = len(truth), lambda label: 1.0 + label
    hits = [[label for label in row[:k] if label in labels] for row, labels in zip(predictions, truth, strict=True)]
    if metric is precision_at_k:
        return sum(len(row) / k for row in hits) / n
    if metric is recall_at_k:
        return sum(len(row) / len(labels) for row, labels in zip(hits, truth, strict=True) if labels) / n
    if metric is ndcg_at_k:
        total = 0.0
        for row, labels in zip(predictions, truth, strict=True):
            reached = sum(1 / log2(rank + 2) for rank, label in enumerate(row[:k]) if label in labels)
            perfect = sum(1 / log2(rank + 2) for rank in range(min(k, len(labels))))
            total += reached / perfect if labels else 0.0
        return total / n
    if metric is coverage_at_k:
        occurring = set().union(*truth)
        return len(set().union(*hits)) / len(occurring) if occurring else 0.0
    possible = sum(sum(sorted(map(gain, labels), reverse=True)[:k]) for labels in truth)
    return sum(sum(map(gain, row)) for row in hits) / possible if possible else 0.0


@st.composite
def rankings(draw):
    """Sets of true labels, lists of predictions (-1 for none, each label once), the number of labels, and k."""
    n_labels, width = draw(st.integers(1, 8)), draw(st.integers(1, 5))
    labels = st.integers(0, n_labels - 1)
    row = st.lists(labels, max_size=width, unique=True).flatmap(
        lambda found: st.permutations(found + [-1] * (width - len(found)))
    )
    pairs = draw(st.lists(st.tuples(st.sets(labels), row), min_size=1, max_size=6))
    truth, predictions = zip(*pairs, strict=True)
    return truth, predictions, n_labels, draw(st.integers(1, width))


@pytest.mark.parametrize("metric", METRICS)
@given(ranking=rankings())
def test_indicator_matrices_equal_loops(metric, ranking):
    truth, predictions, n_labels, k = ranking
    Y = np.array([[int(label in labels) for label in range(n_labels)] for labels in truth])
    expected = by_loops(metric, truth, predictions, k)
    assert 0.0 <= expected <= 1.0
    for form in (np.asarray, sp.csr_matrix, sp.csc_array, sp.coo_matrix, lambda Y: Y.astype(bool), sp.lil_matrix):
        assert compute(metric, form(Y), np.array(predictions), k) == pytest.approx(expected)


@pytest.mark.parametrize("metric", METRICS)
@given(ranking=rankings(), data=st.data())
def test_class_ids_equal_loops(metric, ranking, data):
    _, predictions, n_labels, k = ranking
    y = data.draw(st.lists(st.integers(0, n_labels - 1), min_size=len(predictions), max_size=len(predictions)))
    expected = by_loops(metric, [{label} for label in y], predictions, k)
    assert compute(metric, np.array(y), np.array(predictions), k) == pytest.approx(expected)


def test_an_example_by_hand():
    Y, top = [[1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]], [[1, 3, 0], [3, 2, -1], [0, 1, 2]]
    assert precision_at_k(Y, top, 1) == pytest.approx(1 / 3)
    assert precision_at_k(Y, top, 3) == pytest.approx((2 + 1 + 0) / 9)
    assert recall_at_k(Y, top, 2) == pytest.approx((1 / 2 + 1 + 0) / 3)
    assert ndcg_at_k(Y, top, 2) == pytest.approx((1 / (1 + 1 / log2(3)) + 1 / log2(3) + 0) / 3)
    assert coverage_at_k(Y, top, 1) == pytest.approx(1 / 3)
    # The labels gain 1, 2, 4 and 4. The rows could gain 1 + 2 and 4, and gain 2 and 4.
    assert psp_at_k(Y, top, 2, [1.0, 0.5, 0.25, 0.25]) == pytest.approx(6 / 7)


@pytest.mark.parametrize("metric", METRICS)
def test_perfect_predictions_score_one_and_missing_ones_zero(metric):
    y = np.array([3, 0, 3, 1])
    assert compute(metric, y, y[:, None], 1) == 1.0
    assert compute(metric, y, np.full((4, 2), -1), 2) == 0.0
    assert compute(metric, sp.csr_matrix((3, 5)), np.zeros((3, 1), int), 1) == 0.0


def test_large_sparse_matrices_stay_sparse():
    n_rows, n_labels = 1000, 10**9
    rows = np.arange(n_rows)
    Y = sp.csr_matrix((np.ones(n_rows), (rows, rows * 10**6)), shape=(n_rows, n_labels))
    assert precision_at_k(Y, (rows * 10**6)[:, None], 1) == 1.0
    assert ndcg_at_k(Y, (rows * 10**6)[:, None] + 1, 1) == 0.0


def test_the_input_is_not_changed():
    Y = sp.csr_matrix((np.array([1.0, 1.0, 0.0]), np.array([3, 1, 0]), np.array([0, 3])), shape=(1, 4))
    assert recall_at_k(Y, [[3]], 1) == 0.5
    np.testing.assert_array_equal(Y.indices, [3, 1, 0])


@pytest.mark.parametrize("format", ["csr", "csc", "coo"])
def test_matrices_whose_arrays_lead_outside_are_refused(format):
    Y = sp.eye_array(3, format=format)
    index = Y.coords[1] if format == "coo" else Y.indices
    index[1] = 1_000_000_000  # scipy would read or write there
    with pytest.raises(ValueError, match="Y_true is an invalid sparse matrix"):
        precision_at_k(Y, [[0], [1], [2]], 1)
    with pytest.raises(ValueError, match="Y_pred is an invalid sparse matrix"):
        ClassCounts().add(sp.eye_array(3), Y)


@pytest.mark.parametrize("k", [1, 3])
def test_macro_averages_equal_scikit_learn(k):
    rng = np.random.default_rng(k)
    Y = (rng.random((60, 9)) < 0.25).astype(int)
    Y[:, 4] = 0  # a label that does not occur is ignored
    top = np.array([rng.permutation(9)[:3] for _ in range(60)])
    predicted = np.zeros_like(Y)
    np.put_along_axis(predicted, top[:, :k], 1, axis=1)
    occurs = Y.any(axis=0)
    expected = precision_recall_fscore_support(Y[:, occurs], predicted[:, occurs], average="macro", zero_division=0)
    for form in (Y, sp.csr_array(Y)):
        averages = macro_at_k(form, top, k)
        np.testing.assert_allclose([averages["precision"], averages["recall"], averages["f1"]], expected[:3])
    assert macro_at_k(np.zeros((2, 3), int), [[0], [1]], 1) == {"precision": 0, "recall": 0, "f1": 0}


def test_recall_of_rare_and_frequent_labels():
    Y_train = sp.csr_array(np.repeat(np.eye(3, dtype=int), [120, 40, 2], axis=0))
    Y = np.array([[1, 0, 1], [0, 1, 0], [0, 0, 1]])
    tail, middle, head = recall_by_frequency(Y, [[0, 1], [1, 2], [2, -1]], 2, Y_train)
    assert (tail["recall"], middle["recall"], head["recall"]) == (0.5, 1.0, 1.0)
    assert (tail["labels"], tail["true"], tail["below"], head["below"]) == (1, 2, 10, np.inf)
    tail, middle, _ = recall_by_frequency([0, 0], [[0], [0]], 1, [0] * 30)
    assert np.isnan(tail["recall"]) and middle["recall"] == 1


def test_labels_without_training_rows_are_rare():
    tail, _, _ = recall_by_frequency([5, 0], [[5], [0]], 1, [0] * 200)
    assert (tail["labels"], tail["recall"]) == (1, 1)


@pytest.mark.parametrize("which", ["rows", "data", "number"])
def test_lists_of_rows_that_contradict_each_other_are_refused(which):
    """scipy would write the values that are too many behind an array."""
    Y = sp.lil_array(np.eye(3))
    if which == "number":
        Y.rows = Y.rows[:2]  # scipy would return what is in the memory
    else:
        getattr(Y, which)[1].append(1)
    with pytest.raises(ValueError, match="Y_true is an invalid sparse matrix"):
        precision_at_k(Y, [[0], [1], [2]], 1)


@pytest.mark.parametrize("column", [3, -1])
def test_lists_with_columns_outside_the_matrix_are_refused(column):
    Y = sp.lil_array(np.eye(3))
    Y.rows[1][0] = column  # it would count for another row
    with pytest.raises(ValueError, match="row 1 has a column that is outside the 3 columns"):
        precision_at_k(Y, [[0], [1], [2]], 1)


def test_diagonals_without_values_are_refused():
    Y = sp.dia_array(np.eye(3))
    Y.offsets = np.arange(3, dtype=Y.offsets.dtype)  # scipy would read beyond the values
    with pytest.raises(ValueError, match="Y_true is an invalid sparse matrix"):
        precision_at_k(Y, [[0], [1], [2]], 1)


def test_memory_does_not_depend_on_the_largest_class():
    large = 10**15
    averages = macro_at_k([large, large, 3], [[large], [3], [3]], 1)
    assert (averages["precision"], averages["recall"]) == (0.75, 0.75)
    rare, _, frequent = recall_by_frequency([large, 3, 5], [[large], [large + 1], [5]], 1, [large, *[3] * 100])
    assert (rare["labels"], rare["recall"], frequent["labels"], frequent["recall"]) == (2, 1.0, 1, 0.0)


@pytest.mark.parametrize("edges", [(10, 10), (100, 10), (0, 10)])
def test_edges_must_increase(edges):
    with pytest.raises(ValueError, match="edges must be"):
        recall_by_frequency([0], [[0]], 1, [0], edges=edges)


def test_propensities_equal_the_formula_of_the_paper():
    y = np.repeat([0, 1, 3], [50, 5, 1])
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
        (sp.csr_matrix([[0, 1], [-1, 0]]), [[0], [1]], 1, "-1.* in row 1"),
        ([["a", "b"]], [[0]], 1, "matrix of <U1"),
        ([[[0]]], [[0]], 1, "3 dimensions"),
        (np.array(0), [[0]], 1, "0 dimensions"),
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
@pytest.mark.parametrize("metric", METRICS)
def test_invalid_input_is_rejected(metric, Y, top, k, message):
    with pytest.raises(ValueError, match=message):
        metric(Y, top, k, [0.5, 0.5]) if metric is psp_at_k else metric(Y, top, k)


@pytest.mark.parametrize("propensity", [[0.5], [0.5, 0.0], [0.5, 2.0], [0.5, np.nan], [[0.5, 0.5]], [0.5] * 3, "x"])
def test_invalid_propensities_are_rejected(propensity):
    with pytest.raises(ValueError, match="propensity"):
        psp_at_k([[0, 1], [1, 0]], [[0], [1]], 1, propensity)


@pytest.mark.parametrize(
    ("Y", "options", "message"),
    [
        ([0, 1, 2], {"n_labels": 2}, "contains class 2"),
        ([[1, 0]] * 3, {"n_labels": 3}, "2 columns"),
        ([0, 1], {}, "3 training rows"),
        ([0, 1, 1], {"A": 0.0}, "positive"),
        ([0, 1, 1], {"B": -1.0}, "positive"),
    ],
)
def test_propensities_reject_invalid_input(Y, options, message):
    with pytest.raises(ValueError, match=message):
        propensities(Y, **options)
