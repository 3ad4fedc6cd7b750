"""Rows on their way from blocks of a file to chunks of a given number of rows."""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple

import numpy as np
import scipy.sparse

from .errors import DataError
from .lines import Block
from .reading import Reading


class Chunk(NamedTuple):
    """Rows of a file.

    Examples
    --------
    >>> import os, tempfile
    >>> from manyclass.io import Source
    >>> path = os.path.join(tempfile.mkdtemp(), "train.svm")
    >>> with open(path, "w") as file:
    ...     _ = file.write("3 1:0.5\\n4 2:1\\n")
    >>> chunk = next(Source(path).chunks())
    >>> chunk.labels, chunk.X.nnz
    (array([3, 4]), 2)
    """

    X: scipy.sparse.csr_array  # float32; indices int32, sorted and unique per row
    labels: np.ndarray | None  # int64 or object (str): one per row, or flat with `pointer`; None: labels were not read
    pointer: np.ndarray | None  # (row + 1,) int64: labels of row i are labels[pointer[i]:pointer[i + 1]]
    weights: np.ndarray | None  # (row,) float64; None: all 1
    n_skipped: int  # bad lines skipped in the file so far
    kept: tuple[tuple, ...] = ()  # per row, the cells of the columns to keep; () if there are none


class Piece(NamedTuple):
    """The rows of one block."""

    X: scipy.sparse.csr_array  # as in Chunk
    labels: np.ndarray  # flat
    pointer: np.ndarray  # (row + 1,) i8: labels of each row
    weights: np.ndarray  # (row,) f8
    bad: np.ndarray  # for each bad line, the number of rows of this piece before it
    error: DataError | None = None  # raised after these rows
    kept: tuple[tuple, ...] = ()  # as in Chunk
    n_beyond: int = 0  # indices beyond the number of features

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return self.X.shape[0]


def empty_piece(width: int, n_bad: int = 0, error: DataError | None = None) -> Piece:
    """No rows, but perhaps bad lines or an error."""
    none = np.zeros(0, dtype=np.int64)
    X = scipy.sparse.csr_array((0, width), dtype=np.float32)
    return Piece(X, none, np.zeros(1, dtype=np.int64), np.zeros(0), np.zeros(n_bad, dtype=np.int64), error)


class Reader:
    """Reads the rows of blocks, for one pass over a file."""

    keep: tuple[str, ...] = ()  # columns whose cells are returned as they are

    def __init__(self, path: str, reading: Reading, labelled: bool, skip: bool) -> None:
        self.path, self.reading, self.labelled, self.skip = path, reading, labelled, skip
        self.late_columns: dict[str, None] = {}  # those that the first rows lack
        self.absent_columns: set[str] = set()  # those to use that no row has so far

    @property
    def width(self) -> int:
        """The number of features of a row."""
        return self.reading.width

    @classmethod
    def resolve(cls, path: str, reading: Reading, block: Block, labelled: bool) -> Reading:
        """Find the values that the reading leaves open from the first lines."""
        raise NotImplementedError

    def read(self, block: Block) -> Piece:
        """The rows of a block."""
        raise NotImplementedError

    def end(self) -> Piece | None:
        """The rows that remain at the end of the file."""
        return None


def _joined(pieces: list[Piece]) -> Piece:
    if len(pieces) == 1:
        return pieces[0]
    first_rows = np.cumsum([0] + [piece.n_rows for piece in pieces])
    first_labels = np.cumsum([0] + [len(piece.labels) for piece in pieces])
    pointers = [piece.pointer[1:] + first for piece, first in zip(pieces, first_labels, strict=False)]
    return Piece(
        scipy.sparse.vstack([piece.X for piece in pieces], format="csr"),
        np.concatenate([piece.labels for piece in pieces]),
        np.concatenate([np.zeros(1, dtype=np.int64), *pointers]),
        np.concatenate([piece.weights for piece in pieces]),
        np.concatenate([piece.bad + first for piece, first in zip(pieces, first_rows, strict=False)]),
        kept=tuple(chain.from_iterable(piece.kept for piece in pieces)),
    )


def _part(piece: Piece, start: int, stop: int) -> Piece:
    """Rows start to stop. A bad line belongs to the part before it, or to the first part."""
    pointer = piece.pointer[start : stop + 1]
    bad = piece.bad[(piece.bad > start if start else piece.bad >= 0) & (piece.bad <= stop)] - start
    labels = piece.labels[pointer[0] : pointer[-1]]
    weights, kept = piece.weights[start:stop], piece.kept[start:stop]
    return Piece(piece.X[start:stop], labels, pointer - pointer[0], weights, bad, kept=kept)


def cut(pieces: Iterable[Piece], rows: int, reading: Reading, labelled: bool) -> Iterator[Chunk]:
    """Chunks of exactly `rows` rows, the last one shorter, wherever the pieces end.

    A chunk is returned when the next row is known, so that its count of skipped lines does not depend on the blocks.
    Memory: a chunk and a piece.
    """
    waiting: list[Piece] = []
    n_waiting, n_skipped = 0, 0

    def chunk(piece: Piece) -> Chunk:
        piece.X.has_canonical_format = True
        return Chunk(
            piece.X,
            piece.labels if labelled else None,
            piece.pointer if labelled and reading.labels == "several" else None,
            None if np.all(piece.weights == 1) else piece.weights,
            n_skipped,
            piece.kept,
        )

    for piece in pieces:
        waiting.append(piece)
        n_waiting += piece.n_rows
        if n_waiting > rows:
            whole = _joined(waiting)
            start = 0
            while n_waiting - start > rows:
                part = _part(whole, start, start + rows)
                n_skipped += len(part.bad)
                yield chunk(part)
                start += rows
            waiting = [_part(whole, start, n_waiting)]
            n_waiting -= start
        if piece.error is not None:
            raise piece.error
    if n_waiting:
        whole = _joined(waiting)
        n_skipped += len(whole.bad)
        yield chunk(whole)
