"""The steps of a `fit` as tasks of a Dask cluster.

Every step is a task of a pure function on the results of other tasks: if a worker dies, Dask runs the lost tasks again
on another one, with the same result. Nothing is scattered, because scattered data cannot be computed again.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from functools import reduce
from typing import Any
from weakref import WeakSet

try:
    from dask import config
    from distributed import Client, Future, get_client, wait
    from distributed.client import ClosedClientError
    from distributed.comm import CommClosedError
except ImportError as error:
    raise ImportError("manyclass.distributed requires Dask: pip install 'manyclass[dask]'.") from error

from ..core.progress import Progress
from .checkpoints import stored

_AT_ONCE = 8  # values that are combined in one task
# A task costs 2 ms besides its work, so there are few parts, and few chunks if these are small.
_PARTS_PER_THREAD = 2
_CHUNKS_PER_THREAD, _FEW_CHUNKS = 8, 64
_LARGE_CHUNK = 1 << 22  # values
_FEW_MISSING = 2
_CHUNKS_IN_FLIGHT = 3  # per thread: their rows are in memory twice


_LOST = CancelledError, ClosedClientError, CommClosedError  # without a scheduler


class Cluster:
    """Runs steps on a cluster; the methods are those of `manyclass.core.steps.Here`, and values are futures."""

    n_jobs = 1  # threads within a task: Dask runs several tasks in a process instead
    spill = False  # Dask itself moves results to disk

    def __init__(self, client: Client | None, checkpoints: str | None = None, verbose: int | bool = 0) -> None:
        self.checkpoints = checkpoints  # folder of trained chunks, or None
        self.verbose = verbose
        self._futures: WeakSet[Future] = WeakSet()
        self._n_passes = 0
        if client is not None and not isinstance(client, Client):
            raise TypeError(f"client must be a distributed.Client, got {type(client).__name__}: use Client(...) of it.")
        try:
            self.client = get_client() if client is None else client
        except ValueError as error:
            raise ValueError("client is None and there is no cluster: make one with distributed.Client().") from error

    @property
    def n_threads(self) -> int:
        """Threads of all workers that are there now."""
        return max(1, sum(self.client.nthreads().values()))

    @property
    def n_parts(self) -> int:
        """Number of parts of the rows; the model does not depend on it."""
        return _PARTS_PER_THREAD * self.n_threads

    def n_chunks(self, n_values: int) -> int:
        """Number of chunks for the training from so many values; the model does not depend on it."""
        return max(_CHUNKS_PER_THREAD * self.n_threads, min(_FEW_CHUNKS, n_values // _LARGE_CHUNK))

    def call(self, function: Callable, *arguments: Any) -> Future:
        """The future value of a function."""
        future = self.client.submit(function, *arguments, pure=False)
        self._futures.add(future)
        return future

    def compute(self, delayed: list) -> list[Future]:
        """The future values of delayed objects."""
        futures = self.client.compute(delayed)
        self._futures.update(futures)
        return futures

    def share(self, value: Any) -> Future:
        """A value of this process for tasks; it is part of a task, so that it can be computed again."""
        with config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
            return self.call(_itself, value)

    def each(self, function: Callable, lists: Sequence[list], *shared: Any) -> list[Future]:
        """The future value for each part."""
        n = len(lists[0])
        futures = self.client.map(function, *lists, *([one] * n for one in shared), pure=False)
        self._futures.update(futures)
        return futures

    def combine(self, function: Callable, values: list[Future]) -> Future:
        """One value from those of all parts, a few at a time."""
        while len(values) > 1:
            groups = [values[first : first + _AT_ONCE] for first in range(0, len(values), _AT_ONCE)]
            values = [group[0] if len(group) == 1 else self.call(_combined, function, group) for group in groups]
        return values[0]

    def chunks(self, take: Callable, train: Callable, lists: Sequence[list], chunks: list, *shared: Any) -> list:
        """For each chunk, train(what `take` finds in each part, *shared); few at a time, to bound the memory."""
        found: list[Future] = []
        running: list[Future] = []
        to_do = [train] if self.checkpoints is None else [stored, self.checkpoints, train]
        most = _CHUNKS_IN_FLIGHT * self.n_threads
        self._n_passes += 1
        progress = Progress(self.verbose, f"fit, pass {self._n_passes} over the nodes", len(chunks), "chunks")
        for chunk in chunks:
            if len(running) >= most:
                running = self._unfinished(running, progress)
            found.append(self.call(*to_do, self.each(take, lists, chunk), *shared))
            running.append(found[-1])
        while running and self.verbose:
            running = self._unfinished(running, progress)
        return found

    def wait_until_few_are_missing(self, values: list[Future]) -> None:
        """Wait until only the last values are missing, so that what the others are made from is not in memory."""
        with self.client.as_current():
            wait(values[:-_FEW_MISSING])

    def _unfinished(self, running: list[Future], progress: Progress) -> list[Future]:
        """Wait for the end of one of the futures, and return the others."""
        with self.client.as_current():  # `wait` has no argument for it
            wait(running, return_when="FIRST_COMPLETED")
        for future in running:
            if future.status == "error":
                future.result()  # raises the error now, not after all other chunks
        left = [future for future in running if not future.done()]
        progress.advance(len(running) - len(left))
        return left

    @contextmanager
    def ended_by_errors(self, method: str) -> Iterator[None]:
        """After an error or Ctrl-C in a method of the estimator, no further task starts.

        Without a scheduler, the error says what to do.
        """
        try:
            yield
        except BaseException as error:
            for future in list(self._futures):  # the traceback keeps them
                future.release()
            if self.client.status == "running" or not isinstance(error, _LOST):
                raise
            kept = "trains everything anew" if self.checkpoints is None else "continues with what is in `checkpoint`"
            repeat = f"fit, which {kept}" if method == "fit" else f"{method}; the model is as it was before"
            raise ConnectionError(
                f"The cluster ended during {method} ({type(error).__name__}). Start it again and repeat {repeat}."
            ) from error

    def get(self, value: Any) -> Any:
        """The value of a future, or the values of a list of futures."""
        return self.client.gather(value)


def _itself(value: Any) -> Any:
    return value


def _combined(function: Callable, values: list) -> Any:
    return reduce(function, values)
