"""The packed form of a data set: plain arrays in an npz file, pressed with xz.

A sparse matrix `X` is stored as `X.shape`, `X.counts` (entries per row), `X.delta` (steps between column
numbers, running on from row to row, which press better than the numbers themselves) and `X.data` (absent when
all are one). Names are stored as the bytes of one text, a name per line.

Reading the largest set (enwik8, 27 MB unpacked) takes about a second, so nothing is kept unpacked on disk.
"""

import io
import lzma
import zipfile
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

Arrays = dict[str, np.ndarray]


class Readable(Protocol):
    """A file, on disk or inside the package."""

    @property
    def name(self) -> str: ...

    def read_bytes(self) -> bytes: ...


def read_packed(file: Readable) -> Arrays:
    """Read all arrays of a packed file. A broken file, or one with pickled objects, is a ValueError."""
    pressed = file.read_bytes()
    try:
        with np.load(io.BytesIO(lzma.decompress(pressed)), allow_pickle=False) as arrays:
            return {key: arrays[key] for key in arrays.files}
    except (lzma.LZMAError, zipfile.BadZipFile, EOFError, ValueError) as error:
        raise ValueError(f"{file.name} is not a packed data set: {error}") from error


def unpack_matrix(arrays: Arrays, key: str, dtype: Any) -> sp.csr_matrix:
    """Rebuild one CSR matrix, and check it: a column out of range must not reach compiled code."""
    indices = np.cumsum(arrays[f"{key}.delta"], dtype=np.int64).astype(np.int32)
    indptr = np.concatenate([[0], np.cumsum(arrays[f"{key}.counts"], dtype=np.int64)])
    stored = arrays.get(f"{key}.data")
    data = np.ones(indices.size, dtype) if stored is None else stored.astype(dtype)
    matrix = sp.csr_matrix((data, indices, indptr), shape=tuple(arrays[f"{key}.shape"]))
    matrix.check_format(full_check=True)
    return matrix


def unpack_split(arrays: Arrays, split: str) -> tuple[Any, Any]:
    """Rebuild inputs and labels of one split, `"train"` or `"test"`."""
    inputs: Any
    if f"X_{split}" in arrays:
        # Dense inputs are stored as integers times one scale; the scale is float32, and so is the product.
        inputs = arrays[f"X_{split}"] * arrays["scale"]
    else:
        inputs = unpack_matrix(arrays, f"X_{split}", np.float32)
    if f"y_{split}" in arrays:
        return inputs, arrays[f"y_{split}"].astype(np.int32)
    return inputs, unpack_matrix(arrays, f"Y_{split}", np.int8)


def unpack_names(arrays: Arrays, key: str) -> np.ndarray:
    """Rebuild a list of names as an array of strings."""
    return np.array(arrays[key].tobytes().decode("utf-8").split("\n"))
