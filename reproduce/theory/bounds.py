"""The remarks of the Recall Tree paper that can be counted: its bound on recall, covers, Voronoi diagrams. [RT]

Tags: [RT ...] "Logarithmic Time One-Against-Some" (2017). Printed and corrected side by side: docs/theory.md.
"""

from math import comb, log, log2
from typing import Any

import numpy as np
from scipy.spatial import Voronoi


def multiplier(delta: float, n_rows: int, n_labels: int = 0, n_candidates: int = 0, n_nodes: int = 1) -> float:
    """Give a λ with which the bound on recall is below the true recall with probability 1 − δ. [RT Prop. 1]

    From Maurer and Pontil (2009, Theorem 4): (7/3) m / (m − 1) ln(2 N / δ), where N is the number of statements that
    must hold together. For a list of labels that was fixed before the rows were counted, N is the number of nodes. For
    the most frequent F of K labels, chosen by the same counts, N is the number of nodes times the number of lists,
    K over F.

    Parameters
    ----------
    delta : float
        Probability δ that some bound is wrong, between 0 and 1.
    n_rows : int
        Rows of the node, m, at least 2. The factor m / (m − 1) falls with m, so the least m of all nodes serves all.
    n_labels, n_candidates : int
        K and F, or 0 for lists that do not depend on the counts.
    n_nodes : int
        Number of nodes.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If a number is out of its range.

    Examples
    --------
    >>> from reproduce.theory.bounds import multiplier
    >>> round(multiplier(0.05, 1000), 1), round(multiplier(0.05, 1000, 1000, 40))
    (8.6, 394)
    """
    if not 0 < delta < 1:
        raise ValueError(f"delta must be between 0 and 1, got {delta}.")
    if n_rows < 2 or n_nodes < 1 or not 0 <= n_candidates <= n_labels:
        raise ValueError(
            "n_rows must be at least 2, n_nodes at least 1 and n_candidates from 0 to n_labels, "
            f"got {n_rows}, {n_nodes}, {n_candidates} of {n_labels}."
        )
    lists = log(comb(n_labels, n_candidates)) + log(n_nodes)
    return 7 / 3 * n_rows / (n_rows - 1) * (log(2 / delta) + lists)


def multiplier_needed(empirical: Any, true: Any, n_rows: int) -> Any:
    """Give the least λ with which the bound is not above the true recall; 0 where it never is. [RT Eq. 1]

    Examples
    --------
    >>> from reproduce.theory.bounds import multiplier_needed
    >>> round(float(multiplier_needed(0.144, 0.04, 1000)), 1)
    36.7
    """
    gap = np.maximum(np.asarray(empirical, float) - true, 0.0)
    spread = np.sqrt(np.asarray(empirical, float) * (1.0 - np.asarray(empirical, float)))
    return n_rows * ((np.sqrt(spread**2 + 4 * gap) - spread) / 2) ** 2


def simplex_points(n_labels: int, steps: int) -> int:
    """Count the distributions over K labels whose probabilities are multiples of γ = 1 / steps. [RT §3.1]

    Examples
    --------
    >>> from reproduce.theory.bounds import simplex_points
    >>> simplex_points(2, 10), simplex_points(1000, 2)
    (11, 500500)
    """
    return comb(steps + n_labels - 1, steps)


def most_labels(gamma: float) -> float:
    """Give the number of equal labels beyond which no binary split takes the share γ of their entropy. [RT §3.3]

    A split of two ways takes at most one bit, so that γ log2 K ≤ 1.

    Examples
    --------
    >>> from reproduce.theory.bounds import most_labels
    >>> most_labels(0.25)
    16.0
    """
    return 2.0 ** (1.0 / gamma)


def splits_until_useful(gamma: float, n_labels: int) -> float:
    """Give the number of splits after which the additive bound of K equal labels is below 1. [RT Thm. 2]

    Examples
    --------
    >>> from reproduce.theory.bounds import splits_until_useful
    >>> round(splits_until_useful(1.0, 9)), round(splits_until_useful(1.0, 1000))
    (8, 7830)
    """
    return float(np.expm1((log2(n_labels) - 1.0) / gamma))


def voronoi_borders(points: Any) -> int:
    """Count the pairs of cells of a Voronoi diagram that share a border. [RT §3.2]

    A tree of linear splits that represents the diagram needs at least as many inner nodes as there are different
    hyperplanes among the borders: as many as borders, for points in general position.

    Examples
    --------
    >>> import numpy as np
    >>> from reproduce.theory.bounds import voronoi_borders
    >>> voronoi_borders(np.random.default_rng(0).random((50, 2))) <= 3 * 50 - 6
    True
    """
    return len(Voronoi(np.asarray(points, float)).ridge_points)


def moment_curve(n_points: int) -> np.ndarray:
    """Points (t, t², t³) for t in −1..1: in three dimensions, almost all pairs of their cells share a border.

    Examples
    --------
    >>> from reproduce.theory.bounds import moment_curve
    >>> moment_curve(3).tolist()
    [[-1.0, 1.0, -1.0], [0.0, 0.0, 0.0], [1.0, 1.0, 1.0]]
    """
    t = np.linspace(-1.0, 1.0, n_points)
    return np.stack([t, t**2, t**3], axis=1)
