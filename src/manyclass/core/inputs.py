"""Rows of a batch, dense or sparse: the only file that knows the layout.

A loop over a row reads the same for both kinds::

    start, stop = span(batch, i)
    for j in range(start, stop):
        total += weight[feature(batch, j)] * value(batch, i, j)
"""

import math
from typing import NamedTuple

import numpy as np
from numba.extending import overload

from ..jit import DEVICE_OPTIONS, device, kernel


class Dense(NamedTuple):
    """A batch of dense rows."""

    values: np.ndarray  # (row, feature) f4


class Csr(NamedTuple):
    """A batch of sparse rows."""

    indptr: np.ndarray  # (row + 1,) i8
    indices: np.ndarray  # (non-zero,) i4
    values: np.ndarray  # (non-zero,) f4


Batch = Dense | Csr


def gather(begin: np.ndarray, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions of entries when rows are put together: where each row begins, and where each entry is now."""
    pointer = np.concatenate([[0], np.cumsum(sizes)])
    return pointer, np.arange(pointer[-1]) + np.repeat(begin - pointer[:-1], sizes)


def rows_at(batch: Batch, chosen: np.ndarray) -> Batch:
    """Some rows, by their numbers."""
    if isinstance(batch, Dense):
        return Dense(batch.values[chosen])
    indptr, at = gather(batch.indptr[chosen], batch.indptr[chosen + 1] - batch.indptr[chosen])
    return Csr(indptr, batch.indices[at], batch.values[at])


def rows_from(batch: Batch, first: int, last: int) -> Batch:
    """Rows first..last-1, sharing their arrays."""
    if isinstance(batch, Dense):
        return Dense(batch.values[first:last])
    return Csr(batch.indptr[first : last + 1], batch.indices, batch.values)


def span(batch: Batch, i: int):
    """First and past-the-last position of row i."""
    if isinstance(batch, Dense):
        return 0, batch.values.shape[1]
    return batch.indptr[i], batch.indptr[i + 1]


def feature(batch: Batch, j: int):
    """Feature at position j of a row."""
    return j if isinstance(batch, Dense) else batch.indices[j]


def value(batch: Batch, i: int, j: int):
    """Value at position j of row i."""
    return batch.values[i, j] if isinstance(batch, Dense) else batch.values[j]


@overload(span, jit_options=DEVICE_OPTIONS)
def _span(batch, i):
    if batch.instance_class is Dense:
        return lambda batch, i: (0, batch.values.shape[1])
    return lambda batch, i: (batch.indptr[i], batch.indptr[i + 1])


@overload(feature, jit_options=DEVICE_OPTIONS)
def _feature(batch, j):
    if batch.instance_class is Dense:
        return lambda batch, j: j
    return lambda batch, j: batch.indices[j]


@overload(value, jit_options=DEVICE_OPTIONS)
def _value(batch, i, j):
    if batch.instance_class is Dense:
        return lambda batch, i, j: batch.values[i, j]
    return lambda batch, i, j: batch.values[j]


@device
def squared_length(batch, i):
    """Sum of the squared values of row i. Cost: O(non-zeros)."""
    begin, stop = span(batch, i)
    total = 0.0
    for j in range(begin, stop):
        v = np.float64(value(batch, i, j))
        total += v * v
    return total


@device
def inverse_lengths(batch, out):
    """1 / length of each row, 1 for a row of zeros. Mutates: out. Cost: O(non-zeros)."""
    for i in range(out.shape[0]):
        sq_norm = squared_length(batch, i)
        out[i] = 1.0 / math.sqrt(sq_norm) if sq_norm > 0.0 else 1.0


@kernel
def is_sound(indptr, indices, values, n_features):
    """Whether sparse rows are valid: features in range, sorted and not repeated, all values finite.

    One pass instead of several by numpy and scipy, which take longer than predicting one row.
    """
    n = len(indices)
    if len(indptr) == 0 or indptr[0] != 0 or indptr[-1] != n or len(values) != n:
        return False
    for i in range(len(indptr) - 1):
        if indptr[i] > indptr[i + 1] or indptr[i + 1] > n:
            return False
        before = -1
        for j in range(indptr[i], indptr[i + 1]):
            if indices[j] <= before or not math.isfinite(values[j]):
                return False
            before = indices[j]
        if before >= n_features:
            return False
    return True


@kernel
def is_inside(indptr, indices, n_values, n_features):
    """Whether a CSR matrix of one row leads only to its own values and to existing features. Cost: O(non-zeros)."""
    n = len(indices)
    if len(indptr) != 2 or indptr[0] != 0 or indptr[1] < 0 or indptr[1] > min(n, n_values):
        return False
    for j in range(n):
        if indices[j] < 0 or indices[j] >= n_features:
            return False
    return True


@device
def first_not_below(features, low, high, f):
    """The first place in low..high of sorted features that is not below f. Cost: O(log of how far it is)."""
    step = np.int64(1)
    while low + step < high and features[low + step] < f:  # in strides that double: the next one is mostly near
        low += step
        step *= 2
    high = min(high, low + step)
    while low < high:
        middle = (low + high) >> 1
        if features[middle] < f:
            low = middle + 1
        else:
            high = middle
    return low
