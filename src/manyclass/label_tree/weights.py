"""What the nodes of a wide tree know of features: for each (node, feature) a block with one weight for each output.

A node's outputs are its children, or its labels if it is a leaf. Their weights for one feature lie side by side, so
that one look-up serves them all. Every node has a small hash table of its own, feature -> block; the tables share one
array, the blocks another. An output's score is

    bias + weight . x + start * cosine of x and `total`

where `total` is the running sum of the rows that belong to it: a good answer from the first row on, which `weight`
then corrects. Once a node has learned in batch, the last term is in its weights (folded): answers then read half as
much. Its squared lengths are negative to say so, and `total` waits for `unfold`, before the node learns online.
"""

import math
from typing import NamedTuple

import numpy as np

from ..core.inputs import feature, span, value
from ..jit import device, inlined, kernel

LANES = 16  # outputs whose sums are kept in registers at a time; a block is a whole number of these
_SMALLEST_TABLE = 8
SIZES = 48  # of tables: powers of two

ZEROS = (np.float32(0.0),) * LANES
# Unsigned positions: Numba looks whether a signed one counts from the end, and that keeps vector instructions away.
U = tuple(np.uint64(c) for c in range(LANES))


@inlined
def place_in(f, mask):
    """Where the look for a feature begins; features 0..mask never collide. Cost: O(1)."""
    return ((np.int64(f) ^ (np.int64(f) >> 12)) * np.int64(0x2545F491)) & mask


@device
def find(blocks, node, f):
    """The block of (node, feature), or -1. Cost: O(1)."""
    mask = blocks.mask[node]
    first = blocks.first[node]
    at = place_in(f, mask)
    while True:
        known = blocks.feature[first + at]
        if known == f:
            return np.int64(blocks.record[first + at])
        if known < 0:
            return np.int64(-1)
        at = (at + 1) & mask


@device
def insert(blocks, node, f, record):
    """Enter a feature that the node does not have yet. Mutates: blocks. Cost: O(1)."""
    mask = blocks.mask[node]
    first = blocks.first[node]
    at = place_in(f, mask)
    while blocks.feature[first + at] >= 0:
        at = (at + 1) & mask
    blocks.feature[first + at] = np.int32(f)
    blocks.record[first + at] = np.int32(record)
    blocks.n_used[node] += 1


@device
def find_or_make(blocks, node, f):
    """The block of (node, feature), made if need be: `reserve` saw to it that there is room. Mutates: blocks."""
    at = find(blocks, node, f)
    if at < 0:
        at = blocks.n_records[0]
        blocks.n_records[0] += 1
        insert(blocks, node, f, at)
    return at


@device
def table_size(n):
    """Entries for a table of n features, at most two thirds full. Cost: O(log n)."""
    size = np.int64(_SMALLEST_TABLE)
    while 2 * size < 3 * n:
        size *= 2
    return size


@device
def size_class(size):
    """Log2 of a table's size."""
    log = np.int64(0)
    while (np.int64(1) << log) < size:
        log += 1
    return log


@device
def new_table(blocks, size):
    """The first entry of an empty table, or -1 where there is no room for it. Mutates: blocks. Cost: O(size)."""
    log = size_class(size)
    first = blocks.free[log]
    if first >= 0:
        blocks.free[log] = blocks.record[first]  # the next free table of this size
    else:
        first = blocks.n_entries[0]
        if first + size > len(blocks.feature):
            return np.int64(-1)
        blocks.n_entries[0] += size
    for at in range(first, first + size):
        blocks.feature[at] = np.int32(-1)
    return first


@device
def free_table(blocks, first, size):
    """Give a table back. Mutates: blocks. Cost: O(1)."""
    log = size_class(size)
    blocks.record[first] = np.int32(blocks.free[log])
    blocks.free[log] = first


@device
def reserve(blocks, node, n):
    """Make sure the node can take n more features; False where the arrays are too short. Mutates: blocks.

    Nothing that a score depends on changes. Cost: O(1), amortised.
    """
    old_size = blocks.mask[node] + 1
    size = table_size(blocks.n_used[node] + n)
    if size <= old_size:
        return True
    old_first = blocks.first[node]
    first = new_table(blocks, size)
    if first < 0:
        return False
    blocks.first[node] = first
    blocks.mask[node] = size - 1
    blocks.n_used[node] = 0
    for at in range(old_first, old_first + old_size):
        if blocks.feature[at] >= 0:
            insert(blocks, node, blocks.feature[at], blocks.record[at])
    if old_size > 0:
        free_table(blocks, old_first, old_size)
    return True


