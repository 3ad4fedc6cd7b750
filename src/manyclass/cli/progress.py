"""How far a pass over a file is: a bar on a terminal, a line an epoch elsewhere; always on standard error."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from ..io import Source

Show = Callable[[int, float], None]


@contextmanager
def rows_shown(console: Console, title: str, source: Source) -> Iterator[Show]:
    """Yield `show(rows done, progressive loss so far)`."""
    begun, n, loss = time.perf_counter(), 0, float("nan")

    def told() -> str:
        speed = n / max(time.perf_counter() - begun, 1e-9)
        wrong = "" if loss != loss else f", progressive loss {loss:.4f}"
        return f"{n:,} examples, {speed:,.0f}/s{wrong}"

    if not console.is_terminal:

        def count(done: int, error: float) -> None:
            nonlocal n, loss
            n, loss = n + done, error

        yield count
        console.print(f"{title}: {told()}", soft_wrap=True, highlight=False)
        return
    columns = TextColumn(title), BarColumn(), TextColumn("{task.fields[told]}"), TimeRemainingColumn()
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(title, total=source.position[1], told="")

        def show(done: int, error: float) -> None:
            nonlocal n, loss
            n, loss = n + done, error
            bar.update(task, completed=source.position[0], told=told())

        yield show
