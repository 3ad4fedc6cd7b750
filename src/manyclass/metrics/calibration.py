"""Metrics of probabilities: calibration errors, log loss, and the share of rows that can be predicted at a risk."""

from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from scipy.special import betainc

from .ranking import find_hits

_SMALLEST = 1e-15  # probability, before a logarithm
_STARTS, _TESTS = 5, 100  # of the search for a threshold


class RiskCoverage(NamedTuple):
    """The risk-coverage curve, from the most certain predictions to all of them.

    Attributes
    ----------
    coverage : ndarray
        Share of the rows that are predicted.
    risk : ndarray
        Share of these predictions that are wrong.
    threshold : ndarray
        The lowest probability among them.

    Examples
    --------
    >>> from manyclass.metrics import risk_coverage
    >>> curve = risk_coverage([True, False], [0.9, 0.6])
    >>> curve.coverage.tolist(), curve.risk.tolist()
    ([0.5, 1.0], [0.0, 0.5])
    """

    coverage: np.ndarray
    risk: np.ndarray
    threshold: np.ndarray

    def area(self) -> float:
        """Mean risk over all coverages; less is better."""
        return float(np.average(self.risk, weights=np.diff(self.coverage, prepend=0.0)))

    def coverage_at(self, precision: float) -> float:
        """The largest share of rows that are predicted with at least this precision; 0 if there is none."""
        return float(self.coverage[self.risk <= 1.0 - precision + 1e-12].max(initial=0.0))


def ece_at_k(
    Y_true: Any, top_labels: Any, probabilities: Any, k: int = 1, n_bins: int = 10, classes: Any = None
) -> float:
    """Compute ECE@k, the expected calibration error of the first k predictions.

    The k predictions of all rows are sorted by probability into bins of equal size. The error is the mean over the bins
    of the absolute difference between the mean probability and the share of correct predictions.

    Parameters
    ----------
    Y_true, top_labels, k
        See `precision_at_k`.
    probabilities : array-like of float of shape (n_rows, at least k)
        Probability of each prediction, as returned by `predict_topk(X, k, probabilities=True)`.
    n_bins : int, default=10
        Number of bins; fewer if there are fewer predictions.
    classes : array-like, optional
        All labels, such as `classes_`, if `Y_true` and `top_labels` are labels of any kind instead of class ids.

    Returns
    -------
    float
        ECE@k, between 0 and 1. With n predictions, perfect probabilities have an ECE@k of about 0.4 * sqrt(n_bins / n).

    Examples
    --------
    >>> from manyclass.metrics import ece_at_k
    >>> round(ece_at_k([0, 1], [[0], [0]], [[0.9], [0.3]], n_bins=2), 3)
    0.2
    >>> round(ece_at_k(["a", "b"], [["a"], ["a"]], [[0.9], [0.3]], n_bins=2, classes=["a", "b"]), 3)
    0.2
    """
    return calibration_error(*_pairs(Y_true, top_labels, probabilities, k, classes), n_bins)


def calibration_error(probability: np.ndarray, correct: np.ndarray, n_bins: int = 10) -> float:
    """ECE@k from the probability of each prediction, and whether it is correct."""
    mean, share, size = _bins(probability, correct, n_bins)
    return float(np.average(np.abs(mean - share), weights=size))


def brier_at_k(Y_true: Any, top_labels: Any, probabilities: Any, k: int = 1, classes: Any = None) -> float:
    """Compute Brier@k, the mean squared difference between probability and correctness of the first k predictions.

    Parameters
    ----------
    Y_true, top_labels, probabilities, k, classes
        See `ece_at_k`.

    Returns
    -------
    float
        Brier@k, between 0 and 1; less is better.

    Examples
    --------
    >>> from manyclass.metrics import brier_at_k
    >>> round(brier_at_k([0, 1], [[0], [0]], [[0.9], [0.3]]), 3)
    0.05
    """
    probability, correct = _pairs(Y_true, top_labels, probabilities, k, classes)
    return float(np.mean((probability - correct) ** 2))


