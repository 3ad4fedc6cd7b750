"""Where a run stopped, whether it is the same run, and where models can be written."""

import errno
import hashlib
import os
import shlex
import stat
import sys
from typing import Any

from .errors import CommandError
from .files import Trained, open_model

_PART = 1 << 20  # bytes at the start and at the end of a file that tell it from others


def is_stream(path: str) -> bool:
    """Whether it can be read only once: standard input, or a pipe."""
    return path == "-" or (os.path.exists(path) and not stat.S_ISREG(os.stat(path).st_mode))


def fingerprint(path: str) -> str | None:
    """A short name for what is in a file: its size, its start and its end. None for what can be read only once."""
    if is_stream(path):
        return None
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        digest = hashlib.sha256(str(size).encode() + file.read(_PART))
        if size > _PART:
            file.seek(max(_PART, size - _PART))
            digest.update(file.read(_PART))
    return digest.hexdigest()


def check_folder(path: str) -> None:
    """Refuse a place where no file can be written, before any work is done."""
    folder = os.path.dirname(os.path.realpath(path))
    if not os.path.isdir(folder):
        raise FileNotFoundError(errno.ENOENT, "there is no such folder to write to", folder)
    if os.path.isdir(path):
        raise IsADirectoryError(errno.EISDIR, "this is a folder, and a file is to be written", path)
    if not os.access(folder, os.W_OK):
        raise PermissionError(errno.EACCES, "the folder cannot be written to", folder)


def go_on_from(checkpoint: str, model: str, record: dict[str, Any], n_epochs: int) -> Trained | None:
    """The model of an earlier, same run: its checkpoint, or its end; None where there is neither."""
    found = next((path for path in (checkpoint, model) if os.path.exists(path)), None)
    if found is None:
        print(f"There is no {checkpoint}: starting afresh.", file=sys.stderr)
        return None
    trained = open_model(found)
    have = trained.training
    wrong = [name for name in record if have.get(name, ...) != record[name]]
    if not isinstance(have.get("progressive_errors"), list):
        wrong = wrong or ["training"]
    numbers = [have.get(name) for name in ("epochs", "rows", "examples")]
    if not all(type(number) is int and number >= 0 for number in numbers) or type(have.get("finished")) is not bool:
        wrong = wrong or ["training"]
    if wrong and found == model:
        print(f"{model} is of another run (it differs in {', '.join(wrong)}): starting afresh.", file=sys.stderr)
        return None
    if wrong:
        raise CommandError(
            f"{found} is of another run (it differs in {', '.join(wrong)}): give the same data and options to go on, "
            "or leave out --resume to start afresh."
        )
    if have["epochs"] > n_epochs and not have["finished"]:
        raise CommandError(f"{found} is in epoch {have['epochs'] + 1} already, more than the {n_epochs} asked for.")
    return trained


def command_to_resume() -> str:
    """The command line that goes on with this run."""
    given = sys.argv[1:]
    return shlex.join(["manyclass", *given, *([] if "--resume" in given else ["--resume"])])
