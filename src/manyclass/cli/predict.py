"""`manyclass predict`: one line a row on standard output."""

import json
import math
import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from rich.console import Console

from .errors import CommandError
from .files import Trained, cell, open_model, open_source
from .progress import said_if_slow


def run(model: str, data: str, reading: dict, top_k: int, form: str, probabilities: bool, threads: int) -> None:
    """Answer all rows."""
    if form not in FORMS:
        raise CommandError(f"--format must be one of {', '.join(FORMS)}, got {form!r}.")
    trained = open_model(model)
    trained.estimator.n_jobs = threads
    source = open_source(data, reading, trained.reading, labelled=False)
    k = min(top_k, len(trained.estimator.classes_))
    answer = _probable if probabilities else _scored
    write, console = FORMS[form], Console(stderr=True, markup=False)
    for chunk in source.chunks():
        with said_if_slow(console):
            answers = answer(trained, chunk.X, k)
        lines = (write(trained, *row) for row in zip(*answers, strict=True))
        try:
            sys.stdout.write("".join(lines))
            sys.stdout.flush()
        except BrokenPipeError:  # whoever reads our output, such as head, has had enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return
    if source.n_skipped:
        print(f"manyclass: skipped {source.n_skipped} bad lines of {data}", file=sys.stderr)


def _scored(trained: Trained, X: Any, k: int) -> tuple[np.ndarray, np.ndarray]:
    """(class numbers, scores)."""
    answers = trained.estimator._predict(X, k)
    return answers.labels, answers.scores


def _probable(trained: Trained, X: Any, k: int) -> tuple[list, list]:
    """(class numbers, probabilities) of the best that were scored."""
    clf = trained.estimator
    labels, chances = [], []
    for first, last in clf._scoring_blocks(X.shape[0]):
        scored = clf._score(X[first:last])
        ends = np.cumsum(scored.sizes)
        for begin, end in zip(ends - scored.sizes, ends, strict=True):
            best = np.argsort(-scored.probabilities[begin:end], kind="stable")[:k]
            labels.append(scored.labels[begin:end][best])
            chances.append(scored.probabilities[begin:end][best])
    return labels, chances


def _named(trained: Trained, columns: np.ndarray) -> list:
    return [trained.label(label) for label in trained.estimator.classes_[columns].tolist()]


def _tsv(trained: Trained, columns: np.ndarray, scores: np.ndarray) -> str:
    cells = [(cell(label), f"{score:.6g}") for label, score in zip(_named(trained, columns), scores, strict=True)]
    return "\t".join(part for cell in cells for part in cell) + "\n"


def _jsonl(trained: Trained, columns: np.ndarray, scores: np.ndarray) -> str:
    told = [float(score) if math.isfinite(score) else None for score in scores]
    return json.dumps({"labels": _named(trained, columns), "scores": told}, ensure_ascii=False) + "\n"


def _svmlight(trained: Trained, columns: np.ndarray, scores: np.ndarray) -> str:
    numbers = trained.numbers[columns].tolist()
    pairs = sorted((number, score) for number, score in zip(numbers, scores, strict=True) if math.isfinite(score))
    return " ".join([str(number) for number in numbers[:1]] + [f"{n}:{score:.6g}" for n, score in pairs]) + "\n"


FORMS: dict[str, Callable[..., str]] = {"tsv": _tsv, "jsonl": _jsonl, "svmlight": _svmlight}
