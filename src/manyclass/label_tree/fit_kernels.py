"""Label tree in batch: each node learns all its rows, all epochs, while its weights stay in the cache.

What a node learns depends on no other node: a router sees the rows with a label below it; a leaf sees the rows whose
paths reach it or that have a label in it. With softmax over all labels reached, the other leaves' part of the sum is
taken as their means give it, before any of them has learned. So nodes can be trained in any order and on any number
of threads, with the same result.
"""

import math

import numpy as np

from ..core.inputs import feature, span, value
from ..core.losses import SOFTMAX, log_sum, sigmoid
from ..core.rng import uniform
from ..jit import device, kernel
from .kernels import HEAVIEST_STEP, SMALLEST_GRADIENT
from .weights import LANES, close_node, load_block, make_room, score_row, store_block

NOBODY = -1e30  # log of the sum over no other leaf

# Mass of the usual distribution over outputs that every feature is thought to have seen.
VOTE_SMOOTHING = np.float32(1.0)

# After training, weights below this are left out, where the running sums do not need the block anyway.
SMALLEST_WEIGHT = 0.01


@device
def shuffle(order, n, seed, epoch):
    """A random order of 0..n-1, the same for the same seed and epoch. Mutates: order. Cost: O(n)."""
    for k in range(n):
        order[k] = k
    for k in range(n - 1, 0, -1):
        other = np.int64(uniform(seed, epoch * n + k) * (k + 1))
        order[k], order[other] = order[other], order[k]


@device
def gather(batch, scales, rows, targets, weights, n_outputs, local, features, total):
    """Number the features of a node's rows, and sum the rows of each output. Mutates: local, features, total.

    Cost: O(non-zeros).
    """
    n = 0
    for r in range(len(rows)):
        i = rows[r]
        begin, stop = span(batch, i)
        factor = scales[i] * np.float32(weights[i])
        for j in range(begin, stop):
            v = value(batch, i, j)
            f = feature(batch, j)
            if local[f] == 0:
                n += 1
                local[f] = n
                features[n] = f
                for c in range(total.shape[1]):
                    total[n, c] = 0.0
            if targets[r] != 0:
                at = local[f]
                for c in range(n_outputs):
                    if (targets[r] >> np.uint64(c)) & np.uint64(1):
                        total[at, c] += v * factor
    return n


