"""ALOI, 1,000 classes: Recall Tree beside one-against-all by one matrix product and Vowpal Wabbit's Recall Tree.

The case that the paper lost on the wall clock ("conditional execution frustrates vectorization" [RT §4.2]): on one
core, with hyperplanes an example; then two threads; then the time to Vowpal Wabbit's best accuracy.
"""

import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np
from report import BLUE, ORANGE, load_or_skip, new_plot, parse, publish, save
from threadpoolctl import threadpool_limits

from benchmarks.origin import machine
from benchmarks.timing import fit_seconds, seconds_of
from benchmarks.vw import PeerUnavailable, find_vw, run_recall_tree, write_vw_text
from manyclass import OneAgainstAllClassifier, RecallTreeClassifier

EXTRA = {
    "epochs": {"type": int, "default": 10, "help": "passes over the training rows (10)"},
    "repeats": {"type": int, "default": 11, "help": "predictions of all test rows; the median counts (11)"},
    "vw-folder": {"help": "make a virtual environment with Vowpal Wabbit there if none is found"},
    "crossed": {"action": "store_true", "help": "also Vowpal Wabbit's slow, most accurate setting (minutes)"},
}
TREES = {
    "Recall Tree, defaults (up to 8 paths)": {},
    "Recall Tree, one path": {"beam": 1},
    "Recall Tree, one path, 20 candidates, depth 8": {"beam": 1, "n_candidates": 20, "max_depth": 8},
}
VW, BARE = "Vowpal Wabbit --recall_tree", "bare matrix product and argmax"


def measure_tree(options: dict, data, args, n_jobs: int) -> dict:
    """Rows per second in training and in prediction, error, hyperplanes."""
    X, y, X_test, y_test = data
    model = RecallTreeClassifier(random_state=0, n_epochs=args.epochs, n_jobs=n_jobs, **options)
    model.fit(X[:300], y[:300]).predict(X_test[:300])  # compiles
    train = fit_seconds(model, X, y)
    predict = seconds_of(lambda: model.predict(X_test), args.repeats)
    many = seconds_of(lambda: model.predict(X), args.repeats)
    told = model.diagnose(X_test, y_test)
    return {
        "many": len(y) / many,
        "train": args.epochs * len(y) / train,
        "predict": len(y_test) / predict,
        "error": 100 * (1 - told["accuracy"]),
        "hyperplanes": told["work"],
    }


def bare_product(X, weight, n_rows: int) -> None:
    """The product with all classes and the largest of each row, so many rows at a time."""
    for first in range(0, len(X), n_rows):
        (X[first : first + n_rows] @ weight).argmax(axis=1)


def measure_flat(data, args) -> dict[str, dict]:
    """One-against-all: as a user calls it, and the bare product with the largest of each row."""
    X, y, X_test, y_test = data
    model = OneAgainstAllClassifier(random_state=0, n_epochs=1)
    model.fit(X[:300], y[:300]).predict(X_test[:300])
    train = fit_seconds(model, X, y)
    predict = seconds_of(lambda: model.predict(X_test), args.repeats)
    weight = np.ascontiguousarray(model._state["columns"].weight)
    bare = min(seconds_of(partial(bare_product, X_test, weight, n), args.repeats) for n in (256, 1024, len(y_test)))
    both = {"error": 100 * (1 - model.score(X_test, y_test)), "hyperplanes": 1000}
    return {
        "one-against-all, 1 epoch": {"train": len(y) / train, "predict": len(y_test) / predict, **both},
        BARE: {"train": None, "predict": len(y_test) / bare, **both},
    }


def measure_vw(data, args, crossed: bool) -> dict:
    """Vowpal Wabbit's Recall Tree over its binary cache; its best setting crosses path features with the inputs."""
    X, y, X_test, y_test = data
    command = find_vw(args.vw_folder)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        order = np.random.default_rng(0).permutation(len(y))
        write_vw_text(folder / "train.txt", X[order], y[order])
        write_vw_text(folder / "test.txt", X_test, y_test)
        options = {"passes": 5, "extra": ["-q", "\\x88:"]} if crossed else {"passes": args.epochs}
        files = folder / "train.txt", folder / "test.txt"
        told = run_recall_tree(*files, y_test, int(y.max()) + 1, folder, command=command, **options)
    return {
        "train": told.train_examples_per_second,
        "predict": told.predict_examples_per_second,
        "error": 100 * (1 - told.accuracy),
        "hyperplanes": None,
        "seconds": told.train_seconds,
    }


def seconds_to(accuracy: float, data) -> tuple[float, float, int]:
    """(seconds, accuracy, epochs) of the fewest epochs with one path that reach an accuracy on the test rows."""
    X, y, X_test, y_test = data
    for epochs in range(1, 20):
        model = RecallTreeClassifier(random_state=0, beam=1, n_epochs=epochs)
        begun = time.perf_counter()
        model.fit(X, y)
        seconds = time.perf_counter() - begun
        reached = model.score(X_test, y_test)
        if reached >= accuracy:
            break
    return seconds, reached, epochs


