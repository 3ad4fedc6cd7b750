"""What each part of the label tree is worth: one option changed at a time, on WordNet and EURLex-4K."""

import time
from contextlib import nullcontext
from unittest.mock import patch

import numpy as np
from report import at_hand, load_unit, parse, publish

from manyclass import LabelTreeClassifier
from manyclass.label_tree import fit
from manyclass.metrics import precision_at_k

CHANGES = [
    ("defaults", {}),
    ("arity 8", {"arity": 8}),
    ("arity 32", {"arity": 32}),
    ("beam 1", {"beam": 1}),
    ("beam 4", {"beam": 4}),
    ("beam 20", {"beam": 20}),
    ("random tree", {}),
    ("no start at the mean", {"start": 0}),
    ("start=10, not calibrated", {"start": 10}),
    ("C=0.25", {"C": 0.25}),
    ("C=4", {"C": 4}),
    ("one epoch", {"n_epochs": 1}),
    ("five epochs", {"n_epochs": 5}),
    ("prior=0: paths do not count", {"prior": 0}),
    ("three trees", {"n_trees": 3}),
]
SETS = ("wordnet-hypernym", "eurlex-4k")


def divide_at_random(rows, ids, n_parts: int, rng) -> list[np.ndarray]:
    """Groups of labels of equal size, in place of `fit.divide`."""
    return np.array_split(rng.permutation(ids), n_parts)


def main() -> None:
    """Print the table."""
    args = parse(__doc__, sets={"nargs": "*", "default": list(SETS), "help": "which sets to run"})
    rows = []
    for name in at_hand(args.sets):
        X, y, X_test, y_test = load_unit(name)
        if args.quick:
            X, y, X_test, y_test = X[:1500], y[:1500], X_test[:500], y_test[:500]
        for what, change in CHANGES:
            scores, seconds, told = [], [], {}
            for seed in range(1 if args.quick else 2):
                model = LabelTreeClassifier(random_state=seed, n_jobs=2, **change)
                random = patch.object(fit, "divide", divide_at_random)
                start = time.perf_counter()
                with random if what == "random tree" else nullcontext():
                    model.fit(X, y)
                seconds.append(time.perf_counter() - start)
                top = model.predict_topk(X_test, 5)[0]
                scores.append([100 * precision_at_k(y_test, top, k) for k in (1, 3, 5)])
                told = model.diagnose(X_test, y_test)
            p1, p3, p5 = np.mean(scores, axis=0)
            rows.append(
                {
                    "set": name,
                    "change": what,
                    "P@1": f"{p1:.2f}",
                    "P@3": f"{p3:.2f}",
                    "P@5": f"{p5:.2f}",
                    "recall %": f"{100 * told['recall']:.1f}",
                    "work": f"{told['work']:.0f}",
                    "MB": f"{model.n_bytes_ / 1e6:.0f}",
                    "fit s": f"{min(seconds):.1f}",
                }
            )
            print(rows[-1], flush=True)
    notes = ["Test rows; means over two seeds; two threads. Nothing was chosen by this table."]
    publish("ablation", "Label tree: what each part is worth", rows, notes, args.quick)


if __name__ == "__main__":
    main()
