"""Times measured in the same way everywhere: code compiled beforehand, the median of several runs."""

import statistics
import time
from collections.abc import Callable
from typing import Any

from sklearn.base import clone

from benchmarks.runners.measure import median_one_by_one


def seconds_of(call: Callable[[], object], repeats: int = 1) -> float:
    """Median wall clock of a call in seconds."""
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def fit_seconds(model: Any, X: Any, y: Any) -> float:
    """Wall clock of `fit` in seconds."""
    return seconds_of(lambda: model.fit(X, y))


def fit_and_predict(model: Any, X: Any, y: Any, X_test: Any, repeats: int = 1) -> tuple[float, float]:
    """Seconds of `fit`, and median seconds of `predict` for all test rows; a copy is compiled on 300 rows before."""
    clone(model).fit(X[:300], y[:300]).predict(X_test[:9])
    return fit_seconds(model, X, y), seconds_of(lambda: model.predict(X_test), repeats)


def seconds_of_one_row(call: Callable[[Any], object], X: Any, n: int = 1000) -> float:
    """Median wall clock of predicting one row, over n rows, after twenty that do not count."""
    rows = [X[i : i + 1] for i in range(min(n + 20, X.shape[0]))]
    for row in rows[:20]:
        call(row)
    return median_one_by_one(call, rows[20:])
