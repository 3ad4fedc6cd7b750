"""A plan for a large set on many machines, from the measured cost of each step on a small set.

    MANYCLASS_DATA=... python benchmarks/dask/plan.py --set big-text-0.05 --write constants.json
    python benchmarks/dask/plan.py --read constants.json --rows 100e6 --labels 3e6 --machines 100

The first command runs `fit` in this process, in parts, and writes the processor time and the result sizes of each step.
The second one scales them: steps over rows by the non-zeros of all rows, steps over labels by the labels. Then it runs
the tasks through a simulated scheduler: a task starts on the machine that is free first when all it waits for is done,
and what it receives takes bytes / bandwidth.
"""

import argparse
import heapq
import json
import sys
import time
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

sys.path[0] = str(Path(__file__).resolve().parents[2])  # of the repository: `benchmarks` is not installed

from benchmarks.large import SETS as LARGE  # noqa: E402
from benchmarks.sets import SETS, prepare  # noqa: E402
from manyclass import LabelTreeClassifier  # noqa: E402
from manyclass.core.multilabel import labels_of  # noqa: E402
from manyclass.core.protocol import as_labels  # noqa: E402
from manyclass.core.state import n_bytes  # noqa: E402
from manyclass.core.steps import Here  # noqa: E402
from manyclass.core.validation import as_batch  # noqa: E402
from manyclass.label_tree.fit import Sizes, fit_parts, take_rows, train_nodes  # noqa: E402
from manyclass.label_tree.fit_kernels import Pairs  # noqa: E402
from manyclass.label_tree.parts import ALIGNED, Given, Piece  # noqa: E402

# Steps whose time grows with the labels (and features), not with the rows.
OVER_LABELS = {"_orthonormal", "_embedded", "_random_pairs", "_ordered", "_tree_of"}
OVER_LABELS |= {"join", "_side_by_side", "_scaled", "_columns", "_first_basis"}

PASSES = {"times": 3, "back": 2}  # of the randomised SVD
PARTS, CHUNKS = 2, 8  # of the rows and of the nodes, per machine, as in manyclass/distributed/cluster.py


