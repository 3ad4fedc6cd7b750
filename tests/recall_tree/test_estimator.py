"""What a Recall Tree answers, what its answers cost, and that its options do what they say."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import make_blobs

from manyclass import SGD, RecallTreeClassifier
from manyclass.core import prediction as answers
from manyclass.core import validation as batches
from manyclass.core.protocol import as_labels
from manyclass.core.state import flatten
from manyclass.recall_tree import learning as recall_tree_learning
from manyclass.recall_tree import model
from manyclass.recall_tree.kernels import candidates_wanted, depth_limit
from manyclass.recall_tree.start import begin_as_spectral_tree
from manyclass.spectral_tree.filter import Growth, grow_filter


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
    with pytest.raises(ValueError, match="k must be a whole number"):
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
    monkeypatch.setattr(answers, "DENSE_LIMIT", 4 * 300 * 150 - 1)
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


def test_diagnosis_agrees_with_the_answers(tree, many):
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
        options = model.options_of(tree._options)
        n_candidates = int(candidates_wanted(n_classes, options))
        depth = int(depth_limit(n_classes, n_candidates, options))
        cost = tree._answers(tree._check_inputs(X), 1).work
        assert cost[:, 0].max() <= depth
        assert cost[:, 2].max() <= beam * depth
        assert cost[:, 3].max() <= beam * candidates_wanted(n_classes + 1, options)
        work.append(tree.diagnose(X, y)["work"])
        assert tree._state["candidates"].size.max() <= candidates_wanted(n_classes + 1, options)
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


def test_threads_give_the_same_answers(tree, many, monkeypatch):
    X = many[0]
    expected = tree.predict_topk(X, 4)
    monkeypatch.setattr(answers, "BLOCK", 100)
    twin = clone(tree).set_params(n_jobs=2).fit(many[0][:900], many[1][:900])
    for got, want in zip(twin.predict_topk(X, 4), expected, strict=True):
        np.testing.assert_array_equal(got, want)
    with ThreadPoolExecutor(4) as pool:
        replies = list(pool.map(lambda _: tree.predict_topk(X, 4), range(16)))
    for labels, scores in replies:
        np.testing.assert_array_equal(labels, expected[0])
        np.testing.assert_array_equal(scores, expected[1])


@pytest.mark.parametrize(
    "options", [{}, {"beam": 1}, {"arity": 5}, {"start": 3.0}, {"loss": "logistic", "learner": "sgd"}], ids=str
)
def test_two_threads_learn_the_same_bytes(many, options, monkeypatch):
    """The tree runs ahead of the predictors; it must not run ahead of what they will be given room for."""
    X, y = many
    monkeypatch.setattr(recall_tree_learning, "_AHEAD", 16)  # many turns of both threads
    one, two = (RecallTreeClassifier(random_state=0, n_jobs=n, **options) for n in (1, 2))
    for first in range(0, 1200, 300):
        one.partial_fit(X[first : first + 300], y[first : first + 300])
        two.partial_fit(X[first : first + 300], y[first : first + 300])
    for name, array in flatten(one._state).items():
        np.testing.assert_array_equal(array, flatten(two._state)[name], err_msg=name)
    assert one.progressive_error_ == two.progressive_error_


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_interruption_leaves_no_row_learned_by_half(many, n_jobs, monkeypatch):
    """Ctrl-C is noticed when a kernel comes back: the rows that the tree has learned go to the predictors as well."""
    X, y = many
    monkeypatch.setattr(recall_tree_learning, "_AHEAD", 64)
    learned, calls = recall_tree_learning.kernel.recall_batch, []

    def interrupted(*args):
        calls.append(learned(*args))
        if len(calls) == 5:
            raise KeyboardInterrupt

    model = RecallTreeClassifier(random_state=0, n_jobs=n_jobs).partial_fit(X[:100], y[:100], classes=np.unique(y))
    monkeypatch.setattr(recall_tree_learning.kernel, "recall_batch", interrupted)
    before = model._state["seen"].n_rows[0]
    with pytest.raises(KeyboardInterrupt):
        model.partial_fit(X, y)
    n_learned = int(model._state["seen"].n_rows[0] - before)
    assert 0 < n_learned < len(y)
    assert model._state["seen"].mass[0] == before + n_learned
    monkeypatch.undo()
    twin = RecallTreeClassifier(random_state=0).partial_fit(X[:100], y[:100], classes=np.unique(y))
    twin.partial_fit(X[:n_learned], y[:n_learned])
    np.testing.assert_array_equal(model._state["scorer"].weight, twin._state["scorer"].weight)


def test_a_few_wide_rows_are_learned_as_many(monkeypatch):
    """Row by row, so that the sizes of all features are not copied for them; the bytes are the same."""
    rng = np.random.default_rng(0)
    X = sp.csr_matrix(sp.random(60, 70_000, density=2e-4, random_state=0), dtype=np.float32)
    y = rng.integers(0, 9, 60)
    apart, together = (RecallTreeClassifier(random_state=0, table_bits=16) for _ in range(2))
    monkeypatch.setattr(recall_tree_learning, "_WIDE", 10**9)
    together.partial_fit(X, y)
    monkeypatch.undo()
    for i in range(60):
        apart.partial_fit(X[[i]], y[[i]])
    for name, array in flatten(together._state).items():
        np.testing.assert_array_equal(array, flatten(apart._state)[name], err_msg=name)


def test_few_rows_at_a_large_tree_are_answered_one_by_one(many):
    """Looking at every node for a few rows would cost more than logarithmic time."""
    X, y = many
    tree = RecallTreeClassifier(random_state=0, n_candidates=2, n_epochs=1).fit(X, y)
    config, state, batch = tree._prediction_options(), tree._state, batches.as_batch(X[:40])
    assert model._goes_by_node(config, state, batch) == (40 >= tree._spec.n_nodes(state) // model.NODES_PER_ROW)
    state["tree"].n_nodes[0] = 10**6
    assert not model._goes_by_node(config, state, batch)


def test_path_features_learn_on_one_thread_whatever_is_asked(many):
    X, y = many
    one, two = (RecallTreeClassifier(random_state=0, n_jobs=n, path_features="stop", n_epochs=1) for n in (1, 2))
    assert flatten(one.fit(X, y)._state).keys() == flatten(two.fit(X, y)._state).keys()
    np.testing.assert_array_equal(one._state["path"].weight, two._state["path"].weight)


@pytest.mark.parametrize("options", [{}, {"beam": 1}, {"beam": 1, "bernstein": None}, {"arity": 4}], ids=str)
@pytest.mark.parametrize("k", [1, 4, 60])
def test_rows_answered_together_are_answered_as_alone(many, options, k, monkeypatch):
    X, y = many
    tree = RecallTreeClassifier(random_state=0, n_candidates=7, n_epochs=3, **options).fit(X, y)
    alone = [tree._answers(X[i : i + 1].astype(np.float32), k) for i in range(200)]
    for gathered in (10**9, 0):
        monkeypatch.setattr(model, "MANY_NODES", gathered)
        assert (model._gather_depth(tree._prediction_options(), tree._state, 200) > 0) == (gathered == 0)
        together = tree._answers(X[:200].astype(np.float32), k)
        np.testing.assert_array_equal(together.labels, np.concatenate([one.labels for one in alone]))
        np.testing.assert_allclose(together.scores, np.concatenate([one.scores for one in alone]), rtol=1e-4, atol=1e-5)
        work = np.concatenate([one.work for one in alone])
        np.testing.assert_array_equal(together.work[:, :2], work[:, :2])
        assert np.all((together.work[:, 2] > work[:, 2]) if gathered == 0 else together.work[:, 2] == work[:, 2])
        assert np.all(together.work[:, 3] >= work[:, 3])  # a label met at two nodes is scored at both


def test_few_rows_of_many_answer_together_too(many):
    """An odd number of candidates, and one to three rows at a node, go other ways through the same kernel."""
    X, y = many
    tree = RecallTreeClassifier(random_state=0, n_candidates=5, n_epochs=2).fit(X, y)
    expected = tree.predict(X)
    for n in (32, 33, 34, 35, 63):
        np.testing.assert_array_equal(tree.predict(X[:n]), expected[:n])


@pytest.mark.parametrize("arity", [3, 8, 32])
def test_wide_nodes_are_less_deep_and_as_good(many, arity):
    X, y = many
    narrow = RecallTreeClassifier(random_state=0, n_candidates=8).fit(X[:900], y[:900])
    wide = RecallTreeClassifier(random_state=0, n_candidates=8, arity=arity).fit(X[:900], y[:900])
    children = wide._state["tree"].children[: wide._spec.n_nodes(wide._state)]
    assert children.shape[1] == arity
    assert wide.diagnose(X, y)["depth"] < narrow.diagnose(X, y)["depth"]
    assert wide.score(X[900:], y[900:]) > narrow.score(X[900:], y[900:]) - 0.05
    assert wide.diagnose(X, y)["routers_scored"] >= arity


def test_a_wide_tree_cannot_begin_as_a_binary_one(many):
    with pytest.raises(ValueError, match="arity"):
        RecallTreeClassifier(init="spectral", arity=4).fit(*many)


def test_clone_forgets_what_was_learned(tree):
    copy = clone(tree.set_params(learner=SGD(rate=0.5)))
    tree.set_params(learner="auto")
    assert copy.learner == SGD(rate=0.5)
    assert not hasattr(copy, "classes_")
    assert not hasattr(copy, "n_bytes_")


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("n_classes", [5, 8, 16, 32])
def test_easy_classes_are_all_found_whatever_their_number(seed, n_classes):
    """Training must count as deep as answers go, also when the depth limit falls as candidate lists widen."""
    X, y = make_blobs(50 * n_classes, centers=n_classes, n_features=8, random_state=seed)
    tree = RecallTreeClassifier(random_state=0).fit(X, y)
    assert tree.diagnose(X, y)["recall"] > 0.97
    nodes = int(tree._state["tree"].n_nodes[0])
    children = tree._state["tree"].children[:nodes]
    for node in np.flatnonzero(children.max(axis=1) >= 0):
        below = sum(tree._state["counts"].total[child] for child in children[node] if child >= 0)
        assert below > 0.9 * tree._state["counts"].total[node] - 50  # some came before there were children


# -- start at the class mean -----------------------------------------------------------------------------------


def test_without_a_start_nothing_is_kept_of_the_means(tree):
    assert all(array.size == 1 for array in tree._state["means"])
    assert not any(array.any() for array in tree._state["means"])


@pytest.mark.parametrize("options", [{}, {"learner": "sgd", "beam": 2}, {"path_features": "bias", "beam": 1}], ids=str)
def test_a_vanishing_start_changes_no_byte_of_the_rest(many, options):
    """So no start (group `means` not even passed) and a start (all of its code) learn everything else alike."""
    X, y = many
    options = {"random_state": 0, "n_epochs": 2, **options}
    models = [RecallTreeClassifier(start=start, **options).fit(X, y) for start in (0.0, 1e-300)]
    without, vanishing = (flatten(one._state) for one in models)
    assert set(without) == set(vanishing)
    for name, array in without.items():
        if not name.startswith("means.") and name != "seen.wrong_mass":  # equal scores are no longer quite equal
            assert array.tobytes() == vanishing[name].tobytes(), name
    np.testing.assert_array_equal(models[0].predict_topk(X, 5)[1], models[1].predict_topk(X, 5)[1])
    assert models[0].n_bytes_ < models[1].n_bytes_


def test_the_score_is_weights_and_start_times_cosine(text):
    X, y = text
    clf = RecallTreeClassifier(random_state=0, start=7.0, n_epochs=2).fit(X, y)
    scorer, sums = clf._state["scorer"], clf._state["means"]
    labels, scores = clf.predict_topk(X[:30], 4)
    dense = X[:30].toarray().astype(float)
    ids = np.searchsorted(clf.classes_, labels)
    totals = np.array([2 * X[y == label].sum(axis=0) for label in clf.classes_])  # two epochs, each row once in each
    np.testing.assert_allclose(sums.total[: len(totals)], totals, atol=1e-3)
    np.testing.assert_allclose(sums.sq_norm[: len(totals)], (totals**2).sum(axis=1), rtol=1e-4)
    for x, some, given in zip(dense, ids, scores, strict=True):
        cosine = totals[some] @ x / np.linalg.norm(totals[some], axis=1) / np.linalg.norm(x)
        expected = scorer.weight[some] @ x + scorer.bias[some] + 7.0 * cosine
        scored = np.isfinite(given)
        np.testing.assert_allclose(given[scored], expected[scored], atol=1e-3)


def test_a_start_helps_the_first_pass_over_text(text):
    X, y = text
    errors = [RecallTreeClassifier(random_state=0, start=s).partial_fit(X, y).progressive_error_ for s in (0.0, 10.0)]
    assert errors[1] < errors[0]


@pytest.mark.parametrize("unit", [1e-20, 1e15])
def test_a_start_knows_no_unit(many, unit):
    X, y = many
    models = [RecallTreeClassifier(random_state=0, start=5.0, n_epochs=2).fit(u * X, y) for u in (1.0, unit)]
    answers_of = [one.predict(u * X) for one, u in zip(models, (1.0, unit), strict=True)]
    assert np.mean(answers_of[0] == answers_of[1]) > 0.97
    assert all(np.isfinite(array).all() for array in flatten(models[1]._state).values())


@pytest.mark.parametrize("options", [{}, {"beam": 1}, {"table_bits": 9}])
def test_a_tree_may_begin_as_a_spectral_tree(many, options):
    X, y = many
    plain = RecallTreeClassifier(random_state=0, n_epochs=2, n_candidates=6, **options).fit(X, y)
    begun = RecallTreeClassifier(random_state=0, n_epochs=2, n_candidates=6, init="spectral", **options).fit(X, y)
    assert begun.diagnose(X, y)["accuracy"] > plain.diagnose(X, y)["accuracy"] - 0.1
    first = RecallTreeClassifier(random_state=0, init="spectral", max_depth=5, **options).partial_fit(X[:300], y[:300])
    nothing = RecallTreeClassifier(random_state=0, max_depth=5, **options).partial_fit(X[:300], y[:300])
    levels = [0, 1, 1, 2, 2, 2, 2]  # a spectral tree is numbered level by level, others as rows first come by
    assert [row["depth"] for row in first.tree_table()[:7]] == levels
    assert [row["depth"] for row in nothing.tree_table()[:7]] != levels
    before = len(first.classes_)
    first.partial_fit(X, y)
    assert len(first.classes_) > before  # goes on as ever


def test_a_spectral_beginning_sends_rows_where_the_spectral_tree_does(digits):
    X, y = digits
    X = (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32)
    clf = RecallTreeClassifier(random_state=0, n_candidates=4, max_depth=2, bernstein=None, beam=1)
    clf.partial_fit(X[:1], y[:1], classes=np.arange(10))
    state = clf._model.init(clf._options, 64, 10)
    begin_as_spectral_tree(clf._options, state, batches.as_batch(X), y.astype(np.int32), np.ones(len(y)), 1)
    clf._state = state
    growth = Growth(2, 4, 0, 0.999, 1.0, 0.02, clf._options.seed)
    labels = as_labels(y)
    grown = grow_filter(batches.as_batch(X), labels, np.ones(len(y)), (64, 10), growth, 1, lambda share: None)
    root = slice(grown.routers.first[0], grown.routers.first[1])
    goes_right = X[:, grown.routers.feature[root]] @ grown.routers.weight[root] > grown.routers.bias[0]
    passed = clf.decision_path(X).toarray()
    right = grown.tree.children[0, 1]
    assert (passed[:, right] == goes_right).mean() > 0.999
