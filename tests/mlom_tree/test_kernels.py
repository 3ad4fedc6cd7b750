"""The MLOM tree's kernels equal the plain reference; its ordered sets equal sorted lists."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from manyclass.core.inputs import Dense
from manyclass.core.labels import entry_of
from manyclass.core.learners import SGD, NormalizedAdaGrad
from manyclass.core.state import MlomTable, make
from manyclass.mlom_tree import model
from manyclass.mlom_tree.ordered import NOBODY, insert, median, member, remove, size_of
from tests.recall_tree.test_kernels import LEARNERS, as_batch, stream
from tests.reference import mlom_tree as reference

OPTIONS = {
    "centre": st.sampled_from(["median", "mean"]),
    "guests": st.booleans(),
    "split_mass": st.sampled_from([0.0, 2.5]),
    "nodes_per_class": st.sampled_from([1.0, 32.0]),
    "max_depth": st.sampled_from([0, 2, 60]),
    "loss": st.sampled_from(["hinge", "absolute", "logistic"]),
}
PLAIN = {
    "centre": "median",
    "guests": False,
    "split_mass": 10.0,
    "nodes_per_class": 32.0,
    "max_depth": 60,
    "loss": "hinge",
}


def learn_both(X, y, weights, sparse, learner, **options):
    """(config, state) of the package and the reference tree after the same stream."""
    config = model.Config(learner=LEARNERS[learner], table_bits=20, seed=0, **options)
    state = model.init(config, X.shape[1])
    model.learn(config, state, as_batch(X, sparse), y, weights)
    model.check(config, state, X.shape[1], 12, False)
    tree = reference.MlomTree(X.shape[1], learner=(learner, LEARNERS[learner].rate), **options)
    for x, label, weight in zip(X.astype(float), y, weights, strict=True):
        tree.learn(x, int(label), float(weight))
    return config, state, tree


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
    grown = {row["node"]: row for row in model.tree_table(state)}
    todo = [(tree.root, 0)]
    while todo:
        node, number = todo.pop()
        assert set(grown.pop(number)["labels"].tolist()) == node.active
        children = state["tree"].children[number].tolist()
        assert (children == [-1, -1]) == (node.children is None)
        todo += zip(node.children or [], children, strict=False)
    assert not grown
    answers = model.predict(config, state, as_batch(X, sparse), n_labels, n_labels)
    for x, labels, scores, work in zip(X.astype(float), *answers, strict=True):
        depth, shares = tree.leaf(x)[1], tree.shares(x)
        if tree.close_calls:
            return
        if options["guests"]:
            told = {label: np.exp(score) for label, score in zip(labels, scores, strict=True) if score > -np.inf}
            assert told == pytest.approx(shares)
        else:
            assert labels[0] in shares and scores[0] == 0.0 and np.all(scores[1:] == -np.inf)
        assert sorted(labels.tolist()) == list(range(n_labels))
        assert work.tolist() == [depth, depth + 1, depth, 0]
    if options["max_depth"] == 60:  # a leaf at the limit has several classes: tested below
        assert state["seen"].wrong_mass[0] == pytest.approx(tree.wrong_mass)


@pytest.mark.parametrize("guests", [False, True])
def test_a_leaf_with_several_classes_answers_the_heaviest(guests):
    rng = np.random.default_rng(0)
    y = rng.choice(7, 500, p=[0.05, 0.05, 0.6, 0.1, 0.1, 0.05, 0.05]).astype(np.int32)
    X = rng.normal(size=(500, 4)).astype(np.float32)
    config = model.Config(
        **{**PLAIN, "guests": guests, "max_depth": 0}, table_bits=20, learner=NormalizedAdaGrad(4.0), seed=0
    )
    state = model.init(config, 4)
    model.learn(config, state, as_batch(X, False), y, np.ones(500))
    assert (model.predict(config, state, as_batch(X, False), 1, 7).labels == 2).all()
    assert state["seen"].wrong_mass[0] < 0.5 * 500


def test_a_leaf_counts_all_its_guests_also_beyond_its_list():
    rng = np.random.default_rng(1)
    y = rng.integers(0, 60, 900).astype(np.int32)
    X = (rng.normal(size=(60, 5))[y] + rng.normal(size=(900, 5))).astype(np.float32)
    options = {**PLAIN, "guests": True, "split_mass": 25.0}
    config = model.Config(**options, table_bits=20, learner=NormalizedAdaGrad(4.0), seed=0)
    state = model.init(config, 5)
    model.learn(config, state, as_batch(X, False), y, np.ones(900))
    n = state["tree"].n_nodes[0]
    leaf = state["tree"].children[:n, 0] < 0
    total, candidates = state["guests"].total[:n], state["candidates"]
    assert total.sum() >= 900 and (total >= candidates.covered[:n] - 1e-9).all()
    assert (total[leaf] - candidates.mass[:n][leaf, 0] <= 25.0).all()  # or it would have split


def test_the_streams_of_the_comparison_suspend():
    X, y, weights = stream(3, 70, 12, False)
    tree = learn_both(X, y, weights, False, "sgd", **PLAIN)[2]
    assert tree.n_births > 15 and tree.n_deaths > 3
    tree = learn_both(X, y, weights, False, "sgd", **{**PLAIN, "guests": True, "split_mass": 2.5})[2]
    assert tree.n_births > 15 and tree.n_deaths == 0 and tree.n_visits == np.sum(weights > 0)


@pytest.mark.parametrize("guests", [False, True])
def test_the_median_halves_the_classes(guests):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 64, 12_000).astype(np.int32)
    X = (3 * rng.standard_normal((64, 16))[y] + 0.3 * rng.standard_normal((12_000, 16))).astype(np.float32)
    options = {**PLAIN, "guests": guests}
    config = model.Config(**options, table_bits=20, learner=NormalizedAdaGrad(4.0), seed=0)
    state = model.init(config, 16)
    model.learn(config, state, Dense(X), y, np.ones(12_000))
    model.check(config, state, 16, 64, False)
    sizes = [[len(row["labels"]) for row in model.tree_table(state, 2) if row["depth"] == d] for d in range(3)]
    assert sizes == [[64], [32, 32], [16, 16, 16, 16]]


def test_a_class_that_returns_finds_its_statistics():
    config = model.Config(**PLAIN, table_bits=20, learner=SGD(0.3), seed=0)
    X, y, weights = stream(5, 600, 12, False)
    state = model.init(config, X.shape[1])
    model.learn(config, state, Dense(X), y, weights)
    table, tree = state["table"], state["tree"]
    alive = np.isin(table.key >> 32, tree.identity[np.unique(tree.children[tree.children >= 0])])
    suspended = np.flatnonzero(alive & (table.active == 0))
    assert len(suspended) and (table.taught[suspended] > 0).any()
    assert (table.side[suspended] == -1).all()


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