class Timed(Here):
    """Runs all steps in this process and adds up processor seconds and bytes of results by the name of the step."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: dict[str, float] = defaultdict(float)
        self.bytes: dict[str, float] = defaultdict(float)
        self.largest_router = 0.0  # seconds of the slowest chunk of routers, which holds the root

    def call(self, function: Any, *arguments: Any) -> Any:
        begun = time.process_time()
        value = function(*arguments)
        name = getattr(function, "__name__", type(function).__name__)
        self.seconds[name] += time.process_time() - begun
        self.bytes[name] += _size(value)
        return value

    def each(self, function: Any, lists: Any, *shared: Any) -> list:
        return [self.call(function, *own, *shared) for own in zip(*lists, strict=True)]

    def chunks(self, take: Any, train: Any, lists: Any, chunks: list, *shared: Any) -> list:
        assert take is take_rows and train is train_nodes
        leaf, out = shared[-1].leaf, []
        for chunk in chunks:
            pieces, begun = self.each(take, lists, chunk), time.process_time()
            out.append(train(pieces, *shared))
            seconds = time.process_time() - begun
            self.seconds["train leaves" if leaf else "train routers"] += seconds
            if not leaf and 0 in chunk:
                self.largest_router = seconds
        return out


def _size(value: Any) -> int:
    if isinstance(value, np.ndarray):
        return value.nbytes
    if sp.issparse(value):
        return value.data.nbytes + value.indices.nbytes
    if isinstance(value, (Piece, Pairs, tuple, list)):
        return sum(_size(item) for item in value)
    return 0


def measure(name: str) -> dict:
    """The costs of all steps on a set."""
    X, y, _, _ = prepare({**SETS, **LARGE}[name])
    Y = sp.csr_array(y) if sp.issparse(y) else None
    labels = labels_of(Y) if Y is not None else as_labels(np.unique(y, return_inverse=True)[1])
    estimator = LabelTreeClassifier(random_state=0)
    estimator.fit(X[:ALIGNED], y[:ALIGNED])  # compiles, and resolves the options
    n, n_features = X.shape
    edges = [*range(0, n, max(1, n // 8 // ALIGNED) * ALIGNED), n]
    given = []
    for first, last in pairwise(edges):
        rows = labels.rows(np.arange(first, last))
        given.append(Given(as_batch(sp.csr_array(X[first:last])), rows, np.ones(last - first)))
    n_labels, run = int(labels.label.max()) + 1, Timed()
    options = estimator._options._replace(start=-1.0, router_start=-1.0)
    _, state = fit_parts(run, options, given, Sizes(n_features, n_labels, True), lambda share: None)
    return {
        "set": name, "rows": n, "features": n_features, "labels": n_labels, "nonzeros": int(X.nnz),
        "labels_per_row": len(labels.label) / n, "model_bytes": n_bytes(state), "root_seconds": run.largest_router,
        "seconds": dict(run.seconds), "bytes": dict(run.bytes),
    }  # fmt: skip


def simulate(tasks: list[tuple[float, float]], machines: int, bandwidth: float) -> float:
    """Seconds until all tasks, (seconds, bytes received) each, are done; the longest begin first."""
    free = [0.0] * machines
    for seconds, received in sorted(tasks, reverse=True):
        heapq.heappush(free, heapq.heappop(free) + seconds + received / bandwidth)
    return max(free)


def plan(known: dict, rows: float, labels: float, machines: int, bandwidth: float) -> None:
    """Print the time, memory and bytes of each phase."""
    by_rows = rows / known["rows"]  # with as many non-zeros per row
    by_labels = labels / known["labels"]
    per_row = known["nonzeros"] / known["rows"]
    print(f"from {known['set']}: {known['rows']:,} rows, {known['labels']:,} labels, {per_row:.0f} non-zeros per row")
    print(f"to {rows:,.0f} rows, {labels:,.0f} labels on {machines} machines, {bandwidth / 1e9:.2f} GB/s each\n")
    root = known["root_seconds"] * by_rows
    total = 0.0
    print("| step | processor hours | moved, GB | hours on the machines |\n|---|---|---|---|")
    for name, seconds in sorted(known["seconds"].items(), key=lambda item: -item[1]):
        factor = by_labels if name in OVER_LABELS else by_rows
        seconds, moved = seconds * factor, known["bytes"].get(name, 0.0) * factor
        if name in PASSES:  # every task sends a sum for all labels or features, however many rows it has
            moved = PARTS * machines * (labels if name == "times" else known["features"]) * 64 * 8 * PASSES[name]
        if name in OVER_LABELS:
            tasks = [(seconds, moved)]  # one machine
        elif name == "train routers":
            n_tasks = CHUNKS * machines
            rest = max(0.0, seconds - root)
            tasks = [(root, rows * per_row * 8), *[(rest / n_tasks, moved / n_tasks)] * n_tasks]
        else:
            n_tasks = (CHUNKS if name == "train leaves" else PARTS) * machines
            tasks = [(seconds / n_tasks, moved / n_tasks)] * n_tasks
        took = simulate(tasks, machines, bandwidth)
        total += took
        if seconds > 36 or moved > 1e10:
            print(f"| {name} | {seconds / 3600:.1f} | {moved / 1e9:.0f} | {took / 3600:.2f} |")
    print(f"\nall steps, one after the other: {total / 3600:.1f} hours")
    print(f"rows in memory: {rows * per_row * 8 / machines / 1e9:.1f} GB per machine")
    print(f"the root: {root / 3600:.1f} hours and {rows * per_row * 8 / 1e9:.0f} GB of rows on one machine")
    print(f"exact sums of 16 columns: {max(labels, known['features']) * 16 * 8 / 1e9:.2f} GB per task")
    print(f"model: {known['model_bytes'] * by_labels / 1e9:.0f} GB, put together on one machine (twice at the peak)")


def main() -> None:
    """Measure, or plan."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", default="big-text-0.05")
    parser.add_argument("--write", type=Path)
    parser.add_argument("--read", type=Path)
    parser.add_argument("--rows", type=float, default=100e6)
    parser.add_argument("--labels", type=float, default=3e6)
    parser.add_argument("--machines", type=int, default=100, help="with one thread each")
    parser.add_argument("--bandwidth", type=float, default=1.25e9, help="bytes per second of a machine")
    options = parser.parse_args()
    known = json.loads(options.read.read_text()) if options.read else measure(options.set)
    if options.write:
        options.write.write_text(json.dumps(known, indent=1) + "\n")
    plan(known, options.rows, options.labels, options.machines, options.bandwidth)


if __name__ == "__main__":
    main()
