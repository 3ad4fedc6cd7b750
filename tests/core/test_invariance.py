"""Changes of the data that should not matter, on real data, for every estimator.

The bands: after each change, the accuracy falls by at most 4 points on digits (597 test rows, so that two standard
errors are 2 points), 6 on short texts (309 test rows), and by more only where `KNOWN` says so.
"""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfTransformer

from manyclass import (
    LabelTreeClassifier,
    LomTreeClassifier,
    MlomTreeClassifier,
    OneAgainstAllClassifier,
    RecallTreeClassifier,
    SpectralTreeClassifier,
)
from manyclass.datasets import load

ESTIMATORS = [
    LabelTreeClassifier,  # and ManyClassClassifier, whose `fit` trains it
    RecallTreeClassifier,
    SpectralTreeClassifier,
    LomTreeClassifier,
    MlomTreeClassifier,
    OneAgainstAllClassifier,
]


@pytest.fixture(scope="module")
def images(digits):
    X, y = digits
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X[order].astype(np.float32), y[order]
    return X[:1200], y[:1200], X[1200:], y[1200:]


@pytest.fixture(scope="module")
def texts():
    """Forty WordNet categories with TF-IDF weights."""
    X, y, X_test, y_test = load("wordnet-hypernym")
    chosen = np.argsort(-np.bincount(y), kind="stable")[20:60]
    learned, tested = np.isin(y, chosen), np.isin(y_test, chosen)
    weights = TfidfTransformer(sublinear_tf=True).fit(X[learned])
    return weights.transform(X[learned]), y[learned], weights.transform(X_test[tested]), y_test[tested]


def beside(X, more):
    return sp.csr_array(sp.hstack([X, more])) if sp.issparse(X) else np.hstack([X, more])


def larger_column(X, y, X_test, y_test):
    factor = np.ones(X.shape[1], np.float32)
    factor[np.argmax(np.asarray((X != 0).sum(axis=0)).ravel())] = 1000  # the column with the most values
    if sp.issparse(X):
        return sp.csr_array(X @ sp.diags(factor)), y, sp.csr_array(X_test @ sp.diags(factor)), y_test
    return X * factor, y, X_test * factor, y_test


def constant_column(X, y, X_test, y_test):
    return beside(X, np.full((X.shape[0], 1), 5.0)), y, beside(X_test, np.full((X_test.shape[0], 1), 5.0)), y_test


def noise_columns(X, y, X_test, y_test):
    rng, size = np.random.default_rng(1), float(np.abs(X.data if sp.issparse(X) else X).mean())
    noise = [size * rng.standard_normal((part.shape[0], 10)) for part in (X, X_test)]
    return beside(X, noise[0]), y, beside(X_test, noise[1]), y_test


def raw_numbers(X, y, X_test, y_test):
    rng = np.random.default_rng(1)
    numbers = [np.exp(rng.normal(8, 2, (part.shape[0], 1))) for part in (X, X_test)]
    return beside(X, numbers[0]), y, beside(X_test, numbers[1]), y_test


def repeated(X, y, X_test, y_test):
    return (sp.vstack([X, X]).tocsr() if sp.issparse(X) else np.vstack([X, X])), np.tile(y, 2), X_test, y_test


def other_names(X, y, X_test, y_test):
    names, rng = np.unique(y), np.random.default_rng(1)
    new = rng.permutation(names)
    return X, new[np.searchsorted(names, y)], X_test, new[np.searchsorted(names, y_test)]


def sorted_rows(X, y, X_test, y_test):
    order = np.argsort(y, kind="stable")
    return X[order], y[order], X_test, y_test


def far_from_zero(X, y, X_test, y_test):
    return X + 30 * X.std(axis=0), y, X_test + 30 * X.std(axis=0), y_test


def small_first_values(X, y, X_test, y_test):
    return X - X[0] * 0.999, y, X_test - X[0] * 0.999, y_test


CHANGES = [larger_column, constant_column, noise_columns, raw_numbers, repeated, other_names, sorted_rows]


def falls(estimator, data, changes):
    """How much each change lowers the accuracy, in points."""
    def accuracy(X, y, X_test, y_test):
        return 100 * estimator(random_state=0).fit(X, y).score(X_test, y_test)

    before = accuracy(*data)
    return {change.__name__: round(before - accuracy(*change(*data)), 1) for change in changes}


# Larger falls than the band. On text the Recall Tree takes steps of SGD, which a column of four times the usual size,
# to which larger ones are scaled down, still disturbs: 8.2, 7.4 and 6.6 points.
KNOWN = {RecallTreeClassifier: {"larger_column": 10, "constant_column": 10, "raw_numbers": 10}}


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_images(estimator, images):
    for change, fall in falls(estimator, images, [far_from_zero, small_first_values, *CHANGES]).items():
        assert fall <= 4, (change, fall)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_texts(estimator, texts):
    allowed = KNOWN.get(estimator, {})
    for change, fall in falls(estimator, texts, CHANGES).items():
        assert fall <= allowed.get(change, 6), (change, fall)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_only_the_ratios_of_weights_matter(estimator, images):
    X, y, X_test, _ = images
    model = estimator(random_state=0)
    expected = model.fit(X, y).predict(X_test)
    for weight in (1 / 2**12, 2**12):
        np.testing.assert_array_equal(model.fit(X, y, np.full(len(y), weight)).predict(X_test), expected)


@pytest.mark.parametrize("estimator", [RecallTreeClassifier, OneAgainstAllClassifier])
def test_a_few_heavy_rows_do_not_ruin_what_sgd_learns(estimator, texts):
    X, y, X_test, y_test = texts
    heavy = np.where(np.random.default_rng(0).random(len(y)) < 0.02, 1000.0, 1.0)
    model = estimator(random_state=0)
    before = 100 * model.fit(X, y).score(X_test, y_test)
    assert 100 * model.fit(X, y, heavy).score(X_test, y_test) > before - 6


@pytest.mark.parametrize("noise", [1e-45, 1e-30, 1e-17])
def test_a_column_of_rounding_errors_is_constant(noise):
    """It was brought to the size of the other columns, so that any other value in it decided alone, or overflowed."""
    rng = np.random.default_rng(0)
    y = np.tile(np.arange(6), 100)
    X = np.column_stack([4 * rng.standard_normal((6, 5))[y] + rng.standard_normal((600, 5)), np.zeros(600)])
    X[::7, -1] = noise * rng.standard_normal(len(X[::7])) if noise > 1e-40 else noise
    model = LabelTreeClassifier(random_state=0).fit(X[:400], y[:400])
    found = model.predict(X[400:])
    assert np.mean(found == y[400:]) > 0.9
    X[400:, -1] = 1.0
    np.testing.assert_array_equal(model.predict(X[400:]), found)


@pytest.mark.parametrize("normalize", [False, True])
def test_the_smallest_values_that_are_accepted_are_learned(normalize):
    rng = np.random.default_rng(0)
    y = np.tile(np.arange(6), 100)
    X = 4 * rng.standard_normal((6, 5))[y] + rng.standard_normal((600, 5))
    X *= 1.1e-30 / np.abs(X).max()
    model = LabelTreeClassifier(normalize=normalize, random_state=0).fit(X[:400], y[:400])
    assert model.score(X[400:], y[400:]) > 0.9
