"""The page of the race, written from its cells: a table for each set, and who is ahead of whom."""

import os
from collections.abc import Callable, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

from benchmarks.entrants import ENTRANTS
from benchmarks.race import DONE, one_row_seconds
from benchmarks.race_plots import plot_all
from benchmarks.sets import SETS
from manyclass.metrics import n_minus_1_chi_squared

Cell = dict[str, Any]
MODEL = itemgetter("model_bytes")
INTRODUCTION = """\
# The race

Written by `make race` from the results in `reproduce/race/cells`, one file a cell; nothing here is typed by hand.
All take the same rows: shuffled alike, tf-idf for counts of words, unit length (ALOI divided by its greatest value).
Ours stand in bold with their defaults; the settings of each peer are in its cell. Cells run one at a time, each in a
process of its own with a cap on time and memory; what did not finish is listed under its table with the reason.

- **train s**: the training call, rows in memory, ours compiled beforehand; median of three where below 10 s.
- **predict µs**: a row's share of one call that asks for the five best labels of all test rows; median of up to three
  calls. Vowpal Wabbit: over its binary cache, without start and loading; the fastest of three.
- **one row µs**: median of up to 200 calls with one row on one thread, from Python. Rows are in the form the peer takes
  beforehand: Vowpal Wabbit's are parsed, fastText's are text, River's dictionaries. Ours twice: by `predict_topk`,
  which checks its input, and after the slash by `predictor`, which is made for single rows; that one stands in
  sentences and plots.
- **peak MB**: the most the process held from training to prediction, and in brackets what it held before (rows,
  libraries; ours: the compiler). Vowpal Wabbit streams its rows from disk.
- **model MB**: on disk; ours with all that further learning needs and, after the slash, for answers only. Vowpal
  Wabbit's holds what further learning needs, too. scikit-learn only pickles: the bytes of its arrays. Nearest
  neighbours: the training rows. River: not known.
- **Threads**: as many as named, where the program can use them. Vowpal Wabbit (but for reading), River and
  LogisticRegression with one label a row learn on one, fastText answers on one; the library below numpy keeps its
  threads for one row.
- fastText takes words without weights, so it is not on sets of numbers. River stops learning after a quarter of the cap
  and is asked about 500 rows. Vowpal Wabbit's `recall_tree`, `log_multi` and `oaa` answer one label.
- **Hierarchy**: made up, 20 training rows a class but at most 500,000 in all: 17 a class with 30,000 classes and 5 with
  100,000, so accuracy falls there for want of rows, too.
- **In the plots** nearest neighbours, which learn nothing, are a dotted line beside times of training; River, which
  learns for a given time, is not among the times of training against the number of classes.
- **late**: the cap is for the whole cell: reading the rows, every training, every answer, not one training alone. A
  late cell is tried again when the race is run with a longer cap.
- A set's cells need not be of one day or commit: a race that was stopped goes on, and `--again` does single cells anew.
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
    n_all = sum(entrant.takes(one) for one in SETS.values() for entrant in ENTRANTS.values())
    if len(cells) < n_all:
        parts.append(f"**Not all of it: {n_all - len(cells)} of {n_all} cells have not been run.**\n")
    if short := summary(cells):
        parts.append("\n".join([*short, ""]))
    for path, title in plot_all(cells, figures):
        parts.append(f"![{title}]({Path(os.path.relpath(path, page.parent)).as_posix()})\n")
    parts += [section(name, [cell for cell in cells if cell["set"] == name]) for name in SETS]
    page.write_text("\n".join(part for part in parts if part), encoding="utf-8")


def summary(cells: Sequence[Cell]) -> list[str]:
    """The lines of a table with our most accurate entry and the most accurate peer of each set."""
    head = ["set", "classes", "our best", "% right", "train s", "one row µs"]
    head += ["best peer that finished", "% right", "train s", "one row µs", "p"]
    lines = []
    for name, one in SETS.items():
        done = [cell for cell in cells if cell["set"] == name and cell["state"] == DONE]
        ours, peers = _sides(done)
        if not ours or not peers:
            continue
        best, peer = (max(side, key=lambda cell: cell["precision"]["1"]) for side in (ours, peers))
        texts = [one.title, f"{best['n_classes']:,}"]
        for cell in (best, peer):
            texts += [_title(cell), f"{100 * cell['precision']['1']:.2f}", f"{cell['train_seconds']:.2f}"]
            texts += [f"{1e6 * one_row_seconds(cell):,.0f}"]
        p = _p_value(best, peer)
        lines.append(_row([*texts, "–" if p is None else _p_text(p).removeprefix("= ")]))
    return [_row(head), _row(["---", "---:", *["---", "---:", "---:", "---:"] * 2, "---:"]), *lines] if lines else []


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
        lines += [*table(done, one.several), "", *(f"- {sentence}" for sentence in sentences(done, one.several)), ""]
    others = [cell for cell in cells if cell["state"] != DONE]
    if others:
        lines += ["Without a result:", ""]
        lines += [f"- {_title(cell)}: {cell['state']}; {_plain(cell['reason'])}" for cell in others]
        lines.append("")
    return "\n".join(lines)


def table(done: Sequence[Cell], several: bool) -> list[str]:
    """The lines of the Markdown table, in the order of the cells."""
    best = ["P@1 %", "P@3 %", "P@5 %"] if several else ["accuracy %"]
    head = ["who", *best, "train s", "predict µs", "one row µs", "peak MB (before)", "model MB", "remark"]
    lines = [_row(head), _row(["---", *["---:"] * (len(head) - 2), "---"])]
    for cell in done:
        title = f"{_title(cell)} {cell['version']}" if not ENTRANTS[cell["entrant"]].ours else f"**{_title(cell)}**"
        shares = [cell["precision"].get(k) for k in ("1", "3", "5")[: len(best)]]
        remark = cell["note"]
        if cell["n_test"] < max(other["n_test"] for other in done):
            remark = "; ".join(filter(None, [remark, f"{cell['n_test']:,} test rows"]))
        texts = [title, *("–" if share is None else f"{100 * share:.2f}" for share in shares)]
        texts += [f"{cell['train_seconds']:.2f}", f"{1e6 * each_seconds(cell):,.1f}"]
        calls = [cell[key] for key in ("predict_one_seconds", "predictor_seconds") if cell[key]]
        texts += [" / ".join(f"{1e6 * seconds:,.0f}" for seconds in calls)]
        before = "" if cell["loaded_bytes"] is None else f" ({_megabytes(cell['loaded_bytes'])})"
        texts += [_megabytes(cell["peak_bytes"]) + before]
        sizes = [cell[key] for key in ("model_bytes", "slim_bytes")]
        texts += [" / ".join(map(_megabytes, sizes if sizes[1] else sizes[:1]))]
        lines.append(_row([*texts, remark]))
    return lines


def each_seconds(cell: Cell) -> float:
    """A row's share of the call that answers all; not all entrants are asked about as many rows."""
    return cell["predict_seconds"] / cell["n_test"]


