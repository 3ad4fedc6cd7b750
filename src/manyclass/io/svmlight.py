"""svmlight and libsvm files: `label[,label...] [qid:n] index:value ... # comment`."""

from dataclasses import replace
from typing import Any

import numpy as np

from . import line_parser as kernel
from .errors import DataError
from .lines import Block
from .numbers import mostly_text
from .pieces import Piece
from .reading import Reading
from .sparse_lines import complaint, parse_block


def line_ends(data: bytes) -> np.ndarray:
    """Where the newlines are."""
    return np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == 10)


class SparseLineReader:
    """Reads blocks of sparse lines by the kernel's rules; `XmcReader` adds a header."""

    def __init__(self, path: str, rules: kernel.Rules) -> None:
        self.path, self.rules = path, rules

    def read(self, block: Block) -> Piece:
        """The rows of a block."""
        ends = line_ends(block.data)
        piece, parsed = parse_block(block.data, ends, self.rules)
        error: DataError | None = None
        if parsed.size[kernel.BAD] and not self.rules.skip:
            error = complaint(self.path, block, ends, parsed.bad[0], bool(self.rules.svmlight))
        return piece._replace(error=error)

    def end(self) -> Piece | None:
        """What is left at the end of the file: nothing."""
        return None


def resolve(path: str, reading: Reading, block: Block, labelled: bool) -> Reading:
    """Find out index base, labels a row and their kind from the first lines, as far as these are good."""
    rules = _rules(replace(reading, labels="several", label_kind="text", index_base=0), labelled, True)
    piece, parsed = parse_block(block.data, line_ends(block.data), rules)
    found: dict[str, Any] = {}
    if reading.index_base is None:
        found["index_base"] = 0 if parsed.size[kernel.ZERO_ROWS] else 1
    if labelled and piece.labels is not None and piece.pointer is not None:
        if reading.labels is None:
            found["labels"] = "several" if np.any(np.diff(piece.pointer) != 1) else "one"
        if reading.label_kind is None:
            found["label_kind"] = "text" if mostly_text(piece.labels) else "int"
    return replace(reading, **found)


def _rules(reading: Reading, labelled: bool, skip: bool) -> kernel.Rules:
    return kernel.Rules(
        width=reading.width,
        base=reading.index_base or 0,
        n_features=kernel.LARGEST_INDEX + 1,
        n_labels=-1,
        text_labels=int(reading.label_kind == "text"),
        several=int(reading.labels == "several"),
        labelled=int(labelled),
        svmlight=1,
        skip=int(skip),
    )


def svmlight_reader(path: str, reading: Reading, labelled: bool, skip: bool) -> SparseLineReader:
    """A reader for one pass."""
    return SparseLineReader(path, _rules(reading, labelled, skip))
