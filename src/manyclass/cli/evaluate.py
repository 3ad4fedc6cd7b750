"""`manyclass evaluate`: metrics of a model over a data file of any size."""

import json
import sys
import time
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..io import Chunk, Source
from ..metrics import ndcg_at_k, precision_at_k
from .files import LabelColumns, Trained, open_model, open_source
from .messages import CommandError, notice_if_slow

_KS = (1, 3, 5)


def run(model: str, data: str, reading: dict, threads: int, as_json: bool) -> None:
    """Evaluate a model and print the metrics."""
    trained = open_model(model, threads)
    metrics = evaluate(trained, open_source(data, reading, trained.reading))
    print(json.dumps(metrics) if as_json else table(metrics))


def evaluate(trained: Trained, source: Source) -> dict[str, float]:
    """The metrics of `diagnose`, precision@k, nDCG@k, the number of rows and skipped lines, and the time."""
    totals = Totals(trained, source)
    if not totals.n_known:
        print(f"manyclass: the model knows none of the labels in {source.path}.", file=sys.stderr)
    return {**totals.means(), "n_rows": totals.n_rows, "n_skipped": source.n_skipped, "seconds": totals.seconds}


class Totals:
    """Sums of metrics over all rows of a file, read in chunks."""

    def __init__(self, trained: Trained, source: Source) -> None:
        self.n_rows, self.n_labels, self.n_known, self.seconds, self.n_recalled = 0, 0, 0, 0.0, 0.0
        self.sums: dict[str, float] = {}
        self.correct: list[np.ndarray] = []  # for each row, whether the best prediction is correct
        columns = LabelColumns.of_model(trained)
        for chunk in source.chunks():
            self._add(trained.estimator, chunk, columns)
        if not self.n_rows:
            raise CommandError(f"{source.path}: there are no rows to evaluate.")

    def _add(self, clf: Any, chunk: Chunk, columns: LabelColumns | None) -> None:
        n, n_classes = chunk.X.shape[0], len(clf.classes_)
        y: Any = chunk.labels if columns is None else columns.matrix(chunk, learn=False)
        if columns is not None and y.shape[1] < n_classes:
            y.resize(n, n_classes)
        truth = y if columns is not None else _indicator(clf, y)
        with notice_if_slow():
            metrics = clf.diagnose(chunk.X, y)
        k = min(max(_KS), n_classes)
        start = time.perf_counter()
        predicted = clf._predict(chunk.X, k).labels
        self.seconds += time.perf_counter() - start
        self.n_recalled += metrics.pop("recall") * truth.nnz
        for at in _KS:
            most = min(at, k)  # with fewer classes than places, the remaining places are wrong
            metrics[f"precision@{at}"] = precision_at_k(truth, predicted, most) * most / at
            metrics[f"ndcg@{at}"] = ndcg_at_k(truth, predicted, most)
        for name, value in metrics.items():
            self.sums[name] = self.sums.get(name, 0.0) + value * n
        self.correct.append(np.asarray(truth[np.arange(n), predicted[:, 0]]).ravel() != 0)
        self.n_rows, self.n_labels = self.n_rows + n, self.n_labels + int(truth.nnz)
        self.n_known += int((truth.indices < n_classes).sum())

    def means(self) -> dict[str, float]:
        """Means over rows; recall is a mean over true labels."""
        means = {name: value / self.n_rows for name, value in self.sums.items()}
        return {**means, "recall": self.n_recalled / max(1, self.n_labels)}


def _indicator(clf: Any, y: np.ndarray) -> sp.csr_array:
    """One label per row as a matrix over the classes; unknown labels share one more column."""
    columns, n = clf._index.find(y), len(clf.classes_)
    columns[columns < 0] = n
    return sp.csr_array((np.ones(len(y)), columns, np.arange(len(y) + 1)), shape=(len(y), n + 1))


def formatted(name: str, value: float) -> str:
    """A metric as text."""
    if name in ("accuracy", "recall") or "@" in name:
        return f"{100 * value:.2f} %"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4f}" if name == "seconds" else f"{value:,.2f}"


def table(metrics: dict[str, float]) -> str:
    """One line per metric."""
    rows = [(name.replace("_", " "), formatted(name, value)) for name, value in metrics.items()]
    rows.append(("µs per row", f"{1e6 * metrics['seconds'] / metrics['n_rows']:,.0f}"))
    return "\n".join(f"{name:<18} {value:>14}" for name, value in rows)
