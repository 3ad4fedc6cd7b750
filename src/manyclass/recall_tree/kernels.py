"""Recall Tree: the algorithms of "Logarithmic Time One-Against-Some" (2017), tagged [RT ...], in the paper's order.

Algorithm 1 Predict -> `follow_paths`, `score_candidates`, `predict_batch`; Algorithm 2 Train -> `train_tree_row`,
`update_tree`, `update_candidates`, `train_scorers_row`; Algorithm 3 update_router -> `update_router`, and with several
children `update_routers` [RT §6]; Algorithm 4 update_regressors -> `update_regressors`; path features [RT §3.2] ->
`path_score`, `update_path`.

Training has two halves: the tree finds candidates without the scorers, so it may learn some rows ahead of them. Groups
that a model does not use (`path` without path features, `fan` in a binary tree, `entropies` without the printed rule of
Algorithm 3) are None: their code is not compiled.
"""

import math
from typing import Annotated, NamedTuple

import numpy as np

from ..core import linear
from ..core.inputs import Batch
from ..core.labels import (
    EMPTY,
    LabelSet,
    add_label,
    add_mass,
    find,
    first_look,
    key_of,
    mass_of,
    n_log_n_rise,
    place,
    top_labels,
)
from ..core.losses import gradients, log_sum, sigmoid
from ..core.prefetch import prefetch_row
from ..core.state import Array, Candidates, Counts, Field, LabelTable, Linear, Tree
from ..core.trees import DEEPEST, LEFT, RIGHT, ROOT, add_child, add_children, has_children
from ..core.updates import NEGLIGIBLE, Pace, count_prediction, limited, observe_scale, pace
from ..jit import device, inlined, kernel

OFF, BIAS, STOP, CROSSED = 0, 1, 2, 3  # path features

# Rules of the paper that are corrected by default; `Options.rules` is the sum of those that are as printed.
SHARES = 1  # [RT Alg. 3] entropies of the children weighted by their share of n.total
SIGN = 2  # [RT Alg. 3] the sign of the difference
FULL_STEP = 4  # [RT §3.2] a full step for each node of the path
ONE_LIST = 8  # [RT Alg. 4] only the candidates of the training path learn
PRINTED = SHARES | SIGN | FULL_STEP | ONE_LIST

# DIFFERS [RT Alg. 1]: several paths. A path with less than this share (8 %) of the best path's probability is dropped.
MARGIN = 2.5
SHARE = math.exp(-MARGIN)
NO_LABEL = np.int64(-1)  # the label of a row that is only predicted


class Options(NamedTuple):
    """All options that a trained model depends on, as numbers."""

    n_candidates: int  # F; -1: see `wanted_candidates`
    max_depth: int  # D; -1: see `depth_limit`
    arity: int  # children per node
    bernstein: float  # lambda of [RT Eq. 1]; negative: always descend to a leaf
    path_features: int  # OFF, BIAS, STOP or CROSSED
    beam: int  # paths followed at most
    loss: int  # a code of `core.losses`
    update: int  # how the scorers learn: a code of `core.updates`, a rate, and its factor after each epoch
    rate: float
    decay: float
    router_update: int  # the same for the routers
    router_rate: float
    router_decay: float
    table_bits: int  # 2 ** table_bits weights at most for the routers, and as many for the scorers
    rules: int  # which of the rules above are as printed


class Entropies(NamedTuple):
    """Per node: mass times entropy of its labels. Only for SHARES."""

    mass_entropy: Annotated[Array, Field("f8", ("node",), 0)]


class Nodes(NamedTuple):
    """The groups of the tree, which finds the candidates, and of its path features."""

    tree: Tree
    router: Linear
    counts: Counts
    candidates: Candidates
    table: LabelTable
    path: Linear | None  # predictors of (node, label) pairs; None without path features
    entropies: Entropies | None  # None unless SHARES


class Rows(NamedTuple):
    """Rows to learn."""

    batch: Batch
    label: np.ndarray  # (row,) i4
    weight: np.ndarray  # (row,) f8


