"""Metrics per class against scikit-learn, with rows added in parts."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.calibration import calibration_curve
from sklearn.metrics import confusion_matrix, f1_score, precision_recall_fscore_support

from manyclass.metrics import ClassCounts, Confusions, Reliability, ThresholdSearch

rows = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=40)


@given(rows, rows)
def test_counts_of_classes_agree_with_sklearn(first, second):
    counts = ClassCounts(3)
    for part in (first, second):
        counts.add(*np.array(part).T)
    true, predicted = np.array(first + second).T
    known = np.unique([true, predicted])
    expected = precision_recall_fscore_support(true, predicted, labels=known, zero_division=0)
    np.testing.assert_allclose([counts.precision[known], counts.recall[known], counts.f1[known]], expected[:3])
    assert counts.micro_f1 == pytest.approx(np.mean(true == predicted))
    assert counts.macro_f1 == pytest.approx(f1_score(true, predicted, average="macro", zero_division=0))


@given(st.integers(0, 2**32 - 1))
def test_counts_of_several_labels_agree_with_sklearn(seed):
    rng = np.random.default_rng(seed)
    true, predicted = rng.random((2, 30, 7)) < 0.3
    counts = ClassCounts()
    for part in (slice(0, 11), slice(11, 30)):
        # Predictions may lack the last columns, which are labels that the model does not know.
        counts.add(sp.csr_array(true[part].astype(int)), sp.csr_array(predicted[part, :5].astype(int)))
    predicted[:, 5:] = False
    used = true.any(axis=0) | predicted.any(axis=0)
    true, predicted = true[:, used], predicted[:, used]
    assert counts.micro_f1 == pytest.approx(f1_score(true, predicted, average="micro", zero_division=0))
    assert counts.macro_f1 == pytest.approx(f1_score(true, predicted, average="macro", zero_division=0))


def test_a_row_without_a_prediction_is_missed():
    counts = ClassCounts()
    counts.add([0, 1], [-1, 1])
    assert counts.predicted.tolist() == [0, 1] and counts.recall.tolist() == [0, 1]
    assert ClassCounts().macro_f1 == ClassCounts().micro_f1 == 0


@given(rows, rows)
def test_confusions_are_the_confusion_matrix_without_its_diagonal(first, second):
    confusions = Confusions()
    for part in (first, second):
        confusions.add(*np.array(part).T)
    expected = confusion_matrix(*np.array(first + second).T, labels=range(7))
    np.fill_diagonal(expected, 0)
    found = confusions.most_common()
    assert {(true, predicted): n for true, predicted, n in found} == {
        (i, j): expected[i, j] for i, j in np.argwhere(expected)
    }
    assert [n for *_, n in found] == sorted((n for *_, n in found), reverse=True)


def test_reliability_agrees_with_the_calibration_curve():
    rng = np.random.default_rng(0)
    probabilities = rng.random(500)
    correct = rng.random(500) < probabilities**2
    reliability = Reliability(8)
    reliability.add(probabilities[:99], correct[:99])
    reliability.add(probabilities[99:], correct[99:])
    accuracy, confidence = calibration_curve(correct, probabilities, n_bins=8)
    np.testing.assert_allclose(reliability.accuracy, accuracy)
    np.testing.assert_allclose(reliability.confidence, confidence)
    weights = reliability.counts / 500
    assert reliability.error == pytest.approx(np.sum(weights * np.abs(accuracy - confidence)))
    sure = Reliability()
    sure.add([1.0, 0.0], [True, False])
    assert sure.counts[[0, -1]].tolist() == [1, 1] and sure.error == 0


def test_threshold_search_finds_the_best_micro_f1():
    rng = np.random.default_rng(0)
    probabilities = rng.random((60, 9)).round(2)
    true = rng.random((60, 9)) < probabilities**3
    search, further = ThresholdSearch(), ThresholdSearch()
    for own, part in ((search, slice(0, 7)), (search, slice(7, 20)), (further, slice(20, 60))):
        own.add(probabilities[part].ravel(), true[part].ravel(), int(true[part].sum()))
    search += further
    thresholds = np.arange(1000) / 1000
    expected = [f1_score(true.ravel(), probabilities.ravel() > threshold) for threshold in thresholds]
    np.testing.assert_allclose(search.f1, expected)
    assert search.best() == (thresholds[np.argmax(expected)], max(expected))


def test_zeros_that_are_stored_are_no_labels():
    true = sp.csr_array(np.array([[1, 0], [0, 1]]))
    predicted = sp.csr_array((np.array([True, False, False, True]), ([0, 0, 1, 1], [0, 1, 0, 1])), shape=(2, 2))
    counts = ClassCounts(2)
    counts.add(true, predicted)
    assert predicted.nnz == 4 and counts.micro_f1 == 1.0


@pytest.mark.parametrize("predicted", [[0], [0, 1], np.eye(3, dtype=int)])
def test_another_number_of_predictions_than_rows_is_refused(predicted):
    """A single prediction counted for all rows."""
    counts = ClassCounts(3)
    with pytest.raises(ValueError, match="pass one class id per row"):
        counts.add([0, 1, 2], predicted)
    assert not counts.true.any()
