"""Calibration: probabilities that agree with the share of correct predictions on held-out rows.

A method is fitted on the candidates of held-out rows (`HeldOut`) and is then a group of arrays of the model. It changes
probabilities, never the order of the labels of a row. True labels outside the candidates are counted: with one label
per row, the probabilities of the candidates and that of any other label sum to 1.
"""

from collections.abc import Iterable
from typing import Annotated, Any, NamedTuple

import numpy as np
from scipy.special import expit, logit

from .invariants import need
from .protocol import Labels, Scored
from .state import Array, Field
from .steps import one_blas_thread

METHODS = ("isotonic", "temperature")
FEWEST = 20  # held-out rows
MOST_CANDIDATES = 1 << 23  # of all held-out rows together, about 64 MB for each array
_SMALLEST, _LARGEST = 1e-30, 1 - 1e-9  # probability, before a logarithm
_POINTS = 101  # where a smooth function is kept, at equal shares of the held-out rows
_MIXED = 1e-3  # weight of the uncalibrated probabilities in isotonic ones, so that different scores stay different
_HEAVIEST = 10.0  # weight of a held-out row
_FLATTEST, _STEEPEST = 1e-3, 1e3  # factor of the logarithms of probabilities


class Temperature(NamedTuple):
    """Scores are linear in the logarithms of probabilities; with one label per row, a softmax follows.

    The best label of a row, its other candidates, and all labels outside the candidates have lines of their own. The
    last one depends on the score of the best label.
    """

    best_factor: Annotated[Array, Field("f8", ("one",), 1)]
    best_shift: Annotated[Array, Field("f8", ("one",), limit=1e6)]
    rest_factor: Annotated[Array, Field("f8", ("one",), 1)]  # 1 / temperature
    rest_shift: Annotated[Array, Field("f8", ("one",), limit=1e6)]
    other_factor: Annotated[Array, Field("f8", ("one",), limit=1e6)]
    other_shift: Annotated[Array, Field("f8", ("one",), limit=1e6)]


class Isotonic(NamedTuple):
    """Three increasing functions of the logarithm of a probability, as points joined by lines."""

    best_at: Annotated[Array, Field("f8", ("best",))]
    best: Annotated[Array, Field("f8", ("best",))]  # probability that the best label of a row is correct
    rest_at: Annotated[Array, Field("f8", ("rest",))]
    rest: Annotated[Array, Field("f8", ("rest",))]  # that any of the other candidates is
    known_at: Annotated[Array, Field("f8", ("known",))]
    known: Annotated[Array, Field("f8", ("known",))]  # that all true labels are candidates, given the best one's score


class HeldOut(NamedTuple):
    """The candidates of held-out rows, row after row."""

    sizes: np.ndarray  # (row,) number of candidates
    probabilities: np.ndarray  # (candidate,) f8, before calibration
    correct: np.ndarray  # (candidate,) bool
    complete: np.ndarray  # (row,) bool: all true labels of the row are candidates
    weight: np.ndarray  # (row,) f8


def held_out(parts: Iterable[Scored], truth: Labels, weights: np.ndarray | None = None) -> HeldOut:
    """Which candidates are true labels; `parts` are the candidates of all rows, in blocks."""
    scored = list(parts)
    sizes, labels, probabilities = (np.concatenate(arrays) for arrays in zip(*scored, strict=True))
    correct = is_true(sizes, labels, truth)
    n_found = np.bincount(np.repeat(np.arange(len(sizes)), sizes), correct, len(sizes))
    weights = np.ones(len(sizes)) if weights is None else weights
    return HeldOut(sizes, probabilities, correct, n_found == np.diff(truth.pointer), weights)


def weights_like_new_rows(labels: Labels, learned: np.ndarray, held: np.ndarray) -> np.ndarray:
    """Weights of held-out rows, such that their labels have been learned from as many rows as those of new rows.

    A label of few rows has lost a large part of them to the held-out rows, so these are harder than new rows are. The
    labels of new rows are assumed to be as frequent as in all rows. Labels are grouped by the number of rows learned.
    """
    n_labels = int(labels.label.max(initial=0)) + 1
    n_learned = np.bincount(labels.rows(learned).label, minlength=n_labels)
    group = np.ceil(2 * np.log2(np.maximum(n_learned, 0.5)) + 2).astype(np.int64)
    own = labels.rows(held)
    expected = np.bincount(group, np.bincount(labels.label, minlength=n_labels)) / max(1, len(labels.label))
    found = np.bincount(group[own.label], minlength=len(expected)) / max(1, len(own.label))
    row = np.repeat(np.arange(len(held)), np.diff(own.pointer))
    n_own = np.bincount(row, minlength=len(held))
    ratio = np.minimum(expected / np.maximum(found, 1e-12), _HEAVIEST)
    weights = np.bincount(row, ratio[group[own.label]], len(held))
    return np.where(n_own > 0, weights / np.maximum(n_own, 1), 1.0)


