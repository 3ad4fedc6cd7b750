"""One-against-all: every class has a linear predictor and all of them are scored. The yardstick of every paper.

Full, with subsampled negatives, and in the low-rank form that the spectral paper compares with [ST §4].
"""

import math
from typing import NamedTuple

import numpy as np

from ..core.inputs import Dense
from ..core.losses import LOGISTIC, gradients
from ..core.projection import learn_projection, project
from ..core.rng import uniform
from ..core.updates import ADAGRAD, Pace, observe_scale, pace
from ..jit import inlined, kernel
from .columns import learn_classes, score_classes


class Options(NamedTuple):
    """What one-against-all was asked to do, as numbers."""

    loss: int
    n_negatives: int  # 0: all of them
    rank: int  # 0: no projection
    update: int
    rate: float
    seed: int


@inlined
def draw_negatives(label, n_known, options, counter, chosen):
    """Put label first and random other classes behind it; return how many stand there. Mutates: chosen."""
    chosen[0] = label
    for m in range(options.n_negatives):
        other = np.int32(uniform(options.seed, counter * options.n_negatives + m) * (n_known - 1))
        chosen[m + 1] = other if other < label else other + 1
    return options.n_negatives + 1


@inlined
def choose(label, n_known, options, counter, chosen):
    """Who competes: (number of classes, position of the label, whether they were drawn). Mutates: chosen."""
    if 0 < options.n_negatives < n_known - 1:
        return draw_negatives(label, n_known, options, counter, chosen), np.int64(0), True
    return n_known, label, False


@inlined
def take_gradients(n, n_known, truth, drawn, weight, options, score, gradient):
    """Gradients of n scores; drawn negatives count for all that were not drawn. Mutates: score, gradient."""
    share = (n_known - 1.0) / max(1, options.n_negatives)
    if drawn and options.loss != LOGISTIC:
        for c in range(1, n):
            score[c] += np.float32(math.log(share))
    gradients(score, n, truth, options.loss, gradient)
    for c in range(n):
        stands_for = share if drawn and options.loss == LOGISTIC and c > 0 else 1.0
        gradient[c] *= np.float32(weight * stands_for)


@inlined
def count_row(seen, scale, batch, i, label):
    """Take a row into the statistics; return its squared length. Mutates: seen, scale.

    Classes count from the moment a label as high was met: what comes later in a batch changes nothing.
    """
    seen.n_labels[0] = max(seen.n_labels[0], label + 1)
    seen.n_rows[0] += 1
    return observe_scale(scale, batch, i)


@inlined
def count_answer(seen, score, n, label, weight):
    """Note whether the best of all n scores was right. Mutates: seen."""
    best = 0
    for c in range(n):
        if score[c] > score[best]:
            best = c
    seen.mass[0] += weight
    seen.wrong_mass[0] += 0.0 if best == label else weight


@kernel
def learn_batch(columns, scale, seen, batch, labels, weights, begin, options):
    """Learn the rows from `begin` on; return where it ended for want of columns.

    Mutates: columns, scale, seen. Cost: O(non-zeros x classes) an example, or x (negatives + 1).
    """
    n_most = columns.bias.shape[0]
    score, gradient = np.empty(n_most, np.float32), np.empty(n_most, np.float32)
    everyone, chosen = np.empty(0, np.int32), np.empty(options.n_negatives + 1, np.int32)
    for i in range(begin, labels.shape[0]):
        label, weight = np.int64(labels[i]), weights[i]
        if weight <= 0.0:
            continue
        if label >= n_most:
            return i
        sq_norm = count_row(seen, scale, batch, i, label)
        n_known = seen.n_labels[0]
        n, truth, drawn = choose(label, n_known, options, seen.n_rows[0], chosen)
        who = chosen if drawn else everyone
        score_classes(columns, batch, i, who, n, score)
        if options.n_negatives == 0:
            count_answer(seen, score, n, label, weight)
        take_gradients(n, n_known, truth, drawn, weight, options, score, gradient)
        step = pace(options.update, options.rate, scale, sq_norm)
        learn_classes(columns, batch, i, who, n, gradient, step, scale)
    return labels.shape[0]


@kernel
def learn_low_rank_batch(
    columns, projection, projection_mask, scale, seen, batch, labels, weights, begin, options
):  # fmt: skip
    """As learn_batch, over a learned map of each row to a few numbers. Mutates: all groups."""
    n_most = columns.bias.shape[0]
    score, gradient = np.empty(n_most, np.float32), np.empty(n_most, np.float32)
    everyone, chosen = np.empty(0, np.int32), np.empty(options.n_negatives + 1, np.int32)
    hidden = Dense(np.zeros((1, options.rank), np.float32))
    pull = np.zeros(options.rank, np.float32)
    step = Pace(ADAGRAD, options.rate, 1.0, options.rate)
    for i in range(begin, labels.shape[0]):
        label, weight = np.int64(labels[i]), weights[i]
        if weight <= 0.0:
            continue
        if label >= n_most:
            return i
        sq_norm = count_row(seen, scale, batch, i, label)
        size = max(1e-37, math.sqrt(max(scale.sq_norm[0] / scale.n_rows[0], sq_norm)))
        n_known = seen.n_labels[0]
        n, truth, drawn = choose(label, n_known, options, seen.n_rows[0], chosen)
        who = chosen if drawn else everyone
        project(projection, projection_mask, batch, i, size, hidden.values)
        score_classes(columns, hidden, np.int64(0), who, n, score)
        if options.n_negatives == 0:
            count_answer(seen, score, n, label, weight)
        take_gradients(n, n_known, truth, drawn, weight, options, score, gradient)
        for r in range(options.rank):
            pull[r] = np.float32(0.0)
            for c in range(n):
                pull[r] += gradient[c] * columns.weight[r, chosen[c] if drawn else c]
        learn_classes(columns, hidden, np.int64(0), who, n, gradient, step, scale)
        learn_projection(projection, projection_mask, batch, i, size, pull, options.rate)
    return labels.shape[0]
