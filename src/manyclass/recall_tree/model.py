"""Recall Tree: state, training, prediction, memory and file checks. The paper's algorithms are in `kernels.py`.

The tree finds candidates without the scorers. So it can learn some rows ahead, on another thread, and hand over lists
of candidates; the model is the same, byte for byte. Only path features make the scorers read the tree: then both learn
row by row.
"""

import math
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..core.explanation import Parts, Step, binary_step, choice_step, softmax_outputs, values_of
from ..core.held import hold
from ..core.inputs import Batch, Dense
from ..core.invariants import (
    check_bank,
    check_candidates,
    check_counts,
    check_learner,
    check_links,
    need,
    need_range,
    need_rows,
)
from ..core.labels import LabelSet, check_table, find, move_table, refill
from ..core.learners import at_epoch
from ..core.linear import bank_bytes, grow_bank, make_bank, slim_bank, weights_of
from ..core.losses import LOSSES, probabilities_batch
from ..core.protocol import Predictions, Scored, rows_of
from ..core.state import Candidates, Counts, LabelTable, Linear, Scale, Seen, State, Tree, copy, cut, make, resize
from ..core.trees import DEEPEST, describe_node
from ..core.updates import SGD, is_adaptive
from ..interrupts import uninterrupted
from . import batches, kernels
from .kernels import BIAS, CROSSED, OFF, PRINTED, SHARES, STOP, Entropies, Fan, Lists, Nodes, Options, Rows, Scratch

NAME = "recall-tree"
GROUPS = {
    "tree": Tree,
    "router": Linear,
    "scorer": Linear,
    "path": Linear,
    "counts": Counts,
    "candidates": Candidates,
    "table": LabelTable,
    "scale": Scale,
    "seen": Seen,
    "entropies": (Entropies, None),
}
MOST_ROWS = 1 << 16  # rows per call: the more rows, the more of them share a node
ROWS_PER_THREAD = 1 << 11

PATH_FEATURES = {"off": OFF, "bias": BIAS, "stop": STOP, "crossed": CROSSED}
RULES = {"corrected": 0, "paper": PRINTED}
MOST_PATHS, MOST_CHILDREN, MOST_CANDIDATES = 1024, 256, 10_000

_FIRST_NODES, _FIRST_CLASSES, _FIRST_ENTRIES = 128, 16, 1024
_AHEAD = 512  # rows that the tree learns ahead of the scorers
_WIDE = 1 << 16  # with more features, a few rows are learned without copying the scales


def init(options: Options, n_features: int, n_classes: int = 0) -> State:
    """A tree that is only a root, with capacity for the classes known in advance."""
    adaptive, bits = is_adaptive(options.update), options.table_bits
    n_slots = kernels.wanted_candidates(1, options)
    printed = {"entropies": make(Entropies, node=_FIRST_NODES)} if options.rules & SHARES else {}
    return {
        "tree": make(Tree, node=_FIRST_NODES, side=options.arity),
        "router": make_bank(_FIRST_NODES, n_features, bits, is_adaptive(options.router_update)),
        "scorer": make_bank(max(_FIRST_CLASSES, n_classes), n_features, bits, adaptive),
        "path": make_bank(2, _path_width(options, n_features), bits, adaptive),
        "counts": make(Counts, node=_FIRST_NODES),
        "candidates": make(Candidates, node=_FIRST_NODES, slot=n_slots),
        "table": make(LabelTable, entry=_FIRST_ENTRIES),
        "scale": make(Scale, feature=n_features),
        "seen": make(Seen),
        **printed,
    }


def n_nodes(state: State) -> int:
    """Number of nodes."""
    return int(state["tree"].n_nodes[0])


def width(options: Options, state: State) -> int:
    """The most labels scored per row."""
    return (options.beam + 1) * state["candidates"].label.shape[1]


def _path_width(options: Options, n_features: int) -> int:
    """Weights of a (node, label) pair besides its bias; without weights, one that is not used."""
    return n_features if options.path_features in (STOP, CROSSED) else 1


def _nodes(options: Options, state: State) -> Nodes:
    groups: dict[str, Any] = {name: state.get(name) for name in Nodes._fields}
    return Nodes(**groups if options.path_features != OFF else {**groups, "path": None})


