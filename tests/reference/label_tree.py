"""The label tree in plain numpy, with dense weights: what the kernels must equal.

Rows are already scaled. A node's outputs are its children, or its labels if it is a leaf; output c of a node scores

    bias[c] + x . weight[:, c] + start * cosine of x and total[:, c]

(x of any length: the cosine is not divided by it), where total[:, c] is the sum of the rows that belong to output c.
"""

import numpy as np

SMALLEST_GRADIENT = 0.01
LONGEST_STEP = 4.0  # times the rate, however much a row weighs
REST = 3  # epochs in which a row that took no step is left out
TOLERANCE = 0.02  # an epoch that changes less than this share of the first is the last
SORTED = 1e-3  # a run of one label less likely than this is no chance


def log_sigmoid(scores):
    return -np.logaddexp(0.0, -scores)


def log_sum(scores):
    return np.logaddexp.reduce(scores)


def log_probabilities(scores, loss):
    """Log-probabilities of outputs."""
    return scores - log_sum(scores) if loss == "softmax" else log_sigmoid(scores)


def directions(total):
    """Columns of length 1; zeros stay."""
    lengths = np.linalg.norm(total, axis=0)
    return np.divide(total, lengths, out=np.zeros_like(total), where=lengths > 0)


def row_scale(x, normalize, n_rows=0.0, sq_norm=0.0):
    """What a row is multiplied with: 1 / its length, or 1 / the typical length (a quarter of its own at least)."""
    size = x @ x
    if not normalize and n_rows > 0:
        size = max(sq_norm / n_rows, size / 16.0)
    return 1.0 / np.sqrt(size) if size > 0 else 0.0


def votes_of(both, of_feature, usual):
    """log(P(output | feature) / P(output)), every feature assumed to have seen the usual outputs once."""
    return np.log((both + usual) / ((of_feature + 1.0) * usual))


def left_out(X, true, weights, start, votes):
    """What the start scores of each row lose if the row is not in the sums of its outputs."""
    total, out = X.T @ (weights[:, None] * true), np.zeros(true.shape)
    mass, (rows, columns) = np.abs(total), np.nonzero(true)
    usual = np.maximum(mass.sum(axis=0) / max(mass.sum(), 1e-30), 1e-6)
    for r in set(rows.tolist()):
        own = np.abs(X[r]) * weights[r]
        both = np.maximum(mass - np.outer(own, true[r]), 0.0)
        rest = np.maximum(mass.sum(axis=1) - own, 0.0)[:, None]
        out[r] = votes * X[r] @ (votes_of(both, rest, usual) - votes_of(mass, mass.sum(axis=1)[:, None], usual))
    for r, c in zip(rows, columns, strict=True):
        rest = total[:, c] - weights[r] * X[r]
        if rest @ rest > 1e-6 * (total[:, c] @ total[:, c]):
            out[r, c] += start * (X[r] @ rest) / np.linalg.norm(rest)
        out[r, c] -= start * (X[r] @ directions(total)[:, c])
    return out


def train_node(X, true, weights, orders, *, start, C, margin, bias_rate, bias, votes=0.0):
    """All epochs of one node in batch: dual coordinate ascent from the mean directions. `margin`: 0 for the log loss.

    `true` is (row, output) of zeros and ones, `orders` the rows in the order of each epoch, `votes` the weight of what
    single features add to the start. Returns (weights, biases).
    """
    total = X.T @ (weights[:, None] * true)
    offset, mass = left_out(X, true, weights, start, votes), np.abs(total)
    usual = np.maximum(mass.sum(axis=0) / max(mass.sum(), 1e-30), 1e-6)
    weight = start * directions(total) + votes * votes_of(mass, mass.sum(axis=1)[:, None], usual)
    bias, dual, most, due = np.array(bias, float), np.zeros(true.shape), 0.0, np.zeros(len(X), int)
    for epoch, order in enumerate(orders):
        changed = 0.0
        for r in order[(weights[order] > 0) & (due[order] <= epoch)]:
            due[r] = epoch + 1 + REST
            side, score = 2 * true[r] - 1, bias + X[r] @ weight + offset[r]
            share = 1 / (1 + (2 if margin else 0.25) * C * weights[r] * (X[r] @ X[r] + bias_rate))
            if margin:
                best = np.maximum(0, side * dual[r] + share * (2 * (margin - side * score) - side * dual[r]))
                step = error = dual[r] - side * best
            else:
                error = np.exp(log_sigmoid(score)) - true[r] + dual[r]
                step = share * error
            if np.abs(error).max() > SMALLEST_GRADIENT:
                dual[r] -= step
                weight -= C * weights[r] * np.outer(X[r], step)
                bias -= C * weights[r] * bias_rate * step
                changed += np.abs(step).sum()
                due[r] = 0
        most = max(most, changed)
        if changed <= TOLERANCE * most:
            break
    return weight, bias


