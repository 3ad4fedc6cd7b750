"""Measuring a split of labels in two: the objective of the online trees, its forms, purity and balance.

A split is two vectors of masses (weighted counts), one entry for each label: what went `left` and what went `right`.
Several splits at once are arrays with the labels on the last axis; answers then have one entry for each split.

Tags: [OT ...] "Extreme Multi Class Classification" (2013), [MLOM ...] the MLOM tree (2018). In [OT] a row with
h(x) > 0 goes right. Printed and corrected statements side by side: docs/theory.md.
"""

from typing import Any, NamedTuple

import numpy as np


class Split(NamedTuple):
    """Splits after all checks, as shares."""

    total: np.ndarray  # mass of all labels, n_t
    share: np.ndarray  # share of each label in it, pi_i
    goes_right: np.ndarray  # share of each label that goes right, P_i; 0 for a label without mass
    right: np.ndarray  # share of all that goes right, p


def read_split(left: Any, right: Any) -> Split:
    """Check the masses of one or several splits and turn them into shares."""
    left, right = np.asarray(left, np.float64), np.asarray(right, np.float64)
    if left.shape != right.shape or left.ndim == 0 or left.shape[-1] == 0:
        raise ValueError(
            f"left and right must have the same labels on their last axis, got shapes {left.shape} and {right.shape}."
        )
    for name, mass in (("left", left), ("right", right)):
        if not np.all((mass >= 0) & (mass < np.inf)):
            raise ValueError(f"{name} must hold masses, numbers of at least 0, got {mass}.")
    # Divided by the largest mass first: neither the sum nor a share may overflow or vanish.
    largest = np.maximum(left, right).max(axis=-1, keepdims=True)
    if not np.all(largest > 0):
        raise ValueError("A split needs some mass in left or right; all of it is 0.")
    of_label = left / largest + right / largest
    whole = of_label.sum(axis=-1, keepdims=True)
    there = np.where(of_label > 0, of_label, 1.0)
    goes_right = np.clip(right / largest / there, 0.0, 1.0)
    share = of_label / whole
    return Split((whole * largest)[..., 0], share, goes_right, np.clip((share * goes_right).sum(axis=-1), 0.0, 1.0))


def plain(value: np.ndarray) -> Any:
    """A float of one split, an array of several."""
    return float(value) if np.ndim(value) == 0 else value


def split_objective(left: Any, right: Any) -> Any:
    """Compute Ω(h), what the online tree maximises at a node: twice the mean distance of P_i from p. [OT §3]

    P_i is the share of label i that goes right, p that of all rows, and labels count by their mass. 0: every label is
    split like all others; 1: every label is on one side, and both sides have the same mass.

    The paper gives several forms, which it calls equivalent. This one is in 0..1. `split_objective_of_rows` (§2.1) is
    n_rows times it; `split_objective_by_class` (§5) has one value a label, whose mean by mass it is; the MLOM tree's
    `class_split_objective` is half of it.

    Parameters
    ----------
    left, right : array of float of shape (..., n_labels)
        Mass of each label on either side, at least 0.

    Returns
    -------
    float, or ndarray of float of shape (...)
        In 0..1.

    Raises
    ------
    ValueError
        If the masses do not fit each other, are negative, or are all 0.

    Examples
    --------
    Two labels apart, then mixed a little, then alike on both sides:

    >>> from reproduce.theory.splits import split_objective
    >>> split_objective([8, 0], [0, 8]), split_objective([7, 1], [1, 7]), split_objective([4, 4], [4, 4])
    (1.0, 0.75, 0.0)
    """
    split = read_split(left, right)
    return plain(2.0 * _mean_distance(split, split.share))


def split_objective_of_rows(left: Any, right: Any) -> Any:
    """Compute Ω(n_r, k_r), the objective as a sum over rows: n_rows times `split_objective`. [OT §2.1]

    Each row adds (n_l / k_t) |k_t / n_t − k_l / n_l| + (n_r / k_t) |k_t / n_t − k_r / n_r| with the counts k of its own
    label. The two terms are equal.

    Parameters
    ----------
    left, right
        As for `split_objective`; the counts of rows.

    Returns
    -------
    float, or ndarray of float of shape (...)
        In 0..n_rows.

    Raises
    ------
    ValueError
        As `split_objective`.

    Examples
    --------
    >>> from reproduce.theory.splits import split_objective_of_rows
    >>> split_objective_of_rows([7, 1], [1, 7])
    12.0
    """
    split = read_split(left, right)
    return plain(2.0 * split.total * _mean_distance(split, split.share))


