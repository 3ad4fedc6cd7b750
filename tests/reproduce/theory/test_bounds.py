"""Proposition 1 and the remarks of the Recall Tree paper: what holds, and where the printed form fails. [RT]"""

from itertools import product
from math import comb, e, log2

import numpy as np
import pytest

from manyclass.recall_tree.kernels import recall_bound
from reproduce.theory.boosting import error_after_splits
from reproduce.theory.bounds import (
    moment_curve,
    most_labels,
    multiplier,
    multiplier_needed,
    simplex_points,
    splits_until_useful,
    voronoi_borders,
)
from reproduce.theory.gains import split_gain


@pytest.mark.parametrize(("covered", "true"), [(60.0, 0.4), (99.0, 0.98), (100.0, 0.7)])
def test_with_the_needed_multiplier_the_bound_is_the_true_recall(covered, true):
    needed = float(multiplier_needed(covered / 100, true, 100))
    assert recall_bound.py_func(covered, 100.0, needed) == pytest.approx(true)
    assert multiplier_needed(true, covered / 100, 100) == 0


def top_recall(rng, n_rows, n_labels, n_candidates, n_draws):
    """Empirical recall of the most frequent of equal labels, and of the same lists on other rows."""
    first, other = (rng.multinomial(n_rows, np.full(n_labels, 1 / n_labels), n_draws) for _ in range(2))
    top = np.argsort(-first, axis=1)[:, :n_candidates]
    return [np.take_along_axis(counts, top, axis=1).sum(axis=1) / n_rows for counts in (first, other)]


def test_proposition_1_fails_with_lambda_1_and_holds_with_the_proven_one():
    chosen, apart = top_recall(np.random.default_rng(1), 2000, 100, 28, 200)
    assert (multiplier_needed(chosen, 0.28, 2000) > 1).all()
    assert (multiplier_needed(chosen, 0.28, 2000) > multiplier(0.05, 2000)).all()  # that of a list fixed before
    assert (multiplier_needed(chosen, 0.28, 2000) <= multiplier(0.05, 2000, 100, 28)).all()
    assert np.mean(multiplier_needed(apart, 0.28, 2000) <= multiplier(0.05, 2000)) >= 0.95


@pytest.mark.parametrize("words", [(0.0, 10), (1.0, 10), (0.1, 1), (0.1, 10, 3, 4), (0.1, 10, 4, 2, 0)])
def test_a_multiplier_that_cannot_be_is_refused(words):
    with pytest.raises(ValueError, match="must be"):
        multiplier(*words)


@pytest.mark.parametrize(("n_labels", "steps"), [(2, 5), (3, 4), (5, 3)])
def test_points_of_the_simplex_are_counted(n_labels, steps):
    found = sum(sum(point) == steps for point in product(range(steps + 1), repeat=n_labels))
    assert simplex_points(n_labels, steps) == found
    low = 1 + (n_labels - 1) / steps
    assert low**steps <= found <= (e * low) ** steps


def test_the_printed_number_of_nodes_is_wrong_for_two_labels():
    assert simplex_points(2, 50) == 51 > (2 - 1) ** 50


def test_linear_classes_are_cells_of_a_power_diagram():
    """The cell of i has the least |x − w_i|² − |w_i|² − 2 b_i; with equal lengths and no bias, the nearest w_i."""
    rng = np.random.default_rng(0)
    W, b, X = rng.normal(size=(9, 3)), rng.normal(size=9), rng.normal(size=(500, 3))
    squared = ((X[:, None] - W) ** 2).sum(axis=2)
    assert ((X @ W.T + b).argmax(axis=1) == (squared - (W**2).sum(axis=1) - 2 * b).argmin(axis=1)).all()
    unit = W / np.linalg.norm(W, axis=1, keepdims=True)
    assert ((X @ unit.T).argmax(axis=1) == ((X[:, None] - unit) ** 2).sum(axis=2).argmin(axis=1)).all()


@pytest.mark.parametrize("n", [20, 60])
def test_borders_grow_linearly_in_the_plane_and_as_the_square_in_three_dimensions(n):
    assert voronoi_borders(np.random.default_rng(n).random((n, 2))) <= 3 * n - 6
    assert voronoi_borders(moment_curve(n)) > 0.95 * comb(n, 2)


def test_a_split_takes_one_bit_at_most():
    rng = np.random.default_rng(0)
    for _ in range(100):
        left, right = rng.random((2, 12))
        assert split_gain(left, right, base=2) <= 1 + 1e-9
    equal = np.ones(16)
    assert split_gain(equal * (np.arange(16) < 8), equal * (np.arange(16) >= 8), base=2) == pytest.approx(1.0)
    assert most_labels(1 / 4) == 16  # where that split takes just a quarter of log2 16 bits


def test_the_additive_bound_becomes_useful_after_the_splits_that_are_said():
    for gamma, K in ((1.0, 9), (0.5, 30)):
        t = splits_until_useful(gamma, K)
        assert error_after_splits(t, gamma, log2(K)) == pytest.approx(1.0)
