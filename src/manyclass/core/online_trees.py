"""What the LOM tree and the MLOM tree share: binary trees that grow row by row and predict by the shares of a leaf.

A margin is a router's score of a row, clipped to -1..1. `nodes` has the sum of the margins of all rows at a node,
`table` that of the rows of one label at a node; a mean is a sum divided by its mass.
"""

import math
from typing import Annotated, Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..jit import device, inlined, kernel
from . import linear
from .explanation import Parts, binary_step, values_of
from .inputs import Batch
from .invariants import check_bank, check_counts, check_learner, need, need_range, need_rows
from .labels import EMPTY, LabelSet, check_table, fill_up, mass_of, move_table
from .learners import NormalizedAdaGrad, resolve
from .locks import reads
from .losses import sigmoid
from .options import EPOCH_CONSTRAINTS, check_integer, integer, one_of, real, resolved
from .protocol import Mixin, Predictions, Scored, rows_of
from .state import Array, Field, Scale, Seen, State, make, resize
from .trees import DEEPEST, LEFT, RIGHT, ROOT, is_leaf, paths_to
from .updates import NORMALIZED_ADAGRAD, Pace, is_adaptive, limited, observe_scale, pace

HINGE, ABSOLUTE, LOGISTIC = 0, 1, 2
ROUTER_LOSSES = {"hinge": HINGE, "absolute": ABSOLUTE, "logistic": LOGISTIC}

CONSTRAINTS = {
    **EPOCH_CONSTRAINTS,
    "split_mass": real(0, 1_000_000),
    "nodes_per_class": real(0, 1_000_000),
    "max_depth": integer(0, DEEPEST, "auto"),
    "loss": one_of(*ROUTER_LOSSES),
}
ROUTER_LEARNER = NormalizedAdaGrad(rate=4.0, decay=1.0)  # what learner="auto" is
SLOTS = 16  # labels that a leaf keeps with their mass
FIRST_NODES, FIRST_ENTRIES = 128, 1024

_BY_NODE = ("tree", "nodes", "guests", "candidates")  # groups with a line for each node


class GrownTree(NamedTuple):
    """Binary nodes that may be removed and used again; each use of a node has a new identity."""

    children: Annotated[Array, Field("i4", ("node", "side"), -1)]
    parent: Annotated[Array, Field("i4", ("node",), -1)]
    identity: Annotated[Array, Field("i4", ("node",))]
    n_nodes: Annotated[Array, Field("i8", ("one",), 1)]
    n_identities: Annotated[Array, Field("i8", ("one",), 1)]


class NodeMargins(NamedTuple):
    """Per node: mass of its rows as a leaf, mass of the lightest leaf below it, and sum and mass of the margins."""

    total: Annotated[Array, Field("f8", ("node",), 0)]
    smallest: Annotated[Array, Field("f8", ("node",))]
    margin: Annotated[Array, Field("f8", ("node",), 0)]
    margin_mass: Annotated[Array, Field("f8", ("node",), 0)]  # mass of the margins


class Example(NamedTuple):
    """One training row, and the step that it makes."""

    batch: Any
    i: int
    label: np.int64
    weight: float
    step: Pace
    scale: Any


# -- routers and means ---------------------------------------------------------------------------------------------


@device
def mean(total, mass):
    """The mean, or 0 if there is no mass. Cost: O(1).

    DIFFERS [OT Alg. 1 l.6-7]: sums that are divided once. As printed, running means are divided twice and tend to 0.
    """
    return total / mass if mass > 0.0 else 0.0


@device
def clipped(margin):
    """A margin within -1..1. Cost: O(1).

    DIFFERS [OT Alg. 1 l.6-7]: clipped to the range of the targets, as in VW, unless rules="paper"; a few outliers moved
    the means.
    """
    return min(1.0, max(-1.0, margin))


