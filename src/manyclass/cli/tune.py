"""`manyclass tune`: search for a better `train` command within a time limit, by successive halving.

Many settings are tried on a part of the rows, the best third of them on three times as many rows, and so on up to all
rows. The best one is then compared with the default settings on rows that the search has not used. It is printed only
if it is significantly better there; otherwise the defaults stand.
"""

import json
import math
import shlex
import time
from collections.abc import Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from ..core.base import learns_at_once
from ..core.calibration import is_true
from ..core.multilabel import labels_of
from ..estimators import ESTIMATORS
from ..metrics import mcnemar
from ..trained import LabelColumns, initial_names
from .algorithms import default_algorithm, make_estimator
from .evaluate import percent
from .files import open_training_source
from .messages import INTERRUPTED, CommandError, notice_if_slow, stderr
from .rows import read_rows
from .train import DEFAULT_EPOCHS

_HELD_OUT = 0.15  # share of the rows for the search, and again for the comparison at the end
_FACTOR = 3  # each round has three times the rows and a third of the settings
_FEWEST_ROWS = 2000  # in the first round
_SIGNIFICANT = 0.05
_MOST_CLASSES = 1000  # for one-against-all
_ALGORITHMS = ("label-tree", "recall-tree", "one-against-all", "spectral-tree")  # searched unless one is given

# The main options of each algorithm. A list has choices; (low, high) is a range of integers or floats, searched on a
# logarithmic scale.
_LEARNERS = ["sgd", "adagrad", "normalized-adagrad"]
_ONLINE_TREES = {"learner.rate": (0.5, 16.0), "split_mass": (1.0, 50.0), "nodes_per_class": (8, 64)}
_SPACES: dict[str, dict[str, Any]] = {
    "recall-tree": {"learner.rate": (0.1, 10.0), "beam": (1, 32), "path_features": ["off", "bias"]},
    "label-tree": {"C": (0.1, 10.0), "n_trees": [1, 3], "prior": (0.1, 1.0)},
    "label-tree online": {"rate": (0.5, 8.0), "start": (5.0, 40.0), "prior": (0.1, 1.0)},
    "spectral-tree": {"n_candidates": (20, 500), "max_depth": (2, 14), "beam": (1, 8)},
    "lom-tree": _ONLINE_TREES,
    "mlom-tree": _ONLINE_TREES,
    "one-against-all": {"learner": _LEARNERS, "learner.rate": (0.05, 10.0), "loss": ["softmax", "logistic"]},
}
_LEARNER = {"recall-tree": "normalized-adagrad", "lom-tree": "normalized-adagrad", "mlom-tree": "normalized-adagrad",
            "one-against-all": "adagrad"}  # fmt: skip
# Features of text columns, beside the default ones.
_FEATURES: list[dict[str, Any]] = [
    {"feature_bits": 21},
    {"ngrams": 2},
    {"ngrams": 2, "feature_bits": 21},
    {"chars": "3-5"},
]


class Setting(NamedTuple):
    """What a `train` command can change."""

    algorithm: str
    in_memory: bool
    options: tuple[str, ...]
    features: tuple[tuple[str, Any], ...] = ()  # more options of reading

    def words(self) -> list[str]:
        """The options of the command."""
        words = ["--algorithm", self.algorithm]
        if self.in_memory != learns_at_once(ESTIMATORS[self.algorithm]):
            words.append("--in-memory" if self.in_memory else "--online")
        words += [word for option in self.options for word in ("--option", option)]
        return words + list(_reading_words(dict(self.features)))


class Rows(NamedTuple):
    """The rows of a file with some features."""

    X: Any
    y: Any
    weights: np.ndarray


def run(**options: Any) -> None:
    """Search, and print the command line of the best setting."""
    search = Search(SimpleNamespace(**options))
    interrupted = False
    try:
        search.run()
    except KeyboardInterrupt:
        interrupted = True
    search.report()
    if interrupted:
        raise SystemExit(INTERRUPTED)


