"""From a table to training and test rows: rows per label, split, features, no test row that training has."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from benchmarks.unseen.readers import Table

SEED = 0
TEST_SHARE = 0.2
Features = Callable[[Table, Table], tuple[Any, Any]]  # training and test table to training and test matrix


@dataclass(frozen=True)
class Split:
    """A set that is ready: inputs, classes counted from 0, and the texts for those that take them."""

    X_train: Any
    y_train: np.ndarray
    X_test: Any
    y_test: np.ndarray
    labels: list[str]
    texts: tuple[list[str], list[str]] | None


def trim(table: Table, least: int, most: int, n_rows: int | None = None) -> Table:
    """Rows in a random order that is always the same: at most so many per label, of labels with at least so many.

    Rows that repeat a text with the same label are left out first. `n_rows` draws from the rows at random before that.
    """
    order = np.random.default_rng(SEED).permutation(len(table.labels))[:n_rows]
    seen: set[tuple[str, str]] = set()
    counts: Counter[str] = Counter()
    kept = []
    for row in order:
        label = table.labels[row]
        pair = (label, table.texts[row]) if len(table.texts) else (label, str(row))
        if pair not in seen and counts[label] < most:
            seen.add(pair)
            counts[label] += 1
            kept.append(row)
    return table.take(np.array([row for row in kept if counts[table.labels[row]] >= least]))


def split(table: Table, features: Features) -> Split:
    """A fifth of the rows of every label, at least one, is the test set; features are made from training rows only."""
    labels = sorted(set(table.labels))
    y = np.searchsorted(labels, table.labels).astype(np.int32)
    is_test = np.zeros(len(y), bool)
    for rows in np.split(np.argsort(y, kind="stable"), np.cumsum(np.bincount(y))[:-1]):
        is_test[rows[: max(1, round(TEST_SHARE * len(rows)))]] = True
    parts = [np.flatnonzero(~is_test), np.flatnonzero(is_test)]
    train, test = (table.take(rows) for rows in parts)
    X_train, X_test = features(train, test)
    old = repeated(_entries(train), _entries(test)) | repeated(_rounded(X_train), _rounded(X_test))
    new = np.flatnonzero(~old)
    texts = (list(train.texts), [test.texts[row] for row in new]) if len(table.texts) else None
    return Split(X_train, y[parts[0]], X_test[new], y[parts[1]][new], labels, texts)


def repeated(train: Iterable[Hashable], test: Iterable[Hashable]) -> np.ndarray:
    """For each test row, whether it is among the training rows."""
    known = set(train)
    return np.array([row in known for row in test], bool)


def _entries(table: Table) -> list[tuple]:
    """Rows of a table without their labels."""
    numbers = () if table.numbers is None else [*map(tuple, table.numbers.tolist())]
    return list(zip(*(column for column in (table.texts, table.categories, numbers) if len(column)), strict=True))


def _rounded(X: Any) -> Iterable[bytes]:
    """Rows of features; rounded, since the last digits depend on the order of the words."""
    X = sp.csr_matrix(X, copy=True)
    X.sort_indices()
    values = np.round(X.data, 4)
    spans = zip(X.indptr[:-1], X.indptr[1:], strict=True)
    return (X.indices[a:b].tobytes() + values[a:b].tobytes() for a, b in spans)


def words(train: Table, test: Table) -> tuple[Any, Any]:
    """TF-IDF of words, scikit-learn's defaults."""
    return _fitted(TfidfVectorizer(dtype=np.float32), train.texts, test.texts)


def tokens(train: Table, test: Table) -> tuple[Any, Any]:
    """TF-IDF of words and signs and of pairs of them, for source code."""
    return _fitted(
        TfidfVectorizer(token_pattern=r"\w+|[^\w\s]", ngram_range=(1, 2), min_df=2, dtype=np.float32),
        train.texts, test.texts,
    )  # fmt: skip


def characters(train: Table, test: Table) -> tuple[Any, Any]:
    """TF-IDF of one to four characters within words."""
    vectorizer = TfidfVectorizer(analyzer="char_wb", ngram_range=(1, 4), min_df=2, dtype=np.float32)
    return _fitted(vectorizer, train.texts, test.texts)


def embedded(train: Table, test: Table) -> tuple[Any, Any]:
    """300 dimensions of a latent semantic analysis of the words; dense, rows not scaled."""
    steps = make_pipeline(TfidfVectorizer(dtype=np.float32), TruncatedSVD(300, random_state=SEED))
    return _fitted(steps, train.texts, test.texts)


def measures(train: Table, test: Table) -> tuple[Any, Any]:
    """The numbers as they are; dense."""
    return train.numbers.astype(np.float32), test.numbers.astype(np.float32)


def mixed(text: Features) -> Features:
    """Features of the text beside a one-hot category, if there is one, and the numbers as they are; sparse."""

    def columns(train: Table, test: Table) -> tuple[Any, Any]:
        parts = [text(train, test), measures(train, test)]
        if len(train.categories):
            encoder = OneHotEncoder(handle_unknown="ignore", dtype=np.float32)
            one_hot = _fitted(encoder, *(np.array(part.categories)[:, None] for part in (train, test)))
            parts.insert(1, one_hot)
        both = (sp.csr_matrix(sp.hstack(matrices, dtype=np.float32)) for matrices in zip(*parts, strict=True))
        return tuple(both)

    return columns


def _fitted(transformer: Any, train: Any, test: Any) -> tuple[Any, Any]:
    return transformer.fit_transform(train).astype(np.float32), transformer.transform(test).astype(np.float32)
