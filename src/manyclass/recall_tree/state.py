"""A Recall Tree's options and arrays."""

from typing import NamedTuple

import numpy as np

from ..core.learners import Learner, slowed
from ..core.linear import make_bank
from ..core.losses import LOSSES
from ..core.sets import LabelSet
from ..core.state import Candidates, Counts, LabelTable, Scale, Seen, State, Tree, make
from . import kernels as kernel
from . import path_features as feature_kernels
from .means import make_means, no_means
from .paths import Fan, Options, Scratch

PATH_FEATURES = {
    "off": feature_kernels.OFF,
    "bias": feature_kernels.BIAS,
    "stop": feature_kernels.STOP,
    "crossed": feature_kernels.CROSSED,
}

DEEPEST = kernel.DEEPEST
MOST_PATHS = 1024  # that may be asked for
MOST_CHILDREN = 256
LARGEST_START = 1_000_000

FIRST_NODES, FIRST_CLASSES, FIRST_ENTRIES = 128, 16, 1024

ANSWER_GROUPS = ("tree", "router", "scorer", "path", "means", "counts", "candidates", "table")


class Config(NamedTuple):
    """All that a Recall Tree was asked to do."""

    bernstein: float | None
    n_candidates: int | None
    max_depth: int | None
    path_features: str
    beam: int
    randomized: bool
    loss: str
    table_bits: int
    learner: Learner
    router_learner: Learner
    seed: int
    start: float = 0.0
    arity: int = 2


def options_of(config: Config, epoch: int = 0) -> Options:
    """The config as the kernels want it, at the pace of an epoch."""
    learner, router_learner = slowed(config.learner, epoch), slowed(config.router_learner, epoch)
    return Options(
        bernstein=-1.0 if config.bernstein is None else float(config.bernstein),
        n_candidates=-1 if config.n_candidates is None else int(config.n_candidates),
        max_depth=-1 if config.max_depth is None else int(config.max_depth),
        arity=int(config.arity),
        path_features=PATH_FEATURES[config.path_features],
        start=float(config.start),
        beam=int(config.beam),
        randomized=bool(config.randomized),
        loss=LOSSES[config.loss],
        update=learner.update,
        rate=float(learner.rate),
        router_update=router_learner.update,
        router_rate=float(router_learner.rate),
        seed=int(config.seed),
    )


def path_width(config: Config, n_features: int) -> int:
    """Weights that a (node, class) pair has of its own beside its bias; one unused where it has none."""
    return n_features if config.path_features in ("stop", "crossed") else 1


def init(config: Config, n_features: int, n_classes: int = 0) -> State:
    """A tree that is only a root, with room for the classes known beforehand."""
    adaptive = config.learner.adaptive
    n_slots = kernel.candidates_wanted(1, options_of(config))
    n_rows = max(FIRST_CLASSES, n_classes)
    return {
        "tree": make(Tree, node=FIRST_NODES, side=config.arity),
        "router": make_bank(FIRST_NODES, n_features, config.table_bits, config.router_learner.adaptive),
        "scorer": make_bank(n_rows, n_features, config.table_bits, adaptive),
        "path": make_bank(2, path_width(config, n_features), config.table_bits, adaptive),
        "means": make_means(n_rows, n_features, config.table_bits) if config.start > 0 else no_means(),
        "counts": make(Counts, node=FIRST_NODES),
        "candidates": make(Candidates, node=FIRST_NODES, slot=n_slots),
        "table": make(LabelTable, entry=FIRST_ENTRIES),
        "scale": make(Scale, feature=n_features),
        "seen": make(Seen),
    }


def groups_of(config: Config, state: State, names: tuple[str, ...]) -> list:
    """Groups for a kernel; no path features and no means are passed as None."""
    unused = {"path": config.path_features == "off", "means": config.start == 0}
    return [None if unused.get(name) else state[name] for name in names]


def n_nodes(state: State) -> int:
    """Nodes of the tree."""
    return int(state["tree"].n_nodes[0])


def width(config: Config, state: State) -> int:
    """The most labels scored for a row."""
    return (config.beam + 1) * state["candidates"].label.shape[1]


def make_scratch(config: Config, state: State, n_filled: int = 0) -> Scratch:
    """Room for one example, and for n_filled labels more that fill up its answer."""
    n_paths = config.beam * max(2, config.arity)
    n_set = 1 << (2 * (width(config, state) + n_filled)).bit_length()
    return Scratch(
        np.empty(n_paths, np.int64),
        np.empty(n_paths),
        np.empty(n_paths, np.bool_),
        LabelSet(np.empty(n_set, np.int32), np.full(n_set, -1, np.int64)),
        np.zeros(1, np.int64),
    )


def make_fan(config: Config) -> Fan | None:
    """Room for the children of a node, where there are more than two."""
    return None if config.arity == 2 else Fan(np.empty(config.arity), np.empty(config.arity))


def make_lists(n_rows: int, n_labels: int) -> kernel.Lists:
    """Room for the candidates of some rows."""
    return kernel.Lists(
        np.zeros(1, np.int64),
        np.zeros(n_rows + 1, np.int64),
        np.empty(n_rows, np.int64),
        np.empty(n_labels, np.int32),
        np.empty(n_labels, np.int32),
    )
