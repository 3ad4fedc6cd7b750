"""Kernels that parse lines of sparse text into arrays: svmlight, xmc and Vowpal Wabbit's text.

The input is not trusted: every position is compared with the end of its line before it is read, and every array has
space for as many tokens as its block has separators (`sparse_text.py` counts them).

Numbers are rounded as `np.float32(float(token))`. Most need one exact double operation (Clinger 1990). For the others a
double with a known error is enough, because rounding to float32 is monotone: if both ends of the error interval round
to the same float32, so does the number. The few others are left to Python's float.
"""

from typing import NamedTuple

import numpy as np

from ..jit import exact_device, exact_kernel
from .values import FLOAT32_END

SVMLIGHT, XMC, VW = range(3)  # Rules.format

# Results of parsing a line. The messages are in `sparse_text.py`.
GOOD, BLANK, NO_LABEL, BAD_LABEL, ONE_LABEL_ONLY, LABEL_TOO_LARGE, LABEL_NOT_UTF8, NO_COLON, BAD_INDEX = range(9)
INDEX_ZERO, INDEX_TOO_LARGE, INDEX_BEYOND, BAD_VALUE, TOO_LARGE = range(9, 14)
NO_NAMESPACE, NO_NAME, BAD_WEIGHT, PRODUCT_TOO_LARGE, SUM_TOO_LARGE = range(14, 19)

# Positions in `Parsed.size`: the filled length of each array, and the number of indices beyond the width.
ROWS, FEATURES, LABELS, BAD, SLOW, BEYOND = range(6)

LARGEST_INDEX = 2**62
_LONGEST_NUMBER = 18  # digits of a Vowpal Wabbit feature name that counts as an index

_TAB, _RETURN, _SPACE, _HASH, _PLUS, _COMMA, _MINUS, _DOT, _ZERO, _COLON, _BAR = b"\t\r #+,-.0:|"
_MASK = 0xFFFFFFFF


class Rules(NamedTuple):
    """How lines are parsed; plain integers, so that svmlight and xmc share one compiled kernel."""

    format: int
    width: int  # number of features
    hashed: int  # 1: indices beyond the width are hashed, 0: they are ignored
    base: int  # index of the first feature, 0 or 1
    n_features: int  # indices from here on are errors
    n_labels: int  # labels from here on and negative ones are errors; -1: no limit
    text_labels: int  # 1: labels are any text, kept as positions
    several: int  # 1: any number of labels per row, 0: exactly one
    labelled: int  # 0: labels are not read
    skip: int  # 1: bad lines are skipped, 0: the first one ends the block


class Parsed(NamedTuple):
    """The contents of a block of lines."""

    size: np.ndarray  # (6,) i8, see above
    lines: np.ndarray  # (line,) i8: the line of each row
    indptr: np.ndarray  # (line + 1,) i8
    indices: np.ndarray  # (feature,) i4
    values: np.ndarray  # (feature,) f4
    places: np.ndarray  # (feature,) i4: position in the block to report if its sum is too large
    pointer: np.ndarray  # (line + 1,) i8: labels of each row
    labels: np.ndarray  # (label,) i8
    spans: np.ndarray  # (label, 2) i4: its position in the block
    bad: np.ndarray  # (line, 3) i8: line, position in the block, reason
    slow: np.ndarray  # (slow, 3) i8: feature, start and stop of its value in the block, for Python's float


# -- numbers -------------------------------------------------------------------------------------------------------

_FITS, _TOO_BIG, _UNDECIDED = range(3)
_LARGEST = 3.4028234663852886e38  # the largest float32
_MARGIN = 2.0**-50  # more than the relative error of four double operations and of digits after the 19th
_TENS = np.array([10.0**e for e in range(81)])
_WHOLE_TENS = np.array([10**e for e in range(20)], dtype=np.uint64)


@exact_device
def _is_digit(byte):
    return 48 <= byte <= 57


@exact_device
def _read_sign(data, position, stop):
    """(the position after an optional sign, whether it is a minus)."""
    if position < stop and (data[position] == _MINUS or data[position] == _PLUS):
        return position + 1, data[position] == _MINUS
    return position, False


