"""Ordered sets equal sorted lists."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from manyclass.core.labels import enter_keys, entry_of, key_of
from manyclass.core.state import make
from manyclass.jit import python_of
from manyclass.mlom_tree.kernels import MlomTable
from manyclass.mlom_tree.ordered_set import NOBODY, insert, median, member, rank_of, remove, size_of


@given(st.lists(st.tuples(st.integers(0, 30), st.sampled_from([-1.0, -0.5, 0.0, 0.25, 1.0])), max_size=80))
def test_ordered_sets_equal_sorted_lists(events):
    table, top, inside = make(MlomTable, entry=128), NOBODY, {}
    for label, mean in events:
        at = entry_of(table, 3, label)
        if label in inside:
            top = remove(table, top, at)
            del inside[label]
        else:
            table.mean[at] = mean
            top = insert(table, top, at)
            inside[label] = mean
        expected = sorted((mean, label) for label, mean in inside.items())
        assert size_of(table, top) == len(expected)
        found = [member(table, top, place) for place in range(len(expected))]
        assert [(table.mean[at], table.key[at] & 0xFFFFFFFF) for at in found] == expected
        assert median(table, top) == (np.median([mean for mean, _ in expected]) if expected else 0.0)


def test_a_set_as_deep_as_it_has_members():
    """If the means happen to be in the order of the hashes, each member is below the one before."""
    n = 200_000
    table, entries = make(MlomTable, entry=1 << 19), np.empty(n, np.int64)
    enter_keys(table, np.array([python_of(key_of)(3, label) for label in range(n)]), entries)
    chain = entries[np.argsort(python_of(rank_of)(table, entries))][::-1]
    table.mean[chain], table.size[chain] = np.arange(n), np.arange(n, 0, -1)
    table.right[chain[:-1]] = chain[1:]
    top = remove(table, chain[0], chain[-1])
    top = remove(table, top, chain[n // 2])
    assert size_of(table, top) == n - 2 and median(table, top) == (n - 2) // 2 + 0.5 - 1
    top = insert(table, top, chain[-1])
    assert member(table, top, n - 2) == chain[-1]
