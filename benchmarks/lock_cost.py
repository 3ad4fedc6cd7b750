"""What the locks of estimators cost: the same calls of the same model with them and without, in turns. See --help."""

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
if __name__ == "__main__":
    sys.path[0] = str(ROOT)  # of the repository: `benchmarks` is not installed

from benchmarks.tables import markdown_table  # noqa: E402
from manyclass.core.prediction import Predictor  # noqa: E402
from manyclass.estimators import ESTIMATORS  # noqa: E402


def seconds(call: Callable, n_calls: int) -> float:
    """The time of a call."""
    for _ in range(20):
        call()
    begin = time.perf_counter()
    for _ in range(n_calls):
        call()
    return (time.perf_counter() - begin) / n_calls


def compare(call: Callable, owner: type, name: str, n_calls: int, n_turns: int) -> tuple[float, float]:
    """The median times of a call with the lock of a method, and without it."""
    owner = next(one for one in owner.__mro__ if name in vars(one))
    locked = vars(owner)[name]
    times: dict[Callable, list[float]] = {locked: [], locked.__wrapped__: []}
    try:
        for turn in range(n_turns):
            for method in sorted(times, key=lambda one: (one is locked) == bool(turn % 2)):
                setattr(owner, name, method)
                times[method].append(seconds(call, n_calls))
    finally:
        setattr(owner, name, locked)
    return float(np.median(times[locked])), float(np.median(times[locked.__wrapped__]))


def main(arguments: list[str] | None = None) -> int:
    """Print a table of all estimators."""
    parser = argparse.ArgumentParser(description="Time of calls with and without locks, in microseconds.")
    parser.add_argument("--turns", type=int, default=31)
    parser.add_argument("--calls", type=int, default=300, help="in a turn")
    asked = parser.parse_args(arguments)
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(2000, 100)).astype(np.float32), rng.integers(0, 200, 2000)
    table = []
    for name, kind in ESTIMATORS.items():
        model = kind(random_state=0).fit(X, y)
        predict = model.predictor()
        calls: list[tuple[str, Callable, type, str]] = [
            ("predictor", lambda predict=predict: predict(X[0]), Predictor, "__call__"),
            ("predict, 1 row", lambda model=model: model.predict(X[:1]), kind, "predict"),
            ("predict, 100 rows", lambda model=model: model.predict(X[:100]), kind, "predict"),
        ]
        if hasattr(model, "partial_fit"):
            learn = "_learn_more"
            calls.append(("partial_fit, 1 row", lambda model=model: model.partial_fit(X[:1], y[:1]), kind, learn))
            calls.append(
                ("partial_fit, 100 rows", lambda model=model: model.partial_fit(X[:100], y[:100]), kind, learn)
            )
        for what, call, owner, method in calls:
            locked, plain = compare(call, owner, method, asked.calls, asked.turns)
            times = f"{1e6 * locked:.1f}", f"{1e6 * plain:.1f}", f"{locked / plain:.3f}"
            table.append([name, what, *times])
    print(markdown_table(["estimator", "call", "with", "without", "ratio"], table))
    return 0


if __name__ == "__main__":
    sys.exit(main())
