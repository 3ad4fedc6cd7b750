"""A tree as parallel arrays: node 0 is the root, nodes come into being when first visited."""

from .jit import leaf


@leaf
def add_child(tree, node, side):
    """Make the missing child of a node and return it. Mutates: tree. Cost: O(1)."""
    child = tree.n_nodes[0]
    tree.n_nodes[0] = child + 1
    tree.children[node, side] = child
    tree.parent[child] = node
    tree.depth[child] = tree.depth[node] + 1
    return child
