"""What all scripts share: options, data that may be missing, tables and plots in `results/`.

Each folder of scripts has a link to this file. Importing it also puts the root of the repository on the path, so that
a script can import `benchmarks` and `reproduce`, which are not installed.
"""

import argparse
import csv
import gc
import json
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import matplotlib
import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.preprocessing import normalize

from manyclass.datasets import DataNotFound, available, load, tfidf_transformer
from manyclass.datasets.local import find
from manyclass.metrics import difference_interval, n_minus_1_chi_squared
from manyclass.metrics import mcnemar as mcnemar_of_counts

matplotlib.use("Agg")
import matplotlib.pyplot as plt

sys.path.insert(1, str(Path(__file__).resolve().parents[1]))
from benchmarks.origin import commit, machine
from benchmarks.sets import COUNTS
from benchmarks.tables import markdown_table, numeric_columns, p_text

# Okabe and Ito's colours, which the colour-blind can distinguish.
BLUE, ORANGE, GREEN, PURPLE, GREY = "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#999999"
VOCABULARY, CONTEXT = {"enwik8": 50_000, "enwik9": 80_001}, 6  # words; how many stand before the one to predict
CELLS = Path(__file__).resolve().parents[1] / "benchmarks" / "race" / "cells"
MOST_RATES = 7  # of a search
_asked: dict[str, Path] = {}  # the folder of --results, where one was named


