"""A tree as parallel arrays: node 0 is the root, nodes are created when first visited."""

from typing import Any

import numpy as np

from ..jit import device

LEFT, RIGHT = 0, 1
DEEPEST = 60  # the deepest level of any tree
# A typed number, not a literal: Numba compiles a function again for every type of argument.
ROOT = np.int64(0)


def paths_to(parent: np.ndarray, ends: np.ndarray) -> list[np.ndarray]:
    """The nodes between the root and the ends of each row's paths, sorted; an end of -1 is no path."""
    level = ends.astype(np.int64)
    passed = [level]
    while (level >= 0).any():
        level = np.where(level >= 0, parent[level], -1)
        passed.append(level)
    return [np.unique(row[row >= 0]) for row in np.concatenate(passed, axis=1)]


def describe_node(state: dict, node: Any) -> dict[str, Any]:
    """A node of a tree whose nodes have counts and candidates, as a row of `tree_table`."""
    tree, counts, candidates = state["tree"], state["counts"], state["candidates"]
    return {
        "node": int(node),
        "parent": int(tree.parent[node]),
        "depth": int(tree.depth[node]),
        "mass": float(counts.total[node]),
        "labels": candidates.label[node, : candidates.size[node]],
    }


@device
def is_leaf(tree, node):
    """Whether a node has no children, in a tree whose nodes have two or none."""
    return tree.children[node, LEFT] < 0


@device
def add_child(tree, node, side):
    """Create a missing child of a node and return it. Mutates: tree. Cost: O(1)."""
    child = tree.n_nodes[0]
    tree.n_nodes[0] = child + 1
    tree.children[node, side] = child
    tree.parent[child] = node
    tree.depth[child] = tree.depth[node] + 1
    return child


@device
def add_children(tree, node, arity):
    """Create all children of a node, side by side. Mutates: tree. Cost: O(arity)."""
    for side in range(arity):
        add_child(tree, node, side)


@device
def has_children(tree, node):
    """Whether a node has any child; two are created one after the other, more all at once."""
    return tree.children[node, LEFT] >= 0 or tree.children[node, RIGHT] >= 0
