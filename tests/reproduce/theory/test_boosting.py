"""Theorem 1 of 2013 and Theorem 2 of the Recall Tree paper, on trees grown split by split. [OT], [RT]"""

from math import log, log2

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reproduce.theory.boosting import entropy_after_splits, error_after_splits, error_after_splits_of, splits_needed
from reproduce.theory.gains import leaf_entropy, leaf_error, split_gain, weak_hypothesis_gamma
from reproduce.theory.splits import right_share, split_objective


def grow(mass, n_splits, draw_ways, skip_pure=True):
    """Split the heaviest leaf again and again. Returns the leaves after each split, the splits, and their shares.

    `draw_ways(leaf)` says which part of each label goes right. Leaves of one label are passed over, or end it all.
    """
    leaves, history, made, shares = [np.asarray(mass, float)], [], [], []
    total = leaves[0].sum()
    for _ in range(n_splits):
        open_ones = [i for i, leaf in enumerate(leaves) if np.count_nonzero(leaf) > 1 or not skip_pure]
        if not open_ones:
            break
        chosen = max(open_ones, key=lambda i: leaves[i].sum())
        leaf = leaves.pop(chosen)
        if np.count_nonzero(leaf) < 2:
            break
        right = leaf * draw_ways(leaf)
        leaves += [leaf - right, right]
        made.append((leaf - right, right))
        shares.append(leaf.sum() / total)
        history.append(list(leaves))
    return history, made, shares


def near_halves(rng, noise):
    """Labels in two groups of about the same mass; a part of each, at most `noise`, goes with the other group."""

    def draw_ways(leaf):
        ways, right = np.empty(len(leaf)), 0.0
        for label in np.argsort(-leaf):
            side = right <= leaf.sum() / 2 - 1e-12 and right + leaf[label] <= 0.6 * leaf.sum()
            right += leaf[label] * side
            ways[label] = side
        return np.abs(ways - noise * rng.random(len(leaf)))

    return draw_ways


CASES = {
    "seed": st.integers(0, 10**6),
    "n_labels": st.integers(2, 12),
    "noise": st.sampled_from([0.0, 0.05, 0.2, 0.4]),
    "skew": st.sampled_from([0.3, 1.0, 100.0]),
}


def case(seed, n_labels, noise, skew):
    rng = np.random.default_rng(seed)
    mass = np.maximum(rng.dirichlet(np.full(n_labels, skew)), 1e-6)
    return mass / mass.sum(), near_halves(rng, noise)


# -- Theorem 1 of 2013 ---------------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(**CASES)
def test_entropy_falls_as_theorem_1_promises_from_where_it_starts(seed, n_labels, noise, skew):
    mass, ways = case(seed, n_labels, noise, skew)
    history, made, _ = grow(mass, 30, ways)
    start, gamma = leaf_entropy(mass), 0.5
    for t, (leaves, split) in enumerate(zip(history, made, strict=True), 1):
        gamma = min(gamma, weak_hypothesis_gamma(*split))
        if gamma < 1e-6:
            break
        entropy = leaf_entropy(leaves)
        sharp = entropy_after_splits(t, gamma, n_labels, start, sharp=True)
        assert entropy <= sharp + 1e-9
        assert sharp <= entropy_after_splits(t, gamma, n_labels, start) + 1e-9
        assert leaf_error(leaves) <= sharp + 1e-9


@settings(max_examples=60)
@given(**CASES)
def test_every_split_gains_what_the_proof_wants(seed, n_labels, noise, skew):
    """[OT §4]: the bounds on Δ_t, with t leaves before the split: 8 in place of 4, and t leaves in place of 2 t."""
    mass, ways = case(seed, n_labels, noise, skew)
    history, made, shares = grow(mass, 20, ways)
    before = [leaf_entropy(mass), *(leaf_entropy(leaves) for leaves in history)]
    for t, (split, share) in enumerate(zip(made, shares, strict=True), 1):
        gamma, gain = weak_hypothesis_gamma(*split), split_gain(*split, share)
        assert gain == pytest.approx(before[t - 1] - before[t], abs=1e-9)
        assert share >= before[t - 1] / (t * log(n_labels)) - 1e-9
        assert gain >= gamma**2 * before[t - 1] / (2 * (1 - gamma) ** 2 * t * log(n_labels)) - 1e-9
        p, objective = right_share(*split), split_objective(*split)
        assert gain >= objective**2 * before[t - 1] / (8 * p * (1 - p) * t * log(n_labels)) - 1e-9
        assert gain >= 2 * gamma**2 * before[t - 1] / (t * log(n_labels)) - 1e-9


def test_theorem_1_fails_as_printed_near_one():
    # Eight equal labels, perfect splits: γ = 1/2. For ε = 1 the printed bound is 1, but one split leaves ln 4 = 1.39.
    history, made, _ = grow(np.ones(8), 7, near_halves(np.random.default_rng(0), 0.0))
    assert min(weak_hypothesis_gamma(*split) for split in made) == 0.5
    printed = (1 / 1.0) ** (4 * (1 - 0.5) ** 2 * log(8) / 0.5**2)
    assert printed == 1.0
    assert leaf_entropy(history[0]) == pytest.approx(log(4))
    assert leaf_entropy(history[0]) > 1.0
    needed = 1 + next(t for t, leaves in enumerate(history) if leaf_entropy(leaves) <= 1.0)
    assert printed < needed == 3 <= splits_needed(1.0, 0.5, 8, sharp=True) < splits_needed(1.0, 0.5, 8)


