"""MLOM tree as a scikit-learn estimator."""

from ..core.base import ManyClassifier
from ..core.online_trees import CONSTRAINTS, OnlineTreeMixin
from ..core.options import flag, one_of
from . import model


class MlomTreeClassifier(OnlineTreeMixin, ManyClassifier):
    """MLOM tree: a LOM tree whose upper nodes halve the classes.

    A router sends a class to one side according to its mean score, compared with the median (or mean) of the means of
    all classes of the node. With the median, each child gets half of the classes. A class that changes its side is
    suspended below the old child, and its statistics are kept there in case it returns. See Chen and Wang, "Modified
    Logarithmic Time Online Multiclass Train and Prediction" (2018). The tree of the paper is
    `MlomTreeClassifier(centre="median", guests=False)`: one leaf per class, and twice the error. docs/deviations.md
    lists the differences.

    After training, `set_params` changes `n_jobs` for predictions at once and `class_weight` for the next `partial_fit`.
    All other options take effect in the next `fit`.

    Parameters
    ----------
    centre : {"auto", "median", "mean"}, default="auto"
        What the mean of a class is compared with: the median of the class means, which halves the classes and takes
        O(log classes) per row, or their mean. "auto": the median at nodes with 100 classes or more, else the mean.
    guests : bool, default=True
        A row that the sign of a router sends away from its class is a guest. It is counted at the leaf that it reaches,
        as in prediction, and leaves split for their guests. So a class can have several leaves. False: one leaf per
        class, as in the paper.
    split_mass : float, default=10.0
        With guests, a leaf splits if the weight of its rows, not counting those of its most frequent label, is more
        than this, 0 to 1,000,000.
    nodes_per_class : float, default=32
        Leaves split for guests while there are fewer inner nodes per class than this, 0 to 1,000,000. Nodes for classes
        are not limited: if classes cannot be separated, the tree may have twice as many nodes or more.
    max_depth : int or "auto", default="auto"
        Deepest level of the tree, 0 to 60. "auto": 60.
    loss : {"hinge", "absolute", "logistic"}, default="hinge"
        Loss of the routers; the LOM tree's paper uses "absolute".
    learner : {"auto", "sgd", "adagrad", "normalized-adagrad"} or an instance, default="auto"
        How the routers learn. "auto": `NormalizedAdaGrad(rate=4, decay=1)`, which needs no scaling of the inputs.
    table_bits : int, default=27
        Limit of 2**table_bits weights, 8 to 40 bits. If nodes x features exceed it, weights are hashed.
    n_epochs : int, default=20
        Passes over the rows in `fit`, at least 1.
    shuffle, replay, class_weight, early_stopping, calibration, random_state, verbose
        As in `RecallTreeClassifier`.
    n_jobs : int, default=1
        Threads for prediction, -1 for all cores. Training uses one.

    Attributes
    ----------
    classes_, history_, progressive_error_, n_epochs_, n_bytes_, n_features_in_
        As in `RecallTreeClassifier`.

    Notes
    -----
    Thread-safe: other threads may predict or save while one thread calls `partial_fit` or `fit`. Each prediction is
    made with the model as it is between two such calls (docs/services.md).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from manyclass import MlomTreeClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = MlomTreeClassifier(random_state=0).fit(X[:1500], y[:1500])
    >>> bool(model.score(X[1500:], y[1500:]) > 0.8)
    True
    >>> halved = MlomTreeClassifier(centre="median", random_state=0).fit(X[:1500], y[:1500])
    >>> [level["classes"] for level in halved.balance(max_depth=1)]
    [[10], [5, 5]]
    """

    _model = model
    _constraints = {**CONSTRAINTS, "centre": one_of(*model.CENTRES), "guests": flag()}

    def __init__(
        self,
        centre="auto",
        guests=True,
        split_mass=10.0,
        nodes_per_class=32,
        max_depth="auto",
        loss="hinge",
        learner="auto",
        table_bits=27,
        n_epochs=20,
        shuffle=True,
        replay=True,
        class_weight=None,
        early_stopping=False,
        calibration=None,
        random_state=None,
        n_jobs=1,
        verbose=0,
    ):
        self.centre = centre
        self.guests = guests
        self.split_mass = split_mass
        self.nodes_per_class = nodes_per_class
        self.max_depth = max_depth
        self.loss = loss
        self.learner = learner
        self.table_bits = table_bits
        self.n_epochs = n_epochs
        self.shuffle = shuffle
        self.replay = replay
        self.class_weight = class_weight
        self.early_stopping = early_stopping
        self.calibration = calibration
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _resolve_options(self, n_features: int, sparse: bool, seed: int) -> model.Options:
        return self._resolved(model.Options, {"centre": model.CENTRES}, n_features, sparse)
