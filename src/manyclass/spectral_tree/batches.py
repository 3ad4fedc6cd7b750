"""The rows of one leaf together [ST §3.5]: the shared weights of its candidates are copied side by side first.

Weights are stored class by class (`core/linear.py`), and a row needs (its features) x (its candidates) of them, each
in another cache line. Rows of one leaf need the same candidates and mostly the same features. So these weights are
copied into a block (feature, candidate), where scores and steps run along whole lines, and copied back afterwards.
"""

from typing import NamedTuple

import numpy as np

from ..core import linear
from ..core.inputs import feature, span, value
from ..core.updates import NEGLIGIBLE, count_prediction, limited
from ..jit import device, inlined, kernel
from .kernels import OWN_BIAS, ZERO, add_truth, make_scratch, step_of, take_gradients
from .node import find_features

ABREAST = 16  # floats of a cache line


class Leaf(NamedTuple):
    """A leaf: its candidates, and the row in `own` of the first of them."""

    label: np.ndarray
    own_row: int


class Block(NamedTuple):
    """Weights of a leaf's candidates, those of a feature side by side."""

    feature: np.ndarray  # (place)
    place: np.ndarray  # (feature)
    weight: np.ndarray  # (place, candidate)
    bias: np.ndarray  # (candidate) shared and own bias together


@device
def fill_block(scorer, labels, block):
    """Copy the weights in, one cache line of candidates at a time. Mutates: block. Cost: O(features x candidates)."""
    mask, n = scorer.mask[0], labels.shape[0]
    for first in range(0, n, ABREAST):
        for p in range(block.feature.shape[0]):
            f = block.feature[p]
            for c in range(first, min(n, first + ABREAST)):
                at = linear.slot(np.int64(labels[c]), f, mask) if mask != 0 else np.int64(f)
                block.weight[p, c] = scorer.weight[labels[c] if mask == 0 else 0, at]


@device
def empty_block(scorer, labels, block, begun):
    """Copy the weights back. Mutates: scorer. Cost: O(features x candidates).

    Hashed weights may share a slot, also with labels outside the block: there, the change since `begun` is added.
    """
    mask, n = scorer.mask[0], labels.shape[0]
    for first in range(0, n, ABREAST):
        for p in range(block.feature.shape[0]):
            f = block.feature[p]
            for c in range(first, min(n, first + ABREAST)):
                if mask == 0:
                    scorer.weight[labels[c], f] = block.weight[p, c]
                else:
                    at = linear.slot(np.int64(labels[c]), f, mask)
                    scorer.weight[0, at] += block.weight[p, c] - begun[p, c]


@inlined
def score_block(block, batch, i, out):
    """Scores of all candidates of the leaf for row i. Mutates: out. Cost: O(non-zeros x candidates)."""
    n = block.bias.shape[0]
    for c in range(n):
        out[c] = block.bias[c]
    begin, stop = span(batch, i)
    for j in range(begin, stop):
        v = value(batch, i, j)
        if v != np.float32(0.0):
            weight = block.weight[block.place[feature(batch, j)]]
            for c in range(n):
                out[c] += v * weight[c]


@inlined
def learn_block(block, batch, i, gradient, step):
    """One step of all candidates against their gradients. Mutates: block. Cost: O(non-zeros x candidates)."""
    n = block.bias.shape[0]
    begin, stop = span(batch, i)
    move = step.step / (step.size * step.size)  # in float64: too large for float32 if rows are short
    for j in range(begin, stop):
        v = value(batch, i, j)
        if v != np.float32(0.0):
            v = np.float32(np.float64(v) * move)
            weight = block.weight[block.place[feature(batch, j)]]
            for c in range(n):
                weight[c] -= v * gradient[c]


@inlined
def learn_leaf_rows(classifier, scale, seen, rows, order, leaf, options, block, scratch):
    """The loop of learn_leaf."""
    n, scorer, gradient = leaf.label.shape[0], classifier.scorer, scratch.gradient
    for c in range(n):
        scratch.label[c] = leaf.label[c]
    for o in range(order.shape[0]):
        i = order[o]
        weight = limited(rows.weight[i], options.update)
        score_block(block, rows.batch, i, scratch.score)
        n_all = add_truth(rows, i, n, scratch)
        for c in range(n, n_all):
            scratch.score[c] = linear.score(scorer, scratch.label[c], rows.batch, i)
        _, right = take_gradients(rows, i, n, n_all, options, scratch)
        seen.n_rows[0] += 1
        count_prediction(seen, right, rows.weight[i], 0.0)
        step = step_of(options, scale, rows.batch, i)
        for c in range(n):
            gradient[c] = gradient[c] * np.float32(weight) if abs(gradient[c]) >= NEGLIGIBLE else np.float32(0.0)
            move = np.float32(step.bias_step) * gradient[c]
            block.bias[c] -= move
            scorer.bias[leaf.label[c]] -= move
            if options.own == OWN_BIAS:
                block.bias[c] -= move
                classifier.own.bias[leaf.own_row + c] -= move
        learn_block(block, rows.batch, i, gradient, step)
        for c in range(n, n_all):
            if abs(gradient[c]) >= NEGLIGIBLE:
                linear.learn(scorer, scratch.label[c], rows.batch, i, gradient[c] * weight, step, scale)


@kernel
def learn_leaf(classifier, scale, seen, rows, order, leaf, options):
    """Train on the rows in `order`, for all of which the same leaf was drawn. Mutates: classifier, seen.

    Cost: O(features x candidates) for the leaf and O(non-zeros x candidates) per row.
    """
    labels, scorer = leaf.label, classifier.scorer
    n, scratch = labels.shape[0], make_scratch(labels.shape[0] + rows.most_labels, ZERO)
    features, place = find_features(rows.batch, order, scale.inverse.shape[0])
    bias = np.empty(n, np.float32)
    for c in range(n):
        bias[c] = scorer.bias[labels[c]]
        if options.own == OWN_BIAS:
            bias[c] += classifier.own.bias[leaf.own_row + c]
    block = Block(features, place, np.empty((features.shape[0], n), np.float32), bias)
    fill_block(scorer, labels, block)
    begun = block.weight.copy() if scorer.mask[0] != 0 else block.weight
    learn_leaf_rows(classifier, scale, seen, rows, order, leaf, options, block, scratch)
    empty_block(scorer, labels, block, begun)