def log_loss_with_other(Y_true: Any, top_labels: Any, probabilities: Any, classes: Any = None) -> float:
    """Compute the log loss of the listed labels, with all labels that are not listed as one outcome.

    Parameters
    ----------
    Y_true : array-like of int of shape (n_rows,)
        True class ids.
    top_labels, probabilities : array-like of shape (n_rows, k)
        Class ids and their probabilities. All other labels together have the probability 1 minus their sum.
    classes : array-like, optional
        See `ece_at_k`.

    Returns
    -------
    float
        The mean of -log(probability of the outcome); less is better. Probabilities below 1e-15 count as 1e-15.

    Examples
    --------
    The label of the second row is not listed:

    >>> from manyclass.metrics import log_loss_with_other
    >>> round(log_loss_with_other([0, 2], [[0, 1], [0, 1]], [[0.8, 0.1], [0.3, 0.2]]), 3)
    0.458
    """
    truth, top, hits = find_hits(*_ids(Y_true, top_labels, classes), np.shape(top_labels)[-1])
    if truth.is_matrix:
        raise ValueError("Y_true is a matrix; the log loss requires one label per row.")
    listed = _read_probabilities(probabilities, top)
    found = (listed * hits).sum(axis=1)
    other = 1.0 - listed.sum(axis=1)
    return float(-np.log(np.maximum(np.where(hits.any(axis=1), found, other), _SMALLEST)).mean())


def risk_coverage(correct: Any, probabilities: Any) -> RiskCoverage:
    """Compute the risk-coverage curve: the error among the most certain predictions, for each share of the rows.

    Parameters
    ----------
    correct : array-like of bool of shape (n_rows,)
        Whether each prediction is correct.
    probabilities : array-like of float of shape (n_rows,)
        Probability of each prediction; any score that is larger for more certain predictions will do.

    Returns
    -------
    RiskCoverage
        Arrays `coverage`, `risk` and `threshold` with one entry per different probability, `area()` and
        `coverage_at(precision)`.

    Examples
    --------
    >>> from manyclass.metrics import risk_coverage
    >>> curve = risk_coverage([True, True, False, True], [0.9, 0.8, 0.3, 0.6])
    >>> curve.coverage.tolist(), curve.risk.tolist()
    ([0.25, 0.5, 0.75, 1.0], [0.0, 0.0, 0.0, 0.25])
    >>> curve.coverage_at(precision=0.95)
    0.75
    """
    correct, probability = _read_certainty(correct, probabilities)
    order = np.argsort(-probability, kind="stable")
    last = np.append(np.diff(probability[order]) != 0, True)  # rows of equal probability are accepted together
    n = np.arange(1, len(order) + 1)
    wrong = np.cumsum(~correct[order])
    return RiskCoverage((n / len(order))[last], (wrong / n)[last], probability[order][last])


def precision_threshold(correct: Any, probabilities: Any, precision: float = 0.95, confidence: float = 0.95) -> float:
    """Find the lowest probability above which predictions have a wanted precision, with a guarantee.

    Thresholds are tested in a fixed order, from few certain predictions to many, by exact binomial tests, until one
    fails. There are five starting points, each with a fifth of the allowed chance of error. If more certain predictions
    are not less precise, the precision above the returned threshold is at least the wanted one, with the given
    confidence over the choice of the rows.

    Parameters
    ----------
    correct, probabilities
        See `risk_coverage`. Rows that the model has not learned, and that were not used to calibrate it.
    precision : float, default=0.95
        Wanted share of correct predictions, above 0 and below 1.
    confidence : float, default=0.95
        Probability that the precision is reached, above 0 and below 1.

    Returns
    -------
    float
        Predictions with a probability above it are accepted; -inf if all are.

    Raises
    ------
    ValueError
        If no threshold has the precision with this confidence.

    Examples
    --------
    >>> import numpy as np
    >>> from manyclass.metrics import precision_threshold
    >>> probability = np.arange(1000) / 1000
    >>> correct = np.random.default_rng(0).random(1000) < np.sqrt(probability)
    >>> threshold = precision_threshold(correct, probability, precision=0.9)
    >>> bool(0.6 < threshold < 0.85)
    True
    """
    for name, value in (("precision", precision), ("confidence", confidence)):
        if not isinstance(value, Real) or not 0 < value < 1:
            raise ValueError(f"{name} must be a number above 0 and below 1, got {value!r}.")
    correct, probability = _read_certainty(correct, probabilities)
    n, level = len(correct), (1.0 - confidence) / _STARTS
    order = np.argsort(-probability, kind="stable")
    fewest = int(np.ceil(np.log(level) / np.log(precision)))  # all of so many predictions must be correct
    sizes = np.unique(np.linspace(min(fewest, n), n, _TESTS).astype(np.int64))
    # A row is accepted if it is above the first row that is not: the accepted rows are then independent of it.
    thresholds = np.append(probability[order], -np.inf)[sizes]
    accepted = np.searchsorted(-probability[order], -thresholds, side="left")
    hits = np.append(0, np.cumsum(correct[order]))[accepted]
    chance = np.where(hits > 0, betainc(np.maximum(hits, 1), accepted - hits + 1, precision), 1.0)  # of so many hits
    failed = np.append(np.flatnonzero(chance > level), len(sizes))
    starts = len(sizes) * np.arange(_STARTS) // _STARTS
    ends = failed[np.searchsorted(failed, starts)]
    if not (ends > starts).any():
        raise ValueError(
            f"no threshold has a precision of {precision} with confidence {confidence} on these {n} rows: use more "
            f"rows (at least {fewest} must be predicted), a lower precision, or a lower confidence."
        )
    return float(thresholds[ends[ends > starts].max() - 1])


