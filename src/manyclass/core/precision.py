"""Rounded weights in files: float16, or int8 with one scale per 64 weights. In memory weights are float32.

Weights that are integers of 16 bits in memory, multiples of a step, stay so in float16 files; their int8 scales are
powers of two.

Weights of large features are small. So that features of all sizes can share a scale, weights are first divided by a
power of two near 1 / (the largest value of the feature), where the model knows it. Rounding twice changes nothing.
"""

from collections.abc import Callable

import numpy as np

from .invariants import need, need_range
from .model_file import ModelFormatError
from .state import Field, State, fields_of, flatten, groups_of

PRECISIONS = ("float32", "float16", "int8")
_STORED = {"float16": np.dtype("f2"), "int8": np.dtype("i1")}
RUN = 64  # weights that share a scale
_STEPS = 127  # from 0 to the largest weight of a run
LARGEST_STEP = 32767  # of 16 bits
_SCALE_BITS = 16  # significant bits of a scale: a step times its scale is then exact in float32
_BLOCK = 1 << 20  # weights rounded at a time, whole runs
_FURTHEST = 30  # the most that an exponent of two may be
_LARGEST, _SMALLEST = np.float32(2.0**80), np.float32(2.0**-80)  # in a run; smaller: zero. No product can overflow.

Exponents = Callable[[slice], np.ndarray] | None  # exponents of two for a slice of the flat weights


def narrow(state: State, precision: str) -> dict[str, np.ndarray]:
    """The arrays of a state with rounded weights; ValueError if a weight is out of range."""
    out = flatten(state)
    if precision == "float32":
        return out
    powers = _powers(state["scale"].inverse)
    for name, group in state.items():
        for field, how in fields_of(type(group)).items():
            if how.rounds and not (precision == "float16" and how.dtype == "i2"):
                full = f"{name}.{field}"
                flat, shape = out[full].reshape(-1), out[full].shape
                exponents = _exponents(full, group._asdict(), how, powers)
                if precision == "float16":
                    out[full] = _to_half(full, flat, exponents).reshape(shape)
                else:
                    steps, out[f"{full}_scale"] = _to_steps(full, flat, exponents)
                    out[full] = steps.reshape(shape)
    return out


def widen(arrays: dict[str, np.ndarray], types: dict, precision: str) -> dict[str, np.ndarray]:
    """The arrays of a file with all weights converted to float32; ModelFormatError if they are invalid."""
    if precision == "float32":
        return arrays
    powers, out = _powers(_vector(arrays, "scale.inverse", "f4")), dict(arrays)
    for name, (kind, fields) in groups_of(arrays, types, ignore="_scale").items():
        for field, how in fields_of(kind).items():
            if how.rounds and field in fields:
                full = f"{name}.{field}"
                stored = fields[field]
                if how.dtype == "i2" and stored.dtype == np.int16 and f"{full}_scale" not in out:
                    continue  # not rounded further
                known = stored.dtype == _STORED[precision] and stored.ndim == len(how.dims)
                need(known, f"array {full} is {stored.ndim}-dimensional {stored.dtype}, not rounded to {precision}.")
                scale = _scales(out, f"{full}_scale", stored.size) if precision == "int8" else None
                out.pop(f"{full}_scale", None)
                exponents = _exponents(full, fields, how, powers)
                weights = _to_single(stored.reshape(-1), scale, exponents).reshape(stored.shape)
                if how.dtype == "i2":
                    need_range(full, weights, -LARGEST_STEP, LARGEST_STEP + 1)
                out[full] = weights.astype(how.dtype, copy=False)
    return out


def _vector(arrays: dict[str, np.ndarray], name: str, dtype: str) -> np.ndarray:
    """A required one-dimensional array."""
    array = arrays.get(name)
    if array is None or array.dtype != np.dtype(dtype) or array.ndim != 1:
        raise ModelFormatError(f"array {name} is missing, or not one-dimensional {np.dtype(dtype)}.")
    return array


