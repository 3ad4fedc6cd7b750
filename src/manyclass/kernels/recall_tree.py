"""Recall Tree: Logarithmic Time One-Against-Some (2017), tagged [RT ...].

Alg. 1 Predict -> follow_paths, visit (and recall_answers); Alg. 2 Train -> learn_batch, update_tree; Alg. 3
update_router -> update_router; Alg. 4 update_regressors -> update_scorers; Eq. (1) -> recall_bound; path features
§3.2 -> path_features; the group `path` is None without them, so that their code is not even compiled; so is `means`
without a start (see `means.py`).
"""

import math
from typing import NamedTuple

import numpy as np

from . import banks
from .jit import inlined_leaf, leaf, njit
from .labels import add_mass, join_candidates, mass_of, n_log_n, place, remember, take_candidates
from .losses import gradients, log_sigmoid, sigmoid
from .means import add_row, add_start
from .path_features import STOP, learn_path, path_score
from .rng import uniform
from .sets import LabelSet
from .trees import DEEPEST, LEFT, RIGHT, ROOT, add_child
from .updates import observe_scale, pace

# DIFFERS [RT Alg. 1]: several paths. Those below this share of the best path's chance (8 %) are not worth following.
MARGIN = 2.5
# DIFFERS [RT Alg. 4]: a gradient below this moves nothing that could be measured, and most of a converged model's are.
NEGLIGIBLE = 1e-3


class Options(NamedTuple):
    """What a Recall Tree was asked to do, as numbers."""

    bernstein: float  # lambda of [RT Eq. 1]; negative: always go on to a leaf
    n_candidates: int  # F; negative: 4 ceil(log2 labels seen)
    max_depth: int  # D; negative: see depth_limit
    path_features: int
    start: float  # weight of the cosine to the class mean; 0: none
    beam: int
    randomized: bool
    loss: int
    update: int
    rate: float
    router_update: int
    router_rate: float
    seed: int


class Scratch(NamedTuple):
    """Room for one example: the paths it follows and the candidates it meets."""

    node: np.ndarray  # (2 x beam) where each path stands
    log_chance: np.ndarray  # (2 x beam) log probability of the path
    moving: np.ndarray  # (2 x beam)
    label: np.ndarray  # (candidate)
    home: np.ndarray  # (candidate) the stopping node it came from
    score: np.ndarray  # (candidate)
    gradient: np.ndarray  # (candidate)
    known: LabelSet


@leaf
def candidates_wanted(n_labels, options):
    """F: how many labels a node keeps, O(log labels) unless asked otherwise."""
    if options.n_candidates > 0:
        return options.n_candidates
    return 4 * max(1, math.ceil(math.log2(max(1.0, n_labels))))


@leaf
def depth_limit(n_labels, n_candidates, options):
    """D: the deepest level, O(log labels) unless asked otherwise.

    DIFFERS [RT §2.2]: one path needs ceil(log2 labels) as in VW; several paths reach the recall of a shallower tree.
    """
    if options.max_depth >= 0:
        return options.max_depth
    leaves = n_labels if options.beam == 1 else 8.0 * n_labels / n_candidates
    return max(1, math.ceil(math.log2(max(1.0, leaves))))


@leaf
def widest(candidates, options):
    """The most candidates one example can meet: every path's, and in training those of one node more."""
    return (options.beam + 1) * candidates.label.shape[1]


@njit
def make_scratch(candidates, options, n_filled):
    """Scratch for one caller who fills up to n_filled labels more. Cost: O(beam x candidates)."""
    width = widest(candidates, options)
    n_set = 4
    while n_set < 2 * (width + n_filled):
        n_set *= 2
    n_paths = 2 * options.beam
    return Scratch(
        np.empty(n_paths, np.int64),
        np.empty(n_paths),
        np.empty(n_paths, np.bool_),
        np.empty(width, np.int64),
        np.empty(width, np.int64),
        np.empty(width),
        np.empty(width),
        LabelSet(np.empty(n_set, np.int32), np.full(n_set, -1, np.int64)),
    )


@leaf
def recall_bound(covered, total, bernstein):
    """Lower bound on the recall of candidates that cover so much of a total mass [RT Eq. 1]. Cost: O(1).

    DIFFERS [RT Eq. 1]: clipped at 0, and 0 where nothing was seen; the formula says nothing about m = 0.
    """
    if total <= 0.0:
        return 0.0
    r = min(1.0, covered / total)
    return max(0.0, r - math.sqrt(bernstein * r * (1.0 - r) / total) - bernstein / total)


