"""Label tree: the score of a label in parts, the decisions on its path, and the label means next to a row.

The score of a label is linear in the features at its leaf, plus `prior` x the log-probability of the path, which is
not. Several trees, nearest training rows and independent labels add terms of their own.
"""

import math
from functools import partial

import numpy as np
from scipy.special import log_expit

from ..core.explanation import Outputs, Parts, Step, choice_step, softmax_outputs, values_of
from ..core.inputs import Batch
from ..core.losses import SOFTMAX
from ..core.state import State
from .fit import trees_of
from .kernels import Found, LabelTree, Options, predict_batch, row_factors, start_of
from .neighbors import BEST, mapped_rows, rank_again
from .weights import Blocks, PackedBlocks, find_all, find_weights, lengths_of, square_sums

PATH, SIGMOID = "probability of the path", "log-sigmoid"
ROWS, SCALED, TREES, NORM = "nearest training row", "factor of the score", "mean of the trees", "normalization"


class Look:
    """One tree and one row: the nodes that were looked at so far."""

    def __init__(self, options: Options, tree: LabelTree, blocks: Blocks | PackedBlocks, row: tuple):
        self.options, self.tree, self.blocks = options, tree, blocks
        self.feature, self.x = row
        self._nodes: dict[int, Outputs] = {}

    def node(self, node: int) -> Outputs:
        """The outputs of a node."""
        if node not in self._nodes:
            size = int(self.tree.size[node])
            start = start_of(self.options, bool(self.tree.is_leaf[node]))
            weight = weights_at(self.blocks, node, self.feature, start)[:, :size].astype(np.float64)
            outputs = softmax_outputs if self.options.loss == SOFTMAX else _sigmoid_outputs
            self._nodes[node] = outputs(self.blocks.bias[node, :size].astype(np.float64), weight, self.x)
        return self._nodes[node]

    def path(self, label: int) -> list[tuple[int, int]]:
        """(node, output) from the root to the leaf of a label, its place in the leaf included."""
        out = [(int(self.tree.leaf_of[label]), int(self.tree.place_of[label]))]
        while self.tree.parent[out[-1][0]] >= 0:
            node = out[-1][0]
            out.append((int(self.tree.parent[node]), int(self.tree.place[node])))
        return out[::-1]

    def parts(self, label: int) -> tuple[np.ndarray, dict[str, float]]:
        """Contributions of the features and other terms of the score of a label by this tree."""
        *above, (leaf, place) = self.path(label)
        at = self.node(leaf)
        terms = {"bias": float(at.bias[place])}
        if above:
            steps = [self.node(node).log_probability[place] for node, place in above]
            terms[PATH] = self.options.prior * float(sum(steps))
        if self.options.loss != SOFTMAX:
            terms[SIGMOID] = float(at.log_probability[place] - at.score[place])
        return self.x * at.weight[:, place], terms

    def steps(self, label: int) -> list[Step]:
        """The decisions above the leaf of a label."""
        return [
            choice_step(node, int(self.tree.outputs[node, place]), place, self.node(node), self.x)
            for node, place in self.path(label)[:-1]
        ]


def _sigmoid_outputs(bias: np.ndarray, weight: np.ndarray, x: np.ndarray) -> Outputs:
    """The outputs of a node that a row takes or not, each for itself."""
    score = bias + x @ weight
    return Outputs(bias, weight, score, log_expit(score))


def weights_at(blocks: Blocks | PackedBlocks, node: int, features: np.ndarray, start: float) -> np.ndarray:
    """The weights (feature, place) of a node for some features, with the start in them; 0 for unknown features."""
    out = np.zeros((len(features), blocks.bias.shape[1]), np.float32)
    if isinstance(blocks, PackedBlocks):
        find_weights(blocks, node, features, out)
        return out
    record = records_of(blocks, node, features)
    known = record >= 0
    out[known] = blocks.weight[record[known]]
    out[known] += blocks.total[record[known]] * lengths_of(blocks, node, start)
    return out


def records_of(blocks: Blocks, node: int, features: np.ndarray) -> np.ndarray:
    """The blocks of a node for some features; -1: none."""
    out = np.empty(len(features), np.int64)
    find_all(blocks, node, features, out)
    return out


def explain(options: Options, state: State, batch: Batch, labels: list[int]) -> list[Parts]:
    """The scores of some labels for a single row, in parts."""
    trees = trees_of(state)
    row_factor = np.empty(1, np.float32)
    row_factors(state["scale"], batch, row_factor, options)
    feature, value = values_of(batch)
    looks = [Look(options, tree, blocks, (feature, value * float(row_factor[0]))) for tree, blocks in trees]
    found = [_search(options, state, batch, tree) for tree in trees] if len(trees) > 1 else []
    nearest = nearest_means(looks[0], labels)
    parts = [_parts(options, looks, found, label, nearest) for label in labels]
    if "neighbors" not in state:
        return parts
    distances, factor = _distance_terms(options, state, batch, labels, trees[0]), float(state["neighbors"].factor[0])
    return [_with_distance(own, factor, distance) for own, distance in zip(parts, distances, strict=True)]


