"""The learned tree as a taxonomy."""

import numpy as np

from manyclass.core.steps import Here
from manyclass.core.taxonomy import Taxonomy
from manyclass.label_tree.fit import grow_tree
from manyclass.label_tree.model import grouped_labels


def test_groups_are_the_nodes_named_by_their_most_frequent_labels():
    rng = np.random.default_rng(0)
    # Label 49 has no rows.
    tree = grow_tree(Here(), rng.normal(size=(50, 3)).astype(np.float32), np.arange(49), 4, 50, rng)
    tree.mass[:] = np.arange(50)
    labels = np.array([f"group {number}" for number in range(50)])  # like the keys of groups
    taxonomy = Taxonomy(*grouped_labels({"tree": tree}, labels, None))
    assert taxonomy.find(labels).tolist()[-1] == -1 and (taxonomy.find(labels[:49]) > 0).all()
    for label in range(49):
        leaf, path = tree.leaf_of[label], taxonomy.path(labels[label])
        heaviest = sorted(tree.outputs[leaf, : tree.size[leaf]], reverse=True)
        names = ", ".join(labels[one] for one in heaviest[:3]) + (", ..." if len(heaviest) > 3 else "")
        assert path[-2:] == (names, labels[label])
        assert len(path) == 1 + _depth(tree, leaf)


def _depth(tree, node):
    return 0 if node == 0 else 1 + _depth(tree, tree.parent[node])


def test_groups_are_not_named_by_classes_that_were_removed_or_merged():
    rng = np.random.default_rng(0)
    tree = grow_tree(Here(), rng.normal(size=(50, 3)).astype(np.float32), np.arange(50), 4, 50, rng)
    tree.mass[:] = np.arange(50)
    labels, target = np.array([f"label-{number}" for number in range(50)]), np.arange(50)
    target[49], target[48] = -1, 3
    _, _, names = grouped_labels({"tree": tree}, labels, target)
    groups = " ".join(names[:-50])
    assert "label-49" not in groups and "label-48" not in groups and "label-47" in groups
