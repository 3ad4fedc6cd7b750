"""Sets of labels that contain the true label with a stated probability: split conformal prediction on candidates.

A label is in the set of a row if its probability is at least a threshold. The threshold is chosen on rows that the
model has not learned, such that the sets of further rows from the same distribution contain the stated share of the
true labels on average. With several labels per row, the share is counted per row and averaged (conformal risk control,
Angelopoulos et al. 2024). A true label outside the candidates is in no set, whatever the threshold: trees follow more
paths for sets than for predictions if the coverage requires it.
"""

import math
from collections.abc import Iterable
from typing import Annotated, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from .calibration import probabilities_of
from .invariants import need, need_range
from .protocol import Labels, Scored
from .state import Array, Field

_LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9)  # quantiles of the scores of a label by which labels are grouped
_ROWS_PER_CLUSTER = 200  # on average
_ROUNDING = 1e-9


class Conformal(NamedTuple):
    """Lowest probabilities of labels in a set, one for each group of labels."""

    coverage: Annotated[Array, Field("f8", ("one",))]
    threshold: Annotated[Array, Field("f8", ("cluster",))]  # the first is that of all labels without a group
    cluster: Annotated[Array, Field("i4", ("label",))]  # of each label; newer labels are in the first
    beam: Annotated[Array, Field("i8", ("one",))]  # paths to follow; 0: as many as for predictions (older files)
    n_candidates: Annotated[Array, Field("f8", ("one",))]  # mean number of labels scored per row


class TrueLabels(NamedTuple):
    """The true labels of held-out rows, row after row, with the probabilities that they got."""

    row: np.ndarray
    label: np.ndarray
    probability: np.ndarray  # -inf if the label was no candidate
    n_rows: int
    n_candidates: float  # of a row, on average

    @property
    def missing(self) -> float:
        """The share of the true labels that are no candidates, averaged over rows."""
        return float(_shares(self)[self.probability == -np.inf].sum()) / max(1, self.n_rows)

    @property
    def unreached(self) -> float:
        """`missing` without labels that are unknown to the model; more paths may find the rest."""
        known = (self.probability == -np.inf) & (self.label >= 0)
        return float(_shares(self)[known].sum()) / max(1, self.n_rows)


def true_labels(parts: Iterable[Scored], truth: Labels) -> TrueLabels:
    """The true labels of rows whose candidates are given in blocks."""
    n_rows, found, n_candidates = 0, [], 0
    for part in parts:
        n = len(part.sizes)
        own = truth.rows(np.arange(n_rows, n_rows + n))
        found.append(probabilities_of(part, np.repeat(np.arange(n), np.diff(own.pointer)), own.label))
        n_rows, n_candidates = n_rows + n, n_candidates + int(part.sizes.sum())
    row = np.repeat(np.arange(n_rows), np.diff(truth.pointer))
    return TrueLabels(row, truth.label, np.concatenate(found), n_rows, n_candidates / max(1, n_rows))


def enough_paths(true: TrueLabels, coverage: float) -> bool:
    """Whether sets can be small: labels outside the candidates are at most half of the labels that sets may miss."""
    return true.unreached <= (1.0 - coverage) / 2


def fit(true: TrueLabels, coverage: float, n_classes: int) -> Conformal:
    """One threshold for all labels."""
    return _group(true, coverage, [_threshold(true, coverage, "")], np.zeros(n_classes, np.int32))


def _group(true: TrueLabels, coverage: float, thresholds: list[float], cluster: np.ndarray) -> Conformal:
    """The group of arrays; the caller sets `beam`."""
    no_beam, n_candidates = np.zeros(1, np.int64), np.array([true.n_candidates])
    return Conformal(np.array([coverage]), np.array(thresholds), cluster, no_beam, n_candidates)


