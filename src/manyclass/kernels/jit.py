"""The compiler presets, and a disk cache that works without a home folder."""

import hashlib
import os
import tempfile
from pathlib import Path
from typing import Any

import numba

from .leaves import leaf_of, overload_options


def _writable(folder: Path, mode: int = 0o700) -> bool:
    try:
        folder.mkdir(mode=mode, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _private_folder() -> Path:
    """A folder only this user may write: the cache holds compiled code, so nobody else may plant some."""
    folder = Path(tempfile.gettempdir()) / f"manyclass-cache-{os.getuid() if hasattr(os, 'getuid') else 'user'}"
    if _writable(folder):
        status = folder.lstat()
        ours = not hasattr(os, "getuid") or status.st_uid == os.getuid()
        if ours and not folder.is_symlink() and (os.name == "nt" or status.st_mode & 0o077 == 0):
            return folder
    return Path(tempfile.mkdtemp(prefix="manyclass-cache-"))


def _digest() -> str:
    """A name for the sources of all kernels."""
    sources = sorted(Path(__file__).parent.glob("*.py"))
    return hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]


def _choose_cache() -> None:
    """Keep compiled code beside the package, in the user's cache, or in a private folder: the first that works."""
    if os.environ.get("NUMBA_CACHE_DIR"):
        return
    home_cache = Path(os.environ.get("XDG_CACHE_HOME") or Path(os.path.expanduser("~")) / ".cache")
    folder = home_cache / "manyclass"
    if _writable(Path(__file__).parent / "__pycache__", 0o777):
        folder = Path(__file__).parent / "__pycache__"
    elif not folder.is_absolute() or not _writable(folder):
        folder = _private_folder()
    # Numba looks only at the file of the function it caches, not at those it calls: a folder for each version of all.
    numba.config.CACHE_DIR = str(folder / f"numba-{_digest()}")  # type: ignore[attr-defined]


_choose_cache()

# Sums kept side by side in registers become vector instructions only with this (measured: 3.4x in `blocks.py`).
numba.config.SLP_VECTORIZE = 1  # type: ignore[attr-defined]

# reassoc and contract let a dot product use vector registers; nothing here assumes away NaN or infinity.
FAST = {"reassoc", "contract", "nsz", "arcp"}

_PRESET: Any = {"nogil": True, "error_model": "numpy", "fastmath": FAST, "no_cfunc_wrapper": True}

# A kernel: called from Python, may allocate. Its loop over rows belongs into a leaf.
njit = numba.njit(cache=True, **_PRESET)

# A leaf: called from kernels, never allocates. Without Numba's reference counting, passing a group of arrays is
# free; with it, every call counts every array up and down (measured: 226 against 62 ns for a score of 32 non-zeros).
_LEAF_PRESET: Any = {"_nrt": False, **_PRESET}
leaf = leaf_of(njit, _LEAF_PRESET, raw=False)

# For `overload`, which takes options and not decorators.
LEAF_OPTIONS = overload_options(_LEAF_PRESET)

# A leaf with one or two callers that takes many groups: passing them all costs more than most of its work, so it is
# always inlined (measured on ALOI, one path: 596 to 706 thousand answers a second).
inlined_leaf = leaf_of(njit, {"forceinline": True, **_LEAF_PRESET}, raw=True)
