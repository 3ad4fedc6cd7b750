"""Taxonomies: a tree over the labels that the user has, and predictions of its inner nodes where a label is unsure."""

from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from typing import Annotated, Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..io.texts import pack_texts, unpack_texts
from .invariants import need, need_range
from .locks import reads
from .options import as_float
from .protocol import Mixin
from .state import Array, Field
from .validation import is_missing

SEPARATOR = ">"
MAX_DEPTH = 1000  # levels
_MOST_ABOVE, _ABOVE_EACH = 1 << 24, 32  # pairs of a node and a node above it: so many, and so many more for each node
JOINT = " > "  # between the names of a path, where it is written as one text


class TaxonomyArrays(NamedTuple):
    """A taxonomy in a model; node 0 is the root."""

    parent: Annotated[Array, Field("i4", ("node",), -1)]
    key_bytes: Annotated[Array, Field("u1", ("key_byte",))]
    key_end: Annotated[Array, Field("i8", ("node",))]
    name_bytes: Annotated[Array, Field("u1", ("name_byte",))]
    name_end: Annotated[Array, Field("i8", ("node",))]


class Taxonomy:
    """A tree of named nodes, some or all of which are labels. Inner nodes may be labels too.

    Use `from_parents` or `from_paths`; `fit(..., hierarchy=...)` of `LabelTreeClassifier` and `predict_path` also take
    the mappings that these functions take.

    Parameters
    ----------
    parent : array-like of int of shape (n_nodes,)
        The parent of each node. Node 0 is the root; its parent is -1.
    keys : sequence of str
        The identifier of each node: a label as text, or any other text that no other node has. The root has "".
    names : sequence of str, optional
        The name that is shown for each node. By default, its key.

    Attributes
    ----------
    parent : ndarray of int of shape (n_nodes,)
        The parent of each node.
    depth : ndarray of int of shape (n_nodes,)
        Number of nodes above each node; 0 for the root.
    keys, names : ndarrays of str of shape (n_nodes,)
        As above.

    Examples
    --------
    >>> from manyclass import Taxonomy
    >>> taxonomy = Taxonomy.from_parents({"apple": "fruit", "pear": "fruit", "fruit": "food", "bread": "food"})
    >>> taxonomy.path("pear")
    ('food', 'fruit', 'pear')
    >>> Taxonomy.from_paths(["Food > Fruit > Apple", "Food > Bread"]).path("Food > Bread")
    ('Food', 'Bread')
    """

    def __init__(self, parent, keys, names=None):
        self.parent = np.asarray(parent, np.int32)
        self.keys = np.array([str(key) for key in keys], object)
        self.names = self.keys if names is None else np.array([str(name) for name in names], object)
        if not len(self.parent) == len(self.keys) == len(self.names) or not len(self.keys):
            raise ValueError(
                f"parent, keys and names must have one entry per node, the root first; got {len(self.parent)}, "
                f"{len(self.keys)} and {len(self.names)}."
            )
        self._nodes = {key: node for node, key in enumerate(self.keys)}
        if len(self._nodes) < len(self.keys):
            key = next(key for node, key in enumerate(self.keys) if self._nodes[key] != node)
            raise ValueError(f"Two nodes of the taxonomy have the same key {key!r}.")
        self.depth = _depths(self.parent, self.keys)

    @classmethod
    def from_parents(cls, parents: Mapping[Any, Any]) -> "Taxonomy":
        """Make a taxonomy from the parent of each label.

        Parameters
        ----------
        parents : mapping of label to parent
            A parent is another key, or None, NaN or "" at the top. A parent that is not a key is at the top as well.

        Returns
        -------
        taxonomy : Taxonomy
            A ValueError is raised if the parents have a cycle.
        """
        if not hasattr(parents, "items"):
            raise ValueError(f"parents must be a dict of label to parent, got {parents!r}.")
        for label, above in parents.items():
            if isinstance(above, (list, tuple, set, dict)):
                raise ValueError(f"The parent of {label!r} is a {type(above).__name__}: pass one parent per label.")
        whole = all(isinstance(label, Integral) for label in parents)  # pandas makes floats of them beside NaN
        known = {_key(label): _key(_parent(above, whole)) for label, above in parents.items()}
        if "" in known:
            raise ValueError("A label of the hierarchy is empty or None: leave it out, the root needs no entry.")
        keys = list(dict.fromkeys(["", *known, *known.values()]))
        node = {key: at for at, key in enumerate(keys)}
        return cls([-1, *(node[known.get(key, "")] for key in keys[1:])], keys)

    @classmethod
    def from_paths(cls, paths: Mapping[Any, str] | Iterable[str], separator: str = SEPARATOR) -> "Taxonomy":
        """Make a taxonomy from paths such as "Food > Fruit > Apple".

        Parameters
        ----------
        paths : mapping of label to path, or iterable of labels that are paths
            The last part of a path is the label itself. None or "": the label is at the top.
        separator : str, default=">"
            What separates the parts. Spaces around them do not count.

        Returns
        -------
        taxonomy : Taxonomy
        """
        if isinstance(paths, str) or not isinstance(paths, Iterable):
            raise ValueError(f"paths must be a dict of label to path, or a list of paths, got {paths!r}.")
        if not isinstance(separator, str) or not separator:
            raise ValueError(f"separator must be a text that is not empty, got {separator!r}.")
        listed = paths.items() if isinstance(paths, Mapping) else ((path, path) for path in dict.fromkeys(paths))
        node: dict[tuple[str, ...], int] = {(): 0}
        parent, keys = [-1], [""]
        labels: dict[int, Any] = {}
        for label, path in listed:
            path = label if path is None or path == "" else path
            parts = tuple(part.strip() for part in str(path).split(separator))
            if len(parts) > MAX_DEPTH:
                raise ValueError(
                    f"The path {str(path)[:40]!r}... has {len(parts)} parts; at most {MAX_DEPTH} are possible."
                )
            if not all(parts):
                raise ValueError(f"The path {str(path)!r} has an empty part: write it as 'A {separator} B'.")
            for size in range(1, len(parts) + 1):
                if parts[:size] not in node:
                    node[parts[:size]] = len(parent)
                    parent.append(node[parts[: size - 1]])
                    keys.append(JOINT.join(parts[:size]))
            at = node[parts]
            if labels.setdefault(at, label) != label:
                raise ValueError(
                    f"The labels {labels[at]!r} and {label!r} have the same path {str(path)!r}: "
                    f"let the path of each label end in its own name, as in {JOINT.join([*parts, str(label)])!r}."
                )
        for at, label in labels.items():
            keys[at] = _key(label)
        return cls(parent, keys, [path[-1] if path else "" for path in node])

    def __len__(self) -> int:
        return len(self.parent)

    def find(self, labels: Iterable[Any]) -> np.ndarray:
        """Find the nodes of labels.

        Parameters
        ----------
        labels : array-like of shape (n_labels,)
            Labels, or keys of nodes.

        Returns
        -------
        nodes : ndarray of int of shape (n_labels,)
            -1 for labels that the taxonomy does not have.
        """
        listed = labels.tolist() if isinstance(labels, np.ndarray) else list(labels)
        return np.fromiter((self._nodes.get(_key(label), -1) for label in listed), np.int32, len(listed))

    def path(self, label: Any) -> tuple[str, ...]:
        """List the names from the top to a label; empty for the root.

        Parameters
        ----------
        label : object
            A label, or the key of a node. A ValueError is raised if the taxonomy does not have it.

        Returns
        -------
        path : tuple of str
        """
        node = int(self.find([label])[0])
        if node < 0:
            raise ValueError(f"The taxonomy has no node {label!r}.")
        return self._path(node)

    def _path(self, node: int) -> tuple[str, ...]:
        names = []
        while node > 0:
            names.append(self.names[node])
            node = int(self.parent[node])
        return tuple(reversed(names))

    def ancestors(self, nodes: np.ndarray) -> sp.csr_array:
        """Find the nodes above each of the given nodes, including the node itself and the root.

        Parameters
        ----------
        nodes : array-like of int of shape (n,)
            Nodes. For -1, only the root is found.

        Returns
        -------
        above : csr_array of shape (n, n_nodes), float32
            Ones.
        """
        given = np.asarray(nodes)
        if given.ndim != 1 or (given.size and (given.dtype.kind not in "iu" or given.max() >= len(self))):
            raise ValueError(f"nodes must be a list of integers below {len(self)}, got {nodes!r}.")
        at = np.maximum(given, 0).astype(np.int64)
        row, rows, columns = np.arange(len(at)), [], []
        while len(row):
            rows.append(row)
            columns.append(at)
            inner = at > 0
            row, at = row[inner], self.parent[at[inner]]
        where = np.concatenate([np.empty(0, int), *rows]), np.concatenate([np.empty(0, int), *columns])
        return sp.csr_array((np.ones(len(where[0]), np.float32), where), shape=(len(given), len(self)))