class Example(NamedTuple):
    """The row that is being learned."""

    batch: Batch
    i: int
    label: np.int64
    weight: float
    sq_norm: float  # squared length of the row


class Fan(NamedTuple):
    """Scratch for the children of one node that has more than two."""

    route: np.ndarray  # (child,) score
    rise: np.ndarray  # (child,) rise of the entropy


class Scratch(NamedTuple):
    """Scratch for one row: the paths it follows, and the labels found so far."""

    node: np.ndarray  # (path,) i8: where each path is
    chance: np.ndarray  # (path,) f8: probability of the path
    moving: np.ndarray  # (path,) bool
    known: LabelSet
    stamp: np.ndarray  # (1,) i8: stamp of the row in `known`
    fan: Fan | None  # None in a binary tree


class Lists(NamedTuple):
    """Candidates of some rows, row after row: those of the prediction, then those that training adds."""

    n_rows: np.ndarray  # (1,) i8
    first: np.ndarray  # (row + 1,) i8: where a row's candidates begin
    predicted: np.ndarray  # (row,) i8: how many belong to the prediction
    label: np.ndarray  # (candidate,) i4
    home: np.ndarray  # (candidate,) i4: the node that it comes from
    score: np.ndarray  # (candidate of one row,) f8
    gradient: np.ndarray  # (candidate of one row,) f8


# -- sizes [RT §2.1, §2.2] and the bound on the recall [RT Eq. 1] --------------------------------------------------


@device
def wanted_candidates(n_labels, options):
    """F: how many labels a node keeps, by default O(log labels)."""
    if options.n_candidates > 0:
        return options.n_candidates
    return 4 * max(1, math.ceil(math.log2(max(1.0, n_labels))))


@device
def depth_limit(n_labels, n_candidates, options):
    """D: the deepest level, by default O(log labels).

    DIFFERS [RT §2.2]: one path needs ceil(log2 labels) as in VW; several paths reach the recall of a shallower tree.
    """
    if options.max_depth >= 0:
        return options.max_depth
    leaves = n_labels if options.beam == 1 else 8.0 * n_labels / n_candidates
    return max(1, math.ceil(math.log2(max(1.0, leaves)) / math.log2(options.arity)))


@device
def deepest_level(tree):
    """The level of the deepest node: predictions descend to it, whatever the limit is now. Cost: O(nodes)."""
    deepest = np.int64(0)
    for node in range(tree.n_nodes[0]):
        deepest = max(deepest, np.int64(tree.depth[node]))
    return deepest


@device
def widest(candidates, options):
    """The most candidates of one example: those of every path, and in training of one more node."""
    return (options.beam + 1) * candidates.label.shape[1]


@device
def recall_bound(covered, total, bernstein):
    """Lower bound on the recall of candidates that cover a part of the total mass [RT Eq. 1]. Cost: O(1).

    DIFFERS [RT Eq. 1]: clipped at 0, and 0 for a node without rows, where the formula is undefined.
    """
    if total <= 0.0:
        return 0.0
    r = min(1.0, covered / total)
    return max(0.0, r - math.sqrt(bernstein * r * (1.0 - r) / total) - bernstein / total)


@device
def stops(counts, node, child, options):
    """Whether the descent ends at node instead of going on to child [RT Alg. 1 l.5]."""
    return options.bernstein >= 0.0 and counts.bound[node] > counts.bound[child]


# -- Algorithm 1: Predict ------------------------------------------------------------------------------------------


@inlined
def score_children(nodes, node, batch, i, options, fan):
    """Scores of all children of a node that has more than two; return the best [RT §6].

    Mutates: fan. Cost: O(arity x non-zeros).
    """
    first = np.int64(nodes.tree.children[node, 0])
    best = np.int64(0)
    for c in range(options.arity):
        fan.route[c] = linear.score(nodes.router, first + c, batch, i)
        if fan.route[c] > fan.route[best]:
            best = np.int64(c)
    return best


