"""What the user gave is checked before anything changes, with errors that say what is allowed and what to do."""

from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse as sp

_NOT_ONE_LABEL = (list, tuple, set, frozenset, dict, np.ndarray)


def check_options(estimator: Any, limits: Mapping[str, Any]) -> None:
    """Raise a ValueError for the first option outside its limits.

    A limit is `bool`, a tuple of allowed strings, or `(Integral | Real, low, high)`. The estimator's `_may_be_none`
    names the options that None switches off, `_may_be_auto` those whose number may be left to "auto".
    """
    for name, limit in limits.items():
        value = getattr(estimator, name)
        if value is None and name in estimator._may_be_none:
            continue
        if isinstance(value, str) and value == "auto" and name in estimator._may_be_auto:
            continue
        if limit is bool:
            if not isinstance(value, bool) and str(type(value).__name__) != "bool":
                raise ValueError(f"{name} must be True or False, got {value!r}.")
        elif isinstance(limit[0], str):
            if value not in limit:
                choices = ", ".join([*map(repr, limit), *(["None"] if name in estimator._may_be_none else [])])
                raise ValueError(f"{name} must be one of {choices}, got {value!r}.")
        else:
            _check_number(estimator, name, value, *limit)


def _check_number(estimator, name, value, kind, low, high) -> None:
    what = "a whole number" if kind is Integral else "a number"
    reach = f"of at least {low}" if high is None else f"from {low} to {high}"
    other = " (or None)" if name in estimator._may_be_none else ""
    other = ' (or "auto")' if name in estimator._may_be_auto else other
    good = isinstance(value, kind) and isinstance(value, Real) and not isinstance(value, bool)
    if not good or not low <= value or (high is not None and value > high):
        raise ValueError(f"{name} must be {what} {reach}{other}, got {value!r}.")


def check_text(X: Any) -> None:
    """Refuse raw text with a word on what makes numbers of it."""
    cell = X
    for _ in range(3):  # X itself, a row, a value
        if isinstance(cell, str):
            break
        rows = isinstance(cell, (list, tuple, np.ndarray)) or (hasattr(cell, "iloc") and not hasattr(cell, "columns"))
        kind = getattr(getattr(cell, "dtype", None), "kind", "O")
        if not rows or kind in "biufc" or getattr(cell, "ndim", 1) == 0 or len(cell) == 0:
            return
        cell = next(iter(cell))
    if not isinstance(cell, str) or _is_number(cell):
        return
    start = cell if len(cell) <= 30 else cell[:27] + "..."
    raise ValueError(
        f"X holds text ({str(start)!r} first), not numbers: turn each text into a row of numbers before, for example "
        "with TfidfVectorizer or HashingVectorizer of sklearn.feature_extraction.text."
    )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def check_labels(y: Any, name: str = "y") -> None:
    """Refuse what is not one label a row, before anybody tries to sort it."""
    if sp.issparse(y):
        raise _is_a_matrix(name, y.shape)
    try:
        labels = np.asarray(y)
    except ValueError:  # lists of different length
        labels = np.fromiter(y, object, len(y))
    if labels.ndim == 2 and labels.shape[1] != 1:
        raise _is_a_matrix(name, labels.shape)
    if labels.ndim == 2:
        labels = labels[:, 0]
    elif labels.ndim == 1 and labels.dtype.kind == "U" and isinstance(y, (list, tuple)):
        labels = np.fromiter(y, object, len(y))  # numpy makes text of numbers among text
    if labels.ndim == 1 and labels.dtype.kind in "OS":
        _check_objects(labels.tolist(), name)


def _is_a_matrix(name: str, shape: tuple) -> ValueError:
    return ValueError(
        f"{name} is a matrix of shape {shape}, where one label a row is wanted; label and spectral trees learn several "
        "labels a row from a matrix of zeros and ones."
    )


def _check_objects(labels: list, name: str) -> None:
    """All must be text: numbers come in arrays of numbers."""
    for i, label in enumerate(labels):
        missing = label is None or type(label).__name__ in ("NAType", "NaTType")
        if missing or (isinstance(label, float) and label != label):
            raise ValueError(f"Input {name} contains NaN or None: row {i} has no label.")
        if isinstance(label, _NOT_ONE_LABEL):
            raise ValueError(
                f"{name} holds a {type(label).__name__} in row {i}: one label a row is text or a number. Several "
                "labels a row are a matrix of zeros and ones, for label and spectral trees: sklearn.preprocessing."
                f"MultiLabelBinarizer(sparse_output=True).fit_transform({name}) makes it of lists of labels."
            )
    texts = [isinstance(label, str) for label in labels]
    if any(texts) and not all(texts):
        row = texts.index(not texts[0])
        raise ValueError(
            f"{name} mixes text with other labels ({labels[0]!r} in row 0, {labels[row]!r} in row {row}): convert all "
            "labels to one type, for example to str."
        )
    if labels and not texts[0]:
        raise ValueError(
            f"Unknown label type: {name} holds objects of type {type(labels[0]).__name__}; convert them to text or "
            f"whole numbers, for example by numpy.asarray({name}).astype(str) or .astype(int)."
        )
