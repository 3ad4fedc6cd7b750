"""Spectral tree: training, prediction, memory and checks of files."""

import math
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..core.columns import as_matrix
from ..core.inputs import Batch, Csr, Dense, inverse_lengths
from ..core.invariants import check_bank, check_candidates, check_counts, check_links, need, need_range, need_rows
from ..core.learners import at_epoch
from ..core.linear import add_weights, bank_bytes, make_bank, slim_bank
from ..core.losses import LOSSES, SOFTMAX, probabilities_batch
from ..core.protocol import Predictions, Scored, as_labels, rows_of
from ..core.state import Candidates, Counts, Linear, Projection, Scale, Seen, State, Tree, make
from ..core.trees import describe_node, paths_to
from ..core.updates import ADAGRAD, NORMALIZED_ADAGRAD, SGD
from .batches import Leaf, learn_leaf
from .explain import explain  # noqa: F401  (one of the model's functions)
from .filter import Node, Report, assemble, find_candidates, grow_forest, nodes_of, rows_with, unit_rows
from .kernels import (
    OWN_BIAS,
    OWN_NOTHING,
    OWN_WEIGHTS,
    Classifier,
    Forest,
    Options,
    Routers,
    Rows,
    choose_leaves,
    learn_batch,
    observe_rows,
    predict_batch,
)

NAME = "spectral-tree"
GROUPS = {
    "tree": Tree,
    "routers": Routers,
    "counts": Counts,
    "candidates": Candidates,
    "forest": Forest,
    "scorer": Linear,
    "own": Linear,
    "projection": Projection,
    "scale": Scale,
    "seen": Seen,
}
# The leaf as a task [ST §3.5]: whether leaves share a predictor per class, and what each adds for its candidates.
LEAVES = {
    "shared": (True, OWN_NOTHING),
    "bias": (True, OWN_BIAS),
    "output": (False, OWN_WEIGHTS),  # of the low-rank form, whose map is shared
    "hashed": (True, OWN_WEIGHTS),
    "separate": (False, OWN_WEIGHTS),
}
MOST_PATHS = 1024  # limit of `beam`
_BLOCK_WEIGHTS = 1 << 26  # limit of a leaf's weights that are copied side by side: 256 MB

# -- state -----------------------------------------------------------------------------------------------------------


def init(options: Options, n_features: int, n_classes: int = 0) -> State:
    """A tree that is a root without candidates."""
    return {**assemble([[Node()]]), **make_classifier(options, n_features, max(1, n_classes), 1)}


def make_classifier(options: Options, n_features: int, n_classes: int, n_own: int) -> State:
    """Untrained groups: shared predictors, those of the leaves, the low-rank map, scale and counters."""
    rank, bits = options.rank, options.table_bits
    width, adaptive = rank or n_features, options.update != SGD
    lines = n_features if rank else 1
    projection: Projection = make(Projection, bucket=lines, square_bucket=lines, rank=max(1, rank))
    if rank:
        start = np.random.default_rng(options.seed).standard_normal(projection.weight.shape)
        projection.weight[:] = start / math.sqrt(rank)
    own_width = width if options.own == OWN_WEIGHTS else 1
    return {
        "scorer": make_bank(n_classes if options.shared else 1, width, bits, adaptive),
        "own": make_bank(n_own if options.own != OWN_NOTHING else 1, own_width, bits, adaptive),
        "projection": projection,
        "scale": make(Scale, feature=n_features),
        "seen": make(Seen),
    }


def classifier_of(options: Options, state: State) -> Classifier:
    """The groups of the classifier for kernels."""
    return Classifier(state["scorer"], state["own"], state["projection"] if options.rank else None)


def n_features_of(state: State) -> int:
    return len(state["scale"].inverse)


# -- training --------------------------------------------------------------------------------------------------------


