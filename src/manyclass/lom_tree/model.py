"""LOM tree, and the online tree of 2013: state, training, prediction, files. The papers' rules are in `kernels.py`."""

from typing import get_type_hints

import numpy as np

from ..core.inputs import Batch
from ..core.invariants import check_candidates, need, need_no_pruning
from ..core.learners import at_epoch
from ..core.linear import make_bank, slim_bank
from ..core.online_trees import (
    FIRST_ENTRIES,
    FIRST_NODES,
    ROUTER_LOSSES,
    SLOTS,
    GrownTree,
    NodeMargins,
    bytes_of,
    check_common,
    check_tree,
    expected_size,
    find_leaves,
    grown,
    options_from_words,
    paths_to,
    predict_by_shares,
    scored,
    tabulate,
)
from ..core.protocol import Predictions, Scored, rows_of
from ..core.state import Candidates, Scale, Seen, State, cut, make
from ..core.updates import is_adaptive
from .kernels import NEW_ENTRIES, NEW_NODES, SIGN, TARGET, MarginTable, Model, Options, learn_batch

NAME = "lom-tree"
GROUPS = get_type_hints(Model)
DESCENTS = {"sign": SIGN, "target": TARGET}


def init(options: Options, n_features: int, n_classes: int = 0) -> State:
    """A tree that is only a root."""
    return {
        "tree": make(GrownTree, node=FIRST_NODES, side=2),
        "nodes": make(NodeMargins, node=FIRST_NODES),
        "router": make_bank(FIRST_NODES, n_features, options.table_bits, is_adaptive(options.update)),
        "candidates": make(Candidates, node=FIRST_NODES, slot=SLOTS),
        "table": make(MarginTable, entry=FIRST_ENTRIES),
        "scale": make(Scale, feature=n_features),
        "seen": make(Seen),
    }


def learn(options: Options, state: State, batch: Batch, labels, weights, epoch: int = 0, n_jobs: int = 1) -> None:
    """Learn all rows in turn; arrays grow when the kernel stops. Mutates: state."""
    options, begin = at_epoch(options, epoch), 0
    while True:
        begin = learn_batch(Model(**state), batch, labels, weights, begin, options)
        if begin == len(labels):
            return
        state.update(grown(state, NEW_NODES, NEW_ENTRIES, options)[0])


def predict(options: Options, state: State, batch: Batch, k: int, n_classes: int) -> Predictions:
    """The k best labels of all rows."""
    return predict_by_shares(state, batch, k, n_classes)


def score(options: Options, state: State, batch: Batch) -> Scored:
    """The labels of each row's leaf with their shares."""
    return scored(predict(options, state, batch, width(options, state), 0))


def paths(options: Options, state: State, batch: Batch) -> list[np.ndarray]:
    """The nodes that each row passes."""
    leaves = np.empty(rows_of(batch), np.int64)
    find_leaves(state["tree"], state["router"], batch, leaves)
    return paths_to(state["tree"], leaves)


def memory(options: Options, n_features: int, n_classes: int, n_learned: int | None = None) -> int:
    """Approximate bytes of a trained model; `n_learned` is the number of rows times epochs."""
    size = expected_size(options, n_classes, n_learned)
    return bytes_of(size, n_features, 16 + 32 + 12 + 12 * SLOTS, 32, options)


def n_nodes(state: State) -> int:
    """Number of nodes."""
    return int(state["tree"].n_nodes[0])


def width(options: Options, state: State) -> int:
    """The most labels scored per row."""
    return int(state["candidates"].label.shape[1])


def tree_table(state: State, max_depth: int | None = None) -> list[dict]:
    """The nodes down to a depth, parents before children, with the labels that reached them."""
    return tabulate(state["tree"], state["table"], max_depth)


# -- files ---------------------------------------------------------------------------------------------------------


def options_from_file(values: dict) -> dict:
    """The fields of `Options` from the values in a file."""
    return options_from_words(values, loss=ROUTER_LOSSES, descent=DESCENTS) if "learner" in values else values


def check(options: Options, state: State, n_features: int, n_classes: int, slim: bool) -> None:
    """Everything that the kernels rely on."""
    need(options.descent in (SIGN, TARGET), f"descent is {options.descent}.")
    check_tree(state["tree"])
    check_common(options, state, n_features, n_classes, slim)
    check_candidates(state["candidates"], n_classes)


def slim(options: Options, state: State, n_classes: int, prune: float = 0.0) -> tuple[Options, State]:
    """What predictions need: no sums of squared gradients, no means of margins."""
    need_no_pruning(prune)
    n = n_nodes(state)
    out = {**state, "router": slim_bank(state["router"], n), "nodes": make(NodeMargins, node=n)}
    out |= {name: cut(state[name], node=n) for name in ("tree", "candidates")}
    return options, {**out, "table": make(MarginTable, entry=2)}
