"""New labels one by one: time per call of `partial_fit` as the number of classes grows, and memory of the labels.

Each call learns one row with a new text label. Columns: median time of a call in the first and in the last tenth of all
calls (those that enlarge an array are rare and part of neither), the mean over all calls, and bytes per label of the
class index, in which each label also has a place in a list, a dictionary and an array.
"""

import time
import tracemalloc

import numpy as np
from report import parse, publish

from benchmarks.origin import machine
from manyclass.core.classes import ClassIndex
from manyclass.estimators import ESTIMATORS

EXTRA: dict = {
    "labels": {"type": int, "default": 200_000},
    "estimators": {"nargs": "*", "default": [name for name in ESTIMATORS if name != "spectral-tree"]},
}
# Small weights: the subject is the number of labels.
_N_FEATURES = 16
_OPTIONS = {"label-tree": {}, "one-against-all": {"table_bits": 18, "n_negatives": 4}}


def seconds_per_call(name: str, n_labels: int) -> np.ndarray:
    """Time of each call."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_labels, _N_FEATURES)).astype(np.float32)
    model = ESTIMATORS[name](random_state=0, **_OPTIONS.get(name, {"table_bits": 18}))
    seconds = np.empty(n_labels)
    for i in range(n_labels):
        begun = time.perf_counter()
        model.partial_fit(X[i : i + 1], [f"label {i}"])
        seconds[i] = time.perf_counter() - begun
    assert len(model.classes_) == n_labels
    return seconds


def bytes_per_label(n_labels: int, length: int) -> float:
    """Memory of a class index to which labels of this length were added one by one."""
    tracemalloc.start()
    index = ClassIndex(np.array(["first"]))
    for i in range(n_labels):
        index.add(np.array([f"{i:0{length}}"]))
    _ = index.array
    used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return used / n_labels


def main() -> None:
    args = parse(__doc__, **EXTRA)
    n_labels = 2_000 if args.quick else args.labels
    rows = []
    for name in args.estimators:
        seconds = seconds_per_call(name, n_labels)
        tenth = max(1, n_labels // 10)
        first, last = np.median(seconds[:tenth][1:]), np.median(seconds[-tenth:])
        rows.append(
            {
                "estimator": name,
                "labels": f"{n_labels:,}",
                "first tenth µs": f"{1e6 * first:.0f}",
                "last tenth µs": f"{1e6 * last:.0f}",
                "ratio": f"{last / first:.2f}",
                "mean µs": f"{1e6 * seconds[1:].mean():.0f}",
            }
        )
        print(rows[-1], flush=True)
    sizes = {length: bytes_per_label(min(n_labels, 20_000), length) for length in (10, 100, 1000)}
    notes = [f"Bytes of the class index per label of {length} characters: {n:.0f}." for length, n in sizes.items()]
    publish("new_labels", "New labels one by one", rows, [*notes, machine()["machine"]], args.quick)


if __name__ == "__main__":
    main()
