"""The Recall Tree in plain numpy and dicts, one example at a time: the oracle of the kernels.

Written from the paper (Algorithms 1-4, Eq. 1) with the same departures as the package:

- the root is counted too, and the bound is never below 0;
- a router learns the side that raises mass x entropy less (the paper prints the other sign), weighted by the
  difference of the rises, not divided by the node's total;
- routers do not see path features;
- the candidates of the prediction learn besides those of the training path;
- several paths, those within MARGIN of the best; gradients below NEGLIGIBLE are skipped;
- with more than two children, each has a router, all are created together, and they learn by softmax towards
  the child that raises mass x entropy least, weighted by how much less than the mean of the others.
"""

import math

import numpy as np

MARGIN, NEGLIGIBLE, FIRST_SQUARE = 2.5, 1e-3, 0.1


def log_sigmoid(score):
    return -np.logaddexp(0.0, -score)


class Scale:
    """Sizes of the features so far."""

    def __init__(self, n_features):
        self.largest, self.sq_norm, self.normalized, self.n = np.zeros(n_features), 0.0, 0.0, 0

    def observe(self, x):
        self.largest = np.maximum(self.largest, np.abs(x))
        self.n += 1
        self.sq_norm += x @ x
        self.normalized += float(np.sum((x * self.inverse) ** 2))
        self.size = math.sqrt(max(self.sq_norm / self.n, x @ x))

    @property
    def inverse(self):
        return np.divide(1.0, self.largest, out=np.zeros_like(self.largest), where=self.largest > 0)


class Linear:
    """One linear predictor with its step rule: ("sgd" | "adagrad" | "normalized-adagrad", rate)."""

    def __init__(self, n_features):
        self.weight, self.square = np.zeros(n_features + 1), np.zeros(n_features + 1)

    def score(self, x):
        return float(self.weight[:-1] @ x + self.weight[-1])

    def learn(self, x, gradient, rule, scale, only_bias=False):
        name, rate = rule
        unit = np.ones(len(x) + 1)  # what each feature is multiplied with; the bias is the last one
        if name == "sgd":
            unit[:-1] = 1.0 / scale.size if scale.size > 0 else 0.0
        elif name == "normalized-adagrad":
            unit[:-1] = scale.inverse
            rate /= math.sqrt(scale.normalized / scale.n + 1.0)
        slope = gradient * np.append(np.zeros_like(x) if only_bias else x, 1.0) * unit
        if name == "sgd":
            self.weight -= rate * slope * unit
            return
        self.square += slope**2
        self.weight -= rate * slope * unit / np.sqrt(FIRST_SQUARE + self.square)


class Node:
    def __init__(self, number, parent, n_features, arity):
        self.number, self.parent, self.children = number, parent, [None] * arity
        self.depth = 0 if parent is None else parent.depth + 1
        self.router, self.hist, self.best = Linear(n_features), {}, []

    @property
    def total(self):
        return sum(self.hist.values())

    @property
    def mass_entropy(self):
        return mass_entropy(self.hist.values())

    def entropy_with(self, label, weight):
        """(mass x entropy) without and with one more example of label."""
        with_it = {**self.hist, label: self.hist.get(label, 0.0) + weight}
        return mass_entropy(self.hist.values()), mass_entropy(with_it.values())

    def recall_bound(self, bernstein):
        """[Eq. 1]"""
        m = self.total
        r = sum(self.hist[label] for label in self.best) / m
        return max(0.0, r - math.sqrt(max(0.0, bernstein * r * (1 - r) / m)) - bernstein / m)


def mass_entropy(masses):
    """Total mass times Shannon entropy of the shares."""
    masses = np.array([mass for mass in masses if mass > 0])
    return float(-np.sum(masses * np.log(masses / masses.sum()))) if len(masses) else 0.0


