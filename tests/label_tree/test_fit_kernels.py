"""Training of nodes in batch equals the plain reference."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from manyclass.core.inputs import Dense
from manyclass.core.state import Scale, make
from manyclass.label_tree import fit_kernels as kernel
from manyclass.label_tree.kernels import LabelTree, Rows
from manyclass.label_tree.model import dense_weights
from manyclass.label_tree.weights import packed
from tests.reference import label_tree as reference
from tests.reference.label_tree_states import as_batch, configure, stream


def leaves(n, n_outputs):
    """Nodes that are leaves of `n_outputs` labels."""
    tree = make(LabelTree, node=n, output=n_outputs, **{"class": 1})
    tree.size[:] = n_outputs
    return tree


def bits(true):
    """Rows of zeros and ones as the kernels take them."""
    return (true.astype(np.uint64) << np.arange(true.shape[1], dtype=np.uint64)).sum(axis=1, dtype=np.uint64)


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    sparse=st.booleans(),
    n_outputs=st.sampled_from([1, 2, 7, 16, 17, 32, 64]),
    votes=st.sampled_from([0.0, 0.6]),
    smallest=st.sampled_from([0.0, 0.3]),
    margin=st.sampled_from([0.0, 4.0]),
)
def test_training_of_nodes_equals_reference(seed, sparse, n_outputs, votes, smallest, margin):
    """Two nodes in one call, so that what the first leaves behind would be seen."""
    rng = np.random.default_rng(seed)
    X, _, weights = stream(seed, 20, 5, sparse)
    n_features, width = X.shape[1], -(-n_outputs // 16) * 16
    options = configure(loss="logistic", seed=seed, start=6.0, arity=n_outputs, margin=margin)
    scales = rng.uniform(0.3, 1.0, len(X)).astype(np.float32)
    rows = np.concatenate([np.sort(rng.choice(20, 13, replace=False)), np.sort(rng.choice(20, 9, replace=False))])
    pointer, nodes = np.array([0, 13, 22]), np.array([1, 4])
    true = rng.random((22, n_outputs)) < 0.3
    bias, value = np.full((5, width), -1.5, np.float32), np.empty(2 * n_features * width, np.int16)
    feature, lanes = np.empty(2 * n_features, np.int32), np.empty((2 * n_features, width // 16), np.uint16)
    counts, steps = np.zeros(2, np.int64), np.empty(2, np.float32)
    out = kernel.Weights(nodes, counts, feature, lanes, value, steps, bias[nodes])
    data = Rows(as_batch(X, sparse), scales, weights)
    pairs = kernel.Pairs(np.repeat(nodes, np.diff(pointer)).astype(np.int32), rows.astype(np.int32), bits(true))
    start = kernel.Start(6.0, votes)
    tree, scale = leaves(5, n_outputs), make(Scale, feature=n_features)
    used, n_values = kernel.fit_nodes(tree, scale, data, pairs, start, options, np.float32(smallest), out)
    assert used == out.n_features.sum()
    counts = np.zeros(5, np.int64)
    counts[nodes], steps = out.n_features, np.zeros(5, np.float32)
    steps[nodes], bias[nodes] = out.step, out.bias
    blocks = packed(counts[:, None], bias, steps, feature[:used].astype("u2"), lanes[:used], value[:n_values])
    for k, node in enumerate(nodes):
        mine = slice(pointer[k], pointer[k + 1])
        orders = np.empty((3, len(rows[mine])), np.int64)
        for epoch in range(3):
            kernel.shuffle(orders[epoch], len(rows[mine]), options.seed + 7919 * (node + 1), epoch)
        weight, expected_bias = reference.train_node(
            (X * scales[:, None])[rows[mine]].astype(float), true[mine].astype(float), weights[rows[mine]],
            orders, start=6.0, C=3.0, margin=margin, bias_rate=0.2, bias=[-1.5] * n_outputs, votes=votes,
        )  # fmt: skip
        known, found = dense_weights(blocks, node, 0.0)
        assert np.all(np.diff(known) > 0)
        assert np.all((found == 0) | (np.abs(found) > smallest - steps[node]))
        assert not found[:, n_outputs:].any()
        everything = np.zeros((n_features, n_outputs))
        everything[known] = found[:, :n_outputs]
        weight[np.setdiff1d(np.arange(n_features), np.flatnonzero(X[rows[mine]].any(axis=0)))] = 0.0  # in no row
        np.testing.assert_allclose(everything, weight, rtol=1e-3, atol=1e-4 + steps[node] + smallest)
        kept = np.abs(weight) > smallest + 1e-3
        np.testing.assert_allclose(everything[kept], weight[kept], rtol=1e-3, atol=1e-4 + steps[node])
        np.testing.assert_allclose(bias[node, :n_outputs], expected_bias, rtol=1e-3, atol=1e-4)
        assert np.all(bias[node, n_outputs:] == -1.5)


@pytest.mark.parametrize("every", [1, 3])
@pytest.mark.parametrize("start", [kernel.Start(1.0, 0.0), kernel.Start(0.0, 1.0)], ids=str)
def test_start_scores_without_the_row_itself(start, every):
    X, _, _ = stream(3, 20, 5, False)
    true, weights = np.random.default_rng(3).random((20, 4)) < 0.3, np.full(20, 2.0)
    true[:, 3] = False
    true[6, 3] = True  # the only row of output 3: nothing is left without it
    tree = leaves(2, 4)
    data = Rows(Dense(X), np.ones(20, np.float32), weights)
    pairs = kernel.Pairs(np.ones(20, np.int32), np.arange(20, dtype=np.int32), bits(true))
    scores = np.zeros((len(range(0, 20, every)), 16), np.float32)
    kernel.left_out_scores(tree, make(Scale, feature=6), data, pairs, start, every, scores)
    total = X.T.astype(float) @ (weights[:, None] * true)
    mass = np.abs(total)
    votes = reference.votes_of(mass, mass.sum(axis=1)[:, None], mass.sum(axis=0) / mass.sum())
    expected = X @ (reference.directions(total) if start.cosine else votes)
    expected = expected + reference.left_out(X.astype(float), true, weights, *start)
    expected[6, 3] = np.nan
    np.testing.assert_allclose(scores[:, :4], expected[::every], rtol=1e-3, atol=1e-4)


@given(st.lists(st.integers(-50, 50), max_size=60))
def test_sorting_in_place(values):
    array = np.array([*values, 7], np.int32)
    kernel.sort(array, len(values))
    assert array.tolist() == [*sorted(values), 7]


@given(st.integers(0, 40), st.integers(0, 10**6), st.integers(0, 3))
def test_an_order_is_a_permutation_and_another_one_each_epoch(n, seed, epoch):
    order, again, other = np.empty((3, 40), np.int64)
    for out, e in ((order, epoch), (again, epoch), (other, epoch + 1)):
        kernel.shuffle(out, n, seed, e)
    assert sorted(order[:n].tolist()) == list(range(n))
    np.testing.assert_array_equal(order[:n], again[:n])
    assert n < 12 or not np.array_equal(order[:n], other[:n])
