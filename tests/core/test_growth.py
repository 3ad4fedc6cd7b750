"""Room is made while learning, keeps all that was learned, and stays within its limits."""

import numpy as np
import pytest

from manyclass import OneAgainstAllClassifier
from manyclass.core.inputs import Dense
from manyclass.core.labels import EMPTY, mass_of
from manyclass.core.learners import SGD, NormalizedAdaGrad
from manyclass.core.state import flatten
from manyclass.one_against_all import model as one_against_all
from manyclass.recall_tree import kernels as kernel
from manyclass.recall_tree import model as recall_tree

N_CLASSES, N_FEATURES = 120, 6


def tree_config(**changes):
    settings = {
        "bernstein": 1.0, "n_candidates": None, "max_depth": None, "path_features": "crossed", "beam": 1,
        "randomized": False, "loss": "softmax", "table_bits": 20, "learner": NormalizedAdaGrad(),
        "router_learner": SGD(), "seed": 3,
    }  # fmt: skip
    return recall_tree.Config(**{**settings, **changes})


@pytest.fixture(scope="module")
def stream():
    rng = np.random.default_rng(5)
    centres = rng.standard_normal((N_CLASSES, N_FEATURES))
    y = np.sort(rng.integers(0, N_CLASSES, 900))
    y = np.concatenate([y, rng.integers(0, N_CLASSES, 900)]).astype(np.int32)  # new labels come late, too
    X = (centres[y] + 0.2 * rng.standard_normal((len(y), N_FEATURES))).astype(np.float32)
    return X, y, rng.uniform(0.5, 1.5, len(y))


@pytest.fixture(scope="module")
def grown(stream):
    X, y, weights = stream
    config = tree_config(bernstein=None)
    state = recall_tree.init(config, N_FEATURES)
    recall_tree.learn(config, state, Dense(X), y, weights)
    return config, state


def test_bounds_follow_the_lists_as_they_widen(stream):
    X, y, weights = stream
    config = tree_config(path_features="off")
    state = recall_tree.init(config, N_FEATURES)
    recall_tree.learn(config, state, Dense(X), y, weights)
    counts, covered = state["counts"], state["candidates"].covered
    for node in range(int(state["tree"].n_nodes[0])):
        expected = kernel.recall_bound(covered[node], counts.total[node], 1.0)
        assert counts.bound[node] == pytest.approx(expected)


def test_everything_grew(grown):
    config, state = grown
    first = recall_tree.init(config, N_FEATURES)
    for name in ("tree", "table", "scorer", "candidates", "path"):
        assert state[name][0].size > first[name][0].size, name
    assert state["seen"].n_labels[0] == N_CLASSES
    assert state["candidates"].label.shape[1] == kernel.candidates_wanted(N_CLASSES, recall_tree.options_of(config))
    assert 2 * state["table"].n_entries[0] <= len(state["table"].key)


def test_tree_is_a_tree(grown):
    tree = grown[1]["tree"]
    n = int(tree.n_nodes[0])
    inside = tree.children[:n][tree.children[:n] >= 0]
    assert sorted(inside.tolist()) == list(range(1, n))
    for node in range(1, n):
        assert node in tree.children[tree.parent[node]]
        assert tree.depth[node] == tree.depth[tree.parent[node]] + 1
    assert np.all(tree.children[n:] == -1)


def test_masses_add_up(grown, stream):
    """What came by a node is what is in its table, and what came by the root is the stream."""
    _, y, weights = stream
    _, state = grown
    table, counts = state["table"], state["counts"]
    used = table.key != EMPTY
    totals = np.bincount(table.key[used] >> 32, table.mass[used], minlength=len(counts.total))
    np.testing.assert_allclose(totals, counts.total, atol=1e-6)
    np.testing.assert_allclose(counts.total[0], weights.sum())
    for label in (0, 7, N_CLASSES - 1):
        assert mass_of(table, 0, label) == pytest.approx(weights[y == label].sum())


def test_candidates_are_the_heaviest_labels_after_growth(grown):
    _, state = grown
    table, lists = state["table"], state["candidates"]
    used = np.flatnonzero(table.key != EMPTY)
    nodes, labels = table.key[used] >> 32, table.key[used] & 0xFFFFFFFF
    for node in range(int(state["tree"].n_nodes[0])):
        here = nodes == node
        order = np.argsort(-table.mass[used][here])[: lists.label.shape[1]]
        size = lists.size[node]
        assert size == len(order)
        assert set(lists.label[node, :size].tolist()) == set(labels[here][order].tolist())
        assert lists.covered[node] == pytest.approx(table.mass[used][here][order].sum())


@pytest.mark.parametrize("path_features", ["off", "bias", "stop", "crossed"])
def test_one_feature_grows_its_path_weights_too(path_features):
    """A path bank that starts as a single number is still one with squared gradients."""
    rng = np.random.default_rng(0)
    config = tree_config(path_features=path_features, beam=2, bernstein=None)
    state = recall_tree.init(config, 1)
    y = rng.integers(0, 9, 300).astype(np.int32)
    recall_tree.learn(config, state, Dense(y[:, None].astype(np.float32)), y, np.ones(300))
    path = state["path"]
    assert (path.n_rows[0] > 0) == (path_features != "off")
    assert path.n_rows[0] <= len(path.bias)
    assert path.weight.shape == path.grad_sq.shape


@pytest.mark.parametrize("table_bits", [8, 9, 11])
def test_weights_stay_within_the_table(stream, table_bits):
    X, y, weights = stream
    config = tree_config(table_bits=table_bits)
    state = recall_tree.init(config, N_FEATURES)
    recall_tree.learn(config, state, Dense(X), y, weights)
    for name in ("router", "scorer", "path"):
        assert state[name].weight.size <= 2**table_bits
    assert state["path"].mask[0] == 2**table_bits - 1
    assert all(np.all(np.isfinite(array)) for array in flatten(state).values())


@pytest.mark.parametrize("changes", [{}, {"table_bits": 9}, {"rank": 3}, {"learner": NormalizedAdaGrad()}])
def test_one_against_all_grows_and_keeps_its_limit(stream, changes):
    X, y, weights = stream
    settings = {"table_bits": 20, "learner": SGD(), **changes}
    config = OneAgainstAllClassifier(**settings)._resolve_options(N_FEATURES, False, 3)
    state = one_against_all.init(config, N_FEATURES)
    one_against_all.learn(config, state, Dense(X), y, weights)
    columns = state["columns"]
    assert len(columns.bias) == columns.weight.shape[1] >= N_CLASSES
    assert state["seen"].n_labels[0] == N_CLASSES
    assert columns.weight.size <= 2**config.table_bits
    assert (columns.mask[0] != 0) == (changes == {"table_bits": 9})
    assert all(np.all(np.isfinite(array)) for array in flatten(state).values())


def test_memory_counts_what_a_bank_takes():
    config = tree_config(path_features="off")
    sizes = [recall_tree.memory(config, 100, n_classes) for n_classes in (10, 100, 1000, 10_000)]
    assert sizes == sorted(sizes)
    assert sizes[0] > 0
    assert recall_tree.memory(config, 1000, 100) > recall_tree.memory(config, 100, 100)
