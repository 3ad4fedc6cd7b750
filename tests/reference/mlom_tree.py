"""The MLOM tree in plain numpy and dicts, one example at a time: what the kernels must equal.

Written from Algorithm 1 and §III of "Modified Logarithmic Time Online Multiclass Train and Prediction" (2018), with the
same choices as the package: margins cut to -1..1 and taken before the router's step, the side by the means before the
row, equality goes left; a prediction passes over a child without a class.

With guests, which the paper does not have: a row goes on as a prediction would where a router's sign leads away from
its class, is counted at a leaf, and splits it as in a LOM tree. Children are never deleted then.
"""

import math

import numpy as np

from .recall_tree import Linear, Scale


class Node:
    def __init__(self, parent, router):
        self.parent, self.children, self.router = parent, None, router
        self.active, self.side, self.margins, self.counts = set(), {}, {}, {}

    def mean(self, label=None):
        """Mean margin of a label, or of all rows."""
        pairs = [pair for known, pairs in self.margins.items() if label in (None, known) for pair in pairs]
        return sum(m * w for m, w in pairs) / sum(w for _, w in pairs) if pairs else 0.0

    def centre(self, how):
        means = [self.mean(label) for label in self.active]
        return float(np.median(means) if how == "median" else np.mean(means))


class MlomTree:
    def __init__(self, n_features, *, centre, guests, split_mass, nodes_per_class, max_depth, loss, learner):
        self.scale, self.how, self.max_depth = Scale(n_features), centre, max_depth
        self.guests, self.split_mass, self.nodes_per_class = guests, split_mass, nodes_per_class
        self.loss, self.learner = loss, learner
        self.n_features, self.n_births, self.n_deaths, self.n_visits = n_features, 0, 0, 0
        self.free = []  # routers of deleted nodes: the next node born takes the last one over
        self.root = Node(None, Linear(n_features))
        self.labels = set()
        self.mass = self.wrong_mass = 0.0
        self.close_calls = 0  # decisions that rounding could turn

    def leaf(self, x):
        node, depth = self.root, 0
        while node.children:
            route = node.router.score(x)
            self.close_calls += abs(route) < 1e-4 and route != 0.0
            side = 1 if route > 0 else 0
            if not self.guests and not node.children[side].active:
                side = 1 - side
            node, depth = node.children[side], depth + 1
        return node, depth

    def shares(self, x):
        """{label: share} that a leaf predicts, of the first node above it that was counted at."""
        node, _ = self.leaf(x)
        if not self.guests:
            return {label: 1.0 for label in node.active}
        while not node.counts and node.parent:
            node = node.parent
        total = sum(node.counts.values())
        return {label: mass / total for label, mass in node.counts.items()}

    def learn(self, x, label, weight=1.0):
        if weight <= 0:
            return
        shares = self.shares(x)
        heaviest = [known for known, share in shares.items() if share == max(shares.values())]
        self.close_calls += self.guests and len(heaviest) > 1
        self.mass += weight
        self.wrong_mass += 0.0 if heaviest == [label] else weight
        self.labels.add(label)
        self.scale.observe(x)
        node, depth, astray = self.root, 0, False
        while True:
            node.active.add(label)  # 1: register
            if len(node.active) < 2 or (not node.children and depth >= self.max_depth):
                break
            if not node.children:
                self.bear(node)
            if not astray or label not in node.side:
                gap = node.mean(label) - node.centre(self.how)  # 2: the way
                target = self.target(gap)
                route = node.router.score(x)
                self.close_calls += abs(route) < 1e-4 and route != 0.0
                side = 1 if target > 0 else 0
                if self.guests and not astray and (route > 0) != (target > 0):
                    astray = True
                    self.visit(node.children[1 - side], depth + 1, x, label, weight)
                self.train(node, x, route, target, weight)  # 3
                self.note(node, label, route, weight)  # 4
                if node.side.get(label, side) != side:
                    self.suspend(node.children[1 - side], label)  # 6
                node.side[label] = side
            node, depth = node.children[node.side[label]], depth + 1  # 7
        if self.guests and not astray:
            self.visit(node, depth, x, label, weight)

    def target(self, gap):
        self.close_calls += 0 < abs(gap) < 1e-5
        return 1.0 if gap > 0 else -1.0

    def bear(self, node):
        self.n_births += 1
        node.children = [Node(node, self.free.pop() if self.free else Linear(self.n_features)) for _ in "LR"]

    def note(self, node, label, route, weight):
        node.margins.setdefault(label, []).append((float(np.clip(route, -1, 1)), weight))

    def visit(self, node, depth, x, label, weight):
        """As a guest from here on: where a prediction would go."""
        self.n_visits += 1
        while True:
            if not node.children:
                node.counts[label] = node.counts.get(label, 0.0) + weight
                beside = sum(node.counts.values()) - max(node.counts.values())
                self.close_calls += abs(beside - self.split_mass) < 1e-9
                full = 2 * self.n_births + 1 >= 2 * self.nodes_per_class * len(self.labels)
                if len(node.counts) < 2 or beside <= self.split_mass or depth >= self.max_depth or full:
                    return
                self.bear(node)
            route = node.router.score(x)
            self.close_calls += abs(route) < 1e-4 and route != 0.0
            centre = node.centre(self.how) if len(node.active) > 1 else node.mean()
            target = self.target(node.mean(label) - centre)
            self.note(node, label, route, weight)
            self.train(node, x, route, target, weight)
            node, depth = node.children[1 if route > 0 else 0], depth + 1

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
        if node.children and len(node.active) <= 1:
            if self.guests:
                for last in node.active & set(node.side):
                    node.children[node.side[last]].active.discard(last)
            else:
                assert not any(child.children for child in node.children)
                self.n_deaths += 1
                self.free += [child.router for child in node.children]
                node.children = None
            node.side.clear()
