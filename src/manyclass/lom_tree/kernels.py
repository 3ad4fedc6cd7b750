"""The online tree of 2013 [OT ...], and the LOM tree that its authors made of it in 2015 [LOM ...].

OT Algorithm 1 is `learn_rows` and `learn_row`, its lines in the paper's order. The means, the target and the step of a
router are in `core/online_trees.py`: `note_margin`, `route_target`, `train_router`. LOM's growth follows: `split`,
SetNode (`renew` in the same file), UpdateC (`raise_smallest`) and Swap (`lightest_leaf`, `recycle`).
"""

from typing import Annotated, NamedTuple

import numpy as np

from ..core import linear
from ..core import online_trees as online
from ..core.labels import add_mass, place
from ..core.state import Array, Candidates, Field, Linear, Scale, Seen
from ..core.trees import DEEPEST, LEFT, RIGHT, ROOT, is_leaf
from ..core.updates import count_prediction
from ..jit import device, inlined, kernel

SIGN, TARGET = 0, 1  # descent
CORRECTED, PRINTED = 0, 1  # rules
HALF = 0.5

# What one row may add: it splits one leaf at most, and is counted at every node of its path.
NEW_NODES, NEW_ENTRIES = 2, DEEPEST + 2


class Options(NamedTuple):
    """Resolved options of a LOM tree."""

    swap: bool
    swap_resistance: float  # R_S
    nodes_per_class: float  # limit of inner nodes, times the labels seen
    split_mass: float  # mass beside the heaviest label above which a leaf splits
    max_depth: int
    descent: int  # in training: SIGN of the router, or its TARGET
    loss: int  # of `online_trees`
    table_bits: int
    update: int
    rate: float
    decay: float
    rules: int  # CORRECTED, or PRINTED as in [OT]


class MarginTable(NamedTuple):
    """Open addressing on (identity, label): mass of all rows, and sum and mass of the margins."""

    key: Annotated[Array, Field("i8", ("entry",), -1)]
    mass: Annotated[Array, Field("f8", ("entry",), 0)]
    margin: Annotated[Array, Field("f8", ("entry",), 0)]
    margin_mass: Annotated[Array, Field("f8", ("entry",), 0)]
    n_entries: Annotated[Array, Field("i8", ("one",))]


class Model(NamedTuple):
    """The groups of a LOM tree."""

    tree: online.GrownTree
    nodes: online.NodeMargins
    router: Linear
    candidates: Candidates
    table: MarginTable
    scale: Scale
    seen: Seen


# -- learning [OT Alg. 1] ------------------------------------------------------------------------------------------


@kernel
def learn_batch(model, batch, labels, weights, begin, options):
    """Learn the rows from `begin` on; return the first that may not fit into the arrays. Mutates: model."""
    return learn_rows(model, batch, labels, weights, begin, options)


@device
def learn_rows(model, batch, labels, weights, begin, options):
    """The loop of learn_batch, one example after the other [OT Alg. 1 l.3]. Mutates: model."""
    tree, candidates, seen = model.tree, model.candidates, model.seen
    for i in range(begin, labels.shape[0]):
        label, weight = np.int64(labels[i]), weights[i]
        if weight <= 0.0:
            continue
        if not online.has_room(tree, model.table, NEW_NODES, new_entries(options)):
            return i
        step = online.next_step(model.table, model.scale, seen, batch, i, label, options)
        example = online.Example(batch, i, label, weight, step, model.scale)
        # Progressive validation. With descent by the sign, the training path is that of a prediction just before.
        by_target = options.descent == TARGET
        right = by_target and online.predicts(tree, candidates, online.descend(tree, model.router, batch, i)[0], label)
        known, routes = learn_row(model, example, options)
        count_prediction(seen, right or (known and not by_target), weight, routes)
    return labels.shape[0]


@inlined
def learn_row(model, example, options):
    """Send an example to a leaf and train the routers on its path [OT Alg. 1].

    Returns whether the leaf predicted its label, and the sum of the routes, which is finite if all are. Mutates: model.
    Cost: O(depth x non-zeros + slots).
    """
    tree, nodes, router, candidates, table = model.tree, model.nodes, model.router, model.candidates, model.table
    label, weight = example.label, example.weight
    known, first, routes = False, True, 0.0
    node, depth = ROOT, np.int64(0)  # [OT Alg. 1 l.4]
    while True:
        at = add_mass(table, tree.identity[node], label, weight)
        if is_leaf(tree, node):  # [OT Alg. 1 l.5]
            if first:
                known, first = online.predicts(tree, candidates, node, label), False
            nodes.total[node] += weight
            place(candidates, node, label, table.mass[at])
            has_nodes = tree.n_nodes[0] < 2.0 * options.nodes_per_class * model.seen.n_labels[0]
            splits = may_split(nodes, candidates, node, depth, has_nodes, options)
            if not splits or not split(tree, nodes, candidates, node, has_nodes):
                nodes.smallest[node] += weight
                raise_smallest(tree, nodes, node)
                return known, routes
            if options.rules == PRINTED:
                return known, routes + divide(model, example, node, options)
        route = linear.score(router, node, example.batch, example.i)
        routes += route
        # DIFFERS [OT Alg. 1 l.6-8]: the means of the rows before, as in LOM; else a label's own margin would choose its
        # side. DIFFERS [LOM Alg. 1]: the margin before the router's step, as OT, not after it.
        if options.rules == PRINTED:
            online.note_margin(nodes, table, node, at, route, weight)  # [OT Alg. 1 l.6-7]
            target = HALF * online.route_target(nodes, table, node, at)
        else:
            target = online.route_target(nodes, table, node, at)  # [OT Alg. 1 l.8-11]
            online.note_margin(nodes, table, node, at, online.clipped(route), weight)
        online.train_router(router, node, example, route, target, options.loss)  # [OT Alg. 1 l.12]
        # DIFFERS [OT Alg. 1 l.13]: by the router's sign, as in LOM, and before its step, which knows the label. Leaves
        # then see the same rows as in prediction. TARGET is the printed rule.
        node = np.int64(tree.children[node, online.side_of(target if options.descent == TARGET else route)])
        depth += 1


