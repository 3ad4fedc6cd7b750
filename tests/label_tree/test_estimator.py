"""Predictions of a label tree with one label per row, their cost, and the effect of every option."""

import inspect
import re
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import make_blobs

from manyclass import LabelTreeClassifier, load_model
from manyclass.core import columns, prediction
from manyclass.datasets import load, tfidf_transformer
from manyclass.label_tree import model as label_tree_model
from manyclass.label_tree.weights import STEPS, n_pages
from tests.conftest import make_text
from tests.core.test_streams import bytes_of, stream
from tests.reference.label_tree_states import check_tree, read_tree


@pytest.fixture(scope="module")
def tree(text):
    """A tree of several levels and few paths, fitted on the first 1,000 rows of `text`."""
    X, y = text
    return LabelTreeClassifier(arity=4, beam=3, random_state=0).fit(X[:1000], y[:1000])


# -- it learns -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
@pytest.mark.parametrize(
    "options",
    [{}, {"arity": 4, "beam": 4}, {"arity": 5, "beam": 4}, {"arity": 32, "beam": 2}, {"C": 1.0}, {"start": 0},
     {"n_trees": 3}, {"normalize": False}, {"prior": 0.0}],
    ids=str,
)  # fmt: skip
def test_it_learns_text(text, method, options):
    X, y = text
    model = getattr(LabelTreeClassifier(random_state=0, **options), method)(X[:1000], y[:1000])
    assert model.score(X[1000:], y[1000:]) > (0.7 if options.get("start") == 0 else 0.85)
    labels = set(y[:1000].tolist())
    check_tree(model._options, model._state, [i for i, label in enumerate(model.classes_.tolist()) if label in labels])


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
@pytest.mark.parametrize("options", [{}, {"arity": 4, "beam": 3, "normalize": True}], ids=str)
def test_it_learns_dense_rows(digits, method, options):
    X, y = digits
    model = getattr(LabelTreeClassifier(random_state=0, **options), method)(X[:1400], y[:1400])
    assert model.score(X[1400:], y[1400:]) > 0.85


def test_one_pass_over_wordnet_is_nearly_as_good_as_fit():
    X, y, X_test, y_test = load("wordnet-hypernym")
    classes = np.argsort(-np.bincount(y), kind="stable")[300:600]
    rows, test_rows = np.isin(y, classes), np.isin(y_test, classes)
    weigh = tfidf_transformer().fit(X[rows])
    X, y, X_test, y_test = weigh.transform(X[rows]), y[rows], weigh.transform(X_test[test_rows]), y_test[test_rows]
    batch = LabelTreeClassifier(random_state=0).fit(X, y).diagnose(X_test, y_test)
    online = LabelTreeClassifier(random_state=0).partial_fit(X, y).diagnose(X_test, y_test)
    assert batch["accuracy"] > 0.78
    assert online["accuracy"] > batch["accuracy"] - 0.03
    assert min(batch["recall"], online["recall"]) > 0.95


def test_labels_may_be_text(text):
    X, y = text
    names = np.array([f"label {label:03}" for label in range(80)])
    numbers = LabelTreeClassifier(random_state=0).fit(X, y)
    model = LabelTreeClassifier(random_state=0).fit(X, names[y])
    np.testing.assert_array_equal(model.predict(X), names[numbers.predict(X)])
    listed = np.concatenate([row["labels"] for row in model.tree_table()])
    assert sorted(listed.tolist()) == sorted(set(names[y].tolist()))
    assert [row["node"] for row in model.tree_table(max_depth=0)] == [0]


def test_classes_that_come_later_are_learned_and_old_ones_kept(text):
    X, y = text
    old = y < 50
    for first in ("fit", "partial_fit"):
        model = getattr(LabelTreeClassifier(arity=4, random_state=0), first)(X[:1000][old[:1000]], y[:1000][old[:1000]])
        before = model.score(X[1000:][old[1000:]], y[1000:][old[1000:]])
        n_nodes = model._state["tree"].n_nodes[0]
        model.partial_fit(X[:1000][~old[:1000]], y[:1000][~old[:1000]])
        assert sorted(model.classes_.tolist()) == sorted(set(y[:1000].tolist()))
        assert model.classes_[:50].max() < 50 <= model.classes_[50:].min()
        assert model._state["tree"].n_nodes[0] > n_nodes
        assert model.score(X[1000:][~old[1000:]], y[1000:][~old[1000:]]) > 0.8
        assert model.score(X[1000:][old[1000:]], y[1000:][old[1000:]]) > before - 0.1


