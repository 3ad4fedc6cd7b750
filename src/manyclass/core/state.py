"""Named groups of arrays: the schema of every shared group, and functions that make, grow, flatten and rebuild groups.

A group is a NamedTuple of plain arrays. Each array is declared once with its type, dimensions and initial value. A
number that changes is an array of one element, so that a kernel can change it.
"""

import re
from typing import Annotated, Any, NamedTuple, get_type_hints

import numpy as np

from .model_file import ModelFormatError


class Field(NamedTuple):
    """How one array of a group looks."""

    dtype: str
    dims: tuple[str, ...]
    fill: float = 0
    # Weights that a slim file may round, and what tells their size: their feature, known by column, line or entry (the
    # group's `feature`); the length of their line (the group's `sq_norm`); nothing (run). Empty: never rounded.
    rounds: str = ""


Array = np.ndarray


class Tree(NamedTuple):
    """Nodes as parallel arrays; node 0 is the root, -1 is nobody."""

    children: Annotated[Array, Field("i4", ("node", "side"), -1)]
    parent: Annotated[Array, Field("i4", ("node",), -1)]
    depth: Annotated[Array, Field("i4", ("node",))]
    n_nodes: Annotated[Array, Field("i8", ("one",), 1)]


class Linear(NamedTuple):
    """Linear predictors: (row, feature) weights, or one hashed table where `mask` is not 0."""

    weight: Annotated[Array, Field("f4", ("weight_row", "weight_column"), 0, "column")]
    grad_sq: Annotated[Array, Field("f4", ("square_row", "square_column"), 0)]
    bias: Annotated[Array, Field("f4", ("row",), 0)]
    bias_grad_sq: Annotated[Array, Field("f4", ("row",), 0)]
    mask: Annotated[Array, Field("i8", ("one",))]
    n_rows: Annotated[Array, Field("i8", ("one",))]


class Means(NamedTuple):
    """Running sums of the rows of each class: (class, feature), or one hashed table where `mask` is not 0."""

    total: Annotated[Array, Field("f4", ("total_row", "total_column"), 0, "length")]
    sq_norm: Annotated[Array, Field("f8", ("row",))]  # squared lengths of the sums
    mask: Annotated[Array, Field("i8", ("one",))]


class Counts(NamedTuple):
    """Mass of all labels that came by a node, and the bound on the recall of its candidates."""

    total: Annotated[Array, Field("f8", ("node",), 0)]
    bound: Annotated[Array, Field("f8", ("node",))]


class Candidates(NamedTuple):
    """The heaviest labels of each node, heaviest first, and the mass they cover."""

    label: Annotated[Array, Field("i4", ("node", "slot"), -1)]
    mass: Annotated[Array, Field("f8", ("node", "slot"), 0)]
    size: Annotated[Array, Field("i4", ("node",))]
    covered: Annotated[Array, Field("f8", ("node",), 0)]


class LabelTable(NamedTuple):
    """Open addressing on (node, label): its mass, and the row of its path features (-1: none yet)."""

    key: Annotated[Array, Field("i8", ("entry",), -1)]
    mass: Annotated[Array, Field("f8", ("entry",), 0)]
    path_row: Annotated[Array, Field("i4", ("entry",), -1)]
    n_entries: Annotated[Array, Field("i8", ("one",))]


class GrownTree(NamedTuple):
    """Binary nodes that may be taken out of the tree and used again; each life of a node has an identity of its own."""

    children: Annotated[Array, Field("i4", ("node", "side"), -1)]
    parent: Annotated[Array, Field("i4", ("node",), -1)]
    identity: Annotated[Array, Field("i4", ("node",))]
    n_nodes: Annotated[Array, Field("i8", ("one",), 1)]
    n_identities: Annotated[Array, Field("i8", ("one",), 1)]


