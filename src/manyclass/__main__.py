"""`python -m manyclass`: the command line."""

from .cli.main import app

app(prog_name="manyclass")
