"""A model that predicts and learns at the same time.

Two copies of the model are in memory. Predictions use the one that is published. The learner thread changes the other
one, publishes it, waits until nobody uses the old one, and applies the same rows to it. So predictions never wait for
learning and never see half of an update. Both copies are equal, byte for byte, because a model depends on its rows
only, not on how they are divided into batches; for the same reason a journal that is replayed after a crash gives the
same bytes as a run without one.

Files of a model, in its state folder: `journal.sqlite`, and the versions as they were last saved: `1.model`, `2.model`.
"""

import hashlib
import logging
import os
import shutil
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..core.base import learns_online
from ..core.columns import apply
from ..core.model_file import ModelFormatError, lock, remove_leftovers, replaced
from ..core.validation import SMALLEST, as_batch
from ..trained import Trained, open_model
from .journal import Journal, Stored, not_cancelled
from .rows import WIDEST, Learned, RequestFeatures, RequestLabels, of_each

log = logging.getLogger("manyclass.serve")

WINDOW = 1000  # learned rows over which accuracy and drift are measured
_BINS = 20  # groups of labels with about equal numbers of training rows, for drift
_GROUP = 256  # rows learned before the next publication
_RETRY = 60.0  # seconds after which a checkpoint that failed is tried again
_PROBE = 5.0  # seconds after which a journal that could not be written is tried again
_LEAST, _TINY = float(np.finfo(float).min), float(np.finfo(float).tiny)


class CannotLearn(Exception):
    """The model only predicts, or the learner has stopped."""


class Busy(Exception):
    """Too many rows wait to be learned."""


@dataclass(frozen=True)
class Settings:
    """How often a model is published and saved."""

    publish_every: float = 0.1  # seconds between two publications under load; the first one comes at once
    checkpoint_rows: int = 50_000  # rows learned between two checkpoints
    checkpoint_seconds: float = 300.0
    poll: float = 0.5  # seconds between two looks at the journal, which other processes may write
    max_backlog: int = 100_000  # rows that wait to be learned
    keep_versions: int = 2


class Prediction(NamedTuple):
    """The best labels of a row."""

    labels: list
    scores: list[float]
    probabilities: list[float]
    work: list[int]  # depth, nodes visited, routers scored, candidates scored
    version: int  # of the model


class Copy:
    """One of the two copies of a model."""

    def __init__(self, trained: Trained):
        self.trained, self.labels, self.readers = trained, RequestLabels(trained), 0
        self.estimator = trained.estimator
        self.features = RequestFeatures(trained)  # of the learner
        self._searching: tuple[Any, int] | None = None  # options and width of a search, until rows are learned
        self._threads = threading.local()
        self.version = 0

    def own_features(self) -> RequestFeatures:
        """Those of the calling thread."""
        own: RequestFeatures | None = getattr(self._threads, "features", None)
        if own is None:
            own = self._threads.features = RequestFeatures(self.trained)
        elif own.reading is not self.trained.reading:
            own.follow(self.trained.reading)
        return own

    def learn(self, parts: Sequence[tuple[int, Any]], labels: Sequence[list], reading: Any) -> None:
        """Learn rows; `parts` has their features."""
        begin, self._searching = 0, None
        for n_rows, X in parts:
            y = self.labels.array(labels[begin : begin + n_rows])
            self.estimator.partial_fit(_without_tiny(X), y)
            if self.labels.columns is not None:
                self.trained.names = self.estimator._names = self.labels.columns.names
            self.trained.count(y)
            begin += n_rows
        self.trained.reading = reading

    def prepare_to_learn(self, row: Any) -> None:
        """Bring the arrays of the model into the form in which they can change: it takes seconds for many classes."""
        clf, no_rows = self.estimator, as_batch(self.features([row])[:0])
        clf._model.learn(clf._options, clf._state, no_rows, np.empty(0, np.int32), np.empty(0, np.float32))
        clf._index.find(clf._index.array[:1])  # builds the lookup of labels

    def predict(self, rows: Sequence[Any], k: int, probabilities: bool = True) -> list[Prediction]:
        """The k best labels of each row that were scored."""
        clf, model = self.estimator, self.estimator._model
        state, k = clf._state, min(k, clf._index.n_current)
        if model.NAME == "label-tree" and clf._index.target is None and "calibration" not in state:
            options, width = self._search_options()  # one search gives scores and probabilities
            batch = apply(state, self.own_features().batch(rows))
            labels, scores, work = model.search(options, state, batch, width if probabilities else k)
            chances = _chances(scores, options.multilabel or "tree_1" in state)
        else:
            X = self.own_features()(rows)
            labels, scores, work = clf._predict(X, k)
            chances = clf._most_probable(X, k)[1] if probabilities else scores
        if not (scores < np.inf).all():  # NaN is not, either
            raise ValueError("a score is not finite: the row has values far larger than those of the training rows.")
        out = []
        for r, n in enumerate(np.minimum(k, np.isfinite(scores).sum(axis=1)).tolist()):  # the others come last
            likely = chances[r, :n].tolist() if probabilities else []
            found = self.trained.labels(labels[r, :n]), scores[r, :n].tolist(), likely, work[r].tolist()
            out.append(Prediction(*found, self.version))
        return out

    def _search_options(self) -> tuple[Any, int]:
        if self._searching is None:
            options = self.estimator._prediction_options()
            self._searching = options, self.estimator._model.width(options, self.estimator._state)
        return self._searching

    def explain(self, row: Any) -> dict[str, Any]:
        """The explanation of the best label, with the words of a text."""
        features = self.own_features()
        return self.estimator.explain(features([row]), feature_names=features.names(row)).to_dict()

    def path(self, row: Any) -> list[int]:
        """The nodes of the tree that a row reaches."""
        clf = self.estimator
        batch = apply(clf._state, self.own_features().batch([row]))
        paths = clf._model.paths(clf._prediction_options(), clf._state, batch)
        return paths[0].tolist() if paths else []


