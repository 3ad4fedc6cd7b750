"""First use: seconds until the first prediction with an empty compile cache, and in later starts."""

import os
import subprocess
import sys
import tempfile

from report import parse, publish

from benchmarks.origin import machine

EXTRA: dict = {}
PROGRAM = """
import time, sys
begun = time.perf_counter()
import numba, numpy as np, sklearn.base, scipy.sparse as sp
imported = time.perf_counter()
import manyclass
rng = np.random.default_rng(0)
X = rng.standard_normal((300, 64)).astype(np.float32)
if sys.argv[2] == "sparse":
    X = sp.csr_matrix(np.hstack([X * (rng.random(X.shape) < 0.1)] * 8), dtype=np.float32)
y = np.arange(300) % 30
model = getattr(manyclass, sys.argv[1])(random_state=0).fit(X, y)
fitted = time.perf_counter()
model.predict(X)
print(imported - begun, fitted - imported, time.perf_counter() - fitted)
"""
CASES = [
    ("RecallTreeClassifier", "dense"),
    ("RecallTreeClassifier", "sparse"),
    ("LabelTreeClassifier", "sparse"),
    ("SpectralTreeClassifier", "dense"),
    ("OneAgainstAllClassifier", "dense"),
    ("LomTreeClassifier", "dense"),
    ("MlomTreeClassifier", "dense"),
]


def start(kind: str, inputs: str, cache: str) -> list[float]:
    """Seconds of importing, the first fit and the first predict in a new process."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
    line = [sys.executable, "-c", PROGRAM, kind, inputs]
    done = subprocess.run(line, capture_output=True, text=True, env=environment, check=True)
    return [float(word) for word in done.stdout.split()]


def main() -> None:
    args = parse(__doc__, **EXTRA)
    rows = []
    for kind, inputs in CASES[:2] if args.quick else CASES:
        with tempfile.TemporaryDirectory() as cache:
            _, fit, predict = start(kind, inputs, cache)
            imports, *later = start(kind, inputs, cache)
        rows.append(
            {
                "estimator": kind,
                "inputs": inputs,
                "first fit s": f"{fit:.1f}",
                "first predict s": f"{predict:.1f}",
                "both (bar 10)": f"{fit + predict:.1f}",
                "later start: both s (bar 1.5)": f"{sum(later):.2f}",
                "importing numba and scikit-learn s": f"{imports:.1f}",
            }
        )
    notes = [
        "Each line: two new processes, the first with an empty compile cache. `manyclass warmup` does all of it "
        f"beforehand, on all cores. {machine()['machine']}.",
    ]
    publish("first_use", "First use and later starts", rows, notes, args.quick)


if __name__ == "__main__":
    main()
