"""The spectral tree as a user sees it: one label per row or several, dense or sparse, options and files."""

import signal

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import make_blobs

from manyclass import SGD, Hellinger, NormalizedAdaGrad, SpectralFilter, SpectralTreeClassifier, load_model
from manyclass.core.model_file import ModelFormatError
from manyclass.core.state import flatten
from manyclass.spectral_tree.kernels import OWN_BIAS
from manyclass.spectral_tree.model import LEAVES
from tests.conftest import make_text


def bytes_of(clf):
    return {name: array.tobytes() for name, array in flatten(clf._state).items()}


@pytest.fixture(scope="module")
def model(digits):
    X, y = digits
    return SpectralTreeClassifier(n_candidates=4, random_state=0).fit(X[:1300], y[:1300])


@pytest.fixture(scope="module")
def tagger(tagged):
    X, Y = tagged
    return SpectralTreeClassifier(n_candidates=20, max_depth=3, random_state=0).fit(X[:800], Y[:800])


FORMS = [
    {"leaf": "shared"},
    {"leaf": "bias"},
    {"leaf": "hashed"},
    {"leaf": "separate"},
    {"leaf": "output", "rank": 20},
    {"leaf": "hashed", "rank": 20},
    {"leaf": "hashed", "table_bits": 12},
]


@pytest.mark.parametrize("options", FORMS)
def test_learns_digits_with_every_kind_of_leaf(digits, options):
    X, y = digits
    clf = SpectralTreeClassifier(n_candidates=4, max_depth=4, random_state=0, **options).fit(X[:1300], y[:1300])
    report = clf.diagnose(X[1300:], y[1300:])
    assert report["recall"] > 0.9
    assert report["accuracy"] > 0.8
    assert report["candidates_scored"] <= 4 and report["routers_scored"] <= 4


def test_dense_and_sparse_rows_are_the_same_rows(digits):
    X, y = digits
    models = [SpectralTreeClassifier(random_state=0, n_epochs=2).fit(rows, y) for rows in (X, sp.csr_array(X))]
    assert bytes_of(models[0]) == bytes_of(models[1])


def test_text_with_one_label_per_row(text):
    X, y = text
    clf = SpectralTreeClassifier(random_state=0).fit(X[:1000], y[:1000])
    report = clf.diagnose(X[1000:], y[1000:])
    assert report["accuracy"] > 0.8
    labels, scores = clf.predict_topk(X[1000:], 3)
    assert (labels[:, 0] == clf.predict(X[1000:])).all() and (np.diff(scores, axis=1) <= 0).all()
    chances = clf.predict_proba(X[1000:1100])
    np.testing.assert_allclose(chances.sum(axis=1), 1, rtol=1e-5)


@pytest.mark.parametrize("options", [{}, {"leaf": "bias"}, {"leaf": "hashed", "learner": "adagrad"}, {"n_trees": 2}])
def test_several_labels_per_row(tagged, options):
    X, Y = tagged
    clf = SpectralTreeClassifier(n_candidates=30, max_depth=2, random_state=0, **options).fit(X[:800], Y[:800])
    report = clf.diagnose(X[800:], Y[800:])
    assert report["accuracy"] > 0.7 and report["recall"] > 0.7
    assert clf.multilabel_ and (clf.classes_ == np.arange(Y.shape[1])).all()


def test_predictions_are_sparse_or_dense_like_y(tagged, tagger):
    X, Y = tagged
    sparse = tagger.predict(X[800:])
    assert sp.issparse(sparse) and sparse.shape == (300, Y.shape[1])
    dense = clone(tagger).fit(X[:800], Y[:800].toarray())
    assert isinstance(dense.predict(X[800:]), np.ndarray)
    np.testing.assert_array_equal(sparse.toarray(), dense.predict(X[800:]))


