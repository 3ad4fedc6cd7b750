"""`manyclass`: the command and its subcommands. Everything heavy is imported by the command that needs it."""

import sys
from typing import Annotated

import typer

from .options import Data, Json, Model, Threads, with_reading

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # plain help: rich cuts long option names short on a narrow terminal
    pretty_exceptions_enable=False,
    help="Classification into thousands to millions of classes, in time logarithmic in their number.",
    epilog="Exit codes: 0 done; 1 it could not be done, and why; 2 a command line that makes no sense; 130 "
    "interrupted. The first use compiles for up to a minute and keeps the result on disk.",
)


def run() -> None:
    """The program: the commands, with users' mistakes told in one line."""
    from .errors import INTERRUPTED, told

    try:
        app(prog_name="manyclass")
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except Exception as error:
        code = told(error)
        if code is None:
            raise
        sys.exit(code)


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
    from .demo import run

    run(epochs, seed, ask or [])


@app.command()
def warmup(
    algorithms: Annotated[
        list[str] | None, typer.Argument(metavar="[ALGORITHM]...", help="Which ones, by default all.")
    ] = None,
    threads: Annotated[int, typer.Option(min=-1, help="Compilers side by side; -1: one for each core.")] = -1,
) -> None:
    """Compile beforehand: the first use of an algorithm compiles for some seconds, and later starts find it on disk.

    Algorithms: recall-tree, label-tree, spectral-tree, lom-tree, mlom-tree, one-against-all. What is on disk already
    takes the few seconds that a process needs to start and look. Made for images that should answer at once.
    """
    from .warmup import run

    run(algorithms or [], threads)


@app.command()
def data(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Sets to fetch.")] = None,
    again: Annotated[bool, typer.Option("--again", help="Fetch even what is in the cache.")] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the downloaded files beside the packed ones.")] = False,
    json: Json = False,
) -> None:
    """Public data sets: without names, list them; with names, download, check and pack them into the cache.

    The cache is MANYCLASS_CACHE, by default ~/.cache/manyclass/datasets; `manyclass.datasets.load` looks there after
    MANYCLASS_DATA. A download that breaks off goes on at the next call.
    """
    from .data import run

    run(names or [], again, keep, json)


@app.command()
@with_reading
def train(
    data: Data,
    model: Annotated[str, typer.Option("--model", "-m", help="The model file to write, exactly as given.")],
    reading: dict,
    algorithm: Annotated[
        str | None,
        typer.Option(
            help="recall-tree, label-tree, spectral-tree, lom-tree, mlom-tree or one-against-all. Default: "
            "recall-tree, or label-tree where there are text columns or several labels a row."
        ),
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option",
            "-o",
            help="NAME=VALUE: an option of the algorithm, as in Python (beam=16, learner=sgd, "
            "learner.rate=0.5); may be given several times. `manyclass inspect MODEL` shows all.",
        ),
    ] = None,
    test: Annotated[str | None, typer.Option(help="A data file to evaluate the finished model on.")] = None,
    epochs: Annotated[
        int | None,
        typer.Option(min=1, help="Passes over the data. Default: 5; standard input: 1; --in-memory: the algorithm's."),

    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed: the same seed, the same bytes.")] = 0,
    shuffle: Annotated[
        bool, typer.Option(help="Shuffle the rows, 16,384 at a time, anew in each epoch; or learn them as they come.")
    ] = True,
    in_memory: Annotated[
        bool,
        typer.Option("--in-memory", help="Fit all rows at once: better for label trees. Spectral trees always do."),
    ] = False,
    checkpoint_every: Annotated[
        int | None, typer.Option(min=1, help="Write MODEL.checkpoint after every so many examples. Default: never.")
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Go on from MODEL.checkpoint; without one, start; if MODEL is done, do nothing, or only the epochs "
            "that --epochs asks for beyond those done.",
        ),
    ] = False,
    start_from: Annotated[
        str | None, typer.Option(help="A model file to go on learning from, with other data. Default: from nothing.")
    ] = None,
    threads: Threads = 1,
    json: Json = False,
) -> None:
    """Learn a model from a data file, in bounded memory."""
    from .train import Plan, run

    run(
        Plan(
            data=data,
            model=model,
            reading=reading,
            algorithm=algorithm,
            options=option or [],
            test=test,
            epochs=epochs,
            seed=seed,
            shuffle=shuffle,
            in_memory=in_memory,
            checkpoint_every=checkpoint_every,
            resume=resume,
            start_from=start_from,
            threads=threads,
            as_json=json,
        )
    )


