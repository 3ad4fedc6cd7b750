"""Spectral tree as scikit-learn estimators: the classifier, its filter alone, and the paper's map of counts."""

import math
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.preprocessing import normalize
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from ..core.base import ManyClassifier, check_some_weight
from ..core.columns import apply, measure, most_rows
from ..core.learners import SGD, AdaGrad, NormalizedAdaGrad, resolve
from ..core.locks import reads
from ..core.losses import LOSSES
from ..core.multilabel import MultilabelClassifier, labels_of
from ..core.options import check_flag, check_integer, check_options, flag, integer, one_of, real
from ..core.prediction import n_threads
from ..core.protocol import as_labels
from ..core.validation import (
    BLOCK,
    NARROW,
    as_batch,
    as_indicator,
    blocks,
    check_before_conversion,
    check_labels,
    check_targets,
    check_weights,
    indicator,
    is_indicator,
    rows_between,
)
from . import model
from .filter import find_candidates, grow_forest, nodes_of, rows_with, unit_rows
from .kernels import Options


class SpectralTreeClassifier(MultilabelClassifier):
    """Hierarchical spectral tree (2015): a tree of eigenvectors finds a few candidates, predictors choose among them.

    It learns from all rows at once, with one label per row or several. Each node of a binary tree splits its rows at
    the median of the direction along which the mean rows of the labels have the largest variance. Each leaf keeps its
    most frequent labels as candidates; rows near a border count on both sides. Then predictors are trained to choose
    among the candidates of a leaf, on random paths. A prediction costs the depth of the tree plus the number of
    candidates.

    `fit` centers dense columns that have a large mean, and scales columns of very different size. Then it scales rows
    to length 1.

    "Text" below means sparse data with more than 256 features. After training, `set_params` may change `beam`,
    `threshold` and `n_jobs` for predictions; all other options take effect in the next `fit`.

    Parameters
    ----------
    n_candidates : int or "auto", default="auto"
        Number of labels that a leaf keeps, and that are scored per row besides the head labels, 1 to 1,000,000. "auto":
        2.5 log2 of the number of classes, but at least 16. For text, 6.5 times the square root of the number of
        classes, but at least the smaller of 400 and three quarters of the classes.
    max_depth : int, "auto" or "validate", default="auto"
        Maximum depth of the tree, 0 to 30. "auto": log2 of the number of classes, plus 2; for text, log2 of the number
        of classes, minus 4. "validate": a tenth of the rows is held out of the tree, and the depth with the best recall
        on them is kept. It is at most log2 of the number of classes, plus 2.
    n_head : int, default=0
        Number of most frequent labels that are candidates of every row, 0 to 1,000,000. The tree is for the other
        labels.
    n_trees : int, default=1
        Number of trees, 1 to 1000, each trained with another random weighting of the rows. The most likely
        `n_candidates` labels of all leaves reached are scored.
    beam : int or "auto", default="auto"
        Number of paths that a prediction follows through each tree, 1 to 1024. The most likely `n_candidates` labels of
        their leaves are scored. "auto": 4 for text, otherwise 1 as in the paper. More than one path does not help if
        leaves have weights of their own.
    leaf : {"auto", "shared", "bias", "output", "hashed", "separate"}, default="auto"
        How the classifiers of the leaves are related. "shared": all leaves share one predictor per class. "bias": each
        leaf adds a bias per candidate. "hashed": each leaf adds weights per candidate. "separate": nothing is shared.
        "output": only the low-rank map is shared, as in the paper for ALOI; it requires `rank`. "auto": "output" with
        `rank`, "shared" for text, otherwise "hashed".
    rank : int or None, default=None
        Number of outputs of a learned linear map that all predictors get in place of the row, 1 to 100,000. None: they
        get the row itself.
    loss : {"auto", "softmax", "logistic"}, default="auto"
        Loss: softmax over all candidates, or a logistic loss for each candidate. "auto": softmax with one label per
        row, logistic with several.
    rules : {"default", "paper"}, default="default"
        "paper": the rules as printed. Predictors start at zero, and their biases learn as the weights do. Only the
        candidates of a leaf learn from its rows, which come in random order. "auto" then means one path (``beam=1``)
        and ``leaf="bias"``, or ``leaf="output"`` with `rank`. It is for comparisons with the paper: on text it is
        slower and needs more epochs.
    randomized : bool, default=True
        Train at the end of a random path, not of the most likely one.
    threshold : float or "auto", default="auto"
        With several labels per row, `predict` returns the labels above this probability, 0 to 1. "auto": the threshold
        with the highest micro-F1 on held-out rows, learned by `fit` and again by `calibrate`; 0.5 with fewer than 200
        rows. `fit` then takes about a quarter longer, up to twice as long with few rows. Use
        `predict_topk` for a fixed number of labels.
    learner : "auto", "sgd", "adagrad", "normalized-adagrad" or a learner, default="auto"
        Update rule of the predictors. "auto": `SGD` for text, otherwise `NormalizedAdaGrad(rate=4)`. With `rank`, the
        rule is always AdaGrad, with the learner's rate or 0.5 for "auto".
    n_epochs : int or "auto", default="auto"
        Number of passes of the classifier over the rows. "auto": 5 with softmax on text, otherwise 10.
    table_bits : int, default=26
        At most 2**table_bits shared weights, and as many weights of the leaves, 8 to 40. More weights are hashed into
        tables of this size.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, with one label per row.
    calibration : {"isotonic", "temperature"} or None, default=None
        Calibrate probabilities in `fit` on a tenth of the rows, at most 10,000, which are then not learned. To learn
        all rows, call `calibrate` with other rows instead.
    random_state : int, RandomState instance or None, default=None
        Seed. With an int, `fit` always gives the same model, for any `n_jobs`.
    n_jobs : int, default=1
        Number of threads for the tree and for prediction, -1 for all cores.
    verbose : int, default=0
        If 1, progress is printed to standard error.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels, sorted; the column numbers if y was a matrix.
    multilabel_ : bool
        Whether y was a matrix of zeros and ones.
    progressive_error_ : float
        Share of the rows that were predicted wrongly just before they were learned, on their random paths, in the last
        epoch.
    n_bytes_ : int
        Size of the model in bytes.
    n_features_in_ : int
        Number of features.

    Notes
    -----
    Thread-safe: other threads may predict or save during `fit`, with the old model until the new one is complete
    (docs/services.md).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from manyclass import SpectralTreeClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> clf = SpectralTreeClassifier(random_state=0).fit(X[:1000], y[:1000])
    >>> bool(clf.score(X[1000:], y[1000:]) > 0.9)
    True

    Several labels per row, as columns of zeros and ones:

    >>> tags = [[1, 0, 0], [1, 1, 0], [0, 0, 1], [0, 1, 1]]
    >>> clf = SpectralTreeClassifier(random_state=0).fit([[3, 0], [2, 1], [0, 2], [1, 3]], tags)
    >>> clf.predict_topk([[3, 0]], k=1)[0]
    array([[0]])
    """

    _model = model
    _constraints = {
        "n_candidates": integer(1, 1_000_000, "auto"),
        "max_depth": integer(0, 30, "auto", "validate"),
        "n_head": integer(0, 1_000_000),
        "n_trees": integer(1, 1000),
        "beam": integer(1, model.MOST_PATHS, "auto"),
        "leaf": one_of("auto", *model.LEAVES),
        "rank": integer(1, 100_000, None),
        "loss": one_of("auto", *LOSSES),
        "rules": one_of("default", "paper"),
        "randomized": flag(),
        "threshold": real(0.0, 1.0, "auto"),
        "n_epochs": integer(1, 1_000_000, "auto"),
        "table_bits": integer(8, 40),
    }
    _removed = {
        **MultilabelClassifier._removed,
        "recall": 0.999,
        "spread": 1.0,
        "cutoff": 0.02,
        "validation_fraction": 0.0,
        "start": "auto",
        "normalize": True,
        "top_k": None,
    }

    def __init__(
        self,
        n_candidates="auto",
        max_depth="auto",
        n_head=0,
        n_trees=1,
        beam="auto",
        leaf="auto",
        rank=None,
        loss="auto",
        rules="default",
        randomized=True,
        threshold="auto",
        learner="auto",
        n_epochs="auto",
        table_bits=26,
        class_weight=None,
        calibration=None,
        random_state=None,
        n_jobs=1,
        verbose=0,
    ):
        self.n_candidates = n_candidates
        self.max_depth = max_depth
        self.n_head = n_head
        self.n_trees = n_trees
        self.beam = beam
        self.leaf = leaf
        self.rank = rank
        self.loss = loss
        self.rules = rules
        self.randomized = randomized
        self.threshold = threshold
        self.learner = learner
        self.n_epochs = n_epochs
        self.table_bits = table_bits
        self.class_weight = class_weight
        self.calibration = calibration
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _start(self, X, classes, n_classes, rng) -> None:
        self._n_classes = len(classes)
        super()._start(X, classes, n_classes, rng)

    def _resolve_options(self, n_features: int, sparse: bool, seed: int) -> Options:
        n_classes, text = self._n_classes, sparse and n_features > NARROW
        # Text has few rows per label and needs many candidates from several paths; dense rows need few from one.
        levels = math.log2(max(2, n_classes))
        many = max(6.5 * math.sqrt(n_classes), min(400, 0.75 * n_classes))
        n_candidates = _or(self.n_candidates, math.ceil(many if text else max(2.5 * levels, 16)))
        deepest = math.ceil(levels) + 2
        auto_depth = max(1, math.ceil(levels) - 4) if text else deepest
        max_depth = deepest if self.max_depth == "validate" else _or(self.max_depth, auto_depth)
        loss = _or(self.loss, "logistic" if self._multilabel else "softmax")
        softmax, printed = loss == "softmax", self.rules == "paper"
        leaf = "output" if self.rank else "bias" if printed else "shared" if text else "hashed"
        shared, own = model.LEAVES[_or(self.leaf, leaf)]
        learner = resolve(self.learner, n_features=n_features, sparse=sparse)
        if self.learner == "auto" and self.rank:
            learner = AdaGrad(rate=0.5, decay=0.9)
        elif self.learner == "auto":
            # Many labels per row are noisy, as in the label tree: smaller steps.
            rate = 2.0 if softmax else min(1.0, (5.0 / self._labels_per_row) ** 0.5)
            learner = SGD(rate=rate, decay=0.8) if text else NormalizedAdaGrad(rate=4.0)
        return Options(
            max_depth=min(int(max_depth), 30),
            validate=self.max_depth == "validate",
            n_candidates=min(int(n_candidates), n_classes),
            n_head=min(int(self.n_head), n_classes),
            n_trees=int(self.n_trees),
            beam=int(_or(self.beam, 4 if text and not printed else 1)),
            spread=1.0,
            normalize=True,
            shared=shared,
            own=own,
            rank=int(self.rank or 0),
            loss=LOSSES[loss],
            multilabel=self._multilabel,
            start=(20.0 if softmax else 10.0) if text and not printed else 0.0,
            randomized=bool(self.randomized),
            table_bits=int(self.table_bits),
            n_epochs=int(_or(self.n_epochs, 5 if text and softmax else 10)),
            update=AdaGrad.update if self.rank else learner.update,
            rate=float(learner.rate),
            decay=float(learner.decay),
            bias_rate=(0.0 if softmax else 0.1) if text and not self.rank and not printed else 1.0,
            seed=seed,
            as_printed=printed,
        )

    def _check_options(self, all_weights: bool = True) -> None:
        super()._check_options(all_weights)
        if self._multilabel and self.loss == "softmax":
            raise ValueError('loss="softmax" requires one label per row; use "logistic" or "auto" with a matrix y.')
        resolve(self.learner, n_features=1, sparse=False)
        if self.leaf == "output" and self.rank is None:
            raise ValueError('leaf="output" shares only the low-rank map: set rank, or use leaf="separate".')

    def _prediction_options(self) -> Options:
        check_options(self, ("beam",))
        return self._options._replace(beam=int(_or(self.beam, self._options.beam)))

    @reads
    def topics(self, n_labels: int = 10, depth: int | None = None, distinctive: bool = False) -> list[dict]:
        """The most frequent labels of the nodes of a level, as in Table 2 of the paper.

        Parameters
        ----------
        n_labels : int, default=10
            Number of labels per node.
        depth : int, optional
            The level; the leaves by default.
        distinctive : bool, default=False
            List the labels whose share in the node is largest compared with their share in all rows, instead of the
            most frequent labels, which are frequent everywhere.

        Returns
        -------
        topics : list of dict
            For each node `node`, `parent`, `depth`, `mass` and `labels`; the node with the largest mass first.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from manyclass import SpectralTreeClassifier
        >>> X, y = load_digits(return_X_y=True)
        >>> clf = SpectralTreeClassifier(max_depth=1, n_candidates=5, random_state=0).fit(X, y)
        >>> [len(topic["labels"]) for topic in clf.topics(n_labels=3, depth=1)]
        [3, 3]
        """
        check_is_fitted(self, "_state")
        check_integer("n_labels", n_labels)
        check_flag("distinctive", distinctive)
        deepest = int(self._state["tree"].depth.max())
        if depth is not None and (not isinstance(depth, Integral) or not 0 <= depth <= deepest):
            raise ValueError(f"depth must be an integer from 0 to {deepest}, the depth of the tree, got {depth!r}.")
        found = model.topics(self._state, int(n_labels), depth, distinctive)
        return [{**row, "labels": self._index.array[row["labels"]]} for row in found]