@inlined
def add_block(sums, weights, at, lane, v):
    """sums + v * weights[at, lane : lane + LANES], in registers."""
    return (
        sums[0] + weights[at, lane] * v, sums[1] + weights[at, lane + U[1]] * v,
        sums[2] + weights[at, lane + U[2]] * v, sums[3] + weights[at, lane + U[3]] * v,
        sums[4] + weights[at, lane + U[4]] * v, sums[5] + weights[at, lane + U[5]] * v,
        sums[6] + weights[at, lane + U[6]] * v, sums[7] + weights[at, lane + U[7]] * v,
        sums[8] + weights[at, lane + U[8]] * v, sums[9] + weights[at, lane + U[9]] * v,
        sums[10] + weights[at, lane + U[10]] * v, sums[11] + weights[at, lane + U[11]] * v,
        sums[12] + weights[at, lane + U[12]] * v, sums[13] + weights[at, lane + U[13]] * v,
        sums[14] + weights[at, lane + U[14]] * v, sums[15] + weights[at, lane + U[15]] * v,
    )  # fmt: skip


@inlined
def load_block(values, lane):
    """values[lane : lane + LANES] in registers."""
    return (
        values[lane], values[lane + U[1]], values[lane + U[2]], values[lane + U[3]],
        values[lane + U[4]], values[lane + U[5]], values[lane + U[6]], values[lane + U[7]],
        values[lane + U[8]], values[lane + U[9]], values[lane + U[10]], values[lane + U[11]],
        values[lane + U[12]], values[lane + U[13]], values[lane + U[14]], values[lane + U[15]],
    )  # fmt: skip


@inlined
def store_block(sums, out, lane):
    """Put the sums into memory. Mutates: out."""
    out[lane], out[lane + U[1]], out[lane + U[2]], out[lane + U[3]] = sums[0], sums[1], sums[2], sums[3]
    out[lane + U[4]], out[lane + U[5]], out[lane + U[6]], out[lane + U[7]] = sums[4], sums[5], sums[6], sums[7]
    out[lane + U[8]], out[lane + U[9]], out[lane + U[10]], out[lane + U[11]] = sums[8], sums[9], sums[10], sums[11]
    out[lane + U[12]], out[lane + U[13]], out[lane + U[14]], out[lane + U[15]] = sums[12], sums[13], sums[14], sums[15]


@device
def score_node(blocks, node, batch, i, scale, start, scratch, out):
    """Scores of all outputs of a node for row i. Mutates: scratch, out. Cost: O(non-zeros x outputs)."""
    begin, stop = span(batch, i)
    width = blocks.weight.shape[1]
    n = 0
    if blocks.mask[node] >= 0:
        # First all look-ups, then all sums: the processor can wait for many look-ups at the same time.
        for j in range(begin, stop):
            v = value(batch, i, j)
            if v != 0.0:
                at = find(blocks, node, feature(batch, j))
                if at >= 0:
                    scratch.record[n] = at
                    scratch.value[n] = v * scale
                    n += 1
    add_known(blocks.weight, n, scratch, out)
    for c in range(width):
        out[c] += blocks.bias[node, c]
    if has_start(blocks, node):
        add_known(blocks.total, n, scratch, scratch.mean)
        for c in range(width):
            if blocks.sq_norm[node, c] > 0.0:
                out[c] += np.float32(start / math.sqrt(blocks.sq_norm[node, c])) * scratch.mean[c]


