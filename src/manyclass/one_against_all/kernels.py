"""One-against-all: every class has a linear predictor, and all of them are scored. The baseline of every paper.

In full, with sampled negatives, and in the low-rank form that the spectral paper compares with [ST §4]. The weights of
all classes for one feature are next to each other, so that a row reads whole lines of memory.
"""

import math
from typing import Annotated, NamedTuple

import numpy as np

from ..core.inputs import Dense, feature, span, value
from ..core.linear import FIRST_SQUARE
from ..core.losses import gradients
from ..core.projection import bucket, learn_projection, project
from ..core.rng import uniform
from ..core.state import Array, Field, Scale, Seen
from ..core.updates import ADAGRAD, SGD, Pace, count_prediction, limited, observe_scale, pace
from ..jit import inlined, kernel


class Options(NamedTuple):
    """Resolved options of one-against-all."""

    loss: int  # of `core.losses`
    n_negatives: int  # 0: all
    rank: int  # 0: no projection
    table_bits: int
    update: int
    rate: float
    decay: float
    seed: int


class Columns(NamedTuple):
    """A line of weights for each feature with a column for each class; `mask` not 0: features are hashed to lines."""

    weight: Annotated[Array, Field("f4", ("bucket", "class"), 0, "line")]
    grad_sq: Annotated[Array, Field("f4", ("square_bucket", "square_class"), 0)]
    bias: Annotated[Array, Field("f4", ("class",), 0)]
    bias_grad_sq: Annotated[Array, Field("f4", ("class",), 0)]
    mask: Annotated[Array, Field("i8", ("one",))]


class Model(NamedTuple):
    """The groups of one-against-all, except the projection of the low-rank form."""

    columns: Columns
    scale: Scale
    seen: Seen


class Competitors(NamedTuple):
    """The classes that one example trains."""

    labels: np.ndarray  # empty: all classes from 0 to n - 1
    n: np.int64
    truth: np.int64  # position of the example's label


@kernel
def learn_batch(model, projection, batch, labels, weights, begin, options):
    """Learn the rows from `begin` on; return the first whose label has no column yet. Mutates: model, projection.

    `projection` is None unless there is a rank. Cost: O(non-zeros x classes) per row, or x (negatives + 1).
    """
    columns, scale, seen = model.columns, model.scale, model.seen
    n_most = columns.bias.shape[0]
    score, gradient = np.empty(n_most, np.float32), np.empty(n_most, np.float32)
    everyone, drawn = np.empty(0, np.int32), np.empty(options.n_negatives + 1, np.int32)
    hidden, pull = Dense(np.zeros((1, options.rank), np.float32)), np.zeros(options.rank, np.float32)
    for i in range(begin, labels.shape[0]):
        label, weight = np.int64(labels[i]), weights[i]
        if weight <= 0.0:
            continue
        if label >= n_most:
            return i
        sq_norm = count_row(seen, scale, batch, i, label)
        chosen = Competitors(everyone, seen.n_labels[0], label)
        if 0 < options.n_negatives < seen.n_labels[0] - 1:
            draw_negatives(label, seen, options, drawn)
            chosen = Competitors(drawn, np.int64(options.n_negatives + 1), np.int64(0))
        if projection is None:
            score_classes(columns, batch, i, chosen, score)
        else:
            size = max(1e-37, math.sqrt(max(scale.sq_norm[0] / scale.n_rows[0], sq_norm)))
            n_lines = projection.weight.shape[0]
            mask = 0 if n_lines == scale.inverse.shape[0] else n_lines - 1
            project(projection, mask, batch, i, size, hidden.values)
            score_classes(columns, hidden, np.int64(0), chosen, score)
        counted = weight if options.n_negatives == 0 else 0.0  # a few drawn classes are no prediction
        count_prediction(seen, is_best(score, chosen), counted, score[chosen.truth])
        take_gradients(chosen, seen, weight, options, score, gradient)
        if projection is None:
            step = pace(options.update, options.rate, scale, sq_norm)
            learn_classes(columns, batch, i, chosen, gradient, step, scale)
        else:
            pull_back(columns, chosen, gradient, pull)
            step = Pace(ADAGRAD, options.rate, 1.0, options.rate)
            learn_classes(columns, hidden, np.int64(0), chosen, gradient, step, scale)
            learn_projection(projection, mask, batch, i, size, pull, options.rate)
    return labels.shape[0]


