"""Label tree: follow the best paths of rows from the root to leaves, and score the labels found there."""

import math
from typing import NamedTuple

import numpy as np

from ..core.inputs import span, squared_length
from ..core.losses import SOFTMAX, log_sigmoid
from ..core.topk import offer
from ..jit import device, inlined, kernel
from .slim_weights import n_known, open_outputs, score_outputs
from .weights import close_node, score_row


class Options(NamedTuple):
    """What the kernels need to know."""

    beam: int
    loss: int
    prior: float  # weight of the path's log-probability in a label's final score
    start: float  # weight of the cosine to the label's mean row
    router_start: float
    rate: float
    bias_rate: float  # times a rate: the bias as a feature of that squared size
    unit_rows: bool  # rows are scaled to length 1; else by the typical length
    seed: int


class Scratch(NamedTuple):
    """Room for one row at a time."""

    record: np.ndarray  # (non-zero,)
    value: np.ndarray  # (non-zero,)
    mean: np.ndarray  # (place,)
    score: np.ndarray  # (place,)
    gradient: np.ndarray  # (place,)
    node: np.ndarray  # (node,) those a row learns at


class Paths(NamedTuple):
    """The best paths of a block of rows."""

    node: np.ndarray  # (row, beam) i4
    chance: np.ndarray  # (row, beam) f8: log-probability
    size: np.ndarray  # (row,)
    child: np.ndarray  # (row, beam x place) f4: log-probability of the outputs
    order: np.ndarray  # (row x beam,) paths, those at one node together
    n_at: np.ndarray  # (node + 1,) for sorting
    next_node: np.ndarray  # (beam,)
    next_chance: np.ndarray  # (beam,)
    scale: np.ndarray  # (row of the batch,) what to multiply it with
    work: np.ndarray  # (row of the batch, 4) depth, nodes visited, routers scored, labels scored


@kernel
def make_scratch(longest, width, most_nodes):
    """Room for rows of at most `longest` non-zeros that learn at `most_nodes` nodes."""
    return Scratch(
        np.empty(longest, np.int64),
        np.empty(longest, np.float32),
        np.empty(width, np.float32),
        np.empty(width, np.float32),
        np.empty(width, np.float32),
        np.empty(most_nodes, np.int32),
    )


@kernel
def make_paths(n_rows, beam, width, most_leaves, n_nodes, n_batch):
    """Room for the paths of blocks of n_rows rows."""
    return Paths(
        np.empty((n_rows, beam), np.int32),
        np.empty((n_rows, beam)),
        np.empty(n_rows, np.int64),
        np.empty((n_rows, most_leaves * width), np.float32),
        np.empty(n_rows * beam, np.int64),
        np.empty(n_nodes + 1, np.int64),
        np.empty(beam, np.int32),
        np.empty(beam),
        np.empty(n_batch, np.float32),
        np.zeros((n_batch, 4), np.int64),
    )


@device
def row_scale(scale, batch, i, options):
    """What to multiply row i with: 1 / its length, or 1 / the typical length. Cost: O(non-zeros)."""
    sq_norm = squared_length(batch, i)
    if not options.unit_rows and scale.n_rows[0] > 0.0:
        # A row far longer than the usual must not throw the model.
        sq_norm = max(scale.sq_norm[0] / scale.n_rows[0], sq_norm / 16.0)
    return np.float32(1.0 / math.sqrt(sq_norm)) if sq_norm > 1e-60 else np.float32(0.0)


@device
def log_chances(scores, n, loss, out, first):
    """Log-probabilities of n outputs. Mutates: out. Cost: O(n)."""
    if loss == SOFTMAX:
        top = scores[0]
        for c in range(1, n):
            top = max(top, scores[c])
        total = 0.0
        for c in range(n):
            total += math.exp(scores[c] - top)
        norm = top + math.log(total)
        for c in range(n):
            out[first + c] = scores[c] - norm
    else:
        for c in range(n):
            out[first + c] = log_sigmoid(np.float64(scores[c]))


@device
def group_by_node(tree, paths, n_rows, leaves):
    """List the paths that stand at a leaf (or at an inner node), those at one node together; return how many.

    One row needs no sorting; for many, a node's weights are then read once. Mutates: paths.
    """
    beam = paths.node.shape[1]
    n = 0
    if n_rows == 1:
        for b in range(paths.size[0]):
            if (tree.is_leaf[paths.node[0, b]] != 0) == leaves:
                paths.order[n] = b
                n += 1
        return n
    n_nodes = tree.n_nodes[0]
    for node in range(n_nodes + 1):
        paths.n_at[node] = 0
    for r in range(n_rows):
        for b in range(paths.size[r]):
            node = paths.node[r, b]
            if (tree.is_leaf[node] != 0) == leaves:
                paths.n_at[node + 1] += 1
                n += 1
    for node in range(n_nodes):
        paths.n_at[node + 1] += paths.n_at[node]
    for r in range(n_rows):
        for b in range(paths.size[r]):
            node = paths.node[r, b]
            if (tree.is_leaf[node] != 0) == leaves:
                paths.order[paths.n_at[node]] = r * beam + b
                paths.n_at[node] += 1
    return n


