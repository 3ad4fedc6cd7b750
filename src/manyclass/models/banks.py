"""Make and grow banks of linear predictors within a stated number of weights."""

import numpy as np

from ..kernels.banks import hash_rows
from .groups import Bank
from .state import make, resize


def fits(rows: int, n_features: int, table_bits: int) -> bool:
    """Whether every (row, feature) gets a slot of its own."""
    return rows * n_features <= 1 << table_bits


def make_bank(rows: int, n_features: int, table_bits: int, adaptive: bool) -> Bank:
    """Room for `rows` predictors: a slot for each weight while they fit into the table, hashed otherwise."""
    direct = fits(rows, n_features, table_bits)
    shape = (rows, n_features) if direct else (1, 1 << table_bits)
    squares = shape if adaptive else (1, 1)
    bank: Bank = make(
        Bank,
        row=rows,
        weight_row=shape[0],
        weight_column=shape[1],
        square_row=squares[0],
        square_column=squares[1],
    )
    bank.mask[0] = 0 if direct else shape[1] - 1
    return bank


def grow_bank(bank: Bank, rows: int, n_features: int, table_bits: int) -> Bank:
    """Room for more predictors; moves to the hashed table when the weights no longer fit one by one."""
    adaptive = bank.grad_sq.size > 1
    if bank.mask[0] != 0:
        return resize(bank, row=rows)
    if fits(rows, n_features, table_bits):
        squares = {"square_row": rows} if adaptive else {}
        return resize(bank, row=rows, weight_row=rows, **squares)
    hashed = make_bank(rows, n_features, table_bits, adaptive)
    hash_rows(bank, hashed)
    return hashed


def slim_bank(bank: Bank, rows: int) -> Bank:
    """The first predictors without what only learning needs."""
    weight = bank.weight if bank.mask[0] else bank.weight[:rows]
    none = np.zeros((1, 1), bank.grad_sq.dtype)
    bias = bank.bias[:rows]
    return bank._replace(weight=weight, grad_sq=none, bias=bias, bias_grad_sq=np.zeros_like(bias))


def bank_bytes(rows: int, n_features: int, table_bits: int, adaptive: bool) -> int:
    """Bytes that a bank of so many predictors takes."""
    slots = min(rows * n_features, 1 << table_bits)
    return 4 * (slots * (2 if adaptive else 1) + 2 * rows)
