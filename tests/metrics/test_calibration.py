"""Metrics of probabilities, against definitions written out, and the guarantee of a threshold."""

import numpy as np
import pytest
from scipy.stats import binom

from manyclass.metrics import (
    brier_at_k,
    ece_at_k,
    log_loss_with_other,
    precision_threshold,
    reliability_plot,
    risk_coverage,
    risk_coverage_plot,
)


@pytest.fixture(scope="module")
def ranked():
    """True ids, three predictions of each of 500 rows, and their probabilities."""
    rng = np.random.default_rng(0)
    probabilities = np.sort(rng.dirichlet(np.ones(4), 500)[:, :3], axis=1)[:, ::-1]
    labels = np.argsort(rng.random((500, 8)), axis=1)[:, :3]
    return rng.integers(0, 8, 500), labels, probabilities


@pytest.mark.parametrize("k", [1, 3])
def test_ece_and_brier_are_their_definitions(ranked, k):
    y, labels, probabilities = ranked
    pairs = sorted(
        (p, float(label == true))
        for true, row, chances in zip(y, labels[:, :k], probabilities, strict=True)
        for label, p in zip(row, chances, strict=False)
    )
    bins = np.split(np.array(pairs), np.linspace(0, len(pairs), 11).astype(int)[1:-1])
    expected = sum(len(part) * abs(part[:, 0].mean() - part[:, 1].mean()) for part in bins) / len(pairs)
    assert ece_at_k(y, labels, probabilities, k) == pytest.approx(expected)
    assert brier_at_k(y, labels, probabilities, k) == pytest.approx(np.mean([(p - hit) ** 2 for p, hit in pairs]))


def test_places_without_a_label_are_left_out(ranked):
    y, labels, probabilities = ranked
    labels = labels.copy()
    labels[:, 1:] = -1
    assert ece_at_k(y, labels, probabilities, 3) == ece_at_k(y, labels, probabilities, 1)


def test_a_matrix_with_one_label_per_row_is_the_same(ranked):
    y, labels, probabilities = ranked
    assert ece_at_k(np.eye(8, dtype=int)[y], labels, probabilities, 3) == ece_at_k(y, labels, probabilities, 3)


def test_labels_of_any_kind_are_found_in_the_classes(ranked):
    """Unsorted classes; a true label that is not among them is never correct."""
    y, labels, probabilities = ranked
    names = np.array(list("hcaegbdf"))
    for metric in (ece_at_k, brier_at_k, log_loss_with_other):
        assert metric(names[y], names[labels], probabilities, classes=names) == metric(y, labels, probabilities)
    new = np.where(y == 0, "z", names[y])
    assert brier_at_k(new, names[labels], probabilities, classes=names) == brier_at_k(
        np.where(y == 0, 8, y), labels, probabilities
    )
    with pytest.raises(ValueError, match="'h', which is not in classes"):
        ece_at_k(names[y], names[labels], probabilities, classes=names[1:])
    with pytest.raises(ValueError, match="one label per row"):
        ece_at_k(np.eye(8)[y], labels, probabilities, classes=names)


def test_log_loss_counts_labels_that_are_not_listed_as_other():
    losses = [log_loss_with_other([true], [[0, 1]], [[0.6, 0.1]]) for true in (0, 1, 5)]
    assert losses == pytest.approx([-np.log(0.6), -np.log(0.1), -np.log(0.3)])
    assert log_loss_with_other([5], [[0]], [[1.0]]) == pytest.approx(-np.log(1e-15))


def test_risk_coverage_accepts_equal_probabilities_together():
    curve = risk_coverage([True, False, True, False], [0.9, 0.5, 0.5, 0.1])
    assert curve.coverage.tolist() == [0.25, 0.75, 1.0] and curve.risk.tolist() == [0, 1 / 3, 0.5]
    assert curve.threshold.tolist() == [0.9, 0.5, 0.1] and curve.coverage_at(0.6) == 0.75
    assert curve.area() == pytest.approx(0.25 * 0 + 0.5 / 3 + 0.25 * 0.5)


def test_a_threshold_has_its_precision_with_the_stated_confidence():
    """Of 200 draws, at most the allowed share of thresholds is too low, up to chance of 1 in a million."""
    rng, too_low, n_found = np.random.default_rng(0), 0, 0
    for _ in range(200):
        score = rng.random(600)
        try:
            threshold = precision_threshold(rng.random(600) < score**0.2, score, precision=0.9, confidence=0.9)
        except ValueError:
            continue
        n_found += 1
        precision = (1 - threshold**1.2) / 1.2 / (1 - threshold)  # of all scores above
        too_low += precision < 0.9
    assert n_found > 150 and too_low <= binom.ppf(1 - 1e-6, 200, 0.1)


def test_all_predictions_are_accepted_if_all_are_correct():
    assert precision_threshold(np.ones(500, bool), np.linspace(0.1, 1, 500), 0.95) == -np.inf


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ece_at_k([0], [[0]], [[1.5]]), "between 0 and 1, got 1.5 in row 0"),
        (lambda: ece_at_k([0], [[0]], [0.5]), "probabilities has shape"),
        (lambda: ece_at_k([0], [[0]], [[0.5]], n_bins=0), "n_bins must be at least 1"),
        (lambda: ece_at_k([0], [[-1]], [[0.5]]), "no predictions"),
        (lambda: log_loss_with_other([[1, 0]], [[0]], [[0.5]]), "requires one label per row"),
        (lambda: risk_coverage([True], [0.1, 0.2]), "one length"),
        (lambda: risk_coverage([True], [np.nan]), "NaN in row 0"),
        (lambda: precision_threshold([True] * 9, [0.5] * 9), "no threshold has a precision of 0.95"),
        (lambda: precision_threshold([True], [0.5], precision=1.0), "precision must be a number above 0 and below 1"),
    ],
)
def test_bad_input_is_reported(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_plots_show_what_was_computed(ranked):
    y, labels, probabilities = ranked
    ax = reliability_plot(y, labels, probabilities, label="ours")
    assert ax.get_legend().get_texts()[0].get_text() == f"ours ECE@1 {ece_at_k(y, labels, probabilities):.3f}"
    curve = risk_coverage(labels[:, 0] == y, probabilities[:, 0])
    np.testing.assert_array_equal(risk_coverage_plot(curve, label="ours").lines[0].get_ydata(), curve.risk)


def test_coverage_at_a_precision_that_is_reached_exactly():
    curve = risk_coverage([True] * 9 + [False], np.linspace(1.0, 0.1, 10))
    assert curve.coverage_at(0.9) == 1.0


def test_the_order_of_equal_probabilities_does_not_matter():
    assert ece_at_k([0] * 50 + [1] * 50, [[0]] * 100, [[0.5]] * 100) == 0.0


def test_more_bins_than_predictions_take_no_more_memory():
    ranked = [0, 1, 1], [[0], [0], [1]], [[0.9], [0.3], [0.6]]
    assert ece_at_k(*ranked, n_bins=10**15) == ece_at_k(*ranked, n_bins=3) == pytest.approx((0.1 + 0.3 + 0.4) / 3)
