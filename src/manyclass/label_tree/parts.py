"""Label tree in batch: the rows in parts, and what each part contributes to the steps of `fit`.

All functions are pure, and all sums are exact: the parts may be cut anywhere at a multiple of `ALIGNED` rows.
"""

import os
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..core.columns import as_matrix, used_in
from ..core.exact import add_products, grid, on_grid, two_parts
from ..core.inputs import Batch, Csr, Dense, gather, rows_at, rows_from
from ..core.locks import parallel
from ..core.memory import mapped
from ..core.protocol import Labels
from ..core.state import Array, Scale, make
from .fit_kernels import Pairs
from .kernels import Found, LabelTree, Options, Rows, predict_batch, row_factors, squared_lengths
from .weights import PackedBlocks

# Rows that are routed in one call, which counts them from the first of all rows: how a node is scored depends on how
# many rows of the call reach it, and the last bits of a score on how it is scored.
ALIGNED = 2048
VALUES_AT_A_TIME = 1 << 20  # of temporary arrays
_ROWS_AT_A_TIME = 1 << 14
ROWS_SORTED = 1 << 17  # whose pairs are sorted together; a multiple of `ALIGNED`
_LONGEST = 4.0  # of a row times its factor


class Given(NamedTuple):
    """Consecutive rows with their labels and weights."""

    batch: Batch
    labels: Labels
    weight: Array  # f8


class Part(NamedTuple):
    """Consecutive rows, ready for training."""

    rows: Rows
    labels: Labels
    first: int  # number of the first row


class Counts(NamedTuple):
    """Sizes of some rows."""

    n_rows: int
    label: Array  # (class,) i8: rows of each label
    values: Array  # (class,) i8: non-zeros of these rows
    longest: int  # most non-zeros of a row
    most_labels: int  # of a row
    heaviest: float  # largest weight
    sq_norm: float  # largest squared length

    @property
    def n_labels(self) -> int:
        """Number of labels of all rows together."""
        return int(self.label.sum())


def count(given: Given, n_classes: int) -> Counts:
    """The sizes of some rows."""
    batch, labels, weight = given
    squares, lengths = np.empty(len(weight)), row_lengths(batch)
    squared_lengths(batch, squares)
    values = np.bincount(labels.label, np.repeat(lengths, np.diff(labels.pointer)), n_classes)
    return Counts(
        len(weight),
        np.bincount(labels.label, minlength=n_classes),
        values.astype(np.int64),
        int(lengths.max(initial=0)),
        int(np.diff(labels.pointer).max(initial=0)),
        float(weight.max(initial=0.0)),
        float(squares.max(initial=0.0)),
    )


def both(a: Counts, b: Counts) -> Counts:
    """The sizes of the rows of both."""
    largest: Any = map(max, a[3:], b[3:])
    return Counts(a.n_rows + b.n_rows, a.label + b.label, a.values + b.values, *largest)


def n_rows_of(given: Given) -> int:
    """Number of rows."""
    return len(given.weight)


def sums(given: Given, heaviest: float, sq_norm: float, n_rows: int) -> Array:
    """The weights and the squared lengths of some rows, each in two parts; the numbers are those of all rows."""
    squares = np.empty(len(given.weight))
    squared_lengths(given.batch, squares)
    terms = [*two_parts(given.weight, heaviest, n_rows), *two_parts(squares, sq_norm, n_rows)]
    return np.array([term.sum() for term in terms])


def prepare(given: Given, first: int, scale: Scale, mean_weight: float, options: Options) -> Part:
    """Rows with their factors; only the ratios of weights count."""
    rows = Rows(given.batch, np.empty(len(given.weight), np.float32), given.weight / mean_weight)
    row_factors(scale, given.batch, rows.factor, options)
    return Part(rows, given.labels, first)


def make_scale(n_features: int, counts: Counts, total: Array) -> Scale:
    """The group of a model."""
    scale = make(Scale, feature=n_features)
    scale.n_rows[0], scale.sq_norm[0] = counts.n_rows, total[2] + total[3]
    return scale