def sentences(done: Sequence[Cell], several: bool = False) -> list[str]:
    """Who is ahead of our most accurate entry, and which peers none of ours matches in accuracy and speed together."""
    ours, peers = _sides(done)
    if not ours or not peers:
        return []
    told = [_accuracy_told(ours, peers, k, several) for k in (("1", "3", "5") if several else ("1",))]
    best = ours[0]
    for what, value, unit in (
        ("Trains faster", itemgetter("train_seconds"), _seconds),
        ("Predictions many rows faster", each_seconds, _microseconds),
        ("Predictions one row faster", one_row_seconds, _microseconds),
        ("Takes less memory at its peak", itemgetter("peak_bytes"), _size),
        ("Has a smaller model", MODEL, _size),
    ):
        mine = {c["entrant"]: _file(best, c) if value is MODEL else value(best) for c in (best, *peers)}
        ahead = [c for c in peers if None not in (value(c), mine[c["entrant"]]) and value(c) < mine[c["entrant"]]]
        ahead.sort(key=value)
        names = ", ".join(f"{_title(c)} ({unit(value(c))}, {_percent(c)})" for c in ahead[:5])
        own = unit(mine[best["entrant"]])
        if value is MODEL and any(mine[c["entrant"]] != mine[best["entrant"]] for c in ahead):
            own += f", {unit(best['model_bytes'])} beside Vowpal Wabbit's"
        more = f" and {len(ahead) - 5} more" if len(ahead) > 5 else ""
        told.append(f"{what} than {_title(best)} ({own}): {names or 'no peer'}{more}.")
    for what, value in (("training", itemgetter("train_seconds")), ("one-row prediction", one_row_seconds)):
        free = [c for c in peers if not any(_beats(our, c, value) for our in ours)]
        names = ", ".join(_title(c) for c in free)
        told.append(f"Peers that none of ours matches in accuracy and time of {what} together: {names or 'none'}.")
    return told