@leaf
def stops(counts, node, child, options):
    """Whether the descent ends at node rather than going on to child [RT Alg. 1 l.5]."""
    return options.bernstein >= 0.0 and counts.bound[node] > counts.bound[child]


@leaf
def entropy_rise(counts, table, node, label, weight):
    """By how much (mass x entropy) of a node rises if label joins it. Cost: O(1) expected.

    DIFFERS [RT Alg. 3]: the rise itself, as in VW, not the fractions before the row came; an unborn child has none.
    """
    if node < 0:
        return 0.0
    n = counts.total[node]
    c = mass_of(table, node, label)
    return n_log_n(n + weight) - n_log_n(n) - n_log_n(c + weight) + n_log_n(c)


@leaf
def update_router(tree, router, counts, table, node, batch, i, label, weight, step, scale, options):
    """Teach a node's router the side where label raises the entropy less [RT Alg. 3]; return its score.

    Mutates: router. Cost: O(non-zeros).
    """
    route = banks.score(router, node, batch, i)
    left = entropy_rise(counts, table, tree.children[node, LEFT], label, weight)
    right = entropy_rise(counts, table, tree.children[node, RIGHT], label, weight)
    # DIFFERS [RT Alg. 3]: printed, sign(H_left - H_right) with f > 0 going left would raise the entropy.
    advantage = right - left
    if abs(advantage) > 1e-6 * weight:  # not rounding: it would choose a side for a router that knows nothing
        target = 1.0 if advantage > 0.0 else 0.0
        gradient = abs(advantage) * (sigmoid(route) - target)
        banks.learn(router, node, batch, i, gradient, step, scale)
        # A step never turns a route away from its target, so only a route on the wrong side is scored again.
        if (route > 0.0) != (advantage > 0.0) or options.randomized:
            route = banks.score(router, node, batch, i)
    return route


@leaf
def update_candidates(counts, candidates, table, node, label, weight, options):
    """Count label at node and keep the node's heaviest labels [RT Alg. 2]. Mutates: all three groups."""
    at = add_mass(table, node, label, weight)
    counts.total[node] += weight
    place(candidates, node, label, table.mass[at])
    if options.bernstein >= 0.0:
        counts.bound[node] = recall_bound(candidates.covered[node], counts.total[node], options.bernstein)


@njit
def refresh_bounds(counts, candidates, options):
    """Bounds of all nodes after their lists were widened. Mutates: counts. Cost: O(nodes)."""
    for node in range(counts.total.shape[0]):
        counts.bound[node] = recall_bound(candidates.covered[node], counts.total[node], options.bernstein)


@inlined_leaf
def update_tree(tree, router, counts, candidates, table, seen, batch, i, label, weight, step, scale, options):
    """Let (row i, label) descend, teaching routers and counting on the way; return where it stops [RT Alg. 2].

    Mutates: tree, router, counts, candidates, table. Cost: O(depth x (non-zeros + candidates)).
    """
    limit = depth_limit(seen.n_labels[0], candidates.label.shape[1], options)
    node = ROOT
    # DIFFERS [RT Alg. 2]: the root is counted too; printed, its histogram stays empty and Alg. 3 divides by 0.
    update_candidates(counts, candidates, table, node, label, weight, options)
    # Answers go as deep as there are children, so must counting: the limit can fall when lists become wider.
    while tree.depth[node] < limit or tree.children[node, LEFT] >= 0 or tree.children[node, RIGHT] >= 0:
        route = update_router(tree, router, counts, table, node, batch, i, label, weight, step, scale, options)
        side = LEFT if route > 0.0 else RIGHT
        if options.randomized:
            draw = uniform(options.seed, np.int64(seen.n_rows[0]) * DEEPEST + tree.depth[node])
            side = LEFT if draw < sigmoid(route) else RIGHT
        child = np.int64(tree.children[node, side])
        if child < 0:  # DIFFERS [RT §2.2]: nodes come into being when first visited
            child = add_child(tree, node, side)
        update_candidates(counts, candidates, table, child, label, weight, options)
        if stops(counts, node, child, options):
            break
        node = child
    return node


