"""The way of a row through a spectral tree (2015): routes, their chances, the candidates at their ends [ST ...].

Alg. 1 l.1 F(x) -> gather; the routing probability of §3.4 -> chance_right; randomized routing §3.5 -> random_leaf.
The filter is grown in `models/spectral_filter.py` and never changes here.
"""

import math
from typing import NamedTuple

import numpy as np

from ..core.inputs import feature, first_not_below, span, value
from ..core.labels import LabelSet, add_label
from ..core.rng import uniform
from ..core.trees import DEEPEST, LEFT, RIGHT, is_leaf
from ..jit import device, inlined, kernel

OWN_NOTHING, OWN_BIAS, OWN_WEIGHTS = 0, 1, 2
# DIFFERS [ST §3.4]: several paths. One whose chance is e^-5 of the best one's is not followed.
UNLIKELY = 5.0


class Options(NamedTuple):
    """What a spectral tree was asked to do, as numbers."""

    n_features: int
    n_candidates: int  # of a row, head labels included
    beam: int
    loss: int
    shared: bool  # whether leaves share a predictor a class
    own: int  # what a leaf's candidates have of their own
    randomized: bool
    update: int
    rate: float
    bias_rate: float  # times the step of a weight
    seed: int


class Scratch(NamedTuple):
    """Room for one row: the paths it follows and the candidates it meets."""

    node: np.ndarray  # (2 x tree x beam) where each path stands
    log_chance: np.ndarray  # (2 x tree x beam) of each path; then the weight of a leaf's masses
    leaf: np.ndarray  # (tree x beam) where the paths ended
    leaf_chance: np.ndarray  # (tree x beam) log
    label: np.ndarray  # (candidate)
    own: np.ndarray  # (candidate) row of its own predictor, or -1
    score: np.ndarray  # (candidate)
    own_score: np.ndarray  # (candidate)
    gradient: np.ndarray  # (candidate) f4
    known: LabelSet


@kernel
def make_scratch(forest, candidates, options, n_more):
    """Scratch for one caller whose rows bring up to n_more labels of their own."""
    n_paths = forest.root.shape[0] * options.beam
    width = max(options.n_candidates, candidates.label.shape[1]) + n_more
    n_set = 4
    while n_set < 2 * width:
        n_set *= 2
    return Scratch(
        np.empty(2 * n_paths, np.int64),
        np.empty(2 * n_paths),
        np.empty(n_paths, np.int64),
        np.empty(n_paths),
        np.empty(width, np.int64),
        np.empty(width, np.int64),
        np.empty(width, np.float32),
        np.empty(width, np.float32),
        np.empty(width, np.float32),
        LabelSet(np.empty(n_set, np.int32), np.full(n_set, -1, np.int64)),
    )


# -- routes --------------------------------------------------------------------------------------------------------


@device
def margin(routers, node, batch, i, n_features):
    """How far row i lies on the right side of a router. Cost: O(non-zeros x log features of the node)."""
    first, end = np.int64(routers.first[node]), np.int64(routers.first[node + 1])
    begin, stop = span(batch, i)
    total = np.float32(0.0)
    if end - first == n_features:  # every feature has its place
        for j in range(begin, stop):
            total += routers.weight[first + feature(batch, j)] * value(batch, i, j)
    else:
        at = first
        for j in range(begin, stop):  # a row's features are sorted like the node's: go on from where the last one was
            f = np.int64(feature(batch, j))
            at = first_not_below(routers.feature, at, end, f)
            if at < end and routers.feature[at] == f:
                total += routers.weight[at] * value(batch, i, j)
    return np.float64(total) - routers.bias[node]


@device
def chance_right(routers, node, margin):
    """Probability that a row like this one goes to the right [ST §3.4]."""
    return 0.5 * math.erfc(-margin / (math.sqrt(2.0) * routers.spread[node]))


@inlined
def random_leaf(tree, routers, root, batch, i, counter, options):
    """The leaf at the end of a path drawn by its routing probabilities [ST §3.5]. Cost: O(depth x non-zeros)."""
    node = root
    while not is_leaf(tree, node):
        m = margin(routers, node, batch, i, options.n_features)
        side = RIGHT if m > 0.0 else LEFT
        if options.randomized:
            draw = uniform(options.seed, counter * DEEPEST + tree.depth[node])
            side = RIGHT if draw < chance_right(routers, node, m) else LEFT
        node = np.int64(tree.children[node, side])
    return node


@inlined
def keep_likely(where, log_chance, n, beam):
    """Sort paths by chance, keep the best `beam` of those that are not UNLIKELY; return how many. Cost: O(n^2)."""
    for p in range(1, n):
        node, chance = where[p], log_chance[p]
        q = p
        while q > 0 and log_chance[q - 1] < chance:
            where[q], log_chance[q] = where[q - 1], log_chance[q - 1]
            q -= 1
        where[q], log_chance[q] = node, chance
    kept = np.int64(1)
    while kept < min(n, beam) and log_chance[kept] > log_chance[0] - UNLIKELY:
        kept += 1
    return kept


