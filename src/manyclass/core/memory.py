"""Amounts of memory: text such as "8GB", what the process has allocated, and arrays in temporary files."""

import ctypes
import errno
import os
import re
import sys
import tempfile
from collections.abc import Sequence
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


class LimitError(MemoryError):
    """Work would take more memory than a limit allows."""

    def __init__(
        self,
        needed: float,
        held: int,
        limit: int,
        fewer_rows: str = "",
        fewer_trees: bool = False,
        given_threshold: bool = False,
    ) -> None:
        super().__init__(needed, held, limit, fewer_rows, fewer_trees, given_threshold)
        self.needed, self.held, self.limit = needed, held, limit
        # other ways to fit the limit
        self.fewer_rows, self.fewer_trees, self.given_threshold = fewer_rows, fewer_trees, given_threshold

    def __str__(self) -> str:
        others = [f"load {self.fewer_rows}"] * bool(self.fewer_rows) + ["use fewer trees (n_trees)"] * self.fewer_trees
        others += ["do not learn the threshold (threshold=0.5)"] * self.given_threshold
        return self.advice("max_memory", "max_memory='{}'", others)

    def advice(self, name: str, argument: str, others: Sequence[str] = (), more: float = 0) -> str:
        """What to do, with the limit as an option of this name; `more` bytes would be needed with a larger limit."""
        return (
            f"fit would take about {as_text(self.needed)} with one thread, of which {as_text(self.held)} is in use "
            f"already, but {name} is {self._limit}. To fit it: "
            f"{', or '.join([f'use {argument.format(self.enough(more))}', *others])}."
        )

    def enough(self, more: float = 0) -> str:
        """A limit that is high enough."""
        return as_text(1.02 * (self.needed + more))  # what is in use varies a little from call to call

    @property
    def _limit(self) -> str:
        return as_text(self.limit) if self.limit >= 1e6 else f"{self.limit} bytes"


def held_bytes() -> int:
    """Memory that this process has allocated, without mapped files; 0 where the system does not report it.

    What was freed, but kept for later, is returned to the system first.
    """
    if sys.platform == "linux" and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)):  # a function of glibc
        trim(0)
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
    out = (mapped if is_mapped(array) else np.empty)(array.size, array.dtype)
    out[:] = array
    return out


def is_mapped(array: np.ndarray) -> bool:
    """Whether the values of an array are part of a file."""
    owner: Any = array
    while isinstance(owner, np.ndarray) and not isinstance(owner, np.memmap):
        owner = owner.base
    return isinstance(owner, np.memmap | mmap)
