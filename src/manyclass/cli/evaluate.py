"""`manyclass evaluate`: how good the answers are and what they cost, over a file of any size."""

import json
import sys
import time
from typing import Any

import numpy as np
import scipy.sparse as sp
from rich.console import Console
from rich.table import Table

from ..io import Chunk, Source
from ..metrics import ndcg_at_k, precision_at_k
from .errors import CommandError
from .files import Columns, Trained, columns_of, open_model, open_source
from .progress import said_if_slow

_KS = (1, 3, 5)


def run(model: str, data: str, reading: dict, threads: int, as_json: bool) -> None:
    """Evaluate and print."""
    trained = open_model(model)
    trained.estimator.n_jobs = threads
    source = open_source(data, reading, trained.reading)
    told = evaluate(trained, source)
    if as_json:
        print(json.dumps(told))
    else:
        Console(markup=False).print(table_of(told))


def evaluate(trained: Trained, source: Source) -> dict[str, float]:
    """All measures over all rows: the keys of `diagnose`, P@k, nDCG@k, rows, skipped lines, seconds."""
    totals = totals_of(trained, source)
    if not totals.n_known:
        print(f"manyclass: none of the labels in {source.path} is known to the model.", file=sys.stderr)
    return {**totals.means(), "n_rows": totals.n_rows, "n_skipped": source.n_skipped, "seconds": totals.seconds}


def totals_of(trained: Trained, source: Source) -> "Totals":
    """Everything over all rows of a file."""
    columns, totals = columns_of(trained), Totals()
    for chunk in source.chunks():
        totals.add(trained, chunk, columns)
    if not totals.n_rows:
        raise CommandError(f"{source.path}: there are no rows to evaluate.")
    return totals


class Totals:
    """Sums of measures over chunks: a mean over all rows needs no more."""

    def __init__(self) -> None:
        self.n_rows, self.n_labels, self.n_known, self.seconds, self.found = 0, 0, 0, 0.0, 0.0
        self.sums: dict[str, float] = {}
        self.right: list[np.ndarray] = []

    def add(self, trained: Trained, chunk: Chunk, columns: Columns | None) -> None:
        """Answer a chunk and add what came out."""
        clf, n = trained.estimator, chunk.X.shape[0]
        y: Any = chunk.labels if columns is None else columns.matrix(chunk, learn=False)
        if columns is not None and y.shape[1] < len(clf.classes_):
            y.resize(n, len(clf.classes_))
        with said_if_slow(Console(stderr=True, markup=False)):
            told = clf.diagnose(chunk.X, y)
        k = min(max(_KS), len(clf.classes_))
        begun = time.perf_counter()
        answers = clf._predict(chunk.X, k).labels
        self.seconds += time.perf_counter() - begun
        truth = y if columns is not None else _as_columns(clf, y)
        n_labels = int(truth.nnz) if columns is not None else n
        self.found += told.pop("recall") * n_labels
        for at in _KS:
            most = min(at, k)  # fewer classes than asked for: the places behind them are wrong
            told[f"precision@{at}"] = precision_at_k(truth, answers, most) * most / at
            told[f"ndcg@{at}"] = ndcg_at_k(truth, answers, most)
        for name, value in told.items():
            self.sums[name] = self.sums.get(name, 0.0) + value * n
        self.right.append(np.asarray(truth[np.arange(n), answers[:, 0]]).ravel() != 0)
        self.n_rows, self.n_labels = self.n_rows + n, self.n_labels + n_labels
        self.n_known += int((truth.indices < len(clf.classes_)).sum())

    def means(self) -> dict[str, float]:
        """Means over rows; of recall, over true labels."""
        out = {name: value / self.n_rows for name, value in self.sums.items()}
        out["recall"] = self.found / max(1, self.n_labels)
        return out


def _as_columns(clf: Any, y: np.ndarray) -> sp.csr_array:
    """One label a row as a matrix over the model's classes; labels it never met share a column past them."""
    columns, n = clf._index.find(y), len(clf.classes_)
    columns[columns < 0] = n
    return sp.csr_array((np.ones(len(y)), columns, np.arange(len(y) + 1)), shape=(len(y), n + 1))


def shown(name: str, value: float) -> str:
    """A measure for people."""
    if name in ("accuracy", "recall") or "@" in name:
        return f"{100 * value:.2f} %"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4f}" if name == "seconds" else f"{value:,.2f}"


def table_of(told: dict[str, float]) -> Table:
    """The measures for people."""
    table = Table("measure", "value", box=None)
    table.columns[1].justify = "right"
    for name, value in told.items():
        table.add_row(name.replace("_", " "), shown(name, value))
    table.add_row("µs a row", f"{1e6 * told['seconds'] / max(1, told['n_rows']):,.0f}")
    return table
