"""Size of a label tree after `fit` and after a `partial_fit`, and what `estimate_memory` said before."""

import numpy as np
import scipy.sparse as sp
from report import at_hand, load_unit, parse, publish

from manyclass import LabelTreeClassifier

SETS = ("wordnet-hypernym", "clinc150", "bibtex", "delicious", "eurlex-4k", "rcv1-topics")


def main() -> None:
    """Print the table."""
    args = parse(__doc__, sets={"nargs": "*", "default": list(SETS), "help": "which sets to run"})
    rows = []
    for name in at_hand(args.sets):
        X, y, _, _ = load_unit(name)
        if args.quick:
            X, y = X[:2000], y[:2000]
        model, several = LabelTreeClassifier(random_state=0, n_jobs=2), sp.issparse(y)
        n_classes = y.shape[1] if several else len(np.unique(y))
        estimate = model.estimate_memory(
            len(np.unique(X.indices)), n_classes, sparse=True, multilabel=several, n_rows=X.shape[0],
            n_nonzero=X.nnz / X.shape[0],
            n_labels=y.sum() / y.shape[0] if several else 1.0,
        )  # fmt: skip
        actual = model.fit(X, y).n_bytes_
        unpacked = model.partial_fit(X[:1], y[:1]).n_bytes_
        rows.append({
            "set": name, "MB": f"{actual / 1e6:.1f}", "estimate / actual": f"{estimate / actual:.2f}",
            "MB after partial_fit": f"{unpacked / 1e6:.1f}", "times": f"{unpacked / actual:.0f}",
        })  # fmt: skip
        print(rows[-1], flush=True)
    if rows:
        publish("memory", "Label tree: size and its estimate", rows, ["Defaults; sizes in memory."], args.quick)


if __name__ == "__main__":
    main()
