"""The user's labels and their ids 0..K-1. New labels are appended; the id of a label never changes."""

import numpy as np


class ClassIndex:
    """A growing list of labels with lookup both ways.

    Parameters
    ----------
    labels : array-like of shape (n_classes,)
        The labels to start with, each once.
    """

    def __init__(self, labels: np.ndarray):
        self.kind: str = labels.dtype.kind  # of the array that the first labels came in
        self._labels: list = []
        self._ids: dict = {}
        self._array: np.ndarray | None = None
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
        """All labels, by id."""
        if self._array is None or len(self._array) != len(self):
            self._array = np.array(self._labels, dtype=object if self.kind == "O" else None)
        return self._array

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


def in_order_of_appearance(y: np.ndarray) -> np.ndarray:
    """The labels of y, each once, in order of first appearance, which does not depend on the batch size."""
    unique, first = np.unique(y, return_index=True)
    return unique[np.argsort(first)]


def _is_text(labels: np.ndarray) -> bool:
    return labels.dtype.kind in "US" or (labels.dtype.kind == "O" and isinstance(labels.flat[0], str))
