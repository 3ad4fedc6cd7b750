"""A Recall Tree in a file: what must hold before a kernel may run, and what answers need."""

import numpy as np

from ..core.invariants import check_bank, check_candidates, check_scale, check_seen, need, need_no_pruning, need_range
from ..core.linear import slim_bank
from ..core.losses import LOSSES
from ..core.state import LabelTable, State, Tree, cut, make
from ..core.tables import check_table
from .means import check_means, slim_means
from .state import DEEPEST, LARGEST_START, MOST_CHILDREN, MOST_PATHS, PATH_FEATURES, Config, n_nodes, path_width


def check(config: Config, state: State, n_features: int, n_classes: int, slim: bool) -> None:
    """Everything that the kernels trust."""
    need(config.loss in LOSSES, f"the loss is {config.loss!r}.")
    need(config.path_features in PATH_FEATURES, f"path_features is {config.path_features!r}.")
    need(config.max_depth is None or 0 <= config.max_depth <= DEEPEST, f"max_depth is {config.max_depth}.")
    need(2 <= config.arity <= MOST_CHILDREN, f"arity is {config.arity}.")
    need(1 <= config.beam <= MOST_PATHS, f"beam is {config.beam}.")
    need(config.n_candidates is None or config.n_candidates > 0, f"n_candidates is {config.n_candidates}.")
    need(8 <= config.table_bits <= 40, f"table_bits is {config.table_bits}.")
    need(0 <= config.start <= LARGEST_START, f"start is {config.start}.")
    check_tree(state["tree"], config.arity)
    n, room = n_nodes(state), len(state["tree"].parent)
    counts, candidates, table, path = (state[name] for name in ("counts", "candidates", "table", "path"))
    squares = config.learner.adaptive and not slim
    check_bank("router", state["router"], n_features, config.router_learner.adaptive and not slim)
    check_bank("scorer", state["scorer"], n_features, squares)
    check_bank("path", path, path_width(config, n_features), squares and config.path_features != "off")
    if config.start > 0:
        check_means(state["means"], len(state["scorer"].bias), n_features)
    for name, size in (("router", len(state["router"].bias)), ("counts", len(counts.total))):
        need(size == room, f"{name} has {size} rows for {room} nodes.")
    need(len(candidates.size) == room, f"candidates has {len(candidates.size)} rows for {room} nodes.")
    n_known = min(n_classes, len(state["scorer"].bias))
    slots = candidates.label.shape[1]
    need(slots >= max(1, config.n_candidates or 0), f"candidates.label has {slots} slots.")
    check_candidates(candidates, n_known)
    check_table(table, n, n_known)
    need_range("table.path_row", table.path_row, -1, int(path.n_rows[0]))
    check_scale(state["scale"], n_features)
    check_seen(state["seen"], n_classes)


def check_tree(tree: Tree, arity: int = 2) -> None:
    """A tree: one parent each, no circle, depths as they are; more children than two come all together, in a row."""
    n = int(tree.n_nodes[0])
    need(1 <= n <= len(tree.parent), f"tree.n_nodes is {n}, with room for {len(tree.parent)}.")
    need(tree.children.shape[1] == arity, f"tree.children has {tree.children.shape[1]} sides.")
    need((tree.children[n:] == -1).all() and tree.parent[0] == -1 and tree.depth[0] == 0, "the root is not a root.")
    parent, nodes = tree.parent[1:n], np.arange(1, n)
    need_range("tree.parent", parent, 0, n)
    need((parent < nodes).all(), "a node comes before its parent.")  # so there is no circle
    need((tree.depth[1:n] == tree.depth[parent] + 1).all(), "tree.depth is not that of the tree.")
    need_range("tree.depth", tree.depth[:n], 0, DEEPEST + 1)
    used = tree.children[:n] >= 0
    need_range("tree.children", tree.children[:n], -1, n)
    owner = np.nonzero(used)[0]
    own = used.sum() == n - 1 and (tree.parent[tree.children[:n][used]] == owner).all()
    need(own, "a node is not its parent's child.")
    if arity > 2:
        inner = tree.children[:n][used[:, 0]]
        need((used.all(axis=1) | ~used.any(axis=1)).all(), "a node lacks some of its children.")
        need((inner == inner[:, :1] + np.arange(arity)).all(), "the children of a node are not in a row.")


def slim(config: Config, state: State, n_classes: int, prune: float = 0.0) -> tuple[Config, State]:
    """What answers need: no sums of squared gradients; no counts of labels unless path features look them up."""
    need_no_pruning(prune)
    out, n = dict(state), n_nodes(state)
    for name, rows in (("router", n), ("scorer", n_classes), ("path", int(state["path"].n_rows[0]))):
        out[name] = slim_bank(state[name], max(1, rows))
    if config.start > 0:
        out["means"] = slim_means(state["means"], max(1, n_classes))
    for name in ("tree", "counts", "candidates"):
        out[name] = cut(state[name], node=n)
    out["candidates"] = out["candidates"]._replace(mass=np.zeros_like(out["candidates"].mass))
    if config.path_features == "off":
        out["table"] = make(LabelTable, entry=2)
    return config, out
