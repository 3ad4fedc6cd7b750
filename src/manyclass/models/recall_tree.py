"""Recall Tree: state and verbs. The rules of the paper are in `kernels/recall_tree.py`."""

import math
from dataclasses import dataclass

import numpy as np

from ..kernels import labels as label_kernels
from ..kernels import path_features as feature_kernels
from ..kernels import recall_answers as answer_kernels
from ..kernels import recall_tree as kernel
from ..kernels.inputs import Batch
from ..kernels.losses import LOSSES, probabilities_batch
from .banks import bank_bytes, grow_bank, make_bank, slim_bank
from .groups import Bank, Candidates, Counts, LabelTable, Means, Scale, Seen, State, Tree
from .invariants import check_bank, check_candidates, check_scale, check_seen, need, need_no_pruning, need_range
from .learners import Learner, slowed
from .means import check_means, grow_means, make_means, means_bytes, no_means, slim_means
from .spec import Answers, ModelSpec, Scored, register, rows_of
from .state import copy, cut, make, resize
from .tables import check_table, move_table

PATH_FEATURES = {
    "off": feature_kernels.OFF,
    "bias": feature_kernels.BIAS,
    "stop": feature_kernels.STOP,
    "crossed": feature_kernels.CROSSED,
}

DEEPEST = kernel.DEEPEST
MOST_PATHS = 1024  # that may be asked for
LARGEST_START = 1_000_000

_FIRST_NODES, _FIRST_ENTRIES, _FIRST_CLASSES = 128, 1024, 16


@dataclass(frozen=True)
class Config:
    """All that a Recall Tree was asked to do."""

    bernstein: float | None
    n_candidates: int | None
    max_depth: int | None
    path_features: str
    beam: int
    randomized: bool
    loss: str
    table_bits: int
    learner: Learner
    router_learner: Learner
    seed: int
    start: float = 0.0


def options_of(config: Config, epoch: int = 0) -> kernel.Options:
    learner, router_learner = slowed(config.learner, epoch), slowed(config.router_learner, epoch)
    return kernel.Options(
        bernstein=-1.0 if config.bernstein is None else float(config.bernstein),
        n_candidates=-1 if config.n_candidates is None else int(config.n_candidates),
        max_depth=-1 if config.max_depth is None else int(config.max_depth),
        path_features=PATH_FEATURES[config.path_features],
        start=float(config.start),
        beam=int(config.beam),
        randomized=bool(config.randomized),
        loss=LOSSES[config.loss],
        update=learner.update,
        rate=float(learner.rate),
        router_update=router_learner.update,
        router_rate=float(router_learner.rate),
        seed=int(config.seed),
    )


def _path_width(config: Config, n_features: int) -> int:
    """Weights that a (node, class) pair has of its own beside its bias; one unused where it has none."""
    return n_features if config.path_features in ("stop", "crossed") else 1


def init(config: Config, n_features: int, n_classes: int = 0) -> State:
    """A tree that is only a root, with room for the classes known beforehand."""
    adaptive = config.learner.adaptive
    n_slots = kernel.candidates_wanted(1, options_of(config))
    n_rows = max(_FIRST_CLASSES, n_classes)
    return {
        "tree": make(Tree, node=_FIRST_NODES, side=2),
        "router": make_bank(_FIRST_NODES, n_features, config.table_bits, config.router_learner.adaptive),
        "scorer": make_bank(n_rows, n_features, config.table_bits, adaptive),
        "path": make_bank(2, _path_width(config, n_features), config.table_bits, adaptive),
        "means": make_means(n_rows, n_features, config.table_bits) if config.start > 0 else no_means(),
        "counts": make(Counts, node=_FIRST_NODES),
        "candidates": make(Candidates, node=_FIRST_NODES, slot=n_slots),
        "table": make(LabelTable, entry=_FIRST_ENTRIES),
        "scale": make(Scale, feature=n_features),
        "seen": make(Seen),
    }


def learn(config: Config, state: State, batch: Batch, labels, weights, epoch: int = 0) -> None:
    """Learn all rows in turn, making room whenever the kernel asks for it. Mutates: state."""
    options = options_of(config, epoch)
    names = (*_ANSWER, "scale", "seen")
    begin = 0
    while True:
        groups = _groups(config, state, names)
        begin = kernel.learn_batch(*groups, batch, labels, weights, begin, options)
        if begin == len(labels):
            return
        _make_room(config, state, int(labels[begin]), options)


