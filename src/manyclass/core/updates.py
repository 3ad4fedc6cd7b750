"""How far one step goes: SGD, AdaGrad and normalised AdaGrad, chosen by int code.

`Pace` holds what an example's steps share; `Scale` is what the stream has shown of the features' sizes.
"""

import math
from typing import NamedTuple

import numpy as np

from ..jit import device
from .inputs import feature, span, value

SGD, ADAGRAD, NORMALIZED_ADAGRAD = 0, 1, 2


# Below this the inverse of a float is no float any more.
SMALLEST = np.float32(1e-37)


class Pace(NamedTuple):
    """One example's step: what to multiply a gradient with."""

    update: int
    step: float  # on a feature divided by `size`
    size: float  # typical length of a row; 1 where features have sizes of their own
    bias_step: float  # on the bias, which is a feature of its own


@device
def observe_scale(scale, batch, i):
    """Take row i into the running sizes of the features. Mutates: scale. Cost: O(non-zeros)."""
    start, stop = span(batch, i)
    sq_norm = 0.0
    normalized = np.float32(0.0)
    larger = False
    for j in range(start, stop):
        v = value(batch, i, j)
        z = v * scale.inverse[feature(batch, j)]
        normalized += z * z
        # A value above the largest so far, or the first that is not 0, is rare: it is entered below.
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
    scale.n_rows[0] += 1.0
    scale.sq_norm[0] += sq_norm
    scale.normalized[0] += normalized
    return sq_norm


@device
def pace(update, rate, scale, sq_norm):
    """The step of one example, free of the features' unit. Cost: O(1)."""
    n = scale.n_rows[0]
    if update == SGD:
        # A row far longer than the usual must not throw the model: it moves its own score no further.
        size = math.sqrt(max(scale.sq_norm[0] / n, sq_norm))
        return Pace(update, rate if size > 0.0 else 0.0, max(size, 1e-37), rate)
    if update == ADAGRAD:
        return Pace(update, rate, 1.0, rate)
    mean = scale.normalized[0] / n  # how many features of full size a row has
    step = rate / math.sqrt(mean + 1.0)  # the bias is one more
    return Pace(update, step, 1.0, step)


# DIFFERS [RT Alg. 3, 4]: a gradient below this moves nothing that could be measured, and most of a converged model's
# are.
NEGLIGIBLE = 1e-3