class NodeMargins(NamedTuple):
    """Of each node: the rows it had as a leaf, its lightest leaf, and the sum and mass of its router's margins."""

    total: Annotated[Array, Field("f8", ("node",), 0)]
    smallest: Annotated[Array, Field("f8", ("node",))]
    margin: Annotated[Array, Field("f8", ("node",), 0)]
    taught: Annotated[Array, Field("f8", ("node",), 0)]


class MarginTable(NamedTuple):
    """Open addressing on (identity, label): mass of all rows, and the sum and mass of the margins."""

    key: Annotated[Array, Field("i8", ("entry",), -1)]
    mass: Annotated[Array, Field("f8", ("entry",), 0)]
    margin: Annotated[Array, Field("f8", ("entry",), 0)]
    taught: Annotated[Array, Field("f8", ("entry",), 0)]
    n_entries: Annotated[Array, Field("i8", ("one",))]


class MlomNodes(NamedTuple):
    """Of each node of an MLOM tree: its classes in order of their means, and the nodes out of the tree, in a chain."""

    members: Annotated[Array, Field("i4", ("node",), -1)]  # entry at the top of the ordered set; -1: no class
    mean_sum: Annotated[Array, Field("f8", ("node",))]
    next_free: Annotated[Array, Field("i4", ("node",), -1)]
    first_free: Annotated[Array, Field("i8", ("one",), -1)]
    n_free: Annotated[Array, Field("i8", ("one",))]


class MlomTable(NamedTuple):
    """Open addressing on (identity, label): the statistics of a class at a node, and its place in the ordered set."""

    key: Annotated[Array, Field("i8", ("entry",), -1)]
    mass: Annotated[Array, Field("f8", ("entry",), 0)]
    margin: Annotated[Array, Field("f8", ("entry",), 0)]
    taught: Annotated[Array, Field("f8", ("entry",), 0)]
    mean: Annotated[Array, Field("f8", ("entry",))]
    active: Annotated[Array, Field("i1", ("entry",))]  # 0: suspended
    side: Annotated[Array, Field("i1", ("entry",), -1)]  # where the class goes from here; -1: nowhere yet
    left: Annotated[Array, Field("i4", ("entry",), -1)]
    right: Annotated[Array, Field("i4", ("entry",), -1)]
    size: Annotated[Array, Field("i4", ("entry",))]
    n_entries: Annotated[Array, Field("i8", ("one",))]


class LabelTree(NamedTuple):
    """A wide tree: the outputs of an inner node are its children, those of a leaf are labels. Node 0 is the root."""

    outputs: Annotated[Array, Field("i4", ("node", "output"), -1)]
    size: Annotated[Array, Field("i4", ("node",))]
    is_leaf: Annotated[Array, Field("i1", ("node",), 1)]
    parent: Annotated[Array, Field("i4", ("node",), -1)]
    place: Annotated[Array, Field("i4", ("node",), -1)]  # which output of its parent a node is
    leaf_of: Annotated[Array, Field("i4", ("class",), -1)]
    place_of: Annotated[Array, Field("i4", ("class",), -1)]
    mass: Annotated[Array, Field("f8", ("class",), 0)]  # of the rows that had the label
    n_nodes: Annotated[Array, Field("i8", ("one",), 1)]


class Blocks(NamedTuple):
    """Weights of a wide tree: each node's table of features, and for each (node, feature) a block of all outputs."""

    first: Annotated[Array, Field("i8", ("node",))]  # where a node's table begins in `feature` and `record`
    mask: Annotated[Array, Field("i8", ("node",), -1)]  # size of the table less one
    n_used: Annotated[Array, Field("i8", ("node",))]
    feature: Annotated[Array, Field("i4", ("entry",), -1)]
    record: Annotated[Array, Field("i4", ("entry",))]
    weight: Annotated[Array, Field("f4", ("record", "place"), 0)]
    total: Annotated[Array, Field("f4", ("record", "place"), 0)]  # running sums of the rows of each output
    bias: Annotated[Array, Field("f4", ("node", "place"), 0)]
    sq_norm: Annotated[Array, Field("f8", ("node", "place"))]  # squared lengths of the sums; below 0: folded
    free: Annotated[Array, Field("i8", ("table_size",), -1)]  # first free table of each size
    n_entries: Annotated[Array, Field("i8", ("one",))]
    n_records: Annotated[Array, Field("i8", ("one",))]


