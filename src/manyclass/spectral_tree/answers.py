"""Predictions of a spectral tree [ST Alg. 1]: the best labels, all candidates, the paths."""

import numpy as np

from ..core.labels import answer
from ..core.projection import project
from ..jit import inlined, kernel
from .kernels import score_candidates
from .paths import gather, make_scratch


@inlined
def visit(
    tree, routers, forest, counts, candidates, scorer, own, projection, batch, i, stamp, options, hidden, scratch
):  # fmt: skip
    """Candidates of row i with their scores: (leaves, routers scored, candidates) [ST Alg. 1]. Mutates: scratch.

    Without the low-rank form `projection` is None; `hidden` is room for the few numbers that stand for a row.
    """
    n_leaves, n_routers, n = gather(tree, routers, forest, counts, candidates, batch, i, stamp, options, scratch)
    if projection is None:
        score_candidates(scorer, own, n, batch, i, options, scratch)
    else:
        project(projection, np.int64(0), batch, i, 1.0, hidden.values)
        score_candidates(scorer, own, n, hidden, np.int64(0), options, scratch)
    return n_leaves, n_routers, n


@inlined
def predict_rows(
    tree, routers, forest, counts, candidates, scorer, own, projection, batch, n_classes, options, hidden, labels,
    scores, work, scratch,
):  # fmt: skip
    """The loop of predict_batch. Mutates: labels, scores, work, scratch."""
    for r in range(labels.shape[0]):
        n_leaves, n_routers, n = visit(
            tree, routers, forest, counts, candidates, scorer, own, projection, batch, r, r, options, hidden, scratch
        )  # fmt: skip
        answer(
            tree, candidates, scratch.leaf[0], n_classes, scratch.label, scratch.score, n, r, labels[r], scores[r],
            scratch.known,
        )  # fmt: skip
        work[r, 0], work[r, 1] = tree.depth[scratch.leaf[0]], n_routers + n_leaves
        work[r, 2], work[r, 3] = n_routers, n


@kernel
def predict_batch(
    tree, routers, forest, counts, candidates, scorer, own, projection, batch, n_classes, options, hidden, labels,
    scores, work,
):  # fmt: skip
    """The best labels of all rows with their scores, and what they cost: depth, nodes, routers, candidates.

    Mutates: labels, scores, work. Cost: O((beam x depth + candidates) x non-zeros) a row.
    """
    scratch = make_scratch(forest, candidates, options, np.int64(labels.shape[1]))
    predict_rows(
        tree, routers, forest, counts, candidates, scorer, own, projection, batch, n_classes, options, hidden, labels,
        scores, work, scratch,
    )  # fmt: skip


@inlined
def candidates_rows(
    tree, routers, forest, counts, candidates, scorer, own, projection, batch, options, hidden, labels, scores, sizes,
    scratch,
):  # fmt: skip
    """The loop of candidates_batch. Mutates: labels, scores, sizes, scratch."""
    for r in range(labels.shape[0]):
        _, _, n = visit(
            tree, routers, forest, counts, candidates, scorer, own, projection, batch, r, r, options, hidden, scratch
        )  # fmt: skip
        sizes[r] = n
        for c in range(n):
            labels[r, c], scores[r, c] = scratch.label[c], scratch.score[c]


@kernel
def candidates_batch(
    tree, routers, forest, counts, candidates, scorer, own, projection, batch, options, hidden, labels, scores, sizes
):  # fmt: skip
    """All candidates of all rows with their scores. Mutates: labels, scores, sizes."""
    scratch = make_scratch(forest, candidates, options, np.int64(0))
    candidates_rows(
        tree, routers, forest, counts, candidates, scorer, own, projection, batch, options, hidden, labels, scores,
        sizes, scratch,
    )  # fmt: skip


@inlined
def filter_rows(tree, routers, forest, counts, candidates, batch, options, leaves, labels, sizes, scratch):
    """The loop of filter_batch. Mutates: leaves, labels, sizes, scratch."""
    for r in range(leaves.shape[0]):
        n_leaves, _, n = gather(tree, routers, forest, counts, candidates, batch, r, r, options, scratch)
        for p in range(n_leaves):
            leaves[r, p] = scratch.leaf[p]
        sizes[r] = n
        for c in range(n):
            labels[r, c] = scratch.label[c]


@kernel
def filter_batch(tree, routers, forest, counts, candidates, batch, options, leaves, labels, sizes):
    """The filter alone [ST Alg. 1 l.1]: leaves that each row reaches, best path of a tree first, and its candidates.

    Mutates: leaves, labels, sizes.
    """
    scratch = make_scratch(forest, candidates, options, np.int64(0))
    filter_rows(tree, routers, forest, counts, candidates, batch, options, leaves, labels, sizes, scratch)
