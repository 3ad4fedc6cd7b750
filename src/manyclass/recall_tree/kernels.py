"""Recall Tree: Logarithmic Time One-Against-Some (2017), tagged [RT ...]: the tree, which finds the candidates.

Alg. 1 Predict -> recall_paths, recall_answers; Alg. 2 Train -> recall_row, update_tree (and one_against_some);
Alg. 3 update_router -> update_router, update_routers; Eq. (1) -> recall_bound; §6 multiway splits -> the functions for
`arity` above 2. The tree never looks at the predictors that choose among its candidates, so it may learn some rows
ahead of them.
"""

import math
from typing import NamedTuple

import numpy as np

from ..core import linear
from ..core.labels import count_at, join_candidates, mass_of, n_log_n_rise, place, take_candidates
from ..core.losses import log_sum, sigmoid
from ..core.rng import uniform
from ..core.trees import DEEPEST, LEFT, RIGHT, ROOT, add_child, add_children, has_children
from ..core.updates import NEGLIGIBLE, observe_scale, pace
from ..jit import device, inlined, kernel
from .paths import follow_paths, score_children, stops


class Lists(NamedTuple):
    """Candidates of some rows, row after row: those met when answering, then those that training adds."""

    n_rows: np.ndarray  # (1,) i8
    first: np.ndarray  # (row + 1,) i8: where a row's candidates begin
    answered: np.ndarray  # (row,) i8: how many were met when answering
    label: np.ndarray  # (candidate,) i4
    home: np.ndarray  # (candidate,) i4: the stopping node it came from


@device
def candidates_wanted(n_labels, options):
    """F: how many labels a node keeps, O(log labels) unless asked otherwise."""
    if options.n_candidates > 0:
        return options.n_candidates
    return 4 * max(1, math.ceil(math.log2(max(1.0, n_labels))))


@device
def depth_limit(n_labels, n_candidates, options):
    """D: the deepest level, O(log labels) unless asked otherwise.

    DIFFERS [RT §2.2]: one path needs ceil(log2 labels) as in VW; several paths reach the recall of a shallower tree.
    """
    if options.max_depth >= 0:
        return options.max_depth
    leaves = n_labels if options.beam == 1 else 8.0 * n_labels / n_candidates
    return max(1, math.ceil(math.log2(max(1.0, leaves)) / math.log2(options.arity)))


@device
def widest(candidates, options):
    """The most candidates one example can meet: every path's, and in training those of one node more."""
    return (options.beam + 1) * candidates.label.shape[1]


@device
def recall_bound(covered, total, bernstein):
    """Lower bound on the recall of candidates that cover so much of a total mass [RT Eq. 1]. Cost: O(1).

    DIFFERS [RT Eq. 1]: clipped at 0, and 0 where nothing was seen; the formula says nothing about m = 0.
    """
    if total <= 0.0:
        return 0.0
    r = min(1.0, covered / total)
    return max(0.0, r - math.sqrt(bernstein * r * (1.0 - r) / total) - bernstein / total)


@device
def entropy_rise(counts, node, mass, weight):
    """By how much (mass x entropy) of a node rises if a label that has `mass` there joins it. Cost: O(1).

    DIFFERS [RT Alg. 3]: the rise itself, as in VW, not the fractions before the row came; an unborn child has none.
    """
    if node < 0:
        return 0.0
    return n_log_n_rise(counts.total[node], weight) - n_log_n_rise(mass, weight)


@device
def update_router(tree, router, counts, table, node, batch, i, label, weight, step, scale, options):
    """Teach a node's router the side where label raises the entropy less [RT Alg. 3]; return its score.

    Mutates: router. Cost: O(non-zeros).
    """
    left, right = np.int64(tree.children[node, LEFT]), np.int64(tree.children[node, RIGHT])
    # Both look-ups before all arithmetic: they wait for memory together.
    left_mass, right_mass = mass_of(table, left, label), mass_of(table, right, label)
    route = linear.score(router, node, batch, i)
    # DIFFERS [RT Alg. 3]: printed, sign(H_left - H_right) with f > 0 going left would raise the entropy.
    advantage = entropy_rise(counts, right, right_mass, weight) - entropy_rise(counts, left, left_mass, weight)
    if abs(advantage) > 1e-6 * weight:  # not rounding: it would choose a side for a router that knows nothing
        target = 1.0 if advantage > 0.0 else 0.0
        gradient = abs(advantage) * (sigmoid(route) - target)
        if abs(gradient) >= NEGLIGIBLE * weight:
            linear.learn(router, node, batch, i, gradient, step, scale)
        # A step never turns a route away from its target, so only a route on the wrong side is scored again.
        if (route > 0.0) != (advantage > 0.0) or options.randomized:
            route = linear.score(router, node, batch, i)
    return route


@inlined
def update_routers(
    tree, router, counts, table, node, batch, i, label, weight, step, scale, draw, options, fan
):  # fmt: skip
    """Teach the children's routers where label raises the entropy least [RT §6]; return the child chosen.

    DIFFERS [RT §6]: the paper plans multiway splits without a rule; this is Alg. 3's over several children.
    Mutates: router, fan. Cost: O(arity x non-zeros).
    """
    best = score_children(tree, router, node, batch, i, options, fan)
    first, arity = np.int64(tree.children[node, 0]), options.arity
    target, mean = np.int64(0), 0.0
    for c in range(arity):
        fan.rise[c] = entropy_rise(counts, first + c, mass_of(table, first + c, label), weight)
        mean += fan.rise[c] / arity
        lower = fan.rise[target] - fan.rise[c]
        # Of empty children all are as good: the one that is nearest already.
        if lower > 1e-6 * weight or (lower >= -1e-6 * weight and fan.route[c] > fan.route[target]):
            target = np.int64(c)
    advantage = (mean - fan.rise[target]) * arity / (arity - 1.0)  # over the mean of the others
    if advantage > 1e-6 * weight:
        total = log_sum(fan.route, arity)
        for c in range(arity):
            slope = math.exp(fan.route[c] - total) - (1.0 if c == target else 0.0)
            if abs(advantage * slope) >= NEGLIGIBLE * weight:
                linear.learn(router, first + c, batch, i, advantage * slope, step, scale)
        if best != target or options.randomized:
            best = score_children(tree, router, node, batch, i, options, fan)
    if options.randomized:
        total, below, best = log_sum(fan.route, arity), 0.0, np.int64(0)
        while best < arity - 1:
            below += math.exp(fan.route[best] - total)
            if draw < below:
                break
            best += 1
    return first + best