class SlimBlocks(NamedTuple):
    """Weights of a wide tree for answers only: each node's features, sorted, and the weights that are not zero."""

    first: Annotated[Array, Field("i8", ("node_end",))]  # where a node's features begin, and end: the next one's begin
    feature: Annotated[Array, Field("i4", ("entry",), -1)]
    begin: Annotated[Array, Field("u4", ("entry",))]  # where a feature's weights begin
    lanes: Annotated[Array, Field("u2", ("entry", "part"))]  # a bit for each output that has a weight
    value: Annotated[Array, Field("f4", ("value",), rounds="run")]
    bias: Annotated[Array, Field("f4", ("node", "place"))]


class Scale(NamedTuple):
    """What the stream has shown of the features' sizes."""

    inverse: Annotated[Array, Field("f4", ("feature",), 0)]  # 1 / largest value; 0: only zeros so far
    sq_norm: Annotated[Array, Field("f8", ("one",), 0)]
    normalized: Annotated[Array, Field("f8", ("one",), 0)]
    n_rows: Annotated[Array, Field("f8", ("one",), 0)]


class Seen(NamedTuple):
    """What was learned so far, and how the answers given before learning fared (progressive validation)."""

    n_labels: Annotated[Array, Field("i8", ("one",), 0)]
    n_rows: Annotated[Array, Field("i8", ("one",), 0)]
    mass: Annotated[Array, Field("f8", ("one",), 0)]
    wrong_mass: Annotated[Array, Field("f8", ("one",), 0)]


class Run(NamedTuple):
    """How often in a row the same label came last."""

    label: Annotated[Array, Field("i8", ("one",), -1)]
    length: Annotated[Array, Field("i8", ("one",))]
    mass: Annotated[Array, Field("f8", ("one",), 0)]  # of all labels so far


class Columns(NamedTuple):
    """One-against-all weights, all classes of a feature side by side; `mask` not 0: features are hashed."""

    weight: Annotated[Array, Field("f4", ("bucket", "class"), 0, "line")]
    grad_sq: Annotated[Array, Field("f4", ("square_bucket", "square_class"), 0)]
    bias: Annotated[Array, Field("f4", ("class",), 0)]
    bias_grad_sq: Annotated[Array, Field("f4", ("class",), 0)]
    mask: Annotated[Array, Field("i8", ("one",))]


class Projection(NamedTuple):
    """The shared map of features to a few numbers in the low-rank form."""

    weight: Annotated[Array, Field("f4", ("bucket", "rank"), 0, "line")]
    grad_sq: Annotated[Array, Field("f4", ("square_bucket", "rank"), 0)]


State = dict[str, Any]  # group name -> group


def fields_of(group: type) -> dict[str, Field]:
    """The declared fields of a group type, in order."""
    hints = get_type_hints(group, include_extras=True)
    return {name: hint.__metadata__[0] for name, hint in hints.items()}


def make(group: type, **sizes: int) -> Any:
    """A fresh group of the given sizes."""
    sizes = {"one": 1, **sizes}
    return group(
        *(
            _filled(tuple(sizes[dim] for dim in field.dims), field.dtype, field.fill)
            for field in fields_of(group).values()
        )
    )


def resize(group: Any, **sizes: int) -> Any:
    """The same group with some dimensions larger; arrays that do not grow are kept as they are."""
    out = []
    for array, field in zip(group, fields_of(type(group)).values(), strict=True):
        shape = tuple(max(have, sizes.get(dim, have)) for have, dim in zip(array.shape, field.dims, strict=True))
        if shape != array.shape:
            larger = _filled(shape, field.dtype, field.fill)
            larger[tuple(slice(0, have) for have in array.shape)] = array
            array = larger
        out.append(array)
    return type(group)(*out)


