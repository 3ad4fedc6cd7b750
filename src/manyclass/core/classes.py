"""The user's labels and their ids 0..K-1. New labels are appended; the id of a label never changes."""

from collections.abc import Sequence

import numpy as np

_SMALL = 1 << 18  # characters of an array of text that may be mostly padding


class ClassIndex:
    """A growing list of labels with lookup both ways. A new label costs its own bytes and constant time.

    Parameters
    ----------
    labels : array-like of shape (n_classes,)
        The labels to start with, each once.
    """

    def __init__(self, labels: np.ndarray):
        self.kind: str = labels.dtype.kind  # of the array that the first labels came in
        self._labels: list = []
        self._ids: dict = {}
        self._array: np.ndarray | None = None  # may lag behind the list
        self._buffer: np.ndarray | None = None  # memory of the array, with spare capacity
        self.add(labels)

    @classmethod
    def known(cls, labels: np.ndarray, kind: str) -> "ClassIndex":
        """An index of labels from an array of the given kind; ValueError if a label is repeated.

        The lookup is built when first needed: predictions do not need it.
        """
        if len(set(labels.tolist())) != len(labels):
            raise ValueError("a label is repeated")
        out = cls(labels[:0])
        out.kind, out._array = kind, labels
        return out

    def __len__(self) -> int:
        return len(self._labels) or (0 if self._array is None else len(self._array))

    @property
    def array(self) -> np.ndarray:
        """All labels, by id. An array that was returned never changes."""
        array, n = self._array, len(self)
        if array is None:
            array = self._array = label_array(self._labels, self.kind)
        elif len(array) != n:
            array = self._array = self._extended(array, n)
        return array

    def _extended(self, array: np.ndarray, n: int) -> np.ndarray:
        """The array with the labels added since it was made; the capacity doubles when it is full."""
        buffer = self._buffer
        if buffer is not None and array.base is buffer and n <= len(buffer):
            new = label_array(self._labels[len(array) : n], self.kind)
            if np.result_type(array, new) == array.dtype:
                buffer[len(array) : n] = new
                return buffer[:n]
        labels = label_array(self._labels[:n], self.kind)
        buffer = self._buffer = np.empty(2 * n, labels.dtype)
        buffer[:n] = labels
        return buffer[:n]

    def __getstate__(self) -> dict:
        return {**vars(self), "_buffer": None}

    def _first(self):
        """The first label, without building the array of all."""
        return self._labels[0] if self._labels else self.array[0]

    def _open(self) -> None:
        """Build the lookup if only the array is available."""
        if not self._labels and self._array is not None:
            labels = self._array.tolist()
            # Ids first: another thread that finds labels must find ids, too.
            self._ids = {label: at for at, label in enumerate(labels)}
            self._labels = labels

    def check_kind(self, labels: np.ndarray) -> None:
        """Refuse text after numbers and numbers after text."""
        kind = {True: "text", False: "numbers"}
        text = isinstance(self._first(), (str, bytes))
        if _is_text(labels) != text:
            raise ValueError(
                f"Labels are {kind[_is_text(labels)]} but earlier ones were {kind[text]}: "
                "convert them to the type of classes_."
            )

    def as_known(self, labels: np.ndarray) -> np.ndarray:
        """Integers stored as floats become integers again where the known labels are integers."""
        whole = labels.dtype.kind == "f" and np.asarray(self._first()).dtype.kind in "iu"
        if whole and np.all(labels == np.floor(labels)):
            return labels.astype(np.int64)
        return labels

    def add(self, labels: np.ndarray) -> None:
        """Append the new labels in the given order."""
        self._open()
        for label in labels.tolist():
            if label not in self._ids:
                self._ids[label] = len(self._labels)
                self._labels.append(label)

    def missing(self, labels: np.ndarray) -> list:
        """The labels that are unknown."""
        self._open()
        return [label for label in labels.tolist() if label not in self._ids]

    def find(self, y: np.ndarray) -> np.ndarray:
        """Ids of the labels in y, -1 for unknown ones."""
        self._open()
        return np.fromiter((self._ids.get(label, -1) for label in y.tolist()), np.int32, len(y))

    def encode(self, y: np.ndarray) -> np.ndarray:
        """Ids of the labels in y, all of which must be known."""
        self._open()
        unique, inverse = np.unique(y, return_inverse=True)
        ids = np.fromiter((self._ids[label] for label in unique.tolist()), np.int32, len(unique))
        return ids[inverse]


def label_array(labels: list, kind: str) -> np.ndarray:
    """Labels as an array: objects if they came as objects, or if text of a fixed width would be mostly padding."""
    text = kind in "US" and is_mostly_padding(labels)
    return np.array(labels, dtype=object if kind == "O" or text else None)


def is_mostly_padding(texts: Sequence[str | bytes]) -> bool:
    """Whether an array of fixed width would have much more characters than the texts: a few are far longer."""
    n_characters = len(texts) * max(map(len, texts), default=0)
    return n_characters > _SMALL and n_characters > 8 * sum(map(len, texts))


def in_order_of_appearance(y: np.ndarray) -> np.ndarray:
    """The labels of y, each once, in order of first appearance, which does not depend on the batch size."""
    unique, first = np.unique(y, return_index=True)
    return unique[np.argsort(first)]


def _is_text(labels: np.ndarray) -> bool:
    return labels.dtype.kind in "US" or (labels.dtype.kind == "O" and isinstance(labels.flat[0], str))
