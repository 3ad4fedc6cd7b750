"""`manyclass train`: train a model on a data file in bounded memory; a run can be interrupted and resumed.

A file is read once into a `RowStore`, which shuffles all rows in each epoch. An algorithm that can learn all rows at
once does so, from a mapped file if they do not fit into memory. Otherwise rows are learned in batches; how they are
divided into batches does not change the model. Hence a checkpoint needs only the model and the number of rows learned
so far, and a resumed run results in the same bytes. A pipe is learned as it comes.
"""

import errno
import hashlib
import json
import os
import shlex
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from ..core.base import algorithm_of, learns_at_once, learns_online
from ..core.calibration import FEWEST
from ..core.memory import LimitError, as_bytes, as_text, held_bytes
from ..core.model_file import remove_leftovers
from ..core.multilabel import ThresholdWarning
from ..core.validation import NARROW
from ..estimators import ESTIMATORS
from ..io import COLUMN_KINDS, Chunk, Reading, Source
from ..trained import LabelColumns, Trained, initial_names, open_model
from .algorithms import default_algorithm, make_estimator, option_help
from .evaluate import evaluate, table
from .files import can_read_once, check_model_name, only_writer, open_source, open_training_source, unknown_features
from .label_files import label_arguments, read_label_files
from .messages import INTERRUPTED, CommandError, note, notice_if_slow, printable, row_progress, stderr, warn
from .rows import Features, PipeRows, RowStore, arrays_of, take, warn_sorted

DEFAULT_EPOCHS = 5
_ROW_BYTES = 10**9  # of rows in memory
_DISAGREE = 0.1  # difference of held-out and progressive error that is not by chance
_BATCH = 1 << 10  # rows learned before the next check for an interrupt
_FINGERPRINT = 1 << 20  # bytes at the start and at the end of a file
_NOTES = {
    "numeric": {"decimal_comma": "decimal comma in {}", "mixed": "cells of {} that are no numbers are missing"},
    "date": {"month_first": "month first in {}", "mixed": "cells of {} that are no dates are missing"},
}