# -- streams ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def growing():
    """Text whose 200 labels come bit by bit."""
    X, Y = make_text(8, 700, 200)
    y = Y.toarray().argmax(axis=1)
    order = np.argsort(np.where(np.random.default_rng(0).random(700) < 0.6, y, 0), kind="stable")
    return X[order], y[order]


# scikit-learn warns of small batches with many labels, as any cut of this stream has
@pytest.mark.filterwarnings("ignore:The number of unique classes is greater than 50%:UserWarning")
@settings(max_examples=15)
@given(cuts=st.lists(st.integers(1, 699), max_size=8), options=st.sampled_from([{}, {"arity": 4}]))
def test_cutting_a_stream_of_text_changes_no_byte(growing, cuts, options):
    X, y = growing
    whole = stream(LabelTreeClassifier(random_state=1, **options), X, y, [])
    assert bytes_of(stream(LabelTreeClassifier(random_state=1, **options), X, y, cuts)) == bytes_of(whole)


def test_the_stream_outgrows_every_first_size(growing):
    """Otherwise the test of cuts would say nothing about growth."""
    X, y = growing
    first = LabelTreeClassifier(arity=4, random_state=1).partial_fit(X[:3], y[:3])._state
    grown = LabelTreeClassifier(arity=4, random_state=1).partial_fit(X, y)._state
    for group, field in (("tree", "parent"), ("tree", "leaf_of"), ("blocks", "feature"), ("blocks", "weight")):
        assert len(getattr(grown[group], field)) > len(getattr(first[group], field))
    assert (grown["blocks"].free >= 0).sum() > 2  # tables were outgrown and given back


def test_of_known_labels_the_progressive_error_is_the_share_predicted_wrongly(text):
    X, y = text
    model = LabelTreeClassifier(random_state=0).partial_fit(X[:600], y[:600])
    wrong = model.progressive_error_ * 600
    for i in range(600, 700):
        assert y[i] in model.classes_
        wrong += model.predict(X[i : i + 1])[0] != y[i]
        model.partial_fit(X[i : i + 1], y[i : i + 1])
    assert model.progressive_error_ == pytest.approx(wrong / 700)


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_rows_of_weight_zero_may_hold_anything(many, method):
    X, y = many
    weights = np.ones(len(y))
    weights[:40] = 0.0
    rubbish = X.copy()
    rubbish[:40] *= 1e6
    assert set(y[:40]) <= set(y[40:])
    model = getattr(LabelTreeClassifier(random_state=0), method)(rubbish, y, sample_weight=weights)
    assert model.score(X[40:], y[40:]) > 0.9
    if method == "fit":  # test_streams.py has the same for partial_fit
        assert bytes_of(model) == bytes_of(LabelTreeClassifier(random_state=0).fit(X[40:], y[40:]))


def test_a_label_of_weight_zero_is_never_predicted():
    X, y = np.tile([[1.0, 0.0], [0.8, 0.6]], (10, 1)), np.tile([0, 1], 10)
    model = LabelTreeClassifier(random_state=0).partial_fit(X, y).partial_fit(X[:1], [9], sample_weight=[0.0])
    assert model.predict([[-1.0, -0.3]])[0] in (0, 1)


