"""One-against-all weights with all classes of a feature side by side, so that a row touches whole lines of memory."""

import math

import numpy as np

from .banks import FIRST_SQUARE
from .inputs import feature, span, value
from .jit import leaf, njit
from .updates import ADAGRAD, SGD


@leaf
def bucket(f, mask):
    """The line of a feature: its own where mask is 0, hashed otherwise. Masks nest: a smaller one folds. O(1)."""
    if mask == 0:
        return np.int64(f)
    h = np.uint64(f + 1) * np.uint64(0x9E3779B97F4A7C15)
    return np.int64((h ^ (h >> np.uint64(32))) & np.uint64(mask))


@leaf
def score_all(columns, batch, i, n, out):
    """Scores of classes 0..n-1. Mutates: out. Cost: O(non-zeros x n)."""
    start, stop = span(batch, i)
    mask = columns.mask[0]
    for c in range(n):
        out[c] = columns.bias[c]
    for j in range(start, stop):
        v = value(batch, i, j)
        if v != np.float32(0.0):
            line = columns.weight[bucket(feature(batch, j), mask)]
            for c in range(n):
                out[c] += v * line[c]


@leaf
def score_some(columns, batch, i, chosen, n, out):
    """Scores of the n chosen classes. Mutates: out. Cost: O(non-zeros x n)."""
    start, stop = span(batch, i)
    mask = columns.mask[0]
    for c in range(n):
        out[c] = columns.bias[chosen[c]]
    for j in range(start, stop):
        v = value(batch, i, j)
        if v != np.float32(0.0):
            line = columns.weight[bucket(feature(batch, j), mask)]
            for c in range(n):
                out[c] += v * line[chosen[c]]


@leaf
def step_line(columns, b, c, slope, size, pace):
    """One step of one weight against `slope`, its gradient with the feature divided by `size`. Mutates: columns."""
    move = np.float32(pace.step) * slope
    if pace.update != SGD:
        columns.grad_sq[b, c] += slope * slope
        move /= math.sqrt(np.float32(FIRST_SQUARE) + columns.grad_sq[b, c])
    columns.weight[b, c] -= move / size


@leaf
def learn_some(columns, batch, i, chosen, n, gradient, pace, scale):
    """One step of n classes: the chosen ones, or 0..n-1 where `chosen` is empty. Mutates: columns. O(non-zeros x n)."""
    start, stop = span(batch, i)
    mask = columns.mask[0]
    for j in range(start, stop):
        v = value(batch, i, j)
        if v == np.float32(0.0):
            continue
        f = feature(batch, j)
        b = bucket(f, mask)
        size = np.float32(pace.size)
        if pace.update != SGD and pace.update != ADAGRAD:
            size = scale.largest[f]
        z = v / size
        if chosen.shape[0] == 0:
            for c in range(n):
                step_line(columns, b, c, z * gradient[c], size, pace)
        else:
            for c in range(n):
                step_line(columns, b, chosen[c], z * gradient[c], size, pace)
    for c in range(n):
        at = c if chosen.shape[0] == 0 else chosen[c]
        move = np.float32(pace.bias_step) * gradient[c]
        if pace.update != SGD:
            columns.bias_grad_sq[at] += gradient[c] * gradient[c]
            move /= math.sqrt(np.float32(FIRST_SQUARE) + columns.bias_grad_sq[at])
        columns.bias[at] -= move


@njit
def fold(old, new):
    """Add every line of `old` to its line in `new`, which has fewer of them. Mutates: new. Cost: O(weights)."""
    mask, n = new.mask[0], old.bias.shape[0]
    adaptive = new.grad_sq.shape[1] > 1
    for b in range(old.weight.shape[0]):
        to = bucket(b, mask) if old.mask[0] == 0 else b & mask
        for c in range(n):
            new.weight[to, c] += old.weight[b, c]
            if adaptive:
                new.grad_sq[to, c] += old.grad_sq[b, c]
    new.bias[:n] = old.bias
    new.bias_grad_sq[:n] = old.bias_grad_sq


@njit
def buckets(features, mask):
    """The lines of many features."""
    out = np.empty(features.shape[0], np.int32)
    for j in range(features.shape[0]):
        out[j] = bucket(features[j], mask)
    return out
