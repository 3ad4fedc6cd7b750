"""fastText, which takes texts; rows of features become words without their values."""

import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from .task import Task, Trained, pad, spans

MARK = "__label__"


def fast_text(task: Task) -> Trained:
    """A linear model over mean word vectors, with hierarchical softmax (`loss` "hs"), softmax or one-against-all (ova).

    Options: those of `fasttext.train_supervised`. It reads its rows from a text file as part of training. It predicts
    on one thread, whatever is asked.
    """
    import fasttext

    path = task.folder / "train.txt"
    _write_text(path, task.X, task.Y)
    start = time.perf_counter()
    model = fasttext.train_supervised(input=str(path), thread=task.threads, verbose=0, **task.options)
    train_seconds = time.perf_counter() - start
    (task.folder / "model").mkdir()
    model.save_model(str(task.folder / "model" / "model.bin"))

    def read(predictions: Any) -> np.ndarray:
        return pad(([int(word.removeprefix(MARK)) for word in row] for row in predictions[0]), task.k)

    return Trained(
        f"{_version()}",
        train_seconds,
        lambda lines: model.predict(lines, k=task.k),
        lambda lines: model.predict(lines[0], k=task.k),
        read,
        form=_lines,
        note="" if _are_texts(task.X) else "words without their weights",
    )


def _version() -> str:
    for name in ("fasttext", "fasttext-wheel"):
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return "unknown"


def _are_texts(X: Any) -> bool:
    return isinstance(X, np.ndarray)


def _lines(X: Any) -> list[str]:
    if _are_texts(X):
        return X.tolist()
    return [" ".join([f"f{feature}" for feature in X.indices[a:b].tolist()]) for a, b in spans(X)]


def _write_text(path: Path, X: Any, Y: Any) -> None:
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        for words, (a, b) in zip(_lines(X), spans(Y), strict=True):
            labels = " ".join([f"{MARK}{label}" for label in Y.indices[a:b].tolist()])
            file.write(f"{labels} {words}\n")
