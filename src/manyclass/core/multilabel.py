"""Classifiers that learn all rows at once in `fit`, and accept several labels per row as a matrix of zeros and ones."""

import warnings
from collections import Counter
from collections.abc import Sequence
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ..metrics import ThresholdSearch
from .base import ManyClassifier, check_some_weight
from .calibration import FEWEST, is_true
from .locks import reads
from .options import check_flag, check_options
from .prediction import metrics_of, n_threads
from .progress import Progress
from .protocol import Labels
from .validation import as_indicator, check_labels, check_weights, is_indicator, rows_between
from .vocabulary import current_columns, joined_columns

_DENSE_CELLS = 1 << 30  # limit of a dense matrix of predictions
_THRESHOLD = 0.5  # if there are too few rows to learn it
_HELD_OUT, _LEARNED = 0.1, 0.2  # shares of the rows from which `fit` learns the threshold
_ENOUGH = 1000  # rows that the small model learns at least, if so many are not held out


class ThresholdWarning(RuntimeWarning):
    """The threshold could not be learned, because of a MemoryError."""

    def __init__(self, error: MemoryError) -> None:
        super().__init__(error)
        self.error = error

    def __str__(self) -> str:
        return f"The threshold stays {_THRESHOLD}, it could not be learned: {self.error}"


