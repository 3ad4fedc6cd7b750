"""The router of one node of a spectral tree [ST §3.3]: a constrained top eigenvector.

[ST Eq. 2] -> top_direction: the direction w of length 1, orthogonal to the mean row, along which the rows have the
largest variance once each is replaced by its prediction from its labels. The matrix of [ST Eq. 2] is never built, only
multiplied with a direction:

    one label per row:   rows -> class sums S (gather_classes), then S' (1 / mass) S w, in O(non-zeros)
    several labels:      X' M hat(X w), with a few steps of conjugate gradients for the hat matrix [ST Eq. 3]

Only features that occur in the node have a place in its vectors, so that small nodes are cheap.
"""

from typing import NamedTuple

import numpy as np

from ..core.inputs import feature, span, value
from ..core.rng import uniform
from ..jit import device, kernel

NO_LENGTH = 1e-12  # relative squared residual at which conjugate gradients stop
ROUNDING = 1e-6  # relative rounding error of sums of float32


class Part(NamedTuple):
    """The rows that reach a node, and their importance weights."""

    rows: np.ndarray
    mass: np.ndarray


class Lines(NamedTuple):
    """Rows of a node, or its class sums, over the features that occur in it."""

    pointer: np.ndarray  # (line + 1)
    place: np.ndarray  # (non-zero) index into `feature`
    value: np.ndarray  # (non-zero)
    mass: np.ndarray  # (line) of a row; of a class sum, the inverse of its mass
    feature: np.ndarray  # (place)
    mean: np.ndarray  # (place) weighted sum of the rows


class NodeLabels(NamedTuple):
    """Labels of a node's rows, numbered in order of appearance."""

    pointer: np.ndarray  # (row + 1)
    label: np.ndarray
    inverse: np.ndarray  # (label) 1 / mass
    order: np.ndarray  # the rows, sorted by label if each has one


@kernel
def find_features(batch, rows, n_features):
    """The features that occur in the rows: (feature of each place, place of each feature).

    Cost: O(non-zeros + features).
    """
    place = np.zeros(n_features, np.int32)
    n_used = np.int64(0)
    for r in range(rows.shape[0]):
        begin, stop = span(batch, rows[r])
        for j in range(begin, stop):
            if value(batch, rows[r], j) != 0.0 and place[feature(batch, j)] == 0:
                place[feature(batch, j)] = 1
                n_used += 1
    features = np.empty(n_used, np.int32)
    n = np.int32(0)
    for f in range(n_features):
        if place[f] != 0:
            features[n] = f
            place[f] = n
            n += np.int32(1)
    return features, place


@device
def n_values(batch, rows):
    """Number of values of all rows."""
    n = np.int64(0)
    for r in range(rows.shape[0]):
        begin, stop = span(batch, rows[r])
        n += stop - begin
    return n


@kernel
def gather_rows(batch, part, n_features):
    """The rows of a node. Cost: O(non-zeros + features)."""
    rows = part.rows
    features, place = find_features(batch, rows, n_features)
    n = n_values(batch, rows)
    pointer, index, values = np.zeros(rows.shape[0] + 1, np.int64), np.empty(n, np.int32), np.empty(n, np.float32)
    mean = np.zeros(features.shape[0])
    at = np.int64(0)
    for r in range(rows.shape[0]):
        begin, stop = span(batch, rows[r])
        for j in range(begin, stop):
            v = value(batch, rows[r], j)
            if v != 0.0:
                index[at], values[at] = place[feature(batch, j)], v
                mean[index[at]] += part.mass[r] * v
                at += 1
        pointer[r + 1] = at
    return Lines(pointer, index[:at], values[:at], part.mass, features, mean)


