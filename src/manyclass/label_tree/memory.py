"""Label tree: memory of a model and of its training, before training."""

import math
from bisect import bisect_right
from itertools import product
from typing import NamedTuple

import numpy as np

from ..core.calibration import FEWEST
from ..core.memory import LimitError, held_bytes
from ..core.multilabel import sizes_for_threshold
from .fit import (
    FEW_LABELS,
    MOST_RECORDS,
    MOST_SUMMED,
    N_DIMS,
    columns_at_a_time,
    height_of,
    n_children,
    threshold_of,
    width_of,
)
from .kernels import Options
from .neighbors import kept_bytes
from .parts import ROWS_SORTED, VALUES_AT_A_TIME
from .weights import EVERY, LANES, pages_for

_KEPT, _REPEATED, _LEFT_OUT, _OUTPUTS = 0.32, 0.69, 0.7, 4000.0  # fitted to the sizes of models
_NEAR = 0.33  # labels of a row are near each other in the tree
_JOINED = 1.6  # times the weights: while they are put together, the longest array is there twice
_COPIED = 3.0  # times the rows that the model keeps, while they are chosen
_SPARE = 1.1  # times the estimate, for what it does not count
_PER_KEY = 48  # bytes for each (row, node) while pairs are sorted
_PER_LABEL = 32  # bytes for each label of a row that is copied
_PER_PAIR = 16  # bytes for each (row, node)
_CHUNKS = 64  # of nodes that are trained together
_LEAST_USEFUL = 0.1  # of the rows: fewer of them are no advice
_PER_VALUE = 64  # bytes for each value of the rows whose sums are computed together


class Size(NamedTuple):
    """Training rows, for an estimate of memory."""

    n_rows: int
    n_nonzero: float  # per row
    n_labels: float  # per row


class Problem(NamedTuple):
    """What the memory of training depends on, besides the options."""

    n_features: int
    n_classes: int
    size: Size
    sparse: bool
    n_used: int  # features that rows have
    row_bytes: int = 0  # of the given rows, in memory
    threshold: bool = False  # a threshold is learned afterwards


def memory(options: Options, n_features: int, n_classes: int, size: Size | None = None) -> int:
    """Bytes of a model after `fit`, if every node has all features, or of sparse rows."""
    pages, kind = pages_for(n_features)
    weights = _weights(options, n_features, n_classes, size, np.dtype(kind).itemsize, 8 * pages)
    return int(weights + (12 if size is None else 4) * n_features)  # columns of text are rarely scaled