def fit(
    options: Options, state: State, X: Any, batch: Batch, labels: Any, weights: np.ndarray, n_jobs: int, report: Report
) -> Options:
    """Grow the filter from all rows, then train the classifier on random paths [ST §3.2]. Mutates: state."""
    given, n_features = as_labels(labels), n_features_of(state)
    n_classes = max(len(state["scorer"].bias), int(given.label.max(initial=0)) + 1)
    rows = rows_with(unit_rows(options, batch), given, weights / weights.mean())
    new = grow_forest(options, rows, (n_features, n_classes), n_jobs, lambda share: report(share / 2))
    n_own = int(new["candidates"].size[new["forest"].own_row >= 0].sum())
    new |= make_classifier(options, n_features, n_classes, max(1, n_own))
    new["seen"].n_labels[0] = len(np.unique(given.label))
    if options.start > 0 and options.shared and not options.rank:
        _start_at_means(options, new["scorer"], rows, n_features, n_classes)
    observe_rows(new["scale"], rows.batch, len(weights))
    rng = np.random.default_rng(options.seed)
    for epoch in range(options.n_epochs):
        new["seen"].mass[0] = new["seen"].wrong_mass[0] = 0.0
        _learn(at_epoch(options, epoch), new, rows, rng.permutation(len(weights)), epoch)
        report(0.5 + 0.5 * (epoch + 1) / options.n_epochs)
    state.clear()
    state.update(new)
    return options


def _learn(options: Options, state: State, rows: Rows, order: np.ndarray, epoch: int) -> None:
    """Train the classifier on all rows once. Mutates: state."""
    nodes, classifier = nodes_of(state, n_features_of(state)), classifier_of(options, state)
    scale, seen = state["scale"], state["seen"]
    # Plain steps of predictors that leaves share are faster leaf by leaf.
    by_leaf = options.shared and options.own != OWN_WEIGHTS and not options.rank and options.update == SGD
    by_leaf = by_leaf and not options.as_printed
    drawn, leaves = np.arange(len(order)) if by_leaf else order, np.empty(len(order), np.int64)
    choose_leaves(nodes, rows.batch, drawn, epoch * len(order), options, leaves)
    if not by_leaf:
        learn_batch(nodes, classifier, scale, seen, rows, order, leaves, options)
        return
    # DIFFERS [ST §3.5]: rows come leaf by leaf, in random order of the leaves and of the rows of a leaf.
    order = order[np.argsort(leaves[order], kind="stable")]
    ends = np.append(np.flatnonzero(np.diff(leaves[order], prepend=-1)), len(order))
    for turn in np.random.default_rng([options.seed, epoch]).permutation(len(ends) - 1):
        here = order[ends[turn] : ends[turn + 1]]
        node = leaves[here[0]]
        labels = nodes.candidates.label[node, : nodes.candidates.size[node]]
        leaf = Leaf(labels, int(nodes.forest.own_row[node]))
        for some in _pieces(rows.batch, here, nodes.n_features, len(labels)):
            learn_leaf(classifier, scale, seen, rows, some, leaf, options)


def _pieces(batch: Batch, rows: np.ndarray, n_features: int, n_candidates: int) -> list[np.ndarray]:
    """The rows of a leaf, cut where the weights that they need together would take too much memory."""
    if n_features * n_candidates <= _BLOCK_WEIGHTS or isinstance(batch, Dense):
        return [rows]
    ahead = np.cumsum(batch.indptr[rows + 1] - batch.indptr[rows])
    piece = ahead // max(1, _BLOCK_WEIGHTS // max(1, n_candidates))
    return np.split(rows, np.flatnonzero(np.diff(piece)) + 1)


def _start_at_means(options: Options, scorer: Linear, rows: Rows, n_features: int, n_classes: int) -> None:
    """Start the shared predictors at the mean rows of their classes. Mutates: scorer.

    DIFFERS [ST §3.5]: the paper's start at zero.
    """
    n = len(rows.weight)
    per_label = np.repeat(rows.weight, np.diff(rows.pointer)).astype(np.float32)
    Y = sp.csr_array((per_label, rows.label, rows.pointer), shape=(n, n_classes))
    means = sp.csr_array(Y.T.tocsr() @ as_matrix(rows.batch, n_features))
    means.sort_indices()
    lines = Csr(means.indptr.astype(np.int64), means.indices.astype(np.int32), means.data.astype(np.float32))
    lengths = np.empty(n_classes)
    inverse_lengths(lines, lengths)
    present = np.bincount(rows.label, minlength=n_classes) > 0
    # Independent predictors start with a negative bias: most labels are wrong for a row.
    bias = 0.0 if options.loss == SOFTMAX else -options.start / 3
    add_weights(scorer, lines, np.where(present, options.start * lengths, 0.0), np.where(present, bias, 0.0))


# -- prediction ------------------------------------------------------------------------------------------------------


