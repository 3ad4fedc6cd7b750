"""A Recall Tree that begins as a spectral tree of its first rows: a step to the spectral paper's goal [ST §3.2]."""

import numpy as np

from ..core.groups import State
from ..core.inputs import Batch, Csr, inverse_lengths
from ..core.linear import add_weights, grow_bank
from ..core.spec import as_labels, rows_of
from ..core.state import copy, resize
from ..spectral_tree.filter import Growth, grow_filter
from . import kernels as kernel
from .state import DEEPEST, Config, options_of

_LOGIT = 1.7  # a logistic curve this steep is nearly the normal distribution's
_STEEPEST = 4.0  # a router that is surer could not be taught otherwise


def begin_as_spectral_tree(config: Config, state: State, batch: Batch, labels, weights, n_jobs: int) -> None:
    """Give an untaught tree the nodes and routers of a spectral tree of these rows. Mutates: state.

    Counts, candidates and predictors stay empty: learning the rows fills them.
    """
    given, n_features = as_labels(labels), len(state["scale"].inverse)
    kept = np.flatnonzero(weights > 0)
    if len(kept) < 2:
        return
    n_labels = len(np.unique(given.label[kept]))
    options = options_of(config)
    n_candidates = int(kernel.candidates_wanted(n_labels, options))
    depth = int(kernel.depth_limit(n_labels, n_candidates, options))
    growth = Growth(min(depth, 14), n_candidates, 0, 0.999, 1.0, 0.02, config.seed)
    lengths = np.empty(rows_of(batch))
    inverse_lengths(batch, lengths)
    length = float(1 / np.median(lengths[kept]))  # rows keep their lengths here: the typical one becomes 1
    grown = grow_filter(
        _times(batch, 1 / length), given, weights, (n_features, int(given.label.max()) + 1), growth, n_jobs, _silent
    )
    n = len(grown.tree.parent)
    room = n + 2 * DEEPEST
    new = {name: copy(resize(state[name], node=room)) for name in ("tree", "counts", "candidates")}
    tree = new["tree"]
    # A Recall Tree goes left where the score is positive, a spectral tree right.
    tree.children[:n] = grown.tree.children[:, ::-1]
    tree.parent[:n], tree.depth[:n], tree.n_nodes[0] = grown.tree.parent, grown.tree.depth, n
    router = copy(grow_bank(state["router"], room, n_features, config.table_bits))
    inner = grown.tree.children[:, 0] >= 0
    steep = np.where(inner, np.minimum(_LOGIT / grown.routers.spread, _STEEPEST / _typical(grown, inner)), 0.0)
    lines = Csr(grown.routers.first, grown.routers.feature, grown.routers.weight)
    add_weights(router, lines, steep / length, -steep * grown.routers.bias)
    state.update(new, router=router)


def _typical(grown, inner: np.ndarray) -> np.ndarray:
    """A usual margin of each router: half of the rows have more."""
    return np.where(inner, np.sqrt(grown.routers.spread), 1.0)


def _times(batch: Batch, factor: float) -> Batch:
    return batch._replace(values=batch.values * np.float32(factor))


def _silent(share: float) -> None:
    """Nobody is told."""
