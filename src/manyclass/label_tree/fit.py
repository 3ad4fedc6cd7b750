"""Label tree in batch: the tree from the mean rows of the labels, then every node on its rows."""

import math
from collections.abc import Callable, Iterator
from copy import deepcopy
from itertools import accumulate, pairwise
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.linalg import eigh
from scipy.special import expit
from sklearn.utils.extmath import row_norms

from ..core.columns import as_matrix
from ..core.inputs import rows_at
from ..core.state import Scale, Seen, State, make
from ..core.steps import Here, add, one_blas_thread
from .fit_kernels import Pairs, Start, Weights, fit_nodes, left_out_scores
from .kernels import LabelTree, Options, Rows, Run, first_bias, start_of
from .neighbors import Neighbors, Ranking, best_ranking, maps, nearest, no_neighbors, product, rows_to_keep, with_rows
from .parts import (
    Bounds,
    Counts,
    Piece,
    back,
    both,
    bounds_of,
    by_label,
    count,
    dense_sums,
    grid_of_back,
    grid_of_sums,
    grid_of_times,
    join_pieces,
    leaf_pairs,
    make_scale,
    mass_of,
    n_rows_of,
    of_rows,
    prepare,
    router_pairs,
    row_lengths,
    sparse_sums,
    sums,
    take,
    take_numbered,
    take_rows,
    times,
    used_features,
    values_of,
    work_of,
)
from .weights import (
    LANES,
    SIZES,
    Blocks,
    PackedBlocks,
    counts_of,
    features_of,
    find_weights,
    in_pages,
    n_features_of,
    packed,
    pages_for,
)

N_DIMS = 64  # in which labels are grouped
FEW_ROWS = 3.0  # per label: up to here votes have their full weight
TAXONOMY = np.float32(1.0)  # weight of a taxonomy against the mean rows where labels are grouped
ROUTER_C = 10.0  # times C: the logistic loss of routers is flatter than the squared hinge loss of leaves
USUAL_C, WEAKER_C, STRONGER_C = 1.0, 0.3, 10.0  # of the leaves of text with one label per row
_NO_START = Start(0.0, 0.0)
USUAL_PRIOR, STRONGER_PRIOR = 0.3, 0.5  # of text with one label per row; the latter if routers have `STRONGER_C`
N_SAMPLE = 1 << 14  # (node, row) pairs of the nodes on which the start is calibrated, and ...
_N_SCORED = 1 << 12  # ... about how many of them are scored
# Weights of sparse rows are left out up to the absolute value 4 / rows per label, at least 0.1 and at most 1, and those
# of routers up to 0.9 times it. On held-out rows of text, 1 is more accurate than 0.1 with 4 rows per label; 0.4 is
# less accurate with 18. For routers 0.9 is as accurate as 0.7 on seven sets, with up to 19 % fewer bytes, and 1 is less
# accurate on one. Above `_LONG` non-zeros per row the limit is lower.
_SMALLEST, _LEAST, _MOST, _ROUTERS = 4.0, 0.1, 1.0, 0.9
_LONG = 256.0  # non-zeros per row above which the threshold is lower
MOST_RECORDS = 1 << 18  # blocks that one call of the trainer may write: bounds its memory
_POWER_STEPS, _SWEEPS = 2, 10  # of the randomised SVD, of two-means
_NEWTON_STEPS, _PENALTY = 50, 1e-3  # of the calibration
_MANY, _EVERY = 1 << 14, 7  # rows of a regression that begins with a part of them: every seventh
_LOW_LOSS = 1.0  # of held-out rows: 0.1 to 0.6 on sets where a stronger C helps, above 1.1 where it does not
_N_SHARES = 2  # of the sampled nodes, for which threads choose C
_FEWEST_PAIRS, _MOST_PAIRS = 4096, 1 << 18  # (node, row) pairs of the nodes that are sampled for C and nearest rows
# Share of the pairs that are sampled, and of their rows that are held out. The ratio of distances and scores depends on
# the number of rows, so fewer are held out for it.
_FOR_C, _FOR_NEIGHBORS = (1 / 5, 1 / 3), (1 / 5, 1 / 5)
_ROWS_SCORED = 1 << 9  # held-out rows at a time
_MOST_DISTANCES = 1 << 26  # of held-out rows to the rows of a leaf
FEW_LABELS = 512  # for which an exact decomposition is fast
_LABELS_AT_A_TIME = 1 << 12  # whose sums of dense rows are in memory together
MOST_SUMMED = 1 << 22  # values of the sums of sparse rows that are in memory together
_MOST_SPANS = 16  # of labels that are ordered at the same time
_SHORT = 1 << 16  # length of columns whose products are computed together: 32 MB


class _Plan(NamedTuple):
    """What the steps of one tree share. Values may be futures of a cluster."""

    run: Any  # core/steps.py
    options: Options
    parts: list  # of `Part`
    counts: Counts  # of all rows
    tree: Any  # LabelTree
    scale: Any  # Scale
    n_nodes: int
    sparse: bool

    def replace(self, **options: Any) -> "_Plan":
        """With some options changed."""
        return self._replace(options=self.options._replace(**options))


class _Job(NamedTuple):
    """What training a node requires besides its rows and the tree."""

    options: Options
    start: Start
    smallest: np.float32  # weights up to this absolute value are left out
    leaf: bool


class Sizes(NamedTuple):
    """What is known of the rows before any is read."""

    n_features: int
    n_classes: int
    sparse: bool
    above: sp.csr_array | None = None  # nodes of a taxonomy that contain each label


