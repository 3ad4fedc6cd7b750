"""The page of the reproduction, docs/reproduction.md, written from the tables in the results folders."""

import csv
import json
import os
import re
import subprocess
from pathlib import Path

from benchmarks.tables import markdown_table

# paper: (folder, its tables in order, as (heading, name of the result, script)). What else lies in a folder of results
# comes after them.
PAPERS = {
    "Logarithmic Time One-Against-Some (Recall Tree, 2017)": (
        "recall_tree_2017",
        [
            ("Figure 3: what a tree and what one-against-all can represent", "figure_3", "figure_3.py"),
            ("Figure 4: error, time and space", "figure_4", "figure_4.py"),
            ("Figure 4, ALOI: the paper's settings and the best found", "aloi", "aloi.py"),
            ("Figure 5a: in order against permuted", "in_order", "in_order.py"),
            (
                "Figure 5b: candidates and path features",
                "candidates_and_path_features",
                "candidates_and_path_features.py",
            ),
            ("§4.5: the multiplier of the bound", "bernstein", "bernstein.py"),
            ("Rules as printed, one by one", "printed_rules", "printed_rules.py"),
        ],
    ),
    "A Hierarchical Spectral Method for Extreme Classification (2015)": (
        "spectral_tree_2015",
        [
            ("Table 1: data sets and root", "table_1", "table_1.py"),
            ("Table 2: what nodes are about, WordNet", "topics-wordnet-hypernym", "topics.py"),
            ("Table 2: what nodes are about, revdict", "topics-revdict", "topics.py"),
            ("Table 3: purity of the root", "table_3", "aloi.py"),
            ("Table 4 and §5.2: ALOI and ablations", "table_4", "aloi.py"),
            ("§3.4: the spread of a router", "spread", "spread.py"),
            ("Table 5: text, one label per row", "table_5", "tables_5_and_6.py"),
            ("Table 6: text, several labels per row", "table_6", "tables_5_and_6.py"),
            ("Table 7: precision against speed", "table_7", "table_7.py"),
            ("§5 and §6: depth, head classes, a learned map, the filter alone", "discussion", "discussion.py"),
            ("Search of rates and epochs for Tables 4 to 7", "search", "search.py"),
        ],
    ),
    "Extreme Multi Class Classification (online tree, 2013)": (
        "online_tree_2013",
        [
            ("Table 1: root split against random partitions", "table_1", "table_1.py"),
        ],
    ),
    "Modified Logarithmic Time Online Multiclass Train and Prediction (MLOM tree, 2018)": (
        "mlom_tree_2018",
        [
            ("Table 1: data sets", "table_1", "table_1.py"),
            ("Figures 1 to 3: time and accuracy", "figures_1_to_3", "figures_1_to_3.py"),
            ("Figure 4: time spent on a sample", "time_per_sample", "time_per_sample.py"),
            ("Test errors beside the LOM paper's", "errors", "errors.py"),
            ("Depth of the trees", "depth", "depth.py"),
        ],
    ),
    "Theory": (
        "theory",
        [
            ("Theorem 2 of the Recall Tree paper", "theorem_2", "theorem_2.py"),
            ("Proposition 1 of the Recall Tree paper", "proposition_1", "proposition_1.py"),
            ("Remarks of the Recall Tree paper", "remarks", "remarks.py"),
        ],
    ),
}
INTRODUCTION = """\
# The papers, rerun

Written by `make reproduce` from the tables in `reproduce/*/results` and from `reproduce/conclusions.md`, whose figures
are filled in from the same tables. Under each heading: the table with the paper's number and ours, when and where it
was measured, the plot. Differences of rates are in points. Two models on the same test rows are compared by McNemar's
exact test, with the interval of Bonett and Price. A number of a paper is compared by the N − 1 chi-squared test, with
Newcombe's interval. A table whose script has changed since it was measured says so. Other programs may have run at the
same time, so seconds are upper bounds; speed is measured by `make bench`. `python reproduce/all.py --page-only` writes
the page anew without running anything.
"""
BEYOND = "Beyond the papers"
CONCLUSIONS = "conclusions.md"  # written by hand; its figures are filled in (figures.py)
RUNS = "runs.json"  # what became of each script when it was last run
WHOLE = "all, two at a time"  # the last run of all scripts