def mass_of(part: Part, heaviest: float, most_rows: int, n_classes: int) -> Array:
    """The weight of the rows of each label, in two parts; no label has more rows than `most_rows`."""
    label, weight = part.labels.label, np.repeat(part.rows.weight, np.diff(part.labels.pointer))
    terms = two_parts(weight, heaviest, most_rows)
    return np.array([np.bincount(label, term, n_classes) for term in terms])


# -- sums of the rows of labels ------------------------------------------------------------------------------------


class Bounds(NamedTuple):
    """What is known of all products before they are summed."""

    term: float  # largest value of a row, times its factor and its weight
    length: float  # longest row, times its factor and its weight
    longest: int
    most_labels: int
    most_rows: int  # of a label
    n_rows: int


def bounds_of(counts: Counts, heaviest: float) -> Bounds:
    """The bounds of rows whose weights are at most `heaviest`; a factor makes the length of a row at most 4."""
    most = _LONGEST * heaviest
    return Bounds(most, most, counts.longest, counts.most_labels, int(counts.label.max()), counts.n_rows)


def _row_weights(part: Part) -> Array:
    return (part.rows.factor * part.rows.weight).astype(np.float32)


def _label_rows(part: Part) -> Csr:
    """A matrix (row, label) of the weights with which rows are added to their labels."""
    labels = part.labels
    return Csr(labels.pointer, labels.label, np.repeat(_row_weights(part), np.diff(labels.pointer)))


def by_label(part: Part, n_classes: int) -> sp.csr_array:
    """The rows of each label with their weights, as a matrix (label, row)."""
    Y = _label_rows(part)
    return sp.csr_array((Y.values, Y.indices, Y.indptr), shape=(len(part.rows.factor), n_classes)).T.tocsr()


def sparse_sums(
    part: Part, rows_of_labels: sp.csr_array, first: int, last: int, n_used: int, number: Array, step: float
) -> sp.csr_array:
    """The sums of the rows of labels first..last-1. `number` has their columns, of which there are `n_used`."""
    chosen = rows_of_labels[first:last]
    label = np.repeat(np.arange(chosen.shape[0]), np.diff(chosen.indptr))
    ends = np.cumsum(row_lengths(part.rows.batch)[chosen.indices])
    out = sp.csr_array((chosen.shape[0], n_used), dtype=np.float64)
    begin = 0
    while begin < len(label):  # rows of at most so many values, or one row
        before = ends[begin - 1] if begin else 0
        end = max(begin + 1, int(np.searchsorted(ends, before + VALUES_AT_A_TIME, side="right")))
        own: Any = rows_at(part.rows.batch, chosen.indices[begin:end])
        terms = np.repeat(chosen.data[begin:end].astype(np.float64), np.diff(own.indptr)) * own.values
        rows = sp.csr_array((on_grid(terms, step), number[own.indices], own.indptr), shape=(end - begin, n_used))
        places = label[begin:end], np.arange(end - begin)
        member = sp.csr_array((np.ones(end - begin), places), shape=(chosen.shape[0], end - begin))
        out, begin = out + member @ rows, end
    out.sort_indices()
    return out


def dense_sums(part: Part, first: int, last: int, step: float) -> Array:
    """The sums of the rows of labels first..last-1; in the last column, of the weights."""
    values, Y = part.rows.batch.values, _label_rows(part)
    total, mass = np.zeros((last - first, values.shape[1])), np.zeros((last - first, 1))
    add_products(Y, values, first, step, total)
    add_products(Y, np.ones((len(values), 1), np.float32), first, step, mass)
    return np.concatenate([total, mass], axis=1)


def used_features(part: Part, n_features: int) -> Array:
    """Whether any row has each feature."""
    return used_in(part.rows.batch, n_features)


def _renumbered(batch: Batch, first: int, last: int, number: Array) -> Csr:
    """Rows first..last-1 with other numbers of the features."""
    assert isinstance(batch, Csr)
    begin, end = batch.indptr[first], batch.indptr[last]
    return Csr(batch.indptr[first : last + 1] - begin, number[batch.indices[begin:end]], batch.values[begin:end])


