"""MLOM tree: Modified Logarithmic Time Online Multiclass Train and Prediction (2018), tagged [MLOM ...].

Its Alg. 1 -> learn_row, step by step; the objective's side (1) -> route_target; §III.C, suspending -> suspend, with its
three cases in `suspend` and `lose_children`; the means in order -> `ordered`.
"""

from typing import NamedTuple

import numpy as np

from . import banks
from .jit import inlined_leaf, leaf, njit
from .labels import EMPTY, entry_of, find, mass_of
from .lom_tree import is_leaf
from .margins import mean, router_pace, side_of, slope
from .ordered import NOBODY, insert, median, member, remove, size_of
from .sets import LabelSet, add_label
from .trees import DEEPEST, LEFT, RIGHT, ROOT, renew
from .updates import observe_scale

NOWHERE = -1


class Options(NamedTuple):
    """What an MLOM tree was asked to do, as numbers."""

    by_median: bool  # route against the median of the class means, not their mean
    max_depth: int
    loss: int
    update: int
    rate: float


@leaf
def centre(nodes, table, node, options):
    """Median or mean of the class means of a node [MLOM §III.B]. Cost: O(log classes), or O(1)."""
    top = np.int64(nodes.members[node])
    if options.by_median:
        return median(table, top)
    return mean(nodes.mean_sum[node], np.float64(size_of(table, top)))


@leaf
def n_active(nodes, table, node):
    """Classes that a node has, without those suspended. Cost: O(1)."""
    return size_of(table, np.int64(nodes.members[node]))


@leaf
def enter(nodes, table, node, at):
    """Let a class take part in a node, anew or as it was when suspended. Mutates: both. Cost: O(log classes)."""
    table.active[at] = 1
    nodes.members[node] = insert(table, np.int64(nodes.members[node]), at)
    nodes.mean_sum[node] += table.mean[at]


@leaf
def leave(nodes, table, node, at):
    """Take a class out of a node; its statistics stay. Mutates: nodes, table. Cost: O(log classes)."""
    nodes.members[node] = remove(table, np.int64(nodes.members[node]), at)
    nodes.mean_sum[node] -= table.mean[at]
    table.active[at] = 0


@leaf
def note_margin(nodes, table, node, at, margin, weight):
    """Take a margin into the mean of a class [MLOM Alg. 1 l.4]. Mutates: nodes, table. Cost: O(log classes)."""
    leave(nodes, table, node, at)
    table.margin[at] += min(1.0, max(-1.0, margin)) * weight
    table.taught[at] += weight
    table.mean[at] = mean(table.margin[at], table.taught[at])
    enter(nodes, table, node, at)


# -- children come and go ------------------------------------------------------------------------------------------


@leaf
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


@leaf
def give_birth(tree, nodes, node):
    """Two children that know nothing [MLOM Alg. 1 l.5]. Mutates: tree, nodes. Cost: O(1)."""
    for side in (LEFT, RIGHT):
        child = take_node(tree, nodes)
        renew(tree, child, node, side)
        nodes.members[child], nodes.mean_sum[child] = NOBODY, 0.0


@leaf
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