def write_page(root: Path, page: Path, quick: bool = False) -> list[str]:
    """Write the page from the results below `root`.

    Parameters
    ----------
    root : path
        The folder that holds `recall_tree_2017/results` and so on.
    page : path
        The Markdown file; its folder is made if needed.
    quick : bool, default=False
        Take the results of small slices, in `results/quick`.

    Returns
    -------
    list of str
        Results that the page lacks because no table was found, as "folder/name".
    """
    page.parent.mkdir(parents=True, exist_ok=True)
    parts, missing, shown = [INTRODUCTION], [], set()
    if quick:
        parts.append("**Small slices: this page shows that the scripts run; its numbers mean nothing.**\n")
    elif (root / CONCLUSIONS).exists():
        parts.append((root / CONCLUSIONS).read_text(encoding="utf-8").replace("](../docs/", "]("))
    for title, (folder, wanted) in PAPERS.items():
        parts.append(f"## {title}\n")
        for heading, name, script in wanted:
            path = results_of(root, folder, quick) / f"{name}.csv"
            shown.add(path)
            if path.exists():
                parts.append(section(heading, path, page, f"reproduce/{folder}/{script}"))
            else:
                missing.append(f"{folder}/{name}")
                parts.append(f"### {heading}\n\nNot run yet: `python reproduce/{folder}/{script}`.\n")
    pattern = "*/results/quick/*.csv" if quick else "*/results/*.csv"
    found = [*root.glob(pattern), *(root.parent / "benchmarks").glob(pattern)]
    rest = sorted((path for path in found if path not in shown), key=lambda path: path.parts[-4:])
    if rest:
        parts.append(f"## {BEYOND}\n")
        parts += [section(title_of(path), path, page) for path in rest]
    if not quick:
        parts += runs_of(root)
    page.write_text("\n".join(parts), encoding="utf-8")
    return missing


def read_runs(root: Path) -> dict[str, dict]:
    """{script: seconds, processor time, state and date of its last run}, as `all.py` wrote it."""
    path = root / RUNS
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def runs_of(root: Path) -> list[str]:
    """The section on how long the scripts took."""
    runs = read_runs(root)
    if not runs:
        return []
    keys = ("state", "seconds", "processor", "date")
    lines = [f"| {script} | {' | '.join(str(run[key]) for key in keys)} |" for script, run in runs.items()]
    head = ["| script | state | seconds | seconds of processor time | run ended |", "| --- | --- | ---: | ---: | --- |"]
    return ["## The run\n", *head, *lines, ""]


def results_of(root: Path, folder: str, quick: bool) -> Path:
    """Where the tables of a folder are."""
    return root / folder / "results" / ("quick" if quick else "")


def section(heading: str, path: Path, page: Path, script: str | None = None) -> str:
    """Heading, table, notes, origin and plot of one result."""
    if script is None:
        script = folder_of(path)  # which of its scripts is not known
    lines = [f"### {heading}\n", table(path), "", *notes_of(path), f"*{origin(path, script)} From `{script}`.*\n"]
    plot = path.with_suffix(".png")
    if plot.exists():
        lines.append(f"![{heading}]({Path(os.path.relpath(plot, page.parent)).as_posix()})\n")
    return "\n".join(lines)


def folder_of(path: Path) -> str:
    """The folder of the scripts whose results hold a table."""
    parents = [parent for parent in path.parents if parent.name == "results"]
    return f"{parents[0].parent.parent.name}/{parents[0].parent.name}"


def table(path: Path) -> str:
    """A CSV file as a Markdown table."""
    with open(path, newline="", encoding="utf-8") as file:
        head, *rows = list(csv.reader(file))
    return markdown_table(head, rows)


def notes_of(path: Path) -> list[str]:
    """What the Markdown beside the table says besides the table, as paragraphs."""
    beside = path.with_suffix(".md")
    if not beside.exists():
        return []
    paragraphs = re.split(r"\n\s*\n", beside.read_text(encoding="utf-8").strip())
    return [f"{text.strip()}\n" for text in paragraphs if not text.startswith(("#", "|"))]


def title_of(path: Path) -> str:
    """The title in the Markdown beside a table, or its name."""
    beside = path.with_suffix(".md")
    first = beside.read_text(encoding="utf-8").splitlines()[0] if beside.exists() else ""
    return first.removeprefix("#").strip() or path.stem


def changed_since(commit: str, path: Path, script: str) -> bool:
    """Whether git has another version of a table's script than at the commit at which the table was measured."""
    if not script.endswith(".py"):
        return False  # which of the scripts of a folder is not known
    root = next(parent for parent in path.parents if parent.name == "results").parents[2]
    command = ["git", "-C", str(root), "diff", "--quiet", commit.rstrip("+"), "HEAD", "--", script]
    try:
        return subprocess.run(command, capture_output=True).returncode == 1  # 128: the commit is not known
    except OSError:
        return False


def origin(path: Path, script: str) -> str:
    """When, by which sources and where a table was measured; older tables only have their commit."""
    beside = path.with_suffix(".json")
    if beside.exists():
        told = json.loads(beside.read_text(encoding="utf-8"))
        when = f"Measured {told['date']}, commit {told['commit']}, {told['machine']}, Python {told['python']}."
        return when + (" The script has changed since." if changed_since(told["commit"], path, script) else "")
    try:
        command = ["git", "-C", str(path.parent), "log", "--follow", "--diff-filter=AM", "-1"]
        command += ["--format=%cs, commit %h", "--", path.name]
        done = subprocess.run(command, capture_output=True, text=True)
    except OSError:
        return "Date, commit and machine are not known."
    if done.returncode or not done.stdout.strip():
        return "Date, commit and machine are not known."
    return f"Committed {done.stdout.strip()}; machine not recorded."
