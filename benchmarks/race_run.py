"""The race: our estimators and the peers on the same rows, one at a time, each cell in a process of its own.

A cell is an entrant on a set. Its numbers are kept as one JSON file, so that a race that was stopped goes on where it
was; a cell that failed or took too long is kept with the reason. What is measured, for ours as for the peers:

- training: wall clock of the training call, rows in memory, ours compiled beforehand on a few rows; the median of three
  where it took less than 10 seconds;
- prediction: five best labels for all test rows in one call, median of up to three; and for one row at a time on one
  thread, the median over up to 200 rows, ours by `predict_topk` and by `predictor`;
- memory: the most that the process held from training to prediction, rows included, and what it held before;
- the size of the model on disk.

`benchmarks.peers` says more on the peers.
"""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.cell import write_rows, write_texts
from benchmarks.entrants import ENTRANTS, Entrant, settings_of
from benchmarks.origin import ROOT, commit, machine
from benchmarks.peers import PEERS
from benchmarks.sets import SETS, RaceSet, Rows, SetUnavailable, prepare, texts_of
from benchmarks.vw import PeerUnavailable, peer_environment
from manyclass.interrupts import uninterrupted

DONE, FAILED, LATE, SKIPPED, ABSENT = "done", "failed", "late", "skipped", "not installed"


@dataclass(frozen=True)
class Plan:
    """What to run, and how."""

    cells: Path  # the folder of results
    environments: Path  # where the peers are installed
    sets: Sequence[str] = tuple(SETS)
    entrants: Sequence[str] = tuple(ENTRANTS)
    known_sets: Mapping[str, RaceSet] = field(default_factory=lambda: SETS)
    known_entrants: Mapping[str, Entrant] = field(default_factory=lambda: ENTRANTS)
    cap_seconds: float = 300.0  # for the process of one cell
    memory_bytes: int | None = None  # for the process of one cell
    threads: int = 2
    n_train: int | None = None
    n_test: int | None = None
    install_seconds: float = 900.0  # for one command that installs a peer
    end_seconds: float | None = None  # no cell is begun later than this after the start
    commands: Mapping[str, Sequence[str]] = field(default_factory=dict)  # a peer's Python, instead of installing it
    again: Sequence[str] = ()  # sets, entrants or cells (``set/entrant``) to run though they have a result
    timed: bool = True  # False: other work runs on the machine, so that times mean nothing


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Within it, SIGINT and SIGTERM raise KeyboardInterrupt, which ends the running cell: no peer stays behind."""
    before = [(number, signal.signal(number, signal.default_int_handler)) for number in (signal.SIGINT, signal.SIGTERM)]
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)


def run_race(plan: Plan, say: Callable[[str], None] = print) -> None:
    """Run the cells of a plan that have no result yet, and those that may have a better one now.

    These are the cells to do again, those of peers that could not be installed, those that were late with less time
    than the plan gives, and those skipped for a reason that is gone. Nothing that goes wrong in a cell ends the race:
    its reason is kept in place of its numbers.

    Parameters
    ----------
    plan : Plan
        What to run.
    say : callable
        Takes a line for each cell.
    """
    start = time.monotonic()
    plan.cells.mkdir(parents=True, exist_ok=True)
    started: dict[str, list[str] | str] = {}
    for name in plan.sets:
        one = plan.known_sets[name]
        able = [entrant for entrant in map(plan.known_entrants.__getitem__, plan.entrants) if entrant.takes(one)]
        waiting = [entrant for entrant in able if _waits(plan, one, entrant)]
        if not waiting:
            continue
        try:
            rows = prepare(one, plan.n_train, plan.n_test)
        except SetUnavailable as error:
            say(f"{name}: left out, {error}")
            continue
        with tempfile.TemporaryDirectory(prefix="manyclass-race-") as work:
            write_rows(Path(work) / "rows", rows)
            if one.text:
                write_texts(Path(work) / "rows", texts_of(one, plan.n_train, plan.n_test))
            facts = _facts(rows)
            del rows
            for entrant in waiting:
                if plan.end_seconds is not None and time.monotonic() - start > plan.end_seconds:
                    say(f"time is up; the same command{' without --again' if plan.again else ''} goes on from here")
                    return
                cell = _cell(plan, one, entrant, facts, Path(work), started)
                _write(_path(plan, one, entrant), cell)
                say(line_of(cell))


def run_until_interrupted(plan: Plan) -> int:
    """Run a plan with a line on standard output for each cell; return the exit status, 130 if it was interrupted."""
    try:
        with ended_by_signals():
            run_race(plan, lambda line: print(line, flush=True))
    except KeyboardInterrupt:
        without = " without --again" if plan.again else ""
        print(f"interrupted; the same command{without} goes on from here", file=sys.stderr)
        return 130
    return 0


def run_page(
    arguments: Sequence[str] | None,
    description: str,
    plan: Plan,
    page: Callable[[Sequence[dict[str, Any]]], str],
    prefix: str = "",
) -> int:
    """Run the cells of the known sets and entrants that have no result yet, and write `results.md` beside the cells.

    The options of the command line change the plan. `prefix` begins the names of all sets and is not typed.
    Returns the exit status.
    """
    names, home = [name.removeprefix(prefix) for name in plan.known_sets], plan.cells.parent
    parser = argparse.ArgumentParser(description=description)
    add = parser.add_argument
    add("--sets", nargs="+", choices=names, default=names, metavar="SET")
    add("--entrants", nargs="+", choices=list(plan.known_entrants), default=list(plan.known_entrants), metavar="NAME")
    add("--again", nargs="+", default=[], metavar="NAME", help="anew: a set, an entrant or set/entrant")
    add("--cap", type=float, default=plan.cap_seconds, help=f"seconds for one cell ({plan.cap_seconds:g})")
    add("--threads", type=int, default=plan.threads)
    add("--busy", action="store_true", help="other work runs on the machine: leave times out of the page")
    add("--page-only", action="store_true", help="run nothing, write the page")
    add("--folder", default=plan.environments, type=Path, help=f"where other packages are ({plan.environments})")
    options = parser.parse_args(arguments)
    again = [prefix + word if word.partition("/")[0] in names else word for word in options.again]
    plan = replace(
        plan, environments=options.folder, sets=[prefix + name for name in options.sets], entrants=options.entrants,
        cap_seconds=options.cap, threads=options.threads, again=again,
        timed=not options.busy,
    )  # fmt: skip
    status = 0 if options.page_only else run_until_interrupted(plan)
    cells = read_cells(plan.cells, plan.known_sets, plan.known_entrants)
    if cells:
        text = page(cells)
        (home / "results.md").write_text(text, encoding="utf-8")
        print(text)
        print(f"{len(cells)} cells in {os.path.relpath(home / 'results.md')}")
    return status


def read_cells(
    folder: Path, sets: Mapping[str, RaceSet] = SETS, entrants: Mapping[str, Entrant] = ENTRANTS
) -> list[dict[str, Any]]:
    """All results in a folder, those of known sets and entrants, in their order."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]
    known = [cell for cell in found if cell["set"] in sets and cell["entrant"] in entrants]
    places = list(sets), list(entrants)
    return sorted(known, key=lambda cell: (places[0].index(cell["set"]), places[1].index(cell["entrant"])))


