"""Online tree of 2013 [OT ...], and the LOM tree that its authors made of it [LOM ...].

OT Alg. 1 -> learn_rows, learn_row; its means and target -> route_target and `margins`; its last lines, the birth of
children -> split; LOM's SetNode -> trees.renew; UpdateC -> raise_smallest; Swap -> recycle.
"""

from typing import NamedTuple

import numpy as np

from ..core import linear
from ..core.labels import LabelSet, entry_of, mass_of, place
from ..core.margins import answer, answers, note_margin, route_target, router_pace, side_of, teach
from ..core.trees import DEEPEST, LEFT, RIGHT, ROOT, is_leaf, renew
from ..core.updates import observe_scale
from ..jit import device, inlined, kernel


class Options(NamedTuple):
    """What a LOM tree was asked to do, as numbers."""

    swap: bool
    swap_resistance: float  # R_S
    nodes_per_class: float  # inner nodes at most so many times the labels seen
    split_mass: float  # mass beside the heaviest label above which a leaf splits
    max_depth: int
    by_target: bool  # descend in training by the target, not by the router's sign
    loss: int
    update: int
    rate: float


# -- growth --------------------------------------------------------------------------------------------------------


@device
def raise_smallest(tree, nodes, node):
    """Tell the ancestors how light their lightest leaf is [LOM UpdateC]. Mutates: nodes. Cost: O(depth)."""
    parent = np.int64(tree.parent[node])
    while parent >= 0:
        lightest = min(nodes.smallest[tree.children[parent, LEFT]], nodes.smallest[tree.children[parent, RIGHT]])
        if nodes.smallest[parent] == lightest:
            return
        nodes.smallest[parent] = lightest
        parent = np.int64(tree.parent[parent])


@device
def lightest_leaf(tree, nodes):
    """The leaf that fewest rows came to [LOM Swap l.1]. Cost: O(depth)."""
    node = ROOT
    while not is_leaf(tree, node):
        left = np.int64(tree.children[node, LEFT])
        node = left if nodes.smallest[left] == nodes.smallest[node] else np.int64(tree.children[node, RIGHT])
    return node


