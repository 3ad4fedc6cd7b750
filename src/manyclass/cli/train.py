"""`manyclass train`: train a model on a data file in bounded memory; a run can be interrupted and resumed.

Rows are read in windows, each window is shuffled by (seed, epoch, window) and learned in batches. How rows are divided
into batches does not change the model. Hence a checkpoint needs only the model and the number of rows learned so far,
and a resumed run results in the same bytes.
"""

import errno
import hashlib
import json
import os
import shlex
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..core.base import learns_online
from ..core.model_file import remove_leftovers
from ..core.protocol import Labels
from ..estimators import ESTIMATORS
from ..io import Chunk, Source
from .algorithms import choose_algorithm, make_estimator
from .evaluate import evaluate, table
from .files import (
    LabelColumns,
    Trained,
    can_read_once,
    check_writable,
    initial_names,
    only_writer,
    open_model,
    open_source,
    read_rows,
)
from .messages import INTERRUPTED, CommandError, notice_if_slow, printable, row_progress, stderr

DEFAULT_EPOCHS = 5
WINDOW = 1 << 14  # rows shuffled together
_BATCH = 1 << 10  # rows learned before the next check for an interrupt
_FINGERPRINT = 1 << 20  # bytes at the start and at the end of a file


@dataclass(frozen=True)
class Plan:
    """The options of the command."""

    data: str
    model: str
    reading: dict[str, Any]
    algorithm: str | None
    option: list[str] | None
    test: str | None
    epochs: int | None
    seed: int
    shuffle: bool
    in_memory: bool
    checkpoint_every: int | None
    resume: bool
    start_from: str | None
    threads: int
    as_json: bool

    @property
    def n_epochs(self) -> int:
        """The number of epochs."""
        return self.epochs or (1 if can_read_once(self.data) else DEFAULT_EPOCHS)

    @property
    def checkpoint(self) -> str:
        """The checkpoint file."""
        return f"{self.model}.checkpoint"

    def identity(self, algorithm: str) -> dict[str, Any]:
        """The settings that a resumed run must share with the interrupted one."""
        return {
            "algorithm": algorithm,
            "data": _fingerprint(self.data),
            "options": sorted(self.option or []),
            "reading": {name: self.reading[name] for name in sorted(self.reading) if name != "skip_bad_lines"},
            "seed": self.seed,
            "shuffle": self.shuffle,
            "in_memory": self.in_memory,
            "start_from": None if self.start_from is None else _fingerprint(self.start_from),
        }


def run(**options: Any) -> None:
    """Train a model, save it and evaluate it."""
    plan = Plan(**options)
    _check(plan)
    with only_writer(plan.model):
        _run(plan)


def _run(plan: Plan) -> None:
    remove_leftovers(plan.model)
    remove_leftovers(plan.checkpoint)
    base = open_model(plan.start_from) if plan.start_from else None
    source = open_source(plan.data, plan.reading, base.reading if base else None)
    algorithm = base.estimator._model.NAME if base else choose_algorithm(plan.algorithm, source.reading)
    if not learns_online(ESTIMATORS[algorithm]) and not plan.in_memory:
        plan = replace(plan, in_memory=True)
        _check(plan)
    several = source.reading.labels == "several"
    if several and not hasattr(ESTIMATORS[algorithm], "multilabel_"):
        raise CommandError(
            f"{plan.data}: {algorithm} does not support several labels per row: use label-tree or spectral-tree."
        )
    identity = plan.identity(algorithm)
    trained = _earlier_run(plan, identity) if plan.resume else None
    if trained is None:
        estimator = base.estimator if base else make_estimator(algorithm, plan.option or [], plan.seed)
        trained = Trained(estimator, source.reading, base.names if base else initial_names(source.reading))
        if base:
            trained.label_counts, trained.n_counted = base.label_counts, base.n_counted
        trained.training = {**identity, "epochs": 0, "rows": 0, "examples": 0, "finished": False}
        trained.training["progressive_errors"] = []  # of each epoch
        trained.training["pace"] = max(0, getattr(estimator, "n_epochs_", 0) - 1)  # keep the last learning rate
    elif trained.training["finished"] and trained.training["epochs"] >= plan.n_epochs:
        n_epochs = trained.training["epochs"]
        print(f"{plan.model} is complete ({n_epochs} epochs): nothing to do.", file=sys.stderr)
        return _report(plan, trained, {"model": plan.model, "already_finished": True, "epochs": n_epochs})
    _print_start(source, algorithm)
    start, n_before = time.perf_counter(), trained.training["examples"]
    if plan.in_memory:
        _fit(plan, trained, source)
    else:
        Training(plan, trained, source).run()
    seconds = time.perf_counter() - start
    if several and trained.names == []:
        raise CommandError(f"{plan.data}: no row has a label.")
    trained.training["finished"] = True
    trained.save(plan.model)
    Path(plan.checkpoint).unlink(missing_ok=True)
    errors = trained.training["progressive_errors"]
    n_rows = trained.training["examples"] - n_before
    result = {
        "model": plan.model,
        "algorithm": algorithm,
        "examples": trained.training["examples"],
        "epochs": trained.training["epochs"],
        "n_classes": len(trained.estimator.classes_),
        "n_features": trained.estimator.n_features_in_,
        "n_skipped": source.n_skipped,
        "progressive_error": errors[0] if errors else None,  # of the first epoch: all rows were new
        "progressive_errors": errors,
        "seconds": seconds,
        "examples_per_second": n_rows / max(seconds, 1e-9),
        "bytes": os.path.getsize(plan.model),
    }
    if not plan.as_json:
        skipped = f", {source.n_skipped:,} bad lines skipped" if source.n_skipped else ""
        size = f"{result['n_classes']:,} classes, {result['bytes'] / 1e6:,.1f} MB"
        print(f"{plan.model}: {size}, trained on {n_rows:,} rows in {seconds:.1f} s{skipped}")
    _report(plan, trained, result)