@inlined
def prefetch_for_training(nodes, node, label):
    """Prefetch what `update_tree` will need of a node and its children."""
    router, table = nodes.router, nodes.table
    prefetch_row(nodes.candidates.label, node)
    prefetch_row(nodes.candidates.mass, node)
    prefetch_row(router.grad_sq, node if router.mask[0] == 0 and router.grad_sq.shape[0] > 1 else ROOT)
    for side in range(2):
        at = first_look(table.key, key_of(np.int64(nodes.tree.children[node, side]), label))
        prefetch_row(table.key, at)
        prefetch_row(table.mass, at)


@inlined
def follow_paths(nodes, batch, i, label, options, scratch, fan):
    """Descend on the best `beam` paths [RT Alg. 1 l.3-10]; return (number of paths, routers scored).

    `label` is NO_LABEL unless the row will be learned. Mutates: scratch, fan. Cost: O(beam x depth x non-zeros).
    """
    tree, router, counts = nodes.tree, nodes.router, nodes.counts
    where, chance, moving = scratch.node, scratch.chance, scratch.moving
    where[0], chance[0], moving[0] = ROOT, 1.0, True
    n_paths, n_scored, any_moved = np.int64(1), np.int64(0), True
    while any_moved:  # [RT Alg. 1 l.3]
        any_moved = False
        for p in range(n_paths):
            if not moving[p]:
                continue
            node = where[p]
            moving[p] = has_children(tree, node)
            if not moving[p]:
                continue
            if fan is not None:
                best = score_children(nodes, node, batch, i, options, fan)
                n_scored += options.arity
                child = np.int64(tree.children[node, best])
                moving[p] = not stops(counts, node, child, options)
                if moving[p] and options.beam > 1:
                    top, total = fan.route[best], 0.0
                    for c in range(options.arity):
                        total += math.exp(fan.route[c] - top)
                    chance[p] /= total
                    for c in range(options.arity):
                        if c != best and top - fan.route[c] < MARGIN:
                            where[n_paths], moving[n_paths] = tree.children[node, c], True
                            chance[n_paths] = chance[p] * math.exp(fan.route[c] - top)
                            n_paths += 1
            else:
                linear.ask_for(router, max(ROOT, np.int64(tree.children[node, LEFT])))
                linear.ask_for(router, max(ROOT, np.int64(tree.children[node, RIGHT])))
                if label >= 0:
                    prefetch_for_training(nodes, node, label)
                route = linear.score(router, node, batch, i)
                n_scored += 1
                side = LEFT if route > 0.0 else RIGHT  # [RT Alg. 1 l.4]
                child, other = np.int64(tree.children[node, side]), np.int64(tree.children[node, 1 - side])
                moving[p] = child >= 0 and not stops(counts, node, child, options)  # [RT Alg. 1 l.5]
                if moving[p] and options.beam > 1:
                    odds = math.exp(-abs(route))
                    chance[p] /= 1.0 + odds
                    if other >= 0 and odds > SHARE:  # otherwise keep_best would drop it
                        where[n_paths], moving[n_paths] = other, True
                        chance[n_paths] = chance[p] * odds
                        n_paths += 1
            if moving[p]:
                where[p] = child  # [RT Alg. 1 l.8]
                any_moved = True
        if n_paths > 1:
            n_paths = keep_best(scratch, n_paths, options)
    return n_paths, n_scored


@inlined
def keep_best(scratch, n_paths, options):
    """Sort the paths by probability and keep the best `beam` with at least SHARE of the best one's; return how many.

    Mutates: scratch. Cost: O(beam^2).
    """
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


@inlined
def add_candidates(candidates, node, end, scratch, lists):
    """Append the candidates of a node that are not in the list yet; return its new end. Mutates: scratch, lists."""
    for s in range(candidates.size[node]):
        label = np.int64(candidates.label[node, s])
        if add_label(scratch.known, label, scratch.stamp[0]):
            lists.label[end], lists.home[end] = label, node
            end += 1
    return end


@inlined
def gather_candidates(candidates, n_paths, begin, scratch, lists):
    """List the candidates of all paths, each once, from `begin` on; return their end. Mutates: scratch, lists."""
    scratch.stamp[0] += 1
    end = begin
    for p in range(n_paths):
        end = add_candidates(candidates, scratch.node[p], end, scratch, lists)
    return end


