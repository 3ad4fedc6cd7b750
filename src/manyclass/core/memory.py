"""Amounts of memory: text such as "8GB", and what the process has allocated."""

import re
from numbers import Integral
from typing import Any

_UNITS = {"": 1, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
_SIZE = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([kmgt]i?|)b\s*", re.IGNORECASE)


def as_bytes(size: Any) -> int | None:
    """A number of bytes, or text such as "8GB" or "512 MiB", as a number; None if it is neither."""
    if isinstance(size, str):
        found = _SIZE.fullmatch(size)
        return None if found is None else int(float(found[1]) * _UNITS[found[2].lower()])
    return int(size) if isinstance(size, Integral) and not isinstance(size, bool) else None


def as_text(n_bytes: float) -> str:
    """Megabytes below ten gigabytes, rounded up, so that the text is never less than the number."""
    return f"{-int(-n_bytes // 1e6)}MB" if n_bytes < 1e10 else f"{-int(-n_bytes // 1e9)}GB"


def held_bytes() -> int:
    """Memory that this process has allocated, without files that are mapped; 0 where the system does not tell."""
    try:
        with open("/proc/self/status") as file:
            return next((1024 * int(line.split()[1]) for line in file if line.startswith("RssAnon:")), 0)
    except OSError:
        return 0
