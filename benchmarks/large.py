"""Many labels: accuracy, time, memory and size of models beside other packages on large sets. See --help.

The sets are folders in MANYCLASS_DATA; benchmarks/README.md says what they contain. Each cell runs in its own process,
as in the race; `benchmarks.race_run` says what is measured. An interrupted run continues where it stopped.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
if __name__ == "__main__":
    sys.path[0] = str(ROOT)  # of the repository: `benchmarks` is not installed

from benchmarks.entrants import ENTRANTS as ALL_ENTRANTS  # noqa: E402
from benchmarks.entrants import Entrant  # noqa: E402
from benchmarks.origin import physical_bytes  # noqa: E402
from benchmarks.race_run import DONE, Plan, one_row_seconds, run_page  # noqa: E402
from benchmarks.sets import RaceSet  # noqa: E402
from benchmarks.tables import markdown_table  # noqa: E402

HOME = ROOT / "benchmarks" / "large"
SETS: Mapping[str, RaceSet] = MappingProxyType(
    {
        one.name: one
        for one in (
            RaceSet("big-text-0.05", "made-up text, 0.05 x Amazon-670K", several=True, folder=True),
            RaceSet("big-text-0.25", "made-up text, 0.25 x Amazon-670K", several=True, folder=True),
            RaceSet("big-text-1.0", "made-up text, 1.0 x Amazon-670K", several=True, folder=True),
            RaceSet("debian-contents", "path of a file to its Debian package", folder=True),
        )
    }
)
ENTRANTS: Mapping[str, Entrant] = MappingProxyType(
    {name: ALL_ENTRANTS[name] for name in ("label-tree", "pecos", "omikuji")}
)


def page(cells: Sequence[dict[str, Any]]) -> str:
    """The results as Markdown, a table per set."""
    dates = {cell["date"] for cell in cells}
    parts = [
        "# Many labels",
        f"`python benchmarks/large.py` writes this page. {cells[0]['threads']} threads; {min(dates)} to {max(dates)}. "
        "All have default options. Peak: the most memory of the process in training and prediction, training rows "
        "included. File: the model on disk, ours as `save` writes it. Prediction: five labels per row, all test rows "
        "in one call, and one row at a time on one thread; no times where other work ran on the machine. PSP@k gives "
        "rare labels more weight. Recall: of the five best labels, for labels with so many training rows.",
    ]
    for name, one in SETS.items():
        own = [cell for cell in cells if cell["set"] == name]
        if own:
            named = zip(("n_train", "n_classes", "n_features"), ("training rows", "labels", "features"), strict=True)
            facts = ", ".join(f"{own[0][key]:,} {noun}" for key, noun in named)
            parts += [f"## {one.title}", f"{facts}. {_machines(own)}"]
            parts += [markdown_table(HEAD, [_row(cell) for cell in own])]
            parts += [markdown_table(RARE, rows)] if (rows := [_rare(cell) for cell in own if "psp" in cell]) else []
            parts += [_arrays(cell) for cell in own if "array_bytes" in cell]
    return "\n\n".join(parts) + "\n"


HEAD = ["", "P@1", "P@3", "P@5", "training s", "peak GB", "file MB", "batch µs per row", "single µs"]


def _machines(cells: Sequence[dict[str, Any]]) -> str:
    """Where and with which version the cells of a set were measured."""
    titles: dict[str, list[str]] = {}
    for cell in cells:
        where = f"{cell['machine']}, commit {cell['commit']}"
        titles.setdefault(where, []).append(ENTRANTS[cell["entrant"]].title)
    return " ".join(f"{', '.join(own)}: {where}." for where, own in titles.items())


def _row(cell: dict[str, Any]) -> list[str]:
    title, timed = ENTRANTS[cell["entrant"]].title, cell.get("timed", True)
    if cell["state"] != DONE:
        return [title, f"{cell['state']}: {cell['reason']}", *[""] * (len(HEAD) - 2)]
    return [
        title,
        *(f"{100 * cell['precision'][k]:.2f}" for k in ("1", "3", "5")),
        f"{cell['train_seconds']:.1f}" if timed else "",
        f"{cell['peak_bytes'] / 1e9:.2f}",
        f"{cell['model_bytes'] / 1e6:.0f}",
        f"{1e6 * cell['predict_seconds'] / cell['n_test']:.0f}" if timed else "",
        f"{1e6 * one_row_seconds(cell):.0f}" if timed else "",
    ]


RARE = ["", "PSP@1", "PSP@3", "PSP@5", "recall, below 10 rows", "10 to 99", "100 or more"]


def _rare(cell: dict[str, Any]) -> list[str]:
    shares = [*(cell["psp"][k] for k in ("1", "3", "5")), *cell["recall"]]
    return [ENTRANTS[cell["entrant"]].title, *("" if share is None else f"{100 * share:.2f}" for share in shares)]


def _arrays(cell: dict[str, Any]) -> str:
    """Where the bytes of a model are, in one sentence."""
    total = sum(cell["array_bytes"].values())
    largest = sorted(cell["array_bytes"].items(), key=lambda item: -item[1])[:5]
    listed = ", ".join(f"`{name}` {n_bytes / 1e6:.1f} MB" for name, n_bytes in largest)
    return f"{ENTRANTS[cell['entrant']].title}: {total / 1e6:.1f} MB of arrays, of which {listed}."


def main(arguments: Sequence[str] | None = None, home: Path = HOME) -> int:
    """Run the cells that have no result yet, and write `results.md`."""
    plan = Plan(
        cells=home / "cells", environments=Path(".venv/peers"), known_sets=SETS, known_entrants=ENTRANTS,
        cap_seconds=1800.0, memory_bytes=int(0.9 * (physical_bytes() or 0)) or None,
    )  # fmt: skip
    return run_page(arguments, "Accuracy, time and memory with many labels.", plan, page)


if __name__ == "__main__":
    sys.exit(main())
