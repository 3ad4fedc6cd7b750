"""The MLOM tree in plain numpy and dicts, one example at a time: what the kernels must equal.

Written from Algorithm 1 and §III of "Modified Logarithmic Time Online Multiclass Train and Prediction" (2018), with the
same choices as the package: margins cut to -1..1 and taken before the router's step, the side by the means before the
row, equality goes left; an answer passes over a child without a class.
"""

import math

import numpy as np

from .recall_tree import Linear, Scale


class Node:
    def __init__(self, parent, router):
        self.parent, self.children, self.router = parent, None, router
        self.active, self.side, self.margins = set(), {}, {}

    def mean(self, label):
        pairs = self.margins.get(label, [])
        return sum(m * w for m, w in pairs) / sum(w for _, w in pairs) if pairs else 0.0

    def centre(self, how):
        means = [self.mean(label) for label in self.active]
        return float(np.median(means) if how == "median" else np.mean(means))


class MlomTree:
    def __init__(self, n_features, *, centre, max_depth, loss, learner):
        self.scale, self.how, self.max_depth = Scale(n_features), centre, max_depth
        self.loss, self.learner = loss, learner
        self.n_features, self.n_births, self.n_deaths = n_features, 0, 0
        self.free = []  # routers of deleted nodes: the next node born takes the last one over
        self.root = Node(None, Linear(n_features))
        self.mass = self.wrong_mass = 0.0
        self.close_calls = 0  # decisions that rounding could turn

    def leaf(self, x):
        node, depth = self.root, 0
        while node.children:
            route = node.router.score(x)
            self.close_calls += abs(route) < 1e-4 and route != 0.0
            side = 1 if route > 0 else 0
            if not node.children[side].active:
                side = 1 - side
            node, depth = node.children[side], depth + 1
        return node, depth

    def learn(self, x, label, weight=1.0):
        if weight <= 0:
            return
        node, _ = self.leaf(x)
        self.mass += weight
        self.wrong_mass += 0.0 if node.active == {label} else weight
        self.scale.observe(x)
        node, depth = self.root, 0
        while True:
            node.active.add(label)  # 1: register
            if not node.children:
                if len(node.active) < 2 or depth >= self.max_depth:
                    return
                self.n_births += 1
                node.children = [Node(node, self.free.pop() if self.free else Linear(self.n_features)) for _ in "LR"]
            gap = node.mean(label) - node.centre(self.how)  # 2: the way
            self.close_calls += 0 < abs(gap) < 1e-5
            target = 1.0 if gap > 0 else -1.0
            route = node.router.score(x)
            self.train(node, x, route, target, weight)  # 3
            node.margins.setdefault(label, []).append((float(np.clip(route, -1, 1)), weight))  # 4
            side = 1 if target > 0 else 0
            if node.side.get(label, side) != side:
                self.suspend(node.children[1 - side], label)  # 6
            node.side[label] = side
            node, depth = node.children[side], depth + 1  # 7

    def train(self, node, x, route, target, weight):
        gradient = {
            "hinge": -target if route * target < 1 else 0.0,
            "absolute": float(np.sign(route - target)),
            "logistic": 1 / (1 + math.exp(-route)) - (target > 0),
        }[self.loss]
        self.close_calls += self.loss != "logistic" and abs(route - target) < 1e-4
        rule, rate = self.learner
        if rule == "normalized-adagrad":
            rate /= math.sqrt(self.scale.normalized / self.scale.n + 1)
        if gradient:
            node.router.learn(x, gradient * weight, (rule, rate), self.scale)

    def suspend(self, node, label):
        """The three cases; below first."""
        if label not in node.active:
            return
        node.active.discard(label)
        side = node.side.pop(label, None)
        if node.children and side is not None:
            self.suspend(node.children[side], label)
        if node.children and len(node.active) == 1:
            assert not any(child.children for child in node.children)
            self.n_deaths += 1
            self.free += [child.router for child in node.children]
            node.children = None
            node.side.clear()
