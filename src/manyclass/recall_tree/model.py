"""Recall Tree: state and verbs. The rules of the paper are in `kernels/recall_tree.py`."""

import math
from collections.abc import Callable

import numpy as np

from ..core.held import hold
from ..core.inputs import Batch, Dense
from ..core.linear import bank_bytes
from ..core.losses import probabilities_batch
from ..core.protocol import Predictions, Scored, rows_of
from ..core.state import Candidates, Counts, LabelTable, Linear, Means, Scale, Seen, State, Tree
from . import answers as answer_kernels
from . import blocks as block_kernels
from . import kernels as kernel
from .means import means_bytes
from .state import (
    ANSWER_GROUPS,
    FIRST_CLASSES,
    FIRST_ENTRIES,
    FIRST_NODES,
    Config,
    groups_of,
    make_fan,
    make_lists,
    make_scratch,
    n_nodes,
    options_of,
    path_width,
    width,
)

MANY_ROWS = 32  # worth answering together
NODES_PER_ROW = 16
MANY_NODES = 1 << 13  # routers that do not fit near the processor
GATHER_DEPTH = 9

from .file import check, slim  # noqa: F401  (part of the model's functions)
from .learning import learn  # noqa: F401  (part of the model's functions)
from .state import init  # noqa: F401  (part of the model's functions)

NAME = "recall-tree"
MOST_ROWS = 1 << 16  # of many rows, more meet at a node
ROWS_PER_THREAD = 1 << 11


def predict(config: Config, state: State, batch: Batch, k: int, n_classes: int) -> Predictions:
    """The k best labels of all rows."""
    n = rows_of(batch)
    answers = Predictions(np.empty((n, k), np.int32), np.empty((n, k)), np.empty((n, 4), np.int64))
    if _goes_by_node(config, state, batch):
        groups = [state[name] for name in ("tree", "router", "scorer", "counts", "candidates", "table")]
        gather, visits = _gather_depth(config, state, n), _make_visits(config, state, n, k)
        rooms = make_scratch(config, state, k), make_fan(config), gather, visits
        if k == 1:
            best = _make_best(state, n)
            block_kernels.best_by_node(*groups, batch, n_classes, options_of(config), *rooms, best, *answers)
        else:
            block_kernels.predict_by_node(*groups, batch, n_classes, options_of(config), *rooms, *answers)
        return answers
    groups, most = groups_of(config, state, ANSWER_GROUPS), width(config, state)
    alone = make_scratch(config, state, k), make_fan(config), make_lists(1, most), np.empty(most)
    answer_kernels.predict_batch(*groups, batch, n_classes, options_of(config), *alone, *answers)
    return answers


def predict_one(config: Config, state: State, k: int, n_classes: int) -> Callable[[Batch], Predictions]:
    """A function that answers one row at a time, without overhead; the next call fills the same arrays anew."""
    answers = Predictions(np.empty((1, k), np.int32), np.empty((1, k)), np.empty((1, 4), np.int64))
    groups, most = groups_of(config, state, ANSWER_GROUPS), width(config, state)
    alone = make_scratch(config, state, k), make_fan(config), make_lists(1, most), np.empty(most)
    held = hold((*groups, n_classes, options_of(config), *alone, *answers))

    def answer(batch: Batch) -> Predictions:
        answer_kernels.predict_held(held, batch)
        return answers

    return answer


