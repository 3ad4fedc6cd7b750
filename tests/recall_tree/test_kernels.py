"""The Recall Tree's kernels equal the plain reference; its rules equal the paper's by hand."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from manyclass import RecallTreeClassifier
from manyclass.core.inputs import Dense
from manyclass.core.labels import add_mass, n_log_n_rise
from manyclass.core.learners import SGD
from manyclass.core.state import Counts, LabelTable, make
from manyclass.recall_tree import kernels as kernel
from manyclass.recall_tree import model
from tests.reference import recall_tree as reference
from tests.reference.streams import LEARNERS, as_batch, stream, train_both

OPTIONS = {
    "n_candidates": st.integers(1, 4),
    "max_depth": st.integers(0, 4),
    "bernstein": st.sampled_from([None, 0.1, 0.3, 1.0]),
    "path_features": st.sampled_from(["off", "bias", "stop", "crossed"]),
    "beam": st.sampled_from([1, 2, 5]),
    "loss": st.sampled_from(["softmax", "logistic"]),
    "learner": st.sampled_from(list(LEARNERS)),
    "router": st.sampled_from(list(LEARNERS)),
    "arity": st.sampled_from([2, 2, 3, 5]),
}


def resolve(learner=SGD(), router=SGD(), **changes):
    """Options of the model, with routers that learn by any rule; given as a user would."""
    words = {"n_candidates": "auto", "max_depth": "auto", "beam": 1, "bernstein": None, "table_bits": 20, **changes}
    options = RecallTreeClassifier(learner=learner, **words)._resolve_options(1, False, 0)
    return options._replace(router_update=router.update, router_rate=router.rate, router_decay=router.decay)


def learn_both(X, y, weights, sparse, learner, router, **options):
    """(options, state) of the package and the reference tree after the same stream."""
    resolved = resolve(LEARNERS[learner], LEARNERS[router], **options)
    rates = {"learner": (learner, LEARNERS[learner].rate), "router": (router, LEARNERS[router].rate)}
    tree = reference.RecallTree(X.shape[1], **rates, **options)
    return resolved, train_both(model, resolved, tree, X, y, weights, sparse), tree


@settings(max_examples=60, report_multiple_bugs=False)
@given(seed=st.integers(0, 10**6), n_labels=st.integers(1, 12), sparse=st.booleans(), **OPTIONS)
def test_kernel_equals_reference(seed, n_labels, sparse, learner, router, **options):
    X, y, weights = stream(seed, 70, n_labels, sparse)
    resolved, state, tree = learn_both(X, y, weights, sparse, learner, router, **options)
    grown = state["tree"]
    assert grown.n_nodes[0] == len(tree.nodes)
    for node in tree.nodes:
        children = [-1 if child is None else child.number for child in node.children]
        assert grown.children[node.number].tolist() == children
        assert grown.parent[node.number] == (-1 if node.parent is None else node.parent.number)
        assert grown.depth[node.number] == node.depth
        assert state["counts"].total[node.number] == pytest.approx(node.total)
        size = state["candidates"].size[node.number]
        assert state["candidates"].label[node.number, :size].tolist() == node.best
        assert state["candidates"].covered[node.number] == pytest.approx(sum(node.hist[b] for b in node.best))
    assert state["seen"].mass[0] == pytest.approx(tree.mass)
    assert state["seen"].wrong_mass[0] == pytest.approx(tree.wrong_mass)
    same_predictions(resolved, state, tree, X, sparse, n_labels)


@settings(max_examples=40, report_multiple_bugs=False)
@given(
    seed=st.integers(0, 10**6),
    n_labels=st.integers(2, 12),
    bernstein=st.sampled_from([None, 0.1, 1.0]),
    loss=st.sampled_from(["softmax", "logistic"]),
    rules=st.integers(0, kernel.PRINTED // 2).map(lambda rest: 2 * rest + kernel.SHARES),
)
def test_printed_rules_equal_the_reference(seed, n_labels, bernstein, loss, rules):
    """Every combination with the printed entropies; the reference computes them from the histograms."""
    X, y, weights = stream(seed, 70, n_labels, False)
    options = {"n_candidates": 3, "max_depth": 4, "bernstein": bernstein, "path_features": "bias", "loss": loss}
    resolved = resolve(LEARNERS["sgd"], LEARNERS["sgd"], **options)._replace(rules=rules)
    rates = {"learner": ("sgd", LEARNERS["sgd"].rate), "router": ("sgd", LEARNERS["sgd"].rate)}
    tree = reference.RecallTree(X.shape[1], **rates, **options, rules=rules)
    state = train_both(model, resolved, tree, X, y, weights, False)
    for node in tree.nodes:
        children = [-1 if child is None else child.number for child in node.children]
        assert state["tree"].children[node.number].tolist() == children
        assert state["entropies"].mass_entropy[node.number] == pytest.approx(node.mass_entropy, abs=1e-9)
    assert state["seen"].wrong_mass[0] == pytest.approx(tree.wrong_mass)
    same_predictions(resolved, state, tree, X, False, n_labels)


@pytest.mark.parametrize("rule", [kernel.SHARES, kernel.SIGN, kernel.FULL_STEP, kernel.ONE_LIST])
def test_each_printed_rule_changes_the_model(rule):
    """Otherwise the comparison with the reference would compare nothing."""
    X, y, weights = stream(3, 200, 12, False)
    found = []
    for rules in (0, rule):
        options = {"n_candidates": 3, "max_depth": 4, "path_features": "bias", "rules": "paper"}
        resolved = resolve(**options)._replace(rules=rules | kernel.SHARES if rule != kernel.SHARES else rules)
        state = model.init(resolved, X.shape[1])
        model.learn(resolved, state, as_batch(X, False), y, weights)
        found.append(model.predict(resolved, state, as_batch(X, False), 1, 12).scores)
    assert not np.array_equal(*found)


def same_predictions(options, state, tree, X, sparse, n_labels):
    found = model.predict(options, state, as_batch(X, sparse), n_labels, n_labels)
    for x, labels, scores, work in zip(X.astype(float), *found, strict=True):
        expected = tree.scores(x)
        n = min(len(expected), n_labels)
        np.testing.assert_allclose(scores[:n], [score for _, score in expected], rtol=1e-3, atol=1e-4)
        assert np.all(scores[n:] == -np.inf)
        assert dict(expected).keys() == set(labels[:n].tolist())
        assert sorted(labels.tolist()) == list(range(n_labels))
        close = n > 1 and abs(expected[0][1] - expected[1][1]) < 1e-4
        assert n == 0 or close or labels[0] == expected[0][0]
        assert work[3] >= len(expected)  # rows predicted together score a label at each node that has it
        assert work[0] == tree.paths(x)[0][1].depth


@pytest.mark.parametrize("arity", [2, 4])
@pytest.mark.parametrize("beam", [1, 5])
def test_rows_predicted_together_equal_the_reference(beam, arity):
    """Dense rows without path features go node by node: the drawn cases above seldom do."""
    X, y, weights = stream(5, 120, 12, False)
    options = {"n_candidates": 4, "max_depth": 4, "bernstein": None, "path_features": "off", "beam": beam}
    both = learn_both(X, y, weights, False, "sgd", "adagrad", loss="softmax", arity=arity, **options)
    assert model._goes_by_node(*both[:2], as_batch(X, False))
    same_predictions(*both, X, False, 12)


def test_reference_stream_is_not_trivial():
    """The comparison above would say little about a tree that stayed a root and never erred."""
    X, y, weights = stream(3, 70, 12, False)
    options = {"n_candidates": 3, "max_depth": 4, "bernstein": 0.3, "path_features": "bias", "beam": 2}
    _, _, tree = learn_both(X, y, weights, False, "sgd", "sgd", loss="softmax", **options)
    assert len(tree.nodes) > 8
    assert 0.1 < tree.wrong_mass / tree.mass < 0.9
    assert any(home.depth > 0 for x in X.astype(float) for home in tree.candidates(x).values())


# -- Eq. (1) ---------------------------------------------------------------------------------------------------


def bound(node, state, bernstein):
    return kernel.recall_bound(state["candidates"].covered[node], state["counts"].total[node], bernstein)


@pytest.fixture
def worked_example():
    """Label 1 two times, label 4 fifty times, label 3 ten times, F = 2 [RT §2.1]: in a tree that is only a root."""
    options = resolve(bernstein=1.0, n_candidates=2, max_depth=0)
    state = model.init(options, 1)
    labels = np.repeat([1, 4, 3], [2, 50, 10]).astype(np.int32)
    model.learn(options, state, Dense(np.ones((62, 1), np.float32)), labels, np.ones(62))
    return state


def test_worked_example_of_the_paper(worked_example):
    candidates = worked_example["candidates"]
    assert candidates.label[0].tolist() == [4, 3]
    assert candidates.mass[0].tolist() == [50.0, 10.0]
    assert bound(0, worked_example, 0.0) == pytest.approx(60 / 62)


@pytest.mark.parametrize(
    ("bernstein", "by_hand"),
    # r = 60/62 = 0.967742, r (1 - r) / 62 = 0.000503508, its root 0.0224390
    [(1.0, 0.967742 - 0.0224390 - 0.0161290), (4.0, 0.967742 - 0.0448780 - 0.0645161), (1000.0, 0.0)],
)
def test_bernstein_bound_by_hand(worked_example, bernstein, by_hand):
    assert bound(0, worked_example, bernstein) == pytest.approx(by_hand, abs=1e-6)


def test_bound_of_nothing_is_zero():
    assert kernel.recall_bound(0.0, 0.0, 1.0) == 0.0


def test_bound_rises_with_evidence_and_falls_with_lambda():
    few, many = kernel.recall_bound(9.0, 10.0, 1.0), kernel.recall_bound(900.0, 1000.0, 1.0)
    assert few < many < 0.9
    assert kernel.recall_bound(900.0, 1000.0, 2.0) < many


# -- Algorithm 3 -----------------------------------------------------------------------------------------------


def histogram(*nodes):
    """Counts and table of some nodes given as dicts."""
    counts, table = make(Counts, node=len(nodes)), make(LabelTable, entry=256)
    for node, masses in enumerate(nodes):
        for label, mass in masses.items():
            add_mass(table, node, label, mass)
            counts.total[node] += mass
    return counts, table


masses = st.dictionaries(st.integers(0, 9), st.floats(0.1, 50.0), max_size=8)


@given(masses, st.integers(0, 9), st.floats(0.1, 5.0))
def test_entropy_rise_is_the_difference_of_naive_entropies(hist, label, weight):
    counts, _ = histogram(hist)
    after = {**hist, label: hist.get(label, 0.0) + weight}
    naive = reference.mass_entropy(after.values()) - reference.mass_entropy(hist.values())
    assert kernel.entropy_rise(counts, 0, hist.get(label, 0.0), weight) == pytest.approx(naive, abs=1e-8)


def test_entropy_rise_of_a_missing_child_is_zero():
    counts, _ = histogram({1: 3.0})
    assert kernel.entropy_rise(counts, -1, 3.0, 1.0) == 0.0


@pytest.mark.parametrize("n", [0.0, 1.0, 2.0, 511.0, 512.0, 2048.0, 2049.0, 1e6])
@pytest.mark.parametrize("weight", [1.0, 0.3, 2.0])
def test_rise_of_n_log_n_by_table_and_by_series(n, weight):
    exact = (n + weight) * math.log(n + weight) - (n * math.log(n) if n else 0.0)
    assert n_log_n_rise(n, weight) == pytest.approx(exact, abs=max(2e-7 * weight, 1e-15 * n * math.log(n + 2) * 4))


@given(masses.filter(len), masses.filter(len), st.integers(0, 9))
def test_the_side_of_lower_rise_lowers_the_entropy(left, right, label):
    """Alg. 3 as printed sends the example to the side where the entropy ends higher, because f > 0 is left."""
    counts, _ = histogram(left, right)
    rise = [kernel.entropy_rise(counts, node, side.get(label, 0.0), 1.0) for node, side in enumerate((left, right))]

    def expected_entropy(side):
        sides = [dict(left), dict(right)]
        sides[side][label] = sides[side].get(label, 0.0) + 1.0
        total = sum(left.values()) + sum(right.values()) + 1.0
        return sum(reference.mass_entropy(hist.values()) for hist in sides) / total

    meant, printed = (0, 1) if rise[1] > rise[0] else (1, 0)
    assert expected_entropy(meant) <= expected_entropy(printed) + 1e-9
    if abs(rise[1] - rise[0]) > 1e-6:
        assert expected_entropy(meant) < expected_entropy(printed)


def router_after(label, n_steps=30):
    """Score of a root's router for one row whose label is at home in the left child, after some steps."""
    options = resolve(router=SGD(1.0), n_candidates=4, max_depth=1)
    state = model.init(options, 2)
    tree, counts, table = state["tree"], state["counts"], state["table"]
    tree.children[0], tree.parent[1:3], tree.depth[1:3], tree.n_nodes[0] = (1, 2), 0, 1, 3
    for node, own in ((1, 7), (2, 8)):
        add_mass(table, node, own, 10.0)
        counts.total[node] = 10.0
    example = kernel.Example(Dense(np.array([[1.0, 0.0]], np.float32)), 0, label, 1.0, 1.0)
    nodes = model._nodes(options, state)
    for _ in range(n_steps):
        kernel.observe_scale(state["scale"], example.batch, 0)
        step = kernel.pace(options.router_update, options.router_rate, state["scale"], 1.0)
        route = kernel.update_router(nodes, None, 0, example, step, state["scale"], options)
    return route


