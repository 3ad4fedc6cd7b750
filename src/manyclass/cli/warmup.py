"""`manyclass warmup`: compile algorithms in advance, each in its own process because a compiler uses one core."""

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import scipy.sparse as sp

from ..core.prediction import n_threads
from ..estimators import ESTIMATORS
from .messages import CommandError

INPUTS = ("dense", "sparse")


def run(algorithms: list[str] | None, threads: int) -> None:
    """Compile each algorithm for dense and for sparse inputs."""
    unknown = [name for name in algorithms or [] if name not in ESTIMATORS]
    if unknown:
        raise CommandError(f"unknown algorithm {', '.join(unknown)}; choose from {', '.join(ESTIMATORS)}")
    tasks = [(name, kind) for name in algorithms or ESTIMATORS for kind in INPUTS]
    start = time.perf_counter()
    with ThreadPoolExecutor(n_threads(threads)) as pool:
        for (name, kind), seconds in zip(tasks, pool.map(_compile_in_process, tasks), strict=True):
            print(f"{name}, {kind} inputs: {seconds:.1f} s", flush=True)
    print(f"Finished in {time.perf_counter() - start:.0f} s; the compiled code is cached on disk.")


def _compile_in_process(task: tuple[str, str]) -> float:
    start = time.perf_counter()
    done = subprocess.run([sys.executable, "-m", __name__, *task], capture_output=True, text=True)
    if done.returncode:
        raise CommandError(f"compiling {task[0]} for {task[1]} inputs failed: {done.stderr.strip()[-500:]}")
    return time.perf_counter() - start


def compile_one(algorithm: str, kind: str) -> None:
    """Call the main methods of an estimator on a few rows."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, {"dense": 16, "sparse": 400}[kind])).astype(np.float32)
    if kind == "sparse":  # narrow sparse rows would be converted to dense rows
        X = sp.csr_matrix(X * (rng.random(X.shape) < 0.05), dtype=np.float32)
    y = np.arange(200) % 20
    model = ESTIMATORS[algorithm](random_state=0).fit(X, y)
    if hasattr(model, "partial_fit"):
        model.partial_fit(X, y)
    model.predict(X)
    model.predict_topk(X, 3)
    model.predict(X[:1])
    model.diagnose(X, y)
    model.decision_path(X)
    model.predictor(3)(X[0] if kind == "dense" else X[[0]])


if __name__ == "__main__":
    compile_one(*sys.argv[1:])