def _key(label: Any) -> str:
    """The text that stands for a label; None is the root."""
    return "" if label is None else str(label)


def _parent(above: Any, whole: bool) -> Any:
    """A parent, None if it is missing; `whole`: labels are integers."""
    if is_missing(above):
        return None
    return int(above) if whole and isinstance(above, float) and above.is_integer() else above


def _depths(parent: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """The depth of each node, or a ValueError for a parent that does not exist or a cycle."""
    n = len(parent)
    wrong = np.flatnonzero((parent[1:] < 0) | (parent[1:] >= n)) + 1
    if len(wrong):
        raise ValueError(f"The parent of node {keys[wrong[0]]!r} is {parent[wrong[0]]}, but nodes are 0 to {n - 1}.")
    if parent[0] != -1:
        raise ValueError(f"Node 0 must be the root, with parent -1, not {parent[0]}.")
    depth, level, at = np.zeros(n, np.int32), np.arange(1, n), parent[1:]
    n_above = 0
    for step in range(1, MAX_DEPTH + 1):
        depth[level] = step
        n_above += len(level)
        inner = at > 0
        level, at = level[inner], parent[at[inner]]
        if n_above > _MOST_ABOVE + _ABOVE_EACH * n:
            average = f"more than {_MOST_ABOVE / n + _ABOVE_EACH:.0f} levels on average, or a cycle"
            raise ValueError(f"The hierarchy of {n} nodes is too deep: {average}.")
        if not len(level):
            return depth
    chain, above = {int(level[0]): 0}, int(parent[level[0]])
    while above > 0 and above not in chain:
        chain[above] = len(chain)
        above = int(parent[above])
    if above == 0:
        raise ValueError(f"The hierarchy is deeper than {MAX_DEPTH} levels, at {keys[level[0]]!r}.")
    cycle = [str(keys[node]) for node in [*list(chain)[chain[above] :], above]]
    raise ValueError(f"The hierarchy has a cycle: {' < '.join(cycle[:6])}{' < ...' if len(cycle) > 6 else ''}.")


def as_taxonomy(hierarchy: Any, labels: np.ndarray) -> Taxonomy:
    """The taxonomy from what a user passes, or a ValueError if it does not have all labels."""
    if isinstance(hierarchy, Taxonomy):
        taxonomy = hierarchy
    elif isinstance(hierarchy, str) and hierarchy == "path":
        taxonomy = Taxonomy.from_paths(labels.tolist())
    elif isinstance(hierarchy, Mapping):
        paths = any(isinstance(above, str) and SEPARATOR in above for above in hierarchy.values())
        taxonomy = Taxonomy.from_paths(hierarchy) if paths else Taxonomy.from_parents(hierarchy)
    else:
        raise ValueError(
            'hierarchy must be a mapping of label to parent or to path, a Taxonomy, or "path" where the labels are '
            f"paths, got {type(hierarchy).__name__}."
        )
    missing = np.flatnonzero(taxonomy.find(labels) < 0)
    if len(missing):
        names = ", ".join(repr(label) for label in labels[missing[:5]].tolist())
        raise ValueError(
            f"The hierarchy has no place for {len(missing)} of {len(labels)} labels, such as {names}: add them, "
            "with None or an empty parent at the top."
        )
    return taxonomy


# -- in a model ----------------------------------------------------------------------------------------------------


def to_arrays(taxonomy: Taxonomy) -> TaxonomyArrays:
    """The taxonomy as plain arrays."""
    keys, names = (pack_texts(list(texts)) for texts in (taxonomy.keys, taxonomy.names))
    return TaxonomyArrays(taxonomy.parent, keys["bytes"], keys["end"], names["bytes"], names["end"])


def from_arrays(arrays: TaxonomyArrays) -> Taxonomy:
    """The taxonomy from its arrays, which `check_taxonomy` has accepted."""
    keys = unpack_texts(arrays.key_bytes, arrays.key_end)
    return Taxonomy(arrays.parent, keys, unpack_texts(arrays.name_bytes, arrays.name_end))


def renamed(arrays: TaxonomyArrays, names: Mapping) -> TaxonomyArrays:
    """The taxonomy with other labels; a ValueError if a new one is that of another node."""
    keys = unpack_texts(arrays.key_bytes, arrays.key_end)
    shown = unpack_texts(arrays.name_bytes, arrays.name_end)
    node_of = {key: node for node, key in enumerate(keys)}  # before any change: labels may be exchanged
    for old, new in names.items():
        node = node_of.get(_key(old))
        if node is not None:
            shown[node] = _key(new) if shown[node] == keys[node] else shown[node]
            keys[node] = _key(new)
    return to_arrays(Taxonomy(arrays.parent, keys, shown))


def check_taxonomy(arrays: TaxonomyArrays) -> None:
    """ModelFormatError unless the arrays are a tree whose nodes have different keys."""
    need(len(arrays.parent) > 0 and arrays.parent[0] == -1, "the taxonomy has no root.")
    need_range("taxonomy.parent", arrays.parent[1:], 0, len(arrays.parent))
    try:
        from_arrays(arrays)
    except ValueError as error:
        need(False, f"the taxonomy is invalid: {error}")


class PathPredictions(NamedTuple):
    """Nodes of a taxonomy that are predicted with confidence.

    Attributes
    ----------
    paths : list of tuple of str
        The names from the top to the node of each row. Empty if not even a node at the top is probable enough.
    probabilities : ndarray of shape (n_samples,)
        The probability of the node; 1 for the root.
    keys : ndarray of shape (n_samples,)
        The key of the node in the taxonomy: for a label, the label as text; "" for the root.
    """

    paths: list[tuple[str, ...]]
    probabilities: np.ndarray
    keys: np.ndarray


class TaxonomyMixin(Mixin):
    """`taxonomy_` and `predict_path`."""

    _known_taxonomy: tuple[Any, Any] = (None, None)  # arrays, and the taxonomy made from them
    _known_nodes: tuple[Any, Any, Any] = (None, None, None)  # a taxonomy, labels, and their nodes

    @property
    @reads
    def taxonomy_(self) -> Taxonomy:
        """The taxonomy that `fit` was given, or the learned tree of a label tree."""
        if not hasattr(self, "_state"):
            raise AttributeError(f"This {type(self).__name__} is not fitted yet and has no taxonomy_.")
        arrays = self._state.get("taxonomy")
        if arrays is not None:
            if self._known_taxonomy[0] is not arrays:
                self._known_taxonomy = arrays, from_arrays(arrays)
            return self._known_taxonomy[1]
        if not hasattr(self._model, "grouped_labels"):
            raise AttributeError(f"This {type(self).__name__} has no taxonomy: pass one to predict_path.")
        return Taxonomy(*self._model.grouped_labels(self._state, self._index.array, self._index.target))

    @reads
    def predict_path(self, X, confidence=0.9, taxonomy=None) -> PathPredictions:
        """Predict the deepest node of a taxonomy that is probable enough: a label, or a group of labels.

        The probability of a node is the sum of the probabilities of the labels below it and its own.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Data.
        confidence : float, default=0.9
            The lowest probability that a predicted node may have; above 0 and up to 1.
        taxonomy : Taxonomy, mapping or "path", optional
            As `hierarchy` in `LabelTreeClassifier.fit`. By default the one that `fit` was given; without it, the
            learned tree of a label tree, whose groups are named by their most frequent labels. Labels added after
            `fit` that the taxonomy does not have count for the root only.

        Returns
        -------
        predictions : PathPredictions
            `paths`, `probabilities` and `keys`.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from manyclass import RecallTreeClassifier
        >>> X, y = load_digits(return_X_y=True)
        >>> clf = RecallTreeClassifier(n_epochs=2, random_state=0).fit(X, y)
        >>> shapes = {digit: "round" if digit in (0, 3, 6, 8, 9) else "straight" for digit in range(10)}
        >>> clf.predict_path(X[:1], confidence=0.5, taxonomy=shapes).paths
        [('round', '0')]
        """
        if not isinstance(confidence, Real) or isinstance(confidence, bool) or not 0 < as_float(confidence) <= 1:
            raise ValueError(f"confidence must be a number above 0 and up to 1, got {confidence!r}.")
        X = self._check_inputs(X)
        if self._multilabel:
            raise ValueError(
                "predict_path requires one label per row; this model was fitted with a matrix y. Several labels of a "
                "row can be true at once, so that the probability of a group is not the sum of those of its labels."
            )
        if taxonomy is None:
            try:
                tree = self.taxonomy_
            except AttributeError as error:  # of `taxonomy_`; a method has a wrong argument
                raise ValueError(str(error)) from None
        else:
            tree = as_taxonomy(taxonomy, self._index.current)
        known = self._known_nodes
        if known[0] is not tree or known[1] is not self._index.array:
            known = self._known_nodes = tree, self._index.array, tree.find(self._index.array)
        node_of, parts = known[2], []
        for _, _, scored in self._calibrated(X):
            pointer = np.concatenate([[0], np.cumsum(scored.sizes)])
            parts.append(_deepest(tree, pointer, node_of[scored.labels], scored.probabilities, float(confidence)))
        nodes, probabilities = map(np.concatenate, zip(*parts, strict=True))
        return PathPredictions([tree._path(node) for node in nodes.tolist()], probabilities, tree.keys[nodes])


def _deepest(
    tree: Taxonomy, pointer: np.ndarray, nodes: np.ndarray, probabilities: np.ndarray, confidence: float
) -> tuple[np.ndarray, np.ndarray]:
    """For each row, the deepest node of at least this probability, of several the most probable; else the root.

    `nodes` and `probabilities` are those of the candidates of all rows, one row after the other.
    """
    known, column = np.unique(nodes, return_inverse=True)
    candidates = sp.csr_array((probabilities.astype(float), column, pointer), shape=(len(pointer) - 1, len(known)))
    sums = (candidates @ tree.ancestors(known)).tocoo()
    depth = tree.depth[sums.col]
    enough = (sums.data >= confidence - 1e-6) & (depth > 0)  # float32 sums
    row, node, probability, depth = sums.row[enough], sums.col[enough], sums.data[enough], depth[enough]
    order = np.lexsort((probability, depth, row))  # the last of each row is the best
    out, of = np.zeros(len(pointer) - 1, int), np.ones(len(pointer) - 1)
    out[row[order]], of[row[order]] = node[order], np.minimum(probability[order], 1.0)
    return out, of
