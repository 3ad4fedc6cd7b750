"""Results of tasks in files, so that a `fit` that was stopped does not compute them again."""

import hashlib
import os
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from .. import __version__

_ENDING = ".manyclass-chunk"


def stored(folder: str, function: Callable, *arguments: Any) -> tuple:
    """The arrays that the function returns, from a file if it was called with the same arguments before.

    The name of the file is a hash of the function and of all values in the arguments.
    """
    path = Path(folder) / (_digest(function.__qualname__, __version__, arguments) + _ENDING)
    try:
        with np.load(path, allow_pickle=False) as found:
            return tuple(found[name] for name in found.files)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile):  # there is none, or it is damaged
        arrays = tuple(function(*arguments))
    handle, name = tempfile.mkstemp(_ENDING, dir=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez(file, *arrays)
        os.replace(name, path)  # other tasks see the whole file or none
    except BaseException:
        os.unlink(name)
        raise
    return arrays


def remove_stored(folder: str) -> None:
    """Remove the files of `stored`."""
    for path in Path(folder).glob(f"*{_ENDING}"):
        path.unlink(missing_ok=True)


def _digest(*values: Any) -> str:
    found = hashlib.sha256()

    def add(value: Any) -> None:
        if isinstance(value, (list, tuple)):
            found.update(f"({len(value)} ".encode())
            for one in value:
                add(one)
        elif isinstance(value, np.ndarray):
            found.update(f"{value.dtype.str} {value.shape} ".encode())
            found.update(np.ascontiguousarray(value).data)
        else:
            found.update(f"{type(value).__name__} {value!r} ".encode())

    add(values)
    return found.hexdigest()
