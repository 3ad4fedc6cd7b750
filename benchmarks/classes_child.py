"""One point of the curve of cost against the number of classes, in a process of its own: its peak of memory is its own.

Run as `python -m benchmarks.classes_child '{"n_classes": 1000, ...}'`; prints one line of JSON.
"""

import json
import sys
import time
from typing import Any

import numpy as np

from benchmarks.hierarchy import Hierarchy
from benchmarks.runners import measure
from benchmarks.timing import seconds_of
from manyclass import OneAgainstAllClassifier, RecallTreeClassifier

FAR = 2**40  # where the test rows begin
_BATCH = 1 << 16


def run(task: dict[str, Any]) -> dict[str, Any]:
    """Train on a stream, then predict: seconds and work per row, memory."""
    stream = Hierarchy(task["n_classes"], task["n_features"], exponent=task["exponent"], seed=0)
    classes = np.arange(task["n_classes"])
    flat = task["algorithm"] == "one-against-all"
    kind: Any = OneAgainstAllClassifier if flat else RecallTreeClassifier
    make = lambda: kind(random_state=0, **task["options"])  # noqa: E731
    X, y = stream.rows(400, first=FAR - 400)
    make().partial_fit(X, y, classes=classes[: max(2, y.max() + 1)]).predict(X)  # compiles
    before = measure.held_bytes() or 0
    model, train, n = make(), 0.0, 0
    for X, y in stream.batches(task["n_rows"], _BATCH):
        begun = time.perf_counter()
        model.partial_fit(X, y, classes=None if n else classes)
        train, n = train + time.perf_counter() - begun, n + len(y)
        if train > task["cap"]:
            break
    X, y = stream.rows(task["n_test"], first=FAR)
    seconds = seconds_of(lambda: model.predict(X), task["repeats"])
    told = model.diagnose(X[:4000], y[:4000])
    keys = ("accuracy", "recall", "depth", "routers_scored", "candidates_scored", "work")
    return {
        "train": train / n, "rows": n, "predict": seconds / len(y), **{key: told[key] for key in keys},
        "bytes": model.n_bytes_, "peak": (measure.peak_bytes() or 0) - before,
        "estimate": model.estimate_memory(stream.n_features, task["n_classes"], n_rows=n) if not flat else 0,
    }  # fmt: skip


if __name__ == "__main__":
    print(json.dumps(run(json.loads(sys.argv[1]))))
