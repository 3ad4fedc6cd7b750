"""Rows with several labels: y as a matrix (row, label) of zeros and ones, dense or sparse, for every estimator
whose model learns from lists of labels."""

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from .base import ManyClassifier, learns_online
from .batches import as_batch, check_sparse, check_values, check_weights, rows_between
from .checks import check_labels, check_options, check_text
from .prediction import n_threads
from .progress import progress_bar
from .spec import Labels

# A dense matrix of answers is refused above this many cells: ask with a sparse y, or for the top k.
_DENSE_CELLS = 1 << 30


def is_indicator(y: Any) -> bool:
    """Whether y is a matrix (row, label) and not one label a row."""
    if sp.issparse(y):
        return True
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ragged lists: the checks of labels will say what is wrong
        try:
            shape = np.asarray(y).shape
        except ValueError:
            return False
    return len(shape) == 2 and shape[1] > 1


def y_shape(y: Any) -> tuple:
    """Shape of a y of any kind."""
    return tuple(y.shape) if hasattr(y, "shape") else np.asarray(y).shape


def as_indicator(y: Any, n_rows: int) -> sp.csr_array:
    """y as a sparse matrix with sorted columns, without stored zeros, or a clear error."""
    if sp.issparse(y):
        matrix = check_sparse(sp.csr_array(y))
    else:
        dense = np.asarray(y)
        if dense.dtype.kind not in "biuf":
            raise ValueError(
                f"y is a matrix of type {dense.dtype}; several labels a row are given as zeros and ones, which sklearn."
                "preprocessing.MultiLabelBinarizer(sparse_output=True).fit_transform(y) makes of lists of labels."
            )
        matrix = sp.csr_array(dense)
    if matrix.shape[0] != n_rows:
        raise ValueError(f"X has {n_rows} rows but y has {matrix.shape[0]}.")
    wrong = np.flatnonzero((matrix.data != 0) & (matrix.data != 1))
    if len(wrong):
        row = int(np.searchsorted(matrix.indptr, wrong[0], side="right")) - 1
        raise ValueError(
            f"y has the value {matrix.data[wrong[0]]} in row {row}, column {matrix.indices[wrong[0]]}: "
            "several labels a row are given as a matrix of zeros and ones."
        )
    if (matrix.data == 0).any():
        matrix = matrix.copy()
        matrix.eliminate_zeros()
    matrix.sort_indices()
    return matrix


