"""Online tree of 2013 and LOM tree: state and verbs. The rules of the papers are in `kernels/lom_tree.py`."""

from typing import NamedTuple

import numpy as np

from ..core.grown_trees import check_grown_tree, climb, tabulate
from ..core.inputs import Batch
from ..core.invariants import check_bank, check_candidates, check_scale, check_seen, need, need_no_pruning
from ..core.labels import check_table, move_table
from ..core.learners import Learner, slowed
from ..core.linear import bank_bytes, grow_bank, make_bank, slim_bank
from ..core.margins import ROUTER_LOSSES
from ..core.protocol import Predictions, Scored, rows_of
from ..core.state import Candidates, GrownTree, Linear, MarginTable, NodeMargins, Scale, Seen, State, cut, make, resize
from ..core.trees import DEEPEST
from . import kernels as kernel

SLOTS = 16  # labels that a leaf can answer
DESCENTS = ("sign", "target")

_FIRST_NODES, _FIRST_ENTRIES = 128, 1024

NAME = "lom-tree"


class Config(NamedTuple):
    """All that a LOM tree was asked to do."""

    swap: bool
    swap_resistance: float
    nodes_per_class: float
    split_mass: float
    max_depth: int | None
    descent: str
    loss: str
    table_bits: int
    learner: Learner
    seed: int


def _options(config: Config, epoch: int = 0) -> kernel.Options:
    learner = slowed(config.learner, epoch)
    return kernel.Options(
        swap=bool(config.swap),
        swap_resistance=float(config.swap_resistance),
        nodes_per_class=float(config.nodes_per_class),
        split_mass=float(config.split_mass),
        max_depth=DEEPEST if config.max_depth is None else int(config.max_depth),
        by_target=config.descent == "target",
        loss=ROUTER_LOSSES[config.loss],
        update=learner.update,
        rate=float(learner.rate),
    )


def init(config: Config, n_features: int, n_classes: int = 0) -> State:
    """A tree that is only a root."""
    return {
        "tree": make(GrownTree, node=_FIRST_NODES, side=2),
        "nodes": make(NodeMargins, node=_FIRST_NODES),
        "router": make_bank(_FIRST_NODES, n_features, config.table_bits, config.learner.adaptive),
        "candidates": make(Candidates, node=_FIRST_NODES, slot=SLOTS),
        "table": make(MarginTable, entry=_FIRST_ENTRIES),
        "scale": make(Scale, feature=n_features),
        "seen": make(Seen),
    }


def learn(config: Config, state: State, batch: Batch, labels, weights, epoch: int = 0, n_jobs: int = 1) -> None:
    """Learn all rows in turn, making room whenever the kernel asks for it. Mutates: state."""
    options, begin = _options(config, epoch), 0
    while True:
        groups = [state[name] for name in GROUPS]
        begin = kernel.learn_batch(*groups, batch, labels, weights, begin, options)
        if begin == len(labels):
            return
        _make_room(config, state)


def _make_room(config: Config, state: State) -> None:
    """Enlarge what the next example would not fit into. Each size only depends on the examples before it."""
    tree, table, new = state["tree"], state["table"], dict(state)
    if tree.n_nodes[0] + 2 > len(tree.parent):
        size = 2 * len(tree.parent)
        for name in ("tree", "nodes", "candidates"):
            new[name] = resize(state[name], node=size)
        new["router"] = grow_bank(state["router"], size, len(state["scale"].inverse), config.table_bits)
    if 2 * (table.n_entries[0] + DEEPEST + 2) > len(table.key):
        # What recycled nodes left behind goes first; the table doubles if that is not half of it.
        alive = tree.identity[: int(tree.n_nodes[0])]
        moved = move_table(table, 2 * len(table.key), alive)
        small = 4 * (moved.n_entries[0] + DEEPEST + 2) <= len(table.key)
        new["table"] = move_table(moved, len(table.key)) if small else moved
    state.update(new)  # all at once: arrays that disagree in size would be written past


