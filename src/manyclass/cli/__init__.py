"""The command line. Commands import what they need when they run, so that `--help` is fast."""

import os
import sys


def run() -> None:
    """Run the command `manyclass`."""
    try:
        _run()
    except KeyboardInterrupt:  # also while modules are imported
        sys.exit(130)


def _run() -> None:
    try:
        import rich  # noqa: F401
        import typer  # noqa: F401
    except ImportError:
        sys.exit("The command line requires: pip install 'manyclass[cli]'")
    _prepare_streams()
    from .main import run

    run()


def _prepare_streams() -> None:
    """Refuse a closed standard output; write UTF-8 where the locale allows only ASCII, as Python does for "C"."""
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")
    if sys.stdout is None:
        sys.exit("manyclass: error: standard output is closed: redirect it to a file or to /dev/null.")
    for stream in (sys.stdout, sys.stderr):
        if stream.encoding.lower() in ("ascii", "us-ascii", "ansi_x3.4-1968"):
            stream.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
