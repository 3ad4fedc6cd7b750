"""Labels of every kind: sorted after fit, appended by partial_fit, never moved, never mixed up."""

import numpy as np
import pytest

from manyclass import LabelTreeClassifier
from manyclass.core import prediction
from manyclass.core.classes import ClassIndex, in_order_of_appearance

from .test_streams import bytes_of

LABELS = {
    "text": np.array(["pear", "apple", "fig", "date"]),
    "objects": np.array(["pear", "apple", "fig", "date"], dtype=object),
    "from zero": np.array([0, 3, 1, 2]),
    "negative": np.array([-5, 7, 0, -1]),
    "large": np.array([2**40, 3, -(2**40), 0]),
    "bool": np.array([True, False]),
    "whole floats": np.array([2.0, -1.0, 0.0, 5.0]),
}
each = pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    ids = np.concatenate([np.arange(4), rng.integers(0, 4, 116)])
    X = 4 * np.eye(4)[ids] + 0.3 * rng.standard_normal((120, 4))
    return X, ids


@each
def test_fit_sorts(kind, rows, labels):
    X, ids = rows
    y = labels[ids % len(labels)]
    options = {} if kind is LabelTreeClassifier else {"learner": "sgd"}
    model = kind(random_state=0, n_epochs=2, **options).fit(X, y)
    np.testing.assert_array_equal(model.classes_, np.unique(y))
    assert model.classes_.dtype.kind == labels.dtype.kind
    assert model.predict(X).dtype == model.classes_.dtype
    assert np.isin(model.predict_topk(X, 2)[0], labels).all()
    if len(labels) == 4:
        assert model.score(X, y) > 0.9


@each
def test_partial_fit_appends_and_never_moves(kind, rows, labels):
    X, ids = rows
    y = labels[ids % len(labels)]
    model = kind(random_state=0).partial_fit(X[:1], y[:1])
    assert model.classes_.tolist() == y[:1].tolist()
    for end in (2, 3, 120):
        before = model.classes_.tolist()
        model.partial_fit(X[:end], y[:end])
        assert model.classes_.tolist()[: len(before)] == before
    assert model.classes_.tolist() == labels.tolist()  # as they came
    model.partial_fit(X, y)
    assert model.classes_.tolist() == labels.tolist()
    assert np.isin(model.predict(X), labels).all()
    if len(labels) == 4:
        assert model.score(X, y) > 0.9


def test_classes_given_beforehand_come_first(kind, rows):
    X, y = rows
    model = kind(random_state=0).partial_fit(X, y, classes=[9, 2, 1, 0, 3])
    assert model.classes_.tolist() == [0, 1, 2, 3, 9]
    model.partial_fit(X, y + 2, classes=[11, 0])
    assert model.classes_.tolist() == [0, 1, 2, 3, 9, 11, 4, 5]
    assert model.predict_topk(X, 8)[0].shape == (120, 8)


def test_labels_outside_the_announced_classes_are_an_error(kind, rows):
    X, y = rows
    model = kind(random_state=0)
    with pytest.raises(ValueError, match="not in classes"):
        model.partial_fit(X, y, classes=[0, 1])
    assert not hasattr(model, "classes_")
    model.partial_fit(X, y)
    assert model.classes_.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(("first", "then"), [("text", "from zero"), ("from zero", "text"), ("objects", "negative")])
def test_text_and_numbers_do_not_mix(kind, rows, first, then):
    X, ids = rows
    model = kind(random_state=0).partial_fit(X, LABELS[first][ids])
    before = bytes_of(model)
    with pytest.raises(ValueError, match="convert them"):
        model.partial_fit(X, LABELS[then][ids])
    with pytest.raises(ValueError, match="convert them"):
        model.diagnose(X, LABELS[then][ids])
    assert bytes_of(model) == before


def test_text_classes_after_numbers_are_an_error(kind, rows):
    X, y = rows
    model = kind(random_state=0).partial_fit(X, y)
    before = bytes_of(model)
    with pytest.raises(ValueError, match="convert"):
        model.partial_fit(X, y, classes=["a", "b"])
    assert bytes_of(model) == before


def test_text_and_objects_are_the_same_labels(kind, rows):
    X, ids = rows
    model = kind(random_state=0).partial_fit(X, LABELS["text"][ids])
    model.partial_fit(X, LABELS["objects"][ids])
    assert model.classes_.tolist() == LABELS["text"].tolist()


def test_a_longer_text_is_not_cut(kind, rows):
    X, ids = rows
    model = kind(random_state=0).partial_fit(X, np.array(["a", "b", "c", "d"])[ids])
    long = "a very long label indeed"
    model.partial_fit(X[:5] + 50, [long] * 5)
    assert model.classes_.tolist() == ["a", "b", "c", "d", long]


def test_index_looks_up_both_ways():
    index = ClassIndex(np.array([5, 3]))
    index.add(np.array([3, 8, 5, 1]))
    assert index.array.tolist() == [5, 3, 8, 1]
    assert index.encode(np.array([1, 1, 5, 8])).tolist() == [3, 3, 0, 2]
    assert index.missing(np.array([1, 99])) == [99]
    assert len(index) == 4


def test_order_of_appearance():
    assert in_order_of_appearance(np.array([3, 1, 3, 2, 1])).tolist() == [3, 1, 2]


def test_whole_floats_after_ints_are_the_same_labels(kind, rows):
    X, y = rows
    model = kind(random_state=0).partial_fit(X, y)
    known = model.classes_.tolist()
    model.partial_fit(X, y.astype(float))
    assert model.classes_.tolist() == known
    assert model.classes_.dtype.kind == "i"


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_a_missing_label_is_named(kind, rows, missing):
    X, y = rows
    labels = np.array([f"label {i}" for i in y], dtype=object)
    labels[3] = missing
    with pytest.raises(ValueError, match="row 3 has no label"):
        kind().fit(X, labels)


def test_class_weight_for_a_label_that_is_not_there_is_an_error(kind, rows):
    X, y = rows
    with pytest.raises(ValueError, match="not in y"):
        kind(class_weight={"0": 2.0}).fit(X, y)


def test_topk_without_k_gives_five_or_all(kind, rows):
    X, y = rows
    model = kind(random_state=0).fit(X, y)
    assert model.predict_topk(X)[0].shape[1] == min(5, len(model.classes_))


def test_checking_new_labels_does_not_rebuild_the_array(monkeypatch):
    """It takes time in proportion to all classes, and partial_fit checks the labels of every batch."""
    index = ClassIndex(np.arange(5))
    index.add(np.arange(5, 9))
    monkeypatch.setattr(ClassIndex, "array", property(lambda self: pytest.fail("the array was built")))
    index.check_kind(np.array([3, 12]))
    assert index.as_known(np.array([3.0])).dtype.kind == "i"
    with pytest.raises(ValueError, match="Labels are text"):
        index.check_kind(np.array(["a"]))


def test_all_cores_are_those_that_are_available(monkeypatch):
    monkeypatch.setattr(prediction.joblib, "cpu_count", lambda: 3)
    assert [prediction.n_threads(n_jobs) for n_jobs in (None, 2, -1, -2, -9)] == [1, 2, 3, 2, 1]