@dataclass
class Recent:
    """What happened to the latest learned rows."""

    right: deque = field(default_factory=lambda: deque(maxlen=WINDOW))
    bins: deque = field(default_factory=lambda: deque(maxlen=WINDOW))  # of the label; -1: it was new
    edges: np.ndarray = field(default_factory=lambda: np.zeros(0))
    shares: np.ndarray = field(default_factory=lambda: np.zeros(0))

    @classmethod
    def after(cls, trained: Trained) -> "Recent":
        """Drift is measured against the rows that a model has learned so far, in groups of labels."""
        counts = trained.label_counts if trained.n_counted else np.ones(len(trained.estimator._index))
        below = np.cumsum(counts) / max(counts.sum(), 1)
        edges = np.unique(np.searchsorted(below, np.linspace(0, 1, _BINS + 1)[1:-1]))
        shares = np.diff(np.concatenate([[0], below[edges], [1]]))
        return cls(edges=edges, shares=shares)

    def add(self, right: bool, label: int) -> None:
        """Note a row: whether it was predicted right before it was learned, and its label's id, -1 if new."""
        self.right.append(right)
        self.bins.append(-1 if label < 0 else int(np.searchsorted(self.edges, label)))

    @property
    def accuracy(self) -> float:
        """Share of rows that were predicted right before they were learned."""
        right = list(self.right)
        return sum(right) / len(right) if right else float("nan")

    @property
    def drift(self) -> float:
        """Total variation distance of the groups' shares from those of the training rows; new labels are a group."""
        bins = np.array(list(self.bins), np.int64)  # at once: the learner adds to it
        if not len(bins):
            return float("nan")
        counts = np.bincount(bins + 1, minlength=len(self.shares) + 1) / len(bins)
        return float(np.abs(counts - np.concatenate([[0], self.shares])).sum() / 2)

    @property
    def new_labels(self) -> float:
        """Share of rows whose label was new."""
        bins = list(self.bins)
        return bins.count(-1) / len(bins) if bins else float("nan")


