"""One node of a spectral tree (A Hierarchical Spectral Method for Extreme Classification, 2015), tagged [ST ...].

[ST Eq. 2] -> top_direction: the direction w of length 1, with no mean, along which the rows spread most once each is
replaced by what its labels say of it. The matrix of [ST Eq. 2] is only ever applied to a direction:

    one label a row:     rows -> sums of the classes (gather_classes), then S' (1 / mass) S w, in O(non-zeros)
    several labels:      X' M hat(X w) with a few steps of conjugate gradients for the hat matrix [ST Eq. 3]

Only features that occur in the node have a place in its vectors, so that a small node costs little.
"""

from typing import NamedTuple

import numpy as np

from ..core.inputs import feature, span, value
from ..core.rng import uniform
from ..jit import device, kernel

NO_LENGTH = 1e-12  # squared, of what conjugate gradients leave to do: rounding
ROUNDING = 1e-6  # of sums of float32, beside their size


class Lines(NamedTuple):
    """Rows of a node, or the sums of its classes, over the features that occur in it."""

    pointer: np.ndarray  # (line + 1)
    place: np.ndarray  # (non-zero) of the feature in `feature`
    value: np.ndarray  # (non-zero)
    mass: np.ndarray  # (line) of a row; of a class its inverse
    feature: np.ndarray  # (place)
    mean: np.ndarray  # (place) the rows, each times its mass, added up


class Tags(NamedTuple):
    """Labels of a node's rows, numbered from 0."""

    pointer: np.ndarray  # (row + 1)
    label: np.ndarray
    inverse: np.ndarray  # (label) 1 / mass


@device
def n_values(batch, rows):
    """Non-zeros of all rows."""
    n = np.int64(0)
    for r in range(rows.shape[0]):
        begin, stop = span(batch, rows[r])
        n += stop - begin
    return n


@kernel
def sorted_places(used, n_used):
    """Places of the features in use, in order of the features: (feature of a place, place of a feature)."""
    features = np.empty(n_used, np.int32)
    place = used  # written over
    n = np.int32(0)
    for f in range(used.shape[0]):
        if used[f] != 0:
            features[n] = f
            place[f] = n
            n += np.int32(1)
    return features, place


@kernel
def find_features(batch, rows, n_features):
    """The features that occur in the rows: (feature of a place, place of a feature). Cost: O(non-zeros + features)."""
    used = np.zeros(n_features, np.int32)
    n_used = np.int64(0)
    for r in range(rows.shape[0]):
        begin, stop = span(batch, rows[r])
        for j in range(begin, stop):
            if value(batch, rows[r], j) != 0.0 and used[feature(batch, j)] == 0:
                used[feature(batch, j)] = 1
                n_used += 1
    return sorted_places(used, n_used)


@kernel
def number_labels(pointer, label, rows, mass, n_classes):
    """The labels of a node's rows, numbered as they come. Cost: O(labels + classes)."""
    n = np.int64(0)
    for r in range(rows.shape[0]):
        n += pointer[rows[r] + 1] - pointer[rows[r]]
    number = np.full(n_classes, -1, np.int32)
    own_pointer, own, total = np.zeros(rows.shape[0] + 1, np.int64), np.empty(n, np.int32), np.zeros(n)
    n_labels, at = np.int32(0), np.int64(0)
    for r in range(rows.shape[0]):
        for p in range(pointer[rows[r]], pointer[rows[r] + 1]):
            y = label[p]
            if number[y] < 0:
                number[y] = n_labels
                n_labels += np.int32(1)
            own[at] = number[y]
            total[number[y]] += mass[r]
            at += 1
        own_pointer[r + 1] = at
    return Tags(own_pointer, own, 1.0 / np.maximum(total[:n_labels], 1e-300))


@kernel
def gather_rows(batch, rows, mass, n_features):
    """The rows of a node. Cost: O(non-zeros + features)."""
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
                mean[index[at]] += mass[r] * v
                at += 1
        pointer[r + 1] = at
    return Lines(pointer, index[:at], values[:at], mass, features, mean)


@kernel
def gather_classes(batch, rows, mass, tags, n_features):
    """The sums of a node's classes, each row times its mass. Cost: O(non-zeros + features)."""
    features, place = find_features(batch, rows, n_features)
    n_labels = tags.inverse.shape[0]
    begin_of = np.zeros(n_labels + 1, np.int64)
    for r in range(rows.shape[0]):
        begin_of[tags.label[r] + 1] += 1
    for y in range(n_labels):
        begin_of[y + 1] += begin_of[y]
    order = np.empty(rows.shape[0], np.int64)
    filled = begin_of[:-1].copy()
    for r in range(rows.shape[0]):
        order[filled[tags.label[r]]] = r
        filled[tags.label[r]] += 1
    n = min(n_values(batch, rows), np.int64(n_labels) * features.shape[0])
    pointer, index, values = np.zeros(n_labels + 1, np.int64), np.empty(n, np.int32), np.empty(n, np.float32)
    mean, total = np.zeros(features.shape[0]), np.zeros(features.shape[0])
    last_seen = np.full(features.shape[0], -1, np.int32)
    at = np.int64(0)
    for y in range(n_labels):
        first = at
        for o in range(begin_of[y], begin_of[y + 1]):
            r = order[o]
            begin, stop = span(batch, rows[r])
            for j in range(begin, stop):
                v = value(batch, rows[r], j)
                if v != 0.0:
                    here = place[feature(batch, j)]
                    if last_seen[here] != y:
                        last_seen[here], total[here] = y, 0.0
                        index[at] = here
                        at += 1
                    total[here] += mass[r] * v
        for a in range(first, at):
            values[a] = total[index[a]]
            mean[index[a]] += total[index[a]]
        pointer[y + 1] = at
    return Lines(pointer, index[:at], values[:at], tags.inverse, features, mean)


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
    """out += lines, each times its amount. Mutates: out. Cost: O(non-zeros)."""
    for r in range(amount.shape[0]):
        for p in range(lines.pointer[r], lines.pointer[r + 1]):
            out[lines.place[p]] += amount[r] * lines.value[p]