def _weights(
    options: Options, n_features: int, n_classes: int, size: Size | None, feature_bytes: int, node_bytes: int
) -> float:
    """Bytes of all weights, with so many bytes for each feature of a node, and for each node.

    For sparse rows the formula was fitted to the sizes of models of text: the more often a feature occurs at a
    node, the more probably it has a weight that is kept, and the more outputs have one.
    """
    width, n_nodes, total = width_of(options), 1, 0.0
    for below in range(height_of(n_classes, options.arity), -1, -1):
        n_labels = -(-n_classes // n_nodes)  # below a node
        n_outputs = n_children(n_labels, options.arity, below) if below else min(options.arity, n_labels)
        known, n_weights = float(n_features), float(options.arity)  # features of a node; weights of a feature
        if size is not None:
            n_visited = min(n_nodes, size.n_labels) if below else size.n_labels  # by a row
            n_values = size.n_rows * size.n_nonzero * n_visited**_NEAR / n_nodes
            often = max(n_values / n_features, 1e-9)
            threshold = threshold_of(size.n_rows * size.n_labels / n_classes, size.n_nonzero, not below)
            known = n_features * -math.expm1(-_KEPT * often**_REPEATED / (1 + _LEFT_OUT * threshold))
            n_weights = 1 + (n_outputs - 1) / (1 + _OUTPUTS / often**3)
        per_feature = feature_bytes + 4 / EVERY + 2 * width // LANES + 2 * n_weights
        total += n_nodes * (known * per_feature + 4 * width + 4 * options.arity + 25 + node_bytes)
        n_nodes *= n_outputs
    return options.n_trees * (total + 16 * n_classes)


class Needs(NamedTuple):
    """Bytes that `fit` allocates, beyond the rows that it is given."""

    rows: float  # as long as it runs
    grouping: float  # while similar labels are grouped, and ...
    grouping_thread: float  # ... for each further thread
    router_pairs: float  # while the rows of routers are sorted
    leaf_pairs: float  # while the rows of leaves are sorted
    pairs: float  # while nodes are trained
    thread: float  # of each thread that trains
    weights: float
    finished: float  # weights of all trees but the last
    kept: float  # rows that the model keeps

    def peak(self, n_jobs: int) -> int:
        """The most at the same time."""
        stages = (
            self.grouping + (n_jobs - 1) * self.grouping_thread + self.finished,
            self.router_pairs + self.finished,
            self.leaf_pairs + (self.weights + self.finished) / 2,  # about half of those of a tree are of routers
            self.pairs + _COPIED * self.kept,
            self.pairs + n_jobs * self.thread + self.weights + self.kept,
            self.pairs + _JOINED * self.weights + self.kept,
        )
        return int(_SPARE * (self.rows + max(stages)))


def needs_of(options: Options, problem: Problem, spill: bool = False) -> Needs:
    """What training takes; `spill`: with pairs of rows and nodes in temporary files."""
    n_features, n_classes, size, sparse, n_used = problem[:5]
    n_rows, n_labels, width = size.n_rows, size.n_rows * size.n_labels, width_of(options)
    n_reached = n_rows * min(options.beam, -(-n_classes // options.arity)) + n_labels
    # while weights are put together, features have 4 bytes, and those of each page are counted
    weights = _weights(options, n_used, n_classes, size if sparse else None, 4, 24 * pages_for(n_features)[0])
    return Needs(
        24 * (n_rows + n_labels),
        _grouping(options, problem),
        max(8 * n * columns_at_a_time(n) for n in (n_classes, n_used)) if sparse else 0,
        _sorting(n_labels * height_of(n_classes, options.arity), n_rows, spill),
        _sorting(n_reached, n_rows, spill),
        24 * max(n_rows, n_reached / _CHUNKS) if spill else 24 * n_reached,
        min(MOST_RECORDS, max(n_used, n_rows * size.n_nonzero)) * (6 + 2 * width)  # the weights of some nodes
        + 8 * n_features + 8 * width * n_used  # the node that is trained
        + n_rows * (28 + 4 * width) + 4 * n_labels,  # its rows: the root has all of them
        weights + 12 * n_features,
        weights * (1 - 1 / options.n_trees),
        0 if sparse or options.multilabel or not options.neighbors else kept_bytes(n_rows, n_features, n_classes),
    )


def needed(options: Options, problem: Problem, n_jobs: int, spill: bool) -> int:
    """Bytes that training takes, beyond the rows that it is given."""
    return max(needs_of(options, problem, spill).peak(n_jobs), _needed_for_threshold(options, problem))


def _needed_for_threshold(options: Options, problem: Problem) -> int:
    """The same, after training: the model, copies of some rows, and what a small model of them takes."""
    size, model = problem.size, needs_of(options, problem).weights
    n_held, n_learned = sizes_for_threshold(size.n_rows)
    if not problem.threshold or n_held < FEWEST:
        return 0
    copied = (8 if problem.sparse else 4) * size.n_nonzero + _PER_LABEL * size.n_labels
    small = problem._replace(size=size._replace(n_rows=n_learned), threshold=False)
    return int(model + _SPARE * copied * n_learned) + needed(options, small, 1, spill=True)


def _sorting(n_pairs: float, n_rows: int, spill: bool) -> float:
    together = _PER_KEY * n_pairs * min(1.0, ROWS_SORTED / max(1, n_rows))
    return together if spill else together + 2 * _PER_PAIR * n_pairs


def _grouping(options: Options, problem: Problem) -> float:
    n_features, n_classes, size, sparse, n_used = problem[:5]
    if n_classes <= options.arity:
        return 0.0
    placed = 4 * min(N_DIMS, n_classes, n_used) * (5 * n_classes + 3 * n_used)
    if not sparse:
        return placed + 16 * n_classes * n_features
    n_labels = size.n_rows * size.n_labels
    exact = 24 * n_classes**2 if n_classes <= FEW_LABELS else 0
    values = _PER_VALUE * min(n_labels * size.n_nonzero, VALUES_AT_A_TIME)
    summed = n_classes * min(n_used, n_labels / n_classes * size.n_nonzero)  # values of the sums of all labels
    if n_classes > FEW_LABELS:
        summed = min(summed, MOST_SUMMED + n_used)
    return placed + 5 * n_features + exact + 32 * n_labels + values + 24 * summed


class Limits(NamedTuple):
    """What `fit` may use."""

    n_jobs: int
    weights: float = math.inf  # bytes
    spill: bool = False  # pairs of rows and nodes are in temporary files


def limits(options: Options, problem: Problem, n_jobs: int, max_memory: int | None) -> Limits:
    """Threads and bytes for the weights within a limit for the process, or a LimitError that says what would fit."""
    if max_memory is None:
        return Limits(n_jobs)
    held = held_bytes()
    for n_threads, spill in product(range(n_jobs, 0, -1), (False, True)):
        if held + needed(options, problem, n_threads, spill) <= max_memory:
            needs = needs_of(options, problem, spill)
            left = max_memory - held - _SPARE * (needs.rows + needs.pairs + needs.kept)
            return Limits(n_threads, min(left / _JOINED, left - _SPARE * n_threads * needs.thread), spill)
    raise _refusal(options, problem, held, max_memory)


def _refusal(options: Options, problem: Problem, held: int, max_memory: int) -> LimitError:
    n_rows = problem.size.n_rows

    def total(n: int) -> int:
        """Bytes of the process if it had loaded only so many rows."""
        fewer = problem._replace(size=problem.size._replace(n_rows=n))
        return held - int((1 - n / n_rows) * min(held, problem.row_bytes)) + needed(options, fewer, 1, spill=True)

    n_fitting = bisect_right(range(1, n_rows), max_memory, key=total)
    unit = 10 ** max(0, len(str(n_fitting)) - 2)
    rows = f"about {n_fitting // unit * unit:,} of the {n_rows:,} rows" if n_fitting >= _LEAST_USEFUL * n_rows else ""
    without = held + needed(options, problem._replace(threshold=False), 1, spill=True)
    return LimitError(total(n_rows), held, max_memory, rows, options.n_trees > 1, without <= max_memory)
