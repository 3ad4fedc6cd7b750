"""One-against-all as a scikit-learn estimator."""

from ..core.base import ManyClassifier
from ..core.learners import resolve
from ..core.losses import LOSSES
from ..core.options import EPOCH_CONSTRAINTS, integer, one_of, resolved
from . import model


class OneAgainstAllClassifier(ManyClassifier):
    """One-against-all: every class has a linear predictor and all are scored. The baseline for all trees.

    After training, `set_params` changes `n_jobs` for predictions at once and `class_weight` for the next `partial_fit`.
    All other options take effect in the next `fit`.

    Parameters
    ----------
    loss : {"softmax", "logistic"}, default="softmax"
        Loss: softmax over all classes, or a logistic loss for each class.
    n_negatives : int or None, default=None
        Learn from this many random wrong classes per row instead of all, 1 to 16,777,216. Each is weighted to represent
        the classes that were not drawn.
    rank : int or None, default=None
        Project the inputs to this many numbers first, at least 1; the projection is learned, too.
    learner : {"auto", "sgd", "adagrad", "normalized-adagrad"} or an instance, default="auto"
        How the predictors learn. "auto": SGD for sparse inputs with more than 1,000 features, otherwise normalised
        AdaGrad. With `rank`, AdaGrad with the rate of this learner.
    table_bits : int, default=28
        Limit of 2**table_bits weights, 8 to 40 bits. If features x classes exceed it, features are hashed.
    n_epochs, shuffle, replay, class_weight, early_stopping, calibration, verbose
        As in `RecallTreeClassifier`.
    random_state : int, RandomState or None, default=None
        Seed. The same int gives the same model, byte for byte.
    n_jobs : int, default=1
        Threads for prediction, -1 for all cores. Training uses one.

    Attributes
    ----------
    classes_, history_, progressive_error_, n_epochs_, n_bytes_, n_features_in_
        As in `RecallTreeClassifier`. With `n_negatives`, which does not score all classes, the
        progressive error is NaN.

    Notes
    -----
    Thread-safe: other threads may predict or save while one thread calls `partial_fit` or `fit`. Each prediction is
    made with the model as it is between two such calls (docs/services.md).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from manyclass import OneAgainstAllClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = OneAgainstAllClassifier(random_state=0).fit(X[:1500], y[:1500])
    >>> bool(model.score(X[1500:], y[1500:]) > 0.85)
    True
    """

    _model = model
    _constraints = {
        **EPOCH_CONSTRAINTS,
        "loss": one_of(*LOSSES),
        "n_negatives": integer(1, model.MOST_NEGATIVES, None),
        "rank": integer(1, float("inf"), None),
    }

    def __init__(
        self,
        loss="softmax",
        n_negatives=None,
        rank=None,
        learner="auto",
        table_bits=28,
        n_epochs=10,
        shuffle=True,
        replay=True,
        class_weight=None,
        early_stopping=False,
        calibration=None,
        random_state=None,
        n_jobs=1,
        verbose=0,
    ):
        self.loss = loss
        self.n_negatives = n_negatives
        self.rank = rank
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
        learner = resolve(self.learner, n_features=n_features, sparse=sparse).as_options()
        given = {"n_negatives": self.n_negatives or 0, "rank": self.rank or 0, "seed": seed, **learner}
        return resolved(self, model.Options, {"loss": LOSSES}, **given)