@exact_device
def _read_decimal(data, position, stop):
    """Read `[sign] digits [. digits] [e [sign] digits]`: (end or -1, negative, mantissa, power of ten, exact).

    The mantissa has no trailing zeros, so a number is an integer exactly if its power is not negative.
    """
    mantissa, power = np.uint64(0), np.int64(0)
    n_digits, zeros = 0, 0  # digits in the mantissa; zeros after them, which count only if another digit follows
    exact, some, fraction = True, False, False
    position, negative = _read_sign(data, position, stop)
    while position < stop:
        if _is_digit(data[position]):
            digit = np.int64(data[position]) - _ZERO
            some = True
            if fraction:
                power -= 1
            if digit == 0 or not exact:
                if n_digits > 0:
                    zeros += 1
            elif n_digits + zeros < 19:
                mantissa = mantissa * _WHOLE_TENS[zeros + 1] + np.uint64(digit)
                n_digits += zeros + 1
                zeros = 0
            else:
                exact = False
                zeros += 1
        elif data[position] == _DOT and not fraction:
            fraction = True
        else:
            break
        position += 1
    if not some:
        return -1, negative, mantissa, power, exact
    power += zeros
    if position < stop and (data[position] | 32) == 101:  # e or E
        position, down = _read_sign(data, position + 1, stop)
        first, exponent = position, np.int64(0)
        while position < stop and _is_digit(data[position]):
            exponent = min(exponent * 10 + np.int64(data[position]) - _ZERO, np.int64(10**9))
            position += 1
        if position == first:
            return -1, negative, mantissa, power, exact
        power += -exponent if down else exponent
    return position, negative, mantissa, power, exact


@exact_device
def _rounded(mantissa, power, exact):
    """The float32 nearest to mantissa * 10**power, and _FITS, _TOO_BIG or _UNDECIDED (a neighbour may be nearer)."""
    if mantissa == np.uint64(0) or power < -80:
        return np.float32(0.0), _FITS
    if power > 60:
        return np.float32(0.0), _TOO_BIG
    double = np.float64(mantissa)
    double = double * _TENS[power] if power >= 0 else double / _TENS[-power]
    margin = 0.0 if exact and mantissa < np.uint64(2**53) and -22 <= power <= 22 else _MARGIN
    low, high = double * (1.0 - margin), double * (1.0 + margin)
    if low >= FLOAT32_END:
        return np.float32(0.0), _TOO_BIG
    if high >= FLOAT32_END or np.float32(low) != np.float32(high):
        return np.float32(min(double, _LARGEST)), _UNDECIDED
    return np.float32(low), _FITS


@exact_device
def _read_float(data, position, stop):
    """Read a number: (end or -1, the float32, _FITS, _TOO_BIG or _UNDECIDED)."""
    end, negative, mantissa, power, exact = _read_decimal(data, position, stop)
    value, status = _rounded(mantissa, power, exact)
    return end, (-value if negative else value), status


# -- hashes --------------------------------------------------------------------------------------------------------


@exact_device
def hashed_index(index, width):
    """An index beyond the number of features, hashed by splitmix64."""
    z = np.uint64(index) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.int64((z ^ (z >> np.uint64(31))) % np.uint64(width))


@exact_device
def _rotated(word, n_bits):
    return ((word << np.uint64(n_bits)) | (word >> np.uint64(32 - n_bits))) & np.uint64(_MASK)


@exact_device
def _murmur(data, start, stop, seed):
    """MurmurHash3 (x86, 32 bits), which Vowpal Wabbit uses for names."""
    total, mask = np.uint64(seed), np.uint64(_MASK)
    position = start
    while position < stop:
        n_bytes = min(4, stop - position)
        word = np.uint64(0)
        for i in range(n_bytes):
            word |= np.uint64(data[position + i]) << np.uint64(8 * i)
        word = _rotated((word * np.uint64(0xCC9E2D51)) & mask, 15)
        total ^= (word * np.uint64(0x1B873593)) & mask
        if n_bytes == 4:
            total = (_rotated(total, 13) * np.uint64(5) + np.uint64(0xE6546B64)) & mask
        position += 4
    total ^= np.uint64(stop - start)
    total = ((total ^ (total >> np.uint64(16))) * np.uint64(0x85EBCA6B)) & mask
    total = ((total ^ (total >> np.uint64(13))) * np.uint64(0xC2B2AE35)) & mask
    return total ^ (total >> np.uint64(16))


# -- both kernels --------------------------------------------------------------------------------------------------


@exact_device
def _add_feature(index, value, place, parsed):
    """Mutates: parsed."""
    feature = parsed.size[FEATURES]
    parsed.indices[feature] = index
    parsed.values[feature] = value
    parsed.places[feature] = place
    parsed.size[FEATURES] += 1


@exact_device
def _sizes(size):
    """What a line that turns out to be bad does not change."""
    return size[FEATURES], size[LABELS], size[SLOW], size[BEYOND]


