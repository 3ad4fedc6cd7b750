"""MLOM tree: Modified Logarithmic Time Online Multiclass Train and Prediction (2018), tagged [MLOM ...].

Algorithm 1 is `learn_row`, step by step. The side of a class (1) is decided by `centre`; suspending (§III.C) is
`suspend`, with the paper's three cases there and in `remove_children`. The class means of a node are an ordered set
(`ordered_set.py`). Not in the paper: guests, rows that a router's sign sends away from their class (`visit`); they are
counted where `guests` is not None.
"""

from typing import Annotated, NamedTuple

import numpy as np

from ..core import linear
from ..core import online_trees as online
from ..core.labels import EMPTY, LabelSet, add_label, add_mass, entry_of, find, place
from ..core.state import Array, Candidates, Field, Linear, Scale, Seen
from ..core.trees import DEEPEST, LEFT, RIGHT, ROOT, is_leaf
from ..core.updates import count_prediction
from ..jit import device, inlined, kernel
from .ordered_set import NOBODY, heaviest, insert, median, member, remove, size_of

AUTO, MEDIAN, MEAN = 0, 1, 2  # centre
MANY_CLASSES = 100  # from here on, AUTO is the median
NOWHERE = -1

# What one row may add: two children on its class's path and two as a guest, and an entry for each node on both paths.
NEW_NODES, NEW_ENTRIES = 4, 2 * (DEEPEST + 2)


class Options(NamedTuple):
    """Resolved options of an MLOM tree."""

    centre: int  # what class means are compared with: MEDIAN, MEAN or AUTO
    guests: bool
    split_mass: float  # a leaf splits for guests if the mass beside its heaviest label is more than this
    nodes_per_class: float  # and there are fewer inner nodes than this, times the labels seen
    max_depth: int
    loss: int  # of `online_trees`
    table_bits: int
    update: int
    rate: float
    decay: float


class MlomNodes(NamedTuple):
    """Per node of an MLOM tree: its classes in the order of their means; and a linked list of removed nodes."""

    members: Annotated[Array, Field("i4", ("node",), -1)]  # entry at the top of the ordered set; -1: no class
    mean_sum: Annotated[Array, Field("f8", ("node",))]
    next_free: Annotated[Array, Field("i4", ("node",), -1)]
    first_free: Annotated[Array, Field("i8", ("one",), -1)]
    n_free: Annotated[Array, Field("i8", ("one",))]


class MlomTable(NamedTuple):
    """Open addressing on (identity, label): the statistics of a class at a node, and its links in the ordered set."""

    key: Annotated[Array, Field("i8", ("entry",), -1)]
    mass: Annotated[Array, Field("f8", ("entry",), 0)]
    margin: Annotated[Array, Field("f8", ("entry",), 0)]
    margin_mass: Annotated[Array, Field("f8", ("entry",), 0)]
    mean: Annotated[Array, Field("f8", ("entry",))]
    active: Annotated[Array, Field("i1", ("entry",))]  # 0: suspended
    side: Annotated[Array, Field("i1", ("entry",), -1)]  # where the class goes from here; -1: nowhere yet
    left: Annotated[Array, Field("i4", ("entry",), -1)]
    right: Annotated[Array, Field("i4", ("entry",), -1)]
    size: Annotated[Array, Field("i4", ("entry",))]
    n_entries: Annotated[Array, Field("i8", ("one",))]


class Model(NamedTuple):
    """The groups of an MLOM tree."""

    tree: online.GrownTree
    nodes: MlomNodes
    router: Linear
    table: MlomTable
    scale: Scale
    seen: Seen


class Guests(NamedTuple):
    """What is counted of guests: margins per node, and the heaviest labels of each leaf."""

    margins: online.NodeMargins
    candidates: Candidates


# -- learning [MLOM Alg. 1] ----------------------------------------------------------------------------------------


@kernel
def learn_batch(model, guests, batch, labels, weights, begin, options):
    """Learn the rows from `begin` on; return the first that may not fit into the arrays. Mutates: model, guests."""
    return learn_rows(model, guests, batch, labels, weights, begin, options)