@device
def note_margin(nodes, table, node, at, margin, weight):
    """Add a margin to the means of a node and of one of its labels. Mutates: nodes, table. Cost: O(1).

    DIFFERS [OT Alg. 1 l.14]: counted at the node whose mean it is; as printed, after the move to the child.
    """
    table.margin[at] += margin * weight
    table.margin_mass[at] += weight
    nodes.margin[node] += margin * weight
    nodes.margin_mass[node] += weight


@device
def route_target(nodes, table, node, at):
    """1 if the label's mean margin is above the node's, else -1 [OT Alg. 1 l.8-11]. Cost: O(1).

    DIFFERS [OT Alg. 1 l.9, 11]: no sets Y_L and Y_R, the means define them; targets are -1 and 1, as LOM, not 0 and 1
    (unless rules="paper").
    DIFFERS [LOM Alg. 1]: equal means go left, as in OT, not right.
    """
    own = mean(table.margin[at], table.margin_mass[at])
    return 1.0 if own > mean(nodes.margin[node], nodes.margin_mass[node]) else -1.0


@device
def slope(loss, route, target):
    """Derivative of the loss with respect to the route; the target is -1 or 1. Cost: O(1).

    DIFFERS [OT Alg. 1 l.12]: hinge or logistic loss beside the absolute one; the hinge halves the error on ALOI.
    """
    if loss == LOGISTIC:
        return sigmoid(route) - (1.0 if target > 0.0 else 0.0)
    if loss == ABSOLUTE:
        return 1.0 if route > target else (-1.0 if route < target else 0.0)
    return -target if route * target < 1.0 else 0.0


@device
def router_pace(update, rate, scale, sq_norm):
    """The step of one example for the routers. Cost: O(1).

    DIFFERS [OT Alg. 1, R]: the regression algorithm is left open there. Normalised AdaGrad is divided once more by the
    root of the number of features of full size: on dense rows, where all of them move one score, routers overshot.
    """
    step = pace(update, rate, scale, sq_norm)
    if update == NORMALIZED_ADAGRAD:
        slower = math.sqrt(scale.normalized[0] / scale.n_rows[0] + 1.0)
        return Pace(update, step.step / slower, step.size, step.bias_step / slower)
    return step


@device
def train_router(router, node, example, route, target, loss):
    """One step of a node's router towards its target [OT Alg. 1 l.12]. Mutates: router. Cost: O(non-zeros)."""
    gradient = slope(loss, route, target)
    if gradient != 0.0:
        amount = gradient * limited(example.weight, example.step.update)
        linear.learn(router, node, example.batch, example.i, amount, example.step, example.scale)


@device
def side_of(route):
    """The child that a route leads to: right above 0, unlike in the Recall Tree [OT Alg. 1 l.13]. Cost: O(1)."""
    return np.int64(RIGHT) if route > 0.0 else np.int64(LEFT)


@inlined
def next_step(table, scale, seen, batch, i, label, options):
    """Count a row, and determine its step. Mutates: scale, seen. Cost: O(non-zeros)."""
    if mass_of(table, ROOT, label) == 0.0:
        seen.n_labels[0] += 1
    seen.n_rows[0] += 1
    return router_pace(options.update, options.rate, scale, observe_scale(scale, batch, i))


# -- state and growth ----------------------------------------------------------------------------------------------


def first_state(options: Any, n_features: int, nodes: type, table: type) -> State:
    """A tree that is only a root; `nodes` and `table` are the types of these groups."""
    return {
        "tree": make(GrownTree, node=FIRST_NODES, side=2),
        "nodes": make(nodes, node=FIRST_NODES),
        "router": linear.make_bank(FIRST_NODES, n_features, options.table_bits, is_adaptive(options.update)),
        "table": make(table, entry=FIRST_ENTRIES),
        "scale": make(Scale, feature=n_features),
        "seen": make(Seen),
    }


def n_nodes(state: State) -> int:
    """Number of nodes, including removed ones that will be used again."""
    return int(state["tree"].n_nodes[0])


