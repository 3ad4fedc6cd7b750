"""Make, grow and flatten states: the only code that walks the schema."""

from typing import Any

import numpy as np

from .groups import State, fields_of


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
        shape = tuple(
            max(have, sizes.get(dim, have)) for have, dim in zip(array.shape, field.dims, strict=True)
        )
        if shape != array.shape:
            larger = _filled(shape, field.dtype, field.fill)
            larger[tuple(slice(0, have) for have in array.shape)] = array
            array = larger
        out.append(array)
    return type(group)(*out)


def copy(group: Any) -> Any:
    """The same group with arrays of its own."""
    return type(group)(*(array.copy() for array in group))


def flatten(state: State) -> dict[str, np.ndarray]:
    """`{"tree.children": array, ...}`: the names a file uses."""
    return {f"{name}.{field}": array for name, group in state.items() for field, array in group._asdict().items()}


def n_bytes(state: State) -> int:
    """Bytes of all arrays of a state."""
    return sum(array.nbytes for array in flatten(state).values())


def _filled(shape: tuple[int, ...], dtype: str, fill: float) -> np.ndarray:
    # zeros are handed out by the system untouched: room kept for later costs no memory until it is used
    return np.zeros(shape, dtype) if fill == 0 else np.full(shape, fill, dtype)
