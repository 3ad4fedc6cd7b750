"""Recall Tree as a scikit-learn estimator."""

from numbers import Integral, Real

from ..core.base import ManyClassifier
from ..core.learners import NormalizedAdaGrad, resolve
from ..core.options import EPOCH_CONSTRAINTS, check_options, flag, integer, one_of, real
from . import model
from .state import DEEPEST, LARGEST_START, LOSSES, MOST_CHILDREN, MOST_PATHS, PATH_FEATURES

_FIRST_ROWS = 1 << 14  # from which a spectral tree is grown to begin with


class RecallTreeClassifier(ManyClassifier):
    """Recall Tree: a tree finds a few likely classes, one-against-some predictors choose among them.

    Training and prediction take time logarithmic in the number of classes, which need not be known beforehand.
    After Daumé, Karampatziakis, Langford and Mineiro, "Logarithmic Time One-Against-Some" (2017). Nearest to
    the paper is `RecallTreeClassifier(beam=1, loss="logistic", path_features="bias")`; docs/deviations.md has the rest.

    After training, `set_params` changes `beam` and `n_jobs` for answers at once, and `class_weight` for the next
    `partial_fit`; all other options wait for a `fit`.

    Parameters
    ----------
    n_candidates : int, optional
        Labels that a node keeps (the paper's F); 1 to 10,000. Default: 4 ceil(log2 of the classes seen so far).
    max_depth : int, optional
        Deepest level of the tree (the paper's D); 0 to 60. Default: logarithmic in the classes seen so far.
    arity : int, default=2
        Children of a node, 2 to 256. 2: one router for each node, as in the paper. More: one for each child, in a tree
        that is as many times less deep as log2(arity) says.
    bernstein : float, "auto" or None, default="auto"
        Weight of the penalty in the recall bound (the paper's lambda) by which a row stops at an inner node. None
        always goes to a leaf. "auto" is 1.0 for a single path and None for several, whose joint recall the bound
        does not describe, by the `beam` that training began with.
    path_features : {"off", "bias", "stop", "crossed"}, default="off"
        What a predictor knows of the path: nothing; a bias for each (node, class) on the path, as in the paper;
        weights of its own for (stopping node, class); the same for every node of the path, which is most accurate,
        slowest and largest.
    start : float, default=0.0
        Weight of the cosine between a row and the running sum of a class's rows, which training then corrects; 0 (none,
        as in the paper) to 1,000,000. It takes as much memory again as the weights of the predictors.
    beam : int, default=8
        How many of the best paths to follow at most, 1 to 1,024, joining their candidates; the paper follows 1. Paths
        with less than 8 % of the best path's chance are dropped early, so clear cases stay cheap.
    randomized : bool, default=False
        Draw the route in training by the router's probability instead of following its sign.
    loss : {"softmax", "logistic"}, default="softmax"
        Loss over the candidates: joint, or one of each as in the paper.
    learner : {"auto", "sgd", "adagrad", "normalized-adagrad"} or an instance, default="auto"
        How the predictors learn. "auto": SGD for sparse inputs of more than 1,000 features (text), normalised
        AdaGrad otherwise; both need no scaling of the inputs.
    router_learner : as `learner`, default="auto"
        How the routers learn. "auto": normalised AdaGrad with rate 0.8 and no decay.
    table_bits : int, default=27
        At most 2**table_bits weights for the routers, and as many for the predictors, 8 to 40 bits: while rows x
        features fit, every weight has its own slot; beyond, they are hashed.
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
        Threads, -1 for all cores. Training uses two at most, one for the tree and one for the predictors, and without
        `path_features` only; the model is the same, byte for byte, for any number.
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
        "n_candidates": integer(1, 10_000, None),
        "max_depth": integer(0, DEEPEST, None),
        "arity": integer(2, MOST_CHILDREN),
        "path_features": one_of(*PATH_FEATURES),
        "start": real(0, LARGEST_START),
        "beam": integer(1, MOST_PATHS),
        "randomized": flag(),
        "loss": one_of(*LOSSES),
    }

    def __init__(
        self,
        n_candidates=None,
        max_depth=None,
        arity=2,
        bernstein="auto",
        path_features="off",
        start=0.0,
        beam=8,
        randomized=False,
        loss="softmax",
        learner="auto",
        router_learner="auto",
        table_bits=27,
        n_epochs=10,
        shuffle=True,
        class_weight=None,
        early_stopping=False,
        random_state=None,
        n_jobs=1,
        verbose=0,
    ):
        self.n_candidates = n_candidates
        self.max_depth = max_depth
        self.arity = arity
        self.bernstein = bernstein
        self.path_features = path_features
        self.start = start
        self.beam = beam
        self.randomized = randomized
        self.loss = loss
        self.learner = learner
        self.router_learner = router_learner
        self.table_bits = table_bits
        self.n_epochs = n_epochs
        self.shuffle = shuffle
        self.class_weight = class_weight
        self.early_stopping = early_stopping
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _resolve_options(self, n_features: int, sparse: bool, seed: int) -> model.Config:
        router_learner = self.router_learner
        if isinstance(router_learner, str) and router_learner == "auto":
            router_learner = NormalizedAdaGrad(rate=0.8, decay=1.0)
        return model.Config(
            bernstein=self._bernstein(),
            n_candidates=self.n_candidates,
            max_depth=self.max_depth,
            path_features=self.path_features,
            beam=self.beam,
            randomized=bool(self.randomized),
            loss=self.loss,
            table_bits=self.table_bits,
            learner=resolve(self.learner, n_features=n_features, sparse=sparse),
            router_learner=resolve(router_learner, n_features=n_features, sparse=sparse, name="router_learner"),
            seed=seed,
            start=float(self.start),
            arity=int(self.arity),
        )

    def _bernstein(self) -> float | None:
        value = self.bernstein
        if isinstance(value, str) and value == "auto":
            return 1.0 if self.beam == 1 else None
        if value is None:
            return None
        if isinstance(value, Real) and not isinstance(value, bool) and 0 <= float(value) < float("inf"):
            return float(value)
        raise ValueError(f'bernstein must be "auto", None or a finite number of at least 0, got {value!r}.')

    def _prediction_options(self) -> model.Config:
        check_options(self, ("beam",))
        return self._options._replace(beam=int(self.beam))

    def estimate_memory(self, n_features, n_classes, sparse=False, n_rows=None) -> int:
        """Bytes that a trained model will take, about, before any training.

        Counted as if, up to `table_bits`, every predictor had a weight for each feature: `n_bytes_` tells the truth
        afterwards. What is hard to foresee is at how many nodes a class is counted, which doubles its table now and
        then.

        Parameters
        ----------
        n_features, n_classes : int
            Size of the problem.
        sparse : bool, default=False
            Whether the inputs will be sparse: `learner="auto"` depends on it.
        n_rows : int, optional
            How many different rows will be learned: few rows fill less of that table, and later epochs add little.
            Default: 40 a class.

        Returns
        -------
        int
        """
        usual = super().estimate_memory(n_features, n_classes, sparse)
        if n_rows is None:
            return usual
        if not isinstance(n_rows, Integral) or int(n_rows) < 1:
            raise ValueError(f"n_rows must be a whole number of at least 1, got {n_rows!r}.")
        config = self._resolve_options(int(n_features), sparse, 0)
        return model.memory(config, int(n_features), int(n_classes), int(n_rows))

