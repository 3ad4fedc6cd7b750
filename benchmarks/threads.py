"""Four threads predict, one trains and one saves, on the same estimator; every prediction is checked.

    python benchmarks/threads.py [--minutes 30] [--estimators recall-tree label-tree ...] [--together 1] [--out FILE]

After each training call the trainer writes down what all methods return. A prediction of another thread must be one of
these: that of a state between two training calls. After some hundred calls a new model is started, so that models stay
small.
"""

import argparse
import faulthandler
import hashlib
import json
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from manyclass import load_model
from manyclass.estimators import ESTIMATORS

N_READERS = 4
_N_FEATURES, _N_PROBES, _BATCH = 12, 24, 16


def digest(value: Any) -> bytes:
    """A hash of what a method returned."""
    if isinstance(value, (tuple, list)):
        return hashlib.sha256(b"".join(map(digest, value))).digest()
    if isinstance(value, dict):
        return digest([*value, *value.values()])
    if sp.issparse(value):
        return digest([value.indptr, value.indices, value.data, list(value.shape)])
    if isinstance(value, np.ndarray) and value.dtype != object:
        return hashlib.sha256(str((value.shape, value.dtype)).encode() + value.tobytes()).digest()
    return hashlib.sha256(repr(value).encode()).digest()


class Stream:
    """Batches of rows of ever more classes."""

    def __init__(self, seed: int):
        self._rng = np.random.default_rng(seed)
        self._centres = 4 * self._rng.standard_normal((4000, _N_FEATURES)).astype(np.float32)
        self._n_classes = 3
        self.probes, self.truth = self.rows(_N_PROBES)

    def rows(self, n: int) -> tuple[np.ndarray, np.ndarray]:
        """The next rows; some of them belong to new classes."""
        self._n_classes = min(len(self._centres), self._n_classes + int(self._rng.integers(0, 4)))
        y = self._rng.integers(0, self._n_classes, n)
        return self._centres[y] + self._rng.standard_normal((n, _N_FEATURES)).astype(np.float32), y


class Soak:
    """One model that is trained, saved and asked by several threads at once."""

    def __init__(self, model: Any, seed: int, folder: Path):
        self.model, self.stream, self.folder = model, Stream(seed), folder
        self.allowed: dict[str, set[bytes]] = {}  # by method: what it returned between two training calls
        self.predictions: dict[str, set[bytes]] = {}  # what other threads got
        self.counts: Counter[str] = Counter()
        self.errors: list[BaseException] = []
        self._stop, self._lock = threading.Event(), threading.Lock()

    def run(self, n_calls: int) -> None:
        """Train so many times while the others work."""
        self._train(0)
        record = self._methods()
        self._record(record)
        threads = [threading.Thread(target=self._guarded, args=(self._read, i)) for i in range(N_READERS)]
        threads.append(threading.Thread(target=self._guarded, args=(self._save,)))
        for thread in threads:
            thread.start()
        try:
            for call in range(1, n_calls):
                if self.errors:
                    break
                self._train(call)
                self._record(record)
        finally:
            self._stop.set()
            for thread in threads:
                thread.join()
        self.counts["training calls"] += n_calls

    def wrong(self) -> dict[str, int]:
        """Number of distinct predictions, by method, that belong to no state between two training calls."""
        wrong = {name: len(found - self.allowed[name]) for name, found in self.predictions.items()}
        return {name: count for name, count in wrong.items() if count}

    def _train(self, call: int) -> None:
        if hasattr(self.model, "partial_fit") and call % 40 != 39:
            self.model.partial_fit(*self.stream.rows(_BATCH))
        else:
            self.model.fit(*self.stream.rows(10 * _BATCH))

    def _methods(self) -> dict[str, Callable[[], Any]]:
        """All that reads a model."""
        model, X, y = self.model, self.stream.probes, self.stream.truth
        predictor = model.predictor()
        methods = {
            "predict": lambda: model.predict(X),
            "predict_topk": lambda: model.predict_topk(X, 3),
            "predict_proba": lambda: model.predict_proba(X),
            "candidates": lambda: model.candidates(X),
            "decision_path": lambda: model.decision_path(X),
            "diagnose": lambda: model.diagnose(X, y),
            "predictor": lambda: predictor(X[0]),
            "classes_": lambda: model.classes_,
            "n_bytes_": lambda: model.n_bytes_,
            "progressive_error_": lambda: model.progressive_error_,
        }
        if hasattr(model, "tree_table"):
            methods["tree_table"] = lambda: model.tree_table()
        return methods

    def _record(self, methods: dict[str, Callable[[], Any]]) -> None:
        for name, method in methods.items():
            self.allowed.setdefault(name, set()).add(digest(method()))

    def _guarded(self, work: Callable[..., Iterator[tuple[str, bytes]]], *args: Any) -> None:
        """Collect the predictions of a thread until training ends."""
        try:
            for name, prediction in work(*args):
                with self._lock:
                    self.predictions.setdefault(name, set()).add(prediction)
                    self.counts[name] += 1
                if self._stop.is_set():
                    return
        except BaseException as error:
            self.errors.append(error)

    def _read(self, number: int) -> Iterator[tuple[str, bytes]]:
        chance, methods = np.random.default_rng(number), self._methods()
        names = list(methods)
        while True:
            name = names[chance.integers(len(names))]
            yield name, digest(methods[name]())

    def _save(self) -> Iterator[tuple[str, bytes]]:
        path = self.folder / "model"
        while True:
            self.model.save(path)
            saved = load_model(path, mmap=False)
            self.counts["save"] += 1
            yield "predict_topk", digest(saved.predict_topk(self.stream.probes, 3))


def soak(name: str, minutes: float) -> Counter[str]:
    """Counts of one estimator. Its kernels are compiled before the time begins to run."""
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        end = 0.0
        while counts["models"] == 0 or time.monotonic() < end:
            run = Soak(ESTIMATORS[name](random_state=0), counts["models"], Path(folder))
            run.run(300 if hasattr(run.model, "partial_fit") else 20)
            counts.update(run.counts)
            counts.update({"models": 1, "WRONG PREDICTIONS": sum(run.wrong().values()), "ERRORS": len(run.errors)})
            for error in run.errors[:1]:
                print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr)
            end = end or time.monotonic() + 60.0 * minutes
    print(f"{name}: {dict(counts)}", flush=True)
    return counts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=30.0, help="per estimator")
    parser.add_argument("--estimators", nargs="*", default=list(ESTIMATORS), choices=list(ESTIMATORS))
    parser.add_argument("--together", type=int, default=1, help="so many estimators at a time")
    parser.add_argument("--out", type=Path, help="write the counts to this file (JSON)")
    asked = parser.parse_args()
    faulthandler.enable()
    with ThreadPoolExecutor(asked.together) as pool:
        counts = dict(zip(asked.estimators, pool.map(soak, asked.estimators, repeat(asked.minutes)), strict=True))
    if asked.out is not None:
        report = {"minutes": asked.minutes, "together": asked.together, "estimators": counts}
        asked.out.write_text(json.dumps(report, indent=2) + "\n")
    return int(any(found["WRONG PREDICTIONS"] or found["ERRORS"] for found in counts.values()))


if __name__ == "__main__":
    sys.exit(main())
