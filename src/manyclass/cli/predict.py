"""`manyclass predict`: one line a row on standard output."""

import json
import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from .errors import CommandError
from .files import Trained, open_model, open_source

_ROWS = 4096


def run(model: str, data: str, reading: dict, top_k: int, form: str, probabilities: bool, threads: int) -> None:
    """Answer all rows."""
    if form not in FORMS:
        raise CommandError(f"--format must be one of {', '.join(FORMS)}, got {form!r}.")
    trained = open_model(model)
    trained.estimator.n_jobs = threads
    source = open_source(data, reading, trained.reading, labelled=False)
    k = min(top_k, len(trained.estimator.classes_))
    answer = _probable if probabilities else _scored
    write = FORMS[form]
    for chunk in source.chunks(_ROWS):
        sys.stdout.write("".join(write(trained, *row) for row in zip(*answer(trained, chunk.X, k), strict=True)))
        sys.stdout.flush()
    if source.n_skipped:
        print(f"manyclass: skipped {source.n_skipped} bad lines of {data}", file=sys.stderr)


def _scored(trained: Trained, X: Any, k: int) -> tuple[np.ndarray, np.ndarray]:
    """(class numbers, scores)."""
    answers = trained.estimator._answers(X, k)
    return answers.labels, answers.scores


def _probable(trained: Trained, X: Any, k: int) -> tuple[list, list]:
    """(class numbers, probabilities) of the best that were scored."""
    clf = trained.estimator
    labels, chances = [], []
    for first, last in clf._scoring_blocks(X.shape[0]):
        scored = clf._score(X[first:last])
        ends = np.cumsum(scored.sizes)
        for begin, end in zip(ends - scored.sizes, ends, strict=True):
            best = np.argsort(-scored.chances[begin:end], kind="stable")[:k]
            labels.append(scored.labels[begin:end][best])
            chances.append(scored.chances[begin:end][best])
    return labels, chances


def _named(trained: Trained, columns: np.ndarray) -> list:
    return [trained.label(label) for label in trained.estimator.classes_[columns].tolist()]


def _tsv(trained: Trained, columns: np.ndarray, scores: np.ndarray) -> str:
    cells = [(_cell(label), f"{score:.6g}") for label, score in zip(_named(trained, columns), scores, strict=True)]
    return "\t".join(part for cell in cells for part in cell) + "\n"


def _cell(label: Any) -> str:
    """A label in one cell of one line."""
    text = str(label)
    for letter, escape in (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r")):
        text = text.replace(letter, escape)
    return text


def _jsonl(trained: Trained, columns: np.ndarray, scores: np.ndarray) -> str:
    told = [float(score) if math.isfinite(score) else None for score in scores]
    return json.dumps({"labels": _named(trained, columns), "scores": told}, ensure_ascii=False) + "\n"


def _svmlight(trained: Trained, columns: np.ndarray, scores: np.ndarray) -> str:
    labels = _named(trained, columns)
    whole = all(isinstance(label, int) and label >= 0 for label in labels)
    numbers = labels if whole else columns.tolist()
    pairs = sorted((number, score) for number, score in zip(numbers, scores, strict=True) if math.isfinite(score))
    return " ".join([str(numbers[0]), *(f"{number}:{score:.6g}" for number, score in pairs)]) + "\n"


FORMS: dict[str, Callable[..., str]] = {"tsv": _tsv, "jsonl": _jsonl, "svmlight": _svmlight}
