"""The model of a cluster is that of `fit` on one machine, byte for byte.

    MANYCLASS_DATA=... python benchmarks/dask/equality.py --sets wordnet-hypernym eurlex-4k --workers 1 2 4
"""

import argparse
import sys
import tempfile
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[2])  # of the repository: `benchmarks` is not installed

from benchmarks.dask.running import digest, running, write_partitions  # noqa: E402
from benchmarks.sets import SetUnavailable  # noqa: E402
from manyclass import LabelTreeClassifier  # noqa: E402
from manyclass.distributed import DaskLabelTreeClassifier  # noqa: E402


def main() -> None:
    """Print a line for each set and number of workers; exit with 1 if a digest differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=["wordnet-hypernym", "eurlex-4k", "big-text-0.05"])
    parser.add_argument("--workers", nargs="+", type=int, default=[1, 2, 4])
    parser.add_argument("--parts", type=int, default=10)
    options = parser.parse_args()
    wrong = 0
    for name in options.sets:
        with tempfile.TemporaryDirectory() as folder:
            try:
                X, y, parts = write_partitions(name, options.parts, Path(folder))
            except SetUnavailable as error:
                print(f"{name}: skipped, {error}")
                continue
            expected = digest(LabelTreeClassifier(random_state=0).fit(X, y))
            print(f"{name}: fit on one machine {expected[:16]}", flush=True)
            for n_workers in options.workers:
                with running(n_workers) as (_, client):
                    found = digest(DaskLabelTreeClassifier(client, random_state=0).fit(parts).to_local())
                wrong += found != expected
                same = "the same" if found == expected else "DIFFERENT"
                print(f"{name}: {n_workers} workers {found[:16]} {same}", flush=True)
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
