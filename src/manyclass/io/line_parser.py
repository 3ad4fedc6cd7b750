"""Lines of `label[,label...] index:value ...` into arrays: the inner loop of reading svmlight and xmc files.

Bytes come from strangers: no position is read before it was compared with the end of its line, and every array has
room for as many tokens as its block has separators (`io/sparse_lines.py` counts them beforehand).
"""

from typing import NamedTuple

import numpy as np

from ..jit import exact_device, exact_kernel
from .decimals import TOO_BIG, UNDECIDED, WHOLE_TENS, read_decimal, rounded

# Why a line is refused. The texts are in `io/sparse_lines.py`.
GOOD, BLANK, NO_LABEL, BAD_LABEL, ONE_LABEL_ONLY, LABEL_TOO_LARGE, NO_COLON, BAD_INDEX, INDEX_ZERO = range(9)
INDEX_TOO_LARGE, INDEX_BEYOND, BAD_VALUE, TOO_LARGE, REFUSED_LABEL = range(9, 14)

# Places in `Parsed.size`: how much of each array is filled; how many rows hold index 0; the next refused token.
ROWS, FEATURES, LABELS, BAD, SLOW, ZERO_ROWS, CURSOR = range(7)

LARGEST_INDEX = 2**62

_TAB, _RETURN, _SPACE, _HASH, _COMMA, _MINUS, _ZERO, _COLON = 9, 13, 32, 35, 44, 45, 48, 58


class Rules(NamedTuple):
    """How lines are read; plain ints, so that all formats share one compiled kernel."""

    width: int  # features from here on are hashed
    base: int  # index of the first feature, 0 or 1
    n_features: int  # an index from here on is an error; LARGEST_INDEX: none is
    n_labels: int  # a label from here on is an error, as is a negative one; -1: none is
    text_labels: int  # 1: labels are any text, kept as positions
    several: int  # 1: any number of labels a row, 0: exactly one
    labelled: int  # 0: labels are passed over
    svmlight: int  # 1: comments, qid and blank lines are known
    skip: int  # 1: bad lines are listed and passed over, 0: the first one ends the block


class Parsed(NamedTuple):
    """What a block of lines holds."""

    size: np.ndarray  # (7,) i8, see above
    indptr: np.ndarray  # (line + 1,) i8
    indices: np.ndarray  # (feature,) i4
    values: np.ndarray  # (feature,) f4
    places: np.ndarray  # (feature,) i4: where its value stands in the block
    pointer: np.ndarray  # (line + 1,) i8: labels of a row
    labels: np.ndarray  # (label,) i8
    spans: np.ndarray  # (label, 2) i4: where it stands in the block
    bad: np.ndarray  # (line, 4) i8: line, position in the block, why, rows before it
    slow: np.ndarray  # (slow, 3) i8: feature, start and stop of its value in the block


@exact_device
def _is_space(byte):
    return byte == _SPACE or (_TAB <= byte <= _RETURN)


@exact_device
def mixed(number):
    """A whole number, its bits well mixed (splitmix64). Cost: O(1)."""
    z = np.uint64(number) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@exact_device
def is_refused(position, refused, size):
    """Whether the token at this position was refused after an earlier reading of the block. Mutates: size."""
    while size[CURSOR] < refused.size and refused[size[CURSOR]] < position:
        size[CURSOR] += 1
    return size[CURSOR] < refused.size and refused[size[CURSOR]] == position


