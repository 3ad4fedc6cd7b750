"""Means of margins, by which the online trees choose a side for each label, and the routers' step towards it.

A margin is a router's score of a row, cut to -1..1. `nodes` keeps sums over all labels of a node, `table` over one
label of a node; both are divided by the mass that was summed.
"""

import math

import numpy as np

from ..jit import device, inlined
from . import linear
from .labels import fill_up
from .losses import sigmoid
from .trees import LEFT, RIGHT
from .updates import NORMALIZED_ADAGRAD, Pace, pace

HINGE, ABSOLUTE, LOGISTIC = 0, 1, 2
ROUTER_LOSSES = {"hinge": HINGE, "absolute": ABSOLUTE, "logistic": LOGISTIC}


@device
def mean(total, mass):
    """The mean, and 0 of nothing. Cost: O(1).

    DIFFERS [OT Alg. 1 l.6-7]: sums, divided once; printed, the running means are divided twice and vanish.
    """
    return total / mass if mass > 0.0 else 0.0


@device
def note_margin(nodes, table, node, at, margin, weight):
    """Take a margin into the means of a node and of one of its labels. Mutates: nodes, table. Cost: O(1).

    DIFFERS [OT Alg. 1 l.6-7]: cut to -1..1, the range of the targets, as VW does; a few rows far out moved the means.
    DIFFERS [OT Alg. 1 l.14]: counted at the node whose mean it is; printed, after the move to the child.
    """
    cut = min(1.0, max(-1.0, margin)) * weight
    table.margin[at] += cut
    table.taught[at] += weight
    nodes.margin[node] += cut
    nodes.taught[node] += weight


@device
def slope(loss, route, target):
    """Derivative of the loss in the route; the target is -1 or 1. Cost: O(1).

    DIFFERS [OT Alg. 1 l.12]: hinge or logistic loss beside the absolute one; the hinge halves the error on ALOI.
    """
    if loss == LOGISTIC:
        return sigmoid(route) - (1.0 if target > 0.0 else 0.0)
    if loss == ABSOLUTE:
        return 1.0 if route > target else (-1.0 if route < target else 0.0)
    return -target if route * target < 1.0 else 0.0


@device
def router_pace(update, rate, scale, sq_norm):
    """The step of one example for routers that learn alone. Cost: O(1).

    DIFFERS [OT Alg. 1, R]: which regression algorithm is left open there. Normalised AdaGrad is slowed by the number of
    features of full size once more than elsewhere: on dense rows, where all of them move one score together, the
    routers overshot (docs/what_we_tried.md).
    """
    step = pace(update, rate, scale, sq_norm)
    if update == NORMALIZED_ADAGRAD:
        slower = math.sqrt(scale.normalized[0] / scale.n_rows[0] + 1.0)
        return Pace(update, step.step / slower, step.size, step.bias_step / slower)
    return step


@device
def teach(router, node, batch, i, route, target, weight, step, scale, loss):
    """One step of a node's router towards its target [OT Alg. 1 l.12]. Mutates: router. Cost: O(non-zeros)."""
    gradient = slope(loss, route, target)
    if gradient != 0.0:
        linear.learn(router, node, batch, i, gradient * weight, step, scale)


@device
def side_of(route):
    """Which child a route leads to [OT Alg. 1 l.13]. Cost: O(1)."""
    return np.int64(RIGHT) if route > 0.0 else np.int64(LEFT)


@device
def route_target(nodes, table, node, at):
    """1 where the label's mean margin lies above the node's, else -1 [OT Alg. 1 l.8-11]. Cost: O(1).

    DIFFERS [OT Alg. 1 l.6-8]: the means of the rows before, as in LOM; else a label's own margin would choose its side.
    DIFFERS [OT Alg. 1 l.9, 11]: no sets Y_L and Y_R, the means say it; and targets of -1 and 1, as LOM, not 0 and 1.
    DIFFERS [LOM Alg. 1]: equal means go left, as in OT, not right.
    """
    own = mean(table.margin[at], table.taught[at])
    return 1.0 if own > mean(nodes.margin[node], nodes.taught[node]) else -1.0


@device
def speaker(tree, candidates, node):
    """The node that answers at a leaf: itself, or above it the first that was counted as a leaf. Cost: O(depth)."""
    while candidates.size[node] == 0 and tree.parent[node] >= 0:
        node = np.int64(tree.parent[node])
    return node


@device
def answers(tree, candidates, node, label):
    """Whether a leaf answers with label. Cost: O(depth)."""
    node = speaker(tree, candidates, node)
    return candidates.size[node] > 0 and candidates.label[node, 0] == label


@inlined
def answer(tree, candidates, node, n_classes, stamp, labels, scores, known):
    """The heaviest labels of a leaf with the logarithm of their shares, then those above it.

    Mutates: labels, scores, known. Cost: O(answers + depth).
    """
    node = speaker(tree, candidates, node)
    size = min(np.int64(candidates.size[node]), np.int64(labels.shape[0]))
    for s in range(size):
        labels[s] = candidates.label[node, s]
        scores[s] = min(0.0, math.log(candidates.mass[node, s] / candidates.covered[node]))
    if size < labels.shape[0]:
        fill_up(tree, candidates, node, n_classes, stamp, size, labels, scores, known)