class Plan(SimpleNamespace):
    """The options of the command, as `train` in `main.py` declares them."""

    @property
    def n_epochs(self) -> int:
        """The number of epochs."""
        return self.epochs or (1 if can_read_once(self.data) else DEFAULT_EPOCHS)

    @property
    def checkpoint(self) -> str:
        """The checkpoint file."""
        return f"{self.model}.checkpoint"

    @property
    def online(self) -> bool:
        """Whether the options require training row by row."""
        return self.in_memory is False or bool(self.checkpoint_every or self.start_from)

    @property
    def in_place(self) -> bool:
        """Whether the model to start from is replaced by the result."""
        return bool(self.start_from) and os.path.exists(self.model) and os.path.samefile(self.start_from, self.model)

    @property
    def row_bytes(self) -> int:
        """The memory for rows."""
        if self.row_memory is not None:
            return as_bytes(self.row_memory) or 0
        return min(_ROW_BYTES, (as_bytes(self.max_memory) or 4 * _ROW_BYTES) // 4)

    def identity(self) -> dict[str, Any]:
        """The settings that a resumed run must share with the interrupted one."""
        return {
            **({"algorithm": self.algorithm} if self.algorithm else {}),
            "data": _fingerprint(self.data),
            "options": sorted(self.option or []),
            "calibrate": self.calibrate,
            "reading": {name: self.reading[name] for name in sorted(self.reading) if name != "skip_bad_lines"},
            "seed": self.seed,
            "shuffle": self.shuffle,
            "in_memory": self.in_memory,
            "max_memory": self.max_memory,
            "row_memory": self.row_memory,
            "start_from": None if self.start_from is None else _fingerprint(self.start_from),
            **{name: _fingerprint(path) for name, path in self.about_labels.items()},
        }

    @property
    def about_labels(self) -> dict[str, str]:
        """The files about labels."""
        paths = {"label_text": self.label_text, "hierarchy": self.hierarchy}
        return {name: path for name, path in paths.items() if path is not None}


def run(**options: Any) -> None:
    """Train a model, save it and evaluate it."""
    plan = Plan(**options)
    if "help" in (plan.option or []):
        return print(option_help(plan.algorithm or default_algorithm()))
    _check(plan)
    with only_writer(plan.model):
        _run(plan)


def _run(plan: Plan) -> None:
    if not plan.resume and os.path.exists(plan.checkpoint):
        raise CommandError(
            f"{plan.checkpoint} is from a run that was interrupted: add --resume to continue it, or delete the file to "
            "start from scratch."
        )
    remove_leftovers(plan.model)
    remove_leftovers(plan.checkpoint)
    base = open_model(plan.start_from) if plan.start_from else None
    if base is not None and base.estimator._slim:
        raise CommandError(f"{plan.start_from}: this is a slim model, which can only predict: use the full model.")
    source = open_training_source(plan.data, plan.reading, base.reading if base else None)
    several = source.reading.labels == "several"
    # Without --algorithm, rows that are learned one by one may turn out to need another one.
    algorithm = algorithm_of(base.estimator) if base else plan.algorithm or default_algorithm()
    if several and not hasattr(ESTIMATORS[algorithm], "multilabel_"):
        raise CommandError(
            f"{plan.data}: {algorithm} does not support several labels per row: use label-tree or spectral-tree."
        )
    _check_test(plan, source.reading)
    plan.label_files = read_label_files(plan.about_labels, algorithm, source.reading, plan.online)
    if plan.online and not learns_online(ESTIMATORS[algorithm]):
        raise CommandError(f"{algorithm} trains on all rows at once: omit --online, --checkpoint-every, --start-from.")
    if plan.row_memory and not learns_online(ESTIMATORS[algorithm]):
        raise CommandError(f"{algorithm} holds all rows in memory: omit --row-memory.")
    identity = plan.identity()
    trained = _earlier_run(plan, identity) if plan.resume else None
    if trained is None:
        estimator = base.estimator if base else make_estimator(algorithm, plan.option or [], plan.seed)
        if plan.calibrate:
            estimator.set_params(calibration=plan.calibrate)
        if plan.max_memory:
            _limit(estimator, algorithm, plan.max_memory)
            with notice_if_slow():
                _load_code(estimator, source.reading)
            _check_held(plan, "before a row is read")
        trained = Trained(estimator, source.reading, base.names if base else initial_names(source.reading))
        if base:
            trained.label_counts, trained.n_counted = base.label_counts, base.n_counted
        trained.training = {**identity, "algorithm": algorithm, "finished": False}
        trained.training |= {"epochs": 0, "rows": 0, "examples": 0}
        trained.training |= {"progressive_errors": [], "held_out_errors": []}  # of each epoch
        trained.training["pace"] = max(0, getattr(estimator, "n_epochs_", 0) - 1)  # keep the last learning rate
    elif trained.training["finished"] and trained.training["epochs"] >= plan.n_epochs:
        n_epochs = trained.training["epochs"]
        note(f"{plan.model} is complete ({n_epochs} epochs): nothing to do.")
        return _report(plan, trained, {"model": plan.model, "already_finished": True, "epochs": n_epochs})
    _print_start(source)
    start, n_before = time.perf_counter(), trained.training["examples"]
    _train(plan, trained, source, base)
    seconds = time.perf_counter() - start
    warn(unknown_features(source))
    if several and trained.names == []:
        raise CommandError(f"{plan.data}: no row has a label.")
    if not several and len(trained.estimator.classes_) < 2:
        raise CommandError(f"{plan.data}: {_ONE_CLASS.format(trained.estimator.classes_[0])}")
    trained.training["finished"] = True
    trained.save(plan.model)
    Path(plan.checkpoint).unlink(missing_ok=True)
    errors, held = trained.training["progressive_errors"], trained.training["held_out_errors"]
    n_rows = trained.training["examples"] - n_before
    result = {
        "model": plan.model,
        "algorithm": algorithm_of(trained.estimator),
        "examples": trained.training["examples"],
        "epochs": trained.training["epochs"],
        "n_classes": len(trained.estimator.classes_),
        "n_features": trained.estimator.n_features_in_,
        "n_skipped": source.n_skipped,
        "progressive_error": errors[0] if errors else None,  # of the first epoch: all rows were new
        "progressive_errors": errors,
        "held_out_errors": held,
        "seconds": seconds,
        "examples_per_second": n_rows / max(seconds, 1e-9),
        "bytes": os.path.getsize(plan.model),
    }
    if not plan.as_json:
        skipped = f", {source.n_skipped:,} bad lines skipped" if source.n_skipped else ""
        size = f"{result['n_classes']:,} classes, {result['bytes'] / 1e6:,.1f} MB"
        rows = f"read {source.n_rows:,} rows"
        if not trained.training.get("at_once"):
            rows += f", learned {n_rows:,} counting every epoch"  # held-out rows are not learned
        print(f"{plan.model}: {size}, {rows}, in {seconds:.1f} s{skipped}")
    _report(plan, trained, result)


def _check(plan: Plan) -> None:
    """Reject options that do not fit together before any work is done."""
    check_model_name(plan.model)
    if can_read_once(plan.data) and plan.n_epochs > 1 and not plan.in_memory:
        raise CommandError(
            f"{plan.data} can be read only once: omit --epochs, add --in-memory, or write the data to a file."
        )
    if plan.test == "-" == plan.data:
        raise CommandError("--test -: standard input has the training rows; write the test rows to a file.")
    if plan.test is not None and plan.test != "-" and not os.path.exists(plan.test):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), plan.test)
    if plan.in_memory and (plan.checkpoint_every or plan.start_from):
        raise CommandError("--in-memory trains on all rows at once: omit --checkpoint-every and --start-from.")
    if plan.max_memory and plan.online:
        raise CommandError(_NO_LIMIT)
    if plan.in_memory and plan.row_memory:
        raise CommandError("--in-memory holds all rows in memory, --row-memory limits them: omit one of the two.")
    if plan.max_memory and plan.row_bytes > (as_bytes(plan.max_memory) or 0):
        raise CommandError(
            f"--row-memory {plan.row_memory} is more than --max-memory {plan.max_memory}, which includes the rows: use "
            "less for the rows, or omit --row-memory."
        )
    if plan.start_from and (plan.algorithm or plan.option):
        raise CommandError("--start-from uses the settings of the model: omit --algorithm and --option.")


