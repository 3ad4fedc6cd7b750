"""Ordered sets equal sorted lists."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from manyclass.core.labels import entry_of
from manyclass.core.state import make
from manyclass.mlom_tree.kernels import MlomTable
from manyclass.mlom_tree.ordered_set import NOBODY, insert, median, member, remove, size_of


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
