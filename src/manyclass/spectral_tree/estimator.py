"""Spectral tree as a scikit-learn estimator."""

import math
from numbers import Integral
from typing import Any

from sklearn.utils.validation import check_is_fitted

from ..core.base import ManyClassifier
from ..core.learners import SGD, AdaGrad, NormalizedAdaGrad, resolve
from ..core.multilabel import MultilabelClassifier
from ..core.options import check_options, flag, integer, one_of, real
from ..core.validation import NARROW
from . import model
from .state import MOST_PATHS, Config

# Options of the filter, which `SpectralFilter` has too.
FILTER_CONSTRAINTS: dict[str, Any] = {
    "n_candidates": integer(1, 1_000_000, "auto"),
    "max_depth": integer(0, 30, "auto"),
    "recall": real(0.0, 1.0),
    "spread": real(0.0, 1000.0),
    "cutoff": real(1e-6, 0.5),
    "validation_fraction": real(0.0, 0.9),
    "n_head": integer(0, 1_000_000),
    "n_trees": integer(1, 1000),
    "beam": integer(1, MOST_PATHS, "auto"),
}
FILTER_AUTO = ("n_candidates", "max_depth", "beam")


def filter_config(options: Any, n_classes: int, n_features: int, sparse: bool) -> dict[str, Any]:
    """The filter's part of a config; what is "auto" depends on whether the rows look like text.

    Text has few rows a label and needs many candidates, of several paths; dense rows are well served by a few of one.
    """
    text = sparse and n_features > NARROW
    levels = math.log2(max(2, n_classes))
    many = max(6.5 * math.sqrt(n_classes), min(400, 0.75 * n_classes))
    auto = {
        "n_candidates": math.ceil(many if text else max(2.5 * levels, 16)),
        "max_depth": max(1, math.ceil(levels) - 4) if text else math.ceil(levels) + 2,
        "beam": 4 if text else 1,
    }
    chosen = {name: getattr(options, name) if getattr(options, name) != "auto" else auto[name] for name in FILTER_AUTO}
    return {
        "n_candidates": min(int(chosen["n_candidates"]), n_classes),
        "max_depth": min(int(chosen["max_depth"]), 30),
        "beam": int(chosen["beam"]),
        "n_head": min(int(options.n_head), n_classes),
        "recall": float(options.recall),
        "spread": float(options.spread),
        "cutoff": float(options.cutoff),
        "held_out": float(options.validation_fraction),
        "n_trees": int(options.n_trees),
        "unit_rows": bool(options.normalize),
    }


