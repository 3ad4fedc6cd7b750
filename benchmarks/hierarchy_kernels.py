"""Made-up rows of classes that are the leaves of a tree: everything follows from hashes of numbers, nothing is stored.

Sums are kept in integers and rounded once at the end, so that no compiler and no processor changes a byte of them.
"""

import math
from typing import NamedTuple

import numpy as np

from manyclass.core.rng import uniform
from manyclass.jit import device, kernel

# What a key is for: hashed(seed, ROWS) and so on.
ROWS, NODES, CLASSES, POSITIONS, VOCABULARY = 1, 2, 3, 4, 5

# Words of a row: at least, and how many numbers of words there are.
FEWEST_WORDS, WORD_COUNTS = 20, 21
MOST_WORDS = FEWEST_WORDS + WORD_COUNTS - 1
NODE_WORDS = 16  # words of its own that a node has
HALF_TURNS = 8  # of a shuffle

# Deviation of `bell`.
BELL = 2.0 * math.sqrt((65536.0 * 65536.0 - 1.0) / 3.0)

_PAIRS = np.uint64(0x0000FFFF0000FFFF)
_LOW = np.uint64(0xFFFFFFFF)


class Tree(NamedTuple):
    """A complete tree; level 0 is that of the root's children, the last level that of the classes."""

    seed: np.uint64
    spans: np.ndarray  # (level,) i8, positions below a node
    weights: np.ndarray  # (level,) i8, of a node's share in the centres below it
    noise: np.int64  # dense: weight of the noise; sparse: share of background words, of 2**32
    scale: np.float64  # from sums to values


class Shuffle(NamedTuple):
    """A bijection of 0..n-1: a Feistel network on the next power of two, walked until it is back in the range."""

    key: np.uint64
    n: np.uint64
    low_bits: np.uint64
    low_mask: np.uint64
    high_mask: np.uint64


class Zipf(NamedTuple):
    """Ranks 0..n-1, of a share of 1 / (rank + 1)**exponent; the rest is what `zipf_rank` needs."""

    n: np.int64
    exponent: np.float64
    area_first: np.float64
    area_last: np.float64
    squeeze: np.float64


class Classes(NamedTuple):
    """The classes: how often each rank comes, the number of a rank's class, the position of a number in the tree."""

    law: Zipf
    numbers: Shuffle
    positions: Shuffle


class Background(NamedTuple):
    """The words that belong to no class: how often each rank comes, the number of a rank's word."""

    law: Zipf
    numbers: Shuffle


