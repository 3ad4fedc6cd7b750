"""A progress bar on standard error, only when asked for."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(verbose: int | bool, title: str, n_rows: int) -> Iterator[Callable[[int, float], None]]:
    """Yield `show(rows done, progressive error)`, which does nothing unless `verbose`."""
    if not verbose:
        yield lambda done, error: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn(title),
        BarColumn(),
        TextColumn("{task.completed:,.0f}/{task.total:,.0f} rows{task.fields[rate]}{task.fields[error]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(title, total=n_rows, rate="", error="")

        def show(done: int, error: float) -> None:
            bar.advance(task, done)
            speed = bar.tasks[0].speed or bar.tasks[0].finished_speed
            wrong = "" if error != error else f", progressive error {100 * error:.1f} %"
            bar.update(task, rate=f", {speed:,.0f} rows/s" if speed else "", error=wrong)

        yield show
