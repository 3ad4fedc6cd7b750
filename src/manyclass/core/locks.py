"""Predictions while another thread trains: many threads may read a model at a time, or one may change it.

`uninterrupted` and `parallel` are for the threads of one call.
"""

from _thread import allocate_lock, start_new_thread
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import wraps
from threading import Condition, get_ident, main_thread
from typing import Any, TypeVar

Method = TypeVar("Method", bound=Callable[..., Any])
Result = TypeVar("Result")


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


def uninterrupted(function: Callable[[Callable[[], None]], Result]) -> Result:
    """Call `function(check)` on a thread that Ctrl-C does not reach, and wait for its end.

    Python raises KeyboardInterrupt in the main thread, after any instruction: also inside a `Condition` or a
    `ThreadPoolExecutor`, which may then leave a thread that still writes to the model, or wait for ever. The function
    ends at the next `check()`, which raises the interrupt.
    """
    if get_ident() != main_thread().ident:
        return function(lambda: None)
    interrupts: list[BaseException] = []
    outcome: list[tuple] = []
    begin, ended = allocate_lock(), allocate_lock()
    ended.acquire()

    def check() -> None:
        if interrupts:
            raise interrupts[0]

    def call() -> None:
        if not begin.acquire(False):  # an exception before the start was reported
            return
        try:
            outcome.append((function(check), None))
        except BaseException as error:
            outcome.append((None, error))
        ended.release()

    try:
        start_new_thread(call, ())
    except BaseException as interrupt:
        if begin.acquire(False):  # the thread has not begun, and now it will not
            raise
        interrupts.append(interrupt)
    while not outcome:
        try:
            while not outcome:
                ended.acquire()
        except BaseException as interrupt:
            interrupts.append(interrupt)
    result, error = outcome[0]
    check()
    if error is not None:
        raise error
    return result


def parallel(function: Callable, *arguments: Iterable, n_jobs: int) -> list:
    """The function for each item of the lists, on `n_jobs` threads."""
    items = list(zip(*arguments, strict=True))
    if min(n_jobs, len(items)) <= 1:
        return [function(*item) for item in items]

    def work(check: Callable[[], None]) -> list:
        def call(item: tuple) -> Any:
            check()
            return function(*item)

        with ThreadPoolExecutor(n_jobs) as pool:
            return list(pool.map(call, items))

    return uninterrupted(work)