@device
def recycle(tree, nodes, orphan):
    """Take a leaf and its parent out of the tree; the sibling moves up. Return the parent [LOM Swap l.2-5].

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


@device
def may_split(tree, nodes, candidates, seen, node, depth, options):
    """Whether a leaf holds labels enough that should part [OT Alg. 1, p_thr; LOM Alg. 1]. Cost: O(1).

    DIFFERS [LOM Alg. 1]: more than split_mass beside the heaviest label, not the second label at once; and at most
    nodes_per_class inner nodes for each label seen, not T, since K need not be known.
    """
    beside = nodes.total[node] - candidates.mass[node, 0]
    if candidates.size[node] < 2 or beside <= options.split_mass or depth >= options.max_depth:
        return False
    if tree.n_nodes[0] < 2.0 * options.nodes_per_class * seen.n_labels[0]:
        return True
    return options.swap and beside > options.swap_resistance * (nodes.smallest[ROOT] + 1.0)


@device
def split(tree, nodes, candidates, seen, node, options):
    """Give a leaf two children, new or recycled; whether it could be done. Mutates: tree, nodes, candidates.

    Cost: O(depth). DIFFERS [OT Alg. 1 l.16-19]: both children begin with nothing, as in LOM, none as a copy.
    DIFFERS [LOM SetNode]: a recycled node keeps its router, as in VW; the paper says nothing of it.
    """
    if tree.n_nodes[0] < 2.0 * options.nodes_per_class * seen.n_labels[0]:
        left, right = np.int64(tree.n_nodes[0]), np.int64(tree.n_nodes[0] + 1)
        tree.n_nodes[0] += 2
    else:
        left = lightest_leaf(tree, nodes)
        # DIFFERS [LOM Swap]: not if the orphan has no grandparent, a case that is not spoken of
        if left == node or tree.parent[left] <= ROOT:
            return False
        right = recycle(tree, nodes, left)
    for side, child in ((LEFT, left), (RIGHT, right)):
        renew(tree, child, node, side)
        nodes.total[child] = nodes.margin[child] = nodes.taught[child] = candidates.covered[child] = 0.0
        candidates.size[child] = 0
        # DIFFERS [LOM Alg. 1, C_left and C_right]: halves of a mass, not rounded down and up
        nodes.smallest[child] = nodes.total[node] / 2.0
    raise_smallest(tree, nodes, left)
    return True


# -- learning ------------------------------------------------------------------------------------------------------


@device
def has_room(tree, table):
    """Whether one more example surely fits: it splits one leaf at most."""
    return tree.n_nodes[0] + 2 <= tree.parent.shape[0] and 2 * (table.n_entries[0] + DEEPEST + 2) <= table.key.shape[0]


@inlined
def learn_row(tree, nodes, router, candidates, table, seen, batch, i, label, weight, step, scale, options):
    """Let (row i, label) descend to a leaf, teaching routers on the way [OT Alg. 1]; whether the leaf knew the label.

    Mutates: all but scale, seen. Cost: O(depth x non-zeros + slots).
    """
    known, first = False, True
    node, depth = ROOT, np.int64(0)  # [OT Alg. 1 l.4]
    while True:
        at = entry_of(table, tree.identity[node], label)
        table.mass[at] += weight
        if is_leaf(tree, node):  # [OT Alg. 1 l.5]
            if first:
                known, first = answers(tree, candidates, node, label), False
            nodes.total[node] += weight
            place(candidates, node, label, table.mass[at])
            grown = may_split(tree, nodes, candidates, seen, node, depth, options)
            if not grown or not split(tree, nodes, candidates, seen, node, options):
                nodes.smallest[node] += weight
                raise_smallest(tree, nodes, node)
                return known
        route = linear.score(router, node, batch, i)
        target = route_target(nodes, table, node, at)  # [OT Alg. 1 l.8-11]
        # DIFFERS [LOM Alg. 1]: the margin before the router's step, as OT, not after it [OT Alg. 1 l.6-7]
        note_margin(nodes, table, node, at, route, weight)
        teach(router, node, batch, i, route, target, weight, step, scale, options.loss)  # [OT Alg. 1 l.12]
        # DIFFERS [OT Alg. 1 l.13]: by the router's sign, as in LOM, and before its step, which knows the label; then
        # leaves see what answers will see. "target" is the printed way.
        node = np.int64(tree.children[node, side_of(target if options.by_target else route)])
        depth += 1


@device
def descend(tree, router, batch, i):
    """(leaf, depth) that row i comes to. Cost: O(depth x non-zeros)."""
    node, depth = ROOT, np.int64(0)
    while not is_leaf(tree, node):
        node = np.int64(tree.children[node, side_of(linear.score(router, node, batch, i))])
        depth += 1
    return node, depth


@device
def learn_rows(
    tree, nodes, router, candidates, table, scale, seen, batch, labels, weights, begin, options
):  # fmt: skip
    """The loop of learn_batch, one example after the other [OT Alg. 1 l.3]. Mutates: all groups."""
    for i in range(begin, labels.shape[0]):
        label, weight = np.int64(labels[i]), weights[i]
        if weight <= 0.0:
            continue
        if not has_room(tree, table):
            return i
        if mass_of(table, ROOT, label) == 0.0:
            seen.n_labels[0] += 1
        seen.n_rows[0] += 1
        sq_norm = observe_scale(scale, batch, i)
        step = router_pace(options.update, options.rate, scale, sq_norm)
        # Progressive validation: by the sign, the way of learning is that of an answer just before.
        right = options.by_target and answers(tree, candidates, descend(tree, router, batch, i)[0], label)
        known = learn_row(
            tree, nodes, router, candidates, table, seen, batch, i, label, weight, step, scale, options
        )  # fmt: skip
        seen.mass[0] += weight
        seen.wrong_mass[0] += 0.0 if right or (known and not options.by_target) else weight
    return labels.shape[0]


@kernel
def learn_batch(
    tree, nodes, router, candidates, table, scale, seen, batch, labels, weights, begin, options
):  # fmt: skip
    """Learn the rows from `begin` on [OT Alg. 1]; return where it ended for want of room. Mutates: all groups."""
    return learn_rows(
        tree, nodes, router, candidates, table, scale, seen, batch, labels, weights, begin, options
    )  # fmt: skip


# -- answers -------------------------------------------------------------------------------------------------------


@device
def predict_rows(tree, router, candidates, batch, n_classes, labels, scores, work, known):
    """The loop of predict_batch. Mutates: labels, scores, work, known. Cost: O(depth x non-zeros) a row."""
    for r in range(labels.shape[0]):
        node, depth = descend(tree, router, batch, r)
        answer(tree, candidates, node, n_classes, r, labels[r], scores[r], known)
        work[r, 0], work[r, 1], work[r, 2], work[r, 3] = depth, depth + 1, depth, 0


@kernel
def predict_batch(tree, router, candidates, batch, n_classes, labels, scores, work):
    """The best labels of all rows, and what they cost: depth, nodes visited, routers scored, no candidates scored.

    Mutates: labels, scores, work.
    """
    n_set = 4
    while n_set < 2 * (labels.shape[1] + candidates.label.shape[1]):
        n_set *= 2
    known = LabelSet(np.empty(n_set, np.int32), np.full(n_set, -1, np.int64))
    predict_rows(tree, router, candidates, batch, n_classes, labels, scores, work, known)


@kernel
def leaves_batch(tree, router, batch, leaves):
    """The leaf that each row comes to. Mutates: leaves. Cost: O(depth x non-zeros) a row."""
    for r in range(leaves.shape[0]):
        leaves[r], _ = descend(tree, router, batch, r)
