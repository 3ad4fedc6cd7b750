"""Label issues: 5 % of the labels of CLINC150 and WordNet are replaced at random; how many of them are found?

Precision and recall of the rows that are reported, average precision of the ranking, beside cleanlab's methods on the
same out-of-fold probabilities. cleanlab runs under the Python of `--cleanlab`, which has cleanlab installed; without
it, only our figures are printed. CLINC150 requires MANYCLASS_DATA. Writes benchmarks/decisions/label_issues.md.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import average_precision_score

ROOT = Path(__file__).resolve().parents[1]
if __name__ == "__main__":
    sys.path[0] = str(ROOT)  # of the repository: `benchmarks` is not installed

from benchmarks.origin import machine, when  # noqa: E402
from benchmarks.sets import rows_of, shuffled  # noqa: E402
from benchmarks.tables import markdown_table  # noqa: E402
from manyclass import LabelTreeClassifier  # noqa: E402
from manyclass.core.classes import ClassIndex  # noqa: E402
from manyclass.core.label_issues import OutOfFold, folds_of, issues_of, out_of_fold  # noqa: E402
from manyclass.datasets import DataNotFound  # noqa: E402

PAGE = ROOT / "benchmarks" / "decisions" / "label_issues.md"
SETS = {"clinc150": "CLINC150", "wordnet-hypernym": "WordNet"}
SHARE = 0.05


def flipped(y: np.ndarray, seed: int) -> np.ndarray:
    """Class numbers, a share of them replaced by another one at random."""
    rng = np.random.default_rng(seed)
    out, n_classes = y.copy(), int(y.max()) + 1
    rows = rng.choice(len(y), round(SHARE * len(y)), replace=False)
    out[rows] = (y[rows] + rng.integers(1, n_classes, len(rows))) % n_classes
    return out


def scores_of(name: str, method: str, wrong: np.ndarray, rows: np.ndarray, suspicion: np.ndarray | None) -> list[str]:
    """A line of the table."""
    hits = int(wrong[rows].sum())
    ranking = "" if suspicion is None else f"{100 * average_precision_score(wrong, suspicion):.1f}"
    precision, recall = 100 * hits / max(1, len(rows)), 100 * hits / int(wrong.sum())
    return [name, method, f"{len(rows):,}", f"{precision:.1f}", f"{recall:.1f}", ranking]


def cleanlab_rows(python: str, found: OutOfFold, given: np.ndarray, n_classes: int) -> dict[str, Any]:
    """The rows that cleanlab reports, by method, and its quality of every row."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scores.npz"
        np.savez(path, row=found.row, label=found.label, probability=found.probability, given=given, k=n_classes)
        script = ROOT / "benchmarks" / "runners" / "clean_lab.py"
        done = subprocess.run([python, str(script), str(path)], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return json.loads(done.stdout.splitlines()[-1])


def probabilities(X: Any, numbers: np.ndarray, seed: int, path: Path | None) -> OutOfFold:
    """The out-of-fold probabilities, from a file if it exists."""
    if path is not None and path.exists():
        with np.load(path) as file:
            return OutOfFold(file["row"], file["label"], file["probability"])
    index, folds = ClassIndex(np.unique(numbers)), folds_of(numbers, 5, seed)
    found = out_of_fold(LabelTreeClassifier(random_state=seed), X, numbers, index, folds)
    if path is not None:
        np.savez(path, **found._asdict())
    return found


def measured(name: str, title: str, options: argparse.Namespace) -> list[list[str]]:
    """The lines of one set."""
    X, y, _, _ = shuffled(rows_of(name))
    y = np.unique(y, return_inverse=True)[1]
    seed, python = options.seed, options.cleanlab
    given = flipped(y, seed)
    labels, numbers = np.unique(given, return_inverse=True)
    path = None if options.folder is None else Path(options.folder) / f"{name}.{seed}.npz"
    found = probabilities(X, numbers, seed, path)
    issues, wrong = issues_of(found, numbers, labels), given != y
    suspicion = np.where(np.isnan(issues.quality), -np.inf, -issues.quality)
    suspicion[np.isinf(suspicion)] = suspicion[np.isfinite(suspicion)].min()
    lines = [scores_of(title, "manyclass", wrong, issues.rows, suspicion)]
    print(lines[0], flush=True)
    hits = wrong[issues.rows]
    right = np.mean(issues.suggested[hits] == y[issues.rows[hits]])
    print(f"{title}: {wrong.sum():,} flipped; of those found, {100 * right:.1f} % get the true label as suggestion")
    if python is not None:
        others = cleanlab_rows(python, found, numbers, len(labels))
        for method, rows in others["rows"].items():
            quality = np.array(others["quality"][others["ranking"][method]])
            lines.append(scores_of(title, f"cleanlab, {method}", wrong, np.array(rows, int), -quality))
            print(lines[-1], flush=True)
    return lines


def main() -> None:
    """Measure, print and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cleanlab", metavar="PYTHON", help="a Python that has cleanlab")
    parser.add_argument("--folder", help="keep out-of-fold probabilities here, and use those that are there")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    options = parser.parse_args()
    lines = []
    for name in options.sets:
        try:
            lines += measured(name, SETS[name], options)
        except DataNotFound as error:
            print(f"{SETS[name]} left out: {error}")
    head = ["set", "method", "rows reported", "precision %", "recall %", "average precision %"]
    table = markdown_table(head, lines)
    print(table)
    PAGE.write_text(
        f"# Label issues\n\n`python benchmarks/label_issues.py --cleanlab PYTHON` writes this page. "
        f"{machine()['machine']}; {when()}. {100 * SHARE:.0f} % of the training labels were replaced at "
        "random. All methods get the same out-of-fold probabilities of a label tree (5 folds, 20 candidates per row). "
        f"Average precision is that of the ranking of all rows.\n\n{table}\n"
    )


if __name__ == "__main__":
    main()
