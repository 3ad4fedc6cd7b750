"""Rerun the papers, two scripts at a time, and write docs/reproduction.md. See --help.

A script that fails or takes too long is named at the end, as is one without its data; the others run all the same.
The output of a script is printed when it ends. Scripts that measure time run alone, after the others.
"""

import argparse
import contextlib
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
from figures import fill_pages  # noqa: E402
from page import RUNS, WHOLE, read_runs, write_page  # noqa: E402

DONE, NO_DATA, PARTLY, FAILED, LATE = "done", "no data", "done in part", "FAILED", "NOT DONE IN TIME"
LIMIT, QUICK_LIMIT = 1800.0, 600.0  # seconds for one script
AT_ONCE = 2  # scripts; most of them use one core


@dataclass(frozen=True)
class Step:
    """A script and its options."""

    script: str
    options: tuple[str, ...] = ()
    alone: bool = False  # it measures time

    @property
    def line(self) -> str:
        """The script and its options, as they are typed."""
        return " ".join([self.script, *self.options])


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
    Step("recall_tree_2017/figure_4.py", ("--sets", "ALOI", "ImageNet"), alone=True),
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
    Step("spectral_tree_2015/table_7.py", alone=True),
    Step("spectral_tree_2015/discussion.py"),
    Step("online_tree_2013/table_1.py"),
    Step("mlom_tree_2018/table_1.py"),
    Step("mlom_tree_2018/figures_1_to_3.py", alone=True),
    Step("mlom_tree_2018/time_per_sample.py", alone=True),
    Step("theory/theorem_2.py"),
    Step("theory/proposition_1.py"),
    Step("theory/remarks.py"),
)


class Script:
    """A script that runs, in a process group of its own."""

    def __init__(self, step: Step, quick: bool, limit: float) -> None:
        self.step, self.limit, self.start = step, limit, time.perf_counter()
        self.output = tempfile.TemporaryFile()
        command = [sys.executable, str(HERE / step.script), *(["--quick"] if quick else []), *step.options]
        env = {**os.environ, "PYTHONIOENCODING": "utf-8"}
        self.process = subprocess.Popen(
            command, stdout=self.output, stderr=subprocess.STDOUT, start_new_session=True, env=env
        )

    def outcome(self) -> Outcome | None:
        """What became of it, None while it runs; stops it at the limit."""
        seconds = time.perf_counter() - self.start
        late = seconds > self.limit
        if late:
            self.end()
        pid, status, used = os.wait4(self.process.pid, 0 if late else os.WNOHANG)
        if not pid:
            return None
        self.process.returncode = os.waitstatus_to_exitcode(status)
        self.output.seek(0)
        output = self.output.read().decode("utf-8", "replace")
        self.output.close()
        state, reason = judge(self.process.returncode, output.splitlines(), late, self.limit)
        print(f"\n== {self.step.line}\n{output}== {state} after {seconds:.0f} s", flush=True)
        return Outcome(self.step, state, seconds, reason, used.ru_utime + used.ru_stime)

    def end(self) -> None:
        """Stop the script and all that it started; nothing where it is over."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)


def run_all(steps: list[Step], quick: bool, limit: float) -> list[Outcome]:
    """Run the scripts; what became of them, without those that were interrupted."""
    outcomes: list[Outcome] = []
    waiting = sorted(steps, key=lambda step: step.alone)
    running: list[Script] = []
    try:
        while waiting or running:
            if waiting and len(running) < (1 if waiting[0].alone else AT_ONCE):
                print(f"started: {waiting[0].line}", flush=True)
                running.append(Script(waiting.pop(0), quick, limit))
                continue
            time.sleep(0.05)
            for script in tuple(running):
                if outcome := script.outcome():
                    outcomes.append(outcome)
                    running.remove(script)
    except KeyboardInterrupt:
        pass
    finally:
        for script in running:
            script.end()
            script.process.wait()
            script.output.close()
    return outcomes


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


def report(outcomes: list[Outcome], elapsed: float, missing: list[str]) -> int:
    """Print what became of all; the exit status."""
    print("\nStep by step\n")
    for outcome in outcomes:
        tail = f"  {outcome.reason}" if outcome.reason else ""
        print(f"{outcome.seconds:8.0f} s  {outcome.state:16}  {outcome.step.script}{tail}")
    print(f"{elapsed:8.0f} s  in all")
    if missing:
        print(f"\nWithout a table on the page: {', '.join(missing)}")
    return int(any(outcome.state in (FAILED, LATE) for outcome in outcomes))


def remember(outcomes: list[Outcome], elapsed: float) -> None:
    """Keep when each script was last run, how long it took and what became of it, for the page and for --list."""
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    runs = read_runs(HERE)
    for one in outcomes:
        took = {"seconds": round(one.seconds), "processor": round(one.processor)}
        runs[one.step.script] = {**took, "state": one.state, "date": now}
    if len(outcomes) == len(STEPS):
        processor = round(sum(one.processor for one in outcomes))
        state = DONE if all(one.state == DONE for one in outcomes) else PARTLY
        runs[WHOLE] = {"seconds": round(elapsed), "processor": processor, "state": state, "date": now}
    runs = {key: runs[key] for key in (*(step.script for step in STEPS), WHOLE) if key in runs}
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
            print(f"{took.get(step.script, math.nan):6.0f} s  {step.line}")
        print(f"{took.get(WHOLE, math.nan):6.0f} s  all, two at a time")
        return 0
    page = args.page or (HERE / "quick" / "reproduction.md" if args.quick else HERE.parent / "docs" / "reproduction.md")
    start = time.perf_counter()
    limit = args.limit or (QUICK_LIMIT if args.quick else LIMIT)
    outcomes = [] if args.page_only else run_all(steps, args.quick, limit)
    elapsed = time.perf_counter() - start
    if outcomes and not args.quick:
        remember(outcomes, elapsed)
    missing = write_page(HERE, page, args.quick)
    if not args.quick and not args.page:
        fill_pages(HERE.parent)
    print(f"\nPage: {os.path.relpath(page)}")
    status = report(outcomes, elapsed, missing)
    ended = [outcome.step for outcome in outcomes]
    if not args.page_only and (without := [step.script for step in steps if step not in ended]):
        print(f"\ninterrupted; not run to the end: {', '.join(without)}", file=sys.stderr)
        return 130
    return status


if __name__ == "__main__":
    sys.exit(main())
