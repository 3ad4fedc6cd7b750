"""Larger public data sets, read from a folder of the user's."""

import os
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from .errors import DataNotFound
from .folders import FOLDER_VARIABLE, cache_folder, packed_name
from .packed import Readable, read_packed, unpack_names, unpack_split
from .public import PUBLIC_SETS
from .wordnet import SHIPPED


def load(name: str) -> tuple[Any, ...]:
    """Load a data set by name, from the folder ``MANYCLASS_DATA`` (an environment variable) or from the cache.

    Nothing is downloaded here: `fetch`, or the command ``manyclass data NAME``, does that.

    Parameters
    ----------
    name : str
        The set; its file is ``NAME.npz.xz``. ``"wordnet-hypernym"`` ships with the package: no folder needed.

    Returns
    -------
    tuple
        ``(X_train, y_train, X_test, y_test)``. Inputs are float32: CSR, or dense where the set is dense.
        Labels are int32 class numbers, or an int8 CSR matrix (row, class) where a row may have several.
        A set of running text (enwik8) gives ``(train, valid, test)`` arrays of word numbers instead.

    Raises
    ------
    DataNotFound
        When neither the folder nor the cache holds the set; the message says what to do.
    ValueError
        When the file is not a packed data set.

    Examples
    --------
    >>> from manyclass.datasets import load
    >>> X_train, y_train, X_test, y_test = load("wordnet-hypernym")
    >>> X_train.shape, y_train.shape
    ((54992, 38102), (54992,))
    """
    file = find(name)
    arrays = read_packed(file)
    try:
        if "train" in arrays:
            return arrays["train"], arrays["valid"], arrays["test"]
        return (*unpack_split(arrays, "train"), *unpack_split(arrays, "test"))
    except (KeyError, ValueError) as error:
        raise ValueError(f"{file.name} is not a packed data set: {error}") from error


def available(name: str) -> bool:
    """Say whether `load` would find the data set.

    Parameters
    ----------
    name : str
        The set.

    Returns
    -------
    bool
        True when its file is there.

    Examples
    --------
    >>> from manyclass.datasets import available
    >>> available("wordnet-hypernym"), available("no-such-set")
    (True, False)
    """
    try:
        find(name)
    except DataNotFound:
        return False
    return True


def names(name: str, what: str) -> np.ndarray:
    """Load the names of a data set's labels, features or words.

    Parameters
    ----------
    name : str
        The set.
    what : {"labels", "features", "vocab"}
        Which names: of the classes, of the columns, or of the word numbers of running text.

    Returns
    -------
    ndarray of str
        One name for each number.

    Raises
    ------
    DataNotFound
        When neither the folder nor the cache holds the set; the message says what to do.
    ValueError
        When the set does not hold such names.

    Examples
    --------
    >>> from manyclass.datasets import names
    >>> [str(name) for name in names("wordnet-hypernym", "labels")[:2]]
    ['physical entity.n.00001930', 'abstraction.n.00002137']
    """
    arrays = read_packed(find(name))
    known = [key for key in ("labels", "features", "vocab") if key in arrays]
    if what not in known:
        raise ValueError(f"The data set {name!r} has no names of {what!r}; it has {known}.")
    return unpack_names(arrays, what)


def find(name: str) -> Readable:
    """The file of a data set: in ``MANYCLASS_DATA``, else in the cache; else DataNotFound, which says what to do."""
    if not re.fullmatch(r"\w[\w.-]*", name):
        raise DataNotFound(f"{name!r} is not the name of a data set: letters, digits, dots and hyphens only.")
    if name == SHIPPED:
        return files("manyclass.datasets") / f"{SHIPPED}.npz.xz"
    named = os.environ.get(FOLDER_VARIABLE)
    folder = Path(named).expanduser() if named else None
    if folder is not None and not folder.is_dir():
        raise DataNotFound(f"{FOLDER_VARIABLE} is set to {named}, which is not a folder.")
    for place in (folder, cache_folder()):
        if place is not None and (place / packed_name(name)).is_file():
            return place / packed_name(name)
    raise DataNotFound(f"{_missing(name, folder)} {_remedy(name)}".strip())


def _missing(name: str, folder: Path | None) -> str:
    """Where the set is not."""
    if folder is None:
        return (
            f"The data set {name!r} does not ship with manyclass. "
            f"Set the environment variable {FOLDER_VARIABLE} to the folder that holds {packed_name(name)}."
        )
    held = sorted(path.name.removesuffix(".npz.xz") for path in folder.glob("*.npz.xz"))
    return (
        f"The folder {folder} ({FOLDER_VARIABLE}) does not hold {packed_name(name)}; "
        f"it holds {', '.join(held) or 'no data sets'}."
    )


def _remedy(name: str) -> str:
    """The command that fetches the set, where there is one."""
    if name not in PUBLIC_SETS:
        return ""
    return f"Or fetch it from its public home into {cache_folder()}: manyclass data {name}"
