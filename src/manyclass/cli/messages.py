"""Errors, progress and notices, all on standard error."""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from ..jit import compilations

INTERRUPTED = 130  # exit code after Ctrl-C

stderr = Console(stderr=True, markup=False, highlight=False, soft_wrap=True)
_noticed = threading.Event()  # one notice per command is enough


class CommandError(Exception):
    """The command cannot be run as given. The message says why and what to do."""


def user_error(error: Exception) -> str | None:
    """The message for an error that the user can correct; None for a bug, which needs its traceback."""
    if os.environ.get("MANYCLASS_TRACEBACK"):
        return None
    if isinstance(error, OSError):
        return f"{'' if error.filename is None else f'{error.filename}: '}{error.strerror or error}"
    if isinstance(error, MemoryError):
        return f"not enough memory: {error}"
    # Invalid data and model files are ValueErrors, missing optional packages ImportErrors.
    return str(error) if isinstance(error, (CommandError, ValueError, ImportError)) else None


def is_terminal(file: TextIO) -> bool:
    """Whether what is written to the file appears on a terminal."""
    return file.isatty()


def printable(text: str, file: TextIO) -> str:
    r"""The text; if the file is a terminal, characters that could control it are written as \u001b and so on."""
    return visible(text) if is_terminal(file) else text


def visible(text: str) -> str:
    r"""The text with characters that control a terminal, or are invisible, written as \u001b and so on."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else f"\\u{ord(c):04x}" for c in text)


def note(text: str) -> None:
    """Print a line on standard error."""
    print(printable(text, sys.stderr), file=sys.stderr)


def warn(warnings: Iterable[str]) -> None:
    """Print warnings."""
    for warning in warnings:
        note(f"manyclass: warning: {warning}")


def note_written(*paths: str | None) -> None:
    """Name the files that were written."""
    for path in paths:
        if path is not None:
            note(f"Wrote {path}")


@contextmanager
def notice_if_slow() -> Iterator[None]:
    """Explain a delay of some seconds, if it is the compilation of kernels that are not in the cache."""

    def notice() -> None:
        if compiling.buffer and not _noticed.is_set():
            _noticed.set()
            stderr.print("Compiling for the first use (up to a minute; cached on disk for the next time) ...")

    timer = threading.Timer(3.0, notice)
    timer.daemon = True
    with compilations() as compiling:
        timer.start()
        try:
            yield
        finally:
            timer.cancel()


@contextmanager
def row_progress(title: str, position: Callable[[], tuple[int, int | None]]) -> Iterator[Callable[..., None]]:
    """Yield `update(rows, progressive_error, held_out_error)`: a bar on a terminal, elsewhere one line at the end.

    `position` returns how much is done and how much there is (None: unknown).
    """
    start, n_first, n = time.perf_counter(), 0, 0
    errors = {"progressive error": float("nan"), "held-out error": float("nan")}

    def summary() -> str:
        seconds = time.perf_counter() - start
        speed = f", {(n - n_first) / seconds:,.0f}/s" if n > n_first and seconds > 0 else ""
        return f"{n:,} rows{speed}" + "".join(f", {name} {e:.4f}" for name, e in errors.items() if e == e)

    columns = TextColumn(title), BarColumn(), TextColumn("{task.description}"), TimeRemainingColumn()
    with Progress(*columns, console=stderr, disable=not stderr.is_terminal) as bar:
        task = bar.add_task("", total=position()[1])

        def update(rows: int, progressive_error: float = float("nan"), held_out_error: float = float("nan")) -> None:
            nonlocal start, n_first, n
            if n == 0:  # compilation may have delayed the first rows: leave them out of the speed
                start, n_first = time.perf_counter(), rows
            n += rows
            errors.update({"progressive error": progressive_error, "held-out error": held_out_error})
            bar.update(task, completed=position()[0], description=summary())

        yield update
    if not stderr.is_terminal:
        stderr.print(f"{title}: {summary()}")
