"""One-against-all as a scikit-learn estimator."""

from ..core.base import ManyClassifier
from ..core.learners import resolve
from ..core.losses import LOSSES
from ..core.options import EPOCH_CONSTRAINTS, integer, one_of
from . import model


class OneAgainstAllClassifier(ManyClassifier):
    """One-against-all: every class has a linear predictor, all are scored. The yardstick.

    After training, `set_params` changes `n_jobs` for answers at once, and `class_weight` for the next `partial_fit`;
    all other options wait for a `fit`.

    Parameters
    ----------
    loss : {"softmax", "logistic"}, default="softmax"
        Loss over the classes: joint, or one of each.
    n_negatives : int, optional
        Learn from that many random wrong classes instead of all, each counting for the many it stands for.
    rank : int, optional
        Map the inputs to that many numbers first; the map is learned too.
    learner : {"auto", "sgd", "adagrad", "normalized-adagrad"} or an instance, default="auto"
        How the predictors learn: see `RecallTreeClassifier`. With `rank`, AdaGrad with the rate given.
    table_bits : int, default=28
        At most 2**table_bits weights, 8 to 40 bits: beyond, features are hashed into fewer lines.
    n_epochs : int, default=10
        Passes over the rows in `fit`, at least 1.
    shuffle : bool, default=True
        Whether `fit` shuffles the rows before each epoch.
    class_weight : dict, "balanced" or None
        Weight of each class; "balanced" in `fit` only.
    early_stopping : bool, default=False
        Hold out a tenth of the rows in `fit`, stop after two epochs without improvement on them, and keep the best
        epoch.
    random_state : int, RandomState or None
        Seed: with the same int, the same bytes.
    n_jobs : int, default=1
        Threads for prediction, -1 for all cores; training uses one.
    verbose : int, default=0
        1 shows progress on standard error.

    Attributes
    ----------
    classes_ : ndarray
        Labels: sorted after `fit`, new ones appended by `partial_fit`.
    history_ : list of dict
        For each epoch of `fit`: `progressive_error` (NaN with `n_negatives`, where nobody scores all classes), and
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
        class_weight=None,
        early_stopping=False,
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
        self.class_weight = class_weight
        self.early_stopping = early_stopping
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _resolve_options(self, n_features: int, sparse: bool, seed: int) -> model.Options:
        return model.Options(
            loss=LOSSES[self.loss],
            n_negatives=int(self.n_negatives or 0),
            rank=int(self.rank or 0),
            table_bits=int(self.table_bits),
            **resolve(self.learner, n_features=n_features, sparse=sparse).as_options(),
            seed=seed,
        )