def fit_parts(run: Any, options: Options, given: list, sizes: Sizes, report: Callable) -> tuple[Options, State]:
    """The options with the calibrated start, and the state, from rows in parts.

    Each part is a `Given` that begins at a multiple of `ALIGNED` rows. `run` runs the steps (core/steps.py); the result
    depends neither on it nor on the parts. Mutates: given, which is emptied so that the rows are not held twice.
    """
    n_features, n_classes, sparse, _ = sizes
    counts = run.get(run.combine(both, run.each(count, [given], n_classes)))
    total = run.get(run.combine(add, run.each(sums, [given], counts.heaviest, counts.sq_norm, counts.n_rows)))
    mean_weight = (total[0] + total[1]) / counts.n_rows
    heaviest = counts.heaviest / mean_weight
    scale = run.call(make_scale, n_features, counts, total)
    firsts = [0, *np.cumsum(run.get(run.each(n_rows_of, [given]))).tolist()]
    parts = run.each(prepare, [given, firsts[:-1]], scale, mean_weight, options)
    given.clear()
    most_rows = int(counts.label.max())
    mass = run.get(run.combine(add, run.each(mass_of, [parts], heaviest, most_rows, n_classes))).sum(axis=0)
    new: State = {"scale": run.get(scale), "seen": make(Seen), "run": make(Run)}
    mass *= mean_weight  # in the unit of the given weights, which `partial_fit` continues with
    new["run"].mass[0] = mass.sum()
    new["seen"].n_rows[0], new["seen"].n_labels[0] = counts.n_rows, np.count_nonzero(counts.label)
    calibrated = options
    for number in range(options.n_trees):
        own = options._replace(seed=options.seed + number)
        future = cluster(run, own, parts, counts, bounds_of(counts, heaviest), sizes)
        tree: LabelTree = run.get(future)
        tree.mass[:] = mass
        plan = _Plan(run, own, parts, counts, future, scale, len(tree.parent), sparse)
        own, blocks, neighbors = _train_tree(plan, tree)
        if neighbors is not None:
            new["neighbors"] = neighbors
        if number == 0:
            calibrated = own  # online learning continues with the start of the first tree
        new[f"tree{suffix_of(number)}"], new[f"blocks{suffix_of(number)}"] = tree, blocks
        report((number + 1) / options.n_trees)
    return calibrated, new


def suffix_of(number: int) -> str:
    """What the names of the groups of a further tree end in."""
    return f"_{number}" if number else ""


def trees_of(state: State) -> list[tuple[LabelTree, Any]]:
    """All trees with their blocks; most models have one."""
    n = sum(name.startswith("tree") for name in state)
    return [(state[f"tree{suffix_of(number)}"], state[f"blocks{suffix_of(number)}"]) for number in range(n)]


