"""Speed on ALOI, one core: Recall Tree against Vowpal Wabbit's, the same rows in the same run.

Aimed at: 5 times the training examples a second and 8 times the predictions, at lower error.
"""

import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
from report import BLUE, ORANGE, load_or_skip, new_plot, p_text, p_value, parse, publish, save

from manyclass import RecallTreeClassifier
from manyclass.bench.vw import PeerUnavailable, find_vw, run_recall_tree, write_vw_text

EXTRA = {
    "passes": {"type": int, "default": 10, "help": "passes of both over the training rows (10)"},
    "repeats": {"type": int, "default": 15, "help": "predictions of all test rows; the median counts (15)"},
    "vw-folder": {"help": "make a virtual environment with Vowpal Wabbit there if none is found"},
}


def measure(model: RecallTreeClassifier, X_train, y_train, X_test, y_test, repeats: int) -> dict[str, float]:
    """Examples a second and error in percent."""
    start = time.perf_counter()
    model.fit(X_train, y_train)
    train_seconds = time.perf_counter() - start
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        predicted = model.predict(X_test)
        seconds.append(time.perf_counter() - start)
    return {
        "train": len(y_train) * model.n_epochs / train_seconds,
        "predict": len(y_test) / statistics.median(seconds),
        "error": 100 * float(np.mean(predicted != y_test)),
        "bytes": model.n_bytes_,
    }


def measure_vw(X_train, y_train, X_test, y_test, args) -> dict[str, float]:
    """The same of Vowpal Wabbit; without it, PeerUnavailable."""
    command = find_vw(args.vw_folder)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        order = np.random.default_rng(0).permutation(len(y_train))  # it does not shuffle
        write_vw_text(folder / "train.txt", X_train[order], y_train[order])
        write_vw_text(folder / "test.txt", X_test, y_test)
        n_classes = int(y_train.max()) + 1
        result = run_recall_tree(
            folder / "train.txt", folder / "test.txt", y_test, n_classes, folder, passes=args.passes, command=command
        )  # fmt: skip
    return {
        "train": result.train_examples_per_second,
        "predict": result.predict_examples_per_second,
        "error": 100 * (1 - result.accuracy),
        "bytes": result.model_bytes,
    }


def main() -> None:
    args = parse(__doc__, **EXTRA)
    X_train, y_train, X_test, y_test = load_or_skip("aloi")
    if args.quick:
        X_train, y_train, X_test, y_test = X_train[::10], y_train[::10], X_test[::4], y_test[::4]
        args.passes, args.repeats = 2, 3
    names = {
        f"Recall Tree, one path, 20 candidates, {args.passes} epochs": {
            "beam": 1, "n_candidates": 20, "n_epochs": args.passes,
        },
        f"Recall Tree, one path (beam=1), {args.passes} epochs": {"beam": 1, "n_epochs": args.passes},
        "Recall Tree, defaults": {},
    }
    found = {}
    for name, options in names.items():
        model = RecallTreeClassifier(random_state=0, n_jobs=1, **options)
        model.fit(X_train[:200], y_train[:200]).predict(X_test[:200])  # compiles
        found[name] = measure(model, X_train, y_train, X_test, y_test, args.repeats)
        print(f"{name}: done", flush=True)
    vw_name = f"Vowpal Wabbit --recall_tree, {args.passes} passes"
    try:
        found = {vw_name: measure_vw(X_train, y_train, X_test, y_test, args), **found}
    except PeerUnavailable as error:
        print(f"skipped Vowpal Wabbit: {error}")

    vw, n = found.get(vw_name), len(y_test)
    rows = []
    for name, told in found.items():
        rival = vw if vw and name != vw_name else None
        rows.append(
            {
                "program": name,
                "training examples/s": f"{told['train']:,.0f}",
                "ratio (bar 5)": f"{told['train'] / rival['train']:.1f}" if rival else None,
                "predictions/s": f"{told['predict']:,.0f}",
                "ratio (bar 8)": f"{told['predict'] / rival['predict']:.1f}" if rival else None,
                "test error %": f"{told['error']:.2f}",
                "p, vs VW": p_text(p_value(told["error"], n, rival["error"], n)) if rival else None,
                "model MB": f"{told['bytes'] / 1e6:.1f}",
            }
        )
    notes = [
        f"{len(y_train):,} training and {n:,} test rows, one core each. Ours: `fit` and `predict` as a user calls "
        "them, compiled beforehand on 200 rows (compiling takes seconds, once for an installation); predictions in "
        f"one call for all test rows, median of {args.repeats}. Vowpal Wabbit: wall clock over its binary cache "
        "without process start, loading and parsing (a second thread reads the rows); its defaults for the tree, "
        "logistic loss, no crossing.",
        "Paper (supplement): 194 µs a prediction on ALOI with crossed path features. p: N - 1 chi-squared test.",
    ]
    title = "ALOI on one core: Recall Tree against Vowpal Wabbit's"
    path = publish("speed", title, rows, notes, args.quick)

    figure, axes = new_plot("", "examples a second (log scale)", title, width=8.0)
    for i, (name, colour, key) in enumerate([("training", BLUE, "train"), ("prediction", ORANGE, "predict")]):
        heights = [told[key] for told in found.values()]
        drawn = axes.bar([j + 0.4 * (i - 0.5) for j in range(len(found))], heights, 0.38, color=colour, label=name)
        axes.bar_label(drawn, [f"{height:,.0f}" for height in heights], fontsize=8)
    axes.set_yscale("log")
    axes.set_xticks(range(len(found)), [name.replace(", ", ",\n") for name in found], fontsize=9)
    axes.legend(frameon=False)
    save(figure, path)


if __name__ == "__main__":
    main()
