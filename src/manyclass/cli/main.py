"""`manyclass`: the command and its subcommands."""

from typing import Annotated

import typer

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Classification into thousands to millions of classes, in time logarithmic in their number.",
)


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"manyclass {version('manyclass')}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Classification into thousands to millions of classes, in time logarithmic in their number."""


@app.command()
def demo(
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the training rows.")] = 5,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed: the same seed, the same answers.")] = 0,
    ask: Annotated[list[str] | None, typer.Option(help="A definition to answer; may be given several times.")] = None,
) -> None:
    """Learn 4,796 WordNet categories from dictionary definitions by a label tree and one-against-all; answer a few."""
    from manyclass.cli.demo import run

    run(epochs, seed, ask or [])
