"""Table 1 of the spectral paper: the data sets that are here, and the time to learn the root of the tree."""

import numpy as np
import scipy.sparse as sp
from report import at_hand, load_or_skip, load_tfidf, parse, publish

from benchmarks.timing import fit_seconds
from manyclass import SpectralFilter

SETS = {
    "aloi": "ALOI", "wordnet-hypernym": "WordNet", "revdict": "revdict", "eurlex-4k": "EURLex-4K",
    "bibtex": "Bibtex", "delicious": "Delicious", "rcv1-topics": "RCV1 topics",
}  # fmt: skip
COUNTS = ("wordnet-hypernym", "revdict")  # counts of words, to be weighted
# As printed: labels per row, rows, features, classes, seconds for the root.
PAPER = {
    "Twitter": ("1.27", "25M", "1M", "264K", "49"),
    "ALOI": ("1", "97K", "128", "1K", "0.3"),
    "ODP": ("1", "1.5M", "0.5M", "100K", "2.5"),
    "LSHTC": ("3.26", "2.4M", "1.6M", "325K", "13"),
}


def root_seconds(X, y) -> float:
    """The time to learn the root alone; code compiled beforehand."""
    few = min(500, X.shape[0])
    SpectralFilter(max_depth=1, random_state=0).fit(X[:few], y[:few])
    return fit_seconds(SpectralFilter(max_depth=1, random_state=0), X, y)


def main() -> None:
    """Print the table."""
    args = parse(__doc__)
    keys = ("labels per row", "rows", "features", "classes", "root s")
    rows = [
        {"data": name, "who": "paper, Table 1", **dict(zip(keys, cells, strict=True))}
        for name, cells in PAPER.items()
    ]  # fmt: skip
    for name in at_hand(SETS):
        title = SETS[name]
        X, y, _, _ = load_tfidf(name) if name in COUNTS else load_or_skip(name)
        if args.quick:
            X, y = X[::20], y[::20]
        several = sp.issparse(y)
        classes = np.count_nonzero(np.asarray(y.sum(axis=0)).ravel()) if several else len(np.unique(y))
        each = y.sum() / y.shape[0] if several else 1
        cells = (f"{each:.3g}", f"{X.shape[0]:,}", f"{X.shape[1]:,}", f"{classes:,}", f"{root_seconds(X, y):.2f}")
        rows.append({"data": title, "who": "ours", **dict(zip(keys, cells, strict=True))})
    notes = ["Training rows. Root: its direction and its two leaves, one thread; the paper's in Matlab on a desktop."]
    publish("table_1", "Table 1: data sets and the time to learn the root", rows, notes, args.quick)


if __name__ == "__main__":
    main()
