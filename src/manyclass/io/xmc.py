"""Files of the extreme-classification repository: a header `n_rows n_features n_labels`, then `l1,l2 i:v ...`."""

import re
from dataclasses import replace

from . import line_parser as kernel
from .errors import DataError
from .lines import Block
from .pieces import Piece, empty_piece
from .reading import Reading
from .svmlight import SparseLineReader

_HEADER = re.compile(rb"[ \t]*([0-9]{1,18})[ \t]+([0-9]{1,18})[ \t]+([0-9]{1,18})[ \t\r]*")


def header_of(line: bytes) -> tuple[int, int, int] | None:
    """Rows, features and labels, if the line is a header."""
    match = _HEADER.fullmatch(line.rstrip(b"\n"))
    if match is None:
        return None
    n_rows, n_features, n_labels = (int(number) for number in match.groups())
    return n_rows, n_features, n_labels


def _header(path: str, block: Block) -> tuple[int, int, int]:
    header = header_of(block.data.split(b"\n", 1)[0])
    if header is None:
        raise DataError(path, "the first line must be: n_rows n_features n_labels", 1, 1)
    if not 1 <= header[1] < 2**31 or header[2] < 1:
        raise DataError(path, "the header must name 1 to 2**31 - 1 features and at least one label", 1, 1)
    return header


def resolve(path: str, reading: Reading, block: Block, labelled: bool) -> Reading:
    """Take the sizes from the header; labels are always lists of whole numbers."""
    _, n_features, n_labels = _header(path, block)
    if reading.label_kind == "text" or reading.labels == "one":
        raise DataError(path, "labels of an xmc file are lists of numbers; leave labels and label_kind away", 1, 1)
    width = reading.n_features if reading.n_features is not None else n_features
    return replace(reading, labels="several", label_kind="int", n_features=width, n_labels=n_labels)


class XmcReader(SparseLineReader):
    """Also reads the header, and holds the file to its number of rows."""

    def __init__(self, path: str, reading: Reading, labelled: bool, skip: bool) -> None:
        rules = kernel.Rules(
            width=reading.width, base=0, n_features=0, n_labels=0, text_labels=0, several=1,
            labelled=int(labelled), svmlight=0, skip=int(skip),
        )  # fmt: skip
        super().__init__(path, rules)
        self._reading = reading
        self._n_rows: int | None = None  # of the header
        self._n_read, self._last_line = 0, 1

    def read(self, block: Block) -> Piece:
        """The rows of a block."""
        self._last_line = block.first_line + block.data.rstrip(b"\n").count(b"\n")
        if self._n_rows is None:
            self._n_rows, n_features, n_labels = _header(self.path, block)
            self.rules = self.rules._replace(n_features=n_features, n_labels=n_labels)
            block = Block(block.data.split(b"\n", 1)[1], block.first_line + 1)
        piece = super().read(block)
        self._n_read += piece.n_rows
        return piece

    def end(self) -> Piece | None:
        """The number of rows must be the header's. Who skips bad lines expects fewer."""
        if self._n_rows is None:
            raise DataError(self.path, "the file is empty; its first line must be: n_rows n_features n_labels", 1, 1)
        if self._n_read == self._n_rows or self.rules.skip:
            return None
        what = f"the file ends after {self._n_read} rows, but its header promises {self._n_rows}"
        error = DataError(self.path, f"{what}; fetch it again or correct the header", self._last_line, 1)
        return empty_piece(self._reading, bool(self.rules.labelled), error=error)
