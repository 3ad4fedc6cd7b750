"""Label tree: how it grows online. New labels, and leaves that split when full without a second look at old rows.

A label enters the leaf that its first row is routed to. A full node is split in two, by the running sums of its
outputs; its parent gets one more child and may have to be split first. All leaves stay at the same depth, as in a
B-tree. No rule looks at more than one node and its parent.
"""

import math

import numpy as np

from ..core.losses import SOFTMAX
from ..jit import device
from .weights import find_or_make, free_table, insert, new_table, reserve, score_node, table_size

_SWEEPS = 8  # of two-means


@device
def similarities(blocks, node, size, gram):
    """Inner products of the outputs' running sums, divided by their lengths. Mutates: gram.

    Cost: O(blocks of the node x outputs squared).
    """
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
def halve(gram, size, side, lean):
    """Split outputs into two halves of like ones: balanced two-means. Mutates: side, lean. Cost: O(size squared)."""
    # Begin with the two that are least alike.
    far_a, far_b = 0, 1
    for a in range(size):
        for b in range(a):
            if gram[a, b] < gram[far_a, far_b]:
                far_a, far_b = a, b
    for c in range(size):
        lean[c] = gram[c, far_b] - gram[c, far_a]
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
            lean[c] = total_1 / n_1 - total_0 / n_0


@device
def room_to_split(tree, blocks, node):
    """Whether a split of `node` and of all full nodes above it fits into the arrays."""
    n_nodes, n_records, n_entries = np.int64(2), np.int64(0), np.int64(0)
    while node >= 0:
        size = blocks.mask[node] + 1
        n_nodes += 2
        n_records += 4 * blocks.n_used[node]
        n_entries += 8 * max(size, np.int64(8))
        node = tree.parent[node]
    return (
        tree.n_nodes[0] + n_nodes <= len(tree.parent)
        and blocks.n_records[0] + n_records <= len(blocks.weight)
        and blocks.n_entries[0] + n_entries <= len(blocks.feature)
    )


@device
def adopt(tree, node, place, output):
    """Let `output`, a child or a label, be the node's output number `place`. Mutates: tree."""
    tree.outputs[node, place] = output
    if tree.is_leaf[node] != 0:
        tree.leaf_of[output] = np.int32(node)
        tree.place_of[output] = np.int32(place)
    else:
        tree.parent[output] = np.int32(node)
        tree.place[output] = np.int32(place)


@device
def first_bias(tree, node, options):
    """Bias of an output that has learned nothing: with logistic loss, a cosine of one third is undecided."""
    if options.loss == SOFTMAX:
        return np.float32(0.0)
    return np.float32(-(options.start if tree.is_leaf[node] != 0 else options.router_start) / 3.0)


@device
def lower_root(tree, blocks, options):
    """Put a new root above the old one, whose outputs move to a new node. Mutates: tree, blocks."""
    node = tree.n_nodes[0]
    tree.n_nodes[0] += 1
    width = blocks.weight.shape[1]
    tree.is_leaf[node], tree.size[node] = tree.is_leaf[0], tree.size[0]
    for c in range(tree.size[0]):
        adopt(tree, node, c, tree.outputs[0, c])
    blocks.first[node], blocks.mask[node], blocks.n_used[node] = blocks.first[0], blocks.mask[0], blocks.n_used[0]
    blocks.mask[0], blocks.n_used[0] = -1, 0
    for c in range(width):
        blocks.bias[node, c], blocks.bias[0, c] = blocks.bias[0, c], 0.0
        blocks.sq_norm[node, c], blocks.sq_norm[0, c] = blocks.sq_norm[0, c], 0.0
    tree.is_leaf[0], tree.size[0] = np.int8(0), np.int32(1)
    for c in range(1, tree.outputs.shape[1]):
        tree.outputs[0, c] = -1
    for c in range(width):
        blocks.bias[0, c] = first_bias(tree, 0, options)
    adopt(tree, 0, 0, np.int32(node))
    return node


@device
def split(tree, blocks, node, options, halves):
    """Split a full node, and before it those above it that are full too. Mutates: tree, blocks."""
    full = tree.outputs.shape[1]
    while True:
        top = node
        while top > 0 and tree.size[tree.parent[top]] == full:
            top = np.int64(tree.parent[top])
        if top == 0:
            top = lower_root(tree, blocks, options)
            node = top if node == 0 else node
        split_one(tree, blocks, top, options, halves)
        if top == node:
            return


