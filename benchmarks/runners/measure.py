"""Seconds and bytes: how ours and the peers are measured, the same for all."""

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PASSES, ENOUGH_SECONDS = 3, 10.0  # the median of three; nothing is repeated once that many seconds are spent
ONE_BY_ONE = 200  # rows asked one at a time


def median_of_passes(call: Callable[[], Any]) -> tuple[float, Any]:
    """Call up to three times, and return the median of the seconds and the last result."""
    seconds: list[float] = []
    result = None
    while len(seconds) < PASSES and sum(seconds) < ENOUGH_SECONDS:
        start = time.perf_counter()
        result = call()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds), result


def median_of_training(first: float, again: Callable[[], float]) -> tuple[float, int]:
    """The median of three trainings where the first was short, and how many there were."""
    seconds = [first]
    while len(seconds) < PASSES and first < ENOUGH_SECONDS:
        seconds.append(again())
    return statistics.median(seconds), len(seconds)


def median_one_by_one(call: Callable[[Any], Any], rows: list[Any]) -> float:
    """Call with each row alone, and return the median of the seconds."""
    call(rows[0])  # whatever is set up on first use
    seconds = []
    for row in rows:
        start = time.perf_counter()
        call(row)
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def places(n_rows: int) -> list[int]:
    """Up to 200 rows spread over the test set, to be asked one by one."""
    n = min(ONE_BY_ONE, n_rows)
    return [round(i * (n_rows - 1) / max(n - 1, 1)) for i in range(n)]


def held_bytes() -> int | None:
    """What this process holds in memory now, or None where the system does not say."""
    return _status("VmRSS")


def forget_peak() -> None:
    """Let `peak_bytes` count from now on, where the system can (Linux)."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        pass


def peak_bytes() -> int | None:
    """The most this process has held in memory.

    Linux says so in /proc. Its getrusage is not used there: a process begins with the peak of the one that started it.
    """
    peak = _status("VmHWM")
    if peak is not None:
        return peak
    try:
        import resource
    except ImportError:  # Windows
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _status(key: str) -> int | None:
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith(f"{key}:")), None)