@inlined
def score_candidates(nodes, scorer, batch, i, begin, end, options, lists):
    """Score the candidates begin..end-1 of the lists [RT Alg. 1 l.11]. Mutates: lists.

    Cost: O(candidates x non-zeros).
    """
    linear.score_rows(scorer, lists.label[begin:end], np.int64(0), end - begin, batch, i, lists.score)
    for c in range(end - begin):
        lists.score[c] += path_score(nodes, nodes.path, begin + c, batch, i, options, lists)


@inlined
def path_score(nodes, path, c, batch, i, options, lists):
    """What the path features add to the score of candidate c [RT §3.2].

    Each (node, label) pair on the path has a predictor in `path`: a bias, or weights too. The root is on every path
    and says nothing. DIFFERS [RT Alg. 1 l.9]: routers never see path features, as in VW; with STOP and CROSSED the
    pairs have weights, as in VW's best runs.
    """
    total = 0.0
    if path is not None:
        tree, table = nodes.tree, nodes.table
        label, node = np.int64(lists.label[c]), np.int64(lists.home[c])
        while node > 0:
            row = np.int64(table.path_row[find(table, node, label)])
            if row >= 0:
                total += path.bias[row] if options.path_features == BIAS else linear.score(path, row, batch, i)
            node = np.int64(tree.parent[node]) if options.path_features != STOP else ROOT
    return total


@inlined
def find_and_score(nodes, scorer, batch, i, options, scratch, lists):
    """Find and score the candidates of a row [RT Alg. 1]; return (paths, routers scored, candidates).

    Mutates: scratch, lists. Cost: O((beam x depth + candidates) x non-zeros).
    """
    n_paths, n_routers = follow_paths(nodes, batch, i, NO_LABEL, options, scratch, scratch.fan)
    n = gather_candidates(nodes.candidates, n_paths, np.int64(0), scratch, lists)
    score_candidates(nodes, scorer, batch, i, np.int64(0), n, options, lists)
    return n_paths, n_routers, n


@inlined
def count_work(tree, n_paths, n_routers, n_candidates, options, scratch, work):
    """Depth, nodes visited, routers scored and candidates scored of a row. Mutates: work. Cost: O(beam)."""
    visited = n_routers if options.arity == 2 else n_routers // options.arity
    for p in range(n_paths):  # the routers of leaves were not scored
        visited += 0 if has_children(tree, scratch.node[p]) else 1
    work[0], work[1], work[2], work[3] = tree.depth[scratch.node[0]], visited, n_routers, n_candidates


@kernel
def predict_batch(nodes, scorer, batch, n_classes, options, scratch, lists, out):
    """The best labels of all rows with their scores and work [RT Alg. 1]. Mutates: out."""
    for r in range(out.labels.shape[0]):
        n_paths, n_routers, n = find_and_score(nodes, scorer, batch, r, options, scratch, lists)
        top_labels(
            nodes.tree, nodes.candidates, scratch.node[0], n_classes, lists.label, lists.score, n, scratch.stamp[0],
            out.labels[r], out.scores[r], scratch.known,
        )  # fmt: skip
        count_work(nodes.tree, n_paths, n_routers, n, options, scratch, out.work[r])


@kernel
def predict_held(held, batch):
    """As predict_batch, for single rows: all arguments but the batch are held. Mutates: held."""
    nodes, scorer, n_classes, options, scratch, lists, out = held.args
    predict_batch(nodes, scorer, batch, n_classes, options, scratch, lists, out)


@kernel
def candidates_batch(nodes, scorer, batch, options, scratch, lists, found):
    """All candidates of all rows with their scores. Mutates: found = (labels, scores, sizes)."""
    labels, scores, sizes = found
    for r in range(sizes.shape[0]):
        _, _, n = find_and_score(nodes, scorer, batch, r, options, scratch, lists)
        sizes[r] = n
        for c in range(n):
            labels[r, c], scores[r, c] = lists.label[c], lists.score[c]


