"""The rows of a training file, read once and then shuffled as a whole: in memory, or through a temporary file.

Rows that need more than the given memory are distributed at random over the buckets of a temporary file. An epoch takes
the buckets in random order and shuffles each in memory. All choices depend on the seed only, so that a run that was
interrupted continues with the same rows. Sparse rows that are learned at once are mapped from a temporary file instead.
"""

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain, islice
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..core.protocol import Labels
from ..core.validation import NARROW
from ..io import Chunk, Reading, Source
from ..io.errors import shown
from ..io.lines import close_with
from ..io.weighting import RawCounts, weigh
from ..trained import LabelColumns
from .messages import CommandError, stderr

WINDOW = 1 << 14  # rows read together
_N_BUCKETS = 128
_HELD_OUT_SHARE, _MOST_HELD_OUT = 0.02, 2048
_COLUMNS_SHOWN = 10
_SEPARATORS = (",", ";", "|")  # that may stand between several labels in one cell


class _Record(NamedTuple):
    """Where some rows of a bucket are in the temporary file."""

    offset: int
    n_rows: int
    n_values: int
    n_labels: int


class Features:
    """Turns the rows of a source into features; the weights of a table are counted first."""

    def __init__(self, reading: Reading, base: Reading | None = None) -> None:
        self.reading = reading
        self._counts: RawCounts | None = None
        self._raw_width, self._highest = reading.width, -1  # the highest feature so far
        self._found = base is None and reading.format == "svmlight" and reading.n_features is None
        if reading.weighted and reading.weighting is None:
            from ..io.tables import layout_of  # scikit-learn's vectorizers take a while to import

            before = None if base is None else base.weighting
            self._counts = RawCounts(layout_of(reading), reading.numbers, reading.idf, before)

    @property
    def raw_width(self) -> int:
        """The number of columns of raw rows."""
        return self._raw_width if self._counts is None else self._counts.layout.n_columns

    @property
    def wide(self) -> bool:
        """Whether the rows counted so far have more features than dense rows usually do."""
        return (self._highest + 1 if self._found else self.reading.width) > NARROW

    def count(self, X: sp.csr_array) -> None:
        """Count raw rows."""
        if self._counts is not None:
            self._counts.add(X)
        if self._found:
            self._highest = max(self._highest, int(X.indices.max(initial=-1)))

    def finish(self, more: bool = False) -> Reading:
        """The reading with the weights of all rows that were counted so far; `more`: others may follow.

        svmlight files do not have the number of features. If it is small, as that of dense rows, it is counted.
        """
        if self._counts is not None:
            self.reading = replace(self.reading, weighting=self._counts.weighting())
        elif self._found and not (more or self.wide):
            self.reading = replace(self.reading, n_features=max(1, self._highest + 1), hashed=False)
        return self.reading

    def __call__(self, X: sp.csr_array) -> sp.csr_array:
        """Features of raw rows."""
        if self._counts is not None:
            parts = (X[first : first + WINDOW] for first in range(0, max(1, X.shape[0]), WINDOW))
            return _stacked([weigh(part, self._counts.layout, self.reading.weighting) for part in parts])
        return sp.csr_array((X.data, X.indices, X.indptr), shape=(X.shape[0], self.reading.width))


