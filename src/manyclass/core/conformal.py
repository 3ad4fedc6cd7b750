"""Sets of labels that contain the true label with a stated probability: split conformal prediction on candidates.

A label is in the set of a row if its probability is at least a threshold. The threshold is chosen on rows that the
model has not learned, such that the sets of further rows from the same distribution contain the stated share of the
true labels on average. With several labels per row, the share is counted per row and averaged (conformal risk control,
Angelopoulos et al. 2024). A true label outside the candidates is in no set, whatever the threshold.
"""

import math
from typing import Annotated, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from .calibration import is_true
from .invariants import need, need_range
from .protocol import Labels, Scored
from .state import Array, Field

_LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9)  # quantiles of the scores of a label by which labels are grouped
_ROWS_PER_CLUSTER = 200  # on average
_ROUNDING = 1e-9


class Conformal(NamedTuple):
    """Lowest probabilities of labels in a set, one for each group of labels."""

    coverage: Annotated[Array, Field("f8", ("one",))]
    threshold: Annotated[Array, Field("f8", ("cluster",))]  # the first is that of labels with too few rows for a group
    cluster: Annotated[Array, Field("i4", ("label",))]  # of each label; newer labels are in the first


class TrueLabels(NamedTuple):
    """The true labels of held-out rows, row after row, with the probabilities that they got."""

    row: np.ndarray
    label: np.ndarray
    probability: np.ndarray  # -inf if the label was no candidate
    n_rows: int


def true_labels(scored: list[Scored], truth: Labels) -> TrueLabels:
    """The true labels of rows whose candidates are given in blocks."""
    sizes, labels, probabilities = (np.concatenate(arrays) for arrays in zip(*scored, strict=True))
    n = len(sizes)
    row = np.repeat(np.arange(n), np.diff(truth.pointer))
    found = is_true(sizes, labels, truth)
    width = 1 + max(int(labels.max(initial=0)), int(truth.label.max(initial=0)))
    keys = np.repeat(np.arange(n), sizes)[found] * width + labels[found]
    order = np.argsort(keys)
    keys, values = np.append(keys[order], -1), np.append(probabilities[found][order], 0.0)
    wanted = row * width + truth.label
    at = np.searchsorted(keys[:-1], wanted)
    return TrueLabels(row, truth.label, np.where((keys[at] == wanted) & (truth.label >= 0), values[at], -np.inf), n)


def fit(true: TrueLabels, coverage: float, n_classes: int) -> Conformal:
    """One threshold for all labels."""
    threshold = _threshold(true, coverage, "")
    return Conformal(np.array([coverage]), np.array([threshold]), np.zeros(n_classes, np.int32))


def fit_by_class(true: TrueLabels, coverage: float, n_classes: int, n_clusters: int) -> Conformal:
    """Thresholds of groups of labels with similar scores [Ding et al. 2023]; half of the rows choose the groups."""
    half = np.random.default_rng(0).permutation(true.n_rows) < true.n_rows // 2
    grouping, rest = _part(true, half), _part(true, ~half)
    overall = _threshold(rest, coverage, "")
    counts = np.bincount(grouping.label[grouping.label >= 0], minlength=n_classes)[:n_classes]
    many = np.flatnonzero(counts >= math.ceil(1 / (1 - coverage)))
    n_clusters = min(n_clusters, len(many) // 2, rest.n_rows // _ROWS_PER_CLUSTER)
    cluster, thresholds = np.zeros(n_classes, np.int32), [overall]
    if n_clusters > 1:
        from sklearn.cluster import KMeans  # takes a while to import

        order = np.argsort(grouping.label, kind="stable")
        ends = np.searchsorted(grouping.label[order], many, side="right")
        scores = 1.0 - np.maximum(grouping.probability[order], -1.0)  # a missing candidate is the worst
        levels = sorted({*_LEVELS, coverage})
        quantiles = [
            np.quantile(scores[end - counts[label] : end], levels) for label, end in zip(many, ends, strict=True)
        ]
        kmeans = KMeans(n_clusters, random_state=0, n_init=4)
        with threadpool_limits(1):  # the last bits depend on the number of threads
            cluster[many] = 1 + kmeans.fit_predict(np.array(quantiles), sample_weight=np.sqrt(counts[many]))
        inside = np.where((rest.label >= 0) & (rest.label < n_classes), rest.label, -1)
        group = np.where(inside >= 0, cluster[inside], 0)
        for number in range(1, n_clusters + 1):
            own = group == number
            n_own = int(own.sum())
            part = TrueLabels(np.arange(n_own), rest.label[own], rest.probability[own], n_own)
            what = f" for a group of {int((cluster == number).sum())} of the {n_classes} labels"
            thresholds.append(_threshold(part, coverage, what))
    return Conformal(np.array([coverage]), np.array(thresholds), cluster)


def in_set(group: Conformal, labels: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    """Which candidates are in the sets of their rows."""
    known = labels < len(group.cluster)
    cluster = np.where(known, group.cluster[np.where(known, labels, 0)], 0)
    return probabilities >= group.threshold[cluster]


def check_conformal(group: Conformal, n_classes: int) -> None:
    """ModelFormatError unless each label has a threshold that is a probability."""
    need(0 < group.coverage[0] < 1, f"conformal.coverage is {group.coverage[0]}, not between 0 and 1.")
    fits = len(group.threshold) and group.threshold.min() >= 0 and group.threshold.max() <= 1
    need(fits, "conformal.threshold has no number, or one outside 0..1.")
    need(1 <= len(group.cluster) <= n_classes, f"conformal.cluster has {len(group.cluster)} of {n_classes} labels.")
    need_range("conformal.cluster", group.cluster, 0, len(group.threshold))


def _part(true: TrueLabels, rows: np.ndarray) -> TrueLabels:
    """The labels of some rows, given as a mask."""
    own = rows[true.row]
    return TrueLabels((np.cumsum(rows) - 1)[true.row[own]], true.label[own], true.probability[own], int(rows.sum()))


def _threshold(true: TrueLabels, coverage: float, what: str) -> float:
    """The highest threshold with the coverage; ValueError if there is none."""
    n, share = true.n_rows, 1.0 / np.bincount(true.row, minlength=1)[true.row]
    may_miss = (1.0 - coverage) * (n + 1) - 1.0 + _ROUNDING  # labels, counted by their share of a row
    if may_miss < 0:
        needed = math.ceil(1.0 / (1.0 - coverage) - 1.0 - _ROUNDING)
        raise ValueError(f"coverage={coverage}{what} requires at least {needed} rows to choose a threshold, got {n}.")
    order = np.argsort(true.probability, kind="stable")
    missed = np.cumsum(share[order])
    at = int(np.searchsorted(missed, may_miss, side="right"))
    if at == len(order):  # rows without labels: even empty sets miss few enough
        return 1.0
    if true.probability[order[at]] == -np.inf:
        outside = share[true.probability == -np.inf].sum() / n
        raise ValueError(
            f"coverage={coverage}{what} cannot be reached: {outside:.1%} of the true labels are not among the "
            "candidates of their rows, so the threshold would be infinite. Use a lower coverage, or let the model "
            "score more candidates (such as a larger beam)."
        )
    return float(true.probability[order[at]])
