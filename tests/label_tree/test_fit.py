"""Training in batch: trees over similar labels, and every node as the plain reference trains it."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from manyclass import LabelTreeClassifier
from manyclass.core.columns import apply, as_matrix, measure
from manyclass.core.inputs import Dense, rows_at
from manyclass.core.protocol import Labels
from manyclass.core.steps import Here
from manyclass.label_tree import fit, model
from manyclass.label_tree import fit_kernels as kernel
from manyclass.label_tree.fit import divide, embed, grow_tree, mean_directions
from manyclass.label_tree.kernels import Rows
from manyclass.label_tree.parts import Counts, Given, Part, bounds_of, count
from tests.reference import label_tree as reference
from tests.reference.label_tree_states import (
    as_batch,
    bytes_of,
    check_structure,
    check_tree,
    configure,
    fitted,
    own_labels,
    stream,
)  # fmt: skip


def rng(seed=0):
    return np.random.default_rng(seed)


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1)[:, None]


# -- the tree --------------------------------------------------------------------------------------------------


@settings(max_examples=80)
@given(st.integers(1, 300), st.integers(1, 20), st.integers(0, 10**6))
def test_parts_are_of_equal_size_and_hold_every_id_once(n, n_parts, seed):
    n_parts = min(n, n_parts)
    ids = rng(seed).permutation(400)[:n]
    parts = divide(rng(seed).standard_normal((400, 4)), ids, n_parts, rng(seed))
    assert len(parts) == n_parts
    assert sorted(np.concatenate(parts).tolist()) == sorted(ids.tolist())
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= 1


@settings(max_examples=80)
@given(st.integers(1, 400), st.integers(2, 20), st.integers(0, 10**6), st.booleans())
def test_a_tree_places_every_label_within_its_arity(n, arity, seed, all_equal):
    rows = np.ones((500, 3)) if all_equal else rng(seed).standard_normal((500, 3))
    labels = np.sort(rng(seed).permutation(500)[:n])
    tree = grow_tree(Here(), rows, labels, arity, 500, rng(seed))
    height = check_structure(tree, arity, labels.tolist())
    assert height == max(0, int(np.ceil(np.log(n) / np.log(arity) - 1e-9)) - 1)  # no deeper than need be
    leaves = tree.size[tree.is_leaf != 0]
    assert leaves.max() <= 2 * leaves.min() + 1


def hierarchy(seed, n_groups=8, n_each=8):
    """Rows of labels in groups of groups, and the group of each label; labels are in a random order."""
    random = rng(seed)
    group = random.permutation(np.repeat(np.arange(n_groups), n_each))
    signs = 2.0 * (group[:, None] >> np.arange(3) & 1) - 1
    return unit(signs * [1.5, 1.2, 1.0] + 0.15 * random.standard_normal((len(group), 3))), group


@pytest.mark.parametrize("seed", range(5))
def test_planted_groups_are_found(seed):
    rows, group = hierarchy(seed)
    tree = grow_tree(Here(), rows, np.arange(64), 8, 64, rng(seed))
    leaves = [group[tree.outputs[node, : tree.size[node]]] for node in np.flatnonzero(tree.is_leaf)]
    assert len(leaves) == 8
    assert all(len(leaf) == 8 and len(set(leaf.tolist())) == 1 for leaf in leaves)


def test_the_seed_of_two_means_chooses_the_tree():
    rows = rng().standard_normal((60, 5))
    trees = [grow_tree(Here(), rows, np.arange(60), 4, 60, rng(seed)) for seed in (1, 1, 2)]
    for one, same in zip(trees[0], trees[1], strict=True):
        np.testing.assert_array_equal(one, same)
    assert not np.array_equal(trees[0].leaf_of, trees[2].leaf_of)


@pytest.mark.parametrize(("n", "arity"), [(3, 2), (60, 4), (700, 3), (700, 16)])
def test_the_tree_does_not_depend_on_the_number_of_threads(n, arity):
    rows = rng().standard_normal((n, 5)).astype(np.float32)
    trees = [grow_tree(Here(n_jobs), rows, np.arange(n), arity, n, rng(1)) for n_jobs in (1, 2, 3, 7, 40)]
    for other in trees[1:]:
        for one, same in zip(trees[0], other, strict=True):
            np.testing.assert_array_equal(one, same)


def test_labels_without_rows_are_left_out():
    tree = grow_tree(Here(), rng().standard_normal((30, 5)), np.array([3, 4, 11, 29]), 2, 30, rng())
    assert np.flatnonzero(tree.leaf_of >= 0).tolist() == [3, 4, 11, 29]


# -- where labels lie ------------------------------------------------------------------------------------------


def rows_and_labels():
    X = rng().standard_normal((40, 7)).astype(np.float32)
    member, weights = rng(1).random((40, 5)) < 0.3, rng(2).random(40)
    member[:, 3] = False  # a label without rows
    return X, member, weights


def directions_of(X, member, weights, n_parts=1, sparse=False):
    """The mean directions of rows that are used as they are, from equal parts."""
    rows, matrix = as_batch(X, sparse), sp.csr_array(member)
    labels = Labels(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32))
    counts = count(Given(rows, labels, weights), 5)
    parts = [
        Part(Rows(rows_at(rows, own), np.ones(len(own), np.float32), weights[own]), labels.rows(own), own[0])
        for own in np.array_split(np.arange(len(weights)), n_parts)
    ]
    bounds = bounds_of(counts, np.abs(X).max() * weights.max())
    sizes = fit.Sizes(X.shape[1], 5, sparse)
    operator = fit.SumsOfRows(Here(), parts, counts, bounds, sizes) if sparse else None
    return mean_directions(Here(), parts, bounds, sizes), operator


def test_mean_directions_of_sparse_rows():
    X, member, weights = rows_and_labels()
    found, operator = directions_of(X, member, weights, sparse=True)
    assert sp.issparse(found)
    expected = unit(np.delete((member * weights[:, None]).T @ X, 3, axis=0))
    np.testing.assert_allclose(np.delete(found.toarray(), 3, axis=0), expected, atol=1e-5)
    assert not found.toarray()[3].any()
    columns, back = (rng(3).standard_normal((n, 16)).astype(np.float32) for n in found.shape[::-1])
    np.testing.assert_allclose(operator.times(columns), found @ columns, atol=1e-5)
    np.testing.assert_allclose(operator.back(back), found.T @ back, atol=1e-5)


@pytest.mark.parametrize("sparse", [False, True])
def test_sums_of_rows_do_not_depend_on_the_parts(sparse):
    X, member, weights = rows_and_labels()
    (one, operator), (several, other) = (directions_of(X, member, weights, n_parts, sparse) for n_parts in (1, 3))
    if not sparse:
        np.testing.assert_array_equal(one, several)
        return
    np.testing.assert_array_equal(one.toarray(), several.toarray())
    columns, back = (rng(3).standard_normal((n, 16)).astype(np.float32) for n in one.shape[::-1])
    np.testing.assert_array_equal(operator.times(columns), other.times(columns))
    np.testing.assert_array_equal(operator.back(back), other.back(back))


def test_mean_directions_of_dense_rows_point_away_from_the_mean_of_all():
    X, member, weights = rows_and_labels()
    Y = member * weights[:, None]
    mean = (Y.T @ X).sum(axis=0) / Y.sum()
    expected = unit(np.delete(Y.T @ X - Y.sum(axis=0)[:, None] * mean, 3, axis=0))
    found, _ = directions_of((X + 100).astype(np.float32), member, weights)  # an offset of all rows is no likeness
    np.testing.assert_allclose(np.delete(found, 3, axis=0), expected, atol=1e-3)
    assert not found[3].any()


def test_mean_directions_do_not_depend_on_the_unit_of_the_weights():
    X, member, weights = rows_and_labels()
    once, smaller = (directions_of(X + 5, member, weights * factor)[0] for factor in (4.0, 2.0**-20))
    np.testing.assert_allclose(once, smaller, atol=1e-4)


@pytest.mark.parametrize("few", [0, 512])
@pytest.mark.parametrize("sparse", [False, True])
def test_few_dimensions_keep_the_angles(sparse, few, monkeypatch):
    monkeypatch.setattr(fit, "FEW_LABELS", few)
    low = rng().standard_normal((120, 5)) @ rng(1).standard_normal((5, 90))
    low[7] = 0.0
    rows = embed(sp.csr_array(low) if sparse else low, 8, rng(2))
    assert rows.shape[1] <= 8
    others = np.delete(np.arange(120), 7)
    np.testing.assert_allclose(rows[others] @ rows[others].T, unit(low[others]) @ unit(low[others]).T, atol=1e-3)
    assert not rows[7].any()


@pytest.mark.parametrize("shape", [(20, 6), (5, 40), (1, 3), (3, 1)])
def test_few_labels_or_features_keep_all_angles(shape):
    low = rng().standard_normal(shape)
    for form in (low, sp.csr_array(low)):
        rows = embed(form, 8, rng())
        np.testing.assert_allclose(rows @ rows.T, unit(low) @ unit(low).T, atol=1e-4)


@pytest.mark.parametrize("shape", [(100, 80), (20, 6)])
def test_rows_without_values_lie_nowhere(shape):
    for form in (np.zeros(shape), sp.csr_array(shape)):
        rows = embed(form, 8, rng())
        assert len(rows) == shape[0]
        assert not rows.any()


# -- threads and seeds -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("most", [1, 3])
@pytest.mark.parametrize("sparse", [False, True])
def test_threads_and_chunks_change_no_byte(most, sparse, monkeypatch):
    rows = stream(0, 300, 60, sparse, most)
    options = configure(arity=5, loss="logistic", multilabel=most > 1)
    monkeypatch.setattr(Here, "n_chunks", lambda self, n_values: 1)
    whole = bytes_of(fitted(options, *rows, sparse=sparse))
    calls, plain = [], fit.fit_nodes
    monkeypatch.setattr(fit, "fit_nodes", lambda *given: [calls.append(1), plain(*given)][1])
    many = lambda self, n_values: 64  # noqa: E731
    for where, name, value in ((fit, "MOST_RECORDS", 10), (Here, "n_chunks", many)):  # small chunks, for either reason
        with monkeypatch.context() as patch:
            patch.setattr(where, name, value)
            for n_jobs in (1, 2, 3):
                assert bytes_of(fitted(options, *rows, sparse=sparse, n_jobs=n_jobs)) == whole
            assert len(calls) > 20
            calls.clear()


def test_chunks_share_out_the_work():
    assert fit.divide_work(np.array([900, 10, 10, 10, 10, 900]), 25) == [0, 1, 3, 5, 6]
    assert fit.divide_work(np.empty(0, int), 25) == [0]


def test_the_seed_chooses_the_tree():
    rows = stream(1, 300, 60, False)
    one, same, other = (fitted(configure(seed=seed), *rows) for seed in (1, 1, 2))
    assert bytes_of(one) == bytes_of(same)
    assert not np.array_equal(one["tree"].leaf_of, other["tree"].leaf_of)


def test_further_trees_are_those_of_the_next_seeds():
    rows = stream(2, 200, 30, False)
    options = configure(n_trees=3, seed=7)
    together = fitted(options, *rows)
    check_tree(options, together, range(30), "_2")
    for number, suffix in enumerate(["", "_1", "_2"]):
        alone = fitted(options._replace(n_trees=1, seed=7 + number), *rows)
        for group in ("tree", "blocks"):
            for one, same in zip(alone[group], together[group + suffix], strict=True):
                np.testing.assert_array_equal(one, same)


# -- every node equals the reference ---------------------------------------------------------------------------


def expected_pairs(tree, X, labels):
    """{node: rows that learn there}."""
    pairs = {n: [] for n in range(len(tree.nodes))}
    for i, x in enumerate(X):
        true = {n for label in own_labels(labels, i) for n, _ in tree.ancestors(label)}
        routers = {n for n in true | {0} if not tree.nodes[n].is_leaf}
        for n in routers | {n for n, _ in tree.leaves(x)} | true:
            pairs[n].append(i)
    return pairs


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    sparse=st.booleans(),
    most=st.sampled_from([1, 3]),
    n_labels=st.integers(1, 20),
    arity=st.sampled_from([4, 5, 20]),
    beam=st.sampled_from([1, 3]),
    normalize=st.booleans(),
)
def test_fit_equals_reference(seed, sparse, most, n_labels, **options):
    X, labels, weights = stream(seed, 50, n_labels, sparse, most)
    assume(len(labels.label))
    options = configure(multilabel=most > 1, loss="logistic", n_epochs=2, **options)
    state = fitted(options, X, labels, weights, sparse)
    weights = weights / weights.mean()
    tree = check_tree(options, state, np.unique(labels.label).tolist())
    X = as_matrix(apply(state, as_batch(X, sparse)), X.shape[1])
    X = X.toarray() if sparse else X
    sizes = (X.astype(float) ** 2).sum()
    scaled = np.array([x * reference.row_scale(x, options.normalize, 50, sizes) for x in X.astype(float)])
    for n, rows in expected_pairs(tree, scaled, labels).items():
        node, rows = tree.nodes[n], np.array(rows, int)
        true = np.zeros((len(rows), len(node.outputs)))
        for r, i in enumerate(rows):
            true[r, [place for label in own_labels(labels, i) for m, place in tree.ancestors(label) if m == n]] = 1.0
        orders = np.empty((2, len(rows)), np.int64)
        for epoch in range(2):
            kernel.shuffle(orders[epoch], len(rows), options.seed + 7919 * (n + 1), epoch)
        start, bias = (8.0, -8.0 / 3) if node.is_leaf else (4.0, -4.0 / 3)
        weight, bias = reference.train_node(
            scaled[rows], true, weights[rows], orders, start=start, C=options.C, margin=options.margin,
            bias_rate=options.bias_rate, bias=np.full(true.shape[1], bias),
        )  # fmt: skip
        smallest = fit.smallest_weight(counts_of(np.bincount(labels.label)), sparse, node.is_leaf)
        assert np.all((node.weight == 0) | (np.abs(node.weight) > smallest - 1e-3))  # rounded
        np.testing.assert_allclose(node.bias, bias, rtol=1e-3, atol=1e-3)
        np.testing.assert_allclose(node.weight, weight, rtol=1e-3, atol=1e-3 + smallest)
        kept = np.abs(weight) > smallest + 1e-3
        np.testing.assert_allclose(node.weight[kept], weight[kept], rtol=1e-3, atol=1e-3)


def counts_of(rows, n_nonzero=100):
    """Sizes of rows with one label each."""
    return Counts(int(rows.sum()), rows, n_nonzero * rows, n_nonzero, 1, 1.0, 1.0)


@pytest.mark.parametrize(("rows_per_label", "smallest"), [(1, 1.0), (4, 1.0), (10, 0.4), (40, 0.1), (500, 0.1)])
def test_more_weights_are_left_out_with_few_rows_per_label(rows_per_label, smallest):
    rows = np.array([rows_per_label, 0, rows_per_label, rows_per_label])
    assert fit.smallest_weight(counts_of(rows), True, True) == pytest.approx(smallest)
    assert fit.smallest_weight(counts_of(rows), True, False) == pytest.approx(max(0.1, 0.9 * smallest))
    assert fit.smallest_weight(counts_of(rows), False, True) == 0
    assert fit.smallest_weight(counts_of(rows, 4 * 256), True, True) == pytest.approx(smallest / 2)  # of longer rows


# -- the start -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [0.0, 1.5])
def test_the_calibration_is_a_logistic_regression(offset):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 3000))
    y = (rng.random(3000) < expit(6 * x[0] - 2 * x[1] - 3 + offset)).astype(float)
    other = LogisticRegression(C=1e6, max_iter=1000).fit(x.T, y)
    slopes, bias = fit.logistic_regression(x, y, offset)
    assert [*slopes, bias + offset] == pytest.approx([*other.coef_[0], other.intercept_[0]], rel=0.02)


@pytest.mark.parametrize("y", [np.zeros(50), np.ones(50), np.arange(50) % 2, np.arange(50) >= 25], ids=str)
def test_a_calibration_without_information_is_finite(y):
    for x in (np.zeros(50), np.arange(50.0)):
        slopes, bias = fit.logistic_regression(x[None], y.astype(float))
        assert np.isfinite([*slopes, bias]).all()


def test_the_start_is_calibrated_and_kept_for_online_learning():
    """Mean rows that separate the labels get a large weight, those of random labels nearly none."""
    rng = np.random.default_rng(0)
    X, labels, _ = stream(0, 400, 30, False)
    starts = []
    for order in (np.arange(400), rng.permutation(400)):
        options = configure(loss="logistic", start=-1.0, router_start=-1.0)
        state = model.init(options, X.shape[1], 30)
        rows = as_batch(X, False)
        learned = model.fit(options, state, X, rows, labels.rows(order), np.ones(400), 1, lambda share: None)
        assert min(learned.start, learned.router_start) >= 0
        starts.append(learned.start)
        model.learn(learned, state, rows, labels, np.ones(400))
        check_tree(learned, state, range(30))
    assert starts[0] > 5 * starts[1]


# -- columns ---------------------------------------------------------------------------------------------------


def test_dense_columns_are_centred_and_of_comparable_size():
    X = rng().normal(size=(500, 6)).astype(np.float32) * [1, 1, 2, 0.5, 1000, 0] + [0, 7, 0, 0, 0, 3]
    columns = measure(Dense(X.astype(np.float32)), np.ones(500), 6, True)
    moved = apply({"scaling": columns}, Dense(X.astype(np.float32))).values
    np.testing.assert_allclose(moved.mean(axis=0), 0.0, atol=1e-4)
    np.testing.assert_allclose(moved.std(axis=0), [1, 1, 2, 0.5, 4, 0], rtol=0.15)
    weights = rng(1).integers(1, 4, 500)
    repeated = measure(Dense(np.repeat(X, weights, axis=0).astype(np.float32)), np.ones(weights.sum()), 6, True)
    for one, same in zip(measure(Dense(X.astype(np.float32)), weights / 2, 6, True), repeated, strict=True):
        np.testing.assert_allclose(one, same, rtol=1e-3, atol=1e-5)


def test_only_dense_columns_far_from_zero_are_centred_without_centre():
    X = rng().normal(size=(500, 4)).astype(np.float32) + [0, 1, -50, 0]
    X[:, 3] = 7
    columns = measure(Dense(X.astype(np.float32)), np.ones(500), 4, False)
    np.testing.assert_allclose(columns.shift, [0, 0, -50, 7], atol=0.2)
    np.testing.assert_array_equal(columns.factor, 1)
    assert measure(Dense(X[:, :2].astype(np.float32)), np.ones(500), 2, False) is None
    weights = rng(1).integers(1, 4, 500)
    repeated = measure(Dense(np.repeat(X, weights, axis=0).astype(np.float32)), np.ones(weights.sum()), 4, False)
    for one, same in zip(measure(Dense(X.astype(np.float32)), weights / 2, 4, False), repeated, strict=True):
        np.testing.assert_allclose(one, same, rtol=1e-3, atol=1e-5)


def test_only_columns_larger_than_nearly_all_others_of_text_are_scaled():
    X = sp.random_array((400, 300), density=0.05, rng=0, format="csr", dtype=np.float32)
    batch = as_batch(X.toarray(), True)
    assert measure(batch, np.ones(400), 300, False) is None
    huge = X.toarray()
    huge[:, 7] *= 1e5
    columns = measure(as_batch(huge, True), np.ones(400), 300, False)
    assert np.flatnonzero(columns.factor != 1).tolist() == [7]
    assert 1 < np.abs(apply({"scaling": columns}, as_batch(huge, True)).values).max() < 20


def test_a_taxonomy_brings_its_labels_together():
    """Labels of random rows have nothing in common but their parents, of which each has as many as a leaf."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(1280, 30)).astype(np.float32), np.arange(1280) % 64
    parents = {label: f"parent {label % 8}" for label in range(64)}

    def together(**given):
        model = LabelTreeClassifier(arity=8, n_epochs=1, neighbors=False, random_state=0).fit(X, y, **given)
        leaves = model._state["tree"].leaf_of[:64]
        return np.mean([leaves[a] == leaves[b] for a in range(64) for b in range(a) if a % 8 == b % 8])

    assert together(hierarchy=parents) > 0.5 > 0.3 > together()


