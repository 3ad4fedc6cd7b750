"""Arrays grow while learning, keep all that was learned, and stay within their limits."""

import numpy as np
import pytest

from manyclass import OneAgainstAllClassifier
from manyclass.core.inputs import Dense
from manyclass.core.learners import SGD, NormalizedAdaGrad
from manyclass.core.state import flatten
from manyclass.one_against_all import model as one_against_all
from tests.reference.streams import late_labels

N_CLASSES, N_FEATURES = 120, 6


@pytest.fixture(scope="module")
def stream():
    return late_labels(N_CLASSES, N_FEATURES)


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