class ServedModel:
    """A model of the service, with its journal and its learner.

    The model file at `path` is never changed; the journal and the learned versions are in the folder `state`.
    """

    def __init__(self, name: str, path: Path, state: Path, settings: Settings = Settings()):
        self.name, self.path, self.state, self.settings = name, path, state, settings
        self.recent, self.n_learned, self.n_refused, self.error = Recent(), 0, 0, ""
        self.applied = self.saved = 0  # rows of the journal
        self.saved_at, self._retry_at, self._probe_at = time.time(), 0.0, 0.0
        self.unsaved = ""  # why the last checkpoint failed
        self._lock = threading.Condition()  # of `_live`, the readers and what waits
        self._waiting: list[tuple[int, Future[int]]] = []
        self._jobs: deque[tuple[Callable[[], Any], Future]] = deque()
        self._wake, self._stopping, self.stopped = threading.Event(), False, False
        self._older: dict[int, Copy] = {}
        self._lock_file: Any = None
        self.version = 0
        self._live: Copy
        self._spare: Copy
        if not (state / "journal.sqlite").exists():
            open_model(str(path))  # refuse a damaged file before anything is written
        state.mkdir(parents=True, exist_ok=True)
        with self._own_files():
            self.journal = Journal(state / "journal.sqlite")
            self._start()
        self._thread = threading.Thread(target=self._run, name=f"learner {name}", daemon=True)

    def start(self) -> None:
        """Start learning."""
        self._thread.start()

    # -- predictions -----------------------------------------------------------------------------------------------

    @contextmanager
    def published(self, version: int | None = None) -> Iterator[Copy]:
        """The copy that predictions use; it does not change while it is in use. KeyError: no such version."""
        with self._lock:
            copy = self._live if version in (None, self.version) else self._older[version]
            copy.readers += 1
        try:
            yield copy
        finally:
            with self._lock:
                copy.readers -= 1
                if not copy.readers:
                    self._lock.notify_all()

    @property
    def versions(self) -> list[int]:
        """All versions that can predict, the one that learns last."""
        return [*self._older, self.version]

    @property
    def learns(self) -> bool:
        """Whether the model can learn at all."""
        return can_learn(self._live)

    # -- learning --------------------------------------------------------------------------------------------------

    def check(self, rows: Sequence[tuple[Any, Sequence[Any]]]) -> list[bytes]:
        """The rows as the journal takes them; BadRow if one cannot be learned."""
        if not self.learns:
            raise CannotLearn(f"this model only predicts: {why_not(self._live)}.")
        if self.error:
            raise CannotLearn(f"learning has stopped: {self.error}")
        if self.backlog > self.settings.max_backlog:
            raise Busy(f"{self.backlog} rows wait to be learned.")
        with self.published() as copy:
            checked = of_each(rows, lambda pair: Learned(pair[0], copy.labels.check(pair[1])))
            copy.own_features().batch([one.row for one in checked])
        return [one.body() for one in checked]

    def add(self, bodies: list[bytes], key: str | None) -> "Future[Stored]":
        """Write checked rows to the journal; they are learned soon after."""
        stored = self.journal.add(bodies, key)
        stored.add_done_callback(lambda done: self._wake.set())
        return stored

    def when_learned(self, seq: int) -> "Future[int]":
        """A future that is done when a row of the journal is part of the published model."""
        done: Future[int] = not_cancelled()
        with self._lock:
            if self.error:
                done.set_exception(CannotLearn(self.error))
                return done
            if seq > self.applied:
                self._waiting.append((seq, done))
                return done
        done.set_result(seq)
        return done

    @property
    def backlog(self) -> int:
        """Rows that wait to be learned."""
        return max(0, self.journal.last - self.applied)

    def _run(self) -> None:
        while True:
            stopping = self._stopping
            try:
                n_rows = self._learn_some()
                while self._jobs:
                    self._do(*self._jobs.popleft())
                if self._is_due() and self._leads():
                    self._checkpoint_or_log()
            except Exception as error:  # the service goes on predicting, says so, and learns after a restart
                log.exception("learning stopped", extra={"model": self.name})
                self._fail(f"{type(error).__name__}: {error}")
                return
            if stopping and not n_rows:
                return
            if not n_rows:
                if self.journal.error and time.time() >= self._probe_at:
                    self._probe_at = time.time() + _PROBE
                    self.journal.try_again()
                self._wake.wait(self.settings.poll)
                self._wake.clear()
            elif n_rows < _GROUP and not stopping:  # more of them may come, and are learned together
                time.sleep(self.settings.publish_every)

    def _is_due(self) -> bool:
        """Whether the model has to be saved."""
        now, n_rows = time.time(), self.applied - self.saved
        late = n_rows > 0 and now - self.saved_at > self.settings.checkpoint_seconds
        return (late or n_rows >= self.settings.checkpoint_rows) and now >= self._retry_at

    @contextmanager
    def _own_files(self) -> Iterator[None]:
        """While this process loads or saves versions, no other one saves them or truncates the journal."""
        with open(self.state / "files.lock", "ab") as file:
            while not lock(file):
                time.sleep(0.02)
            yield

    def _leads(self) -> bool:
        """Whether this process saves the model: one of those that share the journal does, until it ends."""
        if self._lock_file is None:
            file = open(self.state / "leader.lock", "ab")
            if not lock(file):
                file.close()
                return False
            self._lock_file = file
        return True

    def _do(self, job: Callable[[], Any], done: Future) -> None:
        try:
            with self._own_files():
                result = job()
            done.set_result(result)
        except Exception as error:
            done.set_exception(error)

    def _learn_some(self) -> int:
        """Learn the next rows of the journal; how many there were."""
        rows, newest = self.journal.rows(self.applied, _GROUP), max(self.journal.versions())
        if newest > self.version or self.journal.bounds()[0] > self.applied:  # another process has been faster
            with self._own_files():
                self._load(newest)
            return 1
        if not rows:
            return 0
        learned = [Learned.of(row.body) for row in rows if not row.refused]
        spare = self._spare
        if not learned:
            self._advance(rows[-1].seq, 0)
            return len(rows)
        try:
            self._note(spare, learned)
            parts = spare.features.to_learn([one.row for one in learned])
            labels, reading = [one.labels for one in learned], spare.features.reading
            spare.learn(parts, labels, reading)
        except Exception as error:
            log.warning("rows could not be learned", extra={"model": self.name, "reason": str(error)})
            with self._own_files():
                self._refuse_rows()
                self._load(self.version)
            return len(rows)
        with self._lock:
            old, self._live = self._live, spare
            self._advance(rows[-1].seq, len(learned))
            while old.readers:
                self._lock.wait()
        old.learn(parts, labels, reading)
        old.features.follow(reading)
        self._spare = old
        return len(rows)

    def _note(self, copy: Copy, rows: list[Learned]) -> None:
        """Predict rows before they are learned."""
        found = copy.predict([one.row for one in rows], 1, probabilities=False)
        for one, prediction in zip(rows, found, strict=True):
            right = bool(prediction.labels) and prediction.labels[0] in one.labels
            for label in one.labels[:1]:
                self.recent.add(right, copy.labels.id(copy.trained, label))

    def _refuse_rows(self) -> None:
        """Learn the journal row by row from the saved model, and mark the rows that cannot be learned."""
        while (bad := self._first_bad_row()) is not None:
            seq, reason = bad
            log.error("row refused", extra={"model": self.name, "seq": seq, "reason": reason})
            self.journal.refuse(seq, reason)
            self.n_refused += 1

    def _first_bad_row(self) -> tuple[int, str] | None:
        """The number of the first row that cannot be learned, and why."""
        fresh = Copy(open_model(str(self._file(self.version))))
        applied = self._applied_in(fresh.trained, self.version)
        while rows := self.journal.rows(applied, _GROUP):
            for row in rows:
                try:
                    if not row.refused:
                        one = Learned.of(row.body)
                        fresh.learn(fresh.features.to_learn([one.row]), [one.labels], fresh.features.reading)
                except MemoryError:  # not the fault of the row
                    raise
                except Exception as error:
                    return row.seq, str(error)
            applied = rows[-1].seq
        return None

    def _applied_in(self, trained: Trained, version: int) -> int:
        """The last row of this journal that a saved version has learned.

        The first version is at first a copy of the model file. That may come from another state folder: then it names a
        row of another journal.
        """
        if version == 1 and fingerprint(self._file(1)) == self.journal.versions()[1]:
            return 0
        return trained.serving.get("applied", 0)

    def _advance(self, seq: int, n_learned: int) -> None:
        """The published model has learned all rows up to this one."""
        with self._lock:
            self.applied, self.n_learned = seq, self.n_learned + n_learned
            self._wake_waiting()

    def _wake_waiting(self) -> None:
        for seq, done in self._waiting:
            if seq <= self.applied:
                done.set_result(self.applied)
        self._waiting = [(seq, done) for seq, done in self._waiting if seq > self.applied]

    def _fail(self, reason: str) -> None:
        """Learning has ended: nobody has to wait for it."""
        with self._lock:
            self.error = reason
            for done in [done for _, done in self._waiting] + [done for _, done in self._jobs]:
                done.set_exception(CannotLearn(f"learning has stopped: {reason}"))
            self._waiting = []
            self._jobs.clear()

    # -- files -----------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        """Load the newest version, learn what the journal has, and take a model file that has changed as a new one."""
        source, known = fingerprint(self.path), self.journal.versions()
        if not known:
            source = self._copy(self.path, 1)
            self.journal.add_version(1, source)
            known = {1: source}
        for version in known:
            remove_leftovers(self._file(version))
        newest = max(known)
        self.version = newest
        self._load(newest, count=True)
        if known[newest] != source:
            self._switch(self.path)

    def _file(self, version: int) -> Path:
        return self.state / f"{version}.model"

    def _copy(self, path: Path, version: int) -> str:
        """Copy a model file to the state folder and return its fingerprint.

        Models are mapped. If the file itself were, the process would end when somebody writes into it.
        """
        with open(path, "rb") as source, replaced(self._file(version)) as file:
            shutil.copyfileobj(source, file)
        return fingerprint(self._file(version))

    def _load(self, version: int, count: bool = False) -> None:
        """Load a saved version, learn the rows of the journal that it lacks, and publish it. Requires `_own_files`."""
        try:
            copies, saved, applied, n_learned = self._replayed(version)
        except MemoryError:  # not the fault of a row
            raise
        except Exception as error:
            log.warning("rows could not be learned", extra={"model": self.name, "reason": str(error)})
            self.version = version
            self._refuse_rows()
            copies, saved, applied, n_learned = self._replayed(version)
        removed = self.journal.bounds()[0]
        if applied < removed:
            what = {"model": self.name, "reason": f"the saved model ends at row {applied}, the journal at {removed}"}
            log.error("rows are missing; was the model file replaced by an older one?", extra=what)
            applied = removed
        older = {
            number: self._older.get(number) or _opened(self._file(number), False, number)[0]
            for number in sorted(self.journal.versions())[-self.settings.keep_versions : -1]
            if number < version and self._file(number).exists()
        }
        self.recent = Recent.after(copies[0].trained)
        with self._lock:
            self.version, self.applied, self.saved, self._older = version, applied, saved, older
            self.n_learned += n_learned if count else 0
            self._live, self._spare = copies
            self._wake_waiting()

    def _replayed(self, version: int) -> tuple[list[Copy], int, int, int]:
        """Both copies of a version, the last row that it was saved with, the last one it has now, and rows learned."""
        copies, n_learned = _opened(self._file(version), True, version), 0
        applied = saved = self._applied_in(copies[0].trained, version)
        while rows := self.journal.rows(applied, _GROUP):
            learned = [Learned.of(row.body) for row in rows if not row.refused]
            for copy in copies if learned else ():
                parts = copy.features.to_learn([one.row for one in learned])
                copy.learn(parts, [one.labels for one in learned], copy.features.reading)
            applied = rows[-1].seq
            n_learned += len(learned)
        return copies, saved, applied, n_learned

    def _checkpoint_or_log(self) -> None:
        try:
            with self._own_files():
                self._save()
        except Exception as error:
            log.error("checkpoint failed; the journal keeps the rows", extra={"model": self.name, "reason": str(error)})
            self.unsaved, self._retry_at = str(error), time.time() + _RETRY

    def _save(self) -> None:
        """Save the model and remove the rows that it has learned from the journal. Requires `_own_files`.

        Nothing is done if another process has saved later rows.
        """
        if max(self.journal.versions()) > self.version or self.journal.bounds()[0] > self.applied:
            return
        trained, applied = self._spare.trained, self.applied
        trained.serving = {"applied": applied}
        trained.save(str(self._file(self.version)))
        self.saved, self.saved_at, self.unsaved = applied, time.time(), ""
        self.journal.truncate(applied)
        log.info("checkpoint", extra={"model": self.name, "version": self.version, "applied": applied})

    def _switch(self, path: Path) -> int:
        """Make a file the next version, which learns from now on. Predictions go on. Requires `_own_files`."""
        current = fingerprint(self.path)  # kept with a restored version: a restart must not see a new file
        newest = max(self.journal.versions())
        if newest > self.version:  # of another process
            self._load(newest)
        version = newest + 1
        try:
            source = self._copy(path, version)
            copies = _opened(self._file(version), True, version)
        except Exception as error:
            self._file(version).unlink(missing_ok=True)
            if isinstance(error, ModelFormatError):
                raise ModelFormatError(str(error).replace(str(self._file(version)), str(path))) from error
            raise
        if self.learns:
            self._save()
        for copy in copies:
            copy.trained.serving = {"applied": self.applied}
        copies[0].trained.save(str(self._file(version)))
        self.journal.add_version(version, source if path == self.path else current)
        with self._lock:
            self._older[self.version] = self._live
            self.version, (self._live, self._spare) = version, copies
            while len(self._older) >= self.settings.keep_versions:
                del self._older[min(self._older)]
        self.recent = Recent.after(copies[0].trained)
        for number in self.journal.versions():
            if number not in self.versions:
                self._file(number).unlink(missing_ok=True)
        log.info("new version", extra={"model": self.name, "version": version})
        return version

    def _in_learner(self, job: Callable[..., Any], *arguments: Any) -> Future:
        """Call a function in the learner's thread, between two groups of rows, with `_own_files`."""
        done: Future = not_cancelled()
        with self._lock:
            if self.error or self._stopping:
                done.set_exception(CannotLearn(self.error or "the service is shutting down"))
                return done
            self._jobs.append((partial(job, *arguments), done))
        self._wake.set()
        return done

    def save_now(self) -> Future:
        """Ask for a checkpoint."""
        return self._in_learner(self._save)

    def reload(self) -> Future:
        """Ask for the model file to be read again, as the next version."""
        return self._in_learner(self._switch, self.path)

    def restore(self, version: int) -> Future:
        """Ask for an older version to become the next one. KeyError: no such version."""
        if version not in self._older:
            raise KeyError(version)
        return self._in_learner(self._switch, self._file(version))

    def stop(self) -> None:
        """Learn the rest of the journal, save the model and close the journal."""
        with self._lock:
            self._stopping = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()
        if not self.error and self.applied > self.saved and self._leads():
            self._checkpoint_or_log()
        self.journal.close()
        self.stopped = True
        if self._lock_file is not None:
            self._lock_file.close()

    @property
    def modified(self) -> float:
        """When the newest version was last saved, in seconds since 1970."""
        with suppress(OSError):
            return self._file(self.version).stat().st_mtime
        return self.saved_at


