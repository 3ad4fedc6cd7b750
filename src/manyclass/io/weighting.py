"""The weights of words, numbers and categories: counted in the training rows, stored in the model, used for all rows.

A table is read as raw rows first: each text column is a block of hashed counts, all categories are one more block, and
each number has a column of its own. `RawCounts` collects what the weights depend on, and `weigh` turns raw rows into
features. So a file has to be read only once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

N_KNOTS = 16  # quantiles of a number: models learn a piecewise linear function of it
_FARTHEST = 3.0  # of standardised numbers
_LARGEST_WEIGHT = 0.5  # of a number or a category, beside a text of length 1
_SAMPLE = 1 << 22  # numbers from which quantiles are taken


class Layout(NamedTuple):
    """Where the raw features of a row are."""

    width: int  # features of a block
    n_texts: int  # blocks of words or characters; a block of categories follows
    numbers: np.ndarray  # (number, 1 + N_KNOTS) feature of the number itself and of each knot

    @property
    def first_number(self) -> int:
        """The raw column of the first number."""
        return (self.n_texts + 1) * self.width

    @property
    def n_columns(self) -> int:
        """The number of raw columns."""
        return self.first_number + len(self.numbers)


class Quantiles(NamedTuple):
    """What is known of a column of numbers."""

    centre: float  # the median
    scale: float  # the standard deviation, estimated from the quartiles if they differ
    knots: tuple[float, ...]  # quantiles, ascending; none if the column was empty

    @classmethod
    def of(cls, values: np.ndarray) -> "Quantiles":
        """The quantiles of some numbers."""
        if not len(values):
            return cls(0.0, 1.0, ())
        values = values.astype(np.float64)
        knots = np.unique(np.quantile(values, np.linspace(0, 1, N_KNOTS), method="nearest"))
        low, centre, high = np.quantile(values, [0.25, 0.5, 0.75])
        scale = (high - low) / 1.349 or float(np.std(values)) or 1.0
        return cls(float(centre), float(scale), tuple(map(float, knots)))

    @classmethod
    def checked(cls, values: Any) -> "Quantiles":
        """The quantiles in a file; a ValueError if they are invalid."""
        if not isinstance(values, list) or len(values) != 3 or not isinstance(values[2], list):
            raise ValueError("the weighting has quantiles of the wrong type")
        numbers = [*values[:2], *values[2]]
        if not all(isinstance(number, float) and abs(number) < np.inf for number in numbers) or numbers[1] <= 0:
            raise ValueError("the weighting has invalid quantiles")
        if len(values[2]) > N_KNOTS or (np.diff(values[2]) <= 0).any():
            raise ValueError("the weighting has too many quantiles, or they do not ascend")
        return cls(numbers[0], numbers[1], tuple(numbers[2:]))


@dataclass(frozen=True, eq=False)
class Weighting:
    """What was counted in the training rows."""

    # (known,) i4: the hashed words and categories of the training rows, sorted. All others are ignored, so that they do
    # not change the length of a row.
    known: np.ndarray
    idf: np.ndarray  # (known,) f4: inverse document frequency of each; 1 without
    n_rows: int  # training rows
    numbers: dict[str, Quantiles]  # of each column of numbers, in the order of the raw columns

    def find(self, feature: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The place of each feature in `known`, and whether it is there."""
        if not len(self.known):
            return np.zeros(len(feature), np.int64), np.zeros(len(feature), bool)
        place = np.searchsorted(self.known, feature)
        place[place == len(self.known)] = 0
        return place, self.known[place] == feature

    def with_rows(self, raw: scipy.sparse.csr_array, layout: Layout, idf: bool) -> "Weighting":
        """The weighting after further raw rows: new words get the weight that they have where they first appear.

        Words that are known keep their weight. The result does not depend on how rows are divided into calls.
        """
        named = raw.indices < layout.first_number
        row = np.repeat(np.arange(raw.shape[0]), np.diff(raw.indptr))[named]
        feature, n_rows = raw.indices[named] % layout.width, self.n_rows + raw.shape[0]
        new = ~self.find(feature)[1]
        if not new.any():
            return replace(self, n_rows=n_rows)
        found, first = np.unique(feature[new], return_index=True)
        seen = self.n_rows + 1 + row[new][first]  # rows up to the one where a word first appears
        weights = (np.log((1 + seen) / 2) + 1 if idf else np.ones(len(found))).astype(np.float32)
        place = np.searchsorted(self.known, found)
        known = _inserted(self.known, place, found.astype(np.int32))
        return replace(self, known=known, idf=_inserted(self.idf, place, weights), n_rows=n_rows)

    def to_dict(self) -> dict[str, Any]:
        """Values that can be stored as JSON."""
        numbers = {name: [one.centre, one.scale, list(one.knots)] for name, one in self.numbers.items()}
        return {"n_rows": self.n_rows, "numbers": numbers}

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays by name."""
        return {"known": self.known, "idf": self.idf}

    @classmethod
    def from_dict(cls, values: Any, arrays: dict[str, np.ndarray], width: int, numbers: Sequence[str]) -> "Weighting":
        """The weighting of a file; a ValueError if it is invalid."""
        known, idf = arrays.get("known"), arrays.get("idf")
        if not isinstance(values, dict) or set(values) != {"n_rows", "numbers"}:
            raise ValueError("the weighting has the wrong fields")
        if known is None or idf is None or known.dtype != np.int32 or idf.dtype != np.float32 or known.ndim != 1:
            raise ValueError("the arrays of the weighting have the wrong type")
        if known.shape != idf.shape or (np.diff(known) <= 0).any() or (known < 0).any() or (known >= width).any():
            raise ValueError("the known words of the weighting are not sorted features")
        if not np.isfinite(idf).all() or (idf <= 0).any():
            raise ValueError("the weights of words must be positive")
        n_rows, columns = values["n_rows"], values["numbers"]
        if type(n_rows) is not int or n_rows < 0 or not isinstance(columns, dict) or set(columns) != set(numbers):
            raise ValueError("the weighting has values of the wrong type, or lacks a column")
        return cls(known, idf, n_rows, {name: Quantiles.checked(columns[name]) for name in numbers})


def _inserted(array: np.ndarray, places: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The same as np.insert, faster for a few values in a long array."""
    *parts, last = np.split(array, places)
    pairs = zip(parts, np.split(values, len(values)), strict=True)
    return np.concatenate([*(part for pair in pairs for part in pair), last])


