"""Weights of the nodes: for each (node, feature) a block with one weight per output.

The outputs of a node are its children, or its labels if it is a leaf. Their weights for one feature are stored side by
side, so that one look-up serves all of them. Every node has a small hash table, feature -> block; all tables share one
array, all blocks another. The score of an output is

    bias + weight . x + start * cosine of x and `total`

where `total` is the running sum of the rows that belong to the output: a good prediction from the first row on, which
`weight` then corrects.

`PackedBlocks` is the form that `fit` and slim files have: only the weights that are not zero, with the start in them.
Online learning unpacks them and begins with running sums that are estimated from the weights.
"""

import math
from collections.abc import Iterable
from typing import Annotated, NamedTuple

import numpy as np
from numba.extending import overload, register_jitable

from ..core.inputs import feature, first_not_below, span, value
from ..core.state import Array, Field
from ..jit import DEVICE_OPTIONS, device, inlined, kernel, ordered

LANES = 16  # outputs whose sums are kept in registers at a time; the width of a block is a multiple
PAGE_BITS = 16  # of a feature are stored in packed blocks; the other bits are its page
MOST_PAGES = 16  # of a node, which take 8 bytes each; with more of them, features have 32 bits and no pages
SIZES = 48  # sizes of tables: powers of two
EVERY = 16  # features between two whose first weight is stored
STEPS = 127 * 256  # up to the largest weight of a node, in packed blocks; int8 files have 127 for some weights
SMALLEST_STEP = np.finfo(np.float32).tiny  # smaller numbers have few bits; weights of such a node are 0
SHORTEST_SUM = 1e-60  # squared length; a shorter running sum counts as none: 1 / length would not be finite
SMALLEST_TABLE = 8
_AT_A_TIME = EVERY << 14  # features whose weights are counted together
_MOST_STEPS = 256  # per entry of a table in a file, when all its features are searched; chance takes one or two
_SPARE_STEPS = 1 << 30  # of all tables together, about a second: somebody may have chosen the features

ZEROS = (np.float32(0.0),) * LANES
# Unsigned offsets: Numba checks whether a signed index counts from the end, which prevents vector instructions.
U = tuple(np.uint64(c) for c in range(LANES))

# Functions that kernels contain and that Python calls without compiling them.
plain = register_jitable(inline="always")


class Blocks(NamedTuple):
    """The table of features of each node, and a block of all outputs for each (node, feature)."""

    first: Annotated[Array, Field("i8", ("node",))]  # where the table of a node begins in `feature` and `record`
    mask: Annotated[Array, Field("i8", ("node",), -1)]  # size of the table less one
    n_used: Annotated[Array, Field("i8", ("node",))]
    feature: Annotated[Array, Field("i4", ("entry",), -1)]
    record: Annotated[Array, Field("i4", ("entry",))]
    weight: Annotated[Array, Field("f4", ("record", "place"), 0)]
    # Running sums of the rows of each output; larger ones could overflow in further sums.
    total: Annotated[Array, Field("f4", ("record", "place"), 0, limit=1e30)]
    bias: Annotated[Array, Field("f4", ("node", "place"), 0)]
    sq_norm: Annotated[Array, Field("f8", ("node", "place"))]  # squared lengths of the sums
    free: Annotated[Array, Field("i8", ("table_size",), -1)]  # first free table of each size
    n_entries: Annotated[Array, Field("i8", ("one",))]
    n_records: Annotated[Array, Field("i8", ("one",))]