def reliability_plot(
    Y_true: Any,
    top_labels: Any,
    probabilities: Any,
    k: int = 1,
    n_bins: int = 10,
    ax: Any = None,
    label: str = "",
    classes: Any = None,
) -> Any:
    """Draw a reliability diagram: the share of correct predictions against their probability, in bins of equal size.

    Parameters
    ----------
    Y_true, top_labels, probabilities, k, n_bins, classes
        See `ece_at_k`.
    ax : matplotlib Axes, optional
        Where to draw; by default on a new figure.
    label : str, optional
        Name of the curve in the legend; the ECE@k is added.

    Returns
    -------
    matplotlib Axes
        `ax.figure.savefig(path)` writes it to a file.

    Examples
    --------
    >>> from manyclass.metrics import reliability_plot
    >>> ax = reliability_plot([0, 1], [[0], [0]], [[0.9], [0.3]], n_bins=2)
    >>> ax.get_ylabel()
    'share of correct predictions'
    """
    ax = _axes(ax, "probability", "share of correct predictions")
    pairs = _pairs(Y_true, top_labels, probabilities, k, classes)
    (mean, share, _), error = _bins(*pairs, n_bins), calibration_error(*pairs, n_bins)
    if not ax.lines:
        ax.plot([0, 1], [0, 1], color="#8a8f98", linestyle="--", linewidth=1)
    ax.plot(mean, share, marker="o", markersize=4, linewidth=1.5, label=f"{label} ECE@{k} {error:.3f}".strip())
    ax.set(xlim=(0, 1.02), ylim=(0, 1.02))
    ax.legend(frameon=False, fontsize=9)
    return ax


def risk_coverage_plot(curve: RiskCoverage, ax: Any = None, label: str | None = None) -> Any:
    """Draw the share of wrong predictions against the share of rows that are predicted.

    Parameters
    ----------
    curve : RiskCoverage
        As returned by `risk_coverage`.
    ax : matplotlib Axes, optional
        Where to draw; by default on a new figure.
    label : str, optional
        Name of the curve in the legend.

    Returns
    -------
    matplotlib Axes
        `ax.figure.savefig(path)` writes it to a file.

    Examples
    --------
    >>> from manyclass.metrics import risk_coverage, risk_coverage_plot
    >>> ax = risk_coverage_plot(risk_coverage([True, False], [0.9, 0.3]))
    >>> ax.get_xlabel()
    'share of rows predicted'
    """
    ax = _axes(ax, "share of rows predicted", "share of wrong predictions")
    ax.plot(curve.coverage, curve.risk, linewidth=1.5, label=label)
    ax.set_xlim(0, 1.02)
    ax.set_ylim(bottom=0)
    if label is not None:
        ax.legend(frameon=False, fontsize=9)
    return ax


