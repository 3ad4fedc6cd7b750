"""The LOM tree's kernels equal the plain reference; its rules equal the papers' by hand."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from manyclass import SGD, LomTreeClassifier
from manyclass.core.inputs import Dense
from manyclass.core.online_trees import check_tree
from manyclass.lom_tree import model
from tests.reference import lom_tree as reference
from tests.reference.streams import LEARNERS, as_batch, stream, train_both

OPTIONS = {
    "swap": st.booleans(),
    "swap_resistance": st.sampled_from([0.0, 0.2, 1.0]),
    "nodes_per_class": st.sampled_from([0.5, 1.0, 64.0]),
    "split_mass": st.sampled_from([0.0, 1.0, 3.0]),
    "max_depth": st.sampled_from([0, 2, 60]),
    "descent": st.sampled_from(["sign", "target"]),
    "loss": st.sampled_from(["hinge", "absolute", "logistic"]),
}
PLAIN = {
    "swap": True,
    "swap_resistance": 4.0,
    "nodes_per_class": 64.0,
    "split_mass": 0.0,
    "max_depth": 60,
    "descent": "sign",
    "loss": "hinge",
}


def resolve(**options):
    """The model's options from those of the estimator."""
    return LomTreeClassifier(table_bits=20, **{**PLAIN, **options})._resolve_options(1, False, 0)


def learn_both(X, y, weights, sparse, learner, **options):
    """(options, state) of the package and the reference tree after the same stream."""
    config = resolve(learner=LEARNERS[learner], **options)
    tree = reference.LomTree(X.shape[1], learner=(learner, LEARNERS[learner].rate), **options)
    return config, train_both(model, config, tree, X, y, weights, sparse), tree


@settings(max_examples=80, report_multiple_bugs=False)
@given(
    seed=st.integers(0, 10**6),
    n_labels=st.integers(1, 12),
    sparse=st.booleans(),
    learner=st.sampled_from(list(LEARNERS)),
    **OPTIONS,
)
def test_kernel_equals_reference(seed, n_labels, sparse, learner, **options):
    X, y, weights = stream(seed, 70, n_labels, sparse)
    config, state, tree = learn_both(X, y, weights, sparse, learner, **options)
    assume(not tree.close_calls)
    grown = state["tree"]
    assert grown.n_nodes[0] == len(tree.nodes)
    check_tree(grown)
    for node in tree.nodes:
        children = [-1, -1] if node.children is None else [child.number for child in node.children]
        assert grown.children[node.number].tolist() == children
        assert grown.parent[node.number] == (-1 if node.parent is None else node.parent.number)
        assert state["nodes"].smallest[node.number] == pytest.approx(node.smallest)
        same_candidates(state, node)
    assert state["seen"].mass[0] == pytest.approx(tree.mass)
    assert state["seen"].wrong_mass[0] == pytest.approx(tree.wrong_mass)
    same_predictions(config, state, tree, X, sparse, n_labels)


@settings(max_examples=40, report_multiple_bugs=False)
@given(
    seed=st.integers(0, 10**6),
    n_labels=st.integers(2, 12),
    sparse=st.booleans(),
    learner=st.sampled_from(list(LEARNERS)),
    **{name: OPTIONS[name] for name in ("descent", "split_mass", "max_depth")},
)
def test_printed_rules_equal_the_reference(seed, n_labels, sparse, learner, **options):
    X, y, weights = stream(seed, 70, n_labels, sparse)
    options = {**PLAIN, "swap": False, "loss": "absolute", "rules": "paper", **options}
    config, state, tree = learn_both(X, y, weights, sparse, learner, **options)
    assume(not tree.close_calls)
    assert state["tree"].n_nodes[0] == len(tree.nodes)
    check_tree(state["tree"])
    for node in tree.nodes:
        same_candidates(state, node)
    assert state["seen"].wrong_mass[0] == pytest.approx(tree.wrong_mass)
    same_predictions(config, state, tree, X, sparse, n_labels)


def test_a_printed_leaf_is_copied_to_the_left():
    """[OT Alg. 1 l.15-18]: left a copy of the leaf, right the new label, and the router one step towards 1."""
    config = resolve(learner=SGD(0.25), swap=False, loss="absolute", rules="paper", descent="target")
    state = model.init(config, 1)
    model.learn(config, state, Dense(np.ones((3, 1), np.float32)), np.array([7, 7, 4], np.int32), np.ones(3))
    left, right = state["tree"].children[0]
    counts = [state["candidates"].label[node, : state["candidates"].size[node]].tolist() for node in (left, right)]
    assert counts == [[7, 4], [4]]
    assert state["router"].bias[0] == pytest.approx(-0.5 + 0.25) and state["router"].bias[left] == -0.5