def _make_scratch(options: Options, state: State, k: int = 0) -> Scratch:
    """Scratch for one row, and for k predicted labels."""
    n_paths = options.beam * options.arity
    n_set = 1 << (2 * (width(options, state) + k)).bit_length()
    return Scratch(
        np.empty(n_paths, np.int64),
        np.empty(n_paths),
        np.empty(n_paths, np.bool_),
        LabelSet(np.empty(n_set, np.int32), np.full(n_set, -1, np.int64)),
        np.zeros(1, np.int64),
        None if options.arity == 2 else Fan(np.empty(options.arity), np.empty(options.arity)),
    )


def _make_lists(options: Options, state: State, n_rows: int = 1, n_labels: int = 0) -> Lists:
    """Lists of the candidates of some rows, with capacity for n_labels more than one row may have."""
    most = width(options, state)
    return Lists(
        np.zeros(1, np.int64),
        np.zeros(n_rows + 1, np.int64),
        np.empty(n_rows, np.int64),
        np.empty(most + n_labels, np.int32),
        np.empty(most + n_labels, np.int32),
        np.empty(most),
        np.empty(most),
    )


# -- training ------------------------------------------------------------------------------------------------------


def learn(options: Options, state: State, batch: Batch, labels, weights, epoch: int = 0, n_jobs: int = 1) -> None:
    """Learn all rows in order and enlarge arrays when a kernel stops for it. Mutates: state."""
    router_rate = max(options.router_rate * options.router_decay**epoch, 1e-30)  # no step must become 0
    options = at_epoch(options, epoch)._replace(router_rate=router_rate)
    rows, n_features = Rows(batch, labels, weights), len(state["scale"].inverse)
    few_wide_rows = n_features > _WIDE and 256 * len(labels) < n_features
    if options.path_features != OFF or few_wide_rows:
        _learn_by_row(options, state, rows)
    elif n_jobs == 1 or len(labels) <= _AHEAD:  # one block leaves nothing for a second thread
        _learn_in_halves(options, state, rows, 1, lambda: None)
    else:
        uninterrupted(lambda check: _learn_in_halves(options, state, rows, n_jobs, check))


def _learn_by_row(options: Options, state: State, rows: Rows) -> None:
    begin = 0
    while True:
        scratch, lists = _make_scratch(options, state), _make_lists(options, state)
        groups = _nodes(options, state), state["scorer"], state["scale"], state["seen"]
        begin = kernels.train_rows(*groups, rows, begin, options, scratch, lists)
        if begin == len(rows.label):
            return
        _grow(options, state, int(rows.label[begin]))


def _learn_in_halves(options: Options, state: State, rows: Rows, n_jobs: int, check: Callable) -> None:
    """The tree's half of a block of rows, then the scorers' half while the tree learns the next block."""
    n_rows, seen = min(_AHEAD, len(rows.label)), state["seen"]
    tree_scale = copy(state["scale"])  # both halves update the scales, each at its own row
    begin, turn = 0, 0
    with _one_behind(n_jobs) as follow:
        while begin < len(rows.label):
            nodes, scorer, scratch = _nodes(options, state), state["scorer"], _make_scratch(options, state)
            n_labels = 3 * n_rows * state["candidates"].label.shape[1]  # a row has the lists of two or three nodes
            lists = [_make_lists(options, state, n_rows, n_labels) for _ in range(min(2, n_jobs))]
            n = -1
            while n and begin < len(rows.label):
                check()
                mine = lists[turn % len(lists)]
                mine.n_rows[0] = 0
                try:
                    n_classes = len(scorer.bias)
                    kernels.train_tree(nodes, tree_scale, seen, rows, begin, n_classes, options, scratch, mine)
                finally:  # an interruption must not leave rows half learned
                    n = int(mine.n_rows[0])
                    if n:
                        half = nodes, scorer, state["scale"], seen, rows, begin, begin + n, options, mine
                        follow(kernels.train_scorers, half)
                begin, turn = begin + n, turn + 1
            follow(None, ())
            if begin < len(rows.label):
                _grow(options, state, int(rows.label[begin]))


