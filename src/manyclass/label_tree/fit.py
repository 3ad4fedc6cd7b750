"""Label tree in batch: the tree from the labels' mean rows, then every node on its own rows."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..core.inputs import Batch, Csr, Dense
from ..core.losses import SOFTMAX
from ..core.protocol import Labels, as_labels, rows_of
from ..core.state import Blocks, LabelTree, Run, Scale, Seen, State, make
from . import answers as answer_kernels
from . import fit_kernels
from .clustering import embed, grow_tree, mean_directions
from .growth import first_bias
from .kernels import SMALLEST_GRADIENT
from .paths import Options
from .state import Config, empty_blocks, options_of, suffix_of
from .weights import enter_nodes, table_size

N_DIMS = 64  # in which labels are grouped
FEW_ROWS = 3.0  # a label: up to here words vote with their full weight for where a router sends a row
_MOST_RECORDS = 1 << 18  # blocks that one call of the trainer may write: bounds its memory
_SHARES = 64  # into which the work is divided for threads


def fit(
    config: Config, state: State, X: Any, batch: Batch, labels: Any, weights: np.ndarray, n_jobs: int, tell: Callable
) -> None:
    """Build the tree from all rows, then train every node on its own rows. Mutates: state.

    `X` and `batch` are the same rows, for linear algebra and for the kernels.
    """
    given = as_labels(labels)
    n, n_features, n_classes = rows_of(batch), X.shape[1], len(state["tree"].leaf_of)
    scale = make(Scale, feature=n_features)
    values = (X.data if sp.issparse(X) else X).ravel()
    scale.n_rows[0], scale.sq_norm[0] = n, np.einsum("i,i->", values, values, dtype=np.float64)
    weights = weights / weights.mean()  # what counts is how much more a row weighs than others
    scales = answer_kernels.row_scales(scale, batch, n, options_of(config))
    mass = np.bincount(given.label, np.repeat(weights, np.diff(given.pointer)), n_classes)
    new: State = {"scale": scale, "seen": make(Seen), "run": make(Run)}
    new["run"].mass[0] = mass.sum()
    new["seen"].n_rows[0], new["seen"].n_labels[0] = n, len(np.unique(given.label))
    for number in range(config.n_trees):
        own = config._replace(seed=config.seed + number)
        tree = _cluster(own, X, scales, given, weights, n_classes)
        tree.mass[:] = mass
        work = _Batch(own, options_of(own), batch, n_features, scales, given, weights, tree, scale, n_jobs)
        new[f"tree{suffix_of(number)}"], new[f"blocks{suffix_of(number)}"] = tree, _train_tree(work)
        tell((number + 1) / config.n_trees)
    state.clear()
    state.update(new)


def _train_tree(work: "_Batch") -> Blocks:
    """Routers first; the paths that they choose then say which rows a leaf learns from."""
    config, tree = work.config, work.tree
    blocks = empty_blocks(config, len(tree.parent), 1, 1)
    for node in range(len(tree.parent)):
        blocks.bias[node] = first_bias(tree, node, work.options)
    routers = _train(work, blocks, _router_pairs(tree, work.labels), False)
    blocks = _enter(config, blocks, [routers])
    leaves = _train(work, blocks, _leaf_pairs(work, blocks), True)
    return _enter(config, blocks, [routers, leaves])


class _Batch(NamedTuple):
    """All that training in batch needs to know."""

    config: Config
    options: Options
    batch: Batch
    n_features: int
    scales: np.ndarray
    labels: Labels
    weights: np.ndarray
    tree: LabelTree
    scale: Scale
    n_jobs: int


class _Trained(NamedTuple):
    """Blocks of some nodes, node after node."""

    nodes: np.ndarray
    counts: np.ndarray
    feature: np.ndarray
    weight: np.ndarray
    total: np.ndarray


def _cluster(config: Config, X: Any, scales, labels: Labels, weights, n_classes: int) -> LabelTree:
    """The tree over all labels that have rows."""
    rng = np.random.default_rng(config.seed)
    per_label = np.repeat(scales * weights, np.diff(labels.pointer)).astype(np.float32)
    Y = sp.csr_array((per_label, labels.label, labels.pointer), shape=(len(scales), n_classes))
    present = np.unique(labels.label)
    if len(present) <= config.arity:  # one leaf holds them all
        rows = np.zeros((n_classes, 1), np.float32)
    elif config.cluster == "random":
        rows = rng.standard_normal((n_classes, 8)).astype(np.float32)
    else:
        rows = embed(mean_directions(X, Y), N_DIMS, rng)
    return grow_tree(rows, present, config.arity, n_classes, rng)


def _router_pairs(tree: LabelTree, labels: Labels) -> "_Pairs":
    """(inner node, row, children that are true for it as bits), by node and row; the root sees every row."""
    n_rows = len(labels.pointer) - 1
    row = np.repeat(np.arange(n_rows), np.diff(labels.pointer))
    child = tree.leaf_of[labels.label].astype(np.int64)
    nodes, rows, bits = [], [], []
    while len(child) and child[0] > 0:
        parent = tree.parent[child].astype(np.int64)
        _, first = np.unique(row * len(tree.parent) + child, return_index=True)
        row, child, parent = row[first], child[first], parent[first]
        nodes.append(parent)
        rows.append(row)
        bits.append(np.uint64(1) << tree.place[child].astype(np.uint64))
        child = parent
    if tree.is_leaf[0] == 0:
        unlabelled = np.flatnonzero(np.diff(labels.pointer) == 0)
        nodes.append(np.zeros(len(unlabelled), np.int64))
        rows.append(unlabelled)
        bits.append(np.zeros(len(unlabelled), np.uint64))
    return _merge_pairs(nodes, rows, bits, n_rows)


def _leaf_pairs(work: _Batch, blocks: Blocks) -> "_Pairs":
    """(leaf, row, labels that are true for it as bits): leaves that paths reach, and the leaves of all labels."""
    tree, labels = work.tree, work.labels
    n = len(work.scales)
    beam = work.config.beam
    reached, chances, counted = np.empty((n, beam), np.int32), np.empty((n, beam)), np.zeros((n, 4), np.int64)

    def reach(rows: tuple[int, int]) -> None:
        part, own = _part(work.batch, *rows), slice(*rows)
        answers = reached[own], chances[own], counted[own]
        answer_kernels.answer_batch(tree, blocks, work.scale, part, work.options, *answers, answer_kernels.LEAVES)

    step = 1 << 13
    _parallel(reach, [(first, min(n, first + step)) for first in range(0, n, step)], work.n_jobs)
    row = np.repeat(np.arange(n), np.diff(labels.pointer))
    true_leaf = tree.leaf_of[labels.label].astype(np.int64)
    rows = [np.repeat(np.arange(n), (reached >= 0).sum(axis=1)), row]
    nodes = [reached[reached >= 0].astype(np.int64), true_leaf]
    bits = [np.zeros(len(nodes[0]), np.uint64), np.uint64(1) << tree.place_of[labels.label].astype(np.uint64)]
    return _merge_pairs(nodes, rows, bits, n)


def _merge_pairs(nodes: list, rows: list, bits: list, n_rows: int) -> "_Pairs":
    """Sorted by node and row, each pair once, its bits joined."""
    if not nodes or not sum(map(len, nodes)):
        return _Pairs(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.uint64), np.empty(0))
    key = np.concatenate(nodes) * n_rows + np.concatenate(rows)
    order = np.argsort(key, kind="stable")
    key, bit = key[order], np.concatenate(bits)[order]
    first = np.flatnonzero(np.diff(key, prepend=-1))
    others = np.full(len(first), fit_kernels.NOBODY)
    return _Pairs(key[first] // n_rows, key[first] % n_rows, np.bitwise_or.reduceat(bit, first), others)


class _Pairs(NamedTuple):
    """Which rows learn at which nodes, by node and row."""

    node: np.ndarray
    row: np.ndarray
    bits: np.ndarray  # the node's outputs that are true for the row
    others: np.ndarray  # log of the sum over the labels of the row's other leaves

    def where(self, keep: np.ndarray) -> "_Pairs":
        return _Pairs(*(array[keep] for array in self))


def _train(work: _Batch, blocks: Blocks, pairs: _Pairs, leaves: bool) -> _Trained:
    """Train nodes on their rows."""
    start = float(work.config.start if leaves else work.config.router_start)
    if work.options.loss != SOFTMAX:
        return _fit_nodes(work, blocks, pairs, start, work.config.n_epochs)
    if leaves:
        pairs = _with_others(work, blocks, pairs, start)
        return _fit_nodes(work, blocks, pairs, start, work.config.n_epochs)
    # The fewer rows a label has, the more a single word that a new row shares with them must count.
    n_labels = np.count_nonzero(work.tree.leaf_of >= 0)
    votes = min(1.0, FEW_ROWS * n_labels / len(work.scales)) if work.config.unit_rows and start > 0 else 0.0
    return _fit_nodes(work, blocks, pairs, start, work.config.n_epochs, votes)


def _with_others(work: _Batch, blocks: Blocks, pairs: _Pairs, start: float) -> _Pairs:
    """What the other leaves of each row add to the softmax, before any has learned.

    Pairs whose labels have so small a share that no step would be taken are left out: more than half on text.
    """
    own = pairs.others.copy()
    _fit_nodes(work, blocks, pairs._replace(others=own), start, 0)
    others = _log_of_others(own, pairs.row, len(work.scales))
    share = np.log(SMALLEST_GRADIENT)
    return pairs._replace(others=others).where((pairs.bits != 0) | (own - others > share))


def _fit_nodes(
    work: _Batch, blocks: Blocks, pairs: _Pairs, start: float, n_epochs: int, votes: float = 0.0
) -> _Trained:
    """Train chunks of nodes on `n_jobs` threads; without epochs, only write their sums to pairs.others."""
    first = np.flatnonzero(np.diff(pairs.node, prepend=-1))
    nodes, pointer = pairs.node[first], np.append(first, len(pairs.node))
    batch, width = work.batch, blocks.weight.shape[1]
    lengths = np.diff(batch.indptr) if isinstance(batch, Csr) else np.full(len(work.scales), work.n_features)
    costs = np.add.reduceat(lengths[pairs.row], first) if len(first) else first
    most = np.minimum(costs, work.n_features)

    def run(chunk: tuple[int, int]) -> _Trained:
        own = slice(pointer[chunk[0]], pointer[chunk[1]])
        mine = nodes[slice(*chunk)]
        size = int(most[slice(*chunk)].sum()) if n_epochs else 0
        counts, feature = np.zeros(len(mine), np.int64), np.empty(size, np.int32)
        weight, total = np.empty((size, width), np.float32), np.empty((size, width), np.float32)
        used = fit_kernels.fit_nodes(
            batch, work.scales, mine, pointer[chunk[0] : chunk[1] + 1] - own.start, pairs.row[own], pairs.bits[own],
            work.weights, pairs.others[own], work.tree.size, work.options, n_epochs, start, votes, work.n_features,
            blocks.bias, blocks.sq_norm, counts, feature, weight, total,
        )  # fmt: skip
        return _Trained(mine, counts, feature[:used].copy(), weight[:used].copy(), total[:used].copy())

    parts = _parallel(run, _chunks(most, costs), work.n_jobs)
    if not parts:
        nothing = np.empty((0, width), np.float32)
        return _Trained(nodes, np.zeros(0, np.int64), np.empty(0, np.int32), nothing, nothing)
    return _Trained(*map(np.concatenate, zip(*parts, strict=True)))


def _chunks(most: np.ndarray, costs: np.ndarray) -> list[tuple[int, int]]:
    """Ranges of nodes whose blocks fit into one call, none with much of the work unless it is a single node."""
    share = costs.sum() / _SHARES
    out, begin, total, cost = [], 0, 0, 0
    for k, size in enumerate(most):
        if k > begin and (total + size > _MOST_RECORDS or cost + costs[k] > share):
            out.append((begin, k))
            begin, total, cost = k, 0, 0
        total += int(size)
        cost += int(costs[k])
    return out + [(begin, len(most))] if len(most) else []


def _log_of_others(own: np.ndarray, row: np.ndarray, n_rows: int) -> np.ndarray:
    """For each (leaf, row) pair, the log of the sum over the labels of the row's other leaves."""
    top = np.full(n_rows, -np.inf)
    np.maximum.at(top, row, own)
    part = np.exp(own - top[row])
    rest = np.bincount(row, part, n_rows)[row] - part
    return np.where(rest > 1e-12, np.log(np.maximum(rest, 1e-300)) + top[row], fit_kernels.NOBODY)


def _parallel(function: Callable, items: list, n_jobs: int) -> list:
    if min(n_jobs, len(items)) <= 1:
        return [function(item) for item in items]
    with ThreadPoolExecutor(n_jobs) as pool:
        return list(pool.map(function, items))


def _enter(config: Config, old: Blocks, parts: list[_Trained]) -> Blocks:
    """Blocks with the tables of all trained nodes; biases and lengths stay."""
    nodes, counts, feature, weight, total = map(np.concatenate, zip(*parts, strict=True))
    sizes = sum(int(table_size(count)) for count in counts)
    blocks = empty_blocks(config, len(old.first), max(1, sizes), 0)
    blocks = blocks._replace(weight=weight, total=total, bias=old.bias, sq_norm=old.sq_norm)
    enter_nodes(blocks, nodes, counts, feature, 0)
    return blocks


def _part(batch: Batch, first: int, last: int) -> Batch:
    """Rows first..last-1, sharing their arrays."""
    if isinstance(batch, Dense):
        return Dense(batch.values[first:last])
    return Csr(batch.indptr[first : last + 1], batch.indices, batch.values)