def parse(description: str, **extra) -> argparse.Namespace:
    """The options of a script: `--quick`, `--results`, and those in `extra` (name: keywords of add_argument)."""
    parser = argparse.ArgumentParser(description=description.strip().splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small slices: does it run, not what it shows")
    parser.add_argument("--results", type=Path, help="folder of the table and the plot (results/ beside the script)")
    for name, keywords in extra.items():
        parser.add_argument(f"--{name}", **keywords)
    args = parser.parse_args()
    if args.results:
        _asked["results"] = args.results
    return args


def load_or_skip(name: str):
    """The data set, or the end of the script where it is not there."""
    try:
        return load(name)
    except DataNotFound as error:
        print(f"skipped: {error}")
        sys.exit(0)


def at_hand(names) -> list[str]:
    """Those of the data sets that are here; for the others, what to do is printed."""
    found = []
    for name in names:
        try:
            find(name)
            found.append(name)
        except DataNotFound as error:
            print(f"skipped: {error}", flush=True)
    return found


def own_or_substitute(own: str, substitute: str) -> str:
    """The paper's own set if it is here, else the set that stands in for it; which one is printed."""
    name = own if available(own) else substitute
    print(f"data: {name}" + ("" if name == own else f", a substitute: {own} is not here"), flush=True)
    return name


def load_tfidf(name: str):
    """A set of word counts as weighted rows of unit length."""
    X_train, y_train, X_test, y_test = load_or_skip(name)
    weigh = tfidf_transformer().fit(X_train)
    return weigh.transform(X_train), y_train, weigh.transform(X_test), y_test


def load_unit(name: str):
    """A set as float32 rows of unit length: word counts weighted by tf-idf, others as they are."""
    if name in COUNTS:
        return load_tfidf(name)
    X_train, y_train, X_test, y_test = load_or_skip(name)
    return normalize(X_train).astype(np.float32), y_train, normalize(X_test).astype(np.float32), y_test


def nine_to_one(name: str, step: int = 1):
    """All rows of a set, dense, and nine tenths of them to learn, drawn at random; every `step`-th of them only."""
    X, y, X_test, y_test = load_or_skip(name)
    rows, labels = sp.vstack([sp.csr_matrix(X), sp.csr_matrix(X_test)]).toarray(), np.concatenate([y, y_test])
    order = np.random.default_rng(0).permutation(len(labels))[::step]
    cut = len(order) // 10
    return rows[order[cut:]], labels[order[cut:]], rows[order[:cut]], labels[order[:cut]]


def next_word(tokens: np.ndarray, name: str = "enwik8") -> tuple[sp.csr_matrix, np.ndarray]:
    """Running text as rows: which word stands 6, 5, ... 1 places before, and the word to predict."""
    n_words = VOCABULARY[name]
    windows = np.lib.stride_tricks.sliding_window_view(tokens, CONTEXT + 1).astype(np.int32)
    n = len(windows)
    columns = windows[:, :CONTEXT] + n_words * np.arange(CONTEXT, dtype=np.int32)
    starts = np.arange(0, CONTEXT * n + 1, CONTEXT)
    ones = np.ones(CONTEXT * n, np.float32)
    return sp.csr_matrix((ones, columns.ravel(), starts), shape=(n, CONTEXT * n_words)), windows[:, CONTEXT]


def best_rate(accuracy_of, start: float, factor: float = 2.0) -> float:
    """The rate of the highest accuracy: from `start` up, or else down, by a factor as long as the accuracy rises."""
    found = {start: accuracy_of(start)}
    for step in (factor, 1 / factor):
        rate = start
        while len(found) <= MOST_RATES:
            found[rate * step] = accuracy_of(rate * step)
            if found[rate * step] <= found[rate]:
                break
            rate *= step
        if rate != start:
            break
    return max(found, key=lambda one: found[one])


def tuned(model, learner, X, y, n_epochs: int, trial: tuple[int, int]):
    """A copy of the model with the rate and the number of epochs that were best on a tenth of the training rows.

    The search is the same for every model. First the learner's rate is doubled, or halved, as long as the accuracy on
    held-out rows rises; `trial` limits (epochs, rows) of these trials. Then the epochs, at most `n_epochs`, are chosen
    on all rows. Both stop after two epochs without improvement. Test rows have no part in it.
    """
    most_epochs, most_rows = trial
    few = np.sort(np.random.default_rng(0).permutation(len(y))[:most_rows])

    def held_out(rate: float, rows, n_epochs: int) -> tuple[float, int]:
        options = {"learner": replace(learner, rate=rate), "n_epochs": n_epochs, "early_stopping": True}
        fitted = clone(model).set_params(**options, random_state=0).fit(X[rows], y[rows])
        gc.collect()  # a gigabyte each
        return fitted.history_[fitted.n_epochs_ - 1]["validation_accuracy"], fitted.n_epochs_

    rate = best_rate(lambda rate: held_out(rate, few, most_epochs)[0], learner.rate)
    n_epochs = held_out(rate, np.arange(len(y)), n_epochs)[1] if n_epochs > 1 else 1
    return clone(model).set_params(learner=replace(learner, rate=rate), n_epochs=n_epochs, random_state=0)


def compare(ours: float, n: int, theirs: float | str | None, n_theirs: int, who: str = "paper") -> dict:
    """Two columns from rates in percent: the difference in points with its 95 % interval, and the p-value."""
    difference, p = f"ours − {who} [95 %]", f"p, vs {who}"
    if theirs is None:
        return {difference: None, p: None}
    wrong, wrong_theirs = round(ours * n / 100), round(float(theirs) * n_theirs / 100)
    low, high = difference_interval(wrong, n, wrong_theirs, n_theirs)
    gap = 100 * (wrong / n - wrong_theirs / n_theirs)
    return {
        difference: f"{gap:+.2f} [{100 * low:+.2f}, {100 * high:+.2f}]",
        p: p_text(n_minus_1_chi_squared(wrong, n, wrong_theirs, n_theirs)[1]),
    }


def vw_error(name: str, learner: str) -> str | None:
    """Test error in percent of one of Vowpal Wabbit's learners, as the race measured it with its own settings."""
    path = CELLS / f"{name}.{learner}.json"
    if not path.exists():
        return None
    cell = json.loads(path.read_text(encoding="utf-8"))
    return f"{100 * (1 - cell['precision']['1']):.2f}" if cell["state"] == "done" else None


def mcnemar(correct: np.ndarray, other: np.ndarray) -> float:
    """p-value of McNemar's exact test of two models, from whether each predicted each of the same rows correctly."""
    return mcnemar_of_counts(int(np.sum(correct & ~other)), int(np.sum(other & ~correct)))


def paired(correct: np.ndarray, other: np.ndarray | None, who: str) -> dict:
    """The two columns of `compare` for two models on the same rows: McNemar's exact test.

    The difference is that of the error rates, with the interval of Bonett and Price (2012) for paired proportions.
    """
    difference, p = f"ours − {who} [95 %]", f"p, vs {who}"
    if other is None:
        return {difference: None, p: None}
    n, only, only_other = len(correct), np.sum(correct & ~other), np.sum(other & ~correct)
    share, share_other = (only + 1) / (n + 2), (only_other + 1) / (n + 2)
    half = 1.959964 * np.sqrt((share + share_other - (share - share_other) ** 2) / (n + 2))
    middle = 100 * (share_other - share)
    gap = 100 * (only_other - only) / n
    interval = f"[{max(-100, middle - 100 * half):+.2f}, {min(100, middle + 100 * half):+.2f}]"
    return {difference: f"{gap:+.2f} {interval}", p: p_text(mcnemar(correct, other))}


def publish(
    name: str, title: str, rows: list[dict], notes: list[str], quick: bool, correct: dict[str, np.ndarray] | None = None
) -> Path:
    """Print rows as an aligned table, write it as CSV and Markdown, and return where the plot goes.

    All rows have the same keys, which head the columns; values are written as they are, None as a dash. A JSON file
    says when, by which sources and on what machine. `correct` has for each model whether it predicted each test row
    correctly; its names are the cells of the first columns, joined by ": ". It is written beside the table, so that
    the tests of `paired` can be repeated.
    """
    head = list(rows[0])
    cells = [["–" if row[key] is None else str(row[key]) for key in head] for row in rows]
    number = numeric_columns(cells)
    widths = [max(map(len, column)) for column in zip(head, *cells, strict=True)]

    def line(texts) -> str:
        parts = zip(texts, widths, number, strict=True)
        return "  ".join(text.rjust(width) if right else text.ljust(width) for text, width, right in parts)

    print(f"\n{title}\n")
    for texts in (head, ["-" * width for width in widths], *cells):
        print(line(texts).rstrip())
    for note in notes:
        print(f"\n{note}")
    print(flush=True)

    beside = Path(__file__).parent / "results"
    folder = _asked.get("results", beside / "quick" if quick else beside)
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / f"{name}.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([head, *cells])
    if correct:
        np.savez_compressed(folder / f"{name}.npz", **correct)
    body = "\n\n".join([f"# {title}", markdown_table(head, cells), *notes])
    (folder / f"{name}.md").write_text(body + "\n", encoding="utf-8")
    origin = {"date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"), "commit": commit(), **machine()}
    origin |= {"script": Path(sys.argv[0]).name, "quick": quick}
    (folder / f"{name}.json").write_text(json.dumps(origin, indent=1) + "\n", encoding="utf-8")
    return folder / f"{name}.png"


def new_plot(x: str, y: str, title: str, width: float = 7.0, height: float = 4.5):
    """An empty plot with named axes."""
    figure, axes = plt.subplots(figsize=(width, height), layout="constrained")
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.set_title(title, fontsize=11)
    axes.grid(axis="y", color="#dddddd", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def save(figure, path: Path) -> None:
    """Write a plot; the same numbers give the same bytes."""
    figure.savefig(path, dpi=130, metadata={"Software": None})
    plt.close(figure)
    print(f"plot, CSV and Markdown: {path.with_suffix('').name}.* in {path.parent.name}/")
