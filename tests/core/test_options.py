"""Weights, early stopping, progress and memory: the options that several estimators share."""

import inspect
import re

import numpy as np
import pytest

from manyclass import (
    SGD,
    LabelTreeClassifier,
    LomTreeClassifier,
    MlomTreeClassifier,
    OneAgainstAllClassifier,
    RecallTreeClassifier,
)

from .test_streams import bytes_of


def test_class_weights_are_sample_weights(kind, many):
    X, y = many
    weights = np.where(y == 3, 2.5, np.where(y == 7, 0.0, 1.0))
    by_class = kind(random_state=0, n_epochs=1, class_weight={3: 2.5, 7: 0.0}).fit(X, y)
    by_row = kind(random_state=0, n_epochs=1).fit(X, y, sample_weight=weights)
    assert bytes_of(by_class) == bytes_of(by_row)
    streamed = kind(random_state=0, class_weight={3: 2.5, 7: 0.0}).partial_fit(X, y)
    assert bytes_of(streamed) == bytes_of(kind(random_state=0).partial_fit(X, y, sample_weight=weights))


def test_balanced_weights_do_not_count_rows_without_weight(kind, many):
    X, y = many
    weights = np.where(np.arange(len(y)) % 3 == 0, 0.0, 1.0)
    counts = np.bincount(y, weights)
    balanced = kind(random_state=0, n_epochs=1, class_weight="balanced").fit(X, y, weights)
    by_row = weights * (counts.sum() / (np.count_nonzero(counts) * np.maximum(counts, 1)))[y]
    assert bytes_of(balanced) == bytes_of(kind(random_state=0, n_epochs=1).fit(X, y, by_row))
    with pytest.raises(ValueError, match="at least one non-zero"):
        kind(class_weight="balanced").fit(X, y, np.zeros(len(y)))


def test_balanced_weights(kind, many):
    X, y = many
    counts = np.bincount(y)
    balanced = kind(random_state=0, n_epochs=1, class_weight="balanced").fit(X, y)
    weights = len(y) / (150 * counts[y])
    assert bytes_of(balanced) == bytes_of(kind(random_state=0, n_epochs=1).fit(X, y, sample_weight=weights))


def test_balanced_weights_need_all_labels(kind, many):
    with pytest.raises(ValueError, match="works in fit only"):
        kind(class_weight="balanced").partial_fit(*many)


@pytest.mark.parametrize("kind", [RecallTreeClassifier, OneAgainstAllClassifier, LabelTreeClassifier])
def test_a_heavy_class_wins_where_classes_overlap(kind):
    """Not for online trees: a router with equal rows and different targets changes its mind with every row."""
    X = np.ones((200, 2))
    y = np.arange(200) % 2
    for heavy in (0, 1):
        model = kind(random_state=0, class_weight={heavy: 20.0}, n_epochs=3).fit(X, y)
        assert model.predict(X[:1]).tolist() == [heavy]


def test_history_tells_every_epoch(epoch_kind, blobs):
    model = epoch_kind(random_state=0, n_epochs=3).fit(*blobs)
    assert [record["epoch"] for record in model.history_] == [1, 2, 3]
    errors = [record["progressive_error"] for record in model.history_]
    assert errors[0] > errors[2]
    assert all(0.0 <= error <= 1.0 for error in errors)
    assert model.n_epochs_ == 3
    assert "validation_accuracy" not in model.history_[0]


def test_early_stopping_keeps_the_best_epoch(epoch_kind, blobs):
    X, y = blobs
    X = X + np.random.default_rng(0).normal(scale=3.0, size=X.shape)  # overlapping classes: later epochs are not better
    model = epoch_kind(random_state=0, n_epochs=40, early_stopping=True).fit(X, y)
    accuracy = [record["validation_accuracy"] for record in model.history_]
    best = accuracy.index(max(accuracy))
    assert len(accuracy) == best + 1 + 2 < 40
    assert model.n_epochs_ == best + 1
    same = epoch_kind(random_state=0, n_epochs=best + 1, early_stopping=True).fit(X, y)
    assert bytes_of(model) == bytes_of(same)


def test_held_out_rows_are_not_learned(epoch_kind, blobs):
    X, y = blobs
    model = epoch_kind(random_state=0, n_epochs=1, early_stopping=True).fit(X, y)
    assert model._state["seen"].n_rows[0] == 432
    with pytest.raises(ValueError, match="early_stopping requires at least 2 rows"):
        epoch_kind(early_stopping=True)._hold_out(np.ones(1), None)


def test_rows_without_weight_do_not_choose_the_epoch(epoch_kind, blobs):
    X, y = blobs
    more = np.concatenate([X, X[:200]]), np.concatenate([y, y[:200][::-1]])
    weights = np.repeat([1.0, 0.0], [len(y), 200])
    models = [
        epoch_kind(random_state=0, n_epochs=5, early_stopping=True).fit(X, y),
        epoch_kind(random_state=0, n_epochs=5, early_stopping=True).fit(*more, sample_weight=weights),
    ]
    assert [one["validation_accuracy"] for one in models[0].history_] == [
        one["validation_accuracy"] for one in models[1].history_
    ]


