"""The columns of the inputs are brought to comparable size by `fit`, before training and prediction.

Columns with values far larger than usual are scaled down, so that a column in another unit does not drown the others.
The label tree also centres dense columns, and scales a column whose standard deviation is far from the median to within
`FAR` times of it.
"""

from typing import Annotated, Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from .inputs import Batch, Csr, Dense
from .invariants import need
from .state import Array, Field, State

FAR = 4.0
_AT_A_TIME = 1 << 22  # values
_LARGE = 0.9  # of the columns are not larger than usual; rare words have large weights


class Columns(NamedTuple):
    """What is subtracted from the values of each feature, and what the rest is multiplied with."""

    shift: Annotated[Array, Field("f4", ("feature",))]
    factor: Annotated[Array, Field("f4", ("feature",), 1)]


def measure(batch: Batch, weights: np.ndarray, n_features: int, centre: bool) -> Columns | None:
    """The columns of training rows, dense ones centred if `centre`; None if they can stay as they are."""
    if isinstance(batch, Dense) and centre:
        share = weights / weights.sum()
        mean = share @ batch.values
        spread = np.sqrt(np.maximum(np.einsum("i,ij,ij->j", share, batch.values, batch.values) - mean**2, 0.0))
        spread[spread <= 1e-6 * np.abs(mean)] = 0.0  # constant, up to rounding
        usual = np.median(spread[spread > 0]) if spread.any() else 1.0
        factor = np.where(spread > 0, np.clip(spread, usual / FAR, usual * FAR) / np.where(spread > 0, spread, 1), 0)
        return Columns(mean.astype(np.float32), factor.astype(np.float32))
    if isinstance(batch, Dense):
        squares = np.einsum("ij,ij->j", batch.values, batch.values, dtype=float)
        counts = np.count_nonzero(batch.values, axis=0)
    else:
        squares, counts = np.zeros((2, n_features))
        for first in range(0, len(batch.values), _AT_A_TIME):  # so that temporary arrays are small
            part = slice(first, first + _AT_A_TIME)
            squares += np.bincount(batch.indices[part], batch.values[part].astype(float) ** 2, n_features)
            counts += np.bincount(batch.indices[part], batch.values[part] != 0, n_features)
    sizes = np.sqrt(squares / np.maximum(1, counts))
    most = FAR * np.quantile(sizes[sizes > 0], _LARGE) if sizes.any() else 0.0
    if most == 0 or (sizes <= most).all():
        return None
    return Columns(np.zeros(n_features, np.float32), (most / np.maximum(sizes, most)).astype(np.float32))


def apply(state: State, batch: Batch) -> Batch:
    """The rows in the units of a trained model."""
    columns = state.get("scaling")
    if columns is None:
        return batch
    if isinstance(batch, Dense):
        return Dense((batch.values - columns.shift) * columns.factor)
    return Csr(batch.indptr, batch.indices, batch.values * columns.factor[batch.indices])


def as_matrix(batch: Batch, n_features: int) -> Any:
    """The rows for linear algebra, without a copy."""
    if isinstance(batch, Dense):
        return batch.values
    return sp.csr_array((batch.values, batch.indices, batch.indptr), shape=(len(batch.indptr) - 1, n_features))


def check_columns(columns: Columns, n_features: int) -> None:
    """ModelFormatError unless there is a factor for each feature."""
    need(len(columns.factor) == n_features, f"scaling.factor has {len(columns.factor)} features, not {n_features}.")