def test_several_paths_and_trees_find_more_with_the_same_number_of_candidates(digits):
    X, y = digits
    options = {"n_candidates": 2, "max_depth": 5, "leaf": "shared", "random_state": 0}
    clf = SpectralTreeClassifier(**options).fit(X[:900], y[:900])
    one = clf.diagnose(X[900:], y[900:])
    many = clf.set_params(beam=4).diagnose(X[900:], y[900:])
    assert many["recall"] > one["recall"]
    assert many["candidates_scored"] <= 2 and one["routers_scored"] <= 5 < many["routers_scored"]
    trees = SpectralTreeClassifier(n_trees=3, **options).fit(X[:900], y[:900]).diagnose(X[900:], y[900:])
    assert trees["recall"] > one["recall"]
    assert trees["routers_scored"] > 2 * one["routers_scored"]


def test_work_is_counted(model, digits):
    X, y = digits
    report = model.diagnose(X[1300:], y[1300:])
    paths = model.decision_path(X[1300:])
    assert report["nodes_visited"] == pytest.approx(paths.sum(axis=1).mean())
    assert report["routers_scored"] == report["nodes_visited"] - 1 == report["depth"]
    assert report["candidates_scored"] == pytest.approx(model.candidates(X[1300:]).sum(axis=1).mean())
    assert report["work"] == report["routers_scored"] + report["candidates_scored"]


def test_threads_and_repetition_change_no_byte(text, tagged):
    for X, y in (text, tagged):
        first = bytes_of(SpectralTreeClassifier(random_state=3, n_trees=2, n_epochs=2).fit(X, y))
        assert first == bytes_of(SpectralTreeClassifier(random_state=3, n_trees=2, n_epochs=2, n_jobs=3).fit(X, y))
        assert first != bytes_of(SpectralTreeClassifier(random_state=4, n_trees=2, n_epochs=2).fit(X, y))


class OneWay(SpectralTreeClassifier):
    """Every row goes one way while the tree is built: the paper's ablation."""

    def _resolve_options(self, n_features, sparse, seed):
        return super()._resolve_options(n_features, sparse, seed)._replace(spread=0.0)


def test_deterministic_routing_sends_whole_rows(digits):
    X, y = digits
    plain = OneWay(n_candidates=4, randomized=False, random_state=0).fit(X, y)
    assert plain.diagnose(X, y)["recall"] > 0.95
    leaves = [row for row in plain.tree_table() if plain._state["tree"].children[row["node"], 0] < 0]
    assert sum(leaf["mass"] for leaf in leaves) == pytest.approx(len(y))
    assert all(float(leaf["mass"]).is_integer() for leaf in leaves)


def test_held_out_rows_choose_the_depth(digits):
    X, y = digits
    clf = SpectralTreeClassifier(n_candidates=2, n_epochs=1, random_state=0)
    full = clf.fit(X[:400], y[:400])._state["tree"].depth.max()
    chosen = clf.set_params(max_depth="validate").fit(X[:400], y[:400])._state["tree"].depth.max()
    assert 1 < chosen < full


def test_no_partial_fit():
    assert not hasattr(SpectralTreeClassifier(), "partial_fit")


def test_topics_are_the_most_frequent_or_most_distinctive_labels(model):
    leaves = model.topics(n_labels=2)
    assert all(len(topic["labels"]) <= 2 for topic in leaves)
    assert [topic["mass"] for topic in leaves] == sorted((topic["mass"] for topic in leaves), reverse=True)
    table = {row["node"]: row for row in model.tree_table()}
    for topic in model.topics(n_labels=3, depth=2):
        assert table[topic["node"]]["depth"] == 2
        np.testing.assert_array_equal(topic["labels"], table[topic["node"]]["labels"][:3])
    shares = np.array([np.isin(np.arange(10), row["labels"][:1]) for row in model.topics(distinctive=True)])
    assert shares.any(axis=0).sum() >= np.isin(np.arange(10), [t["labels"][0] for t in leaves]).sum()
    with pytest.raises(ValueError, match="n_labels must be"):
        model.topics(n_labels=0)


