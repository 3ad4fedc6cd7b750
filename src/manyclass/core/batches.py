"""Rows as the kernels want them, and matrices of what they said."""

import warnings
from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp
from sklearn.utils.multiclass import check_classification_targets

from .inputs import Batch, Csr, Dense, is_sound

# Sparse rows of at most so many features are spread out, a chunk at a time: whole lines beat single look-ups.
NARROW = 256
HEAVIEST = 1e9  # a heavier row would throw any learner
SMALLEST = 1e-30
BLOCK = 1 << 12  # rows answered by one call of a kernel


def check_targets(y: np.ndarray) -> None:
    """Refuse what is no label. That most labels of a batch come once is what this package is for: no warning."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The number of unique classes is greater than 50%", UserWarning)
        check_classification_targets(y)


def as_batch(X) -> Batch:
    """Rows for a kernel; the few features of a narrow sparse matrix are faster side by side."""
    if sp.issparse(X) and X.shape[1] <= NARROW:
        X = X.toarray()
    if not sp.issparse(X):
        return Dense(np.ascontiguousarray(X, np.float32))
    # np.asarray drops memmap; copies are made only where a type differs
    return Csr(
        np.asarray(X.indptr).astype(np.int64, copy=False),
        np.asarray(X.indices).astype(np.int32, copy=False),
        np.asarray(X.data).astype(np.float32, copy=False),
    )


def check_sparse(X):
    """Refuse a sparse matrix whose arrays contradict its shape: a kernel would read where nothing is.

    Entries that stand twice are added up, as everywhere in scipy.
    """
    if not sp.issparse(X):
        return X
    if X.shape[1] > np.iinfo(np.int32).max:
        raise ValueError(f"X has {X.shape[1]} features; at most 2**31 - 1 are possible: hash them into fewer.")
    try:
        X.check_format(full_check=True)
    except ValueError as error:
        raise ValueError(f"X is a broken sparse matrix: {error}.") from error
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def rows_are_sound(X) -> bool:
    """Whether `check_sparse` would pass a CSR matrix on as it is, and all its values are finite."""
    arrays = np.asarray(X.indptr), np.asarray(X.indices), np.asarray(X.data)
    return (
        all(array.ndim == 1 for array in arrays)
        and arrays[0].dtype == arrays[1].dtype
        and arrays[1].dtype in (np.int32, np.int64)
        and len(arrays[0]) == X.shape[0] + 1
        and is_sound(*arrays, X.shape[1])
    )


def check_values(X):
    """Refuse inputs so small that float32 cannot tell them apart."""
    values = X.data if sp.issparse(X) else X
    largest = max(-float(values.min(initial=0.0)), float(values.max(initial=0.0)))
    if 0.0 < largest < SMALLEST:
        raise ValueError(f"The largest value of X is {largest:.3g}, too small for float32 arithmetic: scale X up.")
    return X


def check_weights(sample_weight, n: int) -> np.ndarray:
    """One weight of at least 0 for each of n rows."""
    if sample_weight is None:
        return np.ones(n)
    weights = np.asarray(sample_weight, np.float64)
    if weights.ndim == 0:
        weights = np.full(n, weights)
    if weights.shape != (n,):
        raise ValueError(f"sample_weight has shape {weights.shape}, expected ({n},): one weight for each row of X.")
    if not np.isfinite(weights).all():
        raise ValueError("sample_weight contains NaN or infinity.")
    if (weights < 0).any():
        raise ValueError("Negative values in data passed to `sample_weight`.")
    if (weights > HEAVIEST).any():
        raise ValueError(f"sample_weight goes up to {weights.max():g}, more than {HEAVIEST:g}: scale it down.")
    return weights


def blocks(n: int, most: int = BLOCK) -> Iterator[tuple[int, int]]:
    """Row ranges that one call of a kernel answers."""
    size = most
    for first in range(0, n, size):
        yield first, min(n, first + size)


def rows_between(X, first: int, last: int):
    """Rows first..last-1; sparse ones share the arrays of X, which scipy would copy."""
    if last - first == X.shape[0]:
        return X
    if not sp.issparse(X):
        return X[first:last]
    start, stop = X.indptr[first], X.indptr[last]
    arrays = X.data[start:stop], X.indices[start:stop], X.indptr[first : last + 1] - start
    return sp.csr_array(arrays, shape=(last - first, X.shape[1]))


def indicator(sizes: np.ndarray, columns: np.ndarray, n_columns: int) -> sp.csr_array:
    """A boolean matrix from the columns that are set, row after row."""
    indptr = np.concatenate([[0], np.cumsum(sizes)])
    out = sp.csr_array((np.ones(len(columns), bool), columns, indptr), shape=(len(sizes), n_columns))
    out.sort_indices()
    return out
