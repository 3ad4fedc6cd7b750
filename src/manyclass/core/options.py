"""Allowed values of options. Each estimator declares them once in `_constraints`."""

from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np

from .memory import as_bytes


@dataclass(frozen=True)
class Constraint:
    """The values that an option may have: a number in a range, a bool, or one of some words and None."""

    kind: Any = None  # Integral, Real, bool, or None for words only
    low: float = 0.0
    high: float = float("inf")
    words: tuple[Any, ...] = ()

    def allows(self, value: Any) -> bool:
        if value is None or isinstance(value, str):
            return any(word is value or (isinstance(word, str) and word == value) for word in self.words)
        if self.kind is bool or isinstance(value, (bool, np.bool_)):
            return self.kind is bool and isinstance(value, (bool, np.bool_))
        if self.kind is None or not isinstance(value, self.kind):
            return False
        number = int(value) if self.kind is Integral else as_float(value)  # as it will be used
        return self.low <= number <= self.high

    def __str__(self) -> str:
        parts = [f"{word!r}" for word in self.words]
        if self.kind is bool:
            parts = ["True", "False", *parts]
        elif self.kind is not None:
            number = "an integer" if self.kind is Integral else "a number"
            low, high = f"{self.low:.12g}", f"{self.high:.12g}"
            limit = f"of at least {low}" if self.high == float("inf") else f"from {low} to {high}"
            parts = [f"{number} {limit}", *parts]
        return " or ".join(parts) if len(parts) < 3 else ", ".join(parts[:-1]) + " or " + parts[-1]


@dataclass(frozen=True)
class Bytes(Constraint):
    """An amount of memory, or None."""

    def allows(self, value: Any) -> bool:
        return value is None or (as_bytes(value) or 0) > 0

    def __str__(self) -> str:
        return "a number of bytes, text such as '512MB' or '8GB', or None"


def as_float(value: Real) -> float:
    """A number as a float; NaN for an integer that is too large for one."""
    try:
        return float(value)
    except OverflowError:
        return float("nan")


def integer(low: int, high: float = float("inf"), *words: Any) -> Constraint:
    """An integer in a range, or one of the words."""
    return Constraint(Integral, low, high, words)


def real(low: float, high: float = float("inf"), *words: Any) -> Constraint:
    """A number in a range, or one of the words."""
    return Constraint(Real, low, high, words)


def flag(*words: Any) -> Constraint:
    """True or False, or one of the words."""
    return Constraint(bool, words=words)


def one_of(*words: Any) -> Constraint:
    """One of the words."""
    return Constraint(words=words)


# Options of estimators that learn in epochs.
EPOCH_CONSTRAINTS = {
    "n_epochs": integer(1),
    "shuffle": flag(),
    "replay": flag(),
    "early_stopping": flag(),
    "table_bits": integer(8, 40),
}


def check_integer(name: str, value: Any, low: int = 1, high: float = float("inf")) -> int:
    """An argument as a number, or a ValueError unless it is an integer from `low` to `high`."""
    if not (allowed := integer(low, high)).allows(value):
        raise ValueError(f"{name} must be {allowed}, got {value!r}.")
    return int(value)


def check_flag(name: str, value: Any) -> bool:
    """An argument as a bool, or a ValueError unless it is True or False."""
    if not (allowed := flag()).allows(value):
        raise ValueError(f"{name} must be {allowed}, got {value!r}.")
    return bool(value)


def resolved(estimator: Any, kind: type, codes: dict[str, dict[str, int]], **given: Any) -> Any:
    """The options of an algorithm as numbers: those given, and all others of the estimator; words by `codes`."""
    out = {}
    for name, as_number in kind.__annotations__.items():
        value = given[name] if name in given else getattr(estimator, name)
        out[name] = codes[name][value] if name in codes else as_number(value)
    return kind(**out)


def check_options(estimator: Any, names: Iterable[str] | None = None) -> None:
    """ValueError for the first option of an estimator that is not allowed; `names` limits the check to some."""
    for name in estimator._constraints if names is None else names:
        constraint, value = estimator._constraints[name], getattr(estimator, name)
        if not constraint.allows(value):
            raise ValueError(f"{name} must be {constraint}, got {value!r}.")
