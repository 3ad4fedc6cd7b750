"""`manyclass compare`: two models on the same rows."""

import json
import os
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.stats import binomtest

from .errors import CommandError
from .evaluate import shown, totals_of
from .files import open_model, open_source

_SHOWN = ("accuracy", "precision@5", "recall", "work", "seconds", "bytes")


def run(first: str, second: str, data: str, reading: dict, threads: int, as_json: bool) -> None:
    """Evaluate both, and ask whether they differ by more than chance."""
    if data == "-":
        raise CommandError("standard input can be read only once: compare reads the rows twice, so give a file.")
    told: dict[str, Any] = {}
    rights = []
    for name, path in (("first", first), ("second", second)):
        trained = open_model(path)
        trained.estimator.n_jobs = threads
        totals = totals_of(trained, open_source(data, reading, trained.reading))
        told[name] = {"model": path, **totals.means(), "seconds": totals.seconds, "bytes": os.path.getsize(path)}
        rights.append(np.concatenate(totals.right))
    if len(rights[0]) != len(rights[1]):
        raise CommandError(f"{data}: the models read {len(rights[0])} and {len(rights[1])} rows of it.")
    only_first, only_second = int((rights[0] & ~rights[1]).sum()), int((~rights[0] & rights[1]).sum())
    n = only_first + only_second
    told |= {
        "n_rows": len(rights[0]),
        "both_right": int((rights[0] & rights[1]).sum()),
        "only_first_right": only_first,
        "only_second_right": only_second,
        "neither_right": int((~rights[0] & ~rights[1]).sum()),
        "p_value": float(binomtest(only_first, n).pvalue) if n else 1.0,
    }
    if as_json:
        print(json.dumps(told))
    else:
        _show(told)


def _show(told: dict[str, Any]) -> None:
    out = Console(markup=False)
    table = Table("", told["first"]["model"], told["second"]["model"], box=None)
    for name in _SHOWN:
        if name in told["first"]:
            table.add_row(name, *(shown(name, told[side][name]) for side in ("first", "second")))
    out.print(table)
    out.print(
        f"of {told['n_rows']:,} rows {told['both_right']:,} are right in both, {told['only_first_right']:,} only in "
        f"the first, {told['only_second_right']:,} only in the second; by chance alone, as uneven with "
        f"p = {told['p_value']:.3g} (exact McNemar test)",
        soft_wrap=True, highlight=False,
    )  # fmt: skip
