"""`ManyClassClassifier`: an estimator that chooses the algorithm from the data."""

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from functools import wraps
from threading import RLock
from typing import Any

import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from .core.base import algorithm_of
from .core.label_issues import LabelIssuesMixin
from .core.locks import in_child
from .core.validation import NARROW, is_indicator
from .label_tree.estimator import LabelTreeClassifier
from .recall_tree.estimator import RecallTreeClassifier

_FIRST = RLock()  # while a model learns its first rows
in_child(lambda: _FIRST._at_fork_reinit())  # type: ignore[attr-defined]  # Python itself does so; not on Windows


def choose(text: bool, several: bool, stream: bool) -> type[Any]:
    """The algorithm for some data; the command line uses this rule too.

    The label tree for all rows at once. For a stream of rows the label tree if they are `text` (sparse rows of more
    than 256 features) or have `several` labels, otherwise the Recall Tree, whose steps adapt to the scale of each
    feature.
    """
    return RecallTreeClassifier if stream and not (text or several) else LabelTreeClassifier


def _choose(X: Any, y: Any, stream: bool) -> type[Any]:
    return choose(sp.issparse(X) and X.ndim == 2 and X.shape[1] > NARROW, is_indicator(y), stream)


def _of_model(name: str) -> Any:
    """A method that calls the method of the same name of the trained model."""

    @wraps(getattr(LabelTreeClassifier, name))
    def method(self, *args, **kwargs):
        with _errors_name(self):
            result = getattr(self._fitted, name)(*args, **kwargs)
        return self if result is self.estimator_ else result

    return method


def _attribute_of_model(name: str, doc: str = "") -> Any:
    """A property with the attribute of the trained model, or AttributeError before `fit`, as scikit-learn expects."""

    def attribute(self):
        if "estimator_" not in self.__dict__:
            raise AttributeError(f"This {type(self).__name__} is not fitted yet and has no {name}.")
        with _errors_name(self):
            return getattr(self.estimator_, name)

    return property(attribute, doc=doc or getattr(LabelTreeClassifier, name).__doc__)


@contextmanager
def _errors_name(estimator: Any) -> Iterator[None]:
    """Make errors of the trained model name the user's class instead of the model's."""
    try:
        yield
    except (ValueError, TypeError, AttributeError) as error:
        if error.args and isinstance(error.args[0], str):
            text = error.args[0]
            for inner in (LabelTreeClassifier, RecallTreeClassifier):
                text = text.replace(inner.__name__, type(estimator).__name__)
            error.args = (text, *error.args[1:])
        raise


