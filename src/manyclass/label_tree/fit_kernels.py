"""Label tree in batch: each node learns all its rows, all epochs, while its weights stay in the cache.

What a node learns depends on no other node: a router sees the rows with a label below it; a leaf sees the rows whose
paths reach it or that have a label in it. So nodes can be trained in any order and on any number of threads, with the
same result.

The outputs of a node are linear classifiers with an L2 penalty on the distance to their start weights,

    1/2 |w - start weights|^2 + C x sum over rows of weight x loss,

where the loss is max(0, margin - y score)^2 with y = 1 or -1 in leaves of text, else the log loss. It is solved by dual
coordinate ascent (Hsieh et al. 2008, Shalev-Shwartz and Zhang 2013): there is no learning rate, and more epochs do not
overfit. The start weights are `start` x the running sum of the rows of the output, scaled to length 1, and on text also
`votes` x log(P(output | feature) / P(output)): the cosine to a mean of many rows hardly depends on a rare word, which
is often the only one that a new row shares with a label of few rows. The sums contain the row that is learned, which
would make the start look better than it is for new rows. So the row is taken out of the sums of its own outputs
wherever its start score is used (leave-one-out), in training and in calibration.
"""

import math
from typing import NamedTuple

import numpy as np

from ..core.inputs import feature, span, squared_length, value
from ..core.losses import sigmoid
from ..core.rng import uniform
from ..core.state import Array
from ..jit import device, inlined, kernel
from .kernels import SMALLEST_GRADIENT
from .weights import (
    LANES,
    SHORTEST_SUM,
    SMALLEST_STEP,
    STEPS,
    OpenNode,
    close_node,
    make_open_node,
    n_bits,
    plain,
    score_row,
    step_row,
)

VOTE_SMOOTHING = np.float32(1.0)  # mass of usual outputs that every feature is assumed to have seen
HINGE_CURVATURE, LOG_CURVATURE = 2.0, 0.25  # the largest second derivatives of the losses
REST = 3  # epochs in which a row that needed no step is left out: most rows without a true output never need one
# A node is trained when an epoch changes it less than this share of the epoch that changed it most.
TOLERANCE = 0.02


class Pairs(NamedTuple):
    """Which rows learn at which nodes, sorted by node and row."""

    node: Array  # i4
    row: Array  # i4
    true: Array  # u8: the outputs of the node that are true for the row, as bits


class Weights(NamedTuple):
    """Packed weights of some nodes, node after node, as in `PackedBlocks` except that features have no pages."""

    node: Array  # i8
    n_features: Array  # i8: of each node
    feature: Array  # (entry,) i4
    lanes: Array  # (entry, part) u2
    value: Array  # (value,) i2
    step: Array  # f4: of the weights of each node
    bias: Array  # (node, place) f4


class Trainer(NamedTuple):
    """Scratch for training one node."""

    opened: OpenNode
    total: Array  # (number, place)
    score: Array  # (place,)
    step: Array  # (place,)
    order: Array  # (row of the node,)
    dual: Array  # (row of the node, place): minus the derivative of the loss, at the solution
    due: Array  # (row of the node,): the next epoch in which the row is learned
    begin: Array  # (row of the node,): where the true outputs of a row begin in `left_out`
    left_out: Array  # (true output of a row,): added to its start score, takes the row out of the sums
    others: Array  # (row of the node,): the same for all other outputs
    mass: Array  # (number,): of each feature, over all outputs
    usual: Array  # (place,): share of each output in all mass
    sq_norm: Array  # (place,): squared lengths of the sums


class Start(NamedTuple):
    """Weights of the cosine and of the votes in the start weights of a node."""

    cosine: float
    votes: float


@device
def end_of(pairs, first):
    """End of the pairs of the node of pair `first`. Cost: O(pairs of the node)."""
    last = first
    while last < len(pairs.node) and pairs.node[last] == pairs.node[first]:
        last += 1
    return last


