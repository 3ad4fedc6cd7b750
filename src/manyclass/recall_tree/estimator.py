"""Recall Tree as a scikit-learn estimator."""

from typing import Any

from ..core.base import ManyClassifier
from ..core.learners import NormalizedAdaGrad, resolve
from ..core.losses import LOSSES
from ..core.options import EPOCH_CONSTRAINTS, check_options, integer, one_of, real, resolved
from ..core.trees import DEEPEST
from . import model

_ROUTER_LEARNER = NormalizedAdaGrad(rate=0.8, decay=1.0)  # no other was better on any data set


class RecallTreeClassifier(ManyClassifier):
    """Recall Tree: a tree finds a few likely classes, and linear predictors choose among them.

    Training and prediction take time logarithmic in the number of classes, which need not be known in advance. The
    algorithm is that of Daumé, Karampatziakis, Langford and Mineiro, "Logarithmic Time One-Against-Some" (2017).
    `RecallTreeClassifier(beam=1, loss="logistic", path_features="bias")` is the algorithm that the paper describes,
    with four printed rules corrected; `rules="paper"` has them as printed. docs/deviations.md lists all differences.

    After training, `set_params` changes `beam` and `n_jobs` for predictions at once, and `class_weight` for the next
    `partial_fit`; all other options take effect in the next `fit`.

    Parameters
    ----------
    n_candidates : int or "auto", default="auto"
        Number of labels that a node keeps (F in the paper), 1 to 10,000. "auto": 4 ceil(log2(number of classes seen so
        far)).
    max_depth : int or "auto", default="auto"
        Deepest level of the tree (D in the paper), 0 to 60. "auto": logarithmic in the number of classes seen so far.
    arity : int, default=2
        Children per node, 2 to 256. With 2, each node has one router, as in the paper. With more, each child has one
        and the tree has fewer levels.
    bernstein : float, "auto" or None, default="auto"
        Weight of the penalty in the recall bound (lambda in the paper), 0 to 1,000,000,000. A row stops at an inner
        node whose bound is higher than that of the next node. None: always descend to a leaf. "auto": 1.0 for a single
        path; None for several paths, because the bound does not describe their joint recall. It depends on the `beam`
        at the beginning of training.
    path_features : {"off", "bias", "stop", "crossed"}, default="off"
        What a predictor knows of the path. "off": nothing. "bias": a bias per (node, class) on the path, as in the
        paper. "stop": weights per (last node, class). "crossed": weights per (node, class) on the path, which is
        the most accurate, slowest and largest choice.
    beam : int, default=8
        Maximum number of paths that a row follows, 1 to 1,024; their candidates are joined. The paper follows one path.
        Paths with less than 8 % of the best path's probability are dropped early, so clear cases stay cheap.
    loss : {"softmax", "logistic"}, default="softmax"
        Loss: softmax over all candidates, or a logistic loss for each candidate as in the paper.
    rules : {"corrected", "paper"}, default="corrected"
        "paper": four rules as the paper prints them, which cost accuracy (docs/deviations.md). For routers, the
        entropies of the children are weighted by their shares of the rows, and their difference has the printed sign.
        For predictors, each node of `path_features` makes a full step, and predictors learn only where the training
        path ends. Requires `arity=2`.
    learner : {"auto", "sgd", "adagrad", "normalized-adagrad"} or an instance, default="auto"
        How the predictors learn. "auto": SGD for sparse data with more than 1,000 features (text), normalised AdaGrad
        otherwise. Neither requires scaled data.
    table_bits : int, default=27
        At most 2**table_bits weights for the routers, and as many for the predictors, 8 to 40. As long as all weights
        fit, each has its own place; after that they are hashed.
    n_epochs : int, default=10
        Passes over the rows in `fit`, at least 1.
    shuffle : bool, default=True
        Whether `fit` shuffles the rows before each epoch.
    replay : bool, default=True
        Keep earlier rows of `partial_fit` in the model (8 MB, or 4 rows per label if that is more). While the stream
        looks sorted by label, two stored rows are learned again with each new row, so that early labels are not
        forgotten. In shuffled streams no row is learned again. False: keep no rows.
    class_weight : dict, "balanced" or None, default=None
        Weight of each class; "balanced" in `fit` only.
    early_stopping : bool, default=False
        Hold out a tenth of the rows in `fit`, stop after two epochs without improvement on them, and keep the best
        epoch.
    calibration : {"isotonic", "temperature"} or None, default=None
        Calibrate probabilities in `fit` on a tenth of the rows, at most 10,000, which are then not learned. To learn
        all rows, call `calibrate` with other rows instead.
    random_state : int, RandomState or None, default=None
        Seed of the order of rows. The same int gives the same model, byte for byte.
    n_jobs : int, default=1
        Number of threads, -1 for all cores. Training uses at most two threads, one for the tree and one for the
        predictors, but only one with `path_features`. The model is the same, byte for byte, for any number of threads.
    verbose : int, default=0
        1 shows progress on standard error.

    Attributes
    ----------
    classes_ : ndarray
        Labels: sorted after `fit`; `partial_fit` appends new ones.
    history_ : list of dict
        For each epoch of `fit`: `progressive_error`, the share of rows predicted wrongly just before they were learned,
        and with early stopping `validation_accuracy`.
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
    >>> from manyclass import RecallTreeClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = RecallTreeClassifier(random_state=0).fit(X[:1500], y[:1500])
    >>> bool(model.score(X[1500:], y[1500:]) > 0.85)
    True
    >>> labels, scores = model.predict_topk(X[1500:], k=3)
    >>> labels.shape
    (297, 3)
    """

    _model = model
    _constraints = {
        **EPOCH_CONSTRAINTS,
        "n_candidates": integer(1, model.MOST_CANDIDATES, "auto"),
        "max_depth": integer(0, DEEPEST, "auto"),
        "arity": integer(2, model.MOST_CHILDREN),
        "bernstein": real(0, 1e9, "auto", None),
        "path_features": one_of(*model.PATH_FEATURES),
        "beam": integer(1, model.MOST_PATHS),
        "loss": one_of(*LOSSES),
        "rules": one_of(*model.RULES),
    }
    _removed = {**ManyClassifier._removed, "init": None, "randomized": False}

    def __init__(
        self,
        n_candidates="auto",
        max_depth="auto",
        arity=2,
        bernstein="auto",
        path_features="off",
        beam=8,
        loss="softmax",
        rules="corrected",
        learner="auto",
        table_bits=27,
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
        self.n_candidates = n_candidates
        self.max_depth = max_depth
        self.arity = arity
        self.bernstein = bernstein
        self.path_features = path_features
        self.beam = beam
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
        bernstein = self.bernstein
        if bernstein == "auto":
            bernstein = 1.0 if self.beam == 1 else None
        if self.rules == "paper" and self.arity != 2:
            raise ValueError(
                f"rules='paper' requires arity=2, got {self.arity}: the paper has no rule for more children."
            )
        learner = resolve(self.learner, n_features=n_features, sparse=sparse)
        return resolved(
            self,
            model.Options,
            {"path_features": model.PATH_FEATURES, "loss": LOSSES, "rules": model.RULES},
            n_candidates=-1 if self.n_candidates == "auto" else self.n_candidates,
            max_depth=-1 if self.max_depth == "auto" else self.max_depth,
            bernstein=-1.0 if bernstein is None else bernstein,
            **learner.as_options(),
            **{f"router_{name}": value for name, value in _ROUTER_LEARNER.as_options().items()},
        )

    def _prediction_options(self) -> model.Options:
        check_options(self, ("beam",))
        return self._options._replace(beam=int(self.beam))

    @classmethod
    def _params_from_file(cls, params: dict[str, Any]) -> dict[str, Any]:
        # The model keeps its router learner; a model with start > 0 is refused by `options_from_file`.
        params = {name: value for name, value in params.items() if name not in ("router_learner", "start")}
        out = super()._params_from_file(params)
        for name in ("n_candidates", "max_depth"):  # files of format 1 and 2 have None for "auto"
            out[name] = "auto" if out.get(name) is None else out[name]
        return out