def race_to_accuracy(data, args) -> str:
    """A sentence about the time to Vowpal Wabbit's best accuracy."""
    best = measure_vw(data, args, crossed=True)
    seconds, reached, epochs = seconds_to(1 - best["error"] / 100, data)
    return (
        f"Time to accuracy: Vowpal Wabbit with crossed path features, 5 passes: {100 - best['error']:.1f} % in "
        f"{best['seconds']:.0f} s; Recall Tree, one path, {epochs} epochs: {100 * reached:.1f} % in {seconds:.2f} s, "
        f"{best['seconds'] / seconds:.0f} times less (bar 50); the epochs are the fewest that suffice on the test rows."
    )


def draw(found: dict[str, dict], title: str, path: Path) -> None:
    """Bars: rows predicted and learned a second."""
    shown = {name: told for name, told in found.items() if "threads" not in name}
    figure, axes = new_plot("rows a second (log scale)", "", title, width=9.0, height=4.6)
    for i, (key, colour, label) in enumerate((("predict", ORANGE, "predicted"), ("train", BLUE, "learned"))):
        lengths = [told[key] or np.nan for told in shown.values()]
        bars = axes.barh([j + 0.4 * (i - 0.5) for j in range(len(shown))], lengths, 0.38, color=colour, label=label)
        axes.bar_label(bars, ["" if np.isnan(n) else f" {n:,.0f}" for n in lengths], fontsize=8)
    axes.set_xscale("log")
    axes.set_xlim(right=6e6)
    axes.set_yticks(range(len(shown)), list(shown), fontsize=9)
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    axes.legend(frameon=False, loc="upper right")
    save(figure, path)


def main() -> None:
    args = parse(__doc__, **EXTRA)
    X, y, X_test, y_test = load_or_skip("aloi")
    data = [X.toarray().astype(np.float32), y, X_test.toarray().astype(np.float32), y_test]
    if args.quick:
        data = [data[0][::10], y[::10], data[2][::4], y_test[::4]]
        args.epochs, args.repeats = 2, 3
    found: dict[str, dict] = {}
    notes = []
    with threadpool_limits(1):
        try:
            found[VW] = measure_vw(data, args, crossed=False)
            if args.crossed and not args.quick:
                notes.append(race_to_accuracy(data, args))
        except PeerUnavailable as error:
            notes.append(f"Vowpal Wabbit was skipped: {error}")
        found |= measure_flat(data, args)
        for name, options in TREES.items():
            found[name] = measure_tree(options, data, args, 1)
            print(f"{name}: done", flush=True)
        for name in list(TREES)[:2]:
            found[f"{name}, two threads"] = measure_tree(TREES[name], data, args, 2)
    vw, flat = found.get(VW), found[BARE]
    rows = [
        {
            "program": name,
            "rows learned/s": f"{told['train']:,.0f}" if told["train"] else None,
            "x VW": f"{told['train'] / vw['train']:.1f}" if vw and told["train"] and told is not vw else None,
            "rows predicted/s": f"{told['predict']:,.0f}",
            "x VW ": f"{told['predict'] / vw['predict']:.1f}" if vw and told is not vw else None,
            "x bare product": f"{told['predict'] / flat['predict']:.2f}" if told is not flat else None,
            "hyperplanes": f"{told['hyperplanes']:.0f}" if told["hyperplanes"] else None,
            "test error %": f"{told['error']:.2f}",
        }
        for name, told in found.items()
    ]
    for name in list(TREES)[:2]:
        one, two = found[name], found[f"{name}, two threads"]
        notes.append(
            f"Two threads, {name}: {two['train'] / one['train']:.2f} times the rows learned and "
            f"{two['many'] / one['many']:.2f} times the rows predicted of one (bar 1.6), with the same "
            f"bytes; predictions of "
            f"all {len(data[1]):,} training rows in one call: {two['many']:,.0f} a second."
        )
    notes.append(
        f"{len(data[1]):,} training rows, {args.epochs} epochs (Vowpal Wabbit as many passes), {len(data[3]):,} test "
        "rows; one core, also for the matrix product, unless two threads are named. Ours: `fit` and `predict` "
        "as a user "
        "calls them, compiled beforehand. Vowpal Wabbit: over its binary cache without process start and loading; its "
        "defaults, no crossing. Hyperplanes: different ones; a batch scores a class that is listed at "
        "two nodes of a row's "
        "paths at both. Bare product: the fastest of 256, 1,024 and all rows at a time. "
        f"Paper: 50 hyperplanes against 1,000, and slower. {machine()['machine']}."
    )
    title = "ALOI, 1,000 classes, one core: Recall Tree, one-against-all, Vowpal Wabbit"
    draw(found, title, publish("aloi", title, rows, notes, args.quick))


if __name__ == "__main__":
    main()
