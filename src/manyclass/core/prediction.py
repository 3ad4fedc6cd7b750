"""What all estimators answer, built on the model's few verbs."""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import lru_cache
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from .batches import BLOCK, as_batch, blocks, check_sparse, indicator, rows_are_sound, rows_between
from .checks import check_labels, check_text
from .classes import ClassIndex
from .predictor import Predictor
from .spec import Answers, ModelSpec, Scored
from .state import n_bytes

# predict_proba is refused above this many bytes of dense output.
DENSE_LIMIT = 1 << 30


class AnswersMixin:
    """Predictions, candidates, paths and diagnosis of a model that has learned."""

    n_jobs: int | None
    _spec: ModelSpec
    _config: Any
    _state: dict[str, Any]
    _index: ClassIndex
    n_features_in_: int

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

    def predict_topk(self, X, k=None) -> tuple[np.ndarray, np.ndarray]:
        """The k best labels of each row with their scores, best first.

        Where fewer than k classes were scored, other labels (of a Recall Tree, the most frequent ones of the nodes
        above) fill the row with score -inf.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Inputs.
        k : int, optional
            How many; at most the number of classes. Default: 5, or all of fewer classes.

        Returns
        -------
        labels, scores : ndarrays of shape (n_samples, k)
            Scores are the predictors' own (log-odds up to a constant of the row with softmax): larger is better.
        """
        X = self._check_inputs(X)
        answers = self._answers(X, self._check_k(min(5, len(self._index)) if k is None else k))
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
        X = self._check_inputs(X)
        n = X.shape[0]
        if 4 * n * len(self._index) > DENSE_LIMIT:
            raise ValueError(
                f"predict_proba would make a dense array of {n} x {len(self._index)} probabilities "
                f"({4 * n * len(self._index) / 2**30:.1f} GiB, the limit is {DENSE_LIMIT / 2**30:.0f} GiB): "
                "use predict_topk(X, k), or fewer rows at a time."
            )
        out = np.zeros((n, len(self._index)), np.float32)
        for first, last in self._scoring_blocks(n):
            scored = self._score(rows_between(X, first, last))
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
        X = self._check_inputs(X)
        parts = [self._score(rows_between(X, first, last)) for first, last in self._scoring_blocks(X.shape[0])]
        sizes = np.concatenate([part.sizes for part in parts])
        labels = np.concatenate([part.labels for part in parts])
        return indicator(sizes, labels, len(self._index))

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
        X = self._check_inputs(X)
        nodes: list[np.ndarray] = []
        for first, last in blocks(X.shape[0]):
            nodes += self._spec.paths(self._answering(), self._state, as_batch(rows_between(X, first, last)))
        sizes = np.array([len(row) for row in nodes])
        return indicator(sizes, np.concatenate(nodes), self._spec.n_nodes(self._state))

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
        X = self._check_inputs(X)
        check_labels(y)
        y = column_or_1d(y)
        if len(y) != X.shape[0]:
            raise ValueError(f"X has {X.shape[0]} rows but y has {len(y)}.")
        self._index.check_kind(y)
        truth = self._index.find(y)
        answers = self._answers(X, 1)
        recalled, n_scored = 0, 0
        for first, last in self._scoring_blocks(X.shape[0]):
            scored = self._score(rows_between(X, first, last))
            recalled += int(np.sum(scored.labels == np.repeat(truth[first:last], scored.sizes)))
            # A label met at two nodes may have been scored twice, but is one candidate; some trees score none.
            n_scored += int(np.minimum(scored.sizes, answers.work[first:last, 3]).sum())
        depth, nodes, routers, _ = answers.work.mean(axis=0)
        candidates = n_scored / len(y)
        return {
            "accuracy": float(np.mean(answers.labels[:, 0] == truth)),
            "recall": recalled / len(y),
            "depth": float(depth),
            "nodes_visited": float(nodes),
            "routers_scored": float(routers),
            "candidates_scored": float(candidates),
            "work": float(routers + candidates),
        }

    @property
    def classes_(self) -> np.ndarray:
        """All labels: sorted after `fit`; `partial_fit` appends new ones and never moves old ones."""
        if not hasattr(self, "_index"):
            raise AttributeError(f"This {type(self).__name__} is not fitted yet and has no classes_.")
        return self._index.array

    @property
    def progressive_error_(self) -> float:
        """Share of the rows that were answered wrongly just before they were learned.

        Over the last epoch of `fit` and all of `partial_fit` since; NaN where nobody answered.
        """
        if not hasattr(self, "_state"):
            raise AttributeError(f"This {type(self).__name__} is not fitted yet and has no progressive_error_.")
        return wrong_share(self._state["seen"])

    @property
    def n_bytes_(self) -> int:
        """Bytes of the model as it is now."""
        if not hasattr(self, "_state"):
            raise AttributeError(f"This {type(self).__name__} is not fitted yet and has no n_bytes_.")
        return n_bytes(self._state)

    def _answering(self) -> Any:
        """The config to answer with: that of training, but for options that may change afterwards."""
        return self._config

    def _answers(self, X, k: int) -> Answers:
        """Answers for all rows, block by block over `n_jobs` threads."""
        n_classes, config = len(self._index), self._answering()

        def answer(block):
            batch = as_batch(rows_between(X, *block))
            return self._spec.predict(config, self._state, batch, k, n_classes)

        threads = min(n_threads(self.n_jobs), -(-X.shape[0] // self._spec.worth_a_thread))
        most = self._spec.most_rows
        if k > 1:  # room for the scores of all candidates: some 64 MB
            most = min(BLOCK, max(1, (1 << 23) // self._spec.width(config, self._state)))
        ranges = list(blocks(X.shape[0], min(most, -(-X.shape[0] // threads))))
        if threads == 1:
            parts = [answer(block) for block in ranges]
        else:
            with ThreadPoolExecutor(threads) as pool:
                parts = list(pool.map(answer, ranges))
        return parts[0] if len(parts) == 1 else Answers(*map(np.concatenate, zip(*parts, strict=True)))

    def predictor(self, k=1) -> Predictor:
        """A function that answers single rows and checks next to nothing: for services.

        Parameters
        ----------
        k : int, default=1
            How many labels; at most the number of classes.

        Returns
        -------
        Predictor
            Called with one row, float32 and one-dimensional or a CSR matrix, it gives the k best labels and their
            scores, as the model is at the moment, with the options (`beam`) that it had when this was made. Each thread
            needs one of its own.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from manyclass import RecallTreeClassifier
        >>> X, y = load_digits(return_X_y=True)
        >>> X = X.astype("float32")
        >>> clf = RecallTreeClassifier(n_epochs=2, random_state=0).fit(X, y)
        >>> answer = clf.predictor(k=3)
        >>> labels, scores = answer(X[0])
        >>> bool(labels[0] == clf.predict(X[:1])[0])
        True
        """
        check_is_fitted(self, "_state")
        return Predictor(self, self._check_k(k))

    def _check_k(self, k) -> int:
        if not _is_count(k):
            raise ValueError(f"k must be a whole number of at least 1, got {k!r}.")
        if k > len(self._index):
            raise ValueError(f"k={k} is more than the {len(self._index)} classes that the model knows.")
        return int(k)

    def _scoring_blocks(self, n: int):
        """Row ranges whose candidates with their scores fit into some 50 MB."""
        return blocks(n, min(BLOCK, max(1, (1 << 22) // max(1, self._spec.width(self._answering(), self._state)))))

    def _score(self, X) -> Scored:
        return self._spec.score(self._answering(), self._state, as_batch(X))

    def _check_inputs(self, X):
        if not hasattr(self, "_state"):  # scikit-learn's own look takes 100 microseconds
            check_is_fitted(self, "_state")
        if self._is_ready(X):
            return X
        check_text(X)
        with np.errstate(over="ignore", invalid="ignore"):
            X = validate_data(self, X, accept_sparse="csr", dtype=np.float32, order="C", reset=False)
        return check_sparse(X)

    def _is_ready(self, X) -> bool:
        """Whether X is rows that would be passed on as they are; finding that out by the book takes 250 us."""
        sparse = sp.issparse(X)
        if not (sparse or type(X) is np.ndarray) or X.ndim != 2 or X.dtype != np.float32 or X.shape[0] == 0:
            return False
        if X.shape[1] != self.n_features_in_ or hasattr(self, "feature_names_in_"):
            return False
        if sparse:
            return X.format == "csr" and rows_are_sound(X)
        return X.flags.c_contiguous and bool(np.isfinite(X.sum()))


@lru_cache(maxsize=64)
def changed(config: Any, **options: Any) -> Any:
    """The config with other options; remembered, since single rows are asked one by one."""
    return replace(config, **options)


def wrong_share(seen) -> float:
    """Share of the mass that was answered wrongly before it was learned."""
    return float(seen.wrong_mass[0] / seen.mass[0]) if seen.mass[0] > 0 else float("nan")


def n_threads(n_jobs: object) -> int:
    """Threads meant by scikit-learn's `n_jobs`: None is 1, -1 all cores, -2 all but one."""
    if n_jobs is None:
        return 1
    if not isinstance(n_jobs, Integral) or isinstance(n_jobs, bool) or int(n_jobs) == 0:
        raise ValueError(f"n_jobs must be None or a whole number other than 0, got {n_jobs!r}.")
    return int(n_jobs) if int(n_jobs) > 0 else max(1, (os.cpu_count() or 1) + 1 + int(n_jobs))


def _is_count(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 1
