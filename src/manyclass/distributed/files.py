"""Data files as partitions that workers read themselves."""

from collections.abc import Sequence
from os import PathLike, fspath
from typing import Any

import numpy as np
import scipy.sparse as sp
from dask import delayed
from dask.delayed import Delayed

from ..core.validation import ones
from ..io import DataError, Reading, Source

_ALL = 1 << 62  # rows


def read_files(paths: str | PathLike | Sequence[str | PathLike], reading: Reading = Reading()) -> list[Delayed]:
    """Partitions for `DaskLabelTreeClassifier.fit`, one for each file. Workers read the files when `fit` needs them.

    Parameters
    ----------
    paths : str, path-like, or sequence of them
        Files in any format that `manyclass train` reads, possibly compressed; all workers must be able to read them
        under these names. All files have the format, the number of features and the kind of labels of the first one.
    reading : Reading, optional
        How files are read, from `manyclass.io`; tables require `Reading(label="column")`. Values that are None are
        found from the first lines of the first file. X has `n_features` columns, or 2**`feature_bits` without it, and
        larger indices are hashed into them.

    Returns
    -------
    partitions : list of Delayed
        Each one is X, y and the weights of the rows.

    Examples
    --------
    >>> import os, tempfile
    >>> from manyclass.distributed import read_files
    >>> path = os.path.join(tempfile.mkdtemp(), "rows.svm")
    >>> with open(path, "w") as file:
    ...     _ = file.write("3 1:0.5 4:1\\n8 2:0.25\\n")
    >>> X, y, weights = read_files([path])[0].compute(scheduler="synchronous")
    >>> X.shape[0], y.tolist()
    (2, [3, 8])
    """
    names = [fspath(path) for path in ([paths] if isinstance(paths, (str, PathLike)) else paths)]
    if not names:
        raise ValueError("paths is empty: pass at least one file.")
    found = Source(names[0], reading).reading
    if found.labels == "several" and (found.label_kind == "text" or found.n_labels is None):
        what = "several labels per row require an xmc file, whose header has the number of labels"
        raise DataError(names[0], what, 1, 1)
    return [delayed(_read, nout=3)(name, found) for name in names]


def _read(path: str, reading: Reading) -> tuple[Any, Any, np.ndarray | None]:
    """X, y and weights of a file; y is a matrix if rows have several labels."""
    source = Source(path, reading)
    for chunk in source.chunks(_ALL):
        if source.n_beyond and not reading.hashed:
            what = f"{source.n_beyond:,} values have indices beyond the {reading.width:,} features of the first file"
            raise DataError(path, what, 1, 1)
        if chunk.pointer is None:
            return chunk.X, chunk.labels, chunk.weights
        assert chunk.labels is not None and reading.n_labels is not None
        if len(chunk.labels) and chunk.labels.max() >= reading.n_labels:
            what = f"label {chunk.labels.max()} is beyond the {reading.n_labels:,} labels of the first file"
            raise DataError(path, what, 1, 1)
        return chunk.X, ones(chunk.labels, chunk.pointer, reading.n_labels), chunk.weights
    nothing = sp.csr_array((0, reading.width), dtype=np.float32)
    return nothing, np.empty(0, np.int64), None