class PackedBlocks(NamedTuple):
    """The features of each node, sorted, and their weights that are not zero.

    Feature f is stored as f % 2**16 in page f // 2**16 of the node. If there would be more than `MOST_PAGES` pages,
    each node has a single page and `feature` has 32 bits, as in all files up to format 4.
    """

    first: Annotated[Array, Field("i8", ("page_end",))]  # where a page of a node begins; it ends at the next
    feature: Annotated[Array, Field("u2", ("entry",), wide="i4")]  # within its page
    begin: Annotated[Array, Field("u4", ("run_of_entries",))]  # where the weights of every 16th feature begin
    lanes: Annotated[Array, Field("u2", ("entry", "part"))]  # a bit for each output that has a weight
    value: Annotated[Array, Field("i2", ("value",), rounds="run")]  # weights as multiples of the step of their node
    step: Annotated[Array, Field("f4", ("node",))]
    bias: Annotated[Array, Field("f4", ("node", "place"))]


class Scratch(NamedTuple):
    """Scratch for scoring one row at one node."""

    record: Array  # (non-zero,) blocks found
    value: Array  # (non-zero,)
    mean: Array  # (place,)
    score: Array  # (place,)
    gradient: Array  # (place,)


class OpenNode(NamedTuple):
    """One node prepared for many rows: its features numbered, weight and start added up.

    Number 0 stands for all features that the node does not know; its weights are 0.
    """

    local: Array  # (feature,) i4: number among the node's features, or 0
    feature: Array  # (number,) i4
    begin: Array  # (number,) where the packed weights begin, if they were only numbered
    weight: Array  # (number, place)
    length: Array  # (place,) start / length of the running sum


@plain
def make_scratch(longest, width):
    """Scratch for rows of at most `longest` non-zeros."""
    return Scratch(
        np.empty(longest, np.int64),
        np.empty(longest, np.float32),
        np.empty(width, np.float32),
        np.empty(width, np.float32),
        np.empty(width, np.float32),
    )


@plain
def make_open_node(n_features, most, width):
    """Scratch for nodes of at most `most` features."""
    return OpenNode(
        np.zeros(n_features, np.int32),
        np.empty(most + 1, np.int32),
        np.empty(most + 1, np.int64),
        np.zeros((most + 1, width), np.float32),
        np.empty(width, np.float32),
    )


# -- tables --------------------------------------------------------------------------------------------------------


@plain
def search_of(f, mask):
    """Where the search for a feature begins in a table, and its step, which is odd. Cost: O(1).

    Features with the same first entry nearly always have other steps, also if somebody has chosen the features.
    """
    product = np.uint64(f) * np.uint64(0x9E3779B97F4A7C15)
    high = np.int64(product >> np.uint64(32))
    return (np.int64(product) ^ high) & mask, high & mask | np.int64(1)


@device
def find(blocks, node, f):
    """The block of (node, feature), or -1. Cost: O(1)."""
    mask = blocks.mask[node]
    first = blocks.first[node]
    at, step = search_of(f, mask)
    while True:
        known = blocks.feature[first + at]
        if known == f:
            return np.int64(blocks.record[first + at])
        if known < 0:
            return np.int64(-1)
        at = (at + step) & mask


@kernel
def find_all(blocks, node, features, out):
    """The blocks of a node for some features; -1: none. Mutates: out. Cost: O(features)."""
    for q in range(len(features)):
        out[q] = find(blocks, node, features[q]) if blocks.mask[node] >= 0 else -1


@device
def insert(blocks, node, f, record):
    """Enter a feature that the node does not have yet. Mutates: blocks. Cost: O(1)."""
    mask = blocks.mask[node]
    first = blocks.first[node]
    at, step = search_of(f, mask)
    while blocks.feature[first + at] >= 0:
        at = (at + step) & mask
    fill_entry(blocks, node, first + at, f, record)


@device
def fill_entry(blocks, node, at, f, record):
    """Write a feature to an empty entry of the table of a node. Mutates: blocks. Cost: O(1)."""
    blocks.feature[at] = np.int32(f)
    blocks.record[at] = np.int32(record)
    blocks.n_used[node] += 1


