"""Labels as the user knows them and 0..K-1 as the models know them. New labels go to the end; none ever moves."""

import numpy as np


class ClassIndex:
    """A growing list of labels with lookup both ways.

    Parameters
    ----------
    labels : array-like of shape (n_classes,)
        The labels to start with, each once.
    """

    def __init__(self, labels: np.ndarray):
        self._dtype_kind = labels.dtype.kind
        self._labels: list = []
        self._ids: dict = {}
        self._array: np.ndarray | None = None
        self.add(labels)

    def __len__(self) -> int:
        return len(self._labels)

    @property
    def array(self) -> np.ndarray:
        """All labels, by id."""
        if self._array is None or len(self._array) != len(self._labels):
            self._array = np.array(self._labels, dtype=object if self._dtype_kind == "O" else None)
        return self._array

    def check_kind(self, labels: np.ndarray) -> None:
        """Refuse text after numbers or numbers after text: nobody could look such labels up."""
        kind = {True: "text", False: "numbers"}
        text = isinstance(self._labels[0], (str, bytes))
        if _is_text(labels) != text:
            raise ValueError(
                f"Labels are {kind[_is_text(labels)]} but earlier ones were {kind[text]}: "
                "convert them to the type of classes_."
            )

    def as_known(self, labels: np.ndarray) -> np.ndarray:
        """Whole numbers stored as floats become ints again where the known labels are ints."""
        if labels.dtype.kind == "f" and type(self._labels[0]) is int and np.all(labels == np.floor(labels)):
            return labels.astype(np.int64)
        return labels

    def add(self, labels: np.ndarray) -> None:
        """Append those labels that are new, in the order given."""
        for label in labels.tolist():
            if label not in self._ids:
                self._ids[label] = len(self._labels)
                self._labels.append(label)

    def missing(self, labels: np.ndarray) -> list:
        """Those of the labels that are not known."""
        return [label for label in labels.tolist() if label not in self._ids]

    def encode(self, y: np.ndarray) -> np.ndarray:
        """Ids of the labels in y, all of which must be known."""
        unique, inverse = np.unique(y, return_inverse=True)
        ids = np.fromiter((self._ids[label] for label in unique.tolist()), np.int32, len(unique))
        return ids[inverse]


def in_order_of_appearance(y: np.ndarray) -> np.ndarray:
    """The labels of y, each once, as they first come: cutting a stream into other batches keeps this order."""
    unique, first = np.unique(y, return_index=True)
    return unique[np.argsort(first)]


def _is_text(labels: np.ndarray) -> bool:
    return labels.dtype.kind in "US" or (labels.dtype.kind == "O" and isinstance(labels.flat[0], str))
