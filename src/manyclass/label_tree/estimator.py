"""Label tree as a scikit-learn estimator."""

import math
from numbers import Real
from typing import Any

import numpy as np

from ..core.losses import LOGISTIC, SOFTMAX
from ..core.memory import as_bytes
from ..core.multilabel import MultilabelClassifier
from ..core.options import Bytes, as_float, check_integer, check_options, flag, integer, real
from ..core.taxonomy import as_taxonomy, to_arrays
from ..core.validation import NARROW, without_padding
from . import model
from .descriptions import columns_of, split_descriptions, weights_of, with_columns, with_rows
from .memory import Size, memory


class LabelTreeClassifier(MultilabelClassifier):
    """Label tree: a wide tree over groups of similar labels, with a linear predictor of each label in its leaves.

    Suited to text and embeddings, with one or several labels per row, and with few or many rows per label. `fit` groups
    the labels by their mean rows and trains every node on its rows. `partial_fit` starts a new model or continues with
    a trained one, row by row. A new label enters the leaf to which its first row is routed, and full leaves are split.
    The time per row is logarithmic in the number of labels: `beam` x `arity` x depth routers and at most `beam` x
    `arity` labels are scored.

    After training, `set_params` changes `beam`, `prior`, `threshold` and `n_jobs` for predictions immediately, and
    `class_weight` for the next `partial_fit`; all other options take effect in the next `fit`.

    Parameters
    ----------
    arity : int, default=16
        Maximum number of children of a node and of labels of a leaf: 4 to 64, up to 4,096 if only `partial_fit` is
        used. Multiples of 16 are the fastest.
    beam : int, default=10
        Number of best paths to follow; 1 to 256.
    start : float or "auto", default="auto"
        Weight of the cosine between a row and the mean row of a label in the scores with which training starts; 0
        (start from zero weights) to 1,000,000. "auto": `fit` calibrates it on rows that it leaves out of the means, and
        uses 0 in the leaves of text if held-out rows are predicted better without; `partial_fit` uses 20 with one label
        per row and 10 with several. Routers use half of a given number.
    C : float or "auto", default="auto"
        In `fit`, the inverse of the regularization strength, as in scikit-learn's `LinearSVC` and
        `LogisticRegression`; the penalty is on the distance of the weights from those at the start. 1e-9 to 1,000,000.
        "auto": for text (sparse rows of more than 256 features), 0.5 with several labels per row. With one label per
        row it is 1, or 0.3 or 10 in the leaves of a tree if held-out rows are predicted better so. For other rows it is
        10. Above 5 labels per row it is divided by a fifth of their number, because such labels are noisy. Routers of
        text have the logistic loss and 10 x C. Where `fit` chooses C, routers have 10, or 100 if the loss of held-out
        rows is lower with it.
    rate : float or "auto", default="auto"
        Learning rate of SGD in `partial_fit`, 1e-9 to 1,000,000. "auto": 2 with one label per row and 1 with several
        or after `fit`, less after a `fit` with more than 5 labels per row.
    prior : float or "auto", default="auto"
        Weight of the path's log-probability in the score of a label; 0 to 1,000,000. "auto": 0.3 after `fit` on text
        with one label per row, unless `fit` chooses C = 100 for the routers (see `C`); otherwise usually 0.5. It is 0.3
        if training began with `partial_fit` and one label per row, and up to 1 if `fit` gets more than 5 labels per
        row. It is 0.2 if y is a matrix of so few columns that the paths reach every leaf. If `prior` is set to "auto"
        after training, it is the value that training used.
    normalize : bool or "auto", default="auto"
        Scale every row to length 1. "auto": for text only, that is, for sparse rows of more than 256 features.
    threshold : float or "auto", default="auto"
        With several labels per row, `predict` returns the labels above this probability; 0 to 1. "auto": the threshold
        with the highest micro-F1 on held-out rows, learned by `fit` and again by `calibrate`. `fit` then takes about a
        quarter longer, up to twice as long with few rows. 0.5 with fewer than 200 rows and before `fit`.
    n_epochs : int, default=20
        Maximum number of passes over the rows in `fit`, 1 to 1,000,000. A node stops when a pass changes little.
    n_trees : int, default=1
        Number of trees that `fit` grows from different random starts, 1 to 1,000; their probabilities are averaged.
        `partial_fit` without `fit` grows one tree. `decision_path` and `tree_table` show the first tree.
    neighbors : bool, default=True
        With dense rows and one label per row, `fit` tests on held-out rows of some leaves whether the distance to the
        nearest training row of a label helps, and in which directions differences count. It helps where a label has
        several shapes, as in images. The model then keeps up to 128 rows per label, or 32,768 / n_features if that is
        more, at most 256 MB together, and ranks the 20 best labels again by this distance. A prediction takes longer,
        by up to 20 x 32,768 or 20 x 128 x n_features multiplications. False: no rows are kept.
    replay : bool, default=True
        Keep earlier rows of `partial_fit` in the model (8 MB, or 4 rows per label if that is more). While the stream
        looks sorted by label, two stored rows are learned again with each new row, so that early labels are not
        forgotten. In shuffled streams no row is learned again. False: keep no rows.
    class_weight : dict, "balanced" or None, default=None
        Weight of each class, with one label per row; "balanced" in `fit` only.
    calibration : {"isotonic", "temperature"} or None, default=None
        Calibrate probabilities in `fit` on a tenth of the rows, at most 10,000, which are then not learned. To learn
        all rows, call `calibrate` with other rows instead.
    max_memory : int, str or None, default=None
        Limit of the memory that the process allocates while `fit` runs, training rows included: a number of bytes, or
        text such as "8GB". Before training, `fit` estimates how much it will take. If that is too much, it uses
        temporary files and fewer threads, or raises a MemoryError that says what would fit; it also stops if the
        weights take more than was estimated. Program code (about 160 MB) and mapped files are not counted
        (docs/many_labels.md).
    random_state : int, RandomState or None, default=None
        Seed. With the same int, `fit` gives the same model, byte for byte, for any `n_jobs`. Scores of rows predicted
        together may differ from those of single rows in the last bits.
    n_jobs : int, default=1
        Threads for `fit` and for prediction, -1 for all cores; `partial_fit` uses one.
    verbose : int, default=0
        1 shows progress on standard error.

    Attributes
    ----------
    classes_ : ndarray
        Labels: sorted after `fit`, new ones appended by `partial_fit`. The column numbers if y was a matrix.
    multilabel_ : bool
        Whether y was a matrix of zeros and ones.
    progressive_error_ : float
        Share of the rows of `partial_fit` that were predicted wrongly just before they were learned; NaN after `fit`,
        which predicts no row.
    n_bytes_ : int
        Size of the model in bytes.
    n_features_in_ : int
        Number of features.

    Notes
    -----
    `fit` trains linear classifiers without a learning rate, with the logistic loss; in the leaves of text, with the
    squared hinge loss. `partial_fit` uses SGD. Its loss is a softmax over all labels reached if there was no `fit` and
    there is one label per row; otherwise it is the logistic loss.

    Thread-safe: other threads may predict or save while one thread calls `partial_fit` or `fit`. Each prediction is
    made with the model as it is between two such calls (docs/services.md).

    The meaning of the scores of `predict_topk` depends on the training. P(path) is the product of the probabilities of
    the routers from the root to the leaf of a label, and s the score of the predictor of the label.

    - after `fit`, or with a matrix y: log(sigmoid(s)) + `prior` x log P(path), never above 0. If y was a matrix, it is
      the logarithm of the result of `predict_proba`. With one label per row, `predict_proba` scales exp(score) so that
      the sum is 1;
    - online from the beginning, with one label per row: s + `prior` x log P(path), a log-probability up to a constant
      per row;
    - several trees: the logarithm of the result of `predict_proba`, the mean over the trees; a tree that did not reach
      the label counts as 0.

    Examples
    --------
    >>> from sklearn.feature_extraction.text import TfidfVectorizer
    >>> from manyclass import LabelTreeClassifier
    >>> texts = ["red apple", "green apple", "fast car", "slow car", "old house", "new house"]
    >>> X = TfidfVectorizer().fit_transform(texts)
    >>> model = LabelTreeClassifier(random_state=0).fit(X, ["fruit", "fruit", "vehicle", "vehicle", "home", "home"])
    >>> print(model.predict(X[2:4]))
    ['vehicle' 'vehicle']

    Several labels per row:

    >>> tags = [[1, 0, 0], [1, 1, 0], [0, 0, 1], [0, 0, 1], [0, 1, 0], [0, 0, 0]]
    >>> labels, scores = LabelTreeClassifier(random_state=0).fit(X, tags).predict_topk(X[:3], k=1)
    >>> print(labels.ravel())
    [0 1 2]
    """

    _model = model
    _centres_columns = True
    _online = False  # whether training began with `partial_fit`
    _hierarchy: Any = None  # the argument `hierarchy` while `fit` runs
    _described: Any = None  # the argument `label_features` while `fit` or `partial_fit` runs
    _removed = {**MultilabelClassifier._removed, "tree": "means", "loss": "auto"}
    _constraints = {
        "arity": integer(4, model.MOST_OUTPUTS),
        "beam": integer(1, model.MOST_PATHS),
        "start": real(0, 1_000_000, "auto"),
        "C": real(1e-9, 1_000_000, "auto"),
        "rate": real(1e-9, 1_000_000, "auto"),
        "prior": real(0, 1_000_000, "auto"),
        "normalize": flag("auto"),
        "threshold": real(0.0, 1.0, "auto"),
        "n_epochs": integer(1, 1_000_000),
        "n_trees": integer(1, 1000),
        "neighbors": flag(),
        "replay": flag(),
        "max_memory": Bytes(),
    }

    def __init__(
        self,
        arity=16,
        beam=10,
        start="auto",
        C="auto",
        rate="auto",
        prior="auto",
        normalize="auto",
        threshold="auto",
        n_epochs=20,
        n_trees=1,
        neighbors=True,
        replay=True,
        class_weight=None,
        calibration=None,
        max_memory=None,
        random_state=None,
        n_jobs=1,
        verbose=0,
    ):
        self.arity = arity
        self.beam = beam
        self.start = start
        self.C = C
        self.rate = rate
        self.prior = prior
        self.normalize = normalize
        self.threshold = threshold
        self.n_epochs = n_epochs
        self.n_trees = n_trees
        self.neighbors = neighbors
        self.replay = replay
        self.class_weight = class_weight
        self.calibration = calibration
        self.max_memory = max_memory
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    @classmethod
    def _params_from_file(cls, params):
        auto = [name for name in ("n_epochs", "n_trees") if params.get(name) == "auto"]  # of older versions
        return super()._params_from_file({name: value for name, value in params.items() if name not in auto})

    def fit(self, X, y, sample_weight=None, hierarchy=None, label_features=None):
        """Fit the model from scratch.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training data. Sparse data stay sparse.
        y : array-like of shape (n_samples,), or matrix of shape (n_samples, n_labels)
            One label per row, of any type that scikit-learn accepts; or, for several labels per row, a dense or sparse
            matrix of zeros and ones. Rows and columns of zeros are allowed. A dense y of shape (n_samples, 1) is one
            label per row, with scikit-learn's warning; a sparse one is a matrix with a single label. The column names
            of a DataFrame are kept as `label_names_`.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the rows.
        hierarchy : mapping, Taxonomy or "path", optional
            A taxonomy of the labels: the parent of each label, or its path, such as "Food > Fruit > Apple"; "path" if
            the labels are such paths themselves. It must contain every label. Labels that are close in it are grouped
            together, and `predict_path` predicts its nodes. It is kept in the model as `taxonomy_`.
        label_features : tuple (labels, vectors), optional
            Descriptions of labels: a list of labels, and a matrix with one row per label and the columns of X. The rows
            may be the names and definitions of the labels, vectorized like X. Then labels without training rows can be
            predicted. If y is a matrix, labels are the numbers of its columns.

        Returns
        -------
        self : object
            Fitted estimator.

        Examples
        --------
        >>> from sklearn.feature_extraction.text import TfidfVectorizer
        >>> from manyclass import LabelTreeClassifier
        >>> texts = ["red apple", "green apple", "sweet pear", "fast car", "slow car", "long train"]
        >>> y = ["apple", "apple", "pear", "car", "car", "train"]
        >>> parents = {"apple": "fruit", "pear": "fruit", "car": "vehicle", "train": "vehicle"}
        >>> vectorizer = TfidfVectorizer().fit([*texts, "a two wheeled bicycle"])
        >>> described = ["bicycle"], vectorizer.transform(["a two wheeled bicycle"])
        >>> model = LabelTreeClassifier(random_state=0)
        >>> _ = model.fit(vectorizer.transform(texts), y, hierarchy={**parents, "bicycle": "vehicle"},
        ...               label_features=described)
        >>> print(model.predict(vectorizer.transform(["my bicycle"])))
        ['bicycle']
        >>> model.taxonomy_.path("bicycle")
        ('vehicle', 'bicycle')
        """

        def train(new):
            new._hierarchy = hierarchy
            new._described = None if label_features is None else split_descriptions(label_features)
            new._fit(X, without_padding(y), sample_weight)
            new._hierarchy = new._described = None

        return self._fit_anew(train)

    def partial_fit(self, X, y, classes=None, sample_weight=None, label_features=None):
        """Learn more rows, one by one in the given order. Labels may be new.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or None
            Training data. None if there are only descriptions.
        y : array-like of shape (n_samples,), or matrix of shape (n_samples, n_labels), or None
            As in `fit`, and of the same kind in all calls. New labels are appended to `classes_`; a matrix with more
            columns than before adds labels. A narrower matrix is an error.
        classes : array-like, optional
            Labels known in advance, sorted into `classes_` in the first call and appended in later calls. Only with
            one label per row.
        sample_weight : array-like of shape (n_samples,), optional
            Weights of the rows.
        label_features : tuple (labels, vectors), optional
            Descriptions of labels, as in `fit`; they are learned before the rows.

        Returns
        -------
        self : object
            The estimator.

        Examples
        --------
        >>> from manyclass import LabelTreeClassifier
        >>> model = LabelTreeClassifier(random_state=0).partial_fit([[1.0, 0.0], [0.0, 1.0]], ["low", "high"])
        >>> print(model.partial_fit([[1.0, 1.0]], ["both"]).classes_)
        ['low' 'high' 'both']
        """
        described = None if label_features is None else split_descriptions(label_features)

        def train():
            if X is None and y is None and described is not None:
                if sample_weight is not None:
                    raise ValueError("sample_weight has the weights of rows, but there are only descriptions.")
                labels, vectors = described
                y_described = columns_of(labels, len(self._index)) if self._multilabel else labels
                own = weights_of(labels, self._known_labels(), self._mean_weight())
                return self._partial_fit(vectors, y_described, classes, own)
            self._described = described
            self._partial_fit(X, without_padding(y), without_padding(classes), sample_weight)
            self._described = None
            return self

        return self._learn_more(train)

    def _check_rows(self, X, y, sample_weight, reset: bool):
        rows = super()._check_rows(X, y, sample_weight, reset)
        return rows if self._described is None else with_rows(*rows, *self._checked_descriptions(reset))

    def _check_matrix(self, X, y, sample_weight, reset: bool):
        rows = super()._check_matrix(X, y, sample_weight, reset)
        return rows if self._described is None else with_columns(*rows, *self._checked_descriptions(reset))

    def _checked_descriptions(self, reset: bool):
        """The descriptions with vectors that kernels accept, and the labels that have had rows before."""
        labels, vectors = self._described
        return (labels, self._check_inputs_to_learn(vectors, False)), [] if reset else self._known_labels()

    def _known_labels(self):
        """The labels that have had rows or descriptions."""
        if not hasattr(self, "_state"):
            return []
        n = len(self._index)
        return self._index.array[np.flatnonzero(self._state["tree"].leaf_of[:n] >= 0)]

    def _mean_weight(self) -> np.ndarray:
        """The mean weight of the rows learned so far, or nothing."""
        if not hasattr(self, "_state") or not self._state["seen"].n_rows[0]:
            return np.empty(0)
        return self._state["run"].mass / (self._state["seen"].n_rows * self._labels_per_row)

    def _n_learned_first(self) -> int:
        return 0 if self._described is None else len(self._described[0])

    def _arguments_of_fit(self):
        above = None
        if self._hierarchy is not None:
            taxonomy = self._hierarchy = as_taxonomy(self._hierarchy, self._index.array)
            above = taxonomy.ancestors(taxonomy.find(self._index.array))
        return {"asked": model.Asked(above, as_bytes(self.max_memory), self._learns_threshold())}

    def _train(self, X, labels, weights, rng):
        super()._train(X, labels, weights, rng)
        if self._hierarchy is not None:
            self._state["taxonomy"] = to_arrays(self._hierarchy)

    def _fit(self, X, y, sample_weight):
        self._online = False
        check_options(self)
        if self.arity > MOST_FITTED:
            raise ValueError(f"arity must be at most {MOST_FITTED} for fit, got {self.arity}; partial_fit allows more.")
        return super()._fit(X, y, sample_weight)

    def _partial_fit(self, X, y, classes, sample_weight):
        if not hasattr(self, "_state"):
            self._online = True
        return super()._partial_fit(X, y, classes, sample_weight)

    def _resolve_options(self, n_features: int, sparse: bool, seed: int) -> model.Options:
        softmax = self._online and not self._multilabel
        text = sparse and n_features > NARROW
        many = max(1.0, self._labels_per_row / 5.0)  # many labels per row are noisy: learn less, trust the paths more
        prior = 0.3 if softmax else min(1.0, 0.5 * many**0.5)
        if self._reaches_all():
            prior = 0.2
        start = self._number("start", (20.0 if softmax else 10.0) if self._online else -1.0)
        bias = 0.0 if softmax else -start / 3  # a cosine of one third is undecided
        strength = (0.5 if text else 10.0) / many
        if text and not self._multilabel:
            strength, prior = (1.0, prior) if self._online else (-1.0, -1.0)  # -1: `fit` chooses
        return model.Options(
            arity=int(self.arity),
            beam=int(self.beam),
            loss=SOFTMAX if softmax else LOGISTIC,
            multilabel=self._multilabel,
            prior=self._number("prior", prior),
            start=start,
            router_start=start / 2 if start >= 0 else start,
            bias=bias,
            router_bias=bias / 2,
            C=self._number("C", strength),
            margin=MARGIN if text else 0.0,
            rate=self._number("rate", 2.0 if softmax else 1.0 / many),
            bias_rate=1.0 if not text else 0.0 if softmax else 0.1,
            normalize=bool(text if self.normalize == "auto" else self.normalize),
            n_epochs=int(self.n_epochs),
            n_trees=int(self.n_trees),
            neighbors=bool(self.neighbors),
            seed=seed,
        )

    def _reaches_all(self) -> bool:
        """Whether the paths reach every leaf: a further tree would find the same labels, and paths say less."""
        if self._n_columns is None:
            return False
        n_leaves = math.ceil(self._n_columns / self.arity)
        return (n_leaves if n_leaves <= self.arity else 2 * n_leaves) <= self.beam  # on several levels, less full ones

    def _number(self, name: str, auto: float) -> float:
        value = getattr(self, name)
        return float(auto if isinstance(value, str) else value)

    def _prediction_options(self) -> model.Options:
        check_options(self, ("beam", "prior"))
        return self._options._replace(beam=int(self.beam), prior=self._number("prior", self._options.prior))

    def estimate_memory(  # type: ignore[override]  # the fourth argument is another one
        self, n_features, n_classes, sparse=False, multilabel=False, n_rows=None, n_nonzero=None, n_labels=1.0
    ) -> int:
        """Approximate size of a model after `fit` in bytes, before training.

        Parameters
        ----------
        n_features, n_classes : int
            Size of the problem. The estimate for sparse rows is better without columns that are never used.
        sparse : bool, default=False
            Whether the data will be sparse.
        multilabel : bool, default=False
            Whether y will be a matrix; options that are "auto" depend on it.
        n_rows : int, optional
            Number of training rows, for sparse data. By default, every node is assumed to get all features, as it does
            with dense data.
        n_nonzero : float, optional
            Average number of non-zeros per row; requires `n_rows`. Default: all features.
        n_labels : float, default=1.0
            Average number of labels per row.

        Returns
        -------
        n_bytes : int
            Without `n_rows` an upper bound, many times too high for sparse text. With `n_rows` and `n_nonzero`, 0.7 to
            1.3 times the actual size on the seven sets of text to which the formula was fitted, and 0.5 to 1.8 times on
            eight others (`python reproduce/label_tree/memory.py`): it cannot know how many features the rows of a label
            share. With features drawn at random, it was 0.2 and 0.4 times the size. Training rows that `neighbors`
            keeps are not included. The actual size after training is `n_bytes_`. `partial_fit` unpacks the weights: on
            the same sets, the model then takes 6 to 19 times as much memory, and more when arrays are doubled.

        Examples
        --------
        >>> from manyclass import LabelTreeClassifier
        >>> text = {"n_features": 136_000, "n_classes": 670_000, "sparse": True, "multilabel": True}
        >>> n_bytes = LabelTreeClassifier().estimate_memory(**text, n_rows=490_000, n_nonzero=75, n_labels=5.5)
        >>> 5e8 < n_bytes < 2e9
        True
        """
        options, size = self._options_of_size(n_features, n_classes, sparse, multilabel), None
        if n_rows is None and n_nonzero is not None:
            raise ValueError("n_nonzero requires n_rows, the number of training rows.")
        if not isinstance(n_labels, Real) or not 0 < as_float(n_labels) <= n_classes:
            raise ValueError(f"n_labels must be a number above 0 and up to n_classes, got {n_labels!r}.")
        if n_rows is not None:
            check_integer("n_rows", n_rows)
            n_nonzero = n_features if n_nonzero is None else n_nonzero
            if not isinstance(n_nonzero, Real) or not 0 <= as_float(n_nonzero) <= n_features:
                raise ValueError(f"n_nonzero must be a number from 0 to n_features, got {n_nonzero!r}.")
            size = Size(int(n_rows), float(n_nonzero), float(n_labels))
        return memory(options, int(n_features), int(n_classes), size if sparse else None)


MOST_FITTED = 64  # outputs per node in `fit`
MARGIN = 4.0  # of the squared hinge loss: a score is the logarithm of the odds, 4 means a probability of 98 %
