"""Label tree in batch: each node learns all its rows, all epochs, while its weights stay in the cache.

What a node learns depends on no other node: a router sees the rows with a label below it; a leaf sees the rows whose
paths reach it or that have a label in it. With softmax over all labels reached, the part of the other leaves in the sum
is taken from their start weights, before any of them has learned. So nodes can be trained in any order and on any
number of threads, with the same result.
"""

import math
from typing import NamedTuple

import numpy as np

from ..core.inputs import feature, span, value
from ..core.losses import SOFTMAX, log_sum
from ..core.rng import uniform
from ..core.state import Array
from ..jit import device, kernel
from .kernels import HEAVIEST_STEP, SMALLEST_GRADIENT, gradient_of, log_add, start_of
from .weights import OpenNode, close_node, make_open_node, plain, score_row, step_row

# Mass of the usual distribution over outputs that every feature is assumed to have seen.
VOTE_SMOOTHING = np.float32(1.0)
# After training, blocks of smaller weights are left out, unless the running sums need them.
SMALLEST_WEIGHT = 0.01


class Pairs(NamedTuple):
    """Which rows learn at which nodes, sorted by node and row."""

    node: Array  # i8
    row: Array  # i8
    true: Array  # u8: the outputs of the node that are true for the row, as bits
    others: Array  # f8: log of the sum over the labels of the other leaves of the row


class Trained(NamedTuple):
    """Blocks of some nodes, node after node."""

    node: Array  # i8
    n_blocks: Array  # i8: of each node
    feature: Array  # (block,) i4
    weight: Array  # (block, place) f4
    total: Array  # (block, place) f4


class Trainer(NamedTuple):
    """Scratch for training one node."""

    opened: OpenNode
    total: Array  # (number, place)
    score: Array  # (place,)
    gradient: Array  # (place,)
    order: Array  # (row of the node,)


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
    most_rows, most = np.int64(0), np.int64(0)
    first = np.int64(0)
    while first < len(pairs.node):
        last = end_of(pairs, first)
        length = np.int64(0)
        for q in range(first, last):
            begin, stop = span(rows.batch, pairs.row[q])
            length += stop - begin
        most_rows, most, first = max(most_rows, last - first), max(most, length), last
    most = min(most, n_features)
    return Trainer(
        make_open_node(n_features, most, width),
        np.zeros((most + 1, width), np.float32),
        np.empty(width, np.float32),
        np.empty(width, np.float32),
        np.empty(most_rows, np.int64),
    )


@kernel
def fit_nodes(tree, blocks, scale, rows, pairs, votes, options, out):
    """Train nodes on their rows; return the number of blocks written. Mutates: biases and lengths of blocks, out."""
    trainer = make_trainer(rows, pairs, np.int64(len(scale.inverse)), blocks.bias.shape[1])
    return _fit_nodes(tree, blocks, rows, pairs, votes, options, out, trainer)


@device
def _fit_nodes(tree, blocks, rows, pairs, votes, options, out, trainer):
    written, k, first = np.int64(0), np.int64(0), np.int64(0)
    while first < len(pairs.node):
        last = end_of(pairs, first)
        node = pairs.node[first]
        n = begin_node(tree, blocks, rows, pairs, first, last, options, trainer)
        if votes > 0.0:
            add_votes(n, tree.size[node], votes, trainer)
        train_node(tree.size[node], blocks.bias[node], rows, pairs, first, last, options, trainer)
        before = written
        written = keep_blocks(n, trainer, written, out)
        out.n_blocks[k] = written - before
        for c in range(tree.size[node]):
            blocks.sq_norm[node, c] = -blocks.sq_norm[node, c]  # folded
        close_node(trainer.opened, n)
        k, first = k + 1, last
    return written


@kernel
def start_sums(tree, blocks, scale, rows, pairs, options, out):
    """Log of the sum over the labels of a leaf for each (leaf, row) pair, before training. Mutates: lengths, out."""
    trainer = make_trainer(rows, pairs, np.int64(len(scale.inverse)), blocks.bias.shape[1])
    _start_sums(tree, blocks, rows, pairs, options, out, trainer)


@device
def _start_sums(tree, blocks, rows, pairs, options, out, trainer):
    opened, first = trainer.opened, np.int64(0)
    while first < len(pairs.node):
        last = end_of(pairs, first)
        node = pairs.node[first]
        n = begin_node(tree, blocks, rows, pairs, first, last, options, trainer)
        for q in range(first, last):
            i = pairs.row[q]
            score_row(rows.batch, i, rows.factor[i], opened.local, opened.weight, blocks.bias[node], trainer.score)
            out[q] = log_sum(trainer.score, tree.size[node])
        close_node(opened, n)
        first = last