def width_of(options: Options) -> int:
    """Places for the outputs of a node."""
    return -(-options.arity // LANES) * LANES


def empty_blocks(options: Options, n_nodes: int, n_entries: int, n_records: int) -> Blocks:
    """Blocks without features."""
    sizes = {"node": n_nodes, "entry": n_entries, "record": n_records, "table_size": SIZES}
    return make(Blocks, place=width_of(options), **sizes)


# -- training ------------------------------------------------------------------------------------------------------


def _train_tree(plan: _Plan, tree: LabelTree) -> tuple[Options, PackedBlocks, Neighbors | None]:
    """Routers first; the paths that they choose then determine which rows a leaf learns from.

    Returns the options with a calibrated start, the weights, and nearest rows if they help.
    """
    run, chosen, calibrated = plan.run, plan.options.C < 0, start_of(plan.options, True) < 0
    if chosen:
        plan = plan.replace(C=USUAL_C)
    pairs = run.each(router_pairs, [plan.parts], plan.tree, run.spill)
    work = run.get(run.combine(add, run.each(work_of, [plan.parts, pairs], plan.n_nodes)))
    start, bias = _start(plan, pairs, work[0], False)
    plan = plan.replace(router_start=start.cosine, router_bias=bias)
    strength = _strength(plan, pairs, work[0], start, False)[0] if chosen and work[0].any() else plan.options.C
    if plan.options.prior < 0:
        plan = plan.replace(prior=STRONGER_PRIOR if chosen and strength == STRONGER_C else USUAL_PRIOR)
    routers = _train(plan.replace(C=strength), pairs, work[1], start, False)
    blocks = run.call(join, plan.tree, plan.options, routers)
    del routers
    how = plan.options, run.n_jobs, run.spill
    pairs = run.each(leaf_pairs, [plan.parts], plan.tree, blocks, plan.scale, *how)
    above = _routers(tree, run.get(blocks))
    del blocks  # no worker of a cluster holds the routers while leaves are trained
    work = run.get(run.combine(add, run.each(work_of, [plan.parts, pairs], plan.n_nodes)))
    start, bias = _start(plan, pairs, work[0], True)
    plan = plan.replace(start=start.cosine, bias=bias)
    if chosen and work[0].any():
        strength, start = _strength(plan, pairs, work[0], start, True, calibrated)
        plan = plan.replace(C=strength)
        if start is _NO_START:
            plan = plan.replace(start=0.0, bias=0.0)
    neighbors = _neighbors(plan, pairs, work[0], start)
    leaves = _train(plan, pairs, work[1], start, True)
    columns = _columns_of([above, *run.get(leaves)])
    del above, leaves, pairs
    return plan.options, _join(tree, plan.options, columns), neighbors


def _strength(
    plan: _Plan, pairs: list, n_pairs: np.ndarray, start: Start, leaf: bool, calibrated: bool = False
) -> tuple[float, Start]:
    """C of the leaves, or of the routers before they multiply it, and the start, chosen on held-out rows.

    Where held-out rows have a low logistic loss, `STRONGER_C` is tried and taken if the loss is still lower: nearly all
    rows are predicted correctly, so only the loss differs. Elsewhere `WEAKER_C` is tried in leaves and taken if more
    rows are predicted correctly. If fewer are, `STRONGER_C` is tried and taken if more are. If it is taken and the
    start is `calibrated`, no start is tried: words of all labels can hide a label in the sums of its rows. Rows count
    equally, whatever their weights.
    """
    run, smallest = plan.run, smallest_weight(plan.counts, plan.sparse, leaf)
    sampled, held_out = _FOR_C
    held = run.call(_held_out, *_sample(plan, _picker(plan), pairs, n_pairs, sampled), held_out)

    def losses(C: float, start: Start = start, options: Options = plan.options) -> np.ndarray:
        job = _Job(_options_of(options._replace(C=C), leaf), start, smallest, leaf)
        parts = run.each(_held_out_losses, [list(range(_N_SHARES))], job, held, plan.tree, plan.scale)
        return np.concatenate(run.get(parts), axis=1)

    wrong, loss = losses(USUAL_C)
    if loss.sum() < _LOW_LOSS * len(loss):
        return STRONGER_C if _is_lower(losses(STRONGER_C)[1], loss) else USUAL_C, start
    weaker = losses(WEAKER_C)[0] if leaf else wrong
    if not _is_lower(wrong, weaker):
        return WEAKER_C if _is_lower(weaker, wrong) else USUAL_C, start
    stronger = losses(STRONGER_C)[0]
    if not _is_lower(stronger, wrong):
        return USUAL_C, start
    if calibrated and _is_lower(losses(STRONGER_C, _NO_START, plan.options._replace(bias=0.0))[0], stronger):
        return STRONGER_C, _NO_START
    return STRONGER_C, start


def _is_lower(losses: np.ndarray, others: np.ndarray) -> bool:
    """Whether losses of the same rows are lower, by more than two standard errors."""
    gains = others - losses
    return bool(gains.sum() > 2.0 * np.linalg.norm(gains))


@one_blas_thread
def _held_out_losses(
    share: int, job: _Job, sample: tuple[Piece, Pairs, Pairs], tree: LabelTree, scale: Scale
) -> np.ndarray:
    """Two losses of each held-out row within its node: 1 if the prediction is wrong, and the logistic loss.

    `share` is the number of a share of the nodes, so that threads or workers can divide them.
    """
    piece, *both_pairs = sample
    nodes = np.unique(np.concatenate([pairs.node for pairs in both_pairs]))
    nodes = np.array_split(nodes, _N_SHARES)[share]
    learned, held = (Pairs(*(array[np.isin(pairs.node, nodes)] for array in pairs)) for pairs in both_pairs)
    blocks = join(tree, job.options, [train_pairs(piece.rows, learned, tree, scale, job)])
    found = [np.empty((2, 0))]
    for _, _, scores, true in _held_out_scores(piece, held, tree, blocks, len(scale.inverse)):
        wrong = ~true[np.arange(len(true)), scores.argmax(axis=1)]
        found.append(np.stack([wrong, np.logaddexp(0.0, np.where(true, -scores, scores)).sum(axis=1)]))
    return np.concatenate(found, axis=1)


def _sample(
    plan: _Plan, taken: Callable, pairs: list, n_pairs: np.ndarray, share: float
) -> tuple[list, int, np.random.Generator]:
    """The rows of random nodes with a share of the pairs, about how many pairs they are, and the generator."""
    rng = np.random.default_rng(plan.options.seed)
    most = max(_FEWEST_PAIRS, min(int(share * n_pairs.sum()), _MOST_PAIRS))
    nodes = rng.permutation(np.flatnonzero(n_pairs))
    nodes = np.sort(nodes[: 1 + np.searchsorted(np.cumsum(n_pairs[nodes]), most)])
    return plan.run.each(taken, [plan.parts, pairs], nodes), most, rng


def _held_out(pieces: list, most: int, rng: np.random.Generator, share: float) -> tuple[Piece, Pairs, Pairs]:
    """The sample as one piece, the pairs to learn, and the pairs that are held out."""
    piece = join_pieces(pieces)
    pairs, rng = piece.pairs, deepcopy(rng)  # a step must not change its arguments
    chosen = np.sort(rng.permutation(len(pairs.node))[: 2 * most])  # one node may have all rows
    held = (pairs.true[chosen] != 0) & (rng.random(len(chosen)) < share)
    learned, held = (Pairs(*(array[part] for array in pairs)) for part in (chosen[~held], chosen[held]))
    return piece, learned, held


def _held_out_scores(piece: Piece, held: Pairs, tree: LabelTree, blocks: PackedBlocks, n_features: int) -> Iterator:
    """(node, rows, scores, which outputs are true) of the held-out rows of each node, some at a time."""
    for node in np.unique(held.node):
        own, size = np.flatnonzero(held.node == node), int(tree.size[node])
        for some in np.array_split(own, 1 + len(own) // _ROWS_SCORED):
            row = held.row[some]
            X, used = as_matrix(rows_at(piece.rows.batch, row), n_features), np.arange(n_features, dtype=np.int32)
            if sp.issparse(X):
                used, number = np.unique(X.indices, return_inverse=True)
                X = sp.csr_array((X.data, number, X.indptr), shape=(len(row), len(used)))
            weight = np.zeros((len(used), blocks.bias.shape[1]), np.float32)
            find_weights(blocks, int(node), used, weight)
            scores = (X @ weight) * piece.rows.factor[row, None] + blocks.bias[node]
            true = (held.true[some, None] >> np.arange(size, dtype=np.uint64) & np.uint64(1)).astype(bool)
            yield node, row, scores[:, :size], true


def _neighbors(plan: _Plan, pairs: list, n_pairs: np.ndarray, start: Start) -> Neighbors | None:
    """Training rows of each label, if they make the labels of held-out rows of a sample of leaves more likely."""
    options, run = plan.options, plan.run
    suited = not (plan.sparse or options.multilabel or options.normalize or options.n_trees > 1)
    if not (options.neighbors and suited and n_pairs.any()):
        return None
    labels, weights = (np.concatenate(run.get(run.each(of_rows, [plan.parts], k))) for k in (0, 1))
    n_features = len(run.get(plan.scale).inverse)
    kept = rows_to_keep(labels, weights, n_features, len(plan.counts.label), options.seed)
    if not len(kept):
        return None
    taken = take_numbered if _picker(plan) is take else take_rows
    sampled, held_out = _FOR_NEIGHBORS
    pieces, most, rng = _sample(plan, taken, pairs, n_pairs, sampled)
    job = _Job(options, start, np.float32(0.0), True)
    ranking = run.get(run.call(_ranking, pieces, plan.tree, plan.scale, job, kept, most, rng, held_out))
    if ranking is None:
        return None
    values = np.concatenate(run.get(run.each(values_of, [plan.parts], np.sort(kept))))
    order = np.argsort(np.argsort(kept, kind="stable"), kind="stable")
    return with_rows(no_neighbors(n_features, ranking), values[order], labels[kept])


@one_blas_thread
def _ranking(
    pieces: list,
    tree: LabelTree,
    scale: Scale,
    job: _Job,
    kept: np.ndarray,
    most: int,
    rng: np.random.Generator,
    share: float,
) -> Ranking | None:
    """How distances are used, from leaves that are trained without some of their rows."""
    piece, learned, held = _held_out(pieces, most, rng, share)
    blocks = join(tree, job.options, [train_pairs(piece.rows, learned, tree, scale, job)])
    used = np.zeros(len(piece.number), bool)
    used[learned.row[learned.true != 0]] = True
    place = np.minimum(np.searchsorted(piece.number, kept), len(used) - 1)
    kept = place[(piece.number[place] == kept) & used[place]]
    width, parts = width_of(job.options), []
    for node, row, scores, _ in _held_out_scores(piece, held, tree, blocks, len(scale.inverse)):
        near = kept[tree.leaf_of[piece.label[kept]] == node]
        if len(near):
            some = slice(None, None, 1 + len(row) * len(near) // _MOST_DISTANCES)
            row, scores = row[some], scores[some]
            near = near[np.argsort(tree.place_of[piece.label[near]], kind="stable")]
            scores = np.pad(
                -np.logaddexp(0.0, -scores), ((0, 0), (0, width - scores.shape[1])), constant_values=-np.inf
            )
            parts.append((scores, row, near))
    if not parts:
        return None
    values, place = piece.rows.batch.values, tree.place_of[piece.label]

    def distances(linear: np.ndarray | None) -> np.ndarray:
        """Of the held-out rows to the nearest row of each label of their leaf."""
        found = []
        for _, row, near in parts:
            own, others = (product(linear, values[rows]) for rows in (row, near))
            found.append(nearest(own, others, place[near], width))
        return np.concatenate(found)

    together = np.concatenate([near for *_, near in parts])
    tried = ((linear, distances(linear)) for linear in maps(values[together], piece.label[together]))
    scores, rows = (np.concatenate([part[k] for part in parts]) for k in (0, 1))
    return best_ranking(scores, tried, place[rows])


def _start(plan: _Plan, pairs: list, n_pairs: np.ndarray, leaf: bool) -> tuple[Start, float]:
    """Weights and bias of the start: those given, or calibrated on a sample of nodes."""
    given = start_of(plan.options, leaf)
    if given >= 0:
        return Start(given, 0.0), float(first_bias(plan.options, leaf))
    if not n_pairs.any():  # a tree of one leaf, which may grow
        return Start(10.0, 0.0), -10.0 / 3
    present = np.flatnonzero(n_pairs)
    nodes = np.random.default_rng(plan.options.seed).permutation(len(present))
    sizes = n_pairs[present[nodes]]
    nodes = present[np.sort(nodes[: 1 + np.searchsorted(np.cumsum(sizes), N_SAMPLE)])]
    share = None  # votes are for routers of text; the predictors in leaves are more accurate without
    if not leaf and plan.sparse:  # with many rows per label, what is learned is better than any vote
        share = min(1.0, FEW_ROWS * np.count_nonzero(plan.counts.label) / plan.counts.n_labels)
    pieces = plan.run.each(_picker(plan), [plan.parts, pairs], nodes)
    return plan.run.get(plan.run.call(calibrate, pieces, plan.tree, plan.scale, width_of(plan.options), share))


@one_blas_thread
def calibrate(pieces: list, tree: LabelTree, scale: Scale, width: int, vote_share: float | None) -> tuple[Start, float]:
    """A logistic regression of the true outputs on the start scores, from a sample of nodes.

    It uses no weights of rows. No row is in the sums that it is compared with, so the result holds for new rows.
    `vote_share` is the share of the votes that is used, None without votes.
    """
    piece = join_pieces(pieces)
    pairs = piece.pairs
    first = np.flatnonzero(np.diff(pairs.node, prepend=-1))
    every = max(1, len(pairs.node) // _N_SCORED)
    ends = np.append(first, len(pairs.node))
    kept = np.concatenate([np.arange(begin, end, every) for begin, end in pairwise(ends)])
    scores = np.zeros((2, len(kept), width), np.float32)
    with_votes = vote_share is not None
    for one, out in zip((Start(1.0, 0.0), Start(0.0, 1.0)), scores[: 1 + with_votes], strict=False):
        left_out_scores(tree, scale, piece.rows, pairs, one, every, out)
    place = np.arange(scores.shape[2])
    used = (place < tree.size[pairs.node[kept], None]) & ~np.isnan(scores[0])
    true = (pairs.true[kept, None] >> place.astype(np.uint64) & np.uint64(1))[used].astype(float)
    cosines, votes = scores[:, used].astype(float)
    share = 0.0
    if vote_share is not None:
        slopes, _ = logistic_regression(np.stack([cosines, votes]), true)
        share = max(0.0, float(slopes[1])) * vote_share
    slopes, bias = logistic_regression(cosines[None], true, share * votes)
    return Start(max(0.0, float(slopes[0])), share), float(bias)


def logistic_regression(x: np.ndarray, y: np.ndarray, offset: np.ndarray | float = 0.0) -> tuple[np.ndarray, float]:
    """Slopes and intercept for the variables (variable, row) x, with a small penalty.

    Newton's method; with many rows it starts at the result of a part of them, since it is then nearly done.
    """
    line, design = np.zeros(len(x) + 1), np.vstack([x, np.ones(len(y))])
    if len(y) > _MANY:
        part = slice(None, None, _EVERY)
        slopes, bias = logistic_regression(x[:, part], y[part], np.broadcast_to(offset, len(y))[part])
        line = np.append(slopes, bias)

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


def _picker(plan: _Plan) -> Callable:
    """Rows that stay in this process are not copied."""
    return take if isinstance(plan.run, Here) and len(plan.parts) == 1 else take_rows


def _train(plan: _Plan, pairs: list, costs: np.ndarray, start: Start, leaf: bool) -> list:
    """The weights of all routers, or of all leaves, in chunks of nodes."""
    nodes = np.flatnonzero(costs)
    edges = divide_work(costs[nodes], costs.sum() / plan.run.n_chunks(int(costs.sum())))
    chunks = [nodes[first:last] for first, last in pairwise(edges)]
    job = _Job(_options_of(plan.options, leaf), start, smallest_weight(plan.counts, plan.sparse, leaf), leaf)
    return plan.run.chunks(_picker(plan), train_nodes, [plan.parts, pairs], chunks, plan.tree, plan.scale, job)


def _options_of(options: Options, leaf: bool) -> Options:
    """Those with which routers or leaves are trained."""
    if leaf or options.margin <= 0.0:
        return options
    # paths are chosen by probabilities, which the logistic loss estimates
    return options._replace(margin=0.0, C=ROUTER_C * options.C)


def smallest_weight(counts: Counts, sparse: bool, leaf: bool) -> np.float32:
    """The absolute value up to which weights are left out, in leaves or in routers."""
    if not sparse or not counts.n_labels:
        return np.float32(0.0)
    rows_per_label = counts.n_labels / np.count_nonzero(counts.label)
    return np.float32(threshold_of(rows_per_label, counts.values.sum() / counts.n_labels, leaf))


def threshold_of(rows_per_label: float, n_nonzero: float, leaf: bool) -> float:
    """The absolute value up to which weights of sparse rows with `n_nonzero` values on average are left out.

    The values of longer rows are smaller after they are scaled to length 1, and so are the weights.
    """
    smallest = max(_LEAST, min(_SMALLEST / rows_per_label, _MOST) * (1.0 if leaf else _ROUTERS))
    return smallest * min(1.0, math.sqrt(_LONG / max(n_nonzero, 1.0)))


def train_nodes(pieces: list, tree: LabelTree, scale: Scale, job: _Job) -> Weights:
    """The weights of some nodes, from their rows in each part."""
    piece = join_pieces(pieces)
    return train_pairs(piece.rows, piece.pairs, tree, scale, job)


def train_pairs(rows: Rows, pairs: Pairs, tree: LabelTree, scale: Scale, job: _Job) -> Weights:
    """The weights of the nodes of the pairs, a few nodes in one call so that their memory is bounded."""
    first, width = np.flatnonzero(np.diff(pairs.node, prepend=-1)), width_of(job.options)
    if not len(first):
        return _untrained(first, 0, width, np.float32(0.0))
    costs = np.add.reduceat(row_lengths(rows.batch)[pairs.row], first)
    most, ends = np.minimum(costs, len(scale.inverse)), np.append(first, len(pairs.node))
    out = []
    for begin, end in pairwise(divide_work(most, MOST_RECORDS)):
        own = Pairs(*(array[ends[begin] : ends[end]] for array in pairs))
        nodes, capacity = pairs.node[first[begin:end]].astype(np.int64), int(most[begin:end].sum())
        new = _untrained(nodes, capacity, width, first_bias(job.options, job.leaf))
        n, n_values = fit_nodes(tree, scale, rows, own, job.start, job.options, job.smallest, new)
        entries = new.feature[:n].copy(), new.lanes[:n].copy(), new.value[:n_values].copy()
        out.append((new.node, new.n_features, *entries, new.step, new.bias))
    return Weights(*map(np.concatenate, zip(*out, strict=True)))


def _untrained(nodes: np.ndarray, capacity: int, width: int, bias: np.float32) -> Weights:
    """Arrays for the weights of some nodes with so many features."""
    feature, lanes = np.empty(capacity, np.int32), np.empty((capacity, width // LANES), np.uint16)
    value, step = np.empty(capacity * width, np.int16), np.empty(len(nodes), np.float32)
    n_features, biases = np.zeros(len(nodes), np.int64), np.full((len(nodes), width), bias)
    return Weights(nodes, n_features, feature, lanes, value, step, biases)


def join(tree: LabelTree, options: Options, parts: list[Weights]) -> PackedBlocks:
    """The weights of all nodes; `parts` are in the order of nodes."""
    return _join(tree, options, _columns_of(parts))


def _columns_of(parts: list[Weights]) -> list[list]:
    return [[part[k] for part in parts] for k in range(len(Weights._fields))]


def _routers(tree: LabelTree, blocks: PackedBlocks) -> Weights:
    """The weights of the inner nodes from blocks in which leaves have none."""
    nodes = np.flatnonzero(tree.is_leaf == 0)
    counts = counts_of(blocks)[nodes]
    entries = features_of(blocks, nodes), blocks.lanes, blocks.value
    return Weights(nodes, counts, *entries, blocks.step[nodes], blocks.bias[nodes])


def _join(tree: LabelTree, options: Options, columns: list[list]) -> PackedBlocks:
    """`join` from the fields of `Weights`. Mutates: columns, which are emptied: the weights are not held twice."""
    bias = np.where(tree.is_leaf[:, None] == 0, *(first_bias(options, leaf) for leaf in (False, True)))
    bias = np.repeat(bias, width_of(options), axis=1)
    pages, kind = pages_for(n_features_of(columns[2]))
    counts, step = np.zeros((len(bias), pages), np.int64), np.zeros(len(bias), np.float32)
    for k, (nodes, n_features, feature, _, _, own_step, own_bias) in enumerate(zip(*columns, strict=True)):
        counts[nodes], columns[2][k] = in_pages(n_features, feature, pages, kind)
        step[nodes], bias[nodes] = own_step, own_bias
    arrays, nothing = [], _untrained(np.zeros(0, np.int64), 0, bias.shape[1], np.float32(0.0))
    empty: list[np.ndarray] = [nothing.feature.astype(kind), nothing.lanes, nothing.value]
    for column, none in zip(columns[2:5], empty, strict=True):
        arrays.append(np.concatenate(column or [none]))
        column.clear()
    return packed(counts, bias, step, *arrays)


def divide_work(costs: np.ndarray, most: float) -> list[int]:
    """Where to cut a list: no piece costs more than `most`, except for single items."""
    edges, total = [0], 0
    for k, cost in enumerate(costs.tolist()):
        if k > edges[-1] and total + cost > most:
            edges.append(k)
            total = 0
        total += cost
    return [*edges, len(costs)] if len(costs) else [0]


# -- the tree over the labels --------------------------------------------------------------------------------------


def cluster(run: Any, options: Options, parts: list, counts: Counts, bounds: Bounds, sizes: Sizes) -> Any:
    """The tree over all labels that have rows: labels of similar rows, and of a taxonomy's same nodes, are close."""
    rng, present = np.random.default_rng(options.seed), np.flatnonzero(counts.label)
    if len(present) <= options.arity:  # one leaf holds them all
        rows = np.zeros((sizes.n_classes, 1), np.float32)
        return grow_tree(run, rows, present, options.arity, sizes.n_classes, rng)
    if sizes.sparse and sizes.n_classes > FEW_LABELS:
        sums_of_rows = SumsOfRows(run, parts, counts, bounds, sizes)
        found = run.call(_first_basis, (sizes.n_classes, sums_of_rows.n_used), rng)
        rows = run.call(_unit_rows, _few_dimensions(run, sums_of_rows, run.call(itemgetter(0), found)))
    else:
        found = run.call(_embedded, mean_directions(run, parts, bounds, sizes), N_DIMS, rng)
        rows = run.call(itemgetter(0), found)
    rng = run.call(itemgetter(1), found)
    if sizes.above is not None:
        found = run.call(_with_taxonomy, rows, sizes.above, rng)
        rows, rng = run.call(itemgetter(0), found), run.call(itemgetter(1), found)
    return grow_tree(run, rows, present, options.arity, sizes.n_classes, rng)


def _with_taxonomy(rows: np.ndarray, above: sp.csr_array, rng: np.random.Generator) -> tuple:
    """The rows of all labels with columns for their ancestors, and the generator after it."""
    places, rng = _embedded(rare_ancestors(above), N_DIMS, rng)
    places = np.pad(places, ((0, len(rows) - len(places)), (0, 0)))  # few labels: the model has space for more
    return np.hstack([rows, TAXONOMY * places]), rng


def rare_ancestors(above: sp.csr_array) -> sp.csr_array:
    """The ancestors of each label, weighted by -log of the share of the labels below each, scaled to length 1.

    A node above a single label groups nothing and does not count.
    """
    n_below = np.bincount(above.indices, minlength=above.shape[1])
    rarity = np.where(n_below > 1, np.log(above.shape[0] / np.maximum(n_below, 1)), 0.0)
    weighted = above @ sp.diags_array(rarity.astype(np.float32))
    return sp.csr_array(sp.diags_array(_inverse(row_norms(weighted)).astype(np.float32)) @ weighted)


class SumsOfRows:
    """The sum of the rows of each label, scaled to length 1, as an operator.

    For many labels and sparse rows, because the sums would take more memory than all rows if these have several labels
    each. Features that no row has are left out: hashing into a million features leaves most of them empty.
    """

    def __init__(self, run: Any, parts: list, counts: Counts, bounds: Bounds, sizes: Sizes) -> None:
        self.run, self.parts, self.bounds, self.sizes = run, parts, bounds, sizes
        self.n_used, self.number = _used(run, parts, sizes)
        by_labels = run.each(by_label, [parts], sizes.n_classes)
        scaling, lengths = (self.n_used, self.number, grid_of_sums(bounds)), []
        most = np.minimum(counts.values, self.n_used)  # values of the sum of each label
        for first, last in pairwise(divide_work(most, MOST_SUMMED)):
            total = run.combine(add, run.each(sparse_sums, [parts, by_labels], first, last, *scaling))
            lengths.append(run.call(row_norms, total))
            run.wait_until_few_are_missing(lengths)
        self.inverse = run.call(_inverse_of_all, *lengths)

    def times(self, basis: Any) -> Any:
        """The operator times a matrix (feature, column)."""
        return self._product(times, grid_of_times, basis, self.sizes.n_classes, self.inverse)

    def back(self, basis: Any) -> Any:
        """The transposed operator times a matrix (label, column)."""
        scaled = self.run.call(_scaled, basis, self.inverse)
        return self._product(back, grid_of_back, scaled, self.n_used, None)

    def _product(self, product: Callable, grid_of: Callable, basis: Any, n: int, scale: Any) -> Any:
        """A few columns of long products at a time, because exact sums take twice the memory."""
        run, found = self.run, []
        step, width = run.call(grid_of, basis, self.bounds), columns_at_a_time(n)
        n_columns = min(N_DIMS, self.n_used, self.sizes.n_classes)
        for first in range(0, n_columns, width):
            columns = basis if n_columns <= width else run.call(_columns, basis, first, width)
            total = run.combine(add, run.each(product, [self.parts], columns, step, n, self.number, run.n_jobs))
            found.append(run.call(_scaled, total, scale))
            run.wait_until_few_are_missing(found)
        return found[0] if len(found) == 1 else run.call(_side_by_side, *found)


def columns_at_a_time(n: int) -> int:
    """Columns of n numbers whose exact sums are in memory together."""
    return N_DIMS if n <= _SHORT else LANES


def _used(run: Any, parts: list, sizes: Sizes) -> tuple[int, Any]:
    """How many features the rows have, and the number of each feature among these."""
    used = run.combine(np.logical_or, run.each(used_features, [parts], sizes.n_features))
    return max(1, int(run.get(run.call(np.count_nonzero, used)))), run.call(_numbers, used)


def _numbers(used: np.ndarray) -> np.ndarray:
    return np.cumsum(used, dtype=np.int32) - np.int32(1)


def _columns(basis: np.ndarray, first: int, width: int) -> np.ndarray:
    return np.ascontiguousarray(basis[:, first : first + width])


def _side_by_side(*columns: np.ndarray) -> np.ndarray:
    return np.concatenate(columns, axis=1)


def _scaled(rows: np.ndarray, scale: np.ndarray | None) -> np.ndarray:
    return (rows if scale is None else rows * scale[:, None]).astype(np.float32)


def _inverse_of_all(*lengths: np.ndarray) -> np.ndarray:
    return _inverse(np.concatenate(lengths)).astype(np.float32)


def mean_directions(run: Any, parts: list, bounds: Bounds, sizes: Sizes) -> Any:
    """The sum of the rows of each label, scaled to length 1, as a matrix. Labels without rows give zeros.

    Of sparse rows, the features that no row has are left out.
    """
    step, n = grid_of_sums(bounds), sizes.n_classes
    if sizes.sparse:
        by_labels = run.each(by_label, [parts], n)
        total = run.combine(add, run.each(sparse_sums, [parts, by_labels], 0, n, *_used(run, parts, sizes), step))
        return run.call(_sparse_directions, total)
    found = []
    for first in range(0, n, _LABELS_AT_A_TIME):
        total = run.combine(add, run.each(dense_sums, [parts], first, min(n, first + _LABELS_AT_A_TIME), step))
        found.append(run.call(_scaled, total, None))
    return run.call(_dense_directions, *found)


def _sparse_directions(total: sp.csr_array) -> sp.csr_array:
    return sp.csr_array(sp.diags_array(_inverse(row_norms(total))) @ total).astype(np.float32)


def _dense_directions(*found: np.ndarray) -> np.ndarray:
    """Away from the mean of all rows."""
    sums, share = np.concatenate([part[:, :-1] for part in found]), np.concatenate([part[:, -1] for part in found])
    sums = sums - sums.sum(axis=0) * (share / max(share.sum(), 1e-30))[:, None]
    return sums * _inverse(np.linalg.norm(sums, axis=1))[:, None]


def _inverse(lengths: np.ndarray) -> np.ndarray:
    return np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)


def embed(directions: Any, n_dims: int, rng: np.random.Generator) -> np.ndarray:
    """Rows in the few dimensions that hold most of them, scaled to length 1.

    Few rows: from all their inner products. Many: a randomised SVD.
    """
    return _embedded(directions, n_dims, rng)[0]


@one_blas_thread
def _embedded(directions: Any, n_dims: int, rng: np.random.Generator) -> tuple[np.ndarray, np.random.Generator]:
    """`embed`, and the generator after it."""
    if directions.shape[0] <= FEW_LABELS:
        return _unit_rows(_from_products(directions, n_dims)), rng
    basis, rng = _first_basis(directions.shape, rng, n_dims)
    return _unit_rows(_few_dimensions(Here(), _Matrix(directions), basis)), rng


class _Matrix:
    """A matrix with the methods of `SumsOfRows`."""

    def __init__(self, matrix: Any) -> None:
        self.times, self.back = matrix.__matmul__, matrix.T.__matmul__


def _first_basis(shape: tuple, rng: np.random.Generator, n_dims: int = N_DIMS) -> tuple:
    """Random columns, and the generator after them."""
    rng = deepcopy(rng)
    return rng.standard_normal((shape[1], min(n_dims, *shape))).astype(np.float32), rng


def _few_dimensions(run: Any, directions: Any, basis: Any) -> Any:
    """The rows of a matrix in the dimensions that hold most of them: a randomised SVD."""
    for _ in range(_POWER_STEPS):
        basis = run.call(_orthonormal, directions.back(run.call(_orthonormal, directions.times(basis))))
    return directions.times(basis)


def _unit_rows(rows: np.ndarray) -> np.ndarray:
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


@one_blas_thread
def _orthonormal(columns: np.ndarray) -> np.ndarray:
    """An orthonormal basis of the span of the columns, from their few inner products (20x faster than QR here)."""
    values, vectors = np.linalg.eigh((columns.T @ columns).astype(np.float64))
    used = values > max(values.max(initial=0.0) * 1e-12, 1e-30)
    return columns @ (vectors[:, used] / np.sqrt(values[used])).astype(np.float32)


def grow_tree(run: Any, rows: Any, labels: np.ndarray, arity: int, n_classes: int, rng: Any) -> Any:
    """A tree over `labels`, at most `arity` outputs per node, all leaves at one depth; `rows` places each label.

    The sizes of the nodes follow from the number of labels. So the tree is an order of the labels, and once a list of
    labels is halved, both halves can be ordered at the same time.
    """
    levels, parents = [[len(labels)]], [[-1]]  # of each level: the sizes of its nodes, and their parents
    steps: list[tuple[int, int, int]] = []
    for below in range(height_of(len(labels), arity), 0, -1):
        sizes: list[int] = []
        above: list[int] = []
        for number, (begin, size) in enumerate(zip(accumulate([0, *levels[-1]]), levels[-1], strict=False)):
            parts = _halved(begin, size, n_children(size, arity, below), steps)
            sizes += parts
            above += [number] * len(parts)
        levels.append(sizes)
        parents.append(above)
    halvings = np.array(steps, int).reshape(-1, 3)
    first, spans = _independent(halvings, len(labels), min(run.n_threads, _MOST_SPANS))
    pairs = run.call(_random_pairs, halvings, rng)
    order = run.call(_ordered, first, rows, labels, halvings, pairs)
    orders = run.each(_ordered, [spans], rows, order, halvings, pairs)
    return run.call(_tree_of, orders, levels, parents, arity, n_classes)


def _halved(begin: int, size: int, n_parts: int, steps: list[tuple[int, int, int]]) -> list[int]:
    """The sizes of the parts of a list: equal, or one more or less.

    Mutates: steps, to which the halvings that lead to the parts are added. (begin, end, n) divides items begin..end-1
    of the list; n of them come first.
    """
    if n_parts <= 1 or size <= 1:
        return [size]
    n_left_parts = n_parts // 2
    n_left = min(max(1, round(size * n_left_parts / n_parts)), size - 1)
    steps.append((begin, begin + size, n_left))
    left = _halved(begin, n_left, n_left_parts, steps)
    return left + _halved(begin + n_left, size - n_left, n_parts - n_left_parts, steps)


class _Span(NamedTuple):
    """Labels begin..end-1 of a list, and the numbers of the halvings that order them."""

    begin: int
    end: int
    numbers: list[int]


def _independent(halvings: np.ndarray, n_labels: int, n_spans: int) -> tuple[_Span, list[_Span]]:
    """Halvings of long parts of the list, and then about `n_spans` spans without common labels."""
    numbers = {(begin, end): k for k, (begin, end, _) in enumerate(halvings.tolist())}
    first: list[int] = []
    ends = [(0, n_labels)]
    while len(ends) < n_spans and (longest := max(ends, key=lambda span: span[1] - span[0])) in numbers:
        first.append(numbers[longest])
        begin, end, n_left = halvings[first[-1]].tolist()
        ends.remove(longest)
        ends += [(begin, begin + n_left), (begin + n_left, end)]
    begins, stops, _ = halvings.T
    spans = [_Span(a, b, np.flatnonzero((begins >= a) & (stops <= b)).tolist()) for a, b in sorted(ends)]
    return _Span(0, n_labels, first), spans


def _random_pairs(halvings: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The two labels from which each halving begins."""
    rng = deepcopy(rng)
    return np.array([rng.choice(end - begin, 2, replace=False) for begin, end, _ in halvings.tolist()])


@one_blas_thread
def _ordered(span: _Span, rows: np.ndarray, labels: np.ndarray, halvings: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """The labels of a span in another order: similar ones are close."""
    order = labels[span.begin : span.end].copy()
    for number in span.numbers:
        begin, end, n_left = halvings[number].tolist()
        own = order[begin - span.begin : end - span.begin]
        left = _halve(rows[own], n_left, *pairs[number])
        own[:] = np.concatenate([own[left], own[~left]])
    return order


def _tree_of(orders: list, levels: list[list[int]], parents: list[list[int]], arity: int, n_classes: int) -> LabelTree:
    """The tree whose leaves have the labels in this order."""
    tree = make(LabelTree, node=sum(map(len, levels)), output=arity, **{"class": n_classes})
    tree.n_nodes[0] = len(tree.parent)
    first = 0
    for above, before in zip(parents[1:], levels, strict=False):
        for node, parent in enumerate(above, first + len(before)):
            tree.parent[node], tree.place[node] = first + parent, tree.size[first + parent]
            tree.outputs[first + parent, tree.size[first + parent]] = node
            tree.size[first + parent] += 1
        first += len(before)
    tree.is_leaf[:] = np.arange(len(tree.is_leaf)) >= first
    for node, ids in enumerate(np.split(np.concatenate(orders), np.cumsum(levels[-1])[:-1]), first):
        tree.outputs[node, : len(ids)], tree.size[node] = ids, len(ids)
        tree.leaf_of[ids], tree.place_of[ids] = node, np.arange(len(ids))
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
    """Divide ids into parts of similar rows and equal size (one more or less), by halves. Mutates: rng."""
    steps: list[tuple[int, int, int]] = []
    sizes = _halved(0, len(ids), n_parts, steps)
    pairs = np.array([rng.choice(end - begin, 2, replace=False) for begin, end, _ in steps])
    order = _ordered(_Span(0, len(ids), list(range(len(steps)))), rows, ids, np.array(steps), pairs)
    return np.split(order, np.cumsum(sizes)[:-1])


@np.errstate(invalid="ignore")  # OpenBLAS sometimes reports an invalid value in a product of finite numbers
def _halve(rows: np.ndarray, n_left: int, a: int, b: int) -> np.ndarray:
    """Which rows go left, n_left of them: two-means with a fixed number on each side, from rows a and b."""
    n, direction = len(rows), rows[a] - rows[b]
    total, left = np.ones(n, np.float32) @ rows, np.zeros(n, np.float32)  # products need no copies of the rows
    for _ in range(_SWEEPS):
        new = np.zeros_like(left)
        new[np.argpartition(-(rows @ direction), n_left - 1)[:n_left]] = 1
        if np.array_equal(new, left):
            break
        left = new
        own = left @ rows
        other = total - own
        direction = own / max(np.linalg.norm(own), 1e-9) - other / max(np.linalg.norm(other), 1e-9)
    return left > 0
