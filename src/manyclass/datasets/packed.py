"""The packed form of a data set: plain arrays in an npz file, pressed with xz.

A sparse matrix `X` is stored as `X.shape`, `X.counts` (entries per row), `X.delta` (steps between column
numbers, running on from row to row, which press better than the numbers themselves) and `X.data` (absent when
all are one). Names are stored as the bytes of one text, a name per line.

Reading enwik8 (27 MB unpacked) takes about a second, so nothing is kept unpacked on disk.
"""

import io
import lzma
import os
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path
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


def pack_matrix(matrix: Any, key: str) -> Arrays:
    """The arrays of one sparse matrix, in the smallest types that hold it exactly."""
    csr = sp.csr_matrix(matrix)
    csr.sum_duplicates()
    delta = np.diff(csr.indices, prepend=np.int32(0))
    packed = {
        f"{key}.shape": np.array(csr.shape, np.int64),
        f"{key}.counts": np.diff(csr.indptr).astype(np.int32),
        f"{key}.delta": delta.astype(_smallest(delta, (np.int8, np.int16, np.int32))),
    }
    if not np.all(csr.data == 1):
        packed[f"{key}.data"] = csr.data.astype(_smallest(csr.data, (np.uint8, np.int16, np.float32)))
    return packed


def pack_split(inputs: Any, labels: Any, split: str) -> Arrays:
    """The arrays of one split: sparse inputs, or dense ones as integers (their scale is the caller's)."""
    packed = pack_matrix(inputs, f"X_{split}") if sp.issparse(inputs) else {f"X_{split}": inputs}
    if sp.issparse(labels):
        return packed | pack_matrix(labels, f"Y_{split}")
    return packed | {f"y_{split}": np.asarray(labels)}


def pack_names(names: Iterable[str]) -> np.ndarray:
    """Names as the bytes of one text."""
    return np.frombuffer("\n".join(names).encode("utf-8"), np.uint8)


def write_packed(path: Path, arrays: Arrays) -> None:
    """Write a packed file, whole or not at all. Large sets are pressed lightly: else it would take minutes."""
    preset = 6 if sum(array.nbytes for array in arrays.values()) < 2**26 else 1
    handle, part = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as raw:
            with lzma.open(raw, "wb", preset=preset) as file:
                np.savez(file, **arrays)  # type: ignore[arg-type]
            raw.flush()
            os.fsync(raw.fileno())
        os.chmod(part, 0o644)
        os.replace(part, path)
    except BaseException:
        Path(part).unlink(missing_ok=True)
        raise


def _smallest(values: np.ndarray, types: tuple[Any, ...]) -> Any:
    """The first type that holds all values exactly; the last one if none does."""
    for kind in types[:-1]:
        limits = np.iinfo(kind)
        if values.size == 0 or (values.min() >= limits.min and values.max() <= limits.max):
            if values.size == 0 or np.all(values == np.round(values)):
                return kind
    return types[-1]
