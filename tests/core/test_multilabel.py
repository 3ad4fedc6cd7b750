"""Rows with several labels: y as a matrix of zeros and ones, dense or sparse, in and out."""

import copy
import itertools

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.exceptions import DataConversionWarning, NotFittedError

from manyclass import LabelTreeClassifier, SpectralTreeClassifier, load_model
from manyclass.core import multilabel
from manyclass.metrics import ClassCounts

from .test_streams import bytes_of


def few(tagged, n=300):
    """The first rows, quick to learn."""
    return tagged[0][:n], tagged[1][:n]


@pytest.fixture(scope="module")
def model(tagged):
    """Fitted on the first 800 rows of `tagged`, with few paths."""
    X, Y = tagged
    return LabelTreeClassifier(arity=4, beam=3, random_state=0).fit(X[:800], Y[:800])


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
@pytest.mark.parametrize("options", [{}, {"arity": 4, "beam": 4}, {"n_trees": 1}], ids=str)
def test_it_learns(tagged, method, options):
    X, Y = tagged
    model = getattr(LabelTreeClassifier(random_state=0, **options), method)(X[:800], Y[:800])
    assert model.multilabel_
    labelled = np.flatnonzero(Y[800:].sum(axis=1)) + 800
    assert model.diagnose(X[labelled], Y[labelled])["accuracy"] > 0.85
    chances, truth = model.predict_proba(X[800:]), Y[800:].toarray()
    assert chances[truth == 1].mean() > 10 * chances[truth == 0].mean()


def test_dense_rows_learn_too(digits):
    X, y = digits
    Y = np.stack([y == digit for digit in range(10)] + [y % 2 == 0], axis=1)
    model = LabelTreeClassifier(random_state=0).fit(X[:1000], Y[:1000])
    assert np.mean(model.predict(X[1000:]) == Y[1000:]) > 0.95


def test_the_columns_of_a_data_frame_name_the_labels(tagged, tmp_path):
    X, Y = few(tagged)
    frame = pd.DataFrame(Y.toarray(), columns=[f"tag {i}" for i in range(Y.shape[1])])
    model = LabelTreeClassifier(random_state=0).fit(X, frame)
    assert model.label_names_ == list(frame)
    wider = sp.hstack([Y, np.ones((Y.shape[0], 1))], format="csr")
    model.partial_fit(X, wider)
    assert model.label_names_ == [*frame, str(Y.shape[1])]
    model.save(tmp_path / "m")
    assert load_model(tmp_path / "m").label_names_ == model.label_names_
    assert LabelTreeClassifier(random_state=0).fit(X, Y).label_names_ is None


def test_the_columns_of_a_data_frame_stay_in_order(tagged):
    X, Y = few(tagged)
    frame = pd.DataFrame(Y.toarray(), columns=[f"tag {i}" for i in range(Y.shape[1])])
    model = LabelTreeClassifier(random_state=0).fit(X, frame)
    before = bytes_of(model)
    for call in (model.partial_fit, model.calibrate, model.diagnose):
        with pytest.raises(ValueError, match=r"Column 0 of y is 'tag \d+', but label 0 of the model is 'tag 0'"):
            call(X, frame[frame.columns[::-1]])
    assert bytes_of(model) == before
    model.partial_fit(X, [[*row, 1] for row in Y.toarray().tolist()])  # a list has no names
    assert model.label_names_ == [*frame, str(Y.shape[1])]


def test_the_number_of_a_new_column_may_be_a_name(tagged):
    X, Y = few(tagged)
    Y = Y.toarray()
    model = LabelTreeClassifier(random_state=0).fit(X, pd.DataFrame(Y[:, :2], columns=["a", "3"]))
    before = bytes_of(model)
    with pytest.raises(ValueError, match="two columns with the name '3'"):
        model.partial_fit(X, Y[:, :4])
    assert bytes_of(model) == before and model.label_names_ == ["a", "3"]