@kernel
def gather_classes(batch, part, labels, n_features):
    """The weighted sums of the rows of each class of a node. Cost: O(non-zeros + features)."""
    rows = part.rows
    features, place = find_features(batch, rows, n_features)
    n_labels = labels.inverse.shape[0]
    n = min(n_values(batch, rows), np.int64(n_labels) * features.shape[0])
    pointer, index, values = np.zeros(n_labels + 1, np.int64), np.empty(n, np.int32), np.empty(n, np.float32)
    mean, total = np.zeros(features.shape[0]), np.zeros(features.shape[0])
    last_seen = np.full(features.shape[0], -1, np.int32)
    at, o = np.int64(0), np.int64(0)
    for y in range(n_labels):
        first = at
        while o < rows.shape[0] and labels.label[labels.order[o]] == y:
            r = labels.order[o]
            o += 1
            begin, stop = span(batch, rows[r])
            for j in range(begin, stop):
                v = value(batch, rows[r], j)
                if v != 0.0:
                    here = place[feature(batch, j)]
                    if last_seen[here] != y:
                        last_seen[here], total[here] = y, 0.0
                        index[at] = here
                        at += 1
                    total[here] += part.mass[r] * v
        for a in range(first, at):
            values[a] = total[index[a]]
            mean[index[a]] += total[index[a]]
        pointer[y + 1] = at
    return Lines(pointer, index[:at], values[:at], labels.inverse, features, mean)


@device
def project_lines(lines, direction, out):
    """out[line] = line . direction. Mutates: out. Cost: O(non-zeros)."""
    for r in range(out.shape[0]):
        total = 0.0
        for p in range(lines.pointer[r], lines.pointer[r + 1]):
            total += np.float64(lines.value[p]) * direction[lines.place[p]]
        out[r] = total


@device
def add_lines(lines, amount, out):
    """out += sum of the lines, each times its amount. Mutates: out. Cost: O(non-zeros)."""
    for r in range(amount.shape[0]):
        for p in range(lines.pointer[r], lines.pointer[r + 1]):
            out[lines.place[p]] += amount[r] * lines.value[p]


@device
def squared_lengths(lines):
    """Sum of the squared lengths of all lines, each times its mass: an upper bound of all eigenvalues."""
    total = 0.0
    for r in range(lines.mass.shape[0]):
        for p in range(lines.pointer[r], lines.pointer[r + 1]):
            total += lines.mass[r] * np.float64(lines.value[p]) ** 2
    return total


@device
def dot(a, b):
    """Inner product."""
    total = 0.0
    for i in range(a.shape[0]):
        total += a[i] * b[i]
    return total


@device
def make_orthogonal(direction, unit):
    """Subtract the projection on `unit`, a vector of length 1 or 0. Mutates: direction."""
    along = dot(direction, unit)
    for i in range(direction.shape[0]):
        direction[i] -= along * unit[i]


@device
def sum_labels(labels, of_label, out):
    """out[row] = sum over its labels. Mutates: out. Cost: O(labels)."""
    for r in range(out.shape[0]):
        total = 0.0
        for p in range(labels.pointer[r], labels.pointer[r + 1]):
            total += of_label[labels.label[p]]
        out[r] = total


@device
def sum_rows(labels, mass, of_row, out):
    """out[label] = sum over its rows, each times its mass. Mutates: out. Cost: O(labels)."""
    out[:] = 0.0
    for r in range(of_row.shape[0]):
        for p in range(labels.pointer[r], labels.pointer[r + 1]):
            out[labels.label[p]] += mass[r] * of_row[r]


@kernel
def apply_hat(labels, mass, of_row, n_steps):
    """Replace a number per row by its least-squares prediction from the labels, by conjugate gradients [ST Eq. 3].

    Preconditioned by the labels' masses. Mutates: of_row. Cost: O(labels) per step.
    """
    n_labels = labels.inverse.shape[0]
    solution, residual, applied = np.zeros(n_labels), np.empty(n_labels), np.empty(n_labels)
    sum_rows(labels, mass, of_row, residual)
    move = labels.inverse * residual
    size = dot(residual, move)
    first = size
    for _ in range(n_steps):
        if not size > NO_LENGTH * first:
            break
        sum_labels(labels, move, of_row)
        sum_rows(labels, mass, of_row, applied)
        far = size / dot(move, applied)
        solution += far * move
        residual -= far * applied
        conditioned = labels.inverse * residual
        left = dot(residual, conditioned)
        move = conditioned + (left / size) * move
        size = left
    sum_labels(labels, solution, of_row)


