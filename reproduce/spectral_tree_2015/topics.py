"""Table 2 of the spectral paper on WordNet and revdict: what the nodes of a tree are about."""

import re

import numpy as np
from report import load_tfidf, parse, publish

from manyclass import SpectralTreeClassifier
from manyclass.datasets import names

SETS = {"wordnet-hypernym": "WordNet", "revdict": "revdict"}


def main() -> None:
    """Print the tables."""
    args = parse(
        __doc__,
        sets={"nargs": "*", "default": list(SETS), "help": "which sets to run"},
        nodes={"type": int, "default": 12, "help": "nodes to show of each set"},
    )
    for name in args.sets:
        X, y, _, _ = load_tfidf(name)
        y = np.array([re.sub(r"\.[a-z]\.\d+$", "", str(label)) for label in names(name, "labels")])[y]
        if args.quick:
            X, y = X[::20], y[::20]
        depth = 6
        clf = SpectralTreeClassifier(max_depth=depth, n_candidates=200, n_epochs=1, random_state=0, n_jobs=2).fit(X, y)
        rows = []
        for kind in (False, True):
            found = clf.topics(n_labels=12, depth=depth, distinctive=kind)
            step = max(1, len(found) // args.nodes)
            rows += [
                {
                    "labels": "most telling" if kind else "heaviest",
                    "node": str(topic["node"]),
                    "mass": f"{topic['mass']:.0f}",
                    "topic": ", ".join(map(str, topic["labels"])),
                }
                for topic in found[::step][: args.nodes]
            ]
        publish(
            f"topics-{name}", f"Table 2: nodes at depth {depth} on {SETS[name]}", rows,
            ["As in the paper, the most frequent labels are heavy in many nodes. The most telling labels are those "
             "whose share in the node is largest compared with their share in all rows."],
            args.quick,
        )  # fmt: skip


if __name__ == "__main__":
    main()
