"""Rows on their way from a block of the file to chunks of a given length."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import scipy.sparse

from .errors import DataError
from .reading import Reading

_NONE = np.zeros(0, dtype=np.int64)


class Piece(NamedTuple):
    """The rows of one block, however many; their features are in order and none is repeated."""

    indptr: np.ndarray  # (row + 1,) i8
    indices: np.ndarray  # (feature,) i4
    values: np.ndarray  # (feature,) f4
    labels: np.ndarray | None  # (row,) or flat
    pointer: np.ndarray | None  # (row + 1,) i8 where a row has several labels
    weights: np.ndarray | None = None  # (row,) f8
    bad: np.ndarray = _NONE  # for each bad line, how many of these rows stand before it
    error: DataError | None = None  # what ends the file after these rows

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return len(self.indptr) - 1


def empty_piece(reading: Reading, labelled: bool, n_bad: int = 0, error: DataError | None = None) -> Piece:
    """No rows, but perhaps bad lines or an error."""
    start = np.zeros(1, dtype=np.int64)
    return Piece(
        start,
        np.zeros(0, dtype=np.int32),
        np.zeros(0, dtype=np.float32),
        np.zeros(0, dtype=object if reading.label_kind == "text" else np.int64) if labelled else None,
        start if labelled and reading.labels == "several" else None,
        bad=np.zeros(n_bad, dtype=np.int64),
        error=error,
    )


class Chunk(NamedTuple):
    """Rows of a file, ready to be learned or answered."""

    X: scipy.sparse.csr_array  # float32, int32 indices in order, none repeated
    labels: np.ndarray | None  # int64 or object (str): one a row, or flat with `pointer`; None where not asked for
    pointer: np.ndarray | None  # (row + 1,) int64: labels of row i are labels[pointer[i]:pointer[i + 1]]
    weights: np.ndarray | None  # (row,) float64; None: all 1
    n_skipped: int  # bad lines skipped in the file so far


def _joined_pointer(pointers: list[np.ndarray]) -> np.ndarray:
    ends, offset = [np.zeros(1, dtype=np.int64)], 0
    for pointer in pointers:
        ends.append(pointer[1:] + offset)
        offset += int(pointer[-1])
    return np.concatenate(ends)


def _joined(pieces: list[Piece]) -> Piece:
    """One piece of many."""
    if len(pieces) == 1:
        return pieces[0]
    starts = np.cumsum([0] + [piece.n_rows for piece in pieces])
    labels = [piece.labels for piece in pieces if piece.labels is not None]
    pointers = [piece.pointer for piece in pieces if piece.pointer is not None]
    weights = None
    if any(piece.weights is not None for piece in pieces):
        weights = np.concatenate(
            [np.ones(piece.n_rows) if piece.weights is None else piece.weights for piece in pieces]
        )
    return Piece(
        _joined_pointer([piece.indptr for piece in pieces]),
        np.concatenate([piece.indices for piece in pieces]),
        np.concatenate([piece.values for piece in pieces]),
        np.concatenate(labels) if labels else None,
        _joined_pointer(pointers) if pointers else None,
        weights,
        np.concatenate([piece.bad + start for piece, start in zip(pieces, starts, strict=False)]),
        pieces[-1].error,
    )


def _part(piece: Piece, start: int, stop: int) -> Piece:
    """Rows start to stop. A bad line belongs to the part before it, and to the first part if it is the first line."""
    low, high = piece.indptr[start], piece.indptr[stop]
    labels, pointer = piece.labels, piece.pointer
    if pointer is not None and labels is not None:
        labels = labels[pointer[start] : pointer[stop]]
        pointer = pointer[start : stop + 1] - pointer[start]
    elif labels is not None:
        labels = labels[start:stop]
    weights = None if piece.weights is None else piece.weights[start:stop]
    bad = piece.bad[(piece.bad > start if start else piece.bad >= 0) & (piece.bad <= stop)] - start
    indptr = piece.indptr[start : stop + 1] - low
    return Piece(indptr, piece.indices[low:high], piece.values[low:high], labels, pointer, weights, bad)


def _chunk(piece: Piece, width: int, n_skipped: int) -> Chunk:
    indptr = piece.indptr.astype(np.int32 if len(piece.indices) < 2**31 else np.int64)
    X = scipy.sparse.csr_array((piece.values, piece.indices, indptr), shape=(piece.n_rows, width))
    X.has_canonical_format = True
    # Whether a block that a chunk was cut from held weights must not show.
    weights = None if piece.weights is None or np.all(piece.weights == 1) else piece.weights
    return Chunk(X, piece.labels, piece.pointer, weights, n_skipped)


def cut(pieces: Iterable[Piece], rows: int, width: int) -> Iterator[Chunk]:
    """Chunks of exactly `rows` rows, the last one shorter, wherever the pieces end.

    A chunk leaves only when it is known what follows its last row, so that its count of skipped lines depends on the
    file alone. Memory: a chunk and a piece.
    """
    waiting: list[Piece] = []
    n_waiting, n_skipped = 0, 0
    for piece in pieces:
        waiting.append(piece)
        n_waiting += piece.n_rows
        if n_waiting > rows:
            whole = _joined(waiting)
            start = 0
            while n_waiting - start > rows:
                part = _part(whole, start, start + rows)
                n_skipped += len(part.bad)
                yield _chunk(part, width, n_skipped)
                start += rows
            # A bad line right at the cut was counted above.
            waiting = [_part(whole, start, n_waiting)]
            n_waiting -= start
        if piece.error is not None:
            raise piece.error
    if n_waiting:
        whole = _joined(waiting)
        yield _chunk(whole, width, n_skipped + len(whole.bad))