@kernel
def top_direction(lines, labels, several, steps, seed):
    """The direction of [ST Eq. 2] and its eigenvalue, by Lanczos' method from a random start.

    `steps` is (Lanczos, conjugate gradients). Krylov vectors are kept orthogonal to the mean, which is the balance
    constraint, and to each other. Cost: O(steps x (non-zeros + steps x features)).
    """
    n = lines.feature.shape[0]
    n_steps = min(steps[0], n)
    basis = np.zeros((n_steps, n))
    small = np.zeros((n_steps, n_steps))
    mean = lines.mean / max(np.sqrt(dot(lines.mean, lines.mean)), 1e-300)
    on_lines = np.empty(lines.mass.shape[0])
    direction = np.empty(n)
    for i in range(n):
        direction[i] = uniform(seed, np.int64(lines.feature[i])) - 0.5
    make_orthogonal(direction, mean)
    length, least, used = np.sqrt(dot(direction, direction)), ROUNDING * squared_lengths(lines), 0
    if not length > ROUNDING:
        return direction, 0.0
    for s in range(n_steps):
        basis[s] = direction / length
        used = s + 1
        project_lines(lines, basis[s], on_lines)
        if several:
            apply_hat(labels, lines.mass, on_lines, steps[1])
        for r in range(on_lines.shape[0]):
            on_lines[r] *= lines.mass[r]
        direction[:] = 0.0
        add_lines(lines, on_lines, direction)
        small[s, s] = dot(basis[s], direction)
        for _ in range(2):  # once is not enough for vectors that are nearly parallel
            make_orthogonal(direction, mean)
            for t in range(used):
                make_orthogonal(direction, basis[t])
        length = np.sqrt(dot(direction, direction))
        if not length > least or used == n_steps:
            break
        small[s, s + 1] = small[s + 1, s] = length
    values, vectors = np.linalg.eigh(small[:used, :used].copy())
    direction[:] = 0.0
    for s in range(used):
        direction += vectors[s, used - 1] * basis[s]
    direction /= np.sqrt(dot(direction, direction))
    value = values[used - 1]
    return direction, value if value > least else 0.0  # a smaller value is rounding error


class Router(NamedTuple):
    """What `learn_router` fills."""

    feature: np.ndarray  # (feature,)
    weight: np.ndarray  # (feature,)
    eigenvalue: np.ndarray  # (one,)
    margin: np.ndarray  # (row,)


def split_node(batch, part, labels, n_features, several, steps, seed):
    """Learn the router of a node [ST §3.3]: (features, their weights, eigenvalue, margin of each row).

    `several`: rows may have several labels; `steps`: (Lanczos, conjugate gradients). Cost: O(steps x non-zeros).
    """
    margin = np.empty(len(part.rows))
    out = Router(np.empty(n_features, np.int32), np.empty(n_features, np.float32), np.empty(1), margin)
    n = learn_router(batch, part, labels, several, steps, seed, out)
    return out.feature[:n].copy(), out.weight[:n].copy(), float(out.eigenvalue[0]), margin


@kernel
def learn_router(batch, part, labels, several, steps, seed, out):
    """The work of `split_node`; returns the number of features. Mutates: out.

    It returns no array: to make one, Numba calls Python, where a Ctrl-C that came meanwhile becomes a SystemError.
    """
    n_features = out.feature.shape[0]
    if several:
        lines = gather_rows(batch, part, n_features)
    else:
        lines = gather_classes(batch, part, labels, n_features)
    direction, eigenvalue = top_direction(lines, labels, several, steps, seed)
    full = np.zeros(n_features, np.float32)
    for i in range(direction.shape[0]):
        out.feature[i], out.weight[i] = lines.feature[i], np.float32(direction[i])
        full[out.feature[i]] = out.weight[i]
    for r in range(part.rows.shape[0]):
        i = part.rows[r]
        begin, stop = span(batch, i)
        total = np.float32(0.0)
        for j in range(begin, stop):
            total += full[feature(batch, j)] * value(batch, i, j)
        out.margin[r] = total
    out.eigenvalue[0] = eigenvalue
    return direction.shape[0]