class RawCounts:
    """Counts over raw rows, in bounded memory; `names` are the columns of numbers.

    `base` has the weights of a model that goes on learning: what it knows keeps its weight.
    """

    def __init__(self, layout: Layout, names: Sequence[str], idf: bool, base: Weighting | None = None) -> None:
        self.layout, self.n_rows = layout, 0
        self._names, self._idf, self._latest = names, idf, base
        self._n_before = 0 if base is None else base.n_rows
        self._frequency = np.zeros(layout.width, np.int32)
        self._sample: list[scipy.sparse.csr_array] = []
        self._stride, self._n_sampled = 1, 0

    def add(self, raw: scipy.sparse.csr_array) -> None:
        """Count rows."""
        layout, indices = self.layout, raw.indices
        features, counts = np.unique(indices[indices < layout.first_number] % layout.width, return_counts=True)
        self._frequency[features] += counts.astype(np.int32)
        if len(layout.numbers):
            numbers = raw[-self.n_rows % self._stride :: self._stride, layout.first_number :]
            self._sample.append(numbers)
            self._n_sampled += numbers.nnz
            while self._n_sampled > _SAMPLE:  # keep every second row
                self._sample = [scipy.sparse.vstack(self._sample, format="csr")[::2]]
                self._stride, self._n_sampled = 2 * self._stride, self._sample[0].nnz
        self.n_rows += raw.shape[0]

    def weighting(self) -> Weighting:
        """The weights of all rows so far; words that had a weight before keep it."""
        known = np.flatnonzero(self._frequency).astype(np.int32)
        n_rows, before = self._n_before + self.n_rows, self._latest
        frequency = np.minimum(self._frequency[known], self.n_rows)
        weights = np.log((1 + n_rows) / (1 + frequency)) + 1 if self._idf else np.ones(len(known))
        if before is None:
            numbers = dict(zip(self._names, self._quantiles(len(self._names)), strict=True))
            self._latest = Weighting(known, weights.astype(np.float32), n_rows, numbers)
        else:
            known, first = np.unique(np.concatenate([before.known, known]), return_index=True)
            weights = np.concatenate([before.idf, weights.astype(np.float32)])[first]
            self._latest = Weighting(known, weights, n_rows, before.numbers)
        return self._latest

    def _quantiles(self, n: int) -> list[Quantiles]:
        """The quantiles of each column of numbers."""
        if not n or not self._sample:
            return [Quantiles.of(np.zeros(0))] * n
        columns = scipy.sparse.vstack(self._sample, format="csc")
        return [Quantiles.of(columns.data[begin:end]) for begin, end in pairwise(columns.indptr)]


