"""Label tree: answers for many rows, block by block; in a block, all rows at a node are scored together."""

import math

import numpy as np

from ..core.inputs import span
from ..core.losses import log_sum
from ..core.topk import offer
from ..jit import device, kernel
from .paths import final_score, follow_paths, make_paths, make_scratch, row_scale, score_leaves
from .slim_weights import n_known
from .weights import make_room

# Rows routed together: enough to share a node's weights, few enough for their paths to stay in the cache.
BLOCK_ROWS = 2048
MOST_SCORES = 1 << 22  # of a block of rows
FEW = 64  # rows for which no node is laid open: it would take time for every feature

BEST, ALL, LEAVES = 0, 1, 2  # what to answer with: the best labels, all labels reached in no order, or the best leaves


@kernel
def _room_for(blocks, n_rows, n_features):
    """Room for the largest node; none for a few rows, for which no node is opened."""
    most = np.int64(0)
    if n_rows >= FEW:
        for node in range(len(blocks.bias)):
            most = max(most, n_known(blocks, node))
    return make_room(np.int64(n_features) if most > 0 else np.int64(0), most, blocks.bias.shape[1], np.int64(0))


@device
def _answer_rows(tree, blocks, scale, batch, options, paths, scratch, labels, scores, work, room, what):
    width = blocks.bias.shape[1]
    n_rows, k = labels.shape
    most = paths.node.shape[0]
    for i in range(n_rows):
        paths.scale[i] = row_scale(scale, batch, i, options)
    for first in range(0, n_rows, most):
        n = min(most, n_rows - first)
        follow_paths(tree, blocks, batch, first, n, paths.scale, options, scratch, paths, work, room)
        if what == LEAVES:
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
                    label = tree.outputs[node, c]
                    score = final_score(paths.child[r, b * width + c], paths.chance[r, b], options)
                    if what == BEST:
                        size = offer(labels[i], scores[i], size, label, score)
                    elif size < k:
                        labels[i, size], scores[i, size] = label, score
                        size += 1
            for rank in range(size, k):
                labels[i, rank], scores[i, rank] = -1, -math.inf


@kernel
def answer_batch(tree, blocks, scale, batch, options, labels, scores, work, what):
    """The best labels of all rows, all labels reached, or the leaves reached; -1 where fewer.

    One kernel for all: most of it is the same, and it takes long to compile. Mutates: labels, scores; adds to work.
    Cost: O(beam x depth) nodes a row.
    """
    width, n_rows = blocks.bias.shape[1], np.int64(len(labels))
    block = min(np.int64(BLOCK_ROWS), n_rows, max(np.int64(1), MOST_SCORES // (options.beam * width)))
    longest = np.int64(0)
    for i in range(n_rows):
        begin, stop = span(batch, i)
        longest = max(longest, np.int64(stop - begin))
    scratch = make_scratch(longest, width, np.int64(1))
    n_nodes = tree.n_nodes[0] if block > 1 else np.int64(0)
    paths = make_paths(block, options.beam, width, options.beam, n_nodes, n_rows)
    room = _room_for(blocks, block, len(scale.inverse))
    _answer_rows(tree, blocks, scale, batch, options, paths, scratch, labels, scores, work, room, what)


@kernel
def row_scales(scale, batch, n_rows, options):
    """What each row is multiplied with."""
    out = np.empty(n_rows, np.float32)
    for i in range(n_rows):
        out[i] = row_scale(scale, batch, i, options)
    return out


@device
def _merge_row(labels, scores, r, joint, best, best_scores, table, total):
    """The labels of row r of highest mean chance over several trees. Mutates: best, best_scores, table, total."""
    n_trees, _, most = labels.shape
    mask = len(table) - 1
    for t in range(n_trees):
        norm = 0.0  # log of the sum of exp(score): what makes chances of the scores
        if joint and labels[t, r, 0] >= 0:
            norm = log_sum(scores[t, r], most)
        for c in range(most):
            label = labels[t, r, c]
            if label < 0:
                break
            at = (label * 40503) & mask
            while table[at] >= 0 and table[at] != label:
                at = (at + 1) & mask
            if table[at] < 0:
                table[at], total[at] = label, 0.0
            total[at] += math.exp(scores[t, r, c] - norm) / n_trees
    size = np.int64(0)
    for at in range(len(table)):
        if table[at] >= 0:
            size = offer(best, best_scores, size, table[at], total[at])
            table[at] = -1
    for rank in range(len(best)):
        if rank < size:
            best_scores[rank] = math.log(max(best_scores[rank], 1e-300))
        else:
            best[rank], best_scores[rank] = -1, -math.inf


@kernel
def merge_batch(labels, scores, joint, best, best_scores):
    """Join all labels (tree, row, label) that several trees reached; scores become logarithms of mean chances.

    A chance is exp(score), with `joint` divided by their sum over a tree's labels. A label that a tree did not reach
    has the chance 0 there. Mutates: best, best_scores. Cost: O(trees x labels) a row.
    """
    size = np.int64(16)
    while size < 2 * labels.shape[0] * labels.shape[2]:
        size *= 2
    table, total = np.full(size, -1, np.int32), np.empty(size)
    for r in range(len(best)):
        _merge_row(labels, scores, r, joint, best[r], best_scores[r], table, total)
