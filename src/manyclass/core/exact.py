"""Sums that do not depend on the order of their terms, so that rows may be added in any parts.

Each term is rounded to a multiple of one power of two, so large that no sum of all terms needs more than the 53 bits of
a float64: additions are then exact, in any order (Demmel and Nguyen, 2013). `(v + grid) - grid` rounds v.
"""

from typing import Any

import numpy as np

from ..jit import exact_kernel


def grid(largest: Any, n: int) -> Any:
    """The constant for `on_grid` with which sums of n numbers up to `largest` are exact; an array for an array."""
    _, exponent = np.frexp(np.asarray(largest, np.float64) * (1.001 * max(n, 1)))
    return np.ldexp(1.5, exponent + 1)


def on_grid(values: Any, step: Any) -> Any:
    """The values rounded with the constant from `grid`."""
    return (values + step) - step


def two_parts(values: np.ndarray, largest: Any, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Split each value into two terms whose sums are exact, so that no precision of a float64 is lost.

    n is the number of values in all sums together, `largest` their largest absolute value.
    """
    step = grid(largest, n)
    high = on_grid(values, step)
    return high, on_grid(values - high, grid(step * 2.0**-53, n))


@exact_kernel
def add_products(matrix, rows, first, step, out):
    """Add matrix.T @ rows to `out`, whose first row is column `first` of the matrix; all terms on the grid.

    `matrix` is a Csr batch. Mutates: out. Cost: O(non-zeros x columns of `rows`).
    """
    for i in range(len(rows)):
        row = rows[i]
        for j in range(matrix.indptr[i], matrix.indptr[i + 1]):
            at = np.int64(matrix.indices[j]) - first
            if 0 <= at < len(out):
                v, sums = np.float64(matrix.values[j]), out[at]
                for c in range(len(row)):
                    sums[c] += (v * row[c] + step) - step
