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
        self.kind: str = labels.dtype.kind  # of the array that the first labels came in
        self._labels: list = []
        self._ids: dict = {}
        self._array: np.ndarray | None = None
        self.add(labels)

    @classmethod
    def known(cls, labels: np.ndarray, kind: str) -> "ClassIndex":
        """An index of labels that came in an array of the given kind; ValueError if one stands twice.

        The array is kept as it is; what finds labels in it is made when first needed: answers never need it.
        """
        if len(set(labels.tolist())) != len(labels):
            raise ValueError("a label stands twice")
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

    def _open(self) -> None:
        """Make what finds labels, if only their array is there."""
        if not self._labels and self._array is not None:
            self._labels = self._array.tolist()
            self._ids = {label: at for at, label in enumerate(self._labels)}

    def check_kind(self, labels: np.ndarray) -> None:
        """Refuse text after numbers or numbers after text: nobody could look such labels up."""
        kind = {True: "text", False: "numbers"}
        text = isinstance(self.array[0], (str, bytes))
        if _is_text(labels) != text:
            raise ValueError(
                f"Labels are {kind[_is_text(labels)]} but earlier ones were {kind[text]}: "
                "convert them to the type of classes_."
            )

    def as_known(self, labels: np.ndarray) -> np.ndarray:
        """Whole numbers stored as floats become ints again where the known labels are ints."""
        whole = labels.dtype.kind == "f" and np.asarray(self.array[0]).dtype.kind in "iu"
        if whole and np.all(labels == np.floor(labels)):
            return labels.astype(np.int64)
        return labels

    def add(self, labels: np.ndarray) -> None:
        """Append those labels that are new, in the order given."""
        self._open()
        for label in labels.tolist():
            if label not in self._ids:
                self._ids[label] = len(self._labels)
                self._labels.append(label)

    def missing(self, labels: np.ndarray) -> list:
        """Those of the labels that are not known."""
        self._open()
        return [label for label in labels.tolist() if label not in self._ids]

    def find(self, y: np.ndarray) -> np.ndarray:
        """Ids of the labels in y, -1 for those that are not known."""
        self._open()
        return np.fromiter((self._ids.get(label, -1) for label in y.tolist()), np.int32, len(y))

    def encode(self, y: np.ndarray) -> np.ndarray:
        """Ids of the labels in y, all of which must be known."""
        self._open()
        unique, inverse = np.unique(y, return_inverse=True)
        ids = np.fromiter((self._ids[label] for label in unique.tolist()), np.int32, len(unique))
        return ids[inverse]


def in_order_of_appearance(y: np.ndarray) -> np.ndarray:
    """The labels of y, each once, as they first come: cutting a stream into other batches keeps this order."""
    unique, first = np.unique(y, return_index=True)
    return unique[np.argsort(first)]


def _is_text(labels: np.ndarray) -> bool:
    return labels.dtype.kind in "US" or (labels.dtype.kind == "O" and isinstance(labels.flat[0], str))