@kernel
def paths_batch(nodes, batch, options, scratch, out):
    """The nodes on the paths of all rows, from stop to root, path after path; the rest stays -1. Mutates: out."""
    for r in range(out.shape[0]):
        n_paths, _ = follow_paths(nodes, batch, r, NO_LABEL, options, scratch, scratch.fan)
        at = np.int64(0)
        for p in range(n_paths):
            node = scratch.node[p]
            while node >= 0:
                out[r, at] = node
                at += 1
                node = np.int64(nodes.tree.parent[node])


# -- Algorithm 2: Train --------------------------------------------------------------------------------------------


@inlined
def train_tree_row(nodes, scale, seen, example, options, scratch, lists, r):
    """The tree's half of learning a row [RT Alg. 2]: write its candidates to row r of the lists.

    Mutates: nodes, seen, scratch, lists. Cost: O(beam x depth x (non-zeros + candidates)).
    """
    batch, i, label = example.batch, example.i, example.label
    # The candidates of the prediction first: progressive validation [RT §4.3] before any update.
    n_paths, _ = follow_paths(nodes, batch, i, label, options, scratch, scratch.fan)
    begin = lists.first[r]
    end = gather_candidates(nodes.candidates, n_paths, begin, scratch, lists)
    lists.predicted[r] = end - begin
    if mass_of(nodes.table, ROOT, label) == 0.0:
        seen.n_labels[0] += 1
    seen.n_rows[0] += 1
    step = pace(options.router_update, options.router_rate, scale, example.sq_norm)
    node, routes = update_tree(nodes, seen.n_labels[0], example, step, scale, options, scratch.fan)
    if not math.isfinite(routes):
        seen.mass[0] = np.nan  # training diverged, see `count_prediction`
    # DIFFERS [RT Alg. 2]: the candidates of the prediction learn too, not only those of the training path: the row
    # meets them when it comes back without its label. With ONE_LIST only those of the training path learn, so that all
    # of them are listed again.
    if options.rules & ONE_LIST:
        scratch.stamp[0] += 1
    lists.first[r + 1] = add_candidates(nodes.candidates, node, end, scratch, lists)


@inlined
def update_tree(nodes, n_labels, example, step, scale, options, fan):
    """Descend with an example, update routers and counts on the way [RT Alg. 2].

    Return the node where it stops and the sum of the scores of the routers, which is finite unless training diverged.
    Mutates: nodes, fan. Cost: O(depth x (non-zeros + candidates)).
    """
    tree = nodes.tree
    limit = depth_limit(n_labels, nodes.candidates.label.shape[1], options)
    node, child, routes = np.int64(-1), ROOT, 0.0
    # DIFFERS [RT Alg. 2]: the root is counted too; printed, its histogram stays empty and Alg. 3 divides by 0.
    while True:
        update_candidates(nodes, nodes.entropies, child, example, options)
        if node >= 0 and stops(nodes.counts, node, child, options):
            break
        node = child
        # Predictions descend as long as there are children, so must training: the limit falls when lists grow.
        if tree.depth[node] >= limit and not has_children(tree, node):
            break
        if fan is not None:
            if not has_children(tree, node):
                add_children(tree, node, options.arity)
            child = update_routers(nodes, node, example, step, scale, options, fan)
            for c in range(options.arity):
                routes += fan.route[c]
        else:
            route = update_router(nodes, nodes.entropies, node, example, step, scale, options)
            routes += route
            side = LEFT if route > 0.0 else RIGHT
            child = np.int64(tree.children[node, side])
            if child < 0:  # DIFFERS [RT §2.2]: nodes are created when first visited
                child = add_child(tree, node, side)
    return node, routes


