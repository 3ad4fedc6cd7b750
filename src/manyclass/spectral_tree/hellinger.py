"""The Hellinger map of counts, as a scikit-learn transformer."""

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data


class Hellinger(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Root of the share of each count in its row: rows of length 1 whose products compare distributions.

    What the spectral paper does to token counts (its §5.1): each row is divided by its sum, then the square root is
    taken. Nothing is learned; sparse stays sparse.

    Examples
    --------
    >>> from manyclass import Hellinger
    >>> Hellinger().fit_transform([[1.0, 3.0], [0.0, 0.0]])
    array([[0.5      , 0.8660254],
           [0.       , 0.       ]])
    """

    def fit(self, X, y=None):
        """Check the inputs; there is nothing to learn.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Counts of at least 0.
        y : ignored

        Returns
        -------
        self
        """
        self._checked(X, reset=True)
        return self

    def transform(self, X):
        """The map of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Counts of at least 0.

        Returns
        -------
        {ndarray, csr_array} of shape (n_samples, n_features)
            Sparse if X is; a row of zeros stays one.
        """
        check_is_fitted(self, "n_features_in_")
        X = self._checked(X, reset=False)
        if not sp.issparse(X):
            total = X.sum(axis=1, keepdims=True)
            return np.sqrt(X / np.where(total > 0, total, 1))
        X = sp.csr_array(X, copy=True)
        X.sum_duplicates()
        total = np.asarray(X.sum(axis=1)).ravel()
        X.data = np.sqrt(X.data / np.repeat(np.where(total > 0, total, 1), np.diff(X.indptr)))
        return X

    def _checked(self, X, reset: bool):
        X = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=reset)
        least = (X.data if sp.issparse(X) else X).min(initial=0.0)
        if least < 0:
            raise ValueError(
                f"Negative values in data passed to {type(self).__name__}: the least is {least:g}, "
                "counts are at least 0."
            )
        return X

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        return tags
