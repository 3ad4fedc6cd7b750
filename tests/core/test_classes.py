"""Labels of every kind: sorted after fit, appended by partial_fit, never moved, never mixed up."""

import pickle

import numpy as np
import pytest

from manyclass import LabelTreeClassifier, load_model
from manyclass.core import classes, prediction
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
def test_fit_sorts(input_kind, rows, labels):
    X, ids = rows
    y = labels[ids % len(labels)]
    options = {} if input_kind is LabelTreeClassifier else {"learner": "sgd"}
    model = input_kind(random_state=0, n_epochs=2, **options).fit(X, y)
    np.testing.assert_array_equal(model.classes_, np.unique(y))
    assert model.classes_.dtype.kind == labels.dtype.kind
    assert model.predict(X).dtype == model.classes_.dtype
    assert np.isin(model.predict_topk(X, 2)[0], labels).all()
    if len(labels) == 4:
        assert model.score(X, y) > 0.9


@each
def test_partial_fit_appends_and_never_moves(input_kind, rows, labels):
    X, ids = rows
    y = labels[ids % len(labels)]
    model = input_kind(random_state=0).partial_fit(X[:1], y[:1])
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
def test_text_and_numbers_do_not_mix(input_kind, rows, first, then):
    X, ids = rows
    model = input_kind(random_state=0).partial_fit(X, LABELS[first][ids])
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


def test_integers_of_other_types_stay_integers(kind, rows):
    """Such as hashes; numpy makes floats of int64 and uint64 together."""
    X, labels = rows[0], np.array([2**60 + 1, 2**60 + 3], np.uint64)
    model = kind(random_state=0).partial_fit(X[:2], labels, classes=labels.astype(np.int64))
    model.partial_fit(X[:1], labels[:1], classes=np.array([2**60 + 5]))
    assert model.classes_.tolist() == [2**60 + 1, 2**60 + 3, 2**60 + 5] and model.classes_.dtype.kind in "iu"


@pytest.mark.parametrize("start", [5, 2**63 + 7])
def test_integers_beyond_int64_stay_integers(kind, rows, start, tmp_path):
    """numpy makes floats of a list of such numbers and smaller ones."""
    X, new = rows[0][:4], [start, 2**63 + 1, 2**63 + 3, 2**63 + 5]
    for y in (np.array(new, np.uint64), new):
        model = kind(random_state=0).fit(X, y)
        assert model.classes_.dtype == np.uint64 and model.classes_.tolist() == sorted(new)
        model = kind(random_state=0).partial_fit(X[:1], y[:1]).partial_fit(X, y)
        assert model.classes_.dtype == np.uint64 and model.classes_.tolist() == new
        assert set(model.predict(X).tolist()) <= set(new)
        model.rename_classes({new[1]: 4}).save(tmp_path / "m")
        assert load_model(tmp_path / "m").classes_.tolist() == [start, 4, *new[2:]]


def test_new_integers_are_added_to_an_array_of_larger_ones():
    index = ClassIndex(np.array([2**63, 1], np.uint64))
    assert index.array.dtype == np.uint64
    index.add(np.array([7]))
    buffer = index.array.base
    assert buffer is not None
    index.add(np.array([8]))
    assert index.array.base is buffer and index.array.tolist() == [2**63, 1, 7, 8]
    index.add(np.array([-1]))
    assert index.array.dtype == object and index.array.tolist() == [2**63, 1, 7, 8, -1]