@inlined
def update_candidates(nodes, entropies, node, example, options):
    """Count the label at node and keep the node's heaviest labels [RT Alg. 2]. Mutates: nodes. Cost: O(candidates)."""
    counts, candidates, table = nodes.counts, nodes.candidates, nodes.table
    at = add_mass(table, node, example.label, example.weight)
    if entropies is not None:
        rise = entropy_rise(counts, node, table.mass[at] - example.weight, example.weight)
        entropies.mass_entropy[node] += rise
    counts.total[node] += example.weight
    place(candidates, node, example.label, table.mass[at])
    if options.bernstein >= 0.0:
        counts.bound[node] = recall_bound(candidates.covered[node], counts.total[node], options.bernstein)


@kernel
def refresh_bounds(counts, candidates, options):
    """Bounds of all nodes after their lists became longer. Mutates: counts. Cost: O(nodes)."""
    for node in range(counts.total.shape[0]):
        counts.bound[node] = recall_bound(candidates.covered[node], counts.total[node], options.bernstein)


@inlined
def train_scorers_row(nodes, scorer, scale, seen, example, options, lists, r):
    """The scorers' half of learning a row [RT Alg. 2, last line], whose candidates are row r of the lists.

    Mutates: nodes, scorer, seen, lists. Cost: O(candidates x non-zeros).
    """
    begin, end = lists.first[r], lists.first[r + 1]
    n, n_predicted, score = end - begin, lists.predicted[r], lists.score
    score_candidates(nodes, scorer, example.batch, example.i, begin, end, options, lists)
    best, truth = np.int64(0), np.int64(-1)
    first = n_predicted if options.rules & ONE_LIST else np.int64(0)  # of those that learn
    for c in range(n):
        if c < n_predicted and score[c] > score[best]:
            best = np.int64(c)
        if c >= first and lists.label[begin + c] == example.label:
            truth = np.int64(c)
    right = n_predicted > 0 and lists.label[begin + best] == example.label
    count_prediction(seen, right, example.weight, score[truth] if truth >= 0 else 0.0)
    if truth >= 0:  # [RT Alg. 4 l.1]
        update_regressors(nodes, scorer, scale, example, options, lists, r, first, truth)


@device
def has_capacity(nodes, path, seen, deepest, options):
    """Whether one more example certainly fits into the tree, whose deepest level is given."""
    tree, candidates, table, n_labels = nodes.tree, nodes.candidates, nodes.table, seen.n_labels[0] + 1
    newborn = 1 if options.arity == 2 else options.arity
    if path is not None:
        if path.n_rows[0] + wanted_path_rows(n_labels, candidates, deepest, options) > path.bias.shape[0]:
            return False
    return (
        wanted_candidates(n_labels, options) <= candidates.label.shape[1]
        and tree.n_nodes[0] + newborn * DEEPEST <= tree.parent.shape[0]
        and 2 * (table.n_entries[0] + DEEPEST + 1) <= table.key.shape[0]
    )


@device
def wanted_path_rows(n_labels, candidates, deepest, options):
    """The most rows of path features that one example can add to a tree whose deepest level is given."""
    limit = depth_limit(n_labels, candidates.label.shape[1], options)
    n_nodes = 1 if options.path_features == STOP else max(limit, deepest)
    return widest(candidates, options) * n_nodes


@kernel
def train_tree(nodes, scale, seen, rows, begin, n_classes, options, scratch, lists):
    """The tree's half of learning the rows from `begin` on, until the lists are full or an array must grow.

    `lists.n_rows` counts the rows learned; `n_classes` is the capacity of the scorers. Mutates: all groups.
    """
    r = np.int64(0)
    lists.first[0], lists.n_rows[0] = 0, 0
    while begin + r < rows.label.shape[0] and r < lists.predicted.shape[0]:
        i = begin + r
        label, weight = np.int64(rows.label[i]), rows.weight[i]
        if weight > 0.0:
            full = lists.first[r] + widest(nodes.candidates, options) > lists.label.shape[0]
            if full or label >= n_classes or not has_capacity(nodes, nodes.path, seen, np.int64(0), options):
                break
            example = Example(rows.batch, i, label, weight, observe_scale(scale, rows.batch, i))
            train_tree_row(nodes, scale, seen, example, options, scratch, lists, r)
        else:
            lists.first[r + 1] = lists.first[r]
        r += 1
        lists.n_rows[0] = r


