"""Label tree: answers for many rows, block by block; in a block, all rows at a node are scored together."""

import math

import numpy as np

from .blocks import make_room
from .jit import inner_leaf, leaf, njit
from .label_paths import final_score, follow_paths, make_paths, make_scratch, row_scale, score_leaves
from .slim_blocks import n_known
from .topk import offer

# Rows routed together: enough to share a node's weights, few enough for their paths to stay in the cache.
BLOCK_ROWS = 2048
MOST_SCORES = 1 << 22  # of a block of rows
FEW = 64  # rows for which no node is laid open: it would take time for every feature


@njit
def _room_for(blocks, n_rows, n_features):
    """Room for the largest node; none for a few rows, for which no node is opened."""
    most = np.int64(0)
    if n_rows >= FEW:
        for node in range(len(blocks.bias)):
            most = max(most, n_known(blocks, node))
    return make_room(np.int64(n_features) if most > 0 else np.int64(0), most, blocks.bias.shape[1], np.int64(0))


@inner_leaf
def _answer_rows(tree, blocks, scale, batch, n_rows, options, paths, scratch, labels, scores, work, room, leaves_only):
    width = blocks.bias.shape[1]
    k = labels.shape[1]
    most = paths.node.shape[0]
    for i in range(n_rows):
        paths.scale[i] = row_scale(scale, batch, i, options)
    for first in range(0, n_rows, most):
        n = min(most, n_rows - first)
        follow_paths(tree, blocks, batch, first, n, paths.scale, options, scratch, paths, work, room)
        if leaves_only:
            for r in range(n):
                for rank in range(k):
                    reached = rank < paths.size[r]
                    labels[first + r, rank] = paths.node[r, rank] if reached else -1
                    scores[first + r, rank] = paths.chance[r, rank] if reached else -math.inf
            continue
        score_leaves(tree, blocks, batch, first, n, paths.scale, options, scratch, paths, work, room)
        for r in range(n):
            i = first + r
            size = np.int64(0)
            for b in range(paths.size[r]):
                node = paths.node[r, b]
                for c in range(tree.size[node]):
                    score = final_score(paths.child[r, b * width + c], paths.chance[r, b], options)
                    size = offer(labels[i], scores[i], size, tree.outputs[node, c], score)
            for rank in range(size, k):
                labels[i, rank], scores[i, rank] = -1, -math.inf


@njit
def answer_batch(tree, blocks, scale, batch, n_rows, options, longest, n_features, labels, scores, work, leaves_only):
    """The best labels of all rows, -1 where fewer were reached; with `leaves_only`, the leaves that their paths reach.

    One kernel for both: most of it is the same, and it takes long to compile. Mutates: labels, scores, work.
    Cost: O(beam x depth) nodes a row.
    """
    width = blocks.bias.shape[1]
    block = min(np.int64(BLOCK_ROWS), np.int64(n_rows), max(np.int64(1), MOST_SCORES // (options.beam * width)))
    scratch = make_scratch(longest, width, np.int64(1))
    n_nodes = tree.n_nodes[0] if block > 1 else np.int64(0)
    paths = make_paths(block, options.beam, width, options.beam, n_nodes, np.int64(n_rows))
    room = _room_for(blocks, block, n_features)
    _answer_rows(tree, blocks, scale, batch, n_rows, options, paths, scratch, labels, scores, work, room, leaves_only)


@njit
def row_scales(scale, batch, n_rows, options):
    """What each row is multiplied with."""
    out = np.empty(n_rows, np.float32)
    for i in range(n_rows):
        out[i] = row_scale(scale, batch, i, options)
    return out


@leaf
def _merge_row(labels, chances, best, scores, table, total):
    """The labels of highest mean chance over several trees. Mutates: best, scores, table, total."""
    n_trees, most = labels.shape
    mask = len(table) - 1
    for t in range(n_trees):
        for c in range(most):
            label = labels[t, c]
            if label >= 0:
                at = (label * 40503) & mask
                while table[at] >= 0 and table[at] != label:
                    at = (at + 1) & mask
                if table[at] < 0:
                    table[at], total[at] = label, 0.0
                total[at] += chances[t, c] / n_trees
    size = np.int64(0)
    for at in range(len(table)):
        if table[at] >= 0:
            size = offer(best, scores, size, table[at], total[at])
            table[at] = -1
    for rank in range(len(best)):
        if rank < size:
            scores[rank] = math.log(max(scores[rank], 1e-300))
        else:
            best[rank], scores[rank] = -1, -math.inf


@njit
def merge_batch(labels, chances, best, scores):
    """Join the answers (row, tree, label) of several trees; scores are logarithms of mean chances.

    Mutates: best, scores. Cost: O(trees x labels) a row.
    """
    size = np.int64(16)
    while size < 2 * labels.shape[1] * labels.shape[2]:
        size *= 2
    table, total = np.full(size, -1, np.int32), np.empty(size)
    for r in range(labels.shape[0]):
        _merge_row(labels[r], chances[r], best[r], scores[r], table, total)
