"""Results of tasks in files, so that a `fit` that was stopped does not compute them again."""

import hashlib
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import numba
import numpy as np
from distributed import warn

from .. import __version__

_ENDING = ".manyclass-chunk"
_N_DIGEST = 32  # bytes of the SHA-256 at the start of a file
_VERSIONS = __version__, np.__version__, numba.__version__


def stored(folder: str, function: Callable, *arguments: Any) -> tuple:
    """The arrays that the function returns, from a file if it was called with the same arguments before.

    The name of the file is a hash of the function and of all values in the arguments.
    """
    path = Path(folder) / (_digest(function.__qualname__, _VERSIONS, arguments) + _ENDING)
    with suppress(OSError), open(path, "rb") as file:
        if file.read(_N_DIGEST) == hashlib.file_digest(file, "sha256").digest():  # it is not damaged
            file.seek(_N_DIGEST)
            with np.load(file, allow_pickle=False) as found:
                return tuple(found[name] for name in found.files)
    arrays = tuple(function(*arguments))
    half = Path(folder) / f"{uuid4().hex}{_ENDING}"
    try:
        with open(half, "x+b") as file:
            file.write(bytes(_N_DIGEST))
            np.savez(file, *arrays)
            file.seek(_N_DIGEST)
            digest = hashlib.file_digest(file, "sha256").digest()
            file.seek(0)
            file.write(digest)
        os.replace(half, path)  # other tasks see the whole file or none
    except OSError as error:  # a full disk, for example, must not end a long training
        warn(f"{path} could not be written ({error}): its nodes would be trained again.")  # also to the client
        with suppress(OSError):
            half.unlink()
    return arrays


def remove_stored(folder: str) -> None:
    """Remove the files of `stored`."""
    for path in Path(folder).glob(f"*{_ENDING}"):
        with suppress(OSError):
            path.unlink()


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
        elif not isinstance(value, (bool, int, float, str, np.generic)):
            raise TypeError(f"{type(value).__name__} has no digest.")
        else:
            found.update(f"{type(value).__name__} {value!r} ".encode())

    add(values)
    return found.hexdigest()
