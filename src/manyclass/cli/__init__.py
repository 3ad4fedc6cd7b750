"""The command line. Commands import what they need when they run, so that `--help` is fast."""

import sys


def run() -> None:
    """Run the command `manyclass`."""
    try:
        import rich  # noqa: F401
        import typer  # noqa: F401
    except ImportError:
        sys.exit("The command line requires: pip install 'manyclass[cli]'")
    from .main import run

    run()
