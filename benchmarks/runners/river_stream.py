"""River, which learns online from rows that are dictionaries of Python, one at a time."""

import time
from importlib.metadata import version
from typing import Any

import numpy as np

from .task import Task, Trained, pad, spans


def river_stream(task: Task) -> Trained:
    """One of River's classifiers, over the rows in order, until its seconds are over.

    Options: `learner`, one of one-vs-rest (of logistic regressions) and hoeffding-tree; `seconds` (100), after which it
    learns no more rows. It runs on one thread. It has no form of its own to save a model in.
    """
    from river import linear_model, multiclass, optim, tree

    makers = {
        "one-vs-rest": lambda: multiclass.OneVsRestClassifier(
            linear_model.LogisticRegression(optim.SGD(0.5))  # its default, 0.01, learns next to nothing of unit rows
        ),
        "hoeffding-tree": tree.HoeffdingTreeClassifier,
    }
    model = makers[task.options["learner"]]()
    rows, classes = _dictionaries(task.X), task.Y.indices.tolist()
    end = time.perf_counter() + task.options.get("seconds", 100.0)
    start, learned = time.perf_counter(), 0
    for row, label in zip(rows, classes, strict=True):
        model.learn_one(row, label)
        learned += 1
        if time.perf_counter() > end:
            break
    train_seconds = time.perf_counter() - start

    def predict(rows: list[dict[int, float]]) -> list[dict[Any, float]]:
        return [model.predict_proba_one(row) for row in rows]

    def read(predictions: list[dict[Any, float]]) -> np.ndarray:
        return pad((sorted(row, key=row.__getitem__, reverse=True) for row in predictions), task.k)

    note = "" if learned == len(rows) else f"learned {learned:,} of {len(rows):,} rows in its time"
    return Trained(version("river"), train_seconds, predict, predict, read, _dictionaries, note=note)


def _dictionaries(X: Any) -> list[dict[int, float]]:
    return [dict(zip(X.indices[a:b].tolist(), X.data[a:b].tolist(), strict=True)) for a, b in spans(X)]
