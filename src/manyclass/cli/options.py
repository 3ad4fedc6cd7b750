"""Options that several commands share."""

from typing import Annotated, Any, Literal

import typer

Algorithm = Literal["recall-tree", "label-tree", "spectral-tree", "lom-tree", "mlom-tree", "one-against-all"]
InputFormat = Literal["svmlight", "xmc", "vw", "csv", "tsv", "jsonl", "parquet"]

Data = Annotated[str, typer.Argument(help="Data file, or - for standard input.")]
Model = Annotated[str, typer.Argument(help="Model file.")]
Json = Annotated[bool, typer.Option("--json", help="Print a JSON object instead of text.")]
Picture = Annotated[
    str | None, typer.Option(metavar="FILE", help="Draw reliability and accuracy by frequency to a .png or .svg.")
]
Report = Annotated[
    str | None, typer.Option(metavar="FILE", help="Write an HTML page with tables and diagrams; it needs no network.")
]
Seed = Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Random seed.")]


def _not_zero(threads: int) -> int:
    if threads == 0:
        raise typer.BadParameter("must be at least 1, or -1 for all cores.")
    return threads


def _with_unit(size: str | None) -> str | None:
    from ..core.memory import as_bytes  # imports numpy

    if size is not None and not as_bytes(size):
        raise typer.BadParameter(f"{size!r} is not a size with a unit, such as 512MB or 8GB.")
    return size


def memory_option(description: str) -> Any:
    """An option whose value is an amount of memory."""
    return typer.Option(metavar="SIZE", callback=_with_unit, help=description)


Threads = Annotated[int, typer.Option(min=-1, callback=_not_zero, help="Number of threads; -1 uses all cores.")]


def reading_options(
    input_format: Annotated[
        InputFormat | None,
        typer.Option(
            help="Format of the data file. Default: from the extension (.svm, .svmlight, .libsvm, .xmc, .vw, .csv, "
            ".tsv, .jsonl, .parquet; .txt with an xmc header); each can be compressed (.gz, .zst)."
        ),
    ] = None,
    label: Annotated[str | None, typer.Option(help="Tables: the column that contains the label.")] = None,
    text: Annotated[list[str] | None, typer.Option(help="Tables: a text column; can be repeated.")] = None,
    numeric: Annotated[list[str] | None, typer.Option(help="Tables: a numeric column; can be repeated.")] = None,
    categorical: Annotated[
        list[str] | None,
        typer.Option(
            help="Tables: a categorical column; can be repeated. If no columns are named, all columns except the label "
            "are used, and their kinds are detected from the first rows."
        ),
    ] = None,
    date: Annotated[list[str] | None, typer.Option(help="Tables: a column of dates; can be repeated.")] = None,
    ignore: Annotated[
        list[str] | None, typer.Option(help="Tables: a column not to use when kinds are detected; can be repeated.")
    ] = None,
    ngrams: Annotated[
        int | None, typer.Option(min=1, max=5, help="Text columns: use sequences of up to this many words. Default: 1.")
    ] = None,
    chars: Annotated[
        str | None,
        typer.Option(
            metavar="A-B",
            help="Text columns: also use sequences of A to B characters. Default: 2-4 for columns of short texts that "
            "were detected, none otherwise.",
        ),
    ] = None,
    idf: Annotated[
        bool | None, typer.Option("--idf/--no-idf", help="Text columns: give rare words more weight. Default: --idf.")
    ] = None,
    delimiter: Annotated[
        str | None, typer.Option(help="CSV: separator of cells. Default: , ; | or tab, detected from the first rows.")
    ] = None,
    label_separator: Annotated[
        str | None, typer.Option(help="CSV and TSV: the separator between several labels in one cell.")
    ] = None,
    labels: Annotated[
        Literal["one", "several"] | None,
        typer.Option(help="Number of labels per row. Default: detected from the first rows."),
    ] = None,
    label_kind: Annotated[
        Literal["int", "text"] | None, typer.Option(help="Type of the labels. Default: detected from the first rows.")
    ] = None,
    features: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of features; larger indices are hashed. A known number keeps the model small. "
            "Default: 2**feature-bits; for svmlight files of at most 256 features, their number.",
        ),
    ] = None,
    feature_bits: Annotated[
        int | None, typer.Option(min=1, max=30, help="Hash features to 2**BITS. Default: 20 for tables, else 18.")
    ] = None,
    index_base: Annotated[
        int | None,
        typer.Option(min=0, max=1, help="svmlight: index of the first feature. Default: detected from the first rows."),
    ] = None,
    skip_bad_lines: Annotated[
        bool, typer.Option("--skip-bad-lines", help="Skip and count lines that cannot be read.")
    ] = False,
) -> None:
    """Declare how a data file is read."""
