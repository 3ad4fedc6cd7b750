"""Recall Tree: Logarithmic Time One-Against-Some (2017), tagged [RT ...]: the tree, which finds the candidates.

Alg. 1 Predict -> follow_paths (and recall_answers); Alg. 2 Train -> recall_row, update_tree (and one_against_some);
Alg. 3 update_router -> update_router, update_routers; Eq. (1) -> recall_bound; §5 multiway splits -> the functions for
`arity` above 2. The tree never looks at the predictors that choose among its candidates, so it may learn some rows
ahead of them.
"""

import math
from typing import NamedTuple

import numpy as np

from . import banks
from .jit import inlined_leaf, leaf, njit
from .labels import count_at, first_look, join_candidates, key_of, mass_of, n_log_n_rise, place, take_candidates
from .losses import log_sum, sigmoid
from .prefetch import prefetch_row
from .rng import uniform
from .sets import LabelSet
from .trees import DEEPEST, LEFT, RIGHT, ROOT, add_child, add_children, has_children
from .updates import observe_scale, pace

# DIFFERS [RT Alg. 1]: several paths. Those below this share of the best path's chance (8 %) are not worth following.
MARGIN = 2.5
SHARE = math.exp(-MARGIN)
# DIFFERS [RT Alg. 3, 4]: a gradient below this moves nothing that could be measured, and most of a converged model's
# are.
NEGLIGIBLE = 1e-3
NOBODY = np.int64(-1)  # the label of a row that is only answered


class Options(NamedTuple):
    """What a Recall Tree was asked to do, as numbers."""

    bernstein: float  # lambda of [RT Eq. 1]; negative: always go on to a leaf
    n_candidates: int  # F; negative: 4 ceil(log2 labels seen)
    max_depth: int  # D; negative: see depth_limit
    arity: int  # children of a node
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
    """Room for one example: the paths it follows, and the labels met so far."""

    node: np.ndarray  # (path) where each path stands
    chance: np.ndarray  # (path) probability of the path
    moving: np.ndarray  # (path)
    route: np.ndarray  # (child) scores of a node's children
    rise: np.ndarray  # (child)
    known: LabelSet
    stamp: np.ndarray  # (1,) of the example at hand


class Lists(NamedTuple):
    """Candidates of some rows, row after row: those met when answering, then those that training adds."""

    first: np.ndarray  # (row + 1,) i8: where a row's candidates begin
    answered: np.ndarray  # (row,) i8: how many were met when answering
    label: np.ndarray  # (candidate,) i4
    home: np.ndarray  # (candidate,) i4: the stopping node it came from


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
    return max(1, math.ceil(math.log2(max(1.0, leaves)) / math.log2(options.arity)))


@leaf
def widest(candidates, options):
    """The most candidates one example can meet: every path's, and in training those of one node more."""
    return (options.beam + 1) * candidates.label.shape[1]


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
def entropy_rise(counts, node, mass, weight):
    """By how much (mass x entropy) of a node rises if a label that has `mass` there joins it. Cost: O(1).

    DIFFERS [RT Alg. 3]: the rise itself, as in VW, not the fractions before the row came; an unborn child has none.
    """
    if node < 0:
        return 0.0
    return n_log_n_rise(counts.total[node], weight) - n_log_n_rise(mass, weight)


@leaf
def update_router(tree, router, counts, table, node, batch, i, label, weight, step, scale, options):
    """Teach a node's router the side where label raises the entropy less [RT Alg. 3]; return its score.

    Mutates: router. Cost: O(non-zeros).
    """
    left, right = np.int64(tree.children[node, LEFT]), np.int64(tree.children[node, RIGHT])
    # Both look-ups before all arithmetic: they wait for memory together.
    left_mass, right_mass = mass_of(table, left, label), mass_of(table, right, label)
    route = banks.score(router, node, batch, i)
    # DIFFERS [RT Alg. 3]: printed, sign(H_left - H_right) with f > 0 going left would raise the entropy.
    advantage = entropy_rise(counts, right, right_mass, weight) - entropy_rise(counts, left, left_mass, weight)
    if abs(advantage) > 1e-6 * weight:  # not rounding: it would choose a side for a router that knows nothing
        target = 1.0 if advantage > 0.0 else 0.0
        gradient = abs(advantage) * (sigmoid(route) - target)
        if abs(gradient) >= NEGLIGIBLE * weight:
            banks.learn(router, node, batch, i, gradient, step, scale)
        # A step never turns a route away from its target, so only a route on the wrong side is scored again.
        if (route > 0.0) != (advantage > 0.0) or options.randomized:
            route = banks.score(router, node, batch, i)
    return route