def predict(options: Options, state: State, batch: Batch, k: int, n_classes: int) -> Predictions:
    """The k best labels of all rows."""
    out = Predictions.empty(rows_of(batch), k)
    nodes, classifier = nodes_of(state, n_features_of(state)), classifier_of(options, state)
    predict_batch(nodes, classifier, unit_rows(options, batch), n_classes, options, out)
    return out


def score(options: Options, state: State, batch: Batch) -> Scored:
    """All candidates of all rows with their probabilities, which sum to 1 with one label per row."""
    nodes, classifier = nodes_of(state, n_features_of(state)), classifier_of(options, state)
    found = find_candidates(options, nodes, classifier, unit_rows(options, batch))
    used = np.arange(found.label.shape[1]) < found.size[:, None]
    if options.multilabel:
        with np.errstate(over="ignore"):
            return Scored(found.size, found.label[used], 1.0 / (1.0 + np.exp(-found.score[used])))
    probabilities_batch(found.score, found.size, options.loss)
    return Scored(found.size, found.label[used], found.score[used])


def paths(options: Options, state: State, batch: Batch) -> list[np.ndarray]:
    """The nodes that each row passes, on all its paths."""
    nodes = nodes_of(state, n_features_of(state))
    return paths_to(nodes.tree.parent, find_candidates(options, nodes, None, unit_rows(options, batch)).leaf)


def width(options: Options, state: State) -> int:
    """The most labels scored, or leaves reached, per row."""
    n_leaves = options.beam * options.n_trees
    return max(options.n_candidates + options.n_head, state["candidates"].label.shape[1], n_leaves)


def n_nodes(state: State) -> int:
    """Nodes of all trees."""
    return int(state["tree"].n_nodes[0])


def tree_table(state: State, max_depth: int | None = None) -> list[dict]:
    """The nodes down to a depth, parents before children, with their most frequent labels."""
    tree = state["tree"]
    nodes = np.arange(len(tree.parent)) if max_depth is None else np.flatnonzero(tree.depth <= max_depth)
    return [describe_node(state, node) for node in nodes]


def topics(state: State, n_labels: int, depth: int | None, distinctive: bool) -> list[dict]:
    """The most frequent, or most distinctive, labels of the nodes of a level, or of the leaves [ST §5.1]."""
    tree, candidates = state["tree"], state["candidates"]
    leaf = tree.children[:, 0] < 0
    in_leaf = leaf[:, None] & (np.arange(candidates.label.shape[1]) < candidates.size[:, None])
    whole = np.bincount(candidates.label[in_leaf], candidates.mass[in_leaf])
    whole = np.append(whole / max(whole.sum(), 1e-300), 0.0)
    nodes = np.flatnonzero(leaf if depth is None else tree.depth == depth)
    out = []
    for node in nodes[np.argsort(-state["counts"].total[nodes], kind="stable")]:
        topic = describe_node(state, node)
        if distinctive:
            labels, masses = topic["labels"], candidates.mass[node, : candidates.size[node]]
            share = masses / max(masses.sum(), 1e-300)
            usual = whole[np.minimum(labels, len(whole) - 1)]
            lift = share * np.log(np.maximum(share, 1e-12) / np.maximum(usual, 1e-12))
            topic["labels"] = labels[np.argsort(-lift, kind="stable")]
        out.append({**topic, "labels": topic["labels"][:n_labels]})
    return out


# -- memory and files ------------------------------------------------------------------------------------------------


def memory(options: Options, n_features: int, n_classes: int) -> int:
    """Bytes of a trained model with a full tree whose routers have every feature: an upper bound for sparse text."""
    slots = min(n_classes, options.n_candidates) + options.n_head
    n_leaves = options.n_trees << options.max_depth
    seen_by = options.rank or n_features
    adaptive = options.update != SGD
    total = 2 * n_leaves * (12 * slots + 48) + n_leaves * 8 * n_features
    if options.shared:
        total += bank_bytes(n_classes, seen_by, options.table_bits, adaptive)
    if options.own != OWN_NOTHING:
        own_width = seen_by if options.own == OWN_WEIGHTS else 1
        total += bank_bytes(n_leaves * slots, own_width, options.table_bits, adaptive)
    return total + 8 * n_features * options.rank + 4 * n_features


