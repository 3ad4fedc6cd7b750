"""Descriptions of labels: labels without rows, new labels online, several labels per row, and bad ones."""

import numpy as np
import pytest
import scipy.sparse as sp

from manyclass import LabelTreeClassifier, ManyClassClassifier
from manyclass.label_tree.descriptions import ALONE, WITH_ROWS

N_LABELS, N_WORDS = 40, 600


def rows(n, seed, labels=None):
    """Each label has ten words of its own; a row has four of them and three of any."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, N_LABELS, n) if labels is None else np.asarray(labels)
    own = 10 * y[:, None] + rng.integers(0, 10, (len(y), 4))
    columns = np.hstack([own, rng.integers(0, N_WORDS, (len(y), 3))])
    X = sp.csr_matrix((np.ones(columns.size, np.float32), (np.repeat(np.arange(len(y)), 7), columns.ravel())),
                      shape=(len(y), N_WORDS))  # fmt: skip
    return X, y


def described(labels):
    """Six of the ten words of each label."""
    labels = np.asarray(labels)
    columns = (10 * labels[:, None] + np.arange(6)).ravel()
    where = np.repeat(np.arange(len(labels)), 6), columns
    return labels, sp.csr_matrix((np.ones(len(columns), np.float32), where), shape=(len(labels), N_WORDS))


NEW = np.arange(36, 40)


@pytest.fixture(scope="module")
def data():
    X, y = rows(1200, 0)
    seen = ~np.isin(y, NEW)
    return X[seen], y[seen], *rows(600, 1)


@pytest.fixture(scope="module")
def plain(data):
    return LabelTreeClassifier(random_state=0).fit(*data[:2])


def accuracies(model, X, y):
    right = model.predict(X) == y
    return right[np.isin(y, NEW)].mean(), right[~np.isin(y, NEW)].mean()


def test_labels_without_rows_are_predicted_and_others_keep_their_accuracy(data, plain):
    X, y, X_test, y_test = data
    model = LabelTreeClassifier(random_state=0).fit(X, y, label_features=described(NEW))
    assert model.classes_.tolist() == list(range(N_LABELS))
    new, others = accuracies(model, X_test, y_test)
    before = accuracies(plain, X_test, y_test)
    assert before[0] == 0.0 and new > 0.7 and others > before[1] - 0.02
    assert model._described is None


def test_a_new_label_with_a_description_comes_online(data, plain):
    X, y, X_test, y_test = data
    model = LabelTreeClassifier(random_state=0).fit(X, y)
    model.partial_fit(None, None, label_features=described(NEW))
    assert model.classes_[-4:].tolist() == NEW.tolist()
    new, others = accuracies(model, X_test, y_test)
    assert new > 0.5 and others > accuracies(plain, X_test, y_test)[1] - 0.03
    model.partial_fit(*rows(12, 5, np.repeat(NEW, 3)), label_features=described(NEW[:1]))
    assert accuracies(model, X_test, y_test)[0] > new


def test_a_description_is_a_row_before_the_rows(data):
    X, y = data[0][:300], data[1][:300]
    labels, vectors = described(range(N_LABELS))
    weights = np.concatenate([np.where(np.isin(labels, y), WITH_ROWS, ALONE), np.ones(300)])
    rows = sp.vstack([vectors, X]), np.concatenate([labels, y])
    for train in (LabelTreeClassifier.fit, LabelTreeClassifier.partial_fit):
        a = train(LabelTreeClassifier(random_state=0), X, y, label_features=(labels.tolist(), vectors))
        b = train(LabelTreeClassifier(random_state=0), *rows, sample_weight=weights)
        np.testing.assert_array_equal(a.predict_topk(data[2], 3)[1], b.predict_topk(data[2], 3)[1])


@pytest.mark.parametrize(
    ("labels", "vectors", "message"),
    [([1], None, "must be a matrix"), ([1], 3.0, "must be a matrix"), ([np.nan], np.ones((1, 2)), "NaN or infinity")],
)
def test_vectors_and_labels_that_are_none(labels, vectors, message):
    with pytest.raises(ValueError, match=message):
        LabelTreeClassifier().fit(np.eye(2), [0, 1], label_features=(labels, vectors))


@pytest.mark.parametrize("unit", [2.0**-20, 1024.0])
def test_descriptions_follow_the_weights_of_rows(data, unit):
    X, y = data[0][:300], data[1][:300]
    models = [
        LabelTreeClassifier(random_state=0).fit(X, y, weights, label_features=described(range(N_LABELS)))
        for weights in (None, np.full(300, unit))
    ]
    np.testing.assert_array_equal(*(model.predict_topk(data[2], 3)[1] for model in models))
    model = LabelTreeClassifier(random_state=0).fit(X, y, np.full(300, unit))
    before = model._state["tree"].mass[0]
    model.partial_fit(None, None, label_features=([model.classes_[0]], described(range(N_LABELS))[1][:1]))
    assert model._state["tree"].mass[0] == before + unit * WITH_ROWS


def test_columns_of_a_matrix_are_described_by_their_numbers(data):
    X, y, X_test, y_test = data
    model = LabelTreeClassifier(random_state=0)
    model.fit(X, sp.csr_matrix(np.eye(N_LABELS)[y]), label_features=described(NEW))
    new = np.isin(y_test, NEW)
    assert np.mean(model.predict_topk(X_test[new], 1)[0][:, 0] == y_test[new]) > 0.7


def test_the_front_door_passes_descriptions_on(data):
    X, y = data[:2]
    model = ManyClassClassifier(random_state=0).fit(X, y, label_features=described(NEW[:2]))
    assert model.classes_.tolist() == list(range(38))
    assert model.partial_fit(None, None, label_features=described(NEW)).classes_.tolist() == list(range(N_LABELS))
    with pytest.raises(ValueError, match="label_features is for label trees"):
        ManyClassClassifier().partial_fit(X[:, :20].toarray(), y, label_features=described(NEW))


@pytest.mark.parametrize(
    "given, message",
    [
        ([1, 2], r"must be a tuple \(labels, vectors\).*got list"),
        ((["a"], described([1])[1]), "Labels are text but earlier ones were numbers"),
        (([1, 2], described([1])[1]), "2 labels but 1 vectors"),
        (([1, 1], described([1, 2])[1]), "describes a label twice: .*1"),
        (([1], described([1])[1][:, :5]), "5 features"),
    ],
)
def test_bad_descriptions_are_clear_errors_and_change_nothing(data, plain, given, message):
    before = plain.predict_topk(data[2], 3)[1]
    for train in (plain.fit, plain.partial_fit):
        with pytest.raises(ValueError, match=message):
            train(data[0], data[1], label_features=given)
    np.testing.assert_array_equal(plain.predict_topk(data[2], 3)[1], before)
    assert plain._described is None


def test_a_matrix_has_no_column_for_a_label_beyond_it(data):
    with pytest.raises(ValueError, match="numbers of columns of y, from 0 to 35"):
        LabelTreeClassifier().fit(data[0], np.eye(36)[data[1]], label_features=described(NEW))


def test_descriptions_are_not_held_out_for_calibration():
    rng = np.random.default_rng(0)
    y = rng.integers(30, size=400)
    X = (np.eye(31)[y] + 0.1 * rng.random((400, 31))).astype(np.float32)
    described = list(range(31)), np.eye(31, dtype=np.float32)
    clf = LabelTreeClassifier(random_state=0, calibration="temperature").fit(X, y, label_features=described)
    assert clf.predict(np.eye(31, dtype=np.float32)[30:]).tolist() == [30]


def test_a_label_without_rows_has_a_heavier_description():
    """Also if it was named before."""
    rng = np.random.default_rng(0)
    X, y = np.eye(3, 4), ["a", "b", "c"]
    named = LabelTreeClassifier(random_state=0).fit(X, y).add_classes(["d"])
    other = LabelTreeClassifier(random_state=0).fit(X, y)
    described = ["d"], np.eye(4)[3:] + 0.1 * rng.random((1, 4))
    scores = [clf.partial_fit(None, None, label_features=described).predict_topk(X, 4)[1] for clf in (named, other)]
    assert np.array_equal(*scores)


def test_descriptions_alone_of_columns():
    X, y = rows(300, 0)
    Y = sp.csr_array((np.ones(300, np.int8), (np.arange(300), y)), shape=(300, N_LABELS + 1))
    model = LabelTreeClassifier(random_state=0).fit(X, Y)
    vector = sp.csr_matrix((np.ones(3, np.float32), ([0] * 3, [597, 598, 599])), shape=(1, N_WORDS))
    assert model.predict_topk(vector, k=1)[0][0, 0] != N_LABELS
    model.partial_fit(None, None, label_features=([N_LABELS], vector))
    assert model.predict_topk(vector, k=1)[0][0, 0] == N_LABELS
    with pytest.raises(ValueError, match="numbers of columns of y, from 0 to 40"):
        model.partial_fit(None, None, label_features=([50], vector))
    with pytest.raises(ValueError, match="sample_weight"):
        model.partial_fit(None, None, sample_weight=[1.0], label_features=([N_LABELS], vector))


def test_large_unsigned_labels_stay_as_they_are(data):
    """numpy joins int64 and uint64 to float64, which would merge them."""
    X, y, *_ = data
    large = y.astype(np.uint64) + np.uint64(2**63)
    labels, vectors = described(NEW)
    model = LabelTreeClassifier(random_state=0).fit(X, large, label_features=(labels, vectors))
    assert model.classes_.tolist() == [*NEW.tolist(), *np.unique(large).tolist()]
    signed = y + 2**53
    model = LabelTreeClassifier(random_state=0).fit(X, signed, label_features=(labels.astype(float), vectors))
    assert model.classes_.tolist() == [*NEW.tolist(), *np.unique(signed).tolist()]
