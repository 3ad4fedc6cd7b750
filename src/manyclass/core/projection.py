"""The shared low-rank map of features to a few numbers [ST §4]."""

import math

import numpy as np

from ..jit import inlined
from .inputs import feature, span, value


@inlined
def bucket(f, mask):
    """The line of a feature: its own where mask is 0, hashed otherwise. Masks nest: a smaller one folds. O(1)."""
    if mask == 0:
        return np.int64(f)
    h = np.uint64(f + 1) * np.uint64(0x9E3779B97F4A7C15)
    return np.int64((h ^ (h >> np.uint64(32))) & np.uint64(mask))


@inlined
def project(projection, mask, batch, i, size, out):
    """The few numbers that stand for row i. Mutates: out. Cost: O(non-zeros x rank)."""
    start, stop = span(batch, i)
    out[0, :] = np.float32(0.0)
    for j in range(start, stop):
        v = value(batch, i, j) / np.float32(size)
        b = bucket(feature(batch, j), mask)
        for r in range(out.shape[1]):
            out[0, r] += v * projection.weight[b, r]


@inlined
def learn_projection(projection, mask, batch, i, size, pull, rate):
    """One AdaGrad step of the shared map against `pull`, the gradient of its output. Mutates: projection."""
    start, stop = span(batch, i)
    for j in range(start, stop):
        v = value(batch, i, j) / np.float32(size)
        b = bucket(feature(batch, j), mask)
        for r in range(pull.shape[0]):
            slope = v * pull[r]
            projection.grad_sq[b, r] += slope * slope
            root = math.sqrt(np.float32(1e-2) + projection.grad_sq[b, r])
            projection.weight[b, r] -= np.float32(rate) * slope / root
