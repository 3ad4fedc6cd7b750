"""Size of a label tree after `fit`, and what `estimate_memory` said before, on sparse text."""

import tracemalloc

import numpy as np
import scipy.sparse as sp
from report import at_hand, load_unit, parse, publish
from sklearn.preprocessing import normalize

from manyclass import LabelTreeClassifier

FITTED = ("wordnet-hypernym", "clinc150", "revdict", "bibtex", "delicious", "eurlex-4k", "rcv1-topics")
OTHERS = ("cities", "code", "devices", "licences", "maintainers", "manpages", "messages", "sources")
RANDOM = {  # rows, labels, words of a row, features, and the share of words that belong to the label of the row
    "random-half": (20_000, 2000, 40, 20_000, 0.5),
    "random-all": (20_000, 500, 40, 20_000, 0.0),
}
SETS = (*FITTED, *(f"unseen-{name}" for name in OTHERS), *RANDOM)


def random_text(n_rows: int, n_labels: int, n_words: int, n_features: int, share: float) -> tuple:
    """Words drawn at random, so that the rows of a label have few words in common, or none but by chance."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, n_labels, n_rows)
    own = rng.integers(0, n_features, (n_labels, n_words))[y]
    words = np.where(rng.random(own.shape) < share, own, rng.integers(0, n_features, own.shape))
    where = np.repeat(np.arange(n_rows), n_words), words.ravel()
    X = sp.csr_matrix((np.ones(words.size, np.float32), where), shape=(n_rows, n_features))
    return normalize(X), y


def main() -> None:
    """Print the table."""
    args = parse(__doc__, sets={"nargs": "*", "default": list(SETS), "help": "which sets to run"})
    rows = []
    known = set(at_hand([name for name in args.sets if name not in RANDOM]))
    for name in args.sets:
        if name not in known and name not in RANDOM:
            continue
        X, y = random_text(*RANDOM[name]) if name in RANDOM else load_unit(name)[:2]
        if args.quick:
            X, y = X[:2000], y[:2000]
        model, several = LabelTreeClassifier(random_state=0, n_jobs=2), sp.issparse(y)
        n_classes = y.shape[1] if several else len(np.unique(y))
        estimate = model.estimate_memory(
            len(np.unique(X.indices)), n_classes, sparse=True, multilabel=several, n_rows=X.shape[0],
            n_nonzero=X.nnz / X.shape[0],
            n_labels=y.sum() / y.shape[0] if several else 1.0,
        )  # fmt: skip
        LabelTreeClassifier(n_epochs=1).fit(X[:2000], y[:2000]).partial_fit(X[:1], y[:1])  # compiles
        actual = model.fit(X, y).n_bytes_
        tracemalloc.start()
        unpacked = model.partial_fit(X[:1], y[:1]).n_bytes_
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        rows.append(
            {
                "set": name,
                "MB": f"{actual / 1e6:.1f}",
                "estimate / actual": f"{estimate / actual:.2f}",
                "after partial_fit": f"{unpacked / actual:.0f} x",
                "while it unpacks": f"{peak / actual:.0f} x",
            }
        )
        print(rows[-1], flush=True)
    if rows:
        notes = [
            "Defaults; sizes in memory. The formula was fitted to the sets up to rcv1-topics. random-half and "
            "random-all: words drawn at random. After `partial_fit` of one row: the size of the model, and the most "
            "memory that the call allocates, as multiples of the size after `fit`."
        ]
        publish("memory", "Label tree: size and its estimate", rows, notes, args.quick)


if __name__ == "__main__":
    main()
