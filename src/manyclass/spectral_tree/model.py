"""Spectral tree: learning and answers. The filter is grown in `spectral_filter.py`."""

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..core.inputs import Batch, Csr, Dense, inverse_lengths
from ..core.linear import add_weights, bank_bytes
from ..core.losses import LOSSES, SOFTMAX, probabilities_batch
from ..core.protocol import Labels, Predictions, Scored, as_labels, rows_of
from ..core.state import Linear, Scale, Seen, State, make
from . import answers as answer_kernels
from . import blocks as block_kernels
from . import kernels as kernel
from .filter import Filter, Growth, best_depth, cut_filter, gather, grow_filter, join, unit_rows
from .paths import OWN_NOTHING, OWN_WEIGHTS, choose_leaves
from .state import TASKS, Config, make_classifier, options_of

_BLOCK_WEIGHTS = 1 << 26  # of a leaf that are laid side by side at once: 256 MB

# -- learning ------------------------------------------------------------------------------------------------------

from .state import GROUPS, check, init, slim  # noqa: F401  (part of the model's functions)

NAME = "spectral-tree"


def fit(
    config: Config, state: State, X: Any, batch: Batch, labels: Any, weights: np.ndarray, n_jobs: int, tell: Callable
) -> None:
    """Grow the filter from all rows, then train the classifier on random paths [ST §3.2]. Mutates: state."""
    given = as_labels(labels)
    n_features = len(state["scale"].inverse)
    n_classes = max(len(state["scorer"].bias), int(given.label.max(initial=0)) + 1)
    batch = unit_rows(batch) if config.unit_rows else batch
    weights = weights / weights.mean()
    sizes = (n_features, n_classes)
    filters = grow_filters(config, batch, given, weights, sizes, n_jobs, lambda share: tell(share / 2))
    new = join(filters)
    leaf = new["forest"].own_row >= 0
    n_own = int(new["candidates"].size[leaf].sum())
    new |= make_classifier(config, n_features, n_classes, max(1, n_own))
    new |= {"scale": make(Scale, feature=n_features), "seen": make(Seen)}
    new["seen"].n_labels[0] = len(np.unique(given.label))
    if config.start > 0 and TASKS[config.task][1] and not config.rank:
        _start_at_means(config, new["scorer"], batch, n_features, given, weights, n_classes)
    kernel.observe_rows(new["scale"], batch, rows_of(batch))
    rng = np.random.default_rng(config.seed)
    for epoch in range(config.n_epochs):
        new["seen"].mass[0] = new["seen"].wrong_mass[0] = 0.0
        _learn(config, new, batch, given, weights, rng.permutation(rows_of(batch)), epoch)
        tell(0.5 + 0.5 * (epoch + 1) / config.n_epochs)
    state.clear()
    state.update(new)


def grow_filters(
    config: Config, batch: Batch, labels: Labels, weights: np.ndarray, sizes: tuple[int, int], n_jobs: int,
    tell: Callable[[float], None],
) -> list[Filter]:  # fmt: skip
    """The filter of every tree; each after the first weighs the rows by a random draw of its own."""
    options = options_of(config, sizes[0])
    out = []
    for number in range(config.n_trees):
        seed = config.seed + 104_729 * number
        rng = np.random.default_rng(seed)
        drawn = weights * rng.standard_exponential(len(weights)) if number else weights
        held_out = rng.random(len(weights)) < config.held_out
        if held_out.all() or not drawn[~held_out].any():  # too few rows to spare any
            held_out[:] = False
        growth = Growth(
            config.max_depth, config.n_candidates, config.n_head, config.recall, config.spread, config.cutoff, seed
        )

        def told(share: float, number: int = number) -> None:
            tell((number + share) / config.n_trees)

        grown = grow_filter(batch, labels, np.where(held_out, 0.0, drawn), sizes, growth, n_jobs, told)
        if held_out.any():
            grown = cut_filter(grown, best_depth(grown, batch, labels, weights, np.flatnonzero(held_out), options))
        out.append(grown)
    return out


def _learn(config: Config, state: State, batch: Batch, labels: Labels, weights, order, epoch: int) -> None:
    """Teach the classifier all rows once. Mutates: state."""
    options = options_of(config, len(state["scale"].inverse), epoch)
    if _by_leaf(config):
        _learn_by_leaf(state, batch, labels, weights, order, epoch, options)
        return
    groups = [state[name] for name in ("tree", "routers", "forest", "candidates", "scorer", "own")]
    rows = (batch, labels.pointer, labels.label, weights, order, options)
    if config.rank:
        kernel.learn_low_rank_batch(*groups, state["projection"], state["scale"], state["seen"], *rows)
    else:
        kernel.learn_batch(*groups, state["scale"], state["seen"], *rows)


