"""Label tree: wide nodes, several paths, one-against-some scorers in the leaves. Rules, and learning row by row.

follow the best `beam` paths, score the labels of their leaves    label_paths
answer many rows                                                  label_answers
learn one row (online)                                            learn_row
place new labels, split full nodes                                label_tree_growth
learn all rows, node by node (batch)                              label_tree_fit
"""

import math

import numpy as np

from ..core.inputs import span, squared_length
from ..core.losses import SOFTMAX, sigmoid
from ..jit import device, kernel
from .growth import enter_labels
from .paths import final_score, follow_paths, make_paths, make_scratch, row_scale, score_leaves
from .weights import add_to_total, learn_node, make_room, reserve, score_node

DEEPEST = 40  # levels; a tree of half-full nodes of 4 has 20 at a million labels
HEAVIEST_STEP = 4.0  # times the rate: a longer step throws the model, however much a row weighs
SORTED = 0.001  # a run of one label less likely than this in shuffled rows means that they are sorted


@device
def add_missing(nodes, n, node):
    """Append a node to a list unless it is there; return the new length. Mutates: nodes. Cost: O(n)."""
    for q in range(n):
        if nodes[q] == node:
            return n
    nodes[n] = node
    return n + 1


@device
def touched_nodes(tree, paths, labels, begin, end, scratch):
    """Where a row learns: first the leaves reached and its labels' leaves, then the routers above its labels.

    Returns (number of leaves, number of all). Mutates: scratch.
    """
    nodes = scratch.node
    n = 0
    for b in range(paths.size[0]):
        nodes[n] = paths.node[0, b]
        n += 1
    for q in range(begin, end):
        n = add_missing(nodes, n, tree.leaf_of[labels[q]])
    n_leaves = n
    if tree.is_leaf[0] == 0:
        nodes[n] = 0  # the root also learns from a row without labels
        n += 1
    for q in range(begin, end):
        node = tree.parent[tree.leaf_of[labels[q]]]
        while node > 0:
            n = add_missing(nodes, n, node)
            node = tree.parent[node]
    return n_leaves, n


@device
def node_gradient(tree, node, labels, begin, end, scores, loss, top, total, gradient):
    """Gradients of a node's outputs, and their largest size. Mutates: gradient.

    softmax: exp(score - top) / total less 1 for the true output; logistic: the same of each output alone.
    """
    width = len(gradient)
    for c in range(width):
        gradient[c] = np.float32(0.0)
    for c in range(tree.size[node]):
        if loss == SOFTMAX:
            gradient[c] = np.float32(math.exp(scores[c] - top) / total)
        else:
            gradient[c] = np.float32(sigmoid(np.float64(scores[c])))
    true = np.uint64(0)  # bits: a child above several of the row's labels is true once
    for q in range(begin, end):
        place = place_below(tree, node, labels[q])
        if place >= 0:
            true |= np.uint64(1) << np.uint64(place)
    for c in range(tree.size[node]):
        if (true >> np.uint64(c)) & np.uint64(1):
            gradient[c] -= np.float32(1.0)
    largest = np.float32(0.0)
    for c in range(width):
        largest = max(largest, abs(gradient[c]))
    return largest


@device
def place_below(tree, node, label):
    """Which output of `node` leads to the label, or -1. Cost: O(depth)."""
    below = tree.leaf_of[label]
    if below == node:
        return np.int64(tree.place_of[label])
    while below >= 0:
        if tree.parent[below] == node:
            return np.int64(tree.place[below])
        below = tree.parent[below]
    return np.int64(-1)


# Below this a gradient is not worth a step: it would fill memory with blocks that hold nearly nothing.
SMALLEST_GRADIENT = 0.01


@device
def learn_row(tree, blocks, batch, i, scale, labels, begin, end, weight, step, n_leaves, n, options, paths, scratch):
    """One online step at the nodes listed in scratch.node, then the running sums. Mutates: blocks, scratch.

    `step` is the weight of the row in the step, `weight` that in the sums. Cost: O(beam + labels x depth) nodes.
    """
    if step > 0.0:
        correct_row(tree, blocks, batch, i, scale, labels, begin, end, step, n_leaves, n, options, paths, scratch)
    for q in range(begin, end):
        node, place = tree.leaf_of[labels[q]], tree.place_of[labels[q]]
        while node >= 0:
            add_to_total(blocks, node, place, batch, i, scale * np.float32(weight))
            place = tree.place[node]
            node = tree.parent[node]


@device
def correct_row(tree, blocks, batch, i, scale, labels, begin, end, step, n_leaves, n, options, paths, scratch):
    """One step of the weights at the nodes listed in scratch.node. Mutates: blocks, scratch, paths."""
    rate = options.rate * step
    softmax = options.loss == SOFTMAX
    width = blocks.weight.shape[1]
    reached = paths.size[0]
    # Leaves: softmax runs over the labels of all of them.
    top, total = -math.inf, 0.0
    for q in range(reached, n_leaves):
        node = scratch.node[q]
        score_node(blocks, node, batch, i, scale, options.start, scratch, scratch.score)
        for c in range(tree.size[node]):
            paths.child[0, q * width + c] = scratch.score[c]
    if softmax:
        for q in range(n_leaves):
            for c in range(tree.size[scratch.node[q]]):
                top = max(top, paths.child[0, q * width + c])
        for q in range(n_leaves):
            for c in range(tree.size[scratch.node[q]]):
                total += math.exp(paths.child[0, q * width + c] - top)
    for q in range(n_leaves):
        node = scratch.node[q]
        scores = paths.child[0, q * width : (q + 1) * width]
        largest = node_gradient(tree, node, labels, begin, end, scores, options.loss, top, total, scratch.gradient)
        if largest > SMALLEST_GRADIENT:
            learn_node(blocks, node, batch, i, scale, scratch.gradient, rate, rate * options.bias_rate, scratch)
    # Routers, on the true paths.
    for q in range(n_leaves, n):
        node = scratch.node[q]
        score_node(blocks, node, batch, i, scale, options.router_start, scratch, scratch.score)
        top, total = -math.inf, 0.0
        if softmax:
            for c in range(tree.size[node]):
                top = max(top, scratch.score[c])
            for c in range(tree.size[node]):
                total += math.exp(scratch.score[c] - top)
        gradient = scratch.gradient
        largest = node_gradient(tree, node, labels, begin, end, scratch.score, options.loss, top, total, gradient)
        if largest > SMALLEST_GRADIENT:
            learn_node(blocks, node, batch, i, scale, gradient, rate, rate * options.bias_rate, scratch)


