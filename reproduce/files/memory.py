"""Memory: of a mapped model beside its file, and of `manyclass train` while it reads a large file.

    python reproduce/files/memory.py [--rows 3000000]

Each figure comes from a process of its own: resident memory after the step less that of the same process before it.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from manyclass import LabelTreeClassifier, OneAgainstAllClassifier, RecallTreeClassifier, load_model

MODELS = {
    "recall-tree": RecallTreeClassifier(n_epochs=1, random_state=0),
    "label-tree": LabelTreeClassifier(n_epochs=1, random_state=0),
    "one-against-all": OneAgainstAllClassifier(n_epochs=1, random_state=0),
}


def resident() -> int:
    """Bytes of this process that are in memory now."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def rows(n: int, n_features: int, n_classes: int, seed: int = 0):
    rng = np.random.default_rng(seed)
    indices = rng.integers(0, n_features, (n, 30))
    X = sp.csr_array((np.ones(30 * n, np.float32), indices.ravel(), np.arange(0, 30 * n + 1, 30)), (n, n_features))
    X.sum_duplicates()
    return X, rng.integers(0, n_classes, n)


def load_one(path: str, small: str, verify: bool) -> dict:
    """What loading a model and predicting 1,000 rows adds, once everything that any model needs is there."""
    X, _ = rows(1000, load_model(small).n_features_in_, 2)
    load_model(small).predict(X)
    before = resident()
    model = load_model(path, verify=verify)
    loaded = resident()
    model.predict(X)
    return {"loaded": loaded - before, "answered": resident() - before}


def mapped(folder: Path) -> None:
    print("model, MB: file, after load, after predictions; the same without verify")
    for name, model in MODELS.items():
        X, y = rows(30_000, 20_000, 2000)
        path, small = folder / name, folder / f"{name}-small"
        model.fit(X, y).save(path)
        model.fit(X[:50], y[:50] % 5).save(small)
        told = []
        for verify in ("1", ""):
            done = subprocess.run(
                [sys.executable, __file__, "--load", str(path), str(small), verify],
                check=True, capture_output=True, text=True,
            )  # fmt: skip
            told.append(json.loads(done.stdout))
        size = os.path.getsize(path)
        figures = [told[0]["loaded"], told[0]["answered"], told[1]["loaded"], told[1]["answered"]]
        shares = " ".join(f"{figure / 1e6:8.1f} ({figure / size:.2f})" for figure in figures)
        print(f"{name:16} {size / 1e6:8.1f} {shares}", flush=True)


def streamed(folder: Path, n_rows: int) -> None:
    """Peak memory of `train` over files of growing size: what grows is the model's, not the file's."""
    X, y = rows(5000, 5000, 100)
    lines = [
        f"{y[i]} " + " ".join(f"{f}:{v:.4f}" for f, v in zip(X[[i]].indices, np.arange(1, 31) / 7, strict=False)) + "\n"
        for i in range(X.shape[0])
    ]
    block = "".join(lines)
    print("train, one epoch: file MB, rows, peak MB of the process")
    for n in (n_rows // 100, n_rows // 10, n_rows):
        path = folder / "data.svm"
        with open(path, "w") as file:
            for _ in range(max(1, n // 5000)):
                file.write(block)
        code = (
            "import sys; sys.argv = ['manyclass', 'train', sys.argv[1], '--model', sys.argv[2], '--epochs', "
            "'1', '--online', '--features', '5000', '--json']; from manyclass.cli.main import run\n"
            "try: run()\nexcept SystemExit: pass\n"
            "print(next(line for line in open('/proc/self/status') if line.startswith('VmHWM')).split()[1])"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, str(path), str(folder / "m")], check=True, capture_output=True, text=True
        )
        told, peak = done.stdout.splitlines()
        size, examples = os.path.getsize(path) / 1e6, json.loads(told)["examples"]
        print(f"{size:10.1f} {examples:12,} {int(peak) / 1024:8.1f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--load", nargs=3, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.load:
        print(json.dumps(load_one(asked.load[0], asked.load[1], bool(asked.load[2]))))
        return
    with tempfile.TemporaryDirectory() as name:
        mapped(Path(name))
        streamed(Path(name), asked.rows)


if __name__ == "__main__":
    main()
