"""MLOM tree: Modified Logarithmic Time Online Multiclass Train and Prediction (2018), tagged [MLOM ...].

Its Alg. 1 -> learn_row, step by step; the objective's side (1) -> centre; §III.C, suspending -> suspend, with its
three cases in `suspend` and `lose_children`; the means in order -> `ordered`. Past the paper, where `guests` and
`candidates` are not None: rows that a router's sign leads away from their class -> visit.
"""

from typing import NamedTuple

import numpy as np

from ..core import linear
from ..core.labels import EMPTY, LabelSet, add_label, add_mass, entry_of, find, mass_of, place
from ..core.margins import answer as answer_shares
from ..core.margins import answers, mean, note_margin, route_target, router_pace, side_of, teach
from ..core.trees import DEEPEST, LEFT, RIGHT, ROOT, is_leaf, renew
from ..core.updates import observe_scale
from ..jit import device, inlined, kernel
from .ordered import NOBODY, heaviest, insert, median, member, remove, size_of

NOWHERE = -1


class Options(NamedTuple):
    """What an MLOM tree was asked to do, as numbers."""

    median_from: int  # route against the median of the class means where there are so many, else against their mean
    nodes_per_class: float  # a leaf splits for its guests while inner nodes are fewer than this times the labels seen
    split_mass: float  # and the mass beside its heaviest label is more than this
    max_depth: int
    loss: int
    update: int
    rate: float


@device
def centre(nodes, table, node, options):
    """Median or mean of the class means of a node [MLOM §III.B]. Cost: O(log classes), or O(1).

    DIFFERS [MLOM §III.B]: by default the median only where there are many classes; halving a few costs accuracy.
    """
    top = np.int64(nodes.members[node])
    if size_of(table, top) >= options.median_from:
        return median(table, top)
    return mean(nodes.mean_sum[node], np.float64(size_of(table, top)))


@device
def n_active(nodes, table, node):
    """Classes that a node has, without those suspended. Cost: O(1)."""
    return size_of(table, np.int64(nodes.members[node]))


@device
def enter(nodes, table, node, at):
    """Let a class take part in a node, anew or as it was when suspended. Mutates: both. Cost: O(log classes)."""
    table.active[at] = 1
    table.mean[at] = mean(table.margin[at], table.taught[at])
    nodes.members[node] = insert(table, np.int64(nodes.members[node]), at)
    nodes.mean_sum[node] += table.mean[at]


@device
def leave(nodes, table, node, at):
    """Take a class out of a node; its statistics stay. Mutates: nodes, table. Cost: O(log classes)."""
    nodes.members[node] = remove(table, np.int64(nodes.members[node]), at)
    nodes.mean_sum[node] -= table.mean[at]
    table.active[at] = 0


@device
def note_mean(nodes, guests, table, node, at, margin, weight):
    """Take a margin into the mean of a class [MLOM Alg. 1 l.4]. Mutates: all groups. Cost: O(log classes)."""
    leave(nodes, table, node, at)
    cut = min(1.0, max(-1.0, margin)) * weight
    table.margin[at] += cut
    table.taught[at] += weight
    enter(nodes, table, node, at)
    if guests is not None:
        guests.margin[node] += cut
        guests.taught[node] += weight


# -- children come and go ------------------------------------------------------------------------------------------


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
def give_birth(tree, nodes, node):
    """Two children that know nothing [MLOM Alg. 1 l.5]. Mutates: tree, nodes. Cost: O(1).

    DIFFERS [MLOM §III.C 1]: a node used again keeps its router, of which the paper says nothing, as in the LOM tree.
    """
    for side in (LEFT, RIGHT):
        child = take_node(tree, nodes)
        renew(tree, child, node, side)
        nodes.members[child], nodes.mean_sum[child] = NOBODY, 0.0