def _or(value: Any, auto: Any) -> Any:
    """The value of an option, or what "auto" stands for."""
    return auto if isinstance(value, str) and value == "auto" else value


class SpectralFilter(TransformerMixin, BaseEstimator):
    """The tree of `SpectralTreeClassifier` without its predictors: a few candidate labels for each row.

    Any classifier may choose among the candidates.

    Parameters
    ----------
    n_candidates, max_depth, n_head, n_trees, beam
        As in `SpectralTreeClassifier`.
    random_state : int, RandomState instance or None, default=None
        Seed. With an int, `fit` always gives the same filter, for any `n_jobs`.
    n_jobs : int, default=1
        Number of threads for `fit`, -1 for all cores.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels, sorted; the column numbers if y was a matrix. They are the columns of the result of `transform`.
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
    >>> bool(candidates[range(len(y)), y].mean() > 0.9)  # share of the rows with their label among the four
    True
    """

    def __init__(
        self, n_candidates="auto", max_depth="auto", n_head=0, n_trees=1, beam="auto", random_state=None, n_jobs=1
    ):
        self.n_candidates = n_candidates
        self.max_depth = max_depth
        self.n_head = n_head
        self.n_trees = n_trees
        self.beam = beam
        self.random_state = random_state
        self.n_jobs = n_jobs

    _constraints = {
        name: SpectralTreeClassifier._constraints[name]
        for name in ("n_candidates", "max_depth", "n_head", "n_trees", "beam")
    }
    _rows, _extra = ManyClassifier._check_inputs_to_learn, ManyClassifier._extra
    _from_table, _validated = ManyClassifier._from_table, ManyClassifier._validated

    def fit(self, X, y, sample_weight=None):
        """Grow the tree from all rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training data. Sparse data stay sparse.
        y : array-like of shape (n_samples,), or matrix of shape (n_samples, n_labels)
            One label per row, or zeros and ones for several.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the rows.

        Returns
        -------
        self : object
            Fitted filter.
        """
        check_options(self)
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        X = self._rows(X, reset=True)
        weights = check_weights(sample_weight, X.shape[0])
        check_some_weight(weights)
        if is_indicator(y):
            matrix = as_indicator(y, X.shape[0])
            classes, labels = np.arange(matrix.shape[1]), labels_of(matrix)
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
        twin = SpectralTreeClassifier(**self.get_params(deep=False))
        twin._n_classes = len(classes)
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        self._options = twin._resolve_options(X.shape[1], sp.issparse(X), seed)
        used, sizes = np.flatnonzero(weights), (X.shape[1], len(classes))
        scaling = {"scaling": measure(as_batch(X[used]), weights[used], sizes[0], centre=False)}
        rows = rows_with(unit_rows(self._options, apply(scaling, as_batch(X))), labels, weights)
        self._state = scaling | grow_forest(self._options, rows, sizes, n_threads(self.n_jobs), lambda share: None)
        self.classes_ = classes
        return self

    def transform(self, X) -> sp.csr_array:
        """The candidates of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Data.

        Returns
        -------
        candidates : csr_array of shape (n_samples, n_classes), bool
        """
        check_is_fitted(self, "_state")
        X = self._rows(X, reset=False)
        check_options(self, ("beam",))
        options = self._options._replace(beam=int(_or(self.beam, self._options.beam)))
        nodes, sizes, labels = nodes_of(self._state, X.shape[1]), [], []
        for first, last in blocks(X.shape[0], most_rows(self._state, BLOCK)):
            batch = unit_rows(options, apply(self._state, as_batch(rows_between(X, first, last))))
            found = find_candidates(options, nodes, None, batch)
            sizes.append(found.size)
            labels.append(found.label[np.arange(found.label.shape[1]) < found.size[:, None]])
        return indicator(np.concatenate(sizes), np.concatenate(labels), len(self.classes_))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        tags.transformer_tags.preserves_dtype = []
        return tags


