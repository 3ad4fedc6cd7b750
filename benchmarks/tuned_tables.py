"""`manyclass tune` beside the default options, on rows that neither has seen.

    python benchmarks/tuned_tables.py                      # all tables of exported_tables.py that can be made here
    python benchmarks/tuned_tables.py unicode wine --rows 2000 --trials 8

`tune` gets training rows of a table, and the command that it prints is run on the same rows. The accuracy is that on
other rows of the table, and p that of McNemar's test between both models there. The number of trials limits the search,
not the time, so that the result does not depend on the machine.
"""

import argparse
import shlex
import sys
import tempfile
from pathlib import Path

import numpy as np

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])  # of the repository: `benchmarks` is not installed

from benchmarks.exported_tables import TABLES, NotHere, Table, command, splits, write
from benchmarks.tables import markdown_table, p_text

HEAD = ["table", "training rows", "classes", "defaults, %", "tuned, %", "difference", "p", "options"]


def measure(table: Table, n_rows: int, trials: int) -> tuple[list[str], float]:
    """A line of the table, and the difference in points."""
    train, test = splits(table.data)[0]
    train = train.iloc[:n_rows]
    plain = ["train", "train.csv", "--label", table.label, "--model", "plain"]
    with tempfile.TemporaryDirectory() as folder:
        write(folder, train, test)
        found = command(folder, "tune", "train.csv", "--label", table.label, f"--trials={trials}", "--minutes=600")
        words = shlex.split(found["command"])[1:]
        command(folder, *plain)
        command(folder, *words[:-1], "tuned")
        both = command(folder, "compare", "plain", "tuned", "test.csv")
    extra = shlex.join(words[len(plain) - 2 : -2])
    options = "the defaults stand" if found["defaults_stand"] else extra
    default, tuned = (100 * both[name]["accuracy"] for name in ("first", "second"))
    sizes = f"{len(train):,}", f"{train[table.label].nunique():,}"
    scores = f"{default:.2f}", f"{tuned:.2f}", f"{tuned - default:+.2f}", p_text(both["p_value"])
    return [*sizes, *scores, options], tuned - default


def main() -> None:
    """Measure and print a Markdown table, with the mean difference in its last line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", nargs="*", choices=[*TABLES, []], help="default: all")
    parser.add_argument("--rows", type=int, default=5000, help="training rows, at most")
    parser.add_argument("--trials", type=int, default=20, help="settings in the first round of the search")
    options = parser.parse_args()
    rows, differences = [], []
    for name in options.tables or TABLES:
        try:
            line, difference = measure(TABLES[name](), options.rows, options.trials)
        except NotHere as error:
            print(f"{name}: skipped, {error}", file=sys.stderr)
            continue
        rows.append([name, *line])
        differences.append(difference)
        print(" ".join(rows[-1]), file=sys.stderr, flush=True)
    if not rows:
        print("no table could be made")
        return
    print(markdown_table(HEAD, rows))
    print(f"\nMean difference: {np.mean(differences):+.2f} points.")


if __name__ == "__main__":
    main()