class RowStore:
    """All rows of a source."""

    def __init__(
        self,
        source: Source,  # `read` makes one pass over it
        features: Features,
        folder: str,  # of a temporary file; it has no name, so that nothing remains of it after a kill
        seed: int,
        shuffle: bool,  # False: keep the order of the file
        max_bytes: int,  # memory for raw rows
        at_once: bool = False,  # all rows will be learned at once: sparse ones are written in order, to be mapped
    ) -> None:
        self.source, self.features, self.n_rows = source, features, 0
        self._folder, self._seed, self._shuffle, self._max_bytes = folder, seed, shuffle, max_bytes
        self._at_once = at_once
        self._in_order = not shuffle  # how rows are written to the file
        self._parts: list[Chunk] = []  # in memory
        self._held: list[Chunk] = []
        self._n_bytes = self._n_held = 0
        self._file: BinaryIO | None = None
        self._records: list[list[_Record]] = []  # of each bucket
        self._names: dict[str, int] = {}  # numbers of text labels
        self._whole: Chunk | None = None
        self.labels = SortedLabels()

    @property
    def in_memory(self) -> bool:
        """Whether all rows are in memory."""
        return self._file is None

    @property
    def has_whole(self) -> bool:
        """Whether all rows can be learned at once."""
        return self.in_memory or self._at_once

    @property
    def n_learned(self) -> int:
        """The number of rows in an epoch."""
        return self.n_rows - self._n_held

    def read(self, update: Callable[..., None]) -> None:
        """Read all rows, and count what features require."""
        chunks = self.source.chunks(WINDOW)
        number, chunk, share = 0, next(chunks, None), _HELD_OUT_SHARE
        while chunk is not None:
            following = next(chunks, None)
            self.features.count(chunk.X)
            self.labels.add(chunk)
            self.n_rows += chunk.X.shape[0]
            update(chunk.X.shape[0])
            chunk = self._encoded(chunk)
            if number or following is not None:  # a small file has too few rows
                chunk, held = held_out(chunk, self._seed, number, share)
                self._held += held
                self._n_held += sum(part.X.shape[0] for part in held)
                while self._n_held > _MOST_HELD_OUT and share:
                    share = self._hold_out_fewer(number, share)
            self._add(chunk)
            number, chunk = number + 1, following
        if not self.n_rows:
            raise CommandError(f"{self.source.path}: there are no rows to learn from.")
        if not self.labels.n_labels:
            raise CommandError(f"{self.source.path}: no row has a label.")
        if self._file is not None:
            self._spill()
        self.features.finish(more=self.source.n_beyond > 0)  # hashed indices may be anywhere
        warn_late_columns(self.source)

    def _hold_out_fewer(self, number: int, share: float) -> float:
        """Learn half of the rows held out so far, and return the share to hold out from now on.

        So they are from the whole file, which may be sorted. In the order of the file, the first ones are kept.
        """
        if not self._shuffle:
            return 0.0
        held = join(self._held)
        order = np.random.default_rng([self._seed, number, self._n_held]).permutation(self._n_held)
        self._n_held //= 2
        self._held = [take(held, order[: self._n_held])]
        self._add(take(held, order[self._n_held :]))
        return share / 2

    def whole(self) -> Chunk:
        """All rows as features; those that were held out are the last.

        If they do not fit into memory, they are mapped from a temporary file. Requires `has_whole`; can be called once.
        """
        self._parts += self._held
        self._held = []
        if self.in_memory:
            return self._joined()
        self._spill()
        with _named_errors(self._folder):
            return self._mapped()

    def _mapped(self) -> Chunk:
        """All rows of the file as features, in another file: the system keeps as much of it in memory as there is."""
        with tempfile.TemporaryFile(dir=self._folder) as indices, tempfile.TemporaryFile(dir=self._folder) as data:
            chunks, sizes = [], [np.zeros(1, np.int64)]
            for number in range(len(self._records)):
                chunk = self._bucket(number)
                for file, array, kind in ((indices, chunk.X.indices, "i4"), (data, chunk.X.data, "f4")):
                    file.write(np.ascontiguousarray(array, kind).data)
                sizes.append(np.diff(chunk.X.indptr))
                chunks.append(chunk._replace(X=sp.csr_array((chunk.X.shape[0], 0), dtype=np.float32)))
            pointer = np.cumsum(np.concatenate(sizes), dtype=np.int64)
            arrays = [_map(file, kind, int(pointer[-1])) for file, kind in ((indices, "i4"), (data, "f4"))]
        if self._file is not None:
            self._file.close()  # frees its space
        return join(chunks)._replace(X=_matrix(pointer, arrays[0], arrays[1], self.features.reading.width))

    def held_out(self) -> Chunk | None:
        """The rows that are not in `windows`, as features and in random order: they are learned at the end."""
        if not self._held:
            return None
        held = self._decoded(join(list(self._held), self.features))
        return take(held, self._order(held.X.shape[0], _MOST_HELD_OUT))

    def windows(self, epoch: int) -> Iterator[Chunk]:
        """The rows of an epoch as features, in the order in which they are learned."""
        if self._file is None:
            whole = self._joined()
            order = self._order(whole.X.shape[0], epoch)
            for begin in range(0, len(order), WINDOW):
                yield take(whole, order[begin : begin + WINDOW])
            return
        for bucket in self._order(len(self._records), epoch):
            if self._records[bucket]:
                chunk = self._bucket(int(bucket))
                yield take(chunk, self._order(chunk.X.shape[0], epoch, int(bucket)))

    def position(self, n_rows: int) -> tuple[int, int | None]:
        """How much of an epoch is done after some rows, and how much there is."""
        return n_rows, self.n_learned

    def _order(self, n: int, *numbers: int) -> np.ndarray:
        return np.random.default_rng([self._seed, *numbers]).permutation(n) if self._shuffle else np.arange(n)

    def _joined(self) -> Chunk:
        if self._whole is None:
            self._whole = self._decoded(join(self._parts, self.features))
            self._parts = []
        return self._whole

    # Labels are numbers while rows are stored: an array of texts cannot be written, and repeats every text.

    def _encoded(self, chunk: Chunk) -> Chunk:
        labels = chunk.labels
        assert labels is not None
        if labels.dtype == object:
            names = self._names
            labels = np.array([names.setdefault(label, len(names)) for label in labels.tolist()], np.int64)
        return chunk._replace(labels=labels, weights=_weights(chunk))

    def _decoded(self, chunk: Chunk) -> Chunk:
        assert chunk.labels is not None and chunk.weights is not None
        weights = None if np.all(chunk.weights == 1) else chunk.weights
        labels = np.array(list(self._names), dtype=object)[chunk.labels] if self._names else chunk.labels
        return chunk._replace(labels=labels, weights=weights)

    def _add(self, chunk: Chunk) -> None:
        self._parts.append(chunk)
        self._n_bytes += _n_bytes(chunk)
        if self._file is None and self._n_bytes > self._max_bytes:
            self._file = tempfile.TemporaryFile(dir=self._folder)
            close_with(self, self._file)
            self._at_once = self._at_once and self.features.wide  # `fit` makes narrow rows dense
            self._in_order = self._in_order or self._at_once
        if self._file is not None and self._n_bytes > self._max_bytes // 4:
            self._spill()

    def _spill(self) -> None:
        """Write the rows in memory to the buckets of the file."""
        if not self._parts:
            return
        parts, self._parts, self._n_bytes = self._parts, [], 0
        if self._in_order:
            self._records.append([self._write(join(parts))])
            return
        self._records = self._records or [[] for _ in range(_N_BUCKETS)]
        n_before = sum(record.n_rows for records in self._records for record in records)
        rng = np.random.default_rng([self._seed, _N_BUCKETS, n_before])
        rows: list[list[Chunk]] = [[] for _ in range(_N_BUCKETS)]
        for part in parts:
            bucket = rng.integers(_N_BUCKETS, size=part.X.shape[0])
            for number in np.unique(bucket):
                rows[number].append(take(part, np.flatnonzero(bucket == number)))
        parts.clear()
        for records, chunks in zip(self._records, rows, strict=True):
            if chunks:
                records.append(self._write(join(chunks)))

    def _write(self, chunk: Chunk) -> _Record:
        file = self._file
        assert file is not None and chunk.labels is not None and chunk.weights is not None
        offset = file.seek(0, os.SEEK_END)
        X = chunk.X
        arrays = (X.indptr, X.indices, X.data, chunk.weights, chunk.labels, _label_pointer(chunk))
        with _named_errors(self._folder):
            for array, kind in zip(arrays, _KINDS, strict=True):
                file.write(np.ascontiguousarray(array, kind).data)
            file.flush()
        return _Record(offset, X.shape[0], X.nnz, len(chunk.labels))

    def _bucket(self, number: int) -> Chunk:
        """The rows of a bucket as features."""
        assert self._file is not None
        several, chunks = self.features.reading.labels == "several", []
        for record in self._records[number]:
            self._file.seek(record.offset)
            n, n_values = record.n_rows, record.n_values
            sizes = (n + 1, n_values, n_values, n, record.n_labels, n + 1)
            arrays = [np.empty(size, kind) for size, kind in zip(sizes, _KINDS, strict=True)]
            for array in arrays:
                self._file.readinto(array.data)  # type: ignore[attr-defined]
            indptr, indices, data, weights, labels, pointer = arrays
            X = sp.csr_array((data, indices, indptr), shape=(n, self.features.raw_width))
            chunks.append(Chunk(X, labels, pointer if several else None, weights, 0))
        return self._decoded(join(chunks, self.features))


