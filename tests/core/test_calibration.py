"""Calibration of probabilities: of made-up candidates, and of all estimators."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import make_multilabel_classification

from manyclass import LabelTreeClassifier, ManyClassClassifier, RecallTreeClassifier, SpectralTreeClassifier, load_model
from manyclass.core import calibration
from manyclass.core.model_file import ModelFormatError
from manyclass.core.protocol import Labels, Scored, as_labels
from manyclass.metrics import ece_at_k

METHODS = calibration.METHODS


def candidates(n: int, several: bool, seed: int) -> tuple[Scored, Labels]:
    """Candidates whose probabilities are far too extreme; one in ten true labels is not among them."""
    rng = np.random.default_rng(seed)
    scores = 2 * rng.standard_normal((n, 12))
    sizes = rng.integers(2, 13, n)
    scores[np.arange(12) >= sizes[:, None]] = -np.inf
    if several:
        true, given = 1 / (1 + np.exp(-scores + 1)), 1 / (1 + np.exp(-3 * scores))
        chosen = rng.random((n, 12)) < true
        chosen[:, 0] |= rng.random(n) < 0.1
        truth = Labels(np.concatenate([[0], np.cumsum(chosen.sum(axis=1))]), np.nonzero(chosen)[1])
    else:
        chances, given = np.exp(scores), np.exp(3 * scores)
        chances /= chances.sum(axis=1, keepdims=True)
        given /= given.sum(axis=1, keepdims=True)
        label = (chances.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=11)
        truth = as_labels(np.where(rng.random(n) < 0.1, -1, label))
    used = np.isfinite(scores)
    return Scored(sizes, np.nonzero(used)[1].astype(np.int32), given[used]), truth


def best_ece(scored: Scored, truth: Labels, probabilities: np.ndarray) -> float:
    best = calibration.best_of(scored.sizes, scored.probabilities)
    hit = calibration.is_true(scored.sizes, scored.labels, truth)[best]
    return ece_at_k(1 - hit.astype(int), np.zeros((len(best), 1), int), probabilities[best, None])


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("method", METHODS)
def test_made_up_candidates_are_calibrated(method, several):
    scored, truth = candidates(4000, several, 0)
    group = calibration.fit(method, calibration.held_out([scored], truth), several)
    new, new_truth = candidates(4000, several, 1)
    probabilities, other = calibration.apply(group, new, several)
    assert best_ece(new, new_truth, new.probabilities) > 0.1
    assert best_ece(new, new_truth, probabilities) < 0.035  # chance alone: about 0.02
    rows = np.repeat(np.arange(4000), new.sizes)
    if not several:
        np.testing.assert_allclose(np.bincount(rows, probabilities) + other, 1, atol=1e-12)
        assert other.mean() == pytest.approx(0.1, abs=0.03)
    # the order of the labels of a row stays as it was
    order = np.lexsort((-new.probabilities, rows))
    same_row = np.diff(rows[order]) == 0
    assert (np.diff(probabilities[order])[same_row] <= 1e-12).all()
    assert (probabilities >= 0).all() and (probabilities <= 1).all() and (other >= 0).all() and (other <= 1).all()


def test_weights_make_held_out_rows_like_new_ones():
    """Label 0 has 50 rows and label 1 four, of which two are held out: half of its rows instead of a tenth."""
    labels = as_labels(np.repeat([0, 1], [50, 4]))
    held = np.array([0, 1, 2, 3, 50, 51])
    weights = calibration.weights_like_new_rows(labels, np.setdiff1d(np.arange(54), held), held)
    np.testing.assert_allclose(weights, [50 / 54 / (4 / 6)] * 4 + [4 / 54 / (2 / 6)] * 2)
    scored = Scored(np.full(6, 2), np.tile([0, 1], 6), np.tile([0.7, 0.3], 6))
    rows = calibration.held_out([scored], labels.rows(held), weights)
    share = 50 / 54  # the logistic part has a row of each kind more
    assert calibration.fit("isotonic", rows, False).best == pytest.approx([(share + (6 * share + 1) / 8) / 2], 1e-4)


def test_few_held_out_rows_give_a_smooth_function():
    """Closer to the true function than an isotonic regression alone, on average over ten draws of 500 rows."""
    at = np.log(np.linspace(0.05, 0.95, 50))
    errors = np.zeros(2)
    for seed in range(10):
        rng = np.random.default_rng(seed)
        p = rng.random(500)
        y = rng.random(500) < p**1.5
        for place, points in enumerate(
            (
                calibration._smooth(np.log(p), y, np.ones(500), 0.002),
                calibration._increasing(np.log(p), y, np.ones(500)),
            )
        ):
            errors[place] += np.abs(np.interp(at, *points) - np.exp(at) ** 1.5).mean() / 10
    assert errors[0] < 0.75 * errors[1]


def test_a_probability_that_says_nothing_or_the_contrary_gives_an_increasing_function():
    p = np.random.default_rng(0).random(400)
    points, values = calibration._smooth(np.log(p), p < 0.3, np.ones(400), 0.01)
    assert (np.diff(points) > 0).all() and (np.diff(values) >= 0).all() and np.ptp(values) < 0.05


@pytest.mark.parametrize("method", METHODS)
def test_rows_are_calibrated_alone_as_together(method):
    scored, truth = candidates(300, False, 2)
    group = calibration.fit(method, calibration.held_out([scored], truth), False)
    together, _ = calibration.apply(group, scored, False)
    ends = np.cumsum(scored.sizes)
    for row in (0, 7, 299):
        own = slice(ends[row] - scored.sizes[row], ends[row])
        alone = Scored(scored.sizes[[row]], scored.labels[own], scored.probabilities[own])
        np.testing.assert_allclose(calibration.apply(group, alone, False)[0], together[own], rtol=1e-12)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("hits", [0, 1])
def test_held_out_rows_that_are_all_right_or_all_wrong(method, hits):
    scored = Scored(np.full(40, 2), np.tile([0, 1], 40), np.tile([0.8, 0.2], 40))
    truth = as_labels(np.zeros(40, int) if hits else np.full(40, -1))
    group = calibration.fit(method, calibration.held_out([scored], truth), False)
    probabilities, other = calibration.apply(group, scored, False)
    assert 0 < other[0] < 1 and 0 < probabilities[0] < 1
    assert probabilities[0] > 0.9 if hits else other[0] > 0.9


def test_rows_without_candidates_are_other():
    scored, truth = candidates(100, False, 3)
    group = calibration.fit("isotonic", calibration.held_out([scored], truth), False)
    empty = Scored(np.array([0, 1]), np.array([3]), np.array([0.5]))
    _, other = calibration.apply(group, empty, False)
    assert other[0] == 1.0 and other[1] < 1.0


# -- estimators ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def noisy():
    """Blobs that overlap."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((12, 5))
    y = rng.integers(0, 12, 900)
    return (centres[y] + 0.5 * rng.standard_normal((900, 5))).astype(np.float32), y


