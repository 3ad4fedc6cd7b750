"""`manyclass compare`: two models on the same rows."""

import json
import os
import sys
from typing import Any

import numpy as np

from ..metrics import mcnemar
from ..trained import open_model
from .evaluate import Section, as_text, formatted, summary, table_label, title
from .evaluation import Evaluation
from .files import can_read_once, open_source
from .messages import CommandError, note_written, printable, warn
from .report import check_outputs, draw, write_comparison

_NAMES = (
    "accuracy", "top_3_accuracy", "top_5_accuracy", "micro_f1", "macro_f1", "precision@3", "precision@5", "psp@1",
    "psp@3", "psp@5", "candidate_recall", "calibration_error", "work", "seconds", "bytes",
)  # fmt: skip
_N_LISTED = 5  # classes


def run(
    first: str,
    second: str,
    data: str,
    reading: dict,
    picture: str | None,
    report: str | None,
    threads: int,
    as_json: bool,
) -> None:
    """Evaluate both models and test whether the difference is significant."""
    if can_read_once(data):
        raise CommandError(f"{data}: compare reads the data twice; write them to a file.")
    check_outputs((first, second, data), picture, report)
    results: dict[str, Any] = {}
    correct, recalls, skipped = [], [], []
    for name, path in (("first", first), ("second", second)):
        trained = open_model(path, threads)
        evaluation = Evaluation(trained, open_source(data, reading, trained.reading))
        result = {"model": path, **summary(evaluation), "bytes": os.path.getsize(path)}
        result["warnings"] = [f"{path}: {warning}" for warning in result["warnings"]]
        warn(result["warnings"])
        results[name] = result
        correct.append(np.concatenate(evaluation.correct))
        recalls.append(evaluation.counts_by_label())
        skipped.append(evaluation.source.rows_before_skipped)
    a, b = correct
    if not np.array_equal(skipped[0], skipped[1]):  # the rows of one would be compared with other rows of the other
        what = "the models use different columns, so they skip different bad lines"
        raise CommandError(f"{data}: {what}: correct the lines, or remove them from the file.")
    if len(a) != len(b):
        raise CommandError(f"{data}: the models read different numbers of rows, {len(a)} and {len(b)}.")
    only_first, only_second = int((a & ~b).sum()), int((b & ~a).sum())
    results |= {
        "n_rows": len(a),
        "both_right": int((a & b).sum()),
        "only_first_right": only_first,
        "only_second_right": only_second,
        "neither_right": int((~a & ~b).sum()),
        "p_value": mcnemar(only_first, only_second),
        "changed_classes": _changes(*recalls),
    }
    if picture:
        draw([results["first"], results["second"]], picture)
    if report:
        write_comparison(results, report, data, _tables(results))
    note_written(picture, report)
    print(json.dumps(results, default=str) if as_json else _text(results))


def _changes(first: dict[Any, tuple[int, int]], second: dict[Any, tuple[int, int]]) -> list[dict[str, Any]]:
    """The classes for which the number of correct rows changes most, losses first."""
    changes = [
        {"label": label, "rows": rows, "first": right, "second": second[label][1]}
        for label, (rows, right) in first.items()
        if label in second and second[label][1] != right
    ]
    changes.sort(key=lambda row: row["second"] - row["first"])
    losses = [row for row in changes[:_N_LISTED] if row["second"] < row["first"]]
    return losses + [row for row in changes[-_N_LISTED:] if row["second"] > row["first"]]


def _tables(results: dict[str, Any]) -> list[Section]:
    """The metrics of both models, and the classes that change most."""
    sides = [results["first"], results["second"]]
    metrics = [
        (title(name), *(formatted(name, side[name]) for side in sides))
        for name in _NAMES
        if all(name in side for side in sides) and ("micro_f1" in sides[0] or not name.startswith("precision"))
    ]
    keys = ("rows", "first", "second")
    changes = [(table_label(row["label"]), *(f"{row[key]:,}" for key in keys)) for row in results["changed_classes"]]
    return [
        Section("", ("", *(side["model"] for side in sides)), metrics),
        Section("Correct rows of the classes that change most", ("label", *keys), changes),
    ]


def _text(results: dict[str, Any]) -> str:
    metrics, changes = _tables(results)
    counts = (
        f"{results['n_rows']:,} rows: both correct {results['both_right']:,}, only the first "
        f"{results['only_first_right']:,}, only the second {results['only_second_right']:,}, neither "
        f"{results['neither_right']:,}; exact McNemar test p = {results['p_value']:.3g}"
    )
    parts = [as_text(metrics), counts, *([as_text(changes)] if changes.rows else [])]
    return printable("\n\n".join(parts), sys.stdout)