class Search:
    """Successive halving over settings. `plan` has the options of the command, as `tune` in `main.py` declares them."""

    def __init__(self, plan: SimpleNamespace) -> None:
        self.plan, self.start, self.n_trials = plan, time.perf_counter(), 0
        self.rng = np.random.default_rng(plan.seed)
        self._rows: dict[tuple, Rows] = {}
        source = open_training_source(plan.data, plan.reading)
        self.reading = source.reading
        self.several = source.reading.labels == "several"
        chosen = plan.algorithm or default_algorithm()
        self.default = Setting(chosen, learns_at_once(ESTIMATORS[chosen]), ())
        rows = self._read(source)
        self._rows[()] = rows
        n = rows.X.shape[0]
        order, n_held = self.rng.permutation(n), max(1, round(_HELD_OUT * n))
        self.compared, self.held, self.learned = np.split(order, [n_held, 2 * n_held])
        if len(self.learned) < 2:
            raise CommandError(f"{plan.data}: {n} rows are too few to hold some out.")
        self.n_classes = rows.y.shape[1] if self.several else len(np.unique(rows.y))
        self.best, self.scores, self.p_value = self.default, dict[str, float](), 1.0
        self._seconds: dict[Setting, float] = {}  # per training row
        self._compiled: set[tuple[str, bool]] = set()
        self._outcomes: dict[Setting, np.ndarray] = {}  # after training on all rows: which of `compared` are correct

    # -- rows ------------------------------------------------------------------------------------------------------

    def _read(self, source: Any) -> Rows:
        columns = LabelColumns(initial_names(source.reading), source.reading.n_labels or 0) if self.several else None
        return Rows(*read_rows(source, columns, self.plan.max_rows, self.plan.seed))

    def _with_features(self, features: tuple[tuple[str, Any], ...]) -> Rows:
        if features not in self._rows:
            for other in [key for key in self._rows if key]:  # keep the default features and one more in memory
                del self._rows[other]
            options = {**self.plan.reading, **dict(features)}
            self._rows[features] = self._read(open_training_source(self.plan.data, options))
        return self._rows[features]

    # -- settings --------------------------------------------------------------------------------------------------

    def _algorithms(self) -> list[str]:
        if self.plan.algorithm is not None:
            return [self.plan.algorithm]
        fits = {name: hasattr(ESTIMATORS[name], "multilabel_") or not self.several for name in _ALGORITHMS}
        fits["one-against-all"] &= self.n_classes <= _MOST_CLASSES
        return [name for name in _ALGORITHMS if fits[name]]

    def _settings(self) -> Iterator[Setting]:
        """The default, then the defaults of all algorithms and features, then random settings."""
        yield self.default
        features = [
            tuple(sorted(one.items()))
            for one in _FEATURES
            if self.reading.text and not one.keys() & self.plan.reading.keys()
        ]
        plain = [
            Setting(name, at_once, ())
            for name in self._algorithms()
            for at_once in ([True, False] if name == "label-tree" else [learns_at_once(ESTIMATORS[name])])
        ]
        first = [*plain, *(self.default._replace(features=one) for one in features)]
        yield from (setting for setting in first if setting != self.default)
        seen = {self.default, *first}
        for _ in range(1000):
            setting = plain[self.rng.integers(len(plain))]
            setting = setting._replace(options=self._options(setting))
            if features and self.rng.random() < 0.5:
                setting = setting._replace(features=features[self.rng.integers(len(features))])
            if setting not in seen:
                seen.add(setting)
                yield setting

    def _options(self, setting: Setting) -> tuple[str, ...]:
        """Random values for some of the main options."""
        online = setting.algorithm == "label-tree" and not setting.in_memory
        values: dict[str, Any] = {}
        for name, space in _SPACES["label-tree online" if online else setting.algorithm].items():
            if self.rng.random() < 0.6:
                values[name] = self._value(name, space)
        if "learner.rate" in values and "learner" not in values:  # a rate requires a learner
            values = {"learner": _LEARNER[setting.algorithm], **values}
        return tuple(f"{name}={value}" for name, value in values.items())

    def _value(self, name: str, space: Any) -> Any:
        if isinstance(space, list):
            return space[self.rng.integers(len(space))]
        low, high = space
        if name == "n_candidates":  # more candidates than labels make no difference
            low, high = min(max(2, self.n_classes // 8), low), min(self.n_classes, high)
        value = math.exp(self.rng.uniform(math.log(low), math.log(high)))
        return round(value) if isinstance(low, int) else float(f"{value:.2g}")

    # -- rounds ----------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Run all rounds, then compare the best setting with the default."""
        n = len(self.learned)
        sizes = [n]
        while sizes[0] >= _FACTOR * _FEWEST_ROWS and len(sizes) < 3:
            sizes.insert(0, sizes[0] // _FACTOR)
        stderr.print(f"{n:,} training rows, {len(self.held):,} rows to choose by, and as many to compare")
        limit, settings = 60 * self.plan.minutes, self._settings()
        share = 0.8 * limit / len(sizes)  # the rest of the time is for the comparison
        for number, size in enumerate(sizes, 1):
            trials = self.plan.trials if number == 1 else None
            found = self._round(settings, self.learned[:size], number * share, trials)
            ranked = sorted(found, key=lambda setting: -found[setting])
            settings = iter(ranked[: max(_FACTOR, len(ranked) // _FACTOR)])
        self.best = ranked[0]
        self._compare()

    def _round(
        self, settings: Iterator[Setting], rows: np.ndarray, until: float, trials: int | None
    ) -> dict[Setting, float]:
        """The scores of settings, as many as the time allows, at least one."""
        found: dict[Setting, float] = {}
        for setting in settings:
            end = time.perf_counter() - self.start + self._seconds.get(setting, 0.0) * len(rows)  # expected
            if found and (end > until or len(found) == trials):
                continue
            try:
                self._compile(setting)
                begin = time.perf_counter()
                found[setting] = float(self._correct(setting, rows)[: len(self.held)].mean())
            except ValueError as error:  # some values do not fit together, or training diverges
                found[setting] = -1.0
                stderr.print(f"   failed  {' '.join(setting.words())}: {error}")
                continue
            seconds = time.perf_counter() - begin
            self.n_trials, self._seconds[setting] = self.n_trials + 1, seconds / len(rows)
            cost = f"{len(rows):>9,} rows {seconds:6.1f} s"
            stderr.print(f"{cost} {100 * found[setting]:6.2f} %  {' '.join(setting.words())}")
        return found

    def _compile(self, setting: Setting) -> None:
        """Train once on a few rows, so that later times are those of training."""
        kind = setting.algorithm, setting.in_memory
        if kind not in self._compiled:
            self._compiled.add(kind)
            with suppress(ValueError):  # so few rows may have only one class
                self._correct(setting._replace(options=()), self.learned[: len(self.learned) // 2][:100])

    def _compare(self) -> None:
        """Compare the best setting with the default on rows that were not used."""
        for setting in {self.default, self.best} - self._outcomes.keys():
            self._correct(setting, self.learned)
        default, best = self._outcomes[self.default], self._outcomes[self.best]
        self.scores = {"accuracy": float(best.mean()), "default_accuracy": float(default.mean())}
        better, worse = int((best & ~default).sum()), int((default & ~best).sum())
        self.p_value = mcnemar(better, worse)
        if better <= worse or self.p_value >= _SIGNIFICANT:
            self.best = self.default

    def _correct(self, setting: Setting, learned: np.ndarray) -> np.ndarray:
        """Train as `train` does. Whether the predictions of `held` and then of `compared` are correct."""
        held = np.concatenate([self.held, self.compared])
        X, y, weights = self._with_features(setting.features)
        clf = make_estimator(setting.algorithm, setting.options, self.plan.seed)
        with notice_if_slow():
            if setting.in_memory:
                clf.set_params(n_jobs=self.plan.threads)
                if self.plan.epochs is not None:
                    clf.set_params(n_epochs=self.plan.epochs)
                clf.fit(X[learned], y[learned], sample_weight=weights[learned])
            else:
                for epoch in range(self.plan.epochs or DEFAULT_EPOCHS):
                    clf._begin_epoch(epoch)
                    rows = np.random.default_rng([self.plan.seed, epoch]).permutation(learned)
                    clf.partial_fit(X[rows], y[rows], sample_weight=weights[rows])
            best = clf._predict(X[held], 1).labels[:, 0]
        if self.several:
            correct = is_true(np.ones(len(held), np.int64), best, labels_of(y[held]))
        else:
            correct = clf._index.find(y[held]) == best
        if len(learned) == len(self.learned):
            self._outcomes[setting] = correct[len(self.held) :]
        return correct

    # -- result ----------------------------------------------------------------------------------------------------

    def report(self) -> None:
        """Print the command line of the best setting."""
        command = self._command()
        stand = self.best == self.default
        if self.plan.as_json:
            values = {**self.scores, "p_value": self.p_value, "trials": self.n_trials, "defaults_stand": stand}
            print(json.dumps({**values, "options": list(self.best.options), "command": command}))
            return
        if not self.scores:
            print("# interrupted before the best setting was compared with the defaults")
        else:
            found, default = (percent(self.scores[name]) for name in ("accuracy", "default_accuracy"))
            result = f"better than the defaults: {found}, defaults {default}"
            if stand:
                result = f"the defaults stand: {default}, best setting found {found}"
            rows, trials = f"accuracy on {len(self.compared):,} other rows", f"{self.n_trials} trials"
            print(f"# {result} ({rows}, p = {self.p_value:.2g}, {trials})")
        print(command)

    def _command(self) -> str:
        """The command line that trains with the best setting."""
        plan = self.plan
        words = ["manyclass", "train", "DATA" if plan.data == "-" else plan.data, *_reading_words(plan.reading)]
        words += self.best.words()
        words += [] if plan.epochs is None else ["--epochs", str(plan.epochs)]
        words += ["--seed", str(plan.seed)] if plan.seed else []
        return shlex.join([*words, "--model", "MODEL"])


def _reading_words(reading: dict[str, Any]) -> Iterator[str]:
    """The options of reading as words of a command line."""
    for name, value in reading.items():
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            yield f"--{flag}" if value else f"--no-{flag}"
        else:
            for one in value if isinstance(value, list) else [value]:
                yield from (f"--{flag}", str(one))
