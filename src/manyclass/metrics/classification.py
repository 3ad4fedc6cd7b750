"""Metrics per class, counted over rows that arrive in parts, so that a file of any size can be evaluated.

Classes are ids 0, 1, ... Memory grows with the number of classes and of different errors, not with rows x classes.
"""

from collections import Counter
from typing import Any

import numpy as np
import scipy.sparse as sp

from .matrices import as_labels


class ClassCounts:
    """For each class, how often it occurs, is predicted, and is predicted correctly.

    Attributes
    ----------
    true, predicted, correct : ndarray of int of shape (n_classes,)
        The counts.
    precision, recall, f1 : ndarray of float of shape (n_classes,)
        Metrics of each class; 0 where they are not defined.
    micro_f1 : float
        F1 of all predictions together. With one label and one prediction per row it is the accuracy.
    macro_f1 : float
        Mean F1 of the classes that occur or are predicted, as in scikit-learn.

    Examples
    --------
    >>> from manyclass.metrics import ClassCounts
    >>> counts = ClassCounts(3)
    >>> counts.add([0, 0, 1], [0, 1, 1])
    >>> counts.add([2], [2])
    >>> counts.recall.tolist(), counts.micro_f1
    ([0.5, 1.0, 1.0], 0.75)
    """

    def __init__(self, n_classes: int = 0) -> None:
        self.true, self.predicted, self.correct = (np.zeros(n_classes, np.int64) for _ in range(3))

    def add(self, Y_true: Any, Y_pred: Any) -> None:
        """Count more rows.

        Parameters
        ----------
        Y_true, Y_pred : array-like of int of shape (n_rows,), or sparse matrices of shape (n_rows, n_classes)
            Class ids, or indicator matrices of zeros and ones. An id of -1 in `Y_pred` means no prediction.
        """
        if sp.issparse(Y_true):
            Y_true, Y_pred = as_labels(Y_true, "Y_true"), as_labels(Y_pred, "Y_pred")
            n = max(Y_true.shape[1], Y_pred.shape[1])
            Y_true.resize(Y_true.shape[0], n)
            Y_pred.resize(Y_pred.shape[0], n)
            parts = [Y_true.indices, Y_pred.indices, Y_true.multiply(Y_pred).tocsr().indices]
        else:
            Y_true, Y_pred = np.asarray(Y_true), np.asarray(Y_pred)
            if Y_true.ndim != 1 or Y_true.shape != Y_pred.shape:
                raise ValueError(
                    f"Y_true has shape {Y_true.shape} and Y_pred {Y_pred.shape}: pass one class id per row, or sparse "
                    "matrices."
                )
            parts = [Y_true, Y_pred[Y_pred >= 0], Y_true[Y_true == Y_pred]]
        n = max(len(self.true), *(int(part.max(initial=-1)) + 1 for part in parts))
        counts = zip((self.true, self.predicted, self.correct), parts, strict=True)
        self.true, self.predicted, self.correct = (
            np.bincount(part, minlength=n) + np.pad(old, (0, n - len(old))) for old, part in counts
        )

    @property
    def precision(self) -> np.ndarray:
        """Share of the predictions of each class that are correct."""
        return self.correct / np.maximum(self.predicted, 1)

    @property
    def recall(self) -> np.ndarray:
        """Share of the rows of each class for which it is predicted."""
        return self.correct / np.maximum(self.true, 1)

    @property
    def f1(self) -> np.ndarray:
        """Harmonic mean of precision and recall of each class."""
        return 2 * self.correct / np.maximum(self.true + self.predicted, 1)

    @property
    def micro_f1(self) -> float:
        """F1 of all predictions together."""
        return float(2 * self.correct.sum() / max(1, self.true.sum() + self.predicted.sum()))

    @property
    def macro_f1(self) -> float:
        """Mean F1 of the classes that occur or are predicted."""
        return float(self.f1.sum() / max(1, np.count_nonzero(self.true + self.predicted)))


