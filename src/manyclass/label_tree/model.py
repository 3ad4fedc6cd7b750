"""Label tree: online learning, prediction, memory and model files. The rules are in `kernels.py`."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..core.columns import dense, used_in
from ..core.inputs import Batch, Csr, rows_from
from ..core.invariants import check_counts, need, need_range
from ..core.losses import LOSSES, SOFTMAX, probabilities_batch
from ..core.memory import is_mapped
from ..core.precision import LARGEST_STEP, RUN
from ..core.protocol import Predictions, Scored, as_labels, rows_of
from ..core.state import Scale, Seen, State, copy, cut, make, resize
from ..core.steps import Here
from ..core.trees import paths_to
from .explain import explain  # noqa: F401  (one of the model's functions)
from .fit import Sizes, empty_blocks, fit_parts, suffix_of, trees_of
from .growth import MAX_LEVELS
from .kernels import (
    BLOCK_ROWS,
    Found,
    LabelTree,
    Options,
    Rows,
    Run,
    Stream,
    first_bias,
    learn_batch,
    merge_batch,
    predict_batch,
    start_of,
)
from .memory import (
    Problem,
    Size,
    limits,
    memory,  # noqa: F401  (one of the model's functions)
)
from .neighbors import BEST, Neighbors, check_neighbors, mapped_rows, rank_again, with_rows
from .parts import Given
from .weights import (
    EVERY,
    LANES,
    PAGE_BITS,
    SIZES,
    SMALLEST_STEP,
    SMALLEST_TABLE,
    STEPS,
    Blocks,
    PackedBlocks,
    begins_of,
    counts_of,
    enter_nodes,
    features_of,
    first_broken,
    first_unsorted,
    in_pages,
    in_steps,
    lengths_of,
    n_features_of,
    node_span,
    packed,
    pages_for,
    rebuild_tables,
    table_size,
    weights_of,
)

NAME = "label-tree"
PRUNES = True
_TREE = {"tree": LabelTree, "blocks": (Blocks, PackedBlocks)}
GROUPS = {
    **_TREE,
    **{f"{name}_*": kinds for name, kinds in _TREE.items()},
    "neighbors": (Neighbors, None),
    "scale": Scale,
    "seen": Seen,
    "run": Run,
}
MOST_PATHS = 256
MOST_ROWS = BLOCK_ROWS
MOST_OUTPUTS = 4096  # per node; `fit` has at most 64, the bits of its pairs
_FIRST = {"node": 16, "entry": 1 << 12, "record": 1 << 11}  # capacities
_FIRST_CLASSES = 16
_SCORES = 1 << 22  # of several trees that are computed at a time
_N_NAMED = 3  # labels in the name of a group


def init(options: Options, n_features: int, n_classes: int = 0) -> State:
    """A tree that is a root without labels."""
    state = {
        "tree": make(LabelTree, node=_FIRST["node"], output=options.arity, **{"class": max(_FIRST_CLASSES, n_classes)}),
        "blocks": empty_blocks(options, _FIRST["node"], _FIRST["entry"], _FIRST["record"]),
        "scale": make(Scale, feature=n_features),
        "seen": make(Seen),
        "run": make(Run),
    }
    state["blocks"].bias[0] = first_bias(options, True)
    return state


def starts_of(options: Options, tree: LabelTree) -> np.ndarray:
    """Weight of the running sums at each node."""
    return np.where(tree.is_leaf != 0, options.start, options.router_start)


def table_of(blocks: Blocks, node: int) -> tuple[np.ndarray, np.ndarray]:
    """The features of a node and their records."""
    table = slice(int(blocks.first[node]), int(blocks.first[node] + blocks.mask[node] + 1))
    used = blocks.feature[table] >= 0
    return blocks.feature[table][used], blocks.record[table][used]


# -- learning all rows at once --------------------------------------------------------------------------------------


class Asked(NamedTuple):
    """Arguments of a single `fit`."""

    above: sp.csr_array | None = None  # nodes of a taxonomy that contain each label
    max_memory: int | None = None  # limit of the process in bytes
    threshold: bool = False  # a threshold is learned afterwards


def fit(
    options: Options,
    state: State,
    X: Any,
    batch: Batch,
    labels: Any,
    weights: np.ndarray,
    n_jobs: int,
    report: Callable,
    asked: Asked = Asked(),
) -> Options:
    """Build the tree from all rows, then train every node on its rows. Mutates: state.

    `X` and `batch` are the same rows. Returns the options with the calibrated start.
    """
    rows, sparse = Given(batch, as_labels(labels), weights), isinstance(batch, Csr)
    sizes = Sizes(X.shape[1], len(state["tree"].leaf_of), sparse, asked.above)
    n_rows = max(1, len(weights))
    size = Size(n_rows, batch[-1].size / n_rows, len(rows.labels.label) / n_rows)
    n_used = X.shape[1]
    if sparse and asked.max_memory:
        n_used = max(1, int(np.count_nonzero(used_in(batch, n_used))))
    row_bytes = sum(array.nbytes for array in batch if not is_mapped(array))
    problem = Problem(*sizes[:2], size, sparse, n_used, row_bytes, asked.threshold)
    allowed = limits(options, problem, n_jobs, asked.max_memory)
    options, new = fit_parts(Here(*allowed), options, [rows], sizes, report)
    state.clear()
    state.update(new)
    return options


# -- online learning -----------------------------------------------------------------------------------------------


def learn(
    options: Options, state: State, batch: Batch, labels: Any, weights: np.ndarray, epoch: int = 0, n_jobs: int = 1
) -> None:
    """Learn all rows in order, with longer arrays whenever the kernel requires them. Mutates: state."""
    labels, rows = as_labels(labels), Rows(batch, np.empty(len(weights), np.float32), weights)
    if "neighbors" in state:
        learned, values = weights > 0, dense(batch, state["neighbors"].row.shape[1]).values
        state["neighbors"] = with_rows(state["neighbors"], values[learned], labels.label[learned])
    several = len(trees_of(state)) > 1
    before = {name: copy(state[name]) if several else state[name] for name in ("scale", "seen", "run")}
    for number, (tree, blocks) in enumerate(trees_of(state)):
        old = isinstance(blocks, Blocks) and state["seen"].mass[0] == 0.0 and (blocks.sq_norm < 0).any()
        if old:  # a file of an earlier version: the start is part of the weights, and the sums are still there
            blocks = pack(tree, blocks, starts_of(options, tree), 0.0)
        if isinstance(blocks, PackedBlocks):
            state[f"blocks{suffix_of(number)}"] = unpack(options, tree, blocks)
    for number, (tree, blocks) in enumerate(trees_of(state)):
        # What is counted over rows is counted once: further trees count in copies.
        groups = {name: copy(group) if number else state[name] for name, group in before.items()}
        stream = Stream(**groups, replay="replay" in state)
        begin = 0
        while begin < len(weights):
            begin = learn_batch(tree, blocks, stream, rows, labels, begin, options)
            if begin < len(weights):
                own = labels.label[labels.pointer[begin] : labels.pointer[begin + 1]]
                _enlarge(state, suffix_of(number), int(own.max(initial=0)))
                tree, blocks = trees_of(state)[number]


def unpack(options: Options, tree: LabelTree, blocks: PackedBlocks) -> Blocks:
    """Convert packed weights to tables that online learning can change, with running sums; scores stay the same.

    The sums of the rows in `fit` were not kept. The weights of a label are its mean row and corrections, so its sum is
    estimated as its weights, scaled to the number of its rows; the sum of a child is that of its labels.
    """
    counts, features = counts_of(blocks), features_of(blocks, np.arange(len(blocks.bias)))
    n_entries = sum(int(table_size(count)) for count in counts[counts > 0])
    # Full arrays would be doubled at the first new feature; a table that grows takes a new place.
    n_entries, n_records = max(_FIRST["entry"], 2 * n_entries), max(_FIRST["record"], len(features) * 9 // 8)
    out = empty_blocks(options, len(blocks.bias), n_entries, n_records)
    out.bias[:] = blocks.bias
    nodes = np.flatnonzero(counts)
    enter_nodes(out, nodes, counts[nodes], features)
    for node in range(int(tree.n_nodes[0]) - 1, -1, -1):  # children before their parents
        own, size = slice(*node_span(blocks, node)), tree.size[node]
        weight, total = weights_of(blocks, node), out.total[own]
        if tree.is_leaf[node]:
            total[:] = weight
            lengths = np.linalg.norm(total[:, :size], axis=0)
            mass = tree.mass[tree.outputs[node, :size]]  # places beyond may hold anything
            total[:, :size] *= np.divide(mass, lengths, out=np.zeros(size), where=lengths > 0)
        else:
            for place, child in enumerate(tree.outputs[node, :size]):
                below = slice(*node_span(blocks, child))
                _, at, of = np.intersect1d(features[own], features[below], True, return_indices=True)
                total[at, place] = out.total[below][of].sum(axis=1)
        out.sq_norm[node] = np.einsum("fc,fc->c", total, total, dtype=float)
        out.weight[own] = weight - total * lengths_of(out, node, start_of(options, tree.is_leaf[node]))
    return out


def _enlarge(state: State, suffix: str, label: int) -> None:
    """Double the arrays that are at least half full, so that the next row fits."""
    tree, blocks = state[f"tree{suffix}"], state[f"blocks{suffix}"]
    if label >= len(tree.leaf_of):
        state[f"tree{suffix}"] = resize(tree, **{"class": 1 << label.bit_length()})
        return
    n_levels, node = 1, 0
    while not tree.is_leaf[node]:  # all leaves are equally deep
        n_levels, node = n_levels + 1, tree.outputs[node, 0]
    if n_levels > MAX_LEVELS:
        raise ValueError(f"The label tree has {MAX_LEVELS} levels and cannot grow further: fit a new one.")
    sizes = {"node": len(tree.parent), "entry": len(blocks.feature), "record": len(blocks.weight)}
    used = {"node": tree.n_nodes[0], "entry": blocks.n_entries[0], "record": blocks.n_records[0]}
    fullest = max(sizes, key=lambda name: used[name] / max(sizes[name], 1))
    grown = {
        name: max(2 * size, _FIRST[name])
        for name, size in sizes.items()
        if name == fullest or 2 * used[name] >= size or not used[name]  # the first row may be longer than the capacity
    }
    tree, blocks = resize(tree, node=grown.get("node", 0)), resize(blocks, **grown)
    state.update({f"tree{suffix}": tree, f"blocks{suffix}": blocks})  # at once: kernels trust that their sizes agree


# -- prediction ----------------------------------------------------------------------------------------------------


def search(options: Options, state: State, batch: Batch, k: int) -> Predictions:
    """The k best labels: with several trees, those of the highest mean probability. -1 if fewer were reached."""
    n, trees = rows_of(batch), trees_of(state)
    out = Found.empty(n, n_labels=max(k, BEST) if "neighbors" in state else k)
    if len(trees) == 1:
        predict_batch(*trees[0], state["scale"], batch, options, out, True)
        if "neighbors" in state:
            rank_again(state["neighbors"], mapped_rows(state["neighbors"], batch), out.labels, out.scores, out.work)
        return Predictions(out.labels[:, :k], out.scores[:, :k], out.work)
    at_a_time = max(1, _SCORES // width(options, state))
    for first in range(0, n, at_a_time):
        own = slice(first, min(n, first + at_a_time))
        shape = len(trees), own.stop - first, _most_labels(options, state)
        labels, scores = np.empty(shape, np.int32), np.empty(shape)
        for number, tree in enumerate(trees):
            found = Found(out.leaves[own], labels[number], scores[number], out.work[own])
            predict_batch(*tree, state["scale"], rows_from(batch, own.start, own.stop), options, found, False)
        merge_batch(labels, scores, not options.multilabel, out.labels[own], out.scores[own])
    out.work[:, 0] //= len(trees)  # depth is not a sum
    return Predictions(out.labels, out.scores, out.work)


def predict(options: Options, state: State, batch: Batch, k: int, n_classes: int) -> Predictions:
    """The k best labels of all rows; if fewer were reached, some others with score -inf."""
    found = search(options, state, batch, k)
    for r in np.flatnonzero(found.labels[:, -1] < 0):
        known = found.labels[r][found.labels[r] >= 0]
        missing = k - len(known)
        fill = np.arange(min(n_classes, k + missing), dtype=np.int32)
        found.labels[r, len(known) :] = fill[~np.isin(fill, known)][:missing]
    return found


def score(options: Options, state: State, batch: Batch) -> Scored:
    """All labels reached by all rows with their probabilities."""
    found = search(options, state, batch, width(options, state))
    reached = found.labels >= 0
    sizes = reached.sum(axis=1)
    if options.multilabel or len(trees_of(state)) > 1:  # logarithms of probabilities
        np.exp(found.scores, out=found.scores)
    else:
        probabilities_batch(found.scores, sizes, SOFTMAX)
    return Scored(sizes, found.labels[reached], found.scores[reached])


def paths(options: Options, state: State, batch: Batch) -> list[np.ndarray]:
    """The nodes above and at the leaves that each row reaches."""
    found = Found.empty(rows_of(batch), n_leaves=options.beam)
    predict_batch(*trees_of(state)[0], state["scale"], batch, options, found, True)
    return paths_to(state["tree"].parent, found.leaves)


def n_nodes(state: State) -> int:
    """Number of nodes of the first tree."""
    return int(state["tree"].n_nodes[0])


def tree_table(state: State, max_depth: int | None = None) -> list[dict]:
    """The nodes of the first tree down to a depth, parents before children, with the labels of leaves."""
    tree = state["tree"]
    table: list[dict] = []
    level, depth = [0], 0
    while level and (max_depth is None or depth <= max_depth):
        below: list[int] = []
        for node in level:
            outputs = tree.outputs[node, : tree.size[node]]
            leaf = bool(tree.is_leaf[node])
            labels = outputs if leaf else outputs[:0]
            table.append({"node": node, "parent": int(tree.parent[node]), "depth": depth, "labels": labels})
            below += [] if leaf else outputs.tolist()
        level, depth = below, depth + 1
    return table


def grouped_labels(
    state: State, labels: np.ndarray, target: np.ndarray | None
) -> tuple[np.ndarray, list[str], list[str]]:
    """(parents, keys, names) of the first tree as a taxonomy: its nodes are groups, then a node for each label.

    Groups are named by their most frequent labels that remain: `target` has the class that each class stands for, -1 if
    it was removed.
    """
    tree = state["tree"]
    n, texts = int(tree.n_nodes[0]), [str(label) for label in labels.tolist()]
    n_known = min(len(texts), len(tree.leaf_of))  # labels without rows may have no place yet
    known = np.flatnonzero((tree.leaf_of[:n_known] >= 0) & (np.array(texts[:n_known], object) != ""))  # "" is the root
    named: list[list[str]] = [[] for _ in range(n)]
    by_mass = known[np.argsort(-tree.mass[known], kind="stable")]
    for label in (by_mass if target is None else by_mass[target[by_mass] == by_mass]).tolist():
        node = int(tree.leaf_of[label])
        while node > 0 and len(named[node]) <= _N_NAMED:  # a group above has as many already
            named[node].append(texts[label])
            node = int(tree.parent[node])
    groups = [", ".join(some[:_N_NAMED]) + (", ..." if len(some) > _N_NAMED else "") for some in named[1:]]
    mark = "group"
    while any(text.startswith(mark) for text in texts):  # keys of groups must not be labels
        mark = f"_{mark}"
    keys = ["", *(f"{mark} {node}" for node in range(1, n)), *(texts[label] for label in known)]
    parent = np.concatenate([tree.parent[:n], tree.leaf_of[known]])
    return parent, keys, ["", *groups, *(texts[label] for label in known)]


def _most_labels(options: Options, state: State) -> int:
    """The most labels that one tree scores per row; a bound from sizes alone, as it is computed for every row."""
    return max(1, min(options.beam * options.arity, len(state["tree"].leaf_of)))


def width(options: Options, state: State) -> int:
    """The most labels scored per row."""
    return len(trees_of(state)) * _most_labels(options, state)


# -- files ---------------------------------------------------------------------------------------------------------


def options_from_file(values: dict[str, Any]) -> dict[str, Any]:
    """The fields of `Options` from the values in a file; older files have other names and words."""
    out = dict(values)
    if "unit_rows" in out:
        out["normalize"], out["loss"] = out.pop("unit_rows"), LOSSES[out["loss"]]
        del out["cluster"]
    out.setdefault("neighbors", False)
    out.setdefault("margin", 0.0)
    if "C" not in out:
        bias = 0.0 if out["loss"] == SOFTMAX else -out["start"] / 3
        out |= {"C": 1.0, "router_start": out["start"] / 2, "bias": bias, "router_bias": bias / 2}
    for name in ("prior", "start", "router_start", "bias", "router_bias", "C", "margin", "rate", "bias_rate"):
        out[name] = float(out[name])
    return out


def arrays_from_file(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays of a file; up to format 3, packed weights are no steps, and `begin` has a number for every feature."""
    out = dict(arrays)
    for name in [name.removesuffix("lanes") for name in arrays if name.endswith(".lanes")]:
        if f"{name}step" not in out:
            scale, value = out.pop(f"{name}value_scale", None), out[f"{name}value"].astype(np.float32)
            if scale is not None:  # a rounded file
                need(len(scale) == -(-len(value) // RUN), f"{name}value_scale has the wrong length.")
                value *= np.repeat(scale, RUN)[: len(value)]
            out[f"{name}value"], out[f"{name}step"] = _as_steps(out[f"{name}first"], out[f"{name}lanes"], value)
            out[f"{name}begin"] = np.ascontiguousarray(out[f"{name}begin"][::EVERY])
    if "neighbors.slope" in out:  # version 0.1.0 has no logarithm of distances
        out.setdefault("neighbors.factor", np.ones(1))
        out.setdefault("neighbors.offset", np.zeros(1))
    if (kept := out.get("neighbors.row")) is not None and kept.ndim == 2:
        out.setdefault("neighbors.map", np.zeros((0, kept.shape[1]), np.float32))
    return out


def state_from_file(state: State, version: int) -> State:
    """The state of a file; up to format 5, the tables of features have another order."""
    if version > 5:
        return state
    out = dict(state)
    for name, blocks in state.items():
        if isinstance(blocks, Blocks):
            check_tables(blocks)
            new = blocks._replace(**{k: getattr(blocks, k).copy() for k in ("feature", "record", "n_used")})
            rebuild_tables(new, blocks.feature, blocks.record)
            out[name] = new
    return out


def _as_steps(first: np.ndarray, lanes: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Packed weights as multiples of the step of their node, and the steps."""
    ends = np.append(0, np.cumsum(np.bitwise_count(lanes).sum(axis=1, dtype=np.int64)))[first]
    node = np.repeat(np.arange(len(first) - 1), np.diff(ends))
    largest = np.zeros(len(first) - 1, np.float32)
    np.maximum.at(largest, node, np.abs(weights))
    step = largest / np.float32(STEPS)
    with np.errstate(invalid="ignore"):  # of a damaged file: the checks will refuse it
        return np.rint(weights / np.where(step >= SMALLEST_STEP, step, 1)[node]).astype(np.int16), step


def check(options: Options, state: State, n_features: int, n_classes: int, slim: bool) -> None:
    """ModelFormatError unless the kernels may run on the state."""
    need(options.loss in LOSSES.values(), f"the loss is {options.loss!r}.")
    need(4 <= options.arity <= MOST_OUTPUTS, f"arity is {options.arity}.")
    need(1 <= options.beam <= MOST_PATHS, f"beam is {options.beam}.")
    n_trees = sum(name.startswith("tree") for name in state)
    expected = {f"{name}{suffix_of(number)}" for name in ("tree", "blocks") for number in range(n_trees)}
    others = {"scale", "seen", "run"}
    need(set(state) - {"neighbors"} == expected | others, "the trees are not numbered consecutively.")
    if "neighbors" in state:
        need(n_trees == 1 and not options.multilabel, "nearest rows are for one tree and one label per row.")
        check_neighbors(state["neighbors"], n_features)
    for number, (tree, blocks) in enumerate(trees_of(state)):
        check_label_tree(tree, options.arity, n_classes)
        shape = len(tree.parent), -(-options.arity // LANES) * LANES
        name = f"blocks{suffix_of(number)}.bias"
        need(blocks.bias.shape == shape, f"{name} has the shape {blocks.bias.shape}, not {shape}.")
        need(not slim or isinstance(blocks, PackedBlocks), "the weights do not have the form of a slim model.")
        if isinstance(blocks, PackedBlocks):
            check_packed_blocks(blocks, n_features)
        else:
            check_blocks(blocks, n_features)
    check_counts(state, n_features, n_classes)
    need_range("run.label", state["run"].label, -1, n_classes)
    need_range("run.length", state["run"].length, 0, 1 << 62)


def check_label_tree(tree: LabelTree, arity: int, n_classes: int) -> None:
    """A tree: one parent per node, no cycle, leaves equally deep; every label at most once, where it is said to be."""
    n = int(tree.n_nodes[0])
    need(1 <= n <= len(tree.parent), f"tree.n_nodes is {n}, the capacity is {len(tree.parent)}.")
    need(tree.outputs.shape[1] == arity, f"tree.outputs has {tree.outputs.shape[1]} places for arity {arity}.")
    need_range("tree.is_leaf", tree.is_leaf, 0, 2)
    need_range("tree.size", tree.size, 0, arity + 1)
    inner = tree.is_leaf[:n] == 0
    need((tree.size[:n][inner] > 0).all(), "an inner node has no children.")
    need(not tree.size[n:].any(), "a node that does not exist has outputs.")
    need(tree.parent[0] == -1 and not (tree.outputs[:n][inner] == 0).any(), "the root has a parent.")
    owner, place = np.nonzero(np.arange(arity) < tree.size[:n, None])
    outputs, to_node = tree.outputs[owner, place], inner[owner]
    children = outputs[to_node]
    need_range("children in tree.outputs", children, 1, n)
    need(len(children) == n - 1, f"the tree has {n} nodes and {len(children)} children.")
    parents = (tree.parent[children] == owner[to_node]) & (tree.place[children] == place[to_node])
    need(parents.all(), "a node is not where its parent has it.")
    labels = outputs[~to_node]
    need_range("labels in tree.outputs", labels, 0, min(n_classes, len(tree.leaf_of)))
    homes = (tree.leaf_of[labels] == owner[~to_node]) & (tree.place_of[labels] == place[~to_node])
    need(homes.all(), "a label is not in the leaf where it is said to be.")
    need_range("tree.leaf_of", tree.leaf_of, -1, n)
    need((tree.leaf_of >= 0).sum() == len(labels), "a label is said to be in a leaf that does not have it.")
    level, depth, reached = np.array([0]), 0, 1
    while len(level):  # every node has one parent: what the root reaches within so many levels has no cycle
        need(depth <= MAX_LEVELS, f"the tree is deeper than {MAX_LEVELS} levels, or has a cycle.")
        need(inner[level].all() or not inner[level].any(), "the leaves are not all at the same depth.")
        level = level[inner[level]]
        level = tree.outputs[level][np.arange(arity) < tree.size[level, None]]
        reached, depth = reached + len(level), depth + 1
    need(reached == n, "some nodes cannot be reached from the root.")


def check_blocks(blocks: Blocks, n_features: int) -> None:
    """Valid tables; features and records that exist, each record once."""
    check_tables(blocks)
    broken = first_broken(blocks, n_features, np.zeros(int(blocks.n_records[0]), bool))
    need(broken < 0, f"the table of node {broken} is wrong: its features, their blocks.record, or blocks.n_used.")


def check_tables(blocks: Blocks) -> None:
    """Tables that do not overlap and have empty entries."""
    n_entries, n_records = int(blocks.n_entries[0]), int(blocks.n_records[0])
    need(0 <= n_entries <= len(blocks.feature), f"blocks.n_entries is {n_entries}.")
    need(0 <= n_records <= len(blocks.weight), f"blocks.n_records is {n_records}.")
    need(len(blocks.free) == SIZES, f"blocks.free has {len(blocks.free)} sizes.")
    need_range("blocks.mask", blocks.mask, -1, max(1, n_entries))
    need_range("blocks.free", blocks.free, -1, max(1, n_entries))  # kernels keep them as i4
    nodes = np.flatnonzero(blocks.mask >= 0)
    first, size = blocks.first[nodes], blocks.mask[nodes] + 1
    need(((size & (size - 1)) == 0).all(), "the size of a table is not a power of two.")
    need(not blocks.n_used[blocks.mask < 0].any(), "a node without a table has features.")
    spans = [*zip(first.tolist(), size.tolist(), strict=True), *_free_tables(blocks, n_entries)]
    at = 0
    for begin, length in sorted(spans):
        need(begin >= at and begin + length <= n_entries, f"the table at entry {begin} overlaps another, or the end.")
        at = begin + length
    need((3 * blocks.n_used[nodes] <= 2 * size).all(), "a table has too few empty entries.")  # growth relies on it


def _free_tables(blocks: Blocks, n_entries: int) -> list[tuple[int, int]]:
    """(first entry, size) of all tables that were given back: a chain for each size."""
    out, total = [], 0
    for log, head in enumerate(blocks.free.tolist()):
        need(head < 0 or 1 << log >= SMALLEST_TABLE, f"blocks.free[{log}] has tables that are too small.")
        while head >= 0:
            total += 1 << log
            inside = head + (1 << log) <= n_entries and total <= n_entries
            need(inside, f"the chain blocks.free[{log}] leads outside, or has a cycle.")
            out.append((head, 1 << log))
            head = int(blocks.record[head])
    return out


def check_packed_blocks(blocks: PackedBlocks, n_features: int) -> None:
    """Sorted features, and as many weights as the lanes have bits."""
    n, n_nodes, wide = len(blocks.feature), len(blocks.bias), blocks.feature.dtype == np.int32
    pages, rest = divmod(len(blocks.first) - 1, max(1, n_nodes))
    fits = 1 <= pages <= (1 if wide else max(1, -(-n_features >> PAGE_BITS)))
    need(fits and not rest, f"blocks.first has {len(blocks.first)} places for {n_nodes} nodes.")
    need(blocks.first[0] == 0 and blocks.first[-1] == n, "blocks.first does not span the features.")
    need_range("blocks.first", blocks.first, 0, n + 1)
    need((np.diff(blocks.first) >= 0).all(), "blocks.first decreases.")
    need(LANES * blocks.lanes.shape[1] == blocks.bias.shape[1], "blocks.lanes has too many or too few parts.")
    at = first_unsorted(blocks.first, blocks.feature, pages, n_features)
    need(at < 0, f"blocks.feature[{at}] is not above the feature before, or is no feature.")
    n_weights = int(np.bitwise_count(blocks.lanes).sum(dtype=np.int64))
    need(n_weights == len(blocks.value), f"blocks.lanes has {n_weights} weights, blocks.value {len(blocks.value)}.")
    need(blocks.value.min(initial=0) >= -LARGEST_STEP, f"blocks.value has numbers below {-LARGEST_STEP}.")
    need(np.array_equal(blocks.begin, begins_of(blocks.lanes)), "blocks.begin is not where the weights begin.")


def trim(state: State, n_classes: int) -> State:
    """The state without spare capacity."""
    out = dict(state)
    for number, (tree, blocks) in enumerate(trees_of(state)):
        n = int(tree.n_nodes[0])
        out[f"tree{suffix_of(number)}"] = cut(tree, node=n, **{"class": n_classes})
        if isinstance(blocks, Blocks):
            blocks = cut(blocks, node=n, entry=int(blocks.n_entries[0]), record=int(blocks.n_records[0]))
        out[f"blocks{suffix_of(number)}"] = blocks
    if "neighbors" in state:
        n, known = int(state["neighbors"].n_rows[0]), {"class": n_classes}
        out["neighbors"] = cut(resize(state["neighbors"], **known), row=n, **known)
    return out


def slim(options: Options, state: State, n_classes: int, prune: float = 0.0) -> tuple[Options, State]:
    """What predictions need: weights with the start in them, without those of absolute value up to `prune`."""
    out = trim(state, n_classes)
    for number, (tree, blocks) in enumerate(trees_of(out)):
        if isinstance(blocks, Blocks) or prune > 0:  # packed again, rounded weights of 0 would be left out
            out[f"blocks{suffix_of(number)}"] = pack(tree, blocks, starts_of(options, tree), prune)
    return options, out


def pack(tree: LabelTree, blocks: Blocks | PackedBlocks, starts: np.ndarray, prune: float) -> PackedBlocks:
    """The weights of absolute value above `prune`, node by node in the order of features."""
    parts: list[tuple] = []
    for node, start in enumerate(starts):
        feature, weights = dense_weights(blocks, node, start)
        weights[:, tree.size[node] :] = 0.0
        kept = np.abs(weights) > prune
        known = kept.any(axis=1)
        bits = kept[known].reshape(-1, kept.shape[1] // LANES, LANES) << np.arange(LANES, dtype=np.uint16)
        parts.append((known.sum(), feature[known], bits.sum(axis=2, dtype=np.uint16), *in_steps(weights[kept])))
    counts, features, lanes, values, steps = zip(*parts, strict=True)
    feature, *entries = (np.concatenate(column) for column in (features, lanes, values))
    page_counts, feature = in_pages(np.array(counts), feature, *pages_for(n_features_of([feature])))
    return packed(page_counts, blocks.bias, np.array(steps, np.float32), feature, *entries)


def dense_weights(blocks: Blocks | PackedBlocks, node: int, start: float) -> tuple[np.ndarray, np.ndarray]:
    """The features of a node, sorted, and their weights (feature, place) with the start in them."""
    if isinstance(blocks, Blocks):
        feature, record = table_of(blocks, node)
        order = np.argsort(feature, kind="stable")
        record = record[order]
        return feature[order], blocks.weight[record] + blocks.total[record] * lengths_of(blocks, node, start)
    return features_of(blocks, np.array([node])), weights_of(blocks, node)
