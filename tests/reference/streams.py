"""Random streams for the comparison of kernels with references."""

import numpy as np
import scipy.sparse as sp

from manyclass import SGD, AdaGrad, NormalizedAdaGrad
from manyclass.core import validation

LEARNERS = {"sgd": SGD(0.7), "adagrad": AdaGrad(0.3), "normalized-adagrad": NormalizedAdaGrad(0.9)}


def stream(seed, n_rows, n_labels, sparse):
    """Rows around one centre per label, labels and weights; a few rows have weight 0."""
    rng = np.random.default_rng(seed)
    if sparse:
        centres = (rng.random((n_labels, 300)) < 0.03) * rng.standard_normal((n_labels, 300))
        noise = (rng.random((n_rows, 300)) < 0.01) * rng.standard_normal((n_rows, 300))
    else:
        centres, noise = rng.standard_normal((n_labels, 5)), 0.3 * rng.standard_normal((n_rows, 5))
    y = rng.integers(0, n_labels, n_rows)
    X = (centres[y] + noise).astype(np.float32)
    weights = np.where(rng.random(n_rows) < 0.05, 0.0, rng.uniform(0.5, 1.5, n_rows))
    return X, y.astype(np.int32), weights


def as_batch(X, sparse):
    return validation.as_batch(sp.csr_array(X) if sparse else X)
