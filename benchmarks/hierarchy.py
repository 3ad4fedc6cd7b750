"""Made-up rows of up to billions of classes, made when asked for: to test and to measure at any size."""

from collections.abc import Iterator
from math import isfinite, sqrt
from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks import hierarchy_kernels as kernel
from manyclass.core.inputs import Csr

# A level brings this much more to the dense centres than the level below it. Exact in binary.
GROWTH = 1.25
UNIT = 2**14  # the weight of the lowest level, in whole numbers
CLIMB = 0.75  # chance that a word of a sparse row is a level higher; the kernel has it as bits
MOST = 2**31 - 1
LAST_ROW = 2**62


class Hierarchy:
    """A stream of made-up rows whose classes are the leaves of a tree: near in the tree, near in the inputs.

    Row i follows from the seed and i alone, so rows may be asked for in any batches, in any order, in any process.
    Training rows may be those from 0 on, and test rows those from a far offset on, such as ``first=2**40``: no row
    comes twice. Nothing is kept that grows with `n_classes` or `n_features`; the memory needed is that of the rows
    asked for.

    A dense row is the centre of its class and normal noise. A centre sums up one random vector for each node from the
    class up to the root's children; a level weighs 1.25 times as much as the one below it. Features have a mean of
    about zero and a variance of about one. How near siblings are, and how likely a row is nearer to another class's
    centre than to its own, hardly depends on `n_classes`.

    A sparse row is like a short text: 20 to 40 words, counted, scaled to length one. A word is either one of the
    background, which all classes share, by Zipf's law; or one of the 16 words of the row's class or of a node above it.
    The class itself brings a fourth of the latter, its parent a fourth of the rest, and so on up; the root's children
    bring what remains. Nodes may share words by chance.

    Class numbers are shuffled: neither the position in the tree nor the frequency of a class shows in its number.

    Parameters
    ----------
    n_classes : int
        How many classes, 2 to 2**31 - 1.
    n_features : int, default=None
        How many inputs a row has, at most 2**31 - 1. None: 64 dense, 131,072 sparse.
    sparse : bool, default=False
        Text-like sparse rows instead of dense ones.
    branching : int, default=10
        How many children a node has, 2 or more. Where `n_classes` is no power of it, the last nodes have fewer.
    exponent : float, default=1.0
        The class of rank r (1, 2, ...) has a share of rows in proportion to ``r**-exponent``: 0 for classes of one
        frequency, 1 for Zipf's law. At most 10.
    noise : float, default=None
        Dense: deviation of a row from its centre in any direction, as a share of the typical distance between the
        centres of two siblings, 0 to 100. Sparse: share of the words that come from the background, 0 to 1.
        None: 0.2 dense, 0.6 sparse.
    seed : int, default=0
        Another seed, another tree and other rows; 0 to 2**63 - 1.

    Notes
    -----
    The same arguments give the same bytes on any machine: inputs are sums of integers, rounded once. Only the draw
    of a rank by Zipf's law takes logarithms, so a mathematical library that rounds otherwise may change one in some
    10**14 ranks.

    Examples
    --------
    >>> from benchmarks.hierarchy import Hierarchy
    >>> stream = Hierarchy(1_000_000)
    >>> X, y = stream.rows(3)
    >>> X.shape, X.dtype, y.dtype
    ((3, 64), dtype('float32'), dtype('int32'))
    >>> for X, y in stream.batches(5000, batch_size=2000):
    ...     print(X.shape)
    (2000, 64)
    (2000, 64)
    (1000, 64)
    >>> X_test, y_test = Hierarchy(1_000_000, sparse=True).rows(1000, first=2**40)
    >>> X_test.shape
    (1000, 131072)
    """

    def __init__(
        self,
        n_classes: int,
        n_features: int | None = None,
        *,
        sparse: bool = False,
        branching: int = 10,
        exponent: float = 1.0,
        noise: float | None = None,
        seed: int = 0,
    ):
        if not isinstance(sparse, bool | np.bool_):
            raise ValueError(f"sparse must be True or False, got {sparse!r}.")
        self.sparse = bool(sparse)
        self.n_classes = _whole("n_classes", n_classes, 2, MOST)
        width = (131_072 if sparse else 64) if n_features is None else n_features
        self.n_features = _whole("n_features", width, 1, MOST)
        self.branching = _whole("branching", branching, 2, MOST)
        self.exponent = _number("exponent", exponent, 10.0)
        spread = (0.6 if sparse else 0.2) if noise is None else noise
        self.noise = _number("noise", spread, 1.0 if sparse else 100.0)
        self.seed = _whole("seed", seed, 0, 2**63 - 1)
        key = np.uint64(self.seed)
        self._classes = kernel.Classes(
            _zipf(self.n_classes, self.exponent),
            _shuffle(key, kernel.CLASSES, self.n_classes),
            _shuffle(key, kernel.POSITIONS, self.n_classes),
        )
        self._background = kernel.Background(
            _zipf(self.n_features, 1.0), _shuffle(key, kernel.VOCABULARY, self.n_features)
        )
        self._tree = self._plant(key)

    def __repr__(self) -> str:
        return (
            f"Hierarchy({self.n_classes}, {self.n_features}, sparse={self.sparse}, branching={self.branching}, "
            f"exponent={self.exponent}, noise={self.noise}, seed={self.seed})"
        )

    def rows(self, n: int, first: int = 0) -> tuple[Any, np.ndarray]:
        """Make some rows.

        Parameters
        ----------
        n : int
            How many.
        first : int, default=0
            Number of the first of them, up to 2**62.

        Returns
        -------
        X : ndarray or scipy.sparse.csr_matrix of float32, shape (n, n_features)
            Inputs; sparse rows are sorted, without duplicates.
        y : ndarray of int32, shape (n,)
            Class numbers, 0 to ``n_classes - 1``.

        Examples
        --------
        >>> from benchmarks.hierarchy import Hierarchy
        >>> stream = Hierarchy(1000)
        >>> bool((stream.rows(10)[0][7:] == stream.rows(3, first=7)[0]).all())
        True
        """
        n = _whole("n", n, 0, LAST_ROW)
        first = _whole("first", first, 0, LAST_ROW)
        y = np.empty(n, dtype=np.int32)
        with np.errstate(over="ignore"):  # hashes overflow; without the compiler, numpy would warn
            if not self.sparse:
                X = np.empty((n, self.n_features), dtype=np.float32)
                kernel.dense_rows(self._tree, self._classes, first, X, y)
                return X, y
            room = n * kernel.MOST_WORDS
            batch = Csr(np.empty(n + 1, np.int64), np.empty(room, np.int32), np.empty(room, np.float32))
            kernel.sparse_rows(self._tree, self._classes, self._background, first, batch, y)
        stop = batch.indptr[-1]
        inputs = (batch.values[:stop].copy(), batch.indices[:stop].copy(), batch.indptr)
        return sp.csr_matrix(inputs, shape=(n, self.n_features)), y

    def batches(self, n_rows: int, batch_size: int, first: int = 0) -> Iterator[tuple[Any, np.ndarray]]:
        """Make rows batch by batch: the same rows as `rows` makes at once.

        Parameters
        ----------
        n_rows : int
            How many rows in all.
        batch_size : int
            How many rows a batch has; the last one may have fewer.
        first : int, default=0
            Number of the first row.

        Returns
        -------
        iterator of (X, y)
            The batches, each made when it is asked for.

        Examples
        --------
        >>> from benchmarks.hierarchy import Hierarchy
        >>> [len(y) for X, y in Hierarchy(1000).batches(10, batch_size=4)]
        [4, 4, 2]
        """
        n_rows = _whole("n_rows", n_rows, 0, LAST_ROW)
        size = _whole("batch_size", batch_size, 1, LAST_ROW)
        first = _whole("first", first, 0, LAST_ROW)
        return (self.rows(min(size, n_rows - start), first + start) for start in range(0, n_rows, size))

    def centres(self, classes: Any) -> Any:
        """Make the centres of some classes.

        Parameters
        ----------
        classes : array-like of int, shape (n,)
            Class numbers.

        Returns
        -------
        ndarray or scipy.sparse.csr_matrix of float32, shape (n, n_features)
            Dense: what the rows of a class have without noise. Sparse: the expected share of each word in the rows of
            a class, background words left out.

        Examples
        --------
        >>> from benchmarks.hierarchy import Hierarchy
        >>> stream = Hierarchy(1000)
        >>> X, y = stream.rows(1000)
        >>> centres = stream.centres(range(1000))
        >>> nearest = ((centres**2).sum(axis=1) - 2 * X @ centres.T).argmin(axis=1)
        >>> bool((nearest == y).mean() > 0.9)
        True
        """
        where = self.positions(classes)
        if self.sparse:
            return self._word_shares(where)
        X = np.empty((len(where), self.n_features), dtype=np.float32)
        with np.errstate(over="ignore"):
            kernel.dense_centres(self._tree, where, X)
        return X

    def positions(self, classes: Any) -> np.ndarray:
        """Say where in the tree some classes are.

        Parameters
        ----------
        classes : array-like of int, shape (n,)
            Class numbers.

        Returns
        -------
        ndarray of int64, shape (n,)
            Positions, 0 to ``n_classes - 1`` from left to right. Siblings have the same ``position // branching``,
            cousins the same ``position // branching**2``, and so on.

        Examples
        --------
        >>> import numpy as np
        >>> from benchmarks.hierarchy import Hierarchy
        >>> positions = Hierarchy(1000).positions(np.arange(1000))
        >>> bool((np.sort(positions) == np.arange(1000)).all())
        True
        """
        with np.errstate(over="ignore"):
            return kernel.shuffle_all(self._classes.positions, self._numbers(classes), False)

    def frequencies(self, classes: Any) -> np.ndarray:
        """Say what share of the rows some classes have.

        Parameters
        ----------
        classes : array-like of int, shape (n,)
            Class numbers.

        Returns
        -------
        ndarray of float64, shape (n,)
            The chance that a row is of the class.

        Examples
        --------
        >>> from benchmarks.hierarchy import Hierarchy
        >>> float(Hierarchy(1000).frequencies(range(1000)).sum().round(9))
        1.0
        """
        with np.errstate(over="ignore"):
            ranks = kernel.shuffle_all(self._classes.numbers, self._numbers(classes), True)
        total, chunk = 0.0, 2**20
        for start in range(1, self.n_classes + 1, chunk):
            total += np.sum(np.arange(start, min(start + chunk, self.n_classes + 1)) ** -self.exponent)
        return (ranks + 1.0) ** -self.exponent / total

    def _numbers(self, classes: Any) -> np.ndarray:
        numbers = np.asarray(classes)
        if numbers.ndim != 1 or (numbers.size and numbers.dtype.kind not in "iu"):
            raise ValueError(f"classes must be a vector of whole numbers, got {numbers.dtype}, shape {numbers.shape}.")
        wrong = np.flatnonzero((numbers < 0) | (numbers >= self.n_classes))
        if len(wrong):
            raise ValueError(f"classes must be in 0..{self.n_classes - 1}, got {numbers[wrong[0]]} at {wrong[0]}.")
        return numbers.astype(np.int64)

    def _plant(self, key: np.uint64) -> kernel.Tree:
        spans = [1]
        while spans[-1] * self.branching < self.n_classes:
            spans.append(spans[-1] * self.branching)
        weights = [round(UNIT * GROWTH**height) for height in range(len(spans))]
        if self.sparse:
            noise, scale = round(self.noise * 2**32), 1.0
        else:
            # Two siblings are sqrt(2 n_features) deviations of a node's share apart; the noise sums up two bells.
            noise = round(UNIT * self.noise * sqrt(self.n_features))
            scale = 1.0 / (kernel.BELL * sqrt(sum(weight**2 for weight in weights) + 2 * noise**2))
        return kernel.Tree(
            key, np.array(spans[::-1], np.int64), np.array(weights[::-1], np.int64), np.int64(noise), np.float64(scale)
        )

    def _word_shares(self, where: np.ndarray) -> sp.csr_matrix:
        n_levels = len(self._tree.spans)
        words = np.empty((len(where), n_levels, kernel.NODE_WORDS), dtype=np.int64)
        with np.errstate(over="ignore"):
            kernel.position_words(self._tree, where, self.n_features, words)
        by_level = (1 - CLIMB) * CLIMB ** np.arange(n_levels)[::-1]
        by_level[0] = CLIMB ** (n_levels - 1)
        # The chance that a product of two uniform numbers is below x is x (1 - log x).
        edges = np.arange(1, kernel.NODE_WORDS + 1) / kernel.NODE_WORDS
        by_rank = np.diff(edges * (1 - np.log(edges)), prepend=0.0)
        shares = np.broadcast_to((1 - self.noise) * np.outer(by_level, by_rank), words.shape)
        indptr = np.arange(len(where) + 1) * (n_levels * kernel.NODE_WORDS)
        centres = sp.csr_matrix(
            (shares.astype(np.float32).ravel(), words.ravel(), indptr), shape=(len(where), self.n_features)
        )
        centres.sum_duplicates()
        return centres


