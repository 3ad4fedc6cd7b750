"""A fitted tree continues to learn online; several trees, paths and the table of nodes."""

import itertools

import numpy as np
import pytest
from sklearn.preprocessing import normalize

from manyclass.core.columns import apply, as_matrix
from manyclass.core.protocol import Labels
from manyclass.label_tree import model
from tests.reference.label_tree_states import (
    as_batch,
    bytes_of,
    check_tree,
    configure,
    fitted,
    grow,
    own_labels,
    read_tree,
    stream,
)  # fmt: skip


def part(labels, first, last):
    """Labels of rows first..last-1."""
    return labels.rows(np.arange(first, last))


# -- going on online -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("most", [1, 3])
def test_a_fitted_tree_grows_on(most):
    first, later = stream(5, 150, 20, False, most), stream(6, 150, 80, False, most)
    options = configure(arity=4, multilabel=most > 1, loss="logistic")
    state = fitted(options, *first)
    n_nodes = model.n_nodes(state)
    model.learn(options, state, as_batch(later[0], False), *later[1:])
    weighed = later[1].rows(np.flatnonzero(later[2])).label  # rows of weight zero are not there
    check_tree(options, state, np.union1d(first[1].label, weighed).tolist())
    assert model.n_nodes(state) > n_nodes + 10


@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")
def test_a_tree_fitted_on_rows_without_values_grows_on(monkeypatch):
    X, labels, _ = stream(5, 60, 20, True)
    calls, plain = [], model._enlarge

    def enlarge(*given):
        calls.append(1)
        assert len(calls) < 20
        plain(*given)

    monkeypatch.setattr(model, "_enlarge", enlarge)
    options = configure()
    state = fitted(options, 0 * X, labels, np.ones(60), sparse=True)
    model.learn(options, state, as_batch(X, True), labels, np.ones(60))
    check_tree(options, state, np.unique(labels.label).tolist())


@pytest.mark.parametrize(("n_trees", "normalize"), [(1, False), (2, True), (2, False)])
def test_cutting_a_stream_after_fit_changes_no_byte(n_trees, normalize):
    X, labels, weights = stream(5, 300, 80, False, most=2)
    options = configure(arity=4, multilabel=True, loss="logistic", n_trees=n_trees, normalize=normalize)

    def learn(*cuts):
        state = fitted(options, X[:150], part(labels, 0, 150), weights[:150])
        edges = [150, *cuts, 300]
        for first, last in itertools.pairwise(edges):
            rows = as_batch(X[first:last], False)
            model.learn(options, state, rows, part(labels, first, last), weights[first:last])
        return bytes_of(state)

    assert learn() == learn(151, 200, 290)