@device
def renew(tree, node, parent, side):
    """Make a node, new or removed before, a leaf below a parent [LOM SetNode]. Mutates: tree. Cost: O(1).

    Its new identity separates it from the entries that tables have of the old one.
    """
    tree.children[parent, side] = node
    tree.children[node, LEFT] = tree.children[node, RIGHT] = -1
    tree.parent[node] = parent
    tree.identity[node] = tree.n_identities[0]
    tree.n_identities[0] += 1


@device
def has_room(tree, table, n_nodes, n_entries):
    """Whether more nodes fit into the tree, and more entries into the table."""
    return tree.n_nodes[0] + n_nodes <= tree.parent.shape[0] and 2 * (table.n_entries[0] + n_entries) <= len(table.key)


def grown(state: State, more_nodes: int, more_entries: int, options: Any) -> tuple[State, np.ndarray | None]:
    """The groups that so many more nodes and entries do not fit into, enlarged; where each entry of the table moved.

    The sizes depend on earlier rows only.
    """
    tree, table, new, place = state["tree"], state["table"], {}, None
    capacity = len(tree.parent)
    if tree.n_nodes[0] + more_nodes > capacity:
        new = {name: resize(state[name], node=2 * capacity) for name in _BY_NODE if name in state}
        n_features, adaptive = len(state["scale"].inverse), is_adaptive(options.update)
        new["router"] = linear.grow_bank(state["router"], 2 * capacity, n_features, options.table_bits, adaptive)
    if 2 * (table.n_entries[0] + more_entries) > len(table.key):
        # Entries of removed nodes are dropped; the table doubles if they were less than half of it.
        alive = tree.identity[np.flatnonzero(depths(tree) >= 0)]
        n_kept = int(np.sum(np.isin(table.key[table.key != EMPTY] >> 32, alive)))
        size = (2 if 4 * (n_kept + more_entries) > len(table.key) else 1) * len(table.key)
        new["table"], place = move_table(table, size, alive)
    return new, place


# -- predictions ---------------------------------------------------------------------------------------------------


@device
def descend(tree, router, batch, i):
    """(leaf, depth) that row i reaches. Cost: O(depth x non-zeros)."""
    node, depth = ROOT, np.int64(0)
    while not is_leaf(tree, node):
        node = np.int64(tree.children[node, side_of(linear.score(router, node, batch, i))])
        depth += 1
    return node, depth


@device
def counted_node(tree, candidates, node):
    """The node whose counts a leaf predicts by: itself, or its first ancestor with counts. Cost: O(depth)."""
    while candidates.size[node] == 0 and tree.parent[node] >= 0:
        node = np.int64(tree.parent[node])
    return node


@device
def predicts(tree, candidates, node, label):
    """Whether a leaf predicts the label. Cost: O(depth)."""
    node = counted_node(tree, candidates, node)
    return candidates.size[node] > 0 and candidates.label[node, 0] == label


@device
def predict_rows(tree, router, candidates, batch, n_classes, found, known):
    """The loop of predict_shares. Mutates: found, known. Cost: O(depth x non-zeros) per row."""
    for r in range(found.labels.shape[0]):
        leaf, depth = descend(tree, router, batch, r)
        node = counted_node(tree, candidates, leaf)
        labels, scores = found.labels[r], found.scores[r]
        size = min(np.int64(candidates.size[node]), np.int64(labels.shape[0]))
        for s in range(size):
            labels[s] = candidates.label[node, s]
            scores[s] = min(0.0, math.log(candidates.mass[node, s] / candidates.covered[node]))
        if size < labels.shape[0]:
            fill_up(tree, candidates, node, n_classes, r, size, labels, scores, known)
        found.work[r, 0], found.work[r, 1], found.work[r, 2], found.work[r, 3] = depth, depth + 1, depth, 0


@kernel
def predict_shares(tree, router, candidates, batch, n_classes, found):
    """The heaviest labels of each row's leaf with the logarithm of their shares, then those of its ancestors.

    Mutates: found.
    """
    n_set = 4
    while n_set < 2 * (found.labels.shape[1] + candidates.label.shape[1]):
        n_set *= 2
    known = LabelSet(np.empty(n_set, np.int32), np.full(n_set, -1, np.int64))
    predict_rows(tree, router, candidates, batch, n_classes, found, known)