def one_row_seconds(cell: dict[str, Any]) -> float:
    """The time of one row by the call that is made for it: ours is `predictor`."""
    return cell["predictor_seconds"] or cell["predict_one_seconds"]


def line_of(cell: dict[str, Any]) -> str:
    """A cell in one line."""
    head = f"{cell['set']}, {cell['entrant']}: "
    if cell["state"] != DONE:
        return f"{head}{cell['state']}, {cell['reason']}"
    return (
        f"{head}{100 * cell['precision']['1']:.2f} %, trained in {cell['train_seconds']:.2f} s, predicted in "
        f"{cell['predict_seconds']:.3f} s, {1e6 * one_row_seconds(cell):.0f} µs for one row"
    )


def _path(plan: Plan, one: RaceSet, entrant: Entrant) -> Path:
    return plan.cells / f"{one.name}.{entrant.name}.json"


def _waits(plan: Plan, one: RaceSet, entrant: Entrant) -> bool:
    """Whether a cell is to be run; an old result stays until the new one takes its place."""
    path = _path(plan, one, entrant)
    if not path.exists() or not {one.name, entrant.name, f"{one.name}/{entrant.name}"}.isdisjoint(plan.again):
        return True
    cell = json.loads(path.read_text(encoding="utf-8"))
    if cell["state"] == SKIPPED:
        return _hopeless(plan, one, entrant) != cell["reason"]
    return cell["state"] == ABSENT or (cell["state"] == LATE and cell["cap_seconds"] < plan.cap_seconds)