@device
def find_or_make(blocks, node, f):
    """The block of (node, feature), new if there was none; call `reserve` before. Mutates: blocks. Cost: O(1)."""
    mask = blocks.mask[node]
    first = blocks.first[node]
    at, step = search_of(f, mask)
    while blocks.feature[first + at] >= 0:
        if blocks.feature[first + at] == f:
            return np.int64(blocks.record[first + at])
        at = (at + step) & mask
    record = blocks.n_records[0]
    blocks.n_records[0] += 1
    fill_entry(blocks, node, first + at, f, record)
    return record


@plain
def table_size(n):
    """Entries of a table for n features, at most two thirds full. Cost: O(log n)."""
    size = np.int64(SMALLEST_TABLE)
    while 2 * size < 3 * n:
        size *= 2
    return size


@device
def size_class(size):
    """Log2 of the size of a table."""
    log = np.int64(0)
    while (np.int64(1) << log) < size:
        log += 1
    return log


@device
def new_table(blocks, size):
    """The first entry of an empty table, or -1 if the arrays are too short. Mutates: blocks. Cost: O(size)."""
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
    """Ensure that the node can take n more features; False if the arrays are too short. Mutates: blocks.

    Scores do not change. Cost: O(1), amortised.
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


@kernel
def enter_nodes(blocks, nodes, counts, features):
    """Make the tables of nodes whose blocks are already stored, node after node. Mutates: blocks."""
    record = np.int64(0)
    for k in range(len(nodes)):
        reserve(blocks, np.int64(nodes[k]), np.int64(counts[k]))
        for _ in range(counts[k]):
            insert(blocks, np.int64(nodes[k]), features[record], record)
            record += 1
    blocks.n_records[0] = record


@kernel
def rebuild_tables(blocks, features, records):
    """Enter the features of all tables anew: `features` and `records` are copies of those arrays. Mutates: blocks.

    A table that is too full is left incomplete. Cost: O(entries).
    """
    for node in range(len(blocks.mask)):
        first, size = blocks.first[node], blocks.mask[node] + 1
        blocks.n_used[node] = 0
        for at in range(first, first + size):
            blocks.feature[at] = np.int32(-1)
        for at in range(first, first + size):
            if features[at] >= 0 and 3 * blocks.n_used[node] <= 2 * size:
                insert(blocks, np.int64(node), features[at], records[at])


@kernel
def first_broken(blocks, n_features, seen):
    """The first node whose table is not valid, -1 if there is none. Mutates: seen. Cost: O(entries).

    Valid: as many features as stated, all existing, where a search finds them soon; all records different.
    """
    spare = np.int64(_SPARE_STEPS)
    for node in range(len(blocks.mask)):
        first, mask, n = blocks.first[node], blocks.mask[node], np.int64(0)
        steps = _MOST_STEPS * (mask + 1)
        for at in range(mask + 1):
            f = blocks.feature[first + at]
            if f < 0:
                continue
            record = np.int64(blocks.record[first + at])
            if f >= n_features or record < 0 or record >= len(seen) or seen[record]:
                return node
            seen[record] = True
            n += 1
            look, step = search_of(f, mask)
            while look != at:
                if spare == 0 or blocks.feature[first + look] < 0 or blocks.feature[first + look] == f:
                    return node
                look = (look + step) & mask
                if steps > 0:
                    steps -= 1
                else:
                    spare -= 1
        if n != blocks.n_used[node]:
            return node
    return -1


# -- blocks in registers -------------------------------------------------------------------------------------------


@inlined
def load_block(values, lane):
    """values[lane : lane + LANES] in registers."""
    return (
        values[lane], values[lane + U[1]], values[lane + U[2]], values[lane + U[3]],
        values[lane + U[4]], values[lane + U[5]], values[lane + U[6]], values[lane + U[7]],
        values[lane + U[8]], values[lane + U[9]], values[lane + U[10]], values[lane + U[11]],
        values[lane + U[12]], values[lane + U[13]], values[lane + U[14]], values[lane + U[15]],
    )  # fmt: skip


@ordered
def add_block(a, b, v):
    """a + v * b, in registers."""
    return (
        a[0] + b[0] * v, a[1] + b[1] * v, a[2] + b[2] * v, a[3] + b[3] * v,
        a[4] + b[4] * v, a[5] + b[5] * v, a[6] + b[6] * v, a[7] + b[7] * v,
        a[8] + b[8] * v, a[9] + b[9] * v, a[10] + b[10] * v, a[11] + b[11] * v,
        a[12] + b[12] * v, a[13] + b[13] * v, a[14] + b[14] * v, a[15] + b[15] * v,
    )  # fmt: skip


@inlined
def store_block(sums, out, lane):
    """Write the sums to memory. Mutates: out."""
    out[lane], out[lane + U[1]], out[lane + U[2]], out[lane + U[3]] = sums[0], sums[1], sums[2], sums[3]
    out[lane + U[4]], out[lane + U[5]], out[lane + U[6]], out[lane + U[7]] = sums[4], sums[5], sums[6], sums[7]
    out[lane + U[8]], out[lane + U[9]], out[lane + U[10]], out[lane + U[11]] = sums[8], sums[9], sums[10], sums[11]
    out[lane + U[12]], out[lane + U[13]], out[lane + U[14]], out[lane + U[15]] = sums[12], sums[13], sums[14], sums[15]


# -- one row at one node -------------------------------------------------------------------------------------------


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
    add_found(blocks.weight, n, scratch, out)
    for c in range(width):
        out[c] += blocks.bias[node, c]
    if has_start(blocks, node):
        add_found(blocks.total, n, scratch, scratch.mean)
        for c in range(width):
            if blocks.sq_norm[node, c] > SHORTEST_SUM:
                out[c] += np.float32(start / math.sqrt(blocks.sq_norm[node, c])) * scratch.mean[c]


@inlined
def add_found(values, n, scratch, out):
    """Sums of value x block over the n features found. Mutates: out. Cost: O(n x outputs)."""
    for part in range(values.shape[1] // LANES):
        lane = np.uint64(part * LANES)
        sums = ZEROS
        for q in range(n):
            sums = add_block(sums, load_block(values[scratch.record[q]], lane), scratch.value[q])
        store_block(sums, out, lane)


@device
def has_start(blocks, node):
    """Whether an output of the node has a running sum. Cost: O(outputs)."""
    for c in range(blocks.sq_norm.shape[1]):
        if blocks.sq_norm[node, c] > SHORTEST_SUM:
            return True
    return False


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
    """Add row i, times `weight`, to the running sum of one output. Mutates: blocks. Cost: O(non-zeros)."""
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


# -- many rows at one node -----------------------------------------------------------------------------------------


@device
def open_node(blocks, node, start, out):
    """Prepare a node for many rows; return the number of its features. Mutates: out. Cost: O(blocks x outputs)."""
    width = blocks.weight.shape[1]
    for c in range(width):
        sq_norm = blocks.sq_norm[node, c]
        out.length[c] = np.float32(start / math.sqrt(sq_norm)) if sq_norm > SHORTEST_SUM else np.float32(0.0)
    first, with_start = blocks.first[node], has_start(blocks, node)
    n = np.int32(0)
    for at in range(first, first + blocks.mask[node] + 1):
        f = blocks.feature[at]
        if f >= 0:
            n += np.int32(1)
            out.local[f] = n
            out.feature[n] = f
            weights = blocks.weight[blocks.record[at]]
            for c in range(width):
                out.weight[n, c] = weights[c]
            if with_start:
                totals = blocks.total[blocks.record[at]]
                for c in range(width):
                    out.weight[n, c] += totals[c] * out.length[c]
    return n


@device
def close_node(opened, n):
    """Forget the features of the node. Mutates: opened. Cost: O(n)."""
    for q in range(1, n + 1):
        opened.local[opened.feature[q]] = np.int32(0)


@device
def score_row(batch, i, scale, local, weight, bias, out):
    """Scores of the outputs of an open node for row i. Mutates: out. Cost: O(non-zeros x outputs)."""
    begin, stop = span(batch, i)
    for part in range(weight.shape[1] // LANES):
        lane = np.uint64(part * LANES)
        sums = ZEROS
        for j in range(begin, stop):  # a branch in this loop would keep the sums out of vector registers
            sums = add_block(sums, load_block(weight[local[feature(batch, j)]], lane), value(batch, i, j) * scale)
        store_block(sums, out, lane)
    for c in range(weight.shape[1]):
        out[c] += bias[c]


@device
def step_row(batch, i, scale, local, weight, bias, move, bias_rate):
    """Subtract move x row from the weights of an open node. Mutates: weight, bias. Cost: O(non-zeros x outputs)."""
    begin, stop = span(batch, i)
    for part in range(weight.shape[1] // LANES):
        lane = np.uint64(part * LANES)
        moves = load_block(move, lane)
        for j in range(begin, stop):
            own = weight[local[feature(batch, j)]]
            store_block(add_block(load_block(own, lane), moves, -(value(batch, i, j) * scale)), own, lane)
    for c in range(weight.shape[1]):
        bias[c] -= np.float32(bias_rate) * move[c]


# -- packed blocks -------------------------------------------------------------------------------------------------


@device
def n_bits(bits):
    """Number of bits that are set. Cost: O(1)."""
    n = np.int64(0)
    while bits != np.uint64(0):
        bits &= bits - np.uint64(1)
        n += 1
    return n


@plain
def n_pages(blocks):
    """Number of pages of each node."""
    return (len(blocks.first) - 1) // len(blocks.bias)


@plain
def page_of(blocks, f):
    """The page of a feature, and its number within the page."""
    bits = 8 * blocks.feature.itemsize
    return f >> bits, f & ((1 << bits) - 1)


@plain
def node_span(blocks, node):
    """Where the entries of a node begin and end."""
    return np.int64(blocks.first[node * n_pages(blocks)]), np.int64(blocks.first[(node + 1) * n_pages(blocks)])


@plain
def page_span(blocks, node, page):
    """Where the entries of a page of a node begin and end."""
    at = node * n_pages(blocks) + page
    known = page < n_pages(blocks)
    return (np.int64(blocks.first[at]), np.int64(blocks.first[at + 1])) if known else (np.int64(0), np.int64(0))


@device
def first_weight(blocks, at):
    """Where the weights of entry `at` begin. Cost: O(1)."""
    stored = at // EVERY
    p = np.int64(blocks.begin[stored])
    for before in range(stored * EVERY, at):
        for part in range(blocks.lanes.shape[1]):
            p += n_bits(np.uint64(blocks.lanes[before, part]))
    return p


@device
def add_packed(blocks, at, p, v, out):
    """Add v x the steps of entry `at`, which begin at p; return where they end. Mutates: out. Cost: O(weights)."""
    for part in range(blocks.lanes.shape[1]):
        bits = np.uint64(blocks.lanes[at, part])
        while bits != np.uint64(0):
            rest = bits & (bits - np.uint64(1))  # without the lowest bit
            out[part * LANES + n_bits((bits ^ rest) - np.uint64(1))] += np.float32(blocks.value[p]) * v
            p += 1
            bits = rest
    return p


@device
def score_packed(blocks, node, batch, i, scale, out):
    """Scores of all outputs of a node for row i. Mutates: out. Cost: O(non-zeros x (log features + outputs))."""
    for c in range(len(out)):
        out[c] = blocks.bias[node, c]
    begin, stop = span(batch, i)
    at, end, step = np.int64(0), np.int64(0), scale * blocks.step[node]
    last, before = np.int64(-1), np.int64(-1)
    for j in range(begin, stop):
        v, f = value(batch, i, j), np.int64(feature(batch, j))
        if v != 0.0:
            page, f = page_of(blocks, f)
            if page != last or f <= before:
                at, end = page_span(blocks, node, page)
            # The features of a row are sorted like those of the node: continue from the last one.
            at = first_not_below(blocks.feature, at, end, f)
            last, before = page, f
            if at < end and blocks.feature[at] == f:
                add_packed(blocks, at, first_weight(blocks, at), v * step, out)


@device
def number_packed(blocks, node, out):
    """Number the features of a node for some rows; return how many there are. Mutates: out. Cost: O(features)."""
    first, end = node_span(blocks, node)
    p = first_weight(blocks, first) if first < end else np.int64(0)
    n = np.int32(list_features(blocks, node, out.feature[1:]))
    for number in range(1, n + 1):
        out.local[out.feature[number]] = np.int32(number)
        out.begin[number] = p
        for part in range(blocks.lanes.shape[1]):
            p += n_bits(np.uint64(blocks.lanes[first + number - 1, part]))
    return n


@device
def list_features(blocks, node, out):
    """The features of a node, sorted; return how many there are. Mutates: out. Cost: O(features)."""
    n = np.int64(0)
    for page in range(n_pages(blocks)):
        begin, end = page_span(blocks, node, page)
        for at in range(begin, end):
            out[n] = np.int32((page << PAGE_BITS) + np.int64(blocks.feature[at]))
            n += 1
    return n


@kernel
def list_all_features(blocks, nodes, out):
    """The features of some nodes, node after node. Mutates: out. Cost: O(features)."""
    n = np.int64(0)
    for node in nodes:
        n += list_features(blocks, np.int64(node), out[n:])


@kernel
def count_pages(counts, features, out):
    """Number of features of each node in each page. Mutates: out. Cost: O(features)."""
    at = np.int64(0)
    for k in range(len(counts)):
        for _ in range(counts[k]):
            out[k, np.int64(features[at]) >> PAGE_BITS] += 1
            at += 1


@kernel
def first_unsorted(first, features, pages, n_features):
    """The first entry whose feature is not above the one before in its page, or does not exist; -1 if there is none.

    `first` must be valid. Cost: O(entries).
    """
    for k in range(len(first) - 1):
        before, most = np.int64(-1), np.int64(n_features) - ((np.int64(k) % pages) << PAGE_BITS)
        for at in range(first[k], first[k + 1]):
            f = np.int64(features[at])
            if f <= before or f >= most:
                return np.int64(at)
            before = f
    return np.int64(-1)


@device
def open_packed(blocks, node, out):
    """Prepare a node for many rows; return the number of its features. Mutates: out. Cost: O(blocks x outputs)."""
    n, before = number_packed(blocks, node, out), node_span(blocks, node)[0] - 1
    for number in range(1, n + 1):
        weights = out.weight[number]
        for c in range(len(weights)):
            weights[c] = 0.0
        add_packed(blocks, before + number, out.begin[number], blocks.step[node], weights)
    return n


@device
def score_numbered_packed(blocks, node, batch, i, scale, opened, out):
    """The same scores as `score_packed`, if the features are numbered. Mutates: out. Cost: O(non-zeros x outputs)."""
    for c in range(len(out)):
        out[c] = blocks.bias[node, c]
    begin, stop = span(batch, i)
    before, step = node_span(blocks, node)[0] - 1, scale * blocks.step[node]
    for j in range(begin, stop):
        v, number = value(batch, i, j), np.int64(opened.local[feature(batch, j)])
        if v != 0.0 and number > 0:
            add_packed(blocks, before + number, opened.begin[number], v * step, out)


@kernel
def find_weights(blocks, node, features, out):
    """The weights of a node for some features, in any order; 0 for unknown ones. Mutates: out.

    Cost: O(features x (log features of the node + outputs)).
    """
    for q in range(len(features)):
        page, f = page_of(blocks, np.int64(features[q]))
        first, end = page_span(blocks, node, page)
        at = first_not_below(blocks.feature, first, end, f)
        if at < end and blocks.feature[at] == f:
            add_packed(blocks, at, first_weight(blocks, at), blocks.step[node], out[q])


@kernel
def square_sums(blocks, node, out):
    """Sums of the squared weights of each output of a node. Mutates: out. Cost: O(weights of the node)."""
    first, end = node_span(blocks, node)
    p = first_weight(blocks, first) if first < end else np.int64(0)
    for at in range(first, end):
        for part in range(blocks.lanes.shape[1]):
            bits = np.int64(blocks.lanes[at, part])
            c = part * LANES
            while bits != 0:
                if bits & 1:
                    out[c] += (np.float64(blocks.value[p]) * blocks.step[node]) ** 2
                    p += 1
                bits >>= 1
                c += 1


def lengths_of(blocks: Blocks, node: int, start: float) -> np.ndarray:
    """start / length of the running sum of each output of a node."""
    sq_norm = blocks.sq_norm[node]
    long = sq_norm > SHORTEST_SUM
    return np.where(long, start / np.sqrt(np.where(long, sq_norm, 1)), 0).astype(np.float32)


def pages_for(n_features: int) -> tuple[int, type]:
    """Number of pages of a node, and the type of a feature within its page."""
    pages = max(1, -(-n_features >> PAGE_BITS))
    return (pages, np.uint16) if pages <= MOST_PAGES else (1, np.int32)


def n_features_of(features: Iterable[Array]) -> int:
    """Number of features up to the largest one of these."""
    return 1 + max((int(some.max(initial=0)) for some in features), default=0)


def in_pages(counts: Array, feature: Array, pages: int, kind: type) -> tuple[Array, Array]:
    """Number of features of each node in each page, and the features within their pages.

    `counts` are the numbers of features of the nodes, `feature` their features.
    """
    page_counts = np.reshape(counts, (-1, 1))
    if pages > 1:
        page_counts = np.zeros((len(counts), pages), np.int64)
        count_pages(counts, feature, page_counts)
    return page_counts, feature.astype(kind, copy=False)  # without the bits of the page


def packed(counts: Array, bias: Array, step: Array, feature: Array, lanes: Array, value: Array) -> PackedBlocks:
    """Packed blocks from the result of `in_pages` for all nodes.

    The weights of each feature follow those of the feature before.
    """
    first = np.append(0, np.cumsum(counts))
    if len(value) >= 1 << 32:
        raise ValueError(f"The model has {len(value)} weights, more than its files can hold: use a larger prune.")
    return PackedBlocks(first, feature, begins_of(lanes), lanes, value, step, bias)


def begins_of(lanes: Array) -> np.ndarray:
    """Where the weights of every 16th feature begin."""
    found = [np.zeros(0, np.int64)]
    for first in range(0, len(lanes), _AT_A_TIME):
        bits = np.bitwise_count(lanes[first : first + _AT_A_TIME]).sum(axis=1, dtype=np.int64)
        found.append(np.add.reduceat(bits, np.arange(0, len(bits), EVERY)))
    counts = np.concatenate(found)
    return (np.cumsum(counts) - counts).astype(np.uint32)


def in_steps(weights: np.ndarray) -> tuple[np.ndarray, np.float32]:
    """The weights of a node as multiples of a step, and the step."""
    step = np.float32(np.abs(weights).max(initial=0.0) / STEPS)
    if step < SMALLEST_STEP:
        return np.zeros(len(weights), np.int16), np.float32(0.0)
    return np.rint(weights.astype(float) / step).astype(np.int16), step


def counts_of(blocks: PackedBlocks) -> np.ndarray:
    """Number of features of each node."""
    return np.diff(blocks.first[:: n_pages(blocks)])


def features_of(blocks: PackedBlocks, nodes: Array) -> np.ndarray:
    """The features of some nodes, node after node."""
    out = np.empty(sum(int(n_known(blocks, node)) for node in nodes), np.int32)
    list_all_features(blocks, nodes, out)
    return out


def weights_of(blocks: PackedBlocks, node: int) -> np.ndarray:
    """The weights of a node as a matrix (entry, place)."""
    start, end = node_span(blocks, node)
    bits = (blocks.lanes[start:end][:, :, None] >> np.arange(LANES, dtype=np.uint16)) & 1 != 0
    bits = bits.reshape(len(bits), blocks.bias.shape[1])
    out, stored = np.zeros(bits.shape, np.float32), start // EVERY
    if len(bits):
        first = int(blocks.begin[stored]) + int(np.bitwise_count(blocks.lanes[stored * EVERY : start]).sum())
        out[bits] = blocks.value[first : first + np.count_nonzero(bits)] * blocks.step[node]
    return out


# -- blocks of either form: all that predictions know of them ------------------------------------------------------


def score_outputs(blocks, node, batch, i, scale, start, scratch, out):
    """Scores of all outputs of a node for row i. Mutates: scratch, out."""
    if isinstance(blocks, PackedBlocks):
        return score_packed(blocks, node, batch, i, scale, out)
    return score_node(blocks, node, batch, i, scale, start, scratch, out)


def open_outputs(blocks, node, start, out):
    """Prepare a node for many rows; return the number of its features. Mutates: out."""
    return open_packed(blocks, node, out) if isinstance(blocks, PackedBlocks) else open_node(blocks, node, start, out)


def number_features(blocks, node, out):
    """Number the features of a node for some rows; return how many, or -1: tables need no numbers. Mutates: out."""
    return number_packed(blocks, node, out) if isinstance(blocks, PackedBlocks) else -1


def score_numbered(blocks, node, batch, i, scale, opened, out):
    """Scores of all outputs of a node whose features are numbered, for row i. Mutates: out."""
    if isinstance(blocks, PackedBlocks):
        score_numbered_packed(blocks, node, batch, i, scale, opened, out)


def n_known(blocks, node):
    """Number of features of a node."""
    if isinstance(blocks, PackedBlocks):
        begin, end = node_span(blocks, node)
        return end - begin
    return blocks.n_used[node]


@overload(score_outputs, jit_options=DEVICE_OPTIONS)
def _score_outputs(blocks, node, batch, i, scale, start, scratch, out):
    if blocks.instance_class is PackedBlocks:
        return lambda blocks, node, batch, i, scale, start, scratch, out: score_packed(
            blocks, node, batch, i, scale, out
        )
    return lambda blocks, node, batch, i, scale, start, scratch, out: score_node(
        blocks, node, batch, i, scale, start, scratch, out
    )


@overload(open_outputs, jit_options=DEVICE_OPTIONS)
def _open_outputs(blocks, node, start, out):
    if blocks.instance_class is PackedBlocks:
        return lambda blocks, node, start, out: open_packed(blocks, node, out)
    return lambda blocks, node, start, out: open_node(blocks, node, start, out)


@overload(number_features, jit_options=DEVICE_OPTIONS)
def _number_features(blocks, node, out):
    if blocks.instance_class is PackedBlocks:
        return lambda blocks, node, out: number_packed(blocks, node, out)
    return lambda blocks, node, out: np.int32(-1)


@overload(score_numbered, jit_options=DEVICE_OPTIONS)
def _score_numbered(blocks, node, batch, i, scale, opened, out):
    if blocks.instance_class is PackedBlocks:
        return lambda blocks, node, batch, i, scale, opened, out: score_numbered_packed(
            blocks, node, batch, i, scale, opened, out
        )
    return lambda blocks, node, batch, i, scale, opened, out: None


@overload(n_known, jit_options=DEVICE_OPTIONS)
def _n_known(blocks, node):
    if blocks.instance_class is PackedBlocks:
        return lambda blocks, node: node_span(blocks, node)[1] - node_span(blocks, node)[0]
    return lambda blocks, node: blocks.n_used[node]