@contextmanager
def _one_behind(n_jobs: int) -> Iterator[Callable]:
    """A function that calls another one on a second thread, after the call before it has ended.

    When the block ends, for whatever reason, the last call ends too. Called with None it only waits. With one job it
    calls at once, without a thread.
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


def _grow(options: Options, state: State, label: int) -> None:
    """Enlarge the arrays that are too small for the next example; sizes only depend on the examples before it."""
    n_features, bits, adaptive = len(state["scale"].inverse), options.table_bits, is_adaptive(options.update)
    new = dict(state)
    tree, scorer, table, path = state["tree"], state["scorer"], state["table"], state["path"]
    if label >= len(scorer.bias):
        new["scorer"] = grow_bank(scorer, 1 << label.bit_length(), n_features, bits, adaptive)
    capacity = _doubled(len(tree.parent), int(tree.n_nodes[0]) + _newborn(options))
    if capacity > len(tree.parent):
        for name in ("tree", "counts", "candidates", "entropies"):
            if name in state:
                new[name] = resize(state[name], node=capacity)
        new["router"] = grow_bank(state["router"], capacity, n_features, bits, is_adaptive(options.router_update))
    if 2 * (table.n_entries[0] + DEEPEST + 1) > len(table.key):  # a new label is entered at the root and on each level
        new["table"], _ = move_table(table, 2 * len(table.key))
    n_labels = state["seen"].n_labels[0] + 1
    wanted = kernels.wanted_candidates(n_labels, options)
    if wanted > new["candidates"].label.shape[1]:
        # Copied before they change: an interruption must leave the state consistent.
        new["candidates"] = copy(resize(new["candidates"], slot=wanted))
        new["counts"] = copy(new["counts"])
        refill(new["candidates"], new["table"])
        if options.bernstein >= 0:
            kernels.refresh_bounds(new["counts"], new["candidates"], options)
    if options.path_features != OFF:
        more = kernels.wanted_path_rows(n_labels, new["candidates"], kernels.deepest_level(tree), options)
        n_rows = int(path.n_rows[0] + more)
        if n_rows > len(path.bias):
            width, n_rows = _path_width(options, n_features), max(n_rows, 2 * len(path.bias))
            new["path"] = grow_bank(path, n_rows, width, bits, adaptive)
    state.update(new)  # all at once: kernels rely on arrays of matching sizes


def _newborn(options: Options) -> int:
    """The most nodes that one example can create."""
    return DEEPEST * (1 if options.arity == 2 else options.arity)


def _doubled(size: int, needed: int) -> int:
    """The size, doubled until it is large enough."""
    while size < needed:
        size *= 2
    return size


# -- prediction ----------------------------------------------------------------------------------------------------

# When and how rows are predicted node by node.
_MANY_ROWS = 32
_NODES_PER_ROW = 16
_MANY_NODES = 1 << 13  # routers that do not fit into the processor's cache
_GROUPING_DEPTH = 9  # of a binary tree


def predict(options: Options, state: State, batch: Batch, k: int, n_classes: int) -> Predictions:
    """The k best labels of all rows."""
    n, nodes, scorer = rows_of(batch), _nodes(options, state), state["scorer"]
    out, scratch = Predictions.empty(n, k), _make_scratch(options, state, k)
    if _goes_by_node(options, state, batch):
        visits = batches.make_visits(n, k, options.beam, n_nodes(state), nodes.candidates.label.shape[1])
        level = _grouping_level(options, state, n)
        batches.predict_by_node(nodes, scorer, batch, n_classes, options, scratch, level, visits, out)
    else:
        lists = _make_lists(options, state)
        kernels.predict_batch(nodes, scorer, batch, n_classes, options, scratch, lists, out)
    return out


def predict_one(options: Options, state: State, k: int, n_classes: int) -> Callable[[Batch], Predictions]:
    """A function that predicts single rows without overhead; each call overwrites the result of the last."""
    out, scratch, lists = Predictions.empty(1, k), _make_scratch(options, state, k), _make_lists(options, state)
    held = hold((_nodes(options, state), state["scorer"], n_classes, options, scratch, lists, out))

    def predict_row(batch: Batch) -> Predictions:
        kernels.predict_held(held, batch)
        return out

    return predict_row


def _goes_by_node(options: Options, state: State, batch: Batch) -> bool:
    """Whether to score rows that stop at the same node together: many dense rows, weights not hashed."""
    plain = options.path_features == OFF and state["scorer"].mask[0] == 0
    many = rows_of(batch) >= max(_MANY_ROWS, n_nodes(state) // _NODES_PER_ROW)  # every node is looked at once
    return plain and isinstance(batch, Dense) and many


def _grouping_level(options: Options, state: State, n_rows: int) -> int:
    """The level by which rows are grouped before they are routed; 0: not at all."""
    if n_nodes(state) <= _MANY_NODES or 4 * n_rows < n_nodes(state):
        return 0
    return max(1, int(_GROUPING_DEPTH / math.log2(options.arity)))


def score(options: Options, state: State, batch: Batch) -> Scored:
    """All candidates of all rows with their probabilities."""
    (labels, scores, sizes), _ = _candidates(options, state, batch)
    probabilities_batch(scores, sizes, options.loss)
    used = np.arange(labels.shape[1]) < sizes[:, None]
    return Scored(sizes, labels[used], scores[used])


def _candidates(options: Options, state: State, batch: Batch) -> tuple[tuple[np.ndarray, ...], Lists]:
    """The labels, scores and numbers of the candidates of all rows; the lists of the last row."""
    n, most = rows_of(batch), width(options, state)
    found = np.empty((n, most), np.int32), np.empty((n, most)), np.empty(n, np.int64)
    scratch, lists = _make_scratch(options, state), _make_lists(options, state)
    kernels.candidates_batch(_nodes(options, state), state["scorer"], batch, options, scratch, lists, found)
    return found, lists


def paths(options: Options, state: State, batch: Batch) -> list[np.ndarray]:
    """The nodes that each row passes on all its paths."""
    longest = kernels.deepest_level(state["tree"]) + 1
    nodes = np.full((rows_of(batch), longest * options.beam), -1, np.int32)
    kernels.paths_batch(_nodes(options, state), batch, options, _make_scratch(options, state), nodes)
    return [np.unique(row[row >= 0]) for row in nodes]


def explain(options: Options, state: State, batch: Batch, labels: list[int]) -> list[Parts]:
    """The scores of some labels for a single row, in parts; the path features of each node are a term."""
    ((found, _, sizes), lists), row = _candidates(options, state, batch), values_of(batch)
    home = dict(zip(found[0, : sizes[0]].tolist(), lists.home[: sizes[0]].tolist(), strict=True))
    return [_parts_of(options, state, row, label, home.get(label)) for label in labels]


def _parts_of(options: Options, state: State, row: tuple, label: int, home: int | None) -> Parts:
    """The score of a label that was found at the node `home`; None: it was not a candidate."""
    feature, value = row
    scorer, tree = state["scorer"], state["tree"]
    if label >= len(scorer.bias):
        return Parts(feature, np.zeros(len(value)), {"no training row": -math.inf}, list)
    terms, above = {"bias": float(scorer.bias[label])}, []
    node = -1 if home is None else home
    while node > 0:
        if options.path_features != OFF and (options.path_features != STOP or node == home):
            terms |= _path_term(options, state, row, label, node)
        above.append((int(tree.parent[node]), node))
        node = above[-1][0]

    def steps() -> list[Step]:
        return [_step(options, state, row, *pair) for pair in reversed(above)]

    return Parts(feature, value * weights_of(scorer, label, feature), terms, steps)


def _path_term(options: Options, state: State, row: tuple, label: int, node: int) -> dict[str, float]:
    """What the path features of one node add to the score of a label."""
    table, path, (feature, value) = state["table"], state["path"], row
    number = int(table.path_row[find(table, node, label)])
    if number < 0:
        return {}
    linear = 0.0 if options.path_features == BIAS else float(value @ weights_of(path, number, feature))
    return {f"path feature of node {node}": float(path.bias[number]) + linear}


def _step(options: Options, state: State, row: tuple, node: int, child: int) -> Step:
    """The decision of a node for one of its children."""
    router, children, (feature, value) = state["router"], state["tree"].children[node], row
    if options.arity == 2:
        return binary_step(node, children, child, float(router.bias[node]), value * weights_of(router, node, feature))
    weights = np.stack([weights_of(router, int(one), feature) for one in children], axis=1)
    outputs = softmax_outputs(router.bias[children].astype(np.float64), weights, value)
    return choice_step(node, child, int(np.flatnonzero(children == child)[0]), outputs, value)


def tree_table(state: State, max_depth: int | None = None) -> list[dict]:
    """The nodes down to a depth, parents before children, with their heaviest labels."""
    depth, nodes = state["tree"].depth, range(n_nodes(state))
    return [describe_node(state, node) for node in nodes if max_depth is None or depth[node] <= max_depth]


# -- memory --------------------------------------------------------------------------------------------------------


# Measured on data with 1,000 to 100,000 classes and 5 to 1,000 rows per class.
_SPREAD = 0.6  # on each level, the r rows of a class are at about r ** _SPREAD nodes
_ROWS_PER_NODE = 12  # with the recall bound, a node is created for about so many rows


def memory(options: Options, n_features: int, n_classes: int, n_rows: int | None = None, n_epochs: int = 1) -> int:
    """Approximate bytes of a trained model, by default with 20 rows per class; further epochs add little."""
    n_rows = 20 * n_classes if n_rows is None else n_rows
    n_slots = int(kernels.wanted_candidates(n_classes, options))
    depth = int(kernels.depth_limit(n_classes, n_slots, options))
    nodes_at = [float(options.arity) ** level for level in range(depth + 1)]
    most = min(sum(nodes_at), 4.0 * n_classes, n_rows / _ROWS_PER_NODE if options.bernstein >= 0 else math.inf)
    n_nodes = _doubled(_FIRST_NODES, int(most) + _newborn(options))
    n_seen = n_classes * -math.expm1(-n_rows / n_classes)
    spread = (n_rows / n_seen) ** _SPREAD
    if options.bernstein >= 0:  # rows stop at about the depth that several paths would have
        depth = int(kernels.depth_limit(n_classes, n_slots, options._replace(beam=2)))
    entries_at = [n_seen * min(n, spread) for n in nodes_at[: depth + 1]]
    n_entries = int(sum(entries_at))
    adaptive, bits = is_adaptive(options.update), options.table_bits
    total = bank_bytes(n_nodes, n_features, bits, options.router_update != SGD)
    total += bank_bytes(max(_FIRST_CLASSES, n_classes), n_features, bits, adaptive)
    if options.path_features != OFF:
        n_pairs = int(entries_at[-1] if options.path_features == STOP else n_entries)
        total += bank_bytes(n_pairs, _path_width(options, n_features), bits, adaptive)
    total += n_nodes * (8 + 4 * options.arity + 16 + 12 + 12 * n_slots) + 4 * n_features
    return total + 20 * _doubled(_FIRST_ENTRIES, 2 * (n_entries + DEEPEST))


# -- files ---------------------------------------------------------------------------------------------------------


def options_from_file(values: dict) -> dict:
    """The fields of `Options`; files of format 1 and 2 have words, learners and None instead of numbers."""
    values = {"rules": RULES["corrected"], **values}  # older files lack it
    if "learner" not in values:
        return values
    start = values.get("start", 0.0)
    need(start == 0, f"the model was trained with start={start!r}, an option that was removed: train the model again.")
    for name, words in (("loss", LOSSES), ("path_features", PATH_FEATURES)):
        need(isinstance(values[name], str) and values[name] in words, f"{name} is {values[name]!r}.")
    learner, router_learner, bernstein = values["learner"], values["router_learner"], values["bernstein"]
    return {
        "n_candidates": -1 if values["n_candidates"] is None else values["n_candidates"],
        "max_depth": -1 if values["max_depth"] is None else values["max_depth"],
        "arity": values.get("arity", 2),
        "bernstein": -1.0 if bernstein is None else bernstein,
        "path_features": PATH_FEATURES[values["path_features"]],
        "beam": values["beam"],
        "loss": LOSSES[values["loss"]],
        **learner.as_options(),
        **{f"router_{name}": value for name, value in router_learner.as_options().items()},
        "table_bits": values["table_bits"],
        "rules": values["rules"],
    }


def arrays_from_file(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays of this version; files of format 1 and 2 may have the unused group `means`."""
    return {name: array for name, array in arrays.items() if not name.startswith("means.")}


