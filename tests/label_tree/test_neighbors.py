"""Nearest training rows, by which dense rows are ranked again."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.neighbors import NearestNeighbors

from manyclass import LabelTreeClassifier, load_model
from manyclass.core import model_file
from manyclass.core.model_file import ModelFormatError
from manyclass.core.state import cut
from manyclass.label_tree import fit
from manyclass.label_tree import neighbors as neighbors_module
from manyclass.label_tree.neighbors import (
    BEST,
    Ranking,
    best_ranking,
    check_neighbors,
    mapped,
    maps,
    most_rows,
    nearest,
    no_neighbors,
    rank_again,
    rows_to_keep,
    with_rows,
)
from manyclass.label_tree.parts import take_rows
from tests.core.test_streams import bytes_of


@pytest.fixture(scope="module")
def shapes():
    """Sixty labels, each with rows at three random places: no line separates them."""
    rng = np.random.default_rng(0)
    places, y = rng.standard_normal((60, 3, 6)), np.tile(np.arange(60), 50)
    X = places[y, rng.integers(0, 3, len(y))] + 0.15 * rng.standard_normal((len(y), 6))
    return X[:2400].astype(np.float32), y[:2400], X[2400:].astype(np.float32), y[2400:]


@pytest.fixture(scope="module")
def model(shapes):
    return LabelTreeClassifier(random_state=0).fit(*shapes[:2])


def test_labels_of_several_shapes_are_found(shapes, model):
    X, y, X_test, y_test = shapes
    linear = LabelTreeClassifier(random_state=0, neighbors=False).fit(X, y)
    assert "neighbors" not in linear._state
    assert linear.score(X_test, y_test) < 0.7
    assert model.score(X_test, y_test) > 0.85
    assert model.diagnose(X_test, y_test)["candidates_scored"] > BEST


def test_no_rows_are_kept_where_they_do_not_help():
    rng = np.random.default_rng(0)
    y = np.tile(np.arange(40), 50)
    X = rng.standard_normal((40, 30))[y] + 2.0 * rng.standard_normal((2000, 30))  # linear, and noisy
    assert "neighbors" not in LabelTreeClassifier(random_state=0).fit(X, y)._state


def test_distances_are_those_of_nearest_neighbours(shapes):
    X, y, X_test, _ = shapes
    order = np.argsort(y, kind="stable")
    found = nearest(X_test[:9], X[order], y[order], 61)
    for label in range(60):
        expected = NearestNeighbors(n_neighbors=1).fit(X[y == label]).kneighbors(X_test[:9])[0][:, 0] ** 2
        np.testing.assert_allclose(found[:, label], expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(found[:, 60], found[:, :60].min(axis=1))


@pytest.mark.parametrize("offset", [0.0, 2.0])
def test_ranking_again_combines_scores_and_distances(offset):
    row = np.array([[0.0], [1.0], [5.0]], np.float32)
    neighbors = with_rows(no_neighbors(1, Ranking(0.9, 0.5, offset)), row, np.array([0, 0, 1]))  # label 2 has no rows
    labels, scores = np.array([[1, 0, 2, -1]], np.int32), np.array([[0.0, -1.0, -1.5, -np.inf]])
    work = np.zeros((1, 4), np.int64)
    rank_again(neighbors, np.array([[2.0]], np.float32), labels, scores, work)
    distance = np.log(2.0 + np.array([1, 9, 1])) if offset else np.array([1, 9, 1])
    expected = 0.9 * np.array([-1.0, 0.0, -1.5]) - 0.5 * distance
    order = np.argsort(-expected)
    assert labels.tolist() == [[*order, -1]]
    np.testing.assert_allclose(scores[0, :3], expected[order])
    assert work[0, 3] == 3


def test_topk_is_a_prefix_of_the_next(shapes, model):
    X_test = shapes[2]
    labels, scores = model.predict_topk(X_test, 60)
    for k in (1, 5, BEST, BEST + 1, 40):
        fewer_labels, fewer_scores = model.predict_topk(X_test, k)
        np.testing.assert_array_equal(fewer_labels, labels[:, :k])
        np.testing.assert_array_equal(fewer_scores, scores[:, :k])
    reached = np.isfinite(scores)
    assert (np.diff(np.where(reached, scores, -1e9), axis=1) <= 0).all()
    np.testing.assert_array_equal(model.classes_[model.predict_proba(X_test).argmax(axis=1)], labels[:, 0])


def test_files_threads_and_new_labels(shapes, model, tmp_path):
    X, y, X_test, _ = shapes
    for slim in (False, True):
        model.save(tmp_path / "model", slim=slim)
        np.testing.assert_array_equal(load_model(tmp_path / "model").predict(X_test), model.predict(X_test))
    model.save(tmp_path / "one")
    LabelTreeClassifier(random_state=0, n_jobs=2).fit(X, y).set_params(n_jobs=1).save(tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    more = load_model(tmp_path / "one").partial_fit(np.full((30, 6), 9.0), np.full(30, 99))
    assert (more.predict(np.full((2, 6), 9.0)) == 99).all()
    assert (more.predict(X_test) == model.predict(X_test)).mean() > 0.8  # far rows move the routers
    more.partial_fit(np.full((2 * most_rows(6), 6), 9.0), np.full(2 * most_rows(6), 99))
    assert more._state["neighbors"].size[60] == most_rows(6)
    more.save(tmp_path / "more")
    np.testing.assert_array_equal(load_model(tmp_path / "more").predict(X_test), more.predict(X_test))


def test_files_without_factor_offset_and_map(shapes, tmp_path):
    """Version 0.1.0 has written the slope only: score - slope x squared distance."""
    X, y, X_test, _ = shapes
    old = LabelTreeClassifier(random_state=0).fit(X, y)
    neighbors = old._state["neighbors"]
    neighbors.factor[0], neighbors.slope[0], neighbors.offset[0] = 1.0, 3.0, 0.0
    old.save(tmp_path / "new")
    arrays, metadata = model_file.read(tmp_path / "new", False, True)
    for name in ("factor", "offset", "map"):
        del arrays[f"neighbors.{name}"]
    model_file.write(tmp_path / "old", arrays, metadata)
    for one, same in zip(load_model(tmp_path / "old").predict_topk(X_test), old.predict_topk(X_test), strict=True):
        np.testing.assert_array_equal(one, same)


@pytest.fixture(scope="module")
def stretched(shapes):
    """The same, beside nine columns of noise that are nearly the same; all columns are mixed."""
    rng = np.random.default_rng(1)
    X, y, X_test, y_test = shapes
    mix = np.linalg.qr(rng.standard_normal((15, 15)))[0]

    def wide(X):
        noise = 3.0 * rng.standard_normal((len(X), 1)) + 0.1 * rng.standard_normal((len(X), 9))
        return (np.hstack([X, noise]) @ mix).astype(np.float32)

    return wide(X), y, wide(X_test), y_test


def test_directions_in_which_rows_of_a_label_differ_count_less(stretched, monkeypatch, tmp_path):
    X, y, X_test, y_test = stretched
    model = LabelTreeClassifier(random_state=0).fit(X, y)
    assert model._state["neighbors"].map.shape == (15, 15)
    model.save(tmp_path / "one")
    loaded = load_model(tmp_path / "one")
    for one, same in zip(loaded.predict_topk(X_test), model.predict_topk(X_test), strict=True):
        np.testing.assert_array_equal(one, same)
    LabelTreeClassifier(random_state=0, n_jobs=2).fit(X, y).set_params(n_jobs=1).save(tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    assert model.explain(X_test[0]).score == pytest.approx(model.predict_topk(X_test[:1], 1)[1][0, 0], rel=1e-6)
    whole, cut_up = load_model(tmp_path / "one"), load_model(tmp_path / "one")
    whole.partial_fit(X_test, y_test)
    for begin, end in ((0, 7), (7, 8), (8, len(y_test))):
        cut_up.partial_fit(X_test[begin:end], y_test[begin:end])
    for name, one in (("whole", whole), ("cut", cut_up)):
        one.save(tmp_path / name)
    assert (tmp_path / "whole").read_bytes() == (tmp_path / "cut").read_bytes()
    monkeypatch.setattr(fit, "maps", lambda values, labels: [None])
    plain = LabelTreeClassifier(random_state=0).fit(X, y)
    assert model.score(X_test, y_test) > plain.score(X_test, y_test) + 0.05


def test_maps_make_the_rows_of_a_label_alike_in_all_directions(monkeypatch):
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(4), 500)
    values = rng.standard_normal((2000, 3)) @ np.diag([1.0, 5.0, 0.2]) @ rng.standard_normal((3, 3))
    values = (values + 9.0 * labels[:, None]) * [1.0, 1.0, 1e-3]
    shapes, spread = [], []
    for linear in list(maps(values.astype(np.float32), labels))[1:]:
        shapes.append(linear.shape)
        rows = mapped(linear, values.astype(np.float32))
        expected = values @ np.tril(linear).T if len(linear) == 3 else values * linear
        np.testing.assert_allclose(rows, expected, rtol=1e-3, atol=1e-3)
        rest = rows - np.array([rows[labels == label].mean(axis=0) for label in range(4)])[labels]
        spread.append(np.linalg.cond(rest.T @ rest))
    assert shapes == [(3, 3), (3, 3), (1, 3), (3, 3), (3, 3)]
    assert spread[4] < spread[3] < spread[2]  # of scaled columns, the less the identity counts, the more alike
    monkeypatch.setattr(neighbors_module, "_WIDEST", 2)
    assert [None if one is None else one.shape for one in maps(values, labels)] == [None, (1, 3)]
    assert list(maps(np.ones((4, 2), np.float32), np.arange(4))) == [None]  # nothing differs


def test_mapped_values_stay_finite():
    neighbors = no_neighbors(2, Ranking(1.0, 1.0, 1.0, np.full((2, 2), 1e20, np.float32)))
    rows = mapped(neighbors.map, np.array([[1e30, -1e30], [-1e30, 1e30]], np.float32))
    assert np.isfinite(rows).all() and (rows[0] != rows[1]).any()


def test_a_map_is_used_if_it_is_clearly_better():
    rng = np.random.default_rng(0)
    true, noise = rng.integers(0, 5, 400), rng.random((400, 5))
    good, better = 1.0 + rng.random((2, 400, 5))
    good[np.arange(400), true] *= 0.8
    better[np.arange(400), true] *= 0.6
    one, two = np.ones((1, 2), np.float32), np.ones((2, 2), np.float32)
    assert best_ranking(noise, [(None, good), (one, better), (two, better)], true).map is one
    assert best_ranking(noise, [(None, better), (one, good)], true).map is None


def test_distances_take_little_memory(monkeypatch):
    rng = np.random.default_rng(0)
    rows, others, group = rng.random((50, 3)), rng.random((40, 3)), np.repeat(np.arange(4), 10)
    whole = nearest(rows, others, group, 5)
    monkeypatch.setattr(neighbors_module, "_AT_A_TIME", 100)  # two rows at a time
    np.testing.assert_allclose(nearest(rows, others, group, 5), whole, rtol=1e-12)


def test_rows_far_away_keep_the_factor():
    neighbors = with_rows(no_neighbors(1, Ranking(0.5, 1.0, 1.0)), np.array([[1.0]], np.float32), np.array([0]))
    labels, scores, work = np.array([[0]], np.int32), np.array([[-2.0]]), np.zeros((1, 4), np.int64)
    rank_again(neighbors, np.array([[1e30]], np.float32), labels, scores, work)  # the distance is infinite
    assert scores.tolist() == [[-1.0]]


def test_a_sample_of_the_rows_of_each_label_is_kept():
    label = np.repeat(np.arange(3), [400, 5, 200])
    weights = np.ones(605)
    weights[:10] = 0
    kept = rows_to_keep(label, weights, 300, 3, 0)
    assert np.bincount(label[kept]).tolist() == [128, 5, 128]
    assert np.bincount(label[rows_to_keep(label, weights, 100, 3, 0)]).tolist() == [327, 5, 200]  # 2^15 values
    assert (np.diff(label[kept]) >= 0).all()
    assert (weights[kept] > 0).all()
    assert not len(rows_to_keep(np.arange(100), np.ones(100), 8, 100, 0))  # one row per label
    assert not len(rows_to_keep(label, weights, 1 << 26, 3, 0))  # they would need too much memory


def test_distances_are_not_used_unless_they_help():
    rng = np.random.default_rng(0)
    true = rng.integers(0, 5, 400)
    noise = rng.random((400, 5))
    informative = noise + 1.0
    informative[np.arange(400), true] *= 0.1
    found = best_ranking(noise, [(None, informative)], true)
    assert found.slope > 0 and found.factor > 0 and found.offset > 0
    for useless in (rng.random((400, 5)), np.zeros((400, 5))):
        assert best_ranking(noise, [(None, useless)], true) is None
    assert best_ranking(noise[:0], [(None, noise[:0])], true[:0]) is None


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("row", np.zeros((4, 5), np.float32)),
        ("before", np.array([-1, 1, -1, -1])),
        ("before", np.array([3, 0, -1, -1])),
        ("before", np.array([-2, 0, -1, -1])),
        ("last", np.array([1, 2, 4])),
        ("last", np.array([-2, 2, 3])),
        ("last", np.array([1, 1, 3])),
        ("size", np.array([-1, 1, 1])),
        ("size", np.array([1, 2, 1])),
        ("n_rows", np.array([5])),
        ("slope", np.array([-1.0])),
        ("factor", np.array([0.0])),
        ("offset", np.array([-1.0])),
        ("slope", np.array([np.inf])),
        ("map", np.zeros((3, 2), np.float32)),
        ("map", np.zeros((1, 3), np.float32)),
    ],
)
def test_wrong_neighbors_in_a_file_are_refused(field, value):
    empty = no_neighbors(2, Ranking(1.0, 1.0, 1.0))
    right = cut(with_rows(empty, np.zeros((4, 2), np.float32), np.array([0, 0, 1, 2])), row=4)
    check_neighbors(right, 2)
    with pytest.raises(ModelFormatError):
        check_neighbors(right._replace(**{field: value}), 2)


def test_sparse_rows_are_predicted_and_learned_as_dense_ones():
    """With more features than are made dense anyway; columns are centred, so a zero is no longer zero."""
    rng = np.random.default_rng(0)
    y = np.arange(80) % 14
    X = rng.normal(5.0, 1.0, (80, 300)).astype(np.float32) * (rng.random((80, 300)) < 0.3)
    model = LabelTreeClassifier(arity=4, n_epochs=1, random_state=0).fit(X, y)
    for kept in (False, True):
        if kept:
            model._state["neighbors"] = with_rows(no_neighbors(300, Ranking(1.0, 0.5, 0.1)), X, y.astype(np.int32))
        dense, sparse = model.predict_topk(X, 3), model.predict_topk(csr_array(X), 3)
        np.testing.assert_array_equal(sparse[0], dense[0])
        np.testing.assert_allclose(sparse[1], dense[1], rtol=1e-5)
        np.testing.assert_array_equal(model.predictor(3)(csr_array(X[:1]))[0], dense[0][0])
        assert model.explain(csr_array(X[:1])).score == pytest.approx(model.explain(X[0]).score)
    n_before = int(model._state["neighbors"].n_rows[0])
    model.partial_fit(csr_array(X[:20]), y[:20])
    assert model._state["neighbors"].n_rows[0] == n_before + 20


def test_rows_are_not_copied_for_the_choice(shapes, model, monkeypatch):
    """With copies, as between machines, the model is the same."""
    monkeypatch.setattr(fit, "_picker", lambda plan: take_rows)
    copied = LabelTreeClassifier(random_state=0).fit(*shapes[:2])
    assert bytes_of(copied) == bytes_of(model) and "neighbors" in model._state


def test_repeated_rows_of_a_sorted_stream_are_kept_once(shapes):
    X, y, X_new, y_new = shapes
    model = LabelTreeClassifier(random_state=0).fit(X, y)
    order = np.argsort(y_new, kind="stable")
    before = int(model._state["neighbors"].n_rows[0])
    model.partial_fit(X_new[order], y_new[order])
    kept = model._state["neighbors"]
    assert kept.n_rows[0] == before + len(y_new)
    assert len(np.unique(kept.row[: kept.n_rows[0]], axis=0)) == kept.n_rows[0]


def test_values_that_overflow_are_an_error_in_any_number_of_rows():
    X = np.random.default_rng(0).normal(0, [1.0, 1e-3], (400, 2)).astype(np.float32)
    model = LabelTreeClassifier(random_state=0).fit(X, X[:, 0] > 0)
    X[:, 1] = np.finfo(np.float32).min
    for n in (1, 400):
        with pytest.raises(ValueError, match="NaN"):
            model.predict(X[:n])