# -- kinds of y ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_dense_and_sparse_y_are_the_same(tagged, method):
    X, Y = few(tagged)
    forms = [Y, Y.toarray(), Y.toarray().tolist(), sp.coo_matrix(Y), sp.csc_array(Y), Y.astype(float), Y.astype(bool)]
    models = [getattr(LabelTreeClassifier(random_state=0), method)(X, form) for form in forms]
    assert len({str(bytes_of(model)) for model in models}) == 1
    predictions = models[0].predict(X).toarray()
    assert predictions.any()
    for model in models[1:]:
        predicted = model.predict(X)
        np.testing.assert_array_equal(predicted.toarray() if sp.issparse(predicted) else predicted, predictions)


def test_zeros_that_are_stored_are_zeros(tagged):
    X, Y = few(tagged)
    stored = Y.copy()
    stored.data[::3] = 0
    without = stored.copy()
    without.eliminate_zeros()
    models = [LabelTreeClassifier(random_state=0).fit(X, y) for y in (stored, without)]
    assert bytes_of(models[0]) == bytes_of(models[1])
    assert (stored.data == 0).any()  # y was not changed


@pytest.mark.parametrize("dtype", [bool, np.int8, np.int64, np.uint8, np.float32, np.float64])
def test_predictions_are_of_the_kind_of_y(tagged, dtype):
    X, Y = few(tagged, 60)
    dense = LabelTreeClassifier(random_state=0).fit(X, Y.toarray().astype(dtype)).predict(X)
    sparse = LabelTreeClassifier(random_state=0).partial_fit(X, Y.astype(dtype)).predict(X)
    assert type(dense) is np.ndarray
    assert isinstance(sparse, sp.csr_array)
    assert dense.dtype == sparse.dtype == dtype
    assert dense.shape == sparse.shape == Y.shape
    assert set(np.unique(dense).tolist()) == {0, 1}


def test_one_label_a_row_is_the_same_tree_as_a_vector_or_a_matrix(text):
    X, y = text
    Y = sp.csr_array((np.ones(len(y)), y, np.arange(len(y) + 1)))
    vector, matrix = (LabelTreeClassifier(random_state=0, arity=4, beam=2, C=1).fit(X, labels) for labels in (y, Y))
    assert (vector.multilabel_, matrix.multilabel_) == (False, True)
    assert bytes_of(vector) == bytes_of(matrix)
    np.testing.assert_array_equal(vector.predict(X), matrix.predict_topk(X, 1)[0].ravel())


# -- predictions ---------------------------------------------------------------------------------------------------


def test_probabilities_and_threshold(model, tagged):
    X = tagged[0][800:]
    chances = model.predict_proba(X)
    assert chances.shape == (300, 62)
    assert chances.min() >= 0.0
    assert chances.max() <= 1.0
    assert (chances > 0.5).any(axis=1).mean() > 0.5
    for threshold in (0.0, 0.2, 0.5, 0.9, 1.0):
        model.set_params(threshold=threshold)
        np.testing.assert_array_equal(model.predict(X).toarray(), chances > threshold)
    model.set_params(threshold="auto")


@pytest.fixture(scope="module")
def hard():
    """Sparse rows with about two of 100 labels each, in which words of labels are rare: probabilities are low."""
    rng = np.random.default_rng(0)
    Y = sp.csr_array((rng.random((1500, 100)) < 0.02).astype(np.int8))
    words = Y @ (rng.random((100, 2000)) < 0.004) > 0
    words = words & (rng.random(words.shape) < 0.15) | (rng.random(words.shape) < 0.003)
    return sp.csr_array(words, dtype=np.float32), Y


@pytest.fixture(scope="module")
def learned(hard):
    X, Y = hard
    return LabelTreeClassifier(random_state=0).fit(X[:500], Y[:500])


def micro_f1(model, X, Y):
    counts = ClassCounts(Y.shape[1])
    counts.add(Y, model.predict(X))
    return counts.micro_f1


def test_the_threshold_is_learned_from_held_out_rows(learned, hard, tmp_path):
    X, Y = hard[0][500:], hard[1][500:]
    best = learned._best_threshold(X, multilabel.labels_of(Y))
    scores = [micro_f1(copy.copy(learned).set_params(threshold=t), X, Y) for t in (learned.threshold_, best, 0.5)]
    assert scores[1] - 0.02 < scores[0] <= scores[1]
    assert scores[0] > scores[2] + 0.03
    learned.save(tmp_path / "m")
    loaded = load_model(tmp_path / "m")
    assert loaded.threshold == "auto" and loaded.threshold_ == learned.threshold_
    np.testing.assert_array_equal(loaded.predict(X).toarray(), learned.predict(X).toarray())


