"""A tree as parallel arrays: node 0 is the root, nodes come into being when first visited."""

import numpy as np

from .jit import leaf

LEFT, RIGHT = 0, 1
# A typed number, not a literal, here and in all loops: Numba compiles a function anew for every kind of argument.
ROOT = np.int64(0)


@leaf
def add_child(tree, node, side):
    """Make the missing child of a node and return it. Mutates: tree. Cost: O(1)."""
    child = tree.n_nodes[0]
    tree.n_nodes[0] = child + 1
    tree.children[node, side] = child
    tree.parent[child] = node
    tree.depth[child] = tree.depth[node] + 1
    return child