def test_a_learning_rate_may_decay_to_nothing(epoch_kind, blobs):
    X, y = blobs
    model = epoch_kind(random_state=0, n_epochs=120, learner=SGD(decay=1e-3)).fit(X[:50], y[:50])
    assert model.n_epochs_ == 120


def test_small_first_values_do_no_harm(kind):
    """A feature that starts with small noise and shows its true size later must not be learned for good as noise."""
    rng = np.random.default_rng(0)
    y = np.concatenate([np.arange(4), rng.integers(0, 4, 116)])
    X = 4 * np.eye(4)[y] + 0.3 * rng.standard_normal((120, 4))
    options = {} if kind is LabelTreeClassifier else {"shuffle": False}  # it draws an order for each node
    for order in (np.arange(120), np.argsort(y, kind="stable"), rng.permutation(120)):
        model = kind(random_state=0, n_epochs=10, **options).fit(X[order], y[order])
        assert model.score(X, y) > 0.97


def test_progress_goes_to_standard_error_only(kind, blobs, capfd):
    kind(random_state=0, n_epochs=2, verbose=1).fit(*blobs)
    printed = capfd.readouterr()
    assert printed.out == ""
    if kind is LabelTreeClassifier:  # node after node: it has no error to tell
        assert "480/480 rows" in printed.err
    else:
        assert "epoch 2/2" in printed.err
        assert "progressive error" in printed.err
    kind(random_state=0, n_epochs=1).fit(*blobs)
    assert capfd.readouterr() == ("", "")


def test_verbose_changes_no_byte(kind, blobs, capfd):
    loud = kind(random_state=0, n_epochs=2, verbose=1).fit(*blobs)
    assert bytes_of(loud) == bytes_of(kind(random_state=0, n_epochs=2).fit(*blobs))


MODELS = [
    RecallTreeClassifier(),
    RecallTreeClassifier(beam=1),
    RecallTreeClassifier(path_features="bias", beam=2),
    RecallTreeClassifier(path_features="stop", beam=2),
    RecallTreeClassifier(learner="sgd"),
    RecallTreeClassifier(table_bits=10),
    OneAgainstAllClassifier(),
    OneAgainstAllClassifier(rank=4),
    OneAgainstAllClassifier(learner="sgd", table_bits=12),
    LabelTreeClassifier(neighbors=False),
    LabelTreeClassifier(arity=4, n_trees=2),
    LabelTreeClassifier(arity=20, C=3.0, neighbors=False),
    LomTreeClassifier(nodes_per_class=4),
    MlomTreeClassifier(guests=False),
    MlomTreeClassifier(nodes_per_class=4),
    LomTreeClassifier(learner="sgd", table_bits=10, nodes_per_class=2),
]


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_estimate_of_memory_is_near_the_truth(model, many):
    X, y = many
    model = model.set_params(random_state=0, n_epochs=3)
    online_tree = isinstance(model, (LomTreeClassifier, MlomTreeClassifier))
    takes_rows = online_tree or isinstance(model, RecallTreeClassifier)
    estimate = model.estimate_memory(X.shape[1], 150, **({"n_rows": len(y)} if takes_rows else {}))
    actual = model.fit(X, y).n_bytes_
    # The classes are easy to separate, so that few leaves of the online trees split; see test_online_trees.py.
    assert 0.5 <= estimate / actual <= (3.0 if online_tree else 2.0)


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_estimate_of_memory_grows(model):
    by_classes = [model.estimate_memory(100, n) for n in (2, 30, 500, 10_000, 10**6)]
    assert by_classes == sorted(by_classes)
    assert by_classes[0] > 0
    by_features = [model.estimate_memory(n, 500) for n in (1, 10, 100, 1000)]
    assert by_features == sorted(by_features)


def test_memory_for_a_matrix_counts_its_trees(blobs):
    model = LabelTreeClassifier(arity=4, beam=2)
    one, two = (model.set_params(n_trees=n).estimate_memory(5, 12) for n in (1, 2))
    assert one < two == model.estimate_memory(5, 12, multilabel=True)
    X, y = blobs
    fitted = LabelTreeClassifier(arity=4, beam=2, random_state=0).fit(X, np.eye(12)[y])
    assert fitted.estimate_memory(5, 12) == one
    assert 0.5 <= one / fitted.n_bytes_ <= 2.0


def test_paths_say_less_where_they_reach_every_leaf(blobs):
    X, y = blobs
    for beam, prior in ((2, 0.5), (3, 0.2)):  # 12 labels in 3 leaves
        clf = LabelTreeClassifier(arity=4, beam=beam, random_state=0).fit(X, np.eye(12)[y])
        assert len({row["node"] for row in clf.tree_table() if len(row["labels"])}) == 3
        assert clf._options.prior == prior


