"""Paths through a Recall Tree [RT Alg. 1 l.3-10]: one as in the paper, or the best few."""

import math
from typing import NamedTuple

import numpy as np

from ..core import linear
from ..core.labels import first_look, key_of
from ..core.prefetch import prefetch_row
from ..core.sets import LabelSet
from ..core.trees import LEFT, RIGHT, ROOT, has_children
from ..jit import device, inlined

# DIFFERS [RT Alg. 1]: several paths. Those below this share of the best path's chance (8 %) are not worth following.
MARGIN = 2.5
SHARE = math.exp(-MARGIN)
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
    known: LabelSet
    stamp: np.ndarray  # (1,) of the example at hand


class Fan(NamedTuple):
    """Room for the children of one node, where there are more than two. Otherwise None is passed, and none of the code
    for them is compiled.
    """

    route: np.ndarray  # (child) score
    rise: np.ndarray  # (child) of the entropy


@device
def stops(counts, node, child, options):
    """Whether the descent ends at node rather than going on to child [RT Alg. 1 l.5]."""
    return options.bernstein >= 0.0 and counts.bound[node] > counts.bound[child]


@inlined
def score_children(tree, router, node, batch, i, options, fan):
    """Scores of all children of a node with more than two; return the best. Mutates: fan. Cost: O(arity)."""
    first = np.int64(tree.children[node, 0])
    best = np.int64(0)
    for c in range(options.arity):
        fan.route[c] = linear.score(router, first + c, batch, i)
        if fan.route[c] > fan.route[best]:
            best = np.int64(c)
    return best


@inlined
def ask_ahead(tree, router, candidates, table, node, label):
    """Ask for what update_tree will need of a node and its children, while the paths are still followed."""
    prefetch_row(candidates.label, node)
    prefetch_row(candidates.mass, node)
    prefetch_row(router.grad_sq, node if router.mask[0] == 0 and router.grad_sq.shape[0] > 1 else ROOT)
    for side in range(2):
        at = first_look(table, key_of(np.int64(tree.children[node, side]), label))
        prefetch_row(table.key, at)
        prefetch_row(table.mass, at)


@inlined
def follow_paths(tree, router, counts, candidates, table, batch, i, label, options, scratch, fan):
    """Descend with the best `beam` paths [RT Alg. 1 l.3-10]; return (paths, routers scored).

    In training, `label` says what will be counted on the way; otherwise it is -1. Mutates: scratch, fan.
    Cost: O(beam x depth x non-zeros).
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
            if fan is not None:
                best = score_children(tree, router, node, batch, i, options, fan)
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
                    ask_ahead(tree, router, candidates, table, node, label)
                route = linear.score(router, node, batch, i)
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


@inlined
def keep_best(scratch, n_paths, options):
    """Sort the paths by chance and keep the best `beam` that have a SHARE of the best's; return how many.

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
