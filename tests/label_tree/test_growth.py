"""A tree that grew online, row by row and split by split, is still a tree."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from manyclass.core.inputs import Dense
from manyclass.core.protocol import Labels
from manyclass.core.state import Scale, make
from manyclass.label_tree import growth as kernel
from manyclass.label_tree import model
from manyclass.label_tree.kernels import SORTED, first_bias
from tests.reference import label_tree as reference
from tests.reference.label_tree_states import check_tree, configure, grow, own_labels, read_tree, stream

seeds = st.integers(0, 10**6)


@settings(max_examples=25)
@given(
    seed=seeds,
    sparse=st.booleans(),
    case=st.sampled_from([("softmax", 1), ("logistic", 1), ("logistic", 3)]),
    arity=st.sampled_from([4, 5, 7, 16, 20]),
    normalize=st.booleans(),
)
def test_a_grown_tree_is_a_tree(seed, sparse, case, arity, **options):
    loss, most = case
    X, labels, weights = stream(seed, 160, 90, sparse, most)
    weights = np.maximum(weights, 0.5)
    options = configure(arity=arity, loss=loss, multilabel=most > 1, **options)
    state = grow(options, X, labels, weights, sparse)
    met = np.unique(labels.label)
    tree = check_tree(options, state, met.tolist())
    assert len(met) > 60
    assert len(tree.nodes) > len(met) / arity
    for node in tree.nodes[1:]:
        assert len(node.outputs) >= arity // 2  # halves of full nodes, and what came after
    for node in tree.nodes:
        if not node.is_leaf:
            below = np.stack([tree.nodes[child].total.sum(axis=1) for child in node.outputs], axis=1)
            np.testing.assert_allclose(node.total, below, rtol=1e-4, atol=1e-4)
    scaled = np.zeros((X.shape[1], 90))
    scale = make(Scale, feature=X.shape[1])
    for i, x in enumerate(X.astype(float)):
        factor = reference.row_scale(x, options.normalize, scale.n_rows[0], scale.sq_norm[0])
        scaled[:, own_labels(labels, i)] += (weights[i] * factor * x)[:, None]
        scale.n_rows[0] += 1
        scale.sq_norm[0] += x @ x
    for label in met.tolist():
        leaf, place = tree.ancestors(label)[0]
        np.testing.assert_allclose(tree.nodes[leaf].total[:, place], scaled[:, label], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("arity", [4, 5, 16])
@pytest.mark.parametrize("path", ["arc", "random walk", "one point"])
def test_depth_is_logarithmic(arity, path):
    """However the labels come, one row each: with 2 or 3 outputs, every new one beside the last would be the worst."""
    n = 500
    turn = np.linspace(0.1, 1.4, n)
    walk = np.cumsum(np.random.default_rng(0).standard_normal((n, 6)), axis=0)
    X = {"arc": np.stack([np.cos(turn), np.sin(turn)], axis=1), "random walk": walk, "one point": np.ones((n, 2))}[path]
    options = configure(arity=arity)
    state = grow(options, X.astype(np.float32), model.as_labels(np.arange(n)), np.ones(n), False)
    tree = check_tree(options, state, range(n))
    assert len(tree.ancestors(0)) - 1 <= np.log(n) / np.log(arity // 2)


def test_a_new_label_enters_the_leaf_of_the_best_path():
    X, labels, _ = stream(6, 300, 60, False)
    options, n_entered = configure(arity=6, beam=1), 0
    state = model.init(options, 6)
    for i in range(300):
        tree, own = read_tree(options, state), own_labels(labels, i)
        one = Labels(np.array([0, 1]), np.array(own, np.int32))
        x = X[i].astype(float) / np.linalg.norm(X[i].astype(float))
        model.learn(options, state, Dense(X[i : i + 1]), one, np.ones(1))
        leaf = tree.leaves(x)[0][0] if tree.nodes[0].outputs else 0
        if own[0] not in tree.leaf_of and len(tree.nodes[leaf].outputs) < 6:
            assert state["tree"].leaf_of[own[0]] == leaf
            assert state["tree"].place_of[own[0]] == len(tree.nodes[leaf].outputs)
            n_entered += leaf > 0
    assert n_entered > 20


def test_in_a_long_run_of_one_label_only_the_sums_learn():
    X, labels, _ = stream(11, 200, 10, False)
    options = configure(arity=4)
    state = grow(options, X, labels, np.ones(200), False)
    share = state["tree"].mass[3] / 200
    assert share**2 > SORTED > share**4  # three in a row may be chance, five may not
    noise = np.random.default_rng(0).standard_normal((8, 6)).astype(np.float32)
    moved = []
    for x, label in zip(noise, [5, 3, 3, 3, 3, 3, 3, 5], strict=True):
        before = state["blocks"].weight.copy(), state["blocks"].total.copy()
        model.learn(options, state, Dense(x[None]), np.array([label]), np.ones(1))
        assert not np.array_equal(before[1], state["blocks"].total)
        moved.append(not np.array_equal(before[0], state["blocks"].weight))
    assert moved[:4] == [True, True, True, True]
    assert moved[5:] == [False, False, True]


def test_the_first_row_of_a_label_is_its_sum_and_no_step():
    X, labels, weights = stream(12, 50, 10, False)
    options = configure(arity=16)
    state = grow(options, X, labels, weights, False)
    before = state["blocks"].weight.copy()
    model.learn(options, state, Dense(X[:1]), np.array([12]), np.ones(1))
    np.testing.assert_array_equal(state["blocks"].weight, before)
    model.learn(options, state, Dense(X[1:2]), np.array([12]), np.ones(1))
    assert not np.array_equal(state["blocks"].weight, before)


def make_halves(n, gram=None):
    gram = np.empty((n, n)) if gram is None else gram
    return kernel.Halves(gram, np.empty(n, np.int64), np.empty(n), np.empty(n, np.int64))


def split_root(n_labels, loss):
    """(trees before and after a full root was split, options, state)."""
    X, labels, weights = stream(8, 120, n_labels, False)
    options = configure(arity=n_labels, loss=loss)
    state = grow(options, X, labels, weights, False)
    before = read_tree(options, state)
    assert (len(before.nodes), len(before.nodes[0].outputs)) == (1, n_labels)
    biases = first_bias(options, False), first_bias(options, True)
    assert kernel.can_split(state["tree"], state["blocks"], np.int64(0))
    kernel.split(state["tree"], state["blocks"], np.int64(0), biases, make_halves(n_labels))
    return before, check_tree(options, state, range(n_labels)), X


@pytest.mark.parametrize("loss", ["softmax", "logistic"])
@pytest.mark.parametrize("n_labels", [4, 5, 16, 20])
def test_a_split_changes_no_score_of_a_label(n_labels, loss):
    before, after, X = split_root(n_labels, loss)
    assert sorted(len(node.outputs) for node in after.nodes) == sorted([2, n_labels // 2, n_labels - n_labels // 2])
    for x in X[:20].astype(float):
        old = dict(zip(before.nodes[0].outputs, before.nodes[0].scores(x, 8.0), strict=True))
        for n in after.nodes[0].outputs:
            for label, score in zip(after.nodes[n].outputs, after.nodes[n].scores(x, 8.0), strict=True):
                assert score == pytest.approx(old[label], rel=1e-4, abs=1e-4)


def test_halves_hold_similar_outputs():
    rng = np.random.default_rng(0)
    centres = np.array([[1.0, 0.1, 0.0], [0.0, 0.1, 1.0]])
    group = rng.permutation(np.repeat([0, 1], 8))
    points = centres[group] + 0.1 * rng.standard_normal((16, 3))
    points /= np.linalg.norm(points, axis=1)[:, None]
    halves = make_halves(16, points @ points.T)
    kernel.halve(halves, np.int32(16))
    assert halves.side.sum() == 8
    assert len(set(zip(group.tolist(), halves.side.tolist(), strict=True))) == 2


@given(seeds, st.integers(2, 20))
def test_halves_are_even(seed, size):
    points = np.random.default_rng(seed).standard_normal((size, 3)).round()  # some are equal
    halves = make_halves(size, points @ points.T)
    kernel.halve(halves, np.int32(size))
    assert halves.side.sum() == size - size // 2
    assert set(halves.side.tolist()) == {0, 1}
