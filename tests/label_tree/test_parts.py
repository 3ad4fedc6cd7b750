"""Rows in parts: however they are cut, `fit` gives the same bytes."""

from itertools import pairwise

import numpy as np
import pytest

from manyclass.core import exact
from manyclass.core.inputs import rows_at
from manyclass.core.steps import Here
from manyclass.label_tree import fit, parts
from manyclass.label_tree.parts import Given
from tests.reference.label_tree_states import as_batch, bytes_of, configure, fitted, stream


@pytest.mark.parametrize("edges", [[0, 64, 300], [0, 128, 192, 256, 300]])
@pytest.mark.parametrize(("sparse", "most"), [(False, 1), (True, 1), (True, 3)])
def test_parts_change_no_byte(edges, sparse, most, monkeypatch):
    monkeypatch.setattr(parts, "ALIGNED", 64)
    X, labels, weights = stream(0, 300, 60, sparse, most)
    options = configure(arity=5, loss="logistic", multilabel=most > 1, start=-1.0, router_start=-1.0)
    whole = fitted(options, X, labels, weights, sparse)
    rows, given = as_batch(X, sparse), []
    for first, last in pairwise(edges):
        own = np.arange(first, last)
        given.append(Given(rows_at(rows, own), labels.rows(own), weights[own]))
    sizes = fit.Sizes(X.shape[1], len(whole["tree"].leaf_of), sparse)
    _, state = fit.fit_parts(Here(), options, given, sizes, lambda share: None)
    assert bytes_of(state) == bytes_of(whole)


@pytest.mark.parametrize("largest", [1e-30, 1.0, 3e20])
def test_sums_on_a_grid_do_not_depend_on_the_order(largest):
    rng = np.random.default_rng(0)
    values = rng.uniform(-largest, largest, 10_000)
    rounded = exact.on_grid(values, exact.grid(largest, len(values)))
    np.testing.assert_allclose(rounded, values, rtol=0, atol=1e-9 * largest)
    assert len({rng.permutation(rounded).cumsum()[-1] for _ in range(20)}) == 1
    assert len({rng.permutation(values).cumsum()[-1] for _ in range(20)}) > 1
    both = exact.two_parts(values, largest, len(values))
    np.testing.assert_allclose(both[0] + both[1], values, rtol=0, atol=2.0**-70 * largest)
    assert len({rng.permutation(both[1]).cumsum()[-1] for _ in range(20)}) == 1