def weigh(raw: scipy.sparse.csr_array, layout: Layout, weighting: Weighting | None) -> scipy.sparse.csr_array:
    """Features of raw rows: every text column scaled to length 1, then all columns added up."""
    row = np.repeat(np.arange(raw.shape[0]), np.diff(raw.indptr))
    number = raw.indices >= layout.first_number
    parts = [_named(raw, row, ~number, layout, weighting), _numbers(raw, row, number, layout, weighting)]
    rows, features, values = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    where = rows.astype(np.int32), features.astype(np.int32)
    X = scipy.sparse.coo_array((values, where), shape=(raw.shape[0], layout.width)).tocsr()
    X = scipy.sparse.csr_array(X.astype(np.float32))  # tocsr has summed duplicates
    X.eliminate_zeros()
    X.sort_indices()
    return X


def _named(raw, row, chosen, layout: Layout, weighting: Weighting | None) -> tuple:
    """Rows, features and values of words and categories."""
    block, feature = np.divmod(raw.indices[chosen], layout.width)
    row, value = row[chosen], raw.data[chosen].astype(np.float64)
    text = block < layout.n_texts
    if weighting is not None:
        place, found = weighting.find(feature)
        row, block, text, value, place = row[found], block[found], text[found], value[found], place[found]
        feature = feature[found]
        value = value * np.where(text, weighting.idf[place], _weight(layout))
    cell = row[text].astype(np.int64) * layout.n_texts + block[text]
    length = np.sqrt(np.bincount(cell, value[text] ** 2, minlength=1))[cell]
    value[text] /= np.where(length > 0, length, 1.0)
    return row, feature, value


def _weight(layout: Layout) -> float:
    """The weight of a number or a category: all of them together do not outweigh a text."""
    n = len(layout.numbers) + 1
    return min(_LARGEST_WEIGHT, n**-0.5) if layout.n_texts else 1.0


def _numbers(raw, row, chosen, layout: Layout, weighting: Weighting | None) -> tuple:
    """Rows, features and values of numbers.

    With weights, a number becomes shares of the two knots around it, so that linear models learn any function of it. In
    a table without text, it is also standardised.
    """
    row, column, value = row[chosen], raw.indices[chosen] - layout.first_number, raw.data[chosen].astype(np.float64)
    if weighting is None:
        return row, layout.numbers[column, 0], value
    lower, share, standard = np.zeros(len(value), np.int64), np.zeros(len(value)), np.zeros(len(value))
    order = np.argsort(column, kind="stable")
    ends = np.searchsorted(column[order], np.arange(len(layout.numbers) + 1))
    for (begin, end), (centre, scale, knots) in zip(pairwise(ends), weighting.numbers.values(), strict=True):
        own = order[begin:end]
        standard[own] = np.clip((value[own] - centre) / scale, -_FARTHEST, _FARTHEST)
        if len(knots) > 1 and len(own):
            inside = np.clip(value[own], knots[0], knots[-1])
            lower[own] = np.clip(np.searchsorted(knots, inside, side="right") - 1, 0, len(knots) - 2)
            share[own] = (inside - np.array(knots)[lower[own]]) / np.diff(knots)[lower[own]]
    weight, upper = _weight(layout), np.minimum(lower + 1, N_KNOTS - 1)
    parts = [(lower + 1, weight * (1 - share)), (upper + 1, weight * share)]
    if not layout.n_texts:
        parts.append((np.zeros(len(value), np.int64), standard))
    features = [layout.numbers[column, place] for place, _ in parts]
    return np.tile(row, len(parts)), np.concatenate(features), np.concatenate([values for _, values in parts])
