"""Spectral tree: what it is made of and what a file of one must hold. Shared by learning and answers."""

import math
from typing import NamedTuple

import numpy as np

from ..core.invariants import check_bank, check_candidates, check_scale, check_seen, need, need_no_pruning, need_range
from ..core.learners import Learner, slowed
from ..core.linear import make_bank, slim_bank
from ..core.losses import LOSSES
from ..core.state import Candidates, Counts, Forest, Linear, Projection, Routers, Scale, Seen, State, Tree, make
from .filter import Filter, check_forest, join
from .paths import OWN_BIAS, OWN_NOTHING, OWN_WEIGHTS, Options

# What the classifier of a leaf has of its own [ST §3.5], and whether it shares a predictor a class with the others.
TASKS = {
    "shared": (OWN_NOTHING, True),
    "bias": (OWN_BIAS, True),
    "output": (OWN_WEIGHTS, False),  # of the low-rank form, whose map is shared
    "hashed": (OWN_WEIGHTS, True),
    "separate": (OWN_WEIGHTS, False),
}
MOST_PATHS = 1024  # that may be asked for


class Config(NamedTuple):
    """All that a spectral tree was asked to do."""

    max_depth: int
    n_candidates: int
    n_head: int
    recall: float
    spread: float
    cutoff: float
    held_out: float  # share of the rows by whose recall the depth is chosen; 0: max_depth it is
    n_trees: int
    beam: int
    task: str
    rank: int | None
    loss: str
    multilabel: bool
    start: float
    randomized: bool
    unit_rows: bool
    table_bits: int
    n_epochs: int
    learner: Learner
    bias_rate: float
    seed: int


def options_of(config: Config, n_features: int, epoch: int = 0) -> Options:
    learner = slowed(config.learner, epoch)
    own, shared = TASKS[config.task]
    return Options(
        n_features=n_features,
        n_candidates=int(config.n_candidates + config.n_head),
        beam=int(config.beam),
        loss=LOSSES[config.loss],
        shared=shared,
        own=own,
        randomized=bool(config.randomized),
        update=learner.update,
        rate=float(learner.rate),
        bias_rate=float(config.bias_rate),
        seed=int(config.seed),
    )


def init(config: Config, n_features: int, n_classes: int = 0) -> State:
    """A tree that is only a root without candidates."""
    nothing = Filter(
        make(Tree, node=1, side=2),
        make(Routers, node_end=2, entry=0, node=1),
        make(Counts, node=1),
        make(Candidates, node=1, slot=1),
    )
    return {
        **join([nothing]),
        **make_classifier(config, n_features, max(1, n_classes), 1),
        "scale": make(Scale, feature=n_features),
        "seen": make(Seen),
    }


def make_classifier(config: Config, n_features: int, n_classes: int, n_own: int) -> State:
    """Predictors that know nothing: what leaves share, what they have of their own, the map of the low-rank form."""
    own, shared = TASKS[config.task]
    width = config.rank or n_features
    adaptive = config.learner.adaptive or bool(config.rank)
    projection: Projection = make(
        Projection, bucket=n_features if config.rank else 1, square_bucket=n_features if config.rank else 1,
        rank=config.rank or 1,
    )  # fmt: skip
    if config.rank:
        start = np.random.default_rng(config.seed).standard_normal(projection.weight.shape)
        projection.weight[:] = start / math.sqrt(config.rank)
    return {
        "scorer": make_bank(n_classes if shared else 1, width, config.table_bits, adaptive),
        "own": make_bank(
            n_own if own != OWN_NOTHING else 1, width if own == OWN_WEIGHTS else 1, config.table_bits,
            adaptive,
        ),
        "projection": projection,
    }  # fmt: skip


# -- files ---------------------------------------------------------------------------------------------------------

GROUPS = {
    "tree": Tree,
    "routers": Routers,
    "counts": Counts,
    "candidates": Candidates,
    "forest": Forest,
    "scorer": Linear,
    "own": Linear,
    "projection": Projection,
    "scale": Scale,
    "seen": Seen,
}


def check(config: Config, state: State, n_features: int, n_classes: int, slim: bool) -> None:
    """Everything that the kernels trust."""
    need(config.loss in LOSSES, f"the loss is {config.loss!r}.")
    need(config.task in TASKS, f"the task is {config.task!r}.")
    need(1 <= config.beam <= MOST_PATHS, f"beam is {config.beam}.")
    need(8 <= config.table_bits <= 40, f"table_bits is {config.table_bits}.")
    need(config.rank is None or config.rank > 0, f"rank is {config.rank}.")
    need(1 <= config.n_candidates <= n_classes, f"n_candidates is {config.n_candidates}.")
    need(0 <= config.n_head <= n_classes, f"n_head is {config.n_head}.")
    tree, routers, forest, candidates = (state[name] for name in ("tree", "routers", "forest", "candidates"))
    need(len(forest.root) == config.n_trees, f"there are {len(forest.root)} trees, not {config.n_trees}.")
    check_forest(tree, forest)
    n = len(tree.parent)
    for name, size in (("routers", len(routers.bias)), ("candidates", len(candidates.size))):
        need(size == n, f"{name} has {size} rows for {n} nodes.")
    need(len(state["counts"].total) == n, f"counts has {len(state['counts'].total)} rows for {n} nodes.")
    need_range("routers.first", routers.first, 0, len(routers.feature) + 1)
    need(len(routers.first) == n + 1 and routers.first[0] == 0, "routers.first does not begin every node.")
    need((np.diff(routers.first) >= 0).all() and routers.first[-1] == len(routers.feature), "routers.first has a gap.")
    need_range("routers.feature", routers.feature, 0, n_features)
    inside = np.ones(len(routers.feature), bool)
    inside[routers.first[:-1][routers.first[:-1] < len(routers.feature)]] = False
    need((np.diff(routers.feature, prepend=-1)[inside] > 0).all(), "routers.feature is not sorted.")
    need((routers.spread > 0).all(), "routers.spread is not positive.")
    own, shared = TASKS[config.task]
    squares = (config.learner.adaptive or bool(config.rank)) and not slim
    width_of = config.rank or n_features
    check_candidates(candidates, min(n_classes, len(state["scorer"].bias)) if shared else n_classes)
    check_bank("scorer", state["scorer"], width_of, squares)
    check_bank("own", state["own"], width_of if own == OWN_WEIGHTS else 1, squares)
    leaf = tree.children[:, 0] < 0
    need((forest.own_row[leaf] >= 0).all(), "a leaf has no row of its own.")
    if own != OWN_NOTHING:
        last = forest.own_row[leaf].astype(np.int64) + candidates.size[leaf]
        need((last <= len(state["own"].bias)).all(), "a leaf's own predictors are not there.")
    projection = state["projection"]
    if config.rank:
        need(projection.weight.shape == (n_features, config.rank), f"projection.weight is {projection.weight.shape}.")
    check_scale(state["scale"], n_features)
    check_seen(state["seen"], n_classes)


def slim(config: Config, state: State, n_classes: int, prune: float = 0.0) -> tuple[Config, State]:
    """What answers need: no sums of squared gradients."""
    need_no_pruning(prune)
    out = dict(state)
    for name in ("scorer", "own"):
        out[name] = slim_bank(state[name], len(state[name].bias))
    projection = state["projection"]
    out["projection"] = projection._replace(grad_sq=np.zeros((1, projection.weight.shape[1]), np.float32))
    return config, out
