"""Predictions and online steps of the label tree equal the plain reference."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from manyclass.core.columns import apply, as_matrix
from manyclass.core.inputs import Dense
from manyclass.core.labels import LabelSet, add_label
from manyclass.core.losses import LOGISTIC
from manyclass.core.protocol import Labels, Predictions
from manyclass.core.state import make
from manyclass.label_tree import kernels as kernel
from manyclass.label_tree import model
from tests.reference import label_tree as reference
from tests.reference.label_tree_states import (
    as_batch,
    configure,
    fitted,
    grow,
    own_labels,
    read_tree,
    same_trees,
    stream,
)  # fmt: skip

KINDS = [("softmax", False), ("logistic", False), ("logistic", True)]  # loss, whether a row may have several labels
OPTIONS = {
    "seed": st.integers(0, 10**6),
    "sparse": st.booleans(),
    "normalize": st.booleans(),
    "arity": st.sampled_from([4, 5, 16, 20]),
    "beam": st.sampled_from([1, 2, 4, 12]),
}

# -- prediction ---------------------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(
    online=st.booleans(),
    n_labels=st.integers(1, 30),
    kind=st.sampled_from(KINDS),
    **OPTIONS,
)
def test_predictions_equal_reference(seed, sparse, online, n_labels, kind, **options):
    """Rows in a block, whose nodes are opened where it pays, and rows one by one, for which none is."""
    loss, multilabel = kind
    X, labels, weights = stream(seed, 80, n_labels, sparse, most=3 if multilabel else 1)
    options = configure(loss=loss, multilabel=multilabel, **options)
    batch = as_batch(X, sparse)
    assume(online or len(labels.label))
    rows = X, labels, weights, sparse
    state = grow(options, *rows) if online else fitted(options, *rows, n_labels)
    tree, scale = read_tree(options, state), state["scale"]
    together = model.predict(options, state, batch, n_labels, n_labels)
    moved = as_matrix(apply(state, batch), X.shape[1])
    moved = moved.toarray() if sparse else moved
    for i, x in enumerate(moved.astype(float)):
        factor = reference.row_scale(x, options.normalize, scale.n_rows[0], scale.sq_norm[0])
        expected = tree.predict(factor * x)
        alone = model.predict(options, state, as_batch(X[i : i + 1], sparse), n_labels, n_labels)
        for found in (Predictions(*(part[i] for part in together)), Predictions(*(part[0] for part in alone))):
            same_prediction(found, expected, n_labels)
        np.testing.assert_array_equal(together.work[i], alone.work[0])
        height = len(tree.ancestors(expected[0][0])) - 1
        assert together.work[i, 0] == height
        assert together.work[i, 3] == len(expected)
        assert together.work[i, 1] <= options.beam * height + options.beam
        assert together.work[i, 2] <= options.beam * options.arity * height


def same_prediction(found, expected, n_labels):
    n = min(len(expected), n_labels)
    scores = np.array([score for _, score in expected])
    np.testing.assert_allclose(found.scores[:n], scores[:n], rtol=1e-3, atol=2e-4)
    assert np.all(found.scores[n:] == -np.inf)
    assert sorted(found.labels.tolist()) == list(range(n_labels))
    clear = np.all(np.abs(np.diff(scores)) > 1e-3)  # where scores are equal, rounding decides
    assert not clear or found.labels[:n].tolist() == [label for label, _ in expected]
    assert set(found.labels[:n].tolist()) == {label for label, _ in expected}


def test_a_block_of_rows_opens_nodes_and_gives_the_predictions_of_single_rows():
    """The comparison above says something about open nodes only if some are opened, and some are not."""
    X, labels, weights = stream(1, 400, 40, True)
    options = configure(arity=16, beam=3)
    state = grow(options, X, labels, weights, True)
    n_used, batch = state["blocks"].n_used, as_batch(X, True)
    come_by = np.diff(batch.indptr).sum()  # all rows come by the root
    assert come_by > 3 * n_used[0] > 0
    assert np.diff(batch.indptr).max() < 3 * n_used[: state["tree"].n_nodes[0]].min()
    together = model.predict(options, state, batch, 5, 40)
    for i in range(400):
        alone = model.predict(options, state, as_batch(X[i : i + 1], True), 5, 40)
        np.testing.assert_array_equal(alone.labels[0], together.labels[i])
        np.testing.assert_allclose(alone.scores[0], together.scores[i], rtol=1e-4, atol=1e-5)


def test_rows_beyond_one_block_are_predicted_alike():
    X, labels, weights = stream(2, 50, 20, False)
    options = configure(arity=4)
    state = grow(options, X, labels, weights, False)
    few = model.predict(options, state, Dense(X), 3, 20)
    many = model.predict(options, state, Dense(np.tile(X, (90, 1))), 3, 20)  # 4,500 rows, blocks of 2,048
    np.testing.assert_array_equal(many.labels, np.tile(few.labels, (90, 1)))
    np.testing.assert_allclose(many.scores, np.tile(few.scores, (90, 1)), rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(many.work, np.tile(few.work, (90, 1)))


@pytest.mark.parametrize("capacity", [5, 16, 32])  # of the arrays, which a model file does not keep
def test_labels_with_equal_scores_stay_in_the_order_of_the_first_tree(capacity):
    order = np.array([3, 0, 4, 1, 2])
    labels, scores = np.full((2, 1, capacity), -1, np.int32), np.full((2, 1, capacity), -0.5)
    labels[0, 0, :5], labels[1, 0, :5] = order, order[::-1]
    best, best_scores = np.empty((1, 5), np.int32), np.empty((1, 5))
    kernel.merge_batch(labels, scores, False, best, best_scores)
    np.testing.assert_array_equal(best[0], order)
    np.testing.assert_allclose(best_scores, -0.5)


# -- online: one row -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("loss", "multilabel"), KINDS)
@settings(max_examples=20)
@given(n_labels=st.integers(1, 25), in_runs=st.booleans(), **OPTIONS)
def test_online_steps_equal_reference(loss, multilabel, seed, sparse, n_labels, in_runs, **options):
    most = 3 if multilabel else 1
    X, labels, weights = stream(seed, 110, n_labels, sparse, most)
    options = configure(multilabel=multilabel, loss=loss, **options)
    state = grow(options, X[:80], Labels(labels.pointer[:81], labels.label), weights[:80], sparse)
    tree = read_tree(options, state)
    order = np.arange(80, 110)
    if in_runs:  # rows sorted by label change the sums only
        order = sorted(order, key=lambda i: own_labels(labels, i))
    for i in order:
        own = [label for label in own_labels(labels, i) if label in tree.leaf_of]
        if most == 1 and not own:
            continue
        x, scale = X[i].astype(float), state["scale"]
        x = x * reference.row_scale(x, options.normalize, scale.n_rows[0], scale.sq_norm[0])
        one = Labels(np.array([0, len(own)]), np.array(own, np.int32))
        model.learn(options, state, as_batch(X[i : i + 1], sparse), one, weights[i : i + 1])
        tree.learn(x, own, weights[i])
    same_trees(read_tree(options, state), tree)


def test_the_reference_learns_something():
    """The comparison above would say little about a tree of one leaf, or about steps that are never taken."""
    X, labels, weights = stream(4, 200, 25, False, most=3)
    options = configure(multilabel=True, loss="logistic", arity=4)
    tree = read_tree(options, grow(options, X, labels, weights, False))
    assert len(tree.nodes) > 8
    before = [node.weight.copy() for node in tree.nodes]
    tree.learn(X[0].astype(float), own_labels(labels, 0), 1.0)
    moved = [np.abs(node.weight - old).max() for node, old in zip(tree.nodes, before, strict=True)]
    assert sum(step > 1e-3 for step in moved) >= 3
    assert sum(step == 0 for step in moved) >= 3


def hand_made(scores, n_labels):
    """Gradients of a root whose only child is a leaf with all labels, all of them true."""
    tree = make(kernel.LabelTree, node=2, output=4, **{"class": n_labels})
    tree.is_leaf[0], tree.size[:], tree.n_nodes[0] = 0, (1, n_labels), 2
    tree.outputs[0, 0], tree.parent[1], tree.place[1] = 1, 0, 0
    tree.leaf_of[:], tree.place_of[:] = 1, np.arange(n_labels)
    gradient, true = np.zeros(16, np.float32), LabelSet(np.empty(16, np.int64), np.zeros(16, np.int64))
    for key in (0, 1, *(kernel.key_of(label) for label in range(n_labels))):
        add_label(true, np.int64(key), np.int64(1))
    known = true, np.int64(1)
    kernel.gradient_of(tree, np.int64(0), np.full(16, scores, np.float32), *known, 0.0, LOGISTIC, gradient)
    return gradient


@pytest.mark.parametrize("score", [0.0, 3.0, 30.0])
def test_a_child_above_several_true_labels_is_true_once(score):
    expected = 1.0 / (1.0 + np.exp(-score)) - 1.0
    assert hand_made(score, 3)[0] == pytest.approx(expected, abs=1e-6)
    assert not hand_made(score, 3)[1:].any()
