"""Labels of rows that Python reads, gathered into the arrays of a piece."""

from typing import Any

import numpy as np

from .errors import Fault, is_text, shown
from .numbers import whole
from .reading import Reading


def _digits(number: int) -> str:
    if abs(number) >= 2**63:  # Python refuses to print numbers of thousands of digits
        raise Fault("the label is a number beyond 2**63 - 1; write it as a text")
    return str(number)


class LabelList:
    """The labels of some rows."""

    def __init__(self, reading: Reading) -> None:
        self._as_text = reading.label_kind == "text"
        self._several = reading.labels == "several"
        self._flat: list[Any] = []
        self._ends = [0]

    def checked(self, values: list[Any]) -> list[Any]:
        """The labels of one row as they will be kept; a Fault if one cannot be."""
        if len(values) != 1 and not self._several:
            if not values:
                raise Fault("the row has no label; give it one")
            raise Fault("the row has several labels, but the rows before had one each; read it with several labels")
        return [self._checked(value) for value in values]

    def _checked(self, value: Any) -> Any:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise Fault(f"label {shown(str(value))} is neither a text nor a whole number")
        if isinstance(value, str) and not value.strip():
            raise Fault("the label is missing; give it one")
        if isinstance(value, str) and not is_text(value):
            raise Fault(f"label {shown(value)} is not UTF-8 text")
        if self._as_text:
            return _digits(value) if isinstance(value, int) else value
        number = whole(value) if isinstance(value, str) else value
        if number is None or not -(2**63) < number < 2**63:
            token = "beyond 2**63 - 1" if isinstance(value, int) else shown(value)
            raise Fault(f"label {token} is not a 64-bit whole number; correct it or read the labels as text")
        return number

    def append(self, labels: list[Any]) -> None:
        """Add the labels of a row that is good."""
        self._flat += labels
        self._ends.append(len(self._flat))

    def arrays(self) -> tuple[np.ndarray, np.ndarray | None]:
        """All labels, and for several a row where each row's begin."""
        labels = np.empty(len(self._flat), dtype=object if self._as_text else np.int64)
        labels[:] = self._flat
        return labels, np.array(self._ends, dtype=np.int64) if self._several else None
