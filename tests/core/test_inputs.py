"""Sparse rows that a kernel may trust are told from those that it may not."""

import numba
import numpy as np
import pytest
import scipy.sparse as sp

from manyclass.core.inputs import is_sound
from manyclass.core.validation import as_batch, rows_are_sound

POINTER, INDICES, VALUES = [0, 2, 2, 5], [1, 3, 0, 2, 3], [1.0, 2.0, 3.0, 0.0, 5.0]


def sound(pointer=POINTER, indices=INDICES, values=VALUES, kind=np.int32, n_features=4):
    return is_sound(np.array(pointer, kind), np.array(indices, kind), np.array(values, np.float32), n_features)


@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_sorted_rows_in_range_are_sound(kind):
    assert sound(kind=kind)
    assert sound([0], [], [], kind)
    assert sound([0, 0], [], [], kind, 0)


@pytest.mark.parametrize(
    "change",
    [
        {"pointer": [1, 2, 2, 5]},
        {"pointer": [0, 2, 2, 4]},
        {"pointer": [0, 3, 2, 5]},
        {"pointer": [0, 9, 2, 5]},
        {"pointer": [0, -1, 2, 5]},
        {"pointer": []},
        {"indices": [3, 1, 0, 2, 3]},
        {"indices": [1, 1, 0, 2, 3]},
        {"indices": [1, 3, 0, 2, 4]},
        {"indices": [-1, 3, 0, 2, 3]},
        {"values": [1.0, np.nan, 3.0, 0.0, 5.0]},
        {"values": [1.0, 2.0, 3.0, 0.0, -np.inf]},
        {"values": [1.0]},
        {"n_features": 3},
    ],
    ids=str,
)
def test_all_others_are_not(change):
    assert not sound(**change)


def test_a_matrix_is_as_sound_as_its_arrays():
    X = sp.csr_array((np.array(VALUES, np.float32), INDICES, POINTER), shape=(3, 4))
    assert rows_are_sound(X)
    for name, array in (("indptr", X.indptr[:-1]), ("indices", X.indices.astype(float)), ("data", X.data[None])):
        other = X.copy()
        setattr(other, name, array)
        assert not rows_are_sound(other)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_read_only_rows_need_no_other_kernels(form):
    """Numba compiles kernels again, for minutes, for read-only arrays, such as those of pandas or mapped files."""
    rows = np.random.default_rng(0).random((5, 3000)).astype(np.float32)
    X = form(rows)
    usual = numba.typeof(as_batch(X))
    for array in (X,) if form is np.asarray else (X.data, X.indices, X.indptr):
        array.flags.writeable = False
    batch = as_batch(X)
    assert numba.typeof(batch) == usual
    values = X if form is np.asarray else X.data
    assert np.shares_memory(batch.values, values)
    del X, values, array
    np.testing.assert_array_equal(batch.values.ravel(), rows.ravel())  # its memory is kept