def test_classes_of_weight_zero_do_no_harm(text):
    X, y = text
    model = LabelTreeClassifier(arity=4, random_state=0).fit(X, y, sample_weight=y < 40)
    assert model.score(X[y < 40], y[y < 40]) > 0.95
    assert model.classes_.tolist() == list(range(80))
    assert np.isfinite(model.predict_topk(X, 3)[1]).all()
    assert model.predict(X).max() < 40
    model.partial_fit(X[y >= 40], y[y >= 40])
    assert model.score(X, y) > 0.9


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_no_weight_ruins_the_model(text, method):
    X, y = text
    for heavy in (1e9, 1e-6):
        model = getattr(LabelTreeClassifier(random_state=0), method)(X, y, sample_weight=np.where(y == 3, heavy, 1.0))
        assert model.score(X[y != 3], y[y != 3]) > 0.9


@pytest.mark.parametrize(("length", "weight"), [(1.0, 1e-40), (1e-38, 1.0)])
def test_a_sum_too_short_to_divide_by_counts_as_none(blobs, length, weight):
    """The start of a new label would be infinite, and that of its rows not a number."""
    X, y = blobs
    model = LabelTreeClassifier(random_state=0).partial_fit(X, y)
    model.partial_fit(np.vstack([np.full((1, 5), length), X[:1]]), [12, y[0]], sample_weight=[weight, 1.0])
    assert np.isfinite(model.predict_topk(X, 13)[1]).all()
    np.testing.assert_array_equal(np.concatenate([model.predict(row[None]) for row in X]), model.predict(X))
    assert model.partial_fit(X, y).score(X, y) > 0.9
    model = LabelTreeClassifier(random_state=0).fit(X, y, sample_weight=np.where(y == 0, 1e-40, 1.0))
    assert model.score(X[y > 0], y[y > 0]) > 0.9


def test_sparse_rows_are_made_dense_in_small_blocks(monkeypatch):
    """If the model was fitted on dense rows, whose columns are centred."""
    monkeypatch.setattr(columns, "_MOST_DENSE", 2000)
    rng = np.random.default_rng(0)
    y = rng.integers(0, 6, 200)
    X = np.eye(20)[y] + 0.1 * rng.normal(size=(200, 20))
    X = np.pad(X, ((0, 0), (0, 380))).astype(np.float32)
    model, sizes, dense = LabelTreeClassifier(neighbors=False, random_state=0).fit(X, y), [], columns.dense
    expected = model.predict_topk(X, 3)
    monkeypatch.setattr(columns, "dense", lambda batch, n: sizes.append(len(batch.indptr) - 1) or dense(batch, n))
    found = model.predict_topk(sp.csr_array(X), 3)
    np.testing.assert_array_equal(found[0], expected[0])
    model.predict_proba(sp.csr_array(X))
    model.partial_fit(sp.csr_array(X), y)
    assert max(sizes) == 5


def test_in_fit_only_the_ratios_of_weights_count(text):
    X, y = text
    models = [LabelTreeClassifier(random_state=0).fit(X, y, sample_weight=weight) for weight in (None, 4.0, 2.0**-20)]
    for model, weight in zip(models[1:], (4.0, 2.0**-20), strict=True):
        tree, run = model._state["tree"], model._state["run"]
        assert run.mass[0] == tree.mass.sum() == weight * len(y), "the unit that partial_fit continues with"
        tree.mass[:], run.mass[:] = tree.mass / weight, run.mass / weight
        assert bytes_of(model) == bytes_of(models[0])


def test_one_long_row_of_a_stream_does_not_ruin_the_model():
    X, y = make_blobs(900, 10, centers=30, random_state=0)
    model = LabelTreeClassifier(neighbors=False, random_state=0).fit(X[:600], y[:600])
    before = model.score(X[600:], y[600:])
    model.partial_fit(np.where(np.arange(10) == 3, 1e6, X[:1]), y[:1])
    assert before > 0.9 and model.score(X[600:], y[600:]) > before - 0.05


