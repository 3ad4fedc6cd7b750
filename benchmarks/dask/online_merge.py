"""What online learning on several machines would cost in accuracy: shards of a stream, merged from time to time.

    MANYCLASS_DATA=... python benchmarks/dask/online_merge.py --set WordNet

All machines begin with one model that has learned `--first` of the rows, at least one of each class, so that they have
the same tree. In each round, every machine learns its rows from the same model; then the copies become one:

- Recall Tree: tree, routers and lists of candidates of the first machine, because two trees that have grown
  differently cannot be added. Scorers: see below.
- label tree: running sums are added, which is exact. Weights: see below.
- Weights of linear predictors change by the sum of what the machines have changed (`sum`), by the mean (`mean`), or by
  the mean of those that have changed the weight at all (`own`).

The result depends on the number of shards and of rounds, not on which machine ends first. One machine that learns all
rows in their order is the yardstick. Rows that arrive sorted by label are not replayed here.
"""

import argparse
import sys
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np

sys.path[0] = str(Path(__file__).resolve().parents[2])  # of the repository: `benchmarks` is not installed

from benchmarks.sets import SETS, prepare  # noqa: E402
from manyclass import LabelTreeClassifier, RecallTreeClassifier  # noqa: E402
from manyclass.core.state import flatten  # noqa: E402
from manyclass.label_tree.fit import empty_blocks  # noqa: E402
from manyclass.label_tree.model import table_of  # noqa: E402
from manyclass.label_tree.weights import enter_nodes, table_size  # noqa: E402

RULES = "sum", "mean", "own"


def merged(base: np.ndarray, copies: list[np.ndarray], rule: str) -> np.ndarray:
    """Weights after all changes; `base` are those that all copies had."""
    changes = [(copy - base).astype(np.float64) for copy in copies]
    total = np.sum(changes, axis=0)
    if rule == "mean":
        total /= len(copies)
    elif rule == "own":
        total /= np.maximum(np.sum([change != 0 for change in changes], axis=0), 1)
    return (base + total).astype(base.dtype)


def merge_recall_trees(base: Any, copies: list[Any], rule: str) -> Any:
    """The first copy with the scorers of all."""
    out = deepcopy(copies[0])
    scorer, old = out._state["scorer"], base._state["scorer"]
    for name in ("weight", "bias"):
        getattr(scorer, name)[:] = merged(getattr(old, name), [getattr(c._state["scorer"], name) for c in copies], rule)
    for name in ("grad_sq", "bias_grad_sq"):  # sums of squares are added: exact
        getattr(scorer, name)[:] = merged(
            getattr(old, name), [getattr(c._state["scorer"], name) for c in copies], "sum"
        )
    _merge_scales(out, copies)
    return out


def merge_label_trees(base: Any, copies: list[Any], rule: str) -> Any:
    """A model with the (node, feature) pairs of all copies. They have the same tree."""
    for name in ("outputs", "parent", "size"):
        for one in copies:
            np.testing.assert_array_equal(getattr(one._state["tree"], name), getattr(base._state["tree"], name))
    out, options, n_nodes = deepcopy(base), base._options, int(base._state["tree"].n_nodes[0])
    all_blocks = [one._state["blocks"] for one in (base, *copies)]
    tables = [[table_of(blocks, node) for node in range(n_nodes)] for blocks in all_blocks]
    features = [np.unique(np.concatenate([own[node][0] for own in tables])) for node in range(n_nodes)]
    counts = np.array([len(one) for one in features])
    blocks = empty_blocks(
        options, len(all_blocks[0].first), sum(int(table_size(n)) for n in counts) + 4096, int(counts.sum()) + 2048
    )
    nodes = np.flatnonzero(counts)
    enter_nodes(blocks, nodes, counts[nodes], np.concatenate([features[node] for node in nodes]))
    first = 0
    for node in nodes:
        place = slice(first, first + counts[node])
        found = {"weight": [], "total": []}
        for own, table in zip(all_blocks, tables, strict=True):
            for name, values in found.items():
                rows = np.zeros((counts[node], own.weight.shape[1]), np.float32)
                rows[np.searchsorted(features[node], table[node][0])] = getattr(own, name)[table[node][1]]
                values.append(rows)
        blocks.weight[place] = merged(found["weight"][0], found["weight"][1:], rule)
        blocks.total[place] = merged(found["total"][0], found["total"][1:], "sum")
        blocks.sq_norm[node] = np.einsum("fc,fc->c", blocks.total[place], blocks.total[place], dtype=float)
        first += counts[node]
    blocks.bias[:] = merged(all_blocks[0].bias, [own.bias for own in all_blocks[1:]], rule)
    mass = [one._state["tree"].mass for one in (base, *copies)]
    out._state["tree"].mass[:] = merged(mass[0], mass[1:], "sum")
    out._state["blocks"] = blocks
    _merge_scales(out, copies)
    return out


def _merge_scales(out: Any, copies: list[Any]) -> None:
    """The largest value of each feature."""
    inverse = [one._state["scale"].inverse for one in copies]
    largest = [np.divide(1, one, out=np.zeros_like(one), where=one > 0) for one in inverse]
    most = np.max(largest, axis=0)
    out._state["scale"].inverse[:] = np.divide(1, most, out=np.zeros_like(most), where=most > 0)


def main() -> None:
    """Print the accuracy of each rule."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", default="WordNet", choices=SETS)
    parser.add_argument("--first", type=float, default=0.2)
    parser.add_argument("--shards", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--rounds", type=int, nargs="+", default=[1, 5, 20])
    parser.add_argument("--rows", type=int, default=None, help="only the first rows of the set")
    options = parser.parse_args()
    X, y, X_test, y_test = prepare(SETS[options.set], options.rows)
    order = np.random.default_rng(0).permutation(len(y))
    _, each = np.unique(y[order], return_index=True)
    begin = np.unique(np.concatenate([each, np.arange(int(options.first * len(y)))]))
    head, stream = order[begin], np.delete(order, begin)
    print(f"{options.set}: {len(head):,} rows for all, then {len(stream):,} rows of the stream\n")
    print("| estimator | shards | rounds | rule | accuracy | beside one machine |\n|---|---:|---:|---|---:|---:|")
    for kind, merge in ((LabelTreeClassifier, merge_label_trees), (RecallTreeClassifier, merge_recall_trees)):
        base = kind(random_state=0, replay=False).partial_fit(X[head], y[head], classes=np.unique(y))
        alone = 100 * deepcopy(base).partial_fit(X[stream], y[stream]).score(X_test, y_test)
        print(f"| {kind.__name__} | 1 | | | {alone:.2f} | |", flush=True)
        for n_shards in options.shards:
            for n_rounds in options.rounds:
                for rule in RULES:
                    model = deepcopy(base)
                    for rows in np.array_split(stream, n_rounds):
                        shards = [rows[k::n_shards] for k in range(n_shards)]
                        copies = [deepcopy(model).partial_fit(X[own], y[own]) for own in shards]
                        model = merge(model, copies, rule)
                        assert all(np.isfinite(a).all() for a in flatten(model._state).values() if a.dtype.kind == "f")
                    found = 100 * model.score(X_test, y_test)
                    line = (
                        f"| {kind.__name__} | {n_shards} | {n_rounds} | {rule} | {found:.2f} | {found - alone:+.2f} |"
                    )
                    print(line, flush=True)


if __name__ == "__main__":
    main()
