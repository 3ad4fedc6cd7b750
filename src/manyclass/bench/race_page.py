"""The page of the race, written from its cells: a table for each set, and who is ahead of whom."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from manyclass.bench.entrants import ENTRANTS
from manyclass.bench.race import DONE
from manyclass.bench.race_plots import plot_all
from manyclass.bench.sets import SETS
from manyclass.metrics import n_minus_1_chi_squared

Cell = dict[str, Any]
INTRODUCTION = """\
# The race

Written by `make race` from the results in `reproduce/race/cells`, one file a cell; nothing here is typed by hand.
All take the same rows: shuffled alike, tf-idf for counts of words, unit length (ALOI divided by its greatest value).
Ours stand in bold with their defaults; the settings of each rival are in its cell. Cells run one at a time, each in a
process of its own with a cap on time and memory; what did not finish is listed under its table with the reason.

- **train s**: the training call, rows in memory, ours compiled beforehand; median of three where below 10 s.
- **predict s**: the five best labels of all test rows in one call; median of up to three. Vowpal Wabbit: over its
  binary cache, without start and loading; the fastest of three.
- **one row µs**: median of up to 200 calls with one row on one thread, from Python, checks of the input included. Rows
  are in the form the rival takes beforehand: Vowpal Wabbit's are parsed, fastText's are text, River's dictionaries.
- **peak MB**: the most the process held from training to prediction, and in brackets what it held before (rows,
  libraries; ours: the compiler). Vowpal Wabbit streams its rows from disk.
- **model MB**: on disk; ours with all that further learning needs and, after the slash, for answers only. scikit-learn
  only pickles: the bytes of its arrays. Nearest neighbours: the training rows. River: not known.
- fastText takes words without weights, so it is not on sets of numbers. River stops learning after a quarter of the cap
  and is asked about 500 rows. Vowpal Wabbit's `recall_tree`, `log_multi` and `oaa` answer one label.
"""


def write_page(cells: Sequence[Cell], page: Path, figures: Path) -> None:
    """Write the page and its plots.

    Parameters
    ----------
    cells : sequence of dict
        As `manyclass.bench.race.read_cells` gives them.
    page : path
        The Markdown file.
    figures : path
        The folder of the plots, made if needed.
    """
    page.parent.mkdir(parents=True, exist_ok=True)
    figures.mkdir(parents=True, exist_ok=True)
    parts = [INTRODUCTION]
    if any(cell.get("sliced") for cell in cells):
        parts.append("**Small slices: this page shows that the race runs, not who is ahead.**\n")
    for path, title in plot_all(cells, figures):
        parts.append(f"![{title}]({Path(os.path.relpath(path, page.parent)).as_posix()})\n")
    parts += [section(name, [cell for cell in cells if cell["set"] == name]) for name in SETS]
    page.write_text("\n".join(part for part in parts if part), encoding="utf-8")


def section(name: str, cells: Sequence[Cell]) -> str:
    """The table of one set with what to say about it; nothing without cells."""
    if not cells:
        return ""
    done = sorted((cell for cell in cells if cell["state"] == DONE), key=lambda cell: -cell["precision"]["1"])
    one, first = SETS[name], cells[0]
    what = "labels, several a row" if one.several else "classes"
    lines = [
        f"## {one.title}",
        "",
        f"{first['n_classes']:,} {what}; {first['n_train']:,} training and {first['n_test']:,} test rows of "
        f"{first['n_features']:,} features. {_origin(cells)}",
        "",
    ]
    if done:
        lines += [*table(done, one.several), "", *(f"- {sentence}" for sentence in sentences(done)), ""]
    others = [cell for cell in cells if cell["state"] != DONE]
    if others:
        lines += ["Without a result:", ""]
        lines += [f"- {_title(cell)}: {cell['state']}; {_plain(cell['reason'])}" for cell in others]
        lines.append("")
    return "\n".join(lines)


def table(done: Sequence[Cell], several: bool) -> list[str]:
    """The lines of the Markdown table, in the order of the cells."""
    best = ["P@1 %", "P@3 %", "P@5 %"] if several else ["accuracy %"]
    head = ["who", *best, "train s", "predict s", "one row µs", "peak MB (before)", "model MB", "remark"]
    lines = [_row(head), _row(["---", *["---:"] * (len(head) - 2), "---"])]
    for cell in done:
        title = f"{_title(cell)} {cell['version']}" if not ENTRANTS[cell["entrant"]].ours else f"**{_title(cell)}**"
        shares = [cell["precision"].get(k) for k in ("1", "3", "5")[: len(best)]]
        remark = cell["note"]
        if cell["n_test"] < max(other["n_test"] for other in done):
            remark = "; ".join(filter(None, [remark, f"{cell['n_test']:,} test rows"]))
        texts = [title, *("–" if share is None else f"{100 * share:.2f}" for share in shares)]
        texts += [f"{cell['train_seconds']:.2f}", f"{cell['predict_seconds']:.3f}"]
        texts += [f"{1e6 * cell['predict_one_seconds']:,.0f}"]
        texts += [f"{_megabytes(cell['peak_bytes'])} ({_megabytes(cell['loaded_bytes'])})"]
        sizes = [cell[key] for key in ("model_bytes", "slim_bytes")]
        texts += [" / ".join(map(_megabytes, sizes if sizes[1] else sizes[:1]))]
        lines.append(_row([*texts, remark]))
    return lines


def sentences(done: Sequence[Cell]) -> list[str]:
    """Who is ahead of our most accurate entry, and which rivals none of ours matches in accuracy and speed together."""
    ours, rivals = ([c for c in done if ENTRANTS[c["entrant"]].ours == mine] for mine in (True, False))
    if not ours or not rivals:
        return []
    best, rival = ours[0], rivals[0]
    gap = 100 * (best["precision"]["1"] - rival["precision"]["1"])
    where = "ahead of" if gap > 0 else "behind" if gap < 0 else "level with"
    told = [
        f"Accuracy: our best, {_title(best)} ({_percent(best)}), is {where} the best rival, {_title(rival)} "
        f"({_percent(rival)}){_p_text(best, rival)}."
    ]
    for what, key, unit in (
        ("Trains faster", "train_seconds", _seconds),
        ("Answers all rows faster", "predict_seconds", _seconds),
        ("Answers one row faster", "predict_one_seconds", _microseconds),
        ("Has a smaller model", "model_bytes", _size),
    ):
        mine = _smallest(best, key)
        ahead = sorted((c for c in rivals if c[key] is not None and c[key] < mine), key=lambda c: c[key])
        names = ", ".join(f"{_title(c)} ({unit(c[key])}, {_percent(c)})" for c in ahead[:5])
        more = f" and {len(ahead) - 5} more" if len(ahead) > 5 else ""
        told.append(f"{what} than {_title(best)} ({unit(mine)}): {names or 'no rival'}{more}.")
    for what, key in (("training", "train_seconds"), ("one-row prediction", "predict_one_seconds")):
        free = [c for c in rivals if not any(_beats(our, c, key) for our in ours)]
        names = ", ".join(_title(c) for c in free)
        told.append(f"Rivals that none of ours matches in accuracy and time of {what} together: {names or 'none'}.")
    return told


def _beats(our: Cell, rival: Cell, key: str) -> bool:
    return our["precision"]["1"] >= rival["precision"]["1"] and our[key] <= rival[key]


def _smallest(best: Cell, key: str) -> float:
    """Our own figure; of our two files, the one for answers only, as the rivals' are."""
    return best["slim_bytes"] or best["model_bytes"] if key == "model_bytes" else best[key]


