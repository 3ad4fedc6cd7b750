"""`manyclass warmup`: compile beforehand what an algorithm needs, on all cores, so that no later start has to."""

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import scipy.sparse as sp
from rich.console import Console

from ..estimators import ESTIMATORS
from .errors import CommandError

INPUTS = ("dense", "sparse")
_WIDTH = {"dense": 16, "sparse": 400}  # narrow sparse rows would be spread out


def run(algorithms: list[str], threads: int) -> None:
    """Compile each algorithm for dense and for sparse inputs, in processes of their own: a compiler uses one core."""
    unknown = [name for name in algorithms if name not in ESTIMATORS]
    if unknown:
        raise CommandError(f"no algorithm {', '.join(unknown)}; known: {', '.join(ESTIMATORS)}")
    out = Console(markup=False, highlight=False, soft_wrap=True)
    tasks = [(name, kind) for name in algorithms or ESTIMATORS for kind in INPUTS]
    begun = time.perf_counter()
    with ThreadPoolExecutor(threads if threads > 0 else os.cpu_count() or 1) as pool:
        for (name, kind), seconds in zip(tasks, pool.map(_compile_apart, tasks), strict=True):
            out.print(f"{name}, {kind} inputs: {seconds:.1f} s")
    out.print(f"all of it took {time.perf_counter() - begun:.0f} s; the next start finds it on disk")


def _compile_apart(task: tuple[str, str]) -> float:
    """Run this file as a program for one algorithm and one kind of inputs."""
    begun = time.perf_counter()
    done = subprocess.run([sys.executable, "-m", __name__, *task], capture_output=True, text=True)
    if done.returncode:
        raise CommandError(f"compiling {task[0]} for {task[1]} inputs failed: {done.stderr.strip()[-500:]}")
    return time.perf_counter() - begun


def compile_one(algorithm: str, kind: str) -> None:
    """Call all that a user may call, on a few rows."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, _WIDTH[kind])).astype(np.float32)
    if kind == "sparse":
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
