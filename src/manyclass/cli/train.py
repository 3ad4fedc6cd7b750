"""`manyclass train`: learn from a file in bounded memory; stop at any moment, go on as if nothing had happened.

The rows of a file come in windows, shuffled by (seed, epoch, window), and are learned a piece at a time. How the pieces
are cut changes no byte of the model, so a checkpoint needs only the model and the number of rows learned so far.
"""

import errno
import json
import os
import signal
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from ..core.model_file import remove_leftovers
from ..estimators import ESTIMATORS
from ..io import Chunk, Source
from .algorithms import DEFAULT_EPOCHS, choose_algorithm, learns_at_once, make_estimator
from .errors import INTERRUPTED, CommandError
from .evaluate import evaluate, table_of
from .files import Columns, Trained, columns_of, first_names, open_model, open_source, stacked
from .progress import Show, rows_shown, said_if_slow
from .resume import check_folder, command_to_resume, fingerprint, go_on_from, is_stream

WINDOW = 1 << 14  # rows shuffled together
_PIECE = 1 << 10  # rows learned between two looks at the keyboard


@dataclass(frozen=True)
class Plan:
    """What was asked for on the command line."""

    data: str
    model: str
    reading: dict[str, Any]
    algorithm: str | None = None
    options: tuple[str, ...] | list[str] = ()
    test: str | None = None
    epochs: int | None = None
    seed: int = 0
    shuffle: bool = True
    in_memory: bool = False
    checkpoint_every: int | None = None
    resume: bool = False
    start_from: str | None = None
    threads: int = 1
    as_json: bool = False

    @property
    def n_epochs(self) -> int:
        return self.epochs or (1 if is_stream(self.data) else DEFAULT_EPOCHS)

    @property
    def checkpoint(self) -> str:
        return f"{self.model}.checkpoint"

    def record(self, algorithm: str) -> dict[str, Any]:
        """What must be the same for a run to be the same run."""
        return {
            "algorithm": algorithm,
            "data": fingerprint(self.data),
            "options": sorted(self.options),
            "reading": {name: self.reading[name] for name in sorted(self.reading) if name != "skip_bad_lines"},
            "seed": self.seed,
            "shuffle": self.shuffle,
            "in_memory": self.in_memory,
            "start_from": None if self.start_from is None else fingerprint(self.start_from),
        }


def run(plan: Plan) -> None:
    """Train, save, and test if asked."""
    console = Console(stderr=True, markup=False)
    _check(plan)
    remove_leftovers(plan.model)
    remove_leftovers(plan.checkpoint)
    before = open_model(plan.start_from) if plan.start_from else None
    source = open_source(plan.data, plan.reading, before.reading if before else None)
    several = source.reading.labels == "several"
    algorithm = before.estimator._model.NAME if before else choose_algorithm(plan.algorithm, source.reading)
    if learns_at_once(algorithm) and not plan.in_memory:
        plan = replace(plan, in_memory=True)
        _check(plan)
    record = plan.record(algorithm)
    trained = go_on_from(plan.checkpoint, plan.model, record, plan.n_epochs) if plan.resume else None
    if trained is not None and trained.training["finished"] and trained.training["epochs"] >= plan.n_epochs:
        return _already_done(plan, trained)
    if trained is None:
        estimator = before.estimator if before else make_estimator(algorithm, plan.options, plan.seed)
        trained = Trained(estimator, source.reading, before.names if before else first_names(source.reading))
        trained.training = {**record, "epochs": 0, "rows": 0, "examples": 0, "finished": False}
        trained.training["progressive_errors"] = []  # of each epoch
        trained.training["pace"] = max(0, getattr(estimator, "n_epochs_", 0) - 1)  # go on as slowly as it ended
    if several and not hasattr(ESTIMATORS[algorithm], "multilabel_"):
        raise CommandError(
            f"{plan.data}: rows have several labels, which {algorithm} does not take: use label-tree or spectral-tree."
        )
    _tell_start(console, plan, source, algorithm)
    begun = time.perf_counter()
    n_before = trained.training["examples"]
    if plan.in_memory:
        _learn_at_once(plan, trained, source)
    else:
        Training(plan, trained, source, console).run()
    seconds = time.perf_counter() - begun
    if trained.names == [] and several:
        raise CommandError(f"{plan.data}: no row has a label.")
    trained.training["finished"] = True
    trained.save(plan.model)
    Path(plan.checkpoint).unlink(missing_ok=True)
    _tell_end(plan, trained, source, trained.training["examples"] - n_before, seconds)