class Hellinger(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Divide each row of counts by its sum, then take the square root of each value.

    The spectral paper does this to token counts (§5.1). The rows then have length 1, and their products compare
    distributions. Nothing is learned; sparse data stay sparse.

    Examples
    --------
    >>> from manyclass import Hellinger
    >>> Hellinger().fit_transform([[1.0, 3.0], [0.0, 0.0]])
    array([[0.5      , 0.8660254],
           [0.       , 0.       ]])
    """

    def fit(self, X, y=None):
        """Check the data; there is nothing to learn.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Counts of at least 0.
        y : ignored

        Returns
        -------
        self : object
        """
        self._checked(X, reset=True)
        return self

    def transform(self, X):
        """Map each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Counts of at least 0.

        Returns
        -------
        X_new : {ndarray, csr_array} of shape (n_samples, n_features)
            Sparse if X is. A row of zeros stays a row of zeros.
        """
        check_is_fitted(self, "n_features_in_")
        X = self._checked(X, reset=False)
        if sp.issparse(X):
            X = X.copy()
            X.sum_duplicates()
        X = normalize(X, norm="l1")
        if not sp.issparse(X):
            return np.sqrt(X)
        X = sp.csr_array(X)
        X.data = np.sqrt(X.data)
        return X

    def _checked(self, X, reset: bool):
        check_before_conversion(X)
        dtypes = [np.float64, np.float32]
        return validate_data(self, X, accept_sparse="csr", dtype=dtypes, ensure_non_negative=True, reset=reset)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        return tags
