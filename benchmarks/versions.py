"""Compare two versions of the sources: accuracy, work, models and speed of every estimator on several data sets.

    git worktree add ../before v0.1.0
    python benchmarks/versions.py ../before/src src
    python benchmarks/versions.py ../before/src src --sets aloi --estimators RecallTreeClassifier --repeats 5

Both arguments are folders that contain the package `manyclass`. All data come from `manyclass.datasets.load`, prepared
as for the race, and both versions get the same rows. Each measurement is a process that imports one version, compiles
on a few rows, trains once and predicts three times. The two versions take turns, so that both see the same machine,
and the fastest of all repeats counts. The result is a Markdown table on standard output:

- accuracy: P@1 on the test rows; work: hyperplanes per test row, as `diagnose` reports them;
- model: whether all arrays in the model files are equal (names do not count); predictions: whether the five best
  labels and their scores are equal;
- seconds of `fit`, of `predict` and of `predict_topk` with five labels for all test rows, and their ratios.

The exit status is 1 if a measurement failed.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
if __name__ == "__main__":
    sys.path[0] = str(ROOT)  # of the repository: `benchmarks` is not installed

SETS = ("isolet", "aloi", "wordnet-hypernym", "eurlex-4k")
ESTIMATORS = {  # the options that keep the comparison short
    "RecallTreeClassifier": {},
    "LabelTreeClassifier": {},
    "SpectralTreeClassifier": {},
    "LomTreeClassifier": {},
    "MlomTreeClassifier": {},
    "OneAgainstAllClassifier": {"n_epochs": 2},
}
MULTILABEL = ("LabelTreeClassifier", "SpectralTreeClassifier")
N_COMPILE, N_PREDICTIONS, K = 400, 3, 5
TIMES = {"fit": "fit s", "predict": "predict s", "topk": "top-5 s"}


def measure(folder: Path, estimator: str, threads: int) -> dict[str, Any]:
    """Train and test one estimator of the version that is on the path, on the rows in a folder."""
    import numpy as np
    import scipy.sparse as sp

    import manyclass  # and nothing of `benchmarks`, which belongs to one version only

    X, y, X_test, y_test = (
        sp.load_npz(path) if path.exists() else np.load(path.with_suffix(".npy"))
        for path in (folder / f"{part}.npz" for part in ("X_train", "y_train", "X_test", "y_test"))
    )
    model = getattr(manyclass, estimator)(random_state=0, n_jobs=threads, **ESTIMATORS[estimator])
    model.fit(X[:N_COMPILE], y[:N_COMPILE]).predict_topk(X_test[:50], k=2)
    model.predict(X_test[:50])
    seconds: dict[str, float] = {}

    def timed(name: str, call: Any) -> Any:
        start = time.perf_counter()
        result = call()
        seconds[name] = min(time.perf_counter() - start, seconds.get(name, float("inf")))
        return result

    timed("fit", lambda: model.fit(X, y))
    for _ in range(N_PREDICTIONS):
        timed("predict", lambda: model.predict(X_test))
        labels, scores = timed("topk", lambda: model.predict_topk(X_test, k=K))
    first = labels[:, 0]
    right = sp.csr_matrix(y_test)[np.arange(len(first)), first] if y_test.ndim == 2 else first == y_test
    path = folder / f"{os.getpid()}.model"
    model.save(path)
    result = {
        "version": str(Path(manyclass.__file__).resolve().parents[1]),
        "accuracy": float(np.mean(right)),
        "work": float(model.diagnose(X_test, y_test)["work"]),
        "model": digest_of_arrays(path.read_bytes()),
        "predictions": hashlib.sha256(np.ascontiguousarray(labels).tobytes() + scores.tobytes()).hexdigest(),
        "bytes": path.stat().st_size,
        **seconds,
    }
    path.unlink()
    return result


def digest_of_arrays(raw: bytes) -> str:
    """A digest of the arrays in a model file, which is in the safetensors format, in any order and under any name."""
    start = 8 + int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8:start])
    header.pop("__metadata__", None)
    arrays = []
    for entry in header.values():
        first, last = entry["data_offsets"]
        content = f"{entry['dtype']} {entry['shape']}".encode() + raw[start + first : start + last]
        arrays.append(hashlib.sha256(content).digest())
    return hashlib.sha256(b"".join(sorted(arrays))).hexdigest()


def run(version: Path, folder: Path, estimator: str, threads: int) -> dict[str, Any]:
    """Run `measure` in a process with this version on the path; {"error": reason} if it fails."""
    words = [sys.executable, __file__, "--measure", str(folder), estimator, str(threads)]
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(version)})
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]}
    result = json.loads(done.stdout.splitlines()[-1])
    if result["version"] != str(version):
        return {"error": f"the process imported manyclass from {result['version']}, not from {version}"}
    return result


def compare(versions: list[Path], folder: Path, estimator: str, repeats: int, threads: int) -> list[dict[str, Any]]:
    """The measurements of both versions, with the shortest time of all repeats."""
    best: list[dict[str, Any]] = [{}, {}]
    for _ in range(repeats):
        for i, version in enumerate(versions):
            new = run(version, folder, estimator, threads)
            if "error" in new or "error" in best[i]:
                best[i] = best[i] if "error" in best[i] else new
                continue
            best[i] = new | {key: min(new[key], best[i].get(key, float("inf"))) for key in TIMES}
    return best


def row_of(data: str, estimator: str, before: dict[str, Any], after: dict[str, Any]) -> dict[str, str]:
    """One row of the table."""
    row = {"set": data, "estimator": estimator.removesuffix("Classifier")}
    if "error" in before or "error" in after:
        reasons = [f"{when}: {one['error']}" for when, one in (("before", before), ("after", after)) if "error" in one]
        return row | {"accuracy %": "failed, " + "; ".join(reasons).replace("|", "/")}
    same = lambda key: "equal" if before[key] == after[key] else "**differs**"  # noqa: E731
    both = lambda key, text, scale=1.0: " → ".join(  # noqa: E731
        dict.fromkeys(text.format(scale * result[key]) for result in (before, after))
    )
    row |= {"accuracy %": both("accuracy", "{:.2f}", 100), "work": both("work", "{:.1f}")}
    row |= {"model": same("model"), "predictions": same("predictions"), "file MB": both("bytes", "{:.2f}", 1e-6)}
    for key, head in TIMES.items():
        row |= {head: f"{before[key]:.3f} → {after[key]:.3f}", f"{head[:-2]} ratio": f"{after[key] / before[key]:.2f}"}
    return row


def print_table(rows: list[dict[str, str]]) -> None:
    """Print the rows as a Markdown table."""
    head = max(rows, key=len)
    print(f"| {' | '.join(head)} |\n|{' --- |' * len(head)}")
    for row in rows:
        print(f"| {' | '.join(row.get(key, '') for key in head)} |")


def main() -> int:
    """Compare the versions that the options name."""
    from benchmarks.cell import write_rows
    from benchmarks.sets import rows_of, shuffled
    from manyclass.datasets import DataNotFound

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("before", type=Path, help="folder with the package manyclass of the first version")
    add("after", type=Path, help="folder with the package manyclass of the second version")
    add("--sets", nargs="+", default=list(SETS), metavar="SET", help=f"data sets ({' '.join(SETS)})")
    add("--estimators", nargs="+", choices=ESTIMATORS, default=list(ESTIMATORS), metavar="CLASS", help="some of them")
    add("--repeats", type=int, default=3, help="processes per version; the fastest counts (3)")
    add("--threads", type=int, default=1, help="n_jobs of the estimators (1)")
    add("--quick", action="store_true", help="2,000 training and 500 test rows: a check that both versions run")
    add("--json", type=Path, help="also write all measurements to this file")
    options = parser.parse_args()
    versions = [options.before.resolve(), options.after.resolve()]
    for version in versions:
        if not (version / "manyclass" / "__init__.py").is_file():
            parser.error(f"{version} has no package manyclass; name the folder that contains it, usually src")
    rows, measured = [], []
    for name in options.sets:
        try:
            data = shuffled(rows_of(name), *((2_000, 500) if options.quick else ()))
        except DataNotFound as error:
            print(f"skipped: {error}", file=sys.stderr)
            continue
        with tempfile.TemporaryDirectory(prefix="manyclass-versions-") as work:
            folder = Path(work) / "rows"
            write_rows(folder, data)
            for estimator in options.estimators:
                if data[1].ndim == 2 and estimator not in MULTILABEL:
                    continue
                before, after = compare(versions, folder, estimator, options.repeats, options.threads)
                measured.append({"set": name, "estimator": estimator, "before": before, "after": after})
                rows.append(row_of(name, estimator, before, after))
                print(f"{name}, {estimator}: done", file=sys.stderr, flush=True)
    if options.json:
        options.json.write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")
    if rows:
        print_table(rows)
    return int(any("error" in result for one in measured for result in (one["before"], one["after"])))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        print(json.dumps(measure(Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]))))
    else:
        sys.exit(main())
