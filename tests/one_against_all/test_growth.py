"""Arrays grow while learning, keep all that was learned, and stay within their limits."""

import numpy as np
import pytest

from manyclass import OneAgainstAllClassifier
from manyclass.core.inputs import Dense
from manyclass.core.learners import SGD, NormalizedAdaGrad
from manyclass.core.state import flatten
from manyclass.one_against_all import model as one_against_all

N_CLASSES, N_FEATURES = 120, 6


@pytest.fixture(scope="module")
def stream():
    rng = np.random.default_rng(5)
    centres = rng.standard_normal((N_CLASSES, N_FEATURES))
    y = np.sort(rng.integers(0, N_CLASSES, 900))
    y = np.concatenate([y, rng.integers(0, N_CLASSES, 900)]).astype(np.int32)  # new labels come late, too
    X = (centres[y] + 0.2 * rng.standard_normal((len(y), N_FEATURES))).astype(np.float32)
    return X, y, rng.uniform(0.5, 1.5, len(y))


@pytest.mark.parametrize("changes", [{}, {"table_bits": 9}, {"rank": 3}, {"learner": NormalizedAdaGrad()}])
def test_one_against_all_grows_and_keeps_its_limit(stream, changes):
    X, y, weights = stream
    settings = {"table_bits": 20, "learner": SGD(), **changes}
    config = OneAgainstAllClassifier(**settings)._resolve_options(N_FEATURES, False, 3)
    state = one_against_all.init(config, N_FEATURES)
    one_against_all.learn(config, state, Dense(X), y, weights)
    columns = state["columns"]
    assert len(columns.bias) == columns.weight.shape[1] >= N_CLASSES
    assert state["seen"].n_labels[0] == N_CLASSES
    assert columns.weight.size <= 2**config.table_bits
    assert (columns.mask[0] != 0) == (changes == {"table_bits": 9})
    assert all(np.all(np.isfinite(array)) for array in flatten(state).values())
