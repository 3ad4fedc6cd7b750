"""Training in two halves, growth, files of older versions, and the memory estimate of a Recall Tree."""

import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from manyclass import ModelFormatError, NormalizedAdaGrad, RecallTreeClassifier, load_model
from manyclass.core import model_file
from manyclass.core.inputs import Dense
from manyclass.core.labels import EMPTY, mass_of
from manyclass.core.state import flatten
from manyclass.core.updates import ADAGRAD
from manyclass.recall_tree import kernels, model
from tests.reference.streams import late_labels


@pytest.mark.parametrize(
    "options", [{}, {"beam": 1}, {"arity": 5}, {"loss": "logistic", "learner": "sgd"}], ids=str
)
def test_two_threads_learn_the_same_bytes(many, options, monkeypatch):
    """The tree is ahead of the scorers, but never ahead of their capacity."""
    X, y = many
    monkeypatch.setattr(model, "_AHEAD", 16)  # many turns of both threads
    one, two = (RecallTreeClassifier(random_state=0, n_jobs=n, **options) for n in (1, 2))
    for first in range(0, 1200, 300):
        one.partial_fit(X[first : first + 300], y[first : first + 300])
        two.partial_fit(X[first : first + 300], y[first : first + 300])
    for name, array in flatten(one._state).items():
        np.testing.assert_array_equal(array, flatten(two._state)[name], err_msg=name)
    assert one.progressive_error_ == two.progressive_error_


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_interruption_leaves_no_row_learned_by_half(many, n_jobs, monkeypatch):
    """Ctrl-C is noticed when a kernel returns: the scorers still learn the rows that the tree has learned."""
    X, y = many
    monkeypatch.setattr(model, "_AHEAD", 64)
    learned, calls = kernels.train_tree, []

    def interrupted(*args):
        calls.append(learned(*args))
        if len(calls) == 5:
            raise KeyboardInterrupt

    clf = RecallTreeClassifier(random_state=0, n_jobs=n_jobs).partial_fit(X[:100], y[:100], classes=np.unique(y))
    monkeypatch.setattr(kernels, "train_tree", interrupted)
    before = clf._state["seen"].n_rows[0]
    with pytest.raises(KeyboardInterrupt):
        clf.partial_fit(X, y)
    n_learned = int(clf._state["seen"].n_rows[0] - before)
    assert 0 < n_learned < len(y)
    assert clf._state["seen"].mass[0] == before + n_learned
    monkeypatch.undo()
    twin = RecallTreeClassifier(random_state=0).partial_fit(X[:100], y[:100], classes=np.unique(y))
    twin.partial_fit(X[:n_learned], y[:n_learned])
    np.testing.assert_array_equal(clf._state["scorer"].weight, twin._state["scorer"].weight)


def test_a_few_wide_rows_are_learned_as_many(monkeypatch):
    """Row by row, so that the scales of all features are not copied; the bytes are the same."""
    rng = np.random.default_rng(0)
    X = sp.csr_matrix(sp.random(60, 70_000, density=2e-4, random_state=0), dtype=np.float32)
    y = rng.integers(0, 9, 60)
    apart, together = (RecallTreeClassifier(random_state=0, table_bits=16) for _ in range(2))
    monkeypatch.setattr(model, "_WIDE", 10**9)
    together.partial_fit(X, y)
    monkeypatch.undo()
    for i in range(60):
        apart.partial_fit(X[[i]], y[[i]])
    for name, array in flatten(together._state).items():
        np.testing.assert_array_equal(array, flatten(apart._state)[name], err_msg=name)


def test_path_features_learn_on_one_thread(many):
    X, y = many
    one, two = (RecallTreeClassifier(random_state=0, n_jobs=n, path_features="stop", n_epochs=1) for n in (1, 2))
    assert flatten(one.fit(X, y)._state).keys() == flatten(two.fit(X, y)._state).keys()
    np.testing.assert_array_equal(one._state["path"].weight, two._state["path"].weight)


# -- growth --------------------------------------------------------------------------------------------------------

N_CLASSES, N_FEATURES = 120, 6


