"""Labels ranked by probability and by probability / propensity: precision and propensity-scored precision.

    MANYCLASS_DATA=folder python benchmarks/propensity.py            # Bibtex, Delicious, EURLex-4K

Trained on the training rows with default options, measured on the test rows. Nothing is chosen.
"""

import argparse
import sys
from pathlib import Path

import scipy.sparse as sp

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])  # of the repository: `benchmarks` is not installed

from benchmarks.sets import SETS, SetUnavailable, prepare
from benchmarks.tables import markdown_table
from benchmarks.thresholds import DEFAULT, NAMES
from manyclass import LabelTreeClassifier
from manyclass.metrics import precision_at_k, propensities, psp_at_k

HEAD = ["set", "ranked by", *(f"{metric}@{k}" for metric in ("P", "PSP") for k in (1, 3, 5))]


def lines(name: str, seed: int) -> list[list[str]]:
    """The lines of a set."""
    X, Y, X_test, Y_test = prepare(SETS[name])
    Y, Y_test = sp.csr_array(Y), sp.csr_array(Y_test)
    model, own, found = LabelTreeClassifier(random_state=seed, n_jobs=-1).fit(X, Y), propensities(Y), []
    for rule, propensity in (("score", None), ("probability / propensity", own)):
        top, _ = model.predict_topk(X_test, 5, propensity=propensity)
        scores = [precision_at_k(Y_test, top, k) for k in (1, 3, 5)]
        scores += [psp_at_k(Y_test, top, k, own) for k in (1, 3, 5)]
        found.append([SETS[name].title, rule, *(f"{100 * score:.1f}" for score in scores)])
    return found


def main() -> None:
    """Measure and print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sets", nargs="*", choices=[*NAMES, []], help=f"default: {' '.join(DEFAULT)}")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rows = []
    for name in options.sets or DEFAULT:
        try:
            rows += lines(name, options.seed)
        except SetUnavailable as error:
            print(f"{name}: skipped, {error}", file=sys.stderr)
    print(markdown_table(HEAD, rows) if rows else "no set is available")


if __name__ == "__main__":
    main()