class RecallTree:
    def __init__(self, n_features, *, n_candidates, max_depth, bernstein=None, path_features="off", beam=1,
                 loss="softmax", learner=("sgd", 1.0), router=("sgd", 1.0), arity=2, rules=0):  # fmt: skip
        self.rules = rules  # a sum of the four rules as printed: 1 shares, 2 sign, 4 full step, 8 one list
        self.n_features, self.scale = n_features, Scale(n_features)
        self.n_candidates, self.max_depth, self.bernstein, self.beam = n_candidates, max_depth, bernstein, beam
        self.path_features, self.loss, self.learner, self.router = path_features, loss, learner, router
        self.arity = arity
        self.root = Node(0, None, n_features, arity)
        self.nodes, self.scorers, self.own = [self.root], {}, {}
        self.mass = self.wrong_mass = 0.0

    # -- Algorithm 1 -------------------------------------------------------------------------------------------

    def stops(self, node, child):
        return self.bernstein is not None and node.recall_bound(self.bernstein) > child.recall_bound(self.bernstein)

    def paths(self, x):
        """(log chance, stopping node) of the paths followed, best first; with beam 1 it is Algorithm 1."""
        paths, moved = [(0.0, self.root, True)], True
        while moved:
            moved, others = False, []
            for p, (chance, node, moving) in enumerate(paths):
                if self.arity > 2:
                    more = self.go_on(x, chance, node) if moving and any(node.children) else []
                    paths[p], moved = (more[0], True) if more else ((chance, node, False), moved)
                    others += more[1:] if self.beam > 1 else []
                    continue
                route = node.router.score(x) if moving and any(node.children) else 0.0
                child, other = node.children[:: 1 if route > 0 else -1]
                if not moving or child is None or self.stops(node, child):
                    paths[p] = (chance, node, False)
                    continue
                moved = True
                paths[p] = (chance + log_sigmoid(abs(route)), child, True)
                if self.beam > 1 and other is not None:
                    others.append((chance + log_sigmoid(-abs(route)), other, True))
            paths = sorted(paths + others, key=lambda path: -path[0])[: self.beam]
            paths = [path for path in paths if path[0] > paths[0][0] - MARGIN or path is paths[0]]
        return [(chance, node) for chance, node, _ in paths]

    def go_on(self, x, chance, node):
        """The paths to all children of a node with more than two, best first; none where the best is to stop."""
        routes = np.array([child.router.score(x) for child in node.children])
        logs = np.log(softmax(routes))
        order = np.argsort(-routes, kind="stable")
        if self.stops(node, node.children[order[0]]):
            return []
        return [(chance + logs[c], node.children[c], True) for c in order]

    def candidates(self, x):
        """{label: stopping node it came from}, in the order met."""
        met = {}
        for _, node in self.paths(x):
            for label in node.best:
                met.setdefault(label, node)
        return met

    def path_nodes(self, node):
        """The nodes whose features a predictor sees at a stopping node: all but the root [§3.2]."""
        while node.parent is not None and self.path_features != "off":
            yield node
            node = self.root if self.path_features == "stop" else node.parent

    def score(self, x, label, home):
        seen = np.zeros_like(x) if self.path_features == "bias" else x
        extra = [self.own[node.number, label].score(seen) for node in self.path_nodes(home)
                 if (node.number, label) in self.own]  # fmt: skip
        return self.scorer(label).score(x) + sum(extra)

    def scorer(self, label):
        return self.scorers.setdefault(label, Linear(self.n_features))

    def scores(self, x):
        """[(label, score)] of all candidates, best first."""
        scored = [(label, self.score(x, label, home)) for label, home in self.candidates(x).items()]
        return sorted(scored, key=lambda pair: -pair[1])

    # -- Algorithm 2 -------------------------------------------------------------------------------------------

    def learn(self, x, label, weight=1.0):
        if weight <= 0:
            return
        predicted = self.scores(x)
        self.mass += weight
        self.wrong_mass += 0.0 if predicted and predicted[0][0] == label else weight
        self.scale.observe(x)
        met = self.candidates(x)
        scored = {known: self.score(x, known, home) for known, home in met.items()}
        stop = self.descend(x, label, weight)
        if self.rules & 8:
            met, scored = {}, {}
        for other in stop.best:
            if other not in met:
                met[other] = stop
                scored[other] = self.score(x, other, stop)
        if label in met:
            self.update_scorers(x, label, weight, met, scored)

    def descend(self, x, label, weight):
        node = self.root
        self.count(node, label, weight)
        while node.depth < self.max_depth:
            if self.arity > 2:
                for side in range(self.arity):
                    self.bear(node, side)
                self.update_routers(x, label, weight, node)
                side = int(np.argmax([child.router.score(x) for child in node.children]))
            else:
                self.update_router(x, label, weight, node)
                side = 0 if node.router.score(x) > 0 else 1
                self.bear(node, side)
            child = node.children[side]
            self.count(child, label, weight)
            if self.stops(node, child):
                break
            node = child
        return node

    def bear(self, node, side):
        if node.children[side] is None:
            node.children[side] = Node(len(self.nodes), node, self.n_features, self.arity)
            self.nodes.append(node.children[side])

    def count(self, node, label, weight):
        node.hist[label] = node.hist.get(label, 0.0) + weight
        node.best = sorted(node.hist, key=lambda known: -node.hist[known])[: self.n_candidates]

    # -- Algorithm 3 -------------------------------------------------------------------------------------------

    def update_router(self, x, label, weight, node):
        rise = [0.0, 0.0]
        for side, child in enumerate(node.children):
            if child is not None:
                without, with_it = child.entropy_with(label, weight)
                rise[side] = with_it - without
                if self.rules & 1:
                    rise[side] = child.total / node.total * (with_it / (child.total + weight) - without / child.total)
        advantage = (rise[1] - rise[0]) * (-1 if self.rules & 2 else 1)
        least = weight / node.total if self.rules & 1 else weight
        if abs(advantage) > 1e-6 * least:
            chance = math.exp(log_sigmoid(node.router.score(x)))
            gradient = abs(advantage) * (chance - (1.0 if advantage > 0 else 0.0))
            if abs(gradient) >= NEGLIGIBLE * least:
                node.router.learn(x, gradient, self.router, self.scale)

    def update_routers(self, x, label, weight, node):
        rises = np.array([np.diff(child.entropy_with(label, weight))[0] for child in node.children])
        routes = np.array([child.router.score(x) for child in node.children])
        low = np.flatnonzero(rises <= rises.min() + 1e-6 * weight)
        target = low[np.argmax(routes[low])]
        advantage = (rises.mean() - rises[target]) * self.arity / (self.arity - 1)
        if advantage > 1e-6 * weight:
            for c, chance in enumerate(softmax(routes)):
                slope = chance - (c == target)
                if abs(advantage * slope) >= NEGLIGIBLE * weight:
                    node.children[c].router.learn(x, advantage * slope, self.router, self.scale)

    # -- Algorithm 4 -------------------------------------------------------------------------------------------

    def update_scorers(self, x, label, weight, met, scored):
        scores = np.array(list(scored.values()))
        chances = np.exp(log_sigmoid(scores)) if self.loss == "logistic" else softmax(scores)
        for known, chance in zip(met, chances, strict=True):
            gradient = chance - (known == label)
            if abs(gradient) < NEGLIGIBLE:
                continue
            self.scorer(known).learn(x, gradient * weight, self.learner, self.scale)
            nodes = list(self.path_nodes(met[known]))
            # Together they step as far as one.
            share = (self.learner[0], self.learner[1] / (1 if self.rules & 4 else max(1, len(nodes))))
            for node in nodes:
                own = self.own.setdefault((node.number, known), Linear(self.n_features))
                own.learn(x, gradient * weight, share, self.scale, only_bias=self.path_features == "bias")


def softmax(scores):
    chances = np.exp(scores - scores.max())
    return chances / chances.sum()
