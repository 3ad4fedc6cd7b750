"""Model files: named arrays and one JSON object in the safetensors format, replaced atomically.

The file is a plain safetensors file: 8 bytes with the length of the header, a JSON header with the type, shape and
position of each array, and the bytes of all arrays. `__metadata__` contains our JSON object as text, a checksum of the
header and one of the arrays. The package safetensors is not used: its reader copies the arrays instead of mapping
them, and its writer holds all of them in memory twice.
"""

import errno
import hashlib
import json
import math
import mmap as memory_map
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_DTYPES = {
    "F64": "<f8", "I64": "<i8", "U64": "<u8", "F32": "<f4", "I32": "<i4", "U32": "<u4",
    "F16": "<f2", "I16": "<i2", "U16": "<u2", "I8": "|i1", "U8": "|u1", "BOOL": "|b1",
}  # fmt: skip
_CODES = {np.dtype(text): code for code, text in _DTYPES.items()}
_LONGEST_HEADER = 100_000_000  # as in safetensors
_MOST_ARRAYS = 1 << 15  # a label tree of 1000 trees has half as many
_BLOCK = 1 << 20  # bytes written at a time
_ALIGN = 64


class ModelFormatError(ValueError):
    """A file that is not a model, or a damaged one. The message says what is wrong.

    Examples
    --------
    >>> import os, tempfile
    >>> from manyclass import ModelFormatError, load_model
    >>> path = os.path.join(tempfile.mkdtemp(), "empty.model")
    >>> open(path, "w").close()
    >>> try:
    ...     load_model(path)
    ... except ModelFormatError as error:
    ...     print("empty.model" in str(error))
    True
    """


# -- writing -------------------------------------------------------------------------------------------------------


def write(path: str | os.PathLike, arrays: dict[str, np.ndarray], metadata: dict[str, Any]) -> None:
    """Write a model file. If writing fails at any point, the old file is unchanged.

    The contents do not depend on the path or the time.
    """
    if len(arrays) > _MOST_ARRAYS:
        raise ValueError(f"the model has {len(arrays)} arrays; a model file can have {_MOST_ARRAYS}")
    # Large items first: each array then begins at a multiple of its item size without gaps.
    names = sorted(arrays, key=lambda name: (-arrays[name].dtype.itemsize, name))
    arrays = {name: _little_endian(name, arrays[name]) for name in names}
    header = _header(arrays, json.dumps(metadata, sort_keys=True, allow_nan=False))
    if len(header) > _LONGEST_HEADER:
        raise ValueError(f"the options of the model take {len(header)} bytes, which is too much for a model file")
    with replaced(path) as file:
        file.write(len(header).to_bytes(8, "little"))
        file.write(header)
        for array in arrays.values():
            _write_array(file, array)
        file.truncate()


@contextmanager
def replaced(path: str | os.PathLike) -> Iterator[BinaryIO]:
    """A new file that gets its name when it is complete and on disk; after an error the old file is unchanged."""
    target = Path(os.path.realpath(path))
    check_target(target)
    part = part_of(target)
    created = False
    mode = None
    try:
        mode = target.stat().st_mode & 0o777 if target.exists() else None
        # The system applies the umask to a new file. One that replaces a private file is private from the start.
        with open(part, "xb", opener=lambda name, flags: os.open(name, flags, 0o666 if mode is None else mode)) as file:
            created = True
            lock(file)
            yield file
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            os.chmod(part, mode)
        os.replace(part, target)
    except BaseException as error:
        if created:
            part.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename in (None, str(part)):
            reason = f"the file could not be written ({error.strerror or error})"
            reason += "; the old file is unchanged" if mode is not None else ""
            raise type(error)(error.errno, reason, str(path)) from error
        raise
    _sync_folder(target.parent)


def part_of(path: str | os.PathLike) -> Path:
    """A new name beside a file, for a temporary file that will replace it."""
    target = Path(os.path.realpath(path))
    return target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")