def test_weights_and_class_weights_count(digits):
    X, y = digits
    wrong = np.where(np.arange(len(y)) % 2, y, (y + 1) % 10)
    trusted = np.where(wrong == y, 1.0, 0.01)
    some = SpectralTreeClassifier(random_state=0, n_epochs=3).fit(X, wrong, sample_weight=trusted)
    assert some.diagnose(X, y)["accuracy"] > 0.85  # half of the labels are wrong, and weigh little
    without = SpectralTreeClassifier(random_state=0, n_epochs=2).fit(X, y, sample_weight=(y != 7).astype(float))
    assert not (without.predict(X) == 7).any()
    heavy = SpectralTreeClassifier(random_state=0, n_epochs=1, class_weight={7: 50.0}).fit(X, wrong)
    usual = SpectralTreeClassifier(random_state=0, n_epochs=1).fit(X, wrong)
    assert (heavy.predict(X) == 7).sum() > (usual.predict(X) == 7).sum()


# -- files ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [*FORMS, {"n_trees": 2}])
@pytest.mark.parametrize("slim", [False, True])
def test_a_loaded_model_predicts_the_same(tmp_path, tagged, options, slim):
    X, Y = tagged
    clf = SpectralTreeClassifier(n_candidates=20, max_depth=2, n_epochs=2, random_state=0, **options).fit(X, Y)
    clf.save(tmp_path / "m", slim=slim)
    loaded = load_model(tmp_path / "m")
    assert loaded.get_params() == clf.get_params()
    for one, other in zip(clf.predict_topk(X[:50], 5), loaded.predict_topk(X[:50], 5), strict=True):
        np.testing.assert_array_equal(one, other)
    assert clf.diagnose(X, Y) == loaded.diagnose(X, Y)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("tree.children", lambda a: a.__setitem__((0, 0), 0), "parent|child"),
        ("tree.parent", lambda a: a.__setitem__(2, 2), "before its parent"),
        ("forest.root", lambda a: a.fill(1), "roots"),
        ("forest.own_row", lambda a: a.fill(10**8), "lacks predictors"),
        ("routers.first", lambda a: a.__setitem__(-1, 10**9), "routers.first"),
        ("routers.first", lambda a: a.__setitem__(slice(1, 3), [2**63 - 1, -2]), "routers.first"),
        ("routers.feature", lambda a: a.__setitem__(0, 64), "routers.feature"),
        ("routers.feature", lambda a: a.__setitem__(1, 0), "sorted"),
        ("routers.spread", lambda a: a.fill(0), "spread"),
        ("candidates.label", lambda a: a.__setitem__((0, 0), 99), "candidates.label"),
        ("candidates.size", lambda a: a.fill(99), "candidates.size"),
    ],
)
def test_a_broken_file_is_refused_before_any_kernel_runs(tmp_path, model, name, change, message):
    from manyclass.core import model_file

    model.save(tmp_path / "m")
    arrays, metadata = model_file.read(tmp_path / "m", False, True)
    arrays = {key: array.copy() for key, array in arrays.items()}
    change(arrays[name])
    model_file.write(tmp_path / "broken", arrays, metadata)
    with pytest.raises(ModelFormatError, match=message):
        load_model(tmp_path / "broken")


def test_a_file_with_a_removed_option_loads(tmp_path, model, digits):
    from manyclass.core import model_file

    model.save(tmp_path / "m")
    arrays, metadata = model_file.read(tmp_path / "m", False, True)
    metadata["options"] |= {"cutoff": 0.02, "start": "auto", "validation_fraction": 0.0}
    model_file.write(tmp_path / "old", arrays, metadata)
    X, _ = digits
    np.testing.assert_array_equal(load_model(tmp_path / "old").predict(X), model.predict(X))
    metadata["options"]["spread"] = 0.5
    model_file.write(tmp_path / "changed", arrays, metadata)
    with pytest.warns(UserWarning, match=r"spread=0\.5"):
        assert "spread" not in load_model(tmp_path / "changed").get_params()


