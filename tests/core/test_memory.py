"""Amounts of memory."""

import sys

import numpy as np
import pytest
import scipy.sparse as sp

from manyclass.core.memory import as_bytes, as_text, held_bytes
from manyclass.core.steps import Here
from manyclass.core.validation import check_sparse


@pytest.mark.parametrize(
    ("size", "n"),
    [(1000, 1000), (2.5e9, 25 * 10**8), ("8GB", 8 * 10**9), ("512 MiB", 2**29), ("1.5kb", 1500), (" .5 TB ", 5e11)],
)
def test_amounts_are_numbers_or_text(size, n):
    assert as_bytes(size) == n


@pytest.mark.parametrize("size", ["8", "GB", "-1GB", "8 XB", "8G", "", "1e9B", None, 1.5, np.inf, np.nan, True, [8]])
def test_anything_else_is_no_amount(size):
    assert as_bytes(size) is None


@pytest.mark.parametrize("n", [1, 999_999, 1_000_001, 10**9, 10**10 + 1, 10**13 - 1])
def test_texts_of_amounts_are_never_less(n):
    assert n <= as_bytes(as_text(n)) <= n + max(10**6, 0.1 * n)


@pytest.mark.skipif(sys.platform != "linux", reason="the system does not tell")
def test_arrays_are_held():
    before = held_bytes()
    kept = np.ones(50_000_000, np.uint8)
    assert held_bytes() - before >= 0.9 * kept.nbytes


@pytest.mark.skipif(sys.platform != "linux", reason="the system does not tell")
def test_mapped_rows_are_sorted_in_a_file(tmp_path):
    n = 5_000_000
    np.save(tmp_path / "data", np.ones(n, np.float32))
    np.save(tmp_path / "indices", np.tile(np.array([7, 3, 5, 3], np.int32), n // 4))
    data, indices = (np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in ("data", "indices"))
    X = sp.csr_array((data, indices, np.arange(0, n + 4, 4, dtype=np.int32)), shape=(n // 4, 9), copy=False)
    before = held_bytes()
    rows = check_sparse(X)
    assert held_bytes() - before < 4 * n
    assert rows.has_canonical_format
    assert rows[[0]].toarray().tolist() == [[0, 0, 0, 2, 0, 1, 0, 1, 0]]
    assert indices[:4].tolist() == [7, 3, 5, 3]


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_results_beyond_the_limit_stop_the_work(n_jobs):
    def train(parts):
        return (np.ones(parts[0], np.uint8),)

    def run(most):
        return Here(n_jobs, most).chunks(lambda part, chunk: part * chunk, train, [[10]], [1, 2, 3])

    assert [len(found[0]) for found in run(60)] == [10, 20, 30]
    with pytest.raises(MemoryError, match="the limit of memory leaves"):
        run(59)
