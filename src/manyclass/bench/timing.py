"""Time, measured alike everywhere: compiled beforehand, the median of several runs, one core unless said otherwise."""

import os
import platform
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np


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
    told = []
    for row in rows:
        begun = time.perf_counter()
        call(row)
        told.append(time.perf_counter() - begun)
    return statistics.median(told[20:])


def machine() -> str:
    """The machine in a few words: results of two machines should not be mixed."""
    name = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
            named = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
        name = named[0] if named else name
    except OSError:
        pass
    return f"{name}, {os.cpu_count()} cores, {platform.system()}, numpy {np.__version__}"