@pytest.fixture(scope="module", params=METHODS)
def calibrated(request, noisy):
    """A Recall Tree and the same one calibrated."""
    X, y = noisy
    plain = RecallTreeClassifier(n_epochs=2, random_state=0).fit(X[:400], y[:400])
    return plain, pickle.loads(pickle.dumps(plain)).calibrate(X[400:600], y[400:600], method=request.param)


def test_calibration_keeps_the_predictions_and_sums_to_one(calibrated, noisy):
    plain, model = calibrated
    X = noisy[0][600:]
    np.testing.assert_array_equal(model.predict(X), plain.predict(X))
    labels, probabilities = model.predict_topk(X, k=5, probabilities=True)
    np.testing.assert_array_equal(labels, plain.predict_topk(X, k=5)[0])
    assert (np.diff(probabilities, axis=1) <= 1e-12).all()
    dense = model.predict_proba(X)
    np.testing.assert_allclose(dense.sum(axis=1) + model.predict_other(X), 1, atol=1e-5)
    np.testing.assert_array_equal(model.predict_proba(X, sparse=True).toarray(), dense)
    np.testing.assert_allclose(np.take_along_axis(dense, labels, axis=1), probabilities, rtol=1e-6)
    assert (plain.predict_other(X) < 1e-9).all()


def test_all_labels_have_the_probabilities_of_predict_proba(noisy):
    X, y = noisy
    model = RecallTreeClassifier(n_candidates=4, n_epochs=2, random_state=0).fit(X[:400], y[:400])
    model.merge_classes({3: 5})
    expected = np.zeros((300, 12))
    for row, (_, labels, values) in enumerate(model._probabilities(X[i : i + 1])[0] for i in range(600, 900)):
        expected[row, labels] = values
    labels, probabilities = model.predict_topk(X[600:], k=11, probabilities=True)
    np.testing.assert_array_equal(probabilities, np.take_along_axis(expected, labels, axis=1))
    assert (probabilities == 0).any()


