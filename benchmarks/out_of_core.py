"""Training from files that are larger than the memory.

    python benchmarks/out_of_core.py --text 0.3 --limit 0.8      0.3 GB of text, sorted by label, in 0.8 GB of memory
    MANYCLASS_DATA=... python benchmarks/out_of_core.py --set debian-contents --limit 2      a set, mapped from files

`manyclass train --max-memory ...`, nine tenths of the limit, runs in a control group with limited memory; with
`--set`, `LabelTreeClassifier(max_memory=...).fit` on arrays that are mapped from files. The limit includes what the
system keeps of files, which it drops when the group needs the memory. Without the permission to make such a group
(Linux, usually root), only the peak of the memory that cannot be dropped is printed.

Text is then trained a second time, killed after half of the time and started again: the bytes must be the same, and no
temporary file may be left.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import scipy.sparse as sp

ROOT = Path(__file__).resolve().parents[1]
sys.path[0] = str(ROOT)  # of the repository: `benchmarks` is not installed

from benchmarks.sets import folder_rows  # noqa: E402
from manyclass import LabelTreeClassifier  # noqa: E402

GROUPS = Path("/sys/fs/cgroup")
N_WORDS = 40


def write(path: Path, n_bytes: float, n_classes: int, seed: int, ordered: bool) -> int:
    """Write a table of labels and texts; returns the number of rows."""
    rng, n_rows = np.random.default_rng(seed), 0
    vocabulary = np.array([f"w{i:06d}" for i in range(200_000)])
    with open(path, "w", encoding="utf-8") as file:
        file.write("label,text\n")
        per_class = int(n_bytes / (8 * N_WORDS + 10) / n_classes) + 1
        for label in range(n_classes) if ordered else [None]:
            n = per_class if ordered else int(n_bytes / (8 * N_WORDS + 10))
            labels = np.full(n, label) if ordered else rng.integers(n_classes, size=n)
            own = (labels[:, None] * 37 + rng.integers(30, size=(n, 8))) % 150_000
            words = np.concatenate([own, rng.zipf(1.3, size=(n, N_WORDS - 8)) % 200_000], axis=1)
            for one, row in zip(labels.tolist(), vocabulary[words].tolist(), strict=True):
                file.write(f"class {one},{' '.join(row)}\n")
            n_rows += n
    return n_rows


class Group:
    """A control group with limited memory, if we may make one."""

    def __init__(self, limit: int):
        version_1 = (GROUPS / "memory").is_dir()
        self.folder = (GROUPS / "memory" if version_1 else GROUPS) / f"manyclass-{os.getpid()}"
        try:
            self.folder.mkdir()
            name = "memory.limit_in_bytes" if version_1 else "memory.max"
            (self.folder / name).write_text(str(limit))
        except OSError as error:
            if self.folder.is_dir():
                self.folder.rmdir()
            print(f"no control group ({error}): the memory is measured, not limited")
            self.folder = None

    def enter(self) -> None:
        """Move this process into the group."""
        if self.folder is not None:
            (self.folder / "cgroup.procs").write_text(str(os.getpid()))

    def remove(self) -> None:
        """Remove the group when its processes have ended."""
        if self.folder is not None:
            self.folder.rmdir()


def anonymous(pid: int) -> int:
    """Bytes of memory of a process that are not parts of files."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith(("RssAnon:", "VmSwap:")))


def write_arrays(name: str, folder: Path) -> None:
    """Write a set as files of single arrays, which can be mapped."""
    X, y, X_test, y_test = folder_rows(name)
    print(f"{name}: {X.shape[0]:,} rows, {y.max() + 1:,} classes, {X.nnz:,} values", flush=True)
    for key, array in zip(("data", "indices", "indptr", "y"), (X.data, X.indices, X.indptr, y), strict=True):
        np.save(folder / key, array)
    sp.save_npz(folder / "test.npz", X_test, compressed=False)
    np.save(folder / "y_test", y_test)


def fit_arrays(folder: Path, limit: float, n_jobs: int) -> None:
    """Train on mapped arrays, and print the result as `manyclass train --json` does."""
    files = (folder / f"{key}.npy" for key in ("data", "indices", "indptr", "y"))
    data, indices, indptr, y = (np.load(file, mmap_mode="r") for file in files)
    X_test, y_test = sp.load_npz(folder / "test.npz"), np.load(folder / "y_test.npy")
    X = sp.csr_array((data, indices, indptr), shape=(len(y), X_test.shape[1]), copy=False)
    model = LabelTreeClassifier(max_memory=f"{int(900 * limit)}MB", n_jobs=n_jobs, random_state=0).fit(X, y)
    accuracy = float(np.mean(model.predict(X_test) == y_test))
    model.save(folder / "model")
    LabelTreeClassifier(n_epochs=1, random_state=0).fit(X_test[:50], y_test[:50] % 5).save(folder / "small")
    print(json.dumps({"algorithm": "label-tree", "test": {"accuracy": accuracy}, "bytes": model.n_bytes_}))