def test_a_given_threshold_is_not_learned(learned, hard):
    X, Y = hard
    given = LabelTreeClassifier(random_state=0, threshold=0.3).fit(X[:500], Y[:500])
    assert given.threshold_ == 0.3 and given.set_params(threshold="auto").threshold_ == 0.5
    assert bytes_of(given) == bytes_of(learned)  # the model itself is the same
    assert LabelTreeClassifier(random_state=0).fit(X[:199], Y[:199]).threshold_ == 0.5
    assert LabelTreeClassifier(random_state=0).partial_fit(X[:500], Y[:500]).threshold_ == 0.5


def test_calibration_chooses_the_threshold_of_calibrated_probabilities(learned, hard):
    X, Y = hard[0][500:900], hard[1][500:900]
    model = copy.copy(learned).calibrate(X, Y)
    assert model.threshold_ == model._best_threshold(X, multilabel.labels_of(Y)) != learned.threshold_
    held = LabelTreeClassifier(random_state=0, calibration="temperature").fit(hard[0][:500], hard[1][:500])
    assert micro_f1(held, X, Y) > micro_f1(held.set_params(threshold=0.5), X, Y) + 0.02


def test_topk_is_sorted_complete_and_a_prefix_of_the_next(model, tagged):
    X = tagged[0][800:]
    for k in (1, 2, 13, 61):
        labels, scores = model.predict_topk(X, k)
        more_labels, more_scores = model.predict_topk(X, k + 1)
        assert np.all(scores[:, 1:] <= scores[:, :-1])
        assert all(len(set(row)) == k for row in labels.tolist())
        np.testing.assert_array_equal(labels, more_labels[:, :k])
        np.testing.assert_array_equal(scores, more_scores[:, :k])
    chances = model.predict_proba(X)
    np.testing.assert_allclose(np.exp(scores), np.take_along_axis(chances, labels, axis=1), rtol=1e-3, atol=1e-6)


def test_columns_never_set_are_never_predicted(model, tagged):
    X = tagged[0]
    assert model.classes_.tolist() == list(range(62))
    assert not model.predict_proba(X)[:, 60:].any()
    assert not model.candidates(X).toarray()[:, 60:].any()
    assert np.all(model.predict_topk(X, 62)[1][:, -2:] == -np.inf)


def test_diagnosis_by_hand(model, tagged):
    X, Y = tagged[0][800:], tagged[1][800:]
    truth, best = Y.toarray() == 1, model.predict_topk(X, 1)[0][:, 0]
    candidates = model.candidates(X).toarray()
    for y in (Y, Y.toarray()):
        report = model.diagnose(X, y)
        assert list(report) == [
            "accuracy", "recall", "depth", "nodes_visited", "routers_scored", "candidates_scored", "work",
        ]  # fmt: skip
        assert report["accuracy"] == pytest.approx(np.mean([truth[r, label] for r, label in enumerate(best)]))
        assert report["recall"] == pytest.approx((candidates & truth).sum() / truth.sum())
        assert report["accuracy"] < 1.0 > report["recall"]
    never_met = sp.hstack([Y, sp.csr_array(np.ones((300, 1), np.int8))], format="csr")
    wider = model.diagnose(X, never_met)
    assert wider["accuracy"] == report["accuracy"]
    assert wider["recall"] == pytest.approx((candidates & truth).sum() / (truth.sum() + 300))
    assert model.score(X, Y) == pytest.approx((model.predict(X).toarray() == truth).all(axis=1).mean())
    with pytest.raises(ValueError, match="300 rows but y has 299"):
        model.diagnose(X, Y[:-1])
    with pytest.raises(ValueError, match="y has 30 columns but the model has 62 labels: pass a column for each"):
        model.diagnose(X, Y[:, :30])


