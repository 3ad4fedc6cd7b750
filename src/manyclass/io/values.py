"""Numbers and labels that Python reads token by token."""

import re
from collections.abc import Iterable
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np

from .errors import Fault, is_utf8, shown
from .reading import Reading

FLOAT32_END = 3.4028235677973366e38  # numbers from here on round to infinity in float32
# Without backtracking: a token may be very long.
_NUMBER = re.compile(r"[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?", re.ASCII)
_NOT_FINITE = ("nan", "inf", "infinity")


def finite(token: str) -> float | None:
    """The number in a token, or None if it is none or too large for float32.

    Python's `float` would also accept nan, inf and 1_000.
    """
    if not _NUMBER.fullmatch(token):
        return None
    number = float(token)
    return number if abs(number) < FLOAT32_END else None


def is_number(token: str) -> bool:
    """Whether a token is meant as a number. This includes nan and inf, which are errors and not categories."""
    return token.lower().lstrip("+-") in _NOT_FINITE or _NUMBER.fullmatch(token) is not None


def why_not_finite(token: str) -> str:
    """The reason why `finite` returned None."""
    if not is_number(token):
        return "not a number; correct it"
    if _NUMBER.fullmatch(token):
        return "too large for 32-bit floats; scale it down"
    return "not finite; nan and inf are not allowed"


def whole(token: str) -> int | None:
    """The 64-bit integer in a token such as 3, +3, 3.0 or 3e0, or None."""
    if not _NUMBER.fullmatch(token):
        return None
    try:
        number = Decimal(token)
    except InvalidOperation:  # an exponent of 19 or more digits
        return None
    return int(number) if -(2**63) < number < 2**63 and number == int(number) else None


def is_integer(label: Any) -> bool:
    """Whether a label that is no text is a whole number."""
    if isinstance(label, Decimal):
        return label.is_finite() and label == label.to_integral_value()
    if isinstance(label, float):
        return label.is_integer()
    return isinstance(label, int) and not isinstance(label, bool)


def mostly_text(labels: Iterable[str]) -> bool:
    """Whether more than half of the labels are not numbers. A few texts among numbers are errors, not classes."""
    is_text = [not _NUMBER.fullmatch(label) for label in labels]
    return 2 * sum(is_text) > len(is_text)


def checked_labels(values: list[Any], reading: Reading) -> list[Any]:
    """The labels of one row as text or integers; a Fault if one of them is neither."""
    if len(values) != 1 and reading.labels != "several":
        if not values:
            raise Fault("the row has no label; add one")
        raise Fault("the row has several labels, but earlier rows have one each; read the file with several labels")
    return [_checked_label(value, reading.label_kind == "text") for value in values]


def _checked_label(value: Any, as_text: bool) -> Any:
    if is_integer(value):
        value = int(value)
    elif isinstance(value, bool):
        value = str(value).lower()
    if not isinstance(value, int | str):
        raise Fault(f"label {shown(str(value))} is neither a text nor a whole number")
    if isinstance(value, int):
        if abs(value) >= 2**63:
            raise Fault("the label is a number larger than 2**63 - 1; write it as a text")
        return str(value) if as_text else value
    if not value.strip():
        raise Fault("the label is empty; write one")
    if not is_utf8(value):
        raise Fault(f"label {shown(value)} is not UTF-8 text")
    number = value if as_text else whole(value)
    if number is None:
        raise Fault(f"label {shown(value)} is not a 64-bit whole number; correct it or read the labels as text")
    return number


def label_arrays(rows: list[list[Any]], reading: Reading) -> tuple[np.ndarray, np.ndarray]:
    """All labels of some rows, and the (row + 1,) positions where each row's labels begin."""
    flat = [label for row in rows for label in row]
    labels = np.empty(len(flat), dtype=object if reading.label_kind == "text" else np.int64)
    labels[:] = flat
    return labels, np.cumsum([0, *map(len, rows)], dtype=np.int64)