@device
def squared_lengths(lines):
    """Of all lines, each times its mass: no eigenvalue is larger."""
    total = 0.0
    for r in range(lines.mass.shape[0]):
        for p in range(lines.pointer[r], lines.pointer[r + 1]):
            total += lines.mass[r] * np.float64(lines.value[p]) ** 2
    return total


@device
def dot(a, b):
    total = 0.0
    for i in range(a.shape[0]):
        total += a[i] * b[i]
    return total


@device
def take_out(direction, unit):
    """Leave nothing of `unit`, a direction of length 1 or nothing. Mutates: direction."""
    along = dot(direction, unit)
    for i in range(direction.shape[0]):
        direction[i] -= along * unit[i]


@device
def tell_rows(tags, of_label, out):
    """out[row] = sum over its labels. Mutates: out. Cost: O(labels)."""
    for r in range(out.shape[0]):
        total = 0.0
        for p in range(tags.pointer[r], tags.pointer[r + 1]):
            total += of_label[tags.label[p]]
        out[r] = total


@device
def tell_labels(tags, mass, of_row, out):
    """out[label] = sum over its rows, each times its mass. Mutates: out. Cost: O(labels)."""
    out[:] = 0.0
    for r in range(of_row.shape[0]):
        for p in range(tags.pointer[r], tags.pointer[r + 1]):
            out[tags.label[p]] += mass[r] * of_row[r]


@kernel
def apply_hat(tags, mass, of_row, n_steps):
    """What the labels say of a number for each row: a least-squares problem, by conjugate gradients [ST Eq. 3].

    Preconditioned by the labels' masses. Mutates: of_row. Cost: O(labels) a step.
    """
    n_labels = tags.inverse.shape[0]
    solution, residual, applied = np.zeros(n_labels), np.empty(n_labels), np.empty(n_labels)
    tell_labels(tags, mass, of_row, residual)
    move = tags.inverse * residual
    size = dot(residual, move)
    first = size
    for _ in range(n_steps):
        if not size > NO_LENGTH * first:
            break
        tell_rows(tags, move, of_row)
        tell_labels(tags, mass, of_row, applied)
        far = size / dot(move, applied)
        solution += far * move
        residual -= far * applied
        conditioned = tags.inverse * residual
        left = dot(residual, conditioned)
        move = conditioned + (left / size) * move
        size = left
    tell_rows(tags, solution, of_row)


@kernel
def top_direction(lines, tags, several, n_steps, n_hat_steps, seed):
    """The direction of [ST Eq. 2] and its eigenvalue, by Lanczos' method from a random start.

    Krylov vectors are kept orthogonal to the mean, which is the balance constraint, and to each other.
    Cost: O(steps x (non-zeros + steps x features)).
    """
    n = lines.feature.shape[0]
    n_steps = min(n_steps, n)
    basis = np.zeros((n_steps, n))
    small = np.zeros((n_steps, n_steps))
    mean = lines.mean / max(np.sqrt(dot(lines.mean, lines.mean)), 1e-300)
    on_lines = np.empty(lines.mass.shape[0])
    direction = np.empty(n)
    for i in range(n):
        direction[i] = uniform(seed, np.int64(lines.feature[i])) - 0.5
    take_out(direction, mean)
    length, least, used = np.sqrt(dot(direction, direction)), ROUNDING * squared_lengths(lines), 0
    if not length > ROUNDING:
        return direction, 0.0
    for s in range(n_steps):
        basis[s] = direction / length
        used = s + 1
        project_lines(lines, basis[s], on_lines)
        if several:
            apply_hat(tags, lines.mass, on_lines, n_hat_steps)
        for r in range(on_lines.shape[0]):
            on_lines[r] *= lines.mass[r]
        direction[:] = 0.0
        add_lines(lines, on_lines, direction)
        small[s, s] = dot(basis[s], direction)
        for _ in range(2):  # once is not enough for vectors that nearly agree
            take_out(direction, mean)
            for t in range(used):
                take_out(direction, basis[t])
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
    return direction, value if value > least else 0.0  # rounding is no direction


@kernel
def split_node(batch, pointer, label, rows, mass, several, sizes, steps, seed):
    """Learn the router of a node [ST §3.3]: (features, their weights, eigenvalue, margin of each row).

    `sizes` is (features, classes), `steps` (Lanczos, conjugate gradients). Cost: O(steps x non-zeros).
    """
    tags = number_labels(pointer, label, rows, mass, sizes[1])
    if several:
        lines = gather_rows(batch, rows, mass, sizes[0])
    else:
        lines = gather_classes(batch, rows, mass, tags, sizes[0])
    direction, spread = top_direction(lines, tags, several, steps[0], steps[1], seed)
    weight = direction.astype(np.float32)
    full = np.zeros(sizes[0], np.float32)
    for i in range(weight.shape[0]):
        full[lines.feature[i]] = weight[i]
    margin = np.empty(rows.shape[0])
    for r in range(rows.shape[0]):
        begin, stop = span(batch, rows[r])
        total = np.float32(0.0)
        for j in range(begin, stop):
            total += full[feature(batch, j)] * value(batch, rows[r], j)
        margin[r] = total
    return lines.feature, weight, spread, margin
