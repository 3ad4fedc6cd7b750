"""LOM tree, and the online tree of 2013: state, training, files. The papers' rules are in `kernels.py`."""

from typing import get_type_hints

from ..core import online_trees as online
from ..core.inputs import Batch
from ..core.invariants import check_candidates, need
from ..core.learners import at_epoch
from ..core.linear import slim_bank
from ..core.state import Candidates, State, cut, make
from .kernels import (
    CORRECTED,
    HALF,
    NEW_NODES,
    PRINTED,
    SIGN,
    TARGET,
    MarginTable,
    Model,
    Options,
    learn_batch,
    new_entries,
)

NAME = "lom-tree"
GROUPS = get_type_hints(Model)
DESCENTS = {"sign": SIGN, "target": TARGET}
RULES = {"corrected": CORRECTED, "paper": PRINTED}

predict, score, paths, n_nodes = online.predict, online.score, online.paths, online.n_nodes
explain = online.explain


def init(options: Options, n_features: int, n_classes: int = 0) -> State:
    """A tree that is only a root."""
    candidates = make(Candidates, node=online.FIRST_NODES, slot=online.SLOTS)
    state = {**online.first_state(options, n_features, online.NodeMargins, MarginTable), "candidates": candidates}
    if options.rules == PRINTED:
        state["router"].bias[0] = -HALF  # see `kernels.divide`
    return state


def learn(options: Options, state: State, batch: Batch, labels, weights, epoch: int = 0, n_jobs: int = 1) -> None:
    """Learn all rows in turn; arrays grow when the kernel stops. Mutates: state."""
    options, begin = at_epoch(options, epoch), 0
    while True:
        begin = learn_batch(Model(*(state[name] for name in Model._fields)), batch, labels, weights, begin, options)
        if begin == len(labels):
            return
        state.update(online.grown(state, NEW_NODES, new_entries(options), options)[0])


def memory(options: Options, n_features: int, n_classes: int, n_rows: int | None = None, n_epochs: int = 20) -> int:
    """Approximate bytes of a trained model; by default of one that has learned 100 rows per class."""
    size = online.expected_size(options, n_classes, n_rows, n_epochs)
    return online.bytes_of(size, n_features, 16 + 32 + 12 + 12 * online.SLOTS, 32, options)


def width(options: Options, state: State) -> int:
    """The most labels scored per row."""
    return online.SLOTS


def tree_table(state: State, max_depth: int | None = None) -> list[dict]:
    """The nodes down to a depth, parents before children, with the labels that reached them."""
    return online.tabulate(state["tree"], state["table"], max_depth)


# -- files ---------------------------------------------------------------------------------------------------------


def options_from_file(values: dict) -> dict:
    """The fields of `Options` from the values in a file."""
    values = {"rules": CORRECTED, **values}  # older files lack it
    if "learner" not in values:
        return values
    return online.options_from_words(values, loss=online.ROUTER_LOSSES, descent=DESCENTS)


def check(options: Options, state: State, n_features: int, n_classes: int, slim: bool) -> None:
    """ModelFormatError unless the kernels may run on the state."""
    need(options.descent in (SIGN, TARGET), f"descent is {options.descent}.")
    need(options.rules in RULES.values(), f"rules is {options.rules}.")
    online.check_common(options, state, n_features, n_classes, slim)
    online.check_tree(state["tree"])
    check_candidates(state["candidates"], n_classes, online.SLOTS)


def slim(options: Options, state: State, n_classes: int) -> tuple[Options, State]:
    """What predictions need: no sums of squared gradients, no means of margins."""
    n = n_nodes(state)
    out = {**state, "nodes": make(online.NodeMargins, node=n), "table": make(MarginTable, entry=2)}
    out |= {name: cut(state[name], node=n) for name in ("tree", "candidates")}
    return options, {**out, "router": slim_bank(state["router"], n)}
