"""Training from a file of texts with idf and pairs of words: `manyclass train` beside fastText on the same rows.

    python benchmarks/speed/text_files.py --peers folder [--threads 2] [--table debian-source]

The folder has the environments of other packages, as for benchmarks/race.py. The table is one of
benchmarks/exported_tables.py with a column of texts. Seconds are those of reading the file and training; `manyclass`
runs twice, since the first run compiles. fastText uses its own n-grams, without idf.
"""

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])  # of the repository: `benchmarks` is not installed

from benchmarks.exported_tables import TABLES, NotHere, Table, command, splits, write
from benchmarks.origin import machine
from benchmarks.peers import run_peer
from benchmarks.tables import markdown_table

OURS: dict[str, tuple[str, ...]] = {
    "manyclass train": (),
    "manyclass train --online": ("--online",),
}
FASTTEXT: dict[str, dict[str, Any]] = {
    "fastText": {"wordNgrams": 2},
    "fastText, hierarchical softmax": {"wordNgrams": 2, "loss": "hs"},
    "fastText, 25 epochs": {"wordNgrams": 2, "epoch": 25, "lr": 1.0},
}
WITH_TEXTS = ("debian-section-description", "debian-source")


def ours(table: Table, train: Any, test: Any, threads: int) -> dict[str, tuple[float, float]]:
    """(seconds, accuracy) of each of our commands."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        write(folder, train, test)
        words = ("train", "train.csv", "--label", table.label, "--text", table.text[0], "--ngrams", "2")
        for name, more in OURS.items():
            for _ in range(2):
                result = command(
                    folder, *words, *more, "--threads", str(threads), "--test", "test.csv", "--model", "m"
                )  # fmt: skip
            found[name] = result["seconds"], result["test"]["accuracy"]
    return found


def fasttext(table: Table, train: Any, test: Any, threads: int, folder: str) -> dict[str, tuple[float, float]]:
    """(seconds, accuracy) of fastText with several options."""
    classes = np.unique(np.concatenate([train[table.label], test[table.label]]).astype(str))
    X, X_test = (rows[table.text[0]].str.split().str.join(" ").to_numpy(object) for rows in (train, test))
    y, y_test = (np.searchsorted(classes, rows[table.label].to_numpy(str)) for rows in (train, test))
    found = {}
    for name, options in FASTTEXT.items():
        result = run_peer("fasttext", X, y, X_test, y_test, folder, options, k=1, threads=threads)
        found[name] = result.train_seconds, result.precision[1]
    return found


def main() -> None:
    """Measure and print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peers", required=True, help="folder of the environments of other packages")
    parser.add_argument("--table", choices=WITH_TEXTS, default="debian-source")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rows", type=int, help="training rows, at most")
    options = parser.parse_args()
    try:
        table = TABLES[options.table]()
    except NotHere as error:
        sys.exit(f"{options.table}: {error}")
    train, test = splits(table.data)[0]
    train, test = (rows.dropna() for rows in (train.iloc[: options.rows], test))
    found = ours(table, train, test, options.threads)
    found |= fasttext(table, train, test, options.threads, options.peers)
    print(f"{options.table}, {len(train):,} rows, {train[table.label].nunique():,} classes, {options.threads} threads, "
          f"{machine()['machine']}\n")  # fmt: skip
    rows = [[name, f"{s:.1f}", f"{len(train) / s:,.0f}", f"{100 * share:.2f}"] for name, (s, share) in found.items()]
    print(markdown_table(["", "seconds", "rows per second", "accuracy, %"], rows))


if __name__ == "__main__":
    main()