def _ids(Y_true: Any, top_labels: Any, classes: Any) -> tuple[Any, Any]:
    """Class ids of true and of predicted labels; a true label that is not in `classes` is correct for no prediction."""
    if classes is None:
        return Y_true, top_labels
    if getattr(Y_true, "ndim", 1) != 1:
        raise ValueError("classes is for one label per row, but Y_true is a matrix: its columns are the class ids.")
    classes, truth, top = np.asarray(classes), np.asarray(Y_true), np.asarray(top_labels)
    order = np.argsort(classes, kind="stable")
    found = []
    for labels in (truth, top):
        at = order[np.minimum(np.searchsorted(classes, labels, sorter=order), len(classes) - 1)]
        found.append(np.where(classes[at] == labels, at, len(classes)))
    unknown = top[found[1] == len(classes)]
    if len(unknown):
        raise ValueError(f"top_labels contains {unknown[0].item()!r}, which is not in classes.")
    return found[0], found[1]


def _pairs(
    Y_true: Any, top_labels: Any, probabilities: Any, k: int, classes: Any = None
) -> tuple[np.ndarray, np.ndarray]:
    """Probability and correctness of the first k predictions of all rows; places without a label are left out."""
    _, top, hits = find_hits(*_ids(Y_true, top_labels, classes), k)
    probability = _read_probabilities(probabilities, top)
    return probability[top >= 0], hits[top >= 0]


def _read_certainty(correct: Any, probabilities: Any) -> tuple[np.ndarray, np.ndarray]:
    """Check the two arrays of a risk-coverage curve."""
    correct, probability = np.asarray(correct), np.asarray(probabilities, np.float64)
    if correct.ndim != 1 or correct.shape != probability.shape or not len(correct):
        raise ValueError(
            f"correct and probabilities must be 1-D arrays of one length above 0, got shapes {correct.shape} and "
            f"{probability.shape}."
        )
    if np.isnan(probability).any():
        raise ValueError(f"probabilities contains NaN in row {int(np.isnan(probability).argmax())}.")
    return correct.astype(bool), probability


def _read_probabilities(probabilities: Any, top: np.ndarray) -> np.ndarray:
    """Check probabilities and return those of the given predictions."""
    array = np.asarray(probabilities, np.float64)
    if array.ndim != 2 or array.shape[0] != top.shape[0] or array.shape[1] < top.shape[1]:
        raise ValueError(
            f"probabilities has shape {array.shape}, expected {top.shape}: one number for each prediction."
        )
    array = array[:, : top.shape[1]]
    wrong = np.argwhere(~((array >= 0) & (array <= 1 + 1e-6)))
    if len(wrong):
        row, column = wrong[0].tolist()
        raise ValueError(
            f"probabilities must be between 0 and 1, got {array[row, column]} in row {row}; pass probabilities=True to "
            "predict_topk."
        )
    return array


def _bins(probability: np.ndarray, correct: np.ndarray, n_bins: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean probability, share of correct predictions and size of bins of equal size, in order of probability."""
    if n_bins < 1:
        raise ValueError(f"n_bins must be at least 1, got {n_bins}.")
    if not len(probability):
        raise ValueError("there are no predictions: all places of top_labels are -1.")
    _, tie = np.unique(probability, return_inverse=True)  # the order of rows of equal probability must not matter
    correct = (np.bincount(tie, correct) / np.bincount(tie))[tie]
    order = np.argsort(probability, kind="stable")
    edges = np.unique(np.linspace(0, len(order), min(n_bins, len(order)) + 1).astype(np.int64))
    starts, size = edges[:-1], np.diff(edges)
    sums = (np.add.reduceat(values[order].astype(np.float64), starts) for values in (probability, correct))
    mean, share = (total / size for total in sums)
    return mean, share, size


def figure_class() -> Any:
    """Matplotlib's Figure."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("plots require matplotlib: pip install 'manyclass[plot]'") from error
    return Figure


def _axes(ax: Any, x: str, y: str) -> Any:
    """The axes, or those of a new figure that no window shows."""
    if ax is None:
        ax = figure_class()(figsize=(5, 4), layout="constrained").subplots()
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    ax.spines[["top", "right"]].set_visible(False)
    return ax
