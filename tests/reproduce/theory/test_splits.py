"""The objective of the online trees in its forms, purity and balance; Lemmas 1 and 2 of 2013. [OT], [ML]"""

import itertools

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from reproduce.theory.splits import (
    class_split_objective,
    purity_bound,
    purity_factor,
    right_share,
    right_share_bounds,
    split_objective,
    split_objective_by_class,
    split_objective_of_margins,
    split_objective_of_rows,
)
from tests.reproduce.theory.split_cases import SLACK, random_splits, splits

FUNCTIONS = [
    split_objective,
    split_objective_of_rows,
    split_objective_by_class,
    class_split_objective,
    right_share,
    purity_factor,
]


def printed_over_rows(left, right):
    """[OT §2.1] to the letter: one term for each row, with the counts of its label."""
    n_l, n_r, total = left.sum(), right.sum(), 0.0
    n_t = n_l + n_r
    for k_l, k_r in zip(left, right, strict=True):
        k_t = k_l + k_r
        for _ in range(int(k_t)):
            total += n_l / k_t * abs(k_t / n_t - k_l / n_l) + n_r / k_t * abs(k_t / n_t - k_r / n_r)
    return total


# -- the forms of the objective ------------------------------------------------------------------------------------


COUNTS = st.lists(st.integers(0, 9), min_size=4, max_size=4)


@given(left=COUNTS, right=COUNTS)
def test_sum_over_rows_is_the_printed_one(left, right):
    left, right = np.array(left, float), np.array(right, float)
    assume(left.any() and right.any())  # as printed it divides by the rows of either side
    assert split_objective_of_rows(left, right) == pytest.approx(printed_over_rows(left, right), abs=SLACK)


@given(split=splits())
def test_the_forms_differ_by_these_factors(split):
    left, right = split
    total, share = (left + right).sum(), (left + right) / (left + right).sum()
    objective = split_objective(left, right)
    assert split_objective_of_rows(left, right) == pytest.approx(total * objective, abs=SLACK)
    assert class_split_objective(left, right) == pytest.approx(objective / 2, abs=SLACK)
    by_class = split_objective_by_class(left, right)
    np.testing.assert_array_equal(np.isnan(by_class), share == 0)
    assert np.nansum(share * by_class) == pytest.approx(objective, abs=SLACK)


def test_the_forms_called_equivalent_are_not_equal():
    left, right = np.array([8.0, 1.0, 0.0]), np.array([2.0, 4.0, 9.0])
    objective = split_objective(left, right)
    assert split_objective_of_rows(left, right) == pytest.approx(24 * objective)  # [OT §2.1] against §3: n_t
    assert not np.any(np.isclose(split_objective_by_class(left, right), objective))  # §5: no sum over labels
    assert class_split_objective(left, right) == pytest.approx(objective / 2)  # [ML Eq. 1]: no factor 2


@given(rows=st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=1, max_size=40))
def test_margins_of_zero_and_one_give_the_objective(rows):
    labels, goes_right = np.array([row[0] for row in rows]), np.array([row[1] for row in rows])
    left, right = np.bincount(labels[~goes_right], minlength=5), np.bincount(labels[goes_right], minlength=5)
    relaxed = split_objective_of_margins(goes_right.astype(float), labels)
    assert relaxed == pytest.approx(split_objective(left, right), abs=SLACK)
    assert split_objective_of_margins(3.0 * goes_right - 7.0, labels) == pytest.approx(3.0 * relaxed, abs=SLACK)


def test_equal_classes_halve_the_labels_and_mass_halves_the_rows():
    # All pure splits of five labels, one of which has half of the rows.
    mass = np.array([8.0, 2.0, 2.0, 2.0, 2.0])
    sides = np.array(list(itertools.product([0, 1], repeat=5)))
    by_mass = class_split_objective(mass * (1 - sides), mass * sides)
    by_label = class_split_objective(mass * (1 - sides), mass * sides, equal_classes=True)
    assert set((sides[by_mass > by_mass.max() - SLACK] @ mass).tolist()) == {8.0}
    assert set(sides[by_label > by_label.max() - SLACK].sum(axis=1).tolist()) == {2, 3}


@given(split=splits())
def test_sides_scale_and_order_do_not_matter(split):
    left, right = split
    for function in (split_objective, purity_factor, class_split_objective):
        value = function(left, right)
        assert function(right, left) == pytest.approx(value, abs=SLACK)
        assert function(7.5 * left[::-1], 7.5 * right[::-1]) == pytest.approx(value, abs=SLACK)
        assert function(1e300 * left, 1e300 * right) == pytest.approx(value, abs=SLACK)
    assert right_share(left, right) == pytest.approx(1 - right_share(right, left))
    assert 0 <= split_objective(left, right) <= 1 + SLACK and 0 <= purity_factor(left, right) <= 0.5


@pytest.mark.parametrize("function", FUNCTIONS)
def test_several_splits_at_once(function):
    left, right = random_splits(6)
    each = [function(a, b) for a, b in zip(left, right, strict=True)]
    np.testing.assert_allclose(function(left, right), each)
    in_two_rows = np.reshape(each, (2, 3, *np.shape(each[0])))
    np.testing.assert_allclose(function(left.reshape(2, 3, 8), right.reshape(2, 3, 8)), in_two_rows)


# -- Lemmas 1 and 2 ------------------------------------------------------------------------------------------------


@given(split=splits(least=2))
def test_only_pure_and_balanced_splits_reach_the_top(split):
    """[OT Lemma 1], and its converse."""
    left, right = split
    at_top = split_objective(left, right) > 1 - SLACK
    assert at_top == (purity_factor(left, right) < SLACK and abs(right_share(left, right) - 0.5) < SLACK)


