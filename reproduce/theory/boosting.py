"""What the boosting theorems promise of a tree that grows split by split.

Tags: [OT ...] "Extreme Multi Class Classification" (2013), whose entropies are in nats (base e); [RT ...] "Logarithmic
Time One-Against-Some" (2017), whose entropies are in bits (base 2). Each function gives the corrected statement; with
`sharp=True` the best that the same proof gives. Printed and corrected side by side: docs/theory.md.
"""

from math import log
from operator import index
from typing import Any

import numpy as np
from scipy.special import digamma

from reproduce.theory.splits import plain


def entropy_after_splits(
    n_splits: Any, gamma: float, n_labels: int, entropy: float | None = None, sharp: bool = False
) -> Any:
    """Bound the entropy of the leaves in nats after some splits, under the Weak Hypothesis Assumption. [OT Thm. 1]

    Theorem 1 read the other way round: G_0 t^(−γ² / (4 (1 − γ)² ln k)), where G_0 is the entropy before the first
    split. The sharp form has the constants that the proof gives, G_0 (t + 1)^(−2 γ² / ln k). Each split must take the
    heaviest leaf that has more than one label.

    Parameters
    ----------
    n_splits : int or array of int
        Splits made, t.
    gamma : float
        The assumption's γ, above 0 and at most 1/2: the least `weak_hypothesis_gamma` of the splits.
    n_labels : int
        Number of labels k, at least 2.
    entropy : float, optional
        Entropy of all labels in nats, G_0; by default the largest possible, ln k.
    sharp : bool
        Give the best proven bound in place of the paper's, corrected.

    Returns
    -------
    float, or ndarray of float
        At least 0; the error of the leaves (`leaf_error`) is below it too.

    Raises
    ------
    ValueError
        If a number is out of its range.

    Examples
    --------
    >>> from reproduce.theory.boosting import entropy_after_splits
    >>> round(entropy_after_splits(100, 0.4, 8), 3), round(entropy_after_splits(100, 0.4, 8, sharp=True), 3)
    (1.626, 1.022)
    """
    gamma, n_labels, start = _premises(gamma, n_labels, entropy)
    t = np.asarray(n_splits, np.float64)
    if not np.all(t >= 0):
        raise ValueError(f"n_splits must be at least 0, got {n_splits}.")
    base = t + 1.0 if sharp else np.maximum(t, 1.0)
    return plain(start * base ** (-1.0 / _exponent(gamma, n_labels, sharp)))


def splits_needed(goal: float, gamma: float, n_labels: int, entropy: float | None = None, sharp: bool = False) -> float:
    """Bound how many splits bring the entropy of the leaves to a goal. [OT Thm. 1]

    Under the Weak Hypothesis Assumption (G_0 / ε)^(4 (1 − γ)² ln k / γ²) suffice, where G_0 is the entropy before the
    first split. Printed with 1 in place of G_0: false for goals near 1, because G_0 may be ln k. The sharp form is
    (G_0 / ε)^(ln k / (2 γ²)) − 1. Each split must take the heaviest leaf that has more than one label.

    Parameters
    ----------
    goal : float
        Entropy to reach, ε, in nats, above 0.
    gamma, n_labels, entropy, sharp
        As for `entropy_after_splits`.

    Returns
    -------
    float
        Number of splits that suffice; infinite where it is too large for a float.

    Raises
    ------
    ValueError
        If a number is out of its range.

    Examples
    --------
    >>> from reproduce.theory.boosting import splits_needed
    >>> round(splits_needed(1.0, 0.4, 8)), round(splits_needed(1.0, 0.4, 8, sharp=True))
    (891999, 115)
    """
    gamma, n_labels, start = _premises(gamma, n_labels, entropy)
    if not goal > 0:
        raise ValueError(f"goal must be above 0, got {goal}.")
    if start <= goal:
        return 0.0
    with np.errstate(over="ignore"):
        needed = np.exp(_exponent(gamma, n_labels, sharp) * np.log(start / goal))
    return float(needed - 1.0 if sharp else needed)


def _premises(gamma: float, n_labels: int, entropy: float | None) -> tuple[float, int, float]:
    n_labels = index(n_labels)
    if n_labels < 2:
        raise ValueError(f"n_labels must be at least 2, got {n_labels}.")
    if not 0 < gamma <= 0.5:
        raise ValueError(f"gamma must be above 0 and at most 1/2, got {gamma}.")
    start = log(n_labels) if entropy is None else float(entropy)
    if not 0 <= start <= log(n_labels) + 1e-9:
        raise ValueError(f"entropy must be in 0..ln(n_labels) = {log(n_labels):.6g}, got {start}.")
    return float(gamma), n_labels, start