# -- options -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_candidates": 0}, "n_candidates"),
        ({"max_depth": 31}, "max_depth"),
        ({"max_depth": "deep"}, "max_depth"),
        ({"beam": 0}, "beam"),
        ({"leaf": "own"}, "leaf"),
        ({"leaf": "output"}, "set rank"),
        ({"rank": 0}, "rank"),
        ({"learner": "adam"}, "learner"),
        ({"threshold": 2}, "threshold"),
    ],
)
def test_a_bad_option_is_named(blobs, options, message):
    with pytest.raises(ValueError, match=message):
        SpectralTreeClassifier(**options).fit(*blobs)


def test_a_row_of_hardly_any_length_does_no_harm(digits):
    X, y = digits
    X = X.astype(np.float32)
    X[5] = np.float32(1e-41)
    for rows in (X, sp.csr_array(X)):
        clf = SpectralTreeClassifier(random_state=0, n_epochs=2).fit(rows, y)
        assert clf.diagnose(rows, y)["accuracy"] > 0.9 and np.isfinite(clf.predict_topk(rows, 2)[1]).all()


def test_progressive_error_counts_labels_of_the_leaf_only(text):
    X, y = text
    clf = SpectralTreeClassifier(n_candidates=2, max_depth=1, random_state=0).fit(X, y)
    assert clf.progressive_error_ > 0.9  # four of eighty labels can be predicted at all


def test_softmax_is_for_one_label_per_row(tagged):
    with pytest.raises(ValueError, match="softmax"):
        SpectralTreeClassifier(loss="softmax").fit(*tagged)


def test_memory_is_bounded_beforehand(model):
    assert SpectralTreeClassifier(n_candidates=4).estimate_memory(64, 10) >= model.n_bytes_
    assert SpectralTreeClassifier(leaf="shared", learner=SGD()).estimate_memory(1000, 10, sparse=True) > 4 * 10_000


# -- the filter and the Hellinger map ------------------------------------------------------------------------------


def test_the_filter_alone_gives_the_classifiers_candidates(digits, tagged):
    X, y = digits
    options = {"n_candidates": 3, "max_depth": 3, "random_state": 1}
    alone = SpectralFilter(**options).fit(X, y)
    clf = SpectralTreeClassifier(**options, n_epochs=1).fit(X, y)
    np.testing.assert_array_equal(alone.transform(X).toarray(), clf.candidates(X).toarray())
    assert (alone.classes_ == clf.classes_).all()
    X, Y = tagged
    found = SpectralFilter(n_candidates=20, max_depth=2, n_trees=2, random_state=0).fit(X, Y).transform(X)
    assert found.shape == Y.shape and found.sum(axis=1).max() <= 20
    assert found.multiply(Y).sum() / Y.nnz > 0.7


@pytest.mark.parametrize(
    ("y", "options", "message"),
    [
        ([0, 1, 2], {}, "rows but y"),
        (np.zeros((5, 3)), {}, "no label"),
        ([0, 1, 0, 1, 0], {"beam": -1}, "beam"),
        ([0, 1, 0, 1, 0], {"n_head": 0.5}, "n_head"),
    ],
)
def test_a_bad_input_of_the_filter_is_named(y, options, message):
    with pytest.raises(ValueError, match=message):
        SpectralFilter(**options).fit(np.eye(5), y)


def test_hellinger_rows_have_length_one():
    X, _ = make_text(1, 50, 5)
    for rows in (X, X.toarray()):
        out = Hellinger().fit_transform(rows)
        dense = out.toarray() if sp.issparse(out) else out
        np.testing.assert_allclose(np.linalg.norm(dense, axis=1), 1, rtol=1e-5)
        assert sp.issparse(out) == sp.issparse(rows)
    with pytest.raises(ValueError, match="Negative values"):
        Hellinger().fit([[-1.0, 2.0]])