@given(
    goal=st.floats(0.05, 3),
    gamma=st.floats(0.05, 0.5),
    n_labels=st.integers(2, 1000),
    part=st.floats(0.01, 1),
    sharp=st.booleans(),
)
def test_number_of_splits_and_entropy_are_the_same_statement(goal, gamma, n_labels, part, sharp):
    start = part * log(n_labels)
    needed = splits_needed(goal, gamma, n_labels, start, sharp)
    if 0 < needed < 1e12:
        assert entropy_after_splits(needed, gamma, n_labels, start, sharp) == pytest.approx(goal, rel=1e-6)
    assert (needed == 0) == (goal >= start)
    if part == 1:
        assert needed == splits_needed(goal, gamma, n_labels, sharp=sharp)


# -- Theorem 2 of the Recall Tree paper ----------------------------------------------------------------------------


@settings(max_examples=60)
@given(**CASES)
def test_error_falls_as_theorem_2_promises_while_the_heaviest_leaf_is_split(seed, n_labels, noise, skew):
    mass, ways = case(seed, n_labels, noise, skew)
    history, made, shares = grow(mass, 30, ways, skip_pure=False)
    start, gamma = leaf_entropy(mass, base=2), 1.0
    for t, leaves in enumerate(history, 1):
        gamma = min(gamma, split_gain(*made[t - 1], base=2))
        error = leaf_error(leaves)
        printed, sharp = (error_after_splits(t, gamma, start, sharp) for sharp in (False, True))
        assert error <= sharp + 1e-9
        assert sharp <= printed / 2 + 1e-9
        assert error_after_splits_of(shares[:t], gamma, start, sharp=True) <= sharp + 1e-9
        assert shares[t - 1] >= 1 / t - 1e-9


@settings(max_examples=60)
@given(**CASES)
def test_any_order_is_bounded_by_the_shares_that_were_split(seed, n_labels, noise, skew):
    mass, ways = case(seed, n_labels, noise, skew)
    history, made, shares = grow(mass, 30, ways)
    start, gamma = leaf_entropy(mass, base=2), 1.0
    for t, leaves in enumerate(history, 1):
        gamma = min(gamma, split_gain(*made[t - 1], base=2))
        assert leaf_error(leaves) <= error_after_splits_of(shares[:t], gamma, start, sharp=True) + 1e-9
        assert leaf_entropy(leaves, base=2) <= error_after_splits_of(shares[:t], gamma, start) + 1e-9


def test_theorem_2_fails_if_a_heaviest_leaf_of_one_label_is_passed_over():
    # One label of 99 %, 32 equal ones share the rest. The first split parts the two, all others halve what is left.
    mass = np.array([99.0] + [1 / 32] * 32)
    history, made, shares = grow(mass, 20, near_halves(np.random.default_rng(0), 0.0))
    gamma, start = min(split_gain(*split, base=2) for split in made), leaf_entropy(mass, base=2)
    assert gamma == pytest.approx(0.0808, abs=1e-4)  # the first: every split gains that or more
    assert error_after_splits(20, gamma, start) < 0 < leaf_error(history[-1])
    assert leaf_error(history[-1]) <= error_after_splits_of(shares, gamma, start)


def test_theorem_2_says_nothing_of_a_thousand_equal_labels():
    # Perfect splits gain one bit, until all labels are apart after K − 1 splits. Nothing can gain more.
    assert error_after_splits(999, 1.0, log2(1000)) == pytest.approx(3.06, abs=0.01)
    says = [K for K in range(2, 1001) if error_after_splits(K - 1, 1.0, log2(K)) < 1]
    assert says == list(range(2, 10))
    sharp = [K for K in range(2, 1001) if error_after_splits(K - 1, 1.0, log2(K), sharp=True) < 1]
    assert sharp[-1] == 336


# -- what is refused -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gamma": 0.0}, "gamma"),
        ({"gamma": 0.6}, "gamma"),
        ({"gamma": np.nan}, "gamma"),
        ({"n_labels": 1}, "n_labels"),
        ({"entropy": 3.0}, "entropy"),
        ({"entropy": -1.0}, "entropy"),
    ],
)
def test_premises_of_theorem_1_are_checked(options, message):
    options = {"gamma": 0.5, "n_labels": 4} | options
    for function in (entropy_after_splits, splits_needed):
        with pytest.raises(ValueError, match=message):
            function(1, **options)


def test_other_numbers_out_of_range_are_refused():
    with pytest.raises(ValueError, match="goal"):
        splits_needed(0.0, 0.5, 4)
    for function, arguments in ((entropy_after_splits, (0.5, 4)), (error_after_splits, (0.5, 2.0))):
        with pytest.raises(ValueError, match="n_splits"):
            function(-1, *arguments)
    for function, first in ((error_after_splits, 3), (error_after_splits_of, [1.0])):
        with pytest.raises(ValueError, match="one bit"):
            function(first, 1.5, 2.0)
        with pytest.raises(ValueError, match="entropy"):
            function(first, 0.5, -2.0)
    with pytest.raises(ValueError, match="shares"):
        error_after_splits_of([1.5], 0.5, 2.0)
    assert splits_needed(0.001, 0.01, 1000) == np.inf