def check_target(path: str | os.PathLike) -> None:
    """Raise an OSError if this is a folder, a pipe or a device, which must not be replaced by a file."""
    if os.path.isdir(path):
        raise IsADirectoryError(errno.EISDIR, "cannot write a file: this is a folder", str(path))
    if os.path.exists(path) and not os.path.isfile(path):
        raise OSError(errno.EINVAL, "cannot write a file: this is a pipe or a device", str(path))


def remove_leftovers(path: str | os.PathLike, also_empty: bool = True) -> None:
    """Remove the temporary files that killed writers of this file left behind, but not those of running writers.

    A writer locks its file before it writes, so that an empty file may be that of a writer that begins. Pass
    also_empty=False if there may be one.
    """
    target = Path(os.path.realpath(path))
    left = re.compile(rf"\.{re.escape(target.name)}\.[a-z0-9_]{{8}}\.part")
    with suppress(OSError):  # the folder cannot be listed
        for part in target.parent.iterdir():
            if left.fullmatch(part.name) and part.is_file():
                with suppress(OSError), open(part, "rb") as file:
                    if lock(file) and (also_empty or os.fstat(file.fileno()).st_size):
                        part.unlink()


def lock(file: BinaryIO) -> bool:
    """Lock an open file until it is closed or the process ends; False if somebody else has locked it.

    Without locks in the system, as on Windows, always True.
    """
    if fcntl is None:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.ENOTSUP):  # some network file systems have no locks
            raise
    return True


def _little_endian(name: str, array: np.ndarray) -> np.ndarray:
    array = np.ascontiguousarray(array)
    array = array.astype(array.dtype.newbyteorder("<"), copy=False)
    if array.dtype not in _CODES:
        raise TypeError(f"array {name!r} has the type {array.dtype}, which model files do not support")
    return array


def _header(arrays: dict[str, np.ndarray], text: str) -> bytes:
    table, at, data = {}, 0, hashlib.sha256()
    for name, array in arrays.items():
        offsets = [at, at + array.nbytes]
        table[name] = {"dtype": _CODES[array.dtype], "shape": list(array.shape), "data_offsets": offsets}
        at += array.nbytes
        data.update(_raw(array).data)
    sums = {"structure_sha256": _structure(table, text), "data_sha256": data.hexdigest()}
    header = json.dumps({"__metadata__": {"manyclass": text, **sums}, **table}, separators=(",", ":")).encode()
    return header + b" " * (-(8 + len(header)) % _ALIGN)


def _structure(table: dict[str, dict], text: str) -> str:
    """The checksum of the header."""
    return hashlib.sha256((json.dumps(table, sort_keys=True) + text).encode("utf-8", "surrogatepass")).hexdigest()


def _write_array(file: BinaryIO, array: np.ndarray) -> None:
    """Write an array; long runs of zeros become holes, which take no time and no disk space."""
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