def test_long_sparse_rows_keep_their_weights():
    """Their values are small once a row has length 1, and so are the weights."""
    rng, n_words, n_classes = np.random.default_rng(0), 20_000, 100
    own = [rng.choice(n_words, 5000, replace=False) for _ in range(n_classes)]
    y = np.tile(np.arange(n_classes), 5)
    rows = [np.unique(np.concatenate([own[c][:3500], rng.integers(0, n_words, 1500)])) for c in y]
    indptr = np.cumsum([0, *map(len, rows)])
    X = sp.csr_array((np.ones(indptr[-1], np.float32), np.concatenate(rows), indptr), shape=(len(y), n_words))
    model = LabelTreeClassifier(random_state=0).fit(X[:400], y[:400])
    assert model.score(X[400:], y[400:]) > 0.95


# -- prediction ---------------------------------------------------------------------------------------------------


def test_topk_is_sorted_complete_and_a_prefix_of_the_next(tree, text):
    X = text[0][1000:]
    for k in (1, 2, 9, 40, 79):
        labels, scores = tree.predict_topk(X, k)
        more_labels, more_scores = tree.predict_topk(X, k + 1)
        assert np.all(scores[:, 1:] <= scores[:, :-1])
        assert all(len(set(row)) == k for row in labels.tolist())
        np.testing.assert_array_equal(labels, more_labels[:, :k])
        np.testing.assert_array_equal(scores, more_scores[:, :k])
        np.testing.assert_array_equal(labels[:, 0], tree.predict(X))


@pytest.mark.parametrize("options", [{}, {"n_trees": 3}, {"arity": 4, "beam": 1}], ids=str)
def test_probabilities_sum_to_one(text, options):
    X, y = text
    model = LabelTreeClassifier(random_state=0, **options).fit(X[:1000], y[:1000])
    probabilities = model.predict_proba(X[1000:])
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-4)
    assert probabilities.min() >= 0.0
    top_two = np.sort(probabilities, axis=1)[:, -2:]
    clear = top_two[:, 1] > top_two[:, 0]
    np.testing.assert_array_equal(model.classes_[probabilities.argmax(axis=1)][clear], model.predict(X[1000:])[clear])
    assert np.all((probabilities > 0) <= model.candidates(X[1000:]).toarray())


