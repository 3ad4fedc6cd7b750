"""Label tree: one model from copies that have learned different rows of a stream."""

from collections.abc import Sequence

import numpy as np

from ..core.state import State, copy
from .fit import empty_blocks, suffix_of
from .kernels import LabelTree, Options
from .model import table_of, trees_of
from .weights import Blocks, enter_nodes, table_size

_SAME = "outputs", "size", "is_leaf", "parent", "place"  # of the trees of all copies


def merge(options: Options, base: State, copies: Sequence[State]) -> State:
    """The state after the rows of all copies, each of which has learned some rows from `base`.

    Running sums and counts are sums over rows: what the copies have added is added up. A new weight is the old one plus
    the average change, over only those copies that have changed it: a label or a word that only one copy has seen keeps
    what that copy has learned of it. No copy may have learned a new label, so that all have the same tree. The rows
    that are kept for sorted streams are those of the first copy.
    """
    replaced = ("tree", "blocks")
    out: State = {name: copy(group) for name, group in copies[0].items() if not name.startswith(replaced)}
    for number, (tree, blocks) in enumerate(trees_of(base)):
        trees, all_blocks = zip(*(trees_of(state)[number] for state in copies), strict=True)
        _check_same(tree, trees)
        merged = copy(tree)
        merged.mass[:] = with_changes(tree.mass, [one.mass for one in trees])
        out[f"tree{suffix_of(number)}"] = merged
        out[f"blocks{suffix_of(number)}"] = _merged_blocks(options, int(tree.n_nodes[0]), blocks, all_blocks)
    for name, field in (
        ("run", "mass"), ("seen", "n_rows"), ("seen", "mass"), ("seen", "wrong_mass"),
        ("scale", "n_rows"), ("scale", "sq_norm"),
    ):  # fmt: skip
        own = [getattr(state[name], field) for state in copies]
        getattr(out[name], field)[:] = with_changes(getattr(base[name], field), own)
    out["scale"].inverse[:] = smallest([state["scale"].inverse for state in copies])
    return out


def smallest(inverse: Sequence[np.ndarray]) -> np.ndarray:
    """1 / the largest value of each feature in any copy, from those of each copy; 0: only zeros so far."""
    least = np.min([np.where(one > 0, one, np.inf) for one in inverse], axis=0)
    return np.where(np.isinf(least), 0, least)


def _check_same(tree: LabelTree, others: Sequence[LabelTree]) -> None:
    n = int(tree.n_nodes[0])
    for other in others:
        same = int(other.n_nodes[0]) == n
        if not same or any((getattr(tree, name)[:n] != getattr(other, name)[:n]).any() for name in _SAME):
            raise ValueError("the trees of the copies differ: a copy has learned a new label.")


def with_changes(base: np.ndarray, copies: Sequence[np.ndarray]) -> np.ndarray:
    """The base with all that the copies have added."""
    return (base + sum(one.astype(np.float64) - base for one in copies)).astype(base.dtype)


def mean_of_changes(base: np.ndarray, copies: Sequence[np.ndarray]) -> np.ndarray:
    """The base with the mean change of those copies that have changed a number."""
    total, changed = np.zeros(base.shape), np.zeros(base.shape, np.int64)
    for one in copies:
        total += one.astype(np.float64) - base
        changed += one != base
    return (base + total / np.maximum(changed, 1)).astype(base.dtype)


def _merged_blocks(options: Options, n_nodes: int, base: Blocks, copies: Sequence[Blocks]) -> Blocks:
    """Blocks with the (node, feature) pairs of all copies."""
    tables = [[table_of(blocks, node) for node in range(n_nodes)] for blocks in (base, *copies)]
    features = [np.unique(np.concatenate([own[node][0] for own in tables])) for node in range(n_nodes)]
    counts = np.array([len(one) for one in features])
    nodes = np.flatnonzero(counts)
    n_entries = sum(int(table_size(n)) for n in counts[nodes])
    out = empty_blocks(options, len(base.first), max(n_entries, len(base.feature)), max(counts.sum(), len(base.weight)))
    out.bias[:] = mean_of_changes(base.bias, [blocks.bias[: len(base.bias)] for blocks in copies])
    if len(nodes):
        enter_nodes(out, nodes, counts[nodes], np.concatenate([features[node] for node in nodes]))
    first = 0
    for node in nodes:
        own = slice(first, first + counts[node])
        for name, rule in (("weight", mean_of_changes), ("total", with_changes)):
            values = []
            for blocks, table in zip((base, *copies), tables, strict=True):
                known, record = table[node]
                rows = np.zeros((counts[node], base.weight.shape[1]), np.float32)
                rows[np.searchsorted(features[node], known)] = getattr(blocks, name)[record]
                values.append(rows)
            getattr(out, name)[own] = rule(values[0], values[1:])
        out.sq_norm[node] = np.einsum("fc,fc->c", out.total[own], out.total[own], dtype=float)
        first += counts[node]
    return out
