"""What online learning on several machines costs in accuracy: shards of a stream, merged from time to time.

    MANYCLASS_DATA=... python benchmarks/dask/online_merge.py --set wordnet-hypernym

All machines begin with one model that has learned `--first` of the rows, at least one of each class. In each round,
every machine learns its rows from the same model; then the copies become one. The label tree is merged as by
`DaskLabelTreeClassifier.partial_fit`. The package does not merge Recall Trees: two trees that have grown differently
cannot be added. Here, the tree, the routers and the lists of candidates are those of the first machine, and the weights
of scorers move by the same rule as in the label tree.

One machine that learns all rows in their order is the yardstick.
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
from manyclass.label_tree.merging import mean_of_changes, merge, smallest, with_changes  # noqa: E402


def merge_label_trees(base: Any, copies: list[Any]) -> Any:
    """A model with what all copies have learned."""
    out = deepcopy(copies[0])
    out._state = merge(base._options, base._state, [one._state for one in copies])
    return out


def merge_recall_trees(base: Any, copies: list[Any]) -> Any:
    """The first copy with the scorers of all."""
    out = deepcopy(copies[0])
    rules = {"weight": mean_of_changes, "bias": mean_of_changes, "grad_sq": with_changes, "bias_grad_sq": with_changes}
    for name, rule in rules.items():
        own = [getattr(one._state["scorer"], name) for one in copies]
        getattr(out._state["scorer"], name)[:] = rule(getattr(base._state["scorer"], name), own)
    out._state["scale"].inverse[:] = smallest([one._state["scale"].inverse for one in copies])
    return out


def main() -> None:
    """Print the accuracy of merged models."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", default="wordnet-hypernym", choices=SETS)
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
    print("| estimator | shards | rounds | accuracy | beside one machine |\n|---|---:|---:|---:|---:|")
    for kind, merged in ((LabelTreeClassifier, merge_label_trees), (RecallTreeClassifier, merge_recall_trees)):
        base = kind(random_state=0, replay=False).partial_fit(X[head], y[head], classes=np.unique(y))
        alone = 100 * deepcopy(base).partial_fit(X[stream], y[stream]).score(X_test, y_test)
        print(f"| {kind.__name__} | 1 | | {alone:.2f} | |", flush=True)
        for n_shards in options.shards:
            for n_rounds in options.rounds:
                model = deepcopy(base)
                for rows in np.array_split(stream, n_rounds):
                    shards = [rows[k::n_shards] for k in range(n_shards)]
                    model = merged(model, [deepcopy(model).partial_fit(X[own], y[own]) for own in shards])
                found = 100 * model.score(X_test, y_test)
                line = f"{kind.__name__} | {n_shards} | {n_rounds} | {found:.2f} | {found - alone:+.2f}"
                print(f"| {line} |", flush=True)


if __name__ == "__main__":
    main()
