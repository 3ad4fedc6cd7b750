"""Rerun the papers, one script after another, and write docs/reproduction.md. See --help.

A script that fails or takes too long is named at the end, as is one without its data; the others run all the same.
"""

import argparse
import contextlib
import json
import math
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
from figures import fill_pages  # noqa: E402
from page import RUNS, read_runs, write_page  # noqa: E402

DONE, NO_DATA, PARTLY, FAILED, LATE = "done", "no data", "done in part", "FAILED", "NOT DONE IN TIME"
LIMIT, QUICK_LIMIT = 1800.0, 600.0  # seconds for one script


@dataclass(frozen=True)
class Step:
    """A script and its options."""

    script: str
    options: tuple[str, ...] = ()


@dataclass
class Outcome:
    """What became of a step."""

    step: Step
    state: str
    seconds: float
    reason: str = ""
    processor: float = 0.0  # seconds of processor time, which other programs change little


# At most 75 minutes on two cores (`--list` prints the seconds of the last run). Left out: Vowpal Wabbit and other
# libraries (`make bench`, `make race`), Figure 4 above 10,000 classes (figure_4.py --sets ODP LTCB takes half an hour),
# the search of rates and epochs of the spectral tables (spectral_tree_2015/search.py, whose choices are in its
# results), and errors.py and depth.py of the online trees (`make reproduce-lom-trees`).
STEPS = (
    Step("recall_tree_2017/figure_3.py"),
    Step("recall_tree_2017/figure_4.py", ("--sets", "ALOI", "ImageNet")),
    Step("recall_tree_2017/aloi.py"),
    Step("recall_tree_2017/in_order.py"),
    Step("recall_tree_2017/candidates_and_path_features.py"),
    Step("recall_tree_2017/bernstein.py", ("--tokens", "500000", "--crossed-tokens", "200000")),
    Step("recall_tree_2017/printed_rules.py"),
    Step("spectral_tree_2015/table_1.py"),
    Step("spectral_tree_2015/topics.py"),
    Step("spectral_tree_2015/aloi.py"),
    Step("spectral_tree_2015/spread.py"),
    Step("spectral_tree_2015/tables_5_and_6.py", ("--sets", "odp", "lshtc", "wordnet-hypernym", "bibtex")),
    Step("spectral_tree_2015/table_7.py"),
    Step("spectral_tree_2015/discussion.py"),
    Step("online_tree_2013/table_1.py"),
    Step("mlom_tree_2018/table_1.py"),
    Step("mlom_tree_2018/figures_1_to_3.py"),
    Step("mlom_tree_2018/time_per_sample.py"),
    Step("theory/theorem_2.py"),
    Step("theory/proposition_1.py"),
    Step("theory/remarks.py"),
)


def run(step: Step, quick: bool, limit: float) -> Outcome:
    """Run one script, its output passed on line by line, in a process group that ends with it."""
    command = [sys.executable, str(HERE / step.script), *(["--quick"] if quick else []), *step.options]
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    lines, late = [], threading.Event()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True, encoding="utf-8",
        errors="replace", env={**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONIOENCODING": "utf-8"},
    ) as process:  # fmt: skip
        timer = threading.Timer(limit, lambda: (late.set(), end(process)))
        timer.start()
        try:
            assert process.stdout is not None
            for line in process.stdout:
                print(line, end="", flush=True)
                lines.append(line.strip())
            status = process.wait()
        finally:
            timer.cancel()
            if process.poll() is None:
                end(process)
    state, reason = judge(status, lines, late.is_set(), limit)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Outcome(step, state, time.perf_counter() - start, reason, processor)


