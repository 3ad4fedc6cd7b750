"""What the nodes of a wide tree know of features, for answers only: the weights that are not zero, packed.

A node's features lie sorted, each with a bit for every output that it speaks for (`lanes`) and those outputs' weights
one after the other. The start is already in the weights: score = bias + weight . x.

The functions at the end take blocks of either kind, and are all that answers know of them.
"""

import numpy as np
from numba.extending import overload

from ..core.inputs import feature, first_not_below, span, value
from ..jit import DEVICE_OPTIONS, device
from .weights import LANES, open_node, score_node


@device
def add_packed(blocks, at, v, out):
    """out + v * weights of the feature at `at`. Mutates: out. Cost: O(weights that are not zero)."""
    p = np.int64(blocks.begin[at])
    for part in range(blocks.lanes.shape[1]):
        bits = np.int64(blocks.lanes[at, part])
        c = part * LANES
        while bits != 0:
            if bits & 1:
                out[c] += blocks.value[p] * v
                p += 1
            bits >>= 1
            c += 1


@device
def score_packed(blocks, node, batch, i, scale, out):
    """Scores of all outputs of a node for row i. Mutates: out. Cost: O(non-zeros x (log features + outputs))."""
    for c in range(len(out)):
        out[c] = blocks.bias[node, c]
    begin, stop = span(batch, i)
    first, end = np.int64(blocks.first[node]), np.int64(blocks.first[node + 1])
    at, before = first, np.int64(-1)
    for j in range(begin, stop):
        v, f = value(batch, i, j), np.int64(feature(batch, j))
        if v != 0.0:
            # A row's features are sorted like the node's: go on from where the last one was.
            at = first_not_below(blocks.feature, at if f > before else first, end, f)
            before = f
            if at < end and blocks.feature[at] == f:
                add_packed(blocks, at, v * scale, out)


@device
def open_packed(blocks, node, room):
    """Lay a node open; return the number of its features. Mutates: room. Cost: O(features of the node x outputs)."""
    n = np.int32(0)
    for at in range(blocks.first[node], blocks.first[node + 1]):
        n += np.int32(1)
        f = blocks.feature[at]
        room.local[f] = n
        room.feature[n] = f
        weights = room.weight[n]
        for c in range(len(weights)):
            weights[c] = 0.0
        add_packed(blocks, at, np.float32(1.0), weights)
    return n


# -- either kind ---------------------------------------------------------------------------------------------------


def score_outputs(blocks, node, batch, i, scale, start, scratch, out):
    """Scores of all outputs of a node for row i. Mutates: scratch, out."""
    if "lanes" in blocks._fields:
        return score_packed(blocks, node, batch, i, scale, out)
    return score_node(blocks, node, batch, i, scale, start, scratch, out)


def open_outputs(blocks, node, start, room):
    """Lay a node open; return the number of its features. Mutates: room."""
    return open_packed(blocks, node, room) if "lanes" in blocks._fields else open_node(blocks, node, start, room)


def n_known(blocks, node):
    """How many features a node knows."""
    return blocks.first[node + 1] - blocks.first[node] if "lanes" in blocks._fields else blocks.n_used[node]


@overload(score_outputs, jit_options=DEVICE_OPTIONS)
def _score_outputs(blocks, node, batch, i, scale, start, scratch, out):
    if "lanes" in blocks.fields:
        return lambda blocks, node, batch, i, scale, start, scratch, out: score_packed(
            blocks, node, batch, i, scale, out
        )
    return lambda blocks, node, batch, i, scale, start, scratch, out: score_node(
        blocks, node, batch, i, scale, start, scratch, out
    )


@overload(open_outputs, jit_options=DEVICE_OPTIONS)
def _open_outputs(blocks, node, start, room):
    if "lanes" in blocks.fields:
        return lambda blocks, node, start, room: open_packed(blocks, node, room)
    return lambda blocks, node, start, room: open_node(blocks, node, start, room)


@overload(n_known, jit_options=DEVICE_OPTIONS)
def _n_known(blocks, node):
    if "lanes" in blocks.fields:
        return lambda blocks, node: blocks.first[node + 1] - blocks.first[node]
    return lambda blocks, node: blocks.n_used[node]