def _by_leaf(config: Config) -> bool:
    """Whether rows are learned leaf by leaf: plain steps of predictors that leaves share."""
    own, shared = TASKS[config.task]
    return shared and own != OWN_WEIGHTS and not config.rank and not config.learner.adaptive


def _learn_by_leaf(state: State, batch: Batch, labels: Labels, weights, order, epoch: int, options) -> None:
    """The rows of a leaf one after the other, over a copy of the weights that they need.

    DIFFERS [ST §3.5]: rows come leaf by leaf, leaves in random order and rows of a leaf too.
    """
    tree, routers, forest, candidates, scorer, own, scale, seen = (
        state[name] for name in ("tree", "routers", "forest", "candidates", "scorer", "own", "scale", "seen")
    )
    chosen = np.empty(len(order), np.int64)
    choose_leaves(tree, routers, forest, batch, epoch, options, chosen)
    by_leaf = order[np.argsort(chosen[order], kind="stable")]
    first = np.flatnonzero(np.diff(chosen[by_leaf], prepend=-1))
    ends = np.append(first, len(order))
    turn = np.random.default_rng([options.seed, epoch]).permutation(len(first))
    for t in turn:
        node = chosen[by_leaf[ends[t]]]
        here = candidates.label[node, : candidates.size[node]]
        for rows in _pieces(batch, by_leaf[ends[t] : ends[t + 1]], options.n_features, len(here)):
            block_kernels.learn_leaf(
                scorer, own, forest.own_row[node], here, scale, seen, batch, labels.pointer, labels.label, weights,
                rows, options,
            )  # fmt: skip


def _pieces(batch: Batch, rows: np.ndarray, n_features: int, n_candidates: int) -> list[np.ndarray]:
    """The rows of a leaf, cut where the weights that they need together would take too much room."""
    if n_features * n_candidates <= _BLOCK_WEIGHTS or isinstance(batch, Dense):
        return [rows]
    ahead = np.cumsum(batch.indptr[rows + 1] - batch.indptr[rows])
    piece = ahead // max(1, _BLOCK_WEIGHTS // max(1, n_candidates))
    return np.split(rows, np.flatnonzero(np.diff(piece)) + 1)


def _start_at_means(config: Config, scorer: Linear, batch: Batch, n_features: int, labels, weights, n_classes) -> None:
    """Let the shared predictors begin at the mean rows of their classes. Mutates: scorer.

    DIFFERS [ST §3.5]: the paper's begin at nothing.
    """
    per_label = np.repeat(weights, np.diff(labels.pointer)).astype(np.float32)
    Y = sp.csr_array((per_label, labels.label, labels.pointer), shape=(rows_of(batch), n_classes))
    X = batch.values
    if isinstance(batch, Csr):
        X = sp.csr_array((batch.values, batch.indices, batch.indptr), shape=(rows_of(batch), n_features))
    sums = Y.T.tocsr() @ X
    means = sp.csr_array(sums)
    means.sort_indices()
    rows = Csr(means.indptr.astype(np.int64), means.indices.astype(np.int32), means.data.astype(np.float32))
    lengths = np.empty(n_classes)
    inverse_lengths(rows, lengths)
    present = np.bincount(labels.label, minlength=n_classes) > 0
    # Independent predictors need a doubt to begin with: most labels are wrong for a row.
    bias = 0.0 if LOSSES[config.loss] == SOFTMAX else -config.start / 3
    add_weights(scorer, rows, np.where(present, config.start * lengths, 0.0), np.where(present, bias, 0.0))


# -- answers -------------------------------------------------------------------------------------------------------


def _groups(config: Config, state: State) -> list:
    """Groups for the kernels of answers; without the low-rank form its map is None."""
    names = ("tree", "routers", "forest", "counts", "candidates", "scorer", "own")
    return [*(state[name] for name in names), state["projection"] if config.rank else None]


def predict(config: Config, state: State, batch: Batch, k: int, n_classes: int) -> Predictions:
    """The k best labels of all rows."""
    n = rows_of(batch)
    batch = unit_rows(batch) if config.unit_rows else batch
    answers = Predictions(np.empty((n, k), np.int32), np.empty((n, k)), np.empty((n, 4), np.int64))
    options = options_of(config, len(state["scale"].inverse))
    answer_kernels.predict_batch(*_groups(config, state), batch, n_classes, options, _hidden(config), *answers)
    return answers


def _hidden(config: Config) -> Dense:
    """Room for the few numbers that stand for a row in the low-rank form."""
    return Dense(np.zeros((1, config.rank or 1), np.float32))


