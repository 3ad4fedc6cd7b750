"""The race: our estimators and other packages on the same rows in the same run; writes docs/race.md. See --help."""

import argparse
import dataclasses
import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
if __name__ == "__main__":
    sys.path[0] = str(ROOT)  # of the repository: `benchmarks` is not installed

from benchmarks.entrants import ENTRANTS  # noqa: E402
from benchmarks.origin import physical_bytes  # noqa: E402
from benchmarks.race_page import summary, write_page  # noqa: E402
from benchmarks.race_run import Plan, read_cells, run_until_interrupted  # noqa: E402
from benchmarks.sets import SETS  # noqa: E402

HOME, PAGE = ROOT / "benchmarks" / "race", ROOT / "docs" / "race.md"
# A quick look: does everybody run on every kind of set. Its numbers mean nothing. The cap leaves time to compile. No
# cell is begun after the end; with the last one, its peer installed before, that makes five minutes at most.
QUICK_ROWS, QUICK_TEST_ROWS, QUICK_CAP, QUICK_INSTALL, QUICK_END = 300, 30, 35.0, 60.0, 262.0
QUICK_SETS = ("clinc150", "bibtex", "hierarchy-1000")  # words, several labels, numbers


def main(arguments: Sequence[str] | None = None, home: Path = HOME, page: Path = PAGE) -> int:
    """Run what the options request, then write the page from all results.

    Parameters
    ----------
    arguments : sequence of str or None
        The words after the command; None for those of the process.
    home : path
        The folder of results: `cells`, `figures` and, for a quick look, `quick` beside them.
    page : path
        The page to write; that of a quick look is in `quick`.

    Returns
    -------
    int
        The exit status: 130 when it was interrupted.
    """
    options = _options(arguments)
    if options.quick:
        home, page = home / "quick", home / "quick" / page.name
    plan = _plan(options, home / "cells")
    status = 0 if options.page_only else run_until_interrupted(plan)
    cells = read_cells(plan.cells)
    if cells:
        write_page(cells, page, home / "figures")
        print("\n".join(summary(cells)))
        print(f"{len(cells)} cells on {os.path.relpath(page)}")
    return status


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options, or an error that says which of them cannot be."""
    parser = _parser()
    options = parser.parse_args(arguments)
    for name in options.again:
        words = name.split("/")
        kinds = [[*SETS, *ENTRANTS]] if len(words) == 1 else [SETS, ENTRANTS]
        if len(words) > 2 or not all(word in kind for word, kind in zip(words, kinds, strict=True)):
            parser.error(f"--again {name}: no set, entrant or set/entrant of this name; --help lists them")
        chosen = [*(options.sets or (QUICK_SETS if options.quick else SETS)), *(options.entrants or ENTRANTS)]
        if not all(word in chosen for word in words):
            parser.error(f"--again {name}: not among what is run; name it with --sets or --entrants, too")
    for option in ("cap", "memory_gb", "threads"):
        value = getattr(options, option)
        if value is not None and not 0 < value < math.inf:
            parser.error(f"--{option.replace('_', '-')} must be more than 0 and finite, got {value:g}")
    if Path(options.folder).exists() and not Path(options.folder).is_dir():
        parser.error(f"--folder {options.folder}: is a file; name a folder, it is made if needed")
    if options.ours and options.entrants and not any(ENTRANTS[name].ours for name in options.entrants):
        parser.error(f"--ours leaves out {', '.join(options.entrants)}: nothing to run")
    return options


def _plan(options: argparse.Namespace, cells: Path) -> Plan:
    entrants = [name for name in options.entrants or ENTRANTS if ENTRANTS[name].ours or not options.ours]
    sets = [name for name in SETS if name in (options.sets or SETS)]  # a series from its smallest on
    memory = options.memory_gb * 1e9 if options.memory_gb else 0.75 * (physical_bytes() or 0)
    plan = Plan(
        cells=cells, environments=Path(options.folder), sets=sets, entrants=entrants,
        cap_seconds=options.cap, threads=options.threads, memory_bytes=int(memory) or None, again=options.again,
    )  # fmt: skip
    if options.quick:
        plan = dataclasses.replace(
            plan, sets=sets if options.sets else QUICK_SETS, n_train=QUICK_ROWS, n_test=QUICK_TEST_ROWS,
            cap_seconds=min(options.cap, QUICK_CAP), install_seconds=QUICK_INSTALL, end_seconds=QUICK_END,
        )  # fmt: skip
    return plan


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Our estimators and the peers, the same rows in the same run.")
    add = parser.add_argument
    add("--quick", action="store_true", help="small slices, five minutes once peers are installed: does it run")
    add("--ours", action="store_true", help="our estimators only; installs nothing")
    add("--sets", nargs="+", choices=list(SETS), metavar="SET", help=f"some sets: {', '.join(SETS)}")
    add("--entrants", nargs="+", choices=list(ENTRANTS), metavar="NAME", help=f"some of {', '.join(ENTRANTS)}")
    add("--again", nargs="+", default=[], metavar="NAME", help="anew: a set, an entrant or a cell (set/entrant)")
    add("--page-only", action="store_true", help="run nothing, write the page from the results there are")
    add("--cap", type=float, default=300.0, help="seconds for one cell (300)")
    add("--memory-gb", type=float, help="memory for one cell (three quarters of the machine's)")
    add("--threads", type=int, default=2, help="for training and for predicting many rows (2)")
    add("--folder", default=".venv/peers", help="where the peers are installed (.venv/peers)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