def _zipf(n: int, exponent: float) -> kernel.Zipf:
    first = kernel.zipf_area(1.5, exponent) - 1.0
    last = kernel.zipf_area(n + 0.5, exponent)
    squeeze = 2.0 - kernel.zipf_edge(kernel.zipf_area(2.5, exponent) - 2.0**-exponent, exponent)
    return kernel.Zipf(np.int64(n), np.float64(exponent), np.float64(first), np.float64(last), np.float64(squeeze))


def _shuffle(key: np.uint64, purpose: int, n: int) -> kernel.Shuffle:
    bits = (n - 1).bit_length()
    low = bits - bits // 2
    with np.errstate(over="ignore"):
        own = kernel.hashed(key, np.uint64(purpose))
    masks = np.uint64(2**low - 1), np.uint64(2 ** (bits - low) - 1)
    return kernel.Shuffle(np.uint64(own), np.uint64(n), np.uint64(low), *masks)


def _whole(name: str, value: Any, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral) or not least <= int(value) <= most:
        raise ValueError(f"{name} must be a whole number in {least}..{most}, got {value!r}.")
    return int(value)


def _number(name: str, value: Any, most: float) -> float:
    number = isinstance(value, Real) and not isinstance(value, bool)
    if not number or not isfinite(value) or not 0 <= value <= most:
        raise ValueError(f"{name} must be a number in 0..{most:g}, got {value!r}.")
    return float(value)
