"""The commands and their options. Each command is implemented by `run` in the module of the same name."""

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from importlib import import_module
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, Literal

import typer

from .options import Algorithm, Data, Json, Model, Picture, Report, Seed, Threads, memory_option, reading_options

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # rich shortens long option names on a narrow terminal
    pretty_exceptions_enable=False,
    epilog="Exit codes: 0 success, 1 error, 2 invalid command line, 130 interrupted. The first use of an algorithm "
    "compiles it, which takes up to a minute; the result is cached on disk. Set MANYCLASS_TRACEBACK=1 to see the "
    "traceback of an error.",
)


def run() -> None:
    """Run the command line; errors of the user are reported in one line."""
    from .messages import INTERRUPTED, note, user_error

    try:
        app(prog_name="manyclass")
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except Exception as error:
        message = user_error(error)
        if message is None:
            raise
        note(f"manyclass: error: {message}")
        sys.exit(1)


@contextmanager
def _exit_on_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP raise SystemExit unless they are ignored, so that temporary files are removed."""

    def end(number: int, frame: Any) -> None:
        sys.exit(128 + number)

    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]  # Windows lacks SIGHUP
    numbers = [number for number in numbers if signal.getsignal(number) == signal.SIG_DFL]
    if threading.current_thread() is not threading.main_thread():  # only there can handlers be set
        numbers = []
    for number in numbers:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


def command(declaration: Callable[..., None]) -> Callable[..., None]:
    """Register a command that imports the module of its name and calls `run` with the options.

    A parameter `reading` stands for all options of `reading_options`; `run` gets a dictionary of those that were given.
    """
    name = declaration.__name__
    own = signature(declaration).parameters
    shared = signature(reading_options).parameters if "reading" in own else {}

    def call(**given: Any) -> None:
        options = {p.name: p.default for p in parameters} | given
        if shared:
            reading = {option: options.pop(option) for option in shared}
            # 0 and False are values (--index-base, --no-idf), so compare with the default.
            changed = {k: v for k, v in reading.items() if v is not None and v is not shared[k].default and v != []}
            options["reading"] = changed
        with nullcontext() if name == "serve" else _exit_on_signals():  # the service has handlers of its own
            import_module(f".{name}", __package__).run(**options)

    parameters = [p for p in own.values() if p.name != "reading"] + list(shared.values())
    parameters = [p.replace(kind=Parameter.KEYWORD_ONLY) for p in parameters]
    call.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {p.name: p.annotation for p in parameters}
    call.__doc__ = declaration.__doc__
    return app.command(name)(call)


def _version(requested: bool) -> None:
    if requested:
        from importlib.metadata import version

        typer.echo(f"manyclass {version('manyclass')}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Classification into thousands to millions of classes, in time logarithmic in their number."""


@command
def demo(
    epochs: Annotated[int, typer.Option(min=1, help="Number of passes over the training data.")] = 5,
    seed: Seed = 0,
    ask: Annotated[list[str] | None, typer.Option(help="A definition to classify; can be repeated.")] = None,
) -> None:
    """Train and compare two classifiers on WordNet.

    A label tree and one-against-all learn 4,796 categories from dictionary definitions.
    """


@command
def warmup(
    algorithms: Annotated[list[str] | None, typer.Argument(help="Algorithms to compile. Default: all.")] = None,
    threads: Threads = -1,
) -> None:
    """Compile algorithms in advance.

    This is useful when an image is built. Algorithms: recall-tree, label-tree, spectral-tree, lom-tree, mlom-tree,
    one-against-all.
    """


