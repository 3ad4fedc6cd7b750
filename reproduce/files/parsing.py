"""Speed and memory of reading svmlight files, beside scikit-learn's `load_svmlight_file` in the same run.

Writes a file of random sparse rows, streams it (the memory is measured first, while nothing else has grown it), then
lets both read a part that fits into memory. The best of several runs counts for both.
"""

import argparse
import os
import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from sklearn.datasets import load_svmlight_file

from manyclass.io import Reading, Source


def write(path: Path, size: int, digits: int) -> None:
    """Write about `size` bytes: 100,000 features, about 60 a row, 1,000 labels."""
    rng = np.random.default_rng(0)
    lines = []
    for _ in range(2000):
        features = np.unique(rng.integers(1, 100_000, rng.integers(20, 100)))
        values = rng.random(len(features))
        pairs = " ".join(f"{index}:{value:.{digits}g}" for index, value in zip(features, values, strict=True))
        lines.append(f"{rng.integers(1000)} {pairs}\n")
    with path.open("w") as file:
        written = 0
        while written < size:
            text = "".join(lines[i] for i in rng.permutation(len(lines)))
            file.write(text)
            written += len(text)


def peak_memory() -> float:
    """The most memory this process ever had, in MB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


def stream(path: Path, reading: Reading) -> int:
    """Read a file through, keeping nothing: its rows."""
    source = Source(path, reading)
    for _ in source.chunks():
        pass
    return source.n_rows


def best_seconds(read, repeats: int) -> float:
    """The shortest of some runs."""
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        read()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def main() -> None:
    """Print one line each for memory and speed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=1000, help="size of the file that is streamed (1000)")
    parser.add_argument("--compared", type=int, default=50, help="megabytes that both read (50)")
    parser.add_argument("--digits", type=int, default=6, help="significant digits of a value (6)")
    parser.add_argument("--repeats", type=int, default=3, help="runs; the best counts (3)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        part, whole = Path(name) / "part.svm", Path(name) / "whole.svm"
        write(part, args.compared * 10**6, args.digits)
        write(whole, args.megabytes * 10**6, args.digits)
        hashed, all_features = Reading(), Reading(n_features=100_000)
        stream(part, hashed)  # compiles, or loads what was compiled
        before = peak_memory()
        start = time.perf_counter()
        n_rows = stream(whole, hashed)
        seconds = time.perf_counter() - start
        size = os.path.getsize(whole)
        print(f"streamed {size / 1e6:.0f} MB, {n_rows} rows: {size / 1e6 / seconds:.0f} MB/s")
        print(f"peak memory grew by {peak_memory() - before:.1f} MB (from {before:.0f} MB, after a file of "
              f"{os.path.getsize(part) / 1e6:.0f} MB)")  # fmt: skip
        megabytes = os.path.getsize(part) / 1e6
        ours = megabytes / best_seconds(lambda: stream(part, all_features), args.repeats)
        ours_hashed = megabytes / best_seconds(lambda: stream(part, Reading(feature_bits=16)), args.repeats)
        theirs = megabytes / best_seconds(lambda: load_svmlight_file(part, dtype=np.float32), args.repeats)
        print(f"manyclass {ours:.0f} MB/s, with features hashed {ours_hashed:.0f} MB/s, scikit-learn {theirs:.0f} MB/s")
        print(f"that is {ours / theirs:.1f} and {ours_hashed / theirs:.1f} times as fast")


if __name__ == "__main__":
    main()
