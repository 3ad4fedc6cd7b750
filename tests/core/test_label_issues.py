"""Rows whose label is probably wrong."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits

from manyclass import LabelTreeClassifier, ManyClassClassifier, RecallTreeClassifier
from manyclass.core.label_issues import OutOfFold, folds_of, issues_of


@pytest.fixture(scope="module")
def flipped(many):
    """Rows of 40 classes, of which 30 have a wrong label."""
    X, y = many
    X, y = X[:600], y[:600]
    rows = np.random.default_rng(0).choice(600, 30, replace=False)
    wrong = y.copy()
    wrong[rows] = (y[rows] + 7) % 40
    return X.astype(np.float32), y, wrong, rows


def test_flipped_labels_are_found(flipped):
    X, y, wrong, rows = flipped
    found = RecallTreeClassifier(random_state=0, n_epochs=3).find_label_issues(X, wrong)
    assert np.isin(rows, np.argsort(found.quality)[:40]).mean() > 0.9  # the ranking
    assert np.isin(rows, found.rows).mean() > 0.7  # fewer are reported, to be right about them
    assert np.isin(found.rows, rows).mean() > 0.8
    hits = np.isin(found.rows, rows)
    assert (found.suggested[hits] == y[found.rows[hits]]).mean() > 0.9
    assert (found.given == wrong[found.rows]).all()
    assert (np.diff(found.quality[found.rows]) >= 0).all()
    assert (found.suggested_probability > found.probability).all()
    assert sum(pair.n_rows for pair in found.pairs) == len(found.rows)
    assert list(found.to_dict()) == ["row", "given", "suggested", "probability", "suggested_probability"]


def test_text_labels_sparse_rows_and_the_front_door(flipped):
    X, _, wrong, rows = flipped
    names = np.array([f"class {label}" for label in wrong])
    estimator = ManyClassClassifier(random_state=0)
    found = estimator.find_label_issues(sp.coo_array(X), names, cv=3)
    assert np.isin(rows, found.rows).mean() > 0.8
    assert found.given[0] == names[found.rows[0]]
    assert not hasattr(estimator, "estimator_")


def test_by_hand():
    # Class 0 is usually 0.9 probable for its rows, class 1 0.525. Row 2 has label 1, but looks like class 0.
    row, label = np.array([0, 1, 2, 2, 3, 4]), np.array([0, 0, 0, 1, 1, 2])
    probability = np.array([0.9, 0.9, 0.95, 0.05, 1.0, 0.7])
    found = issues_of(OutOfFold(row, label, probability), np.array([0, 0, 1, 1, 2]), np.array(["a", "b", "c"]))
    assert found.rows.tolist() == [2]
    assert found.suggested.tolist() == ["a"]
    assert found.quality[2] == pytest.approx(np.log((0.05 + 0.01 * 0.01) / (0.525 + 0.1)))
    assert np.isnan(found.quality[4])  # the only row of its class
    assert found.pairs == [("b", "a", 1, 0.5)]


def test_rows_of_a_class_are_spread():
    numbers = np.repeat(np.arange(10), 5)
    folds = folds_of(numbers, 5, 0)
    for label in range(10):
        assert sorted(folds[numbers == label]) == [0, 1, 2, 3, 4]
    assert (folds_of(numbers, 5, 0) == folds).all()


@pytest.mark.parametrize(
    ("X", "y", "cv", "message"),
    [
        (np.zeros((4, 2)), [0, 1, 0], 2, "X has 4 rows but y has 3"),
        (np.zeros((3, 2)), [0, 1, 0], 1, "cv must be an integer of at least 2"),
        (np.zeros((3, 2)), [0, 1, 0], 5, "more than the 3 rows"),
        (np.zeros((3, 2)), np.eye(3), 2, "one label per row"),
        (5, [0, 1, 0], 2, r"X must be a matrix of shape .* got an array of shape \(\)"),
        (np.zeros(3), [0, 1, 0], 2, r"X must be a matrix of shape .* got an array of shape \(3,\)"),
        ([[1], [1, 2], [3]], [0, 1, 0], 2, "X contains rows of different lengths"),
    ],
)
def test_bad_input(X, y, cv, message):
    with pytest.raises(ValueError, match=message):
        LabelTreeClassifier().find_label_issues(X, y, cv=cv)


def test_labels_outside_the_candidates_are_ranked_by_the_probability_that_is_left():
    """Rows 2 and 3 of class 0 do not have it among their candidates; the model is more certain of row 3."""
    row, label = np.array([0, 1, 2, 3, 4, 5]), np.array([0, 0, 1, 1, 1, 1])
    probability = np.array([0.9, 0.9, 0.6, 0.99, 0.9, 0.9])
    found = issues_of(OutOfFold(row, label, probability), np.array([0, 0, 0, 0, 1, 1]), np.array(["a", "b"]))
    assert np.argsort(found.quality)[:2].tolist() == [3, 2]


def test_a_few_wrong_labels_are_found():
    X, y = load_digits(return_X_y=True)
    rows = np.random.default_rng(0).choice(len(y), 5, replace=False)
    y[rows] = (y[rows] + 4) % 10
    found = LabelTreeClassifier(random_state=0).find_label_issues(X, y, cv=3)
    assert np.isin(rows, found.rows).sum() >= 4 and len(found.rows) <= 20  # of 1,797 rows


def test_rows_are_not_held_out_for_calibration(flipped):
    X, _, wrong, _ = flipped
    plain = LabelTreeClassifier(random_state=0).find_label_issues(X, wrong, cv=2)
    calibrated = LabelTreeClassifier(random_state=0, calibration="isotonic").find_label_issues(X, wrong, cv=2)
    assert plain.rows.tolist() == calibrated.rows.tolist()


def test_missing_labels_are_refused():
    with pytest.raises(ValueError, match="y"):
        LabelTreeClassifier().find_label_issues(np.eye(3), ["a", None, "b"])
    with pytest.raises(ValueError, match="target y is None"):
        LabelTreeClassifier().find_label_issues(np.eye(3), None)
