"""What all estimators share: validation, epochs, labels, and the answers built on `predict_topk`."""

from abc import ABCMeta, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state, compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, column_or_1d, validate_data

from ..kernels.inputs import Batch, Csr, Dense
from ..models.spec import Answers, ModelSpec, rows_of
from ..models.state import n_bytes
from .checks import check_options
from .classes import ClassIndex, in_order_of_appearance
from .progress import progress_bar

# predict_proba is refused above this many bytes of dense output.
DENSE_LIMIT = 1 << 30
_CHUNK = 1 << 14  # rows learned between two looks at the progress bar and the keyboard
_BLOCK = 1 << 12  # rows answered by one call of a kernel


class ManyClassifier(ClassifierMixin, BaseEstimator, metaclass=ABCMeta):
    """A classifier for many classes over one `ModelSpec`."""

    _spec: ModelSpec
    _limits: dict[str, Any]

    @abstractmethod
    def _make_config(self, n_features: int, sparse: bool, seed: int) -> Any:
        """The model's config from this estimator's options."""

    # -- learning ----------------------------------------------------------------------------------------------

    def fit(self, X, y, sample_weight=None):
        """Learn from scratch.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Inputs; kept sparse if sparse.
        y : array-like of shape (n_samples,)
            Labels of any type that scikit-learn accepts.
        sample_weight : array-like of shape (n_samples,), optional
            How much each row counts.

        Returns
        -------
        self
        """
        self._check_options()
        X, y, weights = self._check_rows(X, y, sample_weight, reset=True)
        classes = np.unique(y)
        if len(classes) < 2:
            raise ValueError(f"{type(self).__name__} needs at least two classes, y has 1 class: {classes[0]}.")
        rng = check_random_state(self.random_state)
        index, config, state = self._start(X, classes, rng)
        labels = index.encode(y)
        weights = weights * self._class_weights(classes, y)[labels]
        self._config, self._index, self._state = config, index, state
        self.history_: list[dict] = []
        batch = _as_batch(X)
        learned, held_out = self._hold_out(len(y), rng)
        best, waited = -np.inf, 0
        for epoch in range(self.n_epochs):
            order = rng.permutation(learned) if self.shuffle else learned
            record = self._epoch(batch, order, labels, weights, epoch)
            if len(held_out):
                answers = self._answers(_as_batch(X[held_out]), 1)
                record["validation_accuracy"] = float(np.mean(answers.labels[:, 0] == labels[held_out]))
                waited = 0 if record["validation_accuracy"] > best else waited + 1
                best = max(best, record["validation_accuracy"])
            self.history_.append(record)
            if len(held_out) and waited >= self.patience:
                break
        self.n_epochs_ = len(self.history_)
        return self

    def partial_fit(self, X, y, classes=None, sample_weight=None):
        """Go on learning, row by row as they come; new labels are welcome at any time.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Inputs.
        y : array-like of shape (n_samples,)
            Labels. Those not met before are appended to `classes_`.
        classes : array-like, optional
            Labels to know beforehand; on later calls, labels to add.
        sample_weight : array-like of shape (n_samples,), optional
            How much each row counts.

        Returns
        -------
        self
        """
        self._check_options()
        first = not hasattr(self, "_state")
        if isinstance(self.class_weight, str):
            raise ValueError(
                f"class_weight={self.class_weight!r} needs all labels at once and works in fit only; "
                "give partial_fit a dict of label: weight, or sample_weight."
            )
        X, y, weights = self._check_rows(X, y, sample_weight, reset=first)
        known = np.empty(0, y.dtype) if classes is None else in_order_of_appearance(column_or_1d(classes))
        if not first:
            self._index.check_kind(y)
        if classes is not None and len(self._index if not first else []) == 0 and set(y.tolist()) - set(known.tolist()):
            strangers = sorted(map(repr, set(y.tolist()) - set(known.tolist())))[:5]
            raise ValueError(f"y holds labels that are not in classes: {', '.join(strangers)}.")
        new = known if classes is not None and first else np.concatenate([known, in_order_of_appearance(y)])
        if first:
            index, config, state = self._start(X, new, check_random_state(self.random_state))
            self._config, self._index, self._state = config, index, state
            self.history_ = []
        else:
            self._index.add(new)
        labels = self._index.encode(y)
        if self.class_weight:
            weights = weights * self._class_weights(self._index.array, y)[labels]
        self._learn(_as_batch(X), np.arange(len(y)), labels, weights, 0)
        return self

    def _start(self, X, classes: np.ndarray, rng) -> tuple:
        """Labels, config and state of a model that has seen nothing."""
        seed = int(rng.randint(np.iinfo(np.int32).max))
        config = self._make_config(X.shape[1], sp.issparse(X), seed)
        return ClassIndex(classes), config, self._spec.init(config, X.shape[1])

    def _learn(self, batch, order, labels, weights, epoch: int) -> None:
        self._spec.learn(self._config, self._state, batch, order, labels, weights, epoch)

    def _epoch(self, batch, order, labels, weights, epoch: int) -> dict:
        """Learn all rows once and tell how the answers before learning fared."""
        seen = self._state["seen"]
        seen.mass[0] = seen.wrong_mass[0] = 0.0
        with progress_bar(self.verbose, f"epoch {epoch + 1}/{self.n_epochs}", len(order)) as show:
            for begin in range(0, len(order), _CHUNK):
                part = order[begin : begin + _CHUNK]
                self._learn(batch, part, labels, weights, epoch)
                show(len(part), _share(seen))
        return {"epoch": epoch + 1, "progressive_error": _share(seen)}

    def _hold_out(self, n: int, rng) -> tuple[np.ndarray, np.ndarray]:
        """(rows to learn, rows to judge by): none of the latter without early stopping."""
        if not self.early_stopping:
            return np.arange(n), np.empty(0, int)
        n_held = max(1, int(n * self.validation_fraction))
        if n_held >= n:
            raise ValueError(f"early_stopping: validation_fraction leaves no row of {n} to learn from.")
        shuffled = rng.permutation(n)
        return np.sort(shuffled[n_held:]), np.sort(shuffled[:n_held])

    def _class_weights(self, classes: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Weight of each class id."""
        if self.class_weight is None:
            return np.ones(len(classes))
        if self.class_weight == "balanced":
            return compute_class_weight("balanced", classes=classes, y=y)
        return np.array([self.class_weight.get(label, 1.0) for label in classes.tolist()], float)

    # -- answers -----------------------------------------------------------------------------------------------

    def predict(self, X) -> np.ndarray:
        """The best label of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Inputs.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        answers = self._answers(self._check_inputs(X), 1)
        return self.classes_[answers.labels[:, 0]]

    def predict_topk(self, X, k: int = 5) -> tuple[np.ndarray, np.ndarray]:
        """The k best labels of each row with their scores, best first.

        Where fewer than k classes were scored, the most frequent labels of the ancestors fill the row with score
        -inf.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Inputs.
        k : int, default=5
            How many; at most the number of classes.

        Returns
        -------
        labels, scores : ndarrays of shape (n_samples, k)
        """
        batch = self._check_inputs(X)
        if not isinstance(k, Integral) or isinstance(k, bool) or k < 1:
            raise ValueError(f"k must be a whole number of at least 1, got {k!r}.")
        if k > len(self._index):
            raise ValueError(f"k={k} is more than the {len(self._index)} classes that the model knows.")
        answers = self._answers(batch, int(k))
        return self.classes_[answers.labels], answers.scores

    def predict_proba(self, X) -> np.ndarray:
        """Probabilities over the classes that were scored; 0 for all others.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Inputs.

        Returns
        -------
        ndarray of shape (n_samples, n_classes), float32
            Refused with a ValueError where it would take more than 1 GiB: use `predict_topk` there.
        """
        batch = self._check_inputs(X)
        n = rows_of(batch)
        if 4 * n * len(self._index) > DENSE_LIMIT:
            raise ValueError(
                f"predict_proba would make a dense array of {n} x {len(self._index)} probabilities "
                f"({4 * n * len(self._index) / 2**30:.1f} GiB, the limit is {DENSE_LIMIT / 2**30:.0f} GiB): "
                "use predict_topk(X, k), or fewer rows at a time."
            )
        out = np.zeros((n, len(self._index)), np.float32)
        for first, last in _blocks(n):
            scored = self._score(batch, first, last)
            rows = np.repeat(np.arange(first, last), scored.sizes)
            out[rows, scored.labels] = scored.chances
        return out

    def candidates(self, X) -> sp.csr_array:
        """Which classes were scored for each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Inputs.

        Returns
        -------
        csr_array of shape (n_samples, n_classes), bool
        """
        batch = self._check_inputs(X)
        parts = [self._score(batch, first, last) for first, last in _blocks(rows_of(batch))]
        sizes = np.concatenate([part.sizes for part in parts])
        labels = np.concatenate([part.labels for part in parts])
        return _indicator(sizes, labels, len(self._index))

    def decision_path(self, X) -> sp.csr_array:
        """Which nodes of the tree each row passed.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Inputs.

        Returns
        -------
        csr_array of shape (n_samples, n_nodes), bool
            Node 0 is the root. One-against-all has no nodes.
        """
        batch = self._check_inputs(X)
        nodes: list[np.ndarray] = []
        for first, last in _blocks(rows_of(batch)):
            nodes += self._spec.paths(self._config, self._state, batch, first, last)
        sizes = np.array([len(row) for row in nodes])
        return _indicator(sizes, np.concatenate(nodes), self._spec.n_nodes(self._state))

    def diagnose(self, X, y) -> dict[str, float]:
        """How good the answers are and what they cost, as means over rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Inputs.
        y : array-like of shape (n_samples,)
            True labels; labels that the model never met count as wrong.

        Returns
        -------
        dict of str to float
            `accuracy`; `recall` (the true label was among the candidates); `depth`; `nodes_visited`;
            `routers_scored`; `candidates_scored`; `work`, the last two added.
        """
        batch = self._check_inputs(X)
        y = column_or_1d(y)
        if len(y) != rows_of(batch):
            raise ValueError(f"X has {rows_of(batch)} rows but y has {len(y)}.")
        self._index.check_kind(y)
        ids = {label: i for i, label in enumerate(self.classes_.tolist())}
        truth = np.array([ids.get(label, -1) for label in y.tolist()], np.int32)
        answers = self._answers(batch, 1)
        recalled = 0
        for first, last in _blocks(rows_of(batch)):
            scored = self._score(batch, first, last)
            recalled += int(np.sum(scored.labels == np.repeat(truth[first:last], scored.sizes)))
        depth, nodes, routers, candidates = answers.work.mean(axis=0)
        return {
            "accuracy": float(np.mean(answers.labels[:, 0] == truth)),
            "recall": recalled / len(y),
            "depth": float(depth),
            "nodes_visited": float(nodes),
            "routers_scored": float(routers),
            "candidates_scored": float(candidates),
            "work": float(routers + candidates),
        }

    def estimate_memory(self, n_features: int, n_classes: int, sparse: bool = False) -> int:
        """Bytes that a trained model will take, before any training.

        Parameters
        ----------
        n_features, n_classes : int
            Size of the problem.
        sparse : bool, default=False
            Whether the inputs will be sparse: `learner="auto"` depends on it.

        Returns
        -------
        int
        """
        self._check_options()
        for name, value in (("n_features", n_features), ("n_classes", n_classes)):
            if not isinstance(value, Integral) or value < 1:
                raise ValueError(f"{name} must be a whole number of at least 1, got {value!r}.")
        return self._spec.memory(self._make_config(int(n_features), sparse, 0), int(n_features), int(n_classes))

    @property
    def classes_(self) -> np.ndarray:
        """All labels: sorted after `fit`; `partial_fit` appends new ones and never moves old ones."""
        if not hasattr(self, "_index"):
            raise AttributeError(f"This {type(self).__name__} is not fitted yet and has no classes_.")
        return self._index.array

    @property
    def n_bytes_(self) -> int:
        """Bytes of the model as it is now."""
        if not hasattr(self, "_state"):
            raise AttributeError(f"This {type(self).__name__} is not fitted yet and has no n_bytes_.")
        return n_bytes(self._state)

    def _answers(self, batch: Batch, k: int) -> Answers:
        """Answers for all rows, block by block over `n_jobs` threads."""
        n_classes, n = len(self._index), rows_of(batch)

        def answer(block):
            return self._spec.predict(self._config, self._state, batch, *block, k, n_classes)

        blocks = list(_blocks(n))
        n_threads = min(effective_n_jobs(self.n_jobs), len(blocks))
        if n_threads == 1:
            parts = [answer(block) for block in blocks]
        else:
            with ThreadPoolExecutor(n_threads) as pool:
                parts = list(pool.map(answer, blocks))
        return parts[0] if len(parts) == 1 else Answers(*map(np.concatenate, zip(*parts, strict=True)))

    def _score(self, batch: Batch, first: int, last: int):
        return self._spec.score(self._config, self._state, batch, first, last, len(self._index))

    # -- checks ------------------------------------------------------------------------------------------------

    def _check_options(self) -> None:
        check_options(self, {**COMMON_LIMITS, **self._limits})

    def _check_rows(self, X, y, sample_weight, reset: bool):
        """Inputs, labels and weights as the kernels want them, or a clear error and nothing changed."""
        before = {name: vars(self)[name] for name in ("n_features_in_", "feature_names_in_") if name in vars(self)}
        try:
            with np.errstate(over="ignore"):
                X, y = validate_data(
                    self, X, y, accept_sparse="csr", dtype=np.float32, order="C", reset=reset, multi_output=False
                )  # fmt: skip
            check_classification_targets(y)
            weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        except BaseException:
            for name in ("n_features_in_", "feature_names_in_"):
                vars(self).pop(name, None)
            vars(self).update(before)
            raise
        return X, y, weights

    def _check_inputs(self, X) -> Batch:
        check_is_fitted(self, "_state")
        with np.errstate(over="ignore"):
            X = validate_data(self, X, accept_sparse="csr", dtype=np.float32, order="C", reset=False)
        return _as_batch(X)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


COMMON_LIMITS = {
    "n_epochs": (Integral, 1, None),
    "shuffle": bool,
    "early_stopping": bool,
    "validation_fraction": (Real, 0.0, 1.0),
    "patience": (Integral, 1, None),
    "table_bits": (Integral, 8, 40),
}


def _as_batch(X) -> Batch:
    if not sp.issparse(X):
        return Dense(np.ascontiguousarray(X, np.float32))
    # np.asarray drops memmap; copies are made only where a type differs
    return Csr(
        np.asarray(X.indptr).astype(np.int64, copy=False),
        np.asarray(X.indices).astype(np.int32, copy=False),
        np.asarray(X.data).astype(np.float32, copy=False),
    )


def _blocks(n: int):
    for first in range(0, n, _BLOCK):
        yield first, min(n, first + _BLOCK)


def _indicator(sizes: np.ndarray, columns: np.ndarray, n_columns: int) -> sp.csr_array:
    indptr = np.concatenate([[0], np.cumsum(sizes)])
    out = sp.csr_array((np.ones(len(columns), bool), columns, indptr), shape=(len(sizes), n_columns))
    out.sort_indices()
    return out


def _share(seen) -> float:
    """Share of the mass that was answered wrongly before it was learned."""
    return float(seen.wrong_mass[0] / seen.mass[0]) if seen.mass[0] > 0 else float("nan")