def _check(plan: Plan) -> None:
    """Reject options that do not fit together before any work is done."""
    check_writable(plan.model)
    if can_read_once(plan.data) and plan.n_epochs > 1 and not plan.in_memory:
        raise CommandError(f"{plan.data} can be read only once: omit --epochs, or write the data to a file.")
    if plan.test is not None and plan.test != "-" and not os.path.exists(plan.test):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), plan.test)
    if plan.in_memory and (plan.checkpoint_every or plan.resume or plan.start_from):
        raise CommandError(
            "--in-memory, which spectral-tree implies, excludes --checkpoint-every, --resume and --start-from."
        )
    if plan.start_from and (plan.algorithm or plan.option):
        raise CommandError("--start-from uses the settings of the model: omit --algorithm and --option.")


def _print_start(source: Source, algorithm: str) -> None:
    reading = source.reading
    columns = [
        f"; {kind} columns: {', '.join(getattr(reading, kind))}"
        for kind in ("text", "numeric", "categorical")
        if getattr(reading, kind)
    ]
    hashed = "" if reading.n_features else " (hashed)"
    labels = "several labels" if reading.labels == "several" else "one label"
    features = f"{reading.width:,} features{hashed}"
    text = f"{algorithm}: {reading.format}, {labels} per row, {features}{''.join(columns)}"
    stderr.print(printable(text, sys.stderr))


def _report(plan: Plan, trained: Trained, result: dict[str, Any]) -> None:
    """Evaluate the model if requested, and print the result."""
    if plan.test is not None:
        trained.estimator.n_jobs = plan.threads
        # The test file may have another format than the training file: use the reading stored in the model.
        options = {name: value for name, value in plan.reading.items() if name == "skip_bad_lines"}
        result["test"] = evaluate(trained, open_source(plan.test, options, trained.reading))
    if plan.as_json:
        print(json.dumps(result))
    elif plan.test is not None:
        print(table(result["test"]))


# -- training ------------------------------------------------------------------------------------------------------