def _make_room(config: Config, state: State, label: int, options: kernel.Options) -> None:
    """Enlarge what the next example would not fit into. Each size only depends on the examples before it."""
    n_features, bits = len(state["scale"].inverse), config.table_bits
    new = dict(state)
    tree, scorer, table, path = state["tree"], state["scorer"], state["table"], state["path"]
    if label >= len(scorer.bias):
        new["scorer"] = grow_bank(scorer, 1 << label.bit_length(), n_features, bits)
        if config.start > 0:
            new["means"] = grow_means(state["means"], 1 << label.bit_length(), n_features, bits)
    if tree.n_nodes[0] + DEEPEST > len(tree.parent):
        for name in ("tree", "counts", "candidates"):
            new[name] = resize(state[name], node=2 * len(tree.parent))
        new["router"] = grow_bank(state["router"], 2 * len(tree.parent), n_features, bits)
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
        rows = int(path.n_rows[0] + kernel.path_rows_wanted(n_labels, new["candidates"], options))
        if rows > len(path.bias):
            width = _path_width(config, n_features)
            new["path"] = grow_bank(path, max(rows, 2 * len(path.bias)), width, bits)
    state.update(new)  # all at once: arrays that disagree in size would be written past


def _groups(config: Config, state: State, names: tuple[str, ...]) -> list:
    """Groups for a kernel; no path features and no means are passed as None."""
    unused = {"path": config.path_features == "off", "means": config.start == 0}
    return [None if unused.get(name) else state[name] for name in names]


_ANSWER = ("tree", "router", "scorer", "path", "means", "counts", "candidates", "table")


def predict(config: Config, state: State, batch: Batch, k: int, n_classes: int) -> Answers:
    """The k best labels of all rows."""
    n = rows_of(batch)
    answers = Answers(np.empty((n, k), np.int32), np.empty((n, k)), np.empty((n, 4), np.int64))
    groups = _groups(config, state, _ANSWER)
    answer_kernels.predict_batch(*groups, batch, n_classes, options_of(config), *answers)
    return answers


def score(config: Config, state: State, batch: Batch) -> Scored:
    """All candidates of all rows with their probabilities."""
    options, n = options_of(config), rows_of(batch)
    most = width(config, state)
    labels, scores = np.empty((n, most), np.int32), np.empty((n, most))
    sizes = np.empty(n, np.int64)
    groups = _groups(config, state, _ANSWER)
    answer_kernels.candidates_batch(*groups, batch, options, labels, scores, sizes)
    probabilities_batch(scores, sizes, options.loss)
    used = np.arange(most) < sizes[:, None]
    return Scored(sizes, labels[used], scores[used])


def paths(config: Config, state: State, batch: Batch) -> list[np.ndarray]:
    """The nodes that each row passes, those of all its paths."""
    options, tree = options_of(config), state["tree"]
    longest = int(tree.depth[: n_nodes(state)].max()) + 1
    nodes = np.full((rows_of(batch), longest * options.beam), -1, np.int32)
    groups = [state[name] for name in ("tree", "router", "counts", "candidates")]
    answer_kernels.paths_batch(*groups, batch, options, nodes)
    return [np.unique(row[row >= 0]) for row in nodes]


def memory(config: Config, n_features: int, n_classes: int) -> int:
    """Bytes of a trained model, from sizes alone."""
    options = options_of(config)
    n_slots = int(kernel.candidates_wanted(n_classes, options))
    depth = int(kernel.depth_limit(n_classes, n_slots, options))
    n_nodes = max(_FIRST_NODES, _power(min(2 << depth, 4 * n_classes) + kernel.DEEPEST))
    # Seen on data: a class keeps to a few branches of each level. Twice that for open addressing.
    n_entries = 2 * _power(4 * depth * n_classes)
    adaptive, bits = config.learner.adaptive, config.table_bits
    total = bank_bytes(n_nodes, n_features, bits, config.router_learner.adaptive)
    total += bank_bytes(max(_FIRST_CLASSES, n_classes), n_features, bits, adaptive)
    if config.start > 0:
        total += means_bytes(max(_FIRST_CLASSES, n_classes), n_features, bits)
    if config.path_features != "off":
        nodes_each = 1 if config.path_features == "stop" else depth
        total += bank_bytes(2 * n_slots * n_classes * nodes_each, _path_width(config, n_features), bits, adaptive)
    return total + n_nodes * (16 + 16 + 12 + 12 * n_slots) + 20 * n_entries + 4 * n_features


def _power(n: int) -> int:
    """The power of two at or above n."""
    return 1 << math.ceil(math.log2(max(1, n)))


def n_nodes(state: State) -> int:
    """Nodes of the tree."""
    return int(state["tree"].n_nodes[0])


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


def width(config: Config, state: State) -> int:
    """The most labels scored for a row."""
    return int(kernel.widest(state["candidates"], options_of(config)))


