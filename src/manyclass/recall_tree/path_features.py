"""Path features [RT §3.2]: what a predictor knows of the nodes that a row passed on its way to the candidates.

Each (node, label) pair on the path has a row in the bank `path`: its bias alone, or a weight for every feature too.
The root is on every path and tells nothing. DIFFERS [RT Alg. 1 l.9]: routers never see them, as in VW; STOP and
CROSSED give the pairs weights too, as VW's best runs do.
"""

import numpy as np

from ..core import linear
from ..core.labels import EMPTY, find
from ..core.trees import ROOT
from ..core.updates import Pace
from ..jit import inlined

OFF, BIAS, STOP, CROSSED = 0, 1, 2, 3


@inlined
def path_score(tree, path, table, label, home, batch, i, options):
    """What the path features add to the score of label at the node `home` [RT §3.2]."""
    total = 0.0
    node = home
    while node > 0:
        row = np.int64(table.path_row[find(table, node, label)])
        if row >= 0:
            total += path.bias[row] if options.path_features == BIAS else linear.score(path, row, batch, i)
        node = np.int64(tree.parent[node]) if options.path_features != STOP else ROOT
    return total


@inlined
def learn_path(tree, path, table, label, home, batch, i, gradient, step, scale, options):
    """One step of the weights that (path node, label) pairs have of their own [RT §3.2]. Mutates: path, table."""
    # All nodes of a path together step as far as the predictor they advise.
    n = 1.0 if options.path_features == STOP else max(1.0, tree.depth[home])
    share = Pace(step.update, step.step / n, step.size, step.bias_step / n)
    node = home
    while node > 0:
        at = find(table, node, label)
        if table.key[at] != EMPTY:
            row = np.int64(table.path_row[at])
            if row < 0:
                if path.n_rows[0] == path.bias.shape[0]:  # only in a tree deeper than any training makes
                    return
                row = path.n_rows[0]
                path.n_rows[0] += 1
                table.path_row[at] = row
            if options.path_features == BIAS:
                linear.learn_bias(path, row, gradient, share)
            else:
                linear.learn(path, row, batch, i, gradient, share, scale)
        node = np.int64(tree.parent[node]) if options.path_features != STOP else ROOT
