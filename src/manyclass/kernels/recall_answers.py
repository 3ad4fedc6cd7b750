"""Answers of a Recall Tree [RT Alg. 1]: the best labels, all candidates, the paths."""

import numpy as np

from .jit import inlined_leaf, njit
from .labels import remember
from .recall_tree import follow_paths, make_scratch, visit
from .sets import add_label
from .topk import offer
from .trees import LEFT, RIGHT


@inlined_leaf
def fill_up(tree, candidates, node, n_classes, stamp, size, labels, scores, known):
    """Fill an answer of `size` labels with the ancestors' most frequent ones, then the rest in class order.

    Mutates: labels, scores, known. Cost: O(answers x depth), plus O(answers) when all ancestors are used up.
    """
    remember(labels, size, stamp, known)
    while node >= 0 and size < labels.shape[0]:
        for s in range(candidates.size[node]):
            label = np.int64(candidates.label[node, s])
            if size < labels.shape[0] and add_label(known, label, stamp):
                labels[size], scores[size] = label, -np.inf
                size += 1
        node = np.int64(tree.parent[node])
    label = np.int64(0)
    while size < labels.shape[0] and label < n_classes:
        if add_label(known, label, stamp):
            labels[size], scores[size] = label, -np.inf
            size += 1
        label += 1


@inlined_leaf
def answer(tree, candidates, node, n_classes, n, stamp, labels, scores, scratch):
    """The best of n candidates, from `node` upwards where they are too few. Mutates: labels, scores, scratch."""
    size = np.int64(0)
    for c in range(n):
        size = offer(labels, scores, size, scratch.label[c], scratch.score[c])
    if size < labels.shape[0]:
        fill_up(tree, candidates, node, n_classes, stamp, size, labels, scores, scratch.known)


@inlined_leaf
def count_leaves(tree, n_paths, scratch):
    """How many paths ended at a leaf, whose router was not scored."""
    n = 0
    for p in range(n_paths):
        node = scratch.node[p]
        if tree.children[node, LEFT] < 0 and tree.children[node, RIGHT] < 0:
            n += 1
    return n


@inlined_leaf
def predict_rows(
    tree, router, scorer, path, means, counts, candidates, table,
    batch, n_classes, options, labels, scores, work, scratch,
):  # fmt: skip
    """The loop of predict_batch. Mutates: labels, scores, work, scratch.

    Cost: O((beam x depth + candidates) x non-zeros) a row.
    """
    for r in range(labels.shape[0]):
        n_paths, n_routers, n = visit(
            tree, router, scorer, path, means, counts, candidates, table, batch, r, r, options, scratch
        )  # fmt: skip
        answer(tree, candidates, scratch.node[0], n_classes, n, r, labels[r], scores[r], scratch)
        work[r, 0], work[r, 1] = tree.depth[scratch.node[0]], n_routers + count_leaves(tree, n_paths, scratch)
        work[r, 2], work[r, 3] = n_routers, n


@njit
def predict_batch(
    tree, router, scorer, path, means, counts, candidates, table,
    batch, n_classes, options, labels, scores, work,
):  # fmt: skip
    """The best labels of all rows with their scores [RT Alg. 1], and what they cost.

    `work` gets depth, nodes visited, routers scored, candidates scored. Mutates: labels, scores, work.
    """
    scratch = make_scratch(candidates, options, labels.shape[1])
    predict_rows(
        tree, router, scorer, path, means, counts, candidates, table,
        batch, n_classes, options, labels, scores, work, scratch,
    )  # fmt: skip


@njit
def candidates_batch(
    tree, router, scorer, path, means, counts, candidates, table, batch, options, labels, scores, sizes
):  # fmt: skip
    """All candidates of all rows with their scores. Mutates: labels, scores, sizes."""
    scratch = make_scratch(candidates, options, np.int64(0))
    for r in range(labels.shape[0]):
        _, _, n = visit(
            tree, router, scorer, path, means, counts, candidates, table, batch, r, r, options, scratch
        )  # fmt: skip
        sizes[r] = n
        for c in range(n):
            labels[r, c], scores[r, c] = scratch.label[c], scratch.score[c]


@njit
def paths_batch(tree, router, counts, candidates, batch, options, nodes):
    """The nodes on the paths of all rows, root to stop, path after path; -1 is nobody. Mutates: nodes."""
    scratch = make_scratch(candidates, options, np.int64(0))
    for r in range(nodes.shape[0]):
        n_paths, _ = follow_paths(tree, router, counts, batch, r, options, scratch)
        at = np.int64(0)
        for p in range(n_paths):
            node = scratch.node[p]
            while node >= 0:
                nodes[r, at] = node
                at += 1
                node = np.int64(tree.parent[node])
