"""Changes of the classes at 50,000 classes: time per change, and whether predictions of other classes stay the same.

Rows are made-up text: five of the six words of a class and two others. Writes benchmarks/decisions/vocabulary.md.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

ROOT = Path(__file__).resolve().parents[1]
if __name__ == "__main__":
    sys.path[0] = str(ROOT)  # of the repository: `benchmarks` is not installed

from benchmarks.origin import machine, when  # noqa: E402
from benchmarks.tables import markdown_table  # noqa: E402
from manyclass import LabelTreeClassifier, RecallTreeClassifier  # noqa: E402

PAGE = ROOT / "benchmarks" / "decisions" / "vocabulary.md"
N_CLASSES, N_CHANGES, N_TEST, N_WORDS = 50_000, 50, 2_000, 20_000
MODELS = {
    "label tree": LabelTreeClassifier(random_state=0),
    "Recall Tree": RecallTreeClassifier(random_state=0, n_epochs=1),
}


def rows(n_classes: int) -> tuple[Any, Any, Any]:
    """One row per class, and test rows of random classes."""
    rng = np.random.default_rng(0)
    own = rng.integers(0, N_WORDS, (n_classes, 6))
    labels = np.concatenate([np.arange(n_classes), rng.integers(0, n_classes, N_TEST)])
    words = np.hstack([rng.permuted(own[labels], axis=1)[:, :5], rng.integers(0, N_WORDS, (len(labels), 2))])
    where = np.repeat(np.arange(len(labels)), 7), words.ravel()
    X = sp.csr_array((np.ones(words.size, np.float32), where), shape=(len(labels), N_WORDS))
    names = np.array([f"category {number:06d}" for number in range(n_classes)])
    return X[:n_classes], names, X[n_classes:]


def times(change: Callable[[int], object]) -> tuple[float, float]:
    """Median and largest milliseconds of a change."""
    out = []
    for number in range(N_CHANGES):
        start = time.perf_counter()
        change(number)
        out.append(1000 * (time.perf_counter() - start))
    return statistics.median(out), max(out)


def measured(name: str, model: Any, X_test: Any) -> list[list[str]]:
    """The lines of a model: the time of each change, and whether the predictions of other classes stay the same."""
    best, scores = model.predict_topk(X_test, k=1)
    best, scores = best[:, 0], scores[:, 0]
    chosen = np.unique(best)[:200]
    gone, merged, into, renamed = chosen[:50], chosen[50:100], chosen[100:150], chosen[150:200]

    def predict_seconds() -> float:
        start = time.perf_counter()
        model.predict(X_test)
        return (time.perf_counter() - start) / X_test.shape[0]

    before = predict_seconds()
    changes: dict[str, Callable[[int], object]] = {
        "remove": lambda i: model.remove_classes([gone[i]]),
        "merge": lambda i: model.merge_classes({merged[i]: into[i]}),
        "rename": lambda i: model.rename_classes({renamed[i]: f"new name {i:05d}"}),
        "add": lambda i: model.add_classes([f"new class {i}"]),
    }
    out = []
    for kind, change in changes.items():
        median, most = times(change)
        out.append([name, kind, f"{median:.2f}", f"{most:.2f}"])
    labels, new = model.predict_topk(X_test, k=1)
    others = ~np.isin(best, np.concatenate([gone, merged, renamed]))
    same = (labels[others, 0] == best[others]) & np.isclose(new[others, 0], scores[others], rtol=1e-5, atol=1e-6)
    wrong = int(np.isin(labels, np.concatenate([gone, merged])).sum())
    print(
        f"{name}: {same.sum():,} of {others.sum():,} rows of other classes have the same label and score; "
        f"{wrong} predictions of removed or merged classes; {1e6 * before:.0f} µs per row before, "
        f"{1e6 * predict_seconds():.0f} after"
    )
    assert same.all() and not wrong
    return [[*line, f"{same.sum():,} of {others.sum():,}"] for line in out]


def main() -> None:
    """Measure, print and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--classes", type=int, default=N_CLASSES)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    options = parser.parse_args()
    X, y, X_test = rows(options.classes)
    lines = []
    for name in options.models:
        lines += measured(name, MODELS[name].fit(X, y), X_test)
    table = markdown_table(["model", "change", "median ms", "largest ms", "rows of other classes unchanged"], lines)
    print(table)
    PAGE.write_text(
        f"# Changes of the classes\n\n`python benchmarks/vocabulary.py` writes this page. {machine()['machine']}; "
        f"{when()}; {options.classes:,} classes, {N_CHANGES} changes of each kind, one class at a time. "
        "Unchanged: label and score (up to rounding) of test rows of other classes, after all changes. The machine was "
        f"busy with other work, so times are upper limits.\n\n{table}\n"
    )


if __name__ == "__main__":
    main()
