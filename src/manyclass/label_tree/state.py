"""Label tree: what it is made of. Shared by online learning, batch training and answers."""

from typing import Any, NamedTuple

import numpy as np

from ..core.inputs import Batch, Dense
from ..core.losses import LOSSES
from ..core.state import Blocks, LabelTree, State, make
from .paths import Options
from .weights import LANES, SIZES

MOST_PATHS = 256  # that may be asked for


class Config(NamedTuple):
    """All that a label tree was asked to do."""

    arity: int
    beam: int
    loss: str
    multilabel: bool
    prior: float
    start: float
    router_start: float
    rate: float
    bias_rate: float
    unit_rows: bool
    cluster: str
    n_epochs: int
    n_trees: int
    seed: int


def options_of(config: Config) -> Options:
    return Options(
        beam=int(config.beam),
        loss=LOSSES[config.loss],
        prior=float(config.prior),
        start=float(config.start),
        router_start=float(config.router_start),
        rate=float(config.rate),
        bias_rate=float(config.bias_rate),
        unit_rows=bool(config.unit_rows),
        seed=int(config.seed),
    )


def block_width(config: Config) -> int:
    return -(-config.arity // LANES) * LANES


def empty_blocks(config: Config, n_nodes: int, n_entries: int, n_records: int) -> Blocks:
    """Blocks that know nothing, with room for so many nodes, entries and records."""
    width = block_width(config)
    return make(Blocks, node=n_nodes, entry=n_entries, record=n_records, place=width, table_size=SIZES)


def longest_row(batch: Batch) -> int:
    """The most non-zeros of a row."""
    if isinstance(batch, Dense):
        return batch.values.shape[1]
    return int(np.diff(batch.indptr).max(initial=0))


def suffix_of(number: int) -> str:
    """What the names of a further tree's groups end in."""
    return f"_{number}" if number else ""


def trees_of(state: State) -> list[tuple[LabelTree, Any]]:
    """All trees with their blocks; most models have one."""
    n = sum(name.startswith("tree") for name in state)
    return [(state[f"tree{suffix_of(number)}"], state[f"blocks{suffix_of(number)}"]) for number in range(n)]
