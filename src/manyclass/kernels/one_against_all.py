"""One-against-all: every class has a linear predictor and all of them are scored. The yardstick of every paper.

Full, with subsampled negatives, and in the low-rank form that the spectral paper compares with [ST §4].
"""

import math
from typing import NamedTuple

import numpy as np

from .columns import bucket, learn_some, score_all, score_some
from .inputs import Dense, feature, span, value
from .jit import leaf, njit
from .losses import LOGISTIC, gradients
from .rng import uniform
from .updates import ADAGRAD, Pace, observe_scale, pace


class Options(NamedTuple):
    """What one-against-all was asked to do, as numbers."""

    loss: int
    n_negatives: int  # 0: all of them
    rank: int  # 0: no projection
    update: int
    rate: float
    seed: int


@leaf
def project(projection, mask, batch, i, size, out):
    """The few numbers that stand for row i. Mutates: out. Cost: O(non-zeros x rank)."""
    start, stop = span(batch, i)
    out[0, :] = np.float32(0.0)
    for j in range(start, stop):
        v = value(batch, i, j) / np.float32(size)
        b = bucket(feature(batch, j), mask)
        for r in range(out.shape[1]):
            out[0, r] += v * projection.weight[b, r]


@leaf
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


@leaf
def draw_negatives(label, n_known, options, counter, chosen):
    """Put label first and random other classes behind it; return how many stand there. Mutates: chosen."""
    chosen[0] = label
    for m in range(options.n_negatives):
        other = np.int32(uniform(options.seed, counter * options.n_negatives + m) * (n_known - 1))
        chosen[m + 1] = other if other < label else other + 1
    return options.n_negatives + 1


@njit
def learn_batch(
    columns, projection, projection_mask, scale, seen, batch, order, labels, weights, begin, options
):  # fmt: skip
    """Learn the rows order[begin:] one after the other; return where it ended for want of columns.

    Mutates: all groups. Cost: O(non-zeros x classes) an example, or x (negatives + 1).
    """
    n_most = columns.bias.shape[0]
    score = np.empty(n_most, np.float32)
    gradient = np.empty(n_most, np.float32)
    everyone = np.empty(0, np.int32)
    chosen = np.empty(options.n_negatives + 1, np.int32)
    hidden = Dense(np.zeros((1, max(1, options.rank)), np.float32))
    pull = np.zeros(max(1, options.rank), np.float32)
    for o in range(begin, order.shape[0]):
        i = order[o]
        label, weight = labels[i], weights[i]
        if weight <= 0.0:
            continue
        if label >= n_most:
            return o
        # Classes count from the moment a label as high was met: what comes later in a batch changes nothing.
        n_known = max(seen.n_labels[0], label + 1)
        seen.n_labels[0] = n_known
        seen.n_rows[0] += 1
        seen.mass[0] += weight
        sq_norm = observe_scale(scale, batch, i)
        step = pace(options.update, options.rate, scale, sq_norm)
        size = max(1e-37, math.sqrt(max(scale.sq_norm[0] / scale.n_rows[0], sq_norm)))
        subsample = 0 < options.n_negatives < n_known - 1
        who = chosen if subsample else everyone
        n = draw_negatives(label, n_known, options, seen.n_rows[0], chosen) if subsample else n_known
        truth = 0 if subsample else label
        if options.rank > 0:
            step = Pace(ADAGRAD, options.rate, 1.0, options.rate)
            project(projection, projection_mask, batch, i, size, hidden.values)
            score_for(columns, hidden, 0, who, n, score)
        else:
            score_for(columns, batch, i, who, n, score)
        if not subsample:
            seen.wrong_mass[0] += 0.0 if np.argmax(score[:n]) == label else weight
        share = (n_known - 1.0) / max(1, options.n_negatives)  # how many classes each drawn one stands for
        if subsample and options.loss != LOGISTIC:
            score[1:n] += np.float32(math.log(share))
        gradients(score, n, truth, options.loss, gradient)
        if subsample and options.loss == LOGISTIC:
            gradient[1:n] *= np.float32(share)
        for c in range(n):
            gradient[c] *= np.float32(weight)
        if options.rank > 0:
            for r in range(options.rank):
                pull[r] = np.float32(0.0)
                for c in range(n):
                    pull[r] += gradient[c] * columns.weight[r, who[c] if subsample else c]
            learn_some(columns, hidden, 0, who, n, gradient, step, scale)
            learn_projection(projection, projection_mask, batch, i, size, pull, options.rate)
        else:
            learn_some(columns, batch, i, who, n, gradient, step, scale)
    return order.shape[0]


@leaf
def score_for(columns, batch, i, who, n, out):
    """Scores of the classes in `who`, or of 0..n-1 where it is empty. Mutates: out."""
    if who.shape[0] == 0:
        score_all(columns, batch, i, n, out)
    else:
        score_some(columns, batch, i, who, n, out)