def score(config: Config, state: State, batch: Batch) -> Scored:
    """All candidates of all rows with their probabilities: of one label a row, summing to 1."""
    n, most = rows_of(batch), width(config, state)
    batch = unit_rows(batch) if config.unit_rows else batch
    labels, scores, sizes = np.empty((n, most), np.int32), np.empty((n, most)), np.empty(n, np.int64)
    options = options_of(config, len(state["scale"].inverse))
    answer_kernels.candidates_batch(*_groups(config, state), batch, options, _hidden(config), labels, scores, sizes)
    used = np.arange(most) < sizes[:, None]
    if config.multilabel:
        with np.errstate(over="ignore"):
            return Scored(sizes, labels[used], 1.0 / (1.0 + np.exp(-scores[used])))
    probabilities_batch(scores, sizes, options.loss)
    return Scored(sizes, labels[used], scores[used])


def paths(config: Config, state: State, batch: Batch) -> list[np.ndarray]:
    """The nodes that each row passes, those of all its paths."""
    batch = unit_rows(batch) if config.unit_rows else batch
    parent, out = state["tree"].parent, []
    for reached in gather(state, batch, options_of(config, len(state["scale"].inverse)))[0]:
        nodes, level = [], np.unique(reached[reached >= 0])
        while len(level):
            nodes.append(level)
            level = np.unique(parent[level])
            level = level[level >= 0]
        out.append(np.unique(np.concatenate(nodes)))
    return out


def n_nodes(state: State) -> int:
    """Nodes of all trees."""
    return int(state["tree"].n_nodes[0])


def tree_table(state: State, max_depth: int | None = None) -> list[dict]:
    """The nodes down to a depth, parents before children, with their heaviest labels."""
    tree, counts, candidates = state["tree"], state["counts"], state["candidates"]
    wanted = np.arange(len(tree.parent)) if max_depth is None else np.flatnonzero(tree.depth <= max_depth)
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


def topics(state: State, n_labels: int, depth: int | None, distinctive: bool) -> list[dict]:
    """The heaviest, or most distinctive, labels of the nodes of a level, or of the leaves."""
    tree, counts, candidates = state["tree"], state["counts"], state["candidates"]
    nodes = np.flatnonzero(tree.children[:, 0] < 0 if depth is None else tree.depth == depth)
    nodes = nodes[np.argsort(-counts.total[nodes], kind="stable")]
    leaves = np.flatnonzero(tree.children[:, 0] < 0)
    used = np.arange(candidates.label.shape[1]) < candidates.size[:, None]
    in_leaf = used & np.isin(np.arange(len(used)), leaves)[:, None]
    whole = np.bincount(candidates.label[in_leaf], candidates.mass[in_leaf])
    whole = whole / max(whole.sum(), 1e-300)
    out = []
    for node in nodes:
        labels, masses = candidates.label[node][used[node]], candidates.mass[node][used[node]]
        if distinctive:
            share = masses / max(masses.sum(), 1e-300)
            usual = np.append(whole, 0.0)[np.minimum(labels, len(whole))]
            lift = share * np.log(np.maximum(share, 1e-12) / np.maximum(usual, 1e-12))
            labels = labels[np.argsort(-lift, kind="stable")]
        out.append(
            {
                "node": int(node),
                "depth": int(tree.depth[node]),
                "mass": float(counts.total[node]),
                "labels": labels[:n_labels],
            }
        )
    return out


def width(config: Config, state: State) -> int:
    """The most labels scored for a row."""
    return max(config.n_candidates + config.n_head, state["candidates"].label.shape[1])


def memory(config: Config, n_features: int, n_classes: int) -> int:
    """Bytes of a trained model where every node knows every feature: right for dense rows, too much for text."""
    own, shared = TASKS[config.task]
    slots = min(n_classes, config.n_candidates) + config.n_head
    n_leaves = config.n_trees * min(1 << config.max_depth, 1 << 40)
    leaf_width = (config.rank or n_features) if own == OWN_WEIGHTS else 1
    adaptive = config.learner.adaptive or bool(config.rank)
    total = 2 * n_leaves * (12 * slots + 48) + n_leaves * 8 * n_features
    if shared:
        total += bank_bytes(n_classes, config.rank or n_features, config.table_bits, adaptive)
    if own != OWN_NOTHING:
        total += bank_bytes(n_leaves * slots, leaf_width, config.table_bits, adaptive)
    return total + (8 * n_features * config.rank if config.rank else 0) + 4 * n_features


Options = Config


def options_from_file(values: dict) -> dict:
    """The fields of `Options` from the values in a file."""
    return values