class PipeRows:
    """The rows of a pipe as they come: shuffled in windows only, and words are counted on the way."""

    def __init__(self, source: Source, features: Features, seed: int, shuffle: bool) -> None:
        self.source, self.features = source, features
        self._seed, self._shuffle = seed, shuffle
        self._held: list[Chunk] = []
        self._chunks = self.source.chunks(WINDOW)
        self._first = list(islice(self._chunks, 1))
        for chunk in self._first:
            self.features.count(chunk.X)

    def windows(self, epoch: int) -> Iterator[Chunk]:
        """The rows as features, in the order in which they are learned."""
        labels, n_held, warned = SortedLabels(), 0, False
        for number, chunk in enumerate(chain(self._first, self._chunks)):
            labels.add(chunk)
            if number and labels.found and not warned:
                warn_sorted(self.source.path, "write them to a file, or add --in-memory")
                warned = True
            if number:
                self.features.count(chunk.X)
            self.features.finish(more=True)
            chunk = chunk._replace(X=self.features(chunk.X))
            share = _HELD_OUT_SHARE if number and n_held < _MOST_HELD_OUT else 0.0
            learned, held = held_out(chunk, self._seed, number, share)
            self._held += held
            n_held += sum(part.X.shape[0] for part in held)
            rng = np.random.default_rng([self._seed, epoch, number])
            yield take(learned, rng.permutation(learned.X.shape[0])) if self._shuffle else learned
        warn_late_columns(self.source)

    def held_out(self) -> Chunk | None:
        """The rows that were not in `windows`, in random order."""
        if not self._held:
            return None
        held = join(list(self._held))
        return take(held, np.random.default_rng([self._seed, _MOST_HELD_OUT]).permutation(held.X.shape[0]))

    def position(self, n_rows: int) -> tuple[int, int | None]:
        """The bytes read so far; how many there are is unknown."""
        return self.source.position