@pytest.mark.parametrize("dtype", ["Int64", "UInt64", "Int32"])
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_integers_of_pandas_stay_integers(kind, rows, dtype, method):
    """scikit-learn makes floats of them, which are the same for many large integers."""
    pandas = pytest.importorskip("pandas")
    new = [1, 3, 5, 7] if dtype == "Int32" else [2**60 + 1, 2**60 + 3, 2**60 + 5, 2**60 + 7]
    for make in (pandas.Series, pandas.array):
        y = make(new, dtype=dtype)
        model = getattr(kind(random_state=0), method)(rows[0][:4], y)
        assert model.classes_.tolist() == new and model.classes_.dtype.kind in "iu"
        assert model.diagnose(rows[0][:4], y)["accuracy"] == np.mean(model.predict(rows[0][:4]) == new)
    known = kind(random_state=0).partial_fit(rows[0][:2], new[:2], classes=pandas.array(new, dtype=dtype))
    assert known.classes_.tolist() == new
    with pytest.raises(ValueError, match="row 2 has no label"):
        getattr(kind(), method)(rows[0][:4], pandas.array([*new[:2], None, 9], dtype=dtype))


def test_masked_labels_are_not_learned(kind, rows):
    y = np.ma.array([1, 2, 1, 2], mask=[False, False, True, False])
    for method in (kind().fit, kind().partial_fit):
        with pytest.raises(ValueError, match="labels are masked"):
            method(rows[0][:4], y)
    assert kind(random_state=0).fit(rows[0][:2], y[:2]).classes_.tolist() == [1, 2]


def test_text_that_numpy_would_cut_is_no_label(kind, rows):
    model = kind(random_state=0).fit(rows[0][:2], ["a", "b"])
    for y in (["a\0", "b"], np.array(["a", "b\0"], object)):
        for method in (model.fit, model.partial_fit):
            with pytest.raises(ValueError, match=r"'[ab]\\x00' in row \d: numpy drops the character NUL"):
                method(rows[0][:2], y)
    with pytest.raises(ValueError, match="NUL"):
        model.rename_classes({"a": "b\0"})
    assert model.classes_.tolist() == ["a", "b"]


@pytest.mark.parametrize("label", [np.nan, np.inf])
def test_announced_labels_that_are_no_numbers(kind, rows, label):
    with pytest.raises(ValueError, match="classes contains NaN or infinity"):
        kind(random_state=0).partial_fit(rows[0][:2], [1, 2], classes=[1, 2, label])


def test_text_and_objects_are_the_same_labels(kind, rows):
    X, ids = rows
    model = kind(random_state=0).partial_fit(X, LABELS["text"][ids])
    model.partial_fit(X, LABELS["objects"][ids])
    assert model.classes_.tolist() == LABELS["text"].tolist()


def test_texts_of_variable_width_are_texts(kind, rows):
    X, ids = rows
    text = np.dtypes.StringDType()
    model = kind(random_state=0).fit(X, LABELS["text"][ids].astype(text))
    assert model.partial_fit(X, LABELS["text"][ids].astype(text)).classes_.tolist() == sorted(LABELS["text"].tolist())
    numbers = kind(random_state=0).fit(X, ids)
    with pytest.raises(ValueError, match="Labels are text but earlier ones were numbers"):
        numbers.add_classes(np.array(["7"], text))


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
    assert [prediction.n_threads(n_jobs) for n_jobs in (None, 2, -1, -2, -9, 10**9)] == [1, 2, 3, 2, 1, 256]


# -- many labels and long labels -----------------------------------------------------------------------------------


def characters_of(array):
    """Characters that an array takes: with padding, or those of its objects."""
    return array.nbytes // 4 if array.dtype.kind == "U" else sum(map(len, array.tolist()))


LONG = "x" * 1_000_000


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_a_long_label_costs_its_own_bytes(kind, method, tmp_path):
    """As text of a fixed width, these labels took 12 GB."""
    names = [f"label {i}" for i in range(3000)]
    names[1234] = LONG
    X = np.random.default_rng(0).standard_normal((3000, 2)).astype(np.float32)
    options = {"table_bits": 14} if kind is not LabelTreeClassifier else {}
    model = getattr(kind(random_state=0, n_epochs=1, **options), method)(X, names)
    assert sorted(model.classes_.tolist()) == sorted(names)
    assert characters_of(model.classes_) < 2 * len("".join(names))
    assert set(model.predict(X[:20])) <= set(names)
    assert model.diagnose(X[:20], names[:20])["recall"] >= 0
    model.save(tmp_path / "m")
    assert characters_of(load_model(tmp_path / "m").classes_) < 2 * len("".join(names))
    assert load_model(tmp_path / "m").predict(X[:20]).tolist() == model.predict(X[:20]).tolist()