def same_candidates(state, node):
    size = state["candidates"].size[node.number]
    assert state["candidates"].label[node.number, :size].tolist() == list(node.leaf_counts)
    np.testing.assert_allclose(state["candidates"].mass[node.number, :size], list(node.leaf_counts.values()))


def same_predictions(config, state, tree, X, sparse, n_labels):
    predictions = model.predict(config, state, as_batch(X, sparse), n_labels, n_labels)
    for x, labels, scores, work in zip(X.astype(float), *predictions, strict=True):
        expected, (_, depth) = tree.shares(x), tree.leaf(x)
        if tree.close_calls:
            return
        n = len(expected)
        assert labels[:n].tolist() == [label for label, _ in expected]
        np.testing.assert_allclose(scores[:n], [share for _, share in expected], atol=1e-9)
        assert np.all(scores[n:] == -np.inf) and sorted(labels.tolist()) == list(range(n_labels))
        assert work.tolist() == [depth, depth + 1, depth, 0]


def test_the_streams_of_the_comparison_grow_and_swap():
    """Otherwise it would compare little."""
    X, y, weights = stream(3, 70, 12, False)
    tree = learn_both(X, y, weights, False, "sgd", **PLAIN)[2]
    assert len(tree.nodes) > 15 and 0.1 < tree.wrong_mass / tree.mass < 0.9
    swapped = learn_both(X, y, weights, False, "sgd", **{**PLAIN, "nodes_per_class": 0.7, "swap_resistance": 0.0})[2]
    assert swapped.n_swaps > 5


def test_the_means_are_true_means():
    """As printed [OT Alg. 1 l.6-7] the mean of a constant 1 would be 0.001 after 1000 rows."""
    config = resolve(learner=SGD(1e-9))
    state = model.init(config, 1)
    ones = Dense(np.ones((1000, 1), np.float32))
    model.learn(config, state, ones, (np.arange(1000) % 2).astype(np.int32), np.ones(1000))
    state["router"].bias[0] = 1.0
    state["nodes"].margin[0] = state["nodes"].margin_mass[0] = 0.0
    model.learn(config, state, ones, (np.arange(1000) % 2).astype(np.int32), np.ones(1000))
    assert state["nodes"].margin[0] / state["nodes"].margin_mass[0] == pytest.approx(1.0, abs=1e-4)


def test_a_separable_pair_parts_at_the_root():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 400).astype(np.int32)
    X = np.where(y == 0, -1.0, 1.0)[:, None] + 0.1 * rng.standard_normal((400, 1))
    config = resolve(learner=SGD(0.5))
    state = model.init(config, 1)
    batch = Dense(X.astype(np.float32))
    model.learn(config, state, batch, y, np.ones(400))
    predictions = model.predict(config, state, batch, 1, 2)
    assert np.mean(predictions.labels[:, 0] == y) > 0.99
    assert predictions.work[:, 0].max() <= 4


def test_without_swap_the_tree_stops_growing():
    X, y, weights = stream(3, 400, 12, False)
    config = resolve(learner=SGD(), swap=False, nodes_per_class=0.5)
    state = model.init(config, X.shape[1])
    model.learn(config, state, Dense(X), y, weights)
    assert state["tree"].n_nodes[0] <= 2 * 0.5 * 12 + 2
    assert state["tree"].n_identities[0] == state["tree"].n_nodes[0]


def test_recycled_nodes_leave_no_entries_behind_for_ever():
    """The table stays in proportion to the tree, however often nodes are swapped."""
    rng = np.random.default_rng(0)
    config = resolve(learner=SGD(), nodes_per_class=1.0, swap_resistance=0.0)
    state = model.init(config, 3)
    for _ in range(10):
        X = rng.standard_normal((2000, 3)).astype(np.float32)
        model.learn(config, state, Dense(X), rng.integers(0, 40, 2000).astype(np.int32), np.ones(2000))
    assert state["tree"].n_identities[0] > 1000
    assert len(state["table"].key) <= 16384
    check_tree(state["tree"])
