"""Amounts of memory: text such as "8GB", what the process has allocated, and arrays in temporary files."""

import errno
import os
import re
import tempfile
from mmap import mmap
from numbers import Integral
from typing import Any

import numpy as np

_UNITS = {"": 1, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
_MOST = 2.0**60  # bytes; more than any machine has
_SIZE = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([kmgt]i?|)b\s*", re.IGNORECASE)


def as_bytes(size: Any) -> int | None:
    """A number of bytes, or text such as "8GB" or "512 MiB", as a number; None if it is neither."""
    if isinstance(size, str):
        found = _SIZE.fullmatch(size)
        return None if found is None else int(min(float(found[1]) * _UNITS[found[2].lower()], _MOST))
    if isinstance(size, float) and size.is_integer():
        size = int(size)
    return int(min(int(size), _MOST)) if isinstance(size, Integral) and not isinstance(size, bool) else None


def as_text(n_bytes: float) -> str:
    """A number of bytes as text, such as "512MB"; in gigabytes from 10 GB on. Rounded up."""
    return f"{-int(-n_bytes // 1e6)}MB" if n_bytes < 1e10 else f"{-int(-n_bytes // 1e9)}GB"


def held_bytes() -> int:
    """Memory that this process has allocated, without mapped files; 0 where the system does not report it."""
    try:
        with open("/proc/self/status") as file:
            return next((1024 * int(line.split()[1]) for line in file if line.startswith("RssAnon:")), 0)
    except OSError:
        return 0


def mapped(size: int, dtype: Any) -> np.ndarray:
    """An array in a temporary file without a name. OSError if the disk is known to have no space for it."""
    n_bytes = max(1, size) * np.dtype(dtype).itemsize
    with tempfile.TemporaryFile() as file:
        file.truncate(n_bytes)
        if hasattr(os, "posix_fallocate"):  # otherwise a full disk would end the process when the array is written
            try:
                os.posix_fallocate(file.fileno(), 0, n_bytes)
            except OSError as error:
                if error.errno in (errno.ENOSPC, errno.EDQUOT):
                    what = f"{tempfile.gettempdir()} has no space for {as_text(n_bytes)}; TMPDIR names another folder"
                    raise OSError(error.errno, what) from None
        return np.asarray(np.memmap(file, dtype, "r+", shape=(size,) if size else (1,)))[:size]


def copied(array: np.ndarray) -> np.ndarray:
    """A copy that can be written, in a temporary file if the values of the array are part of a file."""
    owner: Any = array
    while isinstance(owner, np.ndarray) and not isinstance(owner, np.memmap):
        owner = owner.base
    out = (mapped if isinstance(owner, np.memmap | mmap) else np.empty)(array.size, array.dtype)
    out[:] = array
    return out