def times(part: Part, columns: Array, step: float, n_classes: int, number: Array, n_jobs: int) -> Array:
    """The sums, over the rows of each label, of the products of rows and columns.

    `number` has the rows of `columns` that belong to the features.
    """
    Y = _label_rows(part)

    def add_rows(first: int, last: int, out: Array) -> None:
        X = as_matrix(_renumbered(part.rows.batch, first, last, number), len(columns))
        rows = np.ascontiguousarray(X @ columns, np.float32)
        add_products(Csr(Y.indptr[first : last + 1], Y.indices, Y.values), rows, 0, step, out)

    return _added(add_rows, part, (n_classes, columns.shape[1]), n_jobs)


def back(part: Part, columns: Array, step: float, n_used: int, number: Array, n_jobs: int) -> Array:
    """The sums of all rows, each times the sum of the `columns` of its labels; `number` as in `times`."""
    labels, weight = part.labels, _row_weights(part)
    ones = np.ones(len(labels.label), np.float32)
    member = sp.csr_array((ones, labels.label, labels.pointer), shape=(len(weight), len(columns)))

    def add_rows(first: int, last: int, out: Array) -> None:
        rows = np.ascontiguousarray((member[first:last] @ columns) * weight[first:last, None], np.float32)
        add_products(_renumbered(part.rows.batch, first, last, number), rows, 0, step, out)

    return _added(add_rows, part, (n_used, columns.shape[1]), n_jobs)


def _added(add_rows: Callable[[int, int, Array], None], part: Part, shape: tuple, n_jobs: int) -> Array:
    """What `add_rows` adds to an array for all blocks of rows. Each thread has its own array; the sums are exact."""
    blocks = _blocks(part)
    n = max(1, min(n_jobs, len(blocks)))

    def some(k: int) -> Array:
        out = np.zeros(shape)
        for first, last in blocks[k::n]:
            add_rows(first, last, out)
        return out

    out, *others = parallel(some, list(range(n)), n_jobs=n)
    for other in others:
        out += other
    return out


def _blocks(part: Part) -> list[tuple[int, int]]:
    n = len(part.rows.factor)
    return [(first, min(n, first + _ROWS_AT_A_TIME)) for first in range(0, n, _ROWS_AT_A_TIME)]


def grid_of_sums(bounds: Bounds) -> float:
    """The grid of sums of rows of one label."""
    return float(grid(bounds.term, bounds.most_rows))


def grid_of_times(columns: Array, bounds: Bounds) -> float:
    """The grid of `times`: a product is at most the largest value of a column times the values of a row."""
    by_value = np.abs(columns).max(initial=0.0) * np.sqrt(bounds.longest)
    by_length = np.sqrt(np.einsum("fc,fc->c", columns, columns, dtype=float).max(initial=0.0))
    return float(grid(bounds.length * min(by_value, by_length), bounds.most_rows))


def grid_of_back(columns: Array, bounds: Bounds) -> float:
    """The grid of `back`."""
    return float(grid(bounds.term * bounds.most_labels * np.abs(columns).max(initial=0.0), bounds.n_rows))


# -- pairs of rows and nodes ---------------------------------------------------------------------------------------


class Piece(NamedTuple):
    """The rows of a part that learn at some nodes; pairs have the numbers of these rows."""

    rows: Rows
    pairs: Pairs
    number: Array  # (row,) i8: among all rows; only from `take_rows`
    label: Array  # (row,) i4: only from `take_rows`, and with one label per row


def router_pairs(part: Part, tree: LabelTree, spill: bool) -> Pairs:
    """The rows of each inner node: those with a label below it; the root has all rows."""
    n = len(part.labels.pointer) - 1

    def pairs_of(first: int, last: int) -> Pairs:
        label, row = _labels_between(part.labels, first, last)
        node, place = tree.leaf_of[label], tree.place_of[label]
        keys, places = [np.empty(0, np.int64)], [place[:0]]
        while len(node) and node[0] > 0:
            node, place = tree.parent[node], tree.place[node]
            keys.append(node.astype(np.int64) * n + row)
            places.append(place)
        unlabelled = np.flatnonzero(np.diff(part.labels.pointer[first : last + 1]) == 0) + first
        others = unlabelled if tree.is_leaf[0] == 0 else row[:0]
        return _pairs(others, np.concatenate(keys), np.concatenate(places), n)

    return _in_order(pairs_of, n, len(tree.parent), spill)


