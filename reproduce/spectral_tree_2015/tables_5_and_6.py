"""Tables 5 and 6 of the spectral paper: the tree and a flat low-rank model on text, one label per row or several.

ODP and LSHTC if they are in MANYCLASS_DATA; else WordNet, and two sets with several labels per row.
"""

import gc

import numpy as np
import scipy.sparse as sp
from models import (
    BITS,
    FLAT,
    MOST_CELLS,
    OURS,
    PAPER,
    RANKS,
    SUBSTITUTES,
    TITLES,
    inputs,
    recall_of_frequent,
    run,
)
from report import at_hand, paired, parse, publish

from manyclass.datasets import available
from manyclass.metrics import precision_at_k

# As printed: accuracy or P@1, depth, labels scored, recall, recall of as many frequent labels, examples per second.
PRINTED = {
    5: ("odp", {
        "flat, rank 300": ("16.85", None, None, None, None, "1,700"),
        "tree": ("19.53", "13.98", "3,882", "50.4", "29.3", "230"),
    }),
    6: ("lshtc", {
        "flat, rank 800 and random Fourier features": ("53.4", None, None, None, None, "60"),
        "tree": ("54.0", "14", "3,998", "72", "33.7", "1,058"),
    }),
}  # fmt: skip
EXTRA = {
    "table": {"type": int, "choices": list(PRINTED), "help": "only this one"},
    "sets": {"nargs": "*", "default": list(TITLES), "help": "only these of its sets"},
}
KEYS = ("P@1", "depth", "labels scored", "recall %", "of the most frequent %", "rows/s")


def line(data: str, who: str, cells, told: dict | None = None, other=None) -> dict:
    """One row of the table; `other`: whether the flat model predicted each test row correctly."""
    told = told or {}
    return {
        "data": data, "model": who, **dict(zip(KEYS, cells, strict=True)),
        "P@3": told.get("P@3"), "P@5": told.get("P@5"), **paired(told.get("correct"), other, FLAT),
        "train s": f"{told['train']:.1f}" if told else None, "budget": told.get("budget") or None,
    }  # fmt: skip


def measure(name: str, who: str, rows: tuple, quick: bool) -> tuple[tuple, dict]:
    """The cells of one model, and what else was measured."""
    _, y, _, y_test = rows
    told = run(name, who, rows, quick)
    if sp.issparse(y):
        told |= {f"P@{k}": f"{100 * precision_at_k(y_test, told['best'], k):.2f}" for k in (3, 5)}
    tree = [None] * 4
    if who != FLAT:
        n_scored = told["candidates_scored"]
        frequent = recall_of_frequent(y, y_test, round(n_scored))
        tree = [f"{told['depth']:.2f}", f"{n_scored:,.0f}", f"{100 * told['recall']:.1f}", f"{frequent:.1f}"]
    return (f"{100 * told['correct'].mean():.2f}", *tree, f"{told['speed']:,.0f}"), told


def main() -> None:
    """Print both tables."""
    args = parse(__doc__, **EXTRA)
    for number in [args.table] if args.table else PRINTED:
        own, printed = PRINTED[number]
        names = [own] if available(own) else list(SUBSTITUTES[own])
        print(f"data: {', '.join(names)}" + ("" if names == [own] else f", in place of {own}, which is not here"))
        table, right = [line(TITLES[own], f"paper: {who}", cells) for who, cells in printed.items()], {}
        for name in at_hand(name for name in names if name in args.sets):
            rows, flat = inputs(name, args.quick), None
            n, n_classes = rows[OURS][0].shape[0], len(np.unique(labels_of(rows[OURS][1])))
            data = f"{TITLES[name]}, {n_classes:,} classes"
            for who in (FLAT, PAPER, OURS) if n * n_classes <= MOST_CELLS else (PAPER, OURS):
                cells, told = measure(name, who, rows[who], args.quick)
                shown = f"flat, rank {RANKS.get(name, 50)}" if who == FLAT else who
                table.append(line(data, shown, cells, told, flat))
                right[f"{data}: {shown}"] = told["correct"]
                flat = told["correct"] if who == FLAT else flat
                print(f"{data}, {shown}: {cells[0]} %", flush=True)
                del told
                gc.collect()
            write(number, table, right, args.quick)


def labels_of(y) -> np.ndarray:
    """All labels of the rows."""
    return y.indices if sp.issparse(y) else y


def write(number: int, table: list[dict], right: dict, quick: bool) -> None:
    """The table so far: an interrupted run keeps what it has measured."""
    publish(
        f"table_{number}", f"Table {number}: the tree and a flat model on text", table,
        ["P@1: accuracy with one label per row. recall %: true labels of the test rows among the labels scored, beside "
         "the share that as many of the most frequent labels contain. Difference: error of the row minus error of the "
         "flat model, with McNemar's exact test on the same test rows.",
         f"{PAPER}: SpectralTreeClassifier(rules=\"paper\", max_depth=\"validate\") on counts hashed to 2^{BITS} "
         "features and mapped by Hellinger(): one path, a bias per leaf and label, plain SGD from zero. flat: "
         "scikit-learn's MLPClassifier with one linear hidden layer, softmax or logistic outputs and Adam, on the same "
         "inputs. Both had the same search of rate and epochs on a tenth of the training rows (search.py). "
         f"{OURS}: SpectralTreeClassifier() on tf-idf, or on rows as they come, of length 1; nothing was searched.",
         "The paper's sets are other data, so no difference from its numbers is given. Its flat model of Table 5 was "
         "trained by randomized linear algebra, that of Table 6 has a second hidden layer of 4,000 random Fourier "
         "features. One thread. The flat model is left out where rows times classes exceed 2^29. EURLex-4K "
         "is left out: one epoch of the paper's algorithm takes more than a minute there."],
        quick, right,
    )  # fmt: skip


if __name__ == "__main__":
    main()