def _goes_by_node(config: Config, state: State, batch: Batch) -> bool:
    """Whether rows that meet at a node are worth scoring together: many dense ones, over plain weights."""
    plain = config.path_features == "off" and config.start == 0 and state["scorer"].mask[0] == 0
    many = rows_of(batch) >= max(MANY_ROWS, n_nodes(state) // NODES_PER_ROW)  # each node is looked at once
    return plain and isinstance(batch, Dense) and many


def _gather_depth(config: Config, state: State, n_rows: int) -> int:
    """The level down to which rows are routed beforehand, so that like rows follow one another; 0: not at all."""
    if n_nodes(state) <= MANY_NODES or 4 * n_rows < n_nodes(state):
        return 0
    return max(1, int(GATHER_DEPTH / math.log2(config.arity)))


def _make_visits(config: Config, state: State, n_rows: int, k: int) -> block_kernels.Visits:
    """Room for the visits of some rows; one answer needs none for scores."""
    n = n_rows * config.beam
    return block_kernels.Visits(
        turn=np.empty(n_rows, np.int32),
        first=np.empty(n_rows, np.int64),
        last=np.empty(n_rows, np.int64),
        node=np.empty(n, np.int32),
        row=np.empty(n, np.int32),
        order=np.empty(n, np.int32),
        begin=np.empty(n_nodes(state) + 1, np.int32),
        score=np.empty((n if k > 1 else 1, state["candidates"].label.shape[1])),
    )


def _make_best(state: State, n_rows: int) -> block_kernels.Best:
    """Room for the best candidates of some rows."""
    return block_kernels.Best(
        score=np.empty(n_rows, np.float32),
        label=np.empty(n_rows, np.int32),
        visit=np.empty(n_rows, np.int32),
        some=np.empty(state["candidates"].label.shape[1]),
    )


def score(config: Config, state: State, batch: Batch) -> Scored:
    """All candidates of all rows with their probabilities."""
    options, n = options_of(config), rows_of(batch)
    most = width(config, state)
    labels, scores = np.empty((n, most), np.int32), np.empty((n, most))
    sizes = np.empty(n, np.int64)
    groups = groups_of(config, state, ANSWER_GROUPS)
    rooms = make_scratch(config, state), make_fan(config), make_lists(1, most), np.empty(most)
    answer_kernels.candidates_batch(*groups, batch, options, *rooms, labels, scores, sizes)
    probabilities_batch(scores, sizes, options.loss)
    used = np.arange(most) < sizes[:, None]
    return Scored(sizes, labels[used], scores[used])


def paths(config: Config, state: State, batch: Batch) -> list[np.ndarray]:
    """The nodes that each row passes, those of all its paths."""
    options, tree = options_of(config), state["tree"]
    longest = int(tree.depth[: n_nodes(state)].max()) + 1
    nodes = np.full((rows_of(batch), longest * options.beam), -1, np.int32)
    groups = [state[name] for name in ("tree", "router", "counts", "candidates", "table")]
    rooms = make_scratch(config, state), make_fan(config)
    answer_kernels.paths_batch(*groups, batch, options, *rooms, nodes)
    return [np.unique(row[row >= 0]) for row in nodes]


def memory(config: Config, n_features: int, n_classes: int, n_rows: int | None = None) -> int:
    """Bytes of a trained model from sizes alone; the table of masses depends on the rows too, by default 40 a class."""
    options = options_of(config)
    n_slots = int(kernel.candidates_wanted(n_classes, options))
    depth = int(kernel.depth_limit(n_classes, n_slots, options))
    most = 2 << depth if config.arity == 2 else config.arity ** (depth + 1) // (config.arity - 1)
    n_nodes = _room(min(most, 4 * n_classes), kernel.DEEPEST * (1 if config.arity == 2 else config.arity), FIRST_NODES)
    adaptive, bits = config.learner.adaptive, config.table_bits
    total = bank_bytes(n_nodes, n_features, bits, config.router_learner.adaptive)
    total += bank_bytes(max(FIRST_CLASSES, n_classes), n_features, bits, adaptive)
    if config.start > 0:
        total += means_bytes(max(FIRST_CLASSES, n_classes), n_features, bits)
    if config.path_features != "off":
        nodes_each = 1 if config.path_features == "stop" else depth
        total += bank_bytes(2 * n_slots * n_classes * nodes_each, path_width(config, n_features), bits, adaptive)
    total += n_nodes * (8 + 4 * config.arity + 16 + 12 + 12 * n_slots) + 4 * n_features
    return total + _table_bytes(depth, n_classes, 40 * n_classes if n_rows is None else n_rows)


# Seen on data with 5 to 1,000 rows a class: on each level, a class of r rows is at some r ** 0.32 nodes.
_SPREAD = 0.32


def _table_bytes(depth: int, n_classes: int, n_rows: int) -> int:
    """Bytes of the table of masses after so many rows."""
    n_seen = n_classes * -math.expm1(-n_rows / n_classes)
    entries = n_seen * (depth + 1) * (n_rows / n_seen) ** _SPREAD
    return 20 * _room(int(2 * entries), 2 * kernel.DEEPEST, FIRST_ENTRIES)


def _room(n: int, spare: int, first: int) -> int:
    """Where doubling from `first` ends for n and some to spare."""
    while first < n + spare:
        first *= 2
    return first


def tree_table(state: State, max_depth: int | None = None) -> list[dict]:
    """The nodes down to a depth, parents before children, with their heaviest labels."""
    tree, counts, candidates = state["tree"], state["counts"], state["candidates"]
    n = n_nodes(state)
    wanted = np.arange(n) if max_depth is None else np.flatnonzero(tree.depth[:n] <= max_depth)
    return [
        {
            "node": int(node),
            "parent": int(tree.parent[node]),
            "depth": int(tree.depth[node]),
            "mass": float(counts.total[node]),
            "labels": candidates.label[node, : candidates.size[node]],
        }
        for node in wanted
    ]


GROUPS = {
    "tree": Tree,
    "router": Linear,
    "scorer": Linear,
    "path": Linear,
    "means": Means,
    "counts": Counts,
    "candidates": Candidates,
    "table": LabelTable,
    "scale": Scale,
    "seen": Seen,
}


Options = Config


def options_from_file(values: dict) -> dict:
    """The fields of `Options` from the values in a file."""
    return values
