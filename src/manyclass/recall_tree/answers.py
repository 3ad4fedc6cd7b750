"""Predictions of a Recall Tree [RT Alg. 1]: the best labels, all candidates, the paths; row by row.

Many dense rows at once are answered faster node by node, by `recall_blocks`.
"""

import numpy as np

from ..core.labels import answer
from ..core.trees import has_children
from ..jit import inlined, kernel
from .kernels import gather_candidates
from .one_against_some import score_candidates
from .paths import NOBODY, follow_paths


@inlined
def count_leaves(tree, n_paths, scratch):
    """How many paths ended at a leaf, whose router was not scored."""
    n = 0
    for p in range(n_paths):
        n += 0 if has_children(tree, scratch.node[p]) else 1
    return n


@inlined
def visit(tree, router, scorer, path, means, counts, candidates, table, batch, i, options, scratch, fan, lists, score):
    """Everything that is met on the way to an answer [RT Alg. 1]: (paths, routers scored, candidates).

    Mutates: scratch, lists, score. Cost: O((beam x depth + candidates) x non-zeros).
    """
    n_paths, n_routers = follow_paths(tree, router, counts, candidates, table, batch, i, NOBODY, options, scratch, fan)
    n = gather_candidates(candidates, n_paths, np.int64(0), scratch, lists)
    score_candidates(tree, scorer, path, means, table, batch, i, np.int64(0), n, options, lists, score)
    return n_paths, n_routers, n


@kernel
def predict_batch(
    tree, router, scorer, path, means, counts, candidates, table,
    batch, n_classes, options, scratch, fan, lists, score, labels, scores, work,
):  # fmt: skip
    """The best labels of all rows with their scores [RT Alg. 1], and what they cost.

    `work` gets depth, nodes visited, routers scored, candidates scored. Mutates: labels, scores, work.
    """
    for r in range(labels.shape[0]):
        n_paths, n_routers, n = visit(
            tree, router, scorer, path, means, counts, candidates, table, batch, r, options, scratch, fan, lists, score
        )  # fmt: skip
        node, stamp = scratch.node[0], scratch.stamp[0]
        answer(
            tree, candidates, node, n_classes, lists.label, score, n, stamp, labels[r], scores[r], scratch.known
        )  # fmt: skip
        asked = n_routers if options.arity == 2 else n_routers // options.arity
        work[r, 0], work[r, 1] = tree.depth[node], asked + count_leaves(tree, n_paths, scratch)
        work[r, 2], work[r, 3] = n_routers, n


@kernel
def predict_held(held, batch):
    """As predict_batch, for rows that come one by one: all but the batch is held. Mutates: what is held."""
    (
        tree, router, scorer, path, means, counts, candidates, table,
        n_classes, options, scratch, fan, lists, score, labels, scores, work,
    ) = held.args  # fmt: skip
    predict_batch(
        tree, router, scorer, path, means, counts, candidates, table,
        batch, n_classes, options, scratch, fan, lists, score, labels, scores, work,
    )  # fmt: skip


@kernel
def candidates_batch(
    tree, router, scorer, path, means, counts, candidates, table,
    batch, options, scratch, fan, lists, score, labels, scores, sizes,
):  # fmt: skip
    """All candidates of all rows with their scores. Mutates: labels, scores, sizes."""
    for r in range(labels.shape[0]):
        _, _, n = visit(
            tree, router, scorer, path, means, counts, candidates, table, batch, r, options, scratch, fan, lists, score
        )  # fmt: skip
        sizes[r] = n
        for c in range(n):
            labels[r, c], scores[r, c] = lists.label[c], score[c]


@kernel
def paths_batch(tree, router, counts, candidates, table, batch, options, scratch, fan, nodes):
    """The nodes on the paths of all rows, root to stop, path after path; -1 is nobody. Mutates: nodes."""
    for r in range(nodes.shape[0]):
        n_paths, _ = follow_paths(tree, router, counts, candidates, table, batch, r, NOBODY, options, scratch, fan)
        at = np.int64(0)
        for p in range(n_paths):
            node = scratch.node[p]
            while node >= 0:
                nodes[r, at] = node
                at += 1
                node = np.int64(tree.parent[node])