def fit_by_class(true: TrueLabels, coverage: float, n_classes: int, n_clusters: int) -> Conformal:
    """Thresholds of groups of labels with similar scores [Ding et al. 2023]; half of the rows choose the groups."""
    half = np.random.default_rng(0).permutation(true.n_rows) < true.n_rows // 2
    grouping, rest = _part(true, half), _part(true, ~half)
    thresholds, cluster = [_threshold(rest, coverage, "")], np.zeros(n_classes, np.int32)
    counts = np.bincount(grouping.label[grouping.label >= 0], minlength=n_classes)[:n_classes]
    many = np.flatnonzero(counts >= math.ceil(1 / (1 - coverage)))
    n_clusters = min(n_clusters, len(many) // 2, rest.n_rows // _ROWS_PER_CLUSTER)
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
        thresholds += [0.0] * n_clusters
        inside = np.where((rest.label >= 0) & (rest.label < n_classes), rest.label, -1)
        for number in [*range(1, n_clusters + 1), 0]:
            own = np.where(inside >= 0, cluster[inside], 0) == number
            n_own, n_labels = int(own.sum()), int((cluster == number).sum())
            if n_own >= _fewest_rows(coverage):
                part = TrueLabels(np.arange(n_own), rest.label[own], rest.probability[own], n_own, rest.n_candidates)
                thresholds[number] = _threshold(part, coverage, f" for a group of {n_labels} of the {n_classes} labels")
            elif number:  # its labels join those with too few rows for a group
                cluster[cluster == number] = 0
    return _group(true, coverage, thresholds, cluster)


def in_set(group: Conformal, labels: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    """Which candidates are in the sets of their rows."""
    known = labels < len(group.cluster)
    cluster = np.where(known, group.cluster[np.where(known, labels, 0)], 0)
    return probabilities >= group.threshold[cluster]


def check_conformal(group: Conformal, n_classes: int, most_paths: int) -> None:
    """ModelFormatError unless each label has a threshold that is a probability."""
    need(0 < group.coverage[0] < 1, f"conformal.coverage is {group.coverage[0]}, not between 0 and 1.")
    fits = len(group.threshold) and group.threshold.min() >= 0 and group.threshold.max() <= 1
    need(fits, "conformal.threshold has no number, or one outside 0..1.")
    need(1 <= len(group.cluster) <= n_classes, f"conformal.cluster has {len(group.cluster)} of {n_classes} labels.")
    need_range("conformal.cluster", group.cluster, 0, len(group.threshold))
    need_range("conformal.beam", group.beam, 0, most_paths + 1)
    need(group.n_candidates[0] >= 0, f"conformal.n_candidates is {group.n_candidates[0]}, below 0.")


def _part(true: TrueLabels, rows: np.ndarray) -> TrueLabels:
    """The labels of some rows, given as a mask."""
    own = rows[true.row]
    return TrueLabels(
        (np.cumsum(rows) - 1)[true.row[own]], true.label[own], true.probability[own], int(rows.sum()), true.n_candidates
    )


def _shares(true: TrueLabels) -> np.ndarray:
    """The share of each true label in the labels of its row."""
    return 1.0 / np.bincount(true.row, minlength=1)[true.row]


def _fewest_rows(coverage: float) -> int:
    """Rows that a threshold requires."""
    return math.ceil(1.0 / (1.0 - coverage) - 1.0 - _ROUNDING)


def _threshold(true: TrueLabels, coverage: float, what: str) -> float:
    """The highest threshold with the coverage; ValueError if there is none."""
    n, share = true.n_rows, _shares(true)
    may_miss = (1.0 - coverage) * (n + 1) - 1.0 + _ROUNDING  # labels, counted by their share of a row
    if may_miss < 0:
        fewest = _fewest_rows(coverage)
        raise ValueError(f"coverage={coverage}{what} requires at least {fewest} rows to choose a threshold, got {n}.")
    order = np.argsort(true.probability, kind="stable")
    missed = np.cumsum(share[order])
    at = int(np.searchsorted(missed, may_miss, side="right"))
    if at == len(order):  # rows without labels: even empty sets miss few enough
        return 1.0
    if true.probability[order[at]] == -np.inf:
        raise ValueError(
            f"coverage={coverage}{what} cannot be reached: {true.missing:.1%} of the true labels are not among the "
            "candidates of their rows, or the model does not know them. Use a lower coverage, more rows, or rows with "
            "labels that the model has learned."
        )
    return float(true.probability[order[at]])
