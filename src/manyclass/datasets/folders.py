"""Where data sets lie: the user's folder first, then the cache that `fetch` fills."""

import os
from pathlib import Path

FOLDER_VARIABLE = "MANYCLASS_DATA"
CACHE_VARIABLE = "MANYCLASS_CACHE"


def cache_folder() -> Path:
    """The folder that `fetch` fills; it need not exist yet.

    Returns
    -------
    pathlib.Path
        ``MANYCLASS_CACHE`` if set, else ``manyclass/datasets`` in ``XDG_CACHE_HOME``, else in ``~/.cache``.

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
    caches = os.environ.get("XDG_CACHE_HOME")
    return (Path(caches) if caches else Path("~/.cache").expanduser()) / "manyclass" / "datasets"


def download_folder(name: str) -> Path:
    """Where the files of a set lie until they are packed, and where files fetched by hand are put."""
    return cache_folder() / "downloads" / name


def packed_name(name: str) -> str:
    """The name of a set's packed file."""
    return f"{name}.npz.xz"
