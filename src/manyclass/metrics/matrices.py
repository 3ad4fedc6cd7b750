"""Sparse matrices of the caller: scipy converts them without checks, and would read or write foreign memory."""

from typing import Any

import numpy as np
import scipy.sparse as sp


def check_arrays(matrix: Any, name: str) -> None:
    """Refuse a sparse matrix whose arrays contradict its shape."""
    try:
        if matrix.format in ("csr", "csc", "bsr"):
            matrix.check_format(full_check=True)
        for at, size in zip(matrix.coords, matrix.shape, strict=True) if matrix.format == "coo" else ():
            if len(at) != len(matrix.data) or (len(at) and not 0 <= at.min() <= at.max() < size):
                raise ValueError("its coordinates are outside its shape, or not as many as its values")
        if matrix.format == "dia" and (matrix.data.ndim != 2 or matrix.offsets.shape != matrix.data.shape[:1]):
            raise ValueError("it does not have one offset per diagonal")
        if matrix.format == "lil":
            _check_lists(matrix.rows, matrix.data, *matrix.shape)
    except ValueError as error:
        raise ValueError(f"{name} is an invalid sparse matrix: {error}.") from error


def _check_lists(rows: Any, data: Any, n_rows: int, n_columns: int) -> None:
    """ValueError unless there is a list of known columns for each row, with as many values."""
    if not np.shape(rows) == np.shape(data) == (n_rows,):
        raise ValueError(f"it has {len(rows)} lists of columns and {len(data)} of values for {n_rows} rows")
    for row, (columns, values) in enumerate(zip(rows, data, strict=True)):
        if not (isinstance(columns, list) and isinstance(values, list) and len(columns) == len(values)):
            raise ValueError(f"the lists of columns and of values of row {row} have different lengths, or are no lists")
        if columns and not 0 <= min(columns) <= max(columns) < n_columns:
            raise ValueError(f"row {row} has a column that is outside the {n_columns} columns")


def as_labels(Y: Any, name: str) -> sp.csr_array:
    """A copy of an indicator matrix without zeros that are stored, which are no labels."""
    if sp.issparse(Y):
        check_arrays(Y, name)
    Y = sp.csr_array(Y, copy=True)
    Y.sum_duplicates()
    Y.eliminate_zeros()
    return Y