class Confusions:
    """How often one class is predicted instead of another.

    Examples
    --------
    >>> from manyclass.metrics import Confusions
    >>> confusions = Confusions()
    >>> confusions.add([0, 0, 1, 2], [1, 1, 1, 0])
    >>> confusions.most_common(1)
    [(0, 1, 2)]
    """

    def __init__(self) -> None:
        self._counts: Counter[tuple[int, int]] = Counter()

    def add(self, y_true: Any, y_pred: Any) -> None:
        """Count the errors among more rows, given as class ids."""
        y_true, y_pred = np.asarray(y_true), np.asarray(y_pred)
        wrong = y_true != y_pred
        self._counts.update(zip(y_true[wrong].tolist(), y_pred[wrong].tolist(), strict=True))

    def most_common(self, n: int | None = None) -> list[tuple[int, int, int]]:
        """The most frequent errors: true class, predicted class, number of rows."""
        return [(true, predicted, count) for (true, predicted), count in self._counts.most_common(n)]


class Reliability:
    """Accuracy of predictions by their probability, in bins of equal width: the numbers of a reliability diagram.

    Attributes
    ----------
    counts, confidence, accuracy : ndarray of shape (n_bins,)
        Number of predictions, mean probability and share of correct predictions; 0 for an empty bin.
    error : float
        Expected calibration error: the mean difference between probability and accuracy of a bin.

    Examples
    --------
    >>> from manyclass.metrics import Reliability
    >>> reliability = Reliability(n_bins=2)
    >>> reliability.add([0.9, 0.9, 0.3], [True, False, False])
    >>> round(reliability.error, 3)
    0.367
    """

    def __init__(self, n_bins: int = 10) -> None:
        self.counts, self._confidence, self._correct = np.zeros((3, n_bins))

    def add(self, probabilities: Any, correct: Any) -> None:
        """Count more predictions: the probability of each, and whether it is correct."""
        probabilities, n = np.asarray(probabilities, np.float64), len(self.counts)
        bins = np.clip((probabilities * n).astype(np.int64), 0, n - 1)
        self.counts += np.bincount(bins, minlength=n)
        self._confidence += np.bincount(bins, probabilities, n)
        self._correct += np.bincount(bins, np.asarray(correct, np.float64), n)

    @property
    def confidence(self) -> np.ndarray:
        """Mean probability of each bin."""
        return self._confidence / np.maximum(self.counts, 1)

    @property
    def accuracy(self) -> np.ndarray:
        """Share of correct predictions of each bin."""
        return self._correct / np.maximum(self.counts, 1)

    @property
    def error(self) -> float:
        """Expected calibration error."""
        return float(np.abs(self._confidence - self._correct).sum() / max(1.0, self.counts.sum()))


class ThresholdSearch:
    """Micro-F1 of all labels with a probability above a threshold, for thresholds 0, 0.001, ..., 0.999.

    Examples
    --------
    >>> from manyclass.metrics import ThresholdSearch
    >>> search = ThresholdSearch()
    >>> search.add([0.9, 0.4, 0.2], [True, True, False], n_true=2)
    >>> search.best()
    (0.2, 1.0)
    """

    _STEPS = 1000

    def __init__(self) -> None:
        self._predicted, self._correct = np.zeros((2, self._STEPS), np.int64)
        self._n_true = 0

    def add(self, probabilities: Any, correct: Any, n_true: int) -> None:
        """Count more rows.

        Parameters
        ----------
        probabilities, correct : array-like of shape (n_scored,)
            Probability of each label that was scored, and whether the row has it.
        n_true : int
            Number of labels that the rows have, scored or not.
        """
        steps = np.ceil(np.asarray(probabilities, np.float64) * self._STEPS).astype(np.int64) - 1
        kept = steps >= 0
        steps = np.minimum(steps[kept], self._STEPS - 1)
        self._predicted += np.bincount(steps, minlength=self._STEPS)
        self._correct += np.bincount(steps[np.asarray(correct, bool)[kept]], minlength=self._STEPS)
        self._n_true += n_true

    def __add__(self, other: "ThresholdSearch") -> "ThresholdSearch":
        """The counts of the rows of both."""
        both = ThresholdSearch()
        for name, count in vars(self).items():
            setattr(both, name, count + getattr(other, name))
        return both

    @property
    def f1(self) -> np.ndarray:
        """Micro-F1 at each threshold."""
        predicted, correct = (counts[::-1].cumsum()[::-1] for counts in (self._predicted, self._correct))
        return 2 * correct / np.maximum(1, predicted + self._n_true)

    def best(self) -> tuple[float, float]:
        """The lowest threshold with the highest micro-F1, and this F1."""
        f1 = self.f1
        return int(f1.argmax()) / self._STEPS, float(f1.max())
