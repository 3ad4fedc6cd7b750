"""How often each label came by each node: the (node, label) mass table, and sorted candidate lists."""

import math

import numpy as np

from ..jit import device, inlined
from .sets import add_label
from .topk import offer

EMPTY = -1

# How n ln n rises from n = 0, 1, 2, ... by one: most labels have been at most nodes a few times only.
_N_COUNTS = 512
_COUNTS = np.arange(1.0, _N_COUNTS)
_RISES = np.concatenate([[0.0], np.log(_COUNTS + 1.0) + _COUNTS * np.log1p(1.0 / _COUNTS)])


@device
def key_of(node, label):
    """One number for a (node, label) pair."""
    return (np.int64(node) << 32) | np.int64(label)


@device
def first_look(table, key):
    """Where to look for a key first."""
    last = table.key.shape[0] - 1  # the length is a power of two
    h = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
    return np.int64((h ^ (h >> np.uint64(29))) >> np.uint64(3)) & last


@device
def find(table, node, label):
    """Entry of (node, label), or the empty entry where it would go. Cost: O(1) expected."""
    key = key_of(node, label)
    at, last = first_look(table, key), table.key.shape[0] - 1
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
    """Entry of (node, label), made where there is none yet. Mutates: table. Cost: O(1) expected."""
    at = find(table, node, label)
    if table.key[at] == EMPTY:
        table.key[at] = key_of(node, label)
        table.n_entries[0] += 1
    return at


@device
def add_mass(table, node, label, weight):
    """Raise the mass of label at node; return its entry. Mutates: table. Cost: O(1) expected."""
    at = entry_of(table, node, label)
    table.mass[at] += weight
    return at


@device
def count_at(table, node, label, weight):
    """Raise the mass of label at node; return the new mass. Mutates: table. Cost: O(1) expected."""
    at = add_mass(table, node, label, weight)
    return table.mass[at]


@device
def enter_keys(table, keys, entries):
    """Make an entry for each key and note which. Mutates: table, entries. Cost: O(keys)."""
    for k in range(keys.shape[0]):
        entries[k] = entry_of(table, np.int64(keys[k] >> 32), np.int64(keys[k] & 0xFFFFFFFF))


@device
def n_log_n_rise(n, weight):
    """By how much n ln n (0 at 0) rises with n. Cost: O(1), without a logarithm for few rows of weight 1.

    Where n is large, by a series whose first missing term is below 1e-7 x weight: one logarithm instead of two.
    """
    at = np.int64(n) if n < _N_COUNTS else np.int64(0)
    if weight == 1.0 and at == n and n < _N_COUNTS:
        return _RISES[at]
    if n > 2048.0 * weight:
        return weight * (math.log(n) + 1.0 + 0.5 * weight / n)
    rest = n * math.log1p(weight / n) if n > 0.0 else 0.0
    return weight * math.log(n + weight) + rest


@device
def place(candidates, node, label, mass):
    """Put label with its mass where it belongs in the node's list of heaviest labels, if it belongs there.

    Mutates: candidates. Cost: O(candidates). A newcomer enters a full list only if heavier than the last.
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
    """Make the lists exact again after they were widened. Mutates: candidates. Cost: O(entries x candidates)."""
    for at in range(table.key.shape[0]):
        key = table.key[at]
        if key != EMPTY:
            place(candidates, np.int64(key >> 32), np.int64(key & 0xFFFFFFFF), table.mass[at])


@inlined
def take_candidates(candidates, node, begin, scratch, lists):
    """Start a row's candidates with the list of one node, which holds each label once. Mutates: scratch, lists."""
    n = np.int64(candidates.size[node])
    for s in range(n):
        label = np.int64(candidates.label[node, s])
        add_label(scratch.known, label, scratch.stamp[0])
        lists.label[begin + s], lists.home[begin + s] = label, node
    return begin + n


@inlined
def join_candidates(candidates, node, end, scratch, lists):
    """Append the labels of a node's list that are not there yet; return the new end. Mutates: scratch, lists."""
    for s in range(candidates.size[node]):
        label = np.int64(candidates.label[node, s])
        if add_label(scratch.known, label, scratch.stamp[0]):
            lists.label[end], lists.home[end] = label, node
            end += 1
    return end


@device
def remember(labels, n, stamp, known):
    """Make a set of the first n labels. Mutates: known. Cost: O(n)."""
    for c in range(n):
        add_label(known, np.int64(labels[c]), stamp)


@inlined
def fill_up(tree, candidates, node, n_classes, stamp, size, labels, scores, known):
    """Fill an answer of `size` labels with the ancestors' most frequent ones, then the rest in class order.

    Mutates: labels, scores, known. Cost: O(answers x depth), plus O(answers) when all ancestors are used up.
    """
    remember(labels, size, stamp, known)
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
def answer(tree, candidates, node, n_classes, met, score, n, stamp, labels, scores, known):
    """The best of the n labels met, filled up from `node` upwards where they are too few.

    Mutates: labels, scores, known. `stamp` is one that `known` has not seen, or that of the labels met.
    """
    size = np.int64(0)
    for c in range(n):
        size = offer(labels, scores, size, np.int64(met[c]), score[c])
    if size < labels.shape[0]:
        fill_up(tree, candidates, node, n_classes, stamp, size, labels, scores, known)
