"""`python -m manyclass`: the command line."""

from .cli import run

run()
