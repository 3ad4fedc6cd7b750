"""The rows of a leaf together [ST §3.5]: the shared weights of its candidates are laid side by side once for all.

Weights live class by class (`linear.py`), and a row needs (its features) x (the candidates) of them, each in another
line of memory. Rows of one leaf need the same candidates and mostly the same features. So these weights are copied
into a block (feature, candidate), where a row's scores and steps run along whole lines, and copied back afterwards.
"""

from typing import NamedTuple

import numpy as np

from ..core import linear
from ..core.inputs import feature, span, squared_length, value
from ..core.losses import SOFTMAX, probabilities, sigmoid
from ..core.trees import ROOT
from ..core.updates import NEGLIGIBLE
from ..jit import device, inlined, kernel
from .kernels import count_answer, steps
from .node import find_features
from .paths import OWN_BIAS

ABREAST = 16  # floats of a line of memory


class Block(NamedTuple):
    """Weights of a leaf's candidates, those of a feature side by side."""

    feature: np.ndarray  # (place)
    place: np.ndarray  # (feature) i4
    weight: np.ndarray  # (place, candidate)
    bias: np.ndarray  # (candidate) shared and own together


@device
def fill_block(scorer, labels, block):
    """Copy the weights in, a few candidates at a time: whole lines. Mutates: block. Cost: O(features x candidates)."""
    mask, n = scorer.mask[0], labels.shape[0]
    for first in range(0, n, ABREAST):
        for p in range(block.feature.shape[0]):
            f = block.feature[p]
            for c in range(first, min(n, first + ABREAST)):
                at = linear.slot(np.int64(labels[c]), f, mask) if mask != 0 else np.int64(f)
                block.weight[p, c] = scorer.weight[labels[c] if mask == 0 else 0, at]


@device
def empty_block(scorer, labels, block, begun):
    """Put the weights back. Mutates: scorer. Cost: O(features x candidates).

    Hashed weights may share a slot, and missed labels have learned meanwhile: there the change since `begun` is added.
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


@kernel
def open_leaf(scorer, own, own_row, labels, batch, rows, options):
    """The block of a leaf for some rows. Cost: O(features x candidates + non-zeros)."""
    features, place = find_features(batch, rows, options.n_features)
    bias = np.empty(labels.shape[0], np.float32)
    for c in range(labels.shape[0]):
        bias[c] = scorer.bias[labels[c]]
        if options.own == OWN_BIAS:
            bias[c] += own.bias[own_row + c]
    block = Block(features, place, np.empty((features.shape[0], labels.shape[0]), np.float32), bias)
    fill_block(scorer, labels, block)
    return block


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
    move = step.step / (step.size * step.size)  # far beyond the range of a float where rows are short
    for j in range(begin, stop):
        v = value(batch, i, j)
        if v != np.float32(0.0):
            v = np.float32(np.float64(v) * move)
            weight = block.weight[block.place[feature(batch, j)]]
            for c in range(n):
                weight[c] -= v * gradient[c]


@inlined
def learn_rows(
    block, scorer, own, own_row, candidates, scale, seen, batch, pointer, labels, weights, rows, options, score,
    gradient, missed,
):  # fmt: skip
    """The loop of learn_leaf."""
    n = candidates.shape[0]
    for r in range(rows.shape[0]):
        i, weight = rows[r], weights[rows[r]]
        score_block(block, batch, i, score)
        # DIFFERS [ST §3.5]: what all leaves share learns from every label, also where the path was wrong.
        n_all = n
        for p in range(pointer[i], pointer[i + 1]):
            at = ROOT
            while at < n and candidates[at] != labels[p]:
                at += 1
            if at == n:
                missed[n_all - n] = labels[p]
                score[n_all] = linear.score(scorer, np.int64(labels[p]), batch, i)
                n_all += 1
        best = ROOT  # of those that an answer on this path could give
        for c in range(n):
            if score[c] > score[best]:
                best = np.int64(c)
        if options.loss == SOFTMAX:
            probabilities(score, n_all, options.loss, gradient)
        else:
            for c in range(n_all):
                gradient[c] = sigmoid(score[c])
        right = False
        for c in range(n, n_all):
            gradient[c] -= np.float32(1.0)
        for p in range(pointer[i], pointer[i + 1]):
            for c in range(n):
                if candidates[c] == labels[p]:
                    gradient[c] -= np.float32(1.0)
                    right = right or best == c
        count_answer(seen, right, weight)
        step = steps(options, scale, squared_length(batch, i))
        for c in range(n):
            gradient[c] = gradient[c] * np.float32(weight) if abs(gradient[c]) >= NEGLIGIBLE else np.float32(0.0)
            move = np.float32(step.bias_step) * gradient[c]
            block.bias[c] -= move
            scorer.bias[candidates[c]] -= move
            if options.own == OWN_BIAS:
                block.bias[c] -= move
                own.bias[own_row + c] -= move
        learn_block(block, batch, i, gradient, step)
        for c in range(n, n_all):
            if abs(gradient[c]) < NEGLIGIBLE:
                continue
            linear.learn(scorer, np.int64(missed[c - n]), batch, i, gradient[c] * weight, step, scale)


@kernel
def learn_leaf(
    scorer, own, own_row, candidates, scale, seen, batch, pointer, labels, weights, rows, options
):  # fmt: skip
    """Teach the rows that drew a leaf in this epoch, one after the other. Mutates: scorer, own, seen.

    Cost: O(features x candidates) for the leaf and O(non-zeros x candidates) a row.
    """
    most = np.int64(0)
    for r in range(rows.shape[0]):
        most = max(most, pointer[rows[r] + 1] - pointer[rows[r]])
    block = open_leaf(scorer, own, own_row, candidates, batch, rows, options)
    begun = block.weight.copy() if scorer.mask[0] != 0 else block.weight
    width = candidates.shape[0] + most
    learn_rows(
        block, scorer, own, own_row, candidates, scale, seen, batch, pointer, labels, weights, rows, options,
        np.empty(width, np.float32), np.empty(width, np.float32), np.empty(most, np.int64),
    )  # fmt: skip
    empty_block(scorer, candidates, block, begun)