def test_probabilities_of_many_labels_take_one_pass_over_the_candidates(noisy, monkeypatch):
    passes = []

    class Counted(np.ndarray):
        def __array_ufunc__(self, ufunc, method, *inputs, **options):
            passes.append(ufunc)
            return getattr(ufunc, method)(*map(np.asarray, inputs), **options)

    X, y = noisy
    model = RecallTreeClassifier(random_state=0).fit(X[:400], y[:400])
    scored, other = model._probabilities(X[600:])
    labels, expected = model.predict_topk(X[600:], k=12, probabilities=True)
    counted = scored._replace(labels=scored.labels.view(Counted)), other
    monkeypatch.setattr(model, "_probabilities", lambda X: counted)
    np.testing.assert_array_equal(model._probabilities_of(X[600:], labels), expected)
    assert len(passes) == 2  # the largest label, and a number for each pair


def test_threads_and_batches_do_not_matter(calibrated, noisy):
    _, model = calibrated
    X = noisy[0][600:]
    _, together = model.predict_topk(X, k=3, probabilities=True)
    parts = [model.predict_topk(X[i : i + 1], k=3, probabilities=True)[1] for i in range(0, 300, 50)]
    np.testing.assert_allclose(np.concatenate(parts), together[::50], rtol=1e-9)
    many = clone(model).set_params(n_jobs=2)
    many.__dict__.update({name: value for name, value in model.__dict__.items() if name not in ("n_jobs", "_lock")})
    np.testing.assert_array_equal(many.predict_topk(X, k=3, probabilities=True)[1], together)


@pytest.mark.parametrize("slim", [False, True])
def test_a_file_keeps_the_calibration(calibrated, noisy, tmp_path, slim):
    X, y = noisy
    model = pickle.loads(pickle.dumps(calibrated[1])).conformal(X[600:700], y[600:700], coverage=0.5)
    model.save(tmp_path / "m", slim=slim)
    loaded = load_model(tmp_path / "m")
    assert (loaded.predict_topk(X, probabilities=True)[1] == model.predict_topk(X, probabilities=True)[1]).all()
    assert (loaded.predict_set(X) != model.predict_set(X)).nnz == 0


def test_partial_fit_keeps_the_calibration_and_fit_removes_it(calibrated, noisy):
    X, y = noisy
    model = pickle.loads(pickle.dumps(calibrated[1]))
    model.partial_fit(X[600:610], y[600:610] + 100)  # new labels, too
    assert model._state["calibration"] is not None and model.predict_other(X).max() > 0.001
    assert "calibration" not in model.fit(X[:400], y[:400])._state
    assert not hasattr(clone(calibrated[1]), "_state")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda group: group._replace(best=group.best + 2), "between 0 and 1"),
        (lambda group: group._replace(rest_at=group.rest_at[::-1]), "not increasing"),
    ],
)
def test_a_wrong_calibration_in_a_file_is_an_error(change, message):
    scored, truth = candidates(100, False, 3)
    group = calibration.fit("isotonic", calibration.held_out([scored], truth), False)
    calibration.check_calibration(group)
    with pytest.raises(ModelFormatError, match=message):
        calibration.check_calibration(change(group))


def test_the_option_holds_rows_out_in_fit(kind, noisy):
    """Every estimator; all labels stay known."""
    X, y = noisy
    y = np.append(y, 77)  # a label of a single row
    X = np.vstack([X, X[:1]])
    model = kind(random_state=0, calibration="temperature").fit(X, y)
    assert set(model.classes_) == set(y)
    np.testing.assert_allclose(model.predict_proba(X[:50]).sum(axis=1) + model.predict_other(X[:50]), 1, atol=1e-5)
    assert model.predict_other(X[:50]).max() > 0


@pytest.mark.parametrize("method", METHODS)
def test_several_labels_per_row(method):
    X, Y = make_multilabel_classification(900, 20, n_classes=8, random_state=0)
    model = LabelTreeClassifier(random_state=0).fit(X[:600], sp.csr_array(Y[:600]))
    before = model.predict_topk(X, k=3)[0]
    model.calibrate(X[600:], sp.csr_array(Y[600:]), method=method)
    labels, probabilities = model.predict_topk(X, k=3, probabilities=True)
    np.testing.assert_array_equal(labels, before)
    assert (np.diff(probabilities, axis=1) <= 1e-12).all()
    np.testing.assert_array_equal(model.predict(X).toarray() != 0, model.predict_proba(X) > model.threshold_)
    with pytest.raises(ValueError, match="reject requires one label per row"):
        model.predict(X, reject=0.5)


