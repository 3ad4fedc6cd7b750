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


def late_labels(n_classes, n_features):
    """Rows around one centre per label, labels and weights; new labels come in order, then all at random."""
    rng = np.random.default_rng(5)
    centres = rng.standard_normal((n_classes, n_features))
    y = np.sort(rng.integers(0, n_classes, 900))
    y = np.concatenate([y, rng.integers(0, n_classes, 900)]).astype(np.int32)
    X = (centres[y] + 0.2 * rng.standard_normal((len(y), n_features))).astype(np.float32)
    return X, y, rng.uniform(0.5, 1.5, len(y))


def as_batch(X, sparse):
    return validation.as_batch(sp.csr_array(X) if sparse else X)


def train_both(model, options, tree, X, y, weights, sparse):
    """Train a model of the package and a reference tree on the same stream; return the model's state."""
    state = model.init(options, X.shape[1])
    model.learn(options, state, as_batch(X, sparse), y, weights)
    for x, label, weight in zip(X.astype(float), y, weights, strict=True):
        tree.learn(x, int(label), float(weight))
    return state
