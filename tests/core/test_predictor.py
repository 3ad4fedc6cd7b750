"""Single rows without a check: the same predictions as those that are checked."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits

from manyclass import (
    LabelTreeClassifier,
    LomTreeClassifier,
    OneAgainstAllClassifier,
    RecallTreeClassifier,
    SpectralTreeClassifier,
)

KINDS = [
    RecallTreeClassifier(n_epochs=2, random_state=0),
    RecallTreeClassifier(n_epochs=2, random_state=0, beam=1, path_features="bias"),
    RecallTreeClassifier(n_epochs=2, random_state=0, arity=3),
    LabelTreeClassifier(n_epochs=2, random_state=0),
    OneAgainstAllClassifier(n_epochs=2, random_state=0),
    LomTreeClassifier(n_epochs=2, random_state=0),
]


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X.astype(np.float32)[:600], y[:600]


@pytest.mark.parametrize("model", KINDS, ids=str)
@pytest.mark.parametrize("wide", [False, True])
def test_it_predicts_as_the_model(model, wide, digits):
    X, y = digits
    X = sp.csr_matrix(sp.hstack([sp.csr_matrix(X)] * 5), dtype=np.float32) if wide else X
    model.fit(X, y)
    predict = model.predictor(k=3)
    for i in range(20):
        labels, scores = predict(X[i] if not wide else X[[i]])
        expected, expected_scores = model.predict_topk(X[[i]], 3)
        np.testing.assert_array_equal(labels, expected[0])
        # Another kernel, compiled on its own: sums may be taken in another order.
        np.testing.assert_allclose(scores, expected_scores[0], rtol=1e-4, atol=1e-5)


# The scores of LOM trees are shares of labels: the values of a row only choose the leaf.
@pytest.mark.parametrize("model", [*KINDS[:-1], SpectralTreeClassifier(random_state=0)], ids=str)
def test_a_row_whose_best_score_is_nan_is_refused(model, digits):
    X, y = digits
    predict = model.fit(X, y).predictor()
    with pytest.raises(ValueError, match="best score of the row is NaN"):
        predict(np.full(X.shape[1], np.nan, np.float32))


def test_an_infinite_score_is_no_prediction(digits):
    """Two labels that both have it would be equally good."""
    X, y = digits
    model = RecallTreeClassifier(n_epochs=2, random_state=0).fit(X, y)
    model._state["scorer"].weight[:] = 0
    model._state["scorer"].weight[:, 20] = 1e38
    row = np.zeros((1, X.shape[1]), np.float32)
    row[0, 20] = 1e10
    with pytest.raises(ValueError, match="best score of the row is NaN or infinite"):
        model.predictor()(row[0])
    for predict in (model.predict, model.predict_topk, lambda row: model.diagnose(row, [3])):
        with pytest.raises(ValueError, match="A score is NaN or infinite"):
            predict(row)


def test_it_follows_a_model_that_learns_and_grows(digits):
    X, y = digits
    model = RecallTreeClassifier(random_state=0).partial_fit(X[:50], y[:50])
    predict = model.predictor()
    for first in range(50, 600, 50):
        model.partial_fit(X[first : first + 50], y[first : first + 50] + 10 * first)  # ever new classes
        for i in range(first, first + 50, 7):
            assert predict(X[i])[0] == model.predict(X[i : i + 1])


def test_labels_may_be_text(digits):
    X, y = digits
    names = np.array([f"digit {label}" for label in y])
    model = RecallTreeClassifier(n_epochs=2, random_state=0).fit(X, names)
    assert model.predictor()(X[0])[0][0] == model.predict(X[:1])[0]


@pytest.mark.parametrize("k", [0, 11, 1.5, True])
def test_k_is_checked_when_it_is_made(digits, k):
    model = RecallTreeClassifier(n_epochs=1, random_state=0).fit(*digits)
    with pytest.raises(ValueError, match="k"):
        model.predictor(k)


def test_a_model_that_knows_nothing_has_none():
    with pytest.raises(ValueError, match="not fitted"):
        RecallTreeClassifier().predictor()


def test_rows_of_another_form_are_refused(digits):
    X, y = digits
    model = RecallTreeClassifier(n_epochs=1, random_state=0).fit(X, y)
    predict = model.predictor()
    sparse = sp.csr_matrix(X)
    for row in (X[0][:63], X[:2], sparse[[0]].tocsc(), sparse[:2], X[0].tolist()):
        with pytest.raises(ValueError, match="64"):
            predict(row)


@pytest.mark.parametrize("n_features", [64, 640])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_a_row_whose_arrays_lead_outside_is_refused(n_features, dtype):
    """A column of 10**9 ended the process."""
    X = sp.random(60, n_features, 0.1, "csr", np.float32, random_state=0)
    model = RecallTreeClassifier(n_epochs=1, random_state=0).fit(X, np.arange(60) % 7)
    predict = model.predictor()
    good = X[[0]]
    good.indices, good.indptr = good.indices.astype(dtype), good.indptr.astype(dtype)
    expected = model.predict(X[[0]])
    assert predict(good)[0] == expected
    for column in (10**9, -(10**9), n_features, -1):
        for place in (0, -1):
            bad = good.copy()
            bad.indices[place] = column
            with pytest.raises(ValueError, match="not a valid CSR"):
                predict(bad)
    for indptr in ([0, 10**9], [0, -1], [-5, good.nnz], [0, good.nnz + 1]):
        bad = good.copy()
        bad.indptr[:] = indptr
        with pytest.raises(ValueError, match="not a valid CSR"):
            predict(bad)
    for name in ("indices", "indptr"):
        bad = good.copy()
        setattr(bad, name, np.where(getattr(bad, name) > 0, np.nan, 0.0))
        with pytest.raises(ValueError, match="not a valid CSR"):
            predict(bad)
    assert predict(sp.csr_matrix((1, n_features), dtype=np.float32))[0] == model.predict(sp.csr_matrix((1, n_features)))


@pytest.mark.parametrize("kind", [LabelTreeClassifier, RecallTreeClassifier, SpectralTreeClassifier])
def test_the_features_of_a_row_need_not_be_sorted(kind):
    X = sp.random(60, 640, 0.1, "csr", np.float32, random_state=0)
    predict = kind(random_state=0).fit(X, np.arange(60) % 7).predictor(3)
    for i in range(10):
        row = X[[i]]
        expected = predict(row)
        row.indices, row.data = row.indices[::-1].copy(), row.data[::-1].copy()
        np.testing.assert_allclose(predict(row)[1], expected[1], rtol=1e-4)
        np.testing.assert_array_equal(predict(row)[0], expected[0])


def test_predictions_are_the_callers_own(digits):
    X, y = digits
    predict = RecallTreeClassifier(n_epochs=1, random_state=0).fit(X, y).predictor(2)
    _, scores = predict(X[0])
    kept = scores.copy()
    predict(X[1])
    np.testing.assert_array_equal(scores, kept)


@pytest.mark.parametrize("dtype", ["f8", ">f4", "i8", "f2"])
def test_rows_of_other_types_are_converted(dtype, digits):
    X, y = digits
    model = RecallTreeClassifier(n_epochs=2, random_state=0).fit(X, y)
    predict_one = model.predictor(k=3)
    expected = predict_one(X[0])
    for found, wanted in zip(predict_one(X[0].astype(dtype)), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)
    for found, wanted in zip(predict_one(np.ma.array(X[0])), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)
    with pytest.raises(ValueError, match="type complex128, expected float32"):
        predict_one(X[0].astype(complex))
