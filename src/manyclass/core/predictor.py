"""Answers for single rows without a check."""

from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from .batches import NARROW, as_batch
from .inputs import Batch, Csr, Dense
from .spec import Answers, ModelSpec


class Predictor:
    """What `predictor` of an estimator returns: call it with one row.

    A row is a float32 array of `n_features` values, or a float32 CSR matrix of one row. Only its width and its form are
    looked at: with NaN the answer is wrong, and another type of values compiles for seconds. It answers as the model is
    at the moment, with the options that it had when this was made; not while another thread teaches the model.
    """

    def __init__(self, estimator: Any, k: int):
        self._estimator, self._k = estimator, k
        self._hold()

    def _hold(self) -> None:
        """Make ready all that does not change from row to row."""
        estimator = self._estimator
        spec, config, state = estimator._spec, estimator._answering(), estimator._state
        k = estimator._check_k(self._k)
        n_classes, self._groups = len(estimator.classes_), list(state.items())
        if spec.answerer is not None:
            self._answer = spec.answerer(config, state, k, n_classes)
        else:
            self._answer = partial(_predict, spec, config, state, k, n_classes)

    def __call__(self, row) -> tuple[np.ndarray, np.ndarray]:
        """The k best labels of a row, best first, and their scores."""
        state = self._estimator._state
        for name, group in self._groups:
            if state[name] is not group:  # it has learned, and outgrown an array
                self._hold()
                break
        answers = self._answer(_one_row(row, self._estimator.n_features_in_))
        return self._estimator.classes_[answers.labels[0]], answers.scores[0].copy()


def _predict(spec: ModelSpec, config: Any, state: dict[str, Any], k: int, n_classes: int, batch: Batch) -> Answers:
    return spec.predict(config, state, batch, k, n_classes)


def _one_row(row, n_features: int) -> Batch:
    """The row as a batch of one; sparse rows that are narrow are spread out, as everywhere."""
    if isinstance(row, np.ndarray):
        if row.size != n_features:
            raise ValueError(f"The row has {row.size} values; the model has {n_features} features, one row at a time.")
        return Dense(row.reshape(1, -1))
    if not sp.issparse(row) or row.format != "csr" or row.shape != (1, n_features):
        told = f"{row.format} of shape {row.shape}" if sp.issparse(row) else type(row).__name__
        raise ValueError(
            f"A row must be an array of {n_features} float32 values, or a CSR matrix of shape (1, {n_features}), "
            f"got {told}."
        )
    if row.shape[1] <= NARROW:
        return as_batch(row)
    return Csr(row.indptr.astype(np.int64, copy=False), row.indices.astype(np.int32, copy=False), row.data)
