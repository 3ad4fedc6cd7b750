"""Label tree: nearest training rows. A label of several shapes is not found by one weight vector.

The model keeps training rows. The best labels of the tree are ranked again by

    factor x score - slope x log(offset + squared distance to the nearest row of the label).

Minus half the number of features times this logarithm estimates the logarithm of the density of the label's rows, up to
a constant. Distances are those of the rows as they are, or after a linear map that makes the differences between rows
of the same label alike in all directions (`maps`). `fit` chooses the map and the numbers on rows that it holds out at a
sample of leaves, and keeps no rows unless these make their labels more likely. `partial_fit` adds rows of labels that
have fewer than `most_rows`. For dense rows with one label each.
"""

from collections.abc import Iterable, Iterator
from typing import Annotated, NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax

from ..core.columns import dense
from ..core.inputs import Batch
from ..core.invariants import need, need_range
from ..core.state import Array, Field, make, resize
from ..jit import device, kernel

BEST = 20  # labels that are ranked again
_MOST_ROWS, _MOST_VALUES = 128, 1 << 15  # kept per label: so many rows, more if they have few values
MOST_BYTES = 1 << 28  # of all kept rows
FEWEST_ROWS = 2  # kept per label on average; fewer say little
_AT_A_TIME = 1 << 20  # distances in memory together
_SHORTEST = 1e-30  # squared distance, so that float32 arithmetic is possible
_OFFSET = 0.01  # times the median distance, so that a repeated row does not decide alone
_LEAST_FACTOR = 0.01  # of scores, so that they keep their order
_LEAST_LIKELIER = 5.0  # rise of the log-likelihood of held-out rows; 2 is significant for one parameter
# Rise per row. Where it is lower, 0.003 to 0.01, accuracy changes by -0.3 to +0.5 points on other rows.
_LEAST_GAIN = 0.01
_SHRINKAGES = (0.5, 0.1)  # shares of the identity in the covariance that is inverted
_LEAST_DEVIATION = 0.1  # of a column, relative to the root mean square of all columns
_WIDEST = 256  # features up to which covariances are used: beyond, they take much of the time of `fit`
_FOR_COVARIANCE = 1 << 22  # values from which one is estimated
_FURTHEST = np.float32(1e17)  # of a mapped value, so that squared distances are finite


class Neighbors(NamedTuple):
    """Training rows, those of a label as a linked list, and the weight of their distances."""

    KEEPS_ROWS = True  # type: ignore[misc]  # see `kept_rows`; mypy allows fields only

    row: Annotated[Array, Field("f4", ("row", "feature"))]
    before: Annotated[Array, Field("i8", ("row",), -1)]  # the next row of the label, which came before; -1: none
    last: Annotated[Array, Field("i8", ("class",), -1)]  # the first row of each label's list; -1: none
    size: Annotated[Array, Field("i8", ("class",))]  # rows of each label
    n_rows: Annotated[Array, Field("i8", ("one",))]
    factor: Annotated[Array, Field("f8", ("one",), 1)]
    slope: Annotated[Array, Field("f8", ("one",))]
    offset: Annotated[Array, Field("f8", ("one",))]  # 0: without the logarithm, as in models of version 0.1.0
    # The map of rows before distances: nothing, one factor per column, or the lower triangle of a matrix.
    map: Annotated[Array, Field("f4", ("axis", "feature"))]


class Ranking(NamedTuple):
    """How scores and distances are combined."""

    factor: float
    slope: float
    offset: float
    map: np.ndarray | None = None