def predict(config: Config, state: State, batch: Batch, k: int, n_classes: int) -> Predictions:
    """The k best labels of all rows."""
    n = rows_of(batch)
    answers = Predictions(np.zeros((n, k), np.int32), np.full((n, k), -np.inf), np.empty((n, 4), np.int64))
    groups = [state[name] for name in ("tree", "router", "candidates")]
    kernel.predict_batch(*groups, batch, n_classes, *answers)
    return answers


def score(config: Config, state: State, batch: Batch) -> Scored:
    """The labels of each row's leaf with their shares."""
    most = width(config, state)
    answers = predict(config, state, batch, most, 0)
    sizes = np.sum(answers.scores > -np.inf, axis=1)
    used = np.arange(most) < sizes[:, None]
    return Scored(sizes, answers.labels[used], np.exp(answers.scores[used]))


def paths(config: Config, state: State, batch: Batch) -> list[np.ndarray]:
    """The nodes that each row passes."""
    leaves = np.empty(rows_of(batch), np.int64)
    kernel.leaves_batch(state["tree"], state["router"], batch, leaves)
    return climb(state["tree"], leaves)


def memory(config: Config, n_features: int, n_classes: int) -> int:
    """Bytes of a trained model, from sizes alone: as if it had all the nodes that it may have."""
    n_nodes = max(_FIRST_NODES, _power(2 * config.nodes_per_class * n_classes))
    n_entries = 2 * _power(4 * n_nodes)  # seen on data: a few labels a node
    total = bank_bytes(n_nodes, n_features, config.table_bits, config.learner.adaptive)
    return total + n_nodes * (16 + 32 + 12 + 12 * SLOTS) + 32 * n_entries + 4 * n_features


def _power(n: float) -> int:
    """The power of two at or above n."""
    return 1 << int(np.ceil(np.log2(max(1.0, n))))


def n_nodes(state: State) -> int:
    """Nodes of the tree."""
    return int(state["tree"].n_nodes[0])


def width(config: Config, state: State) -> int:
    """The most labels answered for a row."""
    return int(state["candidates"].label.shape[1])


def tree_table(state: State, max_depth: int | None = None) -> list[dict]:
    """The nodes down to a depth, parents before children, with the labels that came by."""
    return tabulate(state["tree"], state["table"], max_depth)


# -- files ---------------------------------------------------------------------------------------------------------

GROUPS = {
    "tree": GrownTree,
    "nodes": NodeMargins,
    "router": Linear,
    "candidates": Candidates,
    "table": MarginTable,
    "scale": Scale,
    "seen": Seen,
}


def check(config: Config, state: State, n_features: int, n_classes: int, slim: bool) -> None:
    """Everything that the kernels trust."""
    need(config.loss in ROUTER_LOSSES, f"the loss is {config.loss!r}.")
    need(config.descent in DESCENTS, f"descent is {config.descent!r}.")
    need(config.max_depth is None or 0 <= config.max_depth <= DEEPEST, f"max_depth is {config.max_depth}.")
    need(8 <= config.table_bits <= 40, f"table_bits is {config.table_bits}.")
    check_grown_tree(state["tree"])
    room = len(state["tree"].parent)
    check_bank("router", state["router"], n_features, config.learner.adaptive and not slim)
    sizes = {"router": state["router"].bias, "nodes": state["nodes"].total, "candidates": state["candidates"].size}
    for name, array in sizes.items():
        need(len(array) == room, f"{name} has {len(array)} rows for {room} nodes.")
    check_candidates(state["candidates"], n_classes)
    check_table(state["table"], int(state["tree"].n_identities[0]), n_classes)
    check_scale(state["scale"], n_features)
    check_seen(state["seen"], n_classes)


def slim(config: Config, state: State, n_classes: int, prune: float = 0.0) -> tuple[Config, State]:
    """What answers need: no sums of squared gradients, no means of margins."""
    need_no_pruning(prune)
    out, n = dict(state), n_nodes(state)
    out["router"] = slim_bank(state["router"], n)
    for name in ("tree", "nodes", "candidates"):
        out[name] = cut(state[name], node=n)
    out["nodes"] = make(NodeMargins, node=n)
    out["table"] = make(MarginTable, entry=2)
    return config, out


Options = Config


def options_from_file(values: dict) -> dict:
    """The fields of `Options` from the values in a file."""
    return values