@device
def start_weights(n, total, weight, start, sq_norm, length):
    """Weights that give start x cosine to each output's running sum. Mutates: weight, sq_norm, length."""
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
def add_votes(n, n_outputs, total, weight, votes, share):
    """Add votes x log(P(output | feature) / P(output)) to the start. Mutates: weight, share. Cost: O(n x outputs).

    The cosine to a mean of many rows hardly sees a rare word; where labels have few rows, it is often the only word
    that a new row has in common with them.
    """
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
def step_row(batch, i, scale, local, weight, bias, move, bias_rate):
    """Subtract move x row from the weights. Mutates: weight, bias. Cost: O(non-zeros x outputs)."""
    begin, stop = span(batch, i)
    for part in range(weight.shape[1] // LANES):
        lane = np.uint64(part * LANES)
        moves = load_block(move, lane)
        for j in range(begin, stop):
            own = weight[local[feature(batch, j)]]
            store_block(_subtract(load_block(own, lane), moves, value(batch, i, j) * scale), own, lane)
    for c in range(weight.shape[1]):
        bias[c] -= np.float32(bias_rate) * move[c]


@device
def _subtract(a, b, v):
    return (
        a[0] - b[0] * v, a[1] - b[1] * v, a[2] - b[2] * v, a[3] - b[3] * v,
        a[4] - b[4] * v, a[5] - b[5] * v, a[6] - b[6] * v, a[7] - b[7] * v,
        a[8] - b[8] * v, a[9] - b[9] * v, a[10] - b[10] * v, a[11] - b[11] * v,
        a[12] - b[12] * v, a[13] - b[13] * v, a[14] - b[14] * v, a[15] - b[15] * v,
    )  # fmt: skip


@device
def gradient_of(scores, n, target, others, loss, out):
    """Gradients of n outputs, and their largest size; `others` is the log of the sum over other leaves' labels.

    Mutates: out. Cost: O(n).
    """
    largest = np.float32(0.0)
    if loss == SOFTMAX:
        own = log_sum(scores, n)
        top = max(own, others)
        norm = top + math.log(math.exp(own - top) + math.exp(others - top))
        for c in range(n):
            out[c] = np.float32(math.exp(scores[c] - norm))
    else:
        for c in range(n):
            out[c] = np.float32(sigmoid(np.float64(scores[c])))
    for c in range(n):
        if (target >> np.uint64(c)) & np.uint64(1):
            out[c] -= np.float32(1.0)
        largest = max(largest, abs(out[c]))
    return largest


@device
def train_node(batch, scales, rows, targets, weights, others, n_outputs, options, n_epochs, seed, room, n, bias):
    """All epochs of one node, the step falling to 0 along a line. Mutates: room, bias.

    Cost: O(epochs x non-zeros x outputs).
    """
    n_rows = len(rows)
    steps = n_epochs * n_rows
    for c in range(n_outputs, room.weight.shape[1]):
        room.gradient[c] = 0.0
    for epoch in range(n_epochs):
        shuffle(room.order, n_rows, seed, epoch)
        for k in range(n_rows):
            r = room.order[k]
            i = rows[r]
            if weights[i] == 0.0:
                continue
            score_row(batch, i, scales[i], room.local, room.weight, bias, room.score)
            largest = gradient_of(room.score, n_outputs, targets[r], others[r], options.loss, room.gradient)
            if largest > SMALLEST_GRADIENT:
                step = np.float32(options.rate * min(weights[i], HEAVIEST_STEP) * (1.0 - (epoch * n_rows + k) / steps))
                for c in range(n_outputs):
                    room.gradient[c] *= step
                step_row(batch, i, scales[i], room.local, room.weight, bias, room.gradient, options.bias_rate)


@device
def emit(n, room, emitted, feature_out, weight_out, total_out):
    """Append the blocks worth keeping, the start in their weights; return how many there are now.

    Mutates: feature_out, weight_out, total_out.
    """
    width = room.weight.shape[1]
    for at in range(1, n + 1):
        keep = False
        for c in range(width):
            if room.total[at, c] != 0.0 or abs(room.weight[at, c]) >= SMALLEST_WEIGHT:
                keep = True
        if keep:
            feature_out[emitted] = room.feature[at]
            for c in range(width):
                weight_out[emitted, c] = room.weight[at, c]
                total_out[emitted, c] = room.total[at, c]
            emitted += 1
    return emitted


@device
def _fit_nodes(
    batch, scales, nodes, pointer, rows, targets, weights, others, sizes, options, n_epochs, start, votes, room,
    bias, sq_norm, counts, feature_out, weight_out, total_out,
):  # fmt: skip
    emitted = np.int64(0)
    for k in range(len(nodes)):
        node = np.int64(nodes[k])
        first, last = pointer[k], pointer[k + 1]
        own, aims, rest = rows[first:last], targets[first:last], others[first:last]
        n = gather(batch, scales, own, aims, weights, sizes[node], room.local, room.feature, room.total)
        start_weights(n, room.total, room.weight, start, sq_norm[node], room.length)
        if votes > 0.0:
            add_votes(n, sizes[node], room.total, room.weight, votes, room.score)
        if n_epochs > 0:
            seed = options.seed + 7919 * (node + 1)
            train_node(
                batch, scales, own, aims, weights, rest, sizes[node], options, n_epochs, seed, room, n, bias[node]
            )
            before = emitted
            emitted = emit(n, room, emitted, feature_out, weight_out, total_out)
            counts[k] = emitted - before
            for c in range(sizes[node]):
                sq_norm[node, c] = -sq_norm[node, c]  # folded
        else:  # only asked for the sums over this leaf that other leaves need
            for r in range(last - first):
                score_row(batch, own[r], scales[own[r]], room.local, room.weight, bias[node], room.score)
                others[first + r] = log_sum(room.score, sizes[node])
        close_node(room, n)
    return emitted


@kernel
def fit_nodes(
    batch, scales, nodes, pointer, rows, targets, weights, others, sizes, options, n_epochs, start, votes, n_features,
    bias, sq_norm, counts, feature_out, weight_out, total_out,
):  # fmt: skip
    """Train nodes on rows[pointer[k]:pointer[k + 1]] each; return the number of blocks written.

    With n_epochs 0 it only writes to `others` the log of the sum over each leaf's labels.
    Mutates: bias, sq_norm, counts, feature_out, weight_out, total_out, or others.
    """
    width = bias.shape[1]
    most_rows, most = np.int64(0), np.int64(0)
    for k in range(len(nodes)):
        most_rows = max(most_rows, pointer[k + 1] - pointer[k])
        length = np.int64(0)
        for q in range(pointer[k], pointer[k + 1]):
            begin, stop = span(batch, rows[q])
            length += stop - begin
        most = max(most, length)
    most = min(most, np.int64(n_features))
    room = make_room(np.int64(n_features), most, width, most_rows)
    return _fit_nodes(
        batch, scales, nodes, pointer, rows, targets, weights, others, sizes, options, n_epochs, start, votes, room,
        bias, sq_norm, counts, feature_out, weight_out, total_out,
    )  # fmt: skip
