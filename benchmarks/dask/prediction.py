"""Rows per second of predictions on two workers of this machine beside one process with two threads. Run it idle.

    MANYCLASS_DATA=... python benchmarks/dask/prediction.py --rows 10_000_000

The rows are the test rows of a set, repeated. Workers read them from a file, as they would read their part of a large
data set, and return how often each label was predicted; the counts of both ways must be the same.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

import dask.array as da
import numpy as np
import scipy.sparse as sp
from dask import delayed

sys.path[0] = str(Path(__file__).resolve().parents[2])  # of the repository: `benchmarks` is not installed

from benchmarks.dask.running import ALL, running  # noqa: E402
from benchmarks.sets import prepare  # noqa: E402
from manyclass import LabelTreeClassifier  # noqa: E402
from manyclass.distributed import DaskLabelTreeClassifier  # noqa: E402

AT_A_TIME = 50_000  # rows of a block


def block(path: str, n_rows: int) -> sp.csr_array:
    """The rows of the file, repeated."""
    X = sp.csr_array(sp.load_npz(path))
    return X[np.arange(n_rows) % X.shape[0]]


def counts(labels: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """How often each class was predicted."""
    return np.bincount(np.searchsorted(classes, labels), minlength=len(classes))


def on_cluster(n_workers: int, model: LabelTreeClassifier, path: str, sizes: list[int]) -> tuple[float, np.ndarray]:
    """Seconds, and the counts."""
    with running(n_workers) as (_, client):
        trained = DaskLabelTreeClassifier(client)
        trained._local = model
        shape, meta = (model.n_features_in_,), sp.csr_array((0, model.n_features_in_), dtype=np.float32)

        def predicted(sizes: list[int]) -> list:
            blocks = [da.from_delayed(delayed(block)(path, n), (n, *shape), meta=meta) for n in sizes]
            labels = trained.predict(da.concatenate(blocks)).to_delayed().ravel()
            return client.gather(client.compute([delayed(counts)(one, model.classes_) for one in labels]))

        predicted(sizes[: 2 * n_workers])  # every worker compiles
        start = time.perf_counter()
        found = predicted(sizes)
        return time.perf_counter() - start, np.sum(found, axis=0)


def main() -> None:
    """Print rows per second."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", default="wordnet-hypernym", help="with one label per row")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--workers", nargs="+", type=int, default=[1, 2])
    options = parser.parse_args()
    X, y, X_test, _ = prepare(ALL[options.set], None)
    model = LabelTreeClassifier(random_state=0, n_jobs=2).fit(X, y)
    sizes = [min(AT_A_TIME, options.rows - first) for first in range(0, options.rows, AT_A_TIME)]
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "rows.npz")
        sp.save_npz(path, sp.csr_array(X_test), compressed=False)
        model.predict(X_test)
        start = time.perf_counter()
        expected = np.sum([counts(model.predict(block(path, n)), model.classes_) for n in sizes], axis=0)
        alone = time.perf_counter() - start
        print(f"{options.set}, {options.rows:,} rows")
        print(f"one process, two threads: {options.rows / alone:,.0f} rows/s", flush=True)
        for n_workers in options.workers:
            seconds, found = on_cluster(n_workers, model.set_params(n_jobs=1), path, sizes)
            same = "same labels" if (found == expected).all() else "OTHER LABELS"
            print(f"{n_workers} workers: {options.rows / seconds:,.0f} rows/s, {same}", flush=True)


if __name__ == "__main__":
    main()
