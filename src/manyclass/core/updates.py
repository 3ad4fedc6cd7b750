"""Size of the steps of SGD, AdaGrad and normalised AdaGrad, chosen by int code.

`Pace` is what all steps of one example share; `Scale` has the sizes of the features observed so far.
"""

import math
from typing import NamedTuple

import numpy as np

from ..jit import device, inlined
from .inputs import feature, span, value

SGD, ADAGRAD, NORMALIZED_ADAGRAD = 0, 1, 2

# The inverse of a smaller number overflows float32.
SMALLEST = np.float32(1e-37)

LONGEST_ROW = 16.0  # times the typical squared length: one long row must not change what is typical

LONGEST_STEP = 4.0  # of SGD, times the step of a row of weight 1: the scores of a heavier row would overshoot

# DIFFERS [RT Alg. 3, 4]: gradients below this are skipped. They change nothing measurable, and most gradients of a
# converged model are this small.
NEGLIGIBLE = 1e-3


class Pace(NamedTuple):
    """The step of one example: factors of a gradient."""

    update: int
    step: float  # of a feature divided by `size`
    size: float  # typical length of a row; 1 if each feature has its own size
    bias_step: float  # of the bias


def is_adaptive(update: int) -> bool:
    """Whether an update keeps the sum of squared gradients of each weight."""
    return update != SGD


@inlined
def limited(weight, update):
    """The weight of a row in its steps. AdaGrad shortens the steps of heavy rows by itself. Cost: O(1)."""
    return min(weight, LONGEST_STEP) if update == SGD else weight


@inlined
def count_prediction(seen, right, weight, score):
    """Count a row and whether its prediction was right. Mutates: seen. Cost: O(1).

    A score that is not finite makes the mass NaN for good: training that diverged is found without reading the weights.
    """
    seen.mass[0] += weight + 0.0 * score
    seen.wrong_mass[0] += 0.0 if right else weight


@device
def observe_scale(scale, batch, i):
    """Add row i to the running sizes of the features; return its squared length. Mutates: scale. Cost: O(non-zeros)."""
    start, stop = span(batch, i)
    sq_norm = 0.0
    normalized = np.float32(0.0)
    larger = False
    for j in range(start, stop):
        v = value(batch, i, j)
        z = v * scale.inverse[feature(batch, j)]
        normalized += z * z
        # A value above the largest so far, or the first that is not 0, is rare: it is handled below.
        larger |= (abs(z) > np.float32(1.0)) | ((z == np.float32(0.0)) & (v != np.float32(0.0)))
        sq_norm += np.float64(v) * v
    if larger:
        normalized = np.float32(0.0)
        for j in range(start, stop):
            f, v = feature(batch, j), abs(value(batch, i, j))
            if v > SMALLEST:
                if v * scale.inverse[f] > np.float32(1.0) or scale.inverse[f] == np.float32(0.0):
                    scale.inverse[f] = np.float32(1.0) / v
                z = v * scale.inverse[f]
                normalized += z * z
    usual = scale.sq_norm[0] / scale.n_rows[0] if scale.sq_norm[0] > 0.0 else np.inf
    scale.n_rows[0] += 1.0
    scale.sq_norm[0] += min(sq_norm, LONGEST_ROW * usual)
    scale.normalized[0] += normalized
    return sq_norm


@device
def pace(update, rate, scale, sq_norm):
    """The step of one example, independent of the unit of the features (except AdaGrad). Cost: O(1)."""
    n = scale.n_rows[0]
    if update == SGD:
        # An unusually long row must not disturb the model: it moves its own score no further than other rows do.
        size = math.sqrt(max(scale.sq_norm[0] / n, sq_norm))
        return Pace(update, rate if size > 0.0 else 0.0, max(size, 1e-37), rate)
    if update == ADAGRAD:
        return Pace(update, rate, 1.0, rate)
    mean = scale.normalized[0] / n  # how many features of full size a row has
    step = rate / math.sqrt(mean + 1.0)  # the bias is one more
    return Pace(update, step, 1.0, step)
