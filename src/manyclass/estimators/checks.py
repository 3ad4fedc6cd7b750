"""Options are checked when learning starts, as scikit-learn wants it, with errors that say what is allowed."""

from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any


def check_options(estimator: Any, limits: Mapping[str, Any]) -> None:
    """Raise a ValueError for the first option outside its limits.

    A limit is `bool`, a tuple of allowed strings, or `(Integral | Real, low, high)`. The estimator's `_may_be_none`
    names the options that None switches off.
    """
    for name, limit in limits.items():
        value = getattr(estimator, name)
        if value is None and name in estimator._may_be_none:
            continue
        if limit is bool:
            if not isinstance(value, bool) and str(type(value).__name__) != "bool":
                raise ValueError(f"{name} must be True or False, got {value!r}.")
        elif isinstance(limit[0], str):
            if value not in limit:
                raise ValueError(f"{name} must be one of {', '.join(map(repr, limit))}, got {value!r}.")
        else:
            _check_number(estimator, name, value, *limit)


def _check_number(estimator, name, value, kind, low, high) -> None:
    what = "a whole number" if kind is Integral else "a number"
    reach = f"of at least {low}" if high is None else f"from {low} to {high}"
    or_none = " (or None)" if name in estimator._may_be_none else ""
    good = isinstance(value, kind) and isinstance(value, Real) and not isinstance(value, bool)
    if not good or not low <= value or (high is not None and value > high):
        raise ValueError(f"{name} must be {what} {reach}{or_none}, got {value!r}.")
