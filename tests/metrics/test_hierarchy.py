"""Metrics of predictions in a taxonomy, against sets of ancestors."""

import numpy as np
import pytest

from manyclass import Taxonomy
from manyclass.metrics import accuracy_by_depth, hierarchical_scores, path_accuracy


@pytest.fixture(scope="module")
def rows():
    """A random tree of 40 nodes, 300 true labels and 300 predicted nodes, some of them the root or unknown."""
    rng = np.random.default_rng(0)
    parents = {node: None if node < 3 else int(rng.integers(0, node)) for node in range(40)}
    keys = [*map(str, range(40)), "", "unknown"]
    return Taxonomy.from_parents(parents), rng.choice(keys[:40], 300), rng.choice(keys, 300)


def path_of(taxonomy, key):
    return taxonomy.path(key) if key != "unknown" else ()


def test_scores_are_those_of_sets_of_ancestors(rows):
    taxonomy, true, predicted = rows
    paths = [[path_of(taxonomy, key) for key in keys] for keys in (true, predicted)]
    shared = sum(len(set(a) & set(b)) for a, b in zip(*paths, strict=True))
    n_true, n_predicted = (sum(map(len, part)) for part in paths)
    precision, recall, f1 = hierarchical_scores(true, predicted, taxonomy)
    assert (precision, recall) == (shared / n_predicted, shared / n_true)
    assert f1 == pytest.approx(2 * precision * recall / (precision + recall))


def test_accuracy_by_depth_compares_paths_level_by_level(rows):
    taxonomy, true, predicted = rows
    pairs = [(path_of(taxonomy, a), path_of(taxonomy, b)) for a, b in zip(true, predicted, strict=True)]
    for depth, accuracy in enumerate(accuracy_by_depth(true, predicted, taxonomy), 1):
        deep = [a[:depth] == b[:depth] for a, b in pairs if len(a) >= depth]
        assert accuracy == pytest.approx(np.mean(deep))
    assert accuracy_by_depth(["0"], ["0"], taxonomy)[1:].tolist() == pytest.approx([np.nan] * (depth - 1), nan_ok=True)


def test_path_accuracy_accepts_ancestors_but_no_unknown_node(rows):
    taxonomy, true, predicted = rows
    right = [
        key != "unknown" and path_of(taxonomy, label)[: len(path_of(taxonomy, key))] == path_of(taxonomy, key)
        for label, key in zip(true, predicted, strict=True)
        if key != ""
    ]
    assert path_accuracy(true, predicted, taxonomy) == np.mean(right)
    assert np.isnan(path_accuracy(true, [""] * 300, taxonomy))  # no prediction at all


@pytest.mark.parametrize("metric", [accuracy_by_depth, hierarchical_scores, path_accuracy])
def test_different_lengths_are_an_error(rows, metric):
    with pytest.raises(ValueError, match="y_true has 2 rows and y_pred 1"):
        metric(["1", "2"], ["1"], rows[0])
