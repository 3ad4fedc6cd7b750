"""Classes that are added, removed, renamed or merged without training.

Nothing that was learned changes: the model goes on scoring its old classes, and `ClassIndex.target` says what each of
them stands for. So a change takes a few microseconds per class, whatever the number of rows, and is the same for all
algorithms. The number of a class never changes. Each method ends by assigning what it has changed at once, so that an
interrupt leaves all or nothing.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from copy import copy
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from .classes import ClassIndex, check_free
from .locks import reads, writes
from .protocol import Mixin, Predictions, Scored
from .taxonomy import renamed
from .validation import blocks, check_labels, ones, without_padding

_AT_A_TIME = 1 << 20  # labels that are predicted in place of removed ones, of all rows
_AT_FIRST = 8  # labels that are predicted in addition, in place of those that were removed


# -- predictions ---------------------------------------------------------------------------------------------------


def current_predictions(
    predict: Callable[[np.ndarray | None, int], Predictions], k: int, index: ClassIndex
) -> Predictions:
    """The k best current classes of all rows. `predict(rows, k)` predicts some rows, or all with None."""
    target = index.target
    assert target is not None and k <= index.n_current
    n_changed = len(target) - index.n_current
    more = min(_AT_FIRST, n_changed)
    found = predict(None, k + more)
    out, lacking = _best_current(found, k, target)
    while len(lacking):
        if more == n_changed:  # with all of them no row lacks labels, unless the labels of a node are repeated
            raise ValueError("The model predicts the same label twice: its file is damaged. Fit it again.")
        more, still = min(4 * more, n_changed), []
        for first, last in blocks(len(lacking), max(1, _AT_A_TIME // (k + more))):
            rows = lacking[first:last]
            part, few = _best_current(predict(rows, k + more), k, target)
            for whole, some in zip(out, part, strict=True):
                whole[rows] = some
            still.append(rows[few])
        lacking = np.concatenate(still)
    return out


def _best_current(found: Predictions, k: int, target: np.ndarray) -> tuple[Predictions, np.ndarray]:
    """The first k labels of each row that are current, and the rows that have fewer."""
    labels = target[found.labels]
    order = np.argsort(labels, axis=1, kind="stable")
    ordered = np.take_along_axis(labels, order, axis=1)
    first = np.ones(labels.shape, bool)
    first[:, 1:] = ordered[:, 1:] != ordered[:, :-1]  # of classes that stand for the same, the best
    kept = np.empty_like(first)
    np.put_along_axis(kept, order, first & (ordered >= 0), axis=1)
    place = np.argsort(~kept, axis=1, kind="stable")[:, :k]
    best, scores = (np.take_along_axis(array, place, axis=1) for array in (labels, found.scores))
    return Predictions(best, scores, found.work), np.flatnonzero(kept.sum(axis=1) < k)


def current_scores(scored: Scored, index: ClassIndex, joint: bool) -> Scored:
    """The probabilities of the current classes; those of merged ones are added up.

    With `joint`, those of a row sum to 1 again.
    """
    target, n = index.target, len(scored.sizes)
    assert target is not None
    row, label = np.repeat(np.arange(n), scored.sizes), target[scored.labels]
    kept = label >= 0
    places, at = np.unique(row[kept] * len(target) + label[kept], return_inverse=True)
    total: np.ndarray = np.bincount(at, scored.probabilities[kept], len(places))
    row, label = places // len(target), (places % len(target)).astype(np.int32)
    if joint:
        total = total / np.maximum(np.bincount(row, total, n), 1e-300)[row]
    else:
        total = np.minimum(total, 1.0)
    return Scored(np.bincount(row, minlength=n), label, total)


def current_columns(matrix: sp.csr_array, index: ClassIndex) -> sp.csr_array:
    """A matrix of zeros and ones with the columns of merged classes joined; removed classes in it are classes again."""
    if index.target is None:
        return matrix
    used = np.unique(matrix.indices)
    index.redirect(index.target.copy(), used[index.target[used] < 0].tolist())
    return joined_columns(matrix, index)


def joined_columns(matrix: sp.csr_array, index: ClassIndex) -> sp.csr_array:
    """A matrix of zeros and ones with the columns of merged classes joined; those of removed classes stay."""
    if index.target is None:
        return matrix
    column = np.arange(matrix.shape[1], dtype=matrix.indices.dtype)
    known = column[: len(index.target)]
    column[: len(known)] = np.where(index.target[: len(known)] < 0, known, index.target[: len(known)])
    return ones(column[matrix.indices], matrix.indptr, matrix.shape[1])


# -- changes -------------------------------------------------------------------------------------------------------


class VocabularyMixin(Mixin):
    """`add_classes`, `remove_classes`, `rename_classes` and `merge_classes` of all classifiers."""

    @writes
    def add_classes(self, classes):
        """Add classes that have no training rows yet, or bring back classes that were removed.

        A new class is predicted after its first rows in `partial_fit`; until then it has the score -inf. A class that
        was removed comes back with its number and with everything that was learned, but without the classes that had
        been merged into it.

        Parameters
        ----------
        classes : array-like
            The labels. With several labels per row, the names or the numbers of further columns.

        Returns
        -------
        self : object
            The estimator.

        Examples
        --------
        >>> from manyclass import LabelTreeClassifier
        >>> clf = LabelTreeClassifier(random_state=0).fit([[0, 1], [1, 0]], ["car", "home"]).add_classes(["fruit"])
        >>> print(clf.classes_)
        ['car' 'home' 'fruit']
        """
        check_is_fitted(self, "_state")
        labels = self._given(classes)
        if self._names is not None:
            places = self._places()
            new = [name for name in labels.tolist() if name not in places]
            back = [places[name] for name in labels.tolist() if name in places]
            columns = np.array([*back, *range(len(self._names), len(self._names) + len(new))])
        else:
            columns, new = labels, self._index.missing(labels)
            _check_whole(new)
            unknown = set(new)
            back = [self._index.number(one) for one in labels.tolist() if one not in unknown]
        target = self._targets()
        merged = [one for one in back if int(target[one]) not in (one, -1)]
        if merged:
            label = self._names_at(np.array(merged))[0]
            raise ValueError(f"{label!r} was merged into another class and cannot be added.")
        if new and not hasattr(self._model, "learn"):
            raise ValueError(
                f"{type(self).__name__} learns all rows at once and cannot learn rows of a new class: fit it again."
            )
        if new and self._slim:
            raise ValueError("This is a slim model, which cannot learn rows of a new class: change the full model.")
        if self._multilabel and self._names is None and not _continues(columns, len(self._index)):
            raise ValueError(
                f"The labels are column numbers: new ones must follow the last one, {len(self._index) - 1}."
            )
        names = None if self._names is None else [*self._names, *new]
        come_back = bool((target[back] < 0).any())
        state = _without_sets(self._state) if come_back else self._state
        alone = names is None and len(labels) == 1 and not come_back  # nothing else changes with it
        index = self._index if alone else self._index.copied()  # a copy takes time for each class
        index.add(columns)
        self._index, self._names, self._state = index, names, state
        return self

    @writes
    def remove_classes(self, classes):
        """Remove classes: from now on they are never predicted.

        Their labels stay in `classes_`, so that the numbers of all classes and the columns of `predict_proba` stay the
        same; `removed_classes_` lists them. Predictions of rows whose best class is another one do not change.
        Without calibration, probabilities of the other classes sum to 1 again. `add_classes`, or `partial_fit` with
        rows of a removed class, brings it back.

        Parameters
        ----------
        classes : array-like
            The labels; with several labels per row, the names or the numbers of columns.

        Returns
        -------
        self : object
            The estimator.

        Examples
        --------
        >>> from manyclass import LabelTreeClassifier
        >>> clf = LabelTreeClassifier(random_state=0).fit([[0, 2], [2, 0], [1, 2]], ["car", "home", "fruit"])
        >>> print(clf.remove_classes(["car"]).predict([[0, 2]]))
        ['fruit']
        """
        check_is_fitted(self, "_state")
        numbers = self._numbers_of(classes)
        target = self._targets()
        target[np.isin(target, numbers)] = -1  # and what was merged into them
        if not (target >= 0).any():
            raise ValueError("At least one class must remain.")
        self._redirect(target)
        return self

    @writes
    def rename_classes(self, names):
        """Give other labels to classes.

        Parameters
        ----------
        names : dict of label to label
            The new label of each old one. With several labels per row, the names of columns.

        Returns
        -------
        self : object
            The estimator.

        Examples
        --------
        >>> from manyclass import LabelTreeClassifier
        >>> clf = LabelTreeClassifier(random_state=0).fit([[0, 1], [1, 0]], ["car", "home"])
        >>> print(clf.rename_classes({"car": "vehicle"}).predict([[0, 1]]))
        ['vehicle']
        """
        check_is_fitted(self, "_state")
        _check_mapping(names, "rename_classes")
        numbers = self._numbers_of(list(names))
        new = self._given(list(names.values())).tolist()
        changes = dict(zip(numbers.tolist(), new, strict=True))
        if self._names is not None:
            check_free(changes, self._places())
            self._names = [str(changes.get(number, name)) for number, name in enumerate(self._names)]
        elif self._multilabel:
            raise ValueError("The labels are column numbers without names: there is nothing to rename.")
        else:
            _check_whole(new)
            index, state = self._index.copied(), self._state
            index.rename(changes)
            if "taxonomy" in state:  # its keys are the labels of the array: 1 even if 1.0 was given
                labels = (one.array[numbers].tolist() for one in (self._index, index))
                state = {**state, "taxonomy": renamed(state["taxonomy"], dict(zip(*labels, strict=True)))}
            self._index, self._state = index, state
        return self

    @writes
    def merge_classes(self, into):
        """Merge classes into others, which are then predicted in their place.

        The score of a merged class is the highest score of its parts, and its probability is the sum of theirs. Rows
        that `partial_fit` gets with the old label count for the new one.

        Parameters
        ----------
        into : dict of label to label
            The class that each old one becomes a part of. Both must be classes of the model.

        Returns
        -------
        self : object
            The estimator.

        Examples
        --------
        >>> from manyclass import LabelTreeClassifier
        >>> clf = LabelTreeClassifier(random_state=0).fit([[0, 2], [2, 0], [1, 2]], ["car", "home", "truck"])
        >>> print(clf.merge_classes({"truck": "car"}).predict([[1, 2], [0, 2]]))
        ['car' 'car']
        """
        check_is_fitted(self, "_state")
        _check_mapping(into, "merge_classes")
        old, new = self._numbers_of(list(into)), self._numbers_of(list(into.values()), repeated=True)
        target = self._targets()
        if np.isin(new, old).any():
            both = list(into.values())[int(np.flatnonzero(np.isin(new, old))[0])]
            raise ValueError(f"{both!r} cannot be merged into another class and be one that others merge into.")
        table = self._targets()
        table[old] = new
        self._redirect(np.where(target < 0, target, table[target]))
        return self

    @property
    @reads
    def removed_classes_(self) -> list:
        """The labels that were removed, or merged into others: they are never predicted."""
        check_is_fitted(self, "_state")
        numbers = np.flatnonzero(self._targets() != np.arange(len(self._index)))
        return self._names_at(numbers)

    def _places(self) -> dict[str, int]:
        """The numbers of the columns by their names."""
        return {name: number for number, name in enumerate(self._names or [])}

    def _names_at(self, numbers: np.ndarray) -> list:
        if self._names is not None:
            return [self._names[number] for number in numbers.tolist()]
        return self._index.array[numbers].tolist()

    def _redirect(self, target: np.ndarray) -> None:
        """Take over what classes stand for; the guarantee of `predict_set` was for the classes before."""
        index = copy(self._index)
        index.redirect(target)
        self._index, self._state = index, _without_sets(self._state)

    def _targets(self) -> np.ndarray:
        """A copy of what each class stands for."""
        return np.arange(len(self._index), dtype=np.int32) if self._index.target is None else self._index.target.copy()

    def _given(self, labels: Any, repeated: bool = False) -> np.ndarray:
        """Labels of the right kind, or a ValueError."""
        labels = without_padding(labels)
        check_labels(labels, "classes")
        values = np.asarray(labels).ravel()
        if not len(values):
            raise ValueError("There is no class in the list: pass at least one.")
        if self._names is None:
            self._index.check_kind(values)
            values = self._index.as_known(values)
        else:
            values = np.array([str(name) for name in values.tolist()], dtype=object)
        if not repeated and len(set(values.tolist())) < len(values):
            label = next(one for one, n in Counter(values.tolist()).items() if n > 1)
            raise ValueError(f"{label!r} is in the list twice.")
        return values

    def _numbers_of(self, labels: Any, repeated: bool = False) -> np.ndarray:
        """The numbers of current classes, or a ValueError."""
        values = self._given(labels, repeated)
        if self._names is not None:
            places = self._places()
            found = np.array([places.get(str(name), -1) for name in values.tolist()], np.int32)
            found = np.where(found < 0, np.int32(-1), self._targets()[found])
        else:
            found = self._index.find(values)
        known = found >= 0
        known[known] = np.array(self._names_at(found[known]), dtype=object) == values[known].astype(object)
        if not known.all():
            label = values[~known].tolist()[0]
            gone = label in self.removed_classes_
            raise ValueError(f"{label!r} {'was removed or merged' if gone else 'is not a class of the model'}.")
        return found


def _without_sets(state: dict[str, Any]) -> dict[str, Any]:
    return {name: group for name, group in state.items() if name != "conformal"}


def _check_whole(labels: list) -> None:
    """Refuse fractions, as `fit` does: beside them, an array would have all labels as floats."""
    for label in labels:
        if isinstance(label, float) and not label.is_integer():
            raise ValueError(f"{label} is not a label: pass texts or whole numbers.")


def _continues(columns: np.ndarray, n: int) -> bool:
    """Whether columns are known, or follow the last one without a gap."""
    new = np.sort(columns[columns >= n])
    return bool((columns >= 0).all() and (new == np.arange(n, n + len(new))).all())


def _check_mapping(given: Any, method: str) -> None:
    if not isinstance(given, Mapping) or not given:
        raise ValueError(f"{method} takes a dict such as {{old: new}}, got {given!r}.")
