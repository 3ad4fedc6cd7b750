"""`manyclass convert`: a slim copy of a model, or a data file as svmlight."""

import os
import re
from collections.abc import Iterator

from ..core.model_file import ModelFormatError
from ..io import Chunk, Source, known_format
from ..trained import open_model
from .files import check_model_name, check_writable, named_format, only_writer, open_source, replaced_data
from .messages import CommandError


def run(source: str, target: str, reading: dict, slim: bool, prune: float, precision: str) -> None:
    """Convert a model or a data file."""
    check_writable(target, source)
    if source == "-" or reading or known_format(source) is not None:
        if slim or prune or precision != "float32":
            raise CommandError("--slim, --prune and --precision apply to models only.")
        return _convert_data(open_source(source, reading), target)
    try:
        trained = open_model(source)
    except ModelFormatError as error:
        raise CommandError(f"{error} If it is a data file, specify --input-format.") from error
    if not slim:
        raise CommandError("nothing to convert: models require --slim, optionally with --prune and --precision.")
    check_model_name(target)
    before = os.path.getsize(source)
    with only_writer(target):
        trained.save(target, slim=True, prune=prune, precision=precision)
    print(f"{target}: {os.path.getsize(target) / 1e6:,.2f} MB, before {before / 1e6:,.2f} MB")


def _convert_data(source: Source, target: str) -> None:
    """Write all rows with indices from 1."""
    if named_format(target) != "svmlight":
        raise CommandError(f"{target}: data are converted to svmlight; the name must end in .svm, .svm.gz or .svm.zst.")
    with replaced_data(target) as file:
        for chunk in source.chunks():
            file.write("".join(_lines(chunk)).encode())
    print(f"{target}: {source.n_rows:,} rows, indices from 1")


def _lines(chunk: Chunk) -> Iterator[str]:
    labels, pointer, X = chunk.labels, chunk.pointer, chunk.X
    assert labels is not None
    if chunk.weights is not None and (chunk.weights != 1).any():
        raise CommandError("svmlight files have no row weights: train on the original file.")
    for row in range(X.shape[0]):
        own = labels[row : row + 1] if pointer is None else labels[pointer[row] : pointer[row + 1]]
        texts = [str(label) for label in own.tolist()]
        for text in texts:
            if not text or re.search(r"[\s,:#]", text):
                raise CommandError(f"svmlight cannot represent the label {text!r}: remove spaces, commas, : and #.")
        begin, end = X.indptr[row], X.indptr[row + 1]
        if not texts and begin == end:
            raise CommandError("svmlight cannot represent a row without labels and features.")
        # str of a float32 is the shortest text that is read back as the same number.
        pairs = zip(X.indices[begin:end].tolist(), X.data[begin:end], strict=True)
        yield " ".join([",".join(texts), *(f"{index + 1}:{value!s}" for index, value in pairs)]) + "\n"
