"""The learned tree as a taxonomy: its nodes are groups of similar labels, named by the most frequent ones."""

import numpy as np

from ..core.state import State

N_NAMED = 3  # labels in the name of a group


def grouped_labels(
    state: State, labels: np.ndarray, target: np.ndarray | None
) -> tuple[np.ndarray, list[str], list[str]]:
    """(parents, keys, names) of a taxonomy of the first tree: its nodes, then a node for each label.

    `target` has the class that each class stands for, -1 if it was removed: groups are named by those that remain.
    """
    tree = state["tree"]
    n, texts = int(tree.n_nodes[0]), [str(label) for label in labels.tolist()]
    n_known = min(len(texts), len(tree.leaf_of))  # labels without rows may have no place yet
    known = np.flatnonzero((tree.leaf_of[:n_known] >= 0) & (np.array(texts[:n_known], object) != ""))  # "" is the root
    named: list[list[str]] = [[] for _ in range(n)]
    by_mass = known[np.argsort(-tree.mass[known], kind="stable")]
    for label in (by_mass if target is None else by_mass[target[by_mass] == by_mass]).tolist():
        node = int(tree.leaf_of[label])
        while node > 0 and len(named[node]) <= N_NAMED:  # a group above has as many already
            named[node].append(texts[label])
            node = int(tree.parent[node])
    groups = [", ".join(some[:N_NAMED]) + (", ..." if len(some) > N_NAMED else "") for some in named[1:]]
    mark = "group"
    while any(text.startswith(mark) for text in texts):  # keys of groups must not be labels
        mark = f"_{mark}"
    keys = ["", *(f"{mark} {node}" for node in range(1, n)), *(texts[label] for label in known)]
    parent = np.concatenate([tree.parent[:n], tree.leaf_of[known]])
    return parent, keys, ["", *groups, *(texts[label] for label in known)]