def _check(plan: Plan) -> None:
    """Refuse at once what would fail at the end."""
    check_folder(plan.model)
    if is_stream(plan.data) and plan.n_epochs > 1 and not plan.in_memory:
        raise CommandError(f"{plan.data} can be read only once: leave out --epochs, or write it to a file.")
    if plan.test is not None and plan.test != "-" and not os.path.exists(plan.test):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), plan.test)
    if plan.in_memory and (plan.checkpoint_every or plan.resume or plan.start_from):
        raise CommandError(
            "--in-memory, and an algorithm that needs all rows such as spectral-tree, fits all rows at once: without "
            "--checkpoint-every, --resume and --start-from."
        )
    if plan.start_from and (plan.algorithm or plan.options):
        raise CommandError("--start-from takes algorithm and options from the model: leave them out.")


# -- learning ------------------------------------------------------------------------------------------------------


class Training:
    """A run over the epochs of a file that can be stopped between any two pieces."""

    def __init__(self, plan: Plan, trained: Trained, source: Source, console: Console):
        self.plan, self.trained, self.source, self.console = plan, trained, source, console
        self.columns = columns_of(trained)
        self.stop = self.busy = False

    def run(self) -> None:
        """All epochs that are still to do."""
        plan, training = self.plan, self.trained.training
        signals = [signal.signal(number, self._ask_to_stop) for number in (signal.SIGINT, signal.SIGTERM)]
        try:
            while training["epochs"] < plan.n_epochs:
                epoch = training["epochs"]
                with rows_shown(self.console, f"epoch {epoch + 1}/{plan.n_epochs}", self.source) as show:
                    self._epoch(epoch, show)
                error = self.trained.estimator.progressive_error_
                training["progressive_errors"].append(None if error != error else error)
                training["epochs"], training["rows"] = epoch + 1, 0
        except KeyboardInterrupt:
            self._end_early()
        finally:
            for number, handler in zip((signal.SIGINT, signal.SIGTERM), signals, strict=True):
                signal.signal(number, handler)

    def _epoch(self, epoch: int, show: Show) -> None:
        training, clf = self.trained.training, self.trained.estimator
        if training["rows"] == 0:
            clf._begin_epoch(training["pace"] + epoch)
        first = 0  # row of the window in the file
        for number, chunk in enumerate(self.source.chunks(WINDOW)):
            n = chunk.X.shape[0]
            if first + n > training["rows"]:
                # Labels are numbered in the order in which they are learned, so all of the window is shuffled alike.
                order = np.arange(n)
                if self.plan.shuffle:
                    order = np.random.default_rng([self.plan.seed, epoch, number]).permutation(n)
                self._window(chunk, order[training["rows"] - first :], show)
            first += n
        if first == 0:
            raise CommandError(f"{self.plan.data}: there are no rows to learn from.")
        if training["rows"] > first:
            raise CommandError(f"{self.plan.data}: {training['rows']} rows were learned, now there are {first}.")

    def _window(self, chunk: Chunk, order: np.ndarray, show: Show) -> None:
        """Learn the rows of a window in their order, a piece at a time, with checkpoints where they are due."""
        training, every = self.trained.training, self.plan.checkpoint_every
        at = 0
        while at < len(order):
            size = min(_PIECE, len(order) - at)
            if every:
                size = min(size, every - training["examples"] % every)
            self.busy = True
            with said_if_slow(self.console):
                _learn(self.trained, _rows(chunk, order[at : at + size]), self.columns)
            at += size
            training["rows"] += size
            training["examples"] += size
            show(size, self.trained.estimator.progressive_error_)
            if every and training["examples"] % every == 0:
                self.trained.save(self.plan.checkpoint)
            self.busy = False
            if self.stop:
                self._end_early()

    def _ask_to_stop(self, number: int, frame: Any) -> None:
        """Stop after this piece; at once while waiting for rows, where nothing is half done."""
        if not self.busy:
            raise KeyboardInterrupt
        self.stop = True

    def _end_early(self) -> None:
        if not self.trained.training["examples"]:
            self.console.print("Interrupted before anything was learned.")
            raise SystemExit(INTERRUPTED)
        self.trained.save(self.plan.checkpoint)
        n = self.trained.training["examples"]
        saved = f"saved {self.plan.checkpoint}. Go on with:"
        self.console.print(f"Interrupted after {n:,} examples; {saved}", soft_wrap=True, highlight=False)
        self.console.print(f"  {command_to_resume()}", soft_wrap=True, highlight=False, markup=False)
        raise SystemExit(INTERRUPTED)


