"""What `LabelTreeClassifier.fit` spends on choices from held-out rows, as a share of all its work.

    MANYCLASS_DATA=folder python benchmarks/validation_share.py             # the sets of the race, at most 20,000 rows
    MANYCLASS_DATA=folder python benchmarks/validation_share.py aloi bibtex --rows 5000

Choices are made in `fit`: where training starts (`start`), `C` (text with one label per row), whether
nearest rows help (`neighbors`, dense rows), and the threshold (several labels per row). Work is counted as non-zeros of
a row times outputs of a node, for each row that a node learns or scores. Passes over the same rows count once, so the
share of the start, which makes only one, is an upper bound. The last column is the share of the processor time of
`fit`.
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import scipy.sparse as sp

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])  # of the repository: `benchmarks` is not installed

from benchmarks.sets import SETS, SetUnavailable, prepare
from benchmarks.tables import markdown_table
from manyclass import LabelTreeClassifier
from manyclass.label_tree import fit
from manyclass.label_tree.parts import row_lengths

NAMES = [name for name, one in SETS.items() if not one.series]
CHOICES = ("start", "C", "neighbors", "threshold")
LEARNING = "learning"


class Work:
    """Work and processor time of a `fit`, by what they are for."""

    def __init__(self) -> None:
        self.purpose, self.work, self.seconds = LEARNING, Counter[str](), Counter[str]()

    def counted(self, function: Callable, pairs_at: int) -> Callable:
        """A function that learns or scores the rows of nodes; three of its arguments are rows, pairs and the tree."""

        def wrapped(*args: Any) -> Any:
            tree = next(arg for arg in args if hasattr(arg, "leaf_of"))
            rows, pairs = args[pairs_at - 1], args[pairs_at]
            self.work[self.purpose] += int((row_lengths(rows.batch)[pairs.row] * tree.size[pairs.node]).sum())
            return function(*args)

        return wrapped

    def for_choice(self, function: Callable, purpose: str) -> Callable:
        """A function that makes a choice; what it calls belongs to the choice."""

        def wrapped(*args: Any) -> Any:
            before, begin = self.purpose, time.process_time()
            self.purpose = purpose if before == LEARNING else before
            try:
                return function(*args)
            finally:
                self.seconds[purpose] += (time.process_time() - begin) * (before == LEARNING)
                self.purpose = before

        return wrapped

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Count what `fit` does meanwhile."""
        kind = LabelTreeClassifier
        changed = [
            (fit, "train_pairs", self.counted(fit.train_pairs, 1)),
            (fit, "left_out_scores", self.counted(fit.left_out_scores, 3)),
            (fit, "calibrate", self.for_choice(fit.calibrate, "start")),
            (fit, "_strength", self.for_choice(fit._strength, "C")),
            (fit, "_ranking", self.for_choice(fit._ranking, "neighbors")),
            (kind, "_learn_threshold", self.for_choice(kind._learn_threshold, "threshold")),
        ]
        originals = [(where, name, where.__dict__.get(name)) for where, name, _ in changed]
        for where, name, function in changed:
            setattr(where, name, function)
        try:
            yield
        finally:
            for where, name, original in originals:
                if original is None:
                    delattr(where, name)  # it is that of a base class
                else:
                    setattr(where, name, original)


def line(name: str, n_rows: int) -> list[str]:
    """A line of the table."""
    X, y, _, _ = prepare(SETS[name], n_rows)
    y = sp.csr_array(y) if SETS[name].several else y
    LabelTreeClassifier(random_state=0).fit(X[:500], y[:500])  # compiles
    work, begin = Work(), time.process_time()
    with work.watching():
        LabelTreeClassifier(random_state=0).fit(X, y)
    seconds, total = time.process_time() - begin, sum(work.work.values())
    shares = [100 * work.work[choice] / total for choice in CHOICES]
    texts = [f"{share:.1f}" for share in (*shares, sum(shares), 100 * sum(work.seconds.values()) / seconds)]
    return [SETS[name].title, f"{X.shape[0]:,}", *texts]


def main() -> None:
    """Measure and print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sets", nargs="*", choices=[*NAMES, []], help="default: all")
    parser.add_argument("--rows", type=int, default=20_000, help="training rows, at most")
    options = parser.parse_args()
    rows = []
    for name in options.sets or NAMES:
        try:
            rows.append(line(name, options.rows))
        except SetUnavailable as error:
            print(f"{name}: skipped, {error}", file=sys.stderr)
    head = ["set", "rows", *(f"{choice}, %" for choice in CHOICES), "together, %", "processor time, %"]
    print(markdown_table(head, rows) if rows else "no set is available")


if __name__ == "__main__":
    main()
