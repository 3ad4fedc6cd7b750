"""The LOM tree in plain numpy and dicts, one example at a time: what the kernels must equal.

Written from Algorithm 1 of "Extreme Multi Class Classification" (2013) and from "Logarithmic Time Online Multiclass
Prediction" (2015), with the same departures as the package:

- true running means of margins cut to -1..1, taken before the router's step; the target by the means before the row;
- hinge or logistic loss beside the absolute one; the router's sign before its step, or the target, decides the way;
- a leaf splits when the mass beside its heaviest label is more than split_mass, and its children begin with nothing;
- no swap where the lightest leaf has no grandparent; a recycled node keeps its router, as in VW;
- rules="paper": the order, the targets and the new leaves of Algorithm 1 (2013) as printed;
- an empty leaf predicts as the first node above it that was counted as a leaf.
"""

import math

import numpy as np

from .recall_tree import Linear, Scale


class Node:
    def __init__(self, number, parent, n_features):
        self.number, self.router = number, Linear(n_features)
        self.set(parent)

    def set(self, parent):
        """[LOM SetNode]; the router stays."""
        self.parent, self.children = parent, None
        self.leaf_counts, self.margins = {}, {}
        self.smallest = 0.0

    def count(self, label, weight):
        """A label at a leaf."""
        order = list(self.leaf_counts)
        self.leaf_counts[label] = self.leaf_counts.get(label, 0.0) + weight
        if label not in order:
            order.append(label)
        at = order.index(label)
        while at > 0 and self.leaf_counts[order[at - 1]] < self.leaf_counts[label]:
            order[at - 1], order[at] = order[at], order[at - 1]
            at -= 1
        self.leaf_counts = {known: self.leaf_counts[known] for known in order}

    def mean(self, label=None):
        """Mean margin of a label, or of all."""
        own = [pair for known, pairs in self.margins.items() if label in (None, known) for pair in pairs]
        return sum(m * w for m, w in own) / sum(w for _, w in own) if own else 0.0


class LomTree:
    def __init__(self, n_features, *, swap, swap_resistance, nodes_per_class, split_mass, max_depth, descent, loss,
                 learner, rules="corrected"):  # fmt: skip
        self.printed = rules == "paper"
        self.n_features, self.scale, self.learner, self.loss = n_features, Scale(n_features), learner, loss
        self.swap, self.swap_resistance, self.nodes_per_class = swap, swap_resistance, nodes_per_class
        self.split_mass, self.max_depth, self.descent = split_mass, max_depth, descent
        self.root = Node(0, None, n_features)
        self.nodes, self.labels, self.n_swaps = [self.root], set(), 0
        if self.printed:
            self.root.router.weight[-1] = -0.5  # targets 0 and 1 with a threshold at 1/2
        self.mass = self.wrong_mass = 0.0
        self.close_calls = 0  # decisions that rounding could turn

    def leaf(self, x):
        node, depth = self.root, 0
        while node.children:
            route = node.router.score(x)
            self.close_calls += abs(route) < 1e-4 and route != 0.0
            node, depth = node.children[1 if route > 0 else 0], depth + 1
        return node, depth

    def shares(self, x):
        """[(label, log share)] of the leaf, best first."""
        node, _ = self.leaf(x)
        while not node.leaf_counts and node.parent:
            node = node.parent
        total = sum(node.leaf_counts.values())
        return [(label, math.log(mass / total)) for label, mass in node.leaf_counts.items()]

    def learn(self, x, label, weight=1.0):
        if weight <= 0:
            return
        predicted = self.shares(x)
        self.mass += weight
        self.wrong_mass += 0.0 if predicted and predicted[0][0] == label else weight
        self.labels.add(label)
        self.scale.observe(x)
        node, depth = self.root, 0
        while node.children or self.at_leaf(node, depth, x, label, weight):
            side = self.update_router(node, x, label, weight)
            node, depth = node.children[side], depth + 1

    def at_leaf(self, node, depth, x, label, weight):
        """Count the label; whether the leaf has become an inner node that the row goes on from."""
        node.count(label, weight)
        if self.may_split(node, depth) and self.split(node):
            if self.printed:  # [OT Alg. 1 l.15-18]
                left, right = node.children
                left.leaf_counts, right.leaf_counts = dict(node.leaf_counts), {label: weight}
                left.router.weight[-1] = right.router.weight[-1] = -0.5
                self.step(node, x, node.router.score(x), 0.5, weight)
            return not self.printed
        node.smallest += weight
        self.update_smallest(node)
        return False

    def update_router(self, node, x, label, weight):
        route = node.router.score(x)
        if self.printed:
            node.margins.setdefault(label, []).append((route, weight))
        gap = node.mean(label) - node.mean()
        self.close_calls += 0 < abs(gap) < 1e-5
        self.close_calls += abs(route) < 1e-4 and route != 0.0
        target = (1.0 if gap > 0 else -1.0) * (0.5 if self.printed else 1.0)
        if not self.printed:
            node.margins.setdefault(label, []).append((float(np.clip(route, -1, 1)), weight))
        self.step(node, x, route, target, weight)
        return 1 if (target if self.descent == "target" else route) > 0 else 0

    def step(self, node, x, route, target, weight):
        gradient = {
            "hinge": -target if route * target < 1 else 0.0,
            "absolute": float(np.sign(route - target)),
            "logistic": 1 / (1 + math.exp(-route)) - (target > 0),
        }[self.loss]
        at_start = self.printed and route == target == -0.5  # exactly equal in any precision
        self.close_calls += self.loss != "logistic" and abs(route - target) < 1e-4 and not at_start
        rule, rate = self.learner
        if rule == "normalized-adagrad":
            rate /= math.sqrt(self.scale.normalized / self.scale.n + 1)
        if gradient:
            node.router.learn(x, gradient * weight, (rule, rate), self.scale)

    # -- growth ------------------------------------------------------------------------------------------------

    def full(self):
        return len(self.nodes) >= 2 * self.nodes_per_class * len(self.labels)

    def may_split(self, node, depth):
        beside = sum(node.leaf_counts.values()) - max(node.leaf_counts.values())
        self.close_calls += beside != 0 and abs(beside - self.split_mass) < 1e-9
        if len(node.leaf_counts) < 2 or beside <= self.split_mass or depth >= self.max_depth:
            return False
        return not self.full() or (self.swap and beside > self.swap_resistance * (self.root.smallest + 1))

    def split(self, node):
        if not self.full():
            new = [Node(len(self.nodes) + side, node, self.n_features) for side in (0, 1)]
            self.nodes += new
        else:
            orphan = self.root
            while orphan.children:
                left, right = orphan.children
                orphan = left if left.smallest == orphan.smallest else right
            parent = orphan.parent
            if orphan is node or parent is None or parent.parent is None:
                return False
            self.n_swaps += 1
            sibling = parent.children[1 if parent.children[0] is orphan else 0]
            above = parent.parent
            above.children[above.children.index(parent)] = sibling
            sibling.parent = above
            self.update_smallest(sibling)
            new = [orphan, parent]
            for one in new:
                one.set(node)
        node.children = new
        for one in new:
            one.smallest = sum(node.leaf_counts.values()) / 2
        self.update_smallest(new[0])
        return True

    def update_smallest(self, node):
        while node.parent:
            node = node.parent
            node.smallest = min(child.smallest for child in node.children)
