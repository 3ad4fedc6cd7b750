"""The calibration benchmark: rows that are scored once, and the error of a perfect model."""

import numpy as np
import pytest
import scipy.sparse as sp

from benchmarks.calibration import ece_if_perfect, scored_once
from manyclass import LabelTreeClassifier


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_rows_that_are_scored_once_have_the_same_sets(form):
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((12, 5))
    y = rng.integers(0, 12, 400)
    X = form((centres[y] + rng.standard_normal((400, 5))).astype(np.float32))
    model = LabelTreeClassifier(arity=4, random_state=0).fit(X[:200], y[:200])
    expected = model.conformal(X[200:300], y[200:300], coverage=0.7).predict_set(X[300:])
    model._scored = scored_once(model, X[200:])
    order = np.random.default_rng(1).permutation(100)
    found = model.conformal(X[200:300], y[200:300], coverage=0.7).predict_set(X[300:][order])
    assert 0 < expected.nnz < 1200 and (found != expected[order]).nnz == 0


def test_error_of_a_perfect_model_is_that_of_chance():
    few, many = (ece_if_perfect(np.full(n, 0.5)) for n in (100, 10_000))
    assert many < 0.02 < few  # the mean of |share - 0.5| over ten bins is about 0.4 / sqrt(rows of a bin)
    assert ece_if_perfect(np.ones(100)) == 0.0
