"""The front door: an estimator that chooses the algorithm from the data."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from .core.validation import NARROW, is_indicator
from .label_tree.estimator import LabelTreeClassifier
from .recall_tree.estimator import RecallTreeClassifier


def choose(X: Any, y: Any, online: bool) -> type[LabelTreeClassifier] | type[RecallTreeClassifier]:
    """The algorithm for these data.

    All rows at once: the label tree. A stream of text (sparse rows of more than 256 features) or of rows with several
    labels: the label tree. Any other stream: the Recall Tree, whose steps adapt to the scale of each feature.
    """
    text = sp.issparse(X) and X.shape[1] > NARROW
    return RecallTreeClassifier if online and not text and not is_indicator(y) else LabelTreeClassifier


class ManyClassClassifier(ClassifierMixin, BaseEstimator):
    """Classifier for many classes that needs no settings. The place to begin.

    It chooses the algorithm from the data, and the algorithm chooses its constants from them:

    - `fit` trains a `LabelTreeClassifier`, for text, embeddings and tables, with one or several labels per row. The
      label tree measures the scale of the columns, calibrates where training starts, and tests on held-out rows
      whether to keep training rows for comparison (`tuned_` has the results).
    - `partial_fit` without an earlier `fit` trains a `LabelTreeClassifier` on text or several labels per row, and a
      `RecallTreeClassifier` on anything else.

    Use the estimators themselves for control over their options.

    Parameters
    ----------
    class_weight : dict, "balanced" or None, default=None
        Weight of each class, with one label per row; "balanced" in `fit` only.
    random_state : int, RandomState or None, default=None
        Seed. The same int gives the same model, byte for byte, for any `n_jobs`.
    n_jobs : int, default=1
        Threads, -1 for all cores.
    verbose : int, default=0
        1 shows progress on standard error.

    Attributes
    ----------
    estimator_ : LabelTreeClassifier or RecallTreeClassifier
        The trained model, with all its methods.
    tuned_ : dict
        What was chosen from the data: the algorithm, and the numbers that it measured.
    classes_ : ndarray
        Labels: sorted after `fit`, new ones appended by `partial_fit`.
    n_features_in_ : int
        Number of features.

    Examples
    --------
    >>> from sklearn.feature_extraction.text import TfidfVectorizer
    >>> from manyclass import ManyClassClassifier
    >>> texts = ["red apple", "green apple", "fast car", "slow car", "old house", "new house"]
    >>> X = TfidfVectorizer().fit_transform(texts)
    >>> model = ManyClassClassifier(random_state=0).fit(X, ["fruit", "fruit", "vehicle", "vehicle", "home", "home"])
    >>> print(model.predict(X[2:4]))
    ['vehicle' 'vehicle']
    >>> model.tuned_["algorithm"]
    'label-tree'
    """

    def __init__(self, class_weight=None, random_state=None, n_jobs=1, verbose=0):
        self.class_weight = class_weight
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(self, X, y, sample_weight=None):
        """Choose the algorithm and fit it from scratch.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training data. Sparse data stay sparse.
        y : array-like of shape (n_samples,), or matrix of shape (n_samples, n_classes)
            Labels, or zeros and ones for several labels per row.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the rows.

        Returns
        -------
        self : object
            Fitted estimator.
        """
        self.estimator_ = self._make(X, y, online=False).fit(X, y, sample_weight)
        return self

    def partial_fit(self, X, y, classes=None, sample_weight=None):
        """Learn more rows, one by one in the given order. Labels may be new.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training data.
        y : array-like of shape (n_samples,), or matrix of shape (n_samples, n_classes)
            Labels. New ones are appended to `classes_`.
        classes : array-like, optional
            Labels known in advance.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the rows.

        Returns
        -------
        self : object
            The estimator.
        """
        model = getattr(self, "estimator_", None) or self._make(X, y, online=True)
        self.estimator_ = model.set_params(**self.get_params()).partial_fit(X, y, classes, sample_weight)
        return self

    def _make(self, X, y, online: bool) -> LabelTreeClassifier | RecallTreeClassifier:
        return choose(X, y, online)(**self.get_params())

    @property
    def _fitted(self) -> Any:
        check_is_fitted(self, "estimator_")
        return self.estimator_.set_params(n_jobs=self.n_jobs, verbose=self.verbose)

    def predict(self, X):
        """Predict the best label of each row; after a matrix y, a matrix of labels.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Data.

        Returns
        -------
        labels : ndarray of shape (n_samples,), or matrix of shape (n_samples, n_classes)
            Predictions.
        """
        return self._fitted.predict(X)

    def predict_topk(self, X, k=5):
        """The k best labels of each row and their scores, best first.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Data.
        k : int, default=5
            Number of labels.

        Returns
        -------
        labels : ndarray of shape (n_samples, k)
            Labels.
        scores : ndarray of shape (n_samples, k)
            Scores, highest first.
        """
        return self._fitted.predict_topk(X, k)

    def predict_proba(self, X):
        """Probabilities of all classes; use `predict_topk` for many classes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Data.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
            In the order of `classes_`.
        """
        return self._fitted.predict_proba(X)

    def diagnose(self, X, y) -> dict[str, float]:
        """Accuracy, recall of the candidates and work, averaged over rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Data.
        y : array-like of shape (n_samples,), or matrix of shape (n_samples, n_classes)
            True labels.

        Returns
        -------
        metrics : dict of str to float
            As of `LabelTreeClassifier.diagnose`.
        """
        return self._fitted.diagnose(X, y)

    def predictor(self, k=1):
        """A fast function for single rows.

        Parameters
        ----------
        k : int, default=1
            Number of labels that it returns.

        Returns
        -------
        function
            As of `LabelTreeClassifier.predictor`.
        """
        return self._fitted.predictor(k)

    def save(self, path, slim=False, prune=0.0, precision="float32") -> None:
        """Write the trained model to a file; `load_model` returns it as `estimator_`, a label tree or a Recall Tree.

        Parameters
        ----------
        path : str or path-like
            Name of the file.
        slim, prune, precision
            As of `LabelTreeClassifier.save`: leave out what only training uses, and round the weights.
        """
        self._fitted.save(path, slim, prune, precision)

    @property
    def classes_(self) -> np.ndarray:
        """Labels: sorted after `fit`, new ones appended by `partial_fit`."""
        return self._fitted.classes_

    @property
    def n_features_in_(self) -> int:
        """Number of features."""
        return self._attribute("n_features_in_")

    @property
    def feature_names_in_(self) -> np.ndarray:
        """Names of the features, if X was a DataFrame."""
        return self._attribute("feature_names_in_")

    @property
    def tuned_(self) -> dict[str, Any]:
        """What was chosen from the data."""
        options = self._fitted._options._asdict()
        measured = {name: options[name] for name in ("start", "router_start", "C", "prior") if name in options}
        kept = self.estimator_._state.get("neighbors")
        rows = {} if kept is None else {"neighbors": int(kept.n_rows[0])}
        return {"algorithm": self.estimator_._model.NAME, **measured, **rows}

    def _attribute(self, name: str) -> Any:
        """An attribute of the model; AttributeError if there is no model yet, as scikit-learn expects."""
        if "estimator_" not in self.__dict__:
            raise AttributeError(f"This {type(self).__name__} is not fitted yet and has no {name}.")
        return getattr(self.estimator_, name)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_label = True
        return tags
