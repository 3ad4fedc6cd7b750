"""Data and fitted models that the estimators' tests share."""

import numpy as np
import pytest
from sklearn.datasets import load_digits, make_blobs

from manyclass import OneAgainstAllClassifier, RecallTreeClassifier

KINDS = {"tree": RecallTreeClassifier, "one-against-all": OneAgainstAllClassifier}


@pytest.fixture(params=KINDS)
def kind(request):
    """Both estimators, one after the other."""
    return KINDS[request.param]


@pytest.fixture(scope="session")
def digits():
    return load_digits(return_X_y=True)


@pytest.fixture(scope="session")
def blobs():
    """Twelve well separated classes in five dimensions."""
    rng = np.random.default_rng(2)
    centers = 6 * rng.standard_normal((12, 5))
    return make_blobs(480, centers=centers, cluster_std=0.5, random_state=0)[:2]


@pytest.fixture(scope="session")
def many():
    """A stream of 150 classes most of which turn up in the second half only."""
    rng = np.random.default_rng(4)
    centres = 3 * rng.standard_normal((150, 8))
    y = np.concatenate([rng.integers(0, 40, 600), np.arange(150), rng.integers(0, 150, 450)])
    X = centres[y] + 0.3 * rng.standard_normal((len(y), 8))
    return X, y


@pytest.fixture(scope="session")
def tree(many):
    """A Recall Tree of several levels, fitted on all but the last 300 rows of `many`."""
    X, y = many
    return RecallTreeClassifier(random_state=0, n_epochs=4, n_candidates=6, max_depth=6, beam=3).fit(X[:900], y[:900])


@pytest.fixture(scope="session")
def flat(many):
    """One-against-all, fitted on all but the last 300 rows of `many`."""
    X, y = many
    return OneAgainstAllClassifier(random_state=0, n_epochs=4).fit(X[:900], y[:900])
