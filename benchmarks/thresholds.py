"""The threshold that `fit` learns with several labels per row, beside 0.5 and the best one, on held-out training rows.

    MANYCLASS_DATA=folder python benchmarks/thresholds.py                      # Bibtex, Delicious, EURLex-4K
    MANYCLASS_DATA=folder python benchmarks/thresholds.py bibtex --estimator SpectralTreeClassifier

A fifth of the training rows is held out, and the model is trained on the others. The test rows are not used. "Best" is
the threshold with the highest micro-F1 on the held-out rows, which nobody knows in advance.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])  # of the repository: `benchmarks` is not installed

import manyclass
from benchmarks.sets import SETS, SetUnavailable, prepare
from benchmarks.tables import markdown_table
from manyclass.core.multilabel import labels_of
from manyclass.metrics import ClassCounts

NAMES = [name for name, one in SETS.items() if one.several]
DEFAULT = ["bibtex", "delicious", "eurlex-4k"]


def measure(model: Any, X: Any, Y: sp.csr_array, threshold: float) -> list[str]:
    """A line of the table: metrics of the labels above a threshold."""
    predicted = model.set_params(threshold=threshold).predict(X)
    counts = ClassCounts(Y.shape[1])
    counts.add(Y, predicted)
    empty = 100 * np.mean(np.diff(predicted.indptr) == 0)
    scores = (f"{100 * value:.1f}" for value in (counts.micro_f1, counts.macro_f1))
    return [f"{threshold:.3f}", *scores, f"{predicted.nnz / Y.shape[0]:.1f}", f"{empty:.1f}"]


def lines(name: str, kind: Any, seed: int) -> list[list[str]]:
    """The lines of a set."""
    X, Y, _, _ = prepare(SETS[name])
    X, Y = sp.csr_array(X), sp.csr_array(Y)
    held, learned = np.split(np.random.default_rng(seed).permutation(X.shape[0]), [X.shape[0] // 5])
    model = kind(random_state=seed).fit(X[learned], Y[learned])
    best = model._best_threshold(X[held], labels_of(Y[held]))
    thresholds = {"fixed": 0.5, "learned": model.threshold_, "best": best}
    found = {rule: measure(model, X[held], Y[held], threshold) for rule, threshold in thresholds.items()}
    return [[SETS[name].title, rule, *line] for rule, line in found.items()]


def main() -> None:
    """Measure and print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sets", nargs="*", choices=[*NAMES, []], help=f"default: {' '.join(DEFAULT)}")
    parser.add_argument("--estimator", default="LabelTreeClassifier", help="class of manyclass")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rows = []
    for name in options.sets or DEFAULT:
        try:
            rows += lines(name, getattr(manyclass, options.estimator), options.seed)
        except SetUnavailable as error:
            print(f"{name}: skipped, {error}", file=sys.stderr)
    head = ["set", "rule", "threshold", "micro-F1, %", "macro-F1, %", "labels per row", "rows without a label, %"]
    print(markdown_table(head, rows) if rows else "no set is available")


if __name__ == "__main__":
    main()