def test_candidates_paths_and_diagnosis_agree(tree, text):
    X, y = text[0][1000:], text[1][1000:]
    report, candidates, path = tree.diagnose(X, y), tree.candidates(X).toarray(), tree.decision_path(X).toarray()
    assert report["accuracy"] == pytest.approx(tree.score(X, y))
    assert report["recall"] == pytest.approx(candidates[np.arange(300), np.searchsorted(tree.classes_, y)].mean())
    assert report["accuracy"] < report["recall"] < 1.0
    assert report["candidates_scored"] == pytest.approx(candidates.sum(axis=1).mean())
    assert report["work"] == pytest.approx(report["routers_scored"] + report["candidates_scored"])
    nodes = read_tree(tree._options, tree._state).nodes
    for row, labels in zip(path, candidates, strict=True):
        leaves = [nodes[n] for n in np.flatnonzero(row) if nodes[n].is_leaf]
        assert len(leaves) == 3
        assert sorted(label for leaf in leaves for label in leaf.outputs) == np.flatnonzero(labels).tolist()
        assert all(row[nodes[n].parent] for n in np.flatnonzero(row) if n > 0)
    assert 3 + report["depth"] <= path.sum(axis=1).mean() <= report["nodes_visited"]
    scored = tree.predict_topk(X, 80)[1]
    np.testing.assert_array_equal(np.isfinite(scored).sum(axis=1), candidates.sum(axis=1))


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_work_grows_like_the_logarithm_of_the_classes(method):
    work, arity, beam = [], 8, 4
    for n_classes in (64, 1024):
        X, Y = make_text(n_classes, 2 * n_classes, n_classes, n_features=2000)
        y = np.concatenate([np.arange(n_classes), Y.toarray().argmax(axis=1)])
        X = sp.vstack([X[:n_classes], X], format="csr")
        model = getattr(LabelTreeClassifier(arity=arity, beam=beam, random_state=0), method)(X, y)
        depth, nodes, routers, candidates = model._predict(X, 1).work.T
        assert depth.max() <= np.log(n_classes) / np.log(arity // 2)
        assert np.all(nodes <= beam * (depth + 1))
        assert np.all(routers <= beam * arity * depth)
        assert np.all(candidates <= beam * arity)
        work.append(model.diagnose(X, y)["work"])
    assert work[1] < 3 * work[0]  # 16 times the classes
    assert work[1] < 1024 / 8


def test_recall_grows_with_the_beam(text):
    X, y = text
    models = [LabelTreeClassifier(arity=4, beam=beam, random_state=0).fit(X[:1000], y[:1000]) for beam in (1, 3, 30)]
    recalls = [model.diagnose(X[1000:], y[1000:])["recall"] for model in models]
    assert recalls[0] < recalls[1] < recalls[2] == 1.0


@pytest.mark.parametrize(("method", "n_trees"), [("fit", 1), ("fit", 2), ("partial_fit", 1)])
def test_scores_are_what_the_documentation_says(text, method, n_trees):
    X, y = text
    for labels in (y, np.eye(80, dtype=int)[y]):
        softmax = method == "partial_fit" and labels.ndim == 1
        model = LabelTreeClassifier(arity=4, beam=3, n_trees=n_trees, random_state=0)
        getattr(model, method)(X, labels)
        best, scores = model.predict_topk(X, 80)
        columns = np.argsort(model.classes_)[best]  # labels are the numbers 0 to 79
        probabilities = np.take_along_axis(model.predict_proba(X), columns, axis=1)
        expected = np.exp(scores)
        if labels.ndim == 1 and n_trees == 1:
            expected /= expected.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(probabilities, expected, rtol=1e-3, atol=1e-6)
        assert softmax or scores.max() <= 0.0
        if n_trees == 1:  # without the path, the score is the predictor's own
            _, own = model.set_params(prior=0.0).predict_topk(X, 80)
            assert np.all(own[:, 0] >= scores[:, 0])
        table, paths = model.tree_table(), model.decision_path(X)
        assert paths.shape[1] == len(table) == model._state["tree"].n_nodes[0]


@pytest.mark.parametrize("sparse", [True, False])
def test_several_trees_predict_some_rows_at_a_time(text, monkeypatch, sparse):
    X, y = text
    X = X if sparse else X.toarray()
    model = LabelTreeClassifier(arity=4, beam=3, n_trees=2, random_state=0).fit(X, y)
    expected = model.predict_topk(X, 3)
    monkeypatch.setattr(label_tree_model, "_SCORES", 7 * label_tree_model.width(model._options, model._state))
    found = model.predict_topk(X, 3)
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-4)


def test_the_progressive_error_is_not_known_after_fit(tree):
    assert np.isnan(tree.progressive_error_)


def test_threads_change_no_byte_and_no_prediction(text, monkeypatch):
    X, y = text
    single, threads = (LabelTreeClassifier(random_state=0, n_jobs=n).fit(X[:1000], y[:1000]) for n in (1, 3))
    assert bytes_of(single) == bytes_of(threads)
    expected = single.predict_topk(X, 4)
    monkeypatch.setattr(prediction, "BLOCK", 100)
    labels, scores = threads.predict_topk(X, 4)
    np.testing.assert_array_equal(labels, expected[0])
    np.testing.assert_allclose(scores, expected[1], rtol=1e-4, atol=1e-4)
    with ThreadPoolExecutor(4) as pool:
        for again in pool.map(lambda _: single.predict_topk(X, 4), range(8)):
            np.testing.assert_array_equal(again[0], labels)