def _sync_folder(folder: Path) -> None:
    """Make the new name survive a loss of power, if the system supports it."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


# -- reading -------------------------------------------------------------------------------------------------------


def read(
    path: str | os.PathLike, mmap: bool = True, verify: bool = True
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """(arrays, metadata) of a model file; the header is always checked, the checksum of the arrays if `verify`.

    Mapped arrays can be changed in memory; the file stays as it is.
    """
    path = os.fspath(path)  # a number would be an open file
    if os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):  # opening it could take for ever
        raise ModelFormatError(f"{path}: not a model file: this is a pipe or a device.")
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        length = int.from_bytes(file.read(8), "little")
        start = 8 + length
        if start > size or length > _LONGEST_HEADER:
            raise ModelFormatError(f"{path}: not a model file, or a truncated one: the header does not fit.")
        most = 5 * _MOST_ARRAYS  # an array has a name, an object and its three entries
        header = _json_object(file.read(length), f"{path}: not a model file: the header", most)
        metadata, checksum = _check_header(header, start, size, path)
        if mmap and size > start:
            whole: Any = np.frombuffer(memory_map.mmap(file.fileno(), 0, access=memory_map.ACCESS_COPY), np.uint8)
        else:
            file.seek(0)
            whole = np.fromfile(file, np.uint8)
        if len(whole) != size:
            raise ModelFormatError(f"{path}: the file changed while it was being read.")
    if verify and hashlib.sha256(whole[start:].data).hexdigest() != checksum:
        raise ModelFormatError(f"{path}: the checksum of the arrays is wrong; the file is damaged or truncated.")
    arrays = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        try:
            arrays[name] = whole[start + begin : start + end].view(_DTYPES[entry["dtype"]]).reshape(entry["shape"])
        except ValueError as error:
            raise ModelFormatError(f"{path}: array {name!r} has an impossible shape ({error}).") from error
    return arrays, metadata


def _json_object(text: bytes | str, what: str, most: float = math.inf) -> dict[str, Any]:
    n = 0  # objects and entries of objects

    def as_dict(pairs: list[tuple[str, Any]]) -> dict:
        nonlocal n
        n += 1 + len(pairs)
        if n > most:
            raise ModelFormatError(f"{what} has too many entries: a model file can have {_MOST_ARRAYS} arrays.")
        return _unique(pairs)

    try:
        value = json.loads(text, object_pairs_hook=as_dict, parse_constant=_no_constant, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise ModelFormatError(f"{what} is not JSON ({error}).") from error
    if not isinstance(value, dict):
        raise ModelFormatError(f"{what} is not a JSON object.")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict:
    out = dict(pairs)
    if len(out) != len(pairs):
        raise ValueError("a name appears twice")
    return out


def _finite(text: str) -> float:
    return value if math.isfinite(value := float(text)) else _no_constant(text)


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number")


def _check_header(header: dict, start: int, size: int, path: str | os.PathLike) -> tuple[dict[str, Any], str]:
    """Check the header, and return the metadata and the checksum of the arrays. Only arrays stay in the header."""
    ours = header.pop("__metadata__", None)
    names = ("manyclass", "structure_sha256", "data_sha256")
    if not isinstance(ours, dict) or not all(isinstance(ours.get(name), str) for name in names):
        raise ModelFormatError(f"{path}: not a model file of manyclass: the header has no metadata of manyclass.")
    for name, entry in header.items():
        if not _is_entry(entry):
            raise ModelFormatError(f"{path}: array {name!r} has an unknown type or shape; install a newer manyclass.")
    at = 0
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, end = entry["data_offsets"]
        item = np.dtype(_DTYPES[entry["dtype"]]).itemsize
        if begin != at or end - begin != item * math.prod(entry["shape"]) or (start + begin) % item:
            raise ModelFormatError(f"{path}: array {name!r} is not where it should be; the file is damaged.")
        at = end
    if start + at != size:
        raise ModelFormatError(f"{path}: the file has {size} bytes instead of {start + at}: truncated or damaged.")
    if _structure(header, ours["manyclass"]) != ours["structure_sha256"]:
        raise ModelFormatError(f"{path}: the checksum of the header is wrong; the file is damaged.")
    return _json_object(ours["manyclass"], f"{path}: the metadata"), ours["data_sha256"]


def _is_entry(entry: Any) -> bool:
    """Whether an entry of the header has a type that we know, a shape and a position."""
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        return False
    shape, offsets = entry["shape"], entry["data_offsets"]
    if not isinstance(shape, list) or not isinstance(offsets, list) or len(shape) > 3 or len(offsets) != 2:
        return False
    sizes = all(type(number) is int and 0 <= number < 1 << 62 for number in shape + offsets)
    return sizes and isinstance(entry["dtype"], str) and entry["dtype"] in _DTYPES
