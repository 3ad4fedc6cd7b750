"""One-against-some [RT §2, Alg. 4]: predictors, one for each class, choose among the candidates that a tree found.

Alg. 1 l.11 -> score_candidates; Alg. 4 update_regressors -> update_scorers; path features §3.2 -> path_features. The
group `path` is None without them, so that their code is not even compiled; so is `means` without a start (see
`means.py`).
"""

import numpy as np

from ..core import linear
from ..core.losses import gradients
from ..core.updates import NEGLIGIBLE, observe_scale, pace
from ..jit import inlined, kernel
from .kernels import depth_limit, has_room, recall_row, widest
from .means_kernels import add_row, add_start
from .path_features import OFF, STOP, learn_path, path_score


@inlined
def score_candidates(tree, scorer, path, means, table, batch, i, begin, end, options, lists, score):
    """Score the candidates begin..end-1 of the lists. Mutates: score. Cost: O(candidates x non-zeros)."""
    labels, n = lists.label[begin:end], end - begin
    linear.score_rows(scorer, labels, np.int64(0), n, batch, i, score)
    if path is not None:
        for c in range(n):
            label, home = np.int64(labels[c]), np.int64(lists.home[begin + c])
            score[c] += path_score(tree, path, table, label, home, batch, i, options)
    if means is not None:
        add_start(means, options.start, labels, np.int64(0), n, batch, i, score)


@inlined
def update_scorers(
    tree, scorer, path, table, batch, i, begin, n, truth, weight, step, scale, options, lists, score, gradient
):  # fmt: skip
    """One-against-some step of n candidates [RT Alg. 4].

    Mutates: scorer, path, table, gradient. Cost: O(candidates x non-zeros).
    """
    gradients(score, n, truth, options.loss, gradient)
    for c in range(n):
        if abs(gradient[c]) < NEGLIGIBLE:
            continue
        label, slope = np.int64(lists.label[begin + c]), gradient[c] * weight
        linear.learn(scorer, label, batch, i, slope, step, scale)
        if path is not None:
            home = np.int64(lists.home[begin + c])
            learn_path(tree, path, table, label, home, batch, i, slope, step, scale, options)


@inlined
def choose_row(
    tree, scorer, path, means, table, scale, sq_norm, seen, batch, i, label, weight, options, lists, r, score, gradient
):  # fmt: skip
    """The predictors' half of learning row i, whose candidates are row r of the lists.

    Mutates: scorer, path, means, table, seen, score, gradient. Cost: O(candidates x non-zeros).
    """
    begin, end = lists.first[r], lists.first[r + 1]
    n, n_answered = end - begin, lists.answered[r]
    score_candidates(tree, scorer, path, means, table, batch, i, begin, end, options, lists, score)
    best, truth = np.int64(0), np.int64(-1)
    for c in range(n):
        if c < n_answered and score[c] > score[best]:
            best = np.int64(c)
        if lists.label[begin + c] == label:
            truth = np.int64(c)
    seen.mass[0] += weight
    seen.wrong_mass[0] += 0.0 if 0 <= truth < n_answered and best == truth else weight
    if truth >= 0:  # [RT Alg. 4 l.1]
        step = pace(options.update, options.rate, scale, sq_norm)
        update_scorers(
            tree, scorer, path, table, batch, i, begin, n, truth, weight, step, scale, options, lists, score, gradient
        )  # fmt: skip
    if means is not None:  # last: neither the answer nor the step may know the row from its class's sum
        add_row(means, label, batch, i, weight)


@kernel
def choose_batch(scorer, means, scale, seen, batch, labels, weights, begin, end, options, lists, score, gradient):
    """The predictors' half of learning rows begin..end-1, without path features. Mutates: all groups."""
    for i in range(begin, end):
        if weights[i] > 0.0:
            sq_norm = observe_scale(scale, batch, i)
            choose_row(
                None, scorer, None, means, None, scale, sq_norm, seen, batch, i, np.int64(labels[i]), weights[i],
                options, lists, i - begin, score, gradient,
            )  # fmt: skip


@inlined
def path_rows_wanted(n_labels, candidates, deepest, options):
    """The most rows of path features that one example can bring to a tree whose deepest node is given."""
    if options.path_features == OFF:
        return 0
    limit = depth_limit(n_labels, candidates.label.shape[1], options)
    n_nodes = 1 if options.path_features == STOP else max(limit, deepest)
    return widest(candidates, options) * n_nodes


@kernel
def learn_batch(
    tree, router, scorer, path, means, counts, candidates, table, scale, seen,
    batch, labels, weights, begin, deepest, options, scratch, fan, lists, score, gradient,
):  # fmt: skip
    """Both halves row by row; return where it ended for want of room. Mutates: all groups.

    For path features, where predictors look at the tree's counts, and for a few wide rows.
    """
    for i in range(begin, labels.shape[0]):
        label, weight = np.int64(labels[i]), weights[i]
        if weight <= 0.0:
            continue
        fits = label < scorer.bias.shape[0]
        if path is not None:
            wanted = path_rows_wanted(seen.n_labels[0] + 1, candidates, deepest, options)
            fits = fits and path.n_rows[0] + wanted <= path.bias.shape[0]
        if not fits or not has_room(tree, candidates, table, seen, options):
            return i
        lists.first[0] = 0
        sq_norm = observe_scale(scale, batch, i)
        recall_row(
            tree, router, counts, candidates, table, scale, sq_norm, seen, batch, i, label, weight, options, scratch,
            fan, lists, np.int64(0),
        )  # fmt: skip
        choose_row(
            tree, scorer, path, means, table, scale, sq_norm, seen, batch, i, label, weight, options, lists,
            np.int64(0), score, gradient,
        )  # fmt: skip
    return labels.shape[0]
