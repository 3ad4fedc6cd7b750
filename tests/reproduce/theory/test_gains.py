"""Entropy of leaves, what a split gains, the weak learning assumptions; Lemma 3 of 2013. [OT], [RT]"""

from math import e, log

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import entropy
from sklearn.datasets import load_digits

from manyclass import RecallTreeClassifier
from reproduce.theory.gains import (
    leaf_entropy,
    leaf_error,
    split_gain,
    split_gain_bound,
    two_class_gain,
    weak_hypothesis_gamma,
    weak_learning_gamma,
    worst_right_share,
)
from reproduce.theory.splits import purity_bound, purity_factor, right_share, right_share_bounds, split_objective
from tests.reproduce.theory.split_cases import SLACK, random_splits, splits

LEAVES = st.integers(1, 6).flatmap(
    lambda n: st.lists(st.lists(st.integers(0, 50), min_size=n, max_size=n).filter(any), min_size=1, max_size=5)
)


# -- leaves --------------------------------------------------------------------------------------------------------


@given(leaves=LEAVES, base=st.sampled_from([2.0, e, 10.0]))
def test_entropy_is_the_mean_over_leaves(leaves, base):
    weight = np.sum(leaves, axis=1) / np.sum(leaves)
    expected = sum(w * entropy(leaf, base=base) for w, leaf in zip(weight, leaves, strict=True))
    assert leaf_entropy(leaves, base=base) == pytest.approx(expected, abs=SLACK)
    assert leaf_entropy(leaves[0], base=base) == pytest.approx(entropy(leaves[0], base=base), abs=SLACK)


@given(leaves=LEAVES)
def test_error_is_at_most_the_entropy_and_half_of_it_in_bits(leaves):
    """[RT Thm. 2] uses the first; the second is Hellman and Raviv's."""
    error = leaf_error(leaves)
    assert error == pytest.approx(1 - np.max(leaves, axis=1).sum() / np.sum(leaves))
    assert error <= leaf_entropy(leaves) + SLACK
    assert error <= leaf_entropy(leaves, base=2) / 2 + SLACK


def test_two_equal_labels_reach_half_of_the_entropy():
    assert leaf_error([1, 1]) == leaf_entropy([1, 1], base=2) / 2 == 0.5


# -- gains ---------------------------------------------------------------------------------------------------------


@given(split=splits(), share=st.floats(0, 1), base=st.sampled_from([2.0, e]))
def test_gain_is_the_fall_of_entropy(split, share, base):
    left, right = split
    fall = leaf_entropy(left + right, base) - leaf_entropy([left, right], base)
    assert split_gain(left, right, share, base) == pytest.approx(share * fall, abs=SLACK)
    sides = leaf_entropy([left.sum(), right.sum()], base)
    assert 0 <= split_gain(left, right, base=base) <= sides + SLACK <= log(2) / log(base) + 2 * SLACK


@given(split=splits(), share=st.floats(0, 1))
def test_gain_is_bounded_by_the_objective_with_eight(split, share):
    left, right = split
    p, bound = right_share(left, right), split_gain_bound(left, right, share)
    assert bound <= split_gain(left, right, share) + SLACK
    if 0 < p < 1:
        assert bound == pytest.approx(share * split_objective(left, right) ** 2 / (8 * p * (1 - p)), abs=SLACK)


def test_the_printed_gain_bound_with_four_fails():
    # The best split of two equal labels gains ln 2 = 0.69, and Ω² / (4 p (1 − p)) = 1.
    assert split_gain([1, 0], [0, 1]) == pytest.approx(log(2))
    assert 2 * split_gain_bound([1, 0], [0, 1]) == 1.0 > log(2)
    left, right = random_splits(20_000)
    gain, corrected = split_gain(left, right), split_gain_bound(left, right)
    assert np.mean(2 * corrected > gain) > 0.8  # printed: most splits violate it
    assert np.all(corrected <= gain)


def test_no_better_constant_than_eight():
    tilt = 1e-4
    left, right = [0.5 - tilt, 0.5 + tilt], [0.5 + tilt, 0.5 - tilt]
    assert split_gain_bound(left, right) / split_gain(left, right) == pytest.approx(1.0, abs=1e-6)


def test_splits_of_a_learned_tree_keep_every_bound():
    X, y = load_digits(return_X_y=True)
    model = RecallTreeClassifier(beam=1, bernstein=None, max_depth=5, n_candidates=2, n_epochs=2, random_state=0)
    model.fit(X, y)
    # Rows x nodes and rows x labels: masses of nodes x labels.
    mass = model.decision_path(X).astype(float).T @ np.eye(10)[y]
    parent = np.array([row["parent"] for row in model.tree_table()])
    inner = [np.flatnonzero(parent == node) for node in np.unique(parent[parent >= 0])]
    pairs = [children for children in inner if len(children) == 2 and mass[children].sum(axis=1).all()]
    assert len(pairs) > 10
    left, right = mass[[a for a, _ in pairs]], mass[[b for _, b in pairs]]
    objective, p, purity = split_objective(left, right), right_share(left, right), purity_factor(left, right)
    lowest, highest = right_share_bounds(objective)
    assert np.all((lowest <= p + 1e-7) & (p <= highest + 1e-7))
    assert np.all(purity <= purity_bound(objective, p, sharp=True) + SLACK)
    assert np.all(split_gain_bound(left, right) <= split_gain(left, right) + SLACK)
    assert np.all(objective >= 2 * weak_hypothesis_gamma(left, right) - SLACK)
    assert np.mean(2 * split_gain_bound(left, right) > split_gain(left, right)) > 0.5  # with 4, as printed