@pytest.mark.parametrize(("distance", "kind"), [(500, "u2"), (10_000, "i4")])
def test_many_features_change_no_prediction(text, tmp_path, distance, kind):
    """Feature f becomes f x `distance`, so that nodes have 6 pages of features, or one of 32 bits."""
    X, y = text
    X = sp.csr_array((X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)), shape=X.shape)
    far = sp.csr_array((X.data, X.indices * np.int32(distance), X.indptr), shape=(X.shape[0], X.shape[1] * distance))
    options = {"arity": 4, "beam": 3, "random_state": 0}
    near = LabelTreeClassifier(**options).fit(X[:1000], y[:1000])
    model, threads = (LabelTreeClassifier(**options, n_jobs=n).fit(far[:1000], y[:1000]) for n in (1, 3))
    blocks = model._state["blocks"]
    assert (n_pages(blocks), blocks.feature.dtype) == (6 if kind == "u2" else 1, np.dtype(kind))
    assert bytes_of(model) == bytes_of(threads)

    def same(one, other, atol=1e-4):
        for some in (slice(1000, None), slice(1000, 1003)):  # many rows are predicted in another way than a few
            expected, found = one.predict_topk(X[some], 3), other.predict_topk(far[some], 3)
            np.testing.assert_allclose(found[1], expected[1], rtol=1e-4, atol=atol)
            assert (found[0] == expected[0]).mean() > 0.98

    same(near, model)
    for how in ({}, {"slim": True, "prune": 0.1}, {"slim": True, "precision": "int8"}):
        for one, path in ((near, tmp_path / "near"), (model, tmp_path / "far")):
            one.save(path, **how)
        same(load_model(tmp_path / "near"), load_model(tmp_path / "far"))
    beyond = far[1000:1020] + sp.csr_array(
        (np.ones(20, np.float32), (np.arange(20), np.full(20, far.shape[1] - 1))), shape=(20, far.shape[1])
    )
    assert np.isfinite(model.predict_topk(sp.csr_array(beyond), 3)[1]).all()
    same(near.partial_fit(X[1000:1100], y[1000:1100]), model.partial_fit(far[1000:1100], y[1000:1100]), atol=1e-2)


# -- options ---------------------------------------------------------------------------------------------------


OTHERS = [
    ("arity", 5), ("beam", 1), ("start", 3.0), ("C", 0.3), ("prior", 2.0),
    ("normalize", False), ("n_epochs", 1), ("n_trees", 2), ("class_weight", {0: 3.0}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), OTHERS)
def test_every_option_changes_the_scores(text, name, value):
    X, y = text
    model = LabelTreeClassifier(random_state=0).fit(X, y)
    other = clone(model).set_params(**{name: value}).fit(X, y)
    assert not hasattr(clone(model), "classes_")
    assert not np.allclose(model.predict_topk(X, 5)[1], other.predict_topk(X, 5)[1])


def test_the_rate_changes_the_scores_of_online_learning(text):
    X, y = text
    models = [LabelTreeClassifier(random_state=0, rate=rate).partial_fit(X, y) for rate in ("auto", 0.3)]
    assert not np.allclose(*(model.predict_topk(X, 5)[1] for model in models))


@pytest.mark.parametrize(
    ("method", "several", "numbers"),
    [("fit", False, {"C": 1, "prior": 0.3}), ("fit", True, {"C": 0.5, "prior": 0.5}),
     ("partial_fit", False, {"start": 20, "rate": 2, "prior": 0.3}),
     ("partial_fit", True, {"start": 10, "rate": 1, "prior": 0.5})],
)  # fmt: skip
def test_auto_is_what_the_documentation_says(text, method, several, numbers):
    X, y = text[0], text[1].copy()
    y[::20] = (y[::20] + 7) % 80  # wrong labels: `fit` would choose C = 10 for rows that are all predicted correctly
    y = np.eye(80, dtype=int)[y] if several else y
    auto, same = (
        getattr(LabelTreeClassifier(random_state=0, arity=4, **options), method)(X, y) for options in ({}, numbers)
    )
    assert bytes_of(same) == bytes_of(auto)
    words = dict(re.findall(r"\n(\w+) : (.*?)(?=\n\w|\Z)", inspect.getdoc(LabelTreeClassifier), re.DOTALL))
    for name, value in numbers.items():
        assert f"{value:g}" in words[name].split('"auto":')[1]


@pytest.mark.parametrize(("n_features", "prior"), [(700, 0.3), (5000, 0.5)])
def test_paths_count_more_where_labels_share_no_words(n_features, prior):
    X, Y = make_text(5, 1300, 80, n_features=n_features)
    model = LabelTreeClassifier(random_state=0, arity=4).fit(X, Y.toarray().argmax(axis=1))
    scores = model.predict_topk(X, 5)[1]
    np.testing.assert_array_equal(model.set_params(prior=prior).predict_topk(X, 5)[1], scores)
    assert not np.array_equal(model.set_params(prior=0.8 - prior).predict_topk(X, 5)[1], scores)