def _accuracy_told(ours: Sequence[Cell], peers: Sequence[Cell], k: str, several: bool) -> str:
    """Where our best in P@k stands beside the best peer."""
    best, peer = (max(cells, key=lambda cell: cell["precision"].get(k, 0)) for cells in (ours, peers))
    gap = best["precision"].get(k, 0) - peer["precision"].get(k, 0)
    p = _p_value(best, peer) if k == "1" else None
    where = "ahead of" if gap > 0 else "behind" if gap < 0 else "level with"
    if p is not None and p >= 0.05:
        where = "not told apart from"
    what = f"P@{k}" if several else "Accuracy"
    return (
        f"{what}: our best, {_title(best)} ({_percent(best, k)}), is {where} the best peer that finished, "
        f"{_title(peer)} ({_percent(peer, k)}){'' if p is None else f', p {_p_text(p)}'}."
    )


def _beats(our: Cell, peer: Cell, value: Callable[[Cell], float]) -> bool:
    return our["precision"]["1"] >= peer["precision"]["1"] and value(our) <= value(peer)


def _file(our: Cell, other: Cell) -> float:
    """Our file that is to be compared: Vowpal Wabbit's holds what further learning needs, the other peers' do not."""
    whole = ENTRANTS[other["entrant"]].family == "Vowpal Wabbit"
    return our["model_bytes"] if whole or not our["slim_bytes"] else our["slim_bytes"]


def _p_value(one: Cell, other: Cell) -> float | None:
    """Of the difference, where both answered the same rows."""
    n = one["n_test"]
    errors = [round(n * (1 - cell["precision"]["1"])) for cell in (one, other)]
    if other["n_test"] != n or sum(errors) in (0, 2 * n):
        return None
    return n_minus_1_chi_squared(errors[0], n, errors[1], n)[1]


def _p_text(p: float) -> str:
    return "< 0.0001" if p < 0.0001 else f"= {p:.4f}"


def _sides(cells: Sequence[Cell]) -> tuple[list[Cell], list[Cell]]:
    """Ours and the peers'."""
    ours = [cell for cell in cells if ENTRANTS[cell["entrant"]].ours]
    return ours, [cell for cell in cells if not ENTRANTS[cell["entrant"]].ours]


def _origin(cells: Sequence[Cell]) -> str:
    """When, from which sources and where the cells were measured."""
    days = sorted({cell["date"][:10] for cell in cells})
    commits = sorted({cell["commit"] for cell in cells})
    machines = sorted({cell["machine"] for cell in cells})
    threads, caps = (sorted({cell[key] for cell in cells}) for key in ("threads", "cap_seconds"))
    span = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    return (
        f"Measured {span}, commit {', '.join(commits)}, {'; '.join(machines)}, {', '.join(map(str, threads))} threads, "
        f"cap {' or '.join(f'{cap:g}' for cap in caps)} s a cell."
    )


def _title(cell: Cell) -> str:
    return ENTRANTS[cell["entrant"]].title


def _percent(cell: Cell, k: str = "1") -> str:
    return f"{100 * cell['precision'][k]:.2f} %" if k in cell["precision"] else "–"


def _seconds(value: float) -> str:
    return f"{value:.3g} s" if value < 100 else f"{value:.0f} s"


def _microseconds(value: float) -> str:
    return f"{1e6 * value:,.3g} µs" if value < 1e-4 else f"{1e6 * value:,.0f} µs"


def _size(value: float | None) -> str:
    return "not known" if value is None else f"{value / 1e6:,.1f} MB"


def _megabytes(value: float | None) -> str:
    return "–" if value is None else f"{value / 1e6:,.1f}" if value < 1e8 else f"{value / 1e6:,.0f}"


def _plain(text: str) -> str:
    """A reason as text: nothing in it is Markdown."""
    return text.replace("|", "/").replace("<", "‹").replace(">", "›").replace("`", "'")


def _row(texts: Sequence[str]) -> str:
    return f"| {' | '.join(texts)} |"