@inlined
def add_known(values, n, scratch, out):
    """Sums over the n features found of value x block. Mutates: out. Cost: O(n x outputs)."""
    for part in range(values.shape[1] // LANES):
        lane = np.uint64(part * LANES)
        sums = ZEROS
        for q in range(n):
            sums = add_block(sums, values, scratch.record[q], lane, scratch.value[q])
        store_block(sums, out, lane)


@device
def has_start(blocks, node):
    """Whether a node's running sums still count: its weights do not contain them. Cost: O(outputs)."""
    for c in range(blocks.sq_norm.shape[1]):
        if blocks.sq_norm[node, c] > 0.0:
            return True
    return False


@kernel
def unfold(blocks, starts):
    """Take the start out of the weights of all nodes again; `starts` has its weight for each node. Mutates: blocks."""
    width = blocks.sq_norm.shape[1]
    length = np.empty(width, np.float32)
    for node in range(len(starts)):
        for c in range(width):
            sq_norm = blocks.sq_norm[node, c]
            length[c] = np.float32(starts[node] / math.sqrt(-sq_norm)) if sq_norm < 0.0 else np.float32(0.0)
            blocks.sq_norm[node, c] = abs(sq_norm)
        first = blocks.first[node]
        for at in range(first, first + blocks.mask[node] + 1):
            if blocks.feature[at] >= 0:
                record = blocks.record[at]
                for c in range(width):
                    blocks.weight[record, c] -= blocks.total[record, c] * length[c]


class Room(NamedTuple):
    """One node laid open: its features numbered, weight and start in one, for as long as rows come by.

    Number 0 is for all features that the node does not know; its weights are 0.
    """

    local: np.ndarray  # (feature,) i4: its number among the node's features, or 0
    feature: np.ndarray  # (number,) i4
    total: np.ndarray  # (number, place)
    weight: np.ndarray  # (number, place)
    length: np.ndarray  # (place,)
    score: np.ndarray  # (place,)
    gradient: np.ndarray  # (place,)
    order: np.ndarray  # (row of the node,)


@kernel
def make_room(n_features, most, width, most_rows):
    """Room for nodes of at most `most` features and `most_rows` rows."""
    return Room(
        np.zeros(n_features, np.int32),
        np.empty(most + 1, np.int32),
        np.zeros((most + 1, width), np.float32),
        np.zeros((most + 1, width), np.float32),
        np.empty(width, np.float32),
        np.empty(width, np.float32),
        np.empty(width, np.float32),
        np.empty(most_rows, np.int64),
    )


@device
def open_node(blocks, node, start, room):
    """Lay a node open; return the number of its features. Mutates: room. Cost: O(features of the node x outputs)."""
    width = blocks.weight.shape[1]
    for c in range(width):
        sq_norm = blocks.sq_norm[node, c]
        room.length[c] = np.float32(start / math.sqrt(sq_norm)) if sq_norm > 0.0 else np.float32(0.0)
    first, with_start = blocks.first[node], has_start(blocks, node)
    n = np.int32(0)
    for at in range(first, first + blocks.mask[node] + 1):
        f = blocks.feature[at]
        if f >= 0:
            n += np.int32(1)
            room.local[f] = n
            room.feature[n] = f
            weights = blocks.weight[blocks.record[at]]
            for c in range(width):
                room.weight[n, c] = weights[c]
            if with_start:
                totals = blocks.total[blocks.record[at]]
                for c in range(width):
                    room.weight[n, c] += totals[c] * room.length[c]
    return n


@device
def close_node(room, n):
    """Forget the node's features. Mutates: room. Cost: O(n)."""
    for q in range(1, n + 1):
        room.local[room.feature[q]] = np.int32(0)


@device
def score_row(batch, i, scale, local, weight, bias, out):
    """Scores of an open node's outputs for row i. Mutates: out. Cost: O(non-zeros x outputs)."""
    begin, stop = span(batch, i)
    for part in range(weight.shape[1] // LANES):
        lane = np.uint64(part * LANES)
        sums = ZEROS
        for j in range(begin, stop):  # no branch in here: it would keep the sums out of vector registers
            sums = add_block(sums, weight, local[feature(batch, j)], lane, value(batch, i, j) * scale)
        store_block(sums, out, lane)
    for c in range(weight.shape[1]):
        out[c] += bias[c]


@device
def learn_node(blocks, node, batch, i, scale, gradient, rate, bias_rate, scratch):
    """One step of all outputs of a node against their gradients. Mutates: blocks. Cost: O(non-zeros x outputs)."""
    begin, stop = span(batch, i)
    width = blocks.weight.shape[1]
    n = 0
    for j in range(begin, stop):
        v = value(batch, i, j)
        if v != 0.0:
            scratch.record[n] = find_or_make(blocks, node, feature(batch, j))
            scratch.value[n] = v * scale * np.float32(rate)
            n += 1
    for q in range(n):
        weights, v = blocks.weight[scratch.record[q]], scratch.value[q]
        for c in range(width):
            weights[c] -= gradient[c] * v
    for c in range(width):
        blocks.bias[node, c] -= np.float32(bias_rate) * gradient[c]


@device
def add_to_total(blocks, node, place, batch, i, weight):
    """Take row i, times `weight`, into the running sum of one output. Mutates: blocks. Cost: O(non-zeros)."""
    begin, stop = span(batch, i)
    longer = 0.0
    for j in range(begin, stop):
        v = value(batch, i, j)
        if v != 0.0:
            at = find_or_make(blocks, node, feature(batch, j))
            old = blocks.total[at, place]
            new = old + v * weight
            blocks.total[at, place] = new
            longer += np.float64(new) * new - np.float64(old) * old
    blocks.sq_norm[node, place] += longer


@kernel
def enter_nodes(blocks, nodes, counts, features, first_record):
    """Make the tables of nodes whose blocks already lie side by side from `first_record` on. Mutates: blocks."""
    record = np.int64(first_record)
    for k in range(len(nodes)):
        reserve(blocks, np.int64(nodes[k]), np.int64(counts[k]))
        for _ in range(counts[k]):
            insert(blocks, np.int64(nodes[k]), features[record - first_record], record)
            record += 1
    blocks.n_records[0] = record
