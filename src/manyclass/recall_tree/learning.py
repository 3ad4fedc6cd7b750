"""How a Recall Tree learns: the tree and the predictors take turns, or work side by side.

The tree finds candidates without ever looking at the predictors. So it can learn some rows ahead, on a thread of its
own, and hand the predictors the lists of candidates: on one thread or two the model is the same, byte for byte. Only
path features make predictors look at the tree, and then both halves learn row by row.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np

from ..core import labels as label_kernels
from ..core.inputs import Batch
from ..core.linear import grow_bank
from ..core.state import State, copy, resize
from ..core.tables import move_table
from . import kernels as kernel
from . import one_against_some as scorer_kernel
from .means import grow_means
from .paths import Options
from .state import DEEPEST, Config, groups_of, make_fan, make_lists, make_scratch, options_of, path_width, width

_AHEAD = 512  # rows that the tree learns ahead of the predictors
_WIDE = 1 << 16  # features whose sizes are not copied for a few rows
_TREE = ("tree", "router", "counts", "candidates", "table")


def learn(config: Config, state: State, batch: Batch, labels, weights, epoch: int = 0, n_jobs: int = 1) -> None:
    """Learn all rows in turn, making room whenever a kernel asks for it. Mutates: state."""
    options, n_features = options_of(config, epoch), len(state["scale"].inverse)
    few = n_features > _WIDE and 256 * len(labels) < n_features
    if config.path_features != "off" or few:
        _learn_by_row(config, state, batch, labels, weights, options)
    else:
        _learn_in_halves(config, state, batch, labels, weights, options, n_jobs)


def _learn_by_row(config: Config, state: State, batch: Batch, labels, weights, options: Options) -> None:
    names = ("tree", "router", "scorer", "path", "means", "counts", "candidates", "table", "scale", "seen")
    begin, deepest = 0, _deepest(state)
    while True:
        most = width(config, state)
        rooms = (make_scratch(config, state), make_fan(config), make_lists(1, most), np.empty(most), np.empty(most))
        groups = groups_of(config, state, names)
        begin = scorer_kernel.learn_batch(*groups, batch, labels, weights, begin, deepest, options, *rooms)
        if begin == len(labels):
            return
        _make_room(config, state, int(labels[begin]), options)


def _learn_in_halves(
    config: Config, state: State, batch: Batch, labels, weights, options: Options, n_jobs: int
) -> None:
    n_rows = min(_AHEAD, len(labels))
    # Both halves watch the sizes of the features, each at its own row: the tree has a copy of its own.
    tree_scale = copy(state["scale"])
    begin, turn, fan = 0, 0, make_fan(config)
    with _one_behind(n_jobs) as follow:
        while begin < len(labels):
            most = width(config, state)
            room = most + 3 * n_rows * state["candidates"].label.shape[1]  # rows meet two or three lists each
            scratch, lists = make_scratch(config, state), [make_lists(n_rows, room)] * 2
            if n_jobs > 1:
                lists[1] = make_lists(n_rows, room)
            score, gradient = np.empty(most), np.empty(most)
            n = -1
            while n and begin < len(labels):
                try:
                    kernel.recall_batch(
                        *(state[name] for name in _TREE), tree_scale, state["seen"],
                        batch, labels, weights, begin, len(state["scorer"].bias), options, scratch, fan, lists[turn],
                    )  # fmt: skip
                finally:  # an interruption must not leave rows learned by half
                    n = int(lists[turn].n_rows[0])
                    if n:
                        groups = groups_of(config, state, ("scorer", "means", "scale", "seen"))
                        rest = (batch, labels, weights, begin, begin + n, options, lists[turn], score, gradient)
                        follow(scorer_kernel.choose_batch, (*groups, *rest))
                begin, turn = begin + n, 1 - turn
            follow(None, ())
            if begin < len(labels):
                _make_room(config, state, int(labels[begin]), options)


def _deepest(state: State) -> int:
    """The level of the deepest node: answers go as deep, whatever the limit is now."""
    tree = state["tree"]
    return int(tree.depth[: tree.n_nodes[0]].max())


@contextmanager
def _one_behind(n_jobs: int) -> Iterator[Callable]:
    """A function that calls another on a second thread, after the call before it has come to its end.

    Whatever happens in the block, the last call comes to its end too. Called with None it only waits. With one job
    there is no thread: each call is made at once.
    """
    if n_jobs == 1:
        yield lambda function, args: function and function(*args)
        return
    with ThreadPoolExecutor(1) as pool:
        before: list[Future] = []

        def follow(function, args) -> None:
            while before:
                before.pop().result()
            if function is not None:
                before.append(pool.submit(function, *args))

        yield follow


def _make_room(config: Config, state: State, label: int, options: Options) -> None:
    """Enlarge what the next example would not fit into. Each size only depends on the examples before it."""
    n_features, bits = len(state["scale"].inverse), config.table_bits
    new = dict(state)
    tree, scorer, table, path = state["tree"], state["scorer"], state["table"], state["path"]
    if label >= len(scorer.bias):
        new["scorer"] = grow_bank(scorer, 1 << label.bit_length(), n_features, bits, config.learner.adaptive)
        if config.start > 0:
            new["means"] = grow_means(state["means"], 1 << label.bit_length(), n_features, bits)
    newborn = 1 if config.arity == 2 else config.arity
    if tree.n_nodes[0] + newborn * DEEPEST > len(tree.parent):
        n_nodes = 2 * len(tree.parent)
        while tree.n_nodes[0] + newborn * DEEPEST > n_nodes:
            n_nodes *= 2
        for name in ("tree", "counts", "candidates"):
            new[name] = resize(state[name], node=n_nodes)
        adaptive = config.router_learner.adaptive
        new["router"] = grow_bank(state["router"], n_nodes, n_features, bits, adaptive)
    if 2 * (table.n_entries[0] + DEEPEST) > len(table.key):
        new["table"] = move_table(table, 2 * len(table.key))
    n_labels = state["seen"].n_labels[0] + 1
    wanted = kernel.candidates_wanted(n_labels, options)
    if wanted > new["candidates"].label.shape[1]:
        # `candidates` and `counts` are copied before they change: an interruption must leave the state whole
        new["candidates"] = copy(resize(new["candidates"], slot=wanted))
        new["counts"] = copy(new["counts"])
        label_kernels.refill(new["candidates"], new["table"])
        if config.bernstein is not None:
            kernel.refresh_bounds(new["counts"], new["candidates"], options)
    if config.path_features != "off":
        more = scorer_kernel.path_rows_wanted(n_labels, new["candidates"], _deepest(state), options)
        rows = int(path.n_rows[0] + more)
        if rows > len(path.bias):
            width, adaptive = path_width(config, n_features), config.learner.adaptive
            new["path"] = grow_bank(path, max(rows, 2 * len(path.bias)), width, bits, adaptive)
    state.update(new)  # all at once: arrays that disagree in size would be written past
