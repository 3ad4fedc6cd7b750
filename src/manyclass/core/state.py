"""Named groups of arrays: the schema of every shared group, and functions that make, grow, flatten and rebuild groups.

A group is a NamedTuple of plain arrays. Each array is declared once with its type, dimensions and initial value. A
number that changes is an array of one element, so that a kernel can change it.
"""

import re
from typing import Annotated, Any, NamedTuple, get_type_hints

import numpy as np

from .model_file import ModelFormatError


class Field(NamedTuple):
    """Declaration of one array of a group."""

    dtype: str
    dims: tuple[str, ...]
    fill: float = 0
    # For weights that a slim file may round: which axis is the feature ("column": the second, "line": the first,
    # "entry": listed in the field `feature`; "run": unknown). Before rounding, weights are divided by the size of their
    # feature. Empty: never rounded.
    rounds: str = ""
    limit: float = float("inf")  # of the absolute value of a number in a file
    wide: str = ""  # another type that the array may have, for larger numbers


Array = np.ndarray


class Tree(NamedTuple):
    """Nodes as parallel arrays; node 0 is the root, -1: no node."""

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


class Counts(NamedTuple):
    """Mass of the rows that reached a node, and the bound on the recall of its candidates."""

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


class Scale(NamedTuple):
    """Sizes of the features in all rows so far."""

    inverse: Annotated[Array, Field("f4", ("feature",), 0)]  # 1 / largest value; 0: only zeros so far
    sq_norm: Annotated[Array, Field("f8", ("one",), 0)]
    normalized: Annotated[Array, Field("f8", ("one",), 0)]
    n_rows: Annotated[Array, Field("f8", ("one",), 0)]


class Seen(NamedTuple):
    """Counts of what was learned, and the mass of wrong predictions made before learning (progressive validation)."""

    n_labels: Annotated[Array, Field("i8", ("one",), 0)]
    n_rows: Annotated[Array, Field("i8", ("one",), 0)]
    mass: Annotated[Array, Field("f8", ("one",), 0)]
    wrong_mass: Annotated[Array, Field("f8", ("one",), 0)]


class Projection(NamedTuple):
    """The shared map of features to a few numbers in the low-rank form."""

    weight: Annotated[Array, Field("f4", ("bucket", "rank"), 0, "line")]
    grad_sq: Annotated[Array, Field("f4", ("square_bucket", "rank"), 0)]


State = dict[str, Any]  # group name -> group


def kept_rows(state: State) -> State:
    """The groups of training rows that a model keeps, in a field `row`, to compare other rows with; all become dense.

    Their types have `KEEPS_ROWS = True`.
    """
    return {name: group for name, group in state.items() if getattr(group, "KEEPS_ROWS", False)}


_FIELDS: dict[type, dict[str, Field]] = {}


def fields_of(group: type) -> dict[str, Field]:
    """The declared fields of a group type, in order."""
    if group not in _FIELDS:
        hints = get_type_hints(group, include_extras=True)
        _FIELDS[group] = {name: hint.__metadata__[0] for name, hint in hints.items()}
    return _FIELDS[group]


def make(group: type, **sizes: int) -> Any:
    """A new group with the given sizes."""
    sizes = {"one": 1, **sizes}
    return group(
        *(
            _filled(tuple(sizes[dim] for dim in field.dims), field.dtype, field.fill)
            for field in fields_of(group).values()
        )
    )


def resize(group: Any, **sizes: int) -> Any:
    """The same group with some dimensions larger; arrays that do not grow are not copied."""
    out = []
    for array, field in zip(group, fields_of(type(group)).values(), strict=True):
        shape = tuple(max(have, sizes.get(dim, have)) for have, dim in zip(array.shape, field.dims, strict=True))
        if shape != array.shape:
            larger = _filled(shape, array.dtype, field.fill)
            larger[tuple(slice(0, have) for have in array.shape)] = array
            array = larger
        out.append(array)
    return type(group)(*out)


def cut(group: Any, **sizes: int) -> Any:
    """The same group with some dimensions cut to the first entries, without a copy."""
    fields = fields_of(type(group)).values()
    return type(group)(
        *(
            array[tuple(slice(0, sizes.get(dim)) for dim in field.dims)]
            for array, field in zip(group, fields, strict=True)
        )
    )


