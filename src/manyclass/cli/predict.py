"""`manyclass predict`: one line per row on standard output."""

import json
import math
import os
import sys
from collections.abc import Iterable
from typing import Any

import numpy as np

from .files import Trained, escape, open_model, open_source
from .messages import CommandError, notice_if_slow, printable


def run(
    model: str,
    data: str,
    reading: dict,
    top_k: int,
    output_format: str,
    probabilities: bool,
    spreadsheet_safe: bool,
    threads: int,
) -> None:
    """Predict all rows."""
    if spreadsheet_safe and output_format != "tsv":
        raise CommandError("--spreadsheet-safe applies to --format tsv only.")
    trained = open_model(model, threads)
    source = open_source(data, reading, trained.reading, labelled=False)
    k = min(top_k, len(trained.estimator.classes_))
    tsv = _safe_tsv if spreadsheet_safe else _tsv
    line = {"tsv": tsv, "jsonl": _jsonl, "svmlight": _svmlight}[output_format]
    for chunk in source.chunks():
        with notice_if_slow():
            if probabilities:
                classes, scores = _most_probable(trained.estimator, chunk.X, k)
            else:
                classes, scores, _ = trained.estimator._predict(chunk.X, k)
        try:
            lines = "".join(line(trained, *row) for row in zip(classes, scores, strict=True))
            sys.stdout.write(printable(lines, sys.stdout))
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
    return _tsv_line(map(escape, trained.labels(classes)), scores)


def _safe_tsv(trained: Trained, classes: np.ndarray, scores: np.ndarray) -> str:
    return _tsv_line(map(no_formula, map(escape, trained.labels(classes))), scores)


def _tsv_line(labels: Iterable[str], scores: np.ndarray) -> str:
    return "\t".join(f"{label}\t{score:.6g}" for label, score in zip(labels, scores, strict=True)) + "\n"


def no_formula(label: str) -> str:
    """The label, with a quote before it if a spreadsheet would take it for a formula."""
    return f"'{label}" if label.startswith(("=", "+", "-", "@")) else label


def _jsonl(trained: Trained, classes: np.ndarray, scores: np.ndarray) -> str:
    finite = [float(score) if math.isfinite(score) else None for score in scores]
    return json.dumps({"labels": trained.labels(classes), "scores": finite}, ensure_ascii=False) + "\n"


def _svmlight(trained: Trained, classes: np.ndarray, scores: np.ndarray) -> str:
    numbers = trained.label_numbers[classes].tolist()
    pairs = sorted((number, score) for number, score in zip(numbers, scores, strict=True) if math.isfinite(score))
    return " ".join([*map(str, numbers[:1]), *(f"{number}:{score:.6g}" for number, score in pairs)]) + "\n"
