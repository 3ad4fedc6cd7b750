"""`manyclass predict`: one line per row on standard output."""

import json
import math
import os
import sys
from typing import Any

import numpy as np

from .files import Trained, escape, open_model, open_source
from .messages import notice_if_slow


def run(
    model: str, data: str, reading: dict, top_k: int, output_format: str, probabilities: bool, threads: int
) -> None:
    """Predict all rows."""
    trained = open_model(model, threads)
    source = open_source(data, reading, trained.reading, labelled=False)
    k = min(top_k, len(trained.estimator.classes_))
    line = {"tsv": _tsv, "jsonl": _jsonl, "svmlight": _svmlight}[output_format]
    for chunk in source.chunks():
        with notice_if_slow():
            if probabilities:
                classes, scores = _most_probable(trained.estimator, chunk.X, k)
            else:
                classes, scores, _ = trained.estimator._predict(chunk.X, k)
        try:
            sys.stdout.write("".join(line(trained, *row) for row in zip(classes, scores, strict=True)))
            sys.stdout.flush()
        except BrokenPipeError:  # the reader, such as head, has closed the pipe
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return
    if source.n_skipped:
        print(f"manyclass: skipped {source.n_skipped} bad lines of {data}", file=sys.stderr)


def _most_probable(clf: Any, X: Any, k: int) -> tuple[list, list]:
    """Classes and probabilities of the best candidates of each row."""
    classes, probabilities = [], []
    for first, last in clf._scoring_blocks(X.shape[0]):
        scored = clf._score(X[first:last])
        ends = np.cumsum(scored.sizes)
        for begin, end in zip(ends - scored.sizes, ends, strict=True):
            best = begin + np.argsort(-scored.probabilities[begin:end], kind="stable")[:k]
            classes.append(scored.labels[best])
            probabilities.append(scored.probabilities[best])
    return classes, probabilities


def _tsv(trained: Trained, classes: np.ndarray, scores: np.ndarray) -> str:
    pairs = zip(trained.labels(classes), scores, strict=True)
    return "\t".join(f"{escape(label)}\t{score:.6g}" for label, score in pairs) + "\n"


def _jsonl(trained: Trained, classes: np.ndarray, scores: np.ndarray) -> str:
    finite = [float(score) if math.isfinite(score) else None for score in scores]
    return json.dumps({"labels": trained.labels(classes), "scores": finite}, ensure_ascii=False) + "\n"


def _svmlight(trained: Trained, classes: np.ndarray, scores: np.ndarray) -> str:
    numbers = trained.label_numbers[classes].tolist()
    pairs = sorted((number, score) for number, score in zip(numbers, scores, strict=True) if math.isfinite(score))
    return " ".join([*map(str, numbers[:1]), *(f"{number}:{score:.6g}" for number, score in pairs)]) + "\n"