@device
def meet_node(blocks, batch, first, q, n, start, paths, room):
    """End of the run of paths at one node that begins at paths.order[q], and the number of features if it was opened.

    A node is opened (-1: not) where so many rows come by that it pays. Mutates: room.
    """
    beam = paths.node.shape[1]
    node = paths.node[paths.order[q] // beam, paths.order[q] % beam]
    last, n_values = q, 0
    while last < n and paths.node[paths.order[last] // beam, paths.order[last] % beam] == node:
        begin, stop = span(batch, first + paths.order[last] // beam)
        n_values += stop - begin
        last += 1
    n_features = n_known(blocks, node)
    if n_values > 3 * n_features and len(room.feature) > n_features > 0:
        return last, np.int64(open_outputs(blocks, node, start, room))
    return last, np.int64(-1)


@device
def follow_paths(tree, blocks, batch, first, n_rows, scales, options, scratch, paths, work, room):
    """The best `beam` leaves of rows first.. of the batch, best first. Mutates: scratch, paths, work.

    Cost: O(beam x depth) nodes of `arity` outputs a row.
    """
    beam, width = options.beam, blocks.bias.shape[1]
    for r in range(n_rows):
        paths.node[r, 0], paths.chance[r, 0], paths.size[r] = 0, 0.0, 1
    while True:
        n = group_by_node(tree, paths, n_rows, False)
        if n == 0:
            return
        q = np.int64(0)
        while q < n:
            node = paths.node[paths.order[q] // beam, paths.order[q] % beam]
            last, n_open = meet_node(blocks, batch, first, q, n, options.router_start, paths, room)
            while q < last:
                r, b = paths.order[q] // beam, paths.order[q] % beam
                i = first + r
                if n_open >= 0:
                    score_row(batch, i, scales[i], room.local, room.weight, blocks.bias[node], scratch.score)
                else:
                    score_outputs(blocks, node, batch, i, scales[i], options.router_start, scratch, scratch.score)
                log_chances(scratch.score, tree.size[node], options.loss, paths.child[r], b * width)
                work[i, 1] += 1
                work[i, 2] += tree.size[node]
                q += 1
            close_node(room, n_open)
        for r in range(n_rows):
            _keep_best(tree, paths, r, options.beam, width, work, first + r)


@inlined
def _keep_best(tree, paths, r, beam, width, work, i):
    """Replace the paths of a row at inner nodes by their children, and keep the best `beam`. Mutates: paths."""
    size = np.int64(0)
    moved = False
    for b in range(paths.size[r]):
        node, chance = paths.node[r, b], paths.chance[r, b]
        if tree.is_leaf[node] != 0:
            size = offer(paths.next_node[:beam], paths.next_chance[:beam], size, node, chance)
        else:
            moved = True
            for c in range(tree.size[node]):
                child = tree.outputs[node, c]
                child_chance = chance + paths.child[r, b * width + c]
                size = offer(paths.next_node[:beam], paths.next_chance[:beam], size, child, child_chance)
    for b in range(size):
        paths.node[r, b], paths.chance[r, b] = paths.next_node[b], paths.next_chance[b]
    paths.size[r] = size
    if moved:
        work[i, 0] += 1


@device
def score_leaves(tree, blocks, batch, first, n_rows, scales, options, scratch, paths, work, room):
    """Scores of the labels of all leaves reached, into paths.child. Mutates: scratch, paths, work."""
    beam, width = options.beam, blocks.bias.shape[1]
    n = group_by_node(tree, paths, n_rows, True)
    q = np.int64(0)
    while q < n:
        node = paths.node[paths.order[q] // beam, paths.order[q] % beam]
        last, n_open = meet_node(blocks, batch, first, q, n, options.start, paths, room)
        while q < last:
            r, b = paths.order[q] // beam, paths.order[q] % beam
            i = first + r
            if n_open >= 0:
                score_row(batch, i, scales[i], room.local, room.weight, blocks.bias[node], scratch.score)
            else:
                score_outputs(blocks, node, batch, i, scales[i], options.start, scratch, scratch.score)
            for c in range(tree.size[node]):
                paths.child[r, b * width + c] = scratch.score[c]
            work[i, 1] += 1
            work[i, 3] += tree.size[node]
            q += 1
        close_node(room, n_open)


@inlined
def final_score(score, chance, options):
    """What labels are ranked by: the scorer's word and, with less weight, the path's."""
    if options.loss == SOFTMAX:
        return score + options.prior * chance
    return log_sigmoid(np.float64(score)) + options.prior * chance
