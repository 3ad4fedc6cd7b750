"""Accuracy of the label tree with 2 to 500 training rows per label: its calibrated start beside constant ones.

    MANYCLASS_DATA=folder python benchmarks/rows_per_label.py

The training rows of three real sets are drawn at random, so that each label has so many on average: CLINC150 and
WordNet (one label per row), and RCV1 topics (several). Synthetic text adds the bands that they lack. LinearSVC, one
against all, is for comparison; a dash where it would take hours. With several labels per row, % is P@1. A constant
`start` also turns off the votes of words (docs/algorithms/label_tree.md).
"""

import argparse
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import normalize
from sklearn.svm import LinearSVC

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])  # of the repository: `benchmarks` is not installed

from benchmarks.sets import SETS, Rows, SetUnavailable, prepare
from benchmarks.tables import markdown_table
from manyclass import LabelTreeClassifier
from manyclass.metrics import precision_at_k

BANDS = (2, 5, 20, 100, 500)
REAL = ("clinc150", "wordnet-hypernym", "rcv1-topics")
MADE = {"synthetic": False, "synthetic-several": True}
STARTS = ("auto", 0, 5, 20, 50)
N_WORDS, N_TEST, MOST_ROWS, MOST_FOR_SVC = 5000, 3000, 40_000, 400  # the last: labels


def synthetic(rows_per_label: int, several: bool) -> Rows:
    """Rows with words of their labels, words that similar labels share, and words of all texts."""
    rng, per_row = np.random.default_rng(0), 3 if several else 1
    n_labels = int(np.clip(MOST_ROWS * per_row // rows_per_label, 200, 8000))
    n_train = n_labels * rows_per_label // per_row
    own = rng.integers(0, N_WORDS, (n_labels, 12))
    shared = rng.integers(0, N_WORDS, (n_labels // 20 + 1, 30))
    group = rng.integers(0, len(shared), n_labels)
    members = [np.flatnonzero(group == number) for number in range(len(shared))]
    X, Y = sp.lil_array((n_train + N_TEST, N_WORDS), dtype=np.float32), sp.lil_array((n_train + N_TEST, n_labels))
    for i in range(n_train + N_TEST):
        near = members[group[rng.integers(n_labels)]]
        labels = rng.choice(near, min(per_row, len(near)), replace=False)
        common = np.minimum(rng.zipf(1.2, 25) - 1, N_WORDS - 1)
        words = [rng.choice(own[labels].ravel(), 2 * per_row), rng.choice(shared[group[labels[0]]], 6), common]
        X[i, np.concatenate(words)], Y[i, labels] = 1.0, 1.0
    X, Y = normalize(X.tocsr()).astype(np.float32), Y.tocsr()
    y = Y if several else Y.indices
    return X[:n_train], y[:n_train], X[n_train:], y[n_train:]


def sets(names: Sequence[str]) -> Iterator[tuple[str, int, Rows]]:
    """Name, rows per label and the rows."""
    for name in (name for name in names if name in REAL):
        try:
            X, y, X_test, y_test = prepare(SETS[name])
        except SetUnavailable as error:
            print(f"{name}: skipped, {error}", file=sys.stderr)
            continue
        pairs = y.nnz if sp.issparse(y) else len(y)
        n_labels = y.shape[1] if sp.issparse(y) else len(np.unique(y))
        order = np.random.default_rng(0).permutation(X.shape[0])
        for band in BANDS:
            if (n := round(X.shape[0] * band * n_labels / pairs)) <= X.shape[0]:
                part = np.sort(order[:n])
                yield name, band, (X[part], y[part], X_test, y_test)
    for name, several in MADE.items():
        for band in BANDS if name in names else ():
            yield name, band, synthetic(band, several)


def score(model: Any, X: Any, y: Any) -> float:
    """Accuracy, or P@1."""
    if not sp.issparse(y):
        return model.score(X, y)
    if isinstance(model, LabelTreeClassifier):
        return precision_at_k(y, model.predict_topk(X, 1)[0], 1)
    return precision_at_k(y, model.decision_function(X).argmax(axis=1)[:, None], 1)


def main() -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", default=[*REAL, *MADE], choices=[*REAL, *MADE], help="default: all")
    names = parser.parse_args().sets
    warnings.filterwarnings("ignore", "Label not", UserWarning)  # OneVsRestClassifier, of labels without rows
    lines = []
    for name, band, (X, y, X_test, y_test) in sets(names):
        models: list[Any] = [LabelTreeClassifier(start=start, threshold=0.5, random_state=0) for start in STARTS]
        n_labels = y.shape[1] if sp.issparse(y) else len(np.unique(y))
        if n_labels <= MOST_FOR_SVC:
            models.append(OneVsRestClassifier(LinearSVC()) if sp.issparse(y) else LinearSVC())
        found = [f"{100 * score(model.fit(X, y), X_test, y_test):.2f}" for model in models]
        found += ["–"] * (len(STARTS) + 1 - len(found))
        lines.append([name, str(band), f"{X.shape[0]:,}", f"{n_labels:,}", *found])
        print(" ".join(lines[-1]), file=sys.stderr, flush=True)
    starts = ["default", *(f"start={start}" for start in STARTS[1:])]
    print(markdown_table(["set", "rows per label", "rows", "labels", *starts, "LinearSVC"], lines))


if __name__ == "__main__":
    main()
