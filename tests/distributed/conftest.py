"""A cluster of processes on this machine, and small sets with several aligned parts."""

import numpy as np
import pytest
import scipy.sparse as sp

from benchmarks.dask.running import running
from tests.distributed.partitions import N_ROWS

N_FEATURES, N_LABELS = 400, 550


@pytest.fixture(scope="session")
def cluster_and_client():
    with running(4) as both:
        yield both


@pytest.fixture(scope="session")
def cluster(cluster_and_client):
    return cluster_and_client[0]


@pytest.fixture(scope="session")
def client(cluster_and_client):
    return cluster_and_client[1]


@pytest.fixture(scope="session")
def text():
    """Sparse rows, one label each."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, N_LABELS, N_ROWS)
    columns = np.stack([y % 397, 3 * y % 389, rng.integers(0, N_FEATURES, N_ROWS)], axis=1)
    places = np.repeat(np.arange(N_ROWS), 3), columns.ravel()
    X = sp.csr_array((np.ones(3 * N_ROWS, np.float32), places), shape=(N_ROWS, N_FEATURES))
    return X, np.array([f"label {label}" for label in y])
