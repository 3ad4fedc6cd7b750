"""A large CSV file that is sorted by label, trained in little memory, killed and resumed.

    python reproduce/files/sorted.py                # 2 GB in 1 GB; 15 GB of free disk; hours
    python reproduce/files/sorted.py --size 0.1     # a quick look

Made-up texts of many classes are written twice to a temporary folder, sorted by label and in random order. `manyclass
train` then runs in processes whose data may not take more than `--memory` (RLIMIT_DATA); one of them is killed and
resumed. The script prints the largest resident memory of each run, the accuracy on other rows, and whether the bytes
are the same.
"""

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

N_WORDS, N_OWN, LENGTH = 10_000, 30, 40  # words of all texts, of a class, and of a row
BLOCK = 1 << 13  # rows written together
N_TEST = 5_000


def mixed(numbers: np.ndarray) -> np.ndarray:
    """Random numbers that depend on nothing but the given ones (splitmix64)."""
    z = (numbers.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def texts(rows: np.ndarray, n_classes: int) -> tuple[np.ndarray, list[str]]:
    """Labels and texts of some rows. A tenth of the words of a row is of its class."""
    labels = (mixed(rows) % np.uint64(n_classes)).astype(np.int64)
    places = rows[:, None] * LENGTH + np.arange(LENGTH)
    random = mixed(places + (1 << 40))
    own = labels[:, None] * N_OWN + (random % np.uint64(N_OWN)).astype(np.int64)
    common = (N_WORDS * ((random >> np.uint64(11)) / 2**53) ** 3).astype(np.int64)  # some are frequent
    words = np.where(mixed(places) % np.uint64(10) == 0, (mixed(own) % np.uint64(N_WORDS)).astype(np.int64), common)
    return labels, [" ".join(f"w{word:x}" for word in row) for row in words.tolist()]


def write(path: Path, order: np.ndarray, n_classes: int) -> None:
    """A CSV file of the given rows, in this order."""
    with open(path, "w") as file:
        file.write("label,text\n")
        for first in range(0, len(order), BLOCK):
            labels, lines = texts(order[first : first + BLOCK], n_classes)
            file.writelines(f"c{label},{text}\n" for label, text in zip(labels.tolist(), lines, strict=True))


class Runs:
    """Runs of `manyclass train` in bounded memory."""

    def __init__(self, folder: Path, memory: float, rows_memory: float, checkpoint: int) -> None:
        self.folder, self.n_bytes = folder, int(memory * 2**30)
        self.options = ["--label=label", "--text=text", "--epochs=1", f"--row-memory={rows_memory}GB", "--json"]
        self.options += [f"--checkpoint-every={checkpoint}", f"--test={folder / 'test.csv'}"]

    def start(self, data: str, model: str, *more: str) -> subprocess.Popen:
        """Start a run."""
        words = ["train", str(self.folder / data), f"--model={self.folder / model}", *self.options, *more]
        with open(self.folder / "out", "w") as out, open(self.folder / "err", "w") as err:
            return subprocess.Popen(
                [sys.executable, "-m", "manyclass", *words], stdout=out, stderr=err,
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (self.n_bytes, self.n_bytes)),
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
            )  # fmt: skip

    def finish(self, run: subprocess.Popen) -> dict[str, Any]:
        """What the run prints, with its largest resident memory in bytes."""
        _, status, usage = os.wait4(run.pid, 0)
        run.returncode = os.waitstatus_to_exitcode(status)
        if run.returncode:
            raise SystemExit(f"manyclass train failed with exit code {run.returncode}:\n{self.errors()}")
        return {**json.loads((self.folder / "out").read_text()), "peak": usage.ru_maxrss * 1024}

    def errors(self) -> str:
        """What the last run has written on standard error."""
        return (self.folder / "err").read_text()

    def killed(self, data: str, model: str) -> None:
        """Kill a run as soon as it has written a checkpoint."""
        run = self.start(data, model)
        checkpoint = self.folder / f"{model}.checkpoint"
        while not checkpoint.exists() and run.poll() is None:
            time.sleep(0.05)
        if run.poll() is not None:
            raise SystemExit(f"the run ended before its first checkpoint:\n{self.errors()}")
        run.send_signal(signal.SIGKILL)
        run.wait()


def main() -> None:
    """Write the files, train and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--size", type=float, default=2.0, metavar="GB", help="size of the file")
    parser.add_argument("--memory", type=float, default=1.0, metavar="GB", help="limit of a process")
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--folder", help="where the temporary folder is made; a memory file system would not do")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        write(folder / "test.csv", np.arange(N_TEST) + (1 << 34), options.classes)
        per_row = (folder / "test.csv").stat().st_size / N_TEST
        rows = np.arange(int(options.size * 1e9 / per_row))
        by_label = rows[np.argsort(mixed(rows) % np.uint64(options.classes), kind="stable")]
        write(folder / "sorted.csv", by_label, options.classes)
        write(folder / "shuffled.csv", np.random.default_rng(0).permutation(rows), options.classes)
        size = (folder / "sorted.csv").stat().st_size / 1e9
        print(f"{len(rows):,} rows, {size:.2f} GB, {options.classes:,} classes; limit {options.memory} GB", flush=True)
        runs = Runs(folder, options.memory, min(options.memory / 8, size / 8), max(1000, len(rows) // 4))
        for data in ("sorted", "shuffled"):
            found = runs.finish(runs.start(f"{data}.csv", data))
            accuracy, peak = 100 * found["test"]["accuracy"], found["peak"] / 2**30
            print(f"{data:>9}: {accuracy:.2f} % accuracy, peak {peak:.2f} GB, {found['algorithm']}", flush=True)
        runs.killed("sorted.csv", "resumed")
        found = runs.finish(runs.start("sorted.csv", "resumed", "--resume"))
        same = (folder / "resumed").read_bytes() == (folder / "sorted").read_bytes()
        print(f"  resumed: {'the same bytes' if same else 'OTHER BYTES'}, peak {found['peak'] / 2**30:.2f} GB")
        if not same:
            raise SystemExit(1)


if __name__ == "__main__":
    main()
