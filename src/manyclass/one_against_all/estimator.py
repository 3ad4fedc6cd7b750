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
    n_epochs : int, default=10
        Passes over the rows in `fit`, at least 1.
    shuffle : bool, default=True
        Whether `fit` shuffles the rows before each epoch.
    replay : bool, default=True
        Keep earlier rows of `partial_fit` in the model (8 MB, or 4 rows per label if that is more). While the stream
        looks sorted by label, two of them are learned again for each new row, because early labels would be forgotten
        otherwise. In shuffled streams no row is learned again. False: keep no rows.
    class_weight : dict, "balanced" or None, default=None
        Weight of each class. "balanced" works in `fit` only.
    early_stopping : bool, default=False
        Hold out a tenth of the rows in `fit`, stop after two epochs without improvement on them, and keep the best
        epoch.
    calibration : {"isotonic", "temperature"} or None, default=None
        Calibrate probabilities in `fit` on a tenth of the rows, at most 10,000, which are then not learned. To learn
        all rows, call `calibrate` with other rows instead.
    random_state : int, RandomState or None, default=None
        Seed. The same int gives the same model, byte for byte.
    n_jobs : int, default=1
        Threads for prediction, -1 for all cores. Training uses one.
    verbose : int, default=0
        1 prints progress to standard error.

    Attributes
    ----------
    classes_ : ndarray
        Labels: sorted by `fit`, new ones appended by `partial_fit`.
    history_ : list of dict
        For each epoch of `fit`: `progressive_error`, the share of rows predicted wrongly just before they were learned
        (NaN with `n_negatives`, which does not score all classes), and `validation_accuracy` with early stopping.
    progressive_error_ : float
        The same share over the last epoch of `fit` and all later calls of `partial_fit`.
    n_epochs_ : int
        Number of epochs of `fit`; with early stopping, the best epoch, which is kept.
    n_bytes_ : int
        Size of the model in bytes.
    n_features_in_ : int
        Number of features.

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