def end(process: subprocess.Popen) -> None:
    """Stop a script and all that it started; nothing where it is over."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def judge(status: int, lines: list[str], late: bool, limit: float) -> tuple[str, str]:
    """The state of a script that has ended, and why. Scripts write "skipped" where data is not there, and end well."""
    if late:
        return LATE, f"stopped after {limit:.0f} s"
    if status:
        return FAILED, next((line for line in reversed(lines) if line), f"exit status {status}")
    skipped = [line for line in lines if line.startswith("skipped") or " skipped: " in line]
    if not skipped:
        return DONE, ""
    # A table has a line of dashes under its head.
    wrote = any(line and set(line) <= {"-", " "} for line in lines)
    return (PARTLY if wrote else NO_DATA), skipped[0]


def report(outcomes: list[Outcome], missing: list[str]) -> int:
    """Print what became of all; the exit status."""
    print("\nStep by step\n")
    for outcome in outcomes:
        tail = f"  {outcome.reason}" if outcome.reason else ""
        print(f"{outcome.seconds:8.0f} s  {outcome.state:16}  {outcome.step.script}{tail}")
    print(f"{sum(outcome.seconds for outcome in outcomes):8.0f} s  in all")
    if missing:
        print(f"\nWithout a table on the page: {', '.join(missing)}")
    return int(any(outcome.state in (FAILED, LATE) for outcome in outcomes))


def remember(outcomes: list[Outcome]) -> None:
    """Keep when each script was last run, how long it took and what became of it, for the page and for --list."""
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    runs = read_runs(HERE)
    for one in outcomes:
        took = {"seconds": round(one.seconds), "processor": round(one.processor)}
        runs[one.step.script] = {**took, "state": one.state, "date": now}
    runs = {step.script: runs[step.script] for step in STEPS if step.script in runs}
    (HERE / RUNS).write_text(json.dumps(runs, indent=1) + "\n", encoding="utf-8")


def options(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--quick", action="store_true", help="small slices, minutes; the page goes to reproduce/quick")
    add("--page-only", action="store_true", help="run nothing, write the page from the results that are there")
    add("--only", nargs="+", metavar="TEXT", help="run the scripts whose path holds one of these")
    add("--page", type=Path, help="where the page goes (docs/reproduction.md)")
    add("--limit", type=float, help=f"seconds for one script ({LIMIT:.0f}; {QUICK_LIMIT:.0f} with --quick)")
    add("--list", action="store_true", help="list the scripts with the seconds they took last")
    args = parser.parse_args(argv)
    if args.limit is not None and not 0 < args.limit < math.inf:
        parser.error(f"--limit must be more than 0 and finite, got {args.limit:g}")
    args.steps = [step for step in STEPS if not args.only or any(text in step.script for text in args.only)]
    if not args.steps:
        parser.error(f"--only {' '.join(args.only)}: no script has this in its path; --list shows them")
    return args


def main(argv: list[str] | None = None) -> int:
    """Run what is asked for; 1 if a script failed, 130 if it was interrupted, else 0."""
    args = options(argv)
    steps = args.steps
    if args.list:
        took = {script: run["seconds"] for script, run in read_runs(HERE).items()}
        for step in steps:
            print(f"{took.get(step.script, math.nan):6.0f} s  {' '.join([step.script, *step.options])}")
        print(f"{sum(took.get(step.script, math.nan) for step in steps):6.0f} s  in all")
        return 0
    page = args.page or (HERE / "quick" / "reproduction.md" if args.quick else HERE.parent / "docs" / "reproduction.md")
    outcomes, interrupted = [], False
    if not args.page_only:
        limit = args.limit or (QUICK_LIMIT if args.quick else LIMIT)
        for i, step in enumerate(steps, 1):
            print(f"\n== {i} of {len(steps)}: {' '.join([step.script, *step.options])}", flush=True)
            try:
                outcomes.append(run(step, args.quick, limit))
            except KeyboardInterrupt:
                print(f"\ninterrupted in {step.script}; --only runs some of the scripts", file=sys.stderr)
                interrupted = True
                break
            print(f"== {outcomes[-1].state} after {outcomes[-1].seconds:.0f} s", flush=True)
    if outcomes and not args.quick:
        remember(outcomes)
    missing = write_page(HERE, page, args.quick)
    if not args.quick and not args.page:
        fill_pages(HERE.parent)
    print(f"\nPage: {os.path.relpath(page)}")
    status = report(outcomes, missing)
    return 130 if interrupted else status


if __name__ == "__main__":
    sys.exit(main())