def is_true(sizes: np.ndarray, labels: np.ndarray, truth: Labels) -> np.ndarray:
    """Whether each candidate is a true label of its row."""
    width = 1 + max(int(labels.max(initial=0)), int(truth.label.max(initial=0)))
    rows = np.repeat(np.arange(len(sizes)), sizes)
    true_rows = np.repeat(np.arange(len(sizes)), np.diff(truth.pointer))
    known = truth.label >= 0  # -1: unknown to the model
    return np.isin(rows * width + labels, (true_rows * width + truth.label)[known])


def probabilities_of(scored: Scored, row: np.ndarray, label: np.ndarray) -> np.ndarray:
    """The probabilities of pairs of a row and a label; -inf for labels that were not scored."""
    width = 1 + max(int(scored.labels.max(initial=0)), int(label.max(initial=0)))
    pairs = np.repeat(np.arange(len(scored.sizes)), scored.sizes) * width + scored.labels
    order = np.argsort(pairs)
    pairs, wanted = np.append(pairs[order], -1), row * width + label
    at = np.searchsorted(pairs[:-1], wanted)
    found = (pairs[at] == wanted) & (label >= 0)  # -1: unknown to the model
    return np.where(found, np.append(scored.probabilities[order], 0.0)[at], -np.inf)


@one_blas_thread
def fit(method: str, rows: HeldOut, several: bool) -> Temperature | Isotonic:
    """The calibration of a method; `several`: rows may have several labels."""
    if method == "isotonic":
        return _fit_isotonic(rows)
    return _fit_several_temperatures(rows) if several else _fit_temperature(rows)


def apply(group: Temperature | Isotonic | None, scored: Scored, several: bool) -> tuple[np.ndarray, np.ndarray]:
    """Calibrated probabilities of the candidates, and for each row that of a true label outside of them."""
    sizes, p, n = scored.sizes, scored.probabilities, len(scored.sizes)
    rows = np.repeat(np.arange(n), sizes)
    if group is None:
        return p, np.zeros(n) if several else np.maximum(0.0, 1.0 - np.bincount(rows, p, n))
    best = best_of(sizes, p)
    top = np.full(n, _SMALLEST)
    top[rows[best]] = p[best]
    if isinstance(group, Isotonic):
        return _apply_isotonic(group, rows, p, best, top, several)
    return _apply_temperature(group, rows, p, best, top, several)