def _parts(options: Options, looks: list[Look], found: list[Found], label: int, nearest: list) -> Parts:
    feature, x = looks[0].feature, looks[0].x
    known = [t for t, look in enumerate(looks) if label < len(look.tree.leaf_of) and look.tree.leaf_of[label] >= 0]
    if not known:
        return Parts(feature, np.zeros(len(x)), {"no training row": -math.inf}, list, nearest)
    if len(looks) == 1:
        contribution, terms = looks[0].parts(label)
        return Parts(feature, contribution, terms, partial(looks[0].steps, label), nearest)
    used = [t for t in known if looks[t].tree.leaf_of[label] in found[t].leaves[0]] or known
    own = [looks[t].parts(label) for t in used]
    # log of a mean = mean of the logs, each with its share of the sum, + entropy of the shares - log of the number.
    norms = [0.0 if options.multilabel else _norm(found[t]) for t in used]
    logs = np.array([c.sum() + sum(terms.values()) for c, terms in own]) - norms
    share = np.exp(logs - np.logaddexp.reduce(logs))
    joined: dict[str, float] = {}
    for part, (_, terms) in zip(share.tolist(), own, strict=True):
        for name, amount in terms.items():
            joined[name] = joined.get(name, 0.0) + part * amount
    if not options.multilabel:
        joined[NORM] = -float(share @ norms)
    joined[TREES] = -float(share @ (logs - np.logaddexp.reduce(logs))) - math.log(len(looks))
    best = looks[used[int(np.argmax(share))]]
    return Parts(feature, share @ np.array([c for c, _ in own]), joined, partial(best.steps, label), nearest)


def _search(options: Options, state: State, batch: Batch, tree: tuple) -> Found:
    """The leaves that a row reaches, and all their labels with scores."""
    out = Found.empty(1, options.beam, min(options.beam * options.arity, len(tree[0].leaf_of)))
    predict_batch(*tree, state["scale"], batch, options, out, False)
    return out


def _norm(found: Found) -> float:
    scores = found.scores[0][found.labels[0] >= 0]
    return float(np.logaddexp.reduce(scores)) if len(scores) else 0.0


def _with_distance(own: Parts, factor: float, distance: float) -> Parts:
    """The parts of the score after the labels are ranked again."""
    if not math.isfinite(own.total):  # a label without a row
        return own
    return own._replace(terms={**own.terms, SCALED: (factor - 1.0) * own.total, ROWS: distance})


def _distance_terms(options: Options, state: State, batch: Batch, labels: list[int], tree: tuple) -> list[float]:
    """What the distance to the nearest training row adds to the score of each label."""
    values, found = mapped_rows(state["neighbors"], batch), Found.empty(1, n_labels=BEST)
    predict_batch(*tree, state["scale"], batch, options, found, True)
    out, factor = [], float(state["neighbors"].factor[0])
    for label in labels:
        best, scores = np.append(found.labels, [[np.int32(label)]], axis=1), np.append(found.scores, [[0.0]], axis=1)
        before = dict(zip(best[0, ::-1].tolist(), scores[0, ::-1].tolist(), strict=True))
        rank_again(state["neighbors"], values, best, scores, found.work)
        after = dict(zip(best[0, ::-1].tolist(), scores[0, ::-1].tolist(), strict=True))
        out.append(after[label] - factor * before[label])
    return out


# -- label means ---------------------------------------------------------------------------------------------------


def nearest_means(look: Look, labels: list[int]) -> list[tuple[int, float]]:
    """(label, cosine) of the row and the label means in the leaves of some labels, the nearest first.

    `fit` does not keep the sums of rows; they are estimated by the weights, as `unpack` does.
    """
    nodes, blocks = look.tree, look.blocks
    length = float(np.linalg.norm(look.x))
    leaves = {int(nodes.leaf_of[label]) for label in labels if label < len(nodes.leaf_of)} - {-1}
    found: list[tuple[int, float]] = []
    for leaf in sorted(leaves) if length > 0 else ():
        size = int(nodes.size[leaf])
        if isinstance(blocks, PackedBlocks):
            at, squares = look.node(leaf), np.zeros(blocks.bias.shape[1])
            square_sums(blocks, leaf, squares)
            product, squares = at.score - at.bias, squares[:size]
        else:
            record = records_of(blocks, leaf, look.feature)
            product = look.x[record >= 0] @ blocks.total[record[record >= 0], :size].astype(np.float64)
            squares = blocks.sq_norm[leaf, :size]
        cosine = np.divide(product, length * np.sqrt(np.maximum(squares, 0)), out=np.zeros(size), where=squares > 0)
        found += zip(nodes.outputs[leaf, :size].tolist(), np.clip(cosine, -1, 1).tolist(), strict=True)
    return sorted(found, key=lambda pair: -pair[1])
