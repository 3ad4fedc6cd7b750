"""The eigenproblem of a node against plain numpy."""

import numpy as np
import pytest

from manyclass.spectral_tree.filter import STEPS, number_labels
from manyclass.spectral_tree.node import Part, split_node
from tests.reference import spectral_tree as reference
from tests.spectral_tree.rows import both, labels_of, random_rows


def split(batch, Y, mass, several, n_features, steps, some=None, seed=5):
    some = np.arange(len(Y)) if some is None else some
    pointer, label = labels_of(Y[some])
    _, first, where = np.unique(label, return_index=True, return_inverse=True)
    masses = np.bincount(where, np.repeat(mass, np.diff(pointer)))
    labels = number_labels(pointer, first, where, masses)
    return split_node(batch, Part(some, mass), labels, n_features, several, steps, seed)


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_the_default_steps_come_near(seed, several):
    X, Y, mass = random_rows(seed, n=300, d=40, k=25, several=several)
    _, value = reference.direction(X.astype(float), Y, mass)
    _, _, found, _ = split(both(X)[1], Y, mass, several, 40, STEPS)
    assert 0.95 * value < found < 1.001 * value


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_direction_is_the_constrained_top_eigenvector(seed, several):
    X, Y, mass = random_rows(seed, several=several)
    w, value = reference.direction(X.astype(float), Y, mass)
    for batch in both(X):
        features, weight, found, margin = split(batch, Y, mass, several, X.shape[1], (9, 60))
        full = np.zeros(X.shape[1])
        full[features] = weight
        assert found == pytest.approx(value, rel=1e-4)
        assert abs(full @ w) == pytest.approx(1, abs=1e-3)
        assert abs(mass @ (X @ full)) < 1e-3 * mass.sum()  # [ST Eq. 2]: orthogonal to the mean
        np.testing.assert_allclose(margin, X @ full, atol=1e-5)


def test_only_the_rows_of_a_node_and_their_features_count():
    X, Y, mass = random_rows(9)
    some = np.array([3, 17, 20, 41, 55, 58])
    X[:, 2] = 0
    X[some, 4] = 0
    for batch in both(X):
        features, weight, value, _ = split(batch, Y, mass[some], False, X.shape[1], (9, 5), some)
        w, expected = reference.direction(X[some].astype(float), Y[some], mass[some])
        assert value == pytest.approx(expected, rel=1e-4)
        assert not {2, 4} & set(features.tolist())
        assert (np.diff(features) > 0).all()
        assert abs(weight @ w[features]) == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("same", ["rows", "class", "zeros"])
def test_a_node_without_a_direction_has_no_eigenvalue(same):
    X, Y, mass = random_rows(1)
    if same == "rows":
        X[:] = X[0]
    elif same == "zeros":
        X[:] = 0
    else:
        Y[:] = Y[0]
    for batch in both(X):
        _, weight, value, margin = split(batch, Y, mass, False, X.shape[1], (9, 5), seed=0)
        assert np.isfinite(weight).all() and np.isfinite(value) and np.isfinite(margin).all()
        assert value < 1e-3
