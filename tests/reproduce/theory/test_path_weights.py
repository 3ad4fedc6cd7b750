"""The proposition of [RT §3.2]: over path features, one-against-all answers as the tree does."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from manyclass import RecallTreeClassifier
from reproduce.theory.path_weights import path_weights


@st.composite
def trees(draw, lowest=0):
    """Parents of the nodes, parents before children or not, and an answer for each, `lowest`..5."""
    n_nodes = draw(st.integers(1, 15))
    parent = [-1] + [draw(st.integers(0, node - 1)) for node in range(1, n_nodes)]
    name = np.array(draw(st.permutations(range(n_nodes))))  # the nodes under other numbers
    renamed = np.full(n_nodes, -1)
    renamed[name] = [-1 if above < 0 else name[above] for above in parent]
    return renamed, np.array(draw(st.lists(st.integers(lowest, 5), min_size=n_nodes, max_size=n_nodes)))


def paths(parent):
    """The path features of a row that stops at each node: nodes x nodes."""
    found = np.zeros((len(parent), len(parent)))
    for node in range(len(parent)):
        at = node
        while at >= 0:
            found[node, at] = 1
            at = parent[at]
    return found


def leaves(parent):
    return np.setdiff1d(np.arange(len(parent)), parent)


@given(tree=trees())
def test_weights_of_a_tree_that_stops_at_leaves_are_those_of_the_proof(tree):
    parent, answers = tree
    answers[np.unique(parent[parent >= 0])] = -1
    weights = path_weights(parent, answers, n_labels=6).toarray()
    expected = np.zeros((len(parent), 6))
    ends = leaves(parent)
    expected[ends, answers[ends]] = 1
    np.testing.assert_array_equal(weights, expected)
    np.testing.assert_array_equal((paths(parent)[ends] @ weights).argmax(axis=1), answers[ends])


@given(tree=trees())
def test_a_tree_that_stops_anywhere_is_answered_alike(tree):
    parent, answers = tree
    weights = path_weights(parent, answers, n_labels=6)
    assert set(weights.data.tolist()) <= {-1.0, 1.0}
    np.testing.assert_array_equal(paths(parent) @ weights, np.eye(6)[answers])


@given(tree=trees(lowest=-1))
def test_nodes_without_answer_are_passed(tree):
    parent, answers = tree
    scores = paths(parent) @ path_weights(parent, answers, n_labels=6)
    stops = np.flatnonzero(answers >= 0)
    np.testing.assert_array_equal(scores[stops], np.eye(6)[answers[stops]])


def test_the_papers_weights_tie_where_a_row_stops_at_an_inner_node():
    # The root answers 0 to rows that stop there, its leaf 1. Ones alone score both labels 1 at the leaf.
    parent, answers = np.array([-1, 0]), np.array([0, 1])
    printed = np.eye(2)[answers]
    np.testing.assert_array_equal(paths(parent)[1] @ printed, [1, 1])
    np.testing.assert_array_equal(paths(parent)[1] @ path_weights(parent, answers), [0, 1])


@given(tree=trees(), seed=st.integers(0, 999))
def test_with_candidates_the_best_of_them_wins(tree, seed):
    parent, _ = tree
    rng = np.random.default_rng(seed)
    candidates = np.array([rng.permutation(9)[:3] for _ in parent])
    candidates[rng.random(candidates.shape) < 0.2] = -1
    candidates[:, 0] = np.where(candidates.max(axis=1) < 0, 4, candidates[:, 0])
    scores = rng.normal(size=(len(parent), 9))  # by other features, of a row that stops at each node
    joined = scores + 1e3 * (paths(parent) @ path_weights(parent, candidates, n_labels=9))
    for node, row in enumerate(joined):
        own = candidates[node][candidates[node] >= 0]
        assert row.argmax() == own[scores[node, own].argmax()]


@pytest.mark.parametrize("bernstein", [1.0, None], ids=["stops anywhere", "stops at leaves"])
def test_a_learned_recall_tree_is_answered_alike(bernstein):
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(30, 6))
    y = rng.integers(0, 30, 3000)
    X = centres[y] + 0.4 * rng.normal(size=(3000, 6))
    # One candidate a node: the tree alone answers, with the heaviest label of the node where a row stops.
    model = RecallTreeClassifier(beam=1, n_candidates=1, max_depth=7, bernstein=bernstein, n_epochs=2, random_state=0)
    model.fit(X[:2000], y[:2000])
    table = model.tree_table()
    parent, answers = np.array([row["parent"] for row in table]), np.array([row["labels"][0] for row in table])
    path = model.decision_path(X)
    stop = np.array([max(row.indices, key=lambda node: table[node]["depth"]) for row in map(sp.csr_array, path)])
    assert len(np.unique(stop)) > 20
    answered = path.astype(float) @ path_weights(parent, answers)
    np.testing.assert_array_equal(answered.toarray().argmax(axis=1), model.predict(X))
    error = np.mean(model.predict(X[2000:]) != y[2000:])
    assert np.mean(answered[2000:].toarray().argmax(axis=1) != y[2000:]) == error < 0.9


@pytest.mark.parametrize(
    ("parent", "labels", "message"),
    [
        ([], [], "one entry"),
        ([-1, 0], [0], "one entry"),
        ([[-1]], [[0]], "one entry"),
        ([-1, 0], [0.0, 1.0], "integers"),
        ([-1, -1], [0, 1], "exactly one"),
        ([0, 1], [0, 1], "exactly one"),
        ([-1, 2], [0, 1], "exactly one"),
        ([-1, -2], [0, 1], "exactly one"),
        ([-1, 2, 1], [0, 1, 2], "cycle"),
        ([-1, 0], [0, -2], "labels must be"),
        ([-1, 0], [0, 9], "labels must be"),
        ([-1], [[1, 1]], "twice"),
    ],
)
def test_what_is_no_tree_is_refused(parent, labels, message):
    with pytest.raises(ValueError, match=message):
        path_weights(parent, labels, n_labels=3)
