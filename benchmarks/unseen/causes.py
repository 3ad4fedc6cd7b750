"""Where our estimators lose accuracy: ``python benchmarks/unseen/causes.py``. Prints a Markdown table. See --help.

Low training accuracy means that the model underfits, low recall that the tree leaves out the true label, and a large
ratio of the columns' scales that a few columns outweigh the others.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])  # of the repository: `benchmarks` is not installed

import manyclass
from benchmarks.sets import SetUnavailable, prepare
from benchmarks.tables import markdown_table
from benchmarks.unseen.build import RECIPES, set_name
from benchmarks.unseen.run import ENTRANTS, SETS

HEAD = ["set", "estimator", "training %", "test %", "recall of candidates %", "largest / median column"]


def scale_ratio(X: Any) -> float:
    """The root mean square of the largest column over that of the median column; columns of zeros do not count."""
    squares = sp.csr_matrix(X).astype(np.float64).power(2).mean(axis=0)
    scales = np.sqrt(np.asarray(squares).ravel())
    return float(scales.max() / np.median(scales[scales > 0]))


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a row for each set and estimator."""
    ours = [entrant.name for entrant in ENTRANTS.values() if entrant.ours]
    parser = argparse.ArgumentParser(description="Training accuracy, recall and scales of our estimators.")
    parser.add_argument("--sets", nargs="+", choices=list(RECIPES), default=list(RECIPES), metavar="SET")
    parser.add_argument("--entrants", nargs="+", choices=ours, default=ours, metavar="NAME")
    options = parser.parse_args(arguments)
    rows = []
    for name in options.sets:
        try:
            X, y, X_test, y_test = prepare(SETS[set_name(name)])
        except SetUnavailable as error:
            print(f"{name}: left out, {error}", file=sys.stderr)
            continue
        for entrant in options.entrants:
            model = getattr(manyclass, ENTRANTS[entrant].estimator)(random_state=0).fit(X, y)
            test = model.diagnose(X_test, y_test)
            shares = (model.score(X, y), test["accuracy"], test["recall"])
            texts = [f"{100 * share:.1f}" for share in shares]
            rows.append([name, ENTRANTS[entrant].title, *texts, f"{scale_ratio(X):.3g}"])
    if rows:
        print(markdown_table(HEAD, rows))
    return int(not rows)


if __name__ == "__main__":
    sys.exit(main())