def leaf_pairs(
    part: Part, tree: LabelTree, blocks: PackedBlocks, scale: Scale, options: Options, n_jobs: int, spill: bool
) -> Pairs:
    """The rows of each leaf: those whose paths reach it, and those with a label in it."""
    batch, n = part.rows.batch, len(part.rows.weight)

    def pairs_of(begin: int, end: int) -> Pairs:
        reached = np.empty((end - begin, options.beam), np.int32)

        def reach(first: int) -> None:
            last = min(end, first + ALIGNED)
            found = Found.empty(last - first)._replace(leaves=reached[first - begin : last - begin])
            predict_batch(tree, blocks, scale, rows_from(batch, first, last), options, found, True)

        parallel(reach, list(range(begin, end, ALIGNED)), n_jobs=n_jobs)
        chosen = reached >= 0
        others = reached[chosen] * np.int64(n) + np.repeat(np.arange(begin, end), chosen.sum(axis=1))
        label, row = _labels_between(part.labels, begin, end)
        return _pairs(others, tree.leaf_of[label] * np.int64(n) + row, tree.place_of[label], n)

    return _in_order(pairs_of, n, len(tree.parent), spill)


def _labels_between(labels: Labels, first: int, last: int) -> tuple[Array, Array]:
    """The labels of rows first..last-1, and the row of each."""
    own = labels.label[labels.pointer[first] : labels.pointer[last]]
    return own, np.repeat(np.arange(first, last), np.diff(labels.pointer[first : last + 1]))


def _in_order(pairs_of: Callable[[int, int], Pairs], n_rows: int, n_nodes: int, spill: bool) -> Pairs:
    """The pairs of all rows, sorted by node and row, from those of some rows at a time.

    `spill`: they are in a temporary file, which the system keeps in memory as long as there is space.
    """
    if n_rows <= ROWS_SORTED and not spill:
        return pairs_of(0, n_rows)
    with ExitStack() as stack:
        file = stack.enter_context(tempfile.TemporaryFile()) if spill else None
        found: list[Any] = []  # pairs, or where they are in the file
        sizes = [np.zeros(n_nodes, np.int64)]
        for first in range(0, max(1, n_rows), ROWS_SORTED):
            own = pairs_of(first, min(n_rows, first + ROWS_SORTED))
            sizes.append(np.bincount(own.node, minlength=n_nodes))
            found.append(own if file is None else _written(own, file))
        ends = np.cumsum(sizes, axis=0)  # after each of the parts, among the pairs of a node
        begin = np.append(0, np.cumsum(ends[-1]))
        new = mapped if spill else np.empty
        out = Pairs(*(new(int(begin[-1]), kind) for kind in _KINDS))
        for node in range(n_nodes):
            out.node[begin[node] : begin[node + 1]] = node
        for number, size in enumerate(sizes[1:]):
            own = found[number] if file is None else _read(found[number], file)
            _, at = gather(begin[:-1] + ends[number], size)
            out.row[at], out.true[at] = own.row, own.true
            found[number] = None  # frees its memory
    return out


_KINDS = np.int32, np.int32, np.uint64  # of the arrays of `Pairs`


def _written(pairs: Pairs, file: Any) -> tuple[int, int]:
    """Append pairs to a file; where they are, and how many."""
    begin = file.seek(0, os.SEEK_END)
    for array in pairs:
        file.write(array.data)
    return begin, len(pairs.node)


def _read(place: tuple[int, int], file: Any) -> Pairs:
    file.seek(place[0])
    arrays = [np.empty(place[1], kind) for kind in _KINDS]
    for array in arrays:
        file.readinto(array.data)
    return Pairs(*arrays)