# -- growth [OT Alg. 1, last lines; LOM] ---------------------------------------------------------------------------


@device
def may_split(nodes, candidates, node, depth, has_nodes, options):
    """Whether a leaf should split; `has_nodes`: new nodes are allowed [OT Alg. 1, p_thr; LOM Alg. 1]. Cost: O(1).

    DIFFERS [LOM Alg. 1]: more than split_mass beside the heaviest label, not at the second label; and at most
    nodes_per_class inner nodes for each label seen, not T, since K need not be known.
    """
    beside = nodes.total[node] - candidates.mass[node, 0]
    if candidates.size[node] < 2 or beside <= options.split_mass or depth >= options.max_depth:
        return False
    return has_nodes or (options.swap and beside > options.swap_resistance * (nodes.smallest[ROOT] + 1.0))


@device
def split(tree, nodes, candidates, node, has_nodes):
    """Give a leaf two children, new or recycled; whether it was possible. Mutates: tree, nodes, candidates.

    Cost: O(depth). DIFFERS [OT Alg. 1 l.15-18]: both children start empty, as in LOM, none as a copy.
    DIFFERS [LOM SetNode]: a recycled node keeps its router, as in VW; the paper does not mention it.
    """
    if has_nodes:
        left, right = np.int64(tree.n_nodes[0]), np.int64(tree.n_nodes[0] + 1)
        tree.n_nodes[0] += 2
    else:
        left = lightest_leaf(tree, nodes)
        # DIFFERS [LOM Swap]: not if the orphan has no grandparent, a case that the paper does not mention
        if left == node or tree.parent[left] <= ROOT:
            return False
        right = recycle(tree, nodes, left)
    for side, child in ((LEFT, left), (RIGHT, right)):
        online.renew(tree, child, node, side)
        nodes.total[child] = nodes.margin[child] = nodes.margin_mass[child] = candidates.covered[child] = 0.0
        candidates.size[child] = 0
        # DIFFERS [LOM Alg. 1, C_left and C_right]: halves of a mass, not rounded down and up
        nodes.smallest[child] = nodes.total[node] / 2.0
    raise_smallest(tree, nodes, left)
    return True


@device
def divide(model, example, node, options):
    """What two new children of a leaf begin with, as printed [OT Alg. 1 l.15-18]; return the route of the example.

    The left one is a copy of the leaf, the right one has the label of the example. Targets 0 and 1 with a threshold at
    1/2 are the targets -1/2 and 1/2 of a router whose bias begins at -1/2. The router of a leaf has learned nothing:
    its copy is a new one, and the step towards 0 that the right one makes is none, since it begins at 0.
    Mutates: model. Cost: O(non-zeros + slots).
    """
    tree, router, candidates, table = model.tree, model.router, model.candidates, model.table
    left, right = np.int64(tree.children[node, LEFT]), np.int64(tree.children[node, RIGHT])
    for s in range(candidates.size[node]):
        label = np.int64(candidates.label[node, s])
        at = add_mass(table, tree.identity[left], label, candidates.mass[node, s])
        place(candidates, left, label, table.mass[at])
    at = add_mass(table, tree.identity[right], example.label, example.weight)
    place(candidates, right, example.label, example.weight)
    model.nodes.total[left], model.nodes.total[right] = model.nodes.total[node], example.weight
    for child in (left, right):
        router.bias[child] = -HALF
    route = linear.score(router, node, example.batch, example.i)
    online.train_router(router, node, example, route, HALF, options.loss)
    return route


@device
def new_entries(options):
    """The most entries of the table that one row may add."""
    return NEW_ENTRIES + (online.SLOTS + 1 if options.rules == PRINTED else 0)


@device
def raise_smallest(tree, nodes, node):
    """Update the mass of the lightest leaf below each ancestor [LOM UpdateC]. Mutates: nodes. Cost: O(depth)."""
    parent = np.int64(tree.parent[node])
    while parent >= 0:
        lightest = min(nodes.smallest[tree.children[parent, LEFT]], nodes.smallest[tree.children[parent, RIGHT]])
        if nodes.smallest[parent] == lightest:
            return
        nodes.smallest[parent] = lightest
        parent = np.int64(tree.parent[parent])


@device
def lightest_leaf(tree, nodes):
    """The leaf that the fewest rows reached [LOM Swap l.1]. Cost: O(depth)."""
    node = ROOT
    while not is_leaf(tree, node):
        left = np.int64(tree.children[node, LEFT])
        node = left if nodes.smallest[left] == nodes.smallest[node] else np.int64(tree.children[node, RIGHT])
    return node


@device
def recycle(tree, nodes, orphan):
    """Remove a leaf and its parent from the tree; its sibling moves up. Return the parent [LOM Swap l.2-5].

    Mutates: tree, nodes. Cost: O(depth).
    """
    parent = np.int64(tree.parent[orphan])
    above = np.int64(tree.parent[parent])
    sibling = np.int64(tree.children[parent, LEFT])
    if sibling == orphan:
        sibling = np.int64(tree.children[parent, RIGHT])
    side = LEFT if tree.children[above, LEFT] == parent else RIGHT
    tree.children[above, side] = sibling
    tree.parent[sibling] = above
    raise_smallest(tree, nodes, sibling)
    return parent
