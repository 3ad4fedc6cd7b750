"""The data of the race: public sets prepared alike for all, and a series of synthetic sets with ever more classes."""

import os
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.preprocessing import normalize

from benchmarks.hierarchy import Hierarchy
from manyclass.datasets import DataNotFound, load, tfidf_transformer
from manyclass.datasets.local import find
from manyclass.datasets.packed import read_packed

SERIES = "hierarchy"
SCALE = (1_000, 3_000, 10_000, 30_000, 100_000)
SEED = 0
Rows = tuple[Any, Any, Any, Any]  # X_train, y_train, X_test, y_test


class SetUnavailable(RuntimeError):
    """A set is not on this machine; the message says why."""


@dataclass(frozen=True)
class RaceSet:
    """What is known of a set before it is loaded."""

    name: str
    title: str
    several: bool = False  # rows may have any number of labels
    words: bool = True  # features are words, or like words: present or not
    series: str = ""  # sets of one series differ in size only; they are in order of it
    as_is: bool = False  # rows and their order stay as `manyclass.datasets.load` gives them
    text: bool = False  # has the text of each row, too
    folder: bool = False  # a folder of that name in MANYCLASS_DATA, with X.npz, Y.npz or y.npz, Xt.npz and Yt.npz


def _scale_set(n_classes: int) -> RaceSet:
    return RaceSet(f"{SERIES}-{n_classes}", f"Hierarchy, {n_classes:,} classes", words=False, series=SERIES)


SETS: MappingProxyType[str, RaceSet] = MappingProxyType(
    {
        one.name: one
        for one in (
            RaceSet("aloi", "ALOI", words=False),
            RaceSet("clinc150", "CLINC150"),
            RaceSet("wordnet-hypernym", "WordNet"),
            RaceSet("revdict", "revdict"),
            RaceSet("bibtex", "Bibtex", several=True),
            RaceSet("delicious", "Delicious", several=True),
            RaceSet("rcv1-topics", "RCV1 topics", several=True),
            RaceSet("eurlex-4k", "EURLex-4K", several=True),
            *map(_scale_set, SCALE),
        )
    }
)
COUNTS = ("clinc150", "wordnet-hypernym", "revdict")  # raw counts of words
LEVELS = {"aloi": 9.0}  # the greatest value, of sets whose rows keep their lengths


def rows_of(name: str) -> Rows:
    """Load a public set as the race gives it to everybody.

    Counts of words become tf-idf; rows are scaled to length 1 (ALOI by its greatest value, which keeps their lengths).

    Parameters
    ----------
    name : str
        A set of `manyclass.datasets.load`.

    Returns
    -------
    tuple
        ``(X_train, y_train, X_test, y_test)``, inputs float32.

    Raises
    ------
    DataNotFound
        When the set is not on this machine.

    Examples
    --------
    >>> from benchmarks.sets import rows_of
    >>> X, y, X_test, y_test = rows_of("wordnet-hypernym")
    >>> X.shape, bool(abs(X[0].power(2).sum() - 1) < 1e-6)
    ((54992, 38102), True)
    """
    X, y, X_test, y_test = load(name)
    if name in LEVELS:
        return (X / LEVELS[name]).astype(np.float32), y, (X_test / LEVELS[name]).astype(np.float32), y_test
    if name in COUNTS:
        weigh = tfidf_transformer().fit(X)
        X, X_test = weigh.transform(X), weigh.transform(X_test)
    return normalize(X).astype(np.float32), y, normalize(X_test).astype(np.float32), y_test


def texts_of(one: RaceSet, n_train: int | None = None, n_test: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The texts of a set's training and test rows, in the order of `prepare`."""
    if not one.text:
        raise SetUnavailable(f"{one.name} has no texts")
    arrays = read_packed(find(one.name))
    train, test = (arrays[f"text_{part}"].tobytes().decode("utf-8").split("\n") for part in ("train", "test"))
    return np.array(train[:n_train], object), np.array(test[:n_test], object)


def shuffled(rows: Rows, n_train: int | None = None, n_test: int | None = None) -> Rows:
    """Training rows in the same random order for all, since several sets come sorted; and slices, for a quick look."""
    X, y, X_test, y_test = rows
    order = np.random.default_rng(SEED).permutation(X.shape[0])[:n_train]
    if n_test is not None and n_test < X_test.shape[0]:
        asked = np.sort(np.random.default_rng(SEED).permutation(X_test.shape[0])[:n_test])
        X_test, y_test = X_test[asked], y_test[asked]
    return X[order], y[order], X_test, y_test


def series_rows(n_classes: int) -> Rows:
    """Rows of the synthetic hierarchy: 20 per class, at most 500,000, and 5,000 to predict."""
    n_train, n_test = min(20 * n_classes, 500_000), 5_000
    generator = Hierarchy(n_classes=n_classes, n_features=64, seed=SEED)
    X, y = generator.rows(n_train, first=0)[:2]
    X_test, y_test = generator.rows(n_test, first=n_train)[:2]
    return X, y, X_test, y_test


def folder_rows(name: str) -> Rows:
    """The matrices in a folder, as the scripts that make large sets write them."""
    folder = Path(os.environ.get("MANYCLASS_DATA", "")) / name
    if not (folder / "X.npz").exists():
        raise SetUnavailable(f"{folder / 'X.npz'} does not exist; see benchmarks/README.md")
    X, X_test = (sp.load_npz(folder / f"{part}.npz") for part in ("X", "Xt"))
    if (folder / "Y.npz").exists():
        return X, sp.load_npz(folder / "Y.npz"), X_test, sp.load_npz(folder / "Yt.npz")
    with np.load(folder / "y.npz", allow_pickle=False) as labels:
        return X, labels["y"], X_test, labels["yt"]


def prepare(one: RaceSet, n_train: int | None = None, n_test: int | None = None) -> Rows:
    """The rows of a set of the race, or SetUnavailable."""
    if one.series:
        return shuffled(series_rows(int(one.name.removeprefix(f"{SERIES}-"))), n_train, n_test)
    if one.folder:
        X, y, X_test, y_test = folder_rows(one.name)
        return X[:n_train], y[:n_train], X_test[:n_test], y_test[:n_test]
    try:
        if one.as_is:
            X, y, X_test, y_test = load(one.name)
            return X[:n_train], y[:n_train], X_test[:n_test], y_test[:n_test]
        return shuffled(rows_of(one.name), n_train, n_test)
    except DataNotFound as error:
        raise SetUnavailable(str(error)) from error