def test_y_stays_of_its_kind(model, tagged, text):
    X = tagged[0][800:]
    for y in (np.arange(300), ["a"] * 300, np.ones((300, 1), int)):
        for method in (model.diagnose, model.partial_fit):
            with pytest.raises(ValueError, match=r"a matrix of zeros and ones, but y has shape \(300,.* of 62 columns"):
                method(X, y)
    with pytest.raises(ValueError, match="MultiLabelBinarizer"):
        model.diagnose(X, [["a", "b"], ["c"]] * 150)
    single = LabelTreeClassifier(random_state=0).fit(text[0][:100], text[1][:100])
    for y in (np.eye(100, 80), sp.eye_array(100, 80, format="csr")):
        with pytest.raises(ValueError, match=r"one label per row, but y is a matrix of shape \(100, 80\)"):
            single.diagnose(text[0][:100], y)


def test_a_single_column_is_a_matrix_if_sparse(tagged):
    X, column = tagged[0][:100], tagged[1][:100, :1].toarray() | (np.arange(100)[:, None] < 20)
    with pytest.warns(DataConversionWarning):
        dense = LabelTreeClassifier(random_state=0).fit(X, column)
    sparse = LabelTreeClassifier(random_state=0).fit(X, sp.csr_array(column))
    assert (dense.multilabel_, sparse.multilabel_) == (False, True)
    assert (dense.predict(X).shape, sparse.predict(X).shape) == ((100,), (100, 1))
    with pytest.raises(ValueError, match=r"shape \(100, 1\), which is one label per row.*a sparse one if"):
        sparse.partial_fit(X, column)
    sparse.partial_fit(X, sp.csr_array(column))


@pytest.mark.parametrize("value", [-0.1, 1.5, float("nan"), "low", None])
def test_a_threshold_set_after_training_is_checked_too(model, tagged, value):
    other = copy.copy(model).set_params(threshold=value)
    with pytest.raises(ValueError, match=r"threshold must be a number from 0 to 1 or 'auto', got"):
        other.predict(tagged[0])
    with pytest.raises(ValueError, match=r"threshold must be a number from 0 to 1 or 'auto', got"):
        other.fit(*tagged)


def test_a_dense_prediction_that_is_too_large_is_refused(tagged, monkeypatch):
    X, Y = few(tagged)
    monkeypatch.setattr(multilabel, "_DENSE_CELLS", 62 * 299)
    dense, sparse = (LabelTreeClassifier(random_state=0).fit(X, y) for y in (Y.toarray(), Y))
    with pytest.raises(ValueError, match=r"dense matrix of 300 x 62.*predict_topk"):
        dense.predict(X)
    assert dense.predict(X[:299]).shape == (299, 62)
    assert sparse.predict(X).shape == (300, 62)


# -- streams ---------------------------------------------------------------------------------------------------


def learn_in_parts(X, Y, cuts, options):
    """Learn a stream whose y is as wide as what came up to then."""
    model = LabelTreeClassifier(random_state=2, **options)
    width = 2
    for first, last in itertools.pairwise([0, *cuts, X.shape[0]]):
        width = max(width, Y[first:last].indices.max(initial=0) + 1)
        model.partial_fit(X[first:last], Y[first:last, :width])
    return model


@pytest.mark.parametrize("options", [{}, {"arity": 4, "beam": 2}, {"normalize": False}], ids=str)
def test_cutting_a_stream_changes_no_byte(tagged, options):
    X, Y = few(tagged, 500)
    order = np.argsort(Y.argmax(axis=1), kind="stable")  # labels come one after the other, so y becomes wider
    X, Y = X[order], Y[order]
    whole = bytes_of(learn_in_parts(X, Y, [], options))
    for cuts in ([60], [1, 2, 3, 250, 499]):
        parts = learn_in_parts(X, Y, cuts, options)
        assert bytes_of(parts) == whole
        assert parts.classes_.tolist() == list(range(60))


def test_a_wider_y_brings_new_labels(tagged):
    X, Y = few(tagged, 800)
    for method in ("fit", "partial_fit"):
        model = getattr(LabelTreeClassifier(random_state=0), method)(X, Y[:, :30])
        model.partial_fit(X, Y)
        assert model.predict(X).shape == (800, 62)
        found = model.predict_proba(X)[:, 30:60]
        assert found[Y[:, 30:60].toarray() == 1].mean() > 0.3
        before = bytes_of(model)
        with pytest.raises(ValueError, match="61 columns but the model has 62 labels"):
            model.partial_fit(X, Y[:, :61])
        assert bytes_of(model) == before


