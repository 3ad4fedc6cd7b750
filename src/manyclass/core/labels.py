"""Labels at nodes: the (node, label) mass table, the lists of candidates, sets of labels, and filling predictions."""

import math
from typing import Any, NamedTuple

import numpy as np

from ..jit import device, inlined, kernel
from .invariants import is_power, need, need_range
from .state import fields_of, make
from .topk import offer

EMPTY = -1
_MOST_STEPS = 64  # per entry of a table, when all searches are tried; chance takes about one

# -- the mass table: open addressing on (node, label) --------------------------------------------------------------


@device
def key_of(node, label):
    """One number for a (node, label) pair."""
    return (np.int64(node) << 32) | np.int64(label)


@device
def first_look(keys, key):
    """The entry of a table where the search for a key begins."""
    last = keys.shape[0] - 1  # the length is a power of two
    h = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
    return np.int64((h ^ (h >> np.uint64(29))) >> np.uint64(3)) & last


@device
def find(table, node, label):
    """Entry of (node, label), or the empty entry where it would go. Cost: O(1) expected."""
    key = key_of(node, label)
    at, last = first_look(table.key, key), table.key.shape[0] - 1
    while table.key[at] != EMPTY and table.key[at] != key:
        at = (at + 1) & last
    return at


@device
def mass_of(table, node, label):
    """Mass of label at node. Cost: O(1) expected."""
    at = find(table, node, label)
    return table.mass[at] if table.key[at] != EMPTY else 0.0


@device
def entry_of(table, node, label):
    """Entry of (node, label), created if missing. Mutates: table. Cost: O(1) expected."""
    at = find(table, node, label)
    if table.key[at] == EMPTY:
        table.key[at] = key_of(node, label)
        table.n_entries[0] += 1
    return at


@device
def add_mass(table, node, label, weight):
    """Add weight to the mass of label at node; return its entry. Mutates: table. Cost: O(1) expected."""
    at = entry_of(table, node, label)
    table.mass[at] += weight
    return at


@device
def enter_keys(table, keys, entries):
    """Create an entry for each key and write down which. Mutates: table, entries. Cost: O(keys)."""
    for k in range(keys.shape[0]):
        entries[k] = entry_of(table, np.int64(keys[k] >> 32), np.int64(keys[k] & 0xFFFFFFFF))


def move_table(table: Any, size: int, alive: np.ndarray | None = None) -> tuple[Any, np.ndarray]:
    """The same entries in a new table of `size` entries, and the new place of each; with `alive`, only of these nodes.

    Entries that are left out have the place -1. There is one more at the end, so that place[-1] is -1.
    """
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


@kernel
def first_misplaced(keys):
    """The first entry that a search for its key does not find, or finds too late; -1: none. Cost: O(entries)."""
    last, steps = keys.shape[0] - 1, _MOST_STEPS * keys.shape[0]
    for at in range(keys.shape[0]):
        look = first_look(keys, keys[at]) if keys[at] != EMPTY else np.int64(at)
        while look != at:
            if keys[look] == EMPTY or keys[look] == keys[at] or steps == 0:
                return at
            look, steps = (look + 1) & last, steps - 1
    return -1


def check_table(table: Any, n_nodes: int, n_labels: int) -> None:
    """ModelFormatError unless searches end and find every key, all nodes and labels exist, and no mass is negative."""
    need(is_power(len(table.key)), f"the table has {len(table.key)} entries, not a power of two.")
    full = table.key != EMPTY
    need(table.n_entries[0] == full.sum(), f"table.n_entries is {table.n_entries[0]}, not {full.sum()}.")
    need(2 * full.sum() <= len(table.key), "the table has too few empty entries.")
    need_range("nodes of table.key", table.key[full] >> 32, 0, n_nodes)
    need_range("labels of table.key", table.key[full] & 0xFFFFFFFF, 0, n_labels)
    need(not full.any() or first_misplaced(table.key) < 0, "a key of the table is not where a search would find it.")
    need((table.mass >= 0).all(), "table.mass has a number below 0.")


# -- candidates: the heaviest labels of each node ------------------------------------------------------------------


