"""What a split gains: entropy and error of leaves, and the two weak learning assumptions.

Splits are vectors of masses `left` and `right`, as in `splits.py`. A tree is judged by its leaves, a matrix of masses,
leaves x labels. Tags: [OT ...] "Extreme Multi Class Classification" (2013), whose entropies are in nats (base e);
[RT ...] "Logarithmic Time One-Against-Some" (2017), whose entropies are in bits (base 2). Printed and corrected
statements side by side: docs/theory.md.
"""

from math import e, log
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import rel_entr, xlogy

from reproduce.theory.splits import plain, read_split


def leaf_entropy(leaves: Any, base: float = e) -> float:
    """Compute G(T): the entropy of labels in a leaf, averaged over the leaves by their mass. [OT §4]

    With one row it is the entropy of that node: G(π) in nats, [RT §3.3] H_n in bits.

    Parameters
    ----------
    leaves : array of float of shape (n_leaves, n_labels), or (n_labels,) for one leaf
        Mass of each label in each leaf.
    base : float
        Of the logarithm: e for nats, 2 for bits.

    Returns
    -------
    float
        In 0..log(n_labels).

    Raises
    ------
    ValueError
        If a mass is negative, all are 0, or the base is not above 1.

    Examples
    --------
    Four equal labels in one leaf, then two and two:

    >>> from reproduce.theory.gains import leaf_entropy
    >>> leaf_entropy([5, 5, 5, 5], base=2), leaf_entropy([[5, 5, 0, 0], [0, 0, 5, 5]], base=2)
    (2.0, 1.0)
    """
    joint = _joint(leaves)
    if not base > 1:
        raise ValueError(f"base must be above 1, got {base}.")
    # H(label given leaf), as a sum of terms of one sign: nothing cancels.
    return float(-xlogy(joint, joint / np.maximum(joint.sum(axis=1, keepdims=True), 1e-300)).sum() / log(base))


def leaf_error(leaves: Any) -> float:
    """Compute the error rate of a tree whose leaves answer their heaviest label.

    It is at most `leaf_entropy`, in nats or bits, and at most half of it in bits (Hellman and Raviv, 1970).

    Parameters
    ----------
    leaves : array of float of shape (n_leaves, n_labels), or (n_labels,) for one leaf
        Mass of each label in each leaf.

    Returns
    -------
    float
        In 0..1.

    Raises
    ------
    ValueError
        If a mass is negative or all are 0.

    Examples
    --------
    >>> from reproduce.theory.gains import leaf_error
    >>> leaf_error([[5, 1, 0], [0, 1, 3]])
    0.2
    """
    joint = _joint(leaves)
    return float((joint.sum(axis=1) - joint.max(axis=1)).sum())


def _joint(leaves: Any) -> np.ndarray:
    """Masses of leaves x labels, divided by their sum."""
    leaves = np.atleast_2d(np.asarray(leaves, np.float64))
    if leaves.ndim != 2 or leaves.size == 0 or not np.all((leaves >= 0) & (leaves < np.inf)) or not leaves.any():
        raise ValueError(f"leaves must be masses, leaves x labels, at least 0 and not all 0, got {leaves}.")
    leaves = leaves / leaves.max()
    return leaves / leaves.sum()


def split_gain(left: Any, right: Any, share: float = 1.0, base: float = e) -> Any:
    """Compute Δ: by how much a split of one leaf lowers the entropy of the tree. [OT §4]

    With base 2 and share 1 it is the advantage that [RT Def. 1] wants to be at least γ: H_n − (p_l H_l + p_r H_r).

    Parameters
    ----------
    left, right : array of float of shape (..., n_labels)
        Mass of each label on either side, at least 0.
    share : float
        The leaf's share of all mass in the tree, w.
    base : float
        Of the logarithm: e for nats, 2 for bits.

    Returns
    -------
    float, or ndarray of float of shape (...)
        At least 0; at most the entropy of the two sides' masses, which is at most 1 bit.

    Raises
    ------
    ValueError
        If the masses do not fit each other, are negative, or are all 0, or if the base is not above 1.

    Examples
    --------
    >>> from reproduce.theory.gains import split_gain
    >>> split_gain([10, 0], [0, 10], base=2), round(split_gain([9, 1], [1, 9], base=2), 3)
    (1.0, 0.531)
    """
    if not base > 1:
        raise ValueError(f"base must be above 1, got {base}.")
    split = read_split(left, right)
    p, P = split.right[..., None], split.goes_right
    # The mean divergence of P_i from p is the same as the difference of entropies, and has no side without mass.
    divergence = rel_entr(P, p) + rel_entr(1.0 - P, 1.0 - p)
    # 0 · inf does not arise: a label with mass goes right only where p > 0. Labels without mass have P = 0.
    gain = (split.share * np.where(split.share > 0, divergence, 0.0)).sum(axis=-1)
    return plain(share * np.maximum(gain, 0.0) / log(base))


def split_gain_bound(left: Any, right: Any, share: float = 1.0) -> Any:
    """Bound Δ from below by the objective: w Ω² / (8 p (1 − p)), in nats. [OT §4]

    Printed with 4 in place of 8, which most splits violate: entropy is strongly concave with constant 1 in the sum of
    absolute values, so the printed "strong concavity" lacks the factor 1/2.

    Parameters
    ----------
    left, right, share
        As for `split_gain`.

    Returns
    -------
    float, or ndarray of float of shape (...)
        At most `split_gain`; 0 where all goes to one side.

    Raises
    ------
    ValueError
        As `split_gain`.

    Examples
    --------
    >>> from reproduce.theory.gains import split_gain, split_gain_bound
    >>> round(split_gain([9, 1], [1, 9]), 4), round(split_gain_bound([9, 1], [1, 9]), 4)
    (0.3681, 0.32)
    """
    split = read_split(left, right)
    variance = split.right * (1.0 - split.right)
    half = (split.share * np.abs(split.goes_right - split.right[..., None])).sum(axis=-1)  # Ω / 2
    return plain(share * np.where(variance > 0, half**2 / (2.0 * np.where(variance > 0, variance, 1.0)), 0.0))