def _p_text(one: Cell, other: Cell) -> str:
    """The p-value of the difference, where both answered the same rows."""
    n = one["n_test"]
    if other["n_test"] != n:
        return ""
    errors = [round(n * (1 - cell["precision"]["1"])) for cell in (one, other)]
    if sum(errors) in (0, 2 * n):
        return ""
    p = n_minus_1_chi_squared(errors[0], n, errors[1], n)[1]
    return ", p < 0.0001" if p < 0.0001 else f", p = {p:.4f}"


def _origin(cells: Sequence[Cell]) -> str:
    """When, from which sources and where the cells were measured."""
    days = sorted({cell["date"][:10] for cell in cells})
    commits = sorted({cell["commit"] for cell in cells})
    machines = sorted({cell["machine"] for cell in cells})
    threads = sorted({str(cell["threads"]) for cell in cells})
    span = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    return f"Measured {span}, commit {', '.join(commits)}, {'; '.join(machines)}, {', '.join(threads)} threads."


def _title(cell: Cell) -> str:
    return ENTRANTS[cell["entrant"]].title


def _percent(cell: Cell) -> str:
    return f"{100 * cell['precision']['1']:.2f} %"


def _seconds(value: float) -> str:
    return f"{value:.3g} s" if value < 100 else f"{value:.0f} s"


def _microseconds(value: float) -> str:
    return f"{1e6 * value:,.0f} µs"


def _size(value: float) -> str:
    return f"{value / 1e6:,.1f} MB"


def _megabytes(value: float | None) -> str:
    return "–" if value is None else f"{value / 1e6:,.1f}" if value < 1e8 else f"{value / 1e6:,.0f}"


def _plain(text: str) -> str:
    """A reason as text: nothing in it is Markdown."""
    return text.replace("|", "/").replace("<", "‹").replace(">", "›").replace("`", "'")


def _row(texts: Sequence[str]) -> str:
    return f"| {' | '.join(texts)} |"