def most_rows(n_features: int) -> int:
    """Rows that are kept per label."""
    return max(_MOST_ROWS, _MOST_VALUES // n_features)


def kept_bytes(n_rows: int, n_features: int, n_classes: int) -> int:
    """The most bytes of the rows that a model keeps, and of their map."""
    n_axes = n_features if n_features <= _WIDEST else 1
    return min(MOST_BYTES, 4 * n_features * min(n_rows, n_classes * most_rows(n_features))) + 4 * n_features * n_axes


def no_neighbors(n_features: int, ranking: Ranking) -> Neighbors:
    """No rows yet."""
    n_axes = 0 if ranking.map is None else len(ranking.map)
    out: Neighbors = make(Neighbors, row=0, feature=n_features, axis=n_axes, **{"class": 1})
    out.factor[0], out.slope[0], out.offset[0] = ranking.factor, ranking.slope, ranking.offset
    if ranking.map is not None:
        out.map[:] = ranking.map
    return out


def with_rows(neighbors: Neighbors, values: np.ndarray, labels: np.ndarray) -> Neighbors:
    """With the rows of labels that do not have enough yet, in the given order, as long as all take `MOST_BYTES`."""
    n_features = neighbors.row.shape[1]
    most, most_of_label = MOST_BYTES // (4 * n_features), most_rows(n_features)
    full = np.append(neighbors.size >= most_of_label, False)  # the last place: labels that have no rows yet
    wanted = ~full[np.minimum(labels, len(full) - 1)]
    values, labels = values[wanted], labels[wanted]
    n_rows, n_classes = int(neighbors.n_rows[0]) + len(labels), int(labels.max(initial=0)) + 1
    spare = n_rows // 2 if neighbors.n_rows[0] else 0
    sizes = {"row": min(most, n_rows + spare)} if n_rows > len(neighbors.before) else {}
    if n_classes > len(neighbors.last):
        sizes["class"] = n_classes + n_classes // 2
    neighbors = resize(neighbors, **sizes)
    add_rows(neighbors, mapped(neighbors.map, values), labels, most_of_label)
    return neighbors


@kernel
def add_rows(neighbors, values, labels, most):
    """Append rows to the lists of their labels, while there is space. Mutates: neighbors. Cost: O(features) per row."""
    for i in range(len(labels)):
        label, at = labels[i], neighbors.n_rows[0]
        if neighbors.size[label] < most and at < len(neighbors.before):
            neighbors.row[at] = values[i]
            neighbors.before[at], neighbors.last[label] = neighbors.last[label], at
            neighbors.size[label] += 1
            neighbors.n_rows[0] = at + 1


def rows_to_keep(label: np.ndarray, weights: np.ndarray, n_features: int, n_classes: int, seed: int) -> np.ndarray:
    """A random sample of the rows of each label, sorted by label; empty if there would be too few per label."""
    n_labels = len(np.unique(label))
    most = min(most_rows(n_features), MOST_BYTES // (4 * n_features * n_labels))
    order = np.random.default_rng(seed).permutation(np.flatnonzero(weights > 0))
    order = order[np.argsort(label[order], kind="stable")]
    begins = np.searchsorted(label[order], np.arange(n_classes))
    order = order[np.arange(len(order)) - begins[label[order]] < most]
    return order if len(order) >= FEWEST_ROWS * n_labels else order[:0]


def nearest(rows: np.ndarray, others: np.ndarray, group: np.ndarray, n_groups: int) -> np.ndarray:
    """Squared distances (row, group) to the nearest of the other rows of each group; `group` is sorted.

    A group without rows gets the distance of the nearest group.
    """
    others = others.astype(np.float64)
    lengths = (others**2).sum(axis=1)
    present, first = np.unique(group, return_index=True)
    out = np.full((len(rows), n_groups), np.inf)
    at_a_time = max(1, _AT_A_TIME // len(others))
    for begin in range(0, len(rows), at_a_time):
        own = rows[begin : begin + at_a_time].astype(np.float64)
        squares = (own**2).sum(axis=1)[:, None] + lengths - 2 * own @ others.T
        out[begin : begin + len(own), present] = np.minimum.reduceat(np.maximum(squares, 0.0), first, axis=1)
    return np.where(np.isinf(out), out.min(axis=1, keepdims=True), out)


def maps(values: np.ndarray, labels: np.ndarray) -> Iterator[np.ndarray | None]:
    """The maps that `fit` tries: none, and those that make the covariance within labels more like the identity.

    Columns are used as they are, or divided by their standard deviation within labels. A large share of the identity is
    for covariances that are not the same for all labels, or of few rows.
    """
    yield None
    n_features = values.shape[1]
    values, labels = (array[:: 1 + values.size // _FOR_COVARIANCE] for array in (values, labels))
    label, rows_of = np.unique(labels, return_inverse=True)
    means = np.zeros((len(label), n_features))
    np.add.at(means, rows_of, values)
    rest = values - (means / np.bincount(rows_of)[:, None])[rows_of]
    deviation = np.sqrt((rest**2).mean(axis=0))
    typical = np.sqrt((deviation**2).mean())
    if not _SHORTEST < typical**2 < 1 / _SHORTEST:
        return
    rest /= typical
    factors = 1 / np.maximum(deviation / typical, _LEAST_DEVIATION)
    covariance = rest.T @ rest / len(rest) if n_features <= _WIDEST else None
    for factor in (np.ones(n_features), factors):
        if factor is factors:
            yield (factor / typical).astype(np.float32)[None]
        if covariance is not None:
            for share in _SHRINKAGES:
                own = (1 - share) * factor[:, None] * covariance * factor
                own[np.diag_indices(n_features)] += share * np.trace(covariance * factor**2) / n_features
                yield np.tril(np.linalg.inv(np.linalg.cholesky(own)) * (factor / typical)).astype(np.float32)


def product(linear: np.ndarray | None, values: np.ndarray) -> np.ndarray:
    """`mapped` in less time for many rows; the last bits depend on how many there are."""
    if linear is None:
        return values
    return values * linear if len(linear) == 1 else values @ linear.T


def mapped(linear: np.ndarray | None, values: np.ndarray) -> np.ndarray:
    """The rows after the map."""
    if linear is None or not len(linear):
        return values
    out = np.empty(values.shape, np.float32)
    apply_map(linear, values, out)
    return out


def mapped_rows(neighbors: Neighbors, batch: Batch) -> np.ndarray:
    """The same from a batch, which may be sparse."""
    return mapped(neighbors.map, dense(batch, neighbors.row.shape[1]).values)


@kernel
def apply_map(linear, values, out):
    """Mutates: out. Cost: O(features^2) per row, or O(features) with one factor per column."""
    n_features = values.shape[1]
    for i in range(len(values)):
        for a in range(n_features):
            if linear.shape[0] == n_features:
                total = np.float32(0.0)
                for f in range(a + 1):
                    total += linear[a, f] * values[i, f]
            else:
                total = linear[0, a] * values[i, a]
            out[i, a] = min(max(total, -_FURTHEST), _FURTHEST)


def best_ranking(
    scores: np.ndarray, distances: Iterable[tuple[np.ndarray | None, np.ndarray]], true: np.ndarray
) -> Ranking | None:
    """The ranking with the highest likelihood of the true labels; None unless distances raise it enough.

    `scores` and the distances after each map are (row, label), `true` is the position of the true label in each row. A
    later map is taken only if it is clearly better: the first ones take less time in predictions.
    """
    best, highest = None, 0.0
    for linear, own in distances:
        gain, ranking = _ranking(scores, own, true)
        if gain > highest + _LEAST_LIKELIER:
            best, highest = ranking._replace(map=linear), gain
    return best if highest > _LEAST_GAIN * len(true) else None


def _ranking(scores: np.ndarray, distances: np.ndarray, true: np.ndarray) -> tuple[float, Ranking]:
    """By how much distances raise the log-likelihood of the true labels at best, and the ranking."""
    at = np.arange(len(true))
    unit = float(np.median(distances[at, true])) if len(true) else 0.0
    if not _SHORTEST < unit < 1 / _SHORTEST:
        return 0.0, Ranking(1.0, 0.0, 0.0)
    usable = np.isfinite(scores)
    known, logs = np.where(usable, scores, 0.0), np.log(_OFFSET + distances / unit)

    def loss(values: np.ndarray) -> tuple[float, np.ndarray]:
        score = np.where(usable, values[0] * known - values[1] * logs, -np.inf)
        rest = softmax(score, axis=1)
        rest[at, true] -= 1.0
        slopes = np.array([(rest * known).sum(), -(rest * logs).sum()])
        return float((logsumexp(score, axis=1) - score[at, true]).sum()), slopes

    without, found = (
        minimize(loss, [1.0, 0.0], jac=True, method="L-BFGS-B", bounds=[(_LEAST_FACTOR, None), (0.0, steepest)])
        for steepest in (0.0, None)
    )
    return without.fun - found.fun, Ranking(float(found.x[0]), float(found.x[1]), _OFFSET * unit)


@device
def _squared_distance(x, other):
    """Cost: O(features)."""
    total = np.float32(0.0)
    for f in range(len(x)):
        total += (x[f] - other[f]) ** 2
    return total


@kernel
def rank_again(neighbors, values, labels, scores, work):
    """Combine the scores of each row with the distances, and sort its best labels again.

    `values` are the mapped rows. A label without rows gets the distance of the nearest label; labels beyond the `BEST`
    first get the largest distance and stay where they are. Mutates: labels, scores, work. Cost: O(BEST x most_rows x
    features) per row.
    """
    distance = np.empty(BEST, np.float32)
    for i in range(len(labels)):
        n = 0
        while n < min(BEST, labels.shape[1]) and labels[i, n] >= 0:
            n += 1
        smallest, largest = np.float32(np.inf), np.float32(-1.0)
        for c in range(n):
            distance[c] = np.inf
            label = labels[i, c]
            k = neighbors.last[label] if label < len(neighbors.last) else -1
            while k >= 0:
                distance[c] = min(distance[c], _squared_distance(values[i], neighbors.row[k]))
                work[i, 3] += 1
                k = neighbors.before[k]
            smallest = min(smallest, distance[c])
            if distance[c] < np.inf:
                largest = max(largest, distance[c])
        for c in range(labels.shape[1]):
            scores[i, c] *= neighbors.factor[0]
        if largest < 0:
            continue
        for c in range(labels.shape[1]):
            own = largest if c >= n else smallest if distance[c] == np.inf else distance[c]
            term = np.log(neighbors.offset[0] + own) if neighbors.offset[0] > 0 else np.float64(own)
            scores[i, c] -= neighbors.slope[0] * term
        _sort_first(labels[i], scores[i], n)


@device
def _sort_first(labels, scores, n):
    """Sort the first n labels by score, highest first; equal ones stay in order. Cost: O(n^2)."""
    for c in range(1, n):
        label, score, at = labels[c], scores[c], c
        while at > 0 and scores[at - 1] < score:
            labels[at], scores[at] = labels[at - 1], scores[at - 1]
            at -= 1
        labels[at], scores[at] = label, score


def check_neighbors(neighbors: Neighbors, n_features: int) -> None:
    """ModelFormatError unless the kernel may run on it."""
    shape, n = neighbors.row.shape, int(neighbors.n_rows[0])
    need(shape[1] == n_features, f"neighbors.row has {shape[1]} features, not {n_features}.")
    shape_of_map = neighbors.map.shape
    known = shape_of_map[0] in (0, 1, n_features) and shape_of_map[1] == n_features
    need(known, f"neighbors.map has the shape {shape_of_map} with {n_features} features.")
    need(0 <= n <= shape[0], f"neighbors.n_rows is {n}, the capacity is {shape[0]}.")
    need_range("neighbors.last", neighbors.last, -1, n)
    need_range("neighbors.size", neighbors.size, 0, min(n, _MOST_VALUES) + 1)
    need_range("neighbors.before", neighbors.before, -1, max(n, 1))
    before = neighbors.before[:n]
    need((before < np.arange(n)).all(), "neighbors.before has a cycle.")
    found = np.concatenate([neighbors.last[neighbors.last >= 0], before[before >= 0]])
    need(np.array_equal(np.sort(found), np.arange(n)), "a row of neighbors is in two lists, or in none.")
    length = np.zeros(len(neighbors.size), np.int64)
    label = np.flatnonzero(neighbors.last >= 0)
    at = neighbors.last[label]
    for _ in range(int(neighbors.size.max(initial=0))):
        length[label] += 1
        label, at = label[before[at] >= 0], before[at][before[at] >= 0]
    need(not len(at), "neighbors.size is not the length of the lists.")
    need(np.array_equal(length, neighbors.size), "neighbors.size is not the length of the lists.")
    for name in ("factor", "slope", "offset"):
        value = float(getattr(neighbors, name)[0])
        need(0 <= value < np.inf and (value > 0 or name != "factor"), f"neighbors.{name} is {value}.")
