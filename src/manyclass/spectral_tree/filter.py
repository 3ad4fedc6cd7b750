"""The filter of a spectral tree [ST §3.2-3.4]: a tree that leads a row to a few candidate labels, grown level by level.

The eigenproblem of a node is in `kernels/spectral_node.py`; here are the median, the fractional routes, the leaves.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr

from ..core.inputs import Batch, Csr, Dense, inverse_lengths
from ..core.invariants import need, need_range
from ..core.protocol import Labels, rows_of
from ..core.state import Candidates, Counts, Forest, Routers, State, Tree, make
from ..core.trees import DEEPEST
from .answers import filter_batch
from .node import split_node
from .paths import Options

# DIFFERS [ST §3.3]: of Lanczos' method for a node instead of power iteration; of conjugate gradients for its labels.
STEPS = (10, 5)
_DENSE = 4  # a router that knows one of so many features gets a weight for each: no looking up
_BLOCK = 1 << 10  # held-out rows looked at together
_NO_SPREAD = 1e-6  # margins that differ by so little of their size do not differ
_NOTHING, _NO_WEIGHTS = np.empty(0, np.int32), np.empty(0, np.float32)


class Growth(NamedTuple):
    """How a filter is to be grown."""

    max_depth: int
    n_candidates: int  # of a leaf, beside the head labels
    n_head: int  # the most frequent labels, which are candidates everywhere and no concern of the tree
    recall: float  # a node whose candidates cover so much of its mass stays a leaf
    spread: float  # times the paper's standard deviation of a margin; 0: every row goes one way
    cutoff: float  # a smaller part of a row is not sent on
    seed: int


class Filter(NamedTuple):
    """A grown filter: its groups of the state."""

    tree: Tree
    routers: Routers
    counts: Counts
    candidates: Candidates


class _Part(NamedTuple):
    """The rows that reach a node, and how much of each."""

    rows: np.ndarray
    mass: np.ndarray


class _Node(NamedTuple):
    """A node once it has learned; without children it is a leaf."""

    labels: np.ndarray
    masses: np.ndarray
    total: float
    covered: float
    features: np.ndarray
    weights: np.ndarray
    bias: float
    spread: float
    children: tuple[_Part, ...]


def grow_filter(
    batch: Batch, labels: Labels, weights: np.ndarray, sizes: tuple[int, int], growth: Growth, n_jobs: int,
    tell: Callable[[float], None],
) -> Filter:  # fmt: skip
    """Grow a filter from all rows with a weight; all nodes of a level at once [ST §5]. `sizes`: features, classes."""
    weights = weights / weights[weights > 0].mean()
    mass = np.bincount(labels.label, np.repeat(weights, np.diff(labels.pointer)), sizes[1])
    head = np.argsort(-mass, kind="stable")[: growth.n_head]
    tail = _without(labels, head)
    rows = np.flatnonzero(weights > 0)
    several = bool((np.diff(tail.pointer)[rows] != 1).any())
    level, parents = [_Part(rows, weights[rows])], [-1]
    nodes: list[_Node] = []
    depth = 0
    while level:
        numbers = range(len(nodes), len(nodes) + len(level))

        def learn(part: _Part, number: int, depth: int = depth) -> _Node:
            return _learn_node(batch, tail, weights, part, sizes, several, growth, depth, growth.seed + number)

        if n_jobs > 1 and len(level) > 1:
            with ThreadPoolExecutor(n_jobs) as pool:
                learned = list(pool.map(learn, level, numbers))
        else:
            learned = list(map(learn, level, numbers))
        level = [child for node in learned for child in node.children]
        parents += [number for number, node in zip(numbers, learned, strict=True) for _ in node.children]
        nodes += [node._replace(children=()) for node in learned]  # the rows of a level are not kept
        depth += 1
        tell(depth / (growth.max_depth + 1))
    return _assemble(nodes, np.array(parents, np.int32), head, mass[head], growth)


def _learn_node(
    batch: Batch, labels: Labels, weights: np.ndarray, part: _Part, sizes, several: bool, growth: Growth, depth: int,
    seed: int,
) -> _Node:  # fmt: skip
    """A leaf's candidates, or an inner node's router and the parts of its rows that go either way."""
    own = labels.rows(part.rows)
    found, where = np.unique(own.label, return_inverse=True)
    masses = np.bincount(where, np.repeat(part.mass, np.diff(own.pointer)), len(found))
    total = float(masses.sum())
    best = np.argsort(-masses, kind="stable")[: growth.n_candidates]  # [ST §3.4]: the most frequent labels
    covered = float(masses[best].sum())
    leaf = _Node(found[best], masses[best], total, covered, _NOTHING, _NO_WEIGHTS, 0.0, 1.0, ())
    enough = len(found) <= growth.n_candidates or covered >= growth.recall * total
    if depth >= growth.max_depth or enough or len(part.rows) < 2:
        return leaf
    features, direction, value, margin = split_node(
        batch, labels.pointer, labels.label, part.rows, part.mass, several, sizes, STEPS, seed
    )
    if value <= 0 or not np.ptp(margin) > _NO_SPREAD * np.abs(margin).max():  # no direction parts them
        return leaf
    bias = _weighted_median(margin, part.mass)
    # [ST §3.4] sigma = lambda / m, though lambda / m is a variance: rows of length 1 make it a sensible one.
    spread = min(max(growth.spread * value / part.mass.sum(), _NO_SPREAD), 1e30)
    chance = ndtr((margin - bias) / spread) if growth.spread > 0 else (margin > bias).astype(float)
    right = part.mass * chance
    left = part.mass - right
    # DIFFERS [ST §3.4]: where a part is too small to matter, the other takes it: the cost stays O(rows x depth), and
    # no mass is lost.
    small = growth.cutoff * weights[part.rows]
    right = np.where(right < small, 0.0, np.where(left < small, part.mass, right))
    left = part.mass - right
    children = tuple(_Part(part.rows[side > 0], side[side > 0]) for side in (left, right))
    if not all(len(child.rows) for child in children):
        return leaf
    if len(features) * _DENSE >= sizes[0]:  # a place for every feature is worth more than the room it takes
        full = np.zeros(sizes[0], np.float32)
        full[features] = direction
        features, direction = np.arange(sizes[0], dtype=np.int32), full
    return leaf._replace(features=features, weights=direction, bias=bias, spread=spread, children=children)


def _weighted_median(values: np.ndarray, mass: np.ndarray) -> float:
    """Half of the mass lies above: between the value in the middle and the next larger one [ST §3.3]."""
    order = np.argsort(values, kind="stable")
    ahead, ordered = np.cumsum(mass[order]), values[order]
    middle = ordered[min(int(np.searchsorted(ahead, ahead[-1] / 2)), len(values) - 1)]
    above = int(np.searchsorted(ordered, middle, side="right"))
    if above == len(values):  # the largest values are one: all of them belong above
        above = int(np.searchsorted(ordered, middle))
        middle = ordered[max(0, above - 1)]
    return float(np.float32((middle + ordered[above]) / 2))


def _without(labels: Labels, head: np.ndarray) -> Labels:
    """The labels that are not head labels."""
    if not len(head):
        return labels
    kept = ~np.isin(labels.label, head)
    ahead = np.concatenate([[0], np.cumsum(kept)])
    return Labels(ahead[labels.pointer], labels.label[kept])


def _assemble(nodes: list[_Node], parents: np.ndarray, head, head_mass, growth: Growth) -> Filter:
    """The groups of all nodes, level by level."""
    n = len(nodes)
    tree: Tree = make(Tree, node=n, side=2)
    tree.n_nodes[0], tree.parent[:] = n, parents
    for node in range(1, n):
        parent = parents[node]
        tree.depth[node] = tree.depth[parent] + 1
        tree.children[parent, int(tree.children[parent, 0] >= 0)] = node
    ends = np.cumsum([0] + [len(node.features) for node in nodes])
    routers = Routers(
        ends.astype(np.int64),
        np.concatenate([node.features for node in nodes]).astype(np.int32),
        np.concatenate([node.weights for node in nodes]).astype(np.float32),
        np.array([node.bias for node in nodes], np.float32),
        np.array([node.spread for node in nodes], np.float32),
    )
    counts: Counts = make(Counts, node=n)
    candidates: Candidates = make(Candidates, node=n, slot=max(1, len(head) + max(len(node.labels) for node in nodes)))
    for number, learned in enumerate(nodes):
        own = np.concatenate([head, learned.labels])
        candidates.size[number] = len(own)
        candidates.label[number, : len(own)] = own
        candidates.mass[number, : len(own)] = np.concatenate([head_mass, learned.masses])
        candidates.covered[number] = learned.covered
        counts.total[number] = learned.total
        counts.bound[number] = learned.covered / max(learned.total, 1e-300)
    return Filter(tree, routers, counts, candidates)


def cut_filter(grown: Filter, depth: int) -> Filter:
    """The filter without the nodes below a depth, which come last."""
    n = int(np.searchsorted(grown.tree.depth, depth, side="right"))
    children = grown.tree.children[:n].copy()
    children[children >= n] = -1
    tree = Tree(children, grown.tree.parent[:n], grown.tree.depth[:n], np.array([n]))
    routers = grown.routers
    ends = np.append(routers.first[:n], routers.first[n])
    inner = children[:, 0] >= 0
    kept = np.repeat(inner, np.diff(ends))
    first = np.concatenate([[0], np.cumsum(np.where(inner, np.diff(ends), 0))])
    routers = Routers(
        first, routers.feature[: ends[-1]][kept], routers.weight[: ends[-1]][kept], routers.bias[:n], routers.spread[:n]
    )
    counts = Counts(*(array[:n] for array in grown.counts))
    candidates = Candidates(*(array[:n] for array in grown.candidates))
    return Filter(tree, routers, counts, candidates)


def join(filters: list[Filter]) -> State:
    """One numbering for the nodes of all trees, and one for the predictors of their leaves."""
    sizes = [len(grown.tree.parent) for grown in filters]
    begin = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
    slots = max(grown.candidates.label.shape[1] for grown in filters)

    def moved(arrays: list[np.ndarray]) -> np.ndarray:
        return np.concatenate([np.where(a >= 0, a + b, a) for a, b in zip(arrays, begin, strict=True)]).astype(np.int32)

    def stacked(group: type, name: str) -> Any:
        return group(*map(np.concatenate, zip(*(getattr(grown, name) for grown in filters), strict=True)))

    trees = [grown.tree for grown in filters]
    tree = Tree(
        moved([one.children for one in trees]),
        moved([one.parent for one in trees]),
        np.concatenate([one.depth for one in trees]),
        np.array([sum(sizes)]),
    )
    ends = np.concatenate([[0], np.cumsum(np.concatenate([np.diff(grown.routers.first) for grown in filters]))])
    routers = stacked(Routers, "routers")._replace(first=ends.astype(np.int64))
    wide = [grown.candidates for grown in filters]
    candidates = Candidates(
        np.concatenate([_wider(one.label, slots, -1) for one in wide]),
        np.concatenate([_wider(one.mass, slots, 0) for one in wide]),
        np.concatenate([one.size for one in wide]),
        np.concatenate([one.covered for one in wide]),
    )
    leaf = tree.children[:, 0] < 0
    ahead = np.concatenate([[0], np.cumsum(np.where(leaf, candidates.size, 0))])
    forest = Forest(begin.astype(np.int32), np.where(leaf, ahead[:-1], -1).astype(np.int32))
    return {
        "tree": tree,
        "routers": routers,
        "counts": stacked(Counts, "counts"),
        "candidates": candidates,
        "forest": forest,
    }


def _wider(array: np.ndarray, slots: int, fill: int) -> np.ndarray:
    return np.pad(array, ((0, 0), (0, slots - array.shape[1])), constant_values=fill)


def take_rows(batch: Batch, rows: np.ndarray) -> Batch:
    """Some rows of a batch."""
    if isinstance(batch, Dense):
        return Dense(batch.values[rows])
    sizes = batch.indptr[rows + 1] - batch.indptr[rows]
    indptr = np.concatenate([[0], np.cumsum(sizes)])
    at = np.arange(indptr[-1]) + np.repeat(batch.indptr[rows] - indptr[:-1], sizes)
    return Csr(indptr, batch.indices[at], batch.values[at])


def unit_rows(batch: Batch) -> Batch:
    """The batch with every row brought to length 1.

    DIFFERS [ST §5.2]: ALOI too; sigma = lambda / m makes sense for such rows only.
    """
    inverse = np.empty(rows_of(batch))
    inverse_lengths(batch, inverse)
    inverse = np.minimum(inverse, 1e38).astype(np.float32)  # rows of hardly any length
    if isinstance(batch, Dense):
        return Dense(batch.values * inverse[:, None])
    return batch._replace(values=batch.values * np.repeat(inverse, np.diff(batch.indptr)))


def gather(grown: State, batch: Batch, options: Options) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(leaves that each row reaches, its candidates, how many those are) [ST Alg. 1 l.1]; -1 is nobody."""
    n = rows_of(batch)
    reached = np.full((n, options.beam * len(grown["forest"].root)), -1, np.int32)
    labels = np.full((n, max(options.n_candidates, grown["candidates"].label.shape[1])), -1, np.int32)
    sizes = np.empty(n, np.int64)
    groups = [grown[name] for name in ("tree", "routers", "forest", "counts", "candidates")]
    filter_batch(*groups, batch, options, reached, labels, sizes)
    return reached, labels, sizes


