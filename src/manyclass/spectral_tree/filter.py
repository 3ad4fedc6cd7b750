"""Training of the filter F of a spectral tree [ST §3.2-3.4]: binary trees that lead a row to a few candidate labels.

Trees are grown level by level. The eigenproblem of a node is in `node.py`; here are the median, fractional routing and
the candidates of the leaves.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr

from ..core.inputs import Batch, Dense, inverse_lengths, rows_at
from ..core.locks import parallel
from ..core.protocol import Labels, rows_of
from ..core.state import Candidates, Counts, State, Tree, make
from .kernels import Classifier, Forest, Found, Nodes, Options, Routers, Rows, candidates_batch
from .node import NodeLabels, Part, split_node

RECALL = 0.999  # the paper's phi: a node whose candidates cover this share of its mass stays a leaf
CUTOFF = 0.02  # a smaller share of a row is not sent on
# DIFFERS [ST §3.3]: Lanczos' method for a node in place of power iteration; conjugate gradients for its labels.
STEPS = (10, 5)
HELD_OUT = 0.1  # share of the rows by which the depth is chosen
_BLOCK = 1 << 10  # held-out rows that are routed together
_DENSE = 4  # a router that has one of so many features gets a weight for every feature: no search
_NO_SPREAD = 1e-6  # relative difference of margins that counts as none

Report = Callable[[float], None]


class Node(NamedTuple):
    """A trained node: its candidates, then its router, which leaves lack."""

    parent: int = -1
    depth: int = 0
    labels: np.ndarray = np.empty(0, np.int32)
    masses: np.ndarray = np.empty(0)
    total: float = 0.0
    covered: float = 0.0
    features: np.ndarray = np.empty(0, np.int32)
    weights: np.ndarray = np.empty(0, np.float32)
    bias: float = 0.0
    spread: float = 1.0


def rows_with(batch: Batch, labels: Labels, weight: np.ndarray) -> Rows:
    """Training rows with their labels."""
    return Rows(batch, labels.pointer, labels.label, weight, int(np.diff(labels.pointer).max(initial=0)))


def grow_forest(options: Options, rows: Rows, sizes: tuple[int, int], n_jobs: int, report: Report) -> State:
    """The groups of all trees. Each tree after the first weights the rows by a random draw.

    `sizes` is (features, classes).
    """
    trees = []
    for number in range(options.n_trees):
        seed = options.seed + 104_729 * number
        rng = np.random.default_rng(seed)
        weight = rows.weight * rng.standard_exponential(len(rows.weight)) if number else rows.weight
        held_out = rng.random(len(weight)) < (HELD_OUT if options.validate else 0.0)
        if not weight[~held_out].any():  # too few rows to hold some out
            held_out[:] = False

        def report_tree(share: float, number: int = number) -> None:
            report((number + share) / options.n_trees)

        learned = rows._replace(weight=np.where(held_out, 0.0, weight))
        nodes = grow_tree(options, learned, sizes, seed, n_jobs, report_tree)
        if held_out.any():
            nodes = cut_tree(nodes, best_depth(options, nodes, rows, np.flatnonzero(held_out), sizes[0]))
        trees.append(nodes)
    return assemble(trees)


def grow_tree(
    options: Options, rows: Rows, sizes: tuple[int, int], seed: int, n_jobs: int, report: Report
) -> list[Node]:
    """Grow one tree from all rows with a weight, the nodes of a level in parallel [ST §5]."""
    weight = rows.weight / rows.weight[rows.weight > 0].mean()
    mass = np.bincount(rows.label, np.repeat(weight, np.diff(rows.pointer)), sizes[1])
    head = np.argsort(-mass, kind="stable")[: options.n_head]
    labels = Labels(rows.pointer, rows.label)
    rows = rows_with(rows.batch, labels.where(~np.isin(rows.label, head)), weight)
    used = np.flatnonzero(weight > 0)
    several = bool((np.diff(rows.pointer)[used] != 1).any())
    level, parents, depth = [Part(used, weight[used])], [-1], 0
    nodes: list[Node] = []
    while level:

        def learn(part: Part, parent: int, number: int, depth: int = depth) -> tuple[Node, list[Part]]:
            node, children = learn_node(options, rows, part, sizes[0], several, depth, seed + number)
            return node._replace(parent=parent), children

        numbers = range(len(nodes), len(nodes) + len(level))
        learned = parallel(learn, level, parents, numbers, n_jobs=n_jobs)
        nodes += [node for node, _ in learned]
        level = [child for _, children in learned for child in children]
        parents = [number for number, (_, children) in zip(numbers, learned, strict=True) for _ in children]
        depth += 1
        report(depth / (options.max_depth + 1))
    return [
        node._replace(labels=np.append(head, node.labels), masses=np.append(mass[head], node.masses)) for node in nodes
    ]


def learn_node(
    options: Options, rows: Rows, part: Part, n_features: int, several: bool, depth: int, seed: int
) -> tuple[Node, list[Part]]:
    """A node and the parts of its rows that go to either child; a leaf has no children."""
    own = Labels(rows.pointer, rows.label).rows(part.rows)
    found, first, where = np.unique(own.label, return_index=True, return_inverse=True)
    masses = np.bincount(where, np.repeat(part.mass, np.diff(own.pointer)), len(found))
    best = np.argsort(-masses, kind="stable")[: options.n_candidates]  # [ST §3.4]: the most frequent labels
    total, covered = float(masses.sum()), float(masses[best].sum())
    leaf = Node(-1, depth, found[best], masses[best], total, covered)
    enough = len(found) <= options.n_candidates or covered >= RECALL * total
    if depth >= options.max_depth or enough or len(part.rows) < 2:
        return leaf, []
    labels = number_labels(own.pointer, first, where, masses)
    features, direction, eigenvalue, margin = split_node(rows.batch, part, labels, n_features, several, STEPS, seed)
    if eigenvalue <= 0 or not np.ptp(margin) > _NO_SPREAD * np.abs(margin).max():  # no direction separates the rows
        return leaf, []
    bias = weighted_median(margin, part.mass)
    # [ST §3.4] sigma = lambda / m, though lambda / m is a variance: with rows of length 1 it is a sensible deviation.
    spread = min(max(options.spread * eigenvalue / part.mass.sum(), _NO_SPREAD), 1e30)
    chance = ndtr((margin - bias) / spread) if options.spread > 0 else (margin > bias).astype(float)
    right = part.mass * chance
    left = part.mass - right
    # DIFFERS [ST §3.4]: where one part is too small to matter, the other takes it: the cost stays O(rows x depth), and
    # no mass is lost.
    small = CUTOFF * rows.weight[part.rows]
    right = np.where(right < small, 0.0, np.where(left < small, part.mass, right))
    left = part.mass - right
    children = [Part(part.rows[side > 0], side[side > 0]) for side in (left, right)]
    if not all(len(child.rows) for child in children):
        return leaf, []
    if len(features) * _DENSE >= n_features:
        full = np.zeros(n_features, np.float32)
        full[features] = direction
        features, direction = np.arange(n_features, dtype=np.int32), full
    return leaf._replace(features=features, weights=direction, bias=bias, spread=spread), children


def number_labels(pointer: np.ndarray, first: np.ndarray, where: np.ndarray, masses: np.ndarray) -> NodeLabels:
    """The labels of a node in order of appearance, from what `np.unique` returns."""
    by_first = np.argsort(first)
    number = np.empty(len(first), np.int32)
    number[by_first] = np.arange(len(first))
    label = number[where]
    return NodeLabels(pointer, label, 1.0 / np.maximum(masses[by_first], 1e-300), np.argsort(label, kind="stable"))


def weighted_median(values: np.ndarray, mass: np.ndarray) -> float:
    """Half of the mass lies above: between the middle value and the next larger one [ST §3.3]."""
    order = np.argsort(values, kind="stable")
    ahead, ordered = np.cumsum(mass[order]), values[order]
    middle = ordered[min(int(np.searchsorted(ahead, ahead[-1] / 2)), len(values) - 1)]
    above = int(np.searchsorted(ordered, middle, side="right"))
    if above == len(values):  # the middle value is the largest: all rows with it belong above
        above = int(np.searchsorted(ordered, middle))
        middle = ordered[max(0, above - 1)]
    return float(np.float32((middle + ordered[above]) / 2))


def cut_tree(nodes: list[Node], depth: int) -> list[Node]:
    """The tree without the nodes below a depth; nodes are sorted by depth."""
    return [node if node.depth < depth else Node(*node[:6]) for node in nodes if node.depth <= depth]


def best_depth(options: Options, nodes: list[Node], rows: Rows, held_out: np.ndarray, n_features: int) -> int:
    """The depth at which the candidates have the best recall on held-out rows [ST §5]."""
    found = np.zeros(nodes[-1].depth + 1)
    for first in range(0, len(held_out), _BLOCK):
        some = held_out[first : first + _BLOCK]
        own, batch = Labels(rows.pointer, rows.label).rows(some), rows_at(rows.batch, some)
        row = np.repeat(np.arange(len(some)), np.diff(own.pointer))
        for depth in range(len(found)):
            grown = nodes_of(assemble([cut_tree(nodes, depth)]), n_features)
            candidates = find_candidates(options, grown, None, batch).label
            hit = (candidates[row] == own.label[:, None]).any(axis=1)
            found[depth] += rows.weight[some][row[hit]].sum()
    return int(np.argmax(found))


def assemble(trees: list[list[Node]]) -> State:
    """The groups of all trees, their nodes numbered one tree after the other."""
    nodes = [node for tree in trees for node in tree]
    sizes = [len(tree) for tree in trees]
    root = np.cumsum([0, *sizes[:-1]])
    parent = np.array([node.parent for node in nodes])
    tree: Tree = make(Tree, node=len(nodes), side=2)
    tree.n_nodes[0] = len(nodes)
    tree.depth[:] = [node.depth for node in nodes]
    tree.parent[:] = np.where(parent < 0, -1, parent + np.repeat(root, sizes))
    for child in np.flatnonzero(parent >= 0):
        above = tree.parent[child]
        tree.children[above, int(tree.children[above, 0] >= 0)] = child
    routers = Routers(
        np.cumsum([0] + [len(node.features) for node in nodes], dtype=np.int64),
        np.concatenate([node.features for node in nodes]).astype(np.int32),
        np.concatenate([node.weights for node in nodes]).astype(np.float32),
        np.array([node.bias for node in nodes], np.float32),
        np.array([node.spread for node in nodes], np.float32),
    )
    counts: Counts = make(Counts, node=len(nodes))
    slots = max(1, *(len(node.labels) for node in nodes))
    candidates: Candidates = make(Candidates, node=len(nodes), slot=slots)
    for number, node in enumerate(nodes):
        n = len(node.labels)
        candidates.size[number], candidates.covered[number] = n, node.covered
        candidates.label[number, :n], candidates.mass[number, :n] = node.labels, node.masses
        counts.total[number], counts.bound[number] = node.total, node.covered / max(node.total, 1e-300)
    leaf = tree.children[:, 0] < 0
    ahead = np.cumsum(np.where(leaf, candidates.size, 0)) - candidates.size
    forest = Forest(root.astype(np.int32), np.where(leaf, ahead, -1).astype(np.int32))
    return {"tree": tree, "routers": routers, "counts": counts, "candidates": candidates, "forest": forest}


def nodes_of(state: State, n_features: int) -> Nodes:
    """The groups of the filter for kernels."""
    tree, routers, forest = state["tree"], state["routers"], state["forest"]
    return Nodes(tree, routers, forest, state["counts"], state["candidates"], n_features)


def find_candidates(options: Options, nodes: Nodes, classifier: Classifier | None, batch: Batch) -> Found:
    """The candidates of all rows, with scores unless `classifier` is None [ST Alg. 1]."""
    n, width = rows_of(batch), max(options.n_candidates + options.n_head, nodes.candidates.label.shape[1])
    out = Found(
        np.full((n, options.beam * options.n_trees), -1, np.int32),
        np.full((n, width), -1, np.int32),
        np.empty((n, width)),
        np.empty(n, np.int64),
    )
    candidates_batch(nodes, classifier, batch, options, out)
    return out


def unit_rows(options: Options, batch: Batch) -> Any:
    """The batch with every row scaled to length 1, unless the options say otherwise.

    DIFFERS [ST §5.2]: ALOI too; sigma = lambda / m is sensible only for such rows.
    """
    if not options.normalize:
        return batch
    inverse = np.empty(rows_of(batch))
    inverse_lengths(batch, inverse)
    inverse = np.minimum(inverse, 1e38).astype(np.float32)  # of rows of almost no length
    if isinstance(batch, Dense):
        return Dense(batch.values * inverse[:, None])
    return batch._replace(values=batch.values * np.repeat(inverse, np.diff(batch.indptr)))
