"""The learned tree as a taxonomy."""

import numpy as np

from manyclass.core.taxonomy import Taxonomy
from manyclass.label_tree.fit import grow_tree
from manyclass.label_tree.groups import grouped_labels


def test_groups_are_the_nodes_named_by_their_most_frequent_labels():
    rng = np.random.default_rng(0)
    tree = grow_tree(rng.normal(size=(50, 3)).astype(np.float32), np.arange(49), 4, 50, rng)  # label 49 has no rows
    tree.mass[:] = np.arange(50)
    labels = np.array([f"group {number}" for number in range(50)])  # like the keys of groups
    taxonomy = Taxonomy(*grouped_labels({"tree": tree}, labels))
    assert taxonomy.find(labels).tolist()[-1] == -1 and (taxonomy.find(labels[:49]) > 0).all()
    for label in range(49):
        leaf, path = tree.leaf_of[label], taxonomy.path(labels[label])
        heaviest = sorted(tree.outputs[leaf, : tree.size[leaf]], reverse=True)
        names = ", ".join(labels[one] for one in heaviest[:3]) + (", ..." if len(heaviest) > 3 else "")
        assert path[-2:] == (names, labels[label])
        assert len(path) == 1 + _depth(tree, leaf)


def _depth(tree, node):
    return 0 if node == 0 else 1 + _depth(tree, tree.parent[node])
