"""Label tree in batch: the tree from the mean rows of the labels, then every node on its rows."""

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.linalg import eigh
from scipy.sparse.linalg import aslinearoperator
from scipy.special import expit
from sklearn.utils.extmath import row_norms

from ..core.columns import as_matrix
from ..core.inputs import Batch, Csr, Dense
from ..core.protocol import Labels, as_labels, rows_of
from ..core.state import Scale, Seen, State, make
from .fit_kernels import Pairs, Start, Trained, fit_nodes, left_out_scores
from .kernels import (
    Found,
    LabelTree,
    Options,
    Rows,
    Run,
    first_bias,
    predict_batch,
    row_factors,
    start_of,
)
from .neighbors import Neighbors, best_slope, nearest, no_neighbors, rows_to_keep, with_rows
from .weights import LANES, SIZES, Blocks, PackedBlocks, packed, weights_of

N_DIMS = 64  # in which labels are grouped
FEW_ROWS = 3.0  # per label: up to here votes have their full weight
N_SAMPLE = 1 << 14  # (node, row) pairs from which the start is calibrated
# Weights of sparse rows are left out up to the absolute value 4 / rows per label, at least 0.1 and at most 1, routers
# half of it. On held-out rows of text, 1 is more accurate than 0.1 with 4 rows per label; 0.5 is less accurate with 20.
_SMALLEST, _LEAST, _MOST = 4.0, 0.1, 1.0
_MOST_RECORDS = 1 << 18  # blocks that one call of the trainer may write: bounds its memory
_SHARES = 64  # into which the work is divided for threads
_POWER_STEPS, _SWEEPS = 2, 10  # of the randomised SVD, of two-means
_NEWTON_STEPS, _PENALTY = 50, 1e-3  # of the calibration
_FEWEST_PAIRS, _HELD_OUT = 4096, 0.2  # (leaf, row) pairs, and the share of held-out rows, for nearest rows
_FEW_LABELS = 512  # for which an exact decomposition is fast
_LABELS_AT_A_TIME = 1 << 12  # whose sums are in memory together


class _Task(NamedTuple):
    """All that training one tree requires."""

    options: Options
    rows: Rows
    labels: Labels
    tree: LabelTree
    scale: Scale
    n_jobs: int


def fit(
    options: Options,
    state: State,
    X: Any,
    batch: Batch,
    labels: Any,
    weights: np.ndarray,
    n_jobs: int,
    report: Callable,
) -> Options:
    """Build the tree from all rows, then train every node on its rows. Mutates: state.

    `X` and `batch` are the same rows. Returns the options with the calibrated start.
    """
    labels = as_labels(labels)
    n, n_features, n_classes = rows_of(batch), X.shape[1], len(state["tree"].leaf_of)
    new: State = {"scale": make(Scale, feature=n_features), "seen": make(Seen), "run": make(Run)}
    scale = new["scale"]
    X, values = as_matrix(batch, n_features), batch.values.ravel()
    scale.n_rows[0], scale.sq_norm[0] = n, np.einsum("i,i->", values, values, dtype=np.float64)
    rows = Rows(batch, np.empty(n, np.float32), weights / weights.mean())  # only the ratios of weights count
    row_factors(scale, batch, rows.factor, options)
    mass = np.bincount(labels.label, np.repeat(rows.weight, np.diff(labels.pointer)), n_classes)
    new["run"].mass[0] = mass.sum()
    new["seen"].n_rows[0], new["seen"].n_labels[0] = n, len(np.unique(labels.label))
    calibrated = options
    for number in range(options.n_trees):
        own = options._replace(seed=options.seed + number)
        tree = _cluster(own, X, rows, labels, n_classes)
        tree.mass[:] = mass
        own, blocks, neighbors = _train_tree(_Task(own, rows, labels, tree, scale, n_jobs))
        if neighbors is not None:
            new["neighbors"] = neighbors
        if number == 0:
            calibrated = own  # online learning continues with the start of the first tree
        new[f"tree{suffix_of(number)}"], new[f"blocks{suffix_of(number)}"] = tree, blocks
        report((number + 1) / options.n_trees)
    state.clear()
    state.update(new)
    return calibrated


def suffix_of(number: int) -> str:
    """What the names of the groups of a further tree end in."""
    return f"_{number}" if number else ""


