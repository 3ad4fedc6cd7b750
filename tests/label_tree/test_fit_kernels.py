"""Training of nodes in batch equals the plain reference."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from manyclass.core.inputs import Dense
from manyclass.label_tree import fit_kernels as kernel
from manyclass.label_tree import model
from tests.reference import label_tree as reference
from tests.reference.label_tree_states import as_batch, configure, stream


def bits(true):
    """Rows of zeros and ones as the kernels take them."""
    return (true.astype(np.uint64) << np.arange(true.shape[1], dtype=np.uint64)).sum(axis=1, dtype=np.uint64)


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    sparse=st.booleans(),
    loss=st.sampled_from(["softmax", "logistic"]),
    n_outputs=st.sampled_from([1, 2, 7, 16, 17, 32, 64]),
    votes=st.sampled_from([0.0, 0.6]),
)
def test_training_of_nodes_equals_reference(seed, sparse, loss, n_outputs, votes):
    """Two nodes in one call, so that what the first leaves behind would be seen."""
    rng = np.random.default_rng(seed)
    X, _, weights = stream(seed, 20, 5, sparse)
    n_features, width = X.shape[1], -(-n_outputs // 16) * 16
    options = model.options_of(configure(loss=loss, seed=seed))
    scales = rng.uniform(0.3, 1.0, len(X)).astype(np.float32)
    rows = np.concatenate([np.sort(rng.choice(20, 13, replace=False)), np.sort(rng.choice(20, 9, replace=False))])
    pointer, nodes = np.array([0, 13, 22]), np.array([4, 1])
    true = rng.random((22, n_outputs)) < (0.3 if loss == "logistic" else 1 / n_outputs)
    others = np.where(rng.random(22) < 0.3, kernel.NOBODY, rng.normal(3.0, 2.0, 22))
    sizes = np.full(5, n_outputs, np.int32)
    bias, sq_norm = np.full((5, width), -1.5, np.float32), np.zeros((5, width))
    counts, feature = np.zeros(2, np.int64), np.empty(2 * n_features, np.int32)
    weight, total = np.empty((2, 2 * n_features, width), np.float32)
    used = kernel.fit_nodes(
        as_batch(X, sparse), scales, nodes, pointer, rows, bits(true), weights, others, sizes, options, 3, 6.0, votes,
        n_features, bias, sq_norm, counts, feature, weight, total,
    )  # fmt: skip
    assert used == counts.sum()
    edges = np.concatenate([[0], np.cumsum(counts)])
    for k, node in enumerate(nodes):
        mine, written = slice(pointer[k], pointer[k + 1]), slice(edges[k], edges[k + 1])
        orders = np.empty((3, len(rows[mine])), np.int64)
        for epoch in range(3):
            kernel.shuffle(orders[epoch], len(rows[mine]), options.seed + 7919 * (node + 1), epoch)
        weight_, total_, bias_ = reference.train_node(
            (X * scales[:, None])[rows[mine]].astype(float), true[mine].astype(float), weights[rows[mine]],
            others[mine], orders, loss=loss, start=6.0, rate=0.7, bias_rate=0.2, bias=[-1.5] * n_outputs, votes=votes,
        )  # fmt: skip
        known = feature[written]
        assert len(set(known.tolist())) == len(known)
        folded = weight_ + 6.0 * reference.directions(total_)
        np.testing.assert_allclose(weight[written, :n_outputs], folded[known], rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(total[written, :n_outputs], total_[known], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(bias[node, :n_outputs], bias_, rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(-sq_norm[node, :n_outputs], (total_**2).sum(axis=0), rtol=1e-4, atol=1e-6)
        assert np.all(bias[node, n_outputs:] == -1.5)
        assert not weight[written, n_outputs:].any()
        # Left out is only what is next to nothing.
        unknown = np.setdiff1d(np.arange(n_features), known)
        assert not total_[unknown].any()
        assert np.abs(weight_[unknown]).max(initial=0.0) < kernel.SMALLEST_WEIGHT + 1e-4
    assert np.all(bias[[0, 2, 3]] == -1.5)


def test_without_epochs_only_the_sums_over_each_leaf_are_asked_for():
    X, _, weights = stream(3, 20, 5, False)
    rng = np.random.default_rng(3)
    true = np.eye(4)[rng.integers(0, 4, 20)]
    others, bias = np.zeros(20), np.full((2, 16), 0.5, np.float32)
    nothing = np.empty((0, 16), np.float32)
    kernel.fit_nodes(
        Dense(X), np.ones(20, np.float32), np.array([1]), np.array([0, 20]), np.arange(20), bits(true), weights, others,
        np.full(2, 4, np.int32), model.options_of(configure()), 0, 6.0, 0.0, 6, bias, np.zeros((2, 16)),
        np.zeros(1, np.int64), np.empty(0, np.int32), nothing, nothing,
    )  # fmt: skip
    node = reference.Node([], True, 0, 0, np.zeros((6, 4)), X.T.astype(float) @ (weights[:, None] * true), 0.5)
    np.testing.assert_allclose(others, [reference.log_sum(node.scores(x, 6.0)) for x in X], rtol=1e-4)


@given(st.integers(0, 40), st.integers(0, 10**6), st.integers(0, 3))
def test_an_order_is_a_permutation_and_another_one_each_epoch(n, seed, epoch):
    order, again, other = np.empty((3, 40), np.int64)
    for out, e in ((order, epoch), (again, epoch), (other, epoch + 1)):
        kernel.shuffle(out, n, seed, e)
    assert sorted(order[:n].tolist()) == list(range(n))
    np.testing.assert_array_equal(order[:n], again[:n])
    assert n < 12 or not np.array_equal(order[:n], other[:n])