def test_rows_of_weight_zero_are_in_no_sum():
    X, labels, weights = stream(7, 200, 20, False)
    weights[::3] = 0.0
    tree = read_tree(configure(), grow(configure(), X, labels, weights, False))
    unit = X / np.linalg.norm(X, axis=1)[:, None]
    total = np.sum([node.total.sum(axis=1) for node in tree.nodes if node.is_leaf], axis=0)
    np.testing.assert_allclose(total, weights @ unit, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("sparse", [False, True])
def test_unpacked_weights_predict_the_same_and_have_sums(sparse):
    X, labels, weights = stream(5, 300, 60, sparse)
    options = configure(arity=4, loss="logistic")
    state = fitted(options, X, labels, weights, sparse=sparse)
    before = model.predict(options, state, as_batch(X, sparse), 5, 60)
    unpacked = {**state, "blocks": model.unpack(options, state["tree"], state["blocks"])}
    tree = check_tree(options, unpacked, np.unique(labels.label).tolist())
    after = model.predict(options, unpacked, as_batch(X, sparse), 5, 60)
    assert np.mean(before.labels == after.labels) > 0.99  # rounding may turn round equal scores
    np.testing.assert_allclose(before.scores, after.scores, rtol=1e-3, atol=1e-3)
    moved = as_matrix(apply(state, as_batch(X, sparse)), X.shape[1])
    unit = normalize(moved)
    for label in np.unique(labels.label[weights[: len(labels.label)] > 0]).tolist():  # one label per row
        leaf, place = tree.ancestors(label)[0]
        estimated = tree.nodes[leaf].total[:, place]
        assert np.linalg.norm(estimated) == pytest.approx(state["tree"].mass[label], rel=1e-3)
        true = unit.T @ (weights * (labels.label == label))
        assert estimated @ true > 0.6 * np.linalg.norm(estimated) * np.linalg.norm(true)


def test_fit_counts_rows_and_labels():
    X, labels, weights = stream(7, 50, 5, False)
    seen = fitted(configure(), X, labels, weights)["seen"]
    assert (seen.n_rows[0], seen.n_labels[0]) == (50, 5)


# -- prediction --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("multilabel", [False, True])
def test_several_trees_predict_by_their_mean_probability(multilabel):
    X, labels, weights = stream(2, 200, 30, False, most=2 if multilabel else 1)
    options = configure(n_trees=3, multilabel=multilabel, loss="logistic")
    together = fitted(options, X, labels, weights)
    mean = np.zeros((len(X), 30))
    for suffix in ("", "_1", "_2"):
        alone = {"scale": together["scale"], "seen": together["seen"]}
        alone |= {group: together[group + suffix] for group in ("tree", "blocks")}
        scored = model.score(options, alone, as_batch(X, False))
        mean[np.repeat(np.arange(len(X)), scored.sizes), scored.labels] += scored.probabilities / 3
    found = model.predict(options, together, as_batch(X, False), 30, 30)
    probabilities, scored = np.exp(found.scores), model.score(options, together, as_batch(X, False))
    np.testing.assert_allclose(probabilities, -np.sort(-mean, axis=1), rtol=1e-4, atol=1e-9)
    np.testing.assert_allclose(np.take_along_axis(mean, found.labels, 1), probabilities, rtol=1e-4, atol=1e-9)
    rows = np.repeat(np.arange(len(X)), scored.sizes)
    np.testing.assert_allclose(mean[rows, scored.labels], scored.probabilities, rtol=1e-4)
    assert scored.sizes.sum() == (mean > 0).sum()


# -- paths and the table of nodes ------------------------------------------------------------------------------------


def test_paths_are_the_leaves_reached_and_all_above():
    X, labels, weights = stream(9, 200, 60, False)
    options = configure(arity=4, beam=3)
    state = fitted(options, X, labels, weights)
    tree = read_tree(options, state)
    moved = apply(state, as_batch(X, False)).values.astype(float)
    for x, nodes in zip(moved, model.paths(options, state, as_batch(X, False)), strict=True):
        leaves = [n for n, _ in tree.leaves(x / np.linalg.norm(x))]
        expected = {n for leaf in leaves for n, _ in tree.ancestors(tree.nodes[leaf].outputs[0])}
        assert nodes.tolist() == sorted(expected)


def test_the_table_lists_parents_before_children_and_every_label_once():
    X, labels, weights = stream(9, 200, 60, False)
    state = fitted(configure(arity=4), X, labels, weights)
    known = np.unique(labels.label).tolist()
    table = model.tree_table(state)
    tree = state["tree"]
    assert sorted(row["node"] for row in table) == list(range(model.n_nodes(state)))
    assert sorted(np.concatenate([row["labels"] for row in table]).tolist()) == known
    depth = {-1: -1}
    for row in table:
        assert row["parent"] == tree.parent[row["node"]]
        assert row["depth"] == depth[row["parent"]] + 1
        depth[row["node"]] = row["depth"]
        assert (len(row["labels"]) > 0) == bool(tree.is_leaf[row["node"]])
    assert [row["node"] for row in model.tree_table(state, 0)] == [0]
    assert [row["node"] for row in model.tree_table(state, 1)] == [row["node"] for row in table if row["depth"] <= 1]


def test_lists_of_labels_are_picked_row_by_row():
    labels = Labels(np.array([0, 2, 2, 5]), np.array([4, 7, 1, 2, 3], np.int32))
    picked = labels.rows(np.array([2, 0, 1, 2]))
    assert [own_labels(picked, i) for i in range(4)] == [[1, 2, 3], [4, 7], [], [1, 2, 3]]
    single = model.as_labels(np.array([5, 3]))
    assert [own_labels(single, i) for i in range(2)] == [[5], [3]]
    assert model.as_labels(labels) is labels