@device
def learn_rows(model, guests, batch, labels, weights, begin, options):
    """The loop of learn_batch, one example after the other. Mutates: model, guests."""
    for i in range(begin, labels.shape[0]):
        label, weight = np.int64(labels[i]), weights[i]
        if weight <= 0.0:
            continue
        if not online.has_room(model.tree, model.table, NEW_NODES, NEW_ENTRIES):
            return i
        known = False
        if guests is None:  # progressive validation: predict before learning
            leaf = descend_to_class(model.tree, model.nodes, model.router, batch, i)[0]
            known = label_of(model.nodes, model.table, leaf) == label
        step = online.next_step(model.table, model.scale, model.seen, batch, i, label, options)
        example = online.Example(batch, i, label, weight, step, model.scale)
        found, routes = learn_row(model, guests, example, options)
        count_prediction(model.seen, known or found, weight, routes)
    return labels.shape[0]


@inlined
def learn_row(model, guests, example, options):
    """Send an example to the leaf of its class [MLOM Alg. 1].

    Returns whether the prediction before was right (only with guests), and the sum of the routes.
    Mutates: model, guests. Cost: O(depth x (non-zeros + log classes)) unless classes change their side.
    """
    tree, nodes, table = model.tree, model.nodes, model.table
    label, weight = example.label, example.weight
    node, depth, known, routes = ROOT, np.int64(0), False, 0.0
    astray = False  # whether a router's sign has sent the row away from its class
    while True:
        at = entry_of(table, tree.identity[node], label)
        if table.active[at] == 0:  # [MLOM Alg. 1 l.1]
            enter(nodes, table, node, at)
        if n_active(nodes, table, node) < 2 or (is_leaf(tree, node) and depth >= options.max_depth):
            break
        if is_leaf(tree, node):
            add_children(tree, nodes, node)  # [MLOM Alg. 1 l.5]
        if not astray:
            table.mass[at] += weight
        side = np.int64(table.side[at])
        if not astray or side < 0:  # a row that went astray trains only where its class has no side yet
            route = linear.score(model.router, node, example.batch, example.i)
            routes += route
            target = 1.0 if table.mean[at] > centre(nodes, table, node, options) else -1.0  # [MLOM Alg. 1 l.2, (1)]
            if guests is not None:
                if not astray and online.side_of(route) != online.side_of(target):
                    astray, child = True, np.int64(tree.children[node, online.side_of(route)])
                    known = visit(model, guests, example, child, depth + 1, options)
            online.train_router(model.router, node, example, route, target, options.loss)  # [MLOM Alg. 1 l.3]
            note_mean(nodes, guests, table, node, at, route, weight)  # [MLOM Alg. 1 l.4]
            if side >= 0 and side != online.side_of(target):
                suspend(tree, nodes, guests, table, np.int64(tree.children[node, side]), label)  # [MLOM Alg. 1 l.6]
            side = online.side_of(target)
            table.side[at] = side
        node = np.int64(tree.children[node, side])  # [MLOM Alg. 1 l.7]
        depth += 1
    if guests is None:
        table.mass[at] += weight
    elif not astray:
        known = visit(model, guests, example, node, depth, options)
    return known, routes


# -- class means [MLOM §III.B] -------------------------------------------------------------------------------------


@device
def centre(nodes, table, node, options):
    """Median or mean of the class means of a node [MLOM §III.B]. Cost: O(log classes), or O(1).

    DIFFERS [MLOM §III.B]: by default the median only where there are many classes; halving a few costs accuracy.
    """
    top = np.int64(nodes.members[node])
    n = size_of(table, top)
    if options.centre == MEDIAN or (options.centre == AUTO and n >= MANY_CLASSES):
        return median(table, top)
    return online.mean(nodes.mean_sum[node], np.float64(n))


@device
def n_active(nodes, table, node):
    """Number of classes of a node, without suspended ones. Cost: O(1)."""
    return size_of(table, np.int64(nodes.members[node]))


@device
def enter(nodes, table, node, at):
    """Add a class to a node, new or with the statistics it was suspended with. Mutates: both. Cost: O(log classes)."""
    table.active[at] = 1
    mean = online.mean(table.margin[at], table.margin_mass[at])
    table.mean[at] = mean if mean == mean else 0.0  # NaN, from a router that diverged, has no place in any order
    nodes.members[node] = insert(table, np.int64(nodes.members[node]), at)
    nodes.mean_sum[node] += table.mean[at]


@device
def leave(nodes, table, node, at):
    """Remove a class from a node; its statistics stay. Mutates: nodes, table. Cost: O(log classes)."""
    nodes.members[node] = remove(table, np.int64(nodes.members[node]), at)
    nodes.mean_sum[node] -= table.mean[at]
    table.active[at] = 0


