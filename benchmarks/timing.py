"""Time, measured alike everywhere: compiled beforehand, the median of several runs, one core unless said otherwise."""

import statistics
import time
from collections.abc import Callable
from typing import Any

from benchmarks.runners.measure import median_one_by_one


def seconds_of(call: Callable[[], object], repeats: int = 1) -> float:
    """Median wall clock of a call in seconds."""
    told = []
    for _ in range(repeats):
        begun = time.perf_counter()
        call()
        told.append(time.perf_counter() - begun)
    return statistics.median(told)


def seconds_of_one_row(call: Callable[[Any], object], X: Any, n: int = 1000) -> float:
    """Median wall clock of answering one row, over n rows, after twenty that do not count."""
    rows = [X[i : i + 1] for i in range(min(n + 20, X.shape[0]))]
    for row in rows[:20]:
        call(row)
    return median_one_by_one(call, rows[20:])