def check(options: Options, state: State, n_features: int, n_classes: int, slim: bool) -> None:
    """ModelFormatError unless the kernels may run on the state."""
    need(options.loss in LOSSES.values(), f"the loss is {options.loss!r}.")
    need(options.path_features in PATH_FEATURES.values(), f"path_features is {options.path_features!r}.")
    need(-1 <= options.max_depth <= DEEPEST, f"max_depth is {options.max_depth}.")
    need(2 <= options.arity <= MOST_CHILDREN, f"arity is {options.arity}.")
    need(1 <= options.beam <= MOST_PATHS, f"beam is {options.beam}.")
    need(options.n_candidates == -1 or options.n_candidates > 0, f"n_candidates is {options.n_candidates}.")
    check_learner(options)
    check_learner(options._replace(update=options.router_update, rate=options.router_rate, decay=options.router_decay))
    need(0 <= options.rules <= PRINTED, f"rules is {options.rules}.")
    has_entropies = bool(options.rules & SHARES) and not slim
    need(("entropies" in state) == has_entropies, "the group entropies does not fit the option rules.")
    check_tree(state["tree"], options.arity)
    n, capacity = n_nodes(state), len(state["tree"].parent)
    counts, candidates, table, path = (state[name] for name in ("counts", "candidates", "table", "path"))
    squares = options.update != SGD and not slim
    check_bank("router", state["router"], n_features, options.router_update != SGD and not slim)
    check_bank("scorer", state["scorer"], n_features, squares)
    check_bank("path", path, _path_width(options, n_features), squares)
    need_rows(capacity, router=state["router"].bias, counts=counts.total, candidates=candidates.size)
    if has_entropies:
        need_rows(capacity, entropies=state["entropies"].mass_entropy)
    n_known = min(n_classes, len(state["scorer"].bias))
    check_candidates(candidates, n_known, MOST_CANDIDATES)
    need(options.n_candidates <= candidates.label.shape[1], f"n_candidates is {options.n_candidates}.")
    need((counts.total >= 0).all(), "counts.total has a number below 0.")
    check_table(table, n, n_known)
    need_range("table.path_row", table.path_row, -1, int(path.n_rows[0]))
    check_counts(state, n_features, n_classes)


