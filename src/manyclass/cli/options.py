"""Options that several commands share, declared once."""

import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer


def reading_options(
    input_format: Annotated[
        str | None,
        typer.Option(
            help="svmlight, xmc, vw, csv, tsv, jsonl or parquet. Default: by the extension (.svm .svmlight .libsvm "
            ".xmc .vw .csv .tsv .jsonl .parquet, .txt with the header of xmc; .gz and .zst on top)."
        ),
    ] = None,
    label: Annotated[str | None, typer.Option(help="Tables: the column of the label.")] = None,
    text: Annotated[
        list[str] | None, typer.Option(help="Tables: a column of text; may be given several times.")
    ] = None,
    numeric: Annotated[list[str] | None, typer.Option(help="Tables: a column of numbers; the same.")] = None,
    categorical: Annotated[
        list[str] | None,
        typer.Option(
            help="Tables: a column of categories; the same. Default, if no column is named: all but the label, their "
            "kinds found out from the first rows."
        ),
    ] = None,
    label_separator: Annotated[
        str | None, typer.Option(help="CSV and TSV: what separates several labels in a cell.")
    ] = None,
    labels: Annotated[
        str | None, typer.Option(help="one or several labels a row. Default: found out from the first rows.")
    ] = None,
    label_kind: Annotated[
        str | None, typer.Option(help="int or text: what labels are read as. Default: found out from the first rows.")
    ] = None,
    features: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of features; those beyond are hashed into them. Say it where you know it: the model is then "
            "no larger than it must be. Default: 2**feature-bits.",
        ),
    ] = None,
    feature_bits: Annotated[
        int | None,
        typer.Option(min=1, max=30, help="Without --features, features are hashed into 2**BITS. Default: 18."),
    ] = None,
    index_base: Annotated[
        int | None,
        typer.Option(min=0, max=1, help="svmlight: the index of the first feature. Default: found out at the start."),
    ] = None,
    skip_bad_lines: Annotated[
        bool, typer.Option("--skip-bad-lines", help="Count lines that cannot be read, and go on; they get no answer.")
    ] = False,
) -> None:
    """What can be said of how a file is read."""


READING = tuple(inspect.signature(reading_options).parameters)


def with_reading(command: Callable[..., None]) -> Callable[..., None]:
    """A command with the options above added; it gets those that were given as the dict `reading`."""

    def run(*args: Any, **given: Any) -> None:
        asked = {name: given.pop(name) for name in READING}
        asked = {name: value for name, value in asked.items() if not (value is None or value is False or value == [])}
        command(*args, reading=asked, **given)

    own = [p for p in inspect.signature(command).parameters.values() if p.name != "reading"]
    shared = list(inspect.signature(reading_options).parameters.values())
    shared = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in shared]
    own = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own]
    run.__signature__ = inspect.Signature([*own, *shared])  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in [*own, *shared]}
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    return run


Json = Annotated[bool, typer.Option("--json", help="One JSON object on standard output instead of text.")]
Model = Annotated[str, typer.Argument(metavar="MODEL", help="A model file.")]
Data = Annotated[str, typer.Argument(metavar="DATA", help="A data file, or - for standard input.")]


def _not_zero(threads: int) -> int:
    if threads == 0:
        raise typer.BadParameter("it takes at least one thread; -1 means all cores.")
    return threads


Threads = Annotated[int, typer.Option(min=-1, callback=_not_zero, help="Threads for answers; -1: all cores.")]