def test_fit_chooses_a_weaker_regularization_where_common_words_hide_the_labels():
    """A smaller C predicts fewer held-out rows correctly; a larger one is tried then, and leaves without a start."""
    rng = np.random.default_rng(0)
    n_labels, n_words = 300, 3000
    own, y = rng.integers(0, n_words, (n_labels, 12)), rng.permutation(np.repeat(np.arange(n_labels), 20))
    X = sp.lil_array((len(y), n_words), dtype=np.float32)
    for i, label in enumerate(y):
        X[i, np.minimum(rng.zipf(1.2, 25) - 1, n_words - 1)] = 1
        X[i, rng.choice(own[label], 2)] = 1
    X, learned = X.tocsr(), np.arange(len(y)) < 5000
    options = {"auto": {}, "C": {"C": 1.0}, "start": {"start": 20.0}}
    models = {name: LabelTreeClassifier(random_state=0, **some) for name, some in options.items()}
    found = {name: one.fit(X[learned], y[learned])._options for name, one in models.items()}
    assert (found["auto"].C, found["auto"].start, found["start"].start) == (10.0, 0.0, 20.0) and found["C"].start > 0
    auto, *others = (one.score(X[~learned], y[~learned]) for one in models.values())
    assert auto > max(others) + 0.02


@pytest.mark.parametrize(("noise", "n_shared", "n_own", "n_random", "C", "router_C"), [
    (0.0, 100, 5, 4, 10.0, 100.0),  # labels share words, and nearly all words of a label are in each of its rows
    (0.0, 2000, 4, 4, 1.0, 100.0),
    (0.5, 2000, 4, 4, 0.3, 10.0),
])  # fmt: skip
def test_fit_chooses_a_stronger_regularization_for_noisier_text(
    monkeypatch, noise, n_shared, n_own, n_random, C, router_C
):
    rng = np.random.default_rng(0)
    n_labels, n_words = 40, 2000
    y = rng.permutation(np.repeat(np.arange(n_labels), 40))
    words = rng.integers(0, n_shared, (n_labels, 6 if n_shared < n_words else 12))
    X = sp.lil_array((len(y), n_words), dtype=np.float32)
    for i, label in enumerate(y):
        own = label if rng.random() >= noise else rng.integers(n_labels)
        X[i, rng.choice(words[own], n_own)] = 1
        X[i, rng.integers(0, n_words, n_random)] = 1
    used, train = {}, fit.train_nodes

    def train_nodes(pieces, tree, scale, job):
        used[job.leaf] = job.options.C
        return train(pieces, tree, scale, job)

    monkeypatch.setattr(fit, "train_nodes", train_nodes)
    assert LabelTreeClassifier(random_state=0).fit(X.tocsr(), y)._options.C == C
    assert used == {False: router_C, True: C}
    assert LabelTreeClassifier(C=0.7, random_state=0).fit(X.tocsr(), y)._options.C == 0.7
    assert used == {False: 7.0, True: 0.7}
