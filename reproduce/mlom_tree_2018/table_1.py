"""Table 1 of the MLOM paper: sizes of Isolet and ALOI, beside what is loaded here."""

import io

import numpy as np
from report import at_hand, load_or_skip, parse, publish
from sklearn.datasets import dump_svmlight_file

# As printed: size, features, examples, classes.
PAPER = {"isolet": ("52.3 MB", "617", "7797", "26"), "aloi": ("17.7 MB", "128", "108K", "1K")}


def megabytes(parts) -> float:
    """Size as svmlight text, which the paper's program reads."""
    file = io.BytesIO()
    for X, y in parts:
        dump_svmlight_file(X, y, file)
    return file.tell() / 1e6


def main() -> None:
    args = parse(__doc__)
    rows = []
    for name in at_hand(PAPER):
        printed = PAPER[name]
        X, y, X_test, y_test = load_or_skip(name)
        if args.quick:
            X, y, X_test, y_test = X[::20], y[::20], X_test[::20], y_test[::20]
        n, labels = len(y) + len(y_test), np.union1d(y, y_test)
        ours = (f"{megabytes([(X, y), (X_test, y_test)]):.1f} MB", f"{X.shape[1]}", f"{n}", f"{len(labels)}")
        for who, cells in (("paper, Table 1", printed), ("ours", ours)):
            heads = ("size", "features", "examples", "classes")
            rows.append({"data": name, "who": who, **dict(zip(heads, cells, strict=True))})
    if not rows:
        return
    notes = ["Ours: training and test rows together, as svmlight text. The paper does not say how it counts bytes."]
    publish("table_1", "Table 1: sizes of the data sets", rows, notes, args.quick)


if __name__ == "__main__":
    main()
