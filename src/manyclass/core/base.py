"""The base class of all classifiers: options, labels, epochs, `fit` and `partial_fit`."""

from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Iterable
from copy import deepcopy
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import column_or_1d, validate_data

from .calibration import weights_like_new_rows
from .classes import ClassIndex, in_order_of_appearance, label_array
from .columns import apply, column_sizes, measure, most_rows
from .explanation import ExplanationMixin
from .files import FilesMixin
from .invariants import check_training
from .label_issues import LabelIssuesMixin
from .learners import TEXT_FEATURES
from .locks import reads, writes
from .options import Constraint, as_float, check_flag, check_integer, check_options
from .prediction import n_threads, progressive_error
from .probabilities import CALIBRATION, ProbabilityMixin, rows_to_hold_out
from .progress import Progress
from .protocol import Labels, as_labels
from .replay import BLOCK, FULL, REPEAT, TIMES, draw_slots, new_replay, rows_of_slots, store, with_labels, with_space
from .state import copy, kept_rows, writable
from .taxonomy import TaxonomyMixin
from .updates import SMALLEST
from .validation import (
    HEAVIEST,
    are_labels,
    as_batch,
    balanced_weights,
    blocks,
    check_labels,
    check_sparse,
    check_targets,
    check_values,
    check_weights,
    rows_between,
    without_padding,
)
from .vocabulary import VocabularyMixin

_MOST = 2**31 - 1  # features or classes
_CHUNK = 1 << 14  # rows learned between two progress reports
_VALIDATION_FRACTION = 0.1  # share of the rows that early stopping holds out
_USUAL_WEIGHTS = 0.01, 100.0  # sample weights with a mean outside are divided by it
_PATIENCE = 2  # epochs without improvement before early stopping


def algorithm_of(estimator: Any) -> str:
    """The name of the algorithm in model files and in the command line."""
    return estimator._model.NAME


def learns_online(estimator: Any) -> bool:
    """Whether the algorithm learns row by row; without it there is no `partial_fit`."""
    return hasattr(estimator._model, "learn")


def learns_at_once(estimator: Any) -> bool:
    """Whether the algorithm has a training for all rows at once, which is then the better one."""
    return hasattr(estimator._model, "fit")


