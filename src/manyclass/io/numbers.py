"""Numbers as people write them, for the readers that work token by token."""

import re
from collections.abc import Iterable

_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", re.ASCII)
_PARTS = re.compile(r"([+-]?)([0-9]*)\.?([0-9]*)(?:[eE]([+-]?[0-9]+))?")
_NOT_FINITE = ("nan", "inf", "infinity")
NOT_FINITE = "not finite; nan and inf cannot be learned"
TOO_LARGE = "beyond 32-bit floats; scale it down"
FLOAT32_END = 3.4028235677973366e38  # halfway to the next power of two: from here on, float32 is infinite


def finite(token: str) -> float | None:
    """The number a token stands for, if float32 can hold it; Python's `float` would also take nan, inf and 1_000."""
    if not _NUMBER.fullmatch(token):
        return None
    number = float(token)
    return number if abs(number) < FLOAT32_END else None


def whole(token: str) -> int | None:
    """The whole number that a label such as 3, +3, 3.0 or 3e0 stands for, if a 64-bit int can hold it.

    Counted in digits: neither int nor Decimal takes all that people write, such as 1e9999999999999999999.
    """
    if token.isascii() and token.isdigit() and len(token) < 19:
        return int(token)
    match = _PARTS.fullmatch(token)
    if match is None:
        return None
    sign, before, after, exponent = (part or "" for part in match.groups())
    digits = (before + after).lstrip("0")
    significant = digits.rstrip("0")
    if not significant:
        return 0 if before + after else None
    if len(exponent.lstrip("+-0")) > 9:
        return None
    power = int(exponent or "0") - len(after) + len(digits) - len(significant)
    if power < 0 or len(significant) + power > 19:
        return None
    number = int(significant) * 10**power
    if number >= 2**63:
        return None
    return -number if sign == "-" else number


def mostly_text(labels: Iterable[str]) -> bool:
    """Whether more than half of the labels are no numbers. A stray text among numbers is then an error, not a class."""
    n_labels, n_text = 0, 0
    for label in labels:
        n_labels += 1
        n_text += not _NUMBER.fullmatch(label)
    return 2 * n_text > n_labels


def reads_as_number(token: str) -> bool:
    """Whether a token is meant as a number. Also nan and inf are: among numbers they are an error, no category."""
    return token.lower().lstrip("+-") in _NOT_FINITE or _NUMBER.fullmatch(token) is not None


def why_not_finite(token: str) -> str:
    """What to say of a token that `finite` refuses."""
    if not reads_as_number(token):
        return "not a number; correct it"
    return NOT_FINITE if token.lower().lstrip("+-") in _NOT_FINITE else TOO_LARGE