class ManyClassClassifier(LabelIssuesMixin, ClassifierMixin, BaseEstimator):
    """Classifier for many classes that needs no settings. The place to begin.

    It chooses the algorithm and its constants from the data:

    - `fit` trains a `LabelTreeClassifier`, for text, embeddings and tables, with one or several labels per row. The
      label tree measures the scale of the columns and calibrates the weights with which training starts. It tests on
      held-out rows whether to keep training rows for comparison. `tuned_` has the results.
    - `partial_fit` without an earlier `fit` trains a `LabelTreeClassifier` on text or several labels per row, and a
      `RecallTreeClassifier` on anything else.

    Use the estimators themselves for control over their options. `save` writes the trained model, and `load_model`
    returns it as `estimator_`, a label tree or a Recall Tree.

    Parameters
    ----------
    class_weight : dict, "balanced" or None, default=None
        Weight of each class, with one label per row; "balanced" in `fit` only.
    calibration : {"isotonic", "temperature"} or None, default=None
        Calibrate probabilities in `fit` on a tenth of the rows, at most 10,000, which are then not learned. To learn
        all rows, call `calibrate` with other rows instead.
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

    def __init__(self, class_weight=None, calibration=None, random_state=None, n_jobs=1, verbose=0):
        self.class_weight = class_weight
        self.calibration = calibration
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def __copy__(self):
        """The trained model is not shared: a copy that learns would change the original."""
        return deepcopy(self)

    def fit(self, X, y, sample_weight=None, hierarchy=None, label_features=None):
        """Choose the algorithm and fit it from scratch.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training data. Sparse data stay sparse.
        y : array-like of shape (n_samples,), or matrix of shape (n_samples, n_classes)
            Labels, or zeros and ones for several labels per row.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the rows.
        hierarchy, label_features : optional
            A taxonomy and descriptions of the labels, as in `LabelTreeClassifier.fit`.

        Returns
        -------
        self : object
            Fitted estimator.
        """
        with _errors_name(self):
            model = _choose(X, y, stream=False)(**self.get_params())
            self.estimator_ = model.fit(X, y, sample_weight, hierarchy=hierarchy, label_features=label_features)
        return self

    def partial_fit(self, X, y, classes=None, sample_weight=None, label_features=None):
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
        label_features : tuple (labels, vectors), optional
            Descriptions of labels, as in `LabelTreeClassifier.partial_fit`; for label trees only.

        Returns
        -------
        self : object
            The estimator.

        Examples
        --------
        >>> from manyclass import ManyClassClassifier
        >>> model = ManyClassClassifier(random_state=0).partial_fit([[0.0], [1.0]], ["low", "high"])
        >>> print(model.partial_fit([[9.0]], ["huge"]).classes_)  # a new label
        ['low' 'high' 'huge']
        """
        if not hasattr(self, "estimator_"):
            with _FIRST:  # otherwise two threads would each make a model
                if not hasattr(self, "estimator_"):
                    return self._learn(_choose(X, y, stream=True)(), X, y, classes, sample_weight, label_features)
        return self._learn(self.estimator_, X, y, classes, sample_weight, label_features)

    def _learn(self, model, X, y, classes, sample_weight, label_features):
        described = {} if label_features is None else {"label_features": label_features}
        if described and not isinstance(model, LabelTreeClassifier):
            raise ValueError("label_features is for label trees, but these data are learned by a Recall Tree.")
        before = model.get_params(deep=False)
        model.set_params(**self.get_params())
        try:
            with _errors_name(self):
                model.partial_fit(X, y, classes, sample_weight, **described)
        except BaseException:
            model.set_params(**before)
            raise
        if not hasattr(self, "estimator_"):  # otherwise another thread may have fitted a new one meanwhile
            self.estimator_ = model
        return self

    @property
    def _fitted(self) -> Any:
        check_is_fitted(self, "estimator_")
        self.estimator_.n_jobs = self.n_jobs
        return self.estimator_

    predict = _of_model("predict")
    predict_topk = _of_model("predict_topk")
    predict_proba = _of_model("predict_proba")
    explain = _of_model("explain")
    predict_other = _of_model("predict_other")
    predict_set = _of_model("predict_set")
    calibrate = _of_model("calibrate")
    conformal = _of_model("conformal")
    rejection_threshold = _of_model("rejection_threshold")
    diagnose = _of_model("diagnose")
    predict_path = _of_model("predict_path")
    predictor = _of_model("predictor")
    save = _of_model("save")
    add_classes = _of_model("add_classes")
    remove_classes = _of_model("remove_classes")
    rename_classes = _of_model("rename_classes")
    merge_classes = _of_model("merge_classes")

    classes_ = _attribute_of_model("classes_", "Labels: sorted after `fit`, new ones appended by `partial_fit`.")
    removed_classes_ = _attribute_of_model("removed_classes_")
    conformal_ = _attribute_of_model("conformal_")
    n_features_in_ = _attribute_of_model("n_features_in_", "Number of features.")
    feature_names_in_ = _attribute_of_model("feature_names_in_", "Names of the features, if X was a DataFrame.")
    taxonomy_ = _attribute_of_model("taxonomy_")
    label_names_ = _attribute_of_model("label_names_")

    @property
    def tuned_(self) -> dict[str, Any]:
        """What was chosen from the data."""
        options = self._fitted._options._asdict()
        measured = {name: options[name] for name in ("start", "router_start", "C", "prior") if name in options}
        kept = self.estimator_._state.get("neighbors")
        rows = {} if kept is None else {"neighbors": int(kept.n_rows[0])}
        if self.estimator_._multilabel:
            rows["threshold"] = self.estimator_.threshold_
        return {"algorithm": algorithm_of(self.estimator_), **measured, **rows}

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_label = True
        return tags