def _check_test(plan: Plan, reading: Reading) -> None:
    """Read the first rows of the test file before training."""
    if plan.test is not None and not can_read_once(plan.test):
        for _ in _test_source(plan, reading).chunks(256):
            return
        raise CommandError(f"{plan.test}: there are no rows to evaluate.")


def _test_source(plan: Plan, reading: Reading) -> Source:
    """The test file. It may have another format than the training file: use the reading stored in the model."""
    options = {name: value for name, value in plan.reading.items() if name == "skip_bad_lines"}
    assert plan.test is not None
    return open_source(plan.test, options, reading)


def _print_start(source: Source) -> None:
    reading = source.reading
    labels = "several labels" if reading.labels == "several" else "one label"
    lines = [f"{reading.format}, {labels} per row"]
    for kind in (*COLUMN_KINDS, "ignored"):
        if columns := getattr(reading, kind):
            lines.append(f"  {kind:<12}{', '.join(columns)}{_how(reading, kind)}")
    stderr.print(printable("\n".join(lines), sys.stderr))


def _how(reading: Reading, kind: str) -> str:
    """How the columns of a kind become features."""
    notes = _NOTES.get(kind, {}).items()
    own = set(getattr(reading, kind))
    formats = {note: [name for name in getattr(reading, key) or () if name in own] for key, note in notes}
    parts = [note.format(", ".join(columns)) for note, columns in formats.items() if columns]
    if kind == "text":
        parts.append("words" if reading.ngrams == 1 else f"1 to {reading.ngrams} words")
        if reading.chars_of:
            parts.append(f"{reading.chars[0]} to {reading.chars[1]} characters of {', '.join(reading.chars_of)}")
        parts += ["idf"] if reading.weighted and reading.idf else []
    return f" ({'; '.join(parts)})" if parts else ""


