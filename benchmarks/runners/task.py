"""What a peer is given and what it gives back."""

from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np


class Task(NamedTuple):
    """What to learn and how."""

    X: Any  # CSR, float32, rows x features, indices in order; or an array of texts (fastText)
    Y: Any  # CSR, float32, rows x labels, ones
    folder: Path  # for the model and for files the peer reads
    options: dict[str, Any]
    threads: int
    k: int
    several: bool  # rows may have any number of labels, not exactly one
    X_test: Any  # for a peer that is asked by files only


def as_is(rows: Any) -> Any:
    """Rows for a peer that takes sparse matrices."""
    return rows


class Trained(NamedTuple):
    """A peer that has learned."""

    version: str
    train_seconds: float
    predict: Callable[[Any], Any]  # rows to predictions in the peer's own form, with all threads
    predict_one: Callable[[Any], Any]  # the same for one row, with one thread
    read: Callable[[Any], np.ndarray]  # the peer's form to top labels
    form: Callable[[Any], Any] = as_is  # a sparse matrix to what the two take, not timed
    model_bytes: int | None = None  # where `model` in the folder holds no file
    predict_seconds: float | None = None  # where the peer is measured from outside, training included
    n_trainings: int = 1
    peak_bytes: int | None = None  # where the peer runs in a further process
    note: str = ""  # what a reader of the table must know


def pad(predictions: Iterable[Any], k: int) -> np.ndarray:
    """Turn rows of labels, best first, into an array of k columns, with -1 where a row has fewer."""
    top = [[*list(row)[:k], *[-1] * (k - len(row))] for row in predictions]
    return np.array(top, dtype=np.int64).reshape(-1, k)


def best(scores: Any, k: int) -> np.ndarray:
    """The k best columns of each row of dense scores, best first; -1 where there are fewer columns."""
    k_here = min(k, scores.shape[1])
    top = np.argpartition(-scores, k_here - 1, axis=1)[:, :k_here]
    order = np.argsort(-np.take_along_axis(scores, top, axis=1), axis=1, kind="stable")
    top = np.take_along_axis(top, order, axis=1)
    return np.pad(top, ((0, 0), (0, k - k_here)), constant_values=-1).astype(np.int64)


def best_sparse(scores: Any, k: int) -> np.ndarray:
    """The k best columns of each row of sparse scores."""
    scores = scores.tocsr()
    return pad((scores.indices[a:b][np.argsort(-scores.data[a:b], kind="stable")] for a, b in spans(scores)), k)


def spans(X: Any) -> list[tuple[int, int]]:
    """Where each row of a CSR matrix begins and ends."""
    return list(pairwise(X.indptr.tolist()))
