"""Random rows for the tests of kernels."""

import numpy as np
import scipy.sparse as sp

from manyclass import SpectralTreeClassifier
from manyclass.core.inputs import Csr, Dense
from manyclass.core.protocol import Labels


def random_rows(seed, n=60, d=9, k=7, several=False):
    """(X, Y, mass): sparse rows of length 1, their labels as a matrix, and weights."""
    rng = np.random.default_rng(seed)
    Y = np.zeros((n, k))
    for i in range(n):
        Y[i, rng.choice(k, rng.integers(1, 4) if several else 1, replace=False)] = 1
    X = Y @ rng.normal(size=(k, d)) + 0.3 * rng.normal(size=(n, d))
    X[np.abs(X) < 0.5] = 0
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-9)
    return X.astype(np.float32), Y, rng.uniform(0.1, 2.0, n)


def both(X):
    """The rows as a dense and as a sparse batch."""
    matrix = sp.csr_array(X)
    return Dense(X), Csr(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.data)


def labels_of(Y):
    """The labels of a matrix."""
    matrix = sp.csr_array(Y)
    return Labels(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32))


def options_of(**changes):
    """Options for six features and twelve classes, with some fields replaced."""
    clf = SpectralTreeClassifier(n_candidates=4, max_depth=3)
    clf._n_classes = 12
    return clf._resolve_options(6, False, 0)._replace(**changes)