@inlined_leaf
def follow_paths(tree, router, counts, batch, i, options, scratch):
    """Descend with the best `beam` paths [RT Alg. 1 l.3-10]; return (paths, routers scored).

    Mutates: scratch. Cost: O(beam x depth x non-zeros).
    """
    where, log_chance, moving = scratch.node, scratch.log_chance, scratch.moving
    where[0], log_chance[0], moving[0] = ROOT, 0.0, True
    n_paths, n_scored, any_moved = np.int64(1), np.int64(0), True
    while any_moved:
        any_moved = False
        for p in range(n_paths):
            if not moving[p]:
                continue
            node = where[p]
            if tree.children[node, LEFT] < 0 and tree.children[node, RIGHT] < 0:
                moving[p] = False
                continue
            route = banks.score(router, node, batch, i)
            n_scored += 1
            side = LEFT if route > 0.0 else RIGHT  # [RT Alg. 1 l.4]
            child, other = np.int64(tree.children[node, side]), np.int64(tree.children[node, 1 - side])
            if child < 0 or stops(counts, node, child, options):  # [RT Alg. 1 l.5]
                moving[p] = False
                continue
            where[p] = child
            any_moved = True
            if options.beam > 1:
                if other >= 0:
                    where[n_paths], moving[n_paths] = other, True
                    log_chance[n_paths] = log_chance[p] + log_sigmoid(-abs(route))
                    n_paths += 1
                log_chance[p] += log_sigmoid(abs(route))
        if n_paths > 1:
            n_paths = keep_best(scratch, n_paths, options)
    return n_paths, n_scored


@inlined_leaf
def keep_best(scratch, n_paths, options):
    """Sort the paths by chance and keep the best `beam` of them within MARGIN of the best. Cost: O(beam^2)."""
    where, log_chance, moving = scratch.node, scratch.log_chance, scratch.moving
    for p in range(1, n_paths):
        a, b, c = where[p], log_chance[p], moving[p]
        q = p
        while q > 0 and log_chance[q - 1] < b:
            where[q], log_chance[q], moving[q] = where[q - 1], log_chance[q - 1], moving[q - 1]
            q -= 1
        where[q], log_chance[q], moving[q] = a, b, c
    kept = np.int64(1)
    while kept < min(n_paths, options.beam) and log_chance[kept] > log_chance[0] - MARGIN:
        kept += 1
    return kept


@inlined_leaf
def score_candidates(tree, scorer, path, means, table, first, n, batch, i, options, scratch):
    """Score candidates first..n-1. Mutates: scratch. Cost: O(candidates x non-zeros)."""
    banks.score_rows(scorer, scratch.label, first, n, batch, i, scratch.score)
    if path is not None:
        for c in range(first, n):
            scratch.score[c] += path_score(
                tree, path, table, scratch.label[c], scratch.home[c], batch, i, options
            )  # fmt: skip
    if means is not None:
        add_start(means, options.start, scratch.label, first, n, batch, i, scratch.score)


@inlined_leaf
def update_scorers(tree, scorer, path, table, n, truth, batch, i, weight, step, scale, options, scratch):
    """One-against-some step of all n candidates [RT Alg. 4]. Mutates: scorer, path, table, scratch."""
    gradients(scratch.score, n, truth, options.loss, scratch.gradient)
    for c in range(n):
        if abs(scratch.gradient[c]) < NEGLIGIBLE:
            continue
        gradient = scratch.gradient[c] * weight
        banks.learn(scorer, scratch.label[c], batch, i, gradient, step, scale)
        if path is not None:
            learn_path(tree, path, table, scratch.label[c], scratch.home[c], batch, i, gradient, step, scale, options)


@inlined_leaf
def find_best(n, label, scratch):
    """(position of the best score, position of label or -1) among n candidates."""
    best, truth = np.int64(0), np.int64(-1)
    for c in range(n):
        if scratch.score[c] > scratch.score[best]:
            best = np.int64(c)
        if scratch.label[c] == label:
            truth = np.int64(c)
    return best, truth