def resolve(**changes):
    words = {"bernstein": 1.0, "path_features": "crossed", "beam": 1, "table_bits": 20, **changes}
    return RecallTreeClassifier(learner=NormalizedAdaGrad(), **words)._resolve_options(N_FEATURES, False, 0)


@pytest.fixture(scope="module")
def stream():
    return late_labels(N_CLASSES, N_FEATURES)


@pytest.fixture(scope="module")
def grown(stream):
    X, y, weights = stream
    options = resolve(bernstein=None)
    state = model.init(options, N_FEATURES)
    model.learn(options, state, Dense(X), y, weights)
    return options, state


def test_bounds_follow_the_lists_as_they_widen(stream):
    X, y, weights = stream
    options = resolve(path_features="off")
    state = model.init(options, N_FEATURES)
    model.learn(options, state, Dense(X), y, weights)
    counts, covered = state["counts"], state["candidates"].covered
    for node in range(int(state["tree"].n_nodes[0])):
        expected = kernels.recall_bound(covered[node], counts.total[node], 1.0)
        assert counts.bound[node] == pytest.approx(expected)


def test_everything_grew(grown):
    options, state = grown
    first = model.init(options, N_FEATURES)
    for name in ("tree", "table", "scorer", "candidates", "path"):
        assert state[name][0].size > first[name][0].size, name
    assert state["seen"].n_labels[0] == N_CLASSES
    assert state["candidates"].label.shape[1] == kernels.wanted_candidates(N_CLASSES, options)
    assert 2 * state["table"].n_entries[0] <= len(state["table"].key)


def test_tree_is_a_tree(grown):
    tree = grown[1]["tree"]
    n = int(tree.n_nodes[0])
    inside = tree.children[:n][tree.children[:n] >= 0]
    assert sorted(inside.tolist()) == list(range(1, n))
    for node in range(1, n):
        assert node in tree.children[tree.parent[node]]
        assert tree.depth[node] == tree.depth[tree.parent[node]] + 1
    assert np.all(tree.children[n:] == -1)


def test_masses_add_up(grown, stream):
    """What came by a node is what is in its table, and what came by the root is the stream."""
    _, y, weights = stream
    _, state = grown
    table, counts = state["table"], state["counts"]
    used = table.key != EMPTY
    totals = np.bincount(table.key[used] >> 32, table.mass[used], minlength=len(counts.total))
    np.testing.assert_allclose(totals, counts.total, atol=1e-6)
    np.testing.assert_allclose(counts.total[0], weights.sum())
    for label in (0, 7, N_CLASSES - 1):
        assert mass_of(table, 0, label) == pytest.approx(weights[y == label].sum())


def test_candidates_are_the_heaviest_labels_after_growth(grown):
    _, state = grown
    table, lists = state["table"], state["candidates"]
    used = np.flatnonzero(table.key != EMPTY)
    nodes, labels = table.key[used] >> 32, table.key[used] & 0xFFFFFFFF
    for node in range(int(state["tree"].n_nodes[0])):
        here = nodes == node
        order = np.argsort(-table.mass[used][here])[: lists.label.shape[1]]
        size = lists.size[node]
        assert size == len(order)
        assert set(lists.label[node, :size].tolist()) == set(labels[here][order].tolist())
        assert lists.covered[node] == pytest.approx(table.mass[used][here][order].sum())


@pytest.mark.parametrize("path_features", ["off", "bias", "stop", "crossed"])
def test_one_feature_grows_its_path_weights_too(path_features):
    """A path bank that starts as a single number is still one with squared gradients."""
    rng = np.random.default_rng(0)
    options = resolve(path_features=path_features, beam=2, bernstein=None)
    state = model.init(options, 1)
    y = rng.integers(0, 9, 300).astype(np.int32)
    model.learn(options, state, Dense(y[:, None].astype(np.float32)), y, np.ones(300))
    path = state["path"]
    assert (path.n_rows[0] > 0) == (path_features != "off")
    assert path.n_rows[0] <= len(path.bias)
    assert path.weight.shape == path.grad_sq.shape


