"""Bad input is a clear error that changes nothing; odd but good input just works."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError

from manyclass import (
    Hellinger,
    LabelTreeClassifier,
    LomTreeClassifier,
    OneAgainstAllClassifier,
    RecallTreeClassifier,
    SpectralTreeClassifier,
    load_model,
)
from manyclass.estimators import ESTIMATORS

from .test_streams import bytes_of

X_GOOD = np.arange(15.0).reshape(5, 3)
Y_GOOD = np.array([0, 1, 2, 0, 1])


def changed(row, column, value):
    X = X_GOOD.copy()
    X[row, column] = value
    return X


BAD_ROWS = {
    "nan": (changed(2, 1, np.nan), Y_GOOD, None, "NaN"),
    "infinity": (changed(2, 1, np.inf), Y_GOOD, None, "infinity"),
    "beyond float32": (changed(0, 0, 1e39), Y_GOOD, None, "too large for dtype"),
    "large": (changed(3, 2, -2e30), Y_GOOD, None, r"value -2e\+30 in row 3, column 2, too large.*up to 1e\+30"),
    "sparse large": (sp.csr_array(changed(3, 2, 2e30)), Y_GOOD, None, r"value 2e\+30 in row 3, column 2, too large"),
    "sparse nan": (sp.csr_array(changed(2, 1, np.nan)), Y_GOOD, None, "NaN"),
    "wrong width": (X_GOOD[:, :2], Y_GOOD, None, "features"),
    "no rows": (X_GOOD[:0], Y_GOOD[:0], None, "0 sample"),
    "one dimension": (X_GOOD[0], Y_GOOD[:3], None, "2D array"),
    "three dimensions": (np.ones((5, 3, 1)), Y_GOOD, None, "dim 3"),
    "text in X": ([["a", "b", "c"]] * 5, Y_GOOD, None, "TfidfVectorizer or HashingVectorizer"),
    "raw text": (["red apple", "green", "car", "slow car", "home"], Y_GOOD, None, r"text \(the first is 'red apple'\)"),
    "complex X": (X_GOOD + 1j, Y_GOOD, None, "Complex"),
    "too few labels": (X_GOOD, Y_GOOD[:4], None, "inconsistent"),
    "labels are not whole": (X_GOOD, Y_GOOD + 0.5, None, "continuous|Unknown label"),
    "labels are nan": (X_GOOD, np.where(Y_GOOD > 1, np.nan, 1.0), None, "NaN"),
    "two columns of labels": (X_GOOD, np.stack([Y_GOOD, Y_GOOD], axis=1), None, "1d|shape|multi|per row|and ones"),
    "no labels": (X_GOOD, None, None, "y|target"),
    "negative weight": (X_GOOD, Y_GOOD, [1, 1, -1, 1, 1], "[Nn]egative"),
    "nan weight": (X_GOOD, Y_GOOD, [1, 1, np.nan, 1, 1], "NaN"),
    "too few weights": (X_GOOD, Y_GOOD, [1, 1], "sample_weight"),
    "weights that are no numbers": (X_GOOD, Y_GOOD, {"a": 1}, "sample_weight must have one number for each row"),
    "weights that are text": (X_GOOD, Y_GOOD, list("abcde"), "sample_weight must have one number for each row"),
    "complex weights": (X_GOOD, Y_GOOD, np.full(len(Y_GOOD), 1j), "complex numbers"),
}


TAG_LISTS = {
    "lists": [["a", "b"], ["c"], [], ["a"], ["b"]],
    "lists of one length": [["a", "b"], ["c", "d"], ["a", "c"], ["b", "d"], ["a", "d"]],
    "sets": [{"a"}, {"b"}, {"a", "b"}, {"c"}, {"c"}],
    "tuples": np.fromiter([(1, 2), (1,), (2,), (3,), (1, 3)], object),
}
NO_LABELS = {
    "numbers and text": ([1, "a", 2, "a", 1], r"mixes text with other labels \(1 in row 0, 'a' in row 1\): convert"),
    "text and numbers": (np.array(["a", "a", 2, "a", 1], object), r"'a' in row 0, 2 in row 2\): convert all"),
    "nothing": ([None, (1, 2), 1, 2, 3], "row 0 has no label"),
    "nothing, later": (["a", "b", None, "c", float("nan")], "row 2 has no label"),
    "numbers as objects": (np.arange(5).astype(object), r"objects of type int.*astype\(str\) or .astype\(int\)"),
    "what cannot be sorted": ([object() for _ in range(5)], "objects of type object.*convert"),
    "dates": (np.arange("2020-01-01", "2020-01-06", dtype="M8[D]"), "contains dates"),
    "numbers and dates": (np.array([1, np.datetime64("2020-01-01"), 2, 3, 4], object), "objects of type int.*convert"),
    "bytes": ([b"a", b"b", b"c", b"a", b"b"], "objects of type bytes.*convert"),
    "complex numbers": (np.arange(5) + 1j, "values of type complex128.*convert"),
    "records": (np.array([(0,), (1,), (2,), (0,), (1,)], [("a", int)]), "values of type.*convert"),
    "a set": ({0, 1, 2, 3, 4}, "is a set, expected a list"),
}


@pytest.mark.parametrize("name", TAG_LISTS)
def test_lists_of_labels_are_told_where_to_go(input_kind, name):
    model = input_kind(random_state=0).partial_fit(X_GOOD, Y_GOOD)
    for method in (input_kind().fit, input_kind().partial_fit, model.partial_fit, model.diagnose):
        with pytest.raises(ValueError, match=r"MultiLabelBinarizer|matrix of zeros and ones|matrix of shape"):
            method(X_GOOD, TAG_LISTS[name])
    if name != "lists of one length":
        with pytest.raises(ValueError, match="MultiLabelBinarizer"):
            input_kind().fit(X_GOOD, TAG_LISTS[name])


@pytest.mark.parametrize("name", NO_LABELS)
def test_what_is_no_label_is_told_what_to_do(input_kind, name):
    y, message = NO_LABELS[name]
    model = input_kind(random_state=0).partial_fit(X_GOOD, Y_GOOD)
    for method in (input_kind().fit, input_kind().partial_fit, model.partial_fit, model.diagnose):
        with pytest.raises(ValueError, match=message):
            method(X_GOOD, y)
    with pytest.raises(ValueError, match=message.replace("y ", "classes ")):
        input_kind().partial_fit(X_GOOD, Y_GOOD, classes=y)


@pytest.mark.parametrize("form", [list, np.array, lambda X: np.array(X, object), lambda X: [[x] for x in X]])
def test_raw_text_is_sent_to_a_vectorizer(input_kind, form):
    X = form(["red apple", "green apple and a long text that is cut", "car", "slow car", "house"])
    model = input_kind(random_state=0).fit(X_GOOD, Y_GOOD)
    for method in (input_kind().fit, input_kind().partial_fit, model.diagnose):
        with pytest.raises(ValueError, match=r"X contains text \(the first is 'red apple'\).*TfidfVectorizer or"):
            method(X, Y_GOOD)
    with pytest.raises(ValueError, match="TfidfVectorizer"):
        model.predict(X)
    with pytest.raises(ValueError, match=r"\(the first is 'green apple and a long text\.\.\.'\)"):
        model.predict(X[1:])
    with pytest.raises(ValueError, match="TfidfVectorizer"):
        model.predict("red apple")


def is_wrong_from_the_start(name):
    return name != "wrong width"


@pytest.mark.parametrize("name", BAD_ROWS)
def test_bad_rows_change_nothing(input_kind, name):
    X, y, weights, message = BAD_ROWS[name]
    model = input_kind(random_state=0).partial_fit(X_GOOD, Y_GOOD)
    before, width = bytes_of(model), model.n_features_in_
    with pytest.raises(ValueError, match=message):
        model.partial_fit(X, y, sample_weight=weights)
    assert bytes_of(model) == before
    assert model.n_features_in_ == width
    if is_wrong_from_the_start(name):
        with pytest.raises(ValueError, match=message):
            model.fit(X, y, sample_weight=weights)
        assert bytes_of(model) == before
        assert model.n_features_in_ == width
        fresh = input_kind()
        with pytest.raises(ValueError, match=message):
            fresh.partial_fit(X, y, sample_weight=weights)
        assert not hasattr(fresh, "classes_")
        assert not hasattr(fresh, "n_features_in_")


@pytest.mark.parametrize("name", ["nan", "infinity", "beyond float32", "wrong width", "one dimension", "text in X"])
@pytest.mark.parametrize("method", ["predict", "predict_topk", "predict_proba", "candidates", "decision_path"])
def test_bad_rows_get_no_prediction(input_kind, name, method):
    model = input_kind(random_state=0).partial_fit(X_GOOD, Y_GOOD)
    X, _, _, message = BAD_ROWS[name]
    with pytest.raises(ValueError, match=message):
        getattr(model, method)(X)


@pytest.mark.parametrize("method", ["predict", "predict_topk", "predict_proba", "candidates", "decision_path"])
def test_nothing_learned_no_prediction(input_kind, method):
    with pytest.raises(NotFittedError):
        getattr(input_kind(), method)(X_GOOD)
    with pytest.raises(NotFittedError):
        input_kind().diagnose(X_GOOD, Y_GOOD)
    with pytest.raises(AttributeError):
        _ = input_kind().classes_


def test_one_class_is_too_few_for_fit_only(kind):
    with pytest.raises(ValueError, match="at least two classes"):
        kind().fit(X_GOOD, np.zeros(5))
    assert kind(random_state=0).partial_fit(X_GOOD, np.zeros(5)).predict(X_GOOD).tolist() == [0] * 5


FAILING_FITS = {
    "one class": ({}, lambda: (np.ones((5, 700)), np.zeros(5))),
    "bad class weight": ({"class_weight": "even"}, lambda: (np.ones((4, 700)), np.arange(4))),
    "nothing weighs": ({"class_weight": dict.fromkeys(range(4), 0)}, lambda: (np.ones((4, 700)), np.arange(4))),
}
FAILING_EPOCHS = {
    "bad learner": ({"learner": "adam"}, lambda: (np.ones((4, 700)), np.arange(4))),
}


@pytest.mark.filterwarnings("ignore:The number of unique classes is greater than 50%:UserWarning")
@pytest.mark.parametrize("name", FAILING_FITS)
def test_a_failed_fit_leaves_the_old_model_whole(kind, name):
    """Above all its width: the kernels would read beyond the weights if the model thought itself wider."""
    stays_whole(kind, *FAILING_FITS[name])


@pytest.mark.filterwarnings("ignore:The number of unique classes is greater than 50%:UserWarning")
@pytest.mark.parametrize("name", FAILING_EPOCHS)
def test_failed_epochs_leave_the_old_model_whole(epoch_kind, name):
    stays_whole(epoch_kind, *FAILING_EPOCHS[name])


def stays_whole(kind, options, rows):
    model = kind(random_state=0).fit(X_GOOD, Y_GOOD)
    before = bytes_of(model)
    model.set_params(**options)
    with pytest.raises(ValueError):
        model.fit(*rows())
    assert model.n_features_in_ == 3
    assert bytes_of(model) == before


BAD_OPTIONS = [
    ("n_epochs", 0), ("n_epochs", 2.5), ("n_epochs", True), ("n_epochs", "3"),
]  # fmt: skip
EPOCH_OPTIONS = [
    ("shuffle", 1), ("shuffle", "yes"), ("early_stopping", None), ("early_stopping", 0.1),
    ("table_bits", 7), ("table_bits", 41), ("learner", "adam"),
    ("learner", None), ("loss", "cubic"), ("loss", None),
]  # fmt: skip
TREE_OPTIONS = [
    ("n_candidates", 0), ("n_candidates", 1.5), ("max_depth", -1), ("max_depth", 61), ("bernstein", -1.0),
    ("bernstein", "big"), ("bernstein", float("nan")), ("path_features", "on"), ("path_features", True), ("beam", 0),
    ("beam", None), ("n_candidates", None), ("max_depth", None), ("n_candidates", "all"), ("bernstein", True),
]  # fmt: skip


def refuses(model, name):
    for method in (model.fit, model.partial_fit):
        with pytest.raises(ValueError, match=name):
            method(X_GOOD, Y_GOOD)


@pytest.mark.parametrize(("name", "value"), BAD_OPTIONS)
def test_bad_options(kind, name, value):
    refuses(kind(**{name: value}), name)


@pytest.mark.parametrize(("name", "value"), EPOCH_OPTIONS)
def test_bad_options_of_learning_in_epochs(epoch_kind, name, value):
    refuses(epoch_kind(**{name: value}), name)


@pytest.mark.parametrize(("name", "value"), TREE_OPTIONS)
def test_bad_options_of_the_tree(name, value):
    refuses(RecallTreeClassifier(**{name: value}), name)


@pytest.mark.parametrize("weights", [{0: -1.0}, {0: float("nan")}, [1, 2, 3], "even"])
def test_bad_class_weights(kind, weights):
    with pytest.raises(ValueError, match="class_weight"):
        kind(class_weight=weights).fit(X_GOOD, Y_GOOD)


def test_malformed_sparse_rows_are_an_error(kind):
    """scipy does not check indices: one beyond the width must not reach the kernels."""
    X = sp.csr_array((np.ones(3, np.float32), np.array([0, 290, 2]), np.array([0, 1, 2, 3])), shape=(3, 300))
    model = kind(random_state=0).partial_fit(X, [0, 1, 2])
    X.indices[1] = 301
    with pytest.raises(ValueError):
        model.predict(X)
    with pytest.raises(ValueError):
        model.partial_fit(X, [0, 1, 2])


@pytest.mark.parametrize("form", ["csc", "coo", "bsr", "lil", "dia"])
def test_malformed_matrices_of_other_formats_are_an_error(kind, form):
    """scipy converts them to CSR without checks: an index beyond the shape would end the process."""

    def malformed(n_rows, n_columns, part):
        X = sp.csr_array(np.eye(n_rows, n_columns, dtype=np.float32)).asformat(form)
        if form == "coo":
            where = X.coords[part].copy()
            where[1] = 10**8
            X.coords = (where, X.coords[1]) if part == 0 else (X.coords[0], where)
        elif form == "lil":
            (X.rows, X.data)[part][1] += [1, 1]
        elif form == "dia" and part == 0:
            X.offsets = np.arange(9, dtype=X.offsets.dtype)
        elif form == "dia":
            X.data = X.data[:0]
        elif part == 0:
            X.indices[1] = 10**8
        else:
            X.indptr[1] = 10**8
        return X

    model = kind(random_state=0).partial_fit(X_GOOD, Y_GOOD)
    for part in range(2):
        X = malformed(5, 3, part)
        for use in (
            model.predict,
            lambda X: model.partial_fit(X, Y_GOOD),
            lambda X: kind().fit(X, Y_GOOD),
            lambda X: kind().find_label_issues(X, Y_GOOD, cv=2),
        ):
            with pytest.raises(ValueError, match="X is an invalid sparse matrix"):
                use(X)
        with pytest.raises(ValueError, match="X is an invalid sparse matrix"):
            Hellinger().fit(X)
        with pytest.raises(ValueError, match="y is an invalid sparse matrix"):
            LabelTreeClassifier().fit(X_GOOD, malformed(5, 4, part))


def test_a_sparse_y_of_one_dimension_is_an_error(kind):
    y = sp.coo_array(Y_GOOD)
    with pytest.raises(ValueError):
        kind().fit(X_GOOD, y)
    model = LabelTreeClassifier(random_state=0).fit(X_GOOD, np.eye(5, 3, dtype=int))
    for use in (model.fit, model.partial_fit, model.diagnose):
        with pytest.raises(ValueError, match="sparse array of shape"):
            use(X_GOOD, y)


def test_flags_of_a_sparse_matrix_are_not_trusted(kind):
    """scipy remembers that a matrix was without duplicates, also after its indices were changed."""
    X = sp.csr_array((np.ones(6, np.float32), np.array([0, 1, 1, 2, 2, 3]), np.array([0, 2, 4, 6])), shape=(3, 300))
    assert X.has_canonical_format
    X.indices[:2] = 7
    expected = sp.csr_array((X.data.copy(), X.indices.copy(), X.indptr.copy()), shape=X.shape)
    expected.sum_duplicates()
    assert expected.nnz == 5
    model = kind(random_state=0).fit(X, [0, 1, 2])
    assert bytes_of(model) == bytes_of(kind(random_state=0).fit(expected, [0, 1, 2]))


def test_rows_that_look_ready_are_checked_too(kind):
    """Sparse float32 rows take a short cut to the kernels."""
    X = sp.random_array((20, 300), density=0.1, format="csr", dtype=np.float32, rng=np.random.default_rng(0))
    model = kind(random_state=0).fit(X, np.arange(20) % 3)
    expected = model.predict_topk(X.astype(float), 2)
    for form in (sp.csr_array, sp.csr_matrix, sp.csc_array):
        for got, want in zip(model.predict_topk(form(X), 2), expected, strict=True):
            np.testing.assert_array_equal(got, want)
    bad = X.copy()
    bad.data[3] = np.nan
    for rows, message in ((bad, "NaN"), (X[:, :299], "features"), (X[:0], "0 sample")):
        with pytest.raises(ValueError, match=message):
            model.predict(rows)


def test_rows_that_look_ready_are_checked_before_they_are_learned(kind):
    """Float32 rows with an array of labels take a short cut to the kernels, too, and it leads to the same model."""
    X = sp.random_array((20, 300), density=0.1, format="csr", dtype=np.float32, rng=np.random.default_rng(0))
    y = np.arange(20) % 3
    for rows in (X, X.toarray()):
        usual = kind(random_state=0).partial_fit(rows, y).partial_fit(rows.astype(float), y.tolist())
        model = kind(random_state=0).partial_fit(rows, y).partial_fit(rows, y)
        before = bytes_of(model)
        assert before == bytes_of(usual)
        bad = rows.copy()
        (bad.data if sp.issparse(bad) else bad.ravel())[3] = np.nan
        for wrong, labels, message in (
            (bad, y, "NaN"),
            (rows[:, :299], y, "features"),
            (rows, y[:19], "inconsistent numbers"),
            (rows[:0], y[:0], "0 sample"),
            (rows, y.astype(str), "Labels are text"),
        ):
            with pytest.raises(ValueError, match=message):
                model.partial_fit(wrong, labels)
            assert bytes_of(model) == before


# -- odd but good ----------------------------------------------------------------------------------------------


UNITS = [1e-20, 1e20]


@pytest.mark.parametrize("factor", UNITS)
def test_any_unit_will_do(kind, blobs, factor):
    X, y = blobs
    assert kind(random_state=0, n_epochs=5).fit(X * factor, y).score(X * factor, y) > 0.9
    online = kind(random_state=0)
    for _ in range(5):
        online.partial_fit(X * factor, y)
    assert online.score(X * factor, y) > 0.9


@pytest.mark.parametrize("factor", UNITS)
@pytest.mark.parametrize("options", [{"learner": "sgd"}, {"rank": 8}], ids=str)
def test_any_unit_will_do_for_any_learner(epoch_kind, blobs, factor, options):
    if "rank" in options and epoch_kind is RecallTreeClassifier:
        options = {"path_features": "crossed"}
    elif "rank" in options and epoch_kind is not OneAgainstAllClassifier:
        options = {"loss": "logistic"}
    X, y = blobs
    model = epoch_kind(random_state=0, n_epochs=5, **options).fit(X * factor, y)
    assert model.score(X * factor, y) > 0.9


def test_each_feature_may_have_a_unit_of_its_own(epoch_kind, blobs):
    """Not so with a label tree, whose labels lie where their mean rows point to."""
    X, y = blobs
    X = X * np.array([1e6, 1, 1, 1, 1e-6])
    assert epoch_kind(random_state=0, n_epochs=5).fit(X, y).score(X, y) > 0.9


def test_rows_of_zeros_and_constant_columns(kind):
    X = np.zeros((40, 3))
    X[::2, 1] = 1.0
    model = kind(random_state=0).fit(X, np.arange(40) % 2)
    assert model.score(X, np.arange(40) % 2) == 1.0
    assert not np.isnan(model.predict_topk(np.zeros((3, 3)), 2)[1]).any()


def test_read_only_and_mapped_inputs(kind, blobs, tmp_path):
    X, y = blobs
    single = X.astype(np.float32)
    np.save(tmp_path / "rows.npy", single)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    expected = kind(random_state=0, n_epochs=1).fit(single, y)
    model = kind(random_state=0, n_epochs=1).fit(mapped, y)
    assert bytes_of(model) == bytes_of(expected)
    np.testing.assert_array_equal(model.predict(mapped), expected.predict(single))


def test_data_frames_bring_names(kind, blobs):
    pandas = pytest.importorskip("pandas")
    X, y = blobs
    frame = pandas.DataFrame(X, columns=list("abcde"))
    model = kind(random_state=0, n_epochs=1).fit(frame, pandas.Series(y))
    assert model.feature_names_in_.tolist() == list("abcde")
    np.testing.assert_array_equal(model.predict(frame), kind(random_state=0, n_epochs=1).fit(X, y).predict(X))
    before = bytes_of(model)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame.rename(columns={"a": "z"}))
    with pytest.raises(ValueError, match="feature names"):
        model.partial_fit(frame[list("bacde")], y)
    assert bytes_of(model) == before


def test_lists_and_integers(kind):
    model = kind(random_state=0).fit([[0, 1], [1, 0], [0, 2], [2, 0]], ["a", "b", "a", "b"])
    assert model.predict([[0, 3]]).tolist() == ["a"]


@pytest.mark.parametrize("kind", [">i4", ">f8", np.float16])
def test_a_matrix_of_labels_may_have_any_type_of_numbers(kind):
    Y = np.array([[1, 0], [0, 1], [1, 1], [0, 0], [1, 0]])
    models = [LabelTreeClassifier(random_state=0).fit(X_GOOD, one) for one in (Y, Y.astype(kind))]
    assert bytes_of(models[0]) == bytes_of(models[1])


@pytest.mark.parametrize("propensity", [{}, "x", [object()]])
def test_propensities_that_are_no_numbers(propensity):
    model = LabelTreeClassifier(random_state=0).fit(X_GOOD, Y_GOOD)
    with pytest.raises(ValueError, match="propensity must have one number for each class"):
        model.predict_topk(X_GOOD, 1, propensity=propensity)


FLAGS = {
    "sparse": lambda model, value: model.predict_proba(X_GOOD, sparse=value),
    "probabilities": lambda model, value: model.predict_topk(X_GOOD, probabilities=value),
    "by_class": lambda model, value: model.conformal(X_GOOD, Y_GOOD, by_class=value),
    "slim": lambda model, value: model.save("unused.model", slim=value),
    "multilabel": lambda model, value: model.estimate_memory(3, 3, multilabel=value),
    "distinctive": lambda model, value: model.topics(distinctive=value),
    "mmap": lambda model, value: load_model("unused.model", mmap=value),
    "verify": lambda model, value: load_model("unused.model", verify=value),
}


@pytest.mark.parametrize("name", FLAGS)
@pytest.mark.parametrize("value", ["x", 2, np.eye(2)], ids=str)
def test_flags_are_true_or_false(name, value):
    model = SpectralTreeClassifier(random_state=0).fit(X_GOOD, Y_GOOD)
    with pytest.raises(ValueError, match=f"{name} must be True or False, got "):
        FLAGS[name](model, value)


@pytest.mark.parametrize(
    ("kind", "method"),
    [(kind, method) for kind in ESTIMATORS.values() for method in ("tree_table", "balance") if hasattr(kind(), method)],
)
@pytest.mark.parametrize("value", ["x", -1, 1.5, [1, 2], np.eye(2)], ids=str)
def test_a_depth_is_a_level(kind, method, value):
    model = kind(random_state=0).fit(X_GOOD, Y_GOOD)
    with pytest.raises(ValueError, match="max_depth must be an integer of at least 0, got "):
        getattr(model, method)(value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sparse": "x"}, "sparse must be True or False"),
        ({"n_features": 10**30}, "n_features must be an integer from 1 to 2147483647"),
        ({"n_classes": 10**30}, "n_classes must be an integer from 1 to 2147483647"),
    ],
)
def test_sizes_that_no_model_can_have(kind, arguments, message):
    with pytest.raises(ValueError, match=message):
        kind().estimate_memory(**{"n_features": 3, "n_classes": 3} | arguments)


def test_labels_per_row_are_a_number_even_without_rows():
    with pytest.raises(ValueError, match="n_labels must be a number above 0"):
        LabelTreeClassifier().estimate_memory(3, 3, n_labels="x")


def test_dates_are_no_weights():
    with pytest.raises(ValueError, match="sample_weight must have one number for each row of X: dates or times"):
        LomTreeClassifier().partial_fit(X_GOOD, Y_GOOD, sample_weight=np.datetime64("2020-01-01"))


@pytest.mark.parametrize("path", [0, None, 1.5])
def test_a_path_is_no_number(path):
    with pytest.raises(TypeError, match="expected str, bytes or"):
        load_model(path)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_weights_of_any_ratio_give_finite_models(kind, blobs, form, recwarn):
    """Rows of small weight may be lost, but nothing may overflow: not even if all weights are the smallest float."""
    X, y = blobs
    X = form(np.abs(X) if form is sp.csr_array else X)
    if form is sp.csr_array:
        X = sp.csr_array(sp.hstack([X, sp.csr_array((len(y), 300))]))  # wide rows stay sparse
    heavy = np.arange(len(y)) % 5 > 0
    for weights in (np.where(heavy, 1e9, 1e-9), np.full(len(y), 5e-324)):
        model = kind(random_state=0, n_epochs=2).fit(X, y, sample_weight=weights)
        assert np.isfinite(model.predict_proba(X)).all()
        assert np.mean(model.predict(X)[heavy] == y[heavy]) > 0.9
    assert not [str(one.message) for one in recwarn if one.category is RuntimeWarning]