@inlined_leaf
def visit(tree, router, scorer, path, means, counts, candidates, table, batch, i, stamp, options, scratch):
    """Everything that is met on the way to an answer [RT Alg. 1]: (paths, routers scored, candidates).

    Mutates: scratch. Cost: O((beam x depth + candidates) x non-zeros).
    """
    n_paths, n_routers = follow_paths(tree, router, counts, batch, i, options, scratch)
    n = take_candidates(candidates, scratch.node[0], scratch)
    if n_paths > 1:
        remember(scratch.label, n, stamp, scratch.known)
        for p in range(1, n_paths):
            n = join_candidates(candidates, scratch.node[p], stamp, n, scratch)
    score_candidates(tree, scorer, path, means, table, np.int64(0), n, batch, i, options, scratch)
    return n_paths, n_routers, n


@inlined_leaf
def has_room(tree, scorer, candidates, table, path, seen, label, options):
    """Whether one more example of this label surely fits."""
    if path is not None:
        if path.n_rows[0] + path_rows_wanted(seen.n_labels[0] + 1, candidates, options) > path.bias.shape[0]:
            return False
    return (
        label < scorer.bias.shape[0]
        and candidates_wanted(seen.n_labels[0] + 1, options) <= candidates.label.shape[1]
        and tree.n_nodes[0] + DEEPEST <= tree.parent.shape[0]
        and 2 * (table.n_entries[0] + DEEPEST) <= table.key.shape[0]
    )


@leaf
def path_rows_wanted(n_labels, candidates, options):
    """The most rows of path features that one example can bring."""
    n_nodes = 1 if options.path_features == STOP else depth_limit(n_labels, candidates.label.shape[1], options)
    return widest(candidates, options) * n_nodes


@njit
def learn_batch(
    tree, router, scorer, path, means, counts, candidates, table, scale, seen,
    batch, labels, weights, begin, options,
):  # fmt: skip
    """Learn the rows from `begin` on [RT Alg. 2]; return where it ended for want of room. Mutates: all groups."""
    scratch = make_scratch(candidates, options, np.int64(0))
    return learn_rows(
        tree, router, scorer, path, means, counts, candidates, table, scale, seen,
        batch, labels, weights, begin, options, scratch,
    )  # fmt: skip


@inlined_leaf
def learn_rows(
    tree, router, scorer, path, means, counts, candidates, table, scale, seen,
    batch, labels, weights, begin, options, scratch,
):  # fmt: skip
    """The loop of learn_batch, one example after the other.

    Mutates: all groups. Cost: O((beam x depth + candidates) x non-zeros) an example.
    """
    for i in range(begin, labels.shape[0]):
        label, weight = np.int64(labels[i]), weights[i]
        if weight <= 0.0:
            continue
        if not has_room(tree, scorer, candidates, table, path, seen, label, options):
            return i
        # Answer before learning: progressive validation [RT §4.3] that no update can have leaked into.
        n_paths, _, n = visit(
            tree, router, scorer, path, means, counts, candidates, table, batch, i, i, options, scratch
        )  # fmt: skip
        best, truth = find_best(n, label, scratch)
        seen.mass[0] += weight
        seen.wrong_mass[0] += 0.0 if truth >= 0 and best == truth else weight
        if mass_of(table, ROOT, label) == 0.0:
            seen.n_labels[0] += 1
        seen.n_rows[0] += 1
        sq_norm = observe_scale(scale, batch, i)
        step = pace(options.router_update, options.router_rate, scale, sq_norm)
        node = update_tree(
            tree, router, counts, candidates, table, seen, batch, i, label, weight, step, scale, options
        )  # fmt: skip
        # DIFFERS [RT Alg. 2]: the candidates met when answering learn too, not only those of the training path:
        # they are what this row meets when it comes back without its label.
        n_answered = n
        if n_paths == 1:
            remember(scratch.label, n, i, scratch.known)
        n = join_candidates(candidates, node, i, n, scratch)
        score_candidates(tree, scorer, path, means, table, n_answered, n, batch, i, options, scratch)
        _, truth = find_best(n, label, scratch)
        if truth >= 0:  # [RT Alg. 4 l.1]
            step = pace(options.update, options.rate, scale, sq_norm)
            update_scorers(
                tree, scorer, path, table, n, truth, batch, i, weight, step, scale, options, scratch
            )  # fmt: skip
        if means is not None:  # last: neither the answer nor the step may know the row from its class's sum
            add_row(means, label, batch, i, weight)
    return labels.shape[0]
