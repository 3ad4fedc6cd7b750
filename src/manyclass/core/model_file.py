"""Model files: named arrays and one JSON object in the safetensors format, written whole or not at all.

The file is a plain safetensors file: 8 bytes with the length of the header, a JSON header that says where each array
lies, the bytes of all arrays. `__metadata__` holds our JSON object as text, a checksum of everything in the header and
one of the arrays. The arrays are mapped, not read: safetensors' own reader copies them, and its writer holds all of
them twice.
"""

import errno
import hashlib
import json
import math
import mmap as memory_map
import os
import re
import tempfile
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

_DTYPES = {
    "F64": "<f8", "I64": "<i8", "U64": "<u8", "F32": "<f4", "I32": "<i4", "U32": "<u4",
    "F16": "<f2", "I16": "<i2", "U16": "<u2", "I8": "|i1", "U8": "|u1", "BOOL": "|b1",
}  # fmt: skip
_CODES = {np.dtype(text): code for code, text in _DTYPES.items()}
_LONGEST_HEADER = 100_000_000  # as in safetensors
_BLOCK = 1 << 20  # bytes hashed and written at a time
_ALIGN = 64


_UMASK = os.umask(0)  # it can only be read by setting it
os.umask(_UMASK)


class ModelFormatError(ValueError):
    """A file that is no model, or a broken one. The message says what is wrong and where."""


# -- writing -------------------------------------------------------------------------------------------------------


def write(path: str | os.PathLike, arrays: dict[str, np.ndarray], metadata: dict[str, Any]) -> None:
    """Write a model file. A crash at any point leaves the old file or the new one, whole.

    Nothing in the file depends on the path or the time.
    """
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, "a model is a file, and this is a folder", str(path))
    arrays = {name: _as_written(name, arrays[name]) for name in sorted(arrays)}
    # Widest numbers first: each array then begins at a multiple of its own item size without gaps.
    arrays = dict(sorted(arrays.items(), key=lambda item: -item[1].dtype.itemsize))
    header = _header(arrays, json.dumps(metadata, sort_keys=True, allow_nan=False))
    if len(header) > _LONGEST_HEADER:
        raise ValueError(f"the options of the model take {len(header)} bytes, more than a model file can hold")
    part = None
    try:
        handle, part = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(len(header).to_bytes(8, "little"))
            file.write(header)
            for array in arrays.values():
                _write_array(file, array)
            file.truncate()
            file.flush()
            os.fsync(file.fileno())
        os.chmod(part, _mode(target))
        os.replace(part, target)
    except BaseException as error:
        if part is not None and os.path.exists(part):
            os.unlink(part)
        if isinstance(error, OSError):
            reason = f"the model could not be written ({error.strerror or error}); what was there before is unchanged"
            raise type(error)(error.errno, reason, str(path)) from error
        raise
    _sync_folder(target.parent)


def remove_leftovers(path: str | os.PathLike) -> None:
    """Remove what killed writers of this file left beside it."""
    target = Path(os.path.realpath(path))
    left = re.compile(rf"\.{re.escape(target.name)}\.[a-z0-9_]{{8}}\.part")
    for part in target.parent.iterdir():
        if left.fullmatch(part.name):
            part.unlink(missing_ok=True)


def _as_written(name: str, array: np.ndarray) -> np.ndarray:
    array = np.ascontiguousarray(array)
    array = array.astype(array.dtype.newbyteorder("<"), copy=False)
    if array.dtype not in _CODES:
        raise TypeError(f"array {name!r} has the type {array.dtype}, which model files do not hold")
    return array


def _header(arrays: dict[str, np.ndarray], text: str) -> bytes:
    table, at = {}, 0
    data = hashlib.sha256()
    for name, array in arrays.items():
        shape, end = list(array.shape), at + array.nbytes
        table[name] = {"dtype": _CODES[array.dtype], "shape": shape, "data_offsets": [at, end]}
        at = end
        data.update(_raw(array).data)
    sums = {"structure_sha256": _structure(table, text), "data_sha256": data.hexdigest()}
    header = json.dumps({"__metadata__": {"manyclass": text, **sums}, **table}, separators=(",", ":")).encode()
    return header + b" " * (-(8 + len(header)) % _ALIGN)


def _structure(table: dict[str, dict], text: str) -> str:
    return hashlib.sha256((json.dumps(table, sort_keys=True) + text).encode("utf-8", "surrogatepass")).hexdigest()


def _write_array(file: BinaryIO, array: np.ndarray) -> None:
    """Write an array; long stretches of zeros become holes, which take no time and no room."""
    raw = _raw(array)
    for first in range(0, len(raw), _BLOCK):
        block = raw[first : first + _BLOCK]
        if len(block) == _BLOCK and not block.any():
            file.seek(_BLOCK, os.SEEK_CUR)
        else:
            file.write(block.data)


def _raw(array: np.ndarray) -> np.ndarray:
    """The bytes of an array, not copied."""
    return array.reshape(-1).view(np.uint8) if array.size else np.empty(0, np.uint8)


def _mode(target: Path) -> int:
    """The permissions of the file there was, or those that a new file gets."""
    try:
        return target.stat().st_mode & 0o777
    except OSError:
        return 0o666 & ~_UMASK


