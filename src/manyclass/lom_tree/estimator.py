"""LOM tree, and the online tree of 2013, as a scikit-learn estimator."""

from ..core.base import ManyClassifier
from ..core.learners import resolve
from ..core.online_trees import ROUTER_LEARNER, ROUTER_LOSSES, OnlineTreeMixin
from ..core.options import EPOCH_CONSTRAINTS, flag, integer, one_of, real
from ..core.trees import DEEPEST
from . import model


class LomTreeClassifier(OnlineTreeMixin, ManyClassifier):
    """LOM tree: one path of linear routers to a leaf that answers its most frequent label.

    An answer scores as many routers as the leaf is deep, and nothing else. Each router learns to send a label to the
    side where its mean score already lies, against the mean of all labels: pure and balanced splits. After
    Choromanska and Langford, "Logarithmic Time Online Multiclass Prediction" (2015); with `swap=False` Algorithm 1 of
    Choromanska, Agarwal and Langford, "Extreme Multi Class Classification" (2013). Nearest to the papers is
    `LomTreeClassifier(loss="absolute", split_mass=0)`; docs/deviations.md has the rest.

    After training, `set_params` changes `n_jobs` for answers at once, and `class_weight` for the next `partial_fit`;
    all other options wait for a `fit`.

    Parameters
    ----------
    swap : bool, default=True
        When there are as many nodes as allowed, let a crowded leaf take over the leaf that fewest rows came to, and its
        parent. False: the tree only grows.
    swap_resistance : float, default=4.0
        A leaf takes over another if the mass beside its heaviest label is more than this times the mass of the
        lightest leaf and one; 0 to 1,000,000.
    nodes_per_class : float, default=32
        At most so many inner nodes for each class seen so far, 0 to 1,000,000.
    split_mass : float, default=10.0
        A leaf splits when the mass beside its heaviest label is more than this, 0 to 1,000,000. The papers' is 0: at
        the second label.
    max_depth : int, optional
        Deepest level of the tree, 0 to 60. Default: 60.
    descent : {"sign", "target"}, default="sign"
        Which way a row takes in training: that of the router's sign before its step, like an answer, or that of its
        target, as printed in 2013.
    loss : {"hinge", "absolute", "logistic"}, default="hinge"
        Loss of the routers; the paper's is absolute.
    learner : {"auto", "sgd", "adagrad", "normalized-adagrad"} or an instance, default="auto"
        How the routers learn. "auto": normalised AdaGrad with rate 4 and no decay; no need to scale the inputs.
    table_bits : int, default=27
        At most 2**table_bits weights, 8 to 40 bits: while nodes x features fit, every weight has its own slot; beyond,
        they are hashed.
    n_epochs : int, default=20
        Passes over the rows in `fit`, at least 1.
    shuffle : bool, default=True
        Whether `fit` shuffles the rows before each epoch.
    class_weight : dict, "balanced" or None
        Weight of each class; "balanced" in `fit` only.
    early_stopping : bool, default=False
        Hold out a tenth of the rows in `fit`, stop after two epochs without improvement on them, and keep the best
        epoch.
    random_state : int, RandomState or None
        Seed of the shuffling: with the same int, the same bytes.
    n_jobs : int, default=1
        Threads for prediction, -1 for all cores; training uses one.
    verbose : int, default=0
        1 shows progress on standard error.

    Attributes
    ----------
    classes_ : ndarray
        Labels: sorted after `fit`, new ones appended by `partial_fit`.
    history_ : list of dict
        For each epoch of `fit`: `progressive_error`, the share answered wrongly just before being learned, and
        `validation_accuracy` with early stopping.
    progressive_error_ : float
        The same share over the last epoch of `fit` and all of `partial_fit` since.
    n_epochs_ : int
        Epochs that `fit` took.
    n_bytes_ : int
        Bytes of the model.
    n_features_in_ : int
        Number of features.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from manyclass import LomTreeClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = LomTreeClassifier(random_state=0).fit(X[:1500], y[:1500])
    >>> bool(model.score(X[1500:], y[1500:]) > 0.8)
    True
    >>> told = model.diagnose(X[1500:], y[1500:])
    >>> told["work"] == told["depth"]
    True
    """

    _model = model
    _constraints = {
        **EPOCH_CONSTRAINTS,
        "swap": flag(),
        "swap_resistance": real(0, 1_000_000),
        "nodes_per_class": real(0, 1_000_000),
        "split_mass": real(0, 1_000_000),
        "max_depth": integer(0, DEEPEST, "auto"),
        "descent": one_of(*model.DESCENTS),
        "loss": one_of(*ROUTER_LOSSES),
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
        learner="auto",
        table_bits=27,
        n_epochs=20,
        shuffle=True,
        class_weight=None,
        early_stopping=False,
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
        self.learner = learner
        self.table_bits = table_bits
        self.n_epochs = n_epochs
        self.shuffle = shuffle
        self.class_weight = class_weight
        self.early_stopping = early_stopping
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _resolve_options(self, n_features: int, sparse: bool, seed: int) -> model.Options:
        learner = resolve(self.learner, n_features=n_features, sparse=sparse, auto=ROUTER_LEARNER)
        return model.Options(
            swap=bool(self.swap),
            swap_resistance=float(self.swap_resistance),
            nodes_per_class=float(self.nodes_per_class),
            split_mass=float(self.split_mass),
            max_depth=DEEPEST if self.max_depth == "auto" else int(self.max_depth),
            descent=model.DESCENTS[self.descent],
            loss=ROUTER_LOSSES[self.loss],
            table_bits=int(self.table_bits),
            **learner.as_options(),
        )