def best_depth(
    grown: Filter, batch: Batch, labels: Labels, weights: np.ndarray, rows: np.ndarray, options: Options
) -> int:
    """The depth at which the candidates hold most of the labels of rows that the tree has not seen [ST §5]."""
    found = np.zeros(int(grown.tree.depth.max()) + 1)
    for first in range(0, len(rows), _BLOCK):
        some = rows[first : first + _BLOCK]
        own, part = labels.rows(some), take_rows(batch, some)
        row = np.repeat(np.arange(len(some)), np.diff(own.pointer))
        for depth in range(len(found)):
            _, candidates, _ = gather(join([cut_filter(grown, depth)]), part, options)
            hit = (candidates[row] == own.label[:, None]).any(axis=1)
            found[depth] += weights[some][row[hit]].sum()
    return int(np.argmax(found))


def check_forest(tree: Tree, forest: Forest) -> None:
    """Trees: one parent each but the roots, no circle, two children or none, depths as they are."""
    n = int(tree.n_nodes[0])
    need(1 <= n == len(tree.parent), f"tree.n_nodes is {n}, with {len(tree.parent)} nodes.")
    need(tree.children.shape[1] == 2, f"tree.children has {tree.children.shape[1]} sides.")
    need(len(forest.own_row) == n, f"forest.own_row has {len(forest.own_row)} rows for {n} nodes.")
    roots = np.flatnonzero(tree.parent < 0)
    need(len(roots) == len(forest.root) and (roots == np.sort(forest.root)).all(), "forest.root are not the roots.")
    need((tree.depth[roots] == 0).all(), "a root is not at the top.")
    need_range("tree.parent", tree.parent, -1, n)
    below = np.flatnonzero(tree.parent >= 0)
    need((tree.parent[below] < below).all(), "a node comes before its parent.")  # so there is no circle
    need((tree.depth[below] == tree.depth[tree.parent[below]] + 1).all(), "tree.depth is not that of the tree.")
    need_range("tree.depth", tree.depth, 0, DEEPEST + 1)
    need_range("tree.children", tree.children, -1, n)
    used = tree.children >= 0
    need((used[:, 0] == used[:, 1]).all(), "a node has one child.")
    own = used.sum() == len(below) and (tree.parent[tree.children[used]] == np.nonzero(used)[0]).all()
    need(own and len(np.unique(tree.children[used])) == len(below), "a node is not its parent's child.")
