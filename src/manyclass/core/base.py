"""What all estimators share in learning: options, checks, labels, epochs."""

from abc import ABCMeta, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state, compute_class_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import column_or_1d, validate_data

from .batches import HEAVIEST, as_batch, check_sparse, check_targets, check_values, check_weights
from .checks import check_labels, check_options, check_text
from .classes import ClassIndex, in_order_of_appearance
from .files import FilesMixin
from .prediction import AnswersMixin, n_threads, wrong_share
from .progress import progress_bar
from .spec import Labels

_CHUNK = 1 << 14  # rows learned between two looks at the progress bar and the keyboard


def learns_online(estimator: Any) -> bool:
    """Whether the algorithm can learn row by row: there is no `partial_fit` otherwise."""
    return estimator._spec.learn is not None


class ManyClassifier(AnswersMixin, FilesMixin, ClassifierMixin, BaseEstimator, metaclass=ABCMeta):
    """A classifier for many classes over one `ModelSpec`."""

    _limits: dict[str, Any]
    _may_be_none: tuple[str, ...] = ()
    _may_be_auto: tuple[str, ...] = ()

    @abstractmethod
    def _make_config(self, n_features: int, sparse: bool, seed: int) -> Any:
        """The model's config from this estimator's options."""

    # -- learning ----------------------------------------------------------------------------------------------

    def fit(self, X, y, sample_weight=None):
        """Learn from scratch.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Inputs; kept sparse if sparse.
        y : array-like of shape (n_samples,)
            Labels of any type that scikit-learn accepts.
        sample_weight : array-like of shape (n_samples,), optional
            How much each row counts.

        Returns
        -------
        self
        """
        with self._unchanged_on_error():
            self._slim, self._precision, self._extra, self._names = False, "float32", {}, None
            return self._fit(X, y, sample_weight)

    def _fit(self, X, y, sample_weight):
        self._check_options()
        X, y, weights = self._check_rows(X, y, sample_weight, reset=True)
        classes = np.unique(y)
        if len(classes) < 2:
            raise ValueError(f"{type(self).__name__} needs at least two classes, y has 1 class: {classes[0]}.")
        rng = check_random_state(self.random_state)
        index, config, state = self._start(X, classes, len(classes), rng)
        labels = index.encode(y)
        weights = weights * self._class_weights(classes, y)[labels]
        if isinstance(self.class_weight, dict):
            strangers = [label for label in self.class_weight if label not in set(classes.tolist())]
            if strangers:
                raise ValueError(f"class_weight names labels that are not in y: {strangers[:5]}.")
        if not weights.any():
            raise ValueError("Sample weights must contain at least one non-zero number: there is no row to learn from.")
        self._config, self._index, self._state = config, index, state
        self.history_: list[dict] = []
        self._train(X, labels, weights, rng)
        return self

    def _train(self, X, labels, weights, rng) -> None:
        """Learn all rows, epoch after epoch."""
        learned, held_out = self._hold_out(X.shape[0], rng)
        best, waited = -np.inf, 0
        for epoch in range(self.n_epochs):
            order = rng.permutation(learned) if self.shuffle else learned
            record = self._epoch(X, order, labels, weights, epoch)
            if len(held_out):
                answers = self._answers(X[held_out], 1)
                record["validation_accuracy"] = float(np.mean(answers.labels[:, 0] == labels[held_out]))
                waited = 0 if record["validation_accuracy"] > best else waited + 1
                best = max(best, record["validation_accuracy"])
            self.history_.append(record)
            if len(held_out) and waited >= self.patience:
                break
        self.n_epochs_ = len(self.history_)

    @available_if(learns_online)
    def partial_fit(self, X, y, classes=None, sample_weight=None):
        """Go on learning, row by row as they come; new labels are welcome at any time.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Inputs.
        y : array-like of shape (n_samples,)
            Labels. Those not met before are appended to `classes_`.
        classes : array-like, optional
            Labels to know beforehand (sorted into `classes_`); on later calls, labels to add at its end.
        sample_weight : array-like of shape (n_samples,), optional
            How much each row counts.

        Returns
        -------
        self
        """
        if self._slim:
            raise ValueError("This is a slim model, made for answers only: load the whole one to go on learning.")
        with self._unchanged_on_error():
            return self._partial_fit(X, y, classes, sample_weight)

    def _partial_fit(self, X, y, classes, sample_weight):
        self._check_options()
        first = not hasattr(self, "_state")
        if isinstance(self.class_weight, str):
            raise ValueError(
                f"class_weight={self.class_weight!r} needs all labels at once and works in fit only; "
                "give partial_fit a dict of label: weight, or sample_weight."
            )
        X, y, weights = self._check_rows(X, y, sample_weight, reset=first)
        new = in_order_of_appearance(y)
        index = None if first else self._index
        if index is not None:
            index.check_kind(y)
            y = index.as_known(y)
            new = in_order_of_appearance(y)
        if classes is not None:
            check_labels(classes, "classes")
            known = column_or_1d(classes)
            known = np.unique(known) if first else in_order_of_appearance(known)
            (index or ClassIndex(known)).check_kind(known)
            (index or ClassIndex(known)).check_kind(y)
            new = np.concatenate([known, new])
        if first:
            rng = check_random_state(self.random_state)
            # Rows as they come may not tell how many classes there will be: a cut elsewhere must change nothing.
            n_classes = 0 if classes is None else len(known)
            index, config, state = self._start(X, new if classes is None else known, n_classes, rng)
            if index.missing(new):
                raise ValueError(f"y holds labels that are not in classes: {index.missing(new)[:5]}.")
            self._config, self._index, self._state, self.history_ = config, index, state, []
        else:
            self._index.add(new)
        labels = self._index.encode(y)
        if self.class_weight:
            weights = weights * self._class_weights(self._index.array, y)[labels]
        # After fit, go on at the pace it ended with: a full first step would undo what it settled.
        self._learn(X, np.arange(len(y)), labels, weights, max(0, getattr(self, "n_epochs_", 0) - 1))
        return self

    def _start(self, X, classes: np.ndarray, n_classes: int, rng) -> tuple:
        """Labels, config and state of a model that has seen nothing."""
        seed = int(rng.randint(np.iinfo(np.int32).max))
        config = self._make_config(X.shape[1], sp.issparse(X), seed)
        return ClassIndex(classes), config, self._spec.init(config, X.shape[1], n_classes)

    def _learn(self, X, order, labels, weights, epoch: int, show=None) -> None:
        """Learn the rows in `order`, a bounded chunk at a time, and show how far it is."""
        for begin in range(0, len(order), _CHUNK):
            part = order[begin : begin + _CHUNK]
            batch = as_batch(X[part])
            own = labels.rows(part) if isinstance(labels, Labels) else labels[part]
            self._learn_batch(batch, own, weights[part], epoch)
            if show is not None:
                show(len(part), wrong_share(self._state["seen"]))

    def _learn_batch(self, batch, labels, weights, epoch: int) -> None:
        assert self._spec.learn is not None
        self._spec.learn(self._config, self._state, batch, labels, weights, epoch)

    def _begin_epoch(self, epoch: int) -> None:
        """Learn at the pace of the given epoch from now on, and count wrong answers anew. Mutates: state."""
        self.n_epochs_ = epoch + 1
        if hasattr(self, "_state"):
            seen = self._state["seen"]
            seen.mass[0] = seen.wrong_mass[0] = 0.0

    def _epoch(self, X, order, labels, weights, epoch: int) -> dict:
        """Learn all rows once and tell how the answers before learning fared."""
        seen = self._state["seen"]
        seen.mass[0] = seen.wrong_mass[0] = 0.0
        with progress_bar(self.verbose, f"epoch {epoch + 1}/{self.n_epochs}", len(order)) as show:
            self._learn(X, order, labels, weights, epoch, show)
        return {"epoch": epoch + 1, "progressive_error": wrong_share(seen)}

    def _hold_out(self, n: int, rng) -> tuple[np.ndarray, np.ndarray]:
        """(rows to learn, rows to judge by): none of the latter without early stopping."""
        if not self.early_stopping:
            return np.arange(n), np.empty(0, int)
        if not 0 < self.validation_fraction < 1:
            raise ValueError(f"validation_fraction must lie between 0 and 1, got {self.validation_fraction!r}.")
        n_held = max(1, int(n * self.validation_fraction))
        if n_held >= n:
            raise ValueError(f"early_stopping: validation_fraction leaves no row of {n} to learn from.")
        shuffled = rng.permutation(n)
        return np.sort(shuffled[n_held:]), np.sort(shuffled[:n_held])

    def _class_weights(self, classes: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Weight of each class id."""
        if self.class_weight is None:
            return np.ones(len(classes))
        if self.class_weight == "balanced":
            return compute_class_weight("balanced", classes=classes, y=y)
        return np.array([self.class_weight.get(label, 1.0) for label in classes.tolist()], float)

    def estimate_memory(self, n_features, n_classes, sparse=False) -> int:
        """Bytes that a trained model will take, about, before any training.

        Counted as if every row had every feature and, up to `table_bits`, every predictor a weight for each:
        `n_bytes_` tells the truth afterwards.

        Parameters
        ----------
        n_features, n_classes : int
            Size of the problem.
        sparse : bool, default=False
            Whether the inputs will be sparse: `learner="auto"` depends on it.

        Returns
        -------
        int
        """
        self._check_options()
        for name, value in (("n_features", n_features), ("n_classes", n_classes)):
            if not isinstance(value, Integral) or int(value) < 1:
                raise ValueError(f"{name} must be a whole number of at least 1, got {value!r}.")
        return self._spec.memory(self._make_config(int(n_features), sparse, 0), int(n_features), int(n_classes))

    # -- checks ------------------------------------------------------------------------------------------------

    def _check_options(self) -> None:
        check_options(self, self._limits)
        n_threads(self.n_jobs)
        weights = self.class_weight
        if weights is None or (isinstance(weights, str) and weights == "balanced"):
            return
        if not isinstance(weights, dict) or not all(
            isinstance(w, Real) and 0 <= float(w) <= HEAVIEST for w in weights.values()
        ):
            raise ValueError(
                f'class_weight must be None, "balanced" or a dict of label: weight from 0 to {HEAVIEST:g}, '
                f"got {weights!r}."
            )

    @contextmanager
    def _unchanged_on_error(self) -> Iterator[None]:
        """Bad input, or a fit that ends early, leaves the model as it was: no new width, no new labels.

        Only a partial_fit that is interrupted while it learns keeps the rows learned up to then.
        """
        before = dict(self.__dict__)
        try:
            yield
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def _check_kept(self) -> None:
        """Refuse attributes from a file that this estimator could not have written: a ValueError."""
        epochs = getattr(self, "n_epochs_", 0)
        if type(epochs) is not int or epochs < 0 or not isinstance(getattr(self, "history_", []), list):
            raise ValueError("the record of epochs is broken")

    def _check_rows(self, X, y, sample_weight, reset: bool):
        """Inputs, labels and weights as the kernels want them, or a clear error."""
        check_text(X)
        check_labels(y)
        with np.errstate(over="ignore", invalid="ignore"):
            X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float32, order="C", reset=reset)
        X = check_values(check_sparse(X))
        check_targets(y)
        return X, y, check_weights(sample_weight, X.shape[0])

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


# Options of those that learn in epochs.
EPOCH_LIMITS = {
    "n_epochs": (Integral, 1, None),
    "shuffle": bool,
    "early_stopping": bool,
    "validation_fraction": (Real, 0.0, 1.0),
    "patience": (Integral, 1, None),
    "table_bits": (Integral, 8, 40),
}
