"""The naive layout, one hash for each (feature, output): what the label tree's blocks are measured against.

The same weights of the same tree, at the nodes above the leaves that our prediction reached, but each weight on its own
in one large table. Biases, the choice of paths and of the best labels, and nodes that were looked at and dropped are
left out, all to the advantage of this layout.
"""

from typing import Any

import numpy as np

from manyclass.core.inputs import feature, span, value
from manyclass.core.linear import slot
from manyclass.jit import inlined, kernel
from manyclass.label_tree.model import dense_weights


@inlined
def _sum_outputs(table, table_mask, node, n_outputs, width, batch, i):
    """The largest score of a node's outputs for row i."""
    start, stop = span(batch, i)
    best = np.float32(-np.inf)
    for place in range(n_outputs):
        row, total = np.int64(node) * width + place, np.float32(0.0)
        for j in range(start, stop):
            total += table[slot(row, np.int64(feature(batch, j)), table_mask)] * value(batch, i, j)
        best = max(best, total)
    return best


@kernel
def score_naively(table, table_mask, size, width, pointer, nodes, batch, best):
    """Score all outputs of the nodes that each row visits. Mutates: best."""
    for i in range(best.shape[0]):
        top = np.float32(-np.inf)
        for p in range(pointer[i], pointer[i + 1]):
            top = max(top, _sum_outputs(table, table_mask, nodes[p], size[nodes[p]], width, batch, i))
        best[i] = top


def naive_layout(state: dict[str, Any], bits: int = 27) -> tuple[np.ndarray, int]:
    """The weights of a label tree in one hashed table of 2**bits, and the mask of the table."""
    tree, blocks = state["tree"], state["blocks"]
    table, width = np.zeros(1 << bits, np.float32), blocks.bias.shape[1]
    for node in range(int(tree.n_nodes[0])):
        features, weights = dense_weights(blocks, node, 0.0)
        for place in range(tree.size[node]):
            for f, weight in zip(features.tolist(), weights[:, place], strict=True):
                table[slot(node * width + place, f, table.size - 1)] += weight
    return table, table.size - 1
