"""What can be wrong in a data file, and where."""


class DataError(ValueError):
    """Something is wrong in a data file: the message names the file, the line and the column, and what to do.

    Parameters
    ----------
    path : str
        The file as it was named; "-" is standard input.
    what : str
        What is wrong and what to do, without a full stop.
    line : int or None
        The line, from 1; in a Parquet file the row. None where the whole file is meant.
    column : int or None
        The column of the offending token in its line, from 1; None where there is none.
    place : str
        What `line` counts: "line" or "row".
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


class Fault(Exception):
    """One record is wrong at a column of its line; the reader that knows the line makes a DataError of it."""

    def __init__(self, what: str, column: int = 1, *, line_offset: int = 0) -> None:
        self.what, self.column, self.line_offset = what, column, line_offset
        super().__init__(what)


def is_text(value: str) -> bool:
    """Whether the text can be written as UTF-8: JSON may smuggle in halves of characters."""
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def shown(token: bytes | str, length: int = 40) -> str:
    """A token as it may stand in a message: quoted, cut, with nothing that a terminal would obey."""
    text = token.decode("utf-8", "replace") if isinstance(token, bytes) else token
    if len(text) > length:
        text = text[: length - 3] + "..."
    return ascii(text) if not text.isprintable() else f"'{text}'"
