"""Work that an interrupt, such as Ctrl-C, must not leave half done: `uninterrupted` does it on a thread of its own.

Python runs signal handlers in the main thread only: after a call, when a function begins, and when a loop repeats.
"""

from _thread import allocate_lock, start_new_thread
from collections.abc import Callable
from threading import get_ident, main_thread
from typing import Any, TypeVar

Result = TypeVar("Result")


def uninterrupted(function: Callable[[Callable[[], None]], Result]) -> Result:
    """Call `function(check)` on a thread that Ctrl-C does not reach, and wait for its end.

    An interrupt inside a `Condition` or a `ThreadPoolExecutor` may leave a thread that still writes to the model, or
    wait for ever. The function ends at the next `check()`, which raises the interrupt.
    """
    if get_ident() != main_thread().ident:
        return function(lambda: None)
    call, thread = _Call(function), get_ident()
    nested = thread in _WAITING
    try:
        _WAITING[thread] = True
        call.wait(2)
        call.check()
        result, error = call.outcome[0]
        if error is not None:
            raise error
        return result
    finally:
        if not nested:
            del _WAITING[thread]
        error = None  # its traceback has this frame, which would keep arrays
        call.clear()


_WAITING: dict[int, bool] = {}  # the main thread, in `uninterrupted`


def check_no_handler(thread: int) -> None:
    """RuntimeError in a signal handler that came during `uninterrupted`."""
    if thread in _WAITING:
        raise RuntimeError("A signal handler cannot use a model while the model is trained.")


class _Call:
    """A call on a thread of its own."""

    def __init__(self, function: Callable[[Callable[[], None]], Any]) -> None:
        self.function: Callable | None = function
        self.interrupt: BaseException | None = None
        self.outcome: list[tuple] = []  # the result and the error
        self.owner: dict[str, str] = {}
        self.ended = allocate_lock()
        self.ended.acquire()

    def check(self) -> None:
        """Raise the interrupt that came meanwhile."""
        if self.interrupt is not None:
            raise self.interrupt

    def run(self) -> None:
        """What the thread does."""
        if self.owner.setdefault("of the call", "thread") != "thread":
            return
        assert self.function is not None
        try:
            self.outcome.append((self.function(self.check), None))
        except BaseException as error:
            self.outcome.append((None, error))
        self.ended.release()

    def wait(self, levels: int) -> None:
        """Start the thread and wait for its end, whatever interrupts come.

        An interrupt may come while another one is recorded. The level above catches it.
        """
        while not self.outcome:
            try:
                if levels:
                    self.wait(levels - 1)
                elif self.owner or start_new_thread(self.run, ()):
                    self.ended.acquire()
            except BaseException as error:
                self.interrupt = error
                if (
                    self.owner.setdefault("of the call", "caller") == "caller"
                ):  # the thread has not begun: it never will
                    raise

    def clear(self) -> None:
        """Keep nothing: tracebacks have frames, and frames have arrays."""
        self.function = self.interrupt = None
        self.outcome.clear()
