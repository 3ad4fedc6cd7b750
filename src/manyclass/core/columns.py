"""The columns of the inputs are brought to comparable size by `fit`, before training and prediction.

Columns with values far larger than usual are scaled down, so that a column in another unit does not drown the others.
A dense column whose mean is more than two standard deviations from zero is centred. The label tree centres all dense
columns, and scales a column whose standard deviation is far from the median to within `FAR` times of it.
"""

from typing import Annotated, Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from .exact import two_parts
from .inputs import Batch, Csr, Dense
from .invariants import need
from .state import Array, Field, State, kept_rows

FAR = 4.0
_FAR_FROM_ZERO = 2.0  # standard deviations
_CONSTANT = 1e-10  # times the usual standard deviation: a column that differs less has rounding errors only
_AT_A_TIME = 1 << 20  # values
_LEAST_AT_A_TIME = 1 << 17  # values of sparse rows, if there are few columns; more take up to 100 bytes each
_MOST_DENSE = 1 << 25  # values of rows that are centred at a time
_LARGE = 0.9  # quantile of the sizes; a column above FAR times it is large. Rare words have large weights


class ColumnScaling(NamedTuple):
    """The scaling of each feature: a value x becomes (x - shift) * factor."""

    shift: Annotated[Array, Field("f4", ("feature",))]
    factor: Annotated[Array, Field("f4", ("feature",), 1)]


class ColumnMaxima(NamedTuple):
    """The largest values and weights, and the number of rows: exact sums (core/exact.py) need these limits."""

    value: Array  # (feature,) the largest absolute value
    weight: Any
    n_rows: Any


class Sums(NamedTuple):
    """Sums over rows, each in two parts (core/exact.py); of sparse rows, without weights and means."""

    weight: Array  # (2,)
    value: Array  # (2, feature)
    square: Array  # (2, feature)
    filled: Array  # (2, feature) weight of the rows with a value that is not zero


def measure(batch: Batch, weights: np.ndarray, n_features: int, centre: bool) -> ColumnScaling | None:
    """The columns of training rows, all dense ones centred if `centre`; None if they can stay as they are."""
    if isinstance(batch, Dense):
        return columns_of(column_sums(batch, weights, column_sizes(batch, weights, n_features)), centre)
    used = used_in(batch, n_features)
    place = np.cumsum(used, dtype=np.int32)
    place -= 1
    sizes = column_sizes(batch, weights, int(place[-1]) + 1, place)  # the sums of a column take 90 bytes
    scaling = columns_of(column_sums(batch, weights, sizes, place), False)
    if scaling is None:
        return None
    shift, factor = np.zeros(n_features, np.float32), np.ones(n_features, np.float32)
    shift[used], factor[used] = scaling
    return ColumnScaling(shift, factor)


def used_in(batch: Batch, n_features: int) -> Array:
    """Whether any row of a sparse batch has each feature."""
    assert isinstance(batch, Csr)
    used = np.zeros(n_features, bool)
    for first in range(batch.indptr[0], batch.indptr[-1], _AT_A_TIME):
        used[batch.indices[first : min(first + _AT_A_TIME, batch.indptr[-1])]] = True
    return used


def column_sizes(batch: Batch, weights: np.ndarray, n_features: int, place: np.ndarray | None = None) -> ColumnMaxima:
    """The largest values of some rows; `larger` joins those of two parts. `place` has other numbers of the columns."""
    largest = np.zeros(n_features)
    if isinstance(batch, Dense):
        lowest, highest = batch.values.min(axis=0, initial=0.0), batch.values.max(axis=0, initial=0.0)
        largest = np.maximum(highest, -lowest).astype(float)
    else:
        at_a_time = min(_AT_A_TIME, max(_LEAST_AT_A_TIME, n_features))  # so that temporary arrays are small
        for first in range(0, len(batch.values), at_a_time):
            part = slice(first, first + at_a_time)
            indices = batch.indices[part] if place is None else place[batch.indices[part]]
            np.maximum.at(largest, indices, np.abs(batch.values[part]).astype(float))
    return ColumnMaxima(largest, weights.max(initial=0.0), len(weights))


def larger(a: ColumnMaxima, b: ColumnMaxima) -> ColumnMaxima:
    """The sizes of the rows of both."""
    return ColumnMaxima(np.maximum(a.value, b.value), max(a.weight, b.weight), a.n_rows + b.n_rows)


