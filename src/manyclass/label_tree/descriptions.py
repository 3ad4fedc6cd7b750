"""Label descriptions: one vector per label, learned as a further row, so that labels can be predicted without rows."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import column_or_1d

from ..core.classes import ClassIndex, number_array
from ..core.validation import check_labels, without_padding

# Weights of a description, times the mean weight of the rows: of a label that has rows, and of one without any. Chosen
# on held-out training rows of WordNet (docs/label_descriptions.md): more helps labels without rows and costs accuracy
# of the others.
WITH_ROWS, ALONE = 1.0, 2.0


def split_descriptions(label_features: Any) -> tuple[np.ndarray, Any]:
    """The labels, as an array, and the vectors, or a ValueError."""
    if not isinstance(label_features, tuple) or len(label_features) != 2:
        raise ValueError(
            "label_features must be a tuple (labels, vectors): a list of labels, and a matrix with one row for each, "
            f"with the columns of X; got {type(label_features).__name__}."
        )
    labels, vectors = without_padding(label_features[0]), label_features[1]
    check_labels(labels, "the labels of label_features")
    labels = column_or_1d(labels)
    if len(np.unique(labels)) < len(labels):
        unique, count = np.unique(labels, return_counts=True)
        raise ValueError(f"label_features describes a label twice: {unique[count > 1][0]!r}.")
    if not hasattr(vectors, "shape"):
        vectors = np.asarray(vectors)
    if len(vectors.shape) != 2:
        raise ValueError("label_features: the vectors must be a matrix with one row per label.")
    if vectors.shape[0] != len(labels):
        raise ValueError(f"label_features has {len(labels)} labels but {vectors.shape[0]} vectors.")
    return labels, vectors


def weights_of(labels: np.ndarray, known: Any, weights: np.ndarray) -> np.ndarray:
    """The weight of each description; `known` are the labels that have rows, `weights` those of the rows."""
    usual = weights[weights > 0].mean() if (weights > 0).any() else 1.0
    return usual * np.where(np.isin(labels, known), WITH_ROWS, ALONE)


def with_rows(X: Any, y: np.ndarray, weights: np.ndarray, described: tuple[np.ndarray, Any], known: Any) -> tuple:
    """The rows with the descriptions before them. `known` are labels that have had rows before."""
    labels, vectors = described
    unique = ClassIndex(np.unique(y))
    unique.check_kind(labels)
    labels = unique.as_known(labels)
    own = weights_of(labels, np.concatenate([np.unique(y), known]), weights)
    joined = np.concatenate([labels, y])
    if joined.dtype.kind == "f" and y.dtype.kind in "iu":  # such as int64 and uint64: large ones would be rounded
        joined = number_array([*labels.tolist(), *y.tolist()])
    return _stack(vectors, X), joined, np.concatenate([own, weights])


def with_columns(X: Any, matrix: Any, weights: np.ndarray, described: tuple[np.ndarray, Any], known: Any) -> tuple:
    """The same for a matrix of labels, whose column numbers are the labels."""
    labels, vectors = described
    indicator = columns_of(labels, matrix.shape[1]).astype(matrix.dtype)
    own = weights_of(labels, np.concatenate([np.unique(matrix.indices), known]), weights)
    matrix = sp.csr_array(sp.vstack([indicator, matrix], format="csr"))
    return _stack(vectors, X), matrix, np.concatenate([own, weights])


def columns_of(labels: np.ndarray, n_columns: int) -> sp.csr_array:
    """A matrix with one label per row, from the numbers of columns."""
    if labels.dtype.kind not in "iu" or labels.min(initial=0) < 0 or labels.max(initial=-1) >= n_columns:
        raise ValueError(f"The labels of label_features must be numbers of columns of y, from 0 to {n_columns - 1}.")
    ones = np.ones(len(labels), np.int8)
    return sp.csr_array((ones, (np.arange(len(labels)), labels)), shape=(len(labels), n_columns))


def _stack(vectors: Any, X: Any) -> Any:
    """The vectors above the rows, in the form of X."""
    if sp.issparse(X):
        return sp.csr_matrix(sp.vstack([sp.csr_matrix(vectors), X], format="csr"))
    return np.vstack([vectors.toarray() if sp.issparse(vectors) else vectors, X])
