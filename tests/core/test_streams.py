"""The same stream gives the same bytes, however it is cut, weighted with zeros or stored."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import make_blobs

from manyclass import (
    SGD,
    LabelTreeClassifier,
    LomTreeClassifier,
    MlomTreeClassifier,
    OneAgainstAllClassifier,
    RecallTreeClassifier,
)
from manyclass.core.learners import TEXT_FEATURES
from manyclass.core.replay import packed
from manyclass.core.state import flatten

TREES = {
    "default": {},
    "paper": {"beam": 1, "loss": "logistic", "path_features": "bias"},
    "crossed": {"path_features": "crossed", "beam": 2},
    "hashed": {"table_bits": 9, "path_features": "stop"},
    "bernstein": {"bernstein": 0.5},
    "sgd": {"learner": SGD(rate=0.5)},
}
FLAT = {"default": {}, "hashed": {"table_bits": 10}, "negatives": {"n_negatives": 3}, "rank": {"rank": 4}}
LOM_TREES = {
    "default": {},
    "paper": {"loss": "absolute", "split_mass": 0, "swap": False, "descent": "target"},
    "swapping": {"nodes_per_class": 1, "swap_resistance": 0.1, "split_mass": 1},
    "hashed": {"table_bits": 9, "learner": SGD(rate=0.5), "loss": "logistic"},
}
MLOM_TREES = {
    "default": {},
    "paper": {"centre": "median", "guests": False},
    "mean": {"centre": "mean", "learner": "sgd"},
    "hashed": {"table_bits": 9, "max_depth": 4},
}
LABEL_TREES = {"default": {}, "deep": {"arity": 4, "beam": 2}, "wide": {"arity": 20}}


def cases(kind, name, all_options):
    return [pytest.param(kind, options, id=f"{name}-{n}") for n, options in all_options.items()]


EPOCHS = [
    *cases(RecallTreeClassifier, "tree", TREES),
    *cases(OneAgainstAllClassifier, "one-against-all", FLAT),
    *cases(LomTreeClassifier, "lom-tree", LOM_TREES),
    *cases(MlomTreeClassifier, "mlom-tree", MLOM_TREES),
]
each_in_epochs = pytest.mark.parametrize(("kind", "options"), EPOCHS)
each = pytest.mark.parametrize(("kind", "options"), EPOCHS + cases(LabelTreeClassifier, "label-tree", LABEL_TREES))


def bytes_of(model):
    """All of a model: its arrays byte for byte, and its labels."""
    state = dict(model._state)
    if "replay" in state:  # its capacity depends on the batches, its contents do not
        state["replay"] = packed(state["replay"], len(model.classes_))
    arrays = {name: (array.shape, array.tobytes()) for name, array in flatten(state).items()}
    return arrays | {"classes": model.classes_.tolist()}


def stream(model, X, y, cuts, weights=None):
    """Learn a stream in pieces."""
    edges = [0, *sorted(cuts), len(y)]
    for begin, end in itertools.pairwise(edges):
        if begin < end:
            part = slice(begin, end)
            model.partial_fit(X[part], y[part], sample_weight=None if weights is None else weights[part])
    return model


@each
def test_same_seed_same_bytes(kind, options, many):
    X, y = many
    models = [kind(random_state=7, n_epochs=2, **options).fit(X, y) for _ in range(2)]
    assert bytes_of(models[0]) == bytes_of(models[1])
    other = kind(random_state=8, n_epochs=2, **options).fit(X, y)
    assert bytes_of(models[0]) != bytes_of(other)


# scikit-learn warns of small batches with many labels, as any cut of this stream has
@pytest.mark.filterwarnings("ignore:The number of unique classes is greater than 50%:UserWarning")
@each
def test_cutting_a_stream_changes_nothing(kind, options, many):
    X, y = many
    whole = bytes_of(stream(kind(random_state=1, **options), X, y, []))
    for cuts in ([1], [600], [13, 14, 170, 171, 599, 610, 1199]):
        assert bytes_of(stream(kind(random_state=1, **options), X, y, cuts)) == whole


@pytest.mark.filterwarnings("ignore:The number of unique classes is greater than 50%:UserWarning")
@settings(max_examples=15)
@given(
    cuts=st.lists(st.integers(1, 1199), max_size=6),
    case=st.sampled_from([case.values for case in EPOCHS + cases(LabelTreeClassifier, "label-tree", LABEL_TREES)]),
)
def test_any_cut_changes_nothing(many_again, cuts, case):
    (X, y), (kind, options) = many_again, case
    whole = stream(kind(random_state=1, **options), X, y, [])
    assert bytes_of(stream(kind(random_state=1, **options), X, y, cuts)) == bytes_of(whole)


@pytest.fixture(scope="module")
def many_again(many):
    """`many` for hypothesis, which wants fixtures that outlive its examples."""
    return many


def test_the_stream_outgrows_every_first_size(many):
    """Otherwise the tests of cuts would say nothing about growth."""
    X, y = many
    options = {"table_bits": 9, "path_features": "stop"}
    start = RecallTreeClassifier(random_state=1, **options).partial_fit(X[:3], y[:3])
    before = {name: array.shape for name, array in flatten(start._state).items()}
    assert start._state["scorer"].mask[0] == 0
    start.partial_fit(X[3:], y[3:])
    after = {name: array.shape for name, array in flatten(start._state).items()}
    grown = {name.split(".")[0] for name in after if after[name] != before[name]}
    assert {"tree", "router", "scorer", "path", "candidates", "table"} <= grown
    assert start._state["scorer"].mask[0] == 2**9 - 1


@each_in_epochs
def test_fit_without_shuffle_is_one_pass_of_partial_fit(kind, options, many):
    """On text. Of other rows, `fit` measures all columns first."""
    X, y = many
    X = sp.csr_array(np.pad(X, ((0, 0), (0, TEXT_FEATURES))))
    fitted = kind(random_state=3, shuffle=False, n_epochs=1, **options).fit(X, y)
    streamed = kind(random_state=3, replay=False, **options).partial_fit(X, y, classes=np.unique(y))
    assert bytes_of(fitted) == bytes_of(streamed)


@pytest.mark.parametrize(("kind", "options"), EPOCHS + cases(LabelTreeClassifier, "label-tree", LABEL_TREES))
def test_rows_of_weight_zero_are_not_there(kind, options, many):
    X, y = many
    weights = np.random.default_rng(0).integers(0, 3, len(y)) / 2
    kept = weights > 0
    model = kind(random_state=3, **options).partial_fit(X, y, classes=np.unique(y), sample_weight=weights)
    without = kind(random_state=3, **options)
    without.partial_fit(X[kept], y[kept], classes=np.unique(y), sample_weight=weights[kept])
    assert bytes_of(model) == bytes_of(without)


def test_narrow_sparse_rows_are_the_same_bytes(kind, many):
    X, y = many
    X = np.where(np.abs(X) > 2, X, 0)
    dense = kind(random_state=3).partial_fit(X, y)
    for form in (sp.csr_matrix, sp.csr_array, sp.coo_array, sp.csc_matrix):
        sparse = kind(random_state=3).partial_fit(form(X), y)
        assert bytes_of(sparse) == bytes_of(dense)
    np.testing.assert_array_equal(sparse.predict(sp.csr_array(X)), dense.predict(X))


@pytest.mark.parametrize(
    ("kind", "options"),
    [(RecallTreeClassifier, {}), (RecallTreeClassifier, TREES["crossed"]), (OneAgainstAllClassifier, {})],
)
def test_wide_sparse_rows_give_the_same_predictions(kind, options):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 10, 300)
    X = np.zeros((300, 400))
    X[np.arange(300)[:, None], 7 * y[:, None] + rng.integers(0, 40, (300, 5))] = rng.random((300, 5)) + 0.5
    dense = kind(random_state=0, n_epochs=2, **options).fit(X, y)
    sparse = kind(random_state=0, n_epochs=2, **options).fit(sp.csr_array(X), y)
    np.testing.assert_allclose(
        dense.predict_topk(X, 3)[1], sparse.predict_topk(sp.csr_array(X), 3)[1], rtol=0.01, atol=0.1
    )
    assert np.mean(dense.predict(X) == sparse.predict(sp.csr_array(X))) > 0.99
    np.testing.assert_array_equal(sparse.predict(X), sparse.predict(sp.csr_array(X)))


def test_float32_and_float64_are_the_same_bytes(kind, many):
    X, y = many
    single = X.astype(np.float32)
    models = [kind(random_state=3).partial_fit(rows, y) for rows in (single, single.astype(float))]
    assert bytes_of(models[0]) == bytes_of(models[1])
    np.testing.assert_array_equal(models[0].predict(single), models[1].predict(np.asfortranarray(single)))


def test_partial_fit_after_fit_goes_on_at_the_last_pace(digits):
    """A full first step on rows that come later would undo what fit had settled."""
    X, y = digits
    model = RecallTreeClassifier(random_state=0, n_epochs=6, learner=SGD(rate=2.0, decay=0.3)).fit(X[:1000], y[:1000])
    before = model._state["scorer"].weight.copy()
    model.partial_fit(X[1000:1010], y[1000:1010])
    gone_on = np.abs(model._state["scorer"].weight - before).max()
    fresh = RecallTreeClassifier(random_state=0, learner=SGD(rate=2.0, decay=0.3))
    fresh.partial_fit(X[1000:1010], y[1000:1010])
    assert gone_on < 0.05 * np.abs(fresh._state["scorer"].weight).max()


def test_the_progressive_error_of_a_stream_is_the_share_predicted_wrongly_before_learning(input_kind, digits):
    X, y = digits
    model, wrong = input_kind(random_state=0), 1  # the first row has no prediction yet
    model.partial_fit(X[:1], y[:1])
    for i in range(1, 60):
        wrong += int(model.predict(X[i : i + 1])[0] != y[i])
        model.partial_fit(X[i : i + 1], y[i : i + 1])
    assert model.progressive_error_ == pytest.approx(wrong / 60)
    whole = input_kind(random_state=0).partial_fit(X[:60], y[:60])
    assert whole.progressive_error_ == model.progressive_error_


@pytest.mark.parametrize(
    "model",
    [OneAgainstAllClassifier(rank=8, random_state=0), OneAgainstAllClassifier(learner="sgd", random_state=0),
     RecallTreeClassifier(learner="sgd", random_state=0)],
    ids=str,
)  # fmt: skip
def test_one_long_row_does_not_change_what_is_typical(model):
    X, y = make_blobs(1500, 10, centers=30, random_state=0)
    long = np.where(np.arange(10) == 3, 1e6, X[:1])
    model.partial_fit(X[:500], y[:500]).partial_fit(long, y[:1]).partial_fit(X[500:1000], y[500:1000])
    assert model._state["scale"].sq_norm[0] / model._state["scale"].n_rows[0] < 2 * np.square(X).sum(axis=1).mean()
    assert model.score(X[1000:], y[1000:]) > 0.8