def test_sparse_rows_and_a_spectral_tree():
    X, Y = make_multilabel_classification(600, 20, n_classes=8, random_state=0)
    X, Y = sp.csr_array(X, dtype=np.float32), sp.csr_array(Y)
    model = SpectralTreeClassifier(random_state=0, calibration="isotonic").fit(X, Y)
    labels, probabilities = model.predict_topk(X, k=3, probabilities=True)
    np.testing.assert_array_equal(labels, model.predict_topk(X, k=3)[0])
    assert (np.diff(probabilities, axis=1) <= 1e-12).all() and "calibration" in model._state


def test_rejected_rows_are_masked(calibrated, noisy):
    X, y = noisy
    model = calibrated[1]
    certain = model.predict_topk(X, k=1, probabilities=True)[1][:, 0]
    labels = model.predict(X, reject=0.7)
    np.testing.assert_array_equal(labels.mask, certain <= 0.7)
    np.testing.assert_array_equal(labels.data, model.predict(X))
    assert labels.dtype == y.dtype and (labels.filled(-1)[certain <= 0.7] == -1).all()
    threshold = model.rejection_threshold(X[600:], y[600:], precision=0.6)
    accepted = model.predict(X[600:], reject=threshold)
    assert (accepted == y[600:]).mean() > 0.6 and accepted.count() > 50


def test_the_front_door_has_all_methods(noisy):
    X, y = noisy
    model = ManyClassClassifier(random_state=0, calibration="temperature").fit(X[:600], y[:600])
    assert model.predict_other(X).max() > 0
    assert model.calibrate(X[600:], y[600:]) is model and model.conformal(X[600:], y[600:], coverage=0.5) is model
    assert model.predict_set(X).shape == (900, 12)
    assert model.rejection_threshold(X[600:], y[600:], precision=0.5) >= 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m, X, y: m.calibrate(X, y, method="platt"), "method must be 'isotonic' or 'temperature', got 'platt'"),
        (lambda m, X, y: m.calibrate(X[:5], y[:5]), "at least 20 held-out rows, got 5"),
        (lambda m, X, y: m.calibrate(X, y[:5]), "X has 900 rows but y has 5"),
        (lambda m, X, y: m.predict(X, reject=2), "reject must be a number from 0 to 1"),
        (lambda m, X, y: m.predict_set(X), "call conformal"),
        (lambda m, X, y: m.conformal(X, y, coverage=1), "coverage must be a number above 0 and below 1"),
        (lambda m, X, y: m.conformal(X, y, coverage=10**400), "coverage must be a number above 0 and below 1"),
        (lambda m, X, y: m.conformal(X, y, n_clusters=0), "n_clusters must be an integer"),
        (lambda m, X, y: m.conformal(X[:3], y[:3]), "requires at least 9 rows"),
        (lambda m, X, y: m.conformal(X, np.where(y == y[0], y, y + 50)), "cannot be reached: .* are not among"),
        (lambda m, X, y: m.conformal(X, y + 50), "none of the labels in y"),
        (lambda m, X, y: clone(m).set_params(calibration="x").fit(X, y), "calibration must be"),
        (lambda m, X, y: clone(m).set_params(calibration="isotonic").fit(X[:30], y[:30]), "at least 20 are required"),
    ],
)
def test_bad_input_is_reported(calibrated, noisy, call, message):
    with pytest.raises(ValueError, match=message):
        call(calibrated[1], *noisy)


def test_labels_that_the_model_does_not_know_are_an_error():
    X = np.random.default_rng(0).standard_normal((60, 3))
    clf = RecallTreeClassifier(n_epochs=2, random_state=0).fit(X, np.repeat(["a", "b", "c"], 20))
    for method in (clf.calibrate, clf.conformal, clf.rejection_threshold):
        with pytest.raises(ValueError, match="such as 'zzz', is a class of the model"):
            method(X, ["zzz"] * 60)


def test_a_line_that_may_not_fall_keeps_the_mean():
    """The more confident rows are wrong more often: the probability is then that of all rows."""
    x, y = np.repeat([4.6, 9.2], 20), np.concatenate([np.arange(20) < 10, np.arange(20) < 6])
    factor, shift = calibration._line(x, y, np.ones(40))
    np.testing.assert_allclose(1 / (1 + np.exp(-(factor * x + shift))), 17 / 42, atol=0.002)
