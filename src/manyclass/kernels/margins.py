"""Means of margins, by which the online trees choose a side for each label, and the routers' step towards it.

A margin is a router's score of a row, cut to -1..1. `nodes` keeps sums over all labels of a node, `table` over one label
of a node; both are divided by the mass that was summed.
"""

import numpy as np

from . import banks
from .jit import leaf
from .losses import sigmoid
from .trees import LEFT, RIGHT

HINGE, ABSOLUTE, LOGISTIC = 0, 1, 2
ROUTER_LOSSES = {"hinge": HINGE, "absolute": ABSOLUTE, "logistic": LOGISTIC}


@leaf
def mean(total, mass):
    """The mean, and 0 of nothing. Cost: O(1).

    DIFFERS [OT Alg. 1 l.6-7]: sums, divided once; printed, the running means are divided twice and vanish.
    """
    return total / mass if mass > 0.0 else 0.0


@leaf
def note_margin(nodes, table, node, at, margin, weight):
    """Take a margin into the means of a node and of one of its labels. Mutates: nodes, table. Cost: O(1).

    DIFFERS [OT Alg. 1 l.6-7]: cut to -1..1, the range of the targets, as VW does; a few rows far out moved the means.
    """
    cut = min(1.0, max(-1.0, margin)) * weight
    table.margin[at] += cut
    table.taught[at] += weight
    nodes.margin[node] += cut
    nodes.taught[node] += weight


@leaf
def slope(loss, route, target):
    """Derivative of the loss in the route; the target is -1 or 1. Cost: O(1)."""
    if loss == LOGISTIC:
        return sigmoid(route) - (1.0 if target > 0.0 else 0.0)
    if loss == ABSOLUTE:
        return 1.0 if route > target else (-1.0 if route < target else 0.0)
    return -target if route * target < 1.0 else 0.0


@leaf
def teach(router, node, batch, i, route, target, weight, step, scale, loss):
    """One step of a node's router towards its target; return the route afterwards [OT Alg. 1 l.12].

    Mutates: router. Cost: O(non-zeros).
    """
    gradient = slope(loss, route, target)
    if gradient == 0.0:
        return route
    banks.learn(router, node, batch, i, gradient * weight, step, scale)
    # Only a route that may have come over to its target is scored again.
    if loss != ABSOLUTE and (route > 0.0) == (target > 0.0):
        return route
    return banks.score(router, node, batch, i)


@leaf
def side_of(route):
    """Which child a route leads to [OT Alg. 1 l.13]. Cost: O(1)."""
    return np.int64(RIGHT) if route > 0.0 else np.int64(LEFT)
