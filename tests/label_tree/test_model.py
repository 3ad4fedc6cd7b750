"""A label tree in batch: the same bytes for any number of threads, and every node as the plain reference trains it."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from manyclass.core.protocol import Labels
from manyclass.core.state import flatten
from manyclass.label_tree import fit as batch
from manyclass.label_tree import fit_kernels as kernel
from manyclass.label_tree import model
from tests.reference import label_tree as reference
from tests.reference.label_tree_states import as_batch, check_tree, configure, grow, own_labels, read_tree, stream


def fitted(config, X, labels, weights, sparse=False, n_jobs=1):
    state = model.init(config, X.shape[1], int(labels.label.max()) + 1)
    rows = sp.csr_array(X) if sparse else X
    model.fit(config, state, rows, as_batch(X, sparse), labels, weights, n_jobs, lambda share: None)
    return state


def bytes_of(state):
    return {name: (array.shape, array.tobytes()) for name, array in flatten(state).items()}


def part(labels, first, last):
    """Labels of rows first..last-1."""
    return labels.rows(np.arange(first, last))


# -- threads and seeds -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("loss", "most"), [("softmax", 1), ("logistic", 3)])
@pytest.mark.parametrize("sparse", [False, True])
def test_threads_and_chunks_change_no_byte(loss, most, sparse, monkeypatch):
    rows = stream(0, 300, 60, sparse, most)
    config = configure(arity=5, loss=loss, multilabel=most > 1)
    monkeypatch.setattr(batch, "_SHARES", 1)
    whole = bytes_of(fitted(config, *rows, sparse=sparse))
    calls, plain = [], kernel.fit_nodes
    monkeypatch.setattr(kernel, "fit_nodes", lambda *given: [calls.append(1), plain(*given)][1])
    for name, value in (("_MOST_RECORDS", 10), ("_SHARES", 64)):  # small chunks, for either reason
        with monkeypatch.context() as patch:
            patch.setattr(batch, name, value)
            for n_jobs in (1, 2, 3):
                assert bytes_of(fitted(config, *rows, sparse=sparse, n_jobs=n_jobs)) == whole
            assert len(calls) > 20
            calls.clear()


def test_chunks_share_out_the_work():
    most, costs = np.array([5, 5, 5, 5, 5, 5]), np.array([900, 10, 10, 10, 10, 900])
    chunks = batch._chunks(most, costs)
    assert chunks == [(0, 1), (1, 3), (3, 5), (5, 6)]
    assert batch._chunks(most[:0], costs[:0]) == []


@pytest.mark.parametrize("cluster", ["means", "random"])
def test_the_seed_chooses_the_tree(cluster):
    rows = stream(1, 300, 60, False)
    config = configure(cluster=cluster)
    one, same, other = (fitted(replace(config, seed=seed), *rows) for seed in (1, 1, 2))
    assert bytes_of(one) == bytes_of(same)
    assert not np.array_equal(one["tree"].leaf_of, other["tree"].leaf_of)


def test_further_trees_are_those_of_the_next_seeds():
    rows = stream(2, 200, 30, False)
    config = configure(n_trees=3, seed=7)
    together = fitted(config, *rows)
    check_tree(config, together, range(30), "_2")
    for number, suffix in enumerate(["", "_1", "_2"]):
        alone = fitted(replace(config, n_trees=1, seed=7 + number), *rows)
        for group in ("tree", "blocks"):
            for one, same in zip(alone[group], together[group + suffix], strict=True):
                np.testing.assert_array_equal(one, same)


@pytest.mark.parametrize("multilabel", [False, True])
def test_several_trees_answer_by_their_mean_probability(multilabel):
    X, labels, weights = stream(2, 200, 30, False, most=2 if multilabel else 1)
    config = configure(n_trees=3, multilabel=multilabel, loss="logistic" if multilabel else "softmax")
    together = fitted(config, X, labels, weights)
    mean = np.zeros((len(X), 30))
    for suffix in ("", "_1", "_2"):
        alone = {"scale": together["scale"], "seen": together["seen"]}
        alone |= {group: together[group + suffix] for group in ("tree", "blocks")}
        scored = model.score(config, alone, as_batch(X, False))
        mean[np.repeat(np.arange(len(X)), scored.sizes), scored.labels] += scored.probabilities / 3
    answers = model.predict(config, together, as_batch(X, False), 30, 30)
    chances, scored = np.exp(answers.scores), model.score(config, together, as_batch(X, False))
    np.testing.assert_allclose(chances, -np.sort(-mean, axis=1), rtol=1e-4, atol=1e-9)
    np.testing.assert_allclose(np.take_along_axis(mean, answers.labels, 1), chances, rtol=1e-4, atol=1e-9)
    rows = np.repeat(np.arange(len(X)), scored.sizes)
    np.testing.assert_allclose(mean[rows, scored.labels], scored.probabilities, rtol=1e-4)
    assert scored.sizes.sum() == (mean > 0).sum()


# -- every node equals the reference ---------------------------------------------------------------------------


def expected_pairs(tree, X, labels, loss):
    """{node: [(row, log of the sum over the row's other leaves)]}: who learns where."""
    pairs = {n: [] for n in range(len(tree.nodes))}
    fresh = {n: reference.Node(node.outputs, True, 0, 0, 0 * node.weight, node.total, tree.first_bias[n])
             for n, node in enumerate(tree.nodes) if node.is_leaf}  # fmt: skip
    for i, x in enumerate(X):
        true = {n for label in own_labels(labels, i) for n, _ in tree.ancestors(label)}
        for n in (true | {0}) - set(fresh):
            pairs[n].append((i, -np.inf))
        leaves = {n for n, _ in tree.leaves(x)} | (true & set(fresh))
        sums = {n: reference.log_sum(fresh[n].scores(x, tree.start)) for n in leaves}
        for n in leaves:
            rest = [own for other, own in sums.items() if other != n]
            others = reference.log_sum(rest) if loss == "softmax" and rest else -np.inf
            if n in true or sums[n] - others > np.log(reference.SMALLEST_GRADIENT):
                pairs[n].append((i, others))
    return pairs


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    sparse=st.booleans(),
    case=st.sampled_from([("softmax", 1), ("logistic", 1), ("logistic", 3)]),
    n_labels=st.integers(1, 20),
    arity=st.sampled_from([4, 5, 20]),
    beam=st.sampled_from([1, 3]),
    unit_rows=st.booleans(),
)
def test_fit_equals_reference(seed, sparse, case, n_labels, **options):
    loss, most = case
    X, labels, weights = stream(seed, 50, n_labels, sparse, most)
    if len(labels.label) == 0:
        return
    config = configure(multilabel=most > 1, loss=loss, n_epochs=2, **options)
    state = fitted(config, X, labels, weights, sparse)
    weights = weights / weights.mean()
    tree = check_tree(config, state, np.unique(labels.label).tolist())
    starts = [config.start if node.is_leaf else config.router_start for node in tree.nodes]
    tree.first_bias = [0.0 if loss == "softmax" else -start / 3 for start in starts]
    few = min(1.0, batch.FEW_ROWS * len(tree.leaf_of) / 50)
    votes = few if loss == "softmax" and config.unit_rows else 0.0  # of single features, at routers
    sizes = (X.astype(float) ** 2).sum()
    scaled = np.array([x * reference.row_scale(x, config.unit_rows, 50, sizes) for x in X.astype(float)])
    for n, pairs in expected_pairs(tree, scaled, labels, loss).items():
        rows, others = np.array([row for row, _ in pairs]), np.array([others for _, others in pairs])
        true = np.zeros((len(rows), len(tree.nodes[n].outputs)))
        for r, i in enumerate(rows):
            true[r, [place for label in own_labels(labels, i) for m, place in tree.ancestors(label) if m == n]] = 1.0
        orders = np.empty((2, len(rows)), np.int64)
        for epoch in range(2):
            kernel.shuffle(orders[epoch], len(rows), config.seed + 7919 * (n + 1), epoch)
        weight, total, bias = reference.train_node(
            scaled[rows], true, weights[rows], others, orders, loss=loss, start=starts[n], rate=config.rate,
            bias_rate=config.bias_rate, bias=np.full(true.shape[1], tree.first_bias[n]),
            votes=0.0 if tree.nodes[n].is_leaf else votes,
        )  # fmt: skip
        node = tree.nodes[n]
        np.testing.assert_allclose(node.total, total, rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(node.bias, bias, rtol=1e-3, atol=1e-3)
        # Features that no true row has are left out where they came to weigh next to nothing.
        small = ~total.any(axis=1) & (np.abs(weight).max(axis=1) < kernel.SMALLEST_WEIGHT)
        np.testing.assert_allclose(node.weight, np.where(small[:, None], 0.0, weight), rtol=1e-3, atol=1e-3)


# -- going on online -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("most", [1, 3])
def test_a_fitted_tree_grows_on(most):
    first, later = stream(5, 150, 20, False, most), stream(6, 150, 80, False, most)
    config = configure(arity=4, multilabel=most > 1, loss="logistic" if most > 1 else "softmax")
    state = fitted(config, *first)
    n_nodes = model.n_nodes(state)
    model.learn(config, state, as_batch(later[0], False), *later[1:])
    weighed = later[1].rows(np.flatnonzero(later[2])).label  # rows of weight zero are not there
    check_tree(config, state, np.union1d(first[1].label, weighed).tolist())
    assert model.n_nodes(state) > n_nodes + 10


@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")
def test_a_tree_fitted_on_rows_without_values_grows_on(monkeypatch):
    X, labels, _ = stream(5, 60, 20, True)
    calls, plain = [], model._make_room

    def make_room(*given):
        calls.append(1)
        assert len(calls) < 20
        plain(*given)

    monkeypatch.setattr(model, "_make_room", make_room)
    config = configure()
    state = fitted(config, 0 * X, labels, np.ones(60), sparse=True)
    model.learn(config, state, as_batch(X, True), labels, np.ones(60))
    check_tree(config, state, np.unique(labels.label).tolist())


@pytest.mark.parametrize(("n_trees", "unit_rows"), [(1, False), (2, True), (2, False)])
def test_cutting_a_stream_after_fit_changes_no_byte(n_trees, unit_rows):
    X, labels, weights = stream(5, 300, 80, False, most=2)
    config = configure(arity=4, multilabel=True, loss="logistic", n_trees=n_trees, unit_rows=unit_rows)

    def learn(*cuts):
        state = fitted(config, X[:150], part(labels, 0, 150), weights[:150])
        edges = [150, *cuts, 300]
        for first, last in itertools.pairwise(edges):
            rows = as_batch(X[first:last], False)
            model.learn(config, state, rows, part(labels, first, last), weights[first:last])
        return bytes_of(state)

    assert learn() == learn(151, 200, 290)


def test_rows_of_weight_zero_are_in_no_sum():
    X, labels, weights = stream(7, 200, 20, False)
    weights[::3] = 0.0
    for fit in (True, False):
        state = (fitted if fit else grow)(configure(), X, labels, weights, False)
        tree = read_tree(configure(), state)
        unit = X / np.linalg.norm(X, axis=1)[:, None]
        total = np.sum([node.total.sum(axis=1) for node in tree.nodes if node.is_leaf], axis=0)
        mean = weights.mean() if fit else 1.0  # what counts in fit is how much more a row weighs than others
        np.testing.assert_allclose(total, weights @ unit / mean, rtol=1e-3, atol=1e-3)


def test_fit_counts_rows_and_labels():
    X, labels, weights = stream(7, 50, 5, False)
    seen = fitted(configure(), X, labels, weights)["seen"]
    assert (seen.n_rows[0], seen.n_labels[0]) == (50, 5)


# -- what is told of a tree ------------------------------------------------------------------------------------


def test_paths_are_the_leaves_reached_and_all_above():
    X, labels, weights = stream(9, 200, 60, False)
    config = configure(arity=4, beam=3)
    state = fitted(config, X, labels, weights)
    tree = read_tree(config, state)
    for x, nodes in zip(X.astype(float), model.paths(config, state, as_batch(X, False)), strict=True):
        leaves = [n for n, _ in tree.leaves(x / np.linalg.norm(x))]
        expected = {n for leaf in leaves for n, _ in tree.ancestors(tree.nodes[leaf].outputs[0])}
        assert nodes.tolist() == sorted(expected)


def test_the_table_lists_parents_before_children_and_every_label_once():
    X, labels, weights = stream(9, 200, 60, False)
    state = fitted(configure(arity=4), X, labels, weights)
    known = np.unique(labels.label).tolist()
    table = model.tree_table(state)
    tree = state["tree"]
    assert sorted(row["node"] for row in table) == list(range(model.n_nodes(state)))
    assert sorted(np.concatenate([row["labels"] for row in table]).tolist()) == known
    depth = {-1: -1}
    for row in table:
        assert row["parent"] == tree.parent[row["node"]]
        assert row["depth"] == depth[row["parent"]] + 1
        depth[row["node"]] = row["depth"]
        assert (len(row["labels"]) > 0) == bool(tree.is_leaf[row["node"]])
    assert [row["node"] for row in model.tree_table(state, 0)] == [0]
    assert [row["node"] for row in model.tree_table(state, 1)] == [row["node"] for row in table if row["depth"] <= 1]


def test_lists_of_labels_are_picked_row_by_row():
    labels = Labels(np.array([0, 2, 2, 5]), np.array([4, 7, 1, 2, 3], np.int32))
    picked = labels.rows(np.array([2, 0, 1, 2]))
    assert [own_labels(picked, i) for i in range(4)] == [[1, 2, 3], [4, 7], [], [1, 2, 3]]
    single = model.as_labels(np.array([5, 3]))
    assert [own_labels(single, i) for i in range(2)] == [[5], [3]]
    assert model.as_labels(labels) is labels