class MultilabelClassifier(ManyClassifier):
    """A classifier that accepts one label per row, or a matrix of zeros and ones."""

    threshold: float | str
    _kept = (*ManyClassifier._kept, "_multilabel", "_labels_per_row", "_sparse_y", "_y_dtype", "_threshold")
    _labels_per_row = 1.0
    _n_columns: int | None = None  # columns of y, once known
    _n_classes = 2  # classes or columns, once known
    _threshold: float  # learned from held-out rows; missing: there were none

    def _fit(self, X, y, sample_weight):
        self._multilabel, self._labels_per_row, self._n_columns = is_indicator(y), 1.0, None
        self.__dict__.pop("_threshold", None)
        if not self._multilabel:
            return super()._fit(X, y, sample_weight)
        self._names = column_names(y, 0) if hasattr(y, "columns") else None
        self._check_options()
        X, matrix, weights = self._check_matrix(X, y, sample_weight, reset=True)
        check_some_weight(weights)
        n_labels = np.diff(matrix.indptr)[weights > 0]
        if not n_labels.any():
            raise ValueError("y has no label in any row with a weight above 0: there is nothing to learn.")
        rng = check_random_state(self.random_state)
        self._labels_per_row = max(1.0, float(n_labels.mean()))
        self._n_columns = matrix.shape[1]
        self._start(X, np.arange(matrix.shape[1]), matrix.shape[1], rng)
        self._train_and_calibrate(X, labels_of(matrix), weights, rng)
        if self._learns_threshold():
            self._learn_threshold(X, matrix, weights, rng)
        return self

    def _learns_threshold(self) -> bool:
        """Whether `fit` learns a threshold, if there are enough rows."""
        return self._multilabel and self.threshold == "auto" and self.calibration is None

    def _learn_threshold(self, X, matrix: sp.csr_array, weights: np.ndarray, rng) -> None:
        """Learn the threshold from other rows than those of a small model, which learns a fifth of the rows.

        A model of all rows would take longer, and its best threshold is nearly the same. Labels that the small model
        does not know would make it too low, and are left out.
        """
        held, learned = rows_for_threshold(weights > 0, self._n_learned_first(), rng)
        known = np.bincount(matrix[learned].indices, minlength=matrix.shape[1]) > 0
        truth = sp.csr_array(matrix[held].multiply(known))
        truth.eliminate_zeros()
        if len(held) < FEWEST or not truth.nnz:
            return
        part: Any = clone(self).set_params(**params_for_threshold(rng))
        try:
            part.fit(X[learned], matrix[learned], weights[learned])
        except MemoryError as error:
            warnings.warn(ThresholdWarning(error), stacklevel=2)
            return
        self._threshold = part._best_threshold(X[held], labels_of(truth))

    def _best_threshold(self, X, truth: Labels) -> float:
        """The threshold with the highest micro-F1 on some rows."""
        parts = [
            self._search_threshold(rows_between(X, first, last), truth.rows(np.arange(first, last)))
            for first, last in self._scoring_blocks(X.shape[0])
        ]
        return reduce(add, parts).best()[0]

    def _search_threshold(self, X, truth: Labels) -> ThresholdSearch:
        """The counts of some rows, which are scored in one block."""
        search = ThresholdSearch()
        scored, _ = self._probabilities(X)
        correct = is_true(scored.sizes, scored.labels, truth)
        search.add(scored.probabilities, correct, int(np.count_nonzero(truth.label >= 0)))
        return search

    def _fit_calibration(self, X, truth: Labels, method: str, weights: np.ndarray | None = None) -> None:
        before = self._state
        try:
            super()._fit_calibration(X, truth, method, weights)
            if self._multilabel:
                self._threshold = self._best_threshold(X, truth)
        except BaseException:
            self._state = before
            raise

    def _partial_fit(self, X, y, classes, sample_weight):
        first = not hasattr(self, "_state")
        if not first:
            self._check_same_kind(y)
        self._multilabel = is_indicator(y)
        if not self._multilabel:
            return super()._partial_fit(X, y, classes, sample_weight)
        self._check_options()
        if classes is not None:
            raise ValueError("classes requires one label per row; with a matrix y, the columns are the labels.")
        X, matrix, weights = self._check_matrix(X, y, sample_weight, reset=first)
        if first:
            self._start(X, np.arange(matrix.shape[1]), 0, check_random_state(self.random_state))
        else:
            self._check_columns(y, matrix)
            new, index = np.arange(len(self._index), matrix.shape[1]), self._index
            if self._names is None:
                index.add(new)
            elif len(new):
                index = index.copied()
                index.add(new)
                names = [*self._names, *column_names(y, matrix.shape[1])[len(self._names) :]]
                _check_different(names)
                self._index, self._names = index, names
            matrix = current_columns(matrix, index)
        self._learn(X, np.arange(X.shape[0]), labels_of(matrix), weights, self._epochs_before())
        return self

    def _train(self, X, labels, weights, rng) -> None:
        """Learn all rows at once."""
        if not weights.all():  # rows of weight 0 have no effect at all
            kept = np.flatnonzero(weights)
            labels = labels.rows(kept) if isinstance(labels, Labels) else labels[kept]
            X, weights = X[kept], weights[kept]
        progress, reported = Progress(self.verbose, "fit", X.shape[0]), [0]

        def report(share: float) -> None:
            done = int(share * X.shape[0])
            progress.advance(done - reported[0])
            reported[0] = done

        batch, n_jobs, columns = self._batch(X), n_threads(self.n_jobs), self._state.pop("scaling", None)
        model = self._model
        rows = X, batch, labels, weights
        self._options = model.fit(self._options, self._state, *rows, n_jobs, report, **self._arguments_of_fit())
        if columns is not None:
            self._state["scaling"] = columns
        self.n_epochs_ = self._options.n_epochs

    def _arguments_of_fit(self) -> dict[str, Any]:
        """Further arguments of the model's `fit`."""
        return {}

    def _check_matrix(self, X, y, sample_weight, reset: bool):
        if self.class_weight is not None:
            raise ValueError("class_weight requires one label per row; use sample_weight with a matrix y.")
        X = self._check_inputs_to_learn(X, reset)
        matrix = as_indicator(y, X.shape[0])
        if reset:
            self._sparse_y, self._y_dtype = sp.issparse(y), matrix.dtype
        return X, matrix, check_weights(sample_weight, X.shape[0])

    def _check_same_kind(self, y) -> None:
        """One label per row stays one label per row, and a matrix a matrix."""
        if self._multilabel == is_indicator(y):
            return
        if self._multilabel:
            check_labels(y)
        shape = tuple(y.shape) if hasattr(y, "shape") else np.asarray(y).shape
        fitted = f"This {type(self).__name__} was fitted with"
        if not self._multilabel:
            raise ValueError(f"{fitted} one label per row, but y is a matrix of shape {shape}.")
        raise ValueError(
            f"{fitted} a matrix of zeros and ones, but y has shape {shape}, which is one label per row: pass a matrix "
            f"of {len(self._index)} columns (a sparse one if there is a single column)."
        )

    def _check_names(self, names: Sequence[str] | None) -> None:
        """ValueError unless the names of the columns of y, if known, are those of the labels."""
        for place, (name, given) in enumerate(zip(self._names or [], names or [], strict=False)):
            if name != given:
                raise ValueError(f"Column {place} of y is {given!r}, but label {place} of the model is {name!r}.")

    def _check_columns(self, y, matrix) -> None:
        self._check_names(column_names(y, 0) if hasattr(y, "columns") else None)
        if matrix.shape[1] < len(self._index):
            raise ValueError(
                f"y has {matrix.shape[1]} columns but the model has {len(self._index)} labels: pass a column for each "
                "label, with zeros where no row has it."
            )

    def _check_kept(self) -> None:
        super()._check_kept()
        several = type(self._multilabel) is bool and isinstance(self._labels_per_row, float)
        several = several and 0 <= self._labels_per_row < np.inf
        if not several or self._options.multilabel != self._multilabel:
            raise ValueError("the number of labels per row is invalid")
        if self._multilabel and not (type(self._sparse_y) is bool and isinstance(self._y_dtype, np.dtype)):
            raise ValueError("the type of the predictions is invalid")
        threshold = getattr(self, "_threshold", _THRESHOLD)
        if not isinstance(threshold, float) or not 0 <= threshold <= 1:
            raise ValueError("the threshold is invalid")
        if self._multilabel and not np.array_equal(self.classes_, np.arange(len(self._index))):
            raise ValueError("the labels are not the numbers of the columns")

    @property
    @reads
    def multilabel_(self) -> bool:
        """Whether y was a matrix of zeros and ones."""
        check_is_fitted(self, "_state")
        return self._multilabel

    @property
    @reads
    def threshold_(self) -> float:
        """The probability above which `predict` returns a label, with several labels per row."""
        check_is_fitted(self, "_state")
        check_options(self, ("threshold",))
        return getattr(self, "_threshold", _THRESHOLD) if isinstance(self.threshold, str) else float(self.threshold)

    @reads
    def predict(self, X, reject=None):
        """Predict the best label of each row, or a matrix of labels if y was a matrix in training.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Data.
        reject : float from 0 to 1, optional
            With one label per row, predict only labels with a probability above this number. `calibrate` makes
            probabilities meaningful, and `rejection_threshold` finds the number for a wanted precision.

        Returns
        -------
        labels : ndarray of shape (n_samples,), or ndarray or csr_array of shape (n_samples, n_classes)
            With `reject`, a masked array: rows without a prediction are masked, and `labels.filled("none")` replaces
            them. scikit-learn's metrics do not know masks: pass them the rows `~labels.mask` only. If y was a matrix,
            ones for the labels with a probability above `threshold_`. Sparse if y was sparse.

        Examples
        --------
        >>> from manyclass import LabelTreeClassifier
        >>> X, Y = [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.0, 0.0]] * 5, [[1, 0], [0, 1], [1, 1], [0, 0]] * 5
        >>> LabelTreeClassifier(random_state=0).fit(X, Y).predict([[1.0, 0.0], [1.0, 1.0]])
        array([[1, 0],
               [1, 1]])
        """
        if not self._multilabel:
            return super().predict(X, reject)
        if reject is not None:
            raise ValueError("reject requires one label per row; with a matrix y, use the option threshold.")
        X, threshold = self._check_inputs(X), self.threshold_
        n_classes = len(self._index)
        if not self._sparse_y and X.shape[0] * n_classes > _DENSE_CELLS:
            raise ValueError(
                f"predict would return a dense matrix of {X.shape[0]} x {n_classes}: fit with a sparse y to get a "
                "sparse one, or use predict_topk."
            )
        where = self._above(threshold, X)
        ones = np.ones(len(where[0]), self._y_dtype)
        out = sp.csr_array((ones, where), shape=(X.shape[0], n_classes))
        return out if self._sparse_y else out.toarray()

    def _above(self, threshold: float, X) -> tuple[np.ndarray, np.ndarray]:
        """(rows, columns) of the labels with a probability above the threshold."""
        rows, columns = [], []
        for _, row, scored in self._calibrated(X):
            above = scored.probabilities > threshold
            rows.append(row[above])
            columns.append(scored.labels[above])
        return np.concatenate(rows), np.concatenate(columns)

    @reads
    def diagnose(self, X, y) -> dict[str, float]:
        """Measure accuracy, recall of the candidates and work, averaged over rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Data.
        y : array-like of shape (n_samples,), or matrix of shape (n_samples, n_classes)
            True labels, a matrix if the model was fitted with one. Unknown labels, and columns beyond those of the
            model, count as missed; a narrower matrix is an error.

        Returns
        -------
        metrics : dict of str to float
            `accuracy` (with several labels per row: P@1); `recall` (share of the true labels that were candidates);
            `depth`; `nodes_visited`; `routers_scored`; `candidates_scored`; `work` (routers plus candidates).

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from manyclass import LabelTreeClassifier
        >>> X, y = load_digits(return_X_y=True)
        >>> metrics = LabelTreeClassifier(random_state=0).fit(X[:1500], y[:1500]).diagnose(X[1500:], y[1500:])
        >>> metrics["accuracy"] > 0.9, metrics["candidates_scored"]
        (True, 10.0)
        """
        check_is_fitted(self, "_state")
        self._check_same_kind(y)
        if not self._multilabel:
            return super().diagnose(X, y)
        X = self._check_inputs(X)
        truth = self._true_matrix(X, y)
        found, n = self._predict(X, 1), X.shape[0]
        candidates = self.candidates(X)
        candidates.resize(n, truth.shape[1])
        best = sp.csr_array((np.ones(n), found.labels[:, 0], np.arange(n + 1)), shape=(n, truth.shape[1]))
        accuracy = float(best.multiply(truth != 0).sum() / n)
        recall = float(candidates.multiply(truth != 0).sum() / max(truth.nnz, 1))
        return metrics_of(accuracy, recall, found.work, float(found.work[:, 3].mean()))

    def _truth(self, X, y) -> Labels:
        self._check_same_kind(y)
        if not self._multilabel:
            return super()._truth(X, y)
        truth = labels_of(self._true_matrix(X, y))
        known = truth.label < len(self._index)
        if self._index.target is not None:  # columns of classes that were removed
            known[known] = self._index.target[truth.label[known]] == truth.label[known]
        return truth._replace(label=np.where(known, truth.label, np.int32(-1)))

    def _true_matrix(self, X, y) -> sp.csr_array:
        matrix = as_indicator(y, X.shape[0])
        self._check_columns(y, matrix)
        return joined_columns(matrix, self._index)

    def estimate_memory(self, n_features, n_classes, sparse=False, multilabel=False) -> int:
        """Approximate size of a trained model in bytes, before training.

        Parameters
        ----------
        n_features, n_classes : int
            Size of the problem.
        sparse : bool, default=False
            Whether the data will be sparse.
        multilabel : bool, default=False
            Whether y will be a matrix; options that are "auto" depend on it.

        Returns
        -------
        n_bytes : int
            An upper bound, reached if every row has every feature. Sparse text requires far less. The actual size
            after training is `n_bytes_`.

        Examples
        --------
        >>> from manyclass import SpectralTreeClassifier
        >>> SpectralTreeClassifier().estimate_memory(n_features=128, n_classes=1000) < 200_000_000
        True
        """
        options = self._options_of_size(n_features, n_classes, sparse, multilabel)
        return self._model.memory(options, int(n_features), int(n_classes))

    def _options_of_size(self, n_features, n_classes, sparse, multilabel=False) -> Any:
        other: Any = clone(self)
        other._multilabel = check_flag("multilabel", multilabel)
        other._n_columns = n_classes if multilabel else None
        other._n_classes = n_classes
        return super(MultilabelClassifier, other)._options_of_size(n_features, n_classes, sparse)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags


