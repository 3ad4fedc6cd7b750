"""Routing, Algorithm 1 and the random paths against plain numpy."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import ndtr

from manyclass import SpectralTreeClassifier
from manyclass.core.columns import apply
from manyclass.core.validation import as_batch
from manyclass.spectral_tree import model
from manyclass.spectral_tree.filter import nodes_of, unit_rows
from manyclass.spectral_tree.kernels import chance_right, choose_leaves, margin
from tests.reference import spectral_tree as reference

FORMS = [
    {"leaf": "shared"},
    {"leaf": "bias"},
    {"leaf": "hashed"},
    {"leaf": "separate"},
    {"leaf": "output", "rank": 6},
    {"leaf": "hashed", "rank": 6, "n_head": 2},
]


@pytest.fixture(scope="module")
def wide(text):
    X, y = text
    return X[:400], y[:400]


def scaled(clf, X):
    """Dense rows in the units of a model."""
    return apply(clf._state, as_batch(X)).values


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("options", FORMS)
def test_algorithm_1(digits, wide, options, sparse):
    X, y = wide if sparse else digits
    clf = SpectralTreeClassifier(n_candidates=4, max_depth=4, beam=1, n_epochs=1, random_state=0, **options).fit(X, y)
    rows = X[:60]
    labels, scores = clf.predict_topk(rows, 3)
    dense = rows.toarray() if sp.issparse(rows) else scaled(clf, rows)
    for x, found, score in zip(dense, labels, scores, strict=True):
        expected, expected_scores = reference.predict(clf._state, clf._options, x / np.linalg.norm(x))
        best = np.argsort(-expected_scores, kind="stable")[:3]
        n = len(best)  # a leaf may have fewer labels
        np.testing.assert_allclose(score[:n], expected_scores[best], rtol=1e-3, atol=1e-4)
        assert set(clf.classes_[expected[best]]) == set(found[:n]) or np.ptp(expected_scores) < 1e-4


def test_the_candidates_of_several_paths_are_the_likeliest(digits):
    X, y = digits
    clf = SpectralTreeClassifier(n_candidates=3, max_depth=5, beam=1024, n_epochs=1, random_state=0).fit(X, y)
    found = clf.candidates(X[:40]).toarray()
    for x, row in zip(scaled(clf, X[:40]), found, strict=True):
        chance = reference.label_chances(clf._state, x / np.linalg.norm(x))
        assert 1 <= row.sum() <= 3
        assert chance[row].min() >= chance[~row].max() - np.exp(-5)  # less likely paths are not followed


def test_paths_are_drawn_by_their_probabilities(digits):
    X, y = digits
    clf = SpectralTreeClassifier(n_candidates=2, max_depth=2, n_epochs=1, random_state=0).fit(X, y)
    options, n = clf._options, 4000
    batch = unit_rows(options, as_batch(X[:1].astype(np.float32)))
    nodes, leaves = nodes_of(clf._state, 64), np.empty(n, np.int64)
    choose_leaves(nodes, batch, np.zeros(n, np.int64), 0, options, leaves)
    for node, chance in reference.leaf_chances(clf._state, batch.values[0]).items():
        assert np.mean(leaves == node) == pytest.approx(chance, abs=5 * np.sqrt(0.25 / n))
    choose_leaves(nodes, batch, np.zeros(n, np.int64), 0, options._replace(randomized=False), leaves)
    assert len(np.unique(leaves)) == 1 and leaves[0] == model.paths(options, clf._state, batch)[0][-1]


def test_the_routing_probability_is_gaussian(digits):
    clf = SpectralTreeClassifier(n_candidates=4, max_depth=1, n_epochs=1, random_state=0).fit(*digits)
    routers, batch = clf._state["routers"], as_batch(digits[0][:20].astype(np.float32))
    for i in range(20):
        m = margin(routers, 0, batch, i, 64)
        assert m == pytest.approx(batch.values[i] @ routers.weight[:64] - routers.bias[0], abs=1e-3)
        assert chance_right(routers, 0, m / 100) == pytest.approx(ndtr(m / 100 / routers.spread[0]), abs=1e-6)
