"""Sorted streams: earlier rows are kept, and repeated while the labels come in blocks."""

import numpy as np
import pytest
import scipy.sparse as sp

from manyclass import RecallTreeClassifier, load_model
from manyclass.core import replay as memory
from manyclass.core.invariants import check_finite
from manyclass.core.model_file import ModelFormatError
from manyclass.core.state import flatten


@pytest.fixture(scope="module")
def split(digits):
    X, y = digits
    order = np.random.default_rng(0).permutation(len(y))
    return X[order[:1300]], y[order[:1300]], X[order[1300:]], y[order[1300:]]


def by_label(X, y):
    order = np.argsort(y, kind="stable")
    return X[order], y[order]


def words(X, width=400):
    """The same rows as wide sparse ones, which other kernels learn."""
    rows = sp.csr_array(X)
    return sp.csr_array((rows.data / 16, rows.indices * 5, rows.indptr), shape=(X.shape[0], width))


def repeated(model) -> int:
    """Rows that were learned again: the state counts them as learned, the memory does not."""
    return int(model._state["seen"].n_rows[0] - model._state["replay"].counter[memory.N_ROWS])


@pytest.mark.parametrize("kind_of_rows", [np.asarray, words])
def test_a_sorted_stream_keeps_most_of_the_accuracy(kind, split, kind_of_rows):
    X, y, X_test, y_test = split
    X, X_test = kind_of_rows(X), kind_of_rows(X_test)
    shuffled = kind(random_state=0).partial_fit(X, y).score(X_test, y_test)
    in_order = kind(random_state=0).partial_fit(*by_label(X, y))
    assert in_order.score(X_test, y_test) > 0.7 * shuffled


def test_labels_in_blocks_of_a_few_are_noticed(split):
    X, y, X_test, y_test = split
    blocks = np.argsort(y // 3, kind="stable")
    with_rows = RecallTreeClassifier(random_state=0).partial_fit(X[blocks], y[blocks])
    without = RecallTreeClassifier(random_state=0, replay=False).partial_fit(X[blocks], y[blocks])
    assert with_rows.score(X_test, y_test) > 0.8
    assert without.score(X_test, y_test) < 0.6


def test_a_shuffled_stream_repeats_nothing(kind, split):
    X, y, X_test, _ = split
    model = kind(random_state=0).partial_fit(X, y)
    without = kind(random_state=0, replay=False).partial_fit(X, y)
    assert "replay" not in without._state
    np.testing.assert_array_equal(model.predict(X_test), without.predict(X_test))
    for name, array in flatten(without._state).items():
        np.testing.assert_array_equal(flatten(model._state)[name], array)


def test_batches_and_a_file_on_the_way_do_not_change_the_model(kind, split, tmp_path):
    X, y = by_label(*split[:2])
    kind(random_state=0).partial_fit(X, y).save(tmp_path / "whole")
    parts = kind(random_state=0)
    for first, last in ((0, 1), (1, 2), (2, 300), (300, 307), (307, 1300)):
        parts.partial_fit(X[first:last], y[first:last])
        parts.save(tmp_path / "part")
        parts = load_model(tmp_path / "part")
    assert (tmp_path / "part").read_bytes() == (tmp_path / "whole").read_bytes()


def test_the_progressive_error_counts_new_rows_only(split):
    X, y = by_label(*split[:2])
    model = RecallTreeClassifier(random_state=0).partial_fit(X, y)
    assert repeated(model) > len(y)
    assert model._state["seen"].mass[0] == len(y)


def test_the_memory_is_bounded_and_shared_by_all_labels():
    rng = np.random.default_rng(0)
    y = np.sort(np.concatenate([np.zeros(2600, int), rng.integers(1, 5, 400)]))
    X = rng.standard_normal((3000, 500)).astype(np.float32)
    model = RecallTreeClassifier(random_state=0, max_depth=2).partial_fit(X, y)
    replay = model._state["replay"]
    n_slots, n_kept = replay.counter[memory.N_SLOTS], replay.counter[memory.N_KEPT]
    assert n_kept == replay.length[:n_slots].sum() == 500 * n_slots
    assert n_kept + 4 * n_slots <= 1 << 20
    assert n_kept > 0.99 * (1 << 20) - 1000
    assert len(replay.value) <= 5 << 20
    kept = np.bincount(replay.label[:n_slots])
    np.testing.assert_array_equal(kept, replay.kept[: len(kept)])
    assert (kept[1:] > 0.8 * np.bincount(y)[1:]).all()


def test_kept_rows_are_those_of_the_stream():
    rng = np.random.default_rng(0)
    X, y = sp.random_array((500, 300), density=0.05, rng=rng, format="csr"), rng.integers(0, 7, 500)
    weights = rng.random(500)
    model = RecallTreeClassifier(random_state=0).partial_fit(X, y, sample_weight=weights)
    replay = model._state["replay"]
    rows = memory.rows_of_slots(replay, np.arange(500), 300)
    np.testing.assert_array_equal(rows.toarray(), X.astype(np.float32).toarray())
    np.testing.assert_array_equal(model.classes_[replay.label[:500]], y)
    np.testing.assert_array_equal(replay.weight[:500], weights)


def test_rows_without_features_and_fit_forget_nothing_and_keep_nothing(split):
    X, y = split[:2]
    model = RecallTreeClassifier(random_state=0)
    model.partial_fit(np.zeros_like(X), y)
    assert model._state["replay"].counter[memory.N_SLOTS] == len(y)
    assert "replay" not in model.fit(X, y)._state
    model.partial_fit(X, y)
    assert "replay" not in model.set_params(replay=False).partial_fit(X[:1], y[:1])._state


def test_a_slim_file_has_no_rows(split, tmp_path):
    model = RecallTreeClassifier(random_state=0).partial_fit(*split[:2])
    model.save(tmp_path / "slim", slim=True)
    assert "replay" not in load_model(tmp_path / "slim")._state


WRONG = {
    "label": ("label", 3, 10),
    "label below 0": ("label", 3, -1),
    "begin": ("begin", 3, 1 << 40),
    "length": ("length", 3, 1 << 40),
    "length below 0": ("length", 3, -5),
    "feature": ("feature", 3, 64),
    "feature below 0": ("feature", 3, -1),
    "recent": ("recent", 3, 10),
    "seen": ("seen", 3, -1),
    "more seen than rows": ("seen", 3, 1 << 50),
    "kept": ("kept", 3, 10_000),
    "slots": ("counter", memory.N_SLOTS, 1 << 40),
    "no slots": ("counter", memory.N_SLOTS, 0),
    "entries": ("counter", memory.N_ENTRIES, 1 << 40),
    "kept values": ("counter", memory.N_KEPT, 0),
    "labels": ("counter", memory.N_LABELS, 3),
    "rows": ("counter", memory.N_ROWS, -1),
    "weight": ("weight", 3, -1.0),
    "share": ("share", 0, np.nan),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_memory_in_a_file_is_refused(split, wrong):
    field, at, number = WRONG[wrong]
    model = RecallTreeClassifier(random_state=0).partial_fit(split[0][:200], split[1][:200])
    replay = memory.packed(model._state["replay"], 10)
    memory.check_replay(replay, 64, 10)
    array = getattr(replay, field).copy()
    array[at] = number
    with pytest.raises(ModelFormatError):
        broken = replay._replace(**{field: array})
        memory.check_replay(broken, 64, 10)
        check_finite({"replay": broken})