def rows_for_threshold(has_weight: np.ndarray, first: int, rng) -> tuple[np.ndarray, np.ndarray]:
    """The rows from which `fit` learns the threshold: held-out rows, and those that the small model learns.

    `has_weight` is whether each row has a weight above 0; the first rows are not used.
    """
    rows = first + rng.permutation(len(has_weight) - first)
    rows = rows[has_weight[rows]]
    n_held, n_learned = sizes_for_threshold(len(rows))
    return np.sort(rows[:n_held]), np.sort(rows[n_held : n_held + n_learned])


def sizes_for_threshold(n_rows: int) -> tuple[int, int]:
    """The number of rows that are held out, and of those that the small model learns."""
    n_held = int(_HELD_OUT * n_rows)
    return n_held, max(int(_LEARNED * n_rows), min(_ENOUGH, n_rows - n_held))


def params_for_threshold(rng) -> dict[str, Any]:
    """The options of the small model that differ from those of the estimator."""
    return {"threshold": _THRESHOLD, "random_state": int(rng.randint(np.iinfo(np.int32).max)), "verbose": 0}


def column_names(y: Any, n_columns: int) -> list[str]:
    """The names of the columns of y, or the numbers of its `n_columns` columns if they have none."""
    names = [str(name) for name in getattr(y, "columns", range(n_columns))]
    _check_different(names)
    return names


def _check_different(names: list[str]) -> None:
    if len(set(names)) < len(names):
        repeated = next(name for name, n in Counter(names).items() if n > 1)
        raise ValueError(f"y has two columns with the name {repeated!r}.")


def labels_of(matrix: sp.csr_array) -> Labels:
    """The columns that are set, row after row."""
    return Labels(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32))
