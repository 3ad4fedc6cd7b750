"""MLOM tree: state, training, prediction, files. The rules of the paper are in `kernels.py`."""

import math
from typing import get_type_hints

import numpy as np

from ..core import online_trees as online
from ..core.explanation import Parts
from ..core.inputs import Batch
from ..core.invariants import check_candidates, need, need_range
from ..core.labels import EMPTY
from ..core.learners import at_epoch
from ..core.linear import slim_bank
from ..core.protocol import Predictions, Scored, rows_of
from ..core.state import Candidates, State, cut, make
from ..core.trees import paths_to
from ..jit import python_of
from . import kernels
from .kernels import AUTO, MEAN, MEDIAN, Guests, MlomNodes, MlomTable, Model, Options
from .ordered_set import rank_of

NAME = "mlom-tree"
GROUPS = {**get_type_hints(Model), "guests": (online.NodeMargins, None), "candidates": (Candidates, None)}
CENTRES = {"auto": AUTO, "median": MEDIAN, "mean": MEAN}

n_nodes = online.n_nodes


def init(options: Options, n_features: int, n_classes: int = 0) -> State:
    """A tree that is only a root."""
    state = online.first_state(options, n_features, MlomNodes, MlomTable)
    if options.guests:
        state["guests"] = make(online.NodeMargins, node=online.FIRST_NODES)
        state["candidates"] = make(Candidates, node=online.FIRST_NODES, slot=online.SLOTS)
    return state


def _model(state: State) -> Model:
    return Model(*(state[name] for name in Model._fields))


def learn(options: Options, state: State, batch: Batch, labels, weights, epoch: int = 0, n_jobs: int = 1) -> None:
    """Learn all rows in turn; arrays grow when the kernel stops. Mutates: state."""
    options, begin = at_epoch(options, epoch), 0
    while True:
        guests = Guests(state["guests"], state["candidates"]) if options.guests else None
        begin = kernels.learn_batch(_model(state), guests, batch, labels, weights, begin, options)
        if begin == len(labels):
            return
        new, place = online.grown(state, kernels.NEW_NODES, kernels.NEW_ENTRIES, options)
        if place is not None:
            nodes = {**state, **new}["nodes"]
            new["nodes"] = nodes._replace(members=place[nodes.members].astype(nodes.members.dtype))
            for links in (new["table"].left, new["table"].right):
                links[:] = place[links]
        state.update(new)


def predict(options: Options, state: State, batch: Batch, k: int, n_classes: int) -> Predictions:
    """The k best labels of all rows; without guests only the first has a score."""
    if options.guests:
        return online.predict(options, state, batch, k, n_classes)
    found = Predictions.empty(rows_of(batch), k)
    kernels.predict_classes(_model(state), batch, n_classes, found)
    return found


def score(options: Options, state: State, batch: Batch) -> Scored:
    """The class of each row's leaf, or with guests the labels of the leaf with their shares."""
    return online.scored(predict(options, state, batch, width(options, state), 0))


def paths(options: Options, state: State, batch: Batch) -> list[np.ndarray]:
    """The nodes that each row passes."""
    if options.guests:
        return online.paths(options, state, batch)
    leaves = np.empty(rows_of(batch), np.int64)
    kernels.find_class_leaves(_model(state), batch, leaves)
    return paths_to(state["tree"].parent, leaves[:, None])


def explain(options: Options, state: State, batch: Batch, labels: list[int]) -> list[Parts]:
    """The scores of some labels for a single row: only the leaf counts, the features decide the path to it."""
    if options.guests:
        return online.explain(options, state, batch, labels)
    best = predict(options, state, batch, 1, 0)
    scores = {int(best.labels[0, 0]): float(best.scores[0, 0])}
    return online.parts_of_leaf(state, batch, paths(options, state, batch)[0], scores, labels)


def memory(options: Options, n_features: int, n_classes: int, n_rows: int | None = None, n_epochs: int = 20) -> int:
    """Approximate bytes of a trained model; by default of one that has learned 100 rows per class."""
    depth = max(1.0, math.log2(n_classes))
    if not options.guests:
        return online.bytes_of(online.Size(1.1 * n_classes, 7.0 * n_classes * depth), n_features, 32, 54, options)
    splits, entries = online.expected_size(options, n_classes, n_rows, n_epochs)  # besides the splits for classes
    size = online.Size(splits + n_classes, entries + 7.0 * n_classes * depth)
    return online.bytes_of(size, n_features, 32 + 32 + 12 + 12 * online.SLOTS, 54, options)


def width(options: Options, state: State) -> int:
    """The most labels scored per row."""
    return online.SLOTS if options.guests else 1


def tree_table(state: State, max_depth: int | None = None) -> list[dict]:
    """The nodes down to a depth, parents before children, with the classes that belong to them now, without guests."""
    return online.tabulate(state["tree"], state["table"], max_depth, state["table"].active != 0)


# -- files ---------------------------------------------------------------------------------------------------------


def options_from_file(values: dict) -> dict:
    """The fields of `Options` from the values in a file. The first files of manyclass 0.1 have no guests."""
    if "learner" not in values:
        return values
    values = {"guests": False, "split_mass": 10.0, "nodes_per_class": 32.0, **values}
    return online.options_from_words(values, loss=online.ROUTER_LOSSES, centre=CENTRES)