@plain
def make_trainer(rows, pairs, n_features, width):
    """Scratch for the largest node."""
    most_rows, most, most_true = np.int64(0), np.int64(0), np.int64(0)
    first = np.int64(0)
    while first < len(pairs.node):
        last = end_of(pairs, first)
        length, n_true = np.int64(0), np.int64(0)
        for q in range(first, last):
            begin, stop = span(rows.batch, pairs.row[q])
            length += stop - begin
            n_true += n_bits(pairs.true[q])
        most_rows, most, most_true = max(most_rows, last - first), max(most, length), max(most_true, n_true)
        first = last
    most = min(most, n_features)
    return Trainer(
        make_open_node(n_features, most, width),
        np.zeros((most + 1, width), np.float32),
        np.empty(width, np.float32),
        np.zeros(width, np.float32),
        np.empty(most_rows, np.int64),
        np.empty((most_rows, width), np.float32),
        np.empty(most_rows, np.int64),
        np.empty(most_rows, np.int64),
        np.empty(most_true, np.float32),
        np.empty(most_rows, np.float32),
        np.empty(most + 1, np.float32),
        np.empty(width, np.float32),
        np.empty(width),
    )


@kernel
def fit_nodes(tree, scale, rows, pairs, start, options, smallest, out):
    """Train nodes on their rows; return the numbers of features and weights written. Mutates: out.

    Weights of an absolute value up to `smallest` are left out.
    """
    trainer = make_trainer(rows, pairs, np.int64(len(scale.inverse)), out.bias.shape[1])
    return _fit_nodes(tree, rows, pairs, start, options, smallest, out, trainer)


@device
def _fit_nodes(tree, rows, pairs, start, options, smallest, out, trainer):
    written, k, first = (np.int64(0), np.int64(0)), np.int64(0), np.int64(0)
    while first < len(pairs.node):
        last = end_of(pairs, first)
        node = pairs.node[first]
        n = begin_node(tree.size[node], rows, pairs, first, last, np.int64(1), start, trainer)
        train_node(tree.size[node], out.bias[k], rows, pairs, first, last, options, trainer)
        before = written[0]
        out.step[k] = step_of(n, tree.size[node], trainer.opened.weight)
        written = pack_node(n, tree.size[node], smallest, trainer, written, out.step[k], out)
        out.n_features[k] = written[0] - before
        close_node(trainer.opened, n)
        k, first = k + 1, last
    return written


@kernel
def left_out_scores(tree, scale, rows, pairs, start, every, out):
    """Start scores of each output without the row itself, for every so many rows of each node.

    NaN for a true output of which no other row remains: its score would say nothing of running sums.

    Mutates: out. Cost: O(non-zeros), and O(outputs) more for the rows chosen.
    """
    trainer = make_trainer(rows, pairs, np.int64(len(scale.inverse)), out.shape[1])
    _left_out_scores(tree, rows, pairs, start, every, out, trainer)


@device
def _left_out_scores(tree, rows, pairs, start, every, out, trainer):
    opened, first, written = trainer.opened, np.int64(0), np.int64(0)
    while first < len(pairs.node):
        last = end_of(pairs, first)
        node = pairs.node[first]
        n = begin_node(tree.size[node], rows, pairs, first, last, every, start, trainer)
        for q in range(first, last, every):
            score_start(rows, pairs, q, trainer)
            add_left_out(pairs.true[q], q - first, tree.size[node], trainer)
            for c in range(tree.size[node]):
                out[written, c] = trainer.score[c]
                if is_true(pairs.true[q], c) and is_alone(rows, pairs.row[q], trainer.sq_norm[c]):
                    out[written, c] = np.nan
            written += 1
        close_node(opened, n)
        first = last


@device
def begin_node(n_outputs, rows, pairs, first, last, every, start, trainer):
    """Running sums and start weights of a node, and for each `every`-th row what its start scores lose without it;
    return the number of features.

    Mutates: trainer.
    """
    n = gather(rows, pairs, first, last, n_outputs, trainer)
    start_weights(n, n_outputs, start, trainer)
    leave_out(n_outputs, start, rows, pairs, first, last, every, trainer)
    if start.votes > 0.0:
        add_votes(n, n_outputs, start.votes, trainer)
    return n


@inlined
def is_true(true, c):
    """Whether bit c is set."""
    return (true >> np.uint64(c)) & np.uint64(1) != np.uint64(0)