@device
def begin_node(tree, blocks, rows, pairs, first, last, options, trainer):
    """Running sums and start weights of a node; return the number of its features. Mutates: blocks.sq_norm, trainer."""
    node = pairs.node[first]
    n = gather(rows, pairs, first, last, tree.size[node], trainer)
    start_weights(n, start_of(options, tree.is_leaf[node] != 0), blocks.sq_norm[node], trainer)
    return n


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
                    if (true >> np.uint64(c)) & np.uint64(1):
                        total[at, c] += v * factor
    return n


@device
def start_weights(n, start, sq_norm, trainer):
    """Weights that give start x cosine to the running sum of each output. Mutates: sq_norm, trainer."""
    total, weight, length = trainer.total, trainer.opened.weight, trainer.opened.length
    width = total.shape[1]
    for c in range(width):
        sq_norm[c] = 0.0
    for at in range(1, n + 1):
        for c in range(width):
            sq_norm[c] += np.float64(total[at, c]) * total[at, c]
    for c in range(width):
        length[c] = np.float32(start / math.sqrt(sq_norm[c])) if sq_norm[c] > 0.0 else np.float32(0.0)
    for at in range(1, n + 1):
        for c in range(width):
            weight[at, c] = total[at, c] * length[c]


@device
def add_votes(n, n_outputs, votes, trainer):
    """Add votes x log(P(output | feature) / P(output)) to the start. Mutates: trainer. Cost: O(n x outputs).

    The cosine to a mean of many rows hardly depends on a rare word; if labels have few rows, it is often the only word
    that a new row has in common with them.
    """
    total, weight, share = trainer.total, trainer.opened.weight, trainer.score
    for c in range(n_outputs):
        share[c] = 0.0
    mass = np.float32(0.0)
    for at in range(1, n + 1):
        for c in range(n_outputs):
            share[c] += abs(total[at, c])
            mass += abs(total[at, c])
    for at in range(1, n + 1):
        of_feature = np.float32(0.0)
        for c in range(n_outputs):
            of_feature += abs(total[at, c])
        for c in range(n_outputs):
            usual = max(share[c] / mass, np.float32(1e-6))
            seen = (abs(total[at, c]) + VOTE_SMOOTHING * usual) / (of_feature + VOTE_SMOOTHING)
            weight[at, c] += np.float32(votes * math.log(seen / usual))


@device
def train_node(n_outputs, bias, rows, pairs, first, last, options, trainer):
    """All epochs of one node, the step falling to 0 along a line. Mutates: trainer, bias.

    Cost: O(epochs x non-zeros x outputs).
    """
    n_rows, batch, factors = last - first, rows.batch, rows.factor
    local, weight, score, gradient = trainer.opened.local, trainer.opened.weight, trainer.score, trainer.gradient
    seed, steps = options.seed + 7919 * (pairs.node[first] + 1), options.n_epochs * n_rows
    for c in range(n_outputs, weight.shape[1]):
        gradient[c] = 0.0
    for epoch in range(options.n_epochs):
        shuffle(trainer.order, n_rows, seed, epoch)
        for k in range(n_rows):
            q = first + trainer.order[k]
            i = pairs.row[q]
            if rows.weight[i] == 0.0:
                continue
            score_row(batch, i, factors[i], local, weight, bias, score)
            norm = log_add(log_sum(score, n_outputs), pairs.others[q]) if options.loss == SOFTMAX else 0.0
            if gradient_of(score, n_outputs, pairs.true[q], norm, options.loss, gradient) > SMALLEST_GRADIENT:
                pace = 1.0 - (epoch * n_rows + k) / steps
                step = np.float32(options.rate * min(rows.weight[i], HEAVIEST_STEP) * pace)
                for c in range(n_outputs):
                    gradient[c] *= step
                step_row(batch, i, factors[i], local, weight, bias, gradient, options.bias_rate)


@device
def shuffle(order, n, seed, epoch):
    """A random order of 0..n-1, the same for the same seed and epoch. Mutates: order. Cost: O(n)."""
    for k in range(n):
        order[k] = k
    for k in range(n - 1, 0, -1):
        other = np.int64(uniform(seed, epoch * n + k) * (k + 1))
        order[k], order[other] = order[other], order[k]


@device
def keep_blocks(n, trainer, written, out):
    """Append the blocks worth keeping, the start in their weights; return their number. Mutates: out."""
    weight, total = trainer.opened.weight, trainer.total
    width = weight.shape[1]
    for at in range(1, n + 1):
        keep = False
        for c in range(width):
            if total[at, c] != 0.0 or abs(weight[at, c]) >= SMALLEST_WEIGHT:
                keep = True
        if keep:
            out.feature[written] = trainer.opened.feature[at]
            for c in range(width):
                out.weight[written, c] = weight[at, c]
                out.total[written, c] = total[at, c]
            written += 1
    return written
