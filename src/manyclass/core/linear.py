"""A bank of linear predictors: a row of weights for each, or all rows hashed into one table of fixed size.

If `mask[0]` is 0, `weight` has the shape (rows, features) and every weight its own slot. Otherwise `weight` has the
shape (1, mask + 1) and (row, feature) is hashed to a slot.
"""

import math

import numpy as np

from ..jit import device, exact_device, inlined, kernel, python_of
from .inputs import feature, span, value
from .prefetch import prefetch_row
from .state import Linear, make, resize
from .updates import ADAGRAD, SGD

# AdaGrad's sums of squares start here and not at zero, so that a small first gradient makes a small step.
FIRST_SQUARE = 0.1
_LARGEST = 3.4e38  # float32


@device
def slot(row, f, mask):
    """The slot of (row, feature) in a hashed table. Cost: O(1)."""
    h = np.uint64(row) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(f) * np.uint64(0xC2B2AE3D27D4EB4F)
    h = (h ^ (h >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    return np.int64((h >> np.uint64(20)) & np.uint64(mask))


@device
def score(bank, row, batch, i):
    """Score of row i of the batch by predictor `row`. Cost: O(non-zeros)."""
    start, stop = span(batch, i)
    total = np.float32(0.0)
    mask = bank.mask[0]
    if mask == 0:
        for j in range(start, stop):
            total += bank.weight[row, feature(batch, j)] * value(batch, i, j)
    else:
        for j in range(start, stop):
            total += bank.weight[0, slot(row, feature(batch, j), mask)] * value(batch, i, j)
    return np.float64(total + bank.bias[row])


@inlined
def score_rows(bank, rows, first, last, batch, i, out):
    """Scores of row i of the batch by predictors rows[first:last]. Mutates: out. Cost: O(non-zeros) each.

    Four predictors at a time, so that each value of the row is read once for four products.
    """
    start, stop = span(batch, i)
    mask = bank.mask[0]
    weight, bias = bank.weight, bank.bias
    c = first
    while c + 4 <= last:
        if mask == 0 and c + 8 <= last:
            for ahead in range(c + 4, c + 8):
                prefetch_row(weight, np.int64(rows[ahead]))
        row0, row1, row2, row3 = np.int64(rows[c]), np.int64(rows[c + 1]), np.int64(rows[c + 2]), np.int64(rows[c + 3])
        sum0, sum1, sum2, sum3 = np.float32(0.0), np.float32(0.0), np.float32(0.0), np.float32(0.0)
        if mask == 0:
            for j in range(start, stop):
                f, v = feature(batch, j), value(batch, i, j)
                sum0 += weight[row0, f] * v
                sum1 += weight[row1, f] * v
                sum2 += weight[row2, f] * v
                sum3 += weight[row3, f] * v
        else:
            for j in range(start, stop):
                f, v = feature(batch, j), value(batch, i, j)
                sum0 += weight[0, slot(row0, f, mask)] * v
                sum1 += weight[0, slot(row1, f, mask)] * v
                sum2 += weight[0, slot(row2, f, mask)] * v
                sum3 += weight[0, slot(row3, f, mask)] * v
        out[c], out[c + 1], out[c + 2], out[c + 3] = (
            sum0 + bias[row0], sum1 + bias[row1], sum2 + bias[row2], sum3 + bias[row3]
        )  # fmt: skip
        c += 4
    while c < last:
        out[c] = score(bank, np.int64(rows[c]), batch, i)
        c += 1


@device
def ask_for(bank, row):
    """Prefetch the weights of a predictor that may be scored next."""
    if bank.mask[0] == 0:
        prefetch_row(bank.weight, row)


@device
def learn_bias(bank, row, gradient, pace):
    """One step of a predictor's bias. Mutates: bank. Cost: O(1)."""
    g = np.float32(gradient)
    step = np.float32(pace.bias_step) * g
    if pace.update != SGD:
        bank.bias_grad_sq[row] += g * g
        step /= math.sqrt(np.float32(FIRST_SQUARE) + bank.bias_grad_sq[row])
    bank.bias[row] -= step


@exact_device
def learn_short_row(bank, row, batch, i, gradient, pace):
    """An SGD step on a row so short that move * shrink overflows: the order of the products must not change.

    Mutates: bank. Cost: O(non-zeros).
    """
    start, stop = span(batch, i)
    mask = bank.mask[0]
    move, shrink = np.float32(pace.step * gradient / pace.size), np.float32(1.0 / pace.size)
    for j in range(start, stop):
        f = feature(batch, j)
        if mask != 0:
            bank.weight[0, slot(row, f, mask)] -= move * (value(batch, i, j) * shrink)
        else:
            bank.weight[row, f] -= move * (value(batch, i, j) * shrink)
    bank.bias[row] -= np.float32(pace.bias_step) * np.float32(gradient)


@device
def learn(bank, row, batch, i, gradient, pace, scale):
    """One step of predictor `row` against `gradient`. Mutates: bank. Cost: O(non-zeros)."""
    if pace.update == SGD and abs(pace.step * gradient) > _LARGEST * pace.size * pace.size:
        learn_short_row(bank, row, batch, i, gradient, pace)
    else:
        learn_row(bank, row, batch, i, gradient, pace, scale)


@device
def learn_row(bank, row, batch, i, gradient, pace, scale):
    """A step on a row of usual length. Mutates: bank. Cost: O(non-zeros)."""
    start, stop = span(batch, i)
    mask = bank.mask[0]
    hashed = mask != 0
    weight = bank.weight[0] if hashed else bank.weight[row]
    if pace.update == SGD:
        move, shrink = np.float32(pace.step * gradient / pace.size), np.float32(1.0 / pace.size)
        for j in range(start, stop):
            f = feature(batch, j)
            at = slot(row, f, mask) if hashed else f
            weight[at] -= move * (value(batch, i, j) * shrink)
        learn_bias(bank, row, gradient, pace)
        return
    grad_sq = bank.grad_sq[0] if hashed else bank.grad_sq[row]
    g = np.float32(gradient)
    step = np.float32(pace.step)
    if pace.update == ADAGRAD:
        for j in range(start, stop):
            f = feature(batch, j)
            at = slot(row, f, mask) if hashed else f
            slope = g * value(batch, i, j)
            grad_sq[at] += slope * slope
            weight[at] -= step * slope / math.sqrt(np.float32(FIRST_SQUARE) + grad_sq[at])
    else:
        for j in range(start, stop):
            f = feature(batch, j)
            at = slot(row, f, mask) if hashed else f
            inverse = scale.inverse[f]
            slope = g * (value(batch, i, j) * inverse)
            grad_sq[at] += slope * slope
            weight[at] -= step * slope * inverse / math.sqrt(np.float32(FIRST_SQUARE) + grad_sq[at])
    learn_bias(bank, row, gradient, pace)


@kernel
def add_weights(bank, lines, amounts, biases):
    """Add each row of a batch, times an amount, to the predictor with the same number; add to its bias, too.

    Mutates: bank. Cost: O(non-zeros).
    """
    mask = bank.mask[0]
    for row in range(amounts.shape[0]):
        begin, stop = span(lines, row)
        amount = np.float32(amounts[row])
        for j in range(begin, stop):
            f = feature(lines, j)
            at = slot(row, f, mask) if mask != 0 else np.int64(f)
            bank.weight[0 if mask != 0 else row, at] += amount * value(lines, row, j)
        bank.bias[row] += np.float32(biases[row])


@kernel
def hash_rows(direct, hashed, adaptive):
    """Move the weights of a direct bank into an empty hashed one. Mutates: hashed. Cost: O(rows x features).

    `adaptive`: there is a sum of squared gradients for each weight.
    """
    mask = hashed.mask[0]
    rows, n_features = direct.weight.shape
    for row in range(rows):
        hashed.bias[row] = direct.bias[row]
        hashed.bias_grad_sq[row] = direct.bias_grad_sq[row]
        for f in range(n_features):
            weight = direct.weight[row, f]
            square = direct.grad_sq[row, f] if adaptive else np.float32(0.0)
            if weight != 0.0 or square != 0.0:
                at = slot(row, f, mask)
                hashed.weight[0, at] += weight
                if adaptive:
                    hashed.grad_sq[0, at] += square
    hashed.n_rows[0] = direct.n_rows[0]


def weights_of(bank: Linear, row: int, features: np.ndarray) -> np.ndarray:
    """The weights that a predictor has for some features."""
    mask = int(bank.mask[0])
    if mask == 0:
        return bank.weight[row, features].astype(np.float64)
    with np.errstate(over="ignore"):
        return bank.weight[0, python_of(slot)(row, features, mask)].astype(np.float64)


# -- size and growth --------------------------------------------------------------------------------------------------


def fits(rows: int, n_features: int, table_bits: int) -> bool:
    """Whether every (row, feature) gets its own slot."""
    return rows * n_features <= 1 << table_bits


def make_bank(rows: int, n_features: int, table_bits: int, adaptive: bool) -> Linear:
    """A bank of `rows` predictors: a slot for each weight if they fit into the table, hashed otherwise."""
    direct = fits(rows, n_features, table_bits)
    shape = (rows, n_features) if direct else (1, 1 << table_bits)
    squares = shape if adaptive else (1, 1)
    bank: Linear = make(
        Linear, row=rows, weight_row=shape[0], weight_column=shape[1], square_row=squares[0], square_column=squares[1]
    )
    bank.mask[0] = 0 if direct else shape[1] - 1
    return bank


def grow_bank(bank: Linear, rows: int, n_features: int, table_bits: int, adaptive: bool) -> Linear:
    """The bank with more predictors, moved to a hashed table if the weights no longer fit one by one."""
    if bank.mask[0] != 0:
        return resize(bank, row=rows)
    if fits(rows, n_features, table_bits):
        squares = {"square_row": rows} if adaptive else {}
        return resize(bank, row=rows, weight_row=rows, **squares)
    hashed = make_bank(rows, n_features, table_bits, adaptive)
    hash_rows(bank, hashed, adaptive)
    return hashed


def slim_bank(bank: Linear, rows: int) -> Linear:
    """The first predictors, without the sums that only training needs."""
    weight = bank.weight if bank.mask[0] else bank.weight[:rows]
    none = np.zeros((1, 1), bank.grad_sq.dtype)
    bias = bank.bias[:rows]
    return bank._replace(weight=weight, grad_sq=none, bias=bias, bias_grad_sq=np.zeros_like(bias))


def bank_bytes(rows: int, n_features: int, table_bits: int, adaptive: bool) -> int:
    """Bytes of a bank of `rows` predictors."""
    slots = min(rows * n_features, 1 << table_bits)
    return 4 * (slots * (2 if adaptive else 1) + 2 * rows)
