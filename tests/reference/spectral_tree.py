"""The spectral tree of 2015 in plain numpy, dense and without shortcuts: the oracle of the kernels' tests."""

import numpy as np
from scipy.special import ndtr


def direction(X, Y, mass):
    """[ST Eq. 2] by full linear algebra: (w, eigenvalue); the hat matrix weighted by mass."""
    mean = mass @ X
    mean = mean / max(np.linalg.norm(mean), 1e-300)
    keep = np.eye(X.shape[1]) - np.outer(mean, mean)
    weighted = mass[:, None] * Y
    hat = Y @ np.linalg.pinv(Y.T @ weighted) @ weighted.T
    X_hat = hat @ X
    values, vectors = np.linalg.eigh(keep @ (X_hat.T @ (mass[:, None] * X_hat)) @ keep)
    return vectors[:, -1], values[-1]


def median(margin, mass):
    """Half of the mass lies above: between the value in the middle and the next larger one."""
    order = np.argsort(margin, kind="stable")
    middle = margin[order][np.cumsum(mass[order]) >= mass.sum() / 2][0]
    return (middle + margin[margin > middle].min()) / 2


def split(X, Y, mass, cutoff):
    """(chance of each row to go right, mass that goes right): fractional routing [ST §3.4] with a cut-off."""
    w, value = direction(X, Y, mass)
    margin = X @ w
    chance = ndtr((margin - median(margin, mass)) / (value / mass.sum()))
    right = mass * chance
    right = np.where(right < cutoff, 0.0, np.where(mass - right < cutoff, mass, right))
    return chance, right


def leaf_labels(Y, mass, k):
    """The k labels of most mass, heaviest first, with their masses."""
    total = mass @ Y
    order = np.argsort(-total, kind="stable")[:k]
    order = order[total[order] > 0]
    return order, total[order]


def learn_shared(W, b, X, truth, candidates, rows, rate, bias_rate, softmax):
    """Plain SGD of one predictor a class on rows of one leaf, in order [ST §3.5]; missed labels join the candidates."""
    for i in rows:
        met = list(candidates) + [y for y in truth[i] if y not in candidates]
        score = W[met] @ X[i] + b[met]
        if softmax:
            p = np.exp(score - score.max())
            gradient = p / p.sum()
        else:
            gradient = 1 / (1 + np.exp(-score))
        gradient = gradient - np.isin(met, truth[i])
        gradient[np.abs(gradient) < 1e-3] = 0.0
        W[met] -= rate * gradient[:, None] * X[i]
        b[met] -= rate * bias_rate * gradient


def leaf_chances(state, x):
    """Leaf -> probability that a row ends there [ST §3.4], in the first tree."""
    tree, routers, out = state["tree"], state["routers"], {}

    def walk(node, chance):
        if tree.children[node, 0] < 0:
            out[node] = chance
            return
        part = slice(routers.first[node], routers.first[node + 1])
        margin = routers.weight[part] @ x[routers.feature[part]] - routers.bias[node]
        right = ndtr(margin / routers.spread[node])
        walk(tree.children[node, 0], chance * (1 - right))
        walk(tree.children[node, 1], chance * right)

    walk(0, 1.0)
    return out


def label_chances(state, x):
    """The largest (probability of a path) x (share of the label in its leaf) of each label."""
    candidates = state["candidates"]
    out = np.zeros(candidates.label.max() + 1)
    for node, chance in leaf_chances(state, x).items():
        labels = candidates.label[node, : candidates.size[node]]
        share = candidates.mass[node, : len(labels)] / state["counts"].total[node]
        out[labels] = np.maximum(out[labels], chance * share)
    return out


def predict(state, options, x):
    """Algorithm 1 with one path: (candidates, scores)."""
    chances = leaf_chances(state, x)  # the path by the signs of the margins need not lead to the likeliest leaf
    node, tree, routers = 0, state["tree"], state["routers"]
    while node not in chances:
        part = slice(routers.first[node], routers.first[node + 1])
        margin = routers.weight[part] @ x[routers.feature[part]] - routers.bias[node]
        node = tree.children[node, int(margin > 0)]
    labels = state["candidates"].label[node, : state["candidates"].size[node]]
    seen = x @ state["projection"].weight if options.rank else x
    score = np.zeros(len(labels))
    if options.shared:
        score += state["scorer"].weight[labels] @ seen + state["scorer"].bias[labels]
    own = state["forest"].own_row[node] + np.arange(len(labels))
    if options.own:
        score += state["own"].bias[own]
    if options.own == 2:
        score += state["own"].weight[own] @ seen
    return labels, score
