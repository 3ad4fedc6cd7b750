"""Rows predicted together, node by node, equal rows predicted one by one."""

import numpy as np
import pytest

from manyclass import RecallTreeClassifier
from manyclass.core.validation import as_batch
from manyclass.recall_tree import model


def test_few_rows_of_a_large_tree_are_predicted_one_by_one(many):
    """Looking at every node for a few rows would cost more than logarithmic time."""
    X, y = many
    tree = RecallTreeClassifier(random_state=0, n_candidates=2, n_epochs=1).fit(X, y)
    options, state, batch = tree._prediction_options(), tree._state, as_batch(X[:40])
    assert model._goes_by_node(options, state, batch) == (40 >= model.n_nodes(state) // model._NODES_PER_ROW)
    state["tree"].n_nodes[0] = 10**6
    assert not model._goes_by_node(options, state, batch)


@pytest.mark.parametrize("options", [{}, {"beam": 1}, {"beam": 1, "bernstein": None}, {"arity": 4}], ids=str)
@pytest.mark.parametrize("k", [1, 4, 60])
def test_rows_predicted_together_are_predicted_as_alone(many, options, k, monkeypatch):
    X, y = many
    tree = RecallTreeClassifier(random_state=0, n_candidates=7, n_epochs=3, **options).fit(X, y)
    alone = [tree._predict(X[i : i + 1].astype(np.float32), k) for i in range(200)]
    for grouped_from in (10**9, 0):
        monkeypatch.setattr(model, "_MANY_NODES", grouped_from)
        assert (model._grouping_level(tree._prediction_options(), tree._state, 200) > 0) == (grouped_from == 0)
        together = tree._predict(X[:200].astype(np.float32), k)
        np.testing.assert_array_equal(together.labels, np.concatenate([one.labels for one in alone]))
        np.testing.assert_allclose(together.scores, np.concatenate([one.scores for one in alone]), rtol=1e-4, atol=1e-5)
        work = np.concatenate([one.work for one in alone])
        np.testing.assert_array_equal(together.work[:, :2], work[:, :2])
        assert np.all((together.work[:, 2] > work[:, 2]) if grouped_from == 0 else together.work[:, 2] == work[:, 2])
        assert np.all(together.work[:, 3] >= work[:, 3])  # a label of two nodes is scored at both


def test_few_rows_per_node(many):
    """An odd number of candidates, and one to three rows at a node, take other branches of the kernel."""
    X, y = many
    tree = RecallTreeClassifier(random_state=0, n_candidates=5, n_epochs=2).fit(X, y)
    expected = tree.predict(X)
    for n in (32, 33, 34, 35, 63):
        np.testing.assert_array_equal(tree.predict(X[:n]), expected[:n])