@device
def split_one(tree, blocks, node, options, halves):
    """Split a node whose parent has room. Mutates: tree, blocks. Cost: O(blocks of the node and its parent).

    In the parent both halves begin with the weights of the old node and with their own running sums.
    """
    gram, side, lean = halves
    parent = np.int64(tree.parent[node])
    size, width = tree.size[node], blocks.weight.shape[1]
    similarities(blocks, node, size, gram)
    for c in range(size):
        side[c] = 0
    halve(gram, size, side, lean)

    new = tree.n_nodes[0]
    tree.n_nodes[0] += 1
    tree.is_leaf[new] = tree.is_leaf[node]
    n_kept, n_moved = np.int32(0), np.int32(0)
    # `lean` is free again: it takes each output's place in its half.
    for c in range(size):
        output = tree.outputs[node, c]
        if side[c] == 0:
            lean[c] = n_kept
            bias, sq_norm = blocks.bias[node, c], blocks.sq_norm[node, c]
            adopt(tree, node, n_kept, output)
            blocks.bias[node, n_kept], blocks.sq_norm[node, n_kept] = bias, sq_norm
            n_kept += 1
        else:
            lean[c] = n_moved
            adopt(tree, new, n_moved, output)
            blocks.bias[new, n_moved], blocks.sq_norm[new, n_moved] = blocks.bias[node, c], blocks.sq_norm[node, c]
            n_moved += 1
    tree.size[node], tree.size[new] = n_kept, n_moved
    bias = first_bias(tree, node, options)
    for c in range(width):
        if c >= n_moved:
            blocks.bias[new, c] = bias
        if c >= n_kept:
            blocks.bias[node, c], blocks.sq_norm[node, c] = bias, 0.0
            if c < tree.outputs.shape[1]:
                tree.outputs[node, c] = -1
    place, new_place = tree.place[node], tree.size[parent]
    tree.size[parent] += np.int32(1)
    adopt(tree, parent, new_place, np.int32(new))

    old_first, old_size, used = blocks.first[node], blocks.mask[node] + 1, blocks.n_used[node]
    _empty_table(blocks, node, table_size(used))
    _empty_table(blocks, new, table_size(used))
    reserve(blocks, parent, used)
    blocks.bias[parent, new_place] = blocks.bias[parent, place]
    # The parent's weights for the old node are good for the new one too.
    first = blocks.first[parent]
    for at in range(first, first + blocks.mask[parent] + 1):
        if blocks.feature[at] >= 0:
            record = blocks.record[at]
            blocks.weight[record, new_place] = blocks.weight[record, place]
            blocks.total[record, place] = 0.0
    blocks.sq_norm[parent, place] = blocks.sq_norm[parent, new_place] = 0.0
    for at in range(old_first, old_first + old_size):
        if blocks.feature[at] >= 0:
            _share_block(blocks, node, new, parent, place, new_place, at, size, side, lean)
    if old_size > 0:
        free_table(blocks, old_first, old_size)


@device
def _empty_table(blocks, node, size):
    blocks.first[node] = new_table(blocks, size)
    blocks.mask[node], blocks.n_used[node] = size - 1, 0


@device
def _share_block(blocks, node, new, parent, place, new_place, at, size, side, position):
    """Divide one block of a split node between the halves, and add its sums up in the parent. Mutates: blocks."""
    record, f = np.int64(blocks.record[at]), blocks.feature[at]
    width = blocks.weight.shape[1]
    n_kept, n_moved = 0, 0
    sum_kept, sum_moved = np.float32(0.0), np.float32(0.0)
    for c in range(size):
        if blocks.weight[record, c] != 0.0 or blocks.total[record, c] != 0.0:
            if side[c] == 0:
                n_kept += 1
                sum_kept += blocks.total[record, c]
            else:
                n_moved += 1
                sum_moved += blocks.total[record, c]
    if n_moved > 0:
        target = blocks.n_records[0]
        blocks.n_records[0] += 1
        insert(blocks, new, f, target)
        for c in range(size):
            if side[c] == 1:
                to = np.int64(position[c])
                blocks.weight[target, to], blocks.total[target, to] = blocks.weight[record, c], blocks.total[record, c]
    kept = np.int64(0)
    for c in range(size):
        if side[c] == 0:
            weight, total = blocks.weight[record, c], blocks.total[record, c]
            blocks.weight[record, kept], blocks.total[record, kept] = weight, total
            kept += 1
    for c in range(kept, width):
        blocks.weight[record, c] = blocks.total[record, c] = 0.0
    insert(blocks, node, f, record)
    if sum_kept != 0.0 or sum_moved != 0.0:
        above = find_or_make(blocks, parent, f)
        blocks.total[above, place] = sum_kept
        blocks.total[above, new_place] = sum_moved
        blocks.sq_norm[parent, place] += np.float64(sum_kept) * sum_kept
        blocks.sq_norm[parent, new_place] += np.float64(sum_moved) * sum_moved


@device
def best_leaf(tree, blocks, batch, i, scale, options, scratch):
    """The leaf of the best single path. Cost: O(depth) nodes."""
    node = np.int64(0)
    while tree.is_leaf[node] == 0:
        score_node(blocks, node, batch, i, scale, options.router_start, scratch, scratch.score)
        best = 0
        for c in range(1, tree.size[node]):
            if scratch.score[c] > scratch.score[best]:
                best = c
        node = np.int64(tree.outputs[node, best])
    return node


@device
def enter_labels(tree, blocks, batch, i, scale, labels, begin, end, options, scratch, halves):
    """Place those labels of a row that are new; False where the arrays are too short. Mutates: tree, blocks."""
    for q in range(begin, end):
        label = labels[q]
        while tree.leaf_of[label] < 0:
            node = best_leaf(tree, blocks, batch, i, scale, options, scratch)
            place = tree.size[node]
            if place < tree.outputs.shape[1]:
                tree.size[node] += np.int32(1)
                adopt(tree, node, place, np.int32(label))
            elif room_to_split(tree, blocks, node):
                split(tree, blocks, node, options, halves)
            else:
                return False
    return True