@device
def note_mean(nodes, guests, table, node, at, margin, weight):
    """Add a margin to the mean of a class [MLOM Alg. 1 l.4]. Mutates: all groups. Cost: O(log classes)."""
    leave(nodes, table, node, at)
    clipped = online.clipped(margin) * weight
    table.margin[at] += clipped
    table.margin_mass[at] += weight
    enter(nodes, table, node, at)
    if guests is not None:
        guests.margins.margin[node] += clipped
        guests.margins.margin_mass[node] += weight


# -- children, and suspended classes [MLOM §III.C] -----------------------------------------------------------------


@device
def take_node(tree, nodes):
    """A node that is not in the tree. Mutates: tree, nodes. Cost: O(1)."""
    node = np.int64(nodes.first_free[0])
    if node >= 0:
        nodes.first_free[0] = nodes.next_free[node]
        nodes.n_free[0] -= 1
    else:
        node = np.int64(tree.n_nodes[0])
        tree.n_nodes[0] += 1
    return node


@device
def add_children(tree, nodes, node):
    """Give a leaf two empty children [MLOM Alg. 1 l.5]. Mutates: tree, nodes. Cost: O(1).

    DIFFERS [MLOM §III.C 1]: a node used again keeps its router, which the paper does not mention, as in the LOM tree.
    """
    for side in (LEFT, RIGHT):
        child = take_node(tree, nodes)
        online.renew(tree, child, node, side)
        nodes.members[child], nodes.mean_sum[child] = NOBODY, 0.0


@device
def remove_children(tree, nodes, node):
    """Delete the children, which are leaves [MLOM §III.C 1]. Mutates: tree, nodes. Cost: O(1)."""
    for side in (LEFT, RIGHT):
        child = np.int64(tree.children[node, side])
        tree.children[node, side] = -1
        tree.parent[child] = -1
        nodes.members[child] = NOBODY
        nodes.next_free[child] = nodes.first_free[0]
        nodes.first_free[0] = child
        nodes.n_free[0] += 1


@device
def end_path(tree, nodes, table, node):
    """End the path of a node's last class here: remove it from the child it went to. Mutates: nodes, table.

    Cost: O(log classes). The child has no other class, so the path ended there.
    """
    last = np.int64(nodes.members[node])
    if last < 0 or table.side[last] < 0:
        return
    child = np.int64(tree.children[node, np.int64(table.side[last])])
    at = find(table, tree.identity[child], np.int64(table.key[last] & 0xFFFFFFFF))
    if table.key[at] != EMPTY and table.active[at] != 0:
        leave(nodes, table, child, at)
    table.side[last] = NOWHERE


@device
def suspend(tree, nodes, guests, table, top, label):
    """Suspend a class in a node and in all nodes of its path below [MLOM §III.C]. Mutates: tree, nodes, table.

    Cost: O(depth x log classes).
    """
    node, deepest = top, top
    while node >= 0:  # [MLOM §III.C 3]: down to the end of its path
        at = find(table, tree.identity[node], label)
        if table.key[at] == EMPTY or table.active[at] == 0:
            break
        leave(nodes, table, node, at)  # [MLOM §III.C 2]: the last class may leave, too; the node stays
        side = np.int64(table.side[at])
        table.side[at] = NOWHERE
        deepest = node
        node = np.int64(tree.children[node, side]) if side >= 0 else NOBODY
    node = deepest
    while True:  # [MLOM §III.C 1], from the bottom: children to be deleted then have none themselves
        if not is_leaf(tree, node) and n_active(nodes, table, node) <= 1:
            end_path(tree, nodes, table, node)
            # DIFFERS [MLOM §III.C 1]: with guests the children stay, since guests go there
            if guests is None:
                remove_children(tree, nodes, node)
        if node == top:
            return
        node = np.int64(tree.parent[node])


# -- guests: not in the paper --------------------------------------------------------------------------------------