def check(options: Options, state: State, n_features: int, n_classes: int, slim: bool) -> None:
    """ModelFormatError unless the kernels may run on the state."""
    need(options.centre in CENTRES.values(), f"centre is {options.centre}.")
    for name in ("guests", "candidates"):
        need((name in state) == options.guests, f"the group {name!r} and the option guests contradict each other.")
    online.check_common(options, state, n_features, n_classes, slim)
    tree, nodes = state["tree"], state["nodes"]
    free = _free_nodes(nodes, len(tree.parent), int(tree.n_nodes[0]))
    online.check_tree(tree, len(free))
    need((online.depths(tree)[free] < 0).all(), "a node of the tree is in the list of free nodes.")
    if options.guests:
        candidates, n = state["candidates"], int(tree.n_nodes[0])
        check_candidates(candidates, n_classes, online.SLOTS)
        unused = (candidates.size[n:], candidates.covered[n:], state["guests"].total[n:])
        need(not len(free) and not any(array.any() for array in unused), "a node that is not in the tree has guests.")
    _check_members(tree, nodes, state["table"], options.guests)


def _free_nodes(nodes: MlomNodes, capacity: int, n: int) -> np.ndarray:
    """The linked list of nodes that are not in the tree, of which there are n with them."""
    need(0 <= n <= capacity, f"tree.n_nodes is {n}, but the arrays have {capacity} nodes.")
    need_range("nodes.next_free", nodes.next_free, -1, n)
    need_range("nodes.first_free", nodes.first_free, -1, n)
    need_range("nodes.n_free", nodes.n_free, 0, n + 1)
    found: list[int] = []
    at = int(nodes.first_free[0])
    while at >= 0 and len(found) <= int(nodes.n_free[0]):
        found.append(at)
        at = int(nodes.next_free[at])
    need(len(found) == nodes.n_free[0] == len(set(found)), "the list of free nodes is broken.")
    return np.array(found, np.int64)


def _check_members(tree: online.GrownTree, nodes: MlomNodes, table: MlomTable, guests: bool) -> None:
    """The ordered sets are search trees of the active classes of their nodes, and their sizes are right."""
    inside = np.flatnonzero(online.depths(tree) >= 0)
    for name, links in (("nodes.members", nodes.members), ("table.left", table.left), ("table.right", table.right)):
        need_range(name, links, -1, len(table.key))
    need_range("table.side", table.side, -1, 2)
    unused = table.key == EMPTY
    need(not table.active[unused].any() and (table.side[unused] < 0).all(), "an entry without a key is active.")
    for name in ("mean", "margin", "margin_mass", "mass"):
        need(np.isfinite(getattr(table, name)).all(), f"table.{name} contains a number that is not finite.")
    top = nodes.members[inside].astype(np.int64)
    counts = np.where(top >= 0, table.size[top], 0)
    need(guests or (counts[tree.children[inside, 0] >= 0] >= 2).all(), "an inner node has fewer than two classes.")
    entry, owner, place = _walk_members(table, top[top >= 0], tree.identity[inside][top >= 0].astype(np.int64))
    need(len(np.unique(entry)) == len(entry), "an entry is in two places.")
    alive = np.isin(table.key >> 32, tree.identity[inside]) & (table.key != EMPTY)
    active = np.flatnonzero(alive & (table.active != 0))
    need(np.array_equal(np.sort(entry), active), "table.active does not match the members.")
    by_place, by_mean = np.lexsort((place, owner)), np.lexsort((table.key[entry], table.mean[entry], owner))
    need(np.array_equal(by_place, by_mean), "the members are not in order.")


def _walk_members(table: MlomTable, level: np.ndarray, owner: np.ndarray) -> tuple[np.ndarray, ...]:
    """All members of some sets, level by level: entry, owner, position in the set."""
    start = np.zeros(len(level), np.int64)
    empty = np.empty(0, np.int64)
    found: list[tuple[np.ndarray, ...]] = [(empty, empty, empty)]
    n = 0
    while len(level):
        n += len(level)
        need(n <= len(table.key), "an entry is in two places.")  # a cycle would double the level for ever
        need(len(found) <= 400, "a set of members is too deep.")  # about 5 log2 of its size by chance
        need((table.key[level] >> 32 == owner).all(), "a member belongs to another node.")
        left, right = (links[level].astype(np.int64) for links in (table.left, table.right))
        before, after = (np.where(links >= 0, table.size[links], 0) for links in (left, right))
        need((table.size[level] == 1 + before + after).all(), "table.size does not match the sets.")
        for links in (left, right):  # a heap: the members alone decide the shape, so that it cannot become deep
            below = links >= 0
            ordered = python_of(rank_of)(table, level[below]) >= python_of(rank_of)(table, links[below])
            need(ordered.all(), "a set of members is not a heap.")
        found.append((level, owner, start + before))
        below = np.concatenate([left, right])
        start = np.concatenate([start, start + before + 1])[below >= 0]
        owner = np.concatenate([owner, owner])[below >= 0]
        level = below[below >= 0]
    return tuple(np.concatenate(parts) for parts in zip(*found, strict=True))


def slim(options: Options, state: State, n_classes: int) -> tuple[Options, State]:
    """What predictions need: no sums of squared gradients; with guests, no means of margins either."""
    n = n_nodes(state)
    out = {**state, "router": slim_bank(state["router"], n), "tree": cut(state["tree"], node=n)}
    if not options.guests:
        return options, {**out, "nodes": cut(state["nodes"], node=n)}
    out |= {"candidates": cut(state["candidates"], node=n), "table": make(MlomTable, entry=2)}
    return options, {**out, "nodes": make(MlomNodes, node=n), "guests": make(online.NodeMargins, node=n)}
