"""Users' mistakes in one line on standard error; mistakes of ours keep their traceback."""

import os
import sys

INTERRUPTED = 130


class CommandError(Exception):
    """A command that cannot be carried out as given; the message says why and what to do."""


def told(error: Exception) -> int | None:
    """Print what went wrong and return the exit code, or None for what is no mistake of the user."""
    if os.environ.get("MANYCLASS_TRACEBACK"):
        return None
    if isinstance(error, OSError):
        name = "" if error.filename is None else f"{error.filename}: "
        message = f"{name}{error.strerror or error}"
    elif isinstance(error, MemoryError):
        message = f"not enough memory: {error}"
    elif isinstance(error, (ValueError, CommandError)):  # DataError and ModelFormatError are ValueErrors
        message = str(error)
    else:
        return None
    print(f"manyclass: error: {message}", file=sys.stderr)
    return 1
