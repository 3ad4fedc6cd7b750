"""The front door: which algorithm it chooses, and that all methods reach the model."""

import copy

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from manyclass import LabelTreeClassifier, ManyClassClassifier, RecallTreeClassifier, load_model


@pytest.fixture(scope="module")
def fitted(blobs):
    return ManyClassClassifier(random_state=0).fit(*blobs)


def test_the_rule():
    dense, text, narrow = np.eye(2, 300), sp.csr_array(np.eye(2, 300)), sp.csr_array(np.eye(2, 256))
    one, several = [0, 1], np.eye(2, 3)
    for X in (dense, text, narrow):
        assert isinstance(ManyClassClassifier().partial_fit(X, several).estimator_, LabelTreeClassifier)
        assert isinstance(ManyClassClassifier().fit(X, one).estimator_, LabelTreeClassifier)
    assert isinstance(ManyClassClassifier().partial_fit(text, one).estimator_, LabelTreeClassifier)
    assert isinstance(ManyClassClassifier().partial_fit(dense, one).estimator_, RecallTreeClassifier)
    assert isinstance(ManyClassClassifier().partial_fit(narrow, one).estimator_, RecallTreeClassifier)


def test_all_methods_are_those_of_the_model(fitted, blobs, tmp_path):
    X, y = blobs
    model = LabelTreeClassifier(random_state=0).fit(X, y)
    np.testing.assert_array_equal(fitted.predict(X), model.predict(X))
    np.testing.assert_array_equal(fitted.predict_proba(X), model.predict_proba(X))
    for got, expected in zip(fitted.predict_topk(X, 3), model.predict_topk(X, 3), strict=True):
        np.testing.assert_array_equal(got, expected)
    assert fitted.diagnose(X, y) == model.diagnose(X, y)
    assert fitted.score(X, y) > 0.95
    assert fitted.n_features_in_ == 5
    assert fitted.tuned_["algorithm"] == "label-tree"
    assert fitted.tuned_["start"] >= 0
    fitted.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert isinstance(loaded, LabelTreeClassifier)
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    row = X[0].astype(np.float32)
    for got, expected in zip(fitted.predictor(2)(row), model.predict_topk(X[:1], 2), strict=True):
        np.testing.assert_allclose(got, expected[0], rtol=1e-5)


def test_kept_rows_are_reported(digits):
    X, y = digits
    model = ManyClassClassifier(random_state=0).fit(X[:1300], y[:1300])
    assert model.tuned_["neighbors"] == model.estimator_._state["neighbors"].n_rows[0] > 1000


def test_a_stream_goes_on_with_the_same_model(blobs):
    X, y = blobs
    model = ManyClassClassifier(random_state=0)
    for first in range(0, 480, 48):
        assert model.partial_fit(X[first : first + 48], y[first : first + 48]) is model
    assert isinstance(model.estimator_, RecallTreeClassifier)
    whole = RecallTreeClassifier(random_state=0).partial_fit(X, y)
    np.testing.assert_array_equal(model.predict(X), whole.predict(X))
    after_fit = ManyClassClassifier(random_state=0).fit(X[:240], y[:240]).partial_fit(X[240:], y[240:] + 50)
    assert isinstance(after_fit.estimator_, LabelTreeClassifier)
    assert len(after_fit.classes_) == 24


def test_several_labels_and_options(tagged):
    X, Y = tagged
    model = ManyClassClassifier(random_state=0, n_jobs=2).fit(X[:500], Y[:500])
    assert model.predict(X[:9]).shape == (9, Y.shape[1])
    assert model.estimator_.n_jobs == 2
    model.set_params(n_jobs=1).predict(X[:9])
    assert model.estimator_.n_jobs == 1
    assert not hasattr(clone(model), "estimator_")


def test_errors_leave_the_model_as_it_was(fitted, blobs):
    X = blobs[0]
    with pytest.raises(NotFittedError):
        ManyClassClassifier().predict(X)
    with pytest.raises(AttributeError, match="not fitted yet"):
        ManyClassClassifier().n_features_in_  # noqa: B018
    before = fitted.predict(X)
    for wrong in (fitted.fit, fitted.partial_fit):
        with pytest.raises(ValueError, match="NaN"):
            wrong(np.full((2, 5), np.nan), [0, 1])
    np.testing.assert_array_equal(fitted.predict(X), before)


def test_options_that_are_refused_are_not_kept(blobs, tmp_path):
    model = ManyClassClassifier(random_state=0).fit(*blobs)
    with pytest.raises(ValueError, match="calibration"):
        model.set_params(calibration="magic").partial_fit(*blobs)
    model.set_params(calibration=None).save(tmp_path / "m")


def test_a_copy_does_not_share_the_model(blobs):
    X, y = blobs
    model = ManyClassClassifier(random_state=0).fit(X, y)
    copy.copy(model).partial_fit(X, y + 100)
    assert model.classes_.tolist() == np.unique(y).tolist()


def test_errors_name_the_class_that_the_user_made(fitted, blobs):
    X = blobs[0]
    for call in (
        lambda: fitted.predict(X[:, :-1]),
        lambda: fitted.predict_set(X),
        lambda: ManyClassClassifier().fit(X[:5], np.zeros(5)),
        lambda: fitted.conformal_,
    ):
        with pytest.raises((ValueError, AttributeError), match="ManyClassClassifier") as found:
            call()
        assert "LabelTree" not in str(found.value)