@exact_device
def _end_line(line, reason, where, before, parsed):
    """Keep the row, or return to the sizes before it and list the line as bad. Mutates: parsed."""
    size = parsed.size
    if reason == GOOD:
        parsed.lines[size[ROWS]] = line
        size[ROWS] += 1
        parsed.indptr[size[ROWS]] = size[FEATURES]
        parsed.pointer[size[ROWS]] = size[LABELS]
        return
    size[FEATURES], size[LABELS], size[SLOW], size[BEYOND] = before
    if reason != BLANK:
        bad = size[BAD]
        parsed.bad[bad, 0] = line
        parsed.bad[bad, 1] = where
        parsed.bad[bad, 2] = reason
        size[BAD] += 1


# -- svmlight and xmc: label[,label...] index:value ... --------------------------------------------------------------


@exact_device
def _is_space(byte):
    return byte == _SPACE or (_TAB <= byte <= _RETURN)


@exact_device
def _read_integer(data, begin, stop):
    """Read an integer such as 3, +3, 3.0 or 3e0 that fills the token: (GOOD or the reason, the integer)."""
    end, negative, mantissa, power, exact = _read_decimal(data, begin, stop)
    if end != stop or (power < 0 and mantissa > np.uint64(0)):
        return BAD_LABEL, np.int64(0)
    if mantissa == np.uint64(0):
        return GOOD, np.int64(0)
    if power > 18 or mantissa > np.uint64(2**63 - 1) // _WHOLE_TENS[power]:
        return LABEL_TOO_LARGE, np.int64(0)
    if not exact:  # digits after the point
        return BAD_LABEL, np.int64(0)
    number = np.int64(mantissa * _WHOLE_TENS[power])
    return GOOD, -number if negative else number


@exact_device
def _read_labels(data, position, stop, rules, parsed):
    """Read `label[,label...]` up to stop: (GOOD or the reason, where). Mutates: parsed."""
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
            reason, number = _read_integer(data, begin, position)
            if reason != GOOD:
                return reason, begin
            if rules.n_labels >= 0 and not 0 <= number < rules.n_labels:
                return LABEL_TOO_LARGE, begin
        parsed.labels[size[LABELS]] = number
        parsed.spans[size[LABELS], 0] = begin
        parsed.spans[size[LABELS], 1] = position
        size[LABELS] += 1
        if position == stop:
            return GOOD, position
        position += 1


@exact_device
def _qid_end(data, position, stop):
    """The end of a token `qid:number` at this position, or -1."""
    if stop - position < 5 or data[position] != 113 or data[position + 1] != 105:
        return -1
    if data[position + 2] != 100 or data[position + 3] != _COLON:
        return -1
    end = position + 4
    if data[end] == _MINUS:
        end += 1
    first = end
    while end < stop and _is_digit(data[end]):
        end += 1
    if end == first or (end < stop and not _is_space(data[end]) and data[end] != _HASH):
        return -1
    return end


@exact_device
def _read_features(data, position, stop, rules, parsed):
    """Read `index:value ...` up to stop: (GOOD or the reason, where). Mutates: parsed."""
    size = parsed.size
    first_token = True
    while True:
        while position < stop and _is_space(data[position]):
            position += 1
        if position == stop:
            return GOOD, position
        begin, index = position, np.int64(0)
        while position < stop and _is_digit(data[position]):
            # Further digits must not make a large index overflow.
            large = index > LARGEST_INDEX // 10
            index = np.int64(LARGEST_INDEX + 1) if large else index * 10 + np.int64(data[position]) - _ZERO
            position += 1
        if position == begin and first_token and rules.format == SVMLIGHT:
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
        index -= rules.base
        if index < 0:
            return INDEX_ZERO, begin
        if index >= rules.n_features:
            return INDEX_BEYOND, begin
        value_begin = position + 1
        position, value, status = _read_float(data, value_begin, stop)
        if position < 0 or (position < stop and not _is_space(data[position])):
            return BAD_VALUE, value_begin
        if status == _TOO_BIG:
            return TOO_LARGE, value_begin
        if index >= rules.width:
            size[BEYOND] += 1
            if rules.hashed == 0:
                continue
            index = hashed_index(index, rules.width)
        if status == _UNDECIDED:
            slow = size[SLOW]
            parsed.slow[slow, 0] = size[FEATURES]
            parsed.slow[slow, 1] = value_begin
            parsed.slow[slow, 2] = position
            size[SLOW] += 1
        _add_feature(index, value, value_begin, parsed)


