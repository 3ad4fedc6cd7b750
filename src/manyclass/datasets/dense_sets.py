"""Readers of the dense public sets: from downloaded files to the arrays of the packed form."""

import gzip
import io
import math
from pathlib import Path

import numpy as np

from .archives import zip_member
from .lzw import unpack_lzw
from .packed import Arrays

_KINDS = {8: np.uint8}


def isolet(folder: Path) -> Arrays:
    """UCI's zip file: two comma-separated tables packed by `compress`, the last column the letter from 1 to 26.

    Inputs have four decimals: they are kept as whole ten-thousandths.
    """
    packed: Arrays = {"scale": np.array(1e-4, np.float32)}
    for split, ending in (("train", "isolet1+2+3+4.data.Z"), ("test", "isolet5.data.Z")):
        with zip_member(folder / "isolet.zip", ending) as stream:
            text = unpack_lzw(stream.read())
        # A row ends in "1." or "26.": the letter is written as a number with a point.
        table = np.loadtxt(io.BytesIO(text), delimiter=",", dtype=np.float64, ndmin=2)
        inputs, letters = table[:, :-1] * 1e4, table[:, -1]
        whole = np.round(inputs)
        if np.abs(inputs - whole).max() > 1e-3 or np.abs(whole).max() > 10_000:
            raise ValueError(f"{ending}: a value is not from -1 to 1 with four decimals")
        if not np.all(np.isin(letters, np.arange(1, 27))):
            raise ValueError(f"{ending}: a letter is not from 1 to 26")
        packed[f"X_{split}"] = whole.astype(np.int16)
        packed[f"y_{split}"] = letters.astype(np.int16) - 1
    return packed


def mnist(folder: Path) -> Arrays:
    """The four gzipped IDX files; a picture is a row of 784 pixels, kept as bytes and scaled to 0 to 1."""
    packed: Arrays = {"scale": np.array(1 / 255, np.float32)}
    for split, prefix in (("train", "train"), ("test", "t10k")):
        pictures = read_idx(folder / f"{prefix}-images-idx3-ubyte.gz")
        digits = read_idx(folder / f"{prefix}-labels-idx1-ubyte.gz")
        if pictures.ndim != 3 or digits.shape != pictures.shape[:1] or digits.max(initial=0) > 9:
            raise ValueError(f"{prefix}: {pictures.shape} pictures and {digits.shape} digits do not belong together")
        packed[f"X_{split}"] = pictures.reshape(len(pictures), -1)
        packed[f"y_{split}"] = digits
    return packed


def read_idx(path: Path) -> np.ndarray:
    """An IDX file of bytes: two zeros, the kind, the number of dimensions, their sizes, and the numbers."""
    with gzip.open(path, "rb") as file:
        data = file.read()
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] not in _KINDS:
        raise ValueError(f"{path.name} is not an IDX file of bytes")
    start = 4 + 4 * data[3]
    shape = tuple(int.from_bytes(data[place : place + 4], "big") for place in range(4, start, 4))
    if len(data) - start != math.prod(shape):
        raise ValueError(f"{path.name} ends at another place than its sizes say")
    return np.frombuffer(data, _KINDS[data[2]], offset=start).reshape(shape)
