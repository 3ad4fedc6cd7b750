"""MLOM tree: state and verbs. The rules of the paper are in `kernels/mlom_tree.py`."""

from typing import NamedTuple

import numpy as np

from ..core.grown_trees import check_grown_tree, climb, depths, tabulate
from ..core.inputs import Batch
from ..core.invariants import check_bank, check_candidates, check_scale, check_seen, need, need_no_pruning, need_range
from ..core.labels import EMPTY, check_table, move_entries
from ..core.learners import Learner, slowed
from ..core.linear import bank_bytes, grow_bank, make_bank, slim_bank
from ..core.margins import ROUTER_LOSSES
from ..core.protocol import Predictions, Scored, rows_of
from ..core.state import (
    Candidates,
    GrownTree,
    Linear,
    MlomNodes,
    MlomTable,
    NodeMargins,
    Scale,
    Seen,
    State,
    cut,
    make,
    resize,
)
from ..core.trees import DEEPEST
from . import kernels as kernel

_MEDIAN_FROM = {"auto": 100, "median": 0, "mean": 1 << 31}  # classes that a node has at least
CENTRES = tuple(_MEDIAN_FROM)
SLOTS = 16  # labels that a leaf with guests can answer

_FIRST_NODES, _FIRST_ENTRIES = 128, 1024

NAME = "mlom-tree"


class Config(NamedTuple):
    """All that an MLOM tree was asked to do."""

    centre: str
    max_depth: int | None
    loss: str
    table_bits: int
    learner: Learner
    seed: int
    guests: bool = False  # with these defaults, the first files of format 1 are read: they have no guests
    split_mass: float = 10.0
    nodes_per_class: float = 32.0


def _options(config: Config, epoch: int = 0) -> kernel.Options:
    learner = slowed(config.learner, epoch)
    return kernel.Options(
        median_from=_MEDIAN_FROM[config.centre],
        nodes_per_class=float(config.nodes_per_class),
        split_mass=float(config.split_mass),
        max_depth=DEEPEST if config.max_depth is None else int(config.max_depth),
        loss=ROUTER_LOSSES[config.loss],
        update=learner.update,
        rate=float(learner.rate),
    )


def init(config: Config, n_features: int, n_classes: int = 0) -> State:
    """A tree that is only a root."""
    counts: State = {}
    if config.guests:
        counts["guests"] = make(NodeMargins, node=_FIRST_NODES)
        counts["candidates"] = make(Candidates, node=_FIRST_NODES, slot=SLOTS)
    return {
        "tree": make(GrownTree, node=_FIRST_NODES, side=2),
        "nodes": make(MlomNodes, node=_FIRST_NODES),
        **counts,
        "router": make_bank(_FIRST_NODES, n_features, config.table_bits, config.learner.adaptive),
        "table": make(MlomTable, entry=_FIRST_ENTRIES),
        "scale": make(Scale, feature=n_features),
        "seen": make(Seen),
    }


def learn(config: Config, state: State, batch: Batch, labels, weights, epoch: int = 0, n_jobs: int = 1) -> None:
    """Learn all rows in turn, making room whenever the kernel asks for it. Mutates: state."""
    options, begin = _options(config, epoch), 0
    while True:
        groups = [state.get(name) for name in GROUPS]
        begin = kernel.learn_batch(*groups, batch, labels, weights, begin, options)
        if begin == len(labels):
            return
        _make_room(config, state)


def _make_room(config: Config, state: State) -> None:
    """Enlarge what the next example would not fit into. Each size only depends on the examples before it."""
    tree, nodes, table, new = state["tree"], state["nodes"], state["table"], dict(state)
    if tree.n_nodes[0] + 4 > len(tree.parent):
        size = 2 * len(tree.parent)
        for name in _by_node(state):
            new[name] = resize(state[name], node=size)
        new["router"] = grow_bank(state["router"], size, len(state["scale"].inverse), config.table_bits)
    n_more = 2 * (DEEPEST + 2)  # entries that one example may need
    if 2 * (table.n_entries[0] + n_more) > len(table.key):
        # What deleted nodes left behind goes first; the table doubles if that is not half of it.
        alive = tree.identity[np.flatnonzero(depths(tree) >= 0)]
        n_kept = int(np.sum(np.isin(table.key[table.key != EMPTY] >> 32, alive)))
        double = 4 * (n_kept + n_more) > len(table.key)
        moved, place = move_entries(table, (2 if double else 1) * len(table.key), alive)
        for links in (moved.left, moved.right):
            links[:] = place[links]
        new["table"] = moved
        new["nodes"] = new["nodes"]._replace(members=place[new["nodes"].members].astype(nodes.members.dtype))
    state.update(new)  # all at once: arrays that disagree in size would be written past