class SpectralTreeClassifier(MultilabelClassifier):
    """Hierarchical spectral tree (2015): a tree of eigenvectors leads to a few candidates, predictors choose of them.

    Learns from all rows at once, one label a row or several. At each node of a binary tree, rows part at the median of
    the direction along which their labels' mean rows spread most. Each leaf keeps the heaviest labels that reach it;
    rows near a border count on both sides. Then predictors learn to choose among the candidates of a leaf, on paths
    drawn at random. Time for a row: the depth of the tree and the number of candidates.

    "Text" below are sparse rows of more than 256 features.

    After training, `set_params` changes `beam`, `threshold`, `top_k` and `n_jobs` for answers at once; all other
    options wait for a `fit`.

    Parameters
    ----------
    n_candidates : int or "auto", default="auto"
        Labels that a row is judged by, beside the head labels, whatever the number of paths and trees; also the most
        that a leaf keeps. "auto": 2.5 log2 of the number of classes, at least 16; on
        text, 6.5 times its root, but at least 400 or three quarters of the classes.
    max_depth : int or "auto", default="auto"
        Deepest level of the tree, up to 30. "auto": log2 of the number of classes, plus 2; on text, minus 4.
    recall : float, default=0.999
        A node whose candidates cover so much of its mass stays a leaf (the paper's phi).
    spread : float, default=1.0
        Times the paper's standard deviation of a margin: how far on the other side of a border a row still counts.
        0: every row goes one way.
    cutoff : float, default=0.02
        Smaller parts of a row than this are not sent on, so that the cost stays bounded.
    validation_fraction : float, default=0.0
        Share of the rows that the tree does not see; the depth at which it finds most of their labels is kept. 0: the
        tree has `max_depth`.
    n_head : int, default=0
        So many of the most frequent labels are candidates everywhere, and the tree is for the others.
    n_trees : int, default=1
        Trees from different draws. Of the labels at the ends of all paths the likeliest `n_candidates` are scored.
    beam : int or "auto", default="auto"
        Paths that an answer follows through each tree, to choose the likeliest `n_candidates` labels at their ends.
        "auto": 4 on text, else 1, the paper's. It does not help where leaves have weights of their own.
    leaf : {"auto", "shared", "bias", "output", "hashed", "separate"}, default="auto"
        What a leaf's classifier has of its own. "shared": nothing, all leaves share a predictor a class; "bias": a bias
        for each candidate too; "hashed": weights of its own beside the shared ones; "separate": nothing is shared;
        "output": with `rank`, only the low-rank map is shared, as in the paper on ALOI. "auto": "shared" on text,
        "output" with `rank`, else "hashed".
    rank : int or None, default=None
        Numbers that a learned map makes of a row for the predictors; None: they see the row.
    loss : {"auto", "softmax", "logistic"}, default="auto"
        Over the candidates: joint, or each alone. "auto": softmax with one label a row, logistic with several.
    start : float or "auto", default="auto"
        Shared predictors begin at their class's mean row times this. "auto": on text, 20 with softmax and 10 with
        logistic loss; else 0.
    randomized : bool, default=True
        Learn at the end of a random path instead of the likeliest one.
    normalize : bool, default=True
        Scale every row to length 1: the routing probabilities are made for such rows. Features should be of like size
        and centred; with False the rows' lengths should be about 1, and results depend on their unit.
    threshold : float, default=0.5
        With several labels a row: `predict` gives the labels above this probability; 0 to 1.
    top_k : int or None, default=None
        With several labels a row: `predict` gives the so many best labels instead.
    learner : "auto", "sgd", "adagrad", "normalized-adagrad" or a learner, default="auto"
        Step rule of the predictors. "auto": on text `SGD`, else `NormalizedAdaGrad(rate=4)`. With `rank` the rule is
        AdaGrad with the learner's rate, 0.5 for "auto".
    n_epochs : int or "auto", default="auto"
        Passes of the classifier over the rows. "auto": 5 with softmax on text, else 10.
    table_bits : int, default=26
        At most 2**table_bits weights are kept for what leaves share, and as many for what they have of their own:
        beyond that, weights are hashed into tables of this size.
    class_weight : dict, "balanced" or None
        Weight of each class, with one label a row.
    random_state : int, RandomState or None
        Seed: with the same int, `fit` gives the same bytes for any `n_jobs`.
    n_jobs : int, default=1
        Threads for the tree and for prediction, -1 for all cores.
    verbose : int, default=0
        1 shows progress on standard error.

    Attributes
    ----------
    classes_ : ndarray
        Labels, sorted. The column numbers if y was a matrix.
    multilabel_ : bool
        Whether y was a matrix of zeros and ones.
    progressive_error_ : float
        Share of the rows whose first answer was wrong just before they were learned, on their random paths, in the last
        epoch.
    chosen_ : dict
        What the options that were "auto" became, with all others.
    n_bytes_ : int
        Bytes of the model.
    n_features_in_ : int
        Number of features.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from manyclass import SpectralTreeClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> clf = SpectralTreeClassifier(random_state=0).fit(X[:1000], y[:1000])
    >>> bool(clf.score(X[1000:], y[1000:]) > 0.9)
    True

    Several labels a row, as columns of zeros and ones:

    >>> tags = [[1, 0, 0], [1, 1, 0], [0, 0, 1], [0, 1, 1]]
    >>> clf = SpectralTreeClassifier(random_state=0).fit([[3, 0], [2, 1], [0, 2], [1, 3]], tags)
    >>> clf.predict_topk([[3, 0]], k=1)[0]
    array([[0]])
    """

    _model = model
    _constraints = {
        **FILTER_CONSTRAINTS,
        "leaf": one_of("auto", "shared", "bias", "output", "hashed", "separate"),
        "rank": integer(1, 100_000, None),
        "loss": one_of("auto", "softmax", "logistic"),
        "start": real(0, 1_000_000, "auto"),
        "randomized": flag(),
        "normalize": flag(),
        "threshold": real(0.0, 1.0),
        "top_k": integer(1, 1_000_000, None),
        "n_epochs": integer(1, 1_000_000, "auto"),
        "table_bits": integer(8, 40),
    }
    _n_known = 2  # classes, once they are known

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
        leaf="auto",
        rank=None,
        loss="auto",
        start="auto",
        randomized=True,
        normalize=True,
        threshold=0.5,
        top_k=None,
        learner="auto",
        n_epochs="auto",
        table_bits=26,
        class_weight=None,
        random_state=None,
        n_jobs=1,
        verbose=0,
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
        self.leaf = leaf
        self.rank = rank
        self.loss = loss
        self.start = start
        self.randomized = randomized
        self.normalize = normalize
        self.threshold = threshold
        self.top_k = top_k
        self.learner = learner
        self.n_epochs = n_epochs
        self.table_bits = table_bits
        self.class_weight = class_weight
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _start(self, X, classes, n_classes, rng) -> None:
        self._n_known = len(classes)
        super()._start(X, classes, n_classes, rng)

    def _resolve_options(self, n_features: int, sparse: bool, seed: int) -> Config:
        text = sparse and n_features > NARROW
        loss = self.loss if self.loss != "auto" else ("logistic" if self._multilabel else "softmax")
        task = self.leaf
        if task == "auto":
            task = "output" if self.rank else "shared" if text else "hashed"
        learner = resolve(self.learner, n_features=n_features, sparse=sparse)
        if self.learner == "auto":
            # Many labels a row are noisy: see the label tree.
            rate = 2.0 if loss == "softmax" else min(1.0, (5.0 / self._labels_a_row) ** 0.5)
            learner = SGD(rate=rate, decay=0.8) if text else NormalizedAdaGrad(rate=4.0)
            if self.rank:
                learner = AdaGrad(rate=0.5, decay=0.9)
        start = self.start if self.start != "auto" else (20.0 if loss == "softmax" else 10.0) if text else 0.0
        n_epochs = self.n_epochs if self.n_epochs != "auto" else 5 if text and loss == "softmax" else 10
        return Config(
            **filter_config(self, self._n_known, n_features, sparse),
            task=task,
            rank=None if self.rank is None else int(self.rank),
            loss=loss,
            multilabel=self._multilabel,
            start=float(start),
            randomized=bool(self.randomized),
            table_bits=int(self.table_bits),
            n_epochs=int(n_epochs),
            learner=learner,
            bias_rate=(0.0 if loss == "softmax" else 0.1) if text else 1.0,
            seed=seed,
        )

    def _check_options(self) -> None:
        super()._check_options()
        resolve(self.learner, n_features=1, sparse=False)
        if self.leaf == "output" and self.rank is None:
            raise ValueError('leaf="output" shares only the low-rank map: give a rank, or use "separate".')

    def _prediction_options(self) -> Config:
        check_options(self, ("beam",))
        return self._options._replace(beam=self._options.beam if self.beam == "auto" else int(self.beam))

    @property
    def chosen_(self) -> dict[str, Any]:
        """What the options that were "auto" became, with all others."""
        check_is_fitted(self, "_state")
        return {**self._prediction_options()._asdict(), "learner": self._options.learner}

    def estimate_memory(self, n_features, n_classes, sparse=False, multilabel=False) -> int:
        """Bytes that a trained model will take at most, about, before any training.

        The bound is for a full tree whose nodes know every feature: `n_bytes_` tells the truth afterwards.

        Parameters
        ----------
        n_features, n_classes : int
            Size of the problem.
        sparse : bool, default=False
            Whether the inputs will be sparse.
        multilabel : bool, default=False
            Whether y will be a matrix.

        Returns
        -------
        int
        """
        twin = type(self)(**self.get_params(deep=False))
        twin._multilabel, twin._n_known = bool(multilabel), max(2, int(n_classes))
        return ManyClassifier.estimate_memory(twin, n_features, n_classes, sparse)

    def topics(self, n_labels: int = 10, depth: int | None = None, distinctive: bool = False) -> list[dict]:
        """What the nodes of a level are about: their heaviest labels, as in Table 2 of the paper.

        Parameters
        ----------
        n_labels : int, default=10
            Labels to tell of each node.
        depth : int, optional
            The level; the leaves by default.
        distinctive : bool, default=False
            Tell the labels whose share in the node is largest beside their share in all, times that share, instead of
            the heaviest: the most frequent labels are heavy everywhere.

        Returns
        -------
        list of dict
            For each node: `node`, `depth`, `mass` and `labels`, heaviest node first.

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
        if not isinstance(n_labels, Integral) or n_labels < 1:
            raise ValueError(f"n_labels must be a whole number of at least 1, got {n_labels!r}.")
        deepest = int(self._state["tree"].depth.max())
        if depth is not None and (not isinstance(depth, Integral) or not 0 <= depth <= deepest):
            raise ValueError(f"depth must be a whole number from 0 to {deepest}, the deepest level, got {depth!r}.")
        found = model.topics(self._state, int(n_labels), depth, distinctive)
        return [{**row, "labels": self.classes_[row["labels"]]} for row in found]