@leaf
def suspend(tree, nodes, table, top, label):
    """Suspend a class in a node and in all below it that it goes to [MLOM §III.C]. Mutates: all.

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
            lose_children(tree, nodes, node)
            forget_sides(nodes, table, node)
        if node == top:
            return
        node = np.int64(tree.parent[node])


@leaf
def forget_sides(nodes, table, node):
    """The one class that is left goes nowhere from here. Mutates: table. Cost: O(1)."""
    last = np.int64(nodes.members[node])
    if last >= 0:
        table.side[last] = NOWHERE


# -- learning ------------------------------------------------------------------------------------------------------


@leaf
def has_room(tree, table):
    """Whether one more example surely fits: it gives birth to two nodes at most."""
    return tree.n_nodes[0] + 2 <= tree.parent.shape[0] and 2 * (table.n_entries[0] + DEEPEST + 2) <= table.key.shape[0]


@inlined_leaf
def learn_row(tree, nodes, router, table, batch, i, label, weight, step, scale, options):
    """Let (row i, label) descend to its leaf [MLOM Alg. 1]. Mutates: all but scale.

    Cost: O(depth x (non-zeros + log classes)) unless classes change their side.
    """
    node, depth = ROOT, np.int64(0)
    while True:
        at = entry_of(table, tree.identity[node], label)
        table.mass[at] += weight
        if table.active[at] == 0:  # [MLOM Alg. 1 l.1]
            enter(nodes, table, node, at)
        if is_leaf(tree, node):
            if n_active(nodes, table, node) < 2 or depth >= options.max_depth:
                return
            give_birth(tree, nodes, node)  # [MLOM Alg. 1 l.5]
        route = banks.score(router, node, batch, i)
        target = 1.0 if table.mean[at] > centre(nodes, table, node, options) else -1.0  # [MLOM Alg. 1 l.2, (1)]
        gradient = slope(options.loss, route, target)
        if gradient != 0.0:
            banks.learn(router, node, batch, i, gradient * weight, step, scale)  # [MLOM Alg. 1 l.3]
        note_margin(nodes, table, node, at, route, weight)  # [MLOM Alg. 1 l.4]
        side, before = side_of(target), np.int64(table.side[at])
        if before >= 0 and before != side:
            suspend(tree, nodes, table, np.int64(tree.children[node, before]), label)  # [MLOM Alg. 1 l.6]
        table.side[at] = side
        node = np.int64(tree.children[node, side])  # [MLOM Alg. 1 l.7]
        depth += 1


@leaf
def descend(tree, nodes, router, table, batch, i):
    """(leaf, depth) that row i comes to. Cost: O(depth x non-zeros).

    DIFFERS [MLOM §III.C 2]: a child without a class is passed over for its sibling, which has all that the parent has.
    """
    node, depth = ROOT, np.int64(0)
    while not is_leaf(tree, node):
        side = side_of(banks.score(router, node, batch, i))
        child = np.int64(tree.children[node, side])
        if nodes.members[child] < 0:
            child = np.int64(tree.children[node, 1 - side])
        node = child
        depth += 1
    return node, depth


@leaf
def label_of(nodes, table, node):
    """The class of a leaf, the first in order where a leaf at the depth limit has several; -1: none yet."""
    top = np.int64(nodes.members[node])
    return np.int64(table.key[top] & 0xFFFFFFFF) if top >= 0 else np.int64(-1)


@leaf
def learn_rows(
    tree, nodes, router, table, scale, seen, batch, labels, weights, begin, options
):  # fmt: skip
    """The loop of learn_batch, one example after the other. Mutates: all groups."""
    for i in range(begin, labels.shape[0]):
        label, weight = np.int64(labels[i]), weights[i]
        if weight <= 0.0:
            continue
        if not has_room(tree, table):
            return i
        # Answer before learning: progressive validation that no update can have leaked into.
        leaf_node, _ = descend(tree, nodes, router, table, batch, i)
        seen.mass[0] += weight
        seen.wrong_mass[0] += 0.0 if label_of(nodes, table, leaf_node) == label else weight
        if mass_of(table, ROOT, label) == 0.0:
            seen.n_labels[0] += 1
        seen.n_rows[0] += 1
        sq_norm = observe_scale(scale, batch, i)
        step = router_pace(options.update, options.rate, scale, sq_norm)
        learn_row(tree, nodes, router, table, batch, i, label, weight, step, scale, options)
    return labels.shape[0]


@njit
def learn_batch(
    tree, nodes, router, table, scale, seen, batch, labels, weights, begin, options
):  # fmt: skip
    """Learn the rows from `begin` on [MLOM Alg. 1]; return where it ended for want of room. Mutates: all groups."""
    return learn_rows(
        tree, nodes, router, table, scale, seen, batch, labels, weights, begin, options
    )  # fmt: skip


# -- answers -------------------------------------------------------------------------------------------------------


@inlined_leaf
def answer(tree, nodes, table, node, n_classes, stamp, labels, scores, known):
    """The class of a leaf, then those of the nodes above it, then the rest. Mutates: labels, scores, known.

    Cost: O(answers x depth x log classes).
    """
    size, score = np.int64(0), 0.0
    while node >= 0 and size < labels.shape[0]:
        top = np.int64(nodes.members[node])
        place = np.int64(0)
        while place < size_of(table, top) and size < labels.shape[0]:
            label = np.int64(table.key[member(table, top, place)] & 0xFFFFFFFF)
            if add_label(known, label, stamp):
                labels[size], scores[size] = label, score
                size, score = size + 1, -np.inf
            place += 1
        node = np.int64(tree.parent[node])
    label = np.int64(0)
    while size < labels.shape[0] and label < n_classes:
        if add_label(known, label, stamp):
            labels[size], scores[size] = label, -np.inf
            size += 1
        label += 1


@leaf
def predict_rows(tree, nodes, router, table, batch, n_classes, labels, scores, work, known):
    """The loop of predict_batch. Mutates: labels, scores, work, known. Cost: O(depth x non-zeros) a row."""
    for r in range(labels.shape[0]):
        node, depth = descend(tree, nodes, router, table, batch, r)
        answer(tree, nodes, table, node, n_classes, r, labels[r], scores[r], known)
        work[r, 0], work[r, 1], work[r, 2], work[r, 3] = depth, depth + 1, depth, 0


@njit
def predict_batch(tree, nodes, router, table, batch, n_classes, labels, scores, work):
    """The best labels of all rows, and what they cost: depth, nodes visited, routers scored, no candidates scored.

    Mutates: labels, scores, work.
    """
    n_set = 4
    while n_set < 2 * labels.shape[1]:
        n_set *= 2
    known = LabelSet(np.empty(n_set, np.int32), np.full(n_set, -1, np.int64))
    predict_rows(tree, nodes, router, table, batch, n_classes, labels, scores, work, known)


@njit
def leaves_batch(tree, nodes, router, table, batch, leaves):
    """The leaf that each row comes to. Mutates: leaves. Cost: O(depth x non-zeros) a row."""
    for r in range(leaves.shape[0]):
        leaves[r], _ = descend(tree, nodes, router, table, batch, r)