def test_a_long_label_that_comes_later_leaves_the_model_usable(kind, rows):
    X, ids = rows
    known = [f"label {i}" for i in range(3000)]
    model = kind(random_state=0).partial_fit(X, [known[i] for i in ids], classes=known)
    model.partial_fit(X[:1], [LONG])
    assert model.classes_[-1] == LONG and model.classes_[:3000].tolist() == sorted(known)
    assert characters_of(model.classes_) < 2 * (len(LONG) + len("".join(known)))
    model.predict(X)


def test_short_texts_have_a_fixed_width(rows):
    index = ClassIndex(np.array(["a", "bcd"]))
    assert index.array.dtype == "<U3"
    index.add(np.array(["efghij"]))
    assert index.array.dtype == "<U6" and index.array.tolist() == ["a", "bcd", "efghij"]


@pytest.mark.parametrize("make", [lambda i: i, lambda i: i + 0.5, str, lambda i: str(i).encode()])
def test_a_new_label_is_added_to_the_array_without_converting_all(make, monkeypatch):
    """Asked after each of 2,000 new labels, the array converts each label only a few times."""
    converted, convert = [], classes.label_array

    def counted(labels, kind):
        converted.append(len(labels))
        return convert(labels, kind)

    monkeypatch.setattr(classes, "label_array", counted)
    index, earlier = ClassIndex(np.array([make(10_000)])), []
    for i in range(2000):
        earlier.append(index.array)
        index.add(np.array([make(10_001 + i)]))
    assert sum(converted) < 6 * 2000
    expected = [make(10_000 + i) for i in range(2001)]
    assert index.array.tolist() == expected
    assert all(array.tolist() == expected[: i + 1] for i, array in enumerate(earlier))  # they never change


def test_numbers_of_another_type_change_the_array():
    index = ClassIndex(np.array([1, 2]))
    for new, expected in ((3, [1, 2, 3]), (4, [1, 2, 3, 4]), (0.5, [1, 2, 3, 4, 0.5])):
        index.add(np.array([new]))
        assert index.array.tolist() == expected
    copied = pickle.loads(pickle.dumps(index))
    copied.add(np.array([7]))
    assert copied.array.tolist() == [1, 2, 3, 4, 0.5, 7] and index.array.tolist() == [1, 2, 3, 4, 0.5]


class Counted(dict):
    """A dictionary that counts how often all its values were listed."""

    listed = 0

    def values(self):
        Counted.listed += 1
        return super().values()


def test_class_weights_are_not_all_checked_for_each_row(kind, rows, monkeypatch):
    """A dictionary of 100,000 weights took 95 ms per row."""
    X, y = rows
    weights = Counted({label: 2.0 for label in range(4)})
    model = kind(random_state=0, class_weight=weights).partial_fit(X[:4], y[:4])
    monkeypatch.setattr(Counted, "listed", 0)
    for i in range(20):
        model.partial_fit(X[i : i + 1], y[i : i + 1])
    assert Counted.listed == 0
    weights[int(y[20])] = -1.0
    before = bytes_of(model)
    with pytest.raises(ValueError, match="class_weight must be"):
        model.partial_fit(X[20:21], y[20:21])
    with pytest.raises(ValueError, match="class_weight must be"):
        kind(class_weight=weights).partial_fit(X, y)
    assert bytes_of(model) == before


def test_an_error_adds_no_label(kind, rows):
    X, y = rows
    model = kind(random_state=0).partial_fit(X, y)
    model.class_weight = {100: "heavy"}
    with pytest.raises(ValueError, match="class_weight must be"):
        model.partial_fit(X[:1], [100])
    assert model.classes_.tolist() == in_order_of_appearance(y).tolist()
