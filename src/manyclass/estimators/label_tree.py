"""Label tree as a scikit-learn estimator."""

from numbers import Integral, Real

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..models import label_tree as model
from ..models.spec import Labels
from .answers import n_threads
from .batches import NARROW, as_batch
from .multilabel import MultilabelClassifier
from .progress import progress_bar


class LabelTreeClassifier(MultilabelClassifier):
    """Label tree: wide nodes lead to a few leaves of like labels, one-against-some predictors choose among these.

    Made for sparse text with few rows a label, one label a row or several. `fit` groups the labels by their mean
    rows and trains every node on its own rows; `partial_fit` starts from nothing, or goes on, row by row: a new label
    enters the leaf its first row is routed to, and full leaves split. Time for a row is logarithmic in the number of
    labels: `beam` x `arity` x depth routers and at most `beam` x `arity` labels are scored.

    Parameters
    ----------
    arity : int, default=16
        Most children of a node and most labels of a leaf; 4 to 64. Multiples of 16 make the best use of the machine.
    beam : int, default=10
        How many of the best paths to follow.
    loss : {"auto", "softmax", "logistic"}, default="auto"
        Over the labels reached: joint, or each alone. "auto": softmax with one label a row, logistic with several.
    tree : {"means", "random"}, default="means"
        How `fit` groups labels: by their mean rows, or at random (to see what the groups are worth).
    start : float, "auto", default="auto"
        Weight of the cosine between a row and a label's mean row, which training then corrects; 0: start from nothing.
        "auto": 20 with softmax, 10 with logistic loss. Routers take half of it.
    rate : float or "auto", default="auto"
        Size of a step of SGD; `fit` lets it fall to 0. "auto": 2 with softmax, 1 with logistic loss, less
        where `fit` finds more than 5 labels a row: such labels are noisy.
    prior : float or "auto", default="auto"
        Weight of the path's log-probability in a label's score. "auto": 0.3 with softmax, 0.5 with logistic loss.
    normalize : bool or "auto", default="auto"
        Scale every row to length 1. "auto": text only, which is taken to be sparse with more than 256 features.
    threshold : float, default=0.5
        With several labels a row: `predict` gives the labels above this probability.
    n_epochs : int or "auto", default="auto"
        Passes over the rows in `fit`. "auto": 5 with softmax on text, else 10.
    n_trees : int or "auto", default="auto"
        Trees grown in `fit` from different draws, whose probabilities are averaged. "auto": 1 with softmax, 2 with
        logistic loss. `partial_fit` from nothing grows one.
    class_weight : dict, "balanced" or None
        Weight of each class, with one label a row; "balanced" in `fit` only.
    random_state : int, RandomState or None
        Seed: with the same int, `fit` gives the same bytes for any `n_jobs`. Scores of rows asked together may differ
        from those of single rows in the last bits.
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
        Share of the rows of `partial_fit` that were answered wrongly just before being learned.
    n_bytes_ : int
        Bytes of the model.
    n_features_in_ : int
        Number of features.

    Examples
    --------
    >>> from sklearn.feature_extraction.text import TfidfVectorizer
    >>> from manyclass import LabelTreeClassifier
    >>> texts = ["red apple", "green apple", "fast car", "slow car", "old house", "new house"]
    >>> X = TfidfVectorizer().fit_transform(texts)
    >>> model = LabelTreeClassifier(random_state=0).fit(X, ["fruit", "fruit", "vehicle", "vehicle", "home", "home"])
    >>> print(model.predict(X[2:4]))
    ['vehicle' 'vehicle']

    Several labels a row:

    >>> tags = [[1, 0, 0], [1, 1, 0], [0, 0, 1], [0, 0, 1], [0, 1, 0], [0, 0, 0]]
    >>> labels, scores = LabelTreeClassifier(random_state=0).fit(X, tags).predict_topk(X[:3], k=1)
    >>> print(labels.ravel())
    [0 0 2]
    """

    _spec = model.SPEC
    _limits = {
        "arity": (Integral, 4, 64),
        "beam": (Integral, 1, 256),
        "loss": ("auto", "softmax", "logistic"),
        "tree": ("means", "random"),
        "threshold": (Real, 0.0, 1.0),
    }
    _may_be_none = ()

    def __init__(
        self,
        arity=16,
        beam=10,
        loss="auto",
        tree="means",
        start="auto",
        rate="auto",
        prior="auto",
        normalize="auto",
        threshold=0.5,
        n_epochs="auto",
        n_trees="auto",
        class_weight=None,
        random_state=None,
        n_jobs=1,
        verbose=0,
    ):
        self.arity = arity
        self.beam = beam
        self.loss = loss
        self.tree = tree
        self.start = start
        self.rate = rate
        self.prior = prior
        self.normalize = normalize
        self.threshold = threshold
        self.n_epochs = n_epochs
        self.n_trees = n_trees
        self.class_weight = class_weight
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _make_config(self, n_features: int, sparse: bool, seed: int) -> model.Config:
        loss = self.loss
        if loss == "auto":
            loss = "logistic" if self._multilabel else "softmax"
        auto = AUTO[loss]
        start = self._number("start", auto["start"])
        text = sparse and n_features > NARROW
        return model.Config(
            arity=int(self.arity),
            beam=int(self.beam),
            loss=loss,
            multilabel=self._multilabel,
            prior=self._number("prior", auto["prior"]),
            start=start,
            router_start=start / 2,
            rate=self._number("rate", auto["rate"] * min(1.0, (5.0 / self._labels_a_row) ** 0.5)),
            bias_rate=auto["bias_rate"] if text else 1.0,
            unit_rows=bool(text if self.normalize == "auto" else self.normalize),
            cluster=self.tree,
            n_epochs=int(self._number("n_epochs", auto["n_epochs"] if text else 10)),
            n_trees=int(self._number("n_trees", auto["n_trees"])),
            seed=seed,
        )

    def _number(self, name: str, auto: float) -> float:
        value = getattr(self, name)
        return float(auto if isinstance(value, str) else value)

    def _check_options(self) -> None:
        super()._check_options()
        kinds = {"start": Real, "rate": Real, "prior": Real, "n_epochs": Integral, "n_trees": Integral}
        for name, kind in kinds.items():
            value = getattr(self, name)
            if isinstance(value, str) and value == "auto":
                continue
            number = isinstance(value, kind) and not isinstance(value, bool)
            low = 1 if kind is Integral else 0
            if not number or not low <= value < 1e6 or (name == "rate" and value == 0):
                what = "a whole number of at least 1" if kind is Integral else "a number of at least 0"
                what = "a number above 0" if name == "rate" else what
                raise ValueError(f'{name} must be "auto" or {what}, got {value!r}.')
        if self._multilabel and self.loss == "softmax":
            raise ValueError('loss="softmax" goes with one label a row; use "logistic" (or "auto") for a matrix y.')
        if not isinstance(self.normalize, bool) and self.normalize != "auto":
            raise ValueError(f'normalize must be "auto", True or False, got {self.normalize!r}.')

    def _train(self, X, labels, weights, rng) -> None:
        if not weights.all():  # rows of no weight are as if not there
            kept = np.flatnonzero(weights)
            labels = labels.rows(kept) if isinstance(labels, Labels) else labels[kept]
            X, weights = X[kept], weights[kept]
        n, told = X.shape[0], [0]
        with progress_bar(self.verbose, "fit", n) as show:

            def tell(share: float) -> None:
                show(int(share * n) - told[0], float("nan"))
                told[0] = int(share * n)

            jobs = n_threads(self.n_jobs)
            model.fit(self._config, self._state, X, as_batch(X), labels, weights, jobs, tell)
        self.n_epochs_ = self._config.n_epochs

    def tree_table(self, max_depth: int | None = None) -> list[dict]:
        """The tree as a list of nodes, parents before children.

        Parameters
        ----------
        max_depth : int, optional
            Deepest level to list; all by default.

        Returns
        -------
        list of dict
            For each node: `node`, `parent` (-1 for the root), `depth` and `labels`, those of a leaf (none of others).
        """
        check_is_fitted(self, "_state")
        return [{**row, "labels": self.classes_[row["labels"]]} for row in model.tree_table(self._state, max_depth)]


AUTO = {
    "softmax": {"start": 20.0, "rate": 2.0, "prior": 0.3, "bias_rate": 0.0, "n_epochs": 5, "n_trees": 1},
    "logistic": {"start": 10.0, "rate": 1.0, "prior": 0.5, "bias_rate": 0.1, "n_epochs": 10, "n_trees": 2},
}
