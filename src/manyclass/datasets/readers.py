"""Readers of the public sets: from the downloaded files in a folder to the arrays of the packed form."""

import gzip
import hashlib
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_svmlight_file

from .packed import Arrays, pack_split

# SHA-256 of the sorted rows (617 ten-thousandths and the class, as int16): the published split in any order.
_ISOLET = {
    "train": "f956aecd80a662692c80ef2f615cc81525fd9b7b8dc2bd8a13a90a73fabe57dc",
    "test": "5ec3b2c9ac4ff64fb97c1e668821665b20db63e58cf0671728dc653d12f7bc6e",
}

MNIST_FILES = [
    f"{part}-ubyte.gz" for part in ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
]
RCV1_FILES = [f"rcv1subset_topics_{split}_{number}.svm.bz2" for split in ("train", "test") for number in range(1, 6)]


def aloi(folder: Path) -> Arrays:
    """Vowpal Wabbit text; labels 1 to 1,000 and features 1 to 128 become 0 to 999 and 0 to 127."""
    packed: Arrays = {}
    for split in ("train", "test"):
        with gzip.open(folder / f"aloi_{split}.vw.gz", "rb") as file:
            text = file.read().replace(b"|", b"")  # "LABEL | INDEX:VALUE ..." is svmlight but for the bar
        X, y = load_svmlight_file(io.BytesIO(text), n_features=128, dtype=np.float32, zero_based=False)
        packed |= pack_split(X, y.astype(np.int32) - 1, split)
    return packed


def isolet(folder: Path) -> Arrays:
    """The comma-separated table of UCI: a header, the 6,238 training rows, the 1,559 test rows; classes 1 to 26 last.

    Inputs have four decimals and are stored as ten-thousandths.
    """
    table = np.loadtxt(folder / "isolet.csv", delimiter=",", skiprows=1, ndmin=2)
    rows = np.column_stack([np.round(table[:, :-1] * 1e4), table[:, -1] - 1]).astype("<i2")
    packed: Arrays = {"scale": np.array(1e-4, np.float32)}
    for split, part in (("train", rows[:6_238]), ("test", rows[6_238:])):
        if hashlib.sha256(b"".join(sorted(map(bytes, part)))).hexdigest() != _ISOLET[split]:
            raise ValueError(f"isolet.csv: the {split} rows are not those of the published split")
        packed[f"X_{split}"], packed[f"y_{split}"] = part[:, :-1], part[:, -1]
    return packed


def mnist(folder: Path) -> Arrays:
    """Four gzipped IDX files: headers of 16 or 8 bytes, then 784 pixels per image (scaled to 0 to 1) or the digits."""
    images, digits, test_images, test_digits = (
        np.frombuffer(gzip.decompress((folder / name).read_bytes()), np.uint8, offset=16 if "images" in name else 8)
        for name in MNIST_FILES
    )
    return {
        "scale": np.array(1 / 255, np.float32),
        "X_train": images.reshape(-1, 784), "y_train": digits,
        "X_test": test_images.reshape(-1, 784), "y_test": test_digits,
    }  # fmt: skip


def repository(folder: Path) -> Arrays:
    """A set of the Extreme Classification Repository with a training and a test file."""
    packed: Arrays = {}
    for split in ("train", "test"):
        packed |= pack_split(*_read_repository_file(_only_file(folder, f"{split}.txt")), split)
    return packed


def repository_with_splits(folder: Path) -> Arrays:
    """A set of that repository with all rows in one file and ten splits beside it; the first split is used.

    A file of splits has one row per training (test) row: its positions in the ten splits, counted from 1.
    """
    X, Y = _read_repository_file(_only_file(folder, "_data.txt"))
    packed: Arrays = {}
    for split, ending in (("train", "_trSplit.txt"), ("test", "_tstSplit.txt")):
        chosen = np.loadtxt(_only_file(folder, ending), dtype=np.int64, ndmin=2)[:, 0] - 1
        packed |= pack_split(X[chosen], Y[chosen], split)
    return packed


def rcv1_topics(folder: Path) -> Arrays:
    """Five overlapping samples of RCV1 from LIBSVM, joined.

    Repeated documents are dropped, and so are test documents that are also training documents. A document has the
    labels of all samples in which it occurs.
    """
    known: set[bytes] = set()
    splits = []
    for files in (RCV1_FILES[:5], RCV1_FILES[5:]):
        of_document: dict[bytes, tuple[Any, set[float]]] = {}  # content → its row and its labels
        for file in files:
            X, labels = load_svmlight_file(
                str(folder / file), n_features=47_236, dtype=np.float32, multilabel=True, zero_based=False
            )
            for row, of_row in zip(X, labels, strict=True):
                document = row.indices.tobytes() + row.data.tobytes()
                if document not in known:
                    of_document.setdefault(document, (row, set()))[1].update(of_row)
        known.update(of_document)
        splits.append(list(of_document.values()))
    n_labels = 1 + int(max(max(labels, default=0) for split in splits for _, labels in split))
    packed: Arrays = {}
    for split, found in zip(("train", "test"), splits, strict=True):
        Y = _indicator([sorted(labels) for _, labels in found], n_labels)
        packed |= pack_split(sp.vstack([row for row, _ in found], format="csr"), Y, split)
    return packed


def _read_repository_file(path: Path) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """Inputs and labels of a file whose first line is the number of rows, features and labels; the rest is svmlight."""
    with open(path, "rb") as file:
        n_rows, n_features, n_labels = map(int, file.readline().split())
        X, labels = load_svmlight_file(file, n_features=n_features, dtype=np.float32, multilabel=True, zero_based=True)
    if X.shape[0] != n_rows:
        raise ValueError(f"{path.name} has {X.shape[0]:,} rows, but its first line says {n_rows:,}")
    return X, _indicator(labels, n_labels)


def _indicator(labels: Sequence[Any], n_labels: int) -> sp.csr_matrix:
    """Lists of labels as a matrix of zeros and ones; a label that a row repeats counts once."""
    indptr = np.cumsum([0, *map(len, labels)])
    indices = np.array([label for row in labels for label in row], np.int32)
    matrix = sp.csr_matrix((np.ones(len(indices), np.int32), indices, indptr), shape=(len(labels), n_labels))
    matrix.check_format(full_check=True)
    return (matrix > 0).astype(np.int8)


def _only_file(folder: Path, ending: str) -> Path:
    """The only unpacked file whose name ends so; macOS adds files `._NAME` to archives."""
    found = [path for path in folder.rglob(f"*{ending}") if not path.name.startswith("._")]
    if len(found) != 1:
        raise ValueError(f"expected one file *{ending}, found {len(found)}: {', '.join(path.name for path in found)}")
    return found[0]