def _report(plan: Plan, trained: Trained, result: dict[str, Any]) -> None:
    """Evaluate the model if requested, and print the result."""
    if plan.test is not None:
        trained.estimator.n_jobs = plan.threads
        result["test"] = evaluate(trained, _test_source(plan, trained.reading))
    if plan.as_json:
        print(json.dumps(result))
    elif plan.test is not None:
        print(table(result["test"]))


# -- training ------------------------------------------------------------------------------------------------------


def _train(plan: Plan, trained: Trained, source: Source, base: Trained | None) -> None:
    """Train at once or row by row, from all rows of a file or from a pipe as it comes."""
    features = Features(source.reading, base.reading if base else None)
    in_memory = plan.in_memory or not learns_online(trained.estimator)
    if can_read_once(plan.data) and not in_memory:
        if plan.max_memory:
            raise CommandError(f"{plan.data}: {_NO_LIMIT}")
        read_label_files(plan.about_labels, "", source.reading, True)
        pipe = PipeRows(source, features, plan.seed, plan.shuffle)
        _choose_for_stream(plan, trained, features)
        return Training(plan, trained, pipe).run()
    folder = os.path.dirname(os.path.realpath(plan.model))
    max_bytes = sys.maxsize if in_memory else plan.row_bytes
    resumed = trained.training["examples"] > 0
    streams, at_once = plan.online or resumed, learns_at_once(trained.estimator)
    # With calibration or texts of labels, `fit` copies the rows.
    mapped = at_once and not (streams or plan.calibrate or plan.label_text)
    store = RowStore(source, features, folder, plan.seed, plan.shuffle, max_bytes, mapped)
    with row_progress("reading", lambda: source.position) as update:

        def count(n_rows: int) -> None:
            update(n_rows)
            fewer = ", or a smaller --row-memory" if mapped and store.in_memory and not in_memory else ""
            _check_held(plan, f"after {store.n_rows:,} rows were read", fewer)

        store.read(count)
    labels, trained.reading = store.labels, features.reading
    if base is None and trained.reading.labels == "one" and labels.only is not None:
        raise CommandError(f"{plan.data}: {_ONE_CLASS.format(labels.only)}")
    if not plan.shuffle and labels.found:
        warn_sorted(plan.data, "omit --no-shuffle")
    warn(labels.doubtful(trained.reading))
    at_once = at_once or plan.calibrate  # `fit` holds out more rows than a row store
    if in_memory or (store.has_whole and at_once and not streams):
        return _fit(plan, trained, store)
    read_label_files(plan.about_labels, "", trained.reading, True)
    if plan.max_memory and learns_at_once(trained.estimator):
        raise CommandError(
            f"{plan.data}: the rows take more than the {as_text(plan.row_bytes)} of --row-memory, by default a quarter "
            "of --max-memory. Learned row by row, they would have no limit of memory: use a higher one."
        )
    if plan.max_memory:
        raise CommandError(f"{plan.data}: {_NO_LIMIT}")
    _choose_for_stream(plan, trained, features)
    if learns_at_once(trained.estimator) and not streams:  # `fit` cannot map these rows
        what = "the rows take more than --row-memory and are learned row by row, so that the model is many times larger"
        warn([f"{what}: use a larger --row-memory{', or omit --calibrate' if plan.calibrate else ''}."])
    Training(plan, trained, store).run()