def test_rows_without_labels_teach_that_nothing_is_there(tagged):
    X, Y = few(tagged, 600)
    nothing = sp.csr_array((600, 62), dtype=np.int8)
    model = LabelTreeClassifier(random_state=0).partial_fit(X, Y)
    before = model.predict_topk(X, 1)[1].mean()
    for _ in range(3):
        model.partial_fit(X, nothing)
    assert model.predict_topk(X, 1)[1].mean() < before - 0.1
    assert model.predict(X).sum() < 0.5 * Y.sum()
    with pytest.raises(ValueError, match="no label in any row"):
        model.fit(X, nothing)
    fresh = LabelTreeClassifier(random_state=0).partial_fit(X, nothing)
    assert fresh.predict(X).sum() == 0
    assert fresh.partial_fit(X, Y).predict(X).sum() > 0


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_rows_of_weight_zero_are_not_there(tagged, method):
    X, Y = few(tagged)
    wrong = sp.vstack([Y, 1 - Y.toarray()], format="csr")
    weights = np.repeat([1.0, 0.0], 300)
    model = LabelTreeClassifier(random_state=0)
    getattr(model, method)(sp.vstack([X, X], format="csr"), wrong, sample_weight=weights)
    assert bytes_of(model) == bytes_of(getattr(LabelTreeClassifier(random_state=0), method)(X, Y))


def test_labels_in_rows_of_weight_zero_are_no_labels(tagged):
    X, Y = few(tagged, 60)
    with pytest.raises(ValueError, match="no label in any row with a weight above 0"):
        LabelTreeClassifier().fit(X, Y, sample_weight=np.diff(sp.csr_array(Y).indptr) == 0)


# -- bad input -------------------------------------------------------------------------------------------------


def changed(Y, row, column, value):
    Y = Y.toarray().astype(float)
    Y[row, column] = value
    return Y


BAD_Y = {
    "two": (lambda Y: changed(Y, 7, 3, 2), r"value 2\.0 in row 7, column 3"),
    "a half": (lambda Y: changed(Y, 0, 61, 0.5), r"value 0\.5 in row 0, column 61"),
    "nan": (lambda Y: changed(Y, 5, 5, np.nan), "value nan in row 5, column 5"),
    "negative": (lambda Y: sp.csr_array(changed(Y, 9, 0, -1)), r"value -1\.0 in row 9, column 0"),
    "twice": (lambda Y: sp.coo_array((np.ones(2), ([4, 4], [6, 6])), shape=(60, 62)), r"value 2\.0 in row 4, column 6"),
    "text": (lambda Y: np.full((60, 62), "a"), "matrix of type <U1"),
    "objects": (lambda Y: Y.toarray().astype(object), "matrix of type object"),
    "too few rows": (lambda Y: Y[:-1], "60 rows but y has 59"),
    "three dimensions": (lambda Y: np.zeros((60, 2, 2)), "dim|shape"),
    "no columns": (lambda Y: Y[:, :0], "y has no columns"),
    "one label a row": (lambda Y: np.arange(60), "fitted with a matrix of zeros and ones, but y has shape"),
}


@pytest.mark.parametrize("name", BAD_Y)
def test_bad_y_changes_nothing(tagged, name):
    X, Y = few(tagged, 60)
    y, message = BAD_Y[name][0](Y), BAD_Y[name][1]
    model = LabelTreeClassifier(random_state=0).partial_fit(X, Y)
    before = bytes_of(model)
    with pytest.raises(ValueError, match=message):
        model.partial_fit(X, y)
    if name != "one label a row":
        with pytest.raises(ValueError, match=message):
            model.fit(X, y)
        fresh = LabelTreeClassifier()
        with pytest.raises(ValueError, match=message):
            fresh.partial_fit(X, y)
        assert not hasattr(fresh, "classes_")
        assert not hasattr(fresh, "n_features_in_")
        with pytest.raises(NotFittedError):
            _ = fresh.multilabel_
    assert bytes_of(model) == before
    assert model.multilabel_
    assert model.predict(X).shape == (60, 62)


