"""Remarks of the Recall Tree paper, counted: covers of the simplex, Voronoi diagrams, multiplicative weak learning."""

from math import log2

import numpy as np
from report import parse, publish

from reproduce.theory.bounds import moment_curve, most_labels, simplex_points, splits_until_useful, voronoi_borders


def covers():
    """§3.1: points of a grid on the simplex."""
    for K, steps in ((2, 10), (10, 10), (1000, 2), (1000, 10)):
        points = simplex_points(K, steps)
        yield f"§3.1: grid of step 1/{steps}, {K} labels", f"(K − 1)^{steps} = {(K - 1) ** steps:.3g}", f"{points:.3g}"


def diagrams(quick: bool):
    """§3.2: borders of Voronoi diagrams."""
    rng = np.random.default_rng(0)
    for n in (10, 40) if quick else (10, 40, 160):
        printed = f"at least of order n² = {n**2:,}"
        yield f"§3.2: borders of {n} random points of the plane", printed, f"{voronoi_borders(rng.random((n, 2))):,}"
        curve = f"{voronoi_borders(moment_curve(n)):,}"
        yield f"§3.2: borders of {n} points of a curve in three dimensions", printed, curve


def weak_learning():
    """§3.3: splits that take a share of the entropy, or a number of bits."""
    for gamma in (0.5, 0.1):
        yield (
            f"§3.3: multiplicative γ = {gamma}", f"vacuous where (1 − γ) log2 K > 1, K > {2 ** (1 / (1 - gamma)):.3g}",
            f"impossible for equal labels where γ log2 K > 1, K > {most_labels(gamma):,.0f}",
        )  # fmt: skip
    for K in (8, 1000):
        yield (
            f"§3.3: additive γ = 1, {K} equal labels", "not vacuous",
            f"below 1 after {splits_until_useful(1.0, K):,.0f} splits; {K - 1} part all labels, {log2(K):.1f} bits",
        )  # fmt: skip


def main() -> None:
    """Print the table."""
    args = parse(__doc__)
    told = [*covers(), *diagrams(args.quick), *weak_learning()]
    publish(
        "remarks", "Remarks of the Recall Tree paper, counted",
        [{"remark": what, "printed": printed, "counted": counted} for what, printed, counted in told],
        ["What follows from these numbers is in docs/theory.md."], args.quick,
    )  # fmt: skip


if __name__ == "__main__":
    main()
