"""Make, grow, flatten and rebuild states: the only code that walks the schema."""

import re
from typing import Any

import numpy as np

from .groups import Field, State, fields_of
from .model_file import ModelFormatError


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