# -- files ---------------------------------------------------------------------------------------------------------

GROUPS = {
    "tree": Tree,
    "router": Bank,
    "scorer": Bank,
    "path": Bank,
    "means": Means,
    "counts": Counts,
    "candidates": Candidates,
    "table": LabelTable,
    "scale": Scale,
    "seen": Seen,
}


def check(config: Config, state: State, n_features: int, n_classes: int, slim: bool) -> None:
    """Everything that the kernels trust."""
    need(config.loss in LOSSES, f"the loss is {config.loss!r}.")
    need(config.path_features in PATH_FEATURES, f"path_features is {config.path_features!r}.")
    need(config.max_depth is None or 0 <= config.max_depth <= DEEPEST, f"max_depth is {config.max_depth}.")
    need(1 <= config.beam <= MOST_PATHS, f"beam is {config.beam}.")
    need(config.n_candidates is None or config.n_candidates > 0, f"n_candidates is {config.n_candidates}.")
    need(8 <= config.table_bits <= 40, f"table_bits is {config.table_bits}.")
    need(0 <= config.start <= LARGEST_START, f"start is {config.start}.")
    check_tree(state["tree"])
    n, room = n_nodes(state), len(state["tree"].parent)
    counts, candidates, table, path = (state[name] for name in ("counts", "candidates", "table", "path"))
    squares = config.learner.adaptive and not slim
    check_bank("router", state["router"], n_features, config.router_learner.adaptive and not slim)
    check_bank("scorer", state["scorer"], n_features, squares)
    check_bank("path", path, _path_width(config, n_features), squares and config.path_features != "off")
    if config.start > 0:
        check_means(state["means"], len(state["scorer"].bias), n_features)
    for name, size in (("router", len(state["router"].bias)), ("counts", len(counts.total))):
        need(size == room, f"{name} has {size} rows for {room} nodes.")
    need(len(candidates.size) == room, f"candidates has {len(candidates.size)} rows for {room} nodes.")
    n_known = min(n_classes, len(state["scorer"].bias))
    slots = candidates.label.shape[1]
    need(slots >= max(1, config.n_candidates or 0), f"candidates.label has {slots} slots.")
    check_candidates(candidates, n_known)
    check_table(table, n, n_known)
    need_range("table.path_row", table.path_row, -1, int(path.n_rows[0]))
    check_scale(state["scale"], n_features)
    check_seen(state["seen"], n_classes)


def check_tree(tree: Tree) -> None:
    """A tree: one parent each, no circle, depths as they are."""
    n = int(tree.n_nodes[0])
    need(1 <= n <= len(tree.parent), f"tree.n_nodes is {n}, with room for {len(tree.parent)}.")
    need(tree.children.shape[1] == 2, f"tree.children has {tree.children.shape[1]} sides.")
    need((tree.children[n:] == -1).all() and tree.parent[0] == -1 and tree.depth[0] == 0, "the root is not a root.")
    parent, nodes = tree.parent[1:n], np.arange(1, n)
    need_range("tree.parent", parent, 0, n)
    need((parent < nodes).all(), "a node comes before its parent.")  # so there is no circle
    need((tree.depth[1:n] == tree.depth[parent] + 1).all(), "tree.depth is not that of the tree.")
    need_range("tree.depth", tree.depth[:n], 0, DEEPEST + 1)
    used = tree.children[:n] >= 0
    need_range("tree.children", tree.children[:n], -1, n)
    owner = np.nonzero(used)[0]
    own = used.sum() == n - 1 and (tree.parent[tree.children[:n][used]] == owner).all()
    need(own, "a node is not its parent's child.")


def slim(config: Config, state: State, n_classes: int, prune: float = 0.0) -> tuple[Config, State]:
    """What answers need: no sums of squared gradients; no counts of labels unless path features look them up."""
    need_no_pruning(prune)
    out, n = dict(state), n_nodes(state)
    for name, rows in (("router", n), ("scorer", n_classes), ("path", int(state["path"].n_rows[0]))):
        out[name] = slim_bank(state[name], max(1, rows))
    if config.start > 0:
        out["means"] = slim_means(state["means"], max(1, n_classes))
    for name in ("tree", "counts", "candidates"):
        out[name] = cut(state[name], node=n)
    out["candidates"] = out["candidates"]._replace(mass=np.zeros_like(out["candidates"].mass))
    if config.path_features == "off":
        out["table"] = make(LabelTable, entry=2)
    return config, out


SPEC = register(
    ModelSpec(
        "recall-tree",
        Config,
        GROUPS,
        *(init, learn, predict, score, paths, n_nodes, width, memory, check, slim),
        tree_table=tree_table,
    )
)
