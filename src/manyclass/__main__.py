"""`python -m manyclass`: the command line."""

from .cli.main import run

run()
