"""Grow and check open-addressing tables on (node, label)."""

from typing import Any

import numpy as np

from .invariants import is_power, need, need_range
from .labels import EMPTY, enter_keys
from .state import fields_of, make


def move_table(table: Any, size: int, alive: np.ndarray | None = None) -> Any:
    """The same table in a new one of `size` entries; with `alive`, without the keys of other nodes."""
    return move_entries(table, size, alive)[0]


def move_entries(table: Any, size: int, alive: np.ndarray | None = None) -> tuple[Any, np.ndarray]:
    """The table moved, and where each entry has gone: -1 is nowhere, also at the end, so that place[-1] is -1."""
    kept = np.flatnonzero(table.key != EMPTY)
    if alive is not None:
        kept = kept[np.isin(table.key[kept] >> 32, alive)]
    moved, entries = make(type(table), entry=size), np.empty(len(kept), np.int64)
    enter_keys(moved, table.key[kept], entries)
    for name, field in fields_of(type(table)).items():
        if field.dims == ("entry",) and name != "key":
            getattr(moved, name)[entries] = getattr(table, name)[kept]
    place = np.full(len(table.key) + 1, -1, np.int64)
    place[kept] = entries
    return moved, place


def check_table(table: Any, n_nodes: int, n_labels: int) -> None:
    """A table whose searches end, of nodes and labels that there are."""
    need(is_power(len(table.key)), f"the table has {len(table.key)} entries, not a power of two.")
    full = table.key != EMPTY
    need(table.n_entries[0] == full.sum() < len(table.key), f"table.n_entries is {table.n_entries[0]}.")
    need_range("nodes of table.key", table.key[full] >> 32, 0, n_nodes)
    need_range("labels of table.key", table.key[full] & 0xFFFFFFFF, 0, n_labels)