@inlined_leaf
def score_children(tree, router, node, batch, i, options, scratch):
    """Scores of all children of a node with more than two; return the best. Mutates: scratch. Cost: O(arity)."""
    first = np.int64(tree.children[node, 0])
    best = np.int64(0)
    for c in range(options.arity):
        scratch.route[c] = banks.score(router, first + c, batch, i)
        if scratch.route[c] > scratch.route[best]:
            best = np.int64(c)
    return best


@inlined_leaf
def update_routers(
    tree, router, counts, table, node, batch, i, label, weight, step, scale, draw, options, scratch
):  # fmt: skip
    """Teach the children's routers where label raises the entropy least [RT §5]; return the child chosen.

    Mutates: router, scratch. Cost: O(arity x non-zeros).
    """
    best = score_children(tree, router, node, batch, i, options, scratch)
    first, arity = np.int64(tree.children[node, 0]), options.arity
    target, mean = np.int64(0), 0.0
    for c in range(arity):
        scratch.rise[c] = entropy_rise(counts, first + c, mass_of(table, first + c, label), weight)
        mean += scratch.rise[c] / arity
        lower = scratch.rise[target] - scratch.rise[c]
        # Of empty children all are as good: the one that is nearest already.
        if lower > 1e-6 * weight or (lower >= -1e-6 * weight and scratch.route[c] > scratch.route[target]):
            target = np.int64(c)
    advantage = (mean - scratch.rise[target]) * arity / (arity - 1.0)  # over the mean of the others
    if advantage > 1e-6 * weight:
        total = log_sum(scratch.route, arity)
        for c in range(arity):
            slope = math.exp(scratch.route[c] - total) - (1.0 if c == target else 0.0)
            if abs(slope) >= NEGLIGIBLE:
                banks.learn(router, first + c, batch, i, advantage * slope, step, scale)
        if best != target or options.randomized:
            best = score_children(tree, router, node, batch, i, options, scratch)
    if options.randomized:
        total, below, best = log_sum(scratch.route, arity), 0.0, np.int64(0)
        while best < arity - 1:
            below += math.exp(scratch.route[best] - total)
            if draw < below:
                break
            best += 1
    return first + best


@inlined_leaf
def update_candidates(counts, candidates, table, node, label, weight, options):
    """Count label at node and keep the node's heaviest labels [RT Alg. 2]. Mutates: all three groups."""
    mass = count_at(table, node, label, weight)
    counts.total[node] += weight
    place(candidates, node, label, mass)
    if options.bernstein >= 0.0:
        counts.bound[node] = recall_bound(candidates.covered[node], counts.total[node], options.bernstein)


@njit
def refresh_bounds(counts, candidates, options):
    """Bounds of all nodes after their lists were widened. Mutates: counts. Cost: O(nodes)."""
    for node in range(counts.total.shape[0]):
        counts.bound[node] = recall_bound(candidates.covered[node], counts.total[node], options.bernstein)


