"""Make and grow the running sums of the classes' rows: laid out like the bank of predictors they start."""

from ..core.invariants import is_power, need
from ..core.linear import fits
from ..core.state import Means, cut, make, resize
from .means_kernels import hash_totals


def no_means() -> Means:
    """What a model without a start keeps: next to nothing."""
    return make(Means, row=1, total_row=1, total_column=1)


def make_means(rows: int, n_features: int, table_bits: int) -> Means:
    """Room for `rows` running sums: a slot for each value while they fit into the table, hashed otherwise."""
    direct = fits(rows, n_features, table_bits)
    shape = (rows, n_features) if direct else (1, 1 << table_bits)
    means: Means = make(Means, row=rows, total_row=shape[0], total_column=shape[1])
    means.mask[0] = 0 if direct else shape[1] - 1
    return means


def grow_means(means: Means, rows: int, n_features: int, table_bits: int) -> Means:
    """Room for more running sums; moves to the hashed table when they no longer fit one by one."""
    if means.mask[0] != 0:
        return resize(means, row=rows)
    if fits(rows, n_features, table_bits):
        return resize(means, row=rows, total_row=rows)
    hashed = make_means(rows, n_features, table_bits)
    hash_totals(means, hashed)
    return hashed


def slim_means(means: Means, rows: int) -> Means:
    """The first running sums."""
    return cut(means, row=rows) if means.mask[0] else cut(means, row=rows, total_row=rows)


def means_bytes(rows: int, n_features: int, table_bits: int) -> int:
    """Bytes that so many running sums take."""
    return 4 * min(rows * n_features, 1 << table_bits) + 8 * rows


def check_means(means: Means, rows: int, n_features: int) -> None:
    """Running sums of `rows` classes over n_features: what the kernels trust."""
    mask = int(means.mask[0])
    need(mask == 0 or is_power(mask + 1), f"means.mask is {mask}, not a power of two less one.")
    shape = (1, mask + 1) if mask else (rows, n_features)
    need(means.total.shape == shape, f"means.total has the shape {means.total.shape}, not {shape}.")
    need(len(means.sq_norm) == rows, f"means.sq_norm has {len(means.sq_norm)} rows for {rows} predictors.")