def check_tree(tree: Tree, arity: int = 2) -> None:
    """One tree, whose root is node 0; more than two children of a node are created together, side by side."""
    n = int(tree.n_nodes[0])
    need(1 <= n <= len(tree.parent), f"tree.n_nodes is {n}, with capacity for {len(tree.parent)}.")
    need(tree.children.shape[1] == arity, f"tree.children has {tree.children.shape[1]} sides.")
    need((tree.children[n:] == -1).all(), "a node that does not exist has children.")
    need(tree.parent[0] < 0 and (tree.parent[1:n] >= 0).all(), "node 0 is not the only root.")
    check_links(tree, n)
    if arity > 2:
        used = tree.children[:n] >= 0
        inner = tree.children[:n][used[:, 0]]
        need((used.all(axis=1) | ~used.any(axis=1)).all(), "a node lacks some of its children.")
        need((inner == inner[:, :1] + np.arange(arity)).all(), "the children of a node are not side by side.")


def slim(options: Options, state: State, n_classes: int) -> tuple[Options, State]:
    """What predictions need: no squared gradients; no mass of labels unless path features look it up."""
    out, n = dict(state), n_nodes(state)
    for name, n_rows in (("router", n), ("scorer", n_classes), ("path", int(state["path"].n_rows[0]))):
        out[name] = slim_bank(state[name], max(1, n_rows))
    for name in ("tree", "counts", "candidates"):
        out[name] = cut(state[name], node=n)
    out["candidates"] = out["candidates"]._replace(mass=np.zeros_like(out["candidates"].mass))
    out.pop("entropies", None)
    if options.path_features == OFF:
        out["table"] = make(LabelTable, entry=2)
    return options, out