def _by_node(state: State) -> list[str]:
    """Groups that have a line for each node."""
    return [name for name in ("tree", "nodes", "guests", "candidates") if name in state]


def predict(config: Config, state: State, batch: Batch, k: int, n_classes: int) -> Predictions:
    """The k best labels of all rows; without guests only the first has a score."""
    n = rows_of(batch)
    answers = Predictions(np.zeros((n, k), np.int32), np.full((n, k), -np.inf), np.empty((n, 4), np.int64))
    kernel.predict_batch(*_answering(state), batch, n_classes, *answers)
    return answers


def _answering(state: State) -> list:
    return [state.get(name) for name in ("tree", "nodes", "candidates", "router", "table")]


def score(config: Config, state: State, batch: Batch) -> Scored:
    """The class of each row's leaf, or with guests its labels with their shares."""
    most = width(config, state)
    answers = predict(config, state, batch, most, 0)
    sizes = np.sum(answers.scores > -np.inf, axis=1)
    used = np.arange(most) < sizes[:, None]
    return Scored(sizes, answers.labels[used], np.exp(answers.scores[used]))


def paths(config: Config, state: State, batch: Batch) -> list[np.ndarray]:
    """The nodes that each row passes."""
    leaves = np.empty(rows_of(batch), np.int64)
    kernel.leaves_batch(*_answering(state), batch, leaves)
    return climb(state["tree"], leaves)


def memory(config: Config, n_features: int, n_classes: int) -> int:
    """Bytes of a trained model, from sizes alone: a leaf a class; with guests, as if it had all nodes that it may."""
    per_class = max(1.0, config.nodes_per_class) if config.guests else 1.0
    n_nodes = max(_FIRST_NODES, _power(2 * per_class * n_classes + 4))
    n_entries = 2 * _power(2 * n_classes * max(1.0, np.log2(n_classes)))
    n_entries = max(_FIRST_ENTRIES, n_entries, 2 * _power(4 * n_nodes) if config.guests else 0)
    a_node = 32 + (32 + 12 + 12 * SLOTS if config.guests else 0)
    total = bank_bytes(n_nodes, n_features, config.table_bits, config.learner.adaptive)
    return total + n_nodes * a_node + 54 * n_entries + 4 * n_features


def _power(n: float) -> int:
    """The power of two at or above n."""
    return 1 << int(np.ceil(np.log2(max(1.0, n))))


def n_nodes(state: State) -> int:
    """Nodes that the tree has, or had at once."""
    return int(state["tree"].n_nodes[0])


def width(config: Config, state: State) -> int:
    """The most labels answered for a row."""
    return SLOTS if config.guests else 1


def tree_table(state: State, max_depth: int | None = None) -> list[dict]:
    """The nodes down to a depth, parents before children, with the classes that they have now; not their guests."""
    return tabulate(state["tree"], state["table"], max_depth, state["table"].active != 0)


# -- files ---------------------------------------------------------------------------------------------------------

GROUPS = {
    "tree": GrownTree,
    "nodes": MlomNodes,
    "guests": (NodeMargins, None),
    "candidates": (Candidates, None),
    "router": Linear,
    "table": MlomTable,
    "scale": Scale,
    "seen": Seen,
}


def check(config: Config, state: State, n_features: int, n_classes: int, slim: bool) -> None:
    """Everything that the kernels trust."""
    need(config.loss in ROUTER_LOSSES, f"the loss is {config.loss!r}.")
    need(config.centre in CENTRES, f"centre is {config.centre!r}.")
    need(config.max_depth is None or 0 <= config.max_depth <= DEEPEST, f"max_depth is {config.max_depth}.")
    need(8 <= config.table_bits <= 40, f"table_bits is {config.table_bits}.")
    tree, nodes, table = state["tree"], state["nodes"], state["table"]
    free = _free_nodes(nodes, int(tree.n_nodes[0]))
    check_grown_tree(tree, len(free))
    need((depths(tree)[free] < 0).all(), "a node of the tree is called free.")
    room = len(tree.parent)
    check_bank("router", state["router"], n_features, config.learner.adaptive and not slim)
    for name, size in (("router", len(state["router"].bias)), ("nodes", len(nodes.members))):
        need(size == room, f"{name} has {size} rows for {room} nodes.")
    for name in ("guests", "candidates"):
        need((name in state) == config.guests, f"the group {name!r} and the option guests do not fit each other.")
    if config.guests:
        for name, size in (("guests", len(state["guests"].margin)), ("candidates", len(state["candidates"].size))):
            need(size == room, f"{name} has {size} rows for {room} nodes.")
        check_candidates(state["candidates"], n_classes)
        n, unused = int(tree.n_nodes[0]), state["candidates"]
        blank = not unused.size[n:].any() and not unused.covered[n:].any() and not state["guests"].total[n:].any()
        need(blank and not len(free), "a node that is not in the tree has guests.")
    check_table(table, int(tree.n_identities[0]), n_classes)
    _check_members(tree, nodes, table, config.guests)
    check_scale(state["scale"], n_features)
    check_seen(state["seen"], n_classes)