@device
def reserve_all(blocks, n, length, scratch):
    """Make room for what a row may add at the nodes listed in scratch.node; False if there is none. Mutates: blocks."""
    if blocks.n_records[0] + n * length > len(blocks.weight):
        return False
    for q in range(n):
        if not reserve(blocks, np.int64(scratch.node[q]), length):
            return False
    return True


@device
def mixed(tree, run, labels, begin, end):
    """Whether to take a step: not on a label's first row, nor in a run of one label too long for shuffled rows.

    In rows sorted by label every step would undo what earlier labels have learned: there only the running sums learn.
    Mutates: run. Cost: O(1).
    """
    label = np.int64(labels[begin]) if end - begin == 1 else np.int64(-1)
    run.length[0] = run.length[0] + 1 if label >= 0 and label == run.label[0] else np.int64(1)
    run.label[0] = label
    if label >= 0 and tree.mass[label] == 0.0:
        return False  # its running sum is this very row: there is nothing to correct yet
    if run.length[0] == 1:
        return True
    share = tree.mass[label] / run.mass[0] if run.mass[0] > 0.0 else 1.0
    return share ** (run.length[0] - 1) >= SORTED


@device
def learn_rows(
    tree, blocks, scale, seen, run, batch, pointer, labels, weights, begin, options, paths, scratch, halves, room
):
    """Answer and then learn rows begin.. in turn; return the row for which there is no room, or their number.

    Mutates: tree, blocks, scale, seen, run and all that is scratch.
    """
    scales, work = paths.scale, paths.work
    width = blocks.weight.shape[1]
    for i in range(begin, len(weights)):
        weight = weights[i]
        if weight == 0.0:
            continue
        first, last = pointer[i], pointer[i + 1]
        for q in range(first, last):
            if labels[q] >= len(tree.leaf_of):
                return i
        factor = row_scale(scale, batch, i, options)
        if not enter_labels(tree, blocks, batch, i, factor, labels, first, last, options, scratch, halves):
            return i
        scales[i] = factor
        follow_paths(tree, blocks, batch, i, 1, scales, options, scratch, paths, work, room)
        n_leaves, n = touched_nodes(tree, paths, labels, first, last, scratch)
        row_begin, row_end = span(batch, i)
        if not reserve_all(blocks, n, np.int64(row_end - row_begin), scratch):
            return i
        score_leaves(tree, blocks, batch, i, 1, scales, options, scratch, paths, work, room)
        # How would it have been answered?
        best, answer = -math.inf, -1
        for b in range(paths.size[0]):
            node = paths.node[0, b]
            for c in range(tree.size[node]):
                score = final_score(paths.child[0, b * width + c], paths.chance[0, b], options)
                if score > best:
                    best, answer = score, tree.outputs[node, c]
        right = False
        for q in range(first, last):
            right = right or (labels[q] == answer and tree.mass[labels[q]] > 0.0)
            seen.n_labels[0] = max(seen.n_labels[0], labels[q] + 1)
        seen.n_rows[0] += 1
        seen.mass[0] += weight
        if not right:
            seen.wrong_mass[0] += weight
        step = min(weight, HEAVIEST_STEP) if mixed(tree, run, labels, first, last) else 0.0
        for q in range(first, last):
            tree.mass[labels[q]] += weight
            run.mass[0] += weight
        learn_row(
            tree, blocks, batch, i, factor, labels, first, last, weight, step, n_leaves, n, options, paths, scratch
        )
        scale.n_rows[0] += 1.0
        scale.sq_norm[0] += squared_length(batch, i)
    return len(weights)


@kernel
def learn_batch(tree, blocks, scale, seen, run, batch, pointer, labels, weights, begin, options, longest, most_labels):
    """Learn rows begin.. of the batch; return the row for which there is no room, or their number.

    Mutates: tree, blocks, scale, seen, run.
    """
    width = blocks.weight.shape[1]
    most_nodes = options.beam + most_labels * (DEEPEST + 1) + 1
    scratch = make_scratch(longest, width, most_nodes)
    paths = make_paths(np.int64(1), options.beam, width, options.beam + most_labels, np.int64(0), len(weights))
    room = make_room(np.int64(0), np.int64(0), width, np.int64(0))  # one row at a time opens no node
    outputs = tree.outputs.shape[1]
    halves = np.empty((outputs, outputs)), np.empty(outputs, np.int64), np.empty(outputs)
    return learn_rows(
        tree, blocks, scale, seen, run, batch, pointer, labels, weights, begin, options, paths, scratch, halves, room
    )
