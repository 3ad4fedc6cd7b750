"""Our estimators and other packages, with defaults, on sets that no choice was made on. See --help.

Each cell runs in its own process with the same limits for all, as in the race; `benchmarks.race_run` says what is
measured. `build.py` makes the sets. An interrupted run continues where it stopped.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
if __name__ == "__main__":
    sys.path[0] = str(ROOT)  # of the repository: `benchmarks` is not installed

from benchmarks.entrants import OURS, Entrant  # noqa: E402
from benchmarks.origin import physical_bytes  # noqa: E402
from benchmarks.race_run import DONE, Plan, run_page  # noqa: E402
from benchmarks.sets import RaceSet  # noqa: E402
from benchmarks.tables import markdown_table  # noqa: E402
from benchmarks.unseen.build import RECIPES, set_name  # noqa: E402

HOME = ROOT / "benchmarks" / "unseen"
NO_TEXT = ("letters", "kanji")
SETS: Mapping[str, RaceSet] = MappingProxyType(
    {
        set_name(name): RaceSet(set_name(name), recipe.title, as_is=True, text=name not in NO_TEXT)
        for name, recipe in RECIPES.items()
    }
)
ENTRANTS: Mapping[str, Entrant] = MappingProxyType(
    {
        one.name: one
        for one in (
            Entrant("many-class", "ManyClass", OURS, "ManyClassClassifier"),
            Entrant("label-tree", "LabelTree", OURS, "LabelTreeClassifier"),
            Entrant("recall-tree", "RecallTree", OURS, "RecallTreeClassifier"),
            Entrant("sklearn-logistic-1000", "LogisticRegression", "scikit-learn"),
            Entrant("sklearn-linear-svc", "LinearSVC", "scikit-learn"),
            Entrant("sklearn-10-neighbours", "10-NN", "scikit-learn"),
            Entrant("sklearn-10-cosine", "10-NN, cosine", "scikit-learn"),
            Entrant("sklearn-extra-trees", "ExtraTrees", "scikit-learn"),
            Entrant("pecos", "PECOS", "PECOS"),
            Entrant("fasttext", "fastText", "fastText", text=True),
            Entrant("fasttext-two-words", "fastText, tutorial", "fastText", text=True),
        )
    }
)


def page(cells: Sequence[dict[str, Any]]) -> str:
    """The results as Markdown: the sets, then accuracy, seconds of training and microseconds per predicted row."""
    sets = [name for name in SETS if any(cell["set"] == name for cell in cells)]
    entrants = [name for name in ENTRANTS if any(cell["entrant"] == name for cell in cells)]
    found = {(cell["set"], cell["entrant"]): cell for cell in cells}
    titles = [ENTRANTS[name].title for name in entrants]
    parts = ["# Sets that no choice was made on", _setting(cells), "## Sets", _facts(sets, cells)]
    for title, text in (
        ("Accuracy in %", lambda cell: f"{100 * cell['precision']['1']:.2f}"),
        ("Training in seconds", lambda cell: f"{cell['train_seconds']:.2f}"),
        ("Prediction in microseconds per row", lambda cell: f"{1e6 * cell['predict_seconds'] / cell['n_test']:.0f}"),
    ):
        rows = [[_short(name), *(_value(found.get((name, one)), text) for one in entrants)] for name in sets]
        parts += [f"## {title}", markdown_table(["set", *titles], rows)]
    parts += ["## Our best estimator and the best of the others", markdown_table(*_leads(sets, cells))]
    notes = [f"- {_short(c['set'])}, {ENTRANTS[c['entrant']].title}: {_note(c)}" for c in cells if _note(c)]
    return "\n\n".join([*parts, "## Notes", "\n".join(notes) or "None."]) + "\n"


def _setting(cells: Sequence[dict[str, Any]]) -> str:
    caps = sorted({f"{cell['cap_seconds']:g}" for cell in cells}, key=float)
    commits, dates = ({cell[key] for cell in cells} for key in ("commit", "date"))
    return (
        f"`python benchmarks/unseen/run.py` writes this page. {cells[0]['machine']}, {cells[0]['threads']} threads; "
        f"{min(dates)} to {max(dates)}; commit {', '.join(sorted(commits))}. Time limit: {' or '.join(caps)} s. "
        "All have default options, except `max_iter=1000` of LogisticRegression. fastText takes the raw texts: "
        "with its defaults, and with `lr=1.0, epoch=25, wordNgrams=2` of its tutorial. 10-NN is "
        "`KNeighborsClassifier(10)`. A dash: not run, not possible, or in the notes below."
    )


def _facts(sets: Sequence[str], cells: Sequence[dict[str, Any]]) -> str:
    rows = []
    for name in sets:
        cell = next(cell for cell in cells if cell["set"] == name)
        counts = [f"{cell[key]:,}" for key in ("n_train", "n_test", "n_classes", "n_features")]
        rows.append([_short(name), SETS[name].title, RECIPES[_short(name)].source, *counts])
    head = ["set", "task", "made from", "training rows", "test rows", "classes", "features"]
    return markdown_table(head, rows)


def _leads(sets: Sequence[str], cells: Sequence[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    rows = []
    for name in sets:
        done = [cell for cell in cells if cell["set"] == name and cell["state"] == DONE]
        row = [_short(name)]
        best = []
        for ours in (True, False):
            some = [cell for cell in done if ENTRANTS[cell["entrant"]].ours == ours]
            if some:
                best.append(max(some, key=lambda cell: cell["precision"]["1"]))
                row += [ENTRANTS[best[-1]["entrant"]].title, f"{100 * best[-1]['precision']['1']:.2f}"]
        if len(best) == 2:
            difference = 100 * (best[0]["precision"]["1"] - best[1]["precision"]["1"])
            rows.append([*row, f"{difference:+.2f}"])
    return ["set", "ours", "%", "other", "%", "difference"], rows


def _short(name: str) -> str:
    return name.removeprefix("unseen-")


def _value(cell: dict[str, Any] | None, text: Any) -> str:
    return "–" if cell is None or cell["state"] != DONE else text(cell)


def _note(cell: dict[str, Any]) -> str:
    return cell["note"] if cell["state"] == DONE else f"{cell['state']}, {cell['reason']}"


def main(arguments: Sequence[str] | None = None, home: Path = HOME) -> int:
    """Run the cells that have no result yet, and write `results.md`."""
    plan = Plan(
        cells=home / "cells", environments=Path(".venv/peers"), known_sets=SETS, known_entrants=ENTRANTS,
        cap_seconds=600.0, memory_bytes=int(0.75 * (physical_bytes() or 0)) or None,
    )  # fmt: skip
    return run_page(arguments, "Defaults of everybody on the sets of build.py.", plan, page, set_name(""))


if __name__ == "__main__":
    sys.exit(main())