class ManyClassifier(
    TaxonomyMixin,
    ProbabilityMixin,
    ExplanationMixin,
    VocabularyMixin,
    LabelIssuesMixin,
    FilesMixin,
    ClassifierMixin,
    BaseEstimator,
    metaclass=ABCMeta,
):
    """Base class of all classifiers. A subclass has `_model`, its algorithm's module, and `_constraints`."""

    _constraints: dict[str, Constraint]
    _centres_columns = False  # whether `fit` centres all dense columns, or only those far from zero

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take over the attributes of a pickled model.

        `joblib.load(path, mmap_mode="r")` makes its arrays read-only: Numba would compile all kernels again for them.
        """
        super().__setstate__(state)
        if hasattr(self, "_state"):
            self._state = {name: writable(group) for name, group in self._state.items()}

    @reads
    def __getstate__(self) -> dict[str, Any]:
        """Attributes for pickle, with arrays of their own: another thread may train the model meanwhile."""
        return deepcopy(dict(super().__getstate__()))  # another thread that reads may add what it computed

    @reads
    def __deepcopy__(self, memo: dict):
        new = memo[id(self)] = object.__new__(type(self))
        new.__setstate__(deepcopy(dict(self.__dict__), memo))
        return new

    def __copy__(self):
        """A deep copy: two models cannot share arrays, because each of them lets its arrays grow."""
        return deepcopy(self)

    @abstractmethod
    def _resolve_options(self, n_features: int, sparse: bool, seed: int) -> Any:
        """The model's options: those of this estimator with every "auto" replaced."""

    def fit(self, X, y, sample_weight=None):
        """Fit the model from scratch.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training data. Sparse data stay sparse.
        y : array-like of shape (n_samples,), or matrix of shape (n_samples, n_labels)
            One label per row, of any type that scikit-learn accepts. Label trees and spectral trees also take several
            labels per row, as a dense or sparse matrix of zeros and ones. Rows and columns of zeros are allowed. A
            dense y of shape (n_samples, 1) is one label per row, with scikit-learn's warning; a sparse one is a matrix
            with a single label. The column names of a DataFrame are kept as `label_names_`.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the rows. With `learner="sgd"`, the default of the Recall Tree and of one-against-all on text,
            the steps of a heavy row are at most four times as long as those of a row of weight 1.

        Returns
        -------
        self : object
            Fitted estimator.
        """
        return self._fit_anew(lambda new: new._fit(X, without_padding(y), sample_weight))

    def _fit_anew(self, train: Callable[[Any], Any]):
        """Train a copy and take over its attributes."""
        self._lock.check_not_lost()
        new = object.__new__(type(self))  # until it is trained, and after an error, this estimator stays as it is
        new.__dict__.update(self.__dict__)
        if hasattr(self, "_state"):
            new._state = dict(self._state)
        new._slim, new._precision, new._extra, new._names = False, "float32", {}, None
        train(new)
        check_training(new._state, thorough=True)
        self._take_over(new)
        return self

    @writes
    def _take_over(self, new: Any) -> None:
        """Take over the attributes of another estimator except its options, which may have changed here meanwhile."""
        kept = [*self._get_param_names(), "_lock"]
        self.__dict__ = {**new.__dict__, **{name: self.__dict__[name] for name in kept}}

    def _fit(self, X, y, sample_weight):
        self._check_options()
        X, y, weights = self._check_rows(X, y, sample_weight, reset=True)
        classes = np.unique(y)
        check_classes(self, classes)
        weights = weights * self._row_weights(classes, y, weights)
        check_some_weight(weights)
        rng = check_random_state(self.random_state)
        self._start(X, classes, len(classes), rng)
        self._train_and_calibrate(X, self._index.encode(y), weights, rng)
        return self

    def _train_and_calibrate(self, X, labels, weights, rng) -> None:
        """Learn all rows; with the option `calibration`, hold out some of them for it."""
        if self.calibration is None:
            self._measure_columns(X, weights)
            return self._train(X, labels, weights, rng)
        truth = as_labels(labels)
        may_be_held = np.concatenate([np.zeros(self._n_learned_first()), weights[self._n_learned_first() :]])
        learned, held = rows_to_hold_out(truth, may_be_held, rng)
        part = labels.rows(learned) if isinstance(labels, Labels) else labels[learned]
        self._measure_columns(X[learned], weights[learned])
        self._train(X[learned], part, weights[learned], rng)
        like_new = weights_like_new_rows(truth, learned, held)
        self._fit_calibration(X[held], truth.rows(held), self.calibration, like_new)

    def _n_learned_first(self) -> int:
        """Rows at the beginning that are never held out."""
        return 0

    def _measure_columns(self, X, weights) -> None:
        """Bring columns that are far larger than the others to their size, from now on.

        Unless the rows are text, find the largest values, too: normalised AdaGrad divides a feature by its largest
        value so far, and with a small first value the first weight would be far too large.
        """
        if not weights.all():  # rows of weight 0 have no effect at all
            X, weights = X[np.flatnonzero(weights)], weights[weights > 0]
        columns = measure(as_batch(X), weights, X.shape[1], self._centres_columns)
        if columns is not None:
            self._state["scaling"] = columns
        text = sp.issparse(X) and X.shape[1] > TEXT_FEATURES
        if not text and learns_online(self) and hasattr(self._options, "update"):
            largest = np.zeros(X.shape[1])
            for first, last in blocks(len(weights), most_rows(self._state, _CHUNK)):
                batch = apply(self._state, as_batch(rows_between(X, first, last)))
                largest = np.maximum(largest, column_sizes(batch, weights[first:last], X.shape[1]).value)
            self._state["scale"].inverse[:] = np.where(largest > SMALLEST, 1 / np.maximum(largest, SMALLEST), 0)

    def _train(self, X, labels, weights, rng) -> None:
        """Learn all rows in epochs; with early stopping, keep the epoch that was best on held-out rows."""
        used = weights[weights > 0]
        if len(used) and not _USUAL_WEIGHTS[0] <= used.mean() <= _USUAL_WEIGHTS[1]:  # such as weights that sum to 1
            weights = weights / used.mean()
        learned, held_out = self._hold_out(weights, rng)
        best, best_state, waited = -np.inf, self._state, 0
        for epoch in range(self.n_epochs):
            order = rng.permutation(learned) if self.shuffle else learned
            record = self._epoch(X, order, labels, weights, epoch)
            self.history_.append(record)
            if not len(held_out):
                continue
            predicted = self._predict(X[held_out], 1).labels[:, 0]
            record["validation_accuracy"] = float(np.mean(predicted == labels[held_out]))
            waited += 1
            if record["validation_accuracy"] > best:
                best, waited = record["validation_accuracy"], 0
                best_state = {name: copy(group) for name, group in self._state.items()}
                self.n_epochs_ = epoch + 1
            if waited >= _PATIENCE:
                break
        if len(held_out):
            self._state = best_state
        else:
            self.n_epochs_ = len(self.history_)

    @available_if(learns_online)
    def partial_fit(self, X, y, classes=None, sample_weight=None):
        """Learn more rows, one by one in the given order. Labels may be new.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training data.
        y : array-like of shape (n_samples,)
            Labels. New ones are appended to `classes_`.
        classes : array-like, optional
            Labels known in advance, sorted into `classes_` in the first call and appended in later calls.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the rows.

        Returns
        -------
        self : object
            The estimator.

        Examples
        --------
        >>> from manyclass import RecallTreeClassifier
        >>> model = RecallTreeClassifier(random_state=0).partial_fit([[0.0], [1.0]], ["low", "high"])
        >>> print(model.partial_fit([[9.0]], ["huge"]).classes_)  # a new label
        ['low' 'high' 'huge']
        """
        return self._learn_more(
            lambda: self._partial_fit(X, without_padding(y), without_padding(classes), sample_weight)
        )

    @writes
    def _learn_more(self, train: Callable[[], Any]):
        """Train; bad input leaves a fitted model as it was.

        A `partial_fit` that is interrupted while it learns keeps its new labels and the rows learned so far.
        """
        if self._slim:
            raise ValueError("This is a slim model, which can only predict: load the full model to train it.")
        before = dict(self.__dict__)
        try:
            return train()
        except BaseException:
            if "_index" in before:
                before["_index"], before["_names"] = self._index, self._names
            self.__dict__ = before
            raise

    def _partial_fit(self, X, y, classes, sample_weight):
        first = not hasattr(self, "_state")
        self._check_options(all_weights=first)
        if isinstance(self.class_weight, str):
            raise ValueError(
                f"class_weight={self.class_weight!r} requires all labels at once and works in fit only; "
                "pass a dict of label: weight, or sample_weight, to partial_fit."
            )
        X, y, weights = self._check_rows(X, y, sample_weight, reset=first)
        index = None if first else self._index
        if index is not None:
            index.check_kind(y)
            y = index.as_known(y)
        new = in_order_of_appearance(y)
        if classes is not None:
            check_labels(classes, "classes")
            known = column_or_1d(classes)
            if not len(known):
                raise ValueError("classes is empty: pass at least one label, or None.")
            known = np.unique(known) if first else in_order_of_appearance(known)
            (index or ClassIndex(known)).check_kind(known)
            (index or ClassIndex(known)).check_kind(y)
            kind = "O" if "O" in (known.dtype.kind, new.dtype.kind) else known.dtype.kind
            new = label_array([*known.tolist(), *new.tolist()], kind)  # numpy would convert int64 and uint64 to float
        if first:
            rng = check_random_state(self.random_state)
            # The first rows must not determine the number of classes: another batch size would change the model.
            self._start(X, new if classes is None else known, 0 if classes is None else len(known), rng)
            missing = self._index.missing(new)
            if missing:
                raise ValueError(f"y contains labels that are not in classes: {missing[:5]}.")
        weights = weights * self._row_weights(None, y, weights)
        if not first:
            self._index.add(new)
        self._learn_stream(X, self._index.encode(y), weights, self._epochs_before())
        return self

    def _epochs_before(self) -> int:
        """Epochs of `fit` before a `partial_fit`, which continues with the last epoch's learning rate."""
        return max(0, getattr(self, "n_epochs_", 0) - 1)

    def _start(self, X, classes: np.ndarray, n_classes: int, rng) -> None:
        """Make labels, options and an untrained state."""
        self._resolve(X.shape[1], sp.issparse(X), classes, rng)
        self._state = self._model.init(self._options, X.shape[1], n_classes)

    def _resolve(self, n_features: int, sparse: bool, classes: np.ndarray, rng) -> None:
        """Make labels and options."""
        seed = int(rng.randint(np.iinfo(np.int32).max))
        self._options = self._resolve_options(n_features, sparse, seed)
        self._index = ClassIndex(classes)
        self.history_: list[dict] = []

    def _learn(self, X, order, labels, weights, epoch: int, progress: Progress | None = None) -> None:
        """Learn the rows in `order`, a chunk at a time."""
        for first, last in blocks(len(order), most_rows(self._state, _CHUNK)):
            part = order[first:last]
            chosen = labels.rows(part) if isinstance(labels, Labels) else labels[part]
            self._learn_batch(as_batch(X[part]), chosen, weights[part], epoch)
            if progress is not None:
                progress.advance(len(part), progressive_error(self._state["seen"]))

    def _learn_batch(self, batch, labels, weights, epoch: int) -> None:
        batch = apply(self._state, batch)
        self._model.learn(self._options, self._state, batch, labels, weights, epoch, n_threads(self.n_jobs))
        check_training(self._state, thorough=False)

    def _learn_stream(self, X, labels: np.ndarray, weights: np.ndarray, epoch: int) -> None:
        """Learn the rows in the given order; with `replay`, repeat earlier rows while the stream looks sorted."""
        if not self.replay:
            self._state.pop("replay", None)
            self._learn(X, np.arange(len(labels)), labels, weights, epoch)
            return
        self._state["replay"] = with_labels(self._state.get("replay") or new_replay(), len(self._index))
        for first, last in blocks(len(labels), most_rows(self._state, _CHUNK)):
            rows = rows_between(X, first, last)
            self._learn_chunk(rows, as_batch(rows), labels[first:last], weights[first:last], epoch)

    def _learn_chunk(self, X, batch, labels, weights, epoch: int) -> None:
        begin, n = 0, len(labels)
        while begin < n:
            end, reason = store(self._state["replay"], batch, labels, weights, begin)
            if reason == FULL:
                longest = int(np.diff(X.indptr).max()) if sp.issparse(X) else X.shape[1]
                self._state["replay"] = with_space(self._state["replay"], longest)
            if end > begin:
                part = batch if end - begin == n else as_batch(rows_between(X, begin, end))
                self._learn_batch(part, labels[begin:end], weights[begin:end], epoch)
            if reason == REPEAT:
                self._repeat(sp.issparse(X), epoch)
            begin = end

    def _repeat(self, sparse: bool, epoch: int) -> None:
        """Learn random earlier rows again; the progressive error does not count them."""
        replay, seen = self._state["replay"], self._state["seen"]
        slots = draw_slots(replay, TIMES * BLOCK)
        rows = rows_of_slots(replay, slots, self.n_features_in_)
        before = seen.mass[0], seen.wrong_mass[0]
        kept = kept_rows(self._state)  # which have these rows already
        try:
            for name in kept:
                del self._state[name]
            self._learn_batch(
                as_batch(rows if sparse else rows.toarray()), replay.label[slots], replay.weight[slots], epoch
            )
        finally:
            self._state |= kept
        seen.mass[0], seen.wrong_mass[0] = before

    def _begin_epoch(self, epoch: int) -> None:
        """Use the learning rate of the given epoch from now on, and reset the progressive error."""
        self.n_epochs_ = epoch + 1
        if hasattr(self, "_state"):
            seen = self._state["seen"]
            seen.mass[0] = seen.wrong_mass[0] = 0.0

    def _epoch(self, X, order, labels, weights, epoch: int) -> dict:
        """Learn all rows once and return a record with the progressive error."""
        seen = self._state["seen"]
        seen.mass[0] = seen.wrong_mass[0] = 0.0
        progress = Progress(self.verbose, f"epoch {epoch + 1}/{self.n_epochs}", len(order))
        self._learn(X, order, labels, weights, epoch, progress)
        return {"epoch": epoch + 1, "progressive_error": progressive_error(self._state["seen"])}

    def _hold_out(self, weights: np.ndarray, rng) -> tuple[np.ndarray, np.ndarray]:
        """(training rows, validation rows); without early stopping there are no validation rows.

        Rows of weight 0 are in neither: they have no effect at all.
        """
        n = np.count_nonzero(weights)
        if not self.early_stopping:
            return np.arange(len(weights)), np.empty(0, int)
        n_held = max(1, int(n * _VALIDATION_FRACTION))
        if n_held >= n:
            raise ValueError(f"early_stopping requires at least 2 rows, got {n}.")
        shuffled = np.flatnonzero(weights)[rng.permutation(n)]
        return np.sort(shuffled[n_held:]), np.sort(shuffled[:n_held])

    def _row_weights(self, classes: np.ndarray | None, y: np.ndarray, weights: np.ndarray) -> np.ndarray | float:
        """Weight of each row by its class; rows of weight 0 are not counted."""
        if self.class_weight is None:
            return 1.0
        if isinstance(self.class_weight, str):
            assert classes is not None
            number = np.searchsorted(classes, y)
            return balanced_weights(np.bincount(number, weights > 0, len(classes)))[number]
        given = [self.class_weight.get(label, 1.0) for label in y.tolist()]
        _check_class_weights(given)
        return np.array(given, float)

    def estimate_memory(self, n_features, n_classes, sparse=False, n_rows=None) -> int:
        """Approximate size of a trained model in bytes, before training.

        The size of a tree depends on how hard the classes are to separate, too.

        Parameters
        ----------
        n_features, n_classes : int
            Size of the problem.
        sparse : bool, default=False
            Whether the data will be sparse; `learner="auto"` depends on it.
        n_rows : int, optional
            Number of training rows. Default: 20 per class for a Recall Tree, and 100 for a LOM or an MLOM tree, for
            which each epoch counts. The size of one-against-all does not depend on it.

        Returns
        -------
        n_bytes : int
            The actual size after training is `n_bytes_`.

        Examples
        --------
        >>> from manyclass import RecallTreeClassifier
        >>> RecallTreeClassifier().estimate_memory(n_features=128, n_classes=1000) < 10_000_000
        True
        """
        options = self._options_of_size(n_features, n_classes, sparse)
        n_rows = None if n_rows is None else check_integer("n_rows", n_rows)
        return self._model.memory(options, int(n_features), int(n_classes), n_rows, self.n_epochs)

    def _options_of_size(self, n_features, n_classes, sparse) -> Any:
        """The model's options for a size of the problem, or a ValueError."""
        self._check_options()
        check_integer("n_features", n_features, 1, _MOST)
        check_integer("n_classes", n_classes, 1, _MOST)
        check_flag("sparse", sparse)
        return self._resolve_options(int(n_features), sparse, 0)

    def _check_options(self, all_weights: bool = True) -> None:
        """ValueError if an option is invalid; without `all_weights`, class weights are checked when they are used."""
        check_options(self)
        if not CALIBRATION.allows(self.calibration):
            raise ValueError(f"calibration must be {CALIBRATION}, got {self.calibration!r}.")
        n_threads(self.n_jobs)
        weights = self.class_weight
        if weights is None or (isinstance(weights, str) and weights == "balanced"):
            return
        if not isinstance(weights, dict):
            raise ValueError(f'class_weight must be None, "balanced" or a dict of label: weight, got {weights!r}.')
        if all_weights:
            _check_class_weights(weights.values())

    def _check_kept(self) -> None:
        """ValueError for attributes in a file that this estimator cannot have written."""
        epochs = getattr(self, "n_epochs_", 0)
        if type(epochs) is not int or not 0 <= epochs < 1 << 62 or not isinstance(getattr(self, "history_", []), list):
            raise ValueError("the record of epochs is invalid")

    def _check_inputs_to_learn(self, X, reset: bool):
        """X as float32 rows that kernels accept, or an error."""
        return check_values(self._validated(X, reset))

    def _check_rows(self, X, y, sample_weight, reset: bool):
        """Inputs, labels and weights that kernels accept, or an error."""
        if reset or not (are_labels(y) and self._is_ready(X) and len(y) == X.shape[0]):
            X = self._from_table(X)
            check_labels(y)
            with np.errstate(over="ignore", invalid="ignore"):
                X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float32, order="C", reset=reset)
            X = check_sparse(X)
            check_targets(y)
        return check_values(X), y, check_weights(sample_weight, X.shape[0])

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def check_classes(estimator: Any, classes: np.ndarray) -> None:
    """ValueError unless `fit` gets two classes or more, and those of `class_weight`."""
    if len(classes) < 2:
        raise ValueError(f"{type(estimator).__name__} requires at least two classes, y has 1 class: {classes[0]}.")
    if isinstance(estimator.class_weight, dict):
        known = set(classes.tolist())
        unknown = [label for label in estimator.class_weight if label not in known]
        if unknown:
            raise ValueError(f"class_weight contains labels that are not in y: {unknown[:5]}.")


def _check_class_weights(weights: Iterable[Any]) -> None:
    for weight in weights:
        if not isinstance(weight, Real) or not 0 <= as_float(weight) <= HEAVIEST:
            raise ValueError(f"class_weight must be a dict of label: weight from 0 to {HEAVIEST:g}, got {weight!r}.")


def check_some_weight(weights: np.ndarray) -> None:
    if not weights.any():
        raise ValueError("Sample weights must contain at least one non-zero number: there is no row to learn from.")