def _free_nodes(nodes: MlomNodes, n: int) -> np.ndarray:
    """The chain of nodes out of the tree."""
    need_range("nodes.next_free", nodes.next_free, -1, n)
    need_range("nodes.first_free", nodes.first_free, -1, n)
    need_range("nodes.n_free", nodes.n_free, 0, n)
    found: list[int] = []
    at = int(nodes.first_free[0])
    while at >= 0 and len(found) <= int(nodes.n_free[0]):
        found.append(at)
        at = int(nodes.next_free[at])
    need(len(found) == nodes.n_free[0] == len(set(found)), "the chain of free nodes is broken.")
    return np.array(found, np.int64)


def _check_members(tree: GrownTree, nodes: MlomNodes, table: MlomTable, guests: bool) -> None:
    """Ordered sets that are search trees of their node's active classes, as large as they say."""
    inside = np.flatnonzero(depths(tree) >= 0)
    for name, links in (("nodes.members", nodes.members), ("table.left", table.left), ("table.right", table.right)):
        need_range(name, links, -1, len(table.key))
    need_range("table.side", table.side, -1, 2)
    for name in ("mean", "margin", "taught", "mass"):
        need(np.isfinite(getattr(table, name)).all(), f"table.{name} holds a number that is not finite.")
    top = nodes.members[inside].astype(np.int64)
    counts = np.where(top >= 0, table.size[top], 0)
    need(guests or (counts[tree.children[inside, 0] >= 0] >= 2).all(), "an inner node has fewer than two classes.")
    met, owner, place = _walk_members(table, top[top >= 0], tree.identity[inside][top >= 0].astype(np.int64))
    need(len(np.unique(met)) == len(met), "an entry is in two places.")
    alive = np.isin(table.key >> 32, tree.identity[inside]) & (table.key != EMPTY)
    need(np.array_equal(np.sort(met), np.flatnonzero(alive & (table.active != 0))), "table.active is not the members.")
    by_place, by_mean = np.lexsort((place, owner)), np.lexsort((table.key[met], table.mean[met], owner))
    need(np.array_equal(by_place, by_mean), "the members are not in order.")


def _walk_members(table: MlomTable, level: np.ndarray, owner: np.ndarray) -> tuple[np.ndarray, ...]:
    """All members of some sets, level by level: entry, owner, place in the set."""
    start = np.zeros(len(level), np.int64)
    found: list[tuple[np.ndarray, ...]] = []
    n = 0
    while len(level):
        n += len(level)
        need(n <= len(table.key), "an entry is in two places.")  # or the levels would go on doubling
        need(len(found) < 400, "a set of members is too deep.")  # some 5 log2 of its size by chance; the kernels recur
        need((table.key[level] >> 32 == owner).all(), "a member belongs to another node.")
        left, right = (links[level].astype(np.int64) for links in (table.left, table.right))
        before, after = (np.where(links >= 0, table.size[links], 0) for links in (left, right))
        need((table.size[level] == 1 + before + after).all(), "table.size is not that of the sets.")
        found.append((level, owner, start + before))
        below = np.concatenate([left, right])
        start = np.concatenate([start, start + before + 1])[below >= 0]
        owner = np.concatenate([owner, owner])[below >= 0]
        level = below[below >= 0]
    empty = np.empty(0, np.int64)
    return tuple(np.concatenate(parts) for parts in zip(*found, strict=True)) if found else (empty, empty, empty)


def slim(config: Config, state: State, n_classes: int, prune: float = 0.0) -> tuple[Config, State]:
    """What answers need: no sums of squared gradients; with guests, no means of margins either."""
    need_no_pruning(prune)
    out, n = dict(state), n_nodes(state)
    out["router"] = slim_bank(state["router"], n)
    for name in _by_node(state):
        out[name] = cut(state[name], node=n)
    if config.guests:  # leaves answer by what came to them, not by their members
        out["nodes"], out["guests"] = make(MlomNodes, node=n), make(NodeMargins, node=n)
        out["table"] = make(MlomTable, entry=2)
    return config, out


Options = Config


def options_from_file(values: dict) -> dict:
    """The fields of `Options` from the values in a file."""
    return values