@exact_device
def _read_labels(data, position, stop, rules, parsed, refused):
    """Read `label[,label...]` up to stop: (why it is refused, where). Mutates: parsed. Cost: O(length)."""
    size = parsed.size
    n_before = size[LABELS]
    while True:
        begin = position
        while position < stop and data[position] != _COMMA:
            position += 1
        if position == begin:
            return BAD_LABEL, begin
        if size[LABELS] > n_before and rules.several == 0:
            return ONE_LABEL_ONLY, begin
        number = np.int64(0)
        if rules.text_labels == 0:
            end, negative, mantissa, power, exact = read_decimal(data, begin, position)
            if end != position or (power < 0 and mantissa > np.uint64(0)) or not exact:
                return BAD_LABEL, begin
            if mantissa > np.uint64(0) and (power > 18 or mantissa > np.uint64(2**63 - 1) // WHOLE_TENS[power]):
                return LABEL_TOO_LARGE, begin
            if mantissa > np.uint64(0):
                number = np.int64(mantissa * WHOLE_TENS[power])
            if negative:
                number = -number
            if rules.n_labels >= 0 and not 0 <= number < rules.n_labels:
                return LABEL_TOO_LARGE, begin
        elif refused.size > 0 and is_refused(begin, refused, size):
            return REFUSED_LABEL, begin
        parsed.labels[size[LABELS]] = number
        parsed.spans[size[LABELS], 0] = begin
        parsed.spans[size[LABELS], 1] = position
        size[LABELS] += 1
        if position == stop:
            return GOOD, position
        position += 1


@exact_device
def _qid_end(data, position, stop):
    """The end of a token `qid:number` here, or -1."""
    if stop - position < 5 or data[position] != 113 or data[position + 1] != 105:
        return -1
    if data[position + 2] != 100 or data[position + 3] != _COLON:
        return -1
    end = position + 4
    if data[end] == _MINUS:
        end += 1
    first = end
    while end < stop and 48 <= data[end] <= 57:
        end += 1
    if end == first or (end < stop and not _is_space(data[end]) and data[end] != _HASH):
        return -1
    return end


@exact_device
def _read_features(data, position, stop, rules, parsed, refused):
    """Read `index:value ...` up to stop: (why it is refused, where). Mutates: parsed. Cost: O(length)."""
    size = parsed.size
    has_zero, first_token = 0, True
    while True:
        while position < stop and _is_space(data[position]):
            position += 1
        if position == stop:
            size[ZERO_ROWS] += has_zero
            return GOOD, position
        begin, index = position, np.int64(0)
        while position < stop and 48 <= data[position] <= 57:
            # Further digits cannot make a large index right, and must not wrap it around.
            large = index > LARGEST_INDEX // 10
            index = np.int64(LARGEST_INDEX + 1) if large else index * 10 + np.int64(data[position]) - _ZERO
            position += 1
        if position == begin and first_token and rules.svmlight == 1:
            end = _qid_end(data, begin, stop)
            if end > 0:
                first_token, position = False, end
                continue
        first_token = False
        if position == stop or data[position] != _COLON:
            colon = position
            while colon < stop and data[colon] != _COLON and not _is_space(data[colon]):
                colon += 1
            return (BAD_INDEX if colon < stop and data[colon] == _COLON else NO_COLON), begin
        if position == begin:
            return BAD_INDEX, begin
        if index > LARGEST_INDEX:
            return INDEX_TOO_LARGE, begin
        if index == 0:
            has_zero = 1
        index -= rules.base
        if index < 0:
            return INDEX_ZERO, begin
        if index >= rules.n_features:
            return INDEX_BEYOND, begin
        if index >= rules.width:
            index = np.int64(mixed(index) % np.uint64(rules.width))
        value_begin = position + 1
        position, negative, mantissa, power, exact = read_decimal(data, value_begin, stop)
        if position < 0 or (position < stop and not _is_space(data[position])):
            return BAD_VALUE, value_begin
        value, status = rounded(mantissa, power, exact)
        if status == TOO_BIG or (refused.size > 0 and is_refused(value_begin, refused, size)):
            return TOO_LARGE, value_begin
        feature = size[FEATURES]
        if status == UNDECIDED:
            parsed.slow[size[SLOW], 0] = feature
            parsed.slow[size[SLOW], 1] = value_begin
            parsed.slow[size[SLOW], 2] = position
            size[SLOW] += 1
        parsed.indices[feature] = index
        parsed.values[feature] = -value if negative else value
        parsed.places[feature] = value_begin
        size[FEATURES] += 1


@exact_device
def _read_line(data, start, stop, rules, parsed, refused):
    """Read one line: (GOOD, BLANK or why it is refused, where). Mutates: parsed. Cost: O(length)."""
    if stop > start and data[stop - 1] == _RETURN:
        stop -= 1
    if rules.svmlight == 1:
        end = start
        while end < stop and data[end] != _HASH:
            end += 1
        stop = end
    position = start
    while position < stop and _is_space(data[position]):
        position += 1
    if position == stop and (rules.svmlight == 1 or stop == start):
        return BLANK, position
    end, colon = position, False
    while end < stop and not _is_space(data[end]):
        if data[end] == _COLON:
            colon = True
            break
        end += 1
    if colon or end == position:  # no labels: the line begins with a feature, or holds nothing but a space
        if rules.labelled == 1 and not (rules.several == 1 and position > start):
            return NO_LABEL, position
        return _read_features(data, position, stop, rules, parsed, refused)
    if rules.labelled == 1:
        why, where = _read_labels(data, position, end, rules, parsed, refused)
        if why != GOOD:
            return why, where
    return _read_features(data, end, stop, rules, parsed, refused)


@exact_kernel
def parse_lines(data, ends, rules, parsed, refused):
    """Read the lines of a block that end at `ends`. Mutates: parsed. Cost: O(bytes).

    Tokens at the positions `refused` (sorted) are errors, whatever they look like: those that only became wrong
    after a first reading, by Python's float, by their sum, or as text.
    """
    size = parsed.size
    start = np.int64(0)
    for line in range(ends.size):
        n_features, n_labels, n_slow = size[FEATURES], size[LABELS], size[SLOW]
        why, where = _read_line(data, start, ends[line], rules, parsed, refused)
        if why == GOOD:
            size[ROWS] += 1
            parsed.indptr[size[ROWS]] = size[FEATURES]
            parsed.pointer[size[ROWS]] = size[LABELS]
        else:
            size[FEATURES], size[LABELS], size[SLOW] = n_features, n_labels, n_slow
            if why != BLANK:
                parsed.bad[size[BAD], 0] = line
                parsed.bad[size[BAD], 1] = where
                parsed.bad[size[BAD], 2] = why
                parsed.bad[size[BAD], 3] = size[ROWS]
                size[BAD] += 1
                if rules.skip == 0:
                    return
        start = ends[line] + 1