def test_router_learns_the_pure_side():
    assert router_after(7) > 1.0  # f > 0 is left [RT Alg. 1 l.4]
    assert router_after(8) < -1.0


def test_a_label_at_home_nowhere_teaches_nothing():
    assert router_after(9) == 0.0


@pytest.mark.parametrize("n", [2, 3, 6, 7, 100])
def test_rounding_does_not_choose_a_side(n):
    """The rise in a pure child is zero up to rounding, and must leave an untrained router where it was: right."""
    options = resolve(router=SGD(1.0), n_candidates=4, max_depth=1)
    state = model.init(options, 2)
    batch = Dense(np.ones((n + 1, 2), np.float32))
    model.learn(options, state, batch, np.zeros(n + 1, np.int32), np.ones(n + 1))
    assert state["tree"].n_nodes[0] == 2
    assert state["router"].weight.any() == np.False_


# -- sizes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n_labels", "wanted"), [(1, 4), (2, 4), (3, 8), (1000, 40), (1024, 40), (10**6, 80)])
def test_candidates_are_logarithmic(n_labels, wanted):
    assert kernel.wanted_candidates(n_labels, resolve()) == wanted
    assert kernel.wanted_candidates(n_labels, resolve(n_candidates=7)) == 7


@pytest.mark.parametrize("n_labels", [1, 2, 5, 1000, 10**6])
def test_depth_is_logarithmic(n_labels):
    assert kernel.depth_limit(n_labels, 40, resolve()) == max(1, math.ceil(math.log2(n_labels)))
    assert kernel.depth_limit(n_labels, 40, resolve(max_depth=3)) == 3
    assert kernel.depth_limit(n_labels, 40, resolve(beam=4)) <= kernel.depth_limit(n_labels, 40, resolve())
