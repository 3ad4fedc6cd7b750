"""LOM tree, and the online tree of 2013, as a scikit-learn estimator."""

from ..core.base import ManyClassifier
from ..core.online_trees import CONSTRAINTS, OnlineTreeMixin
from ..core.options import flag, one_of, real
from . import model


class LomTreeClassifier(OnlineTreeMixin, ManyClassifier):
    """LOM tree: a path of linear routers to a leaf that predicts its most frequent label.

    A prediction scores one router per level and nothing else. Each router learns to send a label to the right if its
    mean score is above the mean of all rows, and to the left otherwise. This makes splits pure and balanced. See
    Choromanska and Langford, "Logarithmic Time Online Multiclass Prediction" (2015).

    `LomTreeClassifier(loss="absolute", split_mass=0)` is closest to that paper. With `swap=False`, `descent="target"`
    and `rules="paper"` too, it is closest to Algorithm 1 of Choromanska, Agarwal and Langford, "Extreme Multi Class
    Classification" (2013). docs/deviations.md lists the differences.

    After training, `set_params` changes `n_jobs` for predictions at once and `class_weight` for the next `partial_fit`.
    All other options take effect in the next `fit`.

    Parameters
    ----------
    swap : bool, default=True
        Once the tree has as many nodes as allowed, let a crowded leaf take over the leaf with the fewest rows and its
        parent. False: the tree only grows.
    swap_resistance : float, default=4.0
        How hard it is for a leaf to take over another, 0 to 1,000,000. The weight of its rows, not counting those of
        its most frequent label, must be more than this times (1 + the weight of the rows of the lightest leaf).
    nodes_per_class : float, default=32
        Maximum number of inner nodes per class seen so far, 0 to 1,000,000.
    split_mass : float, default=10.0
        A leaf splits if the weight of its rows, not counting those of its most frequent label, is more than this, 0 to
        1,000,000. The papers split a leaf when it gets a second label, which is 0.
    max_depth : int or "auto", default="auto"
        Deepest level of the tree, 0 to 60. "auto": 60.
    descent : {"sign", "target"}, default="sign"
        The path of a training row: by the sign of each router before its step, as in prediction, or by the router's
        target, as printed in 2013.
    loss : {"hinge", "absolute", "logistic"}, default="hinge"
        Loss of the routers; the papers use "absolute".
    rules : {"corrected", "paper"}, default="corrected"
        "paper": rules as printed in 2013 (docs/deviations.md). A row counts for the means before they decide its
        target, and its margin is not cut to -1..1. The targets are 0 and 1. Of two new leaves, the left one is a copy
        of the old leaf, and the right one has the new label. Requires `loss="absolute"` and `swap=False`.
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
    >>> from manyclass import LomTreeClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = LomTreeClassifier(random_state=0).fit(X[:1500], y[:1500])
    >>> bool(model.score(X[1500:], y[1500:]) > 0.8)
    True
    >>> metrics = model.diagnose(X[1500:], y[1500:])
    >>> metrics["work"] == metrics["depth"]
    True
    """

    _model = model
    _constraints = {
        **CONSTRAINTS,
        "swap": flag(),
        "swap_resistance": real(0, 1_000_000),
        "descent": one_of(*model.DESCENTS),
        "rules": one_of(*model.RULES),
    }

    def __init__(
        self,
        swap=True,
        swap_resistance=4.0,
        nodes_per_class=32,
        split_mass=10.0,
        max_depth="auto",
        descent="sign",
        loss="hinge",
        rules="corrected",
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
        self.swap = swap
        self.swap_resistance = swap_resistance
        self.nodes_per_class = nodes_per_class
        self.split_mass = split_mass
        self.max_depth = max_depth
        self.descent = descent
        self.loss = loss
        self.rules = rules
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
        if self.rules == "paper" and self.loss != "absolute":
            raise ValueError(f"rules='paper' requires loss='absolute', got {self.loss!r}: its targets are 0 and 1.")
        if self.rules == "paper" and self.swap:
            raise ValueError("rules='paper' requires swap=False: the tree of 2013 has no swaps.")
        return self._resolved(model.Options, {"descent": model.DESCENTS, "rules": model.RULES}, n_features, sparse)