def _choose_for_stream(plan: Plan, trained: Trained, features: Features) -> None:
    """Without --algorithm, take the one for a stream of such rows, unless training goes on with a model."""
    if plan.algorithm is None and plan.start_from is None and not trained.training["examples"]:
        algorithm = default_algorithm(features.wide, features.reading.labels == "several", stream=True)
        if algorithm != trained.training["algorithm"]:
            estimator = make_estimator(algorithm, plan.option or [], plan.seed)
            trained.estimator = estimator.set_params(calibration=plan.calibrate)
            trained.training["algorithm"] = algorithm
    _print_algorithm(trained, "row by row")


def _print_algorithm(trained: Trained, how: str) -> None:
    reading = trained.reading
    hashed = "" if reading.n_features else " (hashed)"
    stderr.print(f"training a {algorithm_of(trained.estimator)}, {reading.width:,} features{hashed}, {how}")


def _limit(estimator: Any, algorithm: str, max_memory: str) -> None:
    if not hasattr(estimator, "max_memory"):
        other = " --row-memory limits what its rows take." if learns_online(estimator) else ""
        raise CommandError(f"--max-memory: {algorithm} has no limit of memory.{other}")
    estimator.set_params(max_memory=max_memory)


def _load_code(estimator: Any, reading: Reading) -> None:
    """Fit a copy to a few made-up rows: compiled code takes memory, which must be in use before it is estimated."""
    rng, n_rows, n_labels = np.random.default_rng(0), 300, 40
    X: Any = rng.standard_normal((n_rows, min(reading.width, NARROW)), np.float32)
    if reading.width > NARROW:
        X = sp.csr_array(X[:, :5])
        X = sp.csr_array((X.data, rng.integers(0, reading.width, X.nnz), X.indptr), shape=(n_rows, reading.width))
    y: Any = np.arange(n_rows) % n_labels
    if reading.labels == "several":
        y = sp.csr_array(np.eye(n_labels, dtype=np.int8)[y])
    n_trees = min(2, estimator.n_trees)  # the code that averages trees is loaded, too
    clone(estimator).set_params(max_memory=None, class_weight=None, n_epochs=1, n_trees=n_trees).fit(X, y)


def _check_held(plan: Plan, when: str, other: str = "") -> None:
    """Refuse as soon as the process takes more than --max-memory: training would take still more."""
    if plan.max_memory and (held := held_bytes()) > (as_bytes(plan.max_memory) or 0):
        what = f"not enough memory: {as_text(held)} are in use {when}, but --max-memory is {plan.max_memory}"
        raise CommandError(f"{what}: use a larger one{other}.")


_NO_LIMIT = (
    "--max-memory is for label trees that learn all rows at once, but these rows are learned row by row: omit it."
)
_ONE_CLASS = "all rows have the label '{}'; at least two classes are required."


