"""Figures label by label, against scikit-learn and by hand."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import precision_recall_fscore_support

from manyclass.metrics import macro_at_k, recall_by_frequency


@pytest.mark.parametrize("k", [1, 3])
def test_macro_figures_are_scikit_learns(k):
    rng = np.random.default_rng(k)
    Y = (rng.random((60, 9)) < 0.25).astype(int)
    Y[:, 4] = 0  # a label without a row does not count
    top = np.array([rng.permutation(9)[:3] for _ in range(60)])
    answers = np.zeros_like(Y)
    np.put_along_axis(answers, top[:, :k], 1, axis=1)
    kept = Y.any(axis=0)
    expected = precision_recall_fscore_support(Y[:, kept], answers[:, kept], average="macro", zero_division=0)
    for form in (Y, sp.csr_array(Y)):
        told = macro_at_k(form, top, k)
        np.testing.assert_allclose([told["precision"], told["recall"], told["f1"]], expected[:3])


def test_recall_of_the_tail_and_the_head():
    Y_train = sp.csr_array(np.repeat(np.eye(3, dtype=int), [120, 40, 2], axis=0))
    Y = np.array([[1, 0, 1], [0, 1, 0], [0, 0, 1]])
    tail, middle, head = recall_by_frequency(Y, [[0, 1], [1, 2], [2, -1]], 2, Y_train)
    assert (tail["recall"], middle["recall"], head["recall"]) == (0.5, 1.0, 1.0)
    assert (tail["labels"], tail["true"], tail["below"], head["below"]) == (1, 2, 10, np.inf)
    nothing = recall_by_frequency([0, 0], [[0], [0]], 1, [0] * 30)
    assert np.isnan(nothing[0]["recall"]) and nothing[1]["recall"] == 1


def test_new_labels_are_rare_and_edges_must_rise():
    groups = recall_by_frequency([5, 0], [[5], [0]], 1, [0] * 200)
    assert groups[0]["recall"] == 1 and groups[0]["labels"] == 1
    with pytest.raises(ValueError, match="edges must be"):
        recall_by_frequency([0], [[0]], 1, [0], edges=(10, 10))
    assert macro_at_k(np.zeros((2, 3), int), [[0], [1]], 1)["f1"] == 0