@kernel
def find_leaves(tree, router, batch, leaves):
    """The leaf that each row reaches. Mutates: leaves. Cost: O(depth x non-zeros) per row."""
    for r in range(leaves.shape[0]):
        leaves[r], _ = descend(tree, router, batch, r)


def predict(options: Any, state: State, batch: Batch, k: int, n_classes: int) -> Predictions:
    """The k best labels of all rows by the shares of their leaves."""
    found = Predictions.empty(rows_of(batch), k)
    predict_shares(state["tree"], state["router"], state["candidates"], batch, n_classes, found)
    return found


def score(options: Any, state: State, batch: Batch) -> Scored:
    """The labels of each row's leaf with their shares."""
    return scored(predict(options, state, batch, SLOTS, 0))


def scored(found: Predictions) -> Scored:
    """The predictions that have a score, as probabilities."""
    used = found.scores > -np.inf
    return Scored(used.sum(axis=1), found.labels[used], np.exp(found.scores[used]))


def paths(options: Any, state: State, batch: Batch) -> list[np.ndarray]:
    """The nodes that each row passes."""
    leaves = np.empty(rows_of(batch), np.int64)
    find_leaves(state["tree"], state["router"], batch, leaves)
    return paths_to(state["tree"].parent, leaves[:, None])


def explain(options: Any, state: State, batch: Batch, labels: list[int]) -> list[Parts]:
    """The scores of some labels for a single row: only the leaf counts, the features decide the path to it."""
    shares = predict(options, state, batch, SLOTS, 0)
    used = shares.scores[0] > -np.inf
    scores = dict(zip(shares.labels[0, used].tolist(), shares.scores[0, used].tolist(), strict=True))
    return parts_of_leaf(state, batch, paths(options, state, batch)[0], scores, labels)


def parts_of_leaf(state: State, batch: Batch, nodes: np.ndarray, scores: dict, labels: list[int]) -> list[Parts]:
    """The scores of labels at the end of a path; labels without a score were not found there."""
    tree, router, (feature, value) = state["tree"], state["router"], values_of(batch)
    on_path, node, path = set(nodes.tolist()), 0, []
    while tree.children[node, 0] >= 0:
        child = int(next(one for one in tree.children[node] if int(one) in on_path))
        contribution = value * linear.weights_of(router, node, feature)
        sides = tree.children[node, [RIGHT, LEFT]]  # a positive score leads to the right
        path.append(binary_step(node, sides, child, float(router.bias[node]), contribution))
        node = child
    nothing, out = np.zeros(len(value)), []
    for label in labels:
        score = scores.get(label, -math.inf)
        out.append(Parts(feature, nothing, {"log share in the leaf": score}, path.copy))
    return out


# -- levels and paths ----------------------------------------------------------------------------------------------


def levels(tree: GrownTree) -> list[np.ndarray]:
    """The nodes of each level, root first; ends after the deepest possible level, whatever the arrays contain."""
    found = [np.zeros(1, np.int64)]
    while len(found) <= DEEPEST + 1:
        below = tree.children[found[-1]].reshape(-1)
        below = below[below >= 0].astype(np.int64)
        if not len(below) or sum(map(len, found)) > len(tree.parent):
            break
        found.append(below)
    return found


def depths(tree: GrownTree) -> np.ndarray:
    """The level of each node; -1 for nodes that are not in the tree."""
    depth = np.full(int(tree.n_nodes[0]), -1)
    for level, nodes in enumerate(levels(tree)):
        depth[nodes] = level
    return depth


