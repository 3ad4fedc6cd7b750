"""The naive layout gives the sums of the label tree's blocks."""

import numpy as np
import scipy.sparse as sp

from benchmarks.naive_hash import naive_layout, score_naively
from manyclass import LabelTreeClassifier
from manyclass.core.validation import as_batch
from manyclass.label_tree.model import dense_weights


def test_both_layouts_hold_the_same_sums():
    rng = np.random.default_rng(0)
    y = np.arange(400) % 40
    X = sp.csr_matrix((rng.random((40, 300)) < 0.05)[y] * rng.random((400, 300)), dtype=np.float32)
    model = LabelTreeClassifier(random_state=0, n_trees=1, n_epochs=2).fit(X, y)
    tree, blocks = model._state["tree"], model._state["blocks"]
    table, mask = naive_layout(model._state, bits=22)
    n, width = int(tree.n_nodes[0]), blocks.bias.shape[1]
    pointer, nodes, best = np.arange(n + 1), np.arange(n), np.empty(n, np.float32)
    rows = as_batch(X[:1][np.zeros(n, int)])  # the same row at every node
    score_naively(table, mask, tree.size, width, pointer, nodes, rows, best)
    dense = X[:1].toarray()[0]
    for node in range(n):
        features, weights = dense_weights(blocks, node, 0.0)
        sums = dense[features] @ weights
        np.testing.assert_allclose(best[node], sums[: tree.size[node]].max(), rtol=1e-4, atol=1e-5)
