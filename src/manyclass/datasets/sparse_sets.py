"""Readers of the sparse public sets: from downloaded files to the arrays of the packed form."""

import gzip
from collections.abc import Iterable
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from ..io import Reading, Source
from .archives import unbzipped, unzipped, zip_member
from .packed import Arrays, pack_names, pack_split

_WIDEST = 2**24  # columns of a set whose features are numbers; beyond it they are names that were hashed
_RCV1_WORDS = 47_236


class Rows(NamedTuple):
    """The rows of a file, or of several."""

    X: sp.csr_matrix
    labels: np.ndarray  # one a row, or flat
    pointer: np.ndarray | None  # where the labels of each row begin, if a row may have several


def read_rows(path: Path, reading: Reading) -> Rows:
    """All rows of a file, in memory."""
    inputs, labels, counts, several = [], [], [np.zeros(1, np.int64)], False
    for chunk in Source(path, reading).chunks(2**16):
        assert chunk.labels is not None
        inputs.append(sp.csr_matrix(chunk.X))
        labels.append(chunk.labels)
        if chunk.pointer is not None:
            several = True
            counts.append(np.diff(chunk.pointer))
    if not inputs:
        raise ValueError(f"{path.name} holds no rows")
    pointer = np.cumsum(np.concatenate(counts)) if several else None
    return Rows(sp.vstack(inputs, format="csr"), np.concatenate(labels), pointer)


def joined(parts: Iterable[Rows]) -> Rows:
    """The rows of several files, one after the other."""
    parts = list(parts)
    counts = [np.diff(part.pointer) for part in parts if part.pointer is not None]
    pointer = np.cumsum(np.concatenate([np.zeros(1, np.int64), *counts])) if counts else None
    return Rows(
        sp.vstack([part.X for part in parts], format="csr"), np.concatenate([part.labels for part in parts]), pointer
    )


def indicator(rows: Rows, n_labels: int) -> sp.csr_matrix:
    """The labels of rows as a matrix of zeros and ones; a label that a row repeats counts once."""
    assert rows.pointer is not None
    ones = np.ones(len(rows.labels), np.int8)
    matrix = sp.csr_matrix((ones, rows.labels.astype(np.int32), rows.pointer), shape=(rows.X.shape[0], n_labels))
    matrix.sum_duplicates()
    matrix.data[:] = 1
    return matrix


def aloi(folder: Path) -> Arrays:
    """Vowpal Wabbit's text; labels 1 to 1,000 and features 1 to 128 become 0 to 999 and 0 to 127."""
    packed: Arrays = {}
    reading = Reading("vw", labels="one", label_kind="int", n_features=129)
    for split in ("train", "test"):
        rows = read_rows(folder / f"aloi_{split}.vw.gz", reading)
        packed |= pack_split(_from_one(rows.X), _classes_from_one(rows.labels, 1000), split)
    return packed


def odp(folder: Path) -> Arrays:
    """Vowpal Wabbit's text with numbered features; labels 1 to 105,033 become 0 to 105,032.

    Columns are the numbers of the file, up to the largest of the two files.
    """
    reading = Reading("vw", labels="one", label_kind="int", n_features=2**31 - 1)
    parts = {split: read_rows(folder / f"odp_{split}.vw.gz", reading) for split in ("train", "test")}
    width = _width([rows.X for rows in parts.values()])
    packed: Arrays = {}
    for split, rows in parts.items():
        packed |= pack_split(_cut(rows.X, width), _classes_from_one(rows.labels, 105_033), split)
    return packed


def two_file_zip(folder: Path) -> Arrays:
    """A zip file of the Extreme Classification Repository with a training and a test file."""
    archive = _only_zip(folder)
    packed: Arrays = {}
    for split in ("train", "test"):
        with unzipped(archive, f"{split}.txt") as path:
            source = Source(path, Reading("xmc"))
            rows = read_rows(path, Reading("xmc"))
        assert source.reading.n_labels is not None
        packed |= pack_split(rows.X, indicator(rows, source.reading.n_labels), split)
    return packed


def one_file_zip(folder: Path) -> Arrays:
    """A zip file of that repository with all rows in one file, and ten splits beside it; the first is taken.

    A file of splits has a row of ten numbers for each training (test) row: its places in the ten, counted from 1.
    """
    archive = _only_zip(folder)
    with unzipped(archive, "_data.txt") as path:
        source = Source(path, Reading("xmc"))
        rows = read_rows(path, Reading("xmc"))
    assert source.reading.n_labels is not None
    Y = indicator(rows, source.reading.n_labels)
    packed: Arrays = {}
    seen = np.zeros(rows.X.shape[0], bool)
    for split, ending in (("train", "_trSplit.txt"), ("test", "_tstSplit.txt")):
        with zip_member(archive, ending) as stream:
            chosen = np.loadtxt(stream, dtype=np.int64, ndmin=2)[:, 0] - 1
        if not chosen.size or chosen.min() < 0 or chosen.max() >= len(seen) or seen[chosen].any():
            raise ValueError(f"{archive.name}: *{ending} names rows that are not there, or that are in both parts")
        seen[chosen] = True
        packed |= pack_split(rows.X[chosen], Y[chosen], split)
    return packed


