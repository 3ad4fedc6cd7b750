"""Errors in the data: rows whose label is probably wrong, and labels that are confused, by cross-validation.

The probabilities of a row come from a model that has not seen the row. Rows are ranked by the probability of their
label in relation to how probable it usually is for its rows. If the label of a row is not among its best candidates,
which is so for most wrong labels, the rows whose candidates have the most probability together come first. How many
rows are reported follows from the rows of which the model is most certain, where it is rarely wrong: the share of them
that have another label than predicted is the estimated share of wrong labels. Never more are reported than by confident
learning
(Northcutt, Jiang and Chuang, 2021): rows with another label that is at least as probable as it usually is for its own
rows. Only the best candidates of a row are kept, never a matrix of rows x classes.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.utils import check_random_state

from .classes import ClassIndex
from .options import check_integer
from .validation import as_array, check_before_conversion, check_labels, is_indicator, rows_between, without_padding

_KEPT = 20  # candidates of a row
_FLOOR = 1e-3  # smaller probabilities say little about each other
# Added to the probability of a label: this part of the probability outside the candidates, which ranks labels that are
# not among them; and to its usual probability, so that rare labels do not decide. Chosen on training rows of WordNet
# and CLINC150 with 5 % of the labels replaced (seed 1).
_OUTSIDE, _USUAL = 0.01, 0.1
_CERTAIN, _FEWEST = 0.1, 100  # share and least number of the rows of which the model is most certain


class OutOfFold(NamedTuple):
    """Probabilities of rows by models that have not seen them, row after row."""

    row: np.ndarray  # (candidate,) sorted
    label: np.ndarray  # (candidate,) class numbers
    probability: np.ndarray  # (candidate,)


class Confused(NamedTuple):
    """A pair of labels that are confused."""

    given: Any
    suggested: Any
    n_rows: int  # reported rows that have the first and should have the second
    share: float  # of the rows that have the first


@dataclass(frozen=True)
class LabelIssues:
    """Rows whose label is probably wrong. Returned by `find_label_issues`.

    Attributes
    ----------
    rows : ndarray of int
        The row numbers, the most suspicious first.
    given, suggested : ndarray
        The label of each of these rows, and the label that it probably should have.
    probability, suggested_probability : ndarray of float
        Their probabilities by models that have not seen the row.
    quality : ndarray of shape (n_samples,)
        For every row, the logarithm of a ratio: the probability of its label, divided by the mean probability of this
        label over the rows that have it. Small amounts are added to both, so that neither is 0. Low values are
        suspicious. NaN for rows that cannot be judged, because no other row has their label.
    pairs : list of Confused
        Labels that are confused, the most frequent pair first.
    """

    rows: np.ndarray
    given: np.ndarray
    suggested: np.ndarray
    probability: np.ndarray
    suggested_probability: np.ndarray
    quality: np.ndarray
    pairs: list[Confused]

    def to_dict(self) -> dict[str, np.ndarray]:
        """A table of the reported rows, as columns: `pandas.DataFrame(issues.to_dict())`."""
        return {
            "row": self.rows,
            "given": self.given,
            "suggested": self.suggested,
            "probability": self.probability,
            "suggested_probability": self.suggested_probability,
        }


class LabelIssuesMixin:
    """`find_label_issues` of all classifiers."""

    random_state: Any

    def find_label_issues(self, X, y, cv=5) -> LabelIssues:
        """Find rows whose label is probably wrong, and labels that are confused.

        The rows are divided into `cv` parts, and a copy of this estimator is trained for each part on all others. This
        estimator itself is not trained.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Data.
        y : array-like of shape (n_samples,)
            Labels, one per row.
        cv : int, default=5
            Number of parts, at least 2.

        Returns
        -------
        issues : LabelIssues
            The rows, the most suspicious first, and the pairs of labels.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from manyclass import LabelTreeClassifier
        >>> X, y = load_digits(return_X_y=True)
        >>> y[17] = 3  # the row shows a 7
        >>> issues = LabelTreeClassifier(random_state=0).find_label_issues(X, y, cv=3)
        >>> int(issues.suggested[issues.rows.tolist().index(17)])
        7
        """
        check_integer("cv", cv, 2)
        y = without_padding(y)
        if is_indicator(y):
            raise ValueError("find_label_issues requires one label per row; y is a matrix.")
        check_labels(y)
        y = np.asarray(y).ravel()
        if hasattr(self, "_from_table"):  # texts, for a model of the command line or a pipeline
            X = self._from_table(X)
        check_before_conversion(X)
        X = X.tocsr() if sp.issparse(X) else X if hasattr(X, "iloc") else as_array(X, "X")
        if X.ndim != 2:
            raise ValueError(f"X must be a matrix of shape (n_samples, n_features), got an array of shape {X.shape}.")
        if X.shape[0] != len(y):
            raise ValueError(f"X has {X.shape[0]} rows but y has {len(y)}.")
        if int(cv) > len(y):
            raise ValueError(f"cv={cv} is more than the {len(y)} rows.")
        labels, numbers = np.unique(y, return_inverse=True)
        found = out_of_fold(self, X, y, ClassIndex(labels), folds_of(numbers, int(cv), self.random_state))
        return issues_of(found, numbers, labels)


def folds_of(numbers: np.ndarray, cv: int, random_state: Any) -> np.ndarray:
    """The part of each row, at random; the rows of a class are spread over all parts as evenly as possible."""
    rng = check_random_state(random_state)
    order = np.lexsort((rng.permutation(len(numbers)), numbers))
    folds = np.empty(len(numbers), np.int64)
    folds[order] = np.arange(len(numbers)) % cv
    return folds


def out_of_fold(estimator: Any, X: Any, y: np.ndarray, index: ClassIndex, folds: np.ndarray) -> OutOfFold:
    """The best candidates of every row by a copy of the estimator that was trained on the other parts."""
    parts = []
    for fold in range(int(folds.max()) + 1):
        learned, rows = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
        model = clone(estimator).set_params(calibration=None)  # scores are used before calibration
        if isinstance(model.class_weight, dict):  # those of labels in this part
            known = set(y[learned].tolist())
            model.class_weight = {label: weight for label, weight in model.class_weight.items() if label in known}
        model.fit(_take(X, learned), y[learned])
        model = getattr(model, "estimator_", model)
        held = model._check_inputs(_take(X, rows))
        numbers = index.find(model.classes_)
        for first, last in model._scoring_blocks(len(rows)):
            scored = model._score(rows_between(held, first, last))
            row = np.repeat(rows[first:last], scored.sizes)
            order = np.lexsort((-scored.probabilities, row))
            begins = np.searchsorted(row[order], row[order])
            kept = order[np.arange(len(order)) - begins < _KEPT]
            parts.append((row[kept], numbers[scored.labels[kept]], scored.probabilities[kept]))
    row, label, probability = map(np.concatenate, zip(*parts, strict=True))
    order = np.argsort(row, kind="stable")
    return OutOfFold(row[order], label[order], probability[order])


def _take(X: Any, rows: np.ndarray) -> Any:
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]


def issues_of(found: OutOfFold, numbers: np.ndarray, labels: np.ndarray) -> LabelIssues:
    """Confident learning on the candidates of rows with the given class numbers."""
    n, n_classes, (row, label, probability) = len(numbers), len(labels), found
    own = label == numbers[row]
    given = np.bincount(row[own], probability[own], n)
    counts = np.bincount(numbers, minlength=n_classes)
    judged = counts[numbers] > 1
    # How probable a class usually is for its own rows.
    usual = np.bincount(numbers, given, n_classes) / np.maximum(counts, 1)
    other, suggested = _best(row[~own], label[~own], probability[~own], n)
    sure = probability >= np.maximum(usual[label], _FLOOR)
    confident, chosen = _best(row[sure], label[sure], probability[sure], n)
    n_wrong = int(np.count_nonzero(judged & (confident > given) & (chosen != numbers)))
    left = np.maximum(0.0, 1.0 - np.bincount(row, probability, n))
    ratio = np.log(given + _OUTSIDE * (left + _OUTSIDE)) - np.log(usual[numbers] + _USUAL)
    quality = np.where(judged, ratio, np.nan)
    n_wrong = min(n_wrong, _expected(np.maximum(given, other)[judged], (other > given)[judged]))
    rows = np.argsort(quality, kind="stable")  # NaN comes last
    rows = rows[judged[rows] & (other > given)[rows]][:n_wrong]
    pairs, n_rows = np.unique(np.stack([numbers[rows], suggested[rows]]), axis=1, return_counts=True)
    plain = labels.tolist()
    most = np.argsort(-n_rows, kind="stable")
    return LabelIssues(
        rows=rows,
        given=labels[numbers[rows]],
        suggested=labels[suggested[rows]],
        probability=given[rows],
        suggested_probability=other[rows],
        quality=quality,
        pairs=[
            Confused(plain[a], plain[b], int(number), float(number / counts[a]))
            for a, b, number in zip(*pairs[:, most], n_rows[most], strict=True)
        ],
    )


def _expected(certainty: np.ndarray, differs: np.ndarray) -> int:
    """The number of wrong labels that can be seen, from predictions, their probabilities and whether they differ.

    The share of wrong labels among the most certain predictions is estimated by Laplace's rule, and is never 0.
    """
    certain = np.argsort(-certainty, kind="stable")[: max(_FEWEST, round(_CERTAIN * len(certainty)))]
    share = (np.count_nonzero(differs[certain]) + 1) / (len(certain) + 2)
    return int(np.ceil(share / (1.0 - share) * np.sum(~differs)))


def _best(row: np.ndarray, label: np.ndarray, probability: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """The highest probability of each row and its label; 0 and -1 if there is none."""
    order = np.lexsort((-probability, row))
    first = order[np.diff(row[order], prepend=-1) > 0]
    best, of = np.zeros(n), np.full(n, -1, np.int64)
    best[row[first]], of[row[first]] = probability[first], label[first]
    return best, of
