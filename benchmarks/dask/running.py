"""Sets as files of partitions, clusters on this machine, and digests of models, for the scripts in this folder."""

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import dask
import numpy as np
import scipy.sparse as sp
from dask import delayed
from distributed import Client, LocalCluster
from distributed.utils import get_mp_context

from benchmarks.large import SETS as LARGE
from benchmarks.sets import SETS, prepare

ALL = {**SETS, **LARGE}


def write_partitions(name: str, n_parts: int, folder: Path, n_rows: int | None = None) -> tuple[Any, Any, list]:
    """X and y of a set, or of its first rows, and the partitions: workers read them from files."""
    X, y, _, _ = prepare(ALL[name], n_rows)
    y = sp.csr_array(y) if sp.issparse(y) else np.asarray(y)
    edges = np.linspace(0, X.shape[0], n_parts + 1).astype(int)
    parts = []
    for number, (first, last) in enumerate(pairwise(edges)):
        paths = [folder / f"{what}{number}" for what in "Xy"]
        for path, rows in zip(paths, (X[first:last], y[first:last]), strict=True):
            if sp.issparse(rows):
                sp.save_npz(f"{path}.npz", sp.csr_array(rows), compressed=False)
            else:
                np.save(f"{path}.npy", rows)
        parts.append(delayed(read_partition, nout=3)(*map(str, paths)))
    return X, y, parts


def read_partition(*paths: str) -> tuple[Any, Any, None]:
    """X, y and no weights of a partition."""
    X, y = (sp.load_npz(f"{path}.npz") if os.path.exists(f"{path}.npz") else np.load(f"{path}.npy") for path in paths)
    return X, y, None


@contextmanager
def running(n_workers: int, memory: str | float = 0) -> Iterator[tuple[LocalCluster, Client]]:
    """A cluster of processes with one thread each.

    Processes are forked from one that has imported all modules and run nothing: a worker starts in a fraction of a
    second, also after it was killed.
    """
    options = {"n_workers": n_workers, "threads_per_worker": 1, "memory_limit": memory, "dashboard_address": ":0"}
    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        get_mp_context().set_forkserver_preload(["distributed", "manyclass.distributed.estimator"])
        with LocalCluster(**options) as cluster, Client(cluster) as client:
            yield cluster, client


def digest(model: Any) -> str:
    """The SHA-256 of the model file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        model.save(path)
        return hashlib.sha256(path.read_bytes()).hexdigest()
