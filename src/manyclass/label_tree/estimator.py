"""Label tree as a scikit-learn estimator."""

import math

import numpy as np

from ..core.multilabel import MultilabelClassifier
from ..core.options import check_options, integer, one_of, real
from ..core.validation import NARROW
from . import model
from .state import MOST_PATHS


class LabelTreeClassifier(MultilabelClassifier):
    """Label tree: wide nodes lead to a few leaves of like labels, one-against-some predictors choose among these.

    Made for sparse text with few rows a label, one label a row or several. `fit` groups the labels by their mean
    rows and trains every node on its own rows; `partial_fit` starts from nothing, or goes on, row by row: a new label
    enters the leaf its first row is routed to, and full leaves split. Time for a row is logarithmic in the number of
    labels: `beam` x `arity` x depth routers and at most `beam` x `arity` labels are scored.

    After training, `set_params` changes `beam`, `prior`, `threshold` and `n_jobs` for answers at once, and
    `class_weight` for the next `partial_fit`; all other options wait for a `fit`.

    Parameters
    ----------
    arity : int, default=16
        Most children of a node and most labels of a leaf; 4 to 64. Multiples of 16 make the best use of the machine.
    beam : int, default=10
        How many of the best paths to follow; 1 to 256.
    loss : {"auto", "softmax", "logistic"}, default="auto"
        Over the labels reached: joint, or each alone. "auto": softmax with one label a row, logistic with several.
    tree : {"means", "random"}, default="means"
        How `fit` groups labels: by their mean rows, or at random (to see what the groups are worth).
    start : float or "auto", default="auto"
        Weight of the cosine between a row and a label's mean row, which training then corrects; 0 (start from nothing)
        to 1,000,000. "auto": 20 with softmax, 10 with logistic loss. Routers take half of it.
    rate : float or "auto", default="auto"
        Size of a step of SGD, 1e-9 to 1,000,000; `fit` lets it fall to 0. "auto": 2 with softmax, 1 with logistic
        loss, less where `fit` finds more than 5 labels a row: such labels are noisy.
    prior : float or "auto", default="auto"
        Weight of the path's log-probability in a label's score; 0 to 1,000,000. "auto": 0.3 with softmax, 0.5 with
        logistic loss, up to 1 where `fit` finds more than 5 labels a row, and 0.2 where y is a matrix of so few columns
        that the paths reach every leaf. Set after training, "auto" is what training began with.
    normalize : bool or "auto", default="auto"
        Scale every row to length 1. "auto": text only, which is taken to be sparse with more than 256 features.
    threshold : float, default=0.5
        With several labels a row: `predict` gives the labels above this probability; 0 to 1. Labels of few rows seldom
        reach 0.5, so that many rows get none: take a threshold that does well on held-out rows, or `predict_topk`.
    n_epochs : int or "auto", default="auto"
        Passes over the rows in `fit`, 1 to 1,000,000. "auto": 5 with softmax on text, else 10, fewer where `fit` finds
        more than 5 labels a row.
    n_trees : int or "auto", default="auto"
        Trees grown in `fit` from different draws, 1 to 1,000,000, whose probabilities are averaged. "auto": 1 with
        softmax, 2 with logistic loss, unless y is a matrix of so few columns that the paths reach every leaf anyway.
        `partial_fit` from nothing grows one. `decision_path` and `tree_table` show the first.
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
        Share of the rows of `partial_fit` that were answered wrongly just before being learned; NaN after `fit`, which
        answers no row.
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

    _model = model
    _constraints = {
        "arity": integer(4, 64),
        "beam": integer(1, MOST_PATHS),
        "loss": one_of("auto", "softmax", "logistic"),
        "tree": one_of("means", "random"),
        "threshold": real(0.0, 1.0),
        "start": real(0, 1_000_000, "auto"),
        "rate": real(1e-9, 1_000_000, "auto"),
        "prior": real(0, 1_000_000, "auto"),
        "n_epochs": integer(1, 1_000_000, "auto"),
        "n_trees": integer(1, 1_000_000, "auto"),
    }

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

    def _resolve_options(self, n_features: int, sparse: bool, seed: int) -> model.Config:
        loss = self.loss
        if loss == "auto":
            loss = "logistic" if self._multilabel else "softmax"
        auto = AUTO[loss]
        start = self._number("start", auto["start"])
        text = sparse and n_features > NARROW
        all_reached = self._reaches_all()
        many = max(1.0, self._labels_a_row / 5.0)  # many labels a row are noisy: learn less, trust the paths more
        prior = ALL_REACHED if all_reached else min(1.0, auto["prior"] * many**0.5)
        return model.Config(
            arity=int(self.arity),
            beam=int(self.beam),
            loss=loss,
            multilabel=self._multilabel,
            prior=self._number("prior", prior),
            start=start,
            router_start=start / 2,
            rate=self._number("rate", auto["rate"] / many),
            bias_rate=auto["bias_rate"] if text else 1.0,
            unit_rows=bool(text if self.normalize == "auto" else self.normalize),
            cluster=self.tree,
            n_epochs=int(self._number("n_epochs", max(1, round((auto["n_epochs"] if text else 10) / many**0.5)))),
            n_trees=int(self._number("n_trees", 1 if all_reached else auto["n_trees"])),
            seed=seed,
        )

    def _reaches_all(self) -> bool:
        """Whether the paths lead to every leaf: a further tree would find the same labels, and the path tells less."""
        if self._n_columns is None:
            return False
        n_leaves = math.ceil(self._n_columns / self.arity)
        return (n_leaves if n_leaves <= self.arity else 2 * n_leaves) <= self.beam  # on several levels, less full ones

    def _number(self, name: str, auto: float) -> float:
        value = getattr(self, name)
        return float(auto if isinstance(value, str) else value)

    def _check_options(self) -> None:
        super()._check_options()
        if not isinstance(self.normalize, bool) and self.normalize != "auto":
            raise ValueError(f'normalize must be "auto", True or False, got {self.normalize!r}.')

    def _prediction_options(self) -> model.Config:
        check_options(self, ("beam", "prior"))
        return self._options._replace(beam=int(self.beam), prior=self._number("prior", self._options.prior))

    def predict_topk(self, X, k=None) -> tuple[np.ndarray, np.ndarray]:
        """The k best labels of each row with their scores, best first.

        Where fewer than k labels were reached, others fill the row with score -inf.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Inputs.
        k : int, optional
            How many; at most the number of classes. Default: 5, or all of fewer classes.

        Returns
        -------
        labels, scores : ndarrays of shape (n_samples, k)
            What a score is depends on the loss. P(path) is the product of the routers' probabilities from the root to
            the label's leaf, and s the score of the label's own predictor.

            - softmax: s + `prior` x log P(path), log-odds up to a constant of the row;
            - logistic: log(sigmoid(s)) + `prior` x log P(path), never above 0. After a matrix y it is the logarithm of
              what `predict_proba` gives; with one label a row, that scales exp(score) to the sum 1;
            - several trees: the logarithm of what `predict_proba` gives, the mean over the trees; a tree that did not
              reach the label counts as 0.
        """
        return super().predict_topk(X, k)


ALL_REACHED = 0.2  # prior where the paths lead to every leaf
AUTO = {
    "softmax": {"start": 20.0, "rate": 2.0, "prior": 0.3, "bias_rate": 0.0, "n_epochs": 5, "n_trees": 1},
    "logistic": {"start": 10.0, "rate": 1.0, "prior": 0.5, "bias_rate": 0.1, "n_epochs": 10, "n_trees": 2},
}