def _write(path: Path, cell: dict[str, Any]) -> None:
    """In one step: a race that is stopped leaves no half a cell."""
    half = path.with_suffix(".half")
    half.write_text(json.dumps(cell, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    os.replace(half, path)


def _facts(rows: Rows) -> dict[str, Any]:
    X, y, X_test, y_test = rows
    n_classes = y.shape[1] if y.ndim == 2 else int(max(y.max(), y_test.max())) + 1
    n_values = X.nnz if sp.issparse(X) else np.count_nonzero(X)
    return {
        "n_train": X.shape[0], "n_test": X_test.shape[0], "n_features": X.shape[1], "n_classes": n_classes,
        "n_values": int(n_values),
    }  # fmt: skip


def _cell(
    plan: Plan, one: RaceSet, entrant: Entrant, facts: dict[str, Any], work: Path, started: dict[str, list[str] | str]
) -> dict[str, Any]:
    settings = settings_of(entrant, facts, plan.cap_seconds)
    cell: dict[str, Any] = {
        "set": one.name, "entrant": entrant.name, "state": FAILED, "reason": "", **facts, "settings": settings,
        "threads": plan.threads, "cap_seconds": plan.cap_seconds, "sliced": (plan.n_train or plan.n_test) is not None,
        "timed": plan.timed,
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"), "commit": commit(), **machine(),
    }  # fmt: skip
    if smaller := _hopeless(plan, one, entrant):
        return {**cell, "state": SKIPPED, "reason": smaller}
    command: list[str] | str = []
    if not entrant.ours:
        command = _start(plan, entrant, started)
        if isinstance(command, str):
            return {**cell, "state": ABSENT, "reason": command}
    request = {
        "entrant": entrant.name, "estimator": entrant.estimator, "settings": settings, "threads": plan.threads,
        "n_test": entrant.n_test, "rows": str(work / "rows"), "command": command, "memory_bytes": plan.memory_bytes,
        "text": entrant.text,
    }  # fmt: skip
    return {**cell, **run_capped(request, work / "cell", plan.cap_seconds, plan.threads)}


def _hopeless(plan: Plan, one: RaceSet, entrant: Entrant) -> str:
    """Why a set need not be tried: what became of the entrant on the next smaller one of its series."""
    before = list(plan.known_sets.values())[: list(plan.known_sets).index(one.name)]
    smaller = [other for other in before if other.series == one.series]
    if not one.series or not smaller:
        return ""
    path = _path(plan, smaller[-1], entrant)
    cell: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"state": DONE}
    if cell["state"] in (DONE, ABSENT) or (cell["state"] == LATE and cell["cap_seconds"] < plan.cap_seconds):
        return ""
    return cell["reason"] if cell["state"] == SKIPPED else f"{cell['reason']}, with {cell['n_classes']:,} classes"


def _start(plan: Plan, entrant: Entrant, started: dict[str, list[str] | str]) -> list[str] | str:
    """The words that start a peer's Python, or why there is none; installed at most once in a race."""
    if entrant.name in plan.commands:
        return list(plan.commands[entrant.name])
    peer = PEERS[entrant.name]
    if peer.peer not in started:
        try:
            folder = plan.environments / peer.peer
            started[peer.peer] = [str(peer_environment(folder, *peer.installs, timeout=plan.install_seconds))]
        except PeerUnavailable as error:
            started[peer.peer] = f"could not be installed: {_install_reason(str(error))}"
    return started[peer.peer]


def run_capped(request: dict[str, Any], folder: Path, cap_seconds: float, threads: int) -> dict[str, Any]:
    """Run one cell in a process of its own, and end it with all that it started when its time is over."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "request.json").write_text(json.dumps(request))
    # The library below numpy would take all cores.
    bounds = {f"{name}_NUM_THREADS": str(threads) for name in ("OMP", "OPENBLAS", "MKL")}
    environment = {**os.environ, **bounds}
    if not request["estimator"]:
        environment["TMPDIR"] = str(folder)  # a peer that is ended leaves nothing behind
    words = [sys.executable, "-m", "benchmarks.cell", str(folder)]
    def run(check: Callable[[], None]) -> int | None:
        """The exit status, None if the time is over. An interrupt waits until there is a process that can be ended."""
        with open(folder / "errors.txt", "wb") as errors:
            process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors, env=environment,
                start_new_session=True, cwd=ROOT,
            )  # fmt: skip
        end = time.monotonic() + cap_seconds
        try:
            while time.monotonic() < end:
                check()
                with suppress(subprocess.TimeoutExpired):
                    return process.wait(0.1)
            return None
        finally:
            _end(process)

    status = uninterrupted(run)
    if status is None:
        return {"state": LATE, "reason": f"not done in {cap_seconds:g} s"}
    if status == 0 and (folder / "result.json").exists():
        return {"state": DONE, **json.loads((folder / "result.json").read_text())}
    if status < 0:
        return {"state": FAILED, "reason": f"ended by the system with signal {-status}"}
    return {"state": FAILED, "reason": _reason((folder / "errors.txt").read_text(errors="replace"))}


def _end(process: subprocess.Popen) -> None:
    """End a process and its children; they are a group of their own."""
    if hasattr(os, "killpg"):
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    else:
        process.kill()
    process.wait()


def _install_reason(text: str) -> str:
    """What a build said went wrong, where pip's own last word is only that one failed."""
    told = re.search(r"^\s*((?:fatal )?error: .*)$", text, re.MULTILINE)
    return _reason(told[1] if told else text)


def _reason(text: str) -> str:
    """The last line that says something, short and without paths of this machine."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("[notice]")]
    last = re.sub(r"(?<![\w.])(?:/[\w.+-]+){2,}", "…", lines[-1] if lines else "no reason given")
    last = re.sub(r"^[\w.]*\.(\w+(?:Error|Unavailable))\b", r"\1", last)
    return last if len(last) <= 200 else f"{last[:199]}…"
