"""Predictions of a Recall Tree, their cost, and its options."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import make_blobs

from manyclass import SGD, RecallTreeClassifier
from manyclass.core import prediction
from manyclass.recall_tree.kernels import depth_limit, wanted_candidates


def rows(many):
    return many[0][900:]


def test_it_learns(tree, many):
    X, y = many
    assert tree.score(X[900:], y[900:]) > 0.8
    assert tree._state["tree"].depth.max() >= 3


# -- top-k -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 2, 7, 18, 60, 150])
def test_topk_is_sorted_complete_and_starts_with_predict(tree, many, k):
    labels, scores = tree.predict_topk(rows(many), k)
    assert labels.shape == scores.shape == (300, k)
    assert np.all(scores[:, 1:] <= scores[:, :-1])
    assert all(len(set(row)) == k for row in labels.tolist())
    np.testing.assert_array_equal(labels[:, 0], tree.predict(rows(many)))


@pytest.mark.parametrize("k", [1, 3, 17, 32, 149])
def test_topk_is_a_prefix_of_the_next(tree, many, k):
    labels, scores = tree.predict_topk(rows(many), k)
    more_labels, more_scores = tree.predict_topk(rows(many), k + 1)
    np.testing.assert_array_equal(labels, more_labels[:, :k])
    np.testing.assert_array_equal(scores, more_scores[:, :k])


def test_scored_labels_are_the_candidates(tree, many):
    labels, scores = tree.predict_topk(rows(many), 150)
    candidates = tree.candidates(rows(many)).toarray()
    for r in range(300):
        scored = {int(label) for label in labels[r][np.isfinite(scores[r])]}
        assert scored == set(tree.classes_[candidates[r]].tolist())


def test_unscored_places_hold_the_ancestors_most_frequent_labels(many):
    X, y = many
    tree = RecallTreeClassifier(random_state=0, n_candidates=3, max_depth=4, beam=1, bernstein=None).partial_fit(X, y)
    labels, scores = tree.predict_topk(X[:50], 12)
    lists, parent = tree._state["candidates"], tree._state["tree"].parent
    depths = tree._state["tree"].depth
    n_filled = 0
    for r, nodes in enumerate(tree.decision_path(X[:50]).toarray()):
        node = max(np.flatnonzero(nodes), key=lambda n: depths[n])
        expected = []
        while node >= 0:
            frequent = tree.classes_[lists.label[node, : lists.size[node]]].tolist()
            expected += [label for label in frequent if label not in expected]
            node = parent[node]
        n_scored = int(np.isfinite(scores[r]).sum())
        assert labels[r, n_scored : len(expected)].tolist() == expected[n_scored:12]
        n_filled += min(12, len(expected)) - n_scored
    assert n_filled > 50


@pytest.mark.parametrize("k", [0, -1, 2.5, "3", True])
def test_k_must_be_a_whole_number(tree, many, k):
    with pytest.raises(ValueError, match="k must be an integer"):
        tree.predict_topk(rows(many), k)


def test_k_is_at_most_the_number_of_classes(tree, many):
    with pytest.raises(ValueError, match="more than the 150 classes"):
        tree.predict_topk(rows(many), 151)
    assert tree.predict_topk(rows(many)[:2], np.int64(2))[0].shape == (2, 2)


# -- probabilities, candidates, paths, diagnosis ---------------------------------------------------------------


@pytest.mark.parametrize("loss", ["softmax", "logistic"])
def test_probabilities(many, loss):
    X, y = many
    tree = RecallTreeClassifier(random_state=0, loss=loss, n_epochs=2).fit(X, y)
    chances = tree.predict_proba(X)
    assert chances.shape == (len(y), 150)
    np.testing.assert_allclose(chances.sum(axis=1), 1.0, rtol=1e-4)
    top_two = np.sort(chances, axis=1)[:, -2:]
    clear = top_two[:, 1] > top_two[:, 0]  # float32 cannot tell 1 from almost 1
    np.testing.assert_array_equal(tree.classes_[chances.argmax(axis=1)][clear], tree.predict(X)[clear])
    assert np.all((chances > 0) <= tree.candidates(X).toarray())


def test_probabilities_too_large_point_to_topk(tree, many, monkeypatch):
    monkeypatch.setattr(prediction, "DENSE_LIMIT", 4 * 300 * 150 - 1)
    with pytest.raises(ValueError, match="predict_topk"):
        tree.predict_proba(rows(many))
    assert tree.predict_proba(rows(many)[:299]).shape == (299, 150)


def test_candidates_hold_the_prediction(tree, many):
    candidates = tree.candidates(rows(many))
    assert isinstance(candidates, sp.csr_array)
    assert candidates.dtype == bool
    assert candidates.shape == (300, 150)
    ids = np.searchsorted(tree.classes_, tree.predict(rows(many)))
    assert candidates.toarray()[np.arange(300), ids].all()
    assert candidates.sum(axis=1).max() <= 3 * 6  # beam x n_candidates


def test_paths_start_at_the_root_and_reach_the_depth(tree, many):
    path = tree.decision_path(rows(many))
    assert path.shape == (300, tree._state["tree"].n_nodes[0])
    assert path.dtype == bool
    nodes = path.toarray()
    assert nodes[:, 0].all()
    parent = tree._state["tree"].parent
    for row in nodes:
        inside = np.flatnonzero(row)
        assert all(row[parent[node]] for node in inside if node > 0)
    single = RecallTreeClassifier(random_state=0, beam=1).fit(*many)
    lengths = single.decision_path(many[0]).sum(axis=1)
    assert single.diagnose(*many)["depth"] == pytest.approx(lengths.mean() - 1)


def test_diagnosis_agrees_with_the_predictions(tree, many):
    X, y = many[0][900:], many[1][900:]
    report = tree.diagnose(X, y)
    assert list(report) == [
        "accuracy", "recall", "depth", "nodes_visited", "routers_scored", "candidates_scored", "work",
    ]  # fmt: skip
    assert all(type(value) is float for value in report.values())
    candidates = tree.candidates(X)
    assert report["accuracy"] == pytest.approx(tree.score(X, y))
    assert report["recall"] == pytest.approx(candidates.toarray()[np.arange(300), y].mean())
    assert report["candidates_scored"] == pytest.approx(candidates.sum() / 300)
    assert report["work"] == pytest.approx(report["routers_scored"] + report["candidates_scored"])
    assert report["accuracy"] <= report["recall"] <= 1.0
    assert 0 < report["depth"] <= report["nodes_visited"]


def test_labels_never_met_count_as_wrong(tree, many):
    X, y = many[0][900:], many[1][900:].copy()
    before = tree.diagnose(X, y)
    y[:100] = 10**6
    after = tree.diagnose(X, y)
    right = tree.predict(X) == y
    assert after["accuracy"] == pytest.approx(right.mean())
    assert after["recall"] < before["recall"]
    with pytest.raises(ValueError, match="rows but y has"):
        tree.diagnose(X, y[:-1])


# -- logarithmic cost, by counting ------------------------------------------------------------------------------


def hierarchy(n_classes, n_rows):
    """Classes as the leaves of a binary tree: one number for each level, plus noise."""
    rng = np.random.default_rng(n_classes)
    levels = int(np.log2(n_classes))
    y = rng.integers(0, n_classes, n_rows)
    bits = 2.0 * (y[:, None] >> np.arange(levels) & 1) - 1
    X = np.zeros((n_rows, 10))
    X[:, :levels] = bits
    return X + 0.1 * rng.standard_normal(X.shape), y


@pytest.mark.parametrize("beam", [1, 8])
def test_work_grows_like_the_logarithm_of_the_classes(beam):
    work = []
    for n_classes in (64, 256, 1024):
        X, y = hierarchy(n_classes, 3 * n_classes)
        tree = RecallTreeClassifier(random_state=0, beam=beam).partial_fit(X, y)
        options = tree._options
        n_candidates = int(wanted_candidates(n_classes, options))
        depth = int(depth_limit(n_classes, n_candidates, options))
        cost = tree._predict(tree._check_inputs(X), 1).work
        assert cost[:, 0].max() <= depth
        assert cost[:, 2].max() <= beam * depth
        assert cost[:, 3].max() <= beam * wanted_candidates(n_classes + 1, options)
        work.append(tree.diagnose(X, y)["work"])
        assert tree._state["candidates"].size.max() <= wanted_candidates(n_classes + 1, options)
        assert tree._state["tree"].depth.max() <= depth
    assert work[2] < 3 * work[0]  # 16 times the classes, 10/6 of the logarithm
    assert work[2] < 1024 / 2


def test_recall_grows_with_the_beam(many):
    X, y = many
    recalls = [
        RecallTreeClassifier(random_state=0, beam=beam, n_candidates=4, max_depth=6, bernstein=None)
        .partial_fit(X[:900], y[:900])
        .diagnose(X[900:], y[900:])["recall"]
        for beam in (1, 2, 8)
    ]
    assert recalls[0] <= recalls[1] <= recalls[2]
    assert recalls[0] < recalls[2]


# -- options ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path_features", ["off", "bias", "stop", "crossed"])
@pytest.mark.parametrize("learner", ["sgd", "adagrad", "normalized-adagrad"])
def test_path_features_learn(digits, path_features, learner):
    X, y = digits
    model = RecallTreeClassifier(
        random_state=0, path_features=path_features, learner=learner, n_epochs=2, beam=1, n_candidates=4
    ).fit(X[:1400] / 16, y[:1400])
    assert model.score(X[1400:] / 16, y[1400:]) > 0.75
    assert (model._state["path"].n_rows[0] > 0) == (path_features != "off")


def test_lambda_holds_the_descent_back(many):
    X, y = many
    depths = [
        RecallTreeClassifier(random_state=0, beam=1, n_candidates=8, bernstein=bernstein)
        .partial_fit(X, y)
        .diagnose(X, y)["depth"]
        for bernstein in (None, 0.1, 1.0)
    ]
    assert depths[0] > depths[1] > depths[2]


def test_table_bits_bound_the_weights(many):
    X, y = many
    tree = RecallTreeClassifier(random_state=0, table_bits=9, n_epochs=3).fit(X, y)
    assert all(tree._state[bank].weight.size <= 2**9 for bank in ("router", "scorer", "path"))
    assert tree.score(X, y) > 0.1  # sixteen times better than chance, in a table a third of what is needed


def test_threads_give_the_same_predictions(tree, many, monkeypatch):
    X = many[0]
    expected = tree.predict_topk(X, 4)
    monkeypatch.setattr(prediction, "BLOCK", 100)
    twin = clone(tree).set_params(n_jobs=2).fit(many[0][:900], many[1][:900])
    for got, want in zip(twin.predict_topk(X, 4), expected, strict=True):
        np.testing.assert_array_equal(got, want)
    with ThreadPoolExecutor(4) as pool:
        replies = list(pool.map(lambda _: tree.predict_topk(X, 4), range(16)))
    for labels, scores in replies:
        np.testing.assert_array_equal(labels, expected[0])
        np.testing.assert_array_equal(scores, expected[1])


@pytest.mark.parametrize("arity", [3, 8, 32])
def test_wide_nodes_are_less_deep_and_as_good(many, arity):
    X, y = many
    narrow = RecallTreeClassifier(random_state=0, n_candidates=8).fit(X[:900], y[:900])
    wide = RecallTreeClassifier(random_state=0, n_candidates=8, arity=arity).fit(X[:900], y[:900])
    children = wide._state["tree"].children[: wide._model.n_nodes(wide._state)]
    assert children.shape[1] == arity
    assert wide.diagnose(X, y)["depth"] < narrow.diagnose(X, y)["depth"]
    assert wide.score(X[900:], y[900:]) > narrow.score(X[900:], y[900:]) - 0.05
    assert wide.diagnose(X, y)["routers_scored"] >= arity


def test_clone_forgets_what_was_learned(tree):
    copy = clone(tree.set_params(learner=SGD(rate=0.5)))
    tree.set_params(learner="auto")
    assert copy.learner == SGD(rate=0.5)
    assert not hasattr(copy, "classes_")
    assert not hasattr(copy, "n_bytes_")


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("n_classes", [5, 8, 16, 32])
def test_easy_classes_are_all_found_whatever_their_number(seed, n_classes):
    """Training must count as deep as predictions go, also when the depth limit falls as candidate lists widen."""
    X, y = make_blobs(50 * n_classes, centers=n_classes, n_features=8, random_state=seed)
    tree = RecallTreeClassifier(random_state=0).fit(X, y)
    assert tree.diagnose(X, y)["recall"] > 0.97
    nodes = int(tree._state["tree"].n_nodes[0])
    children = tree._state["tree"].children[:nodes]
    for node in np.flatnonzero(children.max(axis=1) >= 0):
        below = sum(tree._state["counts"].total[child] for child in children[node] if child >= 0)
        assert below > 0.9 * tree._state["counts"].total[node] - 50  # some came before there were children