@command
def data(
    names: Annotated[list[str] | None, typer.Argument(help="Data sets to download.")] = None,
    again: Annotated[bool, typer.Option("--again", help="Download again, even if the set is in the cache.")] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the downloaded files.")] = False,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Accept files without a checksum over plain http.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Download public data sets; without names, list them.

    Data sets are stored in MANYCLASS_CACHE, by default ~/.cache/manyclass/datasets. In Python,
    manyclass.datasets.load(NAME) loads them.
    """


@command
def train(
    data: Data,
    model: Annotated[str, typer.Option("--model", "-m", help="Model file to write.")],
    reading: dict,
    algorithm: Annotated[
        Algorithm | None,
        typer.Option(
            help="Default, as in ManyClassClassifier: label-tree. Only rows of at most 256 features, with one label, "
            "that are learned row by row (--online, pipes, more than --row-memory) use recall-tree."
        ),
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option",
            "-o",
            metavar="NAME=VALUE",
            help="Option as in Python: beam=16, or learner=sgd, learner.rate=0.5 if it has a learner; "
            "can be repeated. `-o help` lists the options of the algorithm and their default values.",
        ),
    ] = None,
    calibrate: Annotated[
        Literal["isotonic", "temperature"] | None,
        typer.Option(
            help="Calibrate probabilities on held-out rows: on a tenth of the rows, which are not learned, if the rows "
            "fit into memory. With --online on the few rows that are held out until the end."
        ),
    ] = None,
    test: Annotated[str | None, typer.Option(help="Data file to evaluate the trained model on.")] = None,
    label_text: Annotated[
        str | None,
        typer.Option(
            metavar="CSV",
            help="Descriptions of labels: a CSV file with the columns label and description. Labels without rows can "
            "be predicted then. For tables with text, one label per row, and label trees trained on all rows at once.",
        ),
    ] = None,
    hierarchy: Annotated[
        str | None,
        typer.Option(
            metavar="CSV",
            help="Taxonomy of the labels: a CSV file with the columns label and parent, or label and path, such as "
            "'Food > Fruit > Apple'. Labels at the top have an empty parent. For one label per row, and label trees "
            "trained on all rows at once.",
        ),
    ] = None,
    epochs: Annotated[
        int | None,
        typer.Option(min=1, help="Passes over the data. Default: 5; pipes: 1; all rows at once: the estimator's."),
    ] = None,
    seed: Seed = 0,
    shuffle: Annotated[
        bool, typer.Option(help="Shuffle all rows in each epoch; those of a pipe in blocks of 16,384 rows.")
    ] = True,
    in_memory: Annotated[
        bool | None,
        typer.Option(
            "--in-memory/--online",
            help="Train on all rows at once and hold them in memory, or row by row, which can be interrupted and "
            "resumed. Default: label trees and spectral trees at once, others row by row. Label trees of at most 256 "
            "features, or with --calibrate, only if the rows fit into --row-memory.",
        ),
    ] = None,
    max_memory: Annotated[
        str | None,
        memory_option(
            "Limit of the memory that the process allocates, such as 8GB; program code (about 160MB) and mapped files "
            "are not counted. Training uses temporary files or fewer threads to keep to it; if that is not enough, it "
            "stops and says what would fit. For label trees that learn all rows at once."
        ),
    ] = None,
    row_memory: Annotated[
        str | None,
        memory_option(
            "Memory for the rows of the file, such as 512MB; if they need more, all are in a temporary file. Default: "
            "1GB, or a quarter of --max-memory if that is less."
        ),
    ] = None,
    checkpoint_every: Annotated[
        int | None, typer.Option(min=1, metavar="ROWS", help="Write MODEL.checkpoint after this many rows.")
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Continue from MODEL.checkpoint, or start if there is none. If MODEL is complete, only run the epochs "
            "that are missing.",
        ),
    ] = False,
    start_from: Annotated[
        str | None, typer.Option(metavar="MODEL", help="Continue training this model with the new data.")
    ] = None,
    threads: Threads = 1,
    as_json: Json = False,
) -> None:
    """Train a model on a data file, in bounded memory."""


@command
def predict(
    model: Model,
    data: Data,
    reading: dict,
    top_k: Annotated[
        int,
        typer.Option(
            min=1,
            help="Number of labels per row, best first. Labels that were not scored have the score -inf; "
            "--probabilities leaves them out.",
        ),
    ] = 5,
    output_format: Annotated[
        Literal["tsv", "csv", "jsonl", "parquet", "svmlight"] | None,
        typer.Option(
            "--format",
            help="tsv, csv, parquet: columns predicted_1, score_1, predicted_2, ...; jsonl: {labels, scores}; "
            "svmlight: the best label, then label:score sorted by label (text labels are replaced by their position in "
            "`inspect --labels`). Default: from the extension of --output, or tsv. With .gz or .zst it is compressed.",
        ),
    ] = None,
    output: Annotated[
        str | None, typer.Option(metavar="FILE", help="File to write, instead of standard output.")
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Tables: copy this column, such as an id, to the output; can be repeated."),
    ] = None,
    probabilities: Annotated[
        bool,
        typer.Option("--probabilities", help="Print probabilities instead of scores, calibrated ones if the model is."),
    ] = False,
    threshold: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            help="Only labels with a probability above this number, and probabilities instead of scores. Other places "
            "are empty.",
        ),
    ] = None,
    path: Annotated[
        float | None,
        typer.Option(
            min=0.001,
            max=1,
            metavar="CONFIDENCE",
            help="Predict the path to the deepest node of the taxonomy, or of the learned label tree, that has at "
            "least this probability: a label or, if that is uncertain, a group of labels.",
        ),
    ] = None,
    sets: Annotated[
        bool,
        typer.Option(
            "--set",
            help="Predict the set of labels that contains the true one with the probability given to the method "
            "`conformal` in Python, which must have been called before the model was saved. JSON lines only. Scores "
            "are probabilities before calibration.",
        ),
    ] = False,
    header: Annotated[bool, typer.Option(help="tsv and csv: begin with the names of the columns.")] = True,
    spreadsheet_safe: Annotated[
        bool,
        typer.Option(
            "--spreadsheet-safe",
            help="tsv and csv: write ' before cells that begin with =, +, - or @, which spreadsheets would run as "
            "formulas.",
        ),
    ] = False,
    threads: Threads = 1,
) -> None:
    """Predict the best labels of each row. The data file needs no labels.

    Rows without any word that the model knows are marked in the column "note".
    """


@command
def evaluate(
    model: Model,
    data: Data,
    reading: dict,
    picture: Picture = None,
    report: Report = None,
    risk_coverage: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Draw the share of wrong predictions among the most certain ones to a .png or .svg, and print the "
            "share of rows that can be predicted with a precision of 90, 95 and 99 %.",
        ),
    ] = None,
    threads: Threads = 1,
    as_json: Json = False,
) -> None:
    """Evaluate a model on a data file.

    accuracy: share of rows whose best prediction is correct; top-k: one of the k best is. candidate recall: share of
    the true labels that were scored at all. macro-F1: mean F1 of the classes. calibration error: mean difference
    between probability and accuracy over ten bins of equal size (ECE@1). With several labels per row, F1 is that of the
    labels whose probability is above the threshold of the model. P@k, nDCG@k and PSP@k are those of the k best labels.
    Labels that the model has never seen count as errors and are reported.
    """


@command
def compare(
    first: Annotated[str, typer.Argument(help="Model file.")],
    second: Annotated[str, typer.Argument(help="Model file.")],
    data: Data,
    reading: dict,
    picture: Picture = None,
    report: Report = None,
    threads: Threads = 1,
    as_json: Json = False,
) -> None:
    """Compare two models on the same data, with McNemar's test and the classes that change most."""


@command
def inspect(
    model: Model,
    depth: Annotated[int, typer.Option(min=0, help="Number of tree levels to show.")] = 1,
    topics: Annotated[bool, typer.Option("--topics", help="Show the most frequent labels of each node.")] = False,
    labels: Annotated[bool, typer.Option("--labels", help="Only list the labels: position, tab, label.")] = False,
    picture: Annotated[str | None, typer.Option(help="Draw the tree to a .png or .svg file.")] = None,
    as_json: Json = False,
) -> None:
    """Show the size, the options and the tree of a model."""


@command
def explain(
    model: Model,
    text: Annotated[str, typer.Argument(help="A text. Models of several columns: a JSON object of their cells.")],
    label: Annotated[str | None, typer.Option(help="Label to explain. Default: the prediction.")] = None,
    top_k: Annotated[int, typer.Option(min=1, help="Number of features to list.")] = 10,
    picture: Annotated[str | None, typer.Option(metavar="FILE", help="Draw it to a .png or .svg file.")] = None,
    as_json: Json = False,
) -> None:
    """Explain a prediction: what each word adds to the score, and the decisions on the path through the tree."""


@command
def classes(
    model: Model,
    add: Annotated[list[str] | None, typer.Option(help="Label of a new class, or of one that was removed.")] = None,
    remove: Annotated[list[str] | None, typer.Option(help="Label that must not be predicted any more.")] = None,
    rename: Annotated[list[str] | None, typer.Option(metavar="OLD=NEW", help="Another label for a class.")] = None,
    merge: Annotated[list[str] | None, typer.Option(metavar="OLD=NEW", help="Merge a class into another.")] = None,
    output: Annotated[str | None, typer.Option(metavar="FILE", help="Write here, not to MODEL.")] = None,
) -> None:
    """Add, remove, rename or merge classes of a model without training. Each option can be repeated.

    The changes are made in the order add, rename, merge, remove, and written all together or not at all.
    """


@command
def audit(
    data: Data,
    reading: dict,
    algorithm: Annotated[Algorithm | None, typer.Option(help="Default: as in train.")] = None,
    folds: Annotated[int, typer.Option(min=2, help="Number of folds of the cross-validation.")] = 5,
    top: Annotated[int, typer.Option(min=1, help="Number of rows and pairs to print.")] = 20,
    output: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the wrong rows, counted from 1, to a .csv or .tsv file.")
    ] = None,
    max_rows: Annotated[int, typer.Option(min=10, help="Maximum number of rows to read into memory.")] = 1_000_000,
    seed: Seed = 0,
    threads: Threads = 1,
    as_json: Json = False,
) -> None:
    """Find rows whose label is probably wrong, and pairs of labels that are confused, by cross-validation."""


