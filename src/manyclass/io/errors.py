"""Errors in data files, and how they are reported."""

import copyreg
import importlib
from types import ModuleType
from typing import Any


def _restored(error: Exception) -> tuple[Any, ...]:
    """How pickle restores an error with all attributes; by default, it passes only the message to `__init__`."""
    return copyreg.__newobj__, (type(error), *error.args), error.__dict__  # type: ignore[attr-defined]


class DataError(ValueError):
    """An error in a data file. The message contains the file, the line, the column and what to do.

    Parameters
    ----------
    path : str
        The file; "-" is standard input.
    what : str
        What is wrong and what to do, without a full stop.
    line : int or None
        The line, counted from 1; the row in a Parquet file. None if the error concerns the whole file.
    column : int or None
        The position of the wrong token in its line, counted from 1, or None.
    place : {"line", "row"}
        What `line` counts.

    Examples
    --------
    >>> import os, tempfile
    >>> from manyclass.io import DataError, Source
    >>> path = os.path.join(tempfile.mkdtemp(), "train.svm")
    >>> with open(path, "w") as file:
    ...     _ = file.write("3 1:0.5\\n4 1:nan\\n")
    >>> try:
    ...     list(Source(path).chunks(rows=100))
    ... except DataError as error:
    ...     print(error.line, error.column, error.what)
    2 5 value 'nan' is not finite; nan and inf are not allowed
    """

    def __init__(
        self, path: str, what: str, line: int | None = None, column: int | None = None, *, place: str = "line"
    ) -> None:
        self.path, self.what, self.line, self.column = path, what, line, column
        where = "standard input" if path == "-" else path
        if line is not None:
            where += f", {place} {line}"
        if column is not None:
            where += f", column {column}"
        super().__init__(f"{where}: {what}")

    __reduce__ = _restored


class Fault(Exception):
    """An error whose position in the file is only partly known; the caller that knows the rest raises DataError.

    `column` counts from 1 in its line, `line` from 0 in its record, and `cell` is the name of the table column.
    """

    def __init__(self, what: str, column: int = 1, *, line: int = 0, cell: str | None = None) -> None:
        self.what, self.column, self.line, self.cell = what, column, line, cell
        super().__init__(what)

    __reduce__ = _restored


def optional_module(name: str) -> ModuleType:
    """Import a module that only some file types require."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        package = name.split(".")[0]
        raise ImportError(f"this type of file requires {package}: pip install 'manyclass[cli]'") from error


def decoded(raw: bytes, line: int = 0) -> str:
    """A line as text; a Fault if it is not UTF-8."""
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        column = len(raw[: error.start].decode()) + 1
        raise Fault("not UTF-8 text; convert the file to UTF-8", column, line=line) from None


def is_utf8(text: str) -> bool:
    """Whether the text can be written as UTF-8. JSON escapes can contain half of a surrogate pair, which cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def shown(token: bytes | str, length: int = 40) -> str:
    """A token for a message: quoted, shortened, and without control characters."""
    text = token.decode("utf-8", "replace") if isinstance(token, bytes) else token
    if len(text) > length:
        text = text[: length - 3] + "..."
    return ascii(text) if not text.isprintable() else f"'{text}'"
