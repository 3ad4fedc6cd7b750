"""Sets of table entries ordered by their means: the middle is found, and a member moved, in O(log members).

A set is a treap, a search tree by (mean, label) that is a heap by a hash of the key, so that its shape depends on its
members alone. Its links are fields of the table: `left`, `right` and `size`; NOBODY is the empty set.
"""

import numpy as np

from ..jit import device

NOBODY = np.int64(-1)


@device
def is_before(table, one, other):
    """Whether one entry stands before the other: by mean, then by key."""
    if table.mean[one] != table.mean[other]:
        return table.mean[one] < table.mean[other]
    return table.key[one] < table.key[other]


@device
def rank_of(table, entry):
    """A number as good as random, the same for a key wherever it lies."""
    h = np.uint64(table.key[entry]) * np.uint64(0xD6E8FEB86659FD93)
    return (h ^ (h >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15)


@device
def size_of(table, top):
    """Members of a set. Cost: O(1)."""
    return np.int64(table.size[top]) if top >= 0 else np.int64(0)


@device
def recount(table, top):
    """Size of a set from its parts. Mutates: table."""
    table.size[top] = 1 + size_of(table, np.int64(table.left[top])) + size_of(table, np.int64(table.right[top]))


@device
def part(table, top, entry):
    """The set cut in two: members before an entry, and the others. Mutates: table. Cost: O(log members) expected."""
    if top < 0:
        return NOBODY, NOBODY
    if is_before(table, top, entry):
        low, high = part(table, np.int64(table.right[top]), entry)
        table.right[top] = low
        recount(table, top)
        return top, high
    low, high = part(table, np.int64(table.left[top]), entry)
    table.left[top] = high
    recount(table, top)
    return low, top


@device
def join(table, low, high):
    """Two sets as one; all of `low` stands before all of `high`. Mutates: table. Cost: O(log members) expected."""
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
def behead(table, top):
    """A set without its first member. Mutates: table. Cost: O(log members) expected."""
    if table.left[top] < 0:
        return np.int64(table.right[top])
    table.left[top] = behead(table, np.int64(table.left[top]))
    recount(table, top)
    return top


@device
def insert(table, top, entry):
    """The set with an entry that was not in it. Mutates: table. Cost: O(log members) expected."""
    low, high = part(table, top, entry)
    table.left[entry] = table.right[entry] = -1
    table.size[entry] = 1
    return join(table, join(table, low, entry), high)


@device
def remove(table, top, entry):
    """The set without one of its members. Mutates: table. Cost: O(log members) expected."""
    low, high = part(table, top, entry)
    return join(table, low, behead(table, high))


@device
def member(table, top, place):
    """The member at a place, the first is 0. Cost: O(log members) expected."""
    node = top
    while True:
        before = size_of(table, np.int64(table.left[node]))
        if place == before:
            return node
        if place < before:
            node = np.int64(table.left[node])
        else:
            place -= before + 1
            node = np.int64(table.right[node])


@device
def heaviest(table, top):
    """The member of most mass, -1 of none. Cost: O(members x log members), of leaves that have one mostly."""
    best = top
    for at in range(size_of(table, top)):
        other = np.int64(member(table, top, np.int64(at)))
        if table.mass[other] > table.mass[best]:
            best = other
    return best


@device
def median(table, top):
    """The middle mean, or between the two in the middle; 0 of nobody. Cost: O(log members) expected."""
    n = size_of(table, top)
    if n == 0:
        return 0.0
    upper = table.mean[member(table, top, n // 2)]
    return upper if n % 2 else 0.5 * (upper + table.mean[member(table, top, n // 2 - 1)])