def rcv1(folder: Path) -> Arrays:
    """The vectors of Lewis et al. 2004 (`document index:value ...`), and which topics a document has.

    Topics are numbered in the order of their names, which are kept as the names of the labels.
    """
    topics, of_document = _topics(folder / "rcv1v2.topics.qrels.gz")
    reading = Reading("svmlight", labels="one", label_kind="int", index_base=1, n_features=_RCV1_WORDS)
    packed: Arrays = {"labels": pack_names(topics)}
    tests = [f"lyrl2004_vectors_test_pt{part}.dat.gz" for part in range(4)]
    for split, files in (("train", ["lyrl2004_vectors_train.dat.gz"]), ("test", tests)):
        rows = joined(read_rows(folder / file, reading) for file in files)
        own = [of_document.get(document, []) for document in rows.labels.tolist()]
        pointer = np.cumsum([0, *map(len, own)])
        flat = np.array([topic for topics_of_row in own for topic in topics_of_row], np.int64)
        packed |= pack_split(rows.X, indicator(Rows(rows.X, flat, pointer), len(topics)), split)
    return packed


def rcv1_samples(folder: Path) -> Arrays:
    """LIBSVM's five samples of the same, joined.

    The samples overlap: a document that comes again is dropped, and so is a test document that is a training one.
    The labels of a document are all that the samples give it.
    """
    reading = Reading("svmlight", labels="several", label_kind="int", index_base=1, n_features=_RCV1_WORDS)
    parts = {}
    for split in ("train", "test"):
        with ExitStack() as stack:
            files = [folder / f"rcv1subset_topics_{split}_{number}.svm.bz2" for number in range(1, 6)]
            parts[split] = joined(read_rows(stack.enter_context(unbzipped(file)), reading) for file in files)
    n_labels = 1 + max(int(rows.labels.max(initial=0)) for rows in parts.values())
    packed: Arrays = {}
    known: set[bytes] = set()
    for split, rows in parts.items():
        packed |= pack_split(*_new_rows(rows, known, n_labels), split)
    return packed


def _new_rows(rows: Rows, known: set[bytes], n_labels: int) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """Each row once, less the known ones, with all labels that it has anywhere; `known` learns them."""
    keys = _keys(rows.X)
    first: dict[bytes, int] = {}
    for row, key in enumerate(keys):
        if key not in known:
            first.setdefault(key, row)
    known.update(first)
    place = {key: number for number, key in enumerate(first)}
    pairs = np.array([(place[key], row) for row, key in enumerate(keys) if key in place], np.int64).reshape(-1, 2)
    same = sp.csr_matrix((np.ones(len(pairs), np.int32), tuple(pairs.T)), shape=(len(first), len(keys)))
    Y = sp.csr_matrix(same @ indicator(rows, n_labels).astype(np.int32))
    Y.data = np.ones(Y.nnz, np.int8)
    return rows.X[list(first.values())], Y


def lshtc(folder: Path) -> Arrays:
    """Kaggle's file: a line `Data`, then `label, label, ... index:value ...`.

    Labels are numbered in the order of their numbers, which are kept as names; columns are the file's numbers. The
    test part is every row whose draw from ``numpy.random.default_rng(0)`` is below 0.1, the rest trains.
    """
    plain = folder / "train.svm.part"
    try:
        with open(folder / "train.csv", "rb") as source, open(plain, "wb") as target:
            target.writelines(line.replace(b", ", b",") for line in source if b":" in line)
        reading = Reading("svmlight", labels="several", label_kind="int", index_base=0, n_features=2**31 - 1)
        rows = read_rows(plain, reading)
    finally:
        plain.unlink(missing_ok=True)
    names, numbers = np.unique(rows.labels, return_inverse=True)
    X = _cut(rows.X, _width([rows.X]))
    Y = indicator(rows._replace(labels=numbers), len(names))
    test = np.random.default_rng(0).random(X.shape[0]) < 0.1
    packed: Arrays = {"labels": pack_names(map(str, names.tolist()))}
    return packed | pack_split(X[~test], Y[~test], "train") | pack_split(X[test], Y[test], "test")


def _topics(path: Path) -> tuple[list[str], dict[int, list[int]]]:
    """From lines `TOPIC document 1`: the topics in order, and the numbers of each document's."""
    pairs: list[tuple[str, int]] = []
    with gzip.open(path, "rt", encoding="ascii") as file:
        for line in file:
            topic, document, _ = line.split()
            pairs.append((topic, int(document)))
    topics = sorted({topic for topic, _ in pairs})
    number = {topic: place for place, topic in enumerate(topics)}
    of_document: dict[int, list[int]] = {}
    for topic, numbered in pairs:
        of_document.setdefault(numbered, []).append(number[topic])
    return topics, of_document


def _keys(X: sp.csr_matrix) -> list[bytes]:
    """What tells one row from another."""
    spans = [slice(start, stop) for start, stop in pairwise(X.indptr.tolist())]
    return [X.indices[span].tobytes() + X.data[span].tobytes() for span in spans]


def _from_one(X: sp.csr_matrix) -> sp.csr_matrix:
    """Columns that count from 1."""
    if X[:, [0]].nnz:
        raise ValueError("a feature has the number 0, but the set's features count from 1")
    return X[:, 1:]


def _classes_from_one(labels: np.ndarray, n_classes: int) -> np.ndarray:
    if labels.min() < 1 or labels.max() > n_classes:
        raise ValueError(f"a label is not from 1 to {n_classes:,}")
    return (labels - 1).astype(np.int32)


def _width(parts: list[sp.csr_matrix]) -> int:
    width = 1 + max(int(X.indices.max(initial=0)) for X in parts)
    if width > _WIDEST:
        raise ValueError(f"a feature has the number {width - 1:,}; the set's features are small numbers")
    return width


def _cut(X: sp.csr_matrix, width: int) -> sp.csr_matrix:
    """The same rows with fewer, empty, columns at the end."""
    return sp.csr_matrix((X.data, X.indices, X.indptr), shape=(X.shape[0], width))


def _only_zip(folder: Path) -> Path:
    archives = sorted(folder.glob("*.zip"))
    if len(archives) != 1:
        raise ValueError(f"{folder} must hold one zip file, but holds {len(archives)}")
    return archives[0]