def _exponent(gamma: float, n_labels: int, sharp: bool) -> float:
    # Sharp: the heaviest of t leaves has w >= G / (t ln k), so Δ >= w Ω² / (8 p (1 - p)) >= 2 γ² G / (t ln k).
    return (0.5 if sharp else 4.0 * (1.0 - gamma) ** 2) * log(n_labels) / gamma**2


def error_after_splits(n_splits: Any, gamma: float, entropy: float, sharp: bool = False) -> Any:
    """Bound the error after some splits under γ-weak learning, the heaviest leaf first: H_1 − γ ln(t + 1). [RT Thm. 2]

    Holds as printed while the heaviest leaf can gain γ. Once it has a single label it cannot: passing it over for
    another makes the statement false; then use `error_after_splits_of`. The sharp form is
    (H_1 − γ (1 + 1/2 + ... + 1/t)) / 2: the sum that the proof bounds by ln(t + 1), and half of it all, because an
    error is at most half of an entropy in bits.

    Parameters
    ----------
    n_splits : int or array of int
        Splits made, t.
    gamma : float
        The assumption's γ in bits, in 0..1: `weak_learning_gamma` of the splits.
    entropy : float
        Entropy of all labels in bits, H_1.
    sharp : bool
        Give the best proven bound in place of the paper's.

    Returns
    -------
    float, or ndarray of float
        Above 1 it says nothing. Below 0 it says that so many splits cannot all gain γ.

    Raises
    ------
    ValueError
        If a number is out of its range.

    Examples
    --------
    Eight equal labels and perfect splits, and a thousand, where the bound says nothing:

    >>> from reproduce.theory.boosting import error_after_splits
    >>> round(error_after_splits(7, 1.0, 3.0), 3), round(error_after_splits(7, 1.0, 3.0, sharp=True), 3)
    (0.921, 0.204)
    >>> round(error_after_splits(999, 1.0, 9.966), 2)
    3.06
    """
    t = np.asarray(n_splits, np.float64)
    if not np.all(t >= 0):
        raise ValueError(f"n_splits must be at least 0, got {n_splits}.")
    harmonic = digamma(t + 1.0) - digamma(1.0)
    return _error_bound(harmonic if sharp else np.log(t + 1.0), gamma, entropy, sharp)


def error_after_splits_of(shares: Any, gamma: float, entropy: float, sharp: bool = False) -> float:
    """Bound the error after splits of given leaves, in any order: H_1 − γ (w_1 + ... + w_t). [RT Thm. 2, mended]

    What the proof of Theorem 2 uses before it puts 1/s for the share of the heaviest of s leaves. It stays true when
    leaves with a single label are passed over.

    Parameters
    ----------
    shares : array of float of shape (n_splits,)
        Share of all mass in each leaf, when it was split.
    gamma, entropy
        As for `error_after_splits`.
    sharp : bool
        Half of it: an error is at most half of an entropy in bits.

    Returns
    -------
    float
        As `error_after_splits`.

    Raises
    ------
    ValueError
        If a number is out of its range.

    Examples
    --------
    >>> from reproduce.theory.boosting import error_after_splits_of
    >>> error_after_splits_of([1, 0.5, 0.5], 0.75, 2.0), error_after_splits_of([1, 0.5, 0.5], 0.75, 2.0, sharp=True)
    (0.5, 0.25)
    """
    shares = np.asarray(shares, np.float64)
    if shares.ndim != 1 or not np.all((shares >= 0) & (shares <= 1.0 + 1e-9)):
        raise ValueError(f"shares must be a vector of numbers in 0..1, got {shares}.")
    return _error_bound(shares.sum(), gamma, entropy, sharp)


def _error_bound(weight: Any, gamma: float, entropy: float, sharp: bool) -> Any:
    if not 0 <= gamma <= 1:
        raise ValueError(f"gamma must be in 0..1, got {gamma}: a split in two gains at most one bit.")
    if not entropy >= 0:
        raise ValueError(f"entropy must be at least 0, got {entropy}.")
    return plain((entropy - gamma * np.asarray(weight)) / (2.0 if sharp else 1.0))