def best_of(sizes: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    """The position of the most probable candidate of each row that has candidates; of equal ones the first."""
    rows, top = np.repeat(np.arange(len(sizes)), sizes), np.full(len(sizes), -np.inf)
    np.maximum.at(top, rows, probabilities)
    at = np.flatnonzero(probabilities == top[rows])
    return at[np.unique(rows[at], return_index=True)[1]]


def _best_and_rest(held: HeldOut) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The row of each candidate, and the positions of the best candidate of each row and of all others."""
    best = best_of(held.sizes, held.probabilities)
    rest = np.delete(np.arange(len(held.probabilities)), best)
    return np.repeat(np.arange(len(held.sizes)), held.sizes), best, rest


def check_calibration(group: Temperature | Isotonic) -> None:
    """ModelFormatError unless probabilities will be probabilities, and increase with the score."""
    if isinstance(group, Temperature):
        for name in ("best_factor", "rest_factor"):
            factor = getattr(group, name)[0]
            fits = _FLATTEST <= factor <= _STEEPEST
            need(fits, f"calibration.{name} is {factor}, outside {_FLATTEST:g}..{_STEEPEST:g}.")
        return
    for name in ("best", "rest", "known"):
        at, value = getattr(group, f"{name}_at"), getattr(group, name)
        need(np.isfinite(at).all() and np.isfinite(value).all(), f"calibration.{name} is not finite.")
        need(len(at) and (np.diff(at) >= 0).all(), f"calibration.{name}_at is empty or not increasing.")
        fits = (np.diff(value) >= 0).all() and value[0] >= 0 and value[-1] <= 1
        need(fits, f"calibration.{name} must increase and lie between 0 and 1.")


# -- isotonic ------------------------------------------------------------------------------------------------------


def _fit_isotonic(rows: HeldOut) -> Isotonic:
    (row, best, rest), scores = _best_and_rest(rows), _log(rows.probabilities)
    weights, complete = rows.weight[row], rows.complete[row[best]]
    margin = 1 / (len(best) + 2)
    best_at, best_value = _smooth(scores[best], rows.correct[best], weights[best], margin)
    rest_at, rest_value = np.zeros((2, 1))
    if len(rest):
        rest_at, rest_value = _increasing(scores[rest], rows.correct[rest], weights[rest])
    known_at, known = _smooth(scores[best], complete, weights[best], margin)
    return Isotonic(best_at, best_value, rest_at, rest_value, known_at, known)


def _smooth(x: np.ndarray, y: np.ndarray, weights: np.ndarray, margin: float) -> tuple[np.ndarray, np.ndarray]:
    """The mean of an isotonic and of a logistic regression, at least `margin` from 0 and 1.

    The logistic one has the terms log p and -log(1 - p), as in beta calibration [Kull et al. 2017]. It varies less with
    the held-out rows, and the isotonic one is right for any form.
    """
    at, value = _increasing(x, y, weights)
    factors, shift = _logistic(_beta_terms(x), y, weights)
    if factors.min() < 0:  # it would not increase
        factor, shift = _line(x, y, weights)
        factors = np.array([factor, 0.0])
    points = np.unique(np.concatenate([at, np.quantile(x, np.linspace(0, 1, _POINTS), method="nearest")]))
    mean = (np.interp(points, at, value) + expit(_beta_terms(points) @ factors + shift)) / 2
    return points, np.clip(np.maximum.accumulate(mean), margin, 1.0 - margin)  # rounding could make it decrease


def _beta_terms(x: np.ndarray) -> np.ndarray:
    return np.stack([x, -np.log1p(-np.minimum(np.exp(x), _LARGEST))], axis=1)


def _increasing(x: np.ndarray, y: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The centres of the blocks of an isotonic regression.

    Lines between the centres are closer to smooth functions than the steps of the blocks [Oron and Flournoy 2017].
    """
    from sklearn.isotonic import isotonic_regression  # takes a while to import

    x, place = np.unique(x, return_inverse=True)
    mass = np.bincount(place, weights)
    fitted = isotonic_regression(np.bincount(place, weights * y) / mass, sample_weight=mass)
    value, block = np.unique(fitted, return_inverse=True)
    return np.bincount(block, mass * x) / np.bincount(block, mass), value


def _apply_isotonic(group: Isotonic, rows, p, best, top, several: bool) -> tuple[np.ndarray, np.ndarray]:
    n, scores = len(top), _log(p)
    out = (1 - _MIXED) * np.interp(scores, group.rest_at, group.rest) + _MIXED * p
    first = (1 - _MIXED) * np.interp(_log(top), group.best_at, group.best) + _MIXED * top
    other = 1.0 - np.interp(_log(top), group.known_at, group.known)
    out[best] = 0.0
    if not several:  # what the best label and the labels outside leave is divided among the rest
        left = np.maximum(0.0, 1.0 - first - other)
        total = np.bincount(rows, out, n)
        out *= (left / np.maximum(total, _SMALLEST))[rows]
    out = np.minimum(out, first[rows])  # the best label stays the best
    out[best] = first[rows[best]]
    if not several:
        other = np.maximum(0.0, 1.0 - np.bincount(rows, out, n))
    return out, other


# -- temperature ---------------------------------------------------------------------------------------------------


def _apply_temperature(group: Temperature, rows, p, best, top, several: bool) -> tuple[np.ndarray, np.ndarray]:
    n, score_of = len(top), _logit if several else _log
    scores = group.rest_factor[0] * score_of(p) + group.rest_shift[0]
    first = group.best_factor[0] * score_of(top) + group.best_shift[0]
    other = group.other_factor[0] * score_of(top) + group.other_shift[0]
    scores[best] = -np.inf
    if several:
        scores = np.minimum(scores, first[rows])  # the best label stays the best
    else:
        np.maximum.at(first, rows, scores)
    scores[best] = first[rows[best]]
    if several:
        return expit(scores), expit(other)
    highest = np.maximum(first, other)
    weights, rest = np.exp(scores - highest[rows]), np.exp(other - highest)
    total = np.bincount(rows, weights, n) + rest
    return weights / total[rows], rest / total


def _fit_temperature(held: HeldOut) -> Temperature:
    """The lines of the largest likelihood."""
    from scipy.optimize import minimize  # takes a while to import

    (rows, best, rest), scores, n = _best_and_rest(held), _log(held.probabilities), len(held.sizes)
    top, right = np.full(n, np.log(_SMALLEST)), np.zeros(n, bool)
    top[rows[best]], right[rows[best]] = scores[best], held.correct[best]
    found = rest[held.correct[rest]]
    scores_found = np.bincount(rows[found], scores[found], n)
    rows, scores = rows[rest], scores[rest]
    outside, share = ~held.complete, held.weight / held.weight.sum()

    def loss(lines: np.ndarray) -> tuple[float, np.ndarray]:
        best_factor, best_shift, factor, other_factor, other_shift = lines
        first, other = best_factor * top + best_shift, other_factor * top + other_shift
        highest = np.maximum(np.maximum(first, other), factor * top)
        weights = np.exp(factor * scores - highest[rows])
        parts = np.exp(first - highest), np.bincount(rows, weights, n), np.exp(other - highest)
        total = sum(parts)
        value = highest + np.log(total) - right * first - factor * scores_found - outside * other
        first, other = parts[0] / total - right, parts[2] / total - outside
        slope = np.bincount(rows, weights * scores, n) / total - scores_found
        return share @ value, np.array([share @ part for part in (first * top, first, slope, other * top, other)])

    start = np.array([1.0, 0.0, 1.0, 0.0, np.log((outside.sum() + 1) / (n + 1))])
    bounds = [(_FLATTEST, _STEEPEST), (-30.0, 30.0), (_FLATTEST, _STEEPEST), (-30.0, 30.0), (-np.log(n + 1), 30.0)]
    found_lines = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x
    return _temperature(*np.insert(found_lines, 3, 0.0))


def _fit_several_temperatures(held: HeldOut) -> Temperature:
    """Logistic regressions on the score: of the best label, of other candidates, and of labels outside of them."""
    (row, best, rest), scores = _best_and_rest(held), _logit(held.probabilities)
    weights, outside = held.weight[row], ~held.complete[row[best]]
    return _temperature(
        *_line(scores[best], held.correct[best], weights[best]),
        *_line(scores[rest], held.correct[rest], weights[rest]),
        *_line(scores[best], outside, weights[best], increasing=False),
    )


def _line(x: np.ndarray, y: np.ndarray, weights: np.ndarray, increasing: bool = True) -> tuple[float, float]:
    """(factor, shift) of a logistic regression on one number."""
    if not len(x):
        return 1.0, 0.0
    (factor,), shift = _logistic(x[:, None], y, weights)
    limited = np.clip(factor, _FLATTEST, _STEEPEST) if increasing else factor
    if limited != factor:  # the mean probability is to stay that of the rows
        share = (weights @ y + 1.0) / (weights.sum() + 2.0)
        shift = float(_logit(np.array(share))) - limited * float(np.average(x, weights=weights))
    return limited, shift


def _logistic(X: np.ndarray, y: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, float]:
    """(factors, shift) of a logistic regression; one row of each kind is added, at the mean."""
    from sklearn.linear_model import LogisticRegression  # takes a while to import

    X, y = np.vstack([X, [X.mean(axis=0)] * 2]), np.append(y, [True, False])
    fitted = LogisticRegression(C=1e6, solver="newton-cholesky").fit(X, y, sample_weight=np.append(weights, [1.0, 1.0]))
    return fitted.coef_[0].copy(), float(fitted.intercept_[0])


def _temperature(*values: Any) -> Temperature:
    return Temperature(*(np.array([float(value)]) for value in values))


def _log(p: np.ndarray) -> np.ndarray:
    return np.log(np.maximum(p, _SMALLEST))


def _logit(p: np.ndarray) -> np.ndarray:
    return logit(np.clip(p, _SMALLEST, 1.0 - 1e-16))