def _sync_folder(folder: Path) -> None:
    """Make the new name itself survive a loss of power, where the system can."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError:
        pass
    finally:
        os.close(handle)


# -- reading -------------------------------------------------------------------------------------------------------


def read(
    path: str | os.PathLike, mmap: bool = True, verify: bool = True
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """(arrays, metadata) of a model file; the header is always checked, the arrays' checksum if `verify`.

    Mapped arrays may be written to: the file never changes.
    """
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        header, start = _read_header(file, size, path)
        table, text, checksum = _check_header(header, size - start, start, path)
        if mmap and size > start:
            whole: Any = np.frombuffer(memory_map.mmap(file.fileno(), 0, access=memory_map.ACCESS_COPY), np.uint8)
        else:
            file.seek(0)
            whole = np.fromfile(file, np.uint8)
        if len(whole) != size:
            raise ModelFormatError(f"{path}: the file changed while it was read.")
    if verify and hashlib.sha256(whole[start:].data).hexdigest() != checksum:
        raise ModelFormatError(f"{path}: the checksum of the arrays is wrong; the file is damaged, or was cut off.")
    try:
        return {name: _array(whole, start, entry) for name, entry in table.items()}, text
    except ValueError as error:
        raise ModelFormatError(f"{path}: an array has an impossible shape ({error}).") from error


def _read_header(file: BinaryIO, size: int, path) -> tuple[dict, int]:
    length = int.from_bytes(file.read(8), "little")
    if size < 8 or length > min(size - 8, _LONGEST_HEADER):
        raise ModelFormatError(f"{path}: no model file, or one that was cut off: the header does not fit into it.")
    try:
        header = json.loads(file.read(length), object_pairs_hook=_no_twice, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise ModelFormatError(f"{path}: no model file: its header is not JSON ({error}).") from error
    if not isinstance(header, dict):
        raise ModelFormatError(f"{path}: no model file: its header is no JSON object.")
    return header, 8 + length


def _no_twice(pairs: list[tuple[str, Any]]) -> dict:
    out = dict(pairs)
    if len(out) != len(pairs):
        raise ValueError("a name stands twice")
    return out


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no number")


def _check_header(header: dict, n_data: int, start: int, path) -> tuple[dict, dict, str]:
    """(table of arrays, metadata, checksum of the arrays), all checked."""
    ours = header.pop("__metadata__", None)
    names = ("manyclass", "structure_sha256", "data_sha256")
    if not isinstance(ours, dict) or not all(isinstance(ours.get(name), str) for name in names):
        raise ModelFormatError(f"{path}: no manyclass model: the header has no metadata of manyclass.")
    at = 0
    for name, entry in sorted(header.items(), key=lambda item: _begin(item[1])):
        at = _check_entry(name, entry, at, start, path)
    if at != n_data:
        raise ModelFormatError(f"{path}: the arrays take {at} bytes but the file has {n_data}: cut off or damaged.")
    if _structure(header, ours["manyclass"]) != ours["structure_sha256"]:
        raise ModelFormatError(f"{path}: the checksum of the header is wrong; the file is damaged.")
    try:
        metadata = json.loads(ours["manyclass"], object_pairs_hook=_no_twice, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise ModelFormatError(f"{path}: the metadata is not JSON ({error}).") from error
    if not isinstance(metadata, dict):
        raise ModelFormatError(f"{path}: the metadata is no JSON object.")
    return header, metadata, ours["data_sha256"]


def _begin(entry: Any) -> int:
    offsets: Any = entry.get("data_offsets") if isinstance(entry, dict) else None
    return offsets[0] if _are_sizes(offsets) and len(offsets) == 2 else -1


def _are_sizes(numbers: Any) -> bool:
    return isinstance(numbers, list) and all(type(number) is int and 0 <= number < 1 << 62 for number in numbers)


def _check_entry(name: str, entry: Any, at: int, start: int, path) -> int:
    """Check one array's place in the file; return where it ends."""
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"} or entry["dtype"] not in _DTYPES:
        raise ModelFormatError(f"{path}: array {name!r} has no type that this manyclass knows: install a newer one.")
    if _begin(entry) < 0 or not _are_sizes(entry.get("shape")) or len(entry["shape"]) > 3:
        raise ModelFormatError(f"{path}: array {name!r} has no proper shape or place.")
    begin, end = entry["data_offsets"]
    item = np.dtype(_DTYPES[entry["dtype"]]).itemsize
    if begin != at or end - begin != item * math.prod(entry["shape"]) or (start + begin) % item:
        raise ModelFormatError(f"{path}: array {name!r} does not lie where its shape wants it.")
    return end


def _array(whole: np.ndarray, start: int, entry: dict) -> np.ndarray:
    begin, end = entry["data_offsets"]
    return whole[start + begin : start + end].view(_DTYPES[entry["dtype"]]).reshape(entry["shape"])


# -- texts ---------------------------------------------------------------------------------------------------------


def pack_texts(texts: list[str]) -> dict[str, np.ndarray]:
    """Texts as two arrays: all their bytes, and where each ends."""
    raw = [text.encode("utf-8", "surrogatepass") for text in texts]
    return {
        "bytes": np.array(memoryview(b"".join(raw)), np.uint8),
        "end": np.cumsum([len(one) for one in raw], dtype=np.int64),
    }


def unpack_texts(packed: np.ndarray, ends: np.ndarray) -> list[str]:
    """The texts again; ValueError where they are no texts."""
    begins = np.concatenate([[0], ends[:-1]]) if len(ends) else ends
    if len(ends) and (ends[-1] != len(packed) or (ends < begins).any() or ends[0] < 0):
        raise ValueError("the texts do not lie where they should")
    raw = packed.tobytes()
    return [raw[begin:end].decode("utf-8", "surrogatepass") for begin, end in zip(begins, ends, strict=True)]