def tabulate(tree: GrownTree, table: Any, max_depth: int | None, kept: np.ndarray | None = None) -> list[dict]:
    """The nodes down to a depth, parents before children, with their labels; `kept` selects entries of the table."""
    inside = np.flatnonzero(depths(tree) >= 0)
    inside = inside[np.argsort(tree.identity[inside])]
    entries = np.flatnonzero(table.key != EMPTY)
    at = np.minimum(np.searchsorted(tree.identity[inside], table.key[entries] >> 32), len(inside) - 1)
    alive = tree.identity[inside[at]] == table.key[entries] >> 32
    entries, nodes = entries[alive], inside[at[alive]]
    n = int(tree.n_nodes[0])
    mass = np.bincount(nodes, table.mass[entries], minlength=n)
    if kept is not None:
        entries, nodes = entries[kept[entries]], nodes[kept[entries]]
    found = table.key[entries] & 0xFFFFFFFF
    order = np.lexsort((found, -table.mass[entries], nodes))
    labels = np.split(found[order], np.cumsum(np.bincount(nodes, minlength=n))[:-1])
    return [
        {
            "node": int(node),
            "parent": int(tree.parent[node]),
            "depth": depth,
            "mass": float(mass[node]),
            "labels": labels[node],
        }
        for depth, nodes_there in enumerate(levels(tree))
        if max_depth is None or depth <= max_depth
        for node in nodes_there
    ]


# -- memory --------------------------------------------------------------------------------------------------------


class Size(NamedTuple):
    """Expected numbers of splits and of (node, label) entries."""

    n_splits: float
    n_entries: float


def expected_size(options: Any, n_classes: int, n_rows: int | None, n_epochs: int) -> Size:
    """Size of a tree after some epochs, by default with 100 rows per class: fitted to ALOI, Isolet and WordNet."""
    rows, most = (n_rows or 100 * n_classes) * n_epochs / n_classes, options.nodes_per_class
    depth, mass = max(1.0, math.log2(n_classes)), 1.0 + options.split_mass
    rows = min(rows, mass * max(1.4 * most, (most / (0.17 * depth)) ** 2))  # later rows find a full tree
    per_class = min(most, rows / (1.4 * mass), 0.17 * depth * math.sqrt(rows / mass))
    n_splits = n_classes * per_class
    return Size(n_splits, n_classes * min(2.0 * depth * rows**0.4, 2.0 * n_splits + 1.0))


def bytes_of(size: Size, n_features: int, bytes_per_node: int, bytes_per_entry: int, options: Any) -> int:
    """Approximate bytes of a tree. Arrays double when full, tables when half full: on average a third is spare."""
    n_nodes = int(max(FIRST_NODES, 1.5 * (2.0 * size.n_splits + 1.0)))
    n_entries = int(max(FIRST_ENTRIES, 3.0 * size.n_entries))
    router = linear.bank_bytes(n_nodes, n_features, options.table_bits, is_adaptive(options.update))
    return router + n_nodes * bytes_per_node + n_entries * bytes_per_entry + 4 * n_features


# -- files ---------------------------------------------------------------------------------------------------------


def options_from_words(values: dict, **codes: dict[str, int]) -> dict:
    """The options of a file of manyclass 0.1, which have words, a learner and a seed, as numbers."""
    out = {name: value for name, value in values.items() if name not in ("learner", "seed")}
    out |= values["learner"].as_options()
    if out["max_depth"] is None:
        out["max_depth"] = DEEPEST
    for name, known in codes.items():
        need(out[name] in known, f"{name} is {out[name]!r}.")
        out[name] = known[out[name]]
    return out


def check_common(options: Any, state: State, n_features: int, n_classes: int, slim: bool) -> None:
    """What both trees must satisfy besides the structure of the tree itself; to be called first."""
    need(options.loss in ROUTER_LOSSES.values(), f"loss is {options.loss}.")
    need(0 <= options.max_depth <= DEEPEST, f"max_depth is {options.max_depth}.")
    check_learner(options)
    tree = state["tree"]
    capacity = len(tree.parent)
    need_rows(capacity, router=state["router"].bias, **{name: state[name][0] for name in _BY_NODE if name in state})
    check_bank("router", state["router"], n_features, is_adaptive(options.update) and not slim)
    check_table(state["table"], int(tree.n_identities[0]), n_classes)
    check_counts(state, n_features, n_classes)