@contextmanager
def _named_errors(folder: str) -> Iterator[None]:
    """A full disk is reported with the folder of the temporary files, which have no names."""
    try:
        yield
    except OSError as error:
        what = f"a temporary file in {folder} could not be written ({error.strerror or error})"
        raise OSError(error.errno, f"{what}: free some space, or use a larger --row-memory") from error


def _map(file: BinaryIO, kind: str, size: int) -> np.ndarray:
    """An array in a file, as private memory: kernels take no read-only arrays."""
    file.flush()
    return np.asarray(np.memmap(file, kind, "c", shape=(size,))) if size else np.zeros(0, kind)


_KINDS = ("i8", "i8", "f4", "f8", "i8", "i8")  # indptr, indices, data, weights, labels, label pointer


def _label_pointer(chunk: Chunk) -> np.ndarray:
    return np.arange(chunk.X.shape[0] + 1) if chunk.pointer is None else chunk.pointer


def _weights(chunk: Chunk) -> np.ndarray:
    return np.ones(chunk.X.shape[0]) if chunk.weights is None else chunk.weights


def _n_bytes(chunk: Chunk) -> int:
    X = chunk.X
    arrays = (X.indptr, X.indices, X.data, chunk.labels, chunk.weights, chunk.pointer)
    return sum(array.nbytes for array in arrays if array is not None)