@device
def place(candidates, node, label, mass):
    """Put label with its mass at its place in the node's list of heaviest labels, if it is heavy enough.

    Mutates: candidates. Cost: O(candidates). A new label enters a full list only if it is heavier than the last.
    """
    labels, masses = candidates.label[node], candidates.mass[node]
    size = np.int64(candidates.size[node])
    at = np.int64(0)
    while at < size and labels[at] != label:
        at += 1
    if at == size:
        if size < labels.shape[0]:
            candidates.size[node] = size + 1
        elif mass > masses[size - 1]:
            at = size - 1
            candidates.covered[node] -= masses[at]
        else:
            return
        candidates.covered[node] += mass
    else:
        candidates.covered[node] += mass - masses[at]
    while at > 0 and masses[at - 1] < mass:
        labels[at], masses[at] = labels[at - 1], masses[at - 1]
        at -= 1
    labels[at], masses[at] = label, mass


@device
def refill(candidates, table):
    """Make the lists exact again after they became longer. Mutates: candidates. Cost: O(entries x candidates)."""
    for at in range(table.key.shape[0]):
        key = table.key[at]
        if key != EMPTY:
            place(candidates, np.int64(key >> 32), np.int64(key & 0xFFFFFFFF), table.mass[at])


# -- entropy of a node's labels ------------------------------------------------------------------------------------

# The rise of n ln n from n = 0, 1, 2, ... by one: most labels have been at most nodes only a few times.
_N_COUNTS = 512
_COUNTS = np.arange(1.0, _N_COUNTS)
_RISES = np.concatenate([[0.0], np.log(_COUNTS + 1.0) + _COUNTS * np.log1p(1.0 / _COUNTS)])


@device
def n_log_n_rise(n, weight):
    """The rise of n ln n (0 at 0) from n to n + weight. Cost: O(1), without a logarithm for few rows of weight 1.

    If n is large, by a series whose first missing term is below 1e-7 x weight: one logarithm instead of two.
    """
    at = np.int64(n) if n < _N_COUNTS else np.int64(0)
    if weight == 1.0 and at == n and n < _N_COUNTS:
        return _RISES[at]
    if n > 2048.0 * weight:
        return weight * (math.log(n) + 1.0 + 0.5 * weight / n)
    rest = n * math.log1p(min(weight / n, 1e300)) if n > 0.0 else 0.0
    return weight * math.log(n + weight) + rest


# -- sets of labels, and predictions with too few of them ----------------------------------------------------------


class LabelSet(NamedTuple):
    """A set by open addressing; the length is a power of two, at least twice the labels it will hold.

    An entry belongs to the example whose stamp it has, so a new stamp empties the set in O(1).
    """

    label: np.ndarray
    stamp: np.ndarray


@device
def _look_up(known, label, stamp):
    """Entry of label, or the empty entry where it would go. Cost: O(1) expected."""
    last = known.label.shape[0] - 1
    at = np.int64((np.uint64(label) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(33)) & last
    while known.stamp[at] == stamp and known.label[at] != label:
        at = (at + 1) & last
    return at


@device
def add_label(known, label, stamp):
    """Add label to the set; return whether it was missing. Mutates: known. Cost: O(1) expected."""
    at = _look_up(known, label, stamp)
    if known.stamp[at] == stamp:
        return False
    known.label[at] = label
    known.stamp[at] = stamp
    return True


@device
def has_label(known, label, stamp):
    """Whether the set has a label. Cost: O(1) expected."""
    return known.stamp[_look_up(known, label, stamp)] == stamp


@inlined
def fill_up(tree, candidates, node, n_classes, stamp, size, labels, scores, known):
    """Complete `size` predicted labels with the most frequent labels of node and its ancestors, then in class order.

    Mutates: labels, scores, known. Cost: O(labels x depth).
    """
    for c in range(size):
        add_label(known, np.int64(labels[c]), stamp)
    while node >= 0 and size < labels.shape[0]:
        for s in range(candidates.size[node]):
            label = np.int64(candidates.label[node, s])
            if size < labels.shape[0] and add_label(known, label, stamp):
                labels[size], scores[size] = label, -np.inf
                size += 1
        node = np.int64(tree.parent[node])
    label = np.int64(0)
    while size < labels.shape[0] and label < n_classes:
        if add_label(known, label, stamp):
            labels[size], scores[size] = label, -np.inf
            size += 1
        label += 1


@inlined
def top_labels(tree, candidates, node, n_classes, met, score, n, stamp, labels, scores, known):
    """The best of n scored labels, completed by `fill_up` from `node` upwards.

    `stamp` must be new to `known`, or that of the scored labels. Mutates: labels, scores, known.
    """
    size = np.int64(0)
    for c in range(n):
        size = offer(labels, scores, size, np.int64(met[c]), score[c])
    if size < labels.shape[0]:
        fill_up(tree, candidates, node, n_classes, stamp, size, labels, scores, known)
