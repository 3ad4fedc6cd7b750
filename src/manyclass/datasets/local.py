"""Load a data set by name from the user's folder or from the cache."""

import os
import re
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import numpy as np

from .packed import read_packed, unpack_names, unpack_split
from .public import PUBLIC_SETS
from .wordnet import SHIPPED

FOLDER_VARIABLE = "MANYCLASS_DATA"
CACHE_VARIABLE = "MANYCLASS_CACHE"


class DataNotFound(FileNotFoundError):
    """A data set is not on this machine. The message says what to set, or which command fetches it.

    Examples
    --------
    >>> from manyclass.datasets import DataNotFound
    >>> issubclass(DataNotFound, FileNotFoundError)
    True
    """


def cache_folder() -> Path:
    """Return the folder that `fetch` fills; it may not exist yet.

    Returns
    -------
    pathlib.Path
        ``MANYCLASS_CACHE`` if set, otherwise ``manyclass/datasets`` in ``XDG_CACHE_HOME`` or ``~/.cache``.

    Examples
    --------
    >>> import os
    >>> from manyclass.datasets import cache_folder
    >>> os.environ["MANYCLASS_CACHE"] = "sets"
    >>> cache_folder().name
    'sets'
    >>> del os.environ["MANYCLASS_CACHE"]
    """
    named = os.environ.get(CACHE_VARIABLE)
    if named:
        return Path(named).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "manyclass" / "datasets"


def packed_name(name: str) -> str:
    """The file name of a packed set."""
    return f"{name}.npz.xz"


def load(name: str) -> tuple[Any, ...]:
    """Load a data set by name.

    The folder in the environment variable ``MANYCLASS_DATA`` is searched first, then the cache. Nothing is
    downloaded; use `fetch` or the command ``manyclass data NAME`` for that.

    Parameters
    ----------
    name : str
        The set; its file is ``NAME.npz.xz``. ``"wordnet-hypernym"`` ships with the package.

    Returns
    -------
    tuple
        ``(X_train, y_train, X_test, y_test)``. Inputs are float32, CSR or dense. Labels are int32 class numbers, or
        an int8 CSR indicator matrix for multilabel sets. A set of running text (enwik8) returns
        ``(train, valid, test)``, arrays of word numbers.

    Raises
    ------
    DataNotFound
        If neither the folder nor the cache has the set; the message says what to do.
    ValueError
        If the file is not a packed data set.

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
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{file.name} is not a packed data set: {error}") from error


def available(name: str) -> bool:
    """Return whether `load` would find the data set.

    Parameters
    ----------
    name : str
        The set.

    Returns
    -------
    bool
        True if its file exists.

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
        The names of the classes, of the columns, or of the word numbers of running text.

    Returns
    -------
    ndarray of str
        One name per number.

    Raises
    ------
    DataNotFound
        If neither the folder nor the cache has the set; the message says what to do.
    ValueError
        If the set has no such names.

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


def find(name: str) -> Traversable:
    """Return the file of a data set: from the package, ``MANYCLASS_DATA`` or the cache."""
    if not re.fullmatch(r"\w[\w.-]*", name):
        raise DataNotFound(f"{name!r} is not the name of a data set: use letters, digits, dots and hyphens only.")
    if name == SHIPPED:
        return files("manyclass.datasets") / packed_name(SHIPPED)
    named = os.environ.get(FOLDER_VARIABLE)
    folder = Path(named).expanduser() if named else None
    if folder is not None and not folder.is_dir():
        raise DataNotFound(f"{FOLDER_VARIABLE} is set to {named}, which is not a folder.")
    for place in (folder, cache_folder()):
        if place is not None and (place / packed_name(name)).is_file():
            return place / packed_name(name)
    if folder is None:
        reason = (
            f"The data set {name!r} does not ship with manyclass. "
            f"Set the environment variable {FOLDER_VARIABLE} to the folder with {packed_name(name)}."
        )
    else:
        found = ", ".join(sorted(path.name.removesuffix(".npz.xz") for path in folder.glob("*.npz.xz"))) or "no sets"
        reason = f"The folder {folder} ({FOLDER_VARIABLE}) has no {packed_name(name)}; it has {found}."
    command = f" Or download it into {cache_folder()}: manyclass data {name}" if name in PUBLIC_SETS else ""
    raise DataNotFound(reason + command)