def test_a_matrix_after_single_labels_changes_nothing(text, tagged):
    X, y = text[0][:100], text[1][:100]
    model = LabelTreeClassifier(random_state=0).partial_fit(X, y)
    before = bytes_of(model)
    with pytest.raises(ValueError, match="fitted with one label per row, but y is a matrix"):
        model.partial_fit(X, tagged[1][:100])
    assert bytes_of(model) == before
    assert not model.multilabel_


BAD_ARGUMENTS = {
    "class weights": ({"class_weight": {0: 2.0}}, {}, "class_weight requires one label per row"),
    "balanced": ({"class_weight": "balanced"}, {}, "class_weight requires one label per row"),
    "too few weights": ({}, {"sample_weight": [1.0]}, "sample_weight"),
    "negative weight": ({}, {"sample_weight": -np.ones(60)}, "[Nn]egative"),
    "bad option": ({"arity": 0}, {}, "arity"),
}


@pytest.mark.parametrize("name", BAD_ARGUMENTS)
def test_bad_arguments_change_nothing(tagged, name):
    options, arguments, message = BAD_ARGUMENTS[name]
    X, Y = few(tagged, 60)
    model = LabelTreeClassifier(random_state=0).fit(X, Y)
    before = bytes_of(model)
    model.set_params(**options)
    for method in (model.fit, model.partial_fit):
        with pytest.raises(ValueError, match=message):
            method(X, Y, **arguments)
        with pytest.raises(ValueError, match=message):
            getattr(LabelTreeClassifier(**options), method.__name__)(X, Y, **arguments)
    assert bytes_of(model) == before


def test_classes_and_weights_of_nothing_are_errors(tagged):
    X, Y = few(tagged, 60)
    model = LabelTreeClassifier(random_state=0).partial_fit(X, Y)
    before = bytes_of(model)
    with pytest.raises(ValueError, match="the columns are the labels"):
        model.partial_fit(X, Y, classes=range(62))
    with pytest.raises(ValueError, match="at least one non-zero"):
        model.fit(X, Y, sample_weight=np.zeros(60))
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(X[:, :10], Y)
    assert bytes_of(model) == before


def test_fit_forgets_everything(tagged, text):
    X, _ = tagged
    many_labels = np.random.default_rng(0).random((X.shape[0], 40)) < 0.5
    used = LabelTreeClassifier(random_state=0).fit(X, many_labels).fit(*text)
    assert bytes_of(used) == bytes_of(LabelTreeClassifier(random_state=0).fit(*text))
    assert not used.multilabel_


def test_fit_may_change_the_kind(tagged, text):
    model = LabelTreeClassifier(random_state=0).fit(*text)
    assert model.predict(text[0]).shape == (1300,)
    model.fit(*few(tagged))
    assert bytes_of(model) == bytes_of(LabelTreeClassifier(random_state=0).fit(*few(tagged)))
    assert model.predict(tagged[0]).shape == (1100, 62)


def test_a_second_fit_forgets_the_first(tagged, text):
    """The options that follow from the columns of a matrix are not used for single labels."""
    model = LabelTreeClassifier(random_state=0, n_epochs=1).fit(tagged[0][:200], tagged[1][:200, :12])
    fresh = LabelTreeClassifier(random_state=0, n_epochs=1).fit(*text)
    assert bytes_of(model.fit(*text)) == bytes_of(fresh)


@pytest.mark.parametrize("learn", [
    lambda X, Y: LabelTreeClassifier(random_state=0).partial_fit(X, Y),
    lambda X, Y: SpectralTreeClassifier(random_state=0).fit(X, Y),
])  # fmt: skip
def test_rows_with_very_many_labels(learn):
    """Quadratic time would take many minutes."""
    X = np.array([[1, 0, 2], [0, 1, 0], [3, 0, 0]], np.float32)
    model = learn(X, sp.csr_array(np.ones((3, 150_000), np.int8)))
    assert model.predict_topk(X, 3)[0].shape == (3, 3)