@command
def convert(
    source: Annotated[str, typer.Argument(help="Model file, or data file.")],
    target: Annotated[str, typer.Argument(help="File to write: a model, or .svm, .svm.gz or .svm.zst data.")],
    reading: dict,
    slim: Annotated[
        bool, typer.Option("--slim", help="Models: remove everything that only training requires.")
    ] = False,
    prune: Annotated[
        float,
        typer.Option(
            min=0,
            help="With --slim, label trees only: remove further weights, up to this absolute value. Check the accuracy "
            "with `manyclass compare`.",
        ),
    ] = 0.0,
    precision: Annotated[
        Literal["float32", "float16", "int8"], typer.Option(help="With --slim: precision of the weights in the file.")
    ] = "float32",
) -> None:
    """Make a model smaller, or convert a data file to svmlight."""


@command
def tune(
    data: Data,
    reading: dict,
    algorithm: Annotated[Algorithm | None, typer.Option(help="Default: several are tried.")] = None,
    minutes: Annotated[
        float, typer.Option(min=0.01, help="Time limit of the search; the running trial is completed.")
    ] = 5.0,
    trials: Annotated[int | None, typer.Option(min=1, help="Maximum number of settings in the first round.")] = None,
    max_rows: Annotated[
        int, typer.Option(min=10, help="Maximum number of rows in memory; of a longer file, a random sample.")
    ] = 100_000,
    epochs: Annotated[int | None, typer.Option(min=1, help="As in train.")] = None,
    seed: Seed = 0,
    threads: Threads = 1,
    as_json: Json = False,
) -> None:
    """Search for a better train command.

    Algorithms, their main options and the features of text columns are tried on a part of the rows, the best of them on
    more rows. The best setting is compared with the defaults on rows that the search has not used. Its train command
    is printed if it is significantly better there; otherwise the defaults stand.
    """


