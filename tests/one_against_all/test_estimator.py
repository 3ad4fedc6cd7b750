"""One-against-all equals its reference; its faster forms learn."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from manyclass import OneAgainstAllClassifier
from tests.reference.one_against_all import OneAgainstAll
from tests.reference.streams import LEARNERS


@settings(max_examples=25)
@given(
    seed=st.integers(0, 10**6),
    n_labels=st.integers(1, 20),
    wide=st.booleans(),
    loss=st.sampled_from(["softmax", "logistic"]),
    learner=st.sampled_from(list(LEARNERS)),
)
def test_kernel_equals_reference(seed, n_labels, wide, loss, learner):
    rng = np.random.default_rng(seed)
    n_features = 270 if wide else 4
    X = rng.standard_normal((60, n_features)) * (rng.random((60, n_features)) < (0.03 if wide else 0.8))
    X = X.astype(np.float32)
    y, weights = rng.integers(0, n_labels, 60), rng.choice([0.0, 0.6, 1.0, 1.7], 60)
    rows = sp.csr_array(X) if wide else X
    model = OneAgainstAllClassifier(loss=loss, learner=LEARNERS[learner], random_state=0)
    model.partial_fit(rows, y, classes=np.arange(n_labels), sample_weight=weights)
    plain = OneAgainstAll(n_features, loss=loss, learner=(learner, LEARNERS[learner].rate))
    for x, label, weight in zip(X.astype(float), y, weights, strict=True):
        plain.learn(x, label, weight)
    assert model._state["seen"].wrong_mass[0] == pytest.approx(plain.wrong_mass)
    labels, scores = model.predict_topk(rows, n_labels)
    expected = np.array([plain.scores(x) for x in X.astype(float)])
    got = np.full((60, n_labels), np.nan)
    np.put_along_axis(got, labels, scores, axis=1)
    np.testing.assert_allclose(got[:, : expected.shape[1]], expected, rtol=1e-3, atol=1e-4)
    assert np.all(got[:, expected.shape[1] :] == -np.inf)


def test_batch_prediction_equals_a_loop(flat, many):
    X = many[0][900:]
    weight, bias = flat._state["columns"].weight[:, :150], flat._state["columns"].bias[:150]
    loop = np.array([x @ weight + bias for x in X.astype(np.float32)])
    labels, scores = flat.predict_topk(X, 150)
    np.testing.assert_allclose(scores, -np.sort(-loop, axis=1), rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(labels[:, 0], flat.predict(X))
    assert np.mean(flat.classes_[loop.argmax(axis=1)] == flat.predict(X)) > 0.99
    one_by_one = np.concatenate([flat.predict(X[r : r + 1]) for r in range(300)])
    assert np.mean(one_by_one == flat.predict(X)) > 0.99


@pytest.mark.parametrize(
    "options",
    [{}, {"loss": "logistic"}, {"n_negatives": 2}, {"n_negatives": 4, "loss": "logistic"}, {"rank": 12},
     {"rank": 12, "n_negatives": 3}, {"learner": "sgd"}, {"learner": "adagrad"}, {"table_bits": 9}],
    ids=str,
)  # fmt: skip
def test_every_form_learns_digits(digits, options):
    X, y = digits[0] / 16, digits[1]
    model = OneAgainstAllClassifier(random_state=0, n_epochs=5, **options).fit(X[:1400], y[:1400])
    # 64 features hashed into 2**9 / 16 lines: half of them share one
    assert model.score(X[1400:], y[1400:]) > (0.6 if "table_bits" in options else 0.8)
    if "rank" in options:
        assert model._state["columns"].weight.shape[0] == 12


def test_probabilities_candidates_and_paths(flat, many):
    X, y = many[0][900:], many[1][900:]
    chances = flat.predict_proba(X)
    np.testing.assert_allclose(chances.sum(axis=1), 1.0, rtol=1e-4)
    assert np.mean(flat.classes_[chances.argmax(axis=1)] == flat.predict(X)) > 0.99
    assert flat.candidates(X).sum() == 300 * 150
    assert flat.decision_path(X).shape == (300, 0)
    report = flat.diagnose(X, y)
    assert report["recall"] == 1.0
    assert (report["depth"], report["routers_scored"]) == (0.0, 0.0)
    assert report["work"] == report["candidates_scored"] == 150.0
    assert report["accuracy"] == pytest.approx(flat.score(X, y))


def test_classes_announced_but_not_met_come_last():
    X = np.eye(3)
    model = OneAgainstAllClassifier(random_state=0).partial_fit(X, [0, 1, 2], classes=range(6))
    labels, scores = model.predict_topk(X, 6)
    assert np.all(np.sort(labels, axis=1) == np.arange(6))
    assert np.all(np.isfinite(scores[:, :3]))
    assert np.all(scores[:, 3:] == -np.inf)
    assert model.predict_proba(X).shape == (3, 6)


@pytest.mark.parametrize("loss", ["softmax", "logistic"])
def test_few_negatives_of_many_classes(loss):
    """Each stands for 250 classes: steps of 250 times the length would ruin the model."""
    rng = np.random.default_rng(0)
    centres, y = rng.standard_normal((500, 32)), rng.integers(0, 500, 10_000)
    X = centres[y] + 0.3 * rng.standard_normal((len(y), 32))
    model = OneAgainstAllClassifier(random_state=0, loss=loss, n_negatives=2, n_epochs=3).fit(X[:8000], y[:8000])
    assert model.score(X[8000:], y[8000:]) > 0.8


def test_negatives_leave_the_progressive_error_open(digits):
    X, y = digits
    with_all = OneAgainstAllClassifier(random_state=0, n_epochs=1).fit(X, y)
    assert 0.0 < with_all.history_[0]["progressive_error"] < 0.5
    assert with_all.progressive_error_ == with_all.history_[0]["progressive_error"]
    drawn = OneAgainstAllClassifier(random_state=0, n_epochs=1, n_negatives=3).fit(X, y)
    assert np.isnan(drawn.history_[0]["progressive_error"])
