"""Prediction: `predict`, `predict_topk`, `predict_proba`, candidates, paths and `diagnose` of all classifiers."""

import math
from collections.abc import Iterator
from functools import partial
from numbers import Integral, Real
from typing import Any

import joblib
import numpy as np
import scipy.sparse as sp
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from .calibration import apply as calibrated
from .calibration import probabilities_of
from .columns import apply, is_centred, most_rows
from .inputs import Batch, Csr, Dense, is_inside
from .locks import LockOfEstimator, ModelLock, parallel, reads, reads_row
from .options import as_float, check_flag, check_integer
from .protocol import Labels, Mixin, Model, Predictions, Scored, as_labels
from .state import n_bytes
from .validation import (
    BLOCK,
    NARROW,
    as_batch,
    blocks,
    check_labels,
    check_propensity,
    check_sparse,
    for_kernels,
    indicator,
    rows_are_sound,
    rows_between,
    without_padding,
)
from .vocabulary import current_predictions, current_scores

DENSE_LIMIT = 1 << 30  # bytes of a dense array of probabilities
_MOST_THREADS = 256
_FLOAT32 = np.dtype(np.float32)  # a comparison with the type takes five times as long


class PredictionMixin(Mixin):
    """Predictions, candidates, paths and diagnosis of a fitted model."""

    n_jobs: int | None
    _lock: ModelLock = LockOfEstimator()  # type: ignore[assignment]

    @reads
    def predict(self, X, reject=None) -> np.ndarray:
        """Predict the best label of each row, or no label if it is not probable enough.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Data.
        reject : float from 0 to 1, optional
            Predict only labels with a probability above this number. `calibrate` makes probabilities meaningful, and
            `rejection_threshold` finds the number for a wanted precision.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            Predicted labels. With `reject`, a masked array of the same type: rows without a prediction are masked, and
            `labels.filled("none")` replaces them. scikit-learn's metrics do not know masks: pass them the rows
            `~labels.mask` only.

        Examples
        --------
        >>> from manyclass import RecallTreeClassifier
        >>> model = RecallTreeClassifier(random_state=0).fit([[0.0], [1.0]], ["low", "high"])
        >>> print(model.predict([[0.1], [0.9]]))
        ['low' 'high']
        """
        X = self._check_inputs(X)
        if reject is None:
            return self._index.array[self._predict(X, 1).labels[:, 0]]
        if not isinstance(reject, Real) or not 0 <= as_float(reject) <= 1:
            raise ValueError(f"reject must be a number from 0 to 1, got {reject!r}.")
        labels, probabilities = self._most_probable(X, 1)
        return np.ma.array(self._index.array[labels[:, 0]], mask=probabilities[:, 0] <= reject)

    @reads
    def predict_topk(self, X, k=None, probabilities=False, propensity=None) -> tuple[np.ndarray, np.ndarray]:
        """Predict the k best labels of each row with their scores, best first.

        If fewer than k labels were scored, other labels with score -inf fill the row. Trees take the most
        frequent labels of the nodes on the path first.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Data.
        k : int, optional
            Number of labels, at most the number of classes. Default: 5, or the number of classes if smaller.
        probabilities : bool, default=False
            Return probabilities instead of scores, calibrated ones if the model is calibrated. Labels that were not
            scored have the probability 0.
        propensity : array-like of shape (n_classes,), optional
            Propensity of each class in the order of `classes_`, above 0 and at most 1, for example from
            `manyclass.metrics.propensities`. Labels that were scored are ranked by probability / propensity, and these
            are the scores; others have the score 0. So rare labels come first more often. If the probabilities are
            right, this is the best ranking for `manyclass.metrics.psp_at_k`. Not together with `probabilities`.

        Returns
        -------
        labels, scores : ndarrays of shape (n_samples, k)
            A larger score is better. With softmax, scores are log-odds up to a constant per row.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from manyclass import RecallTreeClassifier
        >>> X, y = load_digits(return_X_y=True)
        >>> model = RecallTreeClassifier(n_epochs=2, random_state=0).fit(X[:1500], y[:1500])
        >>> labels, scores = model.predict_topk(X[1500:], k=3)
        >>> labels.shape, bool((scores[:, 0] >= scores[:, 1]).all())
        ((297, 3), True)
        """
        X = self._check_inputs(X)
        k = self._check_k(min(5, self._index.n_current) if k is None else k)
        check_flag("probabilities", probabilities)
        if propensity is not None and probabilities:
            raise ValueError("pass either probabilities=True or propensity: with propensity, scores are ratios.")
        if propensity is not None:
            labels, scores = self._by_propensity(X, k, check_propensity(propensity, len(self._index)))
        elif probabilities:
            labels, scores = self._most_probable(X, k)
        else:
            labels, scores, _ = self._predict(X, k)
        return self._index.array[labels], scores

    @reads
    def predict_proba(self, X, sparse=False):
        """Predict probabilities of the classes that are scored, and 0 for all others; calibrated if the model is.

        With one label per row, they sum to 1 before calibration. After it, they and `predict_other` sum to 1.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Data.
        sparse : bool, default=False
            Return a sparse matrix with an entry for each class that was scored.

        Returns
        -------
        probabilities : ndarray or csr_array of shape (n_samples, n_classes), float32
            A ValueError is raised if a dense array would exceed 1 GiB; use `sparse=True` or `predict_topk` then.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from manyclass import RecallTreeClassifier
        >>> X, y = load_digits(return_X_y=True)
        >>> model = RecallTreeClassifier(n_epochs=2, random_state=0).fit(X[:1500], y[:1500])
        >>> probabilities = model.predict_proba(X[1500:])
        >>> probabilities.shape, bool(abs(probabilities.sum(axis=1) - 1).max() < 1e-5)
        ((297, 10), True)
        """
        X = self._check_inputs(X)
        n, n_classes = X.shape[0], len(self._index)
        if check_flag("sparse", sparse):
            parts = [scored for _, _, scored in self._calibrated(X)]
            sizes, labels, values = map(np.concatenate, zip(*parts, strict=True))
            matrix = (values.astype(np.float32), labels, np.concatenate([[0], np.cumsum(sizes)]))
            out = sp.csr_array(matrix, shape=(n, n_classes))
            out.sort_indices()
            return out
        if 4 * n * n_classes > DENSE_LIMIT:
            raise ValueError(
                f"predict_proba would return a dense array of {n} x {n_classes} probabilities "
                f"({4 * n * n_classes / 2**30:.1f} GiB, the limit is {DENSE_LIMIT / 2**30:.0f} GiB): "
                "use sparse=True, predict_topk(X, k), or fewer rows per call."
            )
        out = np.zeros((n, n_classes), np.float32)
        for _, row, scored in self._calibrated(X):
            out[row, scored.labels] = scored.probabilities
        return out

    @reads
    def candidates(self, X) -> sp.csr_array:
        """Find the classes that are scored for each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Data.

        Returns
        -------
        candidates : csr_array of shape (n_samples, n_classes), bool

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from manyclass import RecallTreeClassifier
        >>> X, y = load_digits(return_X_y=True)
        >>> model = RecallTreeClassifier(n_epochs=2, random_state=0).fit(X[:1500], y[:1500])
        >>> model.candidates(X[1500:]).shape
        (297, 10)
        """
        sizes, labels, _ = map(np.concatenate, zip(*self._scored(self._check_inputs(X)), strict=True))
        return indicator(sizes, labels, len(self._index))

    @reads
    def decision_path(self, X) -> sp.csr_array:
        """Find the nodes of the tree that each row passes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Data.

        Returns
        -------
        path : csr_array of shape (n_samples, n_nodes), bool
            Node 0 is the root. If a model has several trees, these are the nodes of the first. One-against-all has
            no nodes.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from manyclass import RecallTreeClassifier
        >>> X, y = load_digits(return_X_y=True)
        >>> model = RecallTreeClassifier(n_epochs=2, random_state=0).fit(X[:1500], y[:1500])
        >>> path = model.decision_path(X[1500:])
        >>> bool(path[:, [0]].toarray().all())  # all rows pass the root
        True
        """
        X = self._check_inputs(X)
        nodes: list[np.ndarray] = []
        for first, last in blocks(X.shape[0]):
            batch = self._batch(rows_between(X, first, last))
            nodes += self._model.paths(self._prediction_options(), self._state, batch)
        sizes = np.array([len(row) for row in nodes])
        return indicator(sizes, np.concatenate(nodes), self._model.n_nodes(self._state))

    @available_if(lambda estimator: hasattr(estimator._model, "tree_table"))
    @reads
    def tree_table(self, max_depth: int | None = None) -> list[dict]:
        """List the nodes of the tree, parents before children.

        Parameters
        ----------
        max_depth : int, optional
            Deepest level to list; all by default.

        Returns
        -------
        nodes : list of dict
            For each node: `node`, `parent` (-1 for a root), `depth`, `labels` (its candidates or labels, the most
            frequent first) and, except in label trees, `mass` (the weight of the rows that reached it). If a label
            tree has several trees, these are the nodes of the first.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from manyclass import RecallTreeClassifier
        >>> X, y = load_digits(return_X_y=True)
        >>> model = RecallTreeClassifier(n_epochs=2, random_state=0).fit(X[:1500], y[:1500])
        >>> root = model.tree_table(max_depth=0)[0]
        >>> root["node"], root["parent"], root["depth"]
        (0, -1, 0)
        """
        check_is_fitted(self, "_state")
        max_depth = None if max_depth is None else check_integer("max_depth", max_depth, 0)
        nodes = self._model.tree_table(self._state, max_depth)
        return [{**node, "labels": self._index.array[node["labels"]]} for node in nodes]

    @reads
    def diagnose(self, X, y) -> dict[str, float]:
        """Measure accuracy, recall of the candidates and work, averaged over rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Data.
        y : array-like of shape (n_samples,)
            True labels. Labels unknown to the model count as errors.

        Returns
        -------
        metrics : dict of str to float
            `accuracy`; `recall` (share of rows whose label was a candidate); `depth`; `nodes_visited`;
            `routers_scored`; `candidates_scored`; `work` (routers plus candidates).

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from manyclass import RecallTreeClassifier
        >>> X, y = load_digits(return_X_y=True)
        >>> model = RecallTreeClassifier(n_epochs=2, random_state=0).fit(X[:1500], y[:1500])
        >>> metrics = model.diagnose(X[1500:], y[1500:])
        >>> metrics["accuracy"] > 0.8, metrics["work"] == metrics["routers_scored"] + metrics["candidates_scored"]
        (True, True)
        """
        X = self._check_inputs(X)
        truth = self._truth(X, y).label
        found = self._predict(X, 1)
        recalled, n_scored = 0, 0
        for first, last in self._scoring_blocks(X.shape[0]):
            scored = self._score(rows_between(X, first, last))
            recalled += int(np.sum(scored.labels == np.repeat(truth[first:last], scored.sizes)))
            # A label in the lists of two nodes may have been scored twice, but it is one candidate.
            n_scored += int(np.minimum(scored.sizes, found.work[first:last, 3]).sum())
        accuracy = float(np.mean(found.labels[:, 0] == truth))
        return metrics_of(accuracy, recalled / len(truth), found.work, n_scored / len(truth))

    def _truth(self, X, y) -> Labels:
        """The true labels of the rows; -1 where the model does not know one."""
        y = without_padding(y)
        check_labels(y)
        y = column_or_1d(y)
        if len(y) != X.shape[0]:
            raise ValueError(f"X has {X.shape[0]} rows but y has {len(y)}.")
        self._index.check_kind(y)
        return as_labels(self._index.find(y))

    @property
    @reads
    def classes_(self) -> np.ndarray:
        """All labels: sorted by `fit`; `partial_fit` appends new ones and never moves old ones.

        Classes that were removed keep their place; `removed_classes_` lists them.

        Labels that are text have a fixed width, unless a few are so long that the array would be mostly padding. Then
        it is an array of objects.
        """
        self._check_attribute("_index", "classes_")
        return self._index.array

    @property
    @reads
    def progressive_error_(self) -> float:
        """Share of the rows that were predicted wrongly just before they were learned.

        It covers the last epoch of `fit` and all later calls of `partial_fit`, and is NaN if nothing was predicted.
        """
        self._check_attribute("_state", "progressive_error_")
        return progressive_error(self._state["seen"])

    @property
    @reads
    def n_bytes_(self) -> int:
        """Size of the model in bytes."""
        self._check_attribute("_state", "n_bytes_")
        return n_bytes(self._state)

    def _check_attribute(self, needed: str, name: str) -> None:
        if not hasattr(self, needed):
            raise AttributeError(f"This {type(self).__name__} is not fitted yet and has no {name}.")

    def _prediction_options(self) -> Any:
        """The options for predictions: those of training, except options that may be changed afterwards."""
        return self._options

    def _predict(self, X, k: int) -> Predictions:
        """Predictions for all rows, without classes that were removed."""
        if self._index.target is None:
            return self._predict_scored(X, k)
        return current_predictions(
            lambda rows, k: self._predict_scored(X if rows is None else X[rows], k), k, self._index
        )

    def _predict_scored(self, X, k: int) -> Predictions:
        """Predictions for all rows, in blocks over `n_jobs` threads, by the classes that the model scores."""
        n_classes, options, model = len(self._index), self._prediction_options(), self._model
        few = getattr(model, "ROWS_PER_THREAD", 256)
        if X.shape[0] <= (few if k == 1 else 1):  # one call, without the overhead of blocks and threads
            found = model.predict(options, self._state, self._batch(X), k, n_classes)
            _check_scores(found.scores)
            return found

        def predict(block):
            return model.predict(options, self._state, self._batch(rows_between(X, *block)), k, n_classes)

        threads = min(n_threads(self.n_jobs), -(-X.shape[0] // few))
        most = most_rows(self._state, getattr(model, "MOST_ROWS", BLOCK))
        if k > 1:  # keep the scores of all candidates within about 64 MB
            most = min(most, max(1, (1 << 23) // max(1, model.width(options, self._state))))
        ranges = list(blocks(X.shape[0], min(most, -(-X.shape[0] // threads))))
        parts = parallel(predict, ranges, n_jobs=threads)
        found = parts[0] if len(parts) == 1 else Predictions(*map(np.concatenate, zip(*parts, strict=True)))
        _check_scores(found.scores)
        return found

    @reads
    def predictor(self, k=1) -> "Predictor":
        """Return a fast function that predicts single rows with few checks, for services.

        Parameters
        ----------
        k : int, default=1
            Number of labels, at most the number of classes.

        Returns
        -------
        predictor : Predictor
            Call it with one row, a float32 array or a CSR matrix of one row. It returns the k best labels and their
            scores. It follows further training of the model, but keeps the options (such as `beam`) that the model had
            when the predictor was made. Other threads may train the model at the same time, but each thread requires
            its own predictor.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from manyclass import RecallTreeClassifier
        >>> X, y = load_digits(return_X_y=True)
        >>> X = X.astype("float32")
        >>> clf = RecallTreeClassifier(n_epochs=2, random_state=0).fit(X, y)
        >>> predict_one = clf.predictor(k=3)
        >>> labels, scores = predict_one(X[0])
        >>> bool(labels[0] == clf.predict(X[:1])[0])
        True
        """
        check_is_fitted(self, "_state")
        return Predictor(self, self._check_k(k))

    def _check_k(self, k) -> int:
        if check_integer("k", k) > self._index.n_current:
            raise ValueError(f"k={k} is more than the {self._index.n_current} classes of the model.")
        return int(k)

    def _scoring_options(self, beam: int = 0) -> Any:
        """The options for predictions; with `beam`, follow so many paths instead."""
        options = self._prediction_options()
        return options._replace(beam=beam) if beam else options

    def _scoring_blocks(self, n: int, beam: int = 0):
        """Row ranges whose candidates and scores take at most about 50 MB."""
        width = max(1, self._model.width(self._scoring_options(beam), self._state))
        return blocks(n, most_rows(self._state, min(BLOCK, max(1, (1 << 22) // width))))

    def _score(self, X, beam: int = 0) -> Scored:
        found = self._model.score(self._scoring_options(beam), self._state, self._batch(X))
        _check_scores(found.probabilities)
        if self._index.target is None:
            return found
        return current_scores(found, self._index, joint=not self._multilabel)

    def _scored(self, X, beam: int = 0) -> Iterator[Scored]:
        """All candidates with their probabilities before calibration, in blocks; `beam`: see `_scoring_options`."""
        for first, last in self._scoring_blocks(X.shape[0], beam):
            yield self._score(rows_between(X, first, last), beam)

    def _calibrated(self, X) -> Iterator[tuple[slice, np.ndarray, Scored]]:
        """Blocks of rows, the row of each candidate, and the candidates with calibrated probabilities."""
        for first, last in self._scoring_blocks(X.shape[0]):
            scored, _ = self._probabilities(rows_between(X, first, last))
            yield slice(first, last), np.repeat(np.arange(first, last), scored.sizes), scored

    def _probabilities(self, X) -> tuple[Scored, np.ndarray]:
        """All candidates with calibrated probabilities, and for each row the probability of any other label."""
        scored = self._score(X)
        probabilities, other = calibrated(self._state.get("calibration"), scored, self._multilabel)
        return scored._replace(probabilities=probabilities), other

    def _most_probable(self, X, k: int) -> tuple[np.ndarray, np.ndarray]:
        """The k best labels of each row, as `_predict` finds them, and their probabilities."""
        labels = self._predict(X, k).labels
        return labels, self._probabilities_of(X, labels)

    def _by_propensity(self, X, k: int, propensity: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The k labels of the highest probability / propensity, and these ratios; labels not scored are last."""
        labels, ratios = self._predict(X, k).labels, np.zeros((X.shape[0], k))
        for _, row, scored in self._calibrated(X):
            ratio = scored.probabilities / propensity[scored.labels]
            order = np.lexsort((-ratio, row))
            place = np.arange(len(row)) - np.searchsorted(row, row)
            order, place, row = order[place < k], place[place < k], row[place < k]
            labels[row, place], ratios[row, place] = scored.labels[order], ratio[order]
        return labels, ratios

    def _probabilities_of(self, X, labels: np.ndarray) -> np.ndarray:
        """The calibrated probabilities of some labels of each row; 0 for labels that were not scored."""
        out, most = np.empty(labels.shape), max(1, (1 << 22) // labels.shape[1])  # k may be very large
        for first, last in self._scoring_blocks(X.shape[0]):
            for begin, end in blocks(last - first, most):
                part = slice(first + begin, first + end)
                scored, _ = self._probabilities(rows_between(X, part.start, part.stop))
                found = probabilities_of(scored, np.arange(end - begin)[:, None], labels[part])
                out[part] = np.maximum(found, 0.0)
        return out

    def _batch(self, X) -> Batch:
        """The rows for a kernel, in the units of the model."""
        if X.shape[1] != self.n_features_in_:  # the command line and the service do not check the rows that they read
            raise ValueError(f"The rows have {X.shape[1]} features, the model {self.n_features_in_}.")
        return apply(self._state, as_batch(X))

    def _check_inputs(self, X):
        if not hasattr(self, "_state"):  # scikit-learn's own check takes 100 microseconds
            check_is_fitted(self, "_state")
        return X if self._is_ready(X) else self._validated(X, reset=False)

    def _validated(self, X, reset: bool):
        """X as float32 rows in C order or CSR format, or an error."""
        X = self._from_table(X)
        with np.errstate(over="ignore", invalid="ignore"):
            X = validate_data(self, X, accept_sparse="csr", dtype=np.float32, order="C", reset=reset)
        return check_sparse(X)

    def _is_ready(self, X) -> bool:
        """Whether validation would return X unchanged; scikit-learn's validation takes 250 microseconds."""
        sparse = sp.issparse(X)
        if not (sparse or type(X) is np.ndarray) or X.ndim != 2 or X.dtype != _FLOAT32 or X.shape[0] == 0:
            return False
        if X.shape[1] != self.n_features_in_ or hasattr(self, "feature_names_in_"):
            return False
        if sparse:
            return X.format == "csr" and rows_are_sound(X)
        if not X.flags.c_contiguous:
            return False
        values = X.ravel()
        with np.errstate(over="ignore", invalid="ignore"):  # validation looks into a sum that overflows
            return math.isfinite(values.dot(values))


class Predictor:
    """A function that predicts single rows, returned by `predictor` of an estimator.

    A row is a float32 array of `n_features` values, or a float32 CSR matrix of one row; other types of numbers are
    converted. Only its width, its format, the range of its columns and the best score are checked. Other threads may
    train the model at the same time; each thread requires its own predictor.
    """

    def __init__(self, estimator: Any, k: int):
        self._estimator, self._k, self._lock = estimator, k, estimator._lock
        self._prepare()

    def __reduce__(self) -> tuple:
        return Predictor, (self._estimator, self._k)  # a copy has memory of its own

    def _prepare(self) -> None:
        """Prepare all that does not change from row to row."""
        estimator = self._estimator
        model: Model = estimator._model
        options, state = estimator._prediction_options(), estimator._state
        k, n_classes = estimator._check_k(self._k), len(estimator._index)
        self._n_writes, self._labels = self._lock.n_writes, estimator._index.array
        self._target = estimator._index.target
        self._groups, self._n_features = list(state.items()), estimator.n_features_in_
        self._scaled, self._centred = "scaling" in state, is_centred(state)
        if estimator._index.target is not None:
            index = estimator._index

            def predict_current(batch: Batch) -> Predictions:
                return current_predictions(lambda rows, k: model.predict(options, state, batch, k, n_classes), k, index)

            self._predict: Any = predict_current
        elif hasattr(model, "predict_one"):
            self._predict = model.predict_one(options, state, k, n_classes)
        else:
            self._predict = partial(model.predict, options, state, k=k, n_classes=n_classes)

    @reads_row
    def __call__(self, row) -> tuple[np.ndarray, np.ndarray]:
        """The k best labels of a row, best first, and their scores."""
        if self._n_writes != self._lock.n_writes:
            self._follow()
        batch = _one_row(row, self._n_features)
        if self._scaled:
            batch = apply(self._estimator._state, batch, self._centred)
        found = self._predict(batch)
        scores = found.scores[0].copy()
        if not scores[0] < math.inf:  # NaN is not, either
            raise ValueError(
                "The best score of the row is NaN or infinite: it has values that are NaN, infinite or too large."
            )
        return self._labels[found.labels[0]], scores

    def _follow(self) -> None:
        """Prepare again if classes have changed, or training has replaced an array by a larger one."""
        state, n_writes = self._estimator._state, self._lock.n_writes
        same = self._labels is self._estimator._index.array and self._target is self._estimator._index.target
        if not same or any(state.get(name) is not group for name, group in self._groups):
            self._prepare()
        self._n_writes = n_writes  # not before: after an error, the next call prepares again


def _one_row(row, n_features: int) -> Batch:
    """The row as a batch of one."""
    if isinstance(row, np.ndarray):
        if row.size != n_features:
            raise ValueError(f"The row has {row.size} values, the model has {n_features} features. Pass one row.")
        row = np.asarray(row)  # a matrix or a masked array is another type for kernels
        return Dense((row if row.dtype == _FLOAT32 and row.flags.carray else _single(row)).reshape(1, n_features))
    if not isinstance(row, (sp.csr_matrix, sp.csr_array)) or row.shape != (1, n_features):
        got = f"{row.format} of shape {row.shape}" if sp.issparse(row) else type(row).__name__
        raise ValueError(
            f"A row must be an array of {n_features} float32 values, or a CSR matrix of shape (1, {n_features}), "
            f"got {got}."
        )
    indptr, indices, values = row.indptr, row.indices, row.data
    whole = indptr.dtype.kind == indices.dtype.kind == "i"
    if not whole or not is_inside(indptr, indices, len(values), n_features):
        raise ValueError(f"The row is not a valid CSR matrix with columns from 0 to {n_features - 1}.")
    if n_features <= NARROW:
        return as_batch(row)
    return Csr(for_kernels(indptr, np.int64), for_kernels(indices, np.int32), _single(values))


def _single(values: np.ndarray) -> np.ndarray:
    """The values as float32, if they are numbers."""
    if values.dtype.kind not in "biuf":
        raise ValueError(f"The row has values of type {values.dtype}, expected float32.")
    return for_kernels(values, np.float32)


def _check_scores(scores: np.ndarray) -> None:
    if not (scores < np.inf).all():  # NaN is not, either
        raise ValueError(
            "A score is NaN or infinite: X has values far larger than those of the training rows, or training "
            "diverged. Scale X, or fit the model again with a lower learning rate."
        )


def metrics_of(accuracy: float, recall: float, work: np.ndarray, n_candidates: float) -> dict[str, float]:
    """The dictionary that `diagnose` returns."""
    depth, nodes, routers, _ = work.mean(axis=0)
    return {
        "accuracy": accuracy,
        "recall": recall,
        "depth": float(depth),
        "nodes_visited": float(nodes),
        "routers_scored": float(routers),
        "candidates_scored": float(n_candidates),
        "work": float(routers + n_candidates),
    }


def progressive_error(seen) -> float:
    """Share of the weight that was predicted wrongly before it was learned."""
    return float(seen.wrong_mass[0] / seen.mass[0]) if seen.mass[0] > 0 else float("nan")


def n_threads(n_jobs: object) -> int:
    """Number of threads for scikit-learn's `n_jobs`: None is 1, -1 all available cores, -2 all but one.

    Available cores are those that CPU affinity and container limits allow. More than 256 threads are never used.
    """
    if n_jobs is None:
        return 1
    if not isinstance(n_jobs, Integral) or isinstance(n_jobs, bool) or int(n_jobs) == 0:
        raise ValueError(f"n_jobs must be None or an integer other than 0, got {n_jobs!r}.")
    return min(_MOST_THREADS, int(n_jobs) if int(n_jobs) > 0 else max(1, joblib.cpu_count() + 1 + int(n_jobs)))