def cut(group: Any, **sizes: int) -> Any:
    """The same group with some dimensions smaller: the first so many, without a copy."""
    fields = fields_of(type(group)).values()
    return type(group)(
        *(
            array[tuple(slice(0, sizes.get(dim)) for dim in field.dims)]
            for array, field in zip(group, fields, strict=True)
        )
    )


def copy(group: Any) -> Any:
    """The same group with arrays of its own."""
    return type(group)(*(array.copy() for array in group))


def flatten(state: State) -> dict[str, np.ndarray]:
    """`{"tree.children": array, ...}`: the names a file uses."""
    return {f"{name}.{field}": array for name, group in state.items() for field, array in group._asdict().items()}


def unflatten(arrays: dict[str, np.ndarray], types: dict[str, Any]) -> State:
    """The groups again, from the arrays of a file: all that must be there, of their types and dimensions.

    A further tree's groups are those of the first with a number behind the name: `tree_1`.
    """
    state = {}
    for name, (group, fields) in groups_of(arrays, types).items():
        state[name] = group(**_checked(name, fields, fields_of(group)))
    missing = [name for name, kinds in types.items() if name not in state and not _optional(kinds)]
    if missing:
        raise ModelFormatError(f"the group of arrays {missing[0]!r} is missing.")
    return state


def groups_of(
    arrays: dict[str, np.ndarray], types: dict[str, Any], ignore: str | None = None
) -> dict[str, tuple[Any, dict[str, np.ndarray]]]:
    """Type and arrays of every group in a file; those arrays whose names end in `ignore` are left out."""
    named: dict[str, dict[str, np.ndarray]] = {}
    for full, array in arrays.items():
        name, _, field = full.partition(".")
        if ignore is None or not field.endswith(ignore):
            named.setdefault(name, {})[field] = array
    out = {}
    for name, fields in named.items():
        kinds = types.get(re.sub(r"_[1-9][0-9]{0,2}$", "", name))
        if kinds is None:
            raise ModelFormatError(f"there is no group of arrays named {name!r} in this algorithm.")
        kinds = [kind for kind in (kinds if isinstance(kinds, tuple) else (kinds,)) if kind is not None]
        out[name] = next((kind for kind in kinds if set(kind._fields) == set(fields)), kinds[0]), fields
    return out


def _optional(kinds: Any) -> bool:
    """Whether a state may be without the group: None is one of its types."""
    return isinstance(kinds, tuple) and None in kinds


def _checked(name: str, arrays: dict[str, np.ndarray], fields: dict[str, Field]) -> dict[str, np.ndarray]:
    if set(arrays) != set(fields):
        wrong = sorted(set(arrays) ^ set(fields))
        raise ModelFormatError(f"group {name!r} lacks, or should not have, the array {wrong[0]!r}.")
    sizes = {"one": 1}
    for field, how in fields.items():
        array = arrays[field]
        if array.dtype != np.dtype(how.dtype) or array.ndim != len(how.dims):
            raise ModelFormatError(
                f"array {name}.{field} is {array.ndim}-dimensional {array.dtype}, not {len(how.dims)}-dimensional "
                f"{np.dtype(how.dtype)}."
            )
        for dim, size in zip(how.dims, array.shape, strict=True):
            if sizes.setdefault(dim, size) != size:
                raise ModelFormatError(f"array {name}.{field} has {size} of {dim!r}, others have {sizes[dim]}.")
    return {field: arrays[field] for field in fields}


def n_bytes(state: State) -> int:
    """Bytes of all arrays of a state."""
    return sum(array.nbytes for array in flatten(state).values())


def _filled(shape: tuple[int, ...], dtype: str, fill: float) -> np.ndarray:
    # zeros are handed out by the system untouched: room kept for later costs no memory until it is used
    return np.zeros(shape, dtype) if fill == 0 else np.full(shape, fill, dtype)