@inlined_leaf
def update_tree(
    tree, router, counts, candidates, table, seen, batch, i, label, weight, step, scale, options, scratch
):  # fmt: skip
    """Let (row i, label) descend, teaching routers and counting on the way; return where it stops [RT Alg. 2].

    Mutates: tree, router, counts, candidates, table. Cost: O(depth x (non-zeros + candidates)).
    """
    limit = depth_limit(seen.n_labels[0], candidates.label.shape[1], options)
    node, child = np.int64(-1), ROOT
    # DIFFERS [RT Alg. 2]: the root is counted too; printed, its histogram stays empty and Alg. 3 divides by 0.
    while True:
        update_candidates(counts, candidates, table, child, label, weight, options)
        if node >= 0 and stops(counts, node, child, options):
            break
        node = child
        # Answers go as deep as there are children, so must counting: the limit can fall when lists become wider.
        if tree.depth[node] >= limit and not has_children(tree, node):
            break
        draw = 0.0
        if options.randomized:
            draw = uniform(options.seed, np.int64(seen.n_rows[0]) * DEEPEST + tree.depth[node])
        if options.arity > 2:
            if not has_children(tree, node):
                add_children(tree, node, options.arity)
            child = update_routers(
                tree, router, counts, table, node, batch, i, label, weight, step, scale, draw, options, scratch
            )  # fmt: skip
            continue
        route = update_router(tree, router, counts, table, node, batch, i, label, weight, step, scale, options)
        side = LEFT if route > 0.0 else RIGHT
        if options.randomized:
            side = LEFT if draw < sigmoid(route) else RIGHT
        child = np.int64(tree.children[node, side])
        if child < 0:  # DIFFERS [RT §2.2]: nodes come into being when first visited
            child = add_child(tree, node, side)
    return node


@inlined_leaf
def ask_ahead(tree, router, candidates, table, node, label):
    """Ask for what update_tree will need of a node and its children, while the paths are still followed."""
    prefetch_row(candidates.label, node)
    prefetch_row(candidates.mass, node)
    prefetch_row(router.grad_sq, node if router.mask[0] == 0 and router.grad_sq.shape[0] > 1 else ROOT)
    for side in range(2):
        at = first_look(table, key_of(np.int64(tree.children[node, side]), label))
        prefetch_row(table.key, at)
        prefetch_row(table.mass, at)


@inlined_leaf
def follow_paths(tree, router, counts, candidates, table, batch, i, label, options, scratch):
    """Descend with the best `beam` paths [RT Alg. 1 l.3-10]; return (paths, routers scored).

    In training, `label` says what will be counted on the way; otherwise it is -1, and `candidates` and `table` may be
    None. Mutates: scratch. Cost: O(beam x depth x non-zeros).
    """
    where, chance, moving = scratch.node, scratch.chance, scratch.moving
    where[0], chance[0], moving[0] = ROOT, 1.0, True
    n_paths, n_scored, any_moved = np.int64(1), np.int64(0), True
    while any_moved:
        any_moved = False
        for p in range(n_paths):
            if not moving[p]:
                continue
            node = where[p]
            moving[p] = has_children(tree, node)
            if not moving[p]:
                continue
            if options.arity > 2:
                best = score_children(tree, router, node, batch, i, options, scratch)
                n_scored += options.arity
                child = np.int64(tree.children[node, best])
                moving[p] = not stops(counts, node, child, options)
                if moving[p] and options.beam > 1:
                    top, total = scratch.route[best], 0.0
                    for c in range(options.arity):
                        total += math.exp(scratch.route[c] - top)
                    chance[p] /= total
                    for c in range(options.arity):
                        if c != best and top - scratch.route[c] < MARGIN:
                            where[n_paths], moving[n_paths] = tree.children[node, c], True
                            chance[n_paths] = chance[p] * math.exp(scratch.route[c] - top)
                            n_paths += 1
            else:
                banks.ask_for(router, max(ROOT, np.int64(tree.children[node, LEFT])))
                banks.ask_for(router, max(ROOT, np.int64(tree.children[node, RIGHT])))
                if table is not None and label >= 0:
                    ask_ahead(tree, router, candidates, table, node, label)
                route = banks.score(router, node, batch, i)
                n_scored += 1
                side = LEFT if route > 0.0 else RIGHT  # [RT Alg. 1 l.4]
                child, other = np.int64(tree.children[node, side]), np.int64(tree.children[node, 1 - side])
                moving[p] = child >= 0 and not stops(counts, node, child, options)  # [RT Alg. 1 l.5]
                if moving[p] and options.beam > 1:
                    odds = math.exp(-abs(route))
                    chance[p] /= 1.0 + odds
                    if other >= 0 and odds > SHARE:  # below, keep_best would drop it
                        where[n_paths], moving[n_paths] = other, True
                        chance[n_paths] = chance[p] * odds
                        n_paths += 1
            if moving[p]:
                where[p] = child
                any_moved = True
        if n_paths > 1:
            n_paths = keep_best(scratch, n_paths, options)
    return n_paths, n_scored


