"""Rows with several labels: y as a matrix (row, label) of zeros and ones, dense or sparse, for every estimator
whose model learns from lists of labels."""

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from ..models.spec import Labels
from .base import ManyClassifier
from .batches import check_sparse, check_values, check_weights, rows_between

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


def as_indicator(y: Any, n_rows: int) -> sp.csr_array:
    """y as a sparse matrix with sorted columns, without stored zeros, or a clear error."""
    if sp.issparse(y):
        matrix = check_sparse(sp.csr_array(y))
    else:
        dense = np.asarray(y)
        if dense.dtype.kind not in "biuf":
            raise ValueError(f"y is a matrix of type {dense.dtype}; several labels a row are given as zeros and ones.")
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

    threshold: float
    _multilabel = False
    _labels_a_row = 1.0

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
        index, config, state = self._start(X, np.arange(matrix.shape[1]), matrix.shape[1], rng)
        self._config, self._index, self._state, self.history_ = config, index, state, []
        self._train(X, _labels_of(matrix), weights, rng)
        return self

    def _partial_fit(self, X, y, classes, sample_weight):
        first = not hasattr(self, "_state")
        if not first and self._multilabel != is_indicator(y):
            told = "a matrix of zeros and ones" if self._multilabel else "one label a row"
            raise ValueError(f"This {type(self).__name__} learned from {told}; y must stay of that kind.")
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
        elif matrix.shape[1] < len(self._index):
            raise ValueError(f"y has {matrix.shape[1]} columns but the model knows {len(self._index)} labels.")
        else:
            self._index.add(np.arange(len(self._index), matrix.shape[1]))
        labels = _labels_of(matrix)
        self._learn(X, np.arange(X.shape[0]), labels, weights, max(0, getattr(self, "n_epochs_", 0) - 1))
        return self

    def _check_matrix(self, X, y, sample_weight, reset: bool):
        if self.class_weight is not None:
            raise ValueError("class_weight goes with one label a row; weigh rows by sample_weight here.")
        with np.errstate(over="ignore", invalid="ignore"):
            X = validate_data(self, X, accept_sparse="csr", dtype=np.float32, order="C", reset=reset)
        X = check_values(check_sparse(X))
        return X, as_indicator(y, X.shape[0]), check_weights(sample_weight, X.shape[0])

    def _remember_matrix(self, y, matrix) -> None:
        self._sparse_answers = sp.issparse(y)
        self._answer_type = matrix.dtype

    @property
    def multilabel_(self) -> bool:
        """Whether y was a matrix of zeros and ones."""
        check_is_fitted(self, "_state")
        return self._multilabel

    def predict(self, X):
        """The best label of each row; after a matrix y, a matrix of the labels above `threshold`.

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
        n_classes = len(self._index)
        if not self._sparse_answers and X.shape[0] * n_classes > _DENSE_CELLS:
            raise ValueError(
                f"The answer would be a dense matrix of {X.shape[0]} x {n_classes}: fit with a sparse y for a sparse "
                "answer, or use predict_topk."
            )
        rows, columns = [], []
        for first, last in self._scoring_blocks(X.shape[0]):
            scored = self._score(rows_between(X, first, last))
            above = scored.chances > self.threshold
            rows.append(np.repeat(np.arange(first, last), scored.sizes)[above])
            columns.append(scored.labels[above])
        where = np.concatenate(rows), np.concatenate(columns)
        ones = np.ones(len(where[0]), self._answer_type)
        out = sp.csr_array((ones, where), shape=(X.shape[0], n_classes))
        return out if self._sparse_answers else out.toarray()

    def diagnose(self, X, y) -> dict[str, float]:
        """How good the answers are and what they cost, as means over rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Inputs.
        y : array-like of shape (n_samples,), or matrix of shape (n_samples, n_classes)
            True labels; labels that the model never met count as wrong.

        Returns
        -------
        dict of str to float
            `accuracy` (of the first answer: with several labels a row, P@1); `recall` (share of the true labels that
            were among the candidates); `depth`; `nodes_visited`; `routers_scored`; `candidates_scored`; `work`, the
            last two added.
        """
        check_is_fitted(self, "_state")
        if not self._multilabel:
            return super().diagnose(X, y)
        X = self._check_inputs(X)
        truth = as_indicator(y, X.shape[0])
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

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags


def _labels_of(matrix: sp.csr_array) -> Labels:
    return Labels(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32))