def width_of(options: Options) -> int:
    """Places for the outputs of a node."""
    return -(-options.arity // LANES) * LANES


def empty_blocks(options: Options, n_nodes: int, n_entries: int, n_records: int) -> Blocks:
    """Blocks without features."""
    sizes = {"node": n_nodes, "entry": n_entries, "record": n_records, "table_size": SIZES}
    return make(Blocks, place=width_of(options), **sizes)


# -- training ------------------------------------------------------------------------------------------------------


def _train_tree(task: _Task) -> tuple[Options, PackedBlocks, Neighbors | None]:
    """Routers first; the paths that they choose then determine which rows a leaf learns from.

    Returns the options with a calibrated start, the weights, and nearest rows if they help.
    """
    tree, options = task.tree, task.options
    bias = np.zeros((len(tree.parent), width_of(options)), np.float32)
    pairs = _router_pairs(tree, task.labels)
    start, router_bias = _start(task, pairs, False)
    options = options._replace(router_start=start.cosine, router_bias=router_bias)
    task = task._replace(options=options)
    bias[tree.is_leaf == 0] = first_bias(options, False)
    routers = _train(task, bias, pairs, start, False)
    pairs = _leaf_pairs(task, _join(bias, routers))
    start, leaf_bias = _start(task, pairs, True)
    options = options._replace(start=start.cosine, bias=leaf_bias)
    bias[tree.is_leaf != 0] = first_bias(options, True)
    neighbors = _neighbors(task, bias, pairs, start)
    return options, _join(bias, [*routers, *_train(task, bias, pairs, start, True)]), neighbors


def _neighbors(task: _Task, bias: np.ndarray, pairs: Pairs, start: Start) -> Neighbors | None:
    """Training rows of each label, if held-out rows of a sample of leaves are predicted better with them."""
    options, rows, label = task.options, task.rows, task.labels.label
    suited = isinstance(rows.batch, Dense) and not (options.multilabel or options.normalize or options.n_trees > 1)
    if not (options.neighbors and suited and len(pairs.node)):
        return None
    kept = rows_to_keep(label, rows.weight, len(task.scale.inverse), len(task.tree.leaf_of), options.seed)
    slope = _slope(task, bias, pairs, start, kept) if len(kept) else 0.0
    if slope == 0.0:
        return None
    neighbors = no_neighbors(len(task.scale.inverse), slope)
    return with_rows(neighbors, rows.batch.values[kept], label[kept])


def _slope(task: _Task, bias: np.ndarray, pairs: Pairs, start: Start, kept: np.ndarray) -> float:
    """The weight of distances, from leaves that are trained without some of their rows."""
    rng = np.random.default_rng(task.options.seed)
    most = max(_FEWEST_PAIRS, len(pairs.node) // 5)
    leaves = rng.permutation(np.unique(pairs.node))
    sizes = np.bincount(pairs.node)[leaves]
    leaves = leaves[: 1 + np.searchsorted(np.cumsum(sizes), most)]
    chosen = np.flatnonzero(np.isin(pairs.node, leaves))
    chosen = np.sort(rng.permutation(chosen)[: 2 * most])  # the leaf of a small tree has all rows
    held = (pairs.true[chosen] != 0) & (rng.random(len(chosen)) < _HELD_OUT)
    learned, held = (Pairs(*(array[part] for array in pairs)) for part in (chosen[~held], chosen[held]))
    bias = bias.copy()
    blocks = _join(bias, _train(task, bias, learned, start, True))
    used = np.zeros(len(task.rows.weight), bool)
    used[learned.row[learned.true != 0]] = True
    kept = kept[used[kept]]
    parts = []
    for node in np.unique(learned.node):
        own, first, last = held.node == node, *blocks.first[node : node + 2]
        near = kept[task.tree.leaf_of[task.labels.label[kept]] == node]
        if own.any() and len(near):
            weight = np.zeros((len(task.scale.inverse), bias.shape[1]), np.float32)
            weight[blocks.feature[first:last]] = weights_of(blocks, slice(first, last))
            parts.append(_held_out_scores(task, node, weight, bias[node], held.row[own], near))
    if not parts:
        return 0.0
    scores, distances, places = map(np.concatenate, zip(*parts, strict=True))
    return best_slope(scores, distances, places)


def _held_out_scores(task: _Task, node: int, weight: np.ndarray, bias: np.ndarray, row: np.ndarray, near: np.ndarray):
    """(scores, distances, place of the true label) of held-out rows of a leaf; `near` are its other rows."""
    values, labels, n_outputs = task.rows.batch.values, task.labels.label, task.tree.size[node]
    scores = (values[row] * task.rows.factor[row, None]) @ weight + bias
    scores = -np.logaddexp(0.0, -scores)
    scores[:, n_outputs:] = -np.inf
    place = task.tree.place_of[labels[near]]
    near, place = near[np.argsort(place, kind="stable")], np.sort(place)
    return scores, nearest(values[row], values[near], place, len(bias)), task.tree.place_of[labels[row]]


def _start(task: _Task, pairs: Pairs, leaf: bool) -> tuple[Start, float]:
    """Weights and bias of the start: those given, or a logistic regression of the true outputs on the start scores.

    It uses a sample of nodes and no weights of rows. No row is in the sums that it is compared with, so the result
    holds for new rows. Votes are for routers of text; the predictors in leaves are more accurate without.
    """
    given, with_votes = start_of(task.options, leaf), not leaf and isinstance(task.rows.batch, Csr)
    if given >= 0:
        return Start(given, 0.0), float(first_bias(task.options, leaf))
    if not len(pairs.node):  # a tree of one leaf, which may grow
        return Start(10.0, 0.0), -10.0 / 3
    first = np.flatnonzero(np.diff(pairs.node, prepend=-1))
    sizes = np.diff(np.append(first, len(pairs.node)))
    nodes = np.random.default_rng(task.options.seed).permutation(len(first))
    nodes = np.sort(nodes[: 1 + np.searchsorted(np.cumsum(sizes[nodes]), N_SAMPLE)])
    chosen = Pairs(*(np.concatenate([a[first[k] : first[k] + sizes[k]] for k in nodes]) for a in pairs))
    every = max(1, len(chosen.node) // N_SAMPLE)
    kept = np.concatenate([first[k] + np.arange(0, sizes[k], every) for k in nodes])
    scores = np.zeros((2, len(kept), width_of(task.options)), np.float32)
    for one, out in zip((Start(1.0, 0.0), Start(0.0, 1.0)), scores[: 1 + with_votes], strict=False):
        left_out_scores(task.tree, task.scale, task.rows, chosen, one, every, out)
    place = np.arange(scores.shape[2])
    used = (place < task.tree.size[pairs.node[kept], None]) & ~np.isnan(scores[0])
    true = (pairs.true[kept, None] >> place.astype(np.uint64) & np.uint64(1))[used].astype(float)
    cosines, votes = scores[:, used].astype(float)
    share = 0.0
    if with_votes:  # with many rows per label, what is learned is better than any vote
        n_labels = np.count_nonzero(task.tree.leaf_of >= 0)
        slopes, _ = logistic_regression(np.stack([cosines, votes]), true)
        share = max(0.0, float(slopes[1])) * min(1.0, FEW_ROWS * n_labels / len(task.labels.label))
    slopes, bias = logistic_regression(cosines[None], true, share * votes)
    return Start(max(0.0, float(slopes[0])), share), float(bias)


def logistic_regression(
    x: np.ndarray, y: np.ndarray, offset: np.ndarray | float = 0.0
) -> tuple[np.ndarray, float]:
    """Slopes and intercept for the variables (variable, row) x, with a small penalty."""
    line, design = np.zeros(len(x) + 1), np.vstack([x, np.ones(len(y))])

    def loss(line: np.ndarray) -> float:
        z = line @ design + offset
        return float((np.logaddexp(0.0, z) - y * z).sum() + _PENALTY / 2 * line @ line)

    now = loss(line)
    for _ in range(_NEWTON_STEPS):
        p = expit(line @ design + offset)
        gradient = design @ (p - y) + _PENALTY * line
        curvature = (design * (p * (1 - p))) @ design.T + _PENALTY * np.eye(len(line))
        step = np.linalg.solve(curvature, gradient)
        while (new := loss(line - step)) > now and np.abs(step).max() > 1e-6:
            step /= 2
        line, before, now = line - step, now, min(new, now)
        if before - now <= 1e-6 * before:
            break
    return line[:-1], line[-1]


def _router_pairs(tree: LabelTree, labels: Labels) -> Pairs:
    """The rows of each inner node: those with a label below it; the root has all rows."""
    n_rows = len(labels.pointer) - 1
    row = np.repeat(np.arange(n_rows), np.diff(labels.pointer))
    node, place = tree.leaf_of[labels.label], tree.place_of[labels.label]
    keys, places = [np.empty(0, np.int64)], [place[:0]]
    while len(node) and node[0] > 0:
        node, place = tree.parent[node], tree.place[node]
        keys.append(node.astype(np.int64) * n_rows + row)
        places.append(place)
    unlabelled = np.flatnonzero(np.diff(labels.pointer) == 0) if tree.is_leaf[0] == 0 else row[:0]
    return _pairs(unlabelled, np.concatenate(keys), np.concatenate(places), n_rows)


def _leaf_pairs(task: _Task, blocks: PackedBlocks) -> Pairs:
    """The rows of each leaf: those whose paths reach it, and those with a label in it."""
    tree, labels, n = task.tree, task.labels, len(task.rows.weight)
    reached = np.empty((n, task.options.beam), np.int32)

    def reach(rows: tuple[int, int]) -> None:
        size = rows[1] - rows[0]
        nothing = np.empty((size, 0), np.int32), np.empty((size, 0)), np.zeros((size, 4), np.int64)
        found = Found(reached[slice(*rows)], *nothing)
        predict_batch(tree, blocks, task.scale, _part(task.rows.batch, *rows), task.options, found, True)

    step = 1 << 13
    _parallel(reach, [(first, min(n, first + step)) for first in range(0, n, step)], n_jobs=task.n_jobs)
    row, leaf = np.repeat(np.arange(n), np.diff(labels.pointer)), tree.leaf_of[labels.label].astype(np.int64)
    others = (reached.astype(np.int64) * n + np.arange(n)[:, None])[reached >= 0]
    return _pairs(others, leaf * n + row, tree.place_of[labels.label], n)


def _part(batch: Batch, first: int, last: int) -> Batch:
    """Rows first..last-1, sharing their arrays."""
    if isinstance(batch, Dense):
        return Dense(batch.values[first:last])
    return Csr(batch.indptr[first : last + 1], batch.indices, batch.values)


def _pairs(others: np.ndarray, keys: np.ndarray, places: np.ndarray, n_rows: int) -> Pairs:
    """Pairs sorted by node and row, each once. A key is node x n_rows + row; those of true outputs come with places."""
    known = np.unique(np.concatenate([others, keys]))
    true = np.zeros(len(known), np.uint64)
    np.bitwise_or.at(true, np.searchsorted(known, keys), np.uint64(1) << places.astype(np.uint64))
    return Pairs((known // n_rows).astype(np.int32), (known % n_rows).astype(np.int32), true)


def _train(task: _Task, bias: np.ndarray, pairs: Pairs, start: Start, leaf: bool) -> list[Trained]:
    """Train nodes on `n_jobs` threads. Mutates: bias."""
    width = bias.shape[1]
    smallest = smallest_weight(task.rows.batch, task.labels.label, leaf)

    def run(part: slice, capacity: int) -> Trained:
        own = Pairs(*(array[part] for array in pairs))
        nodes = own.node[np.flatnonzero(np.diff(own.node, prepend=-1))]
        feature, lanes = np.empty(capacity, np.int32), np.empty((capacity, width // LANES), np.uint16)
        out = Trained(nodes, np.zeros(len(nodes), np.int64), feature, lanes, np.empty(capacity * width, np.float32))
        n, n_values = fit_nodes(task.tree, bias, task.scale, task.rows, own, start, task.options, smallest, out)
        return Trained(*out[:2], feature[:n].copy(), lanes[:n].copy(), out.value[:n_values].copy())

    return _parallel(run, *_chunks(task, pairs), n_jobs=task.n_jobs)


def smallest_weight(batch: Batch, labels: np.ndarray, leaf: bool) -> np.float32:
    """The absolute value up to which weights are left out, in leaves or in routers."""
    sparse = isinstance(batch, Csr) and len(labels) > 0
    return np.float32(threshold_of(len(labels) / len(np.unique(labels)), leaf) if sparse else 0.0)


def threshold_of(rows_per_label: float, leaf: bool) -> float:
    """The absolute value up to which weights of sparse rows are left out."""
    return max(_LEAST, min(_SMALLEST / rows_per_label, _MOST) * (1.0 if leaf else 0.5))


def _join(bias: np.ndarray, parts: list[Trained]) -> PackedBlocks:
    """The weights of all nodes; `parts` are in the order of nodes."""
    counts = np.zeros(len(bias), np.int64)
    for part in parts:
        counts[part.node] = part.n_features
    nothing = np.empty(0, np.int32), np.empty((0, bias.shape[1] // LANES), np.uint16), np.empty(0, np.float32)
    arrays = [np.concatenate([empty, *(part[k] for part in parts)]) for k, empty in enumerate(nothing, 2)]
    return packed(np.append(0, np.cumsum(counts)), bias, *arrays)


def _chunks(task: _Task, pairs: Pairs) -> tuple[list[slice], list[int]]:
    """Pairs of nodes that are trained in one call, and the most blocks that each call may write."""
    if not len(pairs.node):
        return [], []
    first = np.flatnonzero(np.diff(pairs.node, prepend=-1))
    batch, n_features = task.rows.batch, len(task.scale.inverse)
    lengths = np.diff(batch.indptr) if isinstance(batch, Csr) else np.full(rows_of(batch), n_features)
    costs = np.add.reduceat(lengths[pairs.row], first)
    most = np.minimum(costs, n_features)
    edges = _divide_work(most, costs)
    ends = np.append(first, len(pairs.node))[edges]
    return [slice(*ends[k : k + 2]) for k in range(len(ends) - 1)], np.add.reduceat(most, edges[:-1]).tolist()


def _divide_work(most: np.ndarray, costs: np.ndarray) -> list[int]:
    """Where to cut the list of nodes: no call writes too many blocks or, except for one node, has much of the work."""
    share = costs.sum() / _SHARES
    edges, total, cost = [0], 0, 0
    for k, size in enumerate(most):
        if k > edges[-1] and (total + size > _MOST_RECORDS or cost + costs[k] > share):
            edges.append(k)
            total, cost = 0, 0
        total += int(size)
        cost += int(costs[k])
    return [*edges, len(most)]


def _parallel(function: Callable, *arguments: list, n_jobs: int) -> list:
    """The function for each item of the lists, on `n_jobs` threads."""
    if min(n_jobs, len(arguments[0])) <= 1:
        return list(map(function, *arguments))
    with ThreadPoolExecutor(n_jobs) as pool:
        return list(pool.map(function, *arguments))


# -- the tree over the labels --------------------------------------------------------------------------------------


def _cluster(options: Options, X: Any, rows: Rows, labels: Labels, n_classes: int) -> LabelTree:
    """The tree over all labels that have rows."""
    rng = np.random.default_rng(options.seed)
    present = np.unique(labels.label)
    if len(present) <= options.arity:  # one leaf holds them all
        return grow_tree(np.zeros((n_classes, 1), np.float32), present, options.arity, n_classes, rng)
    per_label = np.repeat(rows.factor * rows.weight, np.diff(labels.pointer)).astype(np.float32)
    Y = sp.csr_array((per_label, labels.label, labels.pointer), shape=(X.shape[0], n_classes))
    return grow_tree(embed(mean_directions(X, Y), N_DIMS, rng), present, options.arity, n_classes, rng)


def mean_directions(X: Any, Y: sp.csr_array) -> Any:
    """The sum of the rows of each label, scaled to length 1. Labels without rows give zeros.

    A matrix, sparse if X is; for many labels and sparse rows an operator, because the sums would take more memory than
    all rows if these have several labels each.
    """
    by_label = Y.T.tocsr()
    if sp.issparse(X) and Y.shape[1] > _FEW_LABELS:
        firsts = range(0, Y.shape[1], _LABELS_AT_A_TIME)
        lengths = np.concatenate([row_norms(by_label[first : first + _LABELS_AT_A_TIME] @ X) for first in firsts])
        scaled = sp.diags_array(_inverse(lengths).astype(np.float32)) @ by_label
        return aslinearoperator(scaled) @ aslinearoperator(X)
    sums = by_label @ X
    if sp.issparse(sums):
        return sp.csr_array(sp.diags_array(_inverse(row_norms(sums))) @ sums)
    share = np.asarray(Y.sum(axis=0))
    sums = sums - sums.sum(axis=0) * (share / max(share.sum(), 1e-30))[:, None]
    return sums * _inverse(np.linalg.norm(sums, axis=1))[:, None]


def _inverse(lengths: np.ndarray) -> np.ndarray:
    return np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)


def embed(directions: Any, n_dims: int, rng: np.random.Generator) -> np.ndarray:
    """Rows in the few dimensions that hold most of them, scaled to length 1.

    Few rows: from all their inner products. Many: a randomised SVD.
    """
    if directions.shape[0] <= _FEW_LABELS:
        rows = _from_products(directions, n_dims)
    else:
        basis = rng.standard_normal((directions.shape[1], min(n_dims, *directions.shape))).astype(np.float32)
        for _ in range(_POWER_STEPS):
            basis = _orthonormal(directions.T @ _orthonormal(directions @ basis))
        rows = directions @ basis
    return np.asarray(rows * _inverse(np.linalg.norm(rows, axis=1))[:, None], np.float32)


def _from_products(directions: Any, n_dims: int) -> np.ndarray:
    """Rows whose inner products are those of the directions, as nearly as so many dimensions allow."""
    products = directions @ directions.T
    products = np.asarray(products.toarray() if sp.issparse(products) else products, np.float64)
    n = len(products)
    values, vectors = eigh(products, subset_by_index=(max(0, n - n_dims), n - 1))
    values[values <= values.max(initial=0.0) * 1e-12] = 0.0
    rows = vectors * np.sqrt(values)
    rows[np.diagonal(products) == 0.0] = 0.0  # rounding errors would be scaled up
    return rows


def _orthonormal(columns: np.ndarray) -> np.ndarray:
    """An orthonormal basis of the span of the columns, from their few inner products (20x faster than QR here)."""
    values, vectors = np.linalg.eigh((columns.T @ columns).astype(np.float64))
    used = values > max(values.max(initial=0.0) * 1e-12, 1e-30)
    return columns @ (vectors[:, used] / np.sqrt(values[used])).astype(np.float32)


def grow_tree(rows: np.ndarray, labels: np.ndarray, arity: int, n_classes: int, rng: np.random.Generator) -> LabelTree:
    """A tree over `labels`, at most `arity` outputs per node, all leaves at one depth; `rows` places each label."""
    height = height_of(len(labels), arity)
    levels: list[list[np.ndarray]] = [[labels]]
    parents: list[list[int]] = [[-1]]
    for below in range(height, 0, -1):
        groups, above = [], []
        for number, ids in enumerate(levels[-1]):
            parts = divide(rows, ids, n_children(len(ids), arity, below), rng)
            groups += parts
            above += [number] * len(parts)
        levels.append(groups)
        parents.append(above)
    tree = make(LabelTree, node=sum(map(len, levels)), output=arity, **{"class": n_classes})
    tree.n_nodes[0] = len(tree.parent)
    first = 0
    for level, (groups, above) in enumerate(zip(levels, parents, strict=True)):
        for number, ids in enumerate(groups):
            node = first + number
            if level:
                parent = first - len(levels[level - 1]) + above[number]
                tree.parent[node], tree.place[node] = parent, tree.size[parent]
                tree.outputs[parent, tree.size[parent]] = node
                tree.size[parent] += 1
            tree.is_leaf[node] = level == height
            if level == height:
                tree.outputs[node, : len(ids)], tree.size[node] = ids, len(ids)
                tree.leaf_of[ids], tree.place_of[ids] = node, np.arange(len(ids))
        first += len(groups)
    return tree


def height_of(n_labels: int, arity: int) -> int:
    """Number of levels above the leaves."""
    height = 0
    while arity ** (height + 1) < n_labels:
        height += 1
    return height


def n_children(n_labels: int, arity: int, below: int) -> int:
    """Children of a node with so many labels and levels below it: about the same number on each of these levels."""
    n_leaves = math.ceil(n_labels / arity)
    fewest, even = math.ceil(n_leaves / arity ** (below - 1)), math.ceil(n_leaves ** (1 / below) - 1e-9)
    return min(arity, max(fewest, even))


def divide(rows: np.ndarray, ids: np.ndarray, n_parts: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Divide ids into parts of similar rows and equal size (one more or less), by halves."""
    if n_parts <= 1 or len(ids) <= 1:
        return [ids]
    n_left_parts = n_parts // 2
    n_left = min(max(1, round(len(ids) * n_left_parts / n_parts)), len(ids) - 1)
    left = _halve(rows[ids], n_left, rng)
    return divide(rows, ids[left], n_left_parts, rng) + divide(rows, ids[~left], n_parts - n_left_parts, rng)


def _halve(rows: np.ndarray, n_left: int, rng: np.random.Generator) -> np.ndarray:
    """Which rows go left, n_left of them: two-means with a fixed number on each side."""
    n = len(rows)
    a, b = rng.choice(n, 2, replace=False)
    direction = rows[a] - rows[b]
    left = np.zeros(n, bool)
    for _ in range(_SWEEPS):
        best = np.argpartition(-(rows @ direction), n_left - 1)[:n_left]
        new = np.zeros(n, bool)
        new[best] = True
        if np.array_equal(new, left):
            break
        left = new
        means = rows[left].sum(axis=0), rows[~left].sum(axis=0)
        direction = means[0] / max(np.linalg.norm(means[0]), 1e-9) - means[1] / max(np.linalg.norm(means[1]), 1e-9)
    return left