@kernel
def train_scorers(nodes, scorer, scale, seen, rows, begin, end, options, lists):
    """The scorers' half of learning rows begin..end-1, without path features. Mutates: all groups."""
    for i in range(begin, end):
        if rows.weight[i] > 0.0:
            sq_norm = observe_scale(scale, rows.batch, i)
            example = Example(rows.batch, i, np.int64(rows.label[i]), rows.weight[i], sq_norm)
            train_scorers_row(nodes, scorer, scale, seen, example, options, lists, i - begin)


@kernel
def train_rows(nodes, scorer, scale, seen, rows, begin, options, scratch, lists):
    """Both halves row by row from `begin` on; return the first row not learned because an array must grow.

    For path features, where the scorers read the tree, and for a few wide rows. Mutates: all groups.
    """
    deepest = deepest_level(nodes.tree)
    for i in range(begin, rows.label.shape[0]):
        label, weight = np.int64(rows.label[i]), rows.weight[i]
        if weight <= 0.0:
            continue
        if label >= scorer.bias.shape[0] or not has_capacity(nodes, nodes.path, seen, deepest, options):
            return i
        lists.first[0] = 0
        example = Example(rows.batch, i, label, weight, observe_scale(scale, rows.batch, i))
        train_tree_row(nodes, scale, seen, example, options, scratch, lists, np.int64(0))
        train_scorers_row(nodes, scorer, scale, seen, example, options, lists, np.int64(0))
    return rows.label.shape[0]


# -- Algorithm 3: update_router ------------------------------------------------------------------------------------


@device
def entropy_rise(counts, node, mass, weight):
    """The rise of (mass x entropy) of a node if a label that has `mass` there joins it. Cost: O(1).

    DIFFERS [RT Alg. 3]: the rise itself, as in VW, not the fractions before the row; a missing child has none.
    """
    if node < 0:
        return 0.0
    return n_log_n_rise(counts.total[node], weight) - n_log_n_rise(mass, weight)


@device
def printed_rise(counts, entropies, node, total, mass, weight):
    """The rise of a child's entropy, times its share of the total of its parent, as printed [RT Alg. 3]. Cost: O(1)."""
    if node < 0 or counts.total[node] <= 0.0:
        return 0.0
    own, before = counts.total[node], entropies.mass_entropy[node]
    after = before + entropy_rise(counts, node, mass, weight)
    return own / total * (after / (own + weight) - before / own)


@inlined
def update_router(nodes, entropies, node, example, step, scale, options):
    """Update a node's router towards the side where the label raises the entropy less [RT Alg. 3]; return its score.

    Mutates: nodes. Cost: O(non-zeros).
    """
    tree, router, counts, table = nodes.tree, nodes.router, nodes.counts, nodes.table
    label, weight = example.label, example.weight
    left, right = np.int64(tree.children[node, LEFT]), np.int64(tree.children[node, RIGHT])
    # Both look-ups before all arithmetic: they wait for memory together.
    left_mass, right_mass = mass_of(table, left, label), mass_of(table, right, label)
    route = linear.score(router, node, example.batch, example.i)
    if entropies is None:
        advantage = entropy_rise(counts, right, right_mass, weight) - entropy_rise(counts, left, left_mass, weight)
        least = weight
    else:
        total = counts.total[node]
        advantage = printed_rise(counts, entropies, right, total, right_mass, weight)
        advantage -= printed_rise(counts, entropies, left, total, left_mass, weight)
        least = weight / total  # these differences shrink as the node fills
    # DIFFERS [RT Alg. 3]: printed, sign(H_left - H_right) with f > 0 going left would raise the entropy.
    if options.rules & SIGN:
        advantage = -advantage
    if abs(advantage) > 1e-6 * least:  # a rounding error would choose a side for an untrained router
        target = 1.0 if advantage > 0.0 else 0.0
        gradient = abs(advantage) * (sigmoid(route) - target)
        if abs(gradient) >= NEGLIGIBLE * least:
            linear.learn(router, node, example.batch, example.i, gradient, step, scale)
        # A step never turns a score away from its target, so only a score on the wrong side is computed again.
        if (route > 0.0) != (advantage > 0.0):
            route = linear.score(router, node, example.batch, example.i)
    return route