@inlined
def follow(tree, routers, root, batch, i, options, scratch, n_leaves):
    """The best `beam` paths through one tree, added to the leaves reached: (leaves, routers scored) [ST Alg. 1 l.1].

    DIFFERS [ST §3.4]: the paper follows one, by the margin's sign; so does a beam of 1.
    Mutates: scratch. Cost: O(beam x depth x non-zeros).
    """
    where, log_chance = scratch.node, scratch.log_chance
    where[0], log_chance[0] = root, 0.0
    n, n_scored, moved = np.int64(1), np.int64(0), True
    while moved:
        moved = False
        for p in range(n):
            node = where[p]
            if is_leaf(tree, node):
                continue
            moved = True
            m = margin(routers, node, batch, i, options.n_features)
            n_scored += 1
            side = RIGHT if m > 0.0 else LEFT
            where[p] = tree.children[node, side]
            if options.beam > 1:
                other = chance_right(routers, node, -abs(m))
                if other > 1e-9:
                    where[n], log_chance[n] = tree.children[node, 1 - side], log_chance[p] + math.log(other)
                    n += 1
                log_chance[p] += math.log1p(-other)
        if n > 1:
            n = keep_likely(where, log_chance, n, options.beam)
    for p in range(n):
        scratch.leaf[n_leaves + p], scratch.leaf_chance[n_leaves + p] = where[p], log_chance[p]
    return n_leaves + n, n_scored


# -- candidates ----------------------------------------------------------------------------------------------------


@inlined
def take_leaf(forest, candidates, node, scratch):
    """The candidates of one leaf; return how many. Mutates: scratch. Cost: O(candidates)."""
    n = np.int64(candidates.size[node])
    for s in range(n):
        scratch.label[s] = candidates.label[node, s]
        scratch.own[s] = forest.own_row[node] + s
    return n


@inlined
def merge_leaves(forest, counts, candidates, n_leaves, stamp, options, scratch):
    """The likeliest candidates of several leaves; return how many. Mutates: scratch. Cost: O(candidates x leaves).

    A label is as likely as the best of (chance of the path) x (share of the label in its leaf). The lists are sorted,
    so the best label that is left is always the next of one of them.
    """
    for p in range(n_leaves):
        scratch.node[p] = 0  # how many of a leaf's candidates were looked at
        scratch.log_chance[p] = math.exp(scratch.leaf_chance[p]) / max(counts.total[scratch.leaf[p]], 1e-300)
    n = np.int64(0)
    while n < options.n_candidates:
        likeliest, chosen = -1.0, np.int64(-1)
        for p in range(n_leaves):
            node, at = scratch.leaf[p], scratch.node[p]
            if at < candidates.size[node]:
                chance = scratch.log_chance[p] * candidates.mass[node, at]
                if chance > likeliest:
                    likeliest, chosen = chance, np.int64(p)
        if chosen < 0:
            break
        node, at = scratch.leaf[chosen], scratch.node[chosen]
        scratch.node[chosen] += 1
        label = np.int64(candidates.label[node, at])
        if add_label(scratch.known, label, stamp):
            scratch.label[n] = label
            scratch.own[n] = forest.own_row[node] + at
            n += 1
    return n


@inlined
def gather(tree, routers, forest, counts, candidates, batch, i, stamp, options, scratch):
    """All candidates of row i [ST Alg. 1 l.1]: (leaves, routers scored, candidates). Mutates: scratch."""
    n_leaves, n_scored = np.int64(0), np.int64(0)
    for t in range(forest.root.shape[0]):
        n_leaves, scored = follow(tree, routers, np.int64(forest.root[t]), batch, i, options, scratch, n_leaves)
        n_scored += scored
    if n_leaves == 1:
        return n_leaves, n_scored, take_leaf(forest, candidates, scratch.leaf[0], scratch)
    return n_leaves, n_scored, merge_leaves(forest, counts, candidates, n_leaves, stamp, options, scratch)


@inlined
def choose_leaf(tree, routers, forest, batch, i, counter, options):
    """A leaf for row i to learn at: of one tree, drawn like the path through it."""
    n_trees = forest.root.shape[0]
    which = np.int64(uniform(options.seed + 1, counter) * n_trees)
    return random_leaf(tree, routers, np.int64(forest.root[which]), batch, i, counter, options)


@kernel
def choose_leaves(tree, routers, forest, batch, epoch, options, out):
    """A leaf for each row to learn at in an epoch. Mutates: out. Cost: O(depth x non-zeros) a row."""
    n = np.int64(out.shape[0])
    for i in range(n):
        out[i] = choose_leaf(tree, routers, forest, batch, i, epoch * n + i, options)