def test_normalize_scales_every_row_to_length_one(text):
    X, y = text
    lengths = sp.diags_array(np.random.default_rng(0).uniform(0.1, 10.0, X.shape[0]))
    scaled = sp.csr_array(lengths @ X).astype(np.float32)
    for method in ("fit", "partial_fit"):
        models = [LabelTreeClassifier(random_state=0, normalize=True) for _ in range(2)]
        one, other = (getattr(model, method)(rows, y) for model, rows in zip(models, (X, scaled), strict=True))
        assert np.mean(one.predict(X) == other.predict(X)) > 0.99
        np.testing.assert_allclose(one.predict_topk(X, 1)[1], one.predict_topk(scaled, 1)[1], rtol=1e-3, atol=1e-3)


BAD_OPTIONS = [
    ("arity", 3), ("arity", 4097), ("arity", 4.0), ("beam", 0), ("beam", 1025), ("beam", None),
    ("start", -1), ("start", float("nan")), ("start", "big"), ("start", None), ("rate", 0),
    ("rate", float("inf")), ("prior", -0.1), ("prior", True), ("normalize", "yes"), ("normalize", 1),
    ("normalize", None), ("threshold", -0.1), ("threshold", 1.1), ("n_trees", 0), ("n_trees", 1.5), ("n_trees", "two"),
    ("n_jobs", 0),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), BAD_OPTIONS)
def test_bad_options_change_nothing(text, name, value):
    X, y = text[0][:50], text[1][:50]
    model = LabelTreeClassifier(random_state=0).fit(X, y)
    before = bytes_of(model)
    model.set_params(**{name: value})
    for method in (model.fit, model.partial_fit):
        with pytest.raises(ValueError, match=name):
            method(X, y)
    assert bytes_of(model) == before
    with pytest.raises(ValueError, match=name):
        LabelTreeClassifier(**{name: value}).partial_fit(X, y)


ALIKE = [np.ones((200, 100)), np.zeros((200, 20)), np.zeros((200, 100)), sp.csr_array((200, 300))]


@pytest.mark.parametrize("rows", ALIKE, ids=["ones", "few zeros", "zeros", "sparse zeros"])
def test_rows_without_a_difference_are_no_error(rows):
    y = np.arange(200) % 80
    model = LabelTreeClassifier(random_state=0).fit(rows, y)
    assert np.isin(model.predict(rows), y).all()
    assert not np.isnan(model.predict_topk(rows, 3)[1]).any()


def test_a_few_rows_without_values_are_no_error(text):
    X, y = sp.vstack([text[0], sp.csr_array((5, 700), dtype=np.float32)], format="csr"), np.append(text[1], [0] * 5)
    for method in ("fit", "partial_fit"):
        model = getattr(LabelTreeClassifier(random_state=0, arity=4), method)(X, y)
        assert np.isfinite(model.predict_topk(X, 1)[1]).all()
        assert model.score(X[:-5], y[:-5]) > 0.9


# -- memory ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("several", [False, True])
def test_the_estimate_of_memory_with_rows_and_non_zeros_is_near_the_truth(several):
    X, Y = make_text(3, 3000, 300, n_features=20_000)
    model = LabelTreeClassifier(random_state=0).fit(X, Y if several else Y.toarray().argmax(axis=1))
    size = {"sparse": True, "multilabel": several, "n_rows": X.shape[0], "n_nonzero": X.nnz / X.shape[0]}
    if several:
        size["n_labels"] = Y.sum() / X.shape[0]
    estimate = model.estimate_memory(20_000, len(model.classes_), **size)
    assert 0.5 <= estimate / model.n_bytes_ <= 2.0
    assert model.estimate_memory(20_000, 300, sparse=True, multilabel=several) > 4 * estimate
    assert model.estimate_memory(20, 300, n_rows=50) == model.estimate_memory(20, 300)  # dense nodes have all features
    with pytest.raises(ValueError, match="n_rows"):
        model.estimate_memory(20_000, 300, n_nonzero=3)
    with pytest.raises(ValueError, match="n_nonzero"):
        model.estimate_memory(20_000, 300, n_rows=10, n_nonzero=20_001)
    with pytest.raises(ValueError, match="n_labels"):
        model.estimate_memory(20_000, 300, n_rows=10, n_labels=0)