def split_objective_by_class(left: Any, right: Any) -> np.ndarray:
    """Compute 2 |P_i − p| of each label, the form from which the online algorithm follows. [OT §5]

    As printed there it is called Ω(h), but has no sum over labels: its mean, each label by its mass, is Ω(h).

    Parameters
    ----------
    left, right
        As for `split_objective`.

    Returns
    -------
    ndarray of float of shape (..., n_labels)
        NaN for labels without mass.

    Raises
    ------
    ValueError
        As `split_objective`.

    Examples
    --------
    >>> from reproduce.theory.splits import split_objective_by_class
    >>> split_objective_by_class([6, 0, 2], [0, 3, 1]).round(3)
    array([0.667, 1.333, 0.   ])
    """
    split = read_split(left, right)
    return np.where(split.share > 0, 2.0 * np.abs(split.goes_right - split.right[..., None]), np.nan)


def split_objective_of_margins(margins: Any, labels: Any) -> float:
    """Compute the relaxed Ω(h), with the margin h(x) itself in place of whether it is above 0. [OT §5]

    Twice the mean over rows of |mean margin of the row's label − mean margin of all|. This is what the running means
    of Algorithm 1 climb. Where h(x) is 1 or 0, it is Ω(h).

    Parameters
    ----------
    margins : array of float of shape (n_rows,)
        What the router says, h(x); above 0 goes right.
    labels : array of int of shape (n_rows,)
        Class ids 0, 1, ...

    Returns
    -------
    float
        At least 0.

    Raises
    ------
    ValueError
        If the two do not fit each other, are empty, or are not as described.

    Examples
    --------
    >>> from reproduce.theory.splits import split_objective_of_margins
    >>> split_objective_of_margins([1.0, 0.5, -1.5, -2.0], [0, 0, 1, 1])
    2.5
    """
    margins, labels = np.asarray(margins, np.float64), np.asarray(labels)
    if margins.ndim != 1 or margins.shape != labels.shape or len(margins) == 0:
        raise ValueError(f"margins and labels must be vectors of one length, got {margins.shape} and {labels.shape}.")
    if labels.dtype.kind not in "iu" or labels.min() < 0 or not np.all(np.isfinite(margins)):
        raise ValueError("labels must be class ids (0, 1, ...) and margins finite numbers.")
    count = np.bincount(labels)
    mean = np.bincount(labels, weights=margins) / np.maximum(count, 1)
    return float(2.0 * count @ np.abs(mean - margins.mean()) / len(margins))


def class_split_objective(left: Any, right: Any, equal_classes: bool = False) -> Any:
    """Compute J(h) of the MLOM tree: the mean distance of P_i from p, which is half of Ω(h). [MLOM Eq. 1]

    Parameters
    ----------
    left, right
        As for `split_objective`.
    equal_classes : bool
        Count every label that has mass the same, and p as the mean of P_i. The split that is best then halves the
        number of labels, not that of rows.

    Returns
    -------
    float, or ndarray of float of shape (...)
        In 0..1/2.

    Raises
    ------
    ValueError
        As `split_objective`.

    Examples
    --------
    One frequent label against three rare ones; two labels against two:

    >>> from reproduce.theory.splits import class_split_objective
    >>> lone, paired = ([8, 0, 0, 0], [0, 2, 2, 4]), ([8, 2, 0, 0], [0, 0, 2, 4])
    >>> class_split_objective(*lone), class_split_objective(*paired)
    (0.5, 0.46875)
    >>> class_split_objective(*lone, equal_classes=True), class_split_objective(*paired, equal_classes=True)
    (0.375, 0.5)
    """
    split = read_split(left, right)
    if equal_classes:
        there = split.share > 0
        share = there / there.sum(axis=-1, keepdims=True)
        split = split._replace(share=share, right=(share * split.goes_right).sum(axis=-1))
    return plain(_mean_distance(split, split.share))


def _mean_distance(split: Split, share: np.ndarray) -> np.ndarray:
    return (share * np.abs(split.goes_right - split.right[..., None])).sum(axis=-1)


