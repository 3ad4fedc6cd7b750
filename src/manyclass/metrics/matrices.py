"""Sparse matrices of the caller: scipy converts them without checks, and would read or write foreign memory."""

from typing import Any

import scipy.sparse as sp


def check_arrays(matrix: Any, name: str) -> None:
    """Refuse a sparse matrix whose arrays contradict its shape."""
    try:
        if matrix.format in ("csr", "csc", "bsr"):
            matrix.check_format(full_check=True)
        for at, size in zip(matrix.coords, matrix.shape, strict=True) if matrix.format == "coo" else ():
            if len(at) != len(matrix.data) or (len(at) and not 0 <= at.min() <= at.max() < size):
                raise ValueError("its coordinates are outside its shape, or not as many as its values")
    except ValueError as error:
        raise ValueError(f"{name} is an invalid sparse matrix: {error}.") from error


def as_labels(Y: Any, name: str) -> sp.csr_array:
    """A copy of an indicator matrix without zeros that are stored, which are no labels."""
    if sp.issparse(Y):
        check_arrays(Y, name)
    Y = sp.csr_array(Y, copy=True)
    Y.sum_duplicates()
    Y.eliminate_zeros()
    return Y
