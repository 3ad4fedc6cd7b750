"""scikit-learn's own checks, and the places where people put estimators."""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from manyclass import (
    Hellinger,
    LabelTreeClassifier,
    LomTreeClassifier,
    ManyClassClassifier,
    MlomTreeClassifier,
    OneAgainstAllClassifier,
    RecallTreeClassifier,
    SpectralFilter,
    SpectralTreeClassifier,
)

# All estimators take gradient steps row by row, some of them node by node.
STEPS = "stochastic gradient descent: a row of weight 2 is one longer step, not two steps"


def expected_failures(estimator):
    if isinstance(estimator, (SpectralFilter, Hellinger)):
        return {}
    return {
        "check_sample_weight_equivalence_on_dense_data": STEPS,
        "check_sample_weight_equivalence_on_sparse_data": STEPS,
    }


@parametrize_with_checks(
    [
        RecallTreeClassifier(),
        RecallTreeClassifier(beam=1, path_features="bias", loss="logistic"),  # the options of the paper
        OneAgainstAllClassifier(),
        ManyClassClassifier(),
        LabelTreeClassifier(),
        SpectralTreeClassifier(),
        SpectralFilter(),
        Hellinger(),
        LomTreeClassifier(),
        MlomTreeClassifier(),
    ],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_pipeline_and_grid_search():
    X, y = load_digits(return_X_y=True)
    search = GridSearchCV(
        make_pipeline(MinMaxScaler(), RecallTreeClassifier(random_state=0, n_epochs=5)),
        {"recalltreeclassifier__n_candidates": [2, 8]},
        cv=2,
    ).fit(X[:600], y[:600])
    assert search.best_score_ > 0.8
    assert np.isin(search.predict(X[600:]), np.arange(10)).all()
