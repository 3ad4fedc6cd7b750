"""The ordered set of the class means of a node: median, insertion and removal in O(log members).

A set is a treap of table entries: a search tree by (mean, label) and a heap by a hash of the key, so that its shape
depends on its members only. Its links are the fields `left`, `right` and `size` of the table; NOBODY is the empty set.
"""

import numpy as np

from ..jit import device

NOBODY = np.int64(-1)


@device
def is_before(table, one, other):
    """Whether one entry is before the other: by mean, then by key."""
    if table.mean[one] != table.mean[other]:
        return table.mean[one] < table.mean[other]
    return table.key[one] < table.key[other]


@device
def rank_of(table, entry):
    """A pseudo-random number that depends on the key only."""
    h = np.uint64(table.key[entry]) * np.uint64(0xD6E8FEB86659FD93)
    return (h ^ (h >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)


@device
def size_of(table, top):
    """Number of members. Cost: O(1)."""
    return np.int64(table.size[top]) if top >= 0 else np.int64(0)


@device
def recount(table, top):
    """Update the size of a set from its parts. Mutates: table."""
    table.size[top] = 1 + size_of(table, np.int64(table.left[top])) + size_of(table, np.int64(table.right[top]))


@device
def cut(table, top, entry):
    """Cut a set in two: members before an entry, and the others. Mutates: table. Cost: O(log members) expected."""
    if top < 0:
        return NOBODY, NOBODY
    if is_before(table, top, entry):
        low, high = cut(table, np.int64(table.right[top]), entry)
        table.right[top] = low
        recount(table, top)
        return top, high
    low, high = cut(table, np.int64(table.left[top]), entry)
    table.left[top] = high
    recount(table, top)
    return low, top


@device
def join(table, low, high):
    """Two sets as one; all of `low` is before all of `high`. Mutates: table. Cost: O(log members) expected."""
    if low < 0:
        return high
    if high < 0:
        return low
    if rank_of(table, low) > rank_of(table, high):
        table.right[low] = join(table, np.int64(table.right[low]), high)
        recount(table, low)
        return low
    table.left[high] = join(table, low, np.int64(table.left[high]))
    recount(table, high)
    return high


@device
def without_first(table, top):
    """A set without its first member. Mutates: table. Cost: O(log members) expected."""
    if table.left[top] < 0:
        return np.int64(table.right[top])
    table.left[top] = without_first(table, np.int64(table.left[top]))
    recount(table, top)
    return top


@device
def insert(table, top, entry):
    """The set with an entry that was not in it. Mutates: table. Cost: O(log members) expected."""
    low, high = cut(table, top, entry)
    table.left[entry] = table.right[entry] = -1
    table.size[entry] = 1
    return join(table, join(table, low, entry), high)


@device
def remove(table, top, entry):
    """The set without one of its members. Mutates: table. Cost: O(log members) expected."""
    low, high = cut(table, top, entry)
    return join(table, low, without_first(table, high))


@device
def member(table, top, position):
    """The member at a position, from 0. Cost: O(log members) expected."""
    node = top
    while True:
        before = size_of(table, np.int64(table.left[node]))
        if position == before:
            return node
        if position < before:
            node = np.int64(table.left[node])
        else:
            position -= before + 1
            node = np.int64(table.right[node])


@device
def heaviest(table, top):
    """The member with the most mass, or -1. Cost: O(members x log members); most leaves have one member."""
    best = top
    for at in range(size_of(table, top)):
        other = np.int64(member(table, top, np.int64(at)))
        if table.mass[other] > table.mass[best]:
            best = other
    return best


@device
def median(table, top):
    """The median of the means, 0 for an empty set. Cost: O(log members) expected."""
    n = size_of(table, top)
    if n == 0:
        return 0.0
    upper = table.mean[member(table, top, n // 2)]
    return upper if n % 2 else 0.5 * (upper + table.mean[member(table, top, n // 2 - 1)])