def right_share(left: Any, right: Any) -> Any:
    """Compute the balancing factor: which share of all mass goes right. [OT §3]

    Parameters
    ----------
    left, right
        As for `split_objective`.

    Returns
    -------
    float, or ndarray of float of shape (...)
        In 0..1; 1/2 is balanced.

    Raises
    ------
    ValueError
        As `split_objective`.

    Examples
    --------
    >>> from reproduce.theory.splits import right_share
    >>> right_share([6, 0], [0, 2])
    0.25
    """
    return plain(read_split(left, right).right)


def purity_factor(left: Any, right: Any) -> Any:
    """Compute the purity factor: the share of all mass that is not on its label's larger side. [OT Def. 1]

    Parameters
    ----------
    left, right
        As for `split_objective`.

    Returns
    -------
    float, or ndarray of float of shape (...)
        In 0..1/2; 0 is pure.

    Raises
    ------
    ValueError
        As `split_objective`.

    Examples
    --------
    >>> from reproduce.theory.splits import purity_factor
    >>> purity_factor([7, 2], [1, 6])
    0.1875
    """
    split = read_split(left, right)
    return plain((split.share * np.minimum(split.goes_right, 1.0 - split.goes_right)).sum(axis=-1))


def right_share_bounds(objective: Any) -> tuple[Any, Any]:
    """Compute between which bounds the balancing factor lies, from the objective. [OT §3.1]

    (1 ∓ √(1 − Ω)) / 2, because Ω ≤ 4 p (1 − p). Holds as printed, with equality for pure splits.

    Parameters
    ----------
    objective : float or array of float
        Ω(h) as `split_objective` gives it.

    Returns
    -------
    lowest, highest : float, or ndarray of float
        In 0..1/2 and 1/2..1.

    Raises
    ------
    ValueError
        If the objective is not in 0..1.

    Examples
    --------
    >>> from reproduce.theory.splits import right_share_bounds
    >>> right_share_bounds(0.75), right_share_bounds(1.0)
    ((0.25, 0.75), (0.5, 0.5))
    """
    objective = _in_unit(objective, "objective")
    half_width = np.sqrt(1.0 - objective) / 2.0
    return plain(0.5 - half_width), plain(0.5 + half_width)


def purity_bound(objective: Any, right_share: Any, sharp: bool = False) -> Any:
    """Bound the purity factor from above by the objective and the balancing factor. [OT §3.2]

    With q = min(p, 1 − p): (2 − Ω) / (4 q) − q. Printed with p in place of q: false if p > 1/2. The sharp
    form, min(q, 1 − q − Ω / (4 q)), is the least that any bound by these two can say, and 0 for every pure split; the
    paper's is so only for those that are balanced too.

    Parameters
    ----------
    objective : float or array of float
        Ω(h) as `split_objective` gives it.
    right_share : float or array of float
        The balancing factor, in 0..1.
    sharp : bool
        Give the best bound in place of the paper's, corrected.

    Returns
    -------
    float, or ndarray of float
        At least 0 for values that a split can have; infinite where all goes to one side, unless `sharp`.

    Raises
    ------
    ValueError
        If either is not in 0..1.

    Examples
    --------
    A pure split of a quarter from the rest has Ω = 4 · ¼ · ¾:

    >>> from reproduce.theory.splits import purity_bound
    >>> purity_bound(0.75, 0.25), purity_bound(0.75, 0.25, sharp=True)
    (1.0, 0.0)
    """
    objective, share = _in_unit(objective, "objective"), _in_unit(right_share, "right_share")
    smaller = np.minimum(share, 1.0 - share)
    inside = np.where(smaller > 0, smaller, 1.0)
    if sharp:
        bound = np.maximum(np.minimum(smaller, 1.0 - smaller - objective / (4.0 * inside)), 0.0)
        return plain(np.where(smaller > 0, bound, 0.0))
    return plain(np.where(smaller > 0, (2.0 - objective) / (4.0 * inside) - smaller, np.inf))


def _in_unit(value: Any, name: str) -> np.ndarray:
    """Numbers of 0..1, forgiving what rounding adds."""
    value = np.asarray(value, np.float64)
    if not np.all((value >= -1e-9) & (value <= 1.0 + 1e-9)):
        raise ValueError(f"{name} must be in 0..1, got {value}.")
    return np.clip(value, 0.0, 1.0)