@app.command()
@with_reading
def predict(
    model: Model,
    data: Data,
    reading: dict,
    top_k: Annotated[
        int,
        typer.Option(
            min=1,
            help="Labels a row, best first; at most as many as there are. Those "
            "that were not scored have the score -inf; with --probabilities they are left out.",
        ),
    ] = 5,
    format: Annotated[
        str,
        typer.Option(
            help="tsv: label, score, label, score …; jsonl: {labels, scores}; svmlight: best label, then label:score "
            "in the order of labels (for text labels, their number in the model)."
        ),
    ] = "tsv",
    probabilities: Annotated[bool, typer.Option("--probabilities", help="Probabilities instead of scores.")] = False,
    threads: Threads = 1,
) -> None:
    """Answer the rows of a data file, one line each on standard output. Labels in the file are not needed."""
    from .predict import run

    run(model, data, reading, top_k, format, probabilities, threads)


@app.command()
@with_reading
def evaluate(model: Model, data: Data, reading: dict, threads: Threads = 1, json: Json = False) -> None:
    """How good a model's answers are on a data file, and what they cost.

    accuracy: the best answer is right (with several labels a row, one of them); recall: share of the true labels among
    the candidates scored; precision@k and ndcg@k of the k best; depth, nodes visited, routers and candidates scored:
    means a row; work: the last two added; seconds: of answering alone.
    """
    from .evaluate import run

    run(model, data, reading, threads, json)


@app.command()
@with_reading
def compare(
    first: Annotated[str, typer.Argument(metavar="MODEL1", help="A model file.")],
    second: Annotated[str, typer.Argument(metavar="MODEL2", help="Another.")],
    data: Data,
    reading: dict,
    threads: Threads = 1,
    json: Json = False,
) -> None:
    """Two models on the same rows: accuracy, cost, and whether the difference is more than chance."""
    from .compare import run

    run(first, second, data, reading, threads, json)


@app.command()
def inspect(
    model: Model,
    depth: Annotated[int, typer.Option(min=0, help="Levels of the tree to show.")] = 1,
    topics: Annotated[
        bool, typer.Option("--topics", help="For each branch: how many labels (of a Recall Tree: candidates), "
            "and its most frequent ones.")
    ] = False,
    labels: Annotated[bool, typer.Option("--labels", help="Only the labels: number, tab, label, a line each.")] = False,
    picture: Annotated[str | None, typer.Option(help="Draw the tree into a .png or .svg file.")] = None,
    json: Json = False,
) -> None:
    """Sizes, options and the tree of a model."""
    from .inspect import run

    run(model, depth, topics, labels, picture, json)


@app.command()
@with_reading
def convert(
    source: Annotated[str, typer.Argument(metavar="FROM", help="A model file, or a data file.")],
    target: Annotated[str, typer.Argument(metavar="TO", help="The file to write: a model, or .svm or .svm.gz data.")],
    reading: dict,
    slim: Annotated[
        bool,
        typer.Option("--slim", help="Models: leave out what only learning needs; but for rounding, the same answers."),
    ] = False,
    prune: Annotated[
        float,
        typer.Option(
            min=0,
            help="With --slim, label trees: leave out weights of at most this size (0.3 made files 12 to 17 times "
            "smaller, for 0 to 0.5 points; compare before and after).",
        ),
    ] = 0.0,
    precision: Annotated[
        str,
        typer.Option(help="With --slim: round weights in the file to float16 or int8; in memory they are float32."),
    ] = "float32",
) -> None:
    """A slim copy of a model; or a data file of any kind as svmlight."""
    from .convert import run

    run(source, target, reading, slim, prune, precision)


@app.command()
@with_reading
def tune(
    data: Data,
    reading: dict,
    algorithm: Annotated[str | None, typer.Option(help="As in train. Default: the same.")] = None,
    seconds: Annotated[float, typer.Option(min=1, help="Time to search; the trial under way is finished.")] = 60.0,
    trials: Annotated[int | None, typer.Option(min=1, help="At most so many trials. Default: as time allows.")] = None,
    hold_out: Annotated[float, typer.Option(min=0.01, max=0.9, help="Share of the rows to judge by.")] = 0.2,
    max_rows: Annotated[int, typer.Option(min=10, help="Rows to read at most, held in memory.")] = 100_000,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the data in each trial.")] = 3,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of search, split and training.")] = 0,
    json: Json = False,
) -> None:
    """Search the few options that matter on a held-out part, and print the best command line (needs optuna)."""
    from .tune import run

    run(data, reading, algorithm, seconds, trials, hold_out, max_rows, epochs, seed, json)
