"""`manyclass compare`: two models on the same rows."""

import json
import os
from typing import Any

import numpy as np
from scipy.stats import binomtest

from .evaluate import Totals, formatted
from .files import can_read_once, open_model, open_source
from .messages import CommandError


def run(first: str, second: str, data: str, reading: dict, threads: int, as_json: bool) -> None:
    """Evaluate both models and test whether the difference is significant."""
    if can_read_once(data):
        raise CommandError(f"{data}: compare reads the data twice; write them to a file.")
    results: dict[str, Any] = {}
    correct = []
    for name, path in (("first", first), ("second", second)):
        trained = open_model(path, threads)
        totals = Totals(trained, open_source(data, reading, trained.reading))
        results[name] = {"model": path, **totals.means(), "seconds": totals.seconds, "bytes": os.path.getsize(path)}
        correct.append(np.concatenate(totals.correct))
    a, b = correct
    if len(a) != len(b):
        raise CommandError(f"{data}: the models read different numbers of rows, {len(a)} and {len(b)}.")
    only_first, only_second = int((a & ~b).sum()), int((b & ~a).sum())
    n = only_first + only_second
    results |= {
        "n_rows": len(a),
        "both_right": int((a & b).sum()),
        "only_first_right": only_first,
        "only_second_right": only_second,
        "neither_right": int((~a & ~b).sum()),
        "p_value": float(binomtest(only_first, n).pvalue) if n else 1.0,
    }
    print(json.dumps(results) if as_json else _table(results))


def _table(results: dict[str, Any]) -> str:
    sides = [results["first"], results["second"]]
    widths = [max(14, len(side["model"])) for side in sides]
    rows = [("", *(side["model"] for side in sides))]
    for name in ("accuracy", "precision@5", "recall", "work", "seconds", "bytes"):
        rows.append((name, *(formatted(name, side[name]) for side in sides)))
    lines = [f"{name:<12} {one:>{widths[0]}} {two:>{widths[1]}}" for name, one, two in rows]
    lines.append(
        f"{results['n_rows']:,} rows: both correct {results['both_right']:,}, only the first "
        f"{results['only_first_right']:,}, only the second {results['only_second_right']:,}, neither "
        f"{results['neither_right']:,}; exact McNemar test p = {results['p_value']:.3g}"
    )
    return "\n".join(lines)
