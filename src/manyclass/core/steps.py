"""How the steps of a `fit` are run over the parts of the rows: here in this process, elsewhere on a cluster.

`fit` calls only the methods of `Here`; `manyclass.distributed` has a class with the same methods, whose values are
futures. Steps are pure functions, and sums over parts are exact (core/exact.py), so that the result depends
neither on the parts nor on where a step runs.
"""

from collections.abc import Callable, Sequence
from functools import reduce, wraps
from math import inf
from threading import Lock
from typing import Any

import threadpoolctl
from threadpoolctl import threadpool_limits

from .locks import in_child, parallel
from .memory import as_text


class Here:
    """Runs all steps in this process, each on `n_jobs` threads.

    `most_bytes` limits the results of all chunks together; with `spill`, long arrays are in temporary files.
    """

    def __init__(self, n_jobs: int = 1, most_bytes: float = inf, spill: bool = False) -> None:
        self.n_jobs = self.n_threads = n_jobs
        self.most_bytes, self.spill = most_bytes, spill
        self._n_bytes, self._lock = 0, Lock()

    def n_chunks(self, n_values: int) -> int:
        """Number of chunks for the training from so many values."""
        return 64

    def call(self, function: Callable, *arguments: Any) -> Any:
        """The result of a function."""
        return function(*arguments)

    def each(self, function: Callable, lists: Sequence[list], *shared: Any) -> list:
        """The results for all parts: each list has one item per part; all parts get `shared`."""
        return parallel(lambda *own: function(*own, *shared), *lists, n_jobs=self.n_jobs)

    def combine(self, function: Callable, values: list) -> Any:
        """One value from the values of all parts; the function joins two of them, in any order."""
        return reduce(function, values)

    def chunks(self, take: Callable, train: Callable, lists: Sequence[list], chunks: list, *shared: Any) -> list:
        """For each chunk, a tuple of arrays: train(the results of `take` for all parts, *shared)."""
        return parallel(
            lambda chunk: self._counted(train(self.each(take, lists, chunk), *shared)), chunks, n_jobs=self.n_jobs
        )

    def _counted(self, found: tuple) -> tuple:
        """The arrays, or a MemoryError if they are too many."""
        with self._lock:
            self._n_bytes += sum(array.nbytes for array in found)
            if self._n_bytes > self.most_bytes:
                raise MemoryError(
                    f"fit was stopped: the weights take more than the {as_text(self.most_bytes)} that the limit of "
                    "memory leaves for them. Use a higher limit, or fewer rows."
                )
        return found

    def wait_until_few_are_missing(self, values: list) -> None:
        """Nothing to do here: values are computed at once."""

    def get(self, value: Any) -> Any:
        """The value of what another method returned; here it is that value itself."""
        return value


def add(a: Any, b: Any) -> Any:
    """The sum of two arrays or matrices, or of all items of two tuples."""
    if isinstance(a, tuple):
        items = [add(one, other) for one, other in zip(a, b, strict=True)]
        return type(a)(*items) if hasattr(a, "_fields") else tuple(items)
    return a + b


def one_blas_thread(function: Callable) -> Callable:
    """Decorator: linear algebra uses one thread, because the last bits of results depend on the number of threads."""

    @wraps(function)
    def limited(*arguments: Any) -> Any:
        with _BLAS:
            return function(*arguments)

    return limited


class _OneThread:
    """The limit of `one_blas_thread` for the whole process: the first thread sets it, the last one removes it."""

    def __init__(self) -> None:
        self._lock, self._n_inside = Lock(), 0
        self._limits: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if not self._n_inside:
                _take_control()
                if self._limits is not None:  # an interrupt kept the last thread from removing the limit
                    self._limits.restore_original_limits()
                self._limits = threadpool_limits(1, "blas")
            self._n_inside += 1

    def __exit__(self, *error: Any) -> None:
        with self._lock:
            self._n_inside -= 1
            if not self._n_inside:
                _take_control()
                self._limits.restore_original_limits()
                self._limits = None
                _take_control()

    def after_fork(self) -> None:
        """Start again in a forked process, which has no other threads."""
        self._lock, self._n_inside = Lock(), 0


def _take_control() -> None:
    """Since threadpoolctl 3.8, only the first thread that sets limits can set others; another one may be that now."""
    controller: Any = getattr(threadpoolctl, "OpenBLASController", None)
    if hasattr(controller, "clear_controlling_thread"):
        controller.clear_controlling_thread(force=True)


_BLAS = _OneThread()
in_child(_BLAS.after_fork)
