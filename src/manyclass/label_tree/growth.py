"""Label tree: how a full node is split, without a second look at old rows.

A full node is split in two by the running sums of its outputs. Its parent gets one more child and may have to be split
first; a full root gets a new root above it. All leaves stay at the same depth, as in a B-tree.

`biases` are those of outputs that have learned nothing: at a router, at a leaf.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from ..core.state import Array
from ..jit import device
from .weights import find_or_make, free_table, insert, new_table, reserve, table_size

MAX_LEVELS = 40  # levels; a tree of half-full nodes of 4 outputs has 20 levels at a million labels
_SWEEPS = 8  # of two-means


class Halves(NamedTuple):
    """Scratch for splitting a node."""

    gram: Array  # (output, output) f8
    side: Array  # (output,) i8: 0 or 1
    lean: Array  # (output,) f8: towards side 1
    place: Array  # (output,) i8: place in its half


@device
def adopt(tree, node, place, output):
    """Make `output`, a child or a label, output number `place` of a node. Mutates: tree."""
    tree.outputs[node, place] = output
    if tree.is_leaf[node] != 0:
        tree.leaf_of[output] = np.int32(node)
        tree.place_of[output] = np.int32(place)
    else:
        tree.parent[output] = np.int32(node)
        tree.place[output] = np.int32(place)


@device
def can_split(tree, blocks, node):
    """Whether the arrays are long enough to split a leaf and all full nodes above it, and the tree may grow."""
    n_nodes, n_records, n_entries = np.int64(2), np.int64(0), np.int64(0)
    while node >= 0:
        n_nodes += 2
        n_records += 4 * blocks.n_used[node]
        n_entries += 8 * max(blocks.mask[node] + 1, np.int64(8))
        node = np.int64(tree.parent[node])
    return (
        n_nodes <= 2 * MAX_LEVELS + 2  # another level below the root
        and tree.n_nodes[0] + n_nodes <= len(tree.parent)
        and blocks.n_records[0] + n_records <= len(blocks.weight)
        and blocks.n_entries[0] + n_entries <= len(blocks.feature)
    )


@device
def split(tree, blocks, node, biases, halves):
    """Split a full node, after the nodes above it that are full too. Mutates: tree, blocks."""
    full = tree.outputs.shape[1]
    while True:
        top = node
        while top > 0 and tree.size[tree.parent[top]] == full:
            top = np.int64(tree.parent[top])
        if top == 0:
            top = lower_root(tree, blocks, biases)
            node = top if node == 0 else node
        split_one(tree, blocks, top, biases, halves)
        if top == node:
            return


@device
def lower_root(tree, blocks, biases):
    """Put a new root above the old one, whose outputs move to a new node. Mutates: tree, blocks."""
    node = tree.n_nodes[0]
    tree.n_nodes[0] += 1
    tree.is_leaf[node], tree.size[node] = tree.is_leaf[0], tree.size[0]
    for c in range(tree.size[0]):
        adopt(tree, node, c, tree.outputs[0, c])
    blocks.first[node], blocks.mask[node], blocks.n_used[node] = blocks.first[0], blocks.mask[0], blocks.n_used[0]
    blocks.mask[0], blocks.n_used[0] = -1, 0
    for c in range(blocks.bias.shape[1]):
        blocks.bias[node, c], blocks.bias[0, c] = blocks.bias[0, c], biases[0]
        blocks.sq_norm[node, c], blocks.sq_norm[0, c] = blocks.sq_norm[0, c], 0.0
    tree.is_leaf[0], tree.size[0] = np.int8(0), np.int32(1)
    for c in range(1, tree.outputs.shape[1]):
        tree.outputs[0, c] = -1
    adopt(tree, np.int64(0), np.int32(0), np.int32(node))
    return node


class Split(NamedTuple):
    """A node that is split: its outputs of side 1 move to `new`, the next child of `parent`."""

    node: Any
    new: Any
    parent: Any
    place: Any  # of the node and of the new one in the parent
    new_place: Any
    size: Any  # outputs before


@device
def split_one(tree, blocks, node, biases, halves):
    """Split a node whose parent is not full. Mutates: tree, blocks. Cost: O(blocks of the node and its parent).

    In the parent both halves begin with the weights of the old node, each with its own running sums.
    """
    parent, new = np.int64(tree.parent[node]), tree.n_nodes[0]
    cut = Split(node, new, parent, np.int64(tree.place[node]), np.int64(tree.size[parent]), tree.size[node])
    similarities(blocks, node, cut.size, halves.gram)
    halve(halves, cut.size)
    tree.n_nodes[0] += 1
    tree.is_leaf[new] = tree.is_leaf[node]
    n_kept, n_moved = np.int32(0), np.int32(0)
    for c in range(cut.size):
        output, bias, sq_norm = tree.outputs[node, c], blocks.bias[node, c], blocks.sq_norm[node, c]
        to, place = (node, n_kept) if halves.side[c] == 0 else (new, n_moved)
        halves.place[c] = place
        adopt(tree, to, place, output)
        blocks.bias[to, place], blocks.sq_norm[to, place] = bias, sq_norm
        if halves.side[c] == 0:
            n_kept += np.int32(1)
        else:
            n_moved += np.int32(1)
    tree.size[node], tree.size[new] = n_kept, n_moved
    bias = biases[tree.is_leaf[node]]
    for c in range(blocks.bias.shape[1]):
        if c >= n_moved:
            blocks.bias[new, c] = bias
        if c >= n_kept:
            blocks.bias[node, c], blocks.sq_norm[node, c] = bias, 0.0
            if c < tree.outputs.shape[1]:
                tree.outputs[node, c] = -1
    tree.size[parent] += np.int32(1)
    adopt(tree, parent, np.int32(cut.new_place), np.int32(new))
    share_blocks(blocks, cut, halves)


@device
def share_blocks(blocks, cut, halves):
    """Divide the blocks of a split node between both halves, and add up their sums in the parent. Mutates: blocks."""
    old_first, old_size, used = blocks.first[cut.node], blocks.mask[cut.node] + 1, blocks.n_used[cut.node]
    empty_table(blocks, cut.node, table_size(used))
    empty_table(blocks, cut.new, table_size(used))
    reserve(blocks, cut.parent, used)
    # The weights of the parent for the old node are good for the new one too.
    blocks.bias[cut.parent, cut.new_place] = blocks.bias[cut.parent, cut.place]
    first = blocks.first[cut.parent]
    for at in range(first, first + blocks.mask[cut.parent] + 1):
        if blocks.feature[at] >= 0:
            record = blocks.record[at]
            blocks.weight[record, cut.new_place] = blocks.weight[record, cut.place]
            blocks.total[record, cut.place] = 0.0
    blocks.sq_norm[cut.parent, cut.place] = blocks.sq_norm[cut.parent, cut.new_place] = 0.0
    for at in range(old_first, old_first + old_size):
        if blocks.feature[at] >= 0:
            share_block(blocks, np.int64(blocks.record[at]), blocks.feature[at], cut, halves)
    if old_size > 0:
        free_table(blocks, old_first, old_size)


@device
def empty_table(blocks, node, size):
    """Give a node a new table. Mutates: blocks."""
    blocks.first[node] = new_table(blocks, size)
    blocks.mask[node], blocks.n_used[node] = size - 1, 0


@device
def share_block(blocks, record, f, cut, halves):
    """Divide the block of one feature. Mutates: blocks. Cost: O(outputs)."""
    any_moved = False
    sum_kept, sum_moved = np.float32(0.0), np.float32(0.0)
    for c in range(cut.size):
        if halves.side[c] == 0:
            sum_kept += blocks.total[record, c]
        else:
            sum_moved += blocks.total[record, c]
            any_moved = any_moved or blocks.weight[record, c] != 0.0 or blocks.total[record, c] != 0.0
    if any_moved:
        target = blocks.n_records[0]
        blocks.n_records[0] += 1
        insert(blocks, cut.new, f, target)
        for c in range(cut.size):
            if halves.side[c] == 1:
                to = halves.place[c]
                blocks.weight[target, to], blocks.total[target, to] = blocks.weight[record, c], blocks.total[record, c]
    kept = np.int64(0)
    for c in range(cut.size):
        if halves.side[c] == 0:
            weight, total = blocks.weight[record, c], blocks.total[record, c]
            blocks.weight[record, kept], blocks.total[record, kept] = weight, total
            kept += 1
    for c in range(kept, blocks.weight.shape[1]):
        blocks.weight[record, c] = blocks.total[record, c] = 0.0
    insert(blocks, cut.node, f, record)
    if sum_kept != 0.0 or sum_moved != 0.0:
        above = find_or_make(blocks, cut.parent, f)
        blocks.total[above, cut.place] = sum_kept
        blocks.total[above, cut.new_place] = sum_moved
        blocks.sq_norm[cut.parent, cut.place] += np.float64(sum_kept) * sum_kept
        blocks.sq_norm[cut.parent, cut.new_place] += np.float64(sum_moved) * sum_moved


@device
def similarities(blocks, node, size, gram):
    """Cosines between the running sums of the outputs. Mutates: gram. Cost: O(blocks of the node x outputs squared)."""
    for a in range(size):
        for b in range(size):
            gram[a, b] = 0.0
    first = blocks.first[node]
    for at in range(first, first + blocks.mask[node] + 1):
        if blocks.feature[at] >= 0:
            total = blocks.total[blocks.record[at]]
            for a in range(size):
                if total[a] != 0.0:
                    for b in range(size):
                        gram[a, b] += np.float64(total[a]) * total[b]
    for a in range(size):
        blocks.sq_norm[node, a] = gram[a, a]  # exact again
    for a in range(size):
        for b in range(size):
            if a != b:
                lengths = math.sqrt(gram[a, a] * gram[b, b])
                gram[a, b] = gram[a, b] / lengths if lengths > 0.0 else 0.0
    for a in range(size):
        gram[a, a] = 1.0


@device
def halve(halves, size):
    """Divide outputs into two halves of similar ones: balanced two-means. Mutates: halves. Cost: O(size squared).

    Both halves have outputs, whatever the similarities are, even NaN: after a split, neither node is full.
    """
    gram, side, lean = halves.gram, halves.side, halves.lean
    # Begin with the two that are least similar.
    far_a, far_b = 0, 1
    for a in range(size):
        for b in range(a):
            if gram[a, b] < gram[far_a, far_b]:
                far_a, far_b = a, b
    for c in range(size):
        side[c], lean[c] = 0, ordered(gram[c, far_b] - gram[c, far_a])
    for _ in range(_SWEEPS):
        changed = False
        for c in range(size):
            ahead = 0
            for d in range(size):
                if lean[d] < lean[c] or (lean[d] == lean[c] and d < c):
                    ahead += 1
            new = 0 if ahead < size // 2 else 1
            if side[c] != new:
                side[c] = new
                changed = True
        if not changed:
            return
        for c in range(size):
            total_0, total_1, n_0, n_1 = 0.0, 0.0, 0, 0
            for d in range(size):
                if side[d] == 0:
                    total_0 += gram[c, d]
                    n_0 += 1
                else:
                    total_1 += gram[c, d]
                    n_1 += 1
            lean[c] = ordered(total_1 / n_1 - total_0 / n_0)


@device
def ordered(number):
    """The number, or 0 for NaN, which has no place in any order."""
    return number if number == number else 0.0
