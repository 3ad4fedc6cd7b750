"""Loss values and gradients, chosen by int code because functions as arguments defeat Numba's disk cache."""

import math

from ..jit import device, kernel

SOFTMAX, LOGISTIC = 0, 1
LOSSES = {"softmax": SOFTMAX, "logistic": LOGISTIC}


@device
def sigmoid(score):
    """1 / (1 + exp(-score)) without overflow."""
    if score >= 0.0:
        return 1.0 / (1.0 + math.exp(-score))
    e = math.exp(score)
    return e / (1.0 + e)


@device
def log_sigmoid(score):
    """log(sigmoid(score)) without overflow."""
    if score >= 0.0:
        return -math.log1p(math.exp(-score))
    return score - math.log1p(math.exp(score))


@device
def log_sum(scores, n):
    """log(sum(exp(scores[:n]))). Cost: O(n)."""
    top = scores[0]
    for c in range(1, n):
        top = max(top, scores[c])
    total = 0.0
    for c in range(n):
        total += math.exp(scores[c] - top)
    return top + math.log(total)


@device
def probabilities(scores, n, loss, out):
    """Turn n scores into probabilities that sum to one: softmax, or logistic ones divided by their sum.

    Mutates: out. Cost: O(n).
    """
    total = 0.0
    if loss == SOFTMAX:
        top = scores[0]
        for c in range(1, n):
            if scores[c] > top:
                top = scores[c]
        for c in range(n):
            out[c] = math.exp(scores[c] - top)
            total += out[c]
    else:
        for c in range(n):
            # The floor keeps the order of hopeless candidates and the sum above zero.
            out[c] = max(sigmoid(scores[c]), 1e-30)
            total += out[c]
    for c in range(n):
        out[c] /= total


@device
def gradients(scores, n, truth, loss, out):
    """Gradient of the loss in each of n scores when candidate number `truth` is the right one.

    Mutates: out. Cost: O(n).
    """
    if loss == SOFTMAX:
        probabilities(scores, n, loss, out)
    else:
        for c in range(n):
            out[c] = sigmoid(scores[c])
    out[truth] -= 1.0


@kernel
def probabilities_batch(scores, sizes, loss):
    """Turn the first sizes[r] scores of each row into probabilities, in place. Mutates: scores."""
    for r in range(scores.shape[0]):
        if sizes[r] > 0:
            probabilities(scores[r], sizes[r], loss, scores[r])