@inlined
def is_alone(rows, i, sq_norm):
    """Whether a running sum with this squared length is row i alone, up to rounding. Cost: O(non-zeros)."""
    own = squared_length(rows.batch, i) * (np.float64(rows.factor[i]) * rows.weight[i]) ** 2
    return abs(sq_norm - own) <= 1e-5 * sq_norm


@device
def score_start(rows, pairs, q, trainer):
    """Scores of pair q from weights without a bias. Mutates: trainer."""
    i, opened = pairs.row[q], trainer.opened
    for c in range(len(trainer.step)):
        trainer.step[c] = 0.0
    score_row(rows.batch, i, rows.factor[i], opened.local, opened.weight, trainer.step, trainer.score)


@device
def add_left_out(true, k, n_outputs, trainer):
    """Take row k of the node out of the sums from which its scores come. Mutates: trainer.score."""
    at = trainer.begin[k]
    for c in range(n_outputs):
        if is_true(true, c):
            trainer.score[c] += trainer.left_out[at]
            at += 1
        else:
            trainer.score[c] += trainer.others[k]


@device
def gather(rows, pairs, first, last, n_outputs, trainer):
    """Number the features of the rows of a node, and sum the rows of each output. Mutates: trainer.

    Cost: O(non-zeros).
    """
    batch, local, total = rows.batch, trainer.opened.local, trainer.total
    n = 0
    for q in range(first, last):
        i, true = pairs.row[q], pairs.true[q]
        begin, stop = span(batch, i)
        factor = rows.factor[i] * np.float32(rows.weight[i])
        for j in range(begin, stop):
            v = value(batch, i, j)
            f = feature(batch, j)
            if local[f] == 0:
                n += 1
                local[f] = n
                trainer.opened.feature[n] = f
                for c in range(total.shape[1]):
                    total[n, c] = 0.0
            if true != 0:
                at = local[f]
                for c in range(n_outputs):
                    if is_true(true, c):
                        total[at, c] += v * factor
    return n


@device
def start_weights(n, n_outputs, start, trainer):
    """Weights that give start.cosine x cosine to the running sum of each output. Mutates: trainer."""
    total, weight, length, sq_norm = trainer.total, trainer.opened.weight, trainer.opened.length, trainer.sq_norm
    width, all_mass = total.shape[1], np.float32(0.0)
    for c in range(width):
        sq_norm[c] = 0.0
        trainer.usual[c] = 0.0
    for at in range(1, n + 1):
        trainer.mass[at] = 0.0
        for c in range(n_outputs):
            sq_norm[c] += np.float64(total[at, c]) * total[at, c]
            trainer.mass[at] += abs(total[at, c])
            trainer.usual[c] += abs(total[at, c])
        all_mass += trainer.mass[at]
    for c in range(width):
        long = sq_norm[c] > SHORTEST_SUM
        length[c] = np.float32(start.cosine / math.sqrt(sq_norm[c])) if long else np.float32(0.0)
        trainer.usual[c] = max(trainer.usual[c] / max(all_mass, np.float32(1e-30)), np.float32(1e-6))
    for at in range(1, n + 1):
        for c in range(width):
            weight[at, c] = total[at, c] * length[c]


@inlined
def vote(mass_of_both, mass_of_feature, usual):
    """log(P(output | feature) / P(output))."""
    return math.log((mass_of_both + VOTE_SMOOTHING * usual) / ((mass_of_feature + VOTE_SMOOTHING) * usual))


@device
def add_votes(n, n_outputs, votes, trainer):
    """Add votes x log(P(output | feature) / P(output)) to the start. Mutates: trainer. Cost: O(n x outputs)."""
    total, weight, zero = trainer.total, trainer.opened.weight, np.float32(0.0)
    for at in range(1, n + 1):
        against = np.float32(votes * vote(zero, trainer.mass[at], np.float32(1.0)))  # shares cancel out
        for c in range(n_outputs):
            both = abs(total[at, c])
            if both > zero:
                weight[at, c] += np.float32(votes * vote(both, trainer.mass[at], trainer.usual[c]))
            else:
                weight[at, c] += against