def test_auto_depends_on_the_data(text, digits):
    X, y = text
    options = SpectralTreeClassifier(random_state=0, n_epochs=1).fit(X, y)._options
    assert (options.n_candidates, options.beam, options.max_depth) == (60, 4, 3)
    assert (options.shared, options.own, options.update) == (*LEAVES["shared"], SGD.update)
    options = SpectralTreeClassifier(random_state=0, n_epochs=1, beam=3).fit(*digits)._options
    assert (options.n_candidates, options.beam) == (10, 3)
    assert (options.shared, options.own, options.update) == (*LEAVES["hashed"], NormalizedAdaGrad.update)


def test_by_the_rules_of_the_paper_only_candidates_learn_and_from_zero(text):
    """At one leaf with three candidates, the other classes keep the weights that they started with."""
    X, y = text
    for rules, others_learn in (("default", True), ("paper", False)):
        clf = SpectralTreeClassifier(n_candidates=3, max_depth=0, rules=rules, n_epochs=1, random_state=0).fit(X, y)
        scorer, candidates = clf._state["scorer"], clf._state["candidates"].label[0]
        moved = np.abs(scorer.weight).sum(axis=1) > 0
        assert len(candidates) == 3 and moved[candidates].all()
        assert np.delete(moved, candidates).any() == others_learn
        assert bool(scorer.bias[candidates].any()) == (rules == "paper")
    options = clf._options
    assert (options.beam, options.own, options.start, options.bias_rate) == (1, OWN_BIAS, 0.0, 1.0)


def test_a_level_that_does_not_exist_is_named(model):
    with pytest.raises(ValueError, match="depth of the tree"):
        model.topics(depth=99)


def test_the_filter_follows_another_number_of_paths_at_once(digits):
    X, y = digits
    alone = SpectralFilter(n_candidates=2, max_depth=5, random_state=0).fit(X, y)
    one = alone.transform(X)
    assert (alone.set_params(beam=6).transform(X) != one).nnz > 0
    with pytest.raises(ValueError, match="beam"):
        alone.set_params(beam=0).transform(X)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no timers")
def test_an_interrupt_is_a_keyboard_interrupt():
    """It was a SystemError if it came in the kernel that learns a router, where most of the time is spent."""

    def interrupt(number, frame):
        raise KeyboardInterrupt

    X = np.random.default_rng(0).standard_normal((20_000, 200)).astype(np.float32)
    y = np.arange(20_000) % 500
    model = SpectralTreeClassifier(random_state=0, max_depth=2, n_epochs=1).fit(X[:500], y[:500])  # compiles
    before, interrupted = signal.signal(signal.SIGALRM, interrupt), 0
    try:
        for delay in np.geomspace(0.005, 0.3, 12):
            try:
                signal.setitimer(signal.ITIMER_REAL, delay)
                model.fit(X, y)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                interrupted += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert interrupted > 0


def test_blocks_of_rows_have_space_for_all_leaves():
    X, Y = make_text(0, 300, 20)
    model = SpectralTreeClassifier(n_candidates=3, n_trees=3, beam=40, n_epochs=1, random_state=0)
    model.fit(X, Y.argmax(axis=1))
    assert model._model.width(model._options, model._state) >= 3 * 40


def test_one_large_column_of_few():
    """The quantile of five sizes must not be that of the largest."""
    X, y = make_blobs(1000, 4, centers=40, cluster_std=0.3, random_state=0)
    noise = np.random.default_rng(0).normal(0, 1e6, (1000, 1))
    model = SpectralTreeClassifier(random_state=0).fit(np.hstack([X, noise])[:700], y[:700])
    assert model.score(np.hstack([X, noise])[700:], y[700:]) > 0.5