def _chances(scores: np.ndarray, logarithms: bool) -> np.ndarray:
    """Probabilities from scores that are their logarithms; otherwise by a softmax over all labels with a score."""
    if logarithms:
        return np.exp(scores)
    parts = np.exp(scores - np.maximum(scores[:, :1], _LEAST))
    return parts / np.maximum(parts.sum(axis=1, keepdims=True), _TINY)


def _without_tiny(X: Any) -> Any:
    """Set tiny values to 0: estimators refuse a batch that has no others."""
    values = X.data if sp.issparse(X) else X
    values[np.abs(values) < SMALLEST] = 0
    return X


def _opened(path: Path, learns: bool, version: int) -> list[Copy]:
    """The copy that predicts and the one that learns; one and the same if the model only predicts.

    Rows are predicted, explained and learned, so that requests do not wait for the compiler.
    """
    first = Copy(open_model(str(path)))
    rows, copies = _any_rows(first.features), [first, first]
    if learns and can_learn(first):
        first.prepare_to_learn(rows[0])
        scratch = Copy(deepcopy(first.trained))
        for row in rows:
            scratch.learn(scratch.features.to_learn([row]), [scratch.trained.labels([0])], scratch.features.reading)
        copies = [first, Copy(deepcopy(first.trained))]
    for row in rows:
        for copy in copies:
            copy.predict([row], 5)
        first.explain(row)
        first.path(row)
    for copy in copies:
        copy.version = version
    return copies