def copy(group: Any) -> Any:
    """A copy of a group."""
    return type(group)(*(array.copy() for array in group))


def writable(group: Any) -> Any:
    """The same group without read-only arrays; arrays that are mapped from a file are mapped copy-on-write."""
    return type(group)(*(array if array.flags.writeable else _writable(array) for array in group))


def _writable(array: Any) -> np.ndarray:
    if getattr(array, "filename", None) is None or not array.flags.c_contiguous or not array.size:
        return array.copy()
    return np.asarray(np.memmap(array.filename, array.dtype, "c", array.offset, array.shape))


def flatten(state: State) -> dict[str, np.ndarray]:
    """All arrays by the names used in files, such as `tree.children`."""
    return {f"{name}.{field}": array for name, group in state.items() for field, array in group._asdict().items()}


def unflatten(arrays: dict[str, np.ndarray], types: dict[str, Any]) -> State:
    """The groups from the arrays of a file, or a ModelFormatError unless all have the declared types and dimensions."""
    state = {}
    for name, (group, fields) in groups_of(arrays, types).items():
        state[name] = group(**_checked(name, fields, fields_of(group)))
    for name, kinds in types.items():
        optional = name.endswith("_*") or (isinstance(kinds, tuple) and None in kinds)  # `_*`: of further trees
        if name not in state and not optional:
            raise ModelFormatError(f"the group of arrays {name!r} is missing.")
    return state


def groups_of(
    arrays: dict[str, np.ndarray], types: dict[str, Any], ignore: str | None = None
) -> dict[str, tuple[Any, dict[str, np.ndarray]]]:
    """Type and arrays of every group in a file, without arrays whose names end in `ignore`.

    The groups of further trees have a number: `tree_1` is declared as `tree_*`.
    """
    named: dict[str, dict[str, np.ndarray]] = {}
    for full, array in arrays.items():
        name, _, field = full.partition(".")
        if ignore is None or not field.endswith(ignore):
            named.setdefault(name, {})[field] = array
    out = {}
    for name, fields in named.items():
        kinds = types.get(re.sub(r"_[1-9][0-9]{0,5}$", "_*", name))
        if kinds is None:
            raise ModelFormatError(f"this algorithm has no group of arrays named {name!r}.")
        kinds = [kind for kind in (kinds if isinstance(kinds, tuple) else (kinds,)) if kind is not None]
        out[name] = next((kind for kind in kinds if set(kind._fields) == set(fields)), kinds[0]), fields
    return out


def _checked(name: str, arrays: dict[str, np.ndarray], fields: dict[str, Field]) -> dict[str, np.ndarray]:
    if set(arrays) != set(fields):
        wrong = sorted(set(arrays) ^ set(fields))
        raise ModelFormatError(f"the array {wrong[0]!r} of group {name!r} is missing or unknown.")
    sizes = {"one": 1}
    for field, how in fields.items():
        array = arrays[field]
        kinds = [np.dtype(kind) for kind in (how.dtype, how.wide) if kind]
        if array.dtype not in kinds or array.ndim != len(how.dims):
            raise ModelFormatError(
                f"array {name}.{field} is {array.ndim}-dimensional {array.dtype}, not {len(how.dims)}-dimensional "
                f"{' or '.join(map(str, kinds))}."
            )
        for dim, size in zip(how.dims, array.shape, strict=True):
            if sizes.setdefault(dim, size) != size:
                raise ModelFormatError(f"array {name}.{field} has {size} of {dim!r}, others have {sizes[dim]}.")
    return {field: arrays[field] for field in fields}


def n_bytes(state: State) -> int:
    """Bytes of all arrays of a state."""
    return sum(array.nbytes for array in flatten(state).values())


def _filled(shape: tuple[int, ...], dtype: Any, fill: float) -> np.ndarray:
    # pages of zeros take no memory until they are written, so spare capacity is free
    return np.zeros(shape, dtype) if fill == 0 else np.full(shape, fill, dtype)
