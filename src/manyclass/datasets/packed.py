"""The packed form of a data set: plain arrays in an npz file, compressed with xz.

A sparse matrix `X` is stored as `X.shape`, `X.counts` (entries per row), `X.delta` (differences of consecutive column
numbers, across rows too, which compress better than the numbers) and `X.data` (absent if all values are one). Names
are stored as the bytes of one text, one name per line.
"""

import io
import lzma
import zipfile
from collections.abc import Iterable
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..core.model_file import replaced

Arrays = dict[str, np.ndarray]


def read_packed(file: Traversable) -> Arrays:
    """Read all arrays of a packed file. A damaged file, or one with pickled objects, is a ValueError."""
    compressed = file.read_bytes()
    try:
        with np.load(io.BytesIO(lzma.decompress(compressed)), allow_pickle=False) as arrays:
            return {key: arrays[key] for key in arrays.files}
    except (lzma.LZMAError, zipfile.BadZipFile, EOFError, TypeError, ValueError) as error:
        raise ValueError(f"{file.name} is not a packed data set: {error}") from error


def unpack_matrix(arrays: Arrays, key: str, dtype: Any) -> sp.csr_matrix:
    """Rebuild one CSR matrix and check it, because a column out of range must not reach compiled code."""
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
        # Dense inputs are stored as integers times one float32 scale.
        inputs = arrays[f"X_{split}"] * arrays["scale"]
    else:
        inputs = unpack_matrix(arrays, f"X_{split}", np.float32)
    if f"y_{split}" in arrays:
        return inputs, arrays[f"y_{split}"].astype(np.int32)
    return inputs, unpack_matrix(arrays, f"Y_{split}", np.int8)


def unpack_names(arrays: Arrays, key: str) -> np.ndarray:
    """Rebuild a list of names as an array of strings."""
    return np.array(arrays[key].tobytes().decode("utf-8").split("\n"))


def n_rows(arrays: Arrays, split: str) -> int:
    """The number of rows, or of words of running text, in one split."""
    shape = arrays.get(f"X_{split}.shape")
    return int(shape[0]) if shape is not None else len(arrays[split if split in arrays else f"X_{split}"])


def pack_matrix(matrix: Any, key: str) -> Arrays:
    """The arrays of one sparse matrix, in the smallest types that store it exactly."""
    csr = sp.csr_matrix(matrix)
    csr.sum_duplicates()
    delta = np.diff(csr.indices, prepend=np.int32(0))
    packed = {
        f"{key}.shape": np.array(csr.shape, np.int64),
        f"{key}.counts": np.diff(csr.indptr).astype(np.int32),
        f"{key}.delta": _smallest(delta),
    }
    if not np.all(csr.data == 1):
        packed[f"{key}.data"] = _smallest(csr.data)
    return packed


def pack_split(inputs: Any, labels: Any, split: str) -> Arrays:
    """The arrays of one split with sparse inputs and one label per row, or a sparse matrix of labels."""
    packed = pack_matrix(inputs, f"X_{split}")
    return packed | (pack_matrix(labels, f"Y_{split}") if sp.issparse(labels) else {f"y_{split}": np.asarray(labels)})


def pack_names(names: Iterable[str]) -> np.ndarray:
    """Names as the bytes of one text."""
    return np.frombuffer("\n".join(names).encode("utf-8"), np.uint8)


def write_packed(path: Path, arrays: Arrays) -> None:
    """Write a packed file atomically. Large sets use a fast preset, which takes seconds instead of minutes."""
    preset = 6 if sum(array.nbytes for array in arrays.values()) < 2**26 else 1
    with replaced(path) as raw, lzma.open(raw, "wb", preset=preset) as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]


def _smallest(values: np.ndarray) -> np.ndarray:
    """The same values in the smallest integer type; float32 if they are not all integers."""
    if not np.all((values == np.round(values)) & (np.abs(values) < 2**31)):
        return values.astype(np.float32)
    limits = int(values.min(initial=0)), int(values.max(initial=0))
    return values.astype(np.promote_types(*map(np.min_scalar_type, limits)))
