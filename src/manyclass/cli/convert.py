"""`manyclass convert`: a slim copy of a model, or data as svmlight."""

import gzip
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import BinaryIO

from rich.console import Console

from ..core.model_file import ModelFormatError
from ..core.precision import PRECISIONS
from ..io import Chunk, Source, known_format
from .errors import CommandError
from .files import open_model, open_source
from .resume import check_folder

_SVMLIGHT = (".svm", ".svmlight", ".libsvm", ".svm.gz", ".svmlight.gz", ".libsvm.gz")
_NOT_IN_LABELS = re.compile(r"[\s,:#]")


def run(source: str, target: str, reading: dict, slim: bool, prune: float, precision: str) -> None:
    """Convert what it is."""
    if precision not in PRECISIONS:
        raise CommandError(f"--precision {precision}: there are {', '.join(PRECISIONS)}.")
    if source == "-" or reading or known_format(source) is not None:
        if slim or prune or precision != "float32":
            raise CommandError("--slim, --prune and --precision are for models.")
        return _convert_data(open_source(source, reading), target)
    try:
        trained = open_model(source)
    except ModelFormatError as error:
        raise CommandError(f"{error} If it is a data file, name its format by --input-format.") from error
    if not slim:
        raise CommandError("nothing to convert: a model can be made --slim, which --prune and --precision go with.")
    if os.path.exists(target) and os.path.samefile(source, target):
        raise CommandError(f"{target}: a slim model cannot learn any more: give it another name.")
    before = os.path.getsize(source)
    trained.save(target, slim=True, prune=prune, precision=precision)
    after = os.path.getsize(target)
    sizes = f"{after / 1e6:,.2f} MB, before {before / 1e6:,.2f} MB"
    Console(markup=False).print(f"{target}: {sizes}", soft_wrap=True, highlight=False)


def _convert_data(source: Source, target: str) -> None:
    """All rows as svmlight with indices from 1, written whole or not at all."""
    if not target.endswith(_SVMLIGHT):
        raise CommandError(f"{target}: data are converted to svmlight, so its name must end in {', '.join(_SVMLIGHT)}.")
    check_folder(target)
    folder = os.path.dirname(os.path.realpath(target))
    handle, part = tempfile.mkstemp(prefix=f".{Path(target).name}.", suffix=".part", dir=folder)
    try:
        with os.fdopen(handle, "wb") as raw, _packed(raw, target) as file:
            for chunk in source.chunks():
                file.write("".join(_lines(chunk)).encode())
        os.chmod(part, 0o644)
        os.replace(part, target)
    except BaseException as error:
        Path(part).unlink(missing_ok=True)
        if isinstance(error, OSError) and error.filename is None:
            error.filename = target
        raise
    Console(markup=False).print(f"{target}: {source.n_rows:,} rows, indices from 1", soft_wrap=True, highlight=False)


def _packed(file: BinaryIO, target: str) -> AbstractContextManager:
    """The file itself, or what packs it; the same rows always give the same bytes."""
    return gzip.GzipFile("", "wb", 6, file, 0) if target.endswith(".gz") else nullcontext(file)


def _lines(chunk: Chunk) -> Iterator[str]:
    labels, pointer, X = chunk.labels, chunk.pointer, chunk.X
    assert labels is not None
    if chunk.weights is not None and (chunk.weights != 1).any():
        raise CommandError("svmlight has no weights, and these rows have some: train from the file as it is.")
    for row in range(X.shape[0]):
        own = labels[row : row + 1] if pointer is None else labels[pointer[row] : pointer[row + 1]]
        wrong = [label for label in own.tolist() if _NOT_IN_LABELS.search(str(label)) or label == ""]
        if wrong:
            raise CommandError(f"svmlight cannot hold the label {wrong[0]!r}: no spaces, commas, : or #.")
        span = slice(X.indptr[row], X.indptr[row + 1])
        if not len(own) and span.start == span.stop:
            raise CommandError("svmlight cannot hold a row without labels and features.")
        # repr of a float32 is the shortest text that reads back as the same number
        pairs = zip(X.indices[span].tolist(), X.data[span], strict=True)
        yield " ".join([",".join(map(str, own.tolist())), *(f"{index + 1}:{value!s}" for index, value in pairs)]) + "\n"
