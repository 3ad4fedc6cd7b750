"""Start at the class mean: what the rows of a class have in common is an answer before its predictor has learned one.

DIFFERS [RT Alg. 1 l.11]: a candidate's score is

    bias + weight . x + start * cosine of x and `total`

where `total` is the running sum of the class's rows, each times its weight. The sums are laid out like the weights of a
bank: `mask[0] == 0`: (class, feature), each in its own slot; otherwise all in one hashed table. Without a start the
group `means` is None wherever it is passed, so that none of this is even compiled.
"""

import math

import numpy as np

from ..core.inputs import feature, span, squared_length, value
from ..core.linear import slot
from ..jit import device, inlined, kernel

NOTHING = 1e-60  # the squared length of a row whose values float32 cannot tell from zero


@device
def cosine(means, label, batch, i, inverse_length):
    """Cosine of row i and the running sum of a class; 0 where there is none. Cost: O(non-zeros)."""
    sq_norm = means.sq_norm[label]
    if sq_norm <= 0.0:
        return 0.0
    begin, stop = span(batch, i)
    product = np.float32(0.0)
    mask = means.mask[0]
    # The row is brought to length 1 first: a product of two large values would leave the range of a float.
    if mask == 0:
        for j in range(begin, stop):
            product += means.total[label, feature(batch, j)] * (value(batch, i, j) * inverse_length)
    else:
        for j in range(begin, stop):
            product += means.total[0, slot(label, feature(batch, j), mask)] * (value(batch, i, j) * inverse_length)
    # No cosine is beyond 1, but sums that share slots, or cancel up to rounding, can seem longer than their length.
    return min(1.0, max(-1.0, np.float64(product) / math.sqrt(sq_norm)))


@inlined
def add_start(means, start, labels, first, last, batch, i, out):
    """Add to out[first:last] what the means say of labels[first:last]. Mutates: out. Cost: O(non-zeros) each."""
    sq_norm = squared_length(batch, i)
    if sq_norm > NOTHING:
        inverse_length = np.float32(1.0 / math.sqrt(sq_norm))
        for c in range(first, last):
            out[c] += start * cosine(means, np.int64(labels[c]), batch, i, inverse_length)


@device
def add_row(means, label, batch, i, weight):
    """Take row i, times `weight`, into the running sum of a class. Mutates: means. Cost: O(non-zeros)."""
    begin, stop = span(batch, i)
    mask = means.mask[0]
    hashed = mask != 0
    total = means.total[0] if hashed else means.total[label]
    weight = np.float32(weight)
    longer = 0.0
    for j in range(begin, stop):
        f = feature(batch, j)
        at = slot(label, f, mask) if hashed else f
        old = total[at]
        new = old + value(batch, i, j) * weight
        total[at] = new
        longer += np.float64(new) * new - np.float64(old) * old
    means.sq_norm[label] += longer


@kernel
def hash_totals(direct, hashed):
    """Move running sums with slots of their own into an empty table. Mutates: hashed. Cost: O(classes x features)."""
    mask = hashed.mask[0]
    rows, n_features = direct.total.shape
    for row in range(rows):
        hashed.sq_norm[row] = direct.sq_norm[row]
        for f in range(n_features):
            if direct.total[row, f] != 0.0:
                hashed.total[0, slot(row, f, mask)] += direct.total[row, f]