@pytest.mark.parametrize("table_bits", [8, 9, 11])
def test_weights_stay_within_the_table(stream, table_bits):
    X, y, weights = stream
    options = resolve(table_bits=table_bits)
    state = model.init(options, N_FEATURES)
    model.learn(options, state, Dense(X), y, weights)
    for name in ("router", "scorer", "path"):
        assert state[name].weight.size <= 2**table_bits
    assert state["path"].mask[0] == 2**table_bits - 1
    assert all(np.all(np.isfinite(array)) for array in flatten(state).values())


# -- files of version 0.1.0 ----------------------------------------------------------------------------------------

OLD_FILE = Path(__file__).parents[1] / "core" / "models" / "format-1-recall-tree.model"


@pytest.fixture
def changed_file(tmp_path):
    """A function that changes the metadata of a file of version 0.1.0 and returns the path of the copy."""

    def change(part, **values):
        arrays, metadata = model_file.read(OLD_FILE, mmap=False)
        metadata[part].update(values)
        model_file.write(tmp_path / "m", arrays, metadata)
        return tmp_path / "m"

    return change


def test_words_and_learners_of_an_old_file_become_numbers():
    clf = load_model(OLD_FILE)
    assert clf.n_candidates == clf.max_depth == "auto"
    assert not hasattr(clf, "start")
    assert "means" not in clf._state
    made = RecallTreeClassifier(n_epochs=2, path_features="bias", random_state=0)
    assert clf._options == made._resolve_options(clf.n_features_in_, False, 0)
    assert clf.get_params() == made.get_params()


def test_a_start_cannot_be_loaded(changed_file):
    with pytest.raises(ModelFormatError, match=r"start=5\.0.*train the model again"):
        load_model(changed_file("config", start=5.0))


def test_removed_options_warn_only_if_they_were_used(changed_file):
    with pytest.warns(UserWarning, match="randomized=True"):
        assert isinstance(load_model(changed_file("options", randomized=True)), RecallTreeClassifier)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_model(OLD_FILE)


def test_routers_of_an_old_file_keep_their_learner(changed_file):
    clf = load_model(changed_file("config", router_learner={"learner": "AdaGrad", "rate": 0.25, "decay": 0.5}))
    found = clf._options
    assert (found.router_update, found.router_rate, found.router_decay) == (ADAGRAD, 0.25, 0.5)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [("loss", "cubic", "loss"), ("path_features", ["off"], "path_features"), ("arity", 1, "arity"),
     ("n_candidates", 0, "n_candidates"), ("max_depth", 61, "max_depth"), ("beam", 2.5, "beam")],
)  # fmt: skip
def test_broken_options_of_an_old_file_are_found(changed_file, name, value, message):
    with pytest.raises(ModelFormatError, match=message):
        load_model(changed_file("config", **{name: value}))


@pytest.mark.parametrize(
    ("name", "value"),
    [("update", 3), ("router_update", -1), ("rate", 0.0), ("router_decay", 1.5), ("loss", 2), ("path_features", 4)],
)
def test_broken_options_are_found(tmp_path, many, name, value):
    clf = RecallTreeClassifier(n_epochs=1, random_state=0).fit(*many)
    clf._options = clf._options._replace(**{name: value})
    with pytest.raises(ValueError, match=f"cannot be saved: .*{name.removeprefix('router_')}"):
        clf.save(tmp_path / "m")


# -- memory --------------------------------------------------------------------------------------------------------


def test_memory_counts_what_a_bank_takes():
    options = resolve(path_features="off")
    sizes = [model.memory(options, 100, n_classes) for n_classes in (10, 100, 1000, 10_000)]
    assert sizes == sorted(sizes)
    assert sizes[0] > 0
    assert model.memory(options, 1000, 100) > model.memory(options, 100, 100)


@pytest.mark.parametrize(("n_classes", "rows_per_class"), [(1000, 5), (1000, 20), (4000, 5)])
@pytest.mark.parametrize("noise", [0.3, 1.0])
def test_memory_estimate_is_within_a_factor_of_two(n_classes, rows_per_class, noise):
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(n_classes), rows_per_class)
    X = rng.standard_normal((n_classes, 50))[y] + noise * rng.standard_normal((len(y), 50))
    clf = RecallTreeClassifier(random_state=0, n_epochs=2).fit(X, y)
    assert 0.5 <= clf.estimate_memory(50, n_classes, n_rows=len(y)) / clf.n_bytes_ <= 2.0
