"""`|namespace:weight name:value ...` into arrays: the inner loop of reading Vowpal Wabbit's text.

As in `line_parser.py`, no position is read before it was compared with the end of its line. Names are hashed as Vowpal
Wabbit does (murmur3, seeded by the hash of the namespace; numbers stay numbers). A value is the nearest float32, or in
rare cases its neighbour, times the namespace's weight.
"""

import numpy as np

from ..jit import exact_device, exact_kernel
from .decimals import FLOAT32_END, TOO_BIG, read_decimal, rounded
from .line_parser import BAD, BAD_VALUE, FEATURES, GOOD, ROWS, TOO_LARGE, is_refused, mixed

# Why a line is refused, beside the reasons of `line_parser.py`.
NO_NAMESPACE, NO_NAME, BAD_WEIGHT, PRODUCT_TOO_LARGE, SUM_TOO_LARGE = range(20, 25)

LONGEST_NUMBER = 18  # digits of a name that counts as a number

_TAB, _SPACE, _ZERO, _COLON, _BAR = 9, 32, 48, 58, 124
_MASK = 0xFFFFFFFF


@exact_device
def _turned(word, n_bits):
    """A 32-bit word turned left."""
    return ((word << np.uint64(n_bits)) | (word >> np.uint64(32 - n_bits))) & np.uint64(_MASK)


@exact_device
def _scrambled(word):
    word = (word * np.uint64(0xCC9E2D51)) & np.uint64(_MASK)
    return (_turned(word, 15) * np.uint64(0x1B873593)) & np.uint64(_MASK)


@exact_device
def murmur(data, start, stop, seed):
    """MurmurHash3 (x86, 32 bits) of some bytes. Cost: O(length)."""
    total, mask = np.uint64(seed), np.uint64(_MASK)
    position = start
    while position + 4 <= stop:
        word = np.uint64(0)
        for i in range(4):
            word |= np.uint64(data[position + i]) << np.uint64(8 * i)
        total = _turned(total ^ _scrambled(word), 13)
        total = (total * np.uint64(5) + np.uint64(0xE6546B64)) & mask
        position += 4
    word = np.uint64(0)
    for i in range(stop - position):
        word |= np.uint64(data[position + i]) << np.uint64(8 * i)
    total ^= _scrambled(word) ^ np.uint64(stop - start)
    total = ((total ^ (total >> np.uint64(16))) * np.uint64(0x85EBCA6B)) & mask
    total = ((total ^ (total >> np.uint64(13))) * np.uint64(0xC2B2AE35)) & mask
    return total ^ (total >> np.uint64(16))


@exact_device
def _is_end(byte):
    return byte == _SPACE or byte == _TAB or byte == _BAR


@exact_device
def _name_stop(data, position, stop):
    """Where a name ends, and whether it is a number."""
    is_number = True
    while position < stop and data[position] != _COLON and not _is_end(data[position]):
        is_number &= 48 <= data[position] <= 57
        position += 1
    return position, is_number


@exact_device
def _read_float(data, position, stop):
    """A number up to the end of its token: (GOOD, BAD_VALUE or TOO_LARGE, its float32, where it ends)."""
    end, negative, mantissa, power, exact = read_decimal(data, position, stop)
    if end < 0 or (end < stop and not _is_end(data[end])):
        return BAD_VALUE, np.float32(0.0), position
    value, status = rounded(mantissa, power, exact)
    if status == TOO_BIG:
        return TOO_LARGE, np.float32(0.0), position
    return GOOD, (-value if negative else value), end


@exact_device
def _feature(data, begin, stop, is_number, seed, width):
    """The feature of a name; seed 2**32 stands for no namespace. Cost: O(length)."""
    named = seed <= np.uint64(_MASK)
    if not is_number or stop - begin > LONGEST_NUMBER:
        return np.int64(murmur(data, begin, stop, seed if named else np.uint64(0)) % np.uint64(width))
    number = np.int64(0)
    for position in range(begin, stop):
        number = number * 10 + np.int64(data[position]) - _ZERO
    if named:
        return np.int64(((np.uint64(number) + seed) & np.uint64(_MASK)) % np.uint64(width))
    return number if number < width else np.int64(mixed(number) % np.uint64(width))


@exact_device
def _read_names(data, position, stop, width, parsed, refused):
    """Read all from the first bar to stop: (why it is refused, where). Mutates: parsed. Cost: O(length)."""
    size = parsed.size
    while position < stop:
        position += 1  # the bar
        seed, scale = np.uint64(2**32), np.float32(1.0)
        if position < stop and not _is_end(data[position]):
            begin = position
            position, is_number = _name_stop(data, begin, stop)
            if position == begin:
                return NO_NAMESPACE, begin
            seed = murmur(data, begin, position, np.uint64(0))
            if position < stop and data[position] == _COLON:
                why, scale, position = _read_float(data, position + 1, stop)
                if why != GOOD:
                    return BAD_WEIGHT, position
        while True:
            while position < stop and (data[position] == _SPACE or data[position] == _TAB):
                position += 1
            if position == stop or data[position] == _BAR:
                break
            begin, value = position, np.float32(1.0)
            position, is_number = _name_stop(data, begin, stop)
            if position == begin:
                return NO_NAME, begin
            index = _feature(data, begin, position, is_number, seed, width)
            if position < stop and data[position] == _COLON:
                why, value, position = _read_float(data, position + 1, stop)
                if why != GOOD:
                    return why, position
            product = np.float64(value) * np.float64(scale)
            if abs(product) >= FLOAT32_END:
                return PRODUCT_TOO_LARGE, begin
            if refused.size > 0 and is_refused(begin, refused, size):
                return SUM_TOO_LARGE, begin
            parsed.indices[size[FEATURES]] = index
            parsed.values[size[FEATURES]] = product
            parsed.places[size[FEATURES]] = begin
            size[FEATURES] += 1
    return GOOD, position


@exact_kernel
def parse_names(data, spans, width, skip, parsed, refused):
    """Read what stands from the first bar of each line to its end, at `spans`. Mutates: parsed. Cost: O(bytes)."""
    size = parsed.size
    for line in range(spans.shape[0]):
        n_features = size[FEATURES]
        why, where = _read_names(data, spans[line, 0], spans[line, 1], width, parsed, refused)
        if why == GOOD:
            size[ROWS] += 1
            parsed.indptr[size[ROWS]] = size[FEATURES]
        else:
            size[FEATURES] = n_features
            parsed.bad[size[BAD], 0] = line
            parsed.bad[size[BAD], 1] = where
            parsed.bad[size[BAD], 2] = why
            parsed.bad[size[BAD], 3] = size[ROWS]
            size[BAD] += 1
            if skip == 0:
                return
