"""The filter of the spectral tree on its own, as a scikit-learn transformer: any classifier can be put behind it."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from ..core.learners import SGD
from ..core.multilabel import labels_of
from ..core.options import check_options, flag
from ..core.prediction import n_threads
from ..core.protocol import as_labels
from ..core.validation import (
    as_batch,
    as_indicator,
    blocks,
    check_labels,
    check_sparse,
    check_targets,
    check_text,
    check_values,
    check_weights,
    indicator,
    is_indicator,
    rows_between,
)
from . import model
from .estimator import FILTER_CONSTRAINTS, filter_config
from .filter import gather, join, unit_rows
from .state import Config, options_of


class SpectralFilter(TransformerMixin, BaseEstimator):
    """Few candidate labels for each row: the tree of `SpectralTreeClassifier` without its predictors (paper, §3.1).

    Parameters
    ----------
    n_candidates, max_depth, recall, spread, cutoff, validation_fraction, n_head, n_trees, beam, normalize
        As in `SpectralTreeClassifier`.
    random_state : int, RandomState or None
        Seed: with the same int, `fit` gives the same filter for any `n_jobs`.
    n_jobs : int, default=1
        Threads for `fit`, -1 for all cores.

    Attributes
    ----------
    classes_ : ndarray
        Labels, sorted: the columns of what `transform` gives. The column numbers if y was a matrix.
    n_features_in_ : int
        Number of features.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from manyclass import SpectralFilter
    >>> X, y = load_digits(return_X_y=True)
    >>> candidates = SpectralFilter(n_candidates=4, random_state=0).fit_transform(X, y)
    >>> int(candidates.sum(axis=1).max())
    4
    >>> bool(candidates[range(len(y)), y].mean() > 0.9)  # how many rows have their label among four
    True
    """

    _constraints = {**FILTER_CONSTRAINTS, "normalize": flag()}

    def __init__(
        self,
        n_candidates="auto",
        max_depth="auto",
        recall=0.999,
        spread=1.0,
        cutoff=0.02,
        validation_fraction=0.0,
        n_head=0,
        n_trees=1,
        beam="auto",
        normalize=True,
        random_state=None,
        n_jobs=1,
    ):
        self.n_candidates = n_candidates
        self.max_depth = max_depth
        self.recall = recall
        self.spread = spread
        self.cutoff = cutoff
        self.validation_fraction = validation_fraction
        self.n_head = n_head
        self.n_trees = n_trees
        self.beam = beam
        self.normalize = normalize
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X, y, sample_weight=None):
        """Grow the tree from all rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Inputs; kept sparse if sparse.
        y : array-like of shape (n_samples,), or matrix of shape (n_samples, n_labels)
            One label a row, or zeros and ones for several.
        sample_weight : array-like of shape (n_samples,), optional
            How much each row counts.

        Returns
        -------
        self
        """
        check_options(self)
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        X = self._rows(X, reset=True)
        weights = check_weights(sample_weight, X.shape[0])
        if not weights.any():
            raise ValueError("Sample weights must contain at least one non-zero number: there is no row to learn from.")
        if is_indicator(y):
            matrix = as_indicator(y, X.shape[0])
            classes = np.arange(matrix.shape[1])
            labels = labels_of(matrix)
        else:
            check_labels(y)
            y = np.asarray(y)
            if y.shape != (X.shape[0],):
                raise ValueError(f"X has {X.shape[0]} rows but y has the shape {y.shape}.")
            check_targets(y)
            classes, numbers = np.unique(y, return_inverse=True)
            labels = as_labels(numbers)
        if not len(labels.label):
            raise ValueError("y has no label in any row: there is nothing to learn.")
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        self._options = self._make_config(len(classes), X.shape[1], sp.issparse(X), seed)
        batch = as_batch(X)
        sizes = (X.shape[1], len(classes))
        grown = model.grow_filters(
            self._options, unit_rows(batch) if self.normalize else batch, labels, weights, sizes,
            n_threads(self.n_jobs), lambda share: None,
        )  # fmt: skip
        self._state: dict[str, Any] = join(grown)
        self.classes_ = classes
        return self

    def _make_config(self, n_classes: int, n_features: int, sparse: bool, seed: int) -> Config:
        unused: dict[str, Any] = dict(
            task="shared", rank=None, loss="logistic", multilabel=True, start=0.0, randomized=False, table_bits=8,
            n_epochs=0, learner=SGD(), bias_rate=0.0,
        )  # fmt: skip
        return Config(**filter_config(self, n_classes, n_features, sparse), **unused, seed=seed)

    def transform(self, X) -> sp.csr_array:
        """The candidates of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Inputs.

        Returns
        -------
        csr_array of shape (n_samples, n_classes), bool
        """
        check_is_fitted(self, "_state")
        X = self._rows(X, reset=False)
        check_options(self, ("beam",))
        config = self._options if self.beam == "auto" else self._options._replace(beam=int(self.beam))
        options = options_of(config, X.shape[1])
        sizes, labels = [], []
        for first, last in blocks(X.shape[0]):
            batch = as_batch(rows_between(X, first, last))
            _, found, n = gather(self._state, unit_rows(batch) if self._options.unit_rows else batch, options)
            sizes.append(n)
            labels.append(found[np.arange(found.shape[1]) < n[:, None]])
        return indicator(np.concatenate(sizes), np.concatenate(labels), len(self.classes_))

    def _rows(self, X, reset: bool):
        check_text(X)
        with np.errstate(over="ignore", invalid="ignore"):
            X = validate_data(self, X, accept_sparse="csr", dtype=np.float32, order="C", reset=reset)
        return check_values(check_sparse(X))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        tags.transformer_tags.preserves_dtype = []
        return tags