class MultilabelClassifier(ManyClassifier):
    """A classifier that takes one label a row, or a matrix of zeros and ones with several."""

    loss: str
    threshold: float
    top_k: int | None = None
    _kept = (*ManyClassifier._kept, "_multilabel", "_labels_a_row", "_sparse_answers", "_answer_type")
    _multilabel = False
    _labels_a_row = 1.0
    _n_columns: int | None = None  # of y, once they are known

    def fit(self, X, y, sample_weight=None):
        """Learn from scratch.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Inputs; kept sparse if sparse.
        y : array-like of shape (n_samples,), or matrix of shape (n_samples, n_labels)
            One label a row, of any type that scikit-learn accepts; or zeros and ones, dense or sparse, for several
            labels a row. Rows without a label and columns without a row are welcome. A dense y of shape (n_samples, 1)
            is one label a row, with scikit-learn's warning; a sparse one is a matrix of a single label.
        sample_weight : array-like of shape (n_samples,), optional
            How much each row counts.

        Returns
        -------
        self
        """
        return super().fit(X, y, sample_weight)

    @available_if(learns_online)
    def partial_fit(self, X, y, classes=None, sample_weight=None):
        """Go on learning, row by row as they come; new labels are welcome at any time.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Inputs.
        y : array-like of shape (n_samples,), or matrix of shape (n_samples, n_labels)
            As in `fit`, and of the same kind in all calls. Labels not met before are appended to `classes_`. A matrix
            wider than before adds its last columns as new labels; a narrower one is refused.
        classes : array-like, optional
            Labels to know beforehand (sorted into `classes_`); on later calls, labels to add at its end. With one
            label a row only.
        sample_weight : array-like of shape (n_samples,), optional
            How much each row counts.

        Returns
        -------
        self
        """
        return super().partial_fit(X, y, classes, sample_weight)

    def _fit(self, X, y, sample_weight):
        self._multilabel, self._labels_a_row = is_indicator(y), 1.0
        if not self._multilabel:
            return super()._fit(X, y, sample_weight)
        self._check_options()
        X, matrix, weights = self._check_matrix(X, y, sample_weight, reset=True)
        if matrix.nnz == 0:
            raise ValueError("y has no label in any row: there is nothing to learn.")
        if not weights.any():
            raise ValueError("Sample weights must contain at least one non-zero number: there is no row to learn from.")
        rng = check_random_state(self.random_state)
        self._remember_matrix(y, matrix)
        self._labels_a_row = max(1.0, float(np.diff(matrix.indptr)[weights > 0].mean()))
        self._n_columns = matrix.shape[1]
        index, config, state = self._start(X, np.arange(matrix.shape[1]), matrix.shape[1], rng)
        self._config, self._index, self._state, self.history_ = config, index, state, []
        self._train(X, labels_of(matrix), weights, rng)
        return self

    def _partial_fit(self, X, y, classes, sample_weight):
        first = not hasattr(self, "_state")
        if not first:
            self._check_same_kind(y)
        self._multilabel = is_indicator(y)
        if not self._multilabel:
            return super()._partial_fit(X, y, classes, sample_weight)
        self._check_options()
        if classes is not None:
            raise ValueError("classes goes with one label a row; the columns of y are the labels here.")
        X, matrix, weights = self._check_matrix(X, y, sample_weight, reset=first)
        if first:
            rng = check_random_state(self.random_state)
            self._remember_matrix(y, matrix)
            index, config, state = self._start(X, np.arange(matrix.shape[1]), 0, rng)
            self._config, self._index, self._state, self.history_ = config, index, state, []
        else:
            self._check_width(matrix)
            self._index.add(np.arange(len(self._index), matrix.shape[1]))
        labels = labels_of(matrix)
        self._learn(X, np.arange(X.shape[0]), labels, weights, max(0, getattr(self, "n_epochs_", 0) - 1))
        return self

    def _train(self, X, labels, weights, rng) -> None:
        """Let the model see all rows at once."""
        if not weights.all():  # rows of no weight are as if not there
            kept = np.flatnonzero(weights)
            labels = labels.rows(kept) if isinstance(labels, Labels) else labels[kept]
            X, weights = X[kept], weights[kept]
        n, told = X.shape[0], [0]
        with progress_bar(self.verbose, "fit", n) as show:

            def tell(share: float) -> None:
                show(int(share * n) - told[0], float("nan"))
                told[0] = int(share * n)

            fit_all = self._spec.fit
            assert fit_all is not None
            fit_all(self._config, self._state, X, as_batch(X), labels, weights, n_threads(self.n_jobs), tell)
        self.n_epochs_ = self._config.n_epochs

    def _check_options(self) -> None:
        super()._check_options()
        if self._multilabel and self.loss == "softmax":
            raise ValueError('loss="softmax" goes with one label a row; use "logistic" (or "auto") for a matrix y.')

    def _check_matrix(self, X, y, sample_weight, reset: bool):
        if self.class_weight is not None:
            raise ValueError("class_weight goes with one label a row; weigh rows by sample_weight here.")
        check_text(X)
        with np.errstate(over="ignore", invalid="ignore"):
            X = validate_data(self, X, accept_sparse="csr", dtype=np.float32, order="C", reset=reset)
        X = check_values(check_sparse(X))
        return X, as_indicator(y, X.shape[0]), check_weights(sample_weight, X.shape[0])

    def _check_same_kind(self, y) -> None:
        """One label a row stays one label a row, and a matrix a matrix."""
        if self._multilabel == is_indicator(y):
            return
        this = f"This {type(self).__name__} learned from"
        if not self._multilabel:
            raise ValueError(f"{this} one label a row; y must stay of that kind, it is a matrix of shape {y_shape(y)}.")
        check_labels(y)
        raise ValueError(
            f"{this} a matrix of zeros and ones; y must stay of that kind, it has shape {y_shape(y)} and is read as "
            f"one label a row: give a matrix of {len(self._index)} columns (a single column: sparse)."
        )

    def _check_width(self, matrix) -> None:
        if matrix.shape[1] < len(self._index):
            raise ValueError(
                f"y has {matrix.shape[1]} columns but the model knows {len(self._index)} labels: give a column for "
                "each, of zeros where no row has it."
            )

    def _check_kept(self) -> None:
        super()._check_kept()
        several = type(self._multilabel) is bool and isinstance(self._labels_a_row, float)
        if not several or self._config.multilabel != self._multilabel:
            raise ValueError("the record of labels a row is broken")
        if self._multilabel and not (type(self._sparse_answers) is bool and isinstance(self._answer_type, np.dtype)):
            raise ValueError("the record of the answers' type is broken")

    def _remember_matrix(self, y, matrix) -> None:
        self._sparse_answers = sp.issparse(y)
        self._answer_type = matrix.dtype

    @property
    def multilabel_(self) -> bool:
        """Whether y was a matrix of zeros and ones."""
        check_is_fitted(self, "_state")
        return self._multilabel

    def predict(self, X):
        """The best label of each row; after a matrix y, a matrix of the labels above `threshold`, or of the `top_k`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Inputs.

        Returns
        -------
        ndarray of shape (n_samples,), or ndarray or csr_array of shape (n_samples, n_classes)
            Sparse if y was sparse.
        """
        X = self._check_inputs(X)
        if not self._multilabel:
            return self.classes_[self._answers(X, 1).labels[:, 0]]
        check_options(self, {name: self._limits[name] for name in ("threshold", "top_k") if name in self._limits})
        n_classes = len(self._index)
        if not self._sparse_answers and X.shape[0] * n_classes > _DENSE_CELLS:
            raise ValueError(
                f"The answer would be a dense matrix of {X.shape[0]} x {n_classes}: fit with a sparse y for a sparse "
                "answer, or use predict_topk."
            )
        where = self._above_threshold(X) if self.top_k is None else self._best(X, min(int(self.top_k), n_classes))
        ones = np.ones(len(where[0]), self._answer_type)
        out = sp.csr_array((ones, where), shape=(X.shape[0], n_classes))
        return out if self._sparse_answers else out.toarray()

    def _above_threshold(self, X) -> tuple[np.ndarray, np.ndarray]:
        """(rows, columns) of the labels more probable than `threshold`."""
        rows, columns = [], []
        for first, last in self._scoring_blocks(X.shape[0]):
            scored = self._score(rows_between(X, first, last))
            above = scored.chances > self.threshold
            rows.append(np.repeat(np.arange(first, last), scored.sizes)[above])
            columns.append(scored.labels[above])
        return np.concatenate(rows), np.concatenate(columns)

    def _best(self, X, k: int) -> tuple[np.ndarray, np.ndarray]:
        """(rows, columns) of the k best labels that were scored."""
        answers = self._answers(X, k)
        rows, places = np.nonzero(answers.scores > -np.inf)
        return rows, answers.labels[rows, places]

    def diagnose(self, X, y) -> dict[str, float]:
        """How good the answers are and what they cost, as means over rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Inputs.
        y : array-like of shape (n_samples,), or matrix of shape (n_samples, n_classes)
            True labels, a matrix if the model learned from one. Labels that the model never met, or columns of a wider
            matrix, count as missed; a narrower matrix is refused.

        Returns
        -------
        dict of str to float
            `accuracy` (of the first answer: with several labels a row, P@1); `recall` (share of the true labels that
            were among the candidates); `depth`; `nodes_visited`; `routers_scored`; `candidates_scored`; `work`, the
            last two added.
        """
        check_is_fitted(self, "_state")
        self._check_same_kind(y)
        if not self._multilabel:
            return super().diagnose(X, y)
        X = self._check_inputs(X)
        truth = as_indicator(y, X.shape[0])
        self._check_width(truth)
        answers = self._answers(X, 1)
        n_classes = max(len(self._index), truth.shape[1])
        truth.resize(truth.shape[0], n_classes)
        best = sp.csr_array(
            (np.ones(X.shape[0]), answers.labels[:, 0], np.arange(X.shape[0] + 1)), shape=(X.shape[0], n_classes)
        )
        found = self.candidates(X)
        found.resize(X.shape[0], n_classes)
        depth, nodes, routers, candidates = answers.work.mean(axis=0)
        return {
            "accuracy": float((best.multiply(truth != 0)).sum() / X.shape[0]),
            "recall": float((found.multiply(truth != 0)).sum() / max(truth.nnz, 1)),
            "depth": float(depth),
            "nodes_visited": float(nodes),
            "routers_scored": float(routers),
            "candidates_scored": float(candidates),
            "work": float(routers + candidates),
        }

    def estimate_memory(self, n_features, n_classes, sparse=False, multilabel=False) -> int:
        """Bytes that a trained model will take at most, about, before any training.

        It is the bound for rows that have every feature. Sparse text needs far less (WordNet: 139 MB of 1.8 GB), since
        a node keeps only the features of its own rows: `n_bytes_` tells the truth afterwards.

        Parameters
        ----------
        n_features, n_classes : int
            Size of the problem.
        sparse : bool, default=False
            Whether the inputs will be sparse; the bound is the same.
        multilabel : bool, default=False
            Whether y will be a matrix: `n_trees="auto"` depends on it.

        Returns
        -------
        int
        """
        twin = clone(self)
        twin._multilabel, twin._n_columns = bool(multilabel), n_classes if multilabel else None
        return super(MultilabelClassifier, twin).estimate_memory(n_features, n_classes, sparse)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags


def labels_of(matrix: sp.csr_array) -> Labels:
    """The columns that are set, row after row."""
    return Labels(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32))