def measure(command: list[str], folder: Path, limit: float, kill_after: float = float("inf")) -> float:
    """Run the command in a control group, and print what it took unless it is killed. Returns the seconds."""
    group = Group(int(limit * 1e9))
    begun, peak = time.perf_counter(), 0
    environment = {**os.environ, "TMPDIR": str(folder)}
    child = subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, preexec_fn=group.enter
    )
    while child.poll() is None:
        peak = max(peak, anonymous(child.pid))
        time.sleep(0.05)
        if time.perf_counter() - begun > kill_after:
            child.kill()
    seconds, out = time.perf_counter() - begun, child.stdout.read()
    group.remove()
    if kill_after < seconds:
        return seconds
    if child.returncode:
        sys.exit(f"training ended with {child.returncode}: {out}")
    found = json.loads(out)
    accuracy, n_bytes = found["test"]["accuracy"], found["bytes"]
    print(f"{found['algorithm']}, {seconds:.0f} s, accuracy {accuracy:.4f}, {n_bytes:,} bytes")
    print(f"peak of memory that is not part of a file: {peak / 1e9:.2f} GB; limit: {limit:g} GB", flush=True)
    return seconds


def kill_and_repeat(command: list[str], folder: Path, limit: float, seconds: float) -> None:
    """Kill a training of so many seconds, start it again, and compare the result with that of the first one."""
    model, first = folder / "m", folder / "first"
    model.rename(first)
    known = set(folder.iterdir())
    killed_after = measure(command, folder, limit, seconds / 2)
    left = sorted(path.name for path in set(folder.iterdir()) - known)
    measure(command, folder, limit)
    still = sorted(path.name for path in set(folder.iterdir()) - known - {model})
    same = "the same bytes" if model.read_bytes() == first.read_bytes() else "OTHER BYTES"
    print(f"killed after {killed_after:.0f} s, which left {left}; started again: {same}, files left: {still}")
    if same != "the same bytes" or still:
        sys.exit(1)


def answer(folder: Path) -> None:
    """Print how much memory predictions take beside the size of the model file, which is mapped."""
    script, model, small = ROOT / "reproduce" / "files" / "memory.py", folder / "model", folder / "small"
    command = [sys.executable, str(script), "--load", str(model), str(small), ""]
    found, size = json.loads(subprocess.check_output(command, text=True)), model.stat().st_size
    print(f"file: {size / 1e6:.0f} MB; loading it and 1,000 predictions add {found['answered'] / 1e6:.0f} MB of memory")


def main() -> None:
    """Print what one training took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=float, default=0.3, help="GB of training text")
    parser.add_argument("--set", help="a folder in MANYCLASS_DATA, instead of text")
    parser.add_argument("--limit", type=float, default=0.8, help="GB of memory")
    parser.add_argument("--rows", type=float, default=0.1, help="GB of rows in memory: --row-memory of the command")
    parser.add_argument("--classes", type=int, default=2000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--folder", type=Path, default=None, help="for the files; default: a temporary one")
    parser.add_argument("--fit", type=Path, help=argparse.SUPPRESS)  # the arrays, in the process that is measured
    options = parser.parse_args()
    if options.fit:
        return fit_arrays(options.fit, options.limit, options.threads)
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        if options.set:
            write_arrays(options.set, folder)
            own = ["--fit", name, "--limit", str(options.limit), "--threads", str(options.threads)]
            measure([sys.executable, str(Path(__file__).resolve()), *own], folder, options.limit)
            return answer(folder)
        n_rows = write(folder / "train.csv", options.text * 1e9, options.classes, 0, ordered=True)
        write(folder / "test.csv", 3e6, options.classes, 1, ordered=False)
        size = (folder / "train.csv").stat().st_size
        print(f"{size / 1e9:.2f} GB of text, {n_rows:,} rows sorted by label, {options.classes:,} classes", flush=True)
        command = [sys.executable, "-m", "manyclass", "train", "train.csv", "--label", "label", "--test", "test.csv"]
        command += ["--model", "m", "--json", "--row-memory", f"{options.rows}GB", "--threads", str(options.threads)]
        command += ["--max-memory", f"{int(900 * options.limit)}MB"]
        kill_and_repeat(command, folder, options.limit, measure(command, folder, options.limit))


if __name__ == "__main__":
    main()