def _pairs(others: Array, keys: Array, places: Array, n_rows: int) -> Pairs:
    """Pairs sorted by node and row, each once. A key is node x n_rows + row; those of true outputs come with places."""
    known = np.concatenate([others, keys])
    known.sort()
    known = known[np.diff(known, prepend=-1) > 0]
    true = np.zeros(len(known), np.uint64)
    np.bitwise_or.at(true, np.searchsorted(known, keys), np.uint64(1) << places.astype(np.uint64))
    node = (known // n_rows).astype(np.int32)
    known %= n_rows
    return Pairs(node, known.astype(np.int32), true)


def work_of(part: Part, pairs: Pairs, n_nodes: int) -> Array:
    """The numbers of rows and of values of each node, as a matrix (2, node)."""
    lengths, out = row_lengths(part.rows.batch).astype(float), np.zeros((2, n_nodes))
    for first in range(0, len(pairs.node), VALUES_AT_A_TIME):
        node, row = (array[first : first + VALUES_AT_A_TIME] for array in (pairs.node, pairs.row))
        out += [np.bincount(node, minlength=n_nodes), np.bincount(node, lengths[row], n_nodes)]
    return out.astype(np.int64)


def row_lengths(batch: Batch) -> Array:
    """Values of each row."""
    return np.diff(batch.indptr) if isinstance(batch, Csr) else np.full(*batch.values.shape)


def take(part: Part, pairs: Pairs, nodes: Array) -> Piece:
    """The rows of some nodes, which are sorted by number, without copying the values."""
    nodes = nodes.astype(pairs.node.dtype)  # numpy would convert the longer array
    first, last = (np.searchsorted(pairs.node, nodes, side=side) for side in ("left", "right"))
    _, at = gather(first, last - first)
    return Piece(part.rows, Pairs(*(array[at] for array in pairs)), np.empty(0, np.int64), np.empty(0, np.int32))


def take_numbered(part: Part, pairs: Pairs, nodes: Array) -> Piece:
    """As `take`, with the number and the label of each row; for one label per row."""
    return take(part, pairs, nodes)._replace(
        number=part.first + np.arange(len(part.rows.factor)), label=part.labels.label
    )


def take_rows(part: Part, pairs: Pairs, nodes: Array) -> Piece:
    """As `take`, only with the rows that occur in the pairs: this is what moves between machines."""
    whole = take(part, pairs, nodes)
    chosen, row = np.unique(whole.pairs.row, return_inverse=True)
    rows = Rows(rows_at(part.rows.batch, chosen), part.rows.factor[chosen], part.rows.weight[chosen])
    one_label = len(part.labels.label) == len(part.rows.factor)
    label = part.labels.label[chosen] if one_label else whole.label
    return Piece(rows, whole.pairs._replace(row=row.astype(np.int32)), part.first + chosen.astype(np.int64), label)


def join_batches(batches: list[Batch]) -> Batch:
    """The rows of all, in order."""
    if len(batches) == 1:
        return batches[0]
    if isinstance(batches[0], Dense):
        return Dense(np.concatenate([batch.values for batch in batches]))
    sizes = np.concatenate([row_lengths(batch) for batch in batches])
    arrays = (np.concatenate([batch[k] for batch in batches]) for k in (1, 2))
    return Csr(np.concatenate([[0], np.cumsum(sizes)]), *arrays)


def join_pieces(pieces: list[Piece]) -> Piece:
    """The rows of all, in order; the pairs sorted by node and row."""
    if len(pieces) == 1:
        return pieces[0]
    factor, weight = (np.concatenate([piece.rows[k] for piece in pieces]) for k in (1, 2))
    rows = Rows(join_batches([piece.rows.batch for piece in pieces]), factor, weight)
    firsts = np.cumsum([0, *(len(piece.rows.factor) for piece in pieces)])
    row = np.concatenate([piece.pairs.row + first for piece, first in zip(pieces, firsts, strict=False)])
    node, true = (np.concatenate([piece.pairs[k] for piece in pieces]) for k in (0, 2))
    order = np.argsort(node, kind="stable")
    pairs = Pairs(node[order], row[order].astype(np.int32), true[order])
    return Piece(rows, pairs, *(np.concatenate([piece[k] for piece in pieces]) for k in (2, 3)))


def of_rows(part: Part, k: int) -> Array:
    """The label (0) or the weight (1) of each row, with one label per row."""
    return (part.labels.label, part.rows.weight)[k]


def values_of(part: Part, numbers: Array) -> Array:
    """The values of the dense rows of this part among some rows, whose numbers are sorted."""
    first, last = np.searchsorted(numbers, [part.first, part.first + len(part.rows.factor)])
    return part.rows.batch.values[numbers[first:last] - part.first]