@inlined_leaf
def keep_best(scratch, n_paths, options):
    """Sort the paths by chance and keep the best `beam` of them that have a SHARE of the best's. Cost: O(beam^2)."""
    where, chance, moving = scratch.node, scratch.chance, scratch.moving
    for p in range(1, n_paths):
        a, b, c = where[p], chance[p], moving[p]
        q = p
        while q > 0 and chance[q - 1] < b:
            where[q], chance[q], moving[q] = where[q - 1], chance[q - 1], moving[q - 1]
            q -= 1
        where[q], chance[q], moving[q] = a, b, c
    kept = np.int64(1)
    while kept < min(n_paths, options.beam) and chance[kept] > chance[0] * SHARE:
        kept += 1
    return kept


@inlined_leaf
def gather_candidates(candidates, n_paths, begin, scratch, lists):
    """Put the labels of all paths' nodes, each once, from `begin` on; return their end. Mutates: scratch, lists."""
    scratch.stamp[0] += 1
    end = take_candidates(candidates, scratch.node[0], begin, scratch, lists)
    for p in range(1, n_paths):
        end = join_candidates(candidates, scratch.node[p], end, scratch, lists)
    return end


@inlined_leaf
def recall_row(
    tree, router, counts, candidates, table, scale, seen, batch, i, label, weight, options, scratch, lists, r
):  # fmt: skip
    """The tree's half of learning row i [RT Alg. 2]: write its candidates as row r of the lists.

    Mutates: all groups but the batch. Cost: O(beam x depth x (non-zeros + candidates)).
    """
    # Those of the answer first: progressive validation [RT §4.3] that no update can have leaked into.
    n_paths, _ = follow_paths(tree, router, counts, candidates, table, batch, i, label, options, scratch)
    begin = lists.first[r]
    end = gather_candidates(candidates, n_paths, begin, scratch, lists)
    lists.answered[r] = end - begin
    if mass_of(table, ROOT, label) == 0.0:
        seen.n_labels[0] += 1
    seen.n_rows[0] += 1
    sq_norm = observe_scale(scale, batch, i)
    step = pace(options.router_update, options.router_rate, scale, sq_norm)
    node = update_tree(
        tree, router, counts, candidates, table, seen, batch, i, label, weight, step, scale, options, scratch
    )  # fmt: skip
    # DIFFERS [RT Alg. 2]: the candidates met when answering learn too, not only those of the training path:
    # they are what this row meets when it comes back without its label.
    lists.first[r + 1] = join_candidates(candidates, node, end, scratch, lists)


@leaf
def has_room(tree, candidates, table, seen, options):
    """Whether one more example surely fits into the tree."""
    newborn = 1 if options.arity == 2 else options.arity
    return (
        candidates_wanted(seen.n_labels[0] + 1, options) <= candidates.label.shape[1]
        and tree.n_nodes[0] + newborn * DEEPEST <= tree.parent.shape[0]
        and 2 * (table.n_entries[0] + DEEPEST) <= table.key.shape[0]
    )


@njit
def recall_batch(
    tree, router, counts, candidates, table, scale, seen,
    batch, labels, weights, begin, n_classes, options, scratch, lists,
):  # fmt: skip
    """The tree's half of learning the rows from `begin` on; return where it ended: for want of room, or of lists.

    `n_classes` is how many the predictors have room for. Mutates: all groups.
    """
    r = np.int64(0)
    lists.first[0] = 0
    while begin + r < labels.shape[0] and r < lists.answered.shape[0]:
        i = begin + r
        label, weight = np.int64(labels[i]), weights[i]
        if weight <= 0.0:
            lists.first[r + 1] = lists.first[r]
            r += 1
            continue
        full = lists.first[r] + widest(candidates, options) > lists.label.shape[0]
        if full or label >= n_classes or not has_room(tree, candidates, table, seen, options):
            break
        recall_row(
            tree, router, counts, candidates, table, scale, seen, batch, i, label, weight, options, scratch, lists, r
        )  # fmt: skip
        r += 1
    return begin + r