@device
def leave_out(n_outputs, start, rows, pairs, first, last, every, trainer):
    """What the start scores of each `every`-th row lose without the row itself. Mutates: trainer.

    If s is the running sum with the row x of weight w: (s - w x).x / |s - w x| in place of s.x / |s|, and the votes of
    the mass without w x.
    """
    end, sq_norm = np.int64(0), trainer.sq_norm
    for q in range(first, last, every):
        i, true, at = pairs.row[q], pairs.true[q], end
        end += n_bits(true)
        trainer.begin[q - first], trainer.others[q - first] = at, 0.0
        if true == 0:
            continue
        if start.votes > 0.0:
            trainer.others[q - first] = np.float32(start.votes * lost_votes(rows, i, np.int64(-1), trainer))
        score_start(rows, pairs, q, trainer)
        own, weight = squared_length(rows.batch, i) * np.float64(rows.factor[i]) ** 2, rows.weight[i]
        for c in range(n_outputs):
            if is_true(true, c):
                lost = -np.float64(trainer.score[c])
                if start.cosine > 0.0 and not is_alone(rows, i, sq_norm[c]):
                    product = trainer.score[c] / start.cosine * math.sqrt(sq_norm[c])
                    rest = max(sq_norm[c] - 2.0 * weight * product + weight * weight * own, 1e-6 * sq_norm[c])
                    lost += start.cosine * (product - weight * own) / math.sqrt(rest)
                if start.votes > 0.0:
                    lost += trainer.others[q - first] + start.votes * lost_votes(rows, i, c, trainer)
                trainer.left_out[at] = np.float32(lost)
                at += 1


@device
def lost_votes(rows, i, c, trainer):
    """Votes of row i without the row in the sums, less those with it: for all outputs if c is -1, or in addition for
    its true output c.

    Cost: O(non-zeros).
    """
    begin, stop = span(rows.batch, i)
    weight, zero, lost = np.float32(rows.weight[i]), np.float32(0.0), 0.0
    for j in range(begin, stop):
        v, at = value(rows.batch, i, j) * rows.factor[i], trainer.opened.local[feature(rows.batch, j)]
        own = abs(v) * weight
        if c < 0:
            mass = trainer.mass[at]
            lost += v * math.log((mass + VOTE_SMOOTHING) / (max(mass - own, zero) + VOTE_SMOOTHING))
        else:
            both, smoothing = abs(trainer.total[at, c]), VOTE_SMOOTHING * trainer.usual[c]
            lost += v * math.log((max(both - own, zero) + smoothing) / (both + smoothing))
    return lost


@device
def train_node(n_outputs, bias, rows, pairs, first, last, options, trainer):
    """Epochs of dual coordinate ascent at one node, until little changes. Mutates: trainer, bias.

    Cost: O(epochs x non-zeros x outputs).
    """
    n_rows, batch, factors = last - first, rows.batch, rows.factor
    local, weight, score, step = trainer.opened.local, trainer.opened.weight, trainer.score, trainer.step
    seed, most_changed = options.seed + 7919 * (pairs.node[first] + 1), 0.0
    margin, curvature = np.float32(options.margin), HINGE_CURVATURE if options.margin > 0.0 else LOG_CURVATURE
    for k in range(n_rows):
        trainer.due[k] = 0
        for c in range(n_outputs):
            trainer.dual[k, c] = 0.0
    for c in range(n_outputs, weight.shape[1]):
        step[c] = 0.0
    for epoch in range(options.n_epochs):
        shuffle(trainer.order, n_rows, seed, epoch)
        changed = 0.0
        for at in range(n_rows):
            k = trainer.order[at]
            q = first + k
            i = pairs.row[q]
            if rows.weight[i] == 0.0 or epoch < trainer.due[k]:
                continue
            score_row(batch, i, factors[i], local, weight, bias, score)
            add_left_out(pairs.true[q], k, n_outputs, trainer)
            trainer.due[k] = epoch + 1 + REST
            strength = options.C * rows.weight[i]
            sq_length = squared_length(batch, i) * np.float64(factors[i]) ** 2 + options.bias_rate
            share = np.float32(1.0 / (1.0 + curvature * strength * sq_length))
            if dual_step(n_outputs, pairs.true[q], trainer.dual[k], score, share, margin, step) > SMALLEST_GRADIENT:
                for c in range(n_outputs):
                    trainer.dual[k, c] -= step[c]
                    changed += abs(step[c])
                    step[c] *= np.float32(strength)
                step_row(batch, i, factors[i], local, weight, bias, step, options.bias_rate)
                trainer.due[k] = 0
        most_changed = max(changed, most_changed)
        if changed <= TOLERANCE * most_changed:
            return