@inlined
def visit(model, guests, example, node, depth, options):
    """Send an example on from a node as in prediction, and count it at a leaf; whether that predicted its label.

    DIFFERS [MLOM Alg. 1]: the paper has no guests, rows that a router's sign sends away from their class. Routers
    learn them by their own mean; at nodes with at most one class, against the mean of all rows, as in a LOM tree.
    Mutates: model, guests. Cost: O(depth x non-zeros).
    """
    tree, nodes, table = model.tree, model.nodes, model.table
    label, weight = example.label, example.weight
    known, first = False, True
    while True:
        at = add_mass(table, tree.identity[node], label, weight)
        if is_leaf(tree, node):
            if first:
                known, first = online.predicts(tree, guests.candidates, node, label), False
            place(guests.candidates, node, label, table.mass[at])
            guests.margins.total[node] += weight
            if not may_split(tree, guests, model.seen, node, depth, options):
                return known
            add_children(tree, nodes, node)
        route = linear.score(model.router, node, example.batch, example.i)
        if n_active(nodes, table, node) < 2:
            target = online.route_target(guests.margins, table, node, at)
        else:
            own = online.mean(table.margin[at], table.margin_mass[at])
            target = 1.0 if own > centre(nodes, table, node, options) else -1.0
        if table.active[at] != 0:  # its class belongs to this node, as the only one
            note_mean(nodes, guests, table, node, at, route, weight)
        else:
            online.note_margin(guests.margins, table, node, at, online.clipped(route), weight)
        online.train_router(model.router, node, example, route, target, options.loss)
        node = np.int64(tree.children[node, online.side_of(route)])
        depth += 1


@device
def may_split(tree, guests, seen, node, depth, options):
    """Whether a leaf should split for its guests, by the rule of the LOM tree. Cost: O(1)."""
    candidates = guests.candidates
    beside = guests.margins.total[node] - candidates.mass[node, 0]
    if candidates.size[node] < 2 or beside <= options.split_mass or depth >= options.max_depth:
        return False
    return tree.n_nodes[0] < 2.0 * options.nodes_per_class * seen.n_labels[0]


# -- prediction without guests; with guests, `online_trees.predict_shares` -----------------------------------------


@device
def descend_to_class(tree, nodes, router, batch, i):
    """(leaf, depth) that row i reaches. Cost: O(depth x non-zeros).

    DIFFERS [MLOM §III.C 2]: a child without a class is replaced by its sibling, which has all classes of the parent.
    """
    node, depth = ROOT, np.int64(0)
    while not is_leaf(tree, node):
        side = online.side_of(linear.score(router, node, batch, i))
        child = np.int64(tree.children[node, side])
        if nodes.members[child] < 0:
            child = np.int64(tree.children[node, 1 - side])
        node = child
        depth += 1
    return node, depth


@device
def label_of(nodes, table, node):
    """The class of a leaf, the heaviest if a leaf at the depth limit has several; -1: none yet."""
    best = heaviest(table, np.int64(nodes.members[node]))
    return np.int64(table.key[best] & 0xFFFFFFFF) if best >= 0 else np.int64(-1)


@device
def predict_rows(model, batch, n_classes, found, known):
    """The loop of predict_classes. Mutates: found, known. Cost: O(depth x (non-zeros + k log classes)) per row."""
    tree, nodes, table = model.tree, model.nodes, model.table
    for r in range(found.labels.shape[0]):
        node, depth = descend_to_class(tree, nodes, model.router, batch, r)
        found.work[r, 0], found.work[r, 1], found.work[r, 2], found.work[r, 3] = depth, depth + 1, depth, 0
        labels, scores = found.labels[r], found.scores[r]
        size, score = np.int64(0), 0.0
        first = label_of(nodes, table, node)
        if first >= 0 and add_label(known, first, r):
            labels[0], scores[0], size, score = first, score, np.int64(1), -np.inf
        while node >= 0 and size < labels.shape[0]:
            top, at = np.int64(nodes.members[node]), np.int64(0)
            while at < size_of(table, top) and size < labels.shape[0]:
                label = np.int64(table.key[member(table, top, at)] & 0xFFFFFFFF)
                if add_label(known, label, r):
                    labels[size], scores[size] = label, score
                    size, score = size + 1, -np.inf
                at += 1
            node = np.int64(tree.parent[node])
        label = np.int64(0)
        while size < labels.shape[0] and label < n_classes:
            if add_label(known, label, r):
                labels[size], scores[size] = label, -np.inf
                size += 1
            label += 1


@kernel
def predict_classes(model, batch, n_classes, found):
    """The class of each row's leaf, then those of the nodes above, then the other classes. Mutates: found."""
    n_set = 4
    while n_set < 2 * found.labels.shape[1]:
        n_set *= 2
    known = LabelSet(np.empty(n_set, np.int32), np.full(n_set, -1, np.int64))
    predict_rows(model, batch, n_classes, found, known)


@kernel
def find_class_leaves(model, batch, leaves):
    """The leaf that each row reaches. Mutates: leaves. Cost: O(depth x non-zeros) per row."""
    for r in range(leaves.shape[0]):
        leaves[r], _ = descend_to_class(model.tree, model.nodes, model.router, batch, r)