class Training:
    """A run over the epochs of a file that can be interrupted between two batches."""

    def __init__(self, plan: Plan, trained: Trained, source: Source):
        self.plan, self.trained, self.source = plan, trained, source
        self.columns = LabelColumns.of_model(trained)
        self.stop = self.busy = False

    def run(self) -> None:
        """Run all remaining epochs."""
        plan, training = self.plan, self.trained.training
        handlers = {number: signal.signal(number, self._interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            while training["epochs"] < plan.n_epochs:
                epoch = training["epochs"]
                with row_progress(f"epoch {epoch + 1}/{plan.n_epochs}", self.source) as update:
                    self._epoch(epoch, update)
                error = self.trained.estimator.progressive_error_
                training["progressive_errors"].append(None if error != error else error)
                training["epochs"], training["rows"] = epoch + 1, 0
        except KeyboardInterrupt:
            self._end_early()
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)

    def _epoch(self, epoch: int, update: Callable[[int, float], None]) -> None:
        training = self.trained.training
        if training["rows"] == 0:
            self.trained.estimator._begin_epoch(training["pace"] + epoch)
        first = 0  # row of the window in the file
        for number, chunk in enumerate(self.source.chunks(WINDOW)):
            n = chunk.X.shape[0]
            if first + n > training["rows"]:
                order = np.arange(n)
                if self.plan.shuffle:
                    order = np.random.default_rng([self.plan.seed, epoch, number]).permutation(n)
                self._window(chunk, order[training["rows"] - first :], update)
            first += n
        if first == 0:
            raise CommandError(f"{self.plan.data}: there are no rows to learn from.")
        if training["rows"] > first:
            raise CommandError(f"{self.plan.data} has {first} rows, but {training['rows']} were learned before.")

    def _window(self, chunk: Chunk, order: np.ndarray, update: Callable[[int, float], None]) -> None:
        """Learn the rows of a window in the given order, and write checkpoints."""
        training, every = self.trained.training, self.plan.checkpoint_every
        begin = 0
        while begin < len(order):
            size = min(_BATCH, len(order) - begin)
            if every:
                size = min(size, every - training["examples"] % every)
            self.busy = True
            with notice_if_slow():
                _learn(self.trained, _rows(chunk, order[begin : begin + size]), self.columns)
            begin += size
            training["rows"] += size
            training["examples"] += size
            update(size, self.trained.estimator.progressive_error_)
            if every and training["examples"] % every == 0:
                self.trained.save(self.plan.checkpoint)
            self.busy = False
            if self.stop:
                self._end_early()

    def _interrupt(self, number: int, frame: Any) -> None:
        """Stop after the current batch, or immediately while waiting for data."""
        if not self.busy:
            raise KeyboardInterrupt
        self.stop = True

    def _end_early(self) -> None:
        n = self.trained.training["examples"]
        if not n:
            stderr.print("Interrupted before the first rows were learned.")
            raise SystemExit(INTERRUPTED)
        self.trained.save(self.plan.checkpoint)
        words = sys.argv[1:]
        command = shlex.join(["manyclass", *words, *([] if "--resume" in words else ["--resume"])])
        stderr.print(f"Interrupted after {n:,} rows; saved {self.plan.checkpoint}. To continue:\n  {command}")
        raise SystemExit(INTERRUPTED)


def _rows(chunk: Chunk, order: np.ndarray) -> Chunk:
    """Some rows of a chunk, in the given order."""
    labels, pointer = chunk.labels, chunk.pointer
    assert labels is not None
    if pointer is None:
        labels = labels[order]
    else:
        pointer, labels = Labels(pointer, labels).rows(order)
    weights = None if chunk.weights is None else chunk.weights[order]
    return Chunk(chunk.X[order], labels, pointer, weights, chunk.n_skipped)


def _learn(trained: Trained, chunk: Chunk, columns: LabelColumns | None) -> None:
    y = chunk.labels if columns is None else columns.matrix(chunk, learn=True)
    trained.estimator.partial_fit(chunk.X, y, sample_weight=chunk.weights)
    if columns is not None:
        trained.names = columns.names
    if trained.training["epochs"] == 0:
        trained.count(y)


def _fit(plan: Plan, trained: Trained, source: Source) -> None:
    """Read all rows and fit the estimator."""
    columns = LabelColumns.of_model(trained)
    X, y, weights = read_rows(source, columns)
    if columns is not None:
        trained.names = columns.names
    clf = trained.estimator
    params = {"n_jobs": plan.threads, "shuffle": plan.shuffle, "n_epochs": plan.epochs}
    known = clf.get_params(deep=False)
    clf.set_params(**{name: value for name, value in params.items() if name in known and value is not None})
    clf.fit(X, y, sample_weight=weights)
    trained.count(y)
    clf.set_params(n_jobs=1)
    n_epochs = int(getattr(clf, "n_epochs_", plan.n_epochs))
    trained.training.update(epochs=max(n_epochs, plan.n_epochs), rows=0, examples=n_epochs * X.shape[0])


# -- resuming ------------------------------------------------------------------------------------------------------


def _fingerprint(path: str) -> str | None:
    """A hash of the size, the start and the end of a file; None for data that can be read only once."""
    if can_read_once(path):
        return None
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        digest = hashlib.sha256(str(size).encode() + file.read(_FINGERPRINT))
        if size > _FINGERPRINT:
            file.seek(max(_FINGERPRINT, size - _FINGERPRINT))
            digest.update(file.read(_FINGERPRINT))
    return digest.hexdigest()


def _earlier_run(plan: Plan, identity: dict[str, Any]) -> Trained | None:
    """The checkpoint or the complete model of an earlier run with the same settings, or None."""
    found = next((path for path in (plan.checkpoint, plan.model) if os.path.exists(path)), None)
    if found is None:
        print(f"There is no {plan.checkpoint}: starting from scratch.", file=sys.stderr)
        return None
    trained = open_model(found)
    record = trained.training
    different = [name for name in identity if record.get(name, ...) != identity[name]]
    counts = [record.get(name) for name in ("epochs", "rows", "examples", "pace")]
    valid = all(type(count) is int and count >= 0 for count in counts) and type(record.get("finished")) is bool
    if not different and not (valid and isinstance(record.get("progressive_errors"), list)):
        different = ["training"]
    if different and found == plan.model:
        text = f"{found} is from another run ({', '.join(different)} differ)"
        print(f"{text}: starting from scratch.", file=sys.stderr)
        return None
    if different:
        raise CommandError(
            f"{found} is from another run ({', '.join(different)} differ): use the same data and options to continue, "
            "or omit --resume to start from scratch."
        )
    if record["epochs"] > plan.n_epochs and not record["finished"]:
        raise CommandError(f"{found} is in epoch {record['epochs'] + 1}, but --epochs is {plan.n_epochs}.")
    return trained
