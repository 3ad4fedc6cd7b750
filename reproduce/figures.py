"""Figures in Markdown pages, filled in from committed results, so that pages and results cannot differ.

In a page, a figure stands between two comments, which readers do not see:

    <!-- figure recall_tree_2017/aloi; Recall Tree, ours; our error % -->9.09<!-- end -->

The first names a table, reproduce/recall_tree_2017/results/aloi.csv, cells that one row of it has, and the column.
The figure is written with as many decimals as it has in the page; a column of texts, or a text after a number, is
written as it is. `race; SET; ENTRANT` is the accuracy, or P@1, of a cell of the race in percent; `race`, alone, is the
table of the best models of the race; `race; all; ENTRANT; ...` is a table of all sets and these entrants.
`python reproduce/all.py --page-only` fills in all pages; a test checks them.
"""

import csv
import json
import re
from collections.abc import Iterator
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from pathlib import Path

from benchmarks.entrants import ENTRANTS
from benchmarks.race_page import summary
from benchmarks.race_run import read_cells
from benchmarks.sets import SERIES, SETS

ROOT = Path(__file__).resolve().parents[1]
CELLS = Path("benchmarks", "race", "cells")
MARKED = re.compile(r"(<!-- figure ([^>]+?) -->)(.*?)(<!-- end -->)", re.S)


def pages(root: Path = ROOT) -> Iterator[Path]:
    """All pages that may have figures."""
    yield root / "README.md"
    yield from sorted((root / "docs").rglob("*.md"))
    yield from sorted((root / "reproduce").glob("*.md"))
    yield from sorted((root / "reproduce").glob("*/README.md"))


def fill(text: str, root: Path = ROOT) -> str:
    """The text of a page with its figures as the results have them.

    Raises
    ------
    ValueError
        If a figure names a table, row or column that is not there, or several rows.
    """

    def one(found: re.Match) -> str:
        begin, where, written, end = found.groups()
        return begin + figure(root, [word.strip() for word in where.split(";")], written) + end

    return MARKED.sub(one, text)


def fill_pages(root: Path = ROOT) -> list[Path]:
    """Fill in the figures of all pages; the pages that changed."""
    changed = []
    for page in pages(root):
        text = page.read_text(encoding="utf-8")
        if (new := fill(text, root)) != text:
            page.write_text(new, encoding="utf-8")
            changed.append(page)
    return changed


def figure(root: Path, words: list[str], written: str) -> str:
    """What stands between the comments; `written`: what stood there."""
    where = "; ".join(words)
    if words == ["race"]:
        return "\n" + "\n".join(race_table(root)) + "\n"
    if words[:2] == ["race", "all"]:
        return "\n" + "\n".join(race_columns(root, words[2:])) + "\n"
    if words[0] == "race":
        path = root / CELLS / f"{'.'.join(words[1:])}.json"
        if not path.exists():
            raise ValueError(f"<!-- figure {where} -->: there is no {path.relative_to(root)}.")
        cell = json.loads(path.read_text(encoding="utf-8"))
        if cell["state"] != "done":
            raise ValueError(f"<!-- figure {where} -->: {path.relative_to(root)} has no result ({cell['state']}).")
        return rounded(str(100 * cell["precision"]["1"]), written)
    folder, _, name = words[0].partition("/")
    path = root / "reproduce" / folder / "results" / f"{name}.csv"
    if len(words) < 3 or not path.exists():
        raise ValueError(f"<!-- figure {where} -->: expected FOLDER/TABLE; CELL; ...; COLUMN of a table in results/.")
    with open(path, newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if set(words[1:-1]) <= set(row.values())]
    if len(rows) != 1 or words[-1] not in rows[0]:
        lacks = f"{len(rows)} rows with these cells" if len(rows) != 1 else f"no column {words[-1]!r}"
        raise ValueError(f"<!-- figure {where} -->: {path.relative_to(root)} has {lacks}.")
    return rounded(rows[0][words[-1]], written)


def rounded(value: str, written: str) -> str:
    """The value with as many decimals as were written before."""
    try:
        number = Decimal(value.replace(",", ""))
        step = Decimal(written.replace(",", "")).as_tuple().exponent
    except InvalidOperation:
        return value
    return f"{number.quantize(Decimal((0, (1,), min(0, int(step)))), ROUND_HALF_UP):,}"


def race_table(root: Path) -> list[str]:
    """Our most accurate model and the most accurate other library of each real set, in Markdown."""
    cells = [cell for cell in read_cells(root / CELLS) if not cell["set"].startswith(SERIES)]
    lines = ["| data | classes | manyclass | % | seconds | best other library | % | seconds | p |"]
    lines.append("|---|---:|---|---:|---:|---|---:|---:|---:|")
    for line in summary(cells)[2:]:
        data, n, ours, share, train, _, peer, other, train_other, _, p = line.strip("| ").split(" | ")
        clear = p.startswith("<") or float(p) < 0.05
        train, train_other = (f"{float(s):.1f}" if float(s) >= 0.05 else "< 0.1" for s in (train, train_other))
        p = p if clear else f"{float(p):.2f}"
        share = f"**{share}**" if clear and float(share) > float(other) else share
        lines.append(f"| {' | '.join([data, n, ours, share, train, peer, other, train_other, p])} |")
    return lines


def race_columns(root: Path, entrants: list[str]) -> list[str]:
    """Accuracy, or P@1, of some entrants on each set, in Markdown; of the synthetic sets, 10,000 classes."""
    cells = {(cell["set"], cell["entrant"]): cell for cell in read_cells(root / CELLS)}
    lines = [f"| data, number of labels | {' | '.join(ENTRANTS[name].title for name in entrants)} |"]
    lines.append(f"|---|{'---:|' * len(entrants)}")
    for name, one in SETS.items():
        if one.series and name != f"{SERIES}-10000":
            continue
        row = [cells.get((name, entrant)) for entrant in entrants]
        texts = ["–" if cell is None else "*limit*" if cell["state"] != "done" else percent(cell) for cell in row]
        best = max((text for text in texts if text[0].isdigit()), key=float)
        n_classes = next(cell["n_classes"] for cell in row if cell)
        title = one.title.split(",")[0]
        lines.append(f"| {title}, {n_classes:,} | {' | '.join(f'**{t}**' if t == best else t for t in texts)} |")
    return lines


def percent(cell: dict) -> str:
    """Accuracy, or P@1, in percent."""
    return f"{100 * cell['precision']['1']:.1f}"
