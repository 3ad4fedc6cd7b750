"""What the models of online trees share: levels, paths, tables of nodes, checks."""

from typing import Any

import numpy as np

from .invariants import need, need_range
from .labels import EMPTY
from .state import GrownTree
from .trees import DEEPEST


def levels(tree: GrownTree) -> list[np.ndarray]:
    """The nodes of each level, root first; as many levels at most as a tree may have, whatever the arrays hold."""
    found = [np.zeros(1, np.int64)]
    while len(found) <= DEEPEST + 1:
        below = tree.children[found[-1]].reshape(-1)
        below = below[below >= 0].astype(np.int64)
        if not len(below) or sum(map(len, found)) > len(tree.parent):
            break
        found.append(below)
    return found


def depths(tree: GrownTree) -> np.ndarray:
    """The level of each node; -1 of nodes out of the tree."""
    depth = np.full(int(tree.n_nodes[0]), -1)
    for level, nodes in enumerate(levels(tree)):
        depth[nodes] = level
    return depth


def climb(tree: GrownTree, leaves: np.ndarray) -> list[np.ndarray]:
    """The nodes from each leaf up to the root."""
    paths = [leaves.astype(np.int64)]
    while (paths[-1] >= 0).any():
        here = paths[-1]
        paths.append(np.where(here >= 0, tree.parent[here], -1).astype(np.int64))
    joined = np.stack(paths, axis=1)
    return [np.sort(row[row >= 0]) for row in joined]


def _owners(tree: GrownTree, table: Any) -> tuple[np.ndarray, np.ndarray]:
    """The entries of nodes that are in the tree, and which node each belongs to."""
    inside = np.flatnonzero(depths(tree) >= 0)
    inside = inside[np.argsort(tree.identity[inside])]
    identities = tree.identity[inside]
    full = np.flatnonzero(table.key != EMPTY)
    identity = table.key[full] >> 32
    at = np.minimum(np.searchsorted(identities, identity), len(identities) - 1)
    alive = identities[at] == identity
    return full[alive], inside[at[alive]]


def tabulate(tree: GrownTree, table: Any, max_depth: int | None, kept: np.ndarray | None = None) -> list[dict]:
    """The nodes down to a depth, parents before children, with their labels; with `kept`, of those entries only."""
    entries, nodes = _owners(tree, table)
    mass = np.bincount(nodes, table.mass[entries], minlength=int(tree.n_nodes[0]))
    if kept is not None:
        entries, nodes = entries[kept[entries]], nodes[kept[entries]]
    found = table.key[entries] & 0xFFFFFFFF
    order = np.lexsort((found, -table.mass[entries], nodes))
    ends = np.cumsum(np.bincount(nodes, minlength=int(tree.n_nodes[0])))
    labels = np.split(found[order], ends[:-1])
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


def check_grown_tree(tree: GrownTree, n_out: int = 0) -> None:
    """A tree: children both or none, one parent each, no circle, and n_out nodes outside it."""
    n, room = int(tree.n_nodes[0]), len(tree.parent)
    need(1 <= n <= room, f"tree.n_nodes is {n}, with room for {room}.")
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
    need(1 <= tree.n_identities[0] < 1 << 31, f"tree.n_identities is {tree.n_identities[0]}.")
    need_range("tree.identity", tree.identity[:n], 0, int(tree.n_identities[0]))
    need(len(np.unique(tree.identity[nodes])) == len(nodes), "two nodes have one identity.")