class Training:
    """A run over the epochs of some rows that can be interrupted between two batches."""

    def __init__(self, plan: Plan, trained: Trained, rows: RowStore | PipeRows):
        self.plan, self.trained, self.rows = plan, trained, rows
        self.columns = LabelColumns.of_model(trained)
        self.stop = self.busy = False

    def run(self) -> None:
        """Run all remaining epochs, then learn the rows that were held out."""
        plan, training = self.plan, self.trained.training
        handlers = {number: signal.signal(number, self._interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            while training["epochs"] < plan.n_epochs:
                epoch = training["epochs"]
                position = lambda: self.rows.position(training["rows"])  # noqa: E731
                with row_progress(f"epoch {epoch + 1}/{plan.n_epochs}", position) as update:
                    self._epoch(epoch, update)
                    self._end_epoch(epoch, update)
        except KeyboardInterrupt:
            self._end_early()
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)

    def _epoch(self, epoch: int, update: Callable[..., None]) -> None:
        training = self.trained.training
        if training["rows"] == 0:
            self.trained.estimator._begin_epoch(training["pace"] + epoch)
        first = 0  # row of the window in this epoch
        for chunk in self.rows.windows(epoch):
            n = chunk.X.shape[0]
            self.trained.reading = self.rows.features.reading
            if first + n > training["rows"]:
                self._window(chunk, training["rows"] - first, update)
            first += n
        if first == 0:
            raise CommandError(f"{self.plan.data}: there are no rows to learn from.")
        if training["rows"] > first:
            raise CommandError(f"{self.plan.data} has {first} rows, but {training['rows']} were learned before.")

    def _end_epoch(self, epoch: int, update: Callable[..., None]) -> None:
        """Record the errors; learn the held-out rows after the last epoch."""
        training, clf = self.trained.training, self.trained.estimator
        error, held_error, held = clf.progressive_error_, float("nan"), self.rows.held_out()
        y: Any = None
        if held is not None:
            y = held.labels
            if self.columns is not None:
                y = self.columns.matrix(held, learn=False)
                y.resize(y.shape[0], max(y.shape[1], len(clf.classes_)))
            held_error = 1 - clf.diagnose(held.X, y)["accuracy"]
            update(0, error, held_error)
            if epoch == 0 and held_error > error + _DISAGREE:
                stderr.print(
                    f"Warning: the error on held-out rows ({held_error:.2f}) is far above the progressive error "
                    f"({error:.2f}). The rows may be sorted, or change over time."
                )
        self.busy = True  # an interrupt waits until the record is complete
        training["progressive_errors"].append(None if error != error else error)
        training["held_out_errors"].append(None if held_error != held_error else held_error)
        if epoch + 1 == self.plan.n_epochs:
            if self.plan.calibrate:
                self._calibrate(held, y)
            elif self.columns is not None and held is not None and held.X.shape[0] >= FEWEST:
                clf._threshold = clf._best_threshold(held.X, clf._truth(held.X, y))
            if held is not None:
                _learn(self.trained, held, self.columns)
                if epoch and not training["finished"]:  # in the first epoch, `_learn` counts them
                    self.trained.count(y)
                training["examples"] += held.X.shape[0]
        training["epochs"], training["rows"] = epoch + 1, 0
        self.busy = False

    def _calibrate(self, held: Chunk | None, y: Any) -> None:
        """Calibrate on the held-out rows; with too few of them, say so: the trained model must not be lost."""
        n = 0 if held is None else held.X.shape[0]
        if held is None or n < FEWEST:
            advice = "use more rows, or --in-memory"
            stderr.print(f"Warning: not calibrated, only {n} rows were held out and {FEWEST} are required: {advice}.")
            return
        self.trained.estimator.calibrate(held.X, y, method=self.plan.calibrate)

    def _window(self, chunk: Chunk, begin: int, update: Callable[..., None]) -> None:
        """Learn the rows of a window from the given one on, and write checkpoints."""
        training, every = self.trained.training, self.plan.checkpoint_every
        begin = max(0, begin)
        while begin < chunk.X.shape[0]:
            size = min(_BATCH, chunk.X.shape[0] - begin)
            if every:
                size = min(size, every - training["examples"] % every)
            self.busy = True
            with notice_if_slow():
                _learn(self.trained, take(chunk, np.arange(begin, begin + size)), self.columns)
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


def _learn(trained: Trained, chunk: Chunk, columns: LabelColumns | None) -> None:
    y = chunk.labels if columns is None else columns.matrix(chunk, learn=True)
    trained.estimator.partial_fit(chunk.X, y, sample_weight=chunk.weights)
    if columns is not None:
        trained.names = columns.names
    if trained.training["epochs"] == 0:
        trained.count(y)


def _fit(plan: Plan, trained: Trained, store: RowStore) -> None:
    """Fit the estimator to all rows at once."""
    columns = LabelColumns.of_model(trained)
    X, y, weights = arrays_of(store.whole(), columns)
    if columns is not None:
        trained.names = columns.names
    clf = trained.estimator
    params = {"n_jobs": plan.threads, "shuffle": plan.shuffle, "n_epochs": plan.epochs}
    known = clf.get_params(deep=False)
    clf.set_params(**{name: value for name, value in params.items() if name in known and value is not None})
    _print_algorithm(trained, f"{X.shape[0]:,} rows at once{'' if store.in_memory else ' from a temporary file'}")
    try:
        with notice_if_slow(), _threshold_notes(plan):
            clf.fit(X, y, sample_weight=weights, **label_arguments(plan.label_files, trained, y))
    except KeyboardInterrupt:
        stderr.print("Interrupted; nothing was saved. With --online, training can be interrupted and resumed.")
        raise SystemExit(INTERRUPTED) from None
    except LimitError as error:
        n_bytes = 0 if store.in_memory else X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
        held = n_bytes if 4 * n_bytes <= error.needed + n_bytes else 0  # with a higher limit they may be in memory
        others = ["use fewer trees (--option n_trees=...)"] * error.fewer_trees
        others += ["do not learn the threshold (--option threshold=0.5)"] * error.given_threshold
        advice = error.advice("--max-memory", "--max-memory {}", others, held)
        raise CommandError(f"not enough memory: {advice}") from error
    trained.count(y)
    clf.set_params(n_jobs=1)
    n_epochs = int(getattr(clf, "n_epochs_", plan.n_epochs))
    trained.training.update(epochs=max(n_epochs, plan.n_epochs), rows=0, examples=n_epochs * X.shape[0], at_once=True)


@contextmanager
def _threshold_notes(plan: Plan) -> Iterator[None]:
    """Say with the options of the command why a threshold could not be learned."""
    show: Any = warnings.showwarning

    def note(message: Any, *where: Any) -> None:
        if not isinstance(message, ThresholdWarning):
            return show(message, *where)
        error, what = message.error, "the threshold of labels stays 0.5: there was too little memory to learn it"
        if plan.max_memory is not None:
            enough = error.enough() if isinstance(error, LimitError) else "with a larger size"
            what += f" within --max-memory {plan.max_memory}. To learn it, use --max-memory {enough}"
        return warn([f"{what}."])

    with warnings.catch_warnings():
        warnings.simplefilter("always", ThresholdWarning)
        warnings.showwarning = cast(Any, note)
        yield


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
        note(f"There is no {plan.checkpoint}: starting from scratch.")
        return None
    trained = open_model(found)
    record = trained.training
    different = [name for name in identity if record.get(name, ...) != identity[name]]
    if found == plan.model and plan.in_place and record.get("start_from") and identity["data"]:
        # The run has replaced the model that it started from. Data of a pipe may be new.
        different = [name for name in different if name != "start_from"]
    counts = [record.get(name) for name in ("epochs", "rows", "examples", "pace")]
    valid = all(type(count) is int and count >= 0 for count in counts) and type(record.get("finished")) is bool
    lists = all(isinstance(record.get(name), list) for name in ("progressive_errors", "held_out_errors"))
    if not different and not (valid and lists):
        different = ["training"]
    if different and found == plan.model:
        note(f"{found} is from another run ({', '.join(different)} differ): starting from scratch.")
        return None
    if different:
        raise CommandError(
            f"{found} is from another run ({', '.join(different)} differ): use the same data and options to continue, "
            "or delete the file to start from scratch."
        )
    if record.get("at_once") and record["epochs"] < plan.n_epochs:
        note(f"{found} was trained on all rows at once: starting from scratch.")
        return None
    if record["epochs"] > plan.n_epochs and not record["finished"]:
        raise CommandError(f"{found} is in epoch {record['epochs'] + 1}, but --epochs is {plan.n_epochs}.")
    return trained