def check_tree(tree: GrownTree, n_out: int = 0) -> None:
    """Each node has two children or none, and one parent; no cycle; `n_out` nodes are outside the tree."""
    n, capacity = int(tree.n_nodes[0]), len(tree.parent)
    need(1 <= n <= capacity, f"tree.n_nodes is {n}, but the arrays have {capacity} nodes.")
    need(tree.children.shape[1] == 2, f"tree.children has {tree.children.shape[1]} sides.")
    need_range("tree.children", tree.children, -1, n)
    need_range("tree.parent", tree.parent, -1, n)
    need(((tree.children[:, 0] < 0) == (tree.children[:, 1] < 0)).all(), "a node has one child only.")
    need(tree.parent[0] == -1 and not (tree.children == 0).any(), "the root is not a root.")
    found = levels(tree)
    nodes = np.concatenate(found)
    need(len(found) <= DEEPEST + 1, f"the tree is deeper than {DEEPEST} levels, or a node is below itself.")
    need(len(np.unique(nodes)) == len(nodes) == n - n_out, "a node is not its parent's child.")
    inner = nodes[tree.children[nodes, 0] >= 0]
    own = (tree.parent[tree.children[inner]] == inner[:, None]).all()
    need(own, "a node comes before its parent: it is not its parent's child.")
    need(1 <= tree.n_identities[0] <= 1 << 30, f"tree.n_identities is {tree.n_identities[0]}.")  # 2^30 more fit
    need_range("tree.identity", tree.identity[:n], 0, int(tree.n_identities[0]))
    need(len(np.unique(tree.identity[nodes])) == len(nodes), "two nodes have one identity.")


# -- estimators ----------------------------------------------------------------------------------------------------


class OnlineTreeMixin(Mixin):
    """Methods of both estimators."""

    learner: Any
    max_depth: Any

    def _resolved(self, kind: type, codes: dict, n_features: int, sparse: bool) -> Any:
        """The options of an algorithm as numbers; `codes`: of its words."""
        learner = resolve(self.learner, n_features=n_features, sparse=sparse, auto=ROUTER_LEARNER)
        max_depth = DEEPEST if self.max_depth == "auto" else self.max_depth
        return resolved(self, kind, {"loss": ROUTER_LOSSES, **codes}, max_depth=max_depth, **learner.as_options())

    @reads
    def balance(self, max_depth: int | None = None) -> list[dict]:
        """Show how evenly classes and rows are distributed over the nodes of each level.

        Parameters
        ----------
        max_depth : int, optional
            Deepest level to list; all by default.

        Returns
        -------
        levels : list of dict
            For each level: `depth`, `nodes` (number of nodes), `leaves` (number of leaves among them), and two lists
            with a value for each node: `classes` (number of classes that reached it; in an MLOM tree, of classes that
            belong to it now, without guests) and `mass` (weight of the rows that reached it).

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from manyclass import LomTreeClassifier
        >>> model = LomTreeClassifier(n_epochs=1, random_state=0).fit(*load_digits(return_X_y=True))
        >>> root = model.balance(max_depth=0)[0]
        >>> root["nodes"], root["classes"]
        (1, [10])
        """
        check_is_fitted(self, "_state")
        max_depth = None if max_depth is None else check_integer("max_depth", max_depth, 0)
        nodes = self._model.tree_table(self._state)
        parents = {node["parent"] for node in nodes}
        by_depth: dict[int, list[dict]] = {}
        for node in nodes:
            by_depth.setdefault(node["depth"], []).append(node)
        return [
            {
                "depth": depth,
                "nodes": len(level),
                "leaves": sum(node["node"] not in parents for node in level),
                "classes": [len(node["labels"]) for node in level],
                "mass": [node["mass"] for node in level],
            }
            for depth, level in by_depth.items()
            if max_depth is None or depth <= max_depth
        ]

    @classmethod
    def _params_from_file(cls, params: dict[str, Any]) -> dict[str, Any]:
        out = super()._params_from_file(params)  # type: ignore[misc]
        if out.get("max_depth", 0) is None:  # in files of manyclass 0.1
            out["max_depth"] = "auto"
        return out
