"""Kill `manyclass train` at random moments, resume, and compare with an undisturbed run.

    python reproduce/files/kills.py [--kills 200] [--writers 1] [--full 10] [--algorithms ...] [--seed 0] [--out FILE]

A run is killed by SIGKILL again and again until it ends by itself; its model must then be, byte for byte, that of a run
that nobody disturbed. With `--writers 2`, two processes write the same model at the same time: one of them must be
refused. `--full`: so many runs whose files may not become larger than a random size, as on a full disk; each must fail
with an error, leave the old model, and give the same bytes when it is resumed without the limit. The spectral tree and
the label tree out of core (all rows in a temporary file) have no checkpoints and start again.
"""

import argparse
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

CHECKPOINTS = ("--checkpoint-every", "1500", "--resume")
OPTIONS = {
    "recall-tree": CHECKPOINTS,
    "label-tree": CHECKPOINTS,
    "one-against-all": CHECKPOINTS,
    "lom-tree": CHECKPOINTS,
    "mlom-tree": CHECKPOINTS,
    "spectral-tree": (),
    "label-tree-out-of-core": ("--row-memory", "500kB"),
}
REFUSED = "is being written by another process"


def write_data(path: Path, n_rows: int, n_classes: int, seed: int) -> None:
    """Rows of 20 features, half of which depend on the class."""
    rng = np.random.default_rng(seed)
    own = rng.integers(1, 50_000, (n_classes, 40))
    with open(path, "w") as file:
        for _ in range(n_rows):
            label = int(n_classes * rng.random() ** 2)
            features = np.unique(np.concatenate([rng.choice(own[label], 10), rng.integers(1, 50_000, 10)]))
            file.write(f"{label} " + " ".join(f"{f}:{rng.random():.3f}" for f in features) + "\n")


class Runs:
    """All runs of one algorithm on one data file."""

    def __init__(self, algorithm: str, data: Path, chance: random.Random):
        self.folder, self.counts, self.chance = data.parent, Counter[str](), chance
        options = ["--algorithm", algorithm.removesuffix("-out-of-core"), "--features", "4096", "--epochs", "2"]
        options += OPTIONS[algorithm]
        self.command = [sys.executable, "-m", "manyclass", "train", str(data), *options]
        self.older = self.undisturbed("older", "--seed", "1")  # compiles
        self.expected = self.undisturbed("first")
        begun = time.perf_counter()
        assert self.undisturbed("second") == self.expected, "two undisturbed runs differ"
        self.seconds = (time.perf_counter() - begun) / 2

    def undisturbed(self, name: str, *options: str) -> bytes:
        model = self.folder / name
        subprocess.run([*self.command, "--model", str(model), *options], check=True, capture_output=True)
        return self.taken(model)

    def taken(self, model: Path) -> bytes:
        """The bytes of a model, which is removed; all other files of its run must be gone."""
        content = model.read_bytes()
        model.unlink()
        left = [path.name for path in self.folder.iterdir() if model.name in path.name]
        self.counts["files left behind"] += len(left)
        return content

    def compare(self, model: Path) -> None:
        same = self.taken(model) == self.expected
        self.counts["same bytes" if same else "OTHER BYTES"] += 1

    def start(self, model: Path, limit: int | None = None) -> subprocess.Popen:
        """A run whose files may have at most `limit` bytes."""

        def restrict() -> None:
            if limit is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

        command = [*self.command, "--model", str(model)]
        return subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, preexec_fn=restrict
        )

    @staticmethod
    def wait_for_lock(model: Path, processes: list[subprocess.Popen]) -> None:
        """Wait until a process has locked the model, or all have ended."""
        beside = model.with_name(f".{model.name}.lock")
        while any(process.poll() is None for process in processes):
            try:
                if f":{beside.stat().st_ino} " in Path("/proc/locks").read_text():
                    return
            except FileNotFoundError:
                pass
            time.sleep(0.002)

    def kill_until_it_ends(self, n_writers: int, n_kills: int) -> None:
        """One run, killed at random moments until a process comes to its end.

        All moments are after a process has locked the model. `seconds` follows the speed of the machine: about five of
        six processes are killed.
        """
        model = self.folder / f"model-{self.counts['runs']}"
        self.counts["runs"] += 1
        ended = False
        while not ended:
            killed = False
            processes = [self.start(model) for _ in range(n_writers)]
            if self.counts["kills"] < n_kills:
                self.wait_for_lock(model, processes)
                begun = time.monotonic()
                moments = sorted(begun + self.seconds * self.chance.random() for _ in processes)
                for process, moment in zip(processes, moments, strict=True):
                    try:
                        process.wait(max(0.0, moment - time.monotonic()))
                    except subprocess.TimeoutExpired:
                        os.kill(process.pid, signal.SIGKILL)
                        killed = True
                        self.counts["kills"] += 1
                        self.seconds *= 1.02
                        self.counts["kills with a checkpoint there"] += Path(f"{model}.checkpoint").exists()
            for process in processes:
                _, errors = process.communicate()
                if process.returncode == 1 and REFUSED in errors:
                    self.counts["second writers refused"] += 1
                elif process.returncode == 0:
                    ended = True
                    self.seconds *= 0.9
                elif process.returncode != -signal.SIGKILL:
                    raise SystemExit(f"train failed:\n{errors}")
        if killed:  # the second writer, after the first had ended: the next run removes what it has left
            self.start(model).communicate()
        self.compare(model)

    def fill_the_disk(self) -> None:
        """One run that cannot write its files, then one that can."""
        model = self.folder / f"model-{self.counts['runs']}"
        self.counts["runs"] += 1
        model.write_bytes(self.older)
        process = self.start(model, self.chance.randrange(len(self.expected)))
        _, errors = process.communicate()
        unchanged = process.returncode == 1 and "could not be written" in errors
        unchanged = unchanged and model.read_bytes() == self.older
        self.counts["disk full: refused, old model unchanged" if unchanged else "DISK FULL: WRONG"] += 1
        self.start(model).communicate()
        self.compare(model)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--writers", type=int, default=1)
    parser.add_argument("--full", type=int, default=10)
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="write the counts to this file (JSON) after each algorithm")
    parser.add_argument("--algorithms", nargs="*", default=list(OPTIONS), choices=list(OPTIONS))
    asked = parser.parse_args()
    chance, failed, found = random.Random(asked.seed), False, {}
    n = len(asked.algorithms)
    with tempfile.TemporaryDirectory() as name:
        data = Path(name) / "data.svm"
        write_data(data, asked.rows, 300, asked.seed)
        for number, algorithm in enumerate(asked.algorithms):
            runs = Runs(algorithm, data, chance)
            n_kills, n_full = ((total + number) // n for total in (asked.kills, asked.full))
            while runs.counts["kills"] < n_kills:
                runs.kill_until_it_ends(asked.writers, n_kills)
            for _ in range(n_full):
                runs.fill_the_disk()
            print(f"{algorithm}: {dict(runs.counts)}", flush=True)
            found[algorithm] = dict(runs.counts)
            if asked.out is not None:
                report = {"writers": asked.writers, "rows": asked.rows, "algorithms": found}
                asked.out.write_text(json.dumps(report, indent=2) + "\n")
            failed |= bool(runs.counts["OTHER BYTES"] or runs.counts["DISK FULL: WRONG"])
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
