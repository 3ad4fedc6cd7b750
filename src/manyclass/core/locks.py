"""Predictions while another thread trains: many threads may read a model at a time, or one may change it.

`Threads` and `parallel` are for the threads of one call.
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import wraps
from threading import Condition, get_ident
from typing import Any, TypeVar

Method = TypeVar("Method", bound=Callable[..., Any])


class ModelLock:
    """Many readers or one writer, in turns: neither can keep the other waiting for ever.

    A reader enters its thread into a dictionary and then looks for writers; a writer announces itself and then looks
    for readers. So without a writer, reading takes no lock. Readers that wait for a writer are let in when it ends,
    before the next writer. The writer itself is entered as the only reader, so that it may call methods that read.
    """

    def __init__(self):
        self.readers: dict[int, bool] = {}  # the threads that read, or the one that writes
        self.writers: set[int] = set()  # threads that write or wait for it
        self.n_writes = 0  # how often the model was changed
        self._waiting: set[int] = set()  # threads that wait to read
        self._changed = Condition()

    def wait(self, thread: int) -> None:
        """Wait until the writer has ended, and enter the thread as a reader."""
        with self._changed:
            self.readers.pop(thread, None)
            self._changed.notify_all()
            if not self.writers:
                self.readers[thread] = True
                return
            self._waiting.add(thread)
            try:
                while thread not in self.readers:
                    self._changed.wait()
            finally:
                self._waiting.discard(thread)

    def wake(self) -> None:
        """Let waiting threads look again."""
        with self._changed:
            self._changed.notify_all()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Wait for all readers to end, and keep others out."""
        thread = get_ident()
        if thread in self.readers:
            raise RuntimeError("A model cannot be trained inside one of its own methods.")
        try:
            with self._changed:
                self.writers.add(thread)
                while self.readers:
                    self._changed.wait()
                self.readers[thread] = True
                self.n_writes += 1
            yield
        finally:
            with self._changed:
                self.writers.discard(thread)
                self.readers.pop(thread, None)
                if not self.writers & self.readers.keys():  # one may be inside if this one was interrupted in its wait
                    self.readers.update(dict.fromkeys(self._waiting, True))
                    self._waiting.clear()
                self._changed.notify_all()

    def __reduce__(self) -> tuple:
        return ModelLock, ()  # a copy of an estimator, or an unpickled one, has a lock of its own


class LockOfEstimator:
    """The lock of an estimator, made when first used: constructors set nothing but options."""

    def __get__(self, estimator: Any, kind: type) -> Any:
        return self if estimator is None else estimator.__dict__.setdefault("_lock", ModelLock())


def reads(method: Method) -> Method:
    """A method that never runs while another thread changes the model."""

    @wraps(method)
    def locked(self, *args, **kwargs):
        lock, thread = self._lock, get_ident()
        readers = lock.readers
        if thread in readers:  # called by a method that reads or writes
            return method(self, *args, **kwargs)
        try:
            readers[thread] = True
            if lock.writers:
                lock.wait(thread)
            return method(self, *args, **kwargs)
        finally:
            readers.pop(thread, None)
            if lock.writers:
                lock.wake()

    return locked  # type: ignore[return-value]


class Threads:
    """Threads whose calls have all ended when the block ends, also if it was interrupted; then no other call begins.

    `ThreadPoolExecutor` does not wait for a thread that an interrupt (Ctrl-C) met while it was being started: it would
    still write the arrays of a model when nothing locks it any more.
    """

    def __init__(self, n_threads: int) -> None:
        self._pool = ThreadPoolExecutor(n_threads)
        self._running, self._closed, self._changed = 0, False, Condition()

    def submit(self, function: Callable, *args: Any) -> Future:
        """Call the function on one of the threads."""
        return self._pool.submit(self._call, function, args)

    def _call(self, function: Callable, args: tuple) -> Any:
        with self._changed:
            if self._closed:
                return None
            self._running += 1
        try:
            return function(*args)
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify_all()

    def __enter__(self) -> "Threads":
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        try:
            self._pool.shutdown(wait=True, cancel_futures=kind is not None)
        finally:
            with self._changed:
                self._closed = True
                self._changed.wait_for(lambda: not self._running)


def parallel(function: Callable, *arguments: Iterable, n_jobs: int) -> list:
    """The function for each item of the lists, on `n_jobs` threads."""
    items = list(zip(*arguments, strict=True))
    if min(n_jobs, len(items)) <= 1:
        return [function(*item) for item in items]
    with Threads(n_jobs) as threads:
        return [call.result() for call in [threads.submit(function, *item) for item in items]]