@command
def serve(
    models: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME=]MODEL", help="Model files. Default: a demo model is trained.")
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on.")] = 8000,
    host: Annotated[
        str, typer.Option(help="Address to listen on. Others than this machine's require --keys.")
    ] = "127.0.0.1",
    keys: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="API keys, one per line: read, learn or admin, then a space and a key."),
    ] = None,
    state: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="Folder of what is learned. Default: MODEL.state.")
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Number of processes.")] = 1,
    checkpoint_every: Annotated[int, typer.Option(min=1, metavar="ROWS", help="Save after this many rows.")] = 50_000,
    max_body: Annotated[int, typer.Option(min=1024, metavar="BYTES", help="Largest body of a request.")] = 1 << 20,
    access_log: Annotated[bool, typer.Option("--access-log", help="Log each request.")] = False,
    insecure: Annotated[bool, typer.Option("--insecure", help="Listen to others without API keys.")] = False,
) -> None:
    """Predict and learn over HTTP, with a web page at /.

    The model file is not changed: what is learned is in the state folder, and survives a crash.
    """


@command
def client(
    texts: Annotated[list[str] | None, typer.Argument(help="Texts. Default: the lines of standard input.")] = None,
    url: Annotated[str, typer.Option(help="Address of the service.")] = "http://127.0.0.1:8000",
    label: Annotated[str | None, typer.Option(help="Learn the texts with this label, instead of predicting.")] = None,
    model: Annotated[str | None, typer.Option(help="Name of the model. Default: the first one.")] = None,
    top_k: Annotated[int, typer.Option(min=1, help="Number of labels per text.")] = 5,
    as_json: Json = False,
) -> None:
    """Predict or learn texts through a running service. The API key, if any, is in MANYCLASS_KEY."""
