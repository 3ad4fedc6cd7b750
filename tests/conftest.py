"""Settings, data and fitted models that several tests share."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, settings
from sklearn.datasets import load_digits, make_blobs

from manyclass import (
    LabelTreeClassifier,
    LomTreeClassifier,
    MlomTreeClassifier,
    OneAgainstAllClassifier,
    RecallTreeClassifier,
)

# A slow machine must not fail a test, and the same tree must give the same result twice.
settings.register_profile(
    "no clock", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("no clock")

# Those that learn all rows in every epoch, with a learner of choice.
EPOCH_KINDS = {
    "tree": RecallTreeClassifier,
    "one-against-all": OneAgainstAllClassifier,
    "lom-tree": LomTreeClassifier,
    "mlom-tree": MlomTreeClassifier,
}
KINDS = EPOCH_KINDS | {"label-tree": LabelTreeClassifier}


@pytest.fixture(params=KINDS)
def kind(request):
    """All estimators, one after the other."""
    return KINDS[request.param]


@pytest.fixture(params=["tree", "label-tree"])
def input_kind(request):
    """One estimator for each of the two ways in which inputs are checked: one label per row, or also several."""
    return KINDS[request.param]


@pytest.fixture(params=EPOCH_KINDS)
def epoch_kind(request):
    """Estimators with the options of learning in epochs: shuffle, early stopping, learner, table_bits."""
    return EPOCH_KINDS[request.param]


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


def make_text(seed, n_rows, n_labels, most=1, n_features=700):
    """Rows of a few words: some of their labels' own five, some that every row may have. Returns X, 0/1 matrix."""
    rng = np.random.default_rng(seed)
    own = rng.integers(0, n_features, (n_labels, 5))
    X, Y = np.zeros((n_rows, n_features), np.float32), np.zeros((n_rows, n_labels), np.int8)
    for x, y in zip(X, Y, strict=True):
        labels = rng.choice(n_labels, rng.integers(1, most + 1), replace=False)
        words = np.concatenate([*(rng.choice(own[label], 3) for label in labels), rng.integers(0, n_features, 2)])
        x[words] = rng.uniform(0.5, 1.5, len(words))
        y[labels] = 1
    return sp.csr_array(X), sp.csr_array(Y)


@pytest.fixture(scope="session")
def text():
    """Sparse rows of 80 classes, wider than what is spread out."""
    X, Y = make_text(5, 1300, 80)
    return X, Y.toarray().argmax(axis=1)


@pytest.fixture(scope="session")
def tagged():
    """Sparse rows with one to three of 60 labels each; some rows have none, and the last two columns are never set."""
    X, Y = make_text(6, 1100, 60, most=3)
    Y = Y.toarray()
    Y[::50] = 0
    return X, sp.csr_array(np.hstack([Y, np.zeros((1100, 2), np.int8)]))
