"""The user's labels and their ids 0..K-1. New labels are appended; the id of a label never changes."""

from collections.abc import Sequence
from copy import copy

import numpy as np

_SMALL = 1 << 18  # characters of an array of text that may be mostly padding


class ClassIndex:
    """A growing list of labels with lookup both ways.

    A new label costs its own bytes and constant time, unless classes were removed or merged: then all are copied.

    An interrupt leaves an index that is consistent: attributes that belong together are assigned together.
    """

    _counted: tuple[np.ndarray, int] | None = None  # a target, and its number of current classes

    def __init__(self, labels: np.ndarray):
        self.kind: str = labels.dtype.kind  # of the array that the first labels came in
        self._labels: list = []
        self._ids: dict = {}
        self._array: np.ndarray | None = None  # may lag behind the list
        self._buffer: np.ndarray | None = None  # memory of the array, with spare capacity
        # The class that is predicted in place of each: itself, another one (merged), or -1 (removed). None: all as they
        # are. An array that is here never changes.
        self.target: np.ndarray | None = None
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

    def copied(self) -> "ClassIndex":
        """An index that can be changed while others read this one."""
        out = copy(self)
        out._labels, out._ids = list(self._labels), dict(self._ids)
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
            if _fit_into(new, array):
                buffer[len(array) : n] = new
                return buffer[:n]
        labels = label_array(self._labels[:n], self.kind)
        buffer = self._buffer = np.empty(2 * n, labels.dtype)
        buffer[:n] = labels
        return buffer[:n]

    def __getstate__(self) -> dict:
        return {**vars(self), "_buffer": None, "_counted": None}

    def first(self):
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
        text = isinstance(self.first(), (str, bytes))
        if _is_text(labels) != text:
            raise ValueError(
                f"Labels are {kind[_is_text(labels)]} but earlier ones were {kind[text]}: "
                "convert them to the type of classes_."
            )

    def as_known(self, labels: np.ndarray) -> np.ndarray:
        """Integers stored as floats become integers again where the known labels are integers."""
        whole = labels.dtype.kind == "f" and np.asarray(self.first()).dtype.kind in "iu"
        if whole and np.all((labels == np.floor(labels)) & (np.abs(labels) < 2.0**63)):
            return labels.astype(np.int64)
        return labels

    def add(self, labels: np.ndarray) -> None:
        """Append the new labels in the given order; those that were removed are classes again."""
        self._open()
        if self.target is None:
            return _append(labels, self._labels, self._ids)
        if all(label in self._ids and self.target[self._ids[label]] >= 0 for label in labels.tolist()):
            return None
        known, ids = list(self._labels), dict(self._ids)
        _append(labels, known, ids)
        target = np.concatenate([self.target, np.arange(len(self.target), len(known), dtype=np.int32)])
        back = [at for label in labels.tolist() if target[at := ids[label]] < 0]
        standing = _standing(target, back)
        self._labels, self._ids, self.target = known, ids, standing

    # -- classes that were removed or merged

    @property
    def n_current(self) -> int:
        """Number of classes without those that were removed or merged into others."""
        target, counted = self.target, self._counted
        if target is None:
            return len(self)
        if counted is None or counted[0] is not target:
            counted = self._counted = target, int(np.sum(target == np.arange(len(target))))
        return counted[1]

    @property
    def current(self) -> np.ndarray:
        """The labels of the classes that can be predicted."""
        return self.array if self.target is None else self.array[self.target == np.arange(len(self.target))]

    def is_current(self, number: int) -> bool:
        """Whether a class can be predicted."""
        return self.target is None or bool(self.target[number] == number)

    def parts_of(self, number: int) -> list[int]:
        """The classes that were merged into a class, and itself."""
        return [number] if self.target is None else np.flatnonzero(self.target == number).tolist() or [number]

    def redirect(self, target: np.ndarray, own: Sequence[int] = ()) -> None:
        """Replace `target`; the classes `own` are then neither removed nor merged."""
        self.target = _standing(target, own)

    def rename(self, new: dict[int, object]) -> None:
        """Give other labels to some classes; ValueError if two classes would have the same."""
        self._open()
        check_free(new, self._ids)
        labels, ids, array = list(self._labels), dict(self._ids), None
        for number in new:
            del ids[labels[number]]
        for number, label in new.items():
            labels[number] = label
            ids[label] = number
        values = label_array(list(new.values()), self.kind)
        if _fit_into(values, self.array):
            array = self.array.copy()
            array[list(new)] = values
        self._labels, self._ids, self._array, self._buffer = labels, ids, array, None

    def number(self, label: object) -> int:
        """The id of a known label, whatever it stands for."""
        self._open()
        return self._ids[label]

    def missing(self, labels: np.ndarray) -> list:
        """The labels that are unknown."""
        self._open()
        return [label for label in labels.tolist() if label not in self._ids]

    def find(self, y: np.ndarray) -> np.ndarray:
        """Ids of the labels in y, -1 for unknown and removed ones."""
        self._open()
        found = np.fromiter((self._ids.get(label, -1) for label in y.tolist()), np.int32, len(y))
        return found if self.target is None else np.where(found < 0, np.int32(-1), self.target[found])

    def encode(self, y: np.ndarray) -> np.ndarray:
        """Ids of the labels in y, all of which must be known."""
        self._open()
        unique, inverse = np.unique(y, return_inverse=True)
        ids = np.fromiter((self._ids[label] for label in unique.tolist()), np.int32, len(unique))
        return ids[inverse] if self.target is None else self.target[ids][inverse]


def _append(new: np.ndarray, labels: list, ids: dict) -> None:
    for label in new.tolist():
        if label not in ids:
            ids[label] = len(labels)
            labels.append(label)


def _standing(target: np.ndarray, own: Sequence[int]) -> np.ndarray | None:
    """`target` with the classes `own` neither removed nor merged; None if no class is. Mutates: target."""
    for number in own:
        target[number] = number
    return None if (target == np.arange(len(target))).all() else target


def check_free(new: dict[int, object], ids: dict) -> None:
    """ValueError if a new label of some classes is that of another class."""
    for label in new.values():
        number = ids.get(label, -1)
        if number >= 0 and number not in new:
            raise ValueError(f"{label!r} is the label of another class. To join two classes, merge them.")


def label_array(labels: list, kind: str) -> np.ndarray:
    """Labels as an array: objects if they came as objects, or if text of a fixed width would be mostly padding."""
    text = kind in "US" and is_mostly_padding(labels)
    return np.array(labels, dtype=object) if kind == "O" or text else number_array(labels)


def number_array(numbers: Sequence) -> np.ndarray:
    """An array with the numbers (or text) unchanged: numpy would convert some integers to floats."""
    array = np.array(numbers)
    if len(numbers) and array.dtype.kind == "f" and all(isinstance(number, int) for number in numbers):
        return np.array(numbers, np.uint64 if min(numbers) >= 0 else object)
    changed = array.dtype.kind == "f" and array.tolist() != list(numbers)  # a large integer beside a fraction
    return np.array(numbers, object) if changed else array


def _fit_into(new: np.ndarray, array: np.ndarray) -> bool:
    """Whether an array can take new labels without a change."""
    whole = array.dtype == np.uint64 and new.dtype.kind == "i" and new.min(initial=0) >= 0
    if array.dtype.kind == "f" and new.dtype.kind in "iu":
        return new.astype(array.dtype).tolist() == new.tolist()
    return whole or np.result_type(array, new) == array.dtype


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