def options_from_file(values: dict[str, Any]) -> dict[str, Any]:
    """The fields of `Options` from the values in a file, which may have the names of older versions."""
    if "task" not in values:
        return values
    gone = ("cutoff", "recall", "held_out", "task", "unit_rows", "learner")
    out = {name: value for name, value in values.items() if name not in gone}
    learner, (shared, own) = values["learner"], LEAVES[values["task"]]
    out |= {"shared": shared, "own": own, "rank": values["rank"] or 0, "loss": LOSSES[values["loss"]]}
    out |= {"validate": values["held_out"] > 0, "normalize": values["unit_rows"]}
    out |= learner.as_options()
    return out | ({"update": ADAGRAD, "bias_rate": 1.0} if out["rank"] else {})


def check(options: Options, state: State, n_features: int, n_classes: int, slim: bool) -> None:
    """ModelFormatError unless the kernels may run on the state."""
    limits = {
        "loss": (0, max(LOSSES.values())),
        "own": (OWN_NOTHING, OWN_WEIGHTS),
        "update": (SGD, NORMALIZED_ADAGRAD),
        "beam": (1, MOST_PATHS),
        "table_bits": (8, 40),
        "rank": (0, 1 << 31),
        "n_candidates": (1, n_classes),
        "n_head": (0, n_classes),
    }
    for name, (low, high) in limits.items():
        need(low <= getattr(options, name) <= high, f"the option {name} is {getattr(options, name)}.")
    tree, routers, forest, candidates = (state[name] for name in ("tree", "routers", "forest", "candidates"))
    need(len(forest.root) == options.n_trees, f"there are {len(forest.root)} trees, not {options.n_trees}.")
    check_forest(tree, forest)
    n = len(tree.parent)
    need_rows(n, routers=routers.bias, candidates=candidates.size, counts=state["counts"].total)
    need_range("routers.first", routers.first, 0, len(routers.feature) + 1)
    need(len(routers.first) == n + 1 and routers.first[0] == 0, "routers.first does not have a begin for every node.")
    need((np.diff(routers.first) >= 0).all() and routers.first[-1] == len(routers.feature), "routers.first has a gap.")
    need_range("routers.feature", routers.feature, 0, n_features)
    inside = np.ones(len(routers.feature), bool)
    inside[routers.first[:-1][routers.first[:-1] < len(routers.feature)]] = False
    need((np.diff(routers.feature, prepend=-1)[inside] > 0).all(), "routers.feature is not sorted.")
    need((routers.spread > 0).all(), "routers.spread is not positive.")
    squares, seen_by = options.update != SGD and not slim, options.rank or n_features
    n_known = min(n_classes, len(state["scorer"].bias)) if options.shared else n_classes
    check_candidates(candidates, n_known, 2 * n_classes)
    check_bank("scorer", state["scorer"], seen_by, squares)
    check_bank("own", state["own"], seen_by if options.own == OWN_WEIGHTS else 1, squares)
    leaf = tree.children[:, 0] < 0
    need((forest.own_row[leaf] >= 0).all(), "forest.own_row is missing for a leaf.")
    if options.own != OWN_NOTHING:
        last = forest.own_row[leaf].astype(np.int64) + candidates.size[leaf]
        need((last <= len(state["own"].bias)).all(), "the group own lacks predictors of a leaf.")
    if options.rank:
        shape = state["projection"].weight.shape
        need(shape == (n_features, options.rank), f"projection.weight has the shape {shape}.")
    check_counts(state, n_features, n_classes)


def check_forest(tree: Tree, forest: Forest) -> None:
    """Trees with the roots of the forest, whose nodes have two children or none."""
    n = int(tree.n_nodes[0])
    need(1 <= n == len(tree.parent), f"tree.n_nodes is {n}, with {len(tree.parent)} nodes.")
    need(tree.children.shape[1] == 2, f"tree.children has {tree.children.shape[1]} sides.")
    need_rows(n, **{"forest.own_row": forest.own_row})
    roots = np.flatnonzero(tree.parent < 0)
    need(len(roots) == len(forest.root) and (roots == np.sort(forest.root)).all(), "forest.root are not the roots.")
    check_links(tree, n)
    need(((tree.children[:, 0] < 0) == (tree.children[:, 1] < 0)).all(), "a node has one child.")


def slim(options: Options, state: State, n_classes: int) -> tuple[Options, State]:
    """What predictions need: no sums of squared gradients."""
    out = {**state, **{name: slim_bank(state[name], len(state[name].bias)) for name in ("scorer", "own")}}
    projection = state["projection"]
    out["projection"] = projection._replace(grad_sq=np.zeros((1, projection.weight.shape[1]), np.float32))
    return options, out
