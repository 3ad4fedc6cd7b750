"""Cost against the number of classes, 1,000 to 1,000,000, on made-up rows: work counted, time and memory measured.

Recall Tree beside one-against-all and Vowpal Wabbit's Recall Tree, as far as those go. Each point of ours is a process
of its own.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from report import BLUE, GREEN, GREY, ORANGE, PURPLE, new_plot, parse, publish, save

from benchmarks.hierarchy import Hierarchy
from benchmarks.origin import ROOT, machine
from benchmarks.vw import PeerUnavailable, find_vw, run_recall_tree, write_vw_text

EXTRA = {
    "most": {"type": int, "default": 1_000_000, "help": "the most classes (1,000,000)"},
    "rows-per-class": {"type": float, "default": 5.0, "help": "training rows for each class (5)"},
    "name": {"default": "classes", "help": "of the files with the results (classes)"},
    "exponent": {"type": float, "default": 1.0, "help": "Zipf exponent of the class frequencies (1); 0: all alike"},
    "flat-most": {"type": int, "default": 100_000, "help": "the most classes of all but the first (100,000)"},
    "vw-folder": {"help": "make a virtual environment with Vowpal Wabbit there if none is found"},
}
FLAT, VW = "one-against-all", "Vowpal Wabbit's Recall Tree"
ENTRANTS = {
    "Recall Tree": ("recall-tree", {}),
    "Recall Tree, 2 paths": ("recall-tree", {"beam": 2}),
    "Recall Tree, arity 8": ("recall-tree", {"arity": 8}),
    FLAT: (FLAT, {"learner": "sgd"}),
}
SIZES = (1_000, 10_000, 100_000, 1_000_000)
N_FEATURES, FAR = 64, 2**40


def measure(algorithm: str, options: dict, n_classes: int, args) -> dict:
    """One point, measured in a child process."""
    flat = algorithm == FLAT
    n_test = min(2000, 20_000_000 // n_classes) if flat else (4096 if args.quick else 65_536)
    task = {
        "algorithm": algorithm,
        "options": options,
        "n_classes": n_classes,
        "n_features": N_FEATURES,
        "exponent": args.exponent,
        "n_rows": 300 if flat else int(args.rows_per_class * n_classes),
        "cap": 60 if flat else 1800,
        "n_test": n_test,
        "repeats": 3,
    }
    line = [sys.executable, "-m", "benchmarks.classes_child", json.dumps(task)]
    one_core = {name: "1" for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    done = subprocess.run(line, capture_output=True, text=True, env={**os.environ, **one_core}, cwd=ROOT)
    if done.returncode:
        raise RuntimeError(f"{algorithm} with {n_classes:,} classes failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def measure_vw(n_classes: int, args) -> dict:
    """Seconds a row of Vowpal Wabbit, one pass over at most 100,000 rows: its cost a row does not depend on more."""
    stream = Hierarchy(n_classes, N_FEATURES, exponent=args.exponent)
    n_rows = int(min(100_000, args.rows_per_class * n_classes))
    X, y = stream.rows(n_rows)
    X_test, y_test = stream.rows(4096, first=FAR)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_vw_text(folder / "train.txt", X, y)
        write_vw_text(folder / "test.txt", X_test, y_test)
        files = folder / "train.txt", folder / "test.txt"
        told = run_recall_tree(
            *files, y_test, n_classes, folder, command=find_vw(args.vw_folder), timeout=300, trials=1
        )  # fmt: skip
    return {
        "predict": told.predict_seconds / len(y_test), "train": told.train_seconds / n_rows, "accuracy": told.accuracy,
        "work": None, "bytes": told.model_bytes, "estimate": 0, "peak": None, "recall": None,
    }  # fmt: skip


def row_of(name: str, n_classes: int, told: dict, first: dict) -> dict:
    """A line of the table."""
    flat = name == FLAT
    times = lambda key: f"{told[key] / first[key]:.2f}"  # noqa: E731
    mega = lambda key: f"{told[key] / 1e6:,.0f}" if told[key] else None  # noqa: E731
    return {
        "program": name,
        "classes": f"{n_classes:,}",
        "hyperplanes": f"{told['work']:,.0f}" if told["work"] else None,
        "x first": times("work") if told["work"] else None,
        "predict µs": f"{1e6 * told['predict']:.2f}",
        "x first ": times("predict"),
        "learn µs": None if flat else f"{1e6 * told['train']:.2f}",
        "x first  ": None if flat else times("train"),
        "accuracy %": None if flat else f"{100 * told['accuracy']:.1f}",
        "recall %": None if flat or told["recall"] is None else f"{100 * told['recall']:.1f}",
        "model MB": mega("bytes"),
        "estimate MB": mega("estimate"),
        "peak MB": mega("peak"),
    }


def draw(found: dict[str, dict[int, dict]], key: str, factor: float, axis: str, title: str, path: Path) -> None:
    """A curve for each program that has the figure."""
    figure, axes = new_plot("classes (log scale)", axis, title)
    colours = dict(zip([*ENTRANTS, VW], (BLUE, GREEN, ORANGE, GREY, PURPLE), strict=True))
    for (name, curve), marker in zip(found.items(), "osD^v", strict=False):
        if key == "work" and (name == FLAT or curve[SIZES[0]][key] is None):
            continue
        heights = [factor * told[key] for told in curve.values()]
        axes.plot(list(curve), heights, color=colours[name], marker=marker, label=name)
    axes.set_xscale("log")
    if key == "work":
        axes.set_ylim(bottom=0)
    else:
        axes.set_yscale("log")
    axes.legend(frameon=False)
    save(figure, path)


def main() -> None:
    args = parse(__doc__, **EXTRA)
    sizes = [n for n in SIZES if n <= (10_000 if args.quick else args.most)]
    found: dict[str, dict[int, dict]] = {}
    notes = []
    for name, (algorithm, options) in ENTRANTS.items():
        for n_classes in sizes:
            if name == "Recall Tree" or n_classes <= args.flat_most:
                found.setdefault(name, {})[n_classes] = told = measure(algorithm, options, n_classes, args)
                print(f"{name}, {n_classes:,} classes: {1e6 * told['predict']:.2f} µs per row predicted", flush=True)
    for n_classes in sizes:
        if n_classes <= args.flat_most:
            try:
                found.setdefault(VW, {})[n_classes] = measure_vw(n_classes, args)
            except PeerUnavailable as error:
                notes.append(f"{VW} ends before {n_classes:,} classes: {str(error)[:200]}")
                break
    found = {name: curve for name, curve in found.items() if curve}
    rows = [row_of(name, n, told, curve[sizes[0]]) for name, curve in found.items() for n, told in curve.items()]
    notes.insert(
        0,
        f"`Hierarchy(classes, 64, exponent={args.exponent:g})`: dense rows of 64 features, {args.rows_per_class:g} "
        "training rows for each class, learned once as a stream; one core. Predictions: 65,536 test rows in one call, "
        "median of three. One-against-all predicts 200 to 2,000 rows by matrix product, after 300 rows of training, "
        "because only its time is measured. Vowpal Wabbit predicts 4,096 rows after at most 100,000 rows of training. "
        "x first: compared with 1,000 classes. Targets: hyperplanes at most 2.2 times at 100,000; time at most 3 times "
        "at 100,000 and 4 times at 1,000,000. Hyperplanes: different ones. A batch scores a class listed at two nodes "
        "at both, and routes rows of large trees nine levels beforehand. Peak: memory of the process, beyond what it "
        "held before training. "
        f"omikuji is in the race. {machine()['machine']}.",
    )
    if 100_000 in found[FLAT]:
        ratio = found[FLAT][100_000]["predict"] / found["Recall Tree"][100_000]["predict"]
        notes.append(f"Predictions, 100,000 classes: {ratio:,.0f} times one-against-all (paper, ODP: about 300).")
    path = publish(args.name, "Cost against the number of classes", rows, notes, args.quick)
    draw(found, "predict", 1e6, "µs per row, in batch (log scale)", "Time against the number of classes", path)
    where = path.with_name(f"{args.name}_work.png")
    draw(found, "work", 1.0, "hyperplanes a row", "Work against the number of classes", where)


if __name__ == "__main__":
    main()
