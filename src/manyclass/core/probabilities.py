"""Calibrated probabilities, sets of labels with a guarantee, and the threshold for a wanted precision."""

from collections.abc import Iterator
from numbers import Real

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError

from ..metrics import precision_threshold
from . import calibration, conformal
from .locks import reads, writes
from .options import as_float, check_flag, check_integer, one_of
from .prediction import PredictionMixin
from .protocol import Labels, Scored
from .validation import indicator, rows_between

CALIBRATION = one_of(*calibration.METHODS, None)  # values of the option `calibration` of all estimators
_FEW_ROWS = 100  # too few to choose the paths of sets on some of them
_HELD_OUT, _MOST_HELD = 0.1, 10_000  # share of the rows that `fit` holds out, and their number at most


class ProbabilityMixin(PredictionMixin):
    """Calibration, sets of labels with a guarantee, and thresholds of a fitted model."""

    @writes
    def calibrate(self, X, y, method="isotonic"):
        """Calibrate probabilities on rows that the model has not learned.

        Afterwards `predict_topk(X, probabilities=True)`, `predict_proba` and `predict(X, reject=...)` use calibrated
        probabilities: on rows like these, about 80 % of the predictions with a probability of 0.8 are correct. The
        order of the labels does not change, so the best labels stay the same. With several labels per row, `predict`
        compares calibrated probabilities with `threshold_`, which is then the best one on these rows if `threshold` is
        "auto".

        The calibration is part of the model: `save` stores it, `partial_fit` keeps it, and `fit` removes it. Calibrate
        again after much further training.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows that the model has not learned, at least 20. A few thousand are enough.
        y : array-like of shape (n_samples,), or matrix of shape (n_samples, n_classes)
            True labels. Labels that the model does not know count as outside the candidates.
        method : {"isotonic", "temperature"}, default="isotonic"
            "isotonic": increasing functions of the score, of any form. "temperature": a softmax of the scores with five
            fitted numbers; with several labels per row, logistic functions. It is often better with fewer than about
            2,000 rows.

        Returns
        -------
        self : object
            The estimator.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from manyclass import RecallTreeClassifier
        >>> from manyclass.metrics import brier_at_k
        >>> X, y = load_digits(return_X_y=True)
        >>> clf = RecallTreeClassifier(n_epochs=2, random_state=0).fit(X[:900], y[:900])
        >>> before = brier_at_k(y[1300:], *clf.predict_topk(X[1300:], k=1, probabilities=True))
        >>> _ = clf.calibrate(X[900:1300], y[900:1300])
        >>> after = brier_at_k(y[1300:], *clf.predict_topk(X[1300:], k=1, probabilities=True))
        >>> after < before
        True
        """
        if method is None or not CALIBRATION.allows(method):
            raise ValueError(f"method must be {one_of(*calibration.METHODS)}, got {method!r}.")
        X = self._check_inputs(X)
        self._fit_calibration(X, self._known_truth(X, y), method)
        return self

    def _known_truth(self, X, y) -> Labels:
        """The true labels; a ValueError if the model knows none of them."""
        truth = self._truth(X, y)
        if len(truth.label) and (truth.label < 0).all():
            example = np.asarray(y).ravel().tolist()[0]
            raise ValueError(f"none of the labels in y, such as {example!r}, is a class of the model.")
        return truth

    def _fit_calibration(self, X, truth: Labels, method: str, weights: np.ndarray | None = None) -> None:
        n = X.shape[0]
        if n < calibration.FEWEST:
            raise ValueError(f"calibration requires at least {calibration.FEWEST} held-out rows, got {n}.")
        width = max(1, self._model.width(self._prediction_options(), self._state))
        most = max(1000, calibration.MOST_CANDIDATES // width)
        if n > most:  # rows at equal distances
            kept = np.linspace(0, n - 1, most).astype(np.int64)
            X, truth, weights = X[kept], truth.rows(kept), None if weights is None else weights[kept]
        rows = calibration.held_out(self._scored(X), truth, weights)
        if not len(rows.probabilities):
            raise ValueError("no row has a candidate to calibrate: all classes that have rows were removed.")
        group = calibration.fit(method, rows, self._multilabel)
        self._state = {**self._state, "calibration": group}

    @reads
    def predict_other(self, X) -> np.ndarray:
        """Predict the probability that a true label of a row is not among its candidates.

        Trees score a few candidates only. Without calibration, all other labels have the probability 0.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Data.

        Returns
        -------
        probabilities : ndarray of shape (n_samples,)
            With one label per row, this number and the probabilities of the candidates sum to 1.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from sklearn.utils import shuffle
        >>> from manyclass import RecallTreeClassifier
        >>> X, y = shuffle(*load_digits(return_X_y=True), random_state=0)
        >>> clf = RecallTreeClassifier(n_epochs=2, calibration="temperature", random_state=0).fit(X, y)
        >>> total = clf.predict_proba(X).sum(axis=1) + clf.predict_other(X)
        >>> bool(abs(total - 1).max() < 1e-5)
        True
        """
        X = self._check_inputs(X)
        blocks = self._scoring_blocks(X.shape[0])
        return np.concatenate([self._probabilities(rows_between(X, *rows))[1] for rows in blocks])

    @writes
    def conformal(self, X, y, coverage=0.9, by_class=False, n_clusters=8):
        """Choose a threshold such that the sets of `predict_set` contain the true label with a stated probability.

        The guarantee holds for rows from the same distribution as X, on average over the choice of these rows (split
        conformal prediction). It does not depend on how good the model is; a better model has smaller sets. The
        guarantee ends with `partial_fit`: call `conformal` again after further training.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows that the model has not learned.
        y : array-like of shape (n_samples,), or matrix of shape (n_samples, n_classes)
            True labels. A set cannot contain a label that is not among the candidates of its row. With 100 rows or
            more, every fifth row is used to choose the number of paths, and the others to choose the threshold. If more
            than (1 - `coverage`) / 2 of the true labels are classes of the model but not candidates, `predict_set`
            follows more paths: twice the `beam`, four times, and so on up to the largest `beam` of the estimator.
            `conformal_` has the number of paths and the cost. A ValueError is raised if the candidates are still not
            enough.
        coverage : float, default=0.9
            Probability that the set of a row contains its true label. With several labels per row: the share of the
            true labels of a row that its set contains, on average.
        by_class : bool, default=False
            The coverage holds for groups of similar labels, so that hard labels are covered as often as easy ones; only
            with one label per row. Labels with fewer than about 2.5 / (1 - coverage) rows are one group.
        n_clusters : int, default=8
            With `by_class`, the maximum number of other groups. A group has at least 200 rows on average.

        Returns
        -------
        self : object
            The estimator.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from sklearn.utils import shuffle
        >>> from manyclass import RecallTreeClassifier
        >>> X, y = shuffle(*load_digits(return_X_y=True), random_state=0)
        >>> clf = RecallTreeClassifier(n_epochs=2, random_state=0).fit(X[:900], y[:900])
        >>> sets = clf.conformal(X[900:1300], y[900:1300], coverage=0.8).predict_set(X[1300:])
        >>> bool(sets[range(497), y[1300:]].mean() > 0.75)
        True
        """
        if not isinstance(coverage, Real) or not 0 < as_float(coverage) < 1:
            raise ValueError(f"coverage must be a number above 0 and below 1, got {coverage!r}.")
        check_flag("by_class", by_class)
        check_integer("n_clusters", n_clusters)
        X = self._check_inputs(X)
        if by_class and self._multilabel:
            raise ValueError("by_class=True requires one label per row, but y is a matrix.")
        truth, n_classes = self._known_truth(X, y), len(self._index)
        beam, rest = self._paths_for_sets(X, truth, float(coverage))
        true = conformal.true_labels(self._scored(X[rest], beam), truth.rows(rest))
        if by_class:
            group = conformal.fit_by_class(true, float(coverage), n_classes, int(n_clusters))
        else:
            group = conformal.fit(true, float(coverage), n_classes)
        self._state = {**self._state, "conformal": group._replace(beam=np.array([beam]))}
        return self

    def _paths_for_sets(self, X, truth: Labels, coverage: float) -> tuple[int, np.ndarray]:
        """(paths to follow for sets, 0 if there are none; the rows that did not choose them)."""
        every, most = np.arange(X.shape[0]), getattr(self._model, "MOST_PATHS", 0)
        beam = best = int(getattr(self._prediction_options(), "beam", 0))
        if not 0 < beam < most or len(every) < _FEW_ROWS:
            return beam, every
        chosen = every[::5]
        rows, labels, before = X[chosen], truth.rows(chosen), (2.0, 0.0)
        while beam <= most:
            true = conformal.true_labels(self._scored(rows, beam), labels)
            if (true.unreached, true.n_candidates) == before:  # more paths reach nothing new
                break
            best, before = beam, (true.unreached, true.n_candidates)
            if conformal.enough_paths(true, coverage):
                break
            beam = min(2 * beam, most) if beam < most else most + 1
        return best, np.delete(every, chosen)

    @property
    @reads
    def conformal_(self) -> dict[str, float]:
        """What `conformal` has chosen: `coverage`, `beam` (0: no paths), `n_candidates` (mean per row)."""
        self._check_attribute("_state", "conformal_")
        if "conformal" not in self._state:
            raise AttributeError(f"This {type(self).__name__} has no conformal_: call conformal(X, y, coverage).")
        group = self._state["conformal"]
        coverage, beam, n_candidates = (getattr(group, name)[0] for name in ("coverage", "beam", "n_candidates"))
        return {"coverage": float(coverage), "beam": int(beam), "n_candidates": float(n_candidates)}

    @reads
    def predict_set(self, X) -> sp.csr_array:
        """Predict a set of labels for each row that contains the true one with the probability given to `conformal`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Data.

        Returns
        -------
        sets : csr_array of shape (n_samples, n_classes), bool
            `classes_[sets[[i]].indices]` are the labels of row i. A set is empty if no label is probable enough.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from sklearn.utils import shuffle
        >>> from manyclass import RecallTreeClassifier
        >>> X, y = shuffle(*load_digits(return_X_y=True), random_state=0)
        >>> clf = RecallTreeClassifier(n_epochs=2, random_state=0).fit(X[:900], y[:900])
        >>> sets = clf.conformal(X[900:1300], y[900:1300], coverage=0.8).predict_set(X[1300:])
        >>> sets.shape
        (497, 10)
        """
        sizes, labels, _ = map(np.concatenate, zip(*self._sets(self._check_inputs(X)), strict=True))
        return indicator(sizes, labels, len(self._index))

    def _sets(self, X) -> Iterator[Scored]:
        """The labels in the sets, with their probabilities before calibration, in blocks."""
        group = self._state.get("conformal")
        if group is None:
            raise NotFittedError(
                f"This {type(self).__name__} has no threshold for sets: call conformal(X, y, coverage) with rows "
                "that it has not learned. `fit`, and classes that are removed or merged, end an earlier one."
            )
        for sizes, labels, probabilities in self._scored(X, int(group.beam[0])):
            inside = conformal.in_set(group, labels, probabilities)
            row = np.repeat(np.arange(len(sizes)), sizes)[inside]
            yield Scored(np.bincount(row, minlength=len(sizes)), labels[inside], probabilities[inside])

    @reads
    def rejection_threshold(self, X, y, precision=0.95, confidence=0.95) -> float:
        """Find the lowest probability above which predictions have a wanted precision, for `predict(X, reject=...)`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows that the model has not learned and that were not used to calibrate it.
        y : array-like of shape (n_samples,), or matrix of shape (n_samples, n_classes)
            True labels. With several labels per row, the best prediction is correct if it is one of them.
        precision : float, default=0.95
            Wanted share of correct predictions.
        confidence : float, default=0.95
            Probability, over the choice of the rows, that the precision is reached. `metrics.precision_threshold` has
            the details.

        Returns
        -------
        threshold : float
            A ValueError is raised if no threshold has the precision with this confidence.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from sklearn.utils import shuffle
        >>> from manyclass import RecallTreeClassifier
        >>> X, y = shuffle(*load_digits(return_X_y=True), random_state=0)
        >>> clf = RecallTreeClassifier(n_epochs=2, random_state=0).fit(X[:900], y[:900])
        >>> threshold = clf.rejection_threshold(X[900:1300], y[900:1300], precision=0.9)
        >>> labels = clf.predict(X[1300:], reject=threshold)
        >>> bool((labels == y[1300:]).mean() > 0.9)
        True
        """
        X = self._check_inputs(X)
        truth = self._known_truth(X, y)
        labels, probabilities = self._most_probable(X, 1)
        correct = calibration.is_true(np.ones(X.shape[0], np.int64), labels[:, 0], truth)
        return max(0.0, precision_threshold(correct, probabilities[:, 0], precision, confidence))


def rows_to_hold_out(labels: Labels, weights: np.ndarray, rng) -> tuple[np.ndarray, np.ndarray]:
    """(rows to learn, rows to hold out). Rows of weight 0, and a random other row of each label, are not held out."""
    n = len(weights)
    order = rng.permutation(n)
    place = np.empty(n, np.int64)
    place[order] = np.arange(n)
    place[weights <= 0] = -1
    last = np.full(int(labels.label.max(initial=0)) + 1, -1)
    np.maximum.at(last, labels.label, np.repeat(place, np.diff(labels.pointer)))
    free = weights > 0
    free[order[last[last >= 0]]] = False
    held = order[free[order]][: min(_MOST_HELD, int(n * _HELD_OUT))]
    if len(held) < calibration.FEWEST:
        raise ValueError(
            f"the option calibration holds out a tenth of the rows and leaves a row of each label: that gives "
            f"{len(held)} rows of {n}, at least {calibration.FEWEST} are required. Train without "
            "calibration, or with more rows."
        )
    mask = np.zeros(n, bool)
    mask[held] = True
    return np.flatnonzero(~mask), np.flatnonzero(mask)