def _any_rows(features: RequestFeatures) -> list[Any]:
    """A row of each kind that requests may have: kernels are compiled for dense and for sparse rows."""
    if features.table:
        return [{features.reading.columns[0]: None}]
    sparse = [] if features.dense else [{"indices": [0], "values": [1.0]}]
    dense = [[0.0] * features.n_features] if features.dense or features.n_features <= WIDEST else []
    return sparse + dense


def can_learn(copy: Copy) -> bool:
    """Whether a model can learn at all."""
    return not why_not(copy)


def why_not(copy: Copy) -> str:
    """Why a model cannot learn; empty if it can."""
    clf, label = copy.estimator, copy.estimator._index.first()
    if not learns_online(clf):
        return "its algorithm has no partial_fit"
    if clf._slim:
        return "it is slim"
    if isinstance(clf.class_weight, str):
        return f"it has class_weight={clf.class_weight!r}"
    known = isinstance(label, str | int | np.integer) and not isinstance(label, bool)
    return "" if known else "its labels are neither texts nor integers"


def fingerprint(path: Path) -> str:
    """A checksum of a model file: of its header, which has the checksums of everything else."""
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > os.fstat(file.fileno()).st_size:
            raise ModelFormatError(f"{path}: not a model file, or a truncated one.")
        return hashlib.sha256(file.read(length)).hexdigest()