@exact_device
def _read_line(data, start, stop, rules, parsed):
    """Read one line: (GOOD, BLANK or the reason, where). Mutates: parsed."""
    if stop > start and data[stop - 1] == _RETURN:
        stop -= 1
    if rules.format == SVMLIGHT:  # remove the comment
        end = start
        while end < stop and data[end] != _HASH:
            end += 1
        stop = end
    position = start
    while position < stop and _is_space(data[position]):
        position += 1
    if position == stop and (rules.format == SVMLIGHT or stop == start):
        return BLANK, position
    end, colon = position, False
    while end < stop and not _is_space(data[end]):
        if data[end] == _COLON:
            colon = True
            break
        end += 1
    if colon or end == position:  # no labels: the line begins with a feature, or contains only spaces
        if rules.labelled == 1 and not (rules.several == 1 and position > start):
            return NO_LABEL, position
        return _read_features(data, position, stop, rules, parsed)
    if rules.labelled == 1:
        reason, where = _read_labels(data, position, end, rules, parsed)
        if reason != GOOD:
            return reason, where
    return _read_features(data, end, stop, rules, parsed)


@exact_kernel
def parse_lines(data, spans, rules, parsed):
    """Parse the lines at `spans`. Mutates: parsed. Cost: O(bytes)."""
    size = parsed.size
    for line in range(spans.shape[0]):
        before = _sizes(size)
        reason, where = _read_line(data, spans[line, 0], spans[line, 1], rules, parsed)
        _end_line(line, reason, where, before, parsed)
        if size[BAD] > 0 and rules.skip == 0:
            return


# -- Vowpal Wabbit: |namespace:weight name:value ... -----------------------------------------------------------------


@exact_device
def _is_end(byte):
    return byte == _SPACE or byte == _TAB or byte == _BAR


@exact_device
def _name_end(data, position, stop):
    """Where a name ends, and whether it consists of digits."""
    is_number = True
    while position < stop and data[position] != _COLON and not _is_end(data[position]):
        is_number &= _is_digit(data[position])
        position += 1
    return position, is_number


@exact_device
def _read_factor(data, position, stop):
    """Read a number that fills its token: (GOOD, BAD_VALUE or TOO_LARGE, the float32, its end or where it is wrong)."""
    end, value, status = _read_float(data, position, stop)
    if end < 0 or (end < stop and not _is_end(data[end])):
        return BAD_VALUE, value, position
    if status == _TOO_BIG:
        return TOO_LARGE, value, position
    return GOOD, value, end


@exact_device
def _named_feature(data, begin, stop, is_number, seed, width):
    """The feature of a name; seed 2**32 means no namespace."""
    has_namespace = seed <= np.uint64(_MASK)
    if not is_number or stop - begin > _LONGEST_NUMBER:
        return np.int64(_murmur(data, begin, stop, seed if has_namespace else np.uint64(0)) % np.uint64(width))
    number = np.int64(0)
    for position in range(begin, stop):
        number = number * 10 + np.int64(data[position]) - _ZERO
    if has_namespace:
        return np.int64(((np.uint64(number) + seed) & np.uint64(_MASK)) % np.uint64(width))
    return number if number < width else hashed_index(number, width)


@exact_device
def _read_names(data, position, stop, width, parsed):
    """Read from the first bar to stop: (GOOD or the reason, where). Mutates: parsed."""
    while position < stop:
        position += 1  # the bar
        seed, scale = np.uint64(2**32), np.float32(1.0)
        if position < stop and not _is_end(data[position]):
            begin = position
            position, is_number = _name_end(data, begin, stop)
            if position == begin:
                return NO_NAMESPACE, begin
            seed = _murmur(data, begin, position, np.uint64(0))
            if position < stop and data[position] == _COLON:
                reason, scale, position = _read_factor(data, position + 1, stop)
                if reason != GOOD:
                    return BAD_WEIGHT, position
        while True:
            while position < stop and (data[position] == _SPACE or data[position] == _TAB):
                position += 1
            if position == stop or data[position] == _BAR:
                break
            begin, value = position, np.float32(1.0)
            position, is_number = _name_end(data, begin, stop)
            if position == begin:
                return NO_NAME, begin
            index = _named_feature(data, begin, position, is_number, seed, width)
            if position < stop and data[position] == _COLON:
                reason, value, position = _read_factor(data, position + 1, stop)
                if reason != GOOD:
                    return reason, position
            product = np.float64(value) * np.float64(scale)
            if abs(product) >= FLOAT32_END:
                return PRODUCT_TOO_LARGE, begin
            _add_feature(index, product, begin, parsed)
    return GOOD, position


@exact_kernel
def parse_names(data, spans, rules, parsed):
    """Parse the features at `spans`, from the first bar of a line to its end. Mutates: parsed. Cost: O(bytes).

    A value is the nearest float32, or in rare cases its neighbour, times the weight of the namespace.
    """
    size = parsed.size
    for line in range(spans.shape[0]):
        before = _sizes(size)
        reason, where = _read_names(data, spans[line, 0], spans[line, 1], rules.width, parsed)
        _end_line(line, reason, where, before, parsed)
        if size[BAD] > 0 and rules.skip == 0:
            return