@device
def hashed(key, counter):
    """64 bits from (key, counter) by splitmix64, both unsigned. Cost: O(1)."""
    z = key + (counter + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@device
def below(h, n):
    """A number in 0..n-1 from 64 bits, n at most 2**32. Cost: O(1)."""
    return np.int64(((h >> np.uint64(32)) * np.uint64(n)) >> np.uint64(32))


@device
def bell(h):
    """A number around zero of deviation BELL: the sum of four 16-bit numbers, nearly normal. Cost: O(1)."""
    pairs = (h & _PAIRS) + ((h >> np.uint64(16)) & _PAIRS)
    return np.int64(((pairs & _LOW) + (pairs >> np.uint64(32))) << np.uint64(1)) - np.int64(4 * 65535)


@device
def shuffled(shuffle, number, backward):
    """Where a number goes, or, backward, where it comes from. Cost: O(1) expected."""
    at = np.uint64(number)
    while True:
        for t in range(HALF_TURNS):
            turn = HALF_TURNS - 1 - t if backward else t
            key = hashed(shuffle.key, np.uint64(turn))
            low = at & shuffle.low_mask
            high = at >> shuffle.low_bits
            if turn % 2 == 0:
                low = low ^ (hashed(key, high) & shuffle.low_mask)
            else:
                high = high ^ (hashed(key, low) & shuffle.high_mask)
            at = (high << shuffle.low_bits) | low
        if at < shuffle.n:
            return np.int64(at)


@device
def zipf_area(x, exponent):
    """Integral of 1 / t**exponent from 1 to x."""
    log_x = math.log(x)
    t = (1.0 - exponent) * log_x
    return log_x * (math.expm1(t) / t if abs(t) > 1e-8 else 1.0 + 0.5 * t)


@device
def zipf_edge(area, exponent):
    """The x whose `zipf_area` this is."""
    t = max((1.0 - exponent) * area, -1.0 + 1e-15)
    return math.exp(area * (math.log1p(t) / t if abs(t) > 1e-8 else 1.0 - 0.5 * t))


@device
def zipf_rank(law, key):
    """Draw a rank by rejection-inversion (Hörmann and Derflinger, 1996): exact, no table. Cost: O(1) expected."""
    if law.exponent == 0.0:
        return below(hashed(key, np.uint64(0)), law.n)
    counter = 0
    while True:
        area = law.area_last + uniform(key, counter) * (law.area_first - law.area_last)
        x = zipf_edge(area, law.exponent)
        k = min(max(math.floor(x + 0.5), 1.0), float(law.n))
        height = math.exp(-law.exponent * math.log(k))
        if k - x <= law.squeeze or area >= zipf_area(k + 0.5, law.exponent) - height:
            return np.int64(k) - np.int64(1)
        counter += 1


@device
def node_key(tree, level, position):
    """Key of the node of a level above a position, or of the position itself."""
    levels = hashed(tree.seed, np.uint64(NODES))
    return hashed(hashed(levels, np.uint64(level)), np.uint64(position // tree.spans[level]))


@device
def add_centre(tree, position, sums):
    """Sum up what the nodes above a position bring. Mutates: sums. Cost: O(levels x features)."""
    sums[:] = 0
    for level in range(tree.spans.shape[0]):
        key = node_key(tree, level, position)
        weight = tree.weights[level]
        for f in range(sums.shape[0]):
            sums[f] += weight * bell(hashed(key, np.uint64(f)))


@device
def add_noise(tree, key, sums):
    """Add noise to each feature. Mutates: sums. Cost: O(features)."""
    for f in range(sums.shape[0]):
        even = np.uint64(2 * f)
        sums[f] += tree.noise * (bell(hashed(key, even)) + bell(hashed(key, even + np.uint64(1))))


@device
def node_word(key, rank, n_features):
    """The feature that is a node's word of some rank."""
    return below(hashed(key, np.uint64(rank)), n_features)


@device
def draw_word(tree, background, position, key):
    """Draw one word of a row: of the background, or of a node above its position. Cost: O(levels)."""
    h = hashed(key, np.uint64(0))
    if np.int64(h & _LOW) < tree.noise:
        return shuffled(background.numbers, zipf_rank(background.law, hashed(key, np.uint64(1))), False)
    # Two bits a level: three times in four, the word is one level up. Out of bits, it stays.
    climb = h >> np.uint64(32)
    level = tree.spans.shape[0] - 1
    while level > 0 and climb & np.uint64(3) != np.uint64(0):
        climb = climb >> np.uint64(2)
        level -= 1
    # A product of two uniform numbers: low ranks are the likely ones.
    h = hashed(key, np.uint64(2))
    product = (h >> np.uint64(48)) * (h & np.uint64(0xFFFF))
    rank = (product * np.uint64(NODE_WORDS)) >> np.uint64(32)
    return node_word(node_key(tree, level, position), rank, background.law.n)


@device
def write_words(words, n_words, batch, stop):
    """Sort the words of a row and write each once, its value by its count, the row of unit length.

    Gives where the row ends. Mutates: words, batch. Cost: O(words squared), of at most MOST_WORDS.
    """
    for j in range(1, n_words):
        word = words[j]
        at = j
        while at > 0 and words[at - 1] > word:
            words[at] = words[at - 1]
            at -= 1
        words[at] = word
    begin, indices, values = stop, batch.indices, batch.values
    for j in range(n_words):
        if j > 0 and words[j] == words[j - 1]:
            values[stop - 1] += np.float32(1.0)
        else:
            indices[stop] = words[j]
            values[stop] = np.float32(1.0)
            stop += 1
    squares = 0.0
    for j in range(begin, stop):
        squares += np.float64(values[j]) * np.float64(values[j])
    inverse = 1.0 / math.sqrt(squares)
    for j in range(begin, stop):
        values[j] = np.float32(np.float64(values[j]) * inverse)
    return stop


@device
def row_key(tree, row):
    """Key of a row."""
    return hashed(hashed(tree.seed, np.uint64(ROWS)), np.uint64(row))


@device
def draw_class(classes, key):
    """Draw the class of a row and its position in the tree. Cost: O(1) expected."""
    label = shuffled(classes.numbers, zipf_rank(classes.law, key), False)
    return label, shuffled(classes.positions, label, False)


@device
def fill_dense(tree, classes, first, sums, X, y):
    """Mutates: sums, X, y. Cost: O(rows x levels x features)."""
    for i in range(y.shape[0]):
        key = row_key(tree, first + i)
        label, position = draw_class(classes, hashed(key, np.uint64(0)))
        add_centre(tree, position, sums)
        add_noise(tree, hashed(key, np.uint64(1)), sums)
        y[i] = label
        for f in range(sums.shape[0]):
            X[i, f] = np.float32(np.float64(sums[f]) * tree.scale)


@device
def fill_sparse(tree, classes, background, first, words, batch, y):
    """Mutates: words, batch, y. Cost: O(rows x words)."""
    batch.indptr[0] = 0
    for i in range(y.shape[0]):
        key = row_key(tree, first + i)
        label, position = draw_class(classes, hashed(key, np.uint64(0)))
        n_words = FEWEST_WORDS + below(hashed(key, np.uint64(1)), WORD_COUNTS)
        for j in range(n_words):
            words[j] = draw_word(tree, background, position, hashed(key, np.uint64(2 + j)))
        y[i] = label
        batch.indptr[i + 1] = write_words(words, n_words, batch, batch.indptr[i])


@kernel
def dense_rows(tree, classes, first, X, y):
    """Write rows first, first + 1, ... and their classes. Mutates: X, y."""
    fill_dense(tree, classes, first, np.empty(X.shape[1], np.int64), X, y)


@kernel
def sparse_rows(tree, classes, background, first, batch, y):
    """Write rows first, first + 1, ... and their classes; there must be room for MOST_WORDS each. Mutates: batch, y."""
    fill_sparse(tree, classes, background, first, np.empty(MOST_WORDS, np.int64), batch, y)


@kernel
def dense_centres(tree, where, X):
    """Write the centres of some positions. Mutates: X."""
    sums = np.empty(X.shape[1], np.int64)
    for i in range(where.shape[0]):
        add_centre(tree, where[i], sums)
        for f in range(sums.shape[0]):
            X[i, f] = np.float32(np.float64(sums[f]) * tree.scale)


@kernel
def position_words(tree, where, n_features, out):
    """Write the words of all nodes above some positions. Mutates: out (position, level, rank)."""
    for i in range(out.shape[0]):
        for level in range(out.shape[1]):
            key = node_key(tree, level, where[i])
            for rank in range(out.shape[2]):
                out[i, level, rank] = node_word(key, rank, n_features)


@kernel
def shuffle_all(shuffle, numbers, backward):
    """Where each number goes, or, backward, comes from."""
    out = np.empty(numbers.shape[0], np.int64)
    for i in range(out.shape[0]):
        out[i] = shuffled(shuffle, numbers[i], backward)
    return out