class Node:
    """Outputs with their weights (feature, output); `parent` and `place` say which output of which node it is."""

    def __init__(self, outputs, is_leaf, parent, place, weight, total, bias):
        self.outputs, self.is_leaf, self.parent, self.place = outputs, is_leaf, parent, place
        self.weight, self.total, self.bias = weight, total, bias

    def scores(self, x, start):
        return self.bias + x @ self.weight + start * (x @ directions(self.total))

    def learn(self, x, gradient, rate, bias_rate):
        if np.abs(gradient).max() > SMALLEST_GRADIENT:
            self.weight -= rate * np.outer(x, gradient)
            self.bias -= rate * bias_rate * gradient


class LabelTree:
    """Nodes, the first of which is the root."""

    def __init__(self, nodes, mass, run, *, beam, loss, prior, start, router_start, rate, bias_rate):
        self.nodes, self.beam, self.loss, self.prior = nodes, beam, loss, prior
        self.mass, self.run = dict(mass), list(run)  # of each label; the label that came last, and how often in a row
        self.start, self.router_start, self.rate, self.bias_rate = start, router_start, rate, bias_rate
        self.leaf_of = {label: n for n, node in enumerate(nodes) if node.is_leaf for label in node.outputs}

    def leaves(self, x):
        """[(leaf, log-probability of its path)] of the best paths, best first."""
        paths = [(0, 0.0)]
        while any(not self.nodes[n].is_leaf for n, _ in paths):
            below = []
            for n, chance in paths:
                node = self.nodes[n]
                if node.is_leaf:
                    below.append((n, chance))
                else:
                    chances = chance + log_probabilities(node.scores(x, self.router_start), self.loss)
                    below += zip(node.outputs, chances, strict=True)
            paths = sorted(below, key=lambda path: -path[1])[: self.beam]
        return paths

    def predict(self, x):
        """[(label, score)] of all labels reached, best first."""
        scored = []
        for n, chance in self.leaves(x):
            scores = self.nodes[n].scores(x, self.start)
            scores = scores if self.loss == "softmax" else log_sigmoid(scores)
            scored += zip(self.nodes[n].outputs, scores + self.prior * chance, strict=True)
        return sorted(scored, key=lambda pair: -pair[1])

    def ancestors(self, label):
        """[(node, output that leads to the label)] from the leaf up to the root."""
        n, place, found = self.leaf_of[label], None, []
        place = self.nodes[n].outputs.index(label)
        while n >= 0:
            found.append((n, place))
            n, place = self.nodes[n].parent, self.nodes[n].place
        return found

    def takes_step(self, labels):
        """Not on a label's first row, nor in a run of one label too long for shuffled rows."""
        label = labels[0] if len(labels) == 1 else -1
        self.run = [label, self.run[1] + 1 if label >= 0 and label == self.run[0] else 1]
        share = self.mass.get(label, 0.0) / max(sum(self.mass.values()), 1e-300)
        return label < 0 or (share > 0 and share ** (self.run[1] - 1) >= SORTED)

    def learn(self, x, labels, weight):
        """One online step with known labels: the leaves reached and the true ones, then the routers above these."""
        if weight <= 0:
            return
        rate = self.rate * min(weight, LONGEST_STEP) if self.takes_step(labels) else 0.0
        true = {(n, place) for label in labels for n, place in self.ancestors(label)}
        reached = [n for n, _ in self.leaves(x)]
        leaves = list(dict.fromkeys(reached + [self.leaf_of[label] for label in labels]))
        routers = {n for n, _ in true if not self.nodes[n].is_leaf} | ({0} - {n for n in leaves})
        scores = {n: self.nodes[n].scores(x, self.start) for n in leaves}
        scores |= {n: self.nodes[n].scores(x, self.router_start) for n in routers}
        everything = log_sum(np.concatenate([scores[n] for n in leaves]))
        for n, own in scores.items():
            joint = n in leaves and self.loss == "softmax"  # over the labels of all leaves together
            chances = own - everything if joint else log_probabilities(own, self.loss)
            gradient = np.exp(chances) - [(n, c) in true for c in range(len(own))]
            self.nodes[n].learn(x, gradient, rate, self.bias_rate)
        for label in labels:
            self.mass[label] = self.mass.get(label, 0.0) + weight
            for n, place in self.ancestors(label):
                self.nodes[n].total[:, place] += weight * x
