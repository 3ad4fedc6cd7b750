"""The ordered set of the class means of a node: median, insertion and removal in O(log members).

A set is a treap of table entries: a search tree by (mean, label) and a heap by a hash of the key, so that its shape
depends on its members only. Its links are the fields `left`, `right` and `size` of the table; NOBODY is the empty set.
"""

import numpy as np

from ..core.trees import LEFT, RIGHT
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
def down(table, node, side, above):
    """The part of a member on one side. Its link leads back to `above` until `up`. Mutates: table. Cost: O(1)."""
    links = table.right if side == RIGHT else table.left
    below = np.int64(links[node])
    links[node], table.size[node] = above, side
    return below


@device
def up(table, node, below):
    """Put `below` under the last of the members passed by `down`, that one under the one before, and so on.

    Not recursive: a set whose order happens to be that of the hashes is as deep as it has members. Mutates: table.
    """
    while node >= 0:
        links = table.right if table.size[node] == RIGHT else table.left
        above = np.int64(links[node])
        links[node] = below
        recount(table, node)
        node, below = above, node
    return below


@device
def cut(table, top, entry):
    """Cut a set in two: members before an entry, and the others. Mutates: table. Cost: O(log members) expected."""
    low, high, node = NOBODY, NOBODY, top
    while node >= 0:
        if is_before(table, node, entry):
            low, node = node, down(table, node, RIGHT, low)
        else:
            high, node = node, down(table, node, LEFT, high)
    return up(table, low, NOBODY), up(table, high, NOBODY)


@device
def join(table, low, high):
    """Two sets as one; all of `low` is before all of `high`. Mutates: table. Cost: O(log members) expected."""
    above = NOBODY
    while low >= 0 and high >= 0:
        if rank_of(table, low) > rank_of(table, high):
            above, low = low, down(table, low, RIGHT, above)
        else:
            above, high = high, down(table, high, LEFT, above)
    return up(table, above, low if low >= 0 else high)


@device
def without_first(table, top):
    """A set without its first member. Mutates: table. Cost: O(log members) expected."""
    above, node = NOBODY, top
    while table.left[node] >= 0:
        above, node = node, down(table, node, LEFT, above)
    return up(table, above, np.int64(table.right[node]))


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