@inlined
def update_routers(nodes, node, example, step, scale, options, fan):
    """Update the children's routers towards the child where the label raises the entropy least; return the best child.

    DIFFERS [RT §6]: the paper plans multiway splits without a rule; this is the rule of Alg. 3 for several children.
    Mutates: nodes, fan. Cost: O(arity x non-zeros).
    """
    router, batch, i, label, weight = nodes.router, example.batch, example.i, example.label, example.weight
    best = score_children(nodes, node, batch, i, options, fan)
    first, arity = np.int64(nodes.tree.children[node, 0]), options.arity
    target, mean = np.int64(0), 0.0
    for c in range(arity):
        fan.rise[c] = entropy_rise(nodes.counts, first + c, mass_of(nodes.table, first + c, label), weight)
        mean += fan.rise[c] / arity
        lower = fan.rise[target] - fan.rise[c]
        # Empty children are all equal: take the one with the highest score.
        if lower > 1e-6 * weight or (lower >= -1e-6 * weight and fan.route[c] > fan.route[target]):
            target = np.int64(c)
    advantage = (mean - fan.rise[target]) * arity / (arity - 1.0)  # over the mean of the others
    if advantage > 1e-6 * weight:
        total = log_sum(fan.route, arity)
        for c in range(arity):
            slope = math.exp(fan.route[c] - total) - (1.0 if c == target else 0.0)
            if abs(advantage * slope) >= NEGLIGIBLE * weight:
                linear.learn(router, first + c, batch, i, advantage * slope, step, scale)
        if best != target:
            best = score_children(nodes, node, batch, i, options, fan)
    return first + best


# -- Algorithm 4: update_regressors --------------------------------------------------------------------------------


@inlined
def update_regressors(nodes, scorer, scale, example, options, lists, r, first, truth):
    """One-against-some step of a row's candidates from number `first` on; number `truth` is right [RT Alg. 4].

    Mutates: nodes, scorer, lists. Cost: O(candidates x non-zeros).
    """
    begin, gradient = lists.first[r] + first, lists.gradient
    n = lists.first[r + 1] - begin
    step = pace(options.update, options.rate, scale, example.sq_norm)
    gradients(lists.score[first:], n, truth - first, options.loss, gradient)
    for c in range(n):
        if abs(gradient[c]) < NEGLIGIBLE:
            continue
        label, slope = np.int64(lists.label[begin + c]), gradient[c] * limited(example.weight, options.update)
        linear.learn(scorer, label, example.batch, example.i, slope, step, scale)
        home = np.int64(lists.home[begin + c])
        update_path(nodes, nodes.path, label, home, example, slope, step, scale, options)


@inlined
def update_path(nodes, path, label, home, example, gradient, step, scale, options):
    """One step of the predictors of the (node, label) pairs on a path [RT §3.2]. Mutates: nodes, path."""
    if path is None:
        return
    tree, table = nodes.tree, nodes.table
    # DIFFERS [RT §3.2]: all nodes of a path together step as far as the scorer, unless FULL_STEP.
    n = 1.0 if options.path_features == STOP or options.rules & FULL_STEP else max(1.0, tree.depth[home])
    share = Pace(step.update, step.step / n, step.size, step.bias_step / n)
    node = home
    while node > 0:
        at = find(table, node, label)
        if table.key[at] != EMPTY:
            row = np.int64(table.path_row[at])
            if row < 0:
                if path.n_rows[0] == path.bias.shape[0]:  # only in a tree deeper than training can make it
                    return
                row = path.n_rows[0]
                path.n_rows[0] += 1
                table.path_row[at] = row
            if options.path_features == BIAS:
                linear.learn_bias(path, row, gradient, share)
            else:
                linear.learn(path, row, example.batch, example.i, gradient, share, scale)
        node = np.int64(tree.parent[node]) if options.path_features != STOP else ROOT