@device
def lose_children(tree, nodes, node):
    """Delete the children, which are leaves by then [MLOM §III.C 1]. Mutates: tree, nodes. Cost: O(1)."""
    for side in (LEFT, RIGHT):
        child = np.int64(tree.children[node, side])
        tree.children[node, side] = -1
        tree.parent[child] = -1
        nodes.members[child] = NOBODY
        nodes.next_free[child] = nodes.first_free[0]
        nodes.first_free[0] = child
        nodes.n_free[0] += 1


@device
def come_home(tree, nodes, table, node):
    """The one class that is left goes nowhere from here: it leaves the child it went to. Mutates: nodes, table.

    Cost: O(log classes). That child has no other class, so that the way ended there.
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
    """Suspend a class in a node and in all below it that it goes to [MLOM §III.C]. Mutates: tree, nodes, table.

    Cost: O(depth x log classes).
    """
    node, deepest = top, top
    while node >= 0:  # [MLOM §III.C 3]: down to where it ends
        at = find(table, tree.identity[node], label)
        if table.key[at] == EMPTY or table.active[at] == 0:
            break
        leave(nodes, table, node, at)  # [MLOM §III.C 2]: the last class may go, too; the node stays
        side = np.int64(table.side[at])
        table.side[at] = NOWHERE
        deepest = node
        node = np.int64(tree.children[node, side]) if side >= 0 else NOBODY
    node = deepest
    while True:  # [MLOM §III.C 1], the lowest first: then children to delete have none themselves
        if not is_leaf(tree, node) and n_active(nodes, table, node) <= 1:
            come_home(tree, nodes, table, node)
            # DIFFERS [MLOM §III.C 1]: with guests the children stay, for these go on to them
            if guests is None:
                lose_children(tree, nodes, node)
        if node == top:
            return
        node = np.int64(tree.parent[node])


# -- learning ------------------------------------------------------------------------------------------------------


@device
def has_room(tree, table):
    """Whether one more example surely fits: it gives birth to two nodes at home and to two as a guest."""
    return (
        tree.n_nodes[0] + 4 <= tree.parent.shape[0]
        and 2 * (table.n_entries[0] + 2 * (DEEPEST + 2)) <= table.key.shape[0]
    )


@device
def may_split(tree, guests, candidates, seen, node, depth, options):
    """Whether a leaf has guests enough that should part; the rule of the LOM tree. Cost: O(1)."""
    beside = guests.total[node] - candidates.mass[node, 0]
    if candidates.size[node] < 2 or beside <= options.split_mass or depth >= options.max_depth:
        return False
    return tree.n_nodes[0] < 2.0 * options.nodes_per_class * seen.n_labels[0]


@inlined
def visit(
    tree, nodes, guests, candidates, router, table, seen, batch, i, label, weight, step, scale, node, depth, options
):  # fmt: skip
    """Let (row i, label) go on from a node as an answer would, to be counted at a leaf; whether that knew the label.

    DIFFERS [MLOM Alg. 1]: the paper has no guests, rows that a router's sign leads away from their class. A router
    learns them by their own mean, at nodes with at most one class against that of all rows, as in a LOM tree.
    Mutates: all but seen, scale. Cost: O(depth x non-zeros).
    """
    known, first = False, True
    while True:
        at = add_mass(table, tree.identity[node], label, weight)
        if is_leaf(tree, node):
            if first:
                known, first = answers(tree, candidates, node, label), False
            place(candidates, node, label, table.mass[at])
            guests.total[node] += weight
            if not may_split(tree, guests, candidates, seen, node, depth, options):
                return known
            give_birth(tree, nodes, node)
        route = linear.score(router, node, batch, i)
        if n_active(nodes, table, node) < 2:
            target = route_target(guests, table, node, at)
        else:
            own = mean(table.margin[at], table.taught[at])
            target = 1.0 if own > centre(nodes, table, node, options) else -1.0
        if table.active[at] != 0:  # at home here, the only class
            note_mean(nodes, guests, table, node, at, route, weight)
        else:
            note_margin(guests, table, node, at, route, weight)
        teach(router, node, batch, i, route, target, weight, step, scale, options.loss)
        node = np.int64(tree.children[node, side_of(route)])
        depth += 1


@inlined
def learn_row(
    tree, nodes, guests, candidates, router, table, seen, batch, i, label, weight, step, scale, options
):  # fmt: skip
    """Let (row i, label) descend to its class's leaf [MLOM Alg. 1]; with guests, whether the answer before was right.

    Mutates: all but seen, scale. Cost: O(depth x (non-zeros + log classes)) unless classes change their side.
    """
    node, depth, known = ROOT, np.int64(0), False
    astray = False  # whether a router's sign has led away from the class
    while True:
        at = entry_of(table, tree.identity[node], label)
        if table.active[at] == 0:  # [MLOM Alg. 1 l.1]
            enter(nodes, table, node, at)
        if n_active(nodes, table, node) < 2 or (is_leaf(tree, node) and depth >= options.max_depth):
            break
        if is_leaf(tree, node):
            give_birth(tree, nodes, node)  # [MLOM Alg. 1 l.5]
        if not astray:
            table.mass[at] += weight
        side = np.int64(table.side[at])
        if not astray or side < 0:  # a row astray teaches only where its class has no way yet
            route = linear.score(router, node, batch, i)
            target = 1.0 if table.mean[at] > centre(nodes, table, node, options) else -1.0  # [MLOM Alg. 1 l.2, (1)]
            if guests is not None:
                if not astray and side_of(route) != side_of(target):
                    astray, child = True, np.int64(tree.children[node, side_of(route)])
                    known = visit(
                        tree, nodes, guests, candidates, router, table, seen,
                        batch, i, label, weight, step, scale, child, depth + 1, options,
                    )  # fmt: skip
            teach(router, node, batch, i, route, target, weight, step, scale, options.loss)  # [MLOM Alg. 1 l.3]
            note_mean(nodes, guests, table, node, at, route, weight)  # [MLOM Alg. 1 l.4]
            if side >= 0 and side != side_of(target):
                suspend(tree, nodes, guests, table, np.int64(tree.children[node, side]), label)  # [MLOM Alg. 1 l.6]
            side = side_of(target)
            table.side[at] = side
        node = np.int64(tree.children[node, side])  # [MLOM Alg. 1 l.7]
        depth += 1
    if guests is None:
        table.mass[at] += weight
    elif not astray:
        known = visit(
            tree, nodes, guests, candidates, router, table, seen,
            batch, i, label, weight, step, scale, node, depth, options,
        )  # fmt: skip
    return known


@device
def descend(tree, nodes, router, table, batch, i, pass_over):
    """(leaf, depth) that row i comes to. Cost: O(depth x non-zeros).

    DIFFERS [MLOM §III.C 2]: a child without a class is passed over for its sibling, which has all that the parent has;
    not with guests, who may have been there.
    """
    node, depth = ROOT, np.int64(0)
    while not is_leaf(tree, node):
        side = side_of(linear.score(router, node, batch, i))
        child = np.int64(tree.children[node, side])
        if pass_over and nodes.members[child] < 0:
            child = np.int64(tree.children[node, 1 - side])
        node = child
        depth += 1
    return node, depth


@device
def label_of(nodes, table, node):
    """The class of a leaf, the heaviest where a leaf at the depth limit has several; -1: none yet."""
    best = heaviest(table, np.int64(nodes.members[node]))
    return np.int64(table.key[best] & 0xFFFFFFFF) if best >= 0 else np.int64(-1)


@device
def learn_rows(
    tree, nodes, guests, candidates, router, table, scale, seen, batch, labels, weights, begin, options
):  # fmt: skip
    """The loop of learn_batch, one example after the other. Mutates: all groups."""
    for i in range(begin, labels.shape[0]):
        label, weight = np.int64(labels[i]), weights[i]
        if weight <= 0.0:
            continue
        if not has_room(tree, table):
            return i
        known = False
        if guests is None:
            # Answer before learning: progressive validation that no update can have leaked into.
            known = label_of(nodes, table, descend(tree, nodes, router, table, batch, i, True)[0]) == label
        if mass_of(table, ROOT, label) == 0.0:
            seen.n_labels[0] += 1
        seen.n_rows[0] += 1
        sq_norm = observe_scale(scale, batch, i)
        step = router_pace(options.update, options.rate, scale, sq_norm)
        found = learn_row(
            tree, nodes, guests, candidates, router, table, seen, batch, i, label, weight, step, scale, options
        )  # fmt: skip
        seen.mass[0] += weight
        seen.wrong_mass[0] += 0.0 if known or found else weight
    return labels.shape[0]


@kernel
def learn_batch(
    tree, nodes, guests, candidates, router, table, scale, seen, batch, labels, weights, begin, options
):  # fmt: skip
    """Learn the rows from `begin` on [MLOM Alg. 1]; return where it ended for want of room. Mutates: all groups."""
    return learn_rows(
        tree, nodes, guests, candidates, router, table, scale, seen, batch, labels, weights, begin, options
    )  # fmt: skip


# -- answers -------------------------------------------------------------------------------------------------------


@inlined
def answer_classes(tree, nodes, table, node, n_classes, stamp, labels, scores, known):
    """The class of a leaf, then those of the nodes above it, then the rest. Mutates: labels, scores, known.

    Cost: O(answers x depth x log classes).
    """
    size, score = np.int64(0), 0.0
    first = label_of(nodes, table, node)
    if first >= 0 and add_label(known, first, stamp):
        labels[0], scores[0], size, score = first, score, np.int64(1), -np.inf
    while node >= 0 and size < labels.shape[0]:
        top, at = np.int64(nodes.members[node]), np.int64(0)
        while at < size_of(table, top) and size < labels.shape[0]:
            label = np.int64(table.key[member(table, top, at)] & 0xFFFFFFFF)
            if add_label(known, label, stamp):
                labels[size], scores[size] = label, score
                size, score = size + 1, -np.inf
            at += 1
        node = np.int64(tree.parent[node])
    label = np.int64(0)
    while size < labels.shape[0] and label < n_classes:
        if add_label(known, label, stamp):
            labels[size], scores[size] = label, -np.inf
            size += 1
        label += 1


@device
def predict_rows(tree, nodes, candidates, router, table, batch, n_classes, labels, scores, work, known):
    """The loop of predict_batch. Mutates: labels, scores, work, known. Cost: O(depth x non-zeros) a row."""
    for r in range(labels.shape[0]):
        node, depth = descend(tree, nodes, router, table, batch, r, candidates is None)
        if candidates is None:
            answer_classes(tree, nodes, table, node, n_classes, r, labels[r], scores[r], known)
        else:
            answer_shares(tree, candidates, node, n_classes, r, labels[r], scores[r], known)
        work[r, 0], work[r, 1], work[r, 2], work[r, 3] = depth, depth + 1, depth, 0


@kernel
def predict_batch(tree, nodes, candidates, router, table, batch, n_classes, labels, scores, work):
    """The best labels of all rows, and what they cost: depth, nodes visited, routers scored, no candidates scored.

    Mutates: labels, scores, work.
    """
    slots = 0 if candidates is None else candidates.label.shape[1]
    n_set = 4
    while n_set < 2 * (labels.shape[1] + slots):
        n_set *= 2
    known = LabelSet(np.empty(n_set, np.int32), np.full(n_set, -1, np.int64))
    predict_rows(tree, nodes, candidates, router, table, batch, n_classes, labels, scores, work, known)


@kernel
def leaves_batch(tree, nodes, candidates, router, table, batch, leaves):
    """The leaf that each row comes to. Mutates: leaves. Cost: O(depth x non-zeros) a row."""
    for r in range(leaves.shape[0]):
        leaves[r], _ = descend(tree, nodes, router, table, batch, r, candidates is None)
