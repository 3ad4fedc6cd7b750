"""Explanations: largest difference between the sum of the parts and the score, and time per explanation.

Sparse rows are those of the 150 largest classes of WordNet, dense ones scikit-learn's digits. Every model explains
10,000 random rows: sums of two rows that were not learned. The last line is a label tree on all of WordNet. `--show N`
prints explanations of test rows instead. Writes benchmarks/decisions/explain.md.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.preprocessing import normalize

ROOT = Path(__file__).resolve().parents[1]
if __name__ == "__main__":
    sys.path[0] = str(ROOT)  # of the repository: `benchmarks` is not installed

from benchmarks.origin import machine, when  # noqa: E402
from benchmarks.tables import markdown_table  # noqa: E402
from manyclass import (  # noqa: E402
    LabelTreeClassifier,
    LomTreeClassifier,
    MlomTreeClassifier,
    OneAgainstAllClassifier,
    RecallTreeClassifier,
    SpectralTreeClassifier,
)
from manyclass.datasets import load_wordnet, tfidf_transformer  # noqa: E402

PAGE = ROOT / "benchmarks" / "decisions" / "explain.md"
N_ROWS = 10_000
MODELS = {
    "label tree": LabelTreeClassifier(random_state=0),
    "label tree after partial_fit": LabelTreeClassifier(random_state=0),
    "label tree, three trees": LabelTreeClassifier(n_trees=3, random_state=0),
    "Recall Tree": RecallTreeClassifier(random_state=0),
    "Recall Tree, crossed path features": RecallTreeClassifier(path_features="crossed", random_state=0),
    "spectral tree": SpectralTreeClassifier(random_state=0),
    "LOM tree": LomTreeClassifier(random_state=0),
    "MLOM tree": MlomTreeClassifier(random_state=0),
    "one-against-all": OneAgainstAllClassifier(random_state=0),
    "one-against-all, low rank": OneAgainstAllClassifier(rank=20, random_state=0),
}


def wordnet(n_classes: int | None) -> tuple[Any, Any, Any, Any, Any]:
    """Tf-idf of WordNet's largest classes: training rows and labels, test rows, words, names of the labels."""
    data = load_wordnet()
    weigh = tfidf_transformer().fit(data.X_train)
    X, X_test = (normalize(weigh.transform(part)).astype(np.float32) for part in (data.X_train, data.X_test))
    largest = np.argsort(-np.bincount(data.y_train), kind="stable")[:n_classes]
    train, test = np.isin(data.y_train, largest), np.isin(data.y_test, largest)
    return X[train], data.label_names[data.y_train[train]], X_test[test], data.feature_names, data.y_test[test]


def digits() -> tuple[Any, Any, Any]:
    """Training rows and labels, and test rows."""
    X, y = load_digits(return_X_y=True)
    return X[:1200].astype(np.float32), y[:1200], X[1200:].astype(np.float32)


def mixed(X: Any, n: int, seed: int = 0) -> Any:
    """Random rows: each the sum of two."""
    rng = np.random.default_rng(seed)
    return X[rng.integers(0, X.shape[0], n)] + X[rng.integers(0, X.shape[0], n)]


def errors(model: Any, X: Any) -> tuple[float, float, float]:
    """Largest difference between a score and its parts: absolute, and relative to scores above 1; seconds."""
    labels, scores = model.predict_topk(X, k=2)
    rows = [X[row : row + 1] for row in range(X.shape[0])]
    start = time.process_time()
    explanations = [model.explain(row) for row in rows]
    seconds = (time.process_time() - start) / len(rows)
    absolute = relative = 0.0
    for found, label, (own, other) in zip(explanations, labels[:, 0], scores.tolist(), strict=True):
        assert found.label == label and found.scored
        parts = [(sum(one.contribution for one in found.contributions) + found.other_features, found.terms, own)]
        if np.isfinite(other):
            amount = sum(one.runner_up for one in found.contributions) + found.other_features_runner_up
            parts.append((amount, found.runner_up_terms, other))
        for linear, terms, score in parts:
            difference = abs(linear + sum(terms.values()) - score)
            absolute, relative = max(absolute, difference), max(relative, difference / max(1.0, abs(score)))
    return absolute, relative, seconds


def measured(n_rows: int, kinds: list[str], models: list[str]) -> Iterator[list[str]]:
    """The lines of the table."""
    X, y, X_test, _, _ = wordnet(150)
    for kind in kinds:
        X_train, y_train, X_held = (X, y, X_test) if kind == "sparse" else digits()
        rows = mixed(X_held, n_rows)
        for name in models:
            model = clone(MODELS[name]).fit(X_train, y_train)
            if "partial_fit" in name:
                model.partial_fit(X_train[:200], y_train[:200])
            absolute, relative, seconds = errors(model, rows)
            yield [name, kind, f"{absolute:.1e}", f"{relative:.1e}", f"{1000 * seconds:.2f}"]
    if "sparse" not in kinds:
        return
    X, y, X_test, _, _ = wordnet(None)
    absolute, relative, seconds = errors(LabelTreeClassifier(random_state=0).fit(X, y), X_test[: min(1000, n_rows)])
    yield ["label tree, all of WordNet", "sparse", f"{absolute:.1e}", f"{relative:.1e}", f"{1000 * seconds:.2f}"]


def show(n: int) -> None:
    """Print explanations of random test rows of WordNet."""
    X, y, X_test, words, _ = wordnet(None)
    model = LabelTreeClassifier(random_state=0).fit(X, y)
    data = load_wordnet()
    for row in np.random.default_rng(1).choice(X_test.shape[0], n, replace=False):
        print(f"== {' '.join(words[X_test[row].indices])}  [true label {data.label_names[data.y_test[row]]}]")
        print(model.explain(X_test[row], feature_names=words, k=6), end="\n\n")


def main() -> None:
    """Measure, print and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=N_ROWS)
    parser.add_argument("--kinds", nargs="+", choices=("sparse", "dense"), default=["sparse", "dense"])
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--show", type=int, default=0, metavar="N")
    options = parser.parse_args()
    if options.show:
        show(options.show)
        return
    head = ["model", "rows", "largest difference", "relative", "processor ms"]
    rows = []
    for line in measured(options.rows, options.kinds, options.models):
        print(" | ".join(line), flush=True)
        rows.append(line)
    PAGE.write_text(
        f"# Explanations\n\n`python benchmarks/explain.py` writes this page. {machine()['machine']}; "
        f"{when()}; {options.rows:,} random rows per model, {min(1000, options.rows):,} test rows for all of "
        "WordNet. The difference is that between the score of `predict_topk` and the sum of the parts of `explain`, "
        "for the label and the runner-up; relative to the score "
        "if above 1. Processor time per explanation.\n\n"
        f"{markdown_table(head, rows)}\n"
    )


if __name__ == "__main__":
    main()