@given(split=splits())
def test_for_a_fixed_balance_pure_splits_are_the_best(split):
    """[OT Lemma 2] corrected: Ω ≤ 4 p (1 − p) for the given p, with equality for pure splits and no others."""
    left, right = split
    p = right_share(left, right)
    room = 4 * p * (1 - p) - split_objective(left, right)
    assert room >= -SLACK
    assert (room < SLACK) == (purity_factor(left, right) < SLACK)


def test_lemma_2_fails_where_no_pure_split_has_the_fixed_size():
    # Two labels of two rows: the pure and balanced split exists. With one row on the right, no split is pure: what
    # maximises the objective is not that split, and no k_r is 0 or k_t for every label, as the proof wants.
    total = np.array([2, 2])
    rights = [np.array(k) for k in itertools.product(range(3), repeat=2) if sum(k) == 1]
    best = max(rights, key=lambda right: split_objective(total - right, right))
    assert split_objective([2, 0], [0, 2]) == 1.0
    assert purity_factor(total - best, best) == 0.25
    assert all(purity_factor(total - right, right) > 0 for right in rights)


# -- balance and purity bounds -------------------------------------------------------------------------------------


@given(split=splits())
def test_balance_is_bounded_as_printed(split):
    left, right = split
    lowest, highest = right_share_bounds(split_objective(left, right))
    # Near Ω = 1 the root turns rounding of 1e-16 into 1e-8.
    assert lowest - 1e-7 <= right_share(left, right) <= highest + 1e-7


@given(split=splits())
def test_purity_is_bounded_with_the_smaller_side(split):
    left, right = split
    objective, p, purity = split_objective(left, right), right_share(left, right), purity_factor(left, right)
    paper, sharp = purity_bound(objective, p), purity_bound(objective, p, sharp=True)
    assert purity <= sharp + SLACK
    assert sharp <= paper + SLACK


def test_the_printed_purity_bound_fails_where_more_goes_right():
    # π = (0.8, 0.2), P = (1, 0.5): p = 0.9 > 1/2.
    left, right = [0.0, 0.1], [0.8, 0.1]
    objective, p, purity = split_objective(left, right), right_share(left, right), purity_factor(left, right)
    assert (objective, p, purity) == pytest.approx((0.32, 0.9, 0.1))
    assert (2 - objective) / (4 * p) - p == pytest.approx(-0.4333, abs=1e-4)  # as printed: below 0, and below 0.1
    assert purity <= purity_bound(objective, p, sharp=True) + SLACK <= purity_bound(objective, p)
    # With the sides swapped it is the same split, and the printed form holds.
    assert purity <= (2 - objective) / (4 * (1 - p)) - (1 - p)


def test_the_printed_purity_bound_fails_for_every_split_that_goes_right_more_often():
    left, right = random_splits(20_000)
    objective, p, purity = split_objective(left, right), right_share(left, right), purity_factor(left, right)
    printed = (2 - objective) / (4 * p) - p
    assert np.all(purity[p > 0.5] > printed[p > 0.5])
    assert np.all(purity[p <= 0.5] <= printed[p <= 0.5])
    assert np.all(purity <= purity_bound(objective, p))


@given(q=st.floats(0.01, 0.5), part=st.floats(0, 1), swap=st.booleans())
def test_some_split_reaches_the_sharp_purity_bound(q, part, swap):
    objective = part * 4 * q * (1 - q)
    low = objective / (4 * q)  # share of a label that only goes to the larger side
    if objective <= 8 * q * (0.5 - q):  # three labels: none above 1/2, so that purity is q itself
        high = objective / (4 * (0.5 - q)) if q < 0.5 else 0.0
        share, goes = np.array([low, high, 1 - low - high]), np.array([0.0, 0.5, q])
    else:
        share = np.array([low, 1 - low])
        goes = np.array([0.0, min(q + objective / (4 * (1 - low)), 1.0)])
    left, right = share * (1 - goes), share * goes
    left, right = (right, left) if swap else (left, right)
    assert split_objective(left, right) == pytest.approx(objective, abs=1e-7)
    assert purity_factor(left, right) == pytest.approx(
        purity_bound(objective, 1 - q if swap else q, sharp=True), abs=1e-7
    )


# -- what is refused -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize(
    ("left", "right", "message"),
    [
        ([1, 2], [1], "shapes"),
        (1, 2, "shapes"),
        ([], [], "shapes"),
        ([1, -1], [1, 1], "left must hold masses"),
        ([1, 1], [np.nan, 1], "right must hold masses"),
        ([1, 1], [np.inf, 1], "right must hold masses"),
        ([0, 0], [0, 0], "some mass"),
        ([[1, 0], [0, 0]], [[1, 0], [0, 0]], "some mass"),
    ],
)
def test_what_is_no_split_is_refused(function, left, right, message):
    with pytest.raises(ValueError, match=message):
        function(left, right)


@pytest.mark.parametrize(
    ("margins", "labels"),
    [([], []), ([1.0], [0, 1]), ([1.0], [0.5]), ([1.0], [-1]), ([np.nan], [0]), ([[1.0]], [[0]])],
)
def test_margins_that_do_not_fit_are_refused(margins, labels):
    with pytest.raises(ValueError, match=r"labels must be|margins and labels"):
        split_objective_of_margins(margins, labels)


def test_shares_out_of_range_are_refused():
    with pytest.raises(ValueError, match=r"objective must be in 0..1"):
        right_share_bounds(1.5)
    with pytest.raises(ValueError, match=r"right_share must be in 0..1"):
        purity_bound(0.5, -0.1)
    assert purity_bound(0.0, 0.0) == np.inf and purity_bound(0.0, 1.0, sharp=True) == 0.0
