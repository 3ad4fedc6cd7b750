"""How far a pass over a file is: a bar on a terminal, a line an epoch elsewhere; always on standard error."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from ..io import Source

Show = Callable[[int, float], None]
_said: list[bool] = []  # once is enough for a command


@contextmanager
def said_if_slow(console: Console) -> Iterator[None]:
    """Say why nothing seems to happen, if it takes seconds: the first use of a kernel compiles it."""
    if _said:
        yield
        return

    def say() -> None:
        _said.append(True)
        console.print("compiling for the first use (up to a minute; kept on disk for the next) …", highlight=False)

    timer = threading.Timer(3.0, say)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@contextmanager
def rows_shown(console: Console, title: str, source: Source) -> Iterator[Show]:
    """Yield `show(rows done, progressive loss so far)`."""
    begun, first, n, loss = time.perf_counter(), 0, 0, float("nan")

    def count(done: int, error: float) -> None:
        nonlocal begun, first, n, loss
        if n == 0:  # the first rows may wait for the compiler: they would hide the speed of all others
            begun, first = time.perf_counter(), done
        n, loss = n + done, error

    def told() -> str:
        seconds = time.perf_counter() - begun
        speed = f", {(n - first) / seconds:,.0f}/s" if n > first and seconds > 0 else ""
        wrong = "" if loss != loss else f", progressive loss {loss:.4f}"
        return f"{n:,} examples{speed}{wrong}"

    if not console.is_terminal:
        yield count
        console.print(f"{title}: {told()}", soft_wrap=True, highlight=False)
        return
    columns = TextColumn(title), BarColumn(), TextColumn("{task.fields[told]}"), TimeRemainingColumn()
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(title, total=source.position[1], told="")

        def show(done: int, error: float) -> None:
            count(done, error)
            bar.update(task, completed=source.position[0], told=told())

        yield show