@pytest.mark.parametrize("n_labels", range(5, 70, 3))
def test_paths_said_to_reach_every_leaf_do(n_labels, blobs):
    X, _ = blobs
    Y = np.arange(len(X))[:, None] % n_labels == np.arange(n_labels)
    for beam in (2, 3, 4, 7, 10, 20, 40):
        clf = LabelTreeClassifier(arity=4, beam=beam, n_epochs=1, random_state=0).fit(X, Y)
        n_leaves = sum(len(row["labels"]) > 0 for row in clf.tree_table())
        assert n_leaves <= beam or not clf._reaches_all()


def test_many_labels_per_row_learn_less_and_trust_the_paths_more(blobs):
    X, _ = blobs
    for n_true, expected in ((5, (1.0, 0.5)), (10, (0.5, 0.5 * 2**0.5)), (40, (0.125, 1.0))):
        Y = np.zeros((len(X), 60))
        Y[:, :n_true] = 1
        config = LabelTreeClassifier(beam=2, random_state=0).fit(X, Y)._options
        assert (config.rate, config.prior) == pytest.approx(expected)
    assert LabelTreeClassifier(beam=2).partial_fit(X, Y)._options.rate == 1.0


def test_messages_and_docstrings_name_both_limits(kind):
    """Of every option that is a number."""
    words = dict(re.findall(r"\n(\w+) : (.*?)(?=\n\w|\Z)", inspect.getdoc(kind), re.DOTALL))
    for name, constraint in kind._constraints.items():
        if constraint.kind in (None, bool):
            continue
        low, high = constraint.low, constraint.high
        bounded = high != float("inf")
        limit = f"from {low:.12g} to {high:.12g}" if bounded else f"of at least {low:.12g}"
        for value in [low - 1, "many", True] + ([high + 1] if bounded else []):
            with pytest.raises(ValueError, match=re.escape(f" {limit}")) as caught:
                kind(**{name: value}).estimate_memory(3, 3)
            assert str(caught.value).startswith(f"{name} must be ") and str(caught.value).endswith(f"got {value!r}.")
        if bounded:
            limits = rf"{low:g} .*to {high:,.10g}(?![\d,]*\d)".replace("e-09", "e-9")
            assert re.search(limits, " ".join(words[name].split())), name


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [(RecallTreeClassifier, "beam", 1), (LabelTreeClassifier, "beam", 1), (LabelTreeClassifier, "prior", 2.0)],
)
def test_options_of_predictions_change_at_once(kind, many, name, value):
    X, y = many
    options = {"n_candidates": 6} if kind is RecallTreeClassifier else {"arity": 4}
    model = kind(random_state=0, n_epochs=2, **options).fit(X, y)
    before, trained = bytes_of(model), model.predict_topk(X, 3)
    report = model.diagnose(X, y)
    model.set_params(**{name: value})
    scores = model.predict_topk(X, 3)[1]
    assert not np.array_equal(scores, trained[1])
    if name == "beam":
        assert model.diagnose(X, y)["candidates_scored"] < report["candidates_scored"]
        assert model.candidates(X).sum() == pytest.approx(model.diagnose(X, y)["candidates_scored"] * len(y))
        assert model.decision_path(X).sum() <= model.diagnose(X, y)["nodes_visited"] * len(y) + 0.5
    assert bytes_of(model) == before
    model.set_params(**{name: -1})
    for method in (model.predict, model.predict_topk, model.predict_proba, model.candidates, model.decision_path):
        with pytest.raises(ValueError, match=f"{name} must be"):
            method(X)
    model.set_params(**{name: kind().get_params()[name]})
    np.testing.assert_array_equal(model.predict_topk(X, 3)[1], trained[1])


@pytest.mark.parametrize("n", [0, -3, 2.5, "7", None])
def test_sizes_must_be_integers(kind, n):
    with pytest.raises(ValueError, match="n_features must be an integer"):
        kind().estimate_memory(n, 5)
    with pytest.raises(ValueError, match="n_classes must be an integer"):
        kind().estimate_memory(5, n)


@pytest.mark.parametrize("n", [10**30, 10**400])
def test_integers_that_are_too_large_for_a_float(n):
    y = [0, 1, 2]
    for wrong in ({"start": n}, {"class_weight": {0: n}}, {"prior": n}):
        with pytest.raises(ValueError, match=f"{next(iter(wrong))} must be"):
            LabelTreeClassifier(**wrong).fit(np.eye(3), y)
    with pytest.raises(ValueError, match="rate must be"):
        SGD(rate=n)
    model = LabelTreeClassifier(random_state=0, max_memory=f"{n}GB").fit(np.eye(3), y)
    with pytest.raises(ValueError, match="reject must be"):
        model.predict(np.eye(3), reject=n)
    assert model.set_params(max_memory=n).fit(np.eye(3), y).predict(np.eye(3)).tolist() == y


class Smaller(int):
    """A number that says to be larger than it is."""

    def __float__(self):
        return 4.0


@pytest.mark.parametrize("value", [Smaller(0), np.int64(0), 0])
def test_integers_are_compared_as_they_are_used(value):
    with pytest.raises(ValueError, match="beam must be an integer"):
        RecallTreeClassifier(beam=value).partial_fit(np.eye(3), [0, 1, 2])