def take(chunk: Chunk, order: np.ndarray) -> Chunk:
    """Some rows of a chunk, in the given order."""
    labels, pointer = chunk.labels, chunk.pointer
    assert labels is not None
    if pointer is None:
        labels = labels[order]
    else:
        pointer, labels = Labels(pointer, labels).rows(order)
    weights = None if chunk.weights is None else chunk.weights[order]
    return Chunk(chunk.X[order], labels, pointer, weights, chunk.n_skipped)


def join(chunks: list[Chunk], convert: Callable[[Any], Any] = lambda X: X) -> Chunk:
    """All rows together, converted. The list is emptied meanwhile, so that memory does not hold them twice."""
    labels = np.concatenate([chunk.labels for chunk in chunks])
    weights = np.concatenate([_weights(chunk) for chunk in chunks])
    counts = np.concatenate([[0], *(np.diff(_label_pointer(chunk)) for chunk in chunks)])
    pointer = None if chunks[0].pointer is None else np.cumsum(counts)
    rows = []
    for i, chunk in enumerate(chunks):
        rows.append(convert(chunk.X))
        chunks[i] = None  # type: ignore[call-overload]
    chunks.clear()
    return Chunk(_stacked(rows), labels, pointer, weights, 0)


def _stacked(rows: list[sp.csr_array]) -> sp.csr_array:
    """`scipy.sparse.vstack`, but each matrix is dropped as soon as it is copied."""
    if len(rows) == 1:
        return rows[0]
    width, n_values = rows[0].shape[1], sum(X.nnz for X in rows)
    indptr = np.concatenate([[0], np.cumsum(np.concatenate([np.diff(X.indptr) for X in rows]), dtype=np.int64)])
    indices, data = np.empty(n_values, rows[0].indices.dtype), np.empty(n_values, rows[0].data.dtype)
    at = 0
    for i, X in enumerate(rows):
        indices[at : at + X.nnz], data[at : at + X.nnz] = X.indices, X.data
        at += X.nnz
        rows[i] = None
    return _matrix(indptr, indices, data, width)


def _matrix(indptr: np.ndarray, indices: np.ndarray, data: np.ndarray, width: int) -> sp.csr_array:
    """The rows without a copy: scipy would copy int32 indices beside an int64 pointer."""
    if indptr[-1] <= np.iinfo(np.int32).max:
        indptr = indptr.astype(indices.dtype)
    return sp.csr_array((data, indices, indptr), shape=(len(indptr) - 1, width))


# -- held-out rows, sorted labels ----------------------------------------------------------------------------------


def held_out(chunk: Chunk, seed: int, number: int, share: float) -> tuple[Chunk, list[Chunk]]:
    """The rows of a window to learn, and about this share of them to hold out, if any."""
    chosen = np.random.default_rng([seed, number, _MOST_HELD_OUT]).random(chunk.X.shape[0]) < share
    if not chosen.any():
        return chunk, []
    return take(chunk, np.flatnonzero(~chosen)), [take(chunk, np.flatnonzero(chosen))]


def warn_sorted(path: str, what_to_do: str) -> None:
    """Say that the order of the rows ruins the model."""
    name = "standard input" if path == "-" else path
    stderr.print(
        f"Warning: in {name}, rows with the same label follow each other. A model that learns them in this order "
        f"forgets the first labels: {what_to_do}."
    )


def warn_late_columns(source: Source) -> None:
    """Name the columns that are not used because the first rows lack them."""
    if not (names := source.late_columns):
        return
    there = ", ".join(map(shown, names[:_COLUMNS_SHOWN])) + (", ..." if names[_COLUMNS_SHOWN:] else "")
    stderr.print(
        f"Warning: {'standard input' if source.path == '-' else source.path} has columns that its first rows lack. "
        f"They are not used: {there}. To use some of them, name all columns to use (--text, --numeric, --categorical, "
        "--date)."
    )


def _plain(label: str) -> str:
    return " ".join(label.split()).casefold()