@inlined
def count_row(seen, scale, batch, i, label):
    """Add a row to the statistics; return its squared length. Mutates: seen, scale.

    A class counts once its label or a higher one was learned: later rows of a batch must not change earlier ones.
    """
    seen.n_labels[0] = max(seen.n_labels[0], label + 1)
    seen.n_rows[0] += 1
    return observe_scale(scale, batch, i)


@inlined
def is_best(score, chosen):
    """Whether the example's label has the highest score, the first of equal ones."""
    best = 0
    for c in range(chosen.n):
        if score[c] > score[best]:
            best = c
    return best == chosen.truth


@inlined
def draw_negatives(label, seen, options, drawn):
    """Put the label first and random other classes after it [RT §4.2]. Mutates: drawn."""
    drawn[0] = label
    for m in range(options.n_negatives):
        random = uniform(options.seed, seen.n_rows[0] * options.n_negatives + m)
        other = np.int32(random * (seen.n_labels[0] - 1))
        drawn[m + 1] = other if other < label else other + 1


@inlined
def score_classes(columns, batch, i, chosen, out):
    """Scores of the chosen classes. Mutates: out. Cost: O(non-zeros x classes)."""
    start, stop = span(batch, i)
    mask, who, n = columns.mask[0], chosen.labels, chosen.n
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
def take_gradients(chosen, seen, weight, options, score, gradient):
    """Gradients of the scores; a drawn negative counts for all that were not drawn. Mutates: score, gradient."""
    n = chosen.n
    if chosen.labels.shape[0] > 0:
        share = (seen.n_labels[0] - 1.0) / options.n_negatives
        for c in range(1, n):
            score[c] += np.float32(math.log(share))
    gradients(score, n, chosen.truth, options.loss, gradient)
    for c in range(n):
        gradient[c] *= np.float32(limited(weight, options.update))


@inlined
def pull_back(columns, chosen, gradient, pull):
    """The gradient of the projected row. Mutates: pull. Cost: O(rank x classes)."""
    who = chosen.labels
    for r in range(pull.shape[0]):
        pull[r] = np.float32(0.0)
        for c in range(chosen.n):
            pull[r] += gradient[c] * columns.weight[r, who[c] if who.shape[0] > 0 else c]


@inlined
def learn_classes(columns, batch, i, chosen, gradient, pace, scale):
    """One step of the chosen classes. Mutates: columns. Cost: O(non-zeros x classes)."""
    start, stop = span(batch, i)
    mask, who, n = columns.mask[0], chosen.labels, chosen.n
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


@inlined
def step_weight(columns, b, c, slope, inverse, pace):
    """One step of one weight against `slope`, its gradient with the feature times `inverse`. Mutates: columns."""
    move = np.float32(pace.step) * slope
    if pace.update != SGD:
        columns.grad_sq[b, c] += slope * slope
        move /= math.sqrt(np.float32(FIRST_SQUARE) + columns.grad_sq[b, c])
    columns.weight[b, c] -= move * inverse


# -- hashed features -----------------------------------------------------------------------------------------------


@kernel
def fold(old, new, adaptive):
    """Add every line of `old` to its line in `new`, which has fewer lines. Mutates: new. Cost: O(weights)."""
    mask, n = new.mask[0], old.bias.shape[0]
    for b in range(old.weight.shape[0]):
        to = bucket(b, mask) if old.mask[0] == 0 else b & mask
        for c in range(n):
            new.weight[to, c] += old.weight[b, c]
            if adaptive:
                new.grad_sq[to, c] += old.grad_sq[b, c]
    new.bias[:n] = old.bias
    new.bias_grad_sq[:n] = old.bias_grad_sq


@kernel
def fill_buckets(features, mask, out):
    """The lines of many features. Mutates: out."""
    for j in range(features.shape[0]):
        out[j] = bucket(features[j], mask)


def buckets(features, mask):
    """The lines of many features."""
    out = np.empty(len(features), np.int32)
    fill_buckets(features, mask, out)
    return out
