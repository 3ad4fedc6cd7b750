"""Decimal numbers in bytes, rounded as `np.float32(float(token))`.

Most need one exact double operation (Clinger 1990). For the others a double with a known error is enough, because
rounding to float32 is monotone: if both ends of the interval round to the same float32, so does everything between.
The few that are left are undecided, and Python's float has to decide.
"""

import numpy as np

from ..jit import exact_device

FITS, TOO_BIG, UNDECIDED = range(3)

_LARGEST = 3.4028234663852886e38  # that float32 can hold

FLOAT32_END = 3.4028235677973366e38  # halfway to the next power of two: from here on, float32 is infinite
_MARGIN = 2.0**-50  # four roundings of a double and digits beyond the 19th stay below this relative error
_TENS = np.array([10.0**e for e in range(81)])
WHOLE_TENS = np.array([10**e for e in range(20)], dtype=np.uint64)
_PLUS, _MINUS, _DOT, _ZERO = 43, 45, 46, 48


@exact_device
def read_decimal(data, position, stop):
    """Read `[sign] digits [. digits] [e [sign] digits]`: (end or -1, negative, mantissa, power of ten, exact).

    The mantissa ends in no zero, so a number is whole exactly if its power is not negative. Cost: O(length).
    """
    mantissa, power = np.uint64(0), np.int64(0)
    n_digits, zeros = 0, 0  # kept in the mantissa; zeros seen after it, which count only if a digit follows
    exact, some, fraction, negative = True, False, False, False
    if position < stop and (data[position] == _MINUS or data[position] == _PLUS):
        negative = data[position] == _MINUS
        position += 1
    while position < stop:
        digit = np.int64(data[position]) - _ZERO
        if 0 <= digit <= 9:
            some = True
            if fraction:
                power -= 1
            if digit == 0 or not exact:
                if n_digits > 0:
                    zeros += 1
            elif n_digits + zeros < 19:
                mantissa = mantissa * WHOLE_TENS[zeros + 1] + np.uint64(digit)
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
        position += 1
        down = False
        if position < stop and (data[position] == _MINUS or data[position] == _PLUS):
            down = data[position] == _MINUS
            position += 1
        first, exponent = position, np.int64(0)
        while position < stop and 48 <= data[position] <= 57:
            exponent = min(exponent * 10 + np.int64(data[position]) - _ZERO, np.int64(10**9))
            position += 1
        if position == first:
            return -1, negative, mantissa, power, exact
        power += -exponent if down else exponent
    return position, negative, mantissa, power, exact


@exact_device
def rounded(mantissa, power, exact):
    """The float32 nearest to mantissa * 10**power, and FITS, TOO_BIG or UNDECIDED (a neighbour may be nearer)."""
    if mantissa == np.uint64(0) or power < -80:
        return np.float32(0.0), FITS
    if power > 60:
        return np.float32(0.0), TOO_BIG
    double = np.float64(mantissa)
    double = double * _TENS[power] if power >= 0 else double / _TENS[-power]
    if exact and mantissa < np.uint64(2**53) and -22 <= power <= 22:
        if double >= FLOAT32_END:
            return np.float32(0.0), TOO_BIG
        return np.float32(double), FITS
    low, high = double * (1.0 - _MARGIN), double * (1.0 + _MARGIN)
    if low >= FLOAT32_END:
        return np.float32(0.0), TOO_BIG
    if high >= FLOAT32_END or np.float32(low) != np.float32(high):
        return np.float32(min(double, _LARGEST)), UNDECIDED
    return np.float32(low), FITS