class SortedLabels:
    """Whether rows with the same label follow each other far more often than in random order."""

    def __init__(self) -> None:
        self._counts: dict[Any, int] = {}
        self._n_same, self.n_labels, self._last = 0, 0, None

    def add(self, chunk: Chunk) -> None:
        """Count the labels of rows; with several labels per row, the first one of each."""
        assert chunk.labels is not None
        labels = chunk.labels
        if chunk.pointer is not None:
            labels = labels[chunk.pointer[:-1][np.diff(chunk.pointer) > 0]]
        for label in labels.tolist():
            self._n_same += label == self._last
            self._counts[label] = self._counts.get(label, 0) + 1
            self._last = label
        self.n_labels += len(labels)

    @property
    def only(self) -> Any:
        """The only label, or None."""
        return self._last if len(self._counts) == 1 else None

    def doubtful(self, reading: Reading) -> Iterator[str]:
        """Warnings of cells that look like several labels, and of labels that differ only in case or spaces."""
        if reading.label_kind != "text":
            return
        cells = self._counts if reading.labels == "one" and reading.label is not None else {}
        for separator in _SEPARATORS:
            several = {cell: n for cell, n in cells.items() if separator in cell}
            parts = {part.strip() for cell in several for part in cell.split(separator)}
            unique = 2 * len(several) > self.n_labels  # most cells occur only once
            if 2 * sum(several.values()) > self.n_labels and len(parts) * (1 if unique else 2) < len(several):
                yield (
                    f"most labels contain {separator!r}, such as {shown(next(iter(several)))}. If they are several "
                    f"labels in one cell, use --label-separator '{separator}'."
                )
        same: dict[str, str] = {}
        pairs = [
            (first, label) for label in self._counts if (first := same.setdefault(_plain(label), label)) is not label
        ]
        if pairs:
            some = ", ".join(f"{shown(first)} and {shown(label)}" for first, label in pairs[:_COLUMNS_SHOWN])
            yield f"labels that differ only in case or spaces are different classes: {some}."

    @property
    def found(self) -> bool:
        """Whether more than half of the neighbours are equal that would not be in random order."""
        n = max(1, self.n_labels)
        expected = sum(count**2 for count in self._counts.values()) / n**2
        return n >= 100 and self._n_same / n - expected > (1 - expected) / 2 > 0.02


# -- all rows at once ----------------------------------------------------------------------------------------------


def read_rows(
    source: Source, columns: LabelColumns | None, max_rows: int, seed: int | None = None
) -> tuple[Any, Any, np.ndarray]:
    """X, y and weights of at most `max_rows` rows of a file, in memory: the first ones, or with a seed a sample."""
    chunk = next(source.chunks(max_rows), None) if seed is None else _sample(source, max_rows, seed)
    if chunk is None:
        raise CommandError(f"{source.path}: there are no rows to learn from.")
    warn_late_columns(source)
    features = Features(source.reading)
    features.count(chunk.X)
    features.finish()
    return arrays_of(chunk._replace(X=features(chunk.X)), columns)


def _sample(source: Source, max_rows: int, seed: int) -> Chunk | None:
    """A random sample of all rows in the order of the file; None if there are none. Memory: twice as many rows."""
    rng, parts, keys = np.random.default_rng(seed), list[Chunk](), np.zeros(0)
    for chunk in source.chunks(min(WINDOW, max_rows)):
        parts.append(chunk)
        keys = np.concatenate([keys, rng.random(chunk.X.shape[0])])
        if len(keys) >= 2 * max_rows:
            parts, keys = _smallest(parts, keys, max_rows)
    return _smallest(parts, keys, max_rows)[0][0] if parts else None


def _smallest(chunks: list[Chunk], keys: np.ndarray, n: int) -> tuple[list[Chunk], np.ndarray]:
    """The n rows with the smallest keys, in their order."""
    order = np.sort(np.argsort(keys, kind="stable")[:n])
    return [take(join(chunks), order)], keys[order]


def arrays_of(chunk: Chunk, columns: LabelColumns | None) -> tuple[Any, Any, np.ndarray]:
    """X, y and weights for `fit`."""
    y = chunk.labels if columns is None else columns.matrix(chunk, learn=True)
    return chunk.X, y, _weights(chunk)
