"""The MLOM tree's kernels equal the plain reference."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from manyclass import SGD, MlomTreeClassifier, NormalizedAdaGrad
from manyclass.core.inputs import Dense
from manyclass.mlom_tree import model
from tests.reference import mlom_tree as reference
from tests.reference.streams import LEARNERS, as_batch, stream, train_both

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


def resolve(**options):
    """The model's options from those of the estimator."""
    return MlomTreeClassifier(table_bits=20, **{**PLAIN, **options})._resolve_options(1, False, 0)


def learn_both(X, y, weights, sparse, learner, **options):
    """(options, state) of the package and the reference tree after the same stream."""
    config = resolve(learner=LEARNERS[learner], **options)
    tree = reference.MlomTree(X.shape[1], learner=(learner, LEARNERS[learner].rate), **options)
    state = train_both(model, config, tree, X, y, weights, sparse)
    model.check(config, state, X.shape[1], 12, False)
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
    predictions = model.predict(config, state, as_batch(X, sparse), n_labels, n_labels)
    for x, labels, scores, work in zip(X.astype(float), *predictions, strict=True):
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
def test_a_leaf_with_several_classes_predicts_the_heaviest(guests):
    rng = np.random.default_rng(0)
    y = rng.choice(7, 500, p=[0.05, 0.05, 0.6, 0.1, 0.1, 0.05, 0.05]).astype(np.int32)
    X = rng.normal(size=(500, 4)).astype(np.float32)
    config = resolve(learner=NormalizedAdaGrad(4.0), guests=guests, max_depth=0)
    state = model.init(config, 4)
    model.learn(config, state, as_batch(X, False), y, np.ones(500))
    assert (model.predict(config, state, as_batch(X, False), 1, 7).labels == 2).all()
    assert state["seen"].wrong_mass[0] < 0.5 * 500


def test_a_leaf_counts_all_its_guests_also_beyond_its_list():
    rng = np.random.default_rng(1)
    y = rng.integers(0, 60, 900).astype(np.int32)
    X = (rng.normal(size=(60, 5))[y] + rng.normal(size=(900, 5))).astype(np.float32)
    config = resolve(learner=NormalizedAdaGrad(4.0), guests=True, split_mass=25.0)
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
    config = resolve(learner=NormalizedAdaGrad(4.0), guests=guests)
    state = model.init(config, 16)
    model.learn(config, state, Dense(X), y, np.ones(12_000))
    model.check(config, state, 16, 64, False)
    sizes = [[len(row["labels"]) for row in model.tree_table(state, 2) if row["depth"] == d] for d in range(3)]
    assert sizes == [[64], [32, 32], [16, 16, 16, 16]]


def test_a_class_that_returns_finds_its_statistics():
    config = resolve(learner=SGD(0.3))
    X, y, weights = stream(5, 600, 12, False)
    state = model.init(config, X.shape[1])
    model.learn(config, state, Dense(X), y, weights)
    table, tree = state["table"], state["tree"]
    alive = np.isin(table.key >> 32, tree.identity[np.unique(tree.children[tree.children >= 0])])
    suspended = np.flatnonzero(alive & (table.active == 0))
    assert len(suspended) and (table.margin_mass[suspended] > 0).any()
    assert (table.side[suspended] == -1).all()