def column_sums(batch: Batch, weights: np.ndarray, sizes: ColumnMaxima, place: np.ndarray | None = None) -> Sums:
    """The sums of some rows; `sizes` are those of all rows. `place` has other numbers of the columns."""
    n_features, n = len(sizes.value), sizes.n_rows
    value, square, filled = np.zeros((3, 2, n_features))
    mass = np.array([len(weights), 0.0])
    if isinstance(batch, Dense):
        mass = np.array([term.sum() for term in two_parts(weights, sizes.weight, n)])
        rows_at_a_time = max(1, _AT_A_TIME // max(1, n_features))
        for first in range(0, len(batch.values), rows_at_a_time):
            rows = batch.values[first : first + rows_at_a_time].astype(float)
            weight = weights[first : first + rows_at_a_time, None]
            for sums, terms, most in (
                (value, weight * rows, sizes.weight * sizes.value),
                (square, weight * rows * rows, sizes.weight * sizes.value**2),
                (filled, weight * (rows != 0), sizes.weight),
            ):
                sums += [part.sum(axis=0) for part in two_parts(terms, most, n)]
    else:
        at_a_time = min(_AT_A_TIME, max(_LEAST_AT_A_TIME, n_features))
        for first in range(0, len(batch.values), at_a_time):
            part = slice(first, first + at_a_time)
            indices = batch.indices[part] if place is None else place[batch.indices[part]]
            values = batch.values[part].astype(float)
            terms = two_parts(values**2, sizes.value[indices] ** 2, n)
            square += [np.bincount(indices, term, n_features) for term in terms]
            filled[0] += np.bincount(indices, values != 0, n_features)
    return Sums(mass, value, square, filled)


def columns_of(sums: Sums, centre: bool) -> ColumnScaling | None:
    """The columns from the sums of all rows; None if they can stay as they are."""
    weight, value, square, filled = (parts.sum(axis=0) for parts in sums)
    mean = value / weight
    spread = np.sqrt(np.maximum(square / weight - mean**2, 0.0))
    spread[spread <= 1e-6 * np.abs(mean)] = 0.0  # constant, up to rounding
    if centre:
        usual = np.median(spread[spread > 0]) if spread.any() else 1.0
        spread[spread < _CONSTANT * usual] = 0.0
        factor = np.clip(spread, usual / FAR, usual * FAR) / np.where(spread > 0, spread, 1)
        factor[spread == 0] = mean[spread == 0] == 0  # a column of zeros may be a word that is new to partial_fit
        return ColumnScaling(mean.astype(np.float32), factor.astype(np.float32))
    far = np.abs(mean) > _FAR_FROM_ZERO * spread
    sizes = np.where(far, spread, np.sqrt(square / np.where(filled > 0, filled, 1)))
    most = FAR * np.quantile(sizes[sizes > 0], _LARGE, method="lower") if sizes.any() else 0.0
    large = (sizes > most) & (most > 0)
    if not (far | large).any():
        return None
    factor = np.where(large, most / np.where(large, sizes, 1), 1)
    return ColumnScaling(np.where(far, mean, 0).astype(np.float32), factor.astype(np.float32))


def is_centred(state: State) -> bool:
    """Whether something is subtracted from the values. Cost: O(features)."""
    columns = state.get("scaling")
    return columns is not None and bool(columns.shift.any())


def most_rows(state: State, most: int) -> int:
    """Rows that a model should get at a time, at most `most`: some make sparse rows dense, which takes memory."""
    if kept := kept_rows(state):
        n_features = max(group.row.shape[1] for group in kept.values())
    elif is_centred(state):
        n_features = len(state["scaling"].shift)
    else:
        return most
    return min(most, max(1, _MOST_DENSE // n_features))


def apply(state: State, batch: Batch, centred: bool | None = None) -> Batch:
    """The rows in the units of a trained model; `centred` is what `is_centred` returns, if known."""
    columns = state.get("scaling")
    if columns is None:
        return batch
    if isinstance(batch, Csr):
        if not (is_centred(state) if centred is None else centred):
            return Csr(batch.indptr, batch.indices, batch.values * columns.factor[batch.indices])
        batch = dense(batch, len(columns.shift))  # a zero is no longer zero
    with np.errstate(over="ignore"):  # scores that are not finite are an error later
        values = batch.values - columns.shift
        values *= columns.factor
        return Dense(values)


def dense(batch: Batch, n_features: int) -> Dense:
    """The rows with all their zeros."""
    return batch if isinstance(batch, Dense) else Dense(as_matrix(batch, n_features).toarray())


def as_matrix(batch: Batch, n_features: int) -> Any:
    """The rows for linear algebra, without a copy."""
    if isinstance(batch, Dense):
        return batch.values
    return sp.csr_array((batch.values, batch.indices, batch.indptr), shape=(len(batch.indptr) - 1, n_features))


def check_columns(columns: ColumnScaling, n_features: int) -> None:
    """ModelFormatError unless there is a factor for each feature."""
    need(len(columns.factor) == n_features, f"scaling.factor has {len(columns.factor)} features, not {n_features}.")