@device
def dual_step(n_outputs, true, dual, score, share, margin, step):
    """What to subtract from each dual to make it optimal, the others fixed; return the largest error. Mutates: step."""
    largest = np.float32(0.0)
    for c in range(n_outputs):
        is_one = is_true(true, c)
        if margin > 0.0:
            side = np.float32(1.0) if is_one else np.float32(-1.0)
            old = side * dual[c]
            slope = np.float32(HINGE_CURVATURE) * (margin - side * score[c])  # of the loss, unless it is 0 there
            step[c] = side * (old - max(np.float32(0.0), old + share * (slope - old)))
            largest = max(largest, abs(step[c]))
        else:
            step[c] = np.float32(sigmoid(np.float64(score[c]))) + dual[c]
            if is_one:
                step[c] -= np.float32(1.0)
            largest = max(largest, abs(step[c]))
            step[c] *= share
    return largest


@device
def shuffle(order, n, seed, epoch):
    """A random order of 0..n-1, the same for the same seed and epoch. Mutates: order. Cost: O(n)."""
    for k in range(n):
        order[k] = k
    for k in range(n - 1, 0, -1):
        other = np.int64(uniform(seed, epoch * n + k) * (k + 1))
        order[k], order[other] = order[other], order[k]


@device
def step_of(n, n_outputs, weight):
    """The step of which the weights of a node are multiples; not finite if a weight is not. Cost: O(n x outputs)."""
    largest, rest = np.float32(0.0), np.float32(0.0)
    for at in range(1, n + 1):
        largest = max(largest, largest_of(weight[at], n_outputs))
        for c in range(n_outputs):
            rest += np.float32(0.0) * weight[at, c]
    step = largest / np.float32(STEPS)
    return (step if step >= SMALLEST_STEP else np.float32(0.0)) + rest


@device
def pack_node(n, n_outputs, smallest, trainer, written, step, out):
    """Append the weights of a node above `smallest`, in the order of features; return the new ends. Mutates: out.

    `written` are the numbers of features and weights so far. Cost: O(n x outputs + kept x log kept).
    """
    entry, end = written
    opened, features, n_kept = trainer.opened, out.feature[entry:], np.int64(0)
    for at in range(1, n + 1 if step > 0.0 else 1):
        if largest_of(opened.weight[at], n_outputs) > smallest:
            features[n_kept] = opened.feature[at]
            n_kept += 1
    sort(features, n_kept)
    for k in range(n_kept):
        weights = opened.weight[opened.local[features[k]]]
        for part in range(out.lanes.shape[1]):
            out.lanes[entry + k, part] = 0
        for c in range(n_outputs):
            if abs(weights[c]) > smallest:
                out.lanes[entry + k, c // LANES] |= np.uint16(1) << np.uint16(c % LANES)
                out.value[end] = np.int16(np.rint(np.float64(weights[c]) / step))
                end += 1
    return entry + n_kept, end


@inlined
def largest_of(weights, n_outputs):
    """The largest absolute value of the weights of the outputs. Cost: O(outputs)."""
    largest = np.float32(0.0)
    for c in range(n_outputs):
        largest = max(largest, abs(weights[c]))
    return largest


@device
def sort(values, n):
    """Sort the first n values (heapsort, in place). Mutates: values. Cost: O(n log n)."""
    for k in range(n // 2 - 1, -1, -1):
        sift_down(values, k, n)
    for last in range(n - 1, 0, -1):
        values[0], values[last] = values[last], values[0]
        sift_down(values, np.int64(0), last)


@device
def sift_down(values, k, n):
    """Restore the heap of n values below place k. Mutates: values. Cost: O(log n)."""
    while 2 * k + 1 < n:
        child = 2 * k + 1
        if child + 1 < n and values[child + 1] > values[child]:
            child += 1
        if values[k] >= values[child]:
            return
        values[k], values[child] = values[child], values[k]
        k = child