def _rows(chunk: Chunk, order: np.ndarray) -> Chunk:
    """Some rows of a chunk, in the order given."""
    labels, pointer = chunk.labels, chunk.pointer
    assert labels is not None
    if pointer is None:
        labels = labels[order]
    else:
        sizes = np.diff(pointer)[order]
        ends = np.cumsum(sizes)
        at = np.arange(ends[-1] if len(ends) else 0) + np.repeat(pointer[:-1][order] - (ends - sizes), sizes)
        labels, pointer = labels[at], np.concatenate([[0], ends])
    weights = None if chunk.weights is None else chunk.weights[order]
    return Chunk(chunk.X[order], labels, pointer, weights, chunk.n_skipped)


def _learn(trained: Trained, chunk: Chunk, columns: Columns | None) -> None:
    y = chunk.labels if columns is None else columns.matrix(chunk, learn=True)
    trained.estimator.partial_fit(chunk.X, y, sample_weight=chunk.weights)
    if columns is not None:
        trained.names = columns.names


def _learn_at_once(plan: Plan, trained: Trained, source: Source) -> None:
    chunks = list(source.chunks(WINDOW))
    if not chunks:
        raise CommandError(f"{plan.data}: there are no rows to learn from.")
    columns = columns_of(trained)
    X, y, weights = stacked(chunks, columns)
    if columns is not None:
        trained.names = columns.names
    clf = trained.estimator
    asked = {"n_jobs": plan.threads, "shuffle": plan.shuffle, **({"n_epochs": plan.epochs} if plan.epochs else {})}
    clf.set_params(**{name: value for name, value in asked.items() if name in clf.get_params(deep=False)})
    clf.fit(X, y, sample_weight=weights)
    clf.set_params(n_jobs=1)
    n_epochs = int(getattr(clf, "n_epochs_", plan.n_epochs))
    trained.training.update(epochs=max(n_epochs, plan.n_epochs), rows=0, examples=n_epochs * X.shape[0])


# -- what is told --------------------------------------------------------------------------------------------------


def _tell_start(console: Console, plan: Plan, source: Source, algorithm: str) -> None:
    reading = source.reading
    kinds = [f"{kind} {', '.join(getattr(reading, kind))}" for kind in ("text", "numeric", "categorical")
             if getattr(reading, kind)]  # fmt: skip
    hashed = "" if reading.n_features else f" (hashed into {reading.feature_bits} bits)"
    console.print(
        f"{algorithm}: {reading.format} with {reading.labels} label{'s' if reading.labels == 'several' else ''} a row, "
        f"{reading.width:,} features{hashed}{'; ' if kinds else ''}{'; '.join(kinds)}",
        soft_wrap=True, highlight=False, markup=False,
    )  # fmt: skip


def _already_done(plan: Plan, trained: Trained) -> None:
    n = trained.training["epochs"]
    print(f"{plan.model} is finished ({n} epochs): nothing to do.", file=sys.stderr)
    told: dict[str, Any] = {"model": plan.model, "already_finished": True, "epochs": n}
    if plan.test is not None:
        told["test"] = _test(plan, trained)
    if plan.as_json:
        print(json.dumps(told))
    elif plan.test is not None:
        Console(markup=False).print(table_of(told["test"]))


def _test(plan: Plan, trained: Trained) -> dict[str, float]:
    trained.estimator.n_jobs = plan.threads
    # The options say how the training file is read; the model remembers it, and this may be another format.
    skip = {name: value for name, value in plan.reading.items() if name == "skip_bad_lines"}
    return evaluate(trained, open_source(plan.test or "", skip, trained.reading))


def _tell_end(plan: Plan, trained: Trained, source: Source, n_examples: int, seconds: float) -> None:
    clf = trained.estimator
    errors = trained.training["progressive_errors"]
    told: dict[str, Any] = {
        "model": plan.model,
        "algorithm": clf._model.NAME,
        "examples": trained.training["examples"],
        "epochs": trained.training["epochs"],
        "n_classes": len(clf.classes_),
        "n_features": clf.n_features_in_,
        "n_skipped": source.n_skipped,
        "progressive_error": errors[0] if errors else None,  # of rows never seen before
        "progressive_errors": errors,
        "seconds": seconds,
        "examples_per_second": n_examples / max(seconds, 1e-9),
        "bytes": os.path.getsize(plan.model),
    }
    if plan.test is not None:
        told["test"] = _test(plan, trained)
    if plan.as_json:
        print(json.dumps(told))
        return
    out = Console(markup=False)
    skipped = f", {source.n_skipped:,} bad lines skipped" if source.n_skipped else ""
    out.print(
        f"{plan.model}: {told['n_classes']:,} classes, {told['bytes'] / 1e6:,.1f} MB, {told['examples']:,} examples "
        f"in {seconds:.1f} s{skipped}", soft_wrap=True, highlight=False, markup=False,
    )  # fmt: skip
    if plan.test is not None:
        out.print(table_of(told["test"]))