def test_wide_nodes_learn_online_only(blobs):
    X, y = blobs
    model = LabelTreeClassifier(arity=80, random_state=0)
    with pytest.raises(ValueError, match="arity must be at most 64 for fit, got 80; partial_fit allows more"):
        model.fit(X, y)
    y = y * 10 + np.arange(len(y)) % 10  # 120 labels: several leaves
    for _ in range(3):
        model.partial_fit(X, y)
    assert model._state["tree"].n_nodes[0] > 2
    assert np.mean(model.predict(X) // 10 == y // 10) > 0.95


def test_columns_that_were_zero_in_fit_are_learned_online():
    """New words of a service: a column of zeros must not be left out for ever."""
    X, y = np.zeros((60, 8)), np.arange(60) % 3
    X[np.arange(60), y] = 1 + 0.1 * np.random.default_rng(0).random(60)
    model = LabelTreeClassifier(random_state=0).fit(X, y)
    new = np.zeros((40, 8))
    new[np.arange(40), 4 + np.arange(40) % 2] = 1.0
    model.partial_fit(new, 3 + np.arange(40) % 2)
    assert (model.predict(new) == 3 + np.arange(40) % 2).all()
    assert (model.predict(X) == y).all()


@pytest.mark.parametrize("width", [2048, 2049, 20_000])
def test_the_first_row_may_be_longer_than_the_first_capacity(width):
    X = np.ones((4, width), np.float32)
    X[1::2, : width // 2] = -1
    model = LabelTreeClassifier(random_state=0).partial_fit(X, [0, 1, 0, 1])
    assert model.predict(X).tolist() == [0, 1, 0, 1]
    assert len(model._state["tree"].parent) < 1000


@pytest.mark.parametrize("replay", [True, False])
def test_a_label_that_comes_several_times_in_succession(many, replay):
    """As when somebody corrects predictions. Without `replay`, rows that look sorted do not change weights."""
    X, y = many
    model = LabelTreeClassifier(random_state=0, replay=replay, neighbors=False).fit(X, y)
    weights = []
    for i in range(3):
        model.partial_fit(-X[i : i + 1], [77])
        blocks = model._state["blocks"]
        weights.append(blocks.weight[: blocks.n_records[0]].copy())
    before, after = weights[1:]
    assert (before != after[: len(before)]).any() == replay


def test_weights_of_nodes_may_be_tiny(tmp_path):
    model = LabelTreeClassifier(random_state=0).fit([[1.0], [0.0]], [0, 1], sample_weight=[1e-30, 1e9])
    assert np.abs(model._state["blocks"].value.astype(int)).max(initial=0) <= STEPS
    model.save(tmp_path / "a.model", slim=True, precision="int8")
    assert load_model(tmp_path / "a.model").predict([[0.0]]) == model.predict([[0.0]])


def test_scores_of_several_trees_do_not_depend_on_spare_capacity(tmp_path):
    """A file has none: sums over empty places were taken in another order."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 7, 400)
    X = (rng.normal(size=(400, 3)) + np.eye(7)[y][:, :3]).astype(np.float32)
    model = LabelTreeClassifier(n_trees=2, arity=4, n_epochs=2, random_state=0).fit(X, y)
    model.save(tmp_path / "a.model")
    labels, scores = model.predict_topk(X, 7)
    loaded, other = load_model(tmp_path / "a.model").predict_topk(X, 7)
    np.testing.assert_array_equal(labels, loaded)
    np.testing.assert_array_equal(scores, other)
