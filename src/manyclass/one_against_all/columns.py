"""One-against-all weights with all classes of a feature side by side, so that a row touches whole lines of memory."""

import math

import numpy as np

from ..core.inputs import feature, span, value
from ..core.linear import FIRST_SQUARE
from ..core.projection import bucket
from ..core.updates import ADAGRAD, SGD
from ..jit import inlined, kernel


@inlined
def score_classes(columns, batch, i, who, n, out):
    """Scores of the n classes in `who`, or of 0..n-1 where it is empty. Mutates: out. Cost: O(non-zeros x n)."""
    start, stop = span(batch, i)
    mask = columns.mask[0]
    everyone = who.shape[0] == 0
    for c in range(n):
        out[c] = columns.bias[c if everyone else who[c]]
    for j in range(start, stop):
        v = value(batch, i, j)
        if v != np.float32(0.0):
            line = columns.weight[bucket(feature(batch, j), mask)]
            if everyone:
                for c in range(n):
                    out[c] += v * line[c]
            else:
                for c in range(n):
                    out[c] += v * line[who[c]]


@inlined
def step_weight(columns, b, c, slope, inverse, pace):
    """One step of one weight against `slope`, its gradient with the feature times `inverse`. Mutates: columns."""
    move = np.float32(pace.step) * slope
    if pace.update != SGD:
        columns.grad_sq[b, c] += slope * slope
        move /= math.sqrt(np.float32(FIRST_SQUARE) + columns.grad_sq[b, c])
    columns.weight[b, c] -= move * inverse


@inlined
def learn_classes(columns, batch, i, who, n, gradient, pace, scale):
    """One step of the n classes in `who`, or of 0..n-1 where it is empty. Mutates: columns. Cost: as to score."""
    start, stop = span(batch, i)
    mask = columns.mask[0]
    for j in range(start, stop):
        v = value(batch, i, j)
        if v == np.float32(0.0):
            continue
        f = feature(batch, j)
        b = bucket(f, mask)
        inverse = np.float32(1.0 / pace.size)
        if pace.update != SGD and pace.update != ADAGRAD:
            inverse = scale.inverse[f]
        if who.shape[0] == 0:
            for c in range(n):
                step_weight(columns, b, c, v * inverse * gradient[c], inverse, pace)
        else:
            for c in range(n):
                step_weight(columns, b, who[c], v * inverse * gradient[c], inverse, pace)
    for c in range(n):
        at = c if who.shape[0] == 0 else who[c]
        move = np.float32(pace.bias_step) * gradient[c]
        if pace.update != SGD:
            columns.bias_grad_sq[at] += gradient[c] * gradient[c]
            move /= math.sqrt(np.float32(FIRST_SQUARE) + columns.bias_grad_sq[at])
        columns.bias[at] -= move


@kernel
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


@kernel
def buckets(features, mask):
    """The lines of many features."""
    out = np.empty(features.shape[0], np.int32)
    for j in range(features.shape[0]):
        out[j] = bucket(features[j], mask)
    return out