@inlined
def update_candidates(counts, candidates, table, node, label, weight, options):
    """Count label at node and keep the node's heaviest labels [RT Alg. 2]. Mutates: all three. Cost: O(candidates)."""
    mass = count_at(table, node, label, weight)
    counts.total[node] += weight
    place(candidates, node, label, mass)
    if options.bernstein >= 0.0:
        counts.bound[node] = recall_bound(candidates.covered[node], counts.total[node], options.bernstein)


@kernel
def refresh_bounds(counts, candidates, options):
    """Bounds of all nodes after their lists were widened. Mutates: counts. Cost: O(nodes)."""
    for node in range(counts.total.shape[0]):
        counts.bound[node] = recall_bound(candidates.covered[node], counts.total[node], options.bernstein)


@inlined
def update_tree(
    tree, router, counts, candidates, table, seen, batch, i, label, weight, step, scale, options, fan
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
        # Predictions go as deep as there are children, so must counting: the limit can fall when lists become wider.
        if tree.depth[node] >= limit and not has_children(tree, node):
            break
        draw = 0.0
        if options.randomized:
            draw = uniform(options.seed, np.int64(seen.n_rows[0]) * DEEPEST + tree.depth[node])
        if fan is not None:
            if not has_children(tree, node):
                add_children(tree, node, options.arity)
            child = update_routers(
                tree, router, counts, table, node, batch, i, label, weight, step, scale, draw, options, fan
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


@inlined
def gather_candidates(candidates, n_paths, begin, scratch, lists):
    """Put the labels of all paths' nodes, each once, from `begin` on; return their end. Mutates: scratch, lists."""
    scratch.stamp[0] += 1
    end = take_candidates(candidates, scratch.node[0], begin, scratch, lists)
    for p in range(1, n_paths):
        end = join_candidates(candidates, scratch.node[p], end, scratch, lists)
    return end


@inlined
def recall_row(
    tree, router, counts, candidates, table, scale, sq_norm, seen, batch, i, label, weight, options, scratch, fan,
    lists, r,
):  # fmt: skip
    """The tree's half of learning row i [RT Alg. 2]: write its candidates as row r of the lists.

    `sq_norm` is what observe_scale said of the row. Mutates: all groups but scale and batch.
    Cost: O(beam x depth x (non-zeros + candidates)).
    """
    # Those of the answer first: progressive validation [RT §4.3] that no update can have leaked into.
    n_paths, _ = follow_paths(tree, router, counts, candidates, table, batch, i, label, options, scratch, fan)
    begin = lists.first[r]
    end = gather_candidates(candidates, n_paths, begin, scratch, lists)
    lists.answered[r] = end - begin
    if mass_of(table, ROOT, label) == 0.0:
        seen.n_labels[0] += 1
    seen.n_rows[0] += 1
    step = pace(options.router_update, options.router_rate, scale, sq_norm)
    node = update_tree(
        tree, router, counts, candidates, table, seen, batch, i, label, weight, step, scale, options, fan
    )  # fmt: skip
    # DIFFERS [RT Alg. 2]: the candidates met when answering learn too, not only those of the training path:
    # they are what this row meets when it comes back without its label.
    lists.first[r + 1] = join_candidates(candidates, node, end, scratch, lists)


@device
def has_room(tree, candidates, table, seen, options):
    """Whether one more example surely fits into the tree."""
    newborn = 1 if options.arity == 2 else options.arity
    return (
        candidates_wanted(seen.n_labels[0] + 1, options) <= candidates.label.shape[1]
        and tree.n_nodes[0] + newborn * DEEPEST <= tree.parent.shape[0]
        and 2 * (table.n_entries[0] + DEEPEST) <= table.key.shape[0]
    )


@kernel
def recall_batch(
    tree, router, counts, candidates, table, scale, seen,
    batch, labels, weights, begin, n_classes, options, scratch, fan, lists,
):  # fmt: skip
    """The tree's half of learning the rows from `begin` on; `lists.n_rows` says how many: until room or lists end.

    `n_classes` is how many the predictors have room for. Mutates: all groups.
    """
    r = np.int64(0)
    lists.first[0], lists.n_rows[0] = 0, 0
    while begin + r < labels.shape[0] and r < lists.answered.shape[0]:
        i = begin + r
        label, weight = np.int64(labels[i]), weights[i]
        if weight <= 0.0:
            lists.first[r + 1] = lists.first[r]
            r += 1
            lists.n_rows[0] = r
            continue
        full = lists.first[r] + widest(candidates, options) > lists.label.shape[0]
        if full or label >= n_classes or not has_room(tree, candidates, table, seen, options):
            break
        sq_norm = observe_scale(scale, batch, i)
        recall_row(
            tree, router, counts, candidates, table, scale, sq_norm, seen, batch, i, label, weight, options, scratch,
            fan, lists, r,
        )  # fmt: skip
        r += 1
        lists.n_rows[0] = r
