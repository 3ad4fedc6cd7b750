"""Sparse text with 50,000 classes and more: the label tree's blocks beside one hash for each (feature, class).

The same tree, the same nodes, the same weights, in two layouts; and one-against-all's predictions for the same rows.
"""

import numpy as np
from report import load_tfidf, parse, publish
from scipy import sparse

from benchmarks.hierarchy import Hierarchy
from benchmarks.naive_hash import naive_layout, score_naively
from benchmarks.origin import machine
from benchmarks.timing import seconds_of
from manyclass import LabelTreeClassifier, OneAgainstAllClassifier
from manyclass.core.validation import as_batch
from manyclass.datasets import available

EXTRA = {"repeats": {"type": int, "default": 3, "help": "the median of so many counts (3)"}}


def measure(name: str, X, y, X_test, y_test, args) -> dict:
    """A row of the table: both layouts, and one-against-all by sparse matrix product."""
    model = LabelTreeClassifier(random_state=0, n_trees=1, n_jobs=1)
    model.fit(X[:500], y[:500]).predict(X_test[:100])  # compiles
    model.fit(X, y)
    ours = seconds_of(lambda: model.predict(X_test), args.repeats)
    tree = model._state["tree"]
    visited = sparse.csr_array(model.decision_path(X_test))
    table, mask = naive_layout(model._state)
    best = np.empty(X_test.shape[0], np.float32)
    width = model._state["blocks"].weight.shape[1]
    call = (table, mask, tree.size, width, visited.indptr, visited.indices, as_batch(X_test), best)
    score_naively(*call)
    naive = seconds_of(lambda: score_naively(*call), args.repeats)
    n_classes, n, few = len(model.classes_), X_test.shape[0], X_test[:20]
    flat = OneAgainstAllClassifier(random_state=0, learner="sgd")
    last = np.flatnonzero(y == y.max())[:1]  # so that all classes up to the last are scored
    flat.partial_fit(X[last], y[last], classes=np.arange(y.max() + 1)).predict(few)
    one_against_all = seconds_of(lambda: flat.predict(few), args.repeats) / few.shape[0]
    return {
        "data": name,
        "classes": f"{n_classes:,}",
        "rows tested": f"{n:,}",
        "accuracy %": f"{100 * model.score(X_test, y_test):.2f}",
        "blocks, µs a row": f"{1e6 * ours / n:.1f}",
        "one hash each, µs a row": f"{1e6 * naive / n:.1f}",
        "times faster (bar 5)": f"{naive / ours:.1f}",
        "one-against-all, µs a row": f"{1e6 * one_against_all:,.0f}",
        "times faster": f"{one_against_all * n / ours:,.0f}",
    }


def main() -> None:
    args = parse(__doc__, **EXTRA)
    rows = []
    if available("revdict"):
        X, y, X_test, y_test = load_tfidf("revdict")
        step = 50 if args.quick else 1
        rows.append(measure("revdict", X[::step], y[::step], X_test[: 20_000 // step], y_test[: 20_000 // step], args))
    else:
        print("revdict is skipped: not in MANYCLASS_DATA")
    n_classes = 2_000 if args.quick else 50_000
    stream = Hierarchy(n_classes, sparse=True, exponent=0)
    X, y = stream.rows(4 * n_classes)
    X_test, y_test = stream.rows(1_000 if args.quick else 20_000, first=2**40)
    rows.append(measure("Hierarchy, sparse", X, y, X_test, y_test, args))
    notes = [
        "One tree, one thread, predictions for all test rows in one call. One hash each: the naive layout. The "
        "weights of the same tree are in one table of 2^27, each where the hash of (feature, output) says. The outputs "
        "of the nodes that our prediction visited are summed up; choosing paths and labels is left out. "
        "One-against-all: ours, by sparse matrix product over hashed lines, twenty rows in one call. "
        f"{machine()['machine']}.",
        "revdict: its test rows were looked at when the label tree's word votes were designed.",
    ]
    publish("sparse", "Sparse rows: blocks of weights beside one hash for each", rows, notes, args.quick)


if __name__ == "__main__":
    main()