# -- assumptions ---------------------------------------------------------------------------------------------------


@given(split=splits())
def test_weak_hypothesis_gamma_keeps_the_papers_conditions(split):
    """[OT Def. 3]: γ ≤ min(p, 1 − p) ≤ 1/2 needs no condition of its own, and Ω ≥ 2 γ."""
    left, right = split
    p, gamma = right_share(left, right), weak_hypothesis_gamma(left, right)
    there = (left + right) > 0
    assert gamma == pytest.approx(np.abs(right[there] / (left + right)[there] - p).min(), abs=SLACK)
    assert 0 <= gamma <= min(p, 1 - p) + SLACK
    assert split_objective(left, right) >= 2 * gamma - SLACK


@given(counts=st.tuples(st.integers(0, 99), st.integers(1, 99)))
def test_a_leaf_with_one_label_meets_no_assumption(counts):
    left, right = [counts[0], 0], [counts[1], 0]
    assert weak_hypothesis_gamma(left, right) == 0
    assert weak_learning_gamma(left, right) == pytest.approx(0, abs=SLACK)


def test_weak_learning_gamma_is_the_least_gain_in_bits():
    left, right = random_splits(9)
    gains = split_gain(left, right) / log(2)
    assert weak_learning_gamma(left, right) == pytest.approx(gains.min())
    assert weak_learning_gamma(left[3], right[3]) == pytest.approx(gains[3])


# -- Lemma 3 -------------------------------------------------------------------------------------------------------


@given(share=st.floats(0.01, 0.99), place=st.floats(0, 1), gamma=st.floats(0.01, 1))
def test_two_class_gain_is_that_of_the_split(share, place, gamma):
    p = gamma * share + place * (1 - gamma)  # from γ π to 1 − γ (1 − π)
    assume(0 < p < 1)
    goes = np.array([p + gamma * (1 - share), p - gamma * share]).clip(0, 1)
    mass = np.array([share, 1 - share])
    gain = two_class_gain(share, p, gamma)
    assert gain == pytest.approx(split_gain(mass * (1 - goes), mass * goes), abs=1e-7)
    # To the letter: Eq. 1 with G the entropy of two labels.
    delta = gamma * share * (1 - share)
    in_left, in_right = share - delta / (1 - p), share + delta / p
    pieces = [(1 - p) * entropy([in_left, 1 - in_left]) if 0 <= in_left <= 1 else 0.0]
    pieces.append(p * entropy([in_right, 1 - in_right]) if 0 <= in_right <= 1 else 0.0)
    assert gain == pytest.approx(entropy([share, 1 - share]) - sum(pieces), abs=1e-6)


@given(share=st.floats(0.001, 0.999), gamma=st.floats(0.01, 1))
def test_the_worst_balance_is_within_half_a_gamma_of_one_half(share, gamma):
    """[OT Lemma 3] corrected."""
    worst = worst_right_share(share, gamma)
    assert abs(worst - 0.5) <= gamma / 2 + 1e-4
    if gamma <= 0.29:
        assert 0.4 <= worst <= 0.6
    gains = two_class_gain(share, np.linspace(0.01, 0.99, 99), gamma)
    assert not np.any(gains < two_class_gain(share, worst, gamma) - SLACK)


def test_lemma_3_fails_as_printed():
    # γ = 1/2, which Definition 3 allows, and π = 0.1: least at p = 0.36, and less than anywhere in 0.4..0.6.
    assert worst_right_share(0.1, 0.5) == pytest.approx(0.360, abs=1e-3)
    inside = two_class_gain(0.1, np.linspace(0.4, 0.6, 201), 0.5)
    assert two_class_gain(0.1, 0.36, 0.5) < 0.995 * np.nanmin(inside)
    # γ = 0.9 and π = 0.1: no split at all has a p in 0.4..0.6.
    assert np.all(np.isnan(two_class_gain(0.1, np.linspace(0.4, 0.6, 201), 0.9)))


# -- what is refused -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", [leaf_entropy, leaf_error])
@pytest.mark.parametrize("leaves", [[], [[0, 0]], [[1, -1]], [[1, np.nan]], [[[1]]], [[np.inf, 1]]])
def test_what_are_no_leaves_is_refused(function, leaves):
    with pytest.raises(ValueError, match="leaves must be masses"):
        function(leaves)


def test_numbers_out_of_range_are_refused():
    for function in (lambda: leaf_entropy([1], base=1), lambda: split_gain([1], [1], base=0.5)):
        with pytest.raises(ValueError, match="base"):
            function()
    for share, gamma, message in ((0.0, 0.5, "share"), (1.0, 0.5, "share"), (0.5, 0.0, "gamma"), (0.5, 1.1, "gamma")):
        for call in (lambda s, g: two_class_gain(s, 0.5, g), worst_right_share):
            with pytest.raises(ValueError, match=message):
                call(share, gamma)