def _scales(arrays: dict[str, np.ndarray], name: str, n: int) -> np.ndarray:
    """The scales of n weights."""
    scale = _vector(arrays, name, "f4")
    need(len(scale) == -(-n // RUN), f"array {name} has {len(scale)} scales for {n} weights in runs of {RUN}.")
    good = (scale >= 0) & (scale <= _LARGEST)  # NaN fails both
    if not good.all():
        at = int(good.argmin())
        raise ModelFormatError(f"array {name} contains {scale[at]}, which is not a valid scale, at position {at}.")
    return scale


def _powers(sizes: np.ndarray) -> np.ndarray:
    """The exponents of two near some sizes; 0 where the size is unknown (0)."""
    known = np.isfinite(sizes) & (sizes > 0)
    exponent = np.frexp(np.where(known, sizes, 0.5))[1]
    return np.clip(exponent, -_FURTHEST, _FURTHEST).astype(np.int32)


def _exponents(full: str, fields: dict[str, np.ndarray], how: Field, powers: np.ndarray) -> Exponents:
    """A function from a slice of weights to their exponents; None if the sizes of their features are unknown."""
    shape = fields[full.partition(".")[2]].shape
    if how.rounds == "entry":
        feature = _vector(fields, "feature", "i4")
        need(feature.shape == shape, f"{full} has {shape[0]} weights for {len(feature)} features.")
        need_range(f"the features of {full}", feature, 0, len(powers))
        return lambda part: powers[feature[part]]
    hashed = "mask" in fields and bool(fields["mask"].any())
    axis = {"column": 1, "line": 0}.get(how.rounds)
    if hashed or axis is None or shape[axis] != len(powers) or not powers.any():
        return None
    if axis == 1:
        return lambda part: powers[np.arange(part.start, part.stop) % shape[1]]
    return lambda part: powers[np.arange(part.start, part.stop) // shape[1]]


def _parts(n: int) -> list[slice]:
    return [slice(first, min(n, first + _BLOCK)) for first in range(0, n, _BLOCK)]


def _scaled(flat: np.ndarray, part: slice, exponents: Exponents) -> np.ndarray:
    return flat[part] if exponents is None else np.ldexp(flat[part], -exponents(part))


def _to_half(full: str, flat: np.ndarray, exponents: Exponents) -> np.ndarray:
    out = np.empty(len(flat), np.float16)
    for part in _parts(len(flat)):
        with np.errstate(over="ignore"):
            out[part] = _scaled(flat, part, exponents)
        if not np.isfinite(out[part]).all():
            raise ValueError(
                f"{full} contains weights that float16 cannot represent (above 65504, or not finite): use float32, "
                "or int8 if they are finite."
            )
    return out


def _to_steps(full: str, flat: np.ndarray, exponents: Exponents) -> tuple[np.ndarray, np.ndarray]:
    """(weights as multiples of the scale of their run, scales)."""
    out, scales = np.empty(len(flat), np.int8), np.empty(-(-len(flat) // RUN), np.float32)
    for part in _parts(len(flat)):
        runs = np.zeros((-(-(part.stop - part.start) // RUN), RUN), np.float32)
        runs.reshape(-1)[: part.stop - part.start] = _scaled(flat, part, exponents)
        largest = np.abs(runs).max(axis=1)
        if not (largest <= _LARGEST).all():
            raise ValueError(f"{full} contains weights that are not finite or too large to round: use float32.")
        scale = _scale(largest) if flat.dtype.kind == "f" else _power(largest)
        scales[part.start // RUN :][: len(scale)] = scale
        steps = np.where(scale[:, None] > 0, np.rint(runs / np.where(scale > 0, scale, 1)[:, None]), 0)
        out[part] = steps.reshape(-1)[: part.stop - part.start]
    return out, scales


def _scale(largest: np.ndarray) -> np.ndarray:
    """The largest weights / 127, rounded up to few bits, so that rounding again gives the same scale."""
    mantissa, exponent = np.frexp(largest / np.float32(_STEPS))
    scale = np.ldexp(np.ceil(np.ldexp(mantissa, _SCALE_BITS)), exponent - _SCALE_BITS)
    return np.where(largest >= _SMALLEST, scale, np.float32(0)).astype(np.float32)


def _power(largest: np.ndarray) -> np.ndarray:
    """The smallest powers of two that are at least 1 and largest / 127; of integers, whose rounding twice is exact."""
    mantissa, exponent = np.frexp(largest / np.float32(_STEPS))
    return np.ldexp(np.float32(1.0), np.maximum(exponent - (mantissa == 0.5), 0))


def _to_single(flat: np.ndarray, scale: np.ndarray | None, exponents: Exponents) -> np.ndarray:
    out = np.empty(len(flat), np.float32)
    for part in _parts(len(flat)):
        out[part] = flat[part]
        if scale is not None:
            runs = slice(part.start // RUN, -(-part.stop // RUN))
            out[part] *= np.repeat(scale[runs], RUN)[: part.stop - part.start]
        if exponents is not None:
            out[part] = np.ldexp(out[part], exponents(part))
    return out