def weak_hypothesis_gamma(left: Any, right: Any) -> Any:
    """Compute the largest γ for which a split meets the Weak Hypothesis Assumption. [OT Def. 3]

    The least |P_i − p| over the labels that have mass. It never exceeds min(p, 1 − p), as the definition wants, and it
    is 0 for a leaf with one label: such a leaf cannot meet the assumption.

    Parameters
    ----------
    left, right
        As for `split_gain`.

    Returns
    -------
    float, or ndarray of float of shape (...)
        In 0..1/2. Ω(h) is at least twice it.

    Raises
    ------
    ValueError
        As `split_gain`.

    Examples
    --------
    >>> from reproduce.theory.gains import weak_hypothesis_gamma
    >>> round(weak_hypothesis_gamma([9, 3], [1, 7]), 12)
    0.3
    """
    split = read_split(left, right)
    distance = np.abs(split.goes_right - split.right[..., None])
    return plain(np.where(split.share > 0, distance, np.inf).min(axis=-1))


def weak_learning_gamma(left: Any, right: Any) -> float:
    """Compute the largest γ for which splits meet the γ-Weak Learning Assumption: their least gain in bits. [RT Def. 1]

    The definition asks it of all distributions, which nothing can meet: a node with one label has no entropy to lose.
    Theorem 2 needs it of the splits that are made, and only those are looked at here.

    Parameters
    ----------
    left, right : array of float of shape (n_splits, n_labels), or (n_labels,) for one split
        Mass of each label on either side of each split.

    Returns
    -------
    float
        In 0..1.

    Raises
    ------
    ValueError
        As `split_gain`.

    Examples
    --------
    >>> from reproduce.theory.gains import weak_learning_gamma
    >>> round(weak_learning_gamma([[10, 0, 8, 2], [9, 0, 0, 0]], [[0, 10, 2, 8], [1, 0, 2, 8]]), 4)
    0.639
    """
    return float(np.min(split_gain(left, right, base=2.0)))


def two_class_gain(share: float, right_share: Any, gamma: float) -> Any:
    """Compute Δ of two labels, of which one goes right more often than the other by γ. [OT Eq. 1]

    The first label has the given share π and goes right with p + γ (1 − π), the second with p − γ π.

    Parameters
    ----------
    share : float
        Share of the first label, π_1, above 0 and below 1.
    right_share : float or array of float
        Share of all that goes right, p.
    gamma : float
        Difference of the two labels, above 0 and at most 1.

    Returns
    -------
    float, or ndarray of float
        In nats; NaN where p is outside γ π .. 1 − γ (1 − π), since no split has these shares.

    Raises
    ------
    ValueError
        If share or gamma is out of its range.

    Examples
    --------
    >>> from reproduce.theory.gains import two_class_gain
    >>> two_class_gain(0.5, [0.3, 0.5, 0.7], 0.2).round(4)
    array([0.0242, 0.0201, 0.0242])
    """
    _check_two(share, gamma)
    p = np.asarray(right_share, np.float64)
    first, second = p + gamma * (1.0 - share), p - gamma * share
    possible = (second >= -1e-12) & (first <= 1.0 + 1e-12) & (p > 0) & (p < 1)
    first, second = np.clip(first, 0.0, 1.0), np.clip(second, 0.0, 1.0)
    inside = np.where(possible, p, 0.5)
    gain = share * (rel_entr(first, inside) + rel_entr(1.0 - first, 1.0 - inside))
    gain = gain + (1.0 - share) * (rel_entr(second, inside) + rel_entr(1.0 - second, 1.0 - inside))
    return plain(np.where(possible, gain, np.nan))


def worst_right_share(share: float, gamma: float) -> float:
    """Compute the balance p at which two labels that differ by γ gain least. [OT Lemma 3]

    It lies in (1 − γ)/2 .. (1 + γ)/2. Printed: in 0.4..0.6 for every γ, which is false from γ = 0.3 on.

    Parameters
    ----------
    share, gamma
        As for `two_class_gain`.

    Returns
    -------
    float
        In 0..1.

    Raises
    ------
    ValueError
        If share or gamma is out of its range.

    Examples
    --------
    >>> from reproduce.theory.gains import worst_right_share
    >>> round(worst_right_share(0.1, 0.2), 3), round(worst_right_share(0.1, 0.5), 3)
    (0.446, 0.36)
    """
    _check_two(share, gamma)
    ends = (gamma * share, 1.0 - gamma * (1.0 - share))

    if ends[0] >= ends[1]:  # γ = 1: the labels are apart, and p is the share of the first
        return ends[0]

    # Convex in p, so that a bounded search finds the one minimum.
    def gain(p: float) -> float:
        return two_class_gain(share, min(max(p, ends[0]), ends[1]), gamma)

    return float(minimize_scalar(gain, bounds=ends, method="bounded", options={"xatol": 1e-9}).x)


def _check_two(share: float, gamma: float) -> None:
    if not 0 < share < 1:
        raise ValueError(f"share must be above 0 and below 1, got {share}.")
    if not 0 < gamma <= 1:
        raise ValueError(f"gamma must be above 0 and at most 1, got {gamma}.")
