"""Write the data of accuracy.py and speed.py as small files, for a machine with a GPU that may have nothing else.

    python benchmarks/torch/prepare.py FOLDER [--debian FOLDER_OF_CONTENTS]

WordNet comes with the package; revdict and enwik8 must be in the folder MANYCLASS_DATA. Debian contents are the words
of a file's path and the package that has the file: a folder with X.npz, Xt.npz (CSR) and y.npz (y, yt).
"""

import argparse
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from manyclass.datasets import load


def pack(folder: Path, name: str, X, y, X_test, y_test) -> None:
    """Word numbers and counts of all rows, and the classes."""
    arrays = {}
    for split, rows, labels in (("train", X, y), ("test", X_test, y_test)):
        rows = sp.csr_array(rows)
        kind = np.uint16 if rows.shape[1] <= 1 << 16 else np.uint32
        arrays |= {
            f"{split}_word": rows.indices.astype(kind),
            f"{split}_count": np.minimum(rows.data, 255).astype(np.uint8),
            f"{split}_end": np.asarray(rows.indptr[1:], np.uint32),
            f"{split}_class": np.asarray(labels, np.uint16),
        }
    np.savez_compressed(folder / f"{name}.npz", n_words=X.shape[1], **arrays)


def main() -> None:
    """Write one file per set."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--debian", type=Path, help="folder with the Debian contents")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    for name in ("wordnet-hypernym", "revdict"):
        pack(args.folder, name, *load(name))
    train, valid, test = load("enwik8")
    np.savez_compressed(args.folder / "enwik8.npz", train=train, valid=valid, test=test)
    if args.debian:
        X, X_test = (sp.load_npz(args.debian / f"{name}.npz") for name in ("X", "Xt"))
        for rows in (X, X_test):
            rows.data[:] = 1  # words are present or not
        used = np.flatnonzero(np.bincount(X.indices, minlength=X.shape[1]) >= 3)
        labels = np.load(args.debian / "y.npz")
        pack(args.folder, "debian-contents", X[:, used], labels["y"], X_test[:, used], labels["yt"])


if __name__ == "__main__":
    main()
