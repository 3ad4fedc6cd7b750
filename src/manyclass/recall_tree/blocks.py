"""Predictions of a Recall Tree for many dense rows at once, node by node: those of `recall_answers` up to rounding, faster.

All rows are routed first; then the rows that stopped at a node are scored together, four rows by two candidates at a
time, so that each weight is read once for four rows. "Conditional execution frustrates vectorization" [RT §4.2]: this
is how it need not. A label in the lists of several nodes that a row reached is scored once for each, and counted so.
"""

from typing import NamedTuple

import numpy as np

from ..core import linear
from ..core.labels import fill_up
from ..core.sets import add_label
from ..core.topk import offer
from ..core.trees import LEFT, RIGHT, ROOT, has_children
from ..jit import device, inlined, kernel
from .answers import count_leaves
from .paths import NOBODY, follow_paths, score_children


class Visits(NamedTuple):
    """Where the rows of a batch stopped, row after row, and the scores of the candidates there."""

    turn: np.ndarray  # (row,) i4: in which order the rows are routed
    first: np.ndarray  # (row,) i8: where a row's visits begin
    last: np.ndarray  # (row,) i8: and end
    node: np.ndarray  # (visit,) i4
    row: np.ndarray  # (visit,) i4
    order: np.ndarray  # (visit,) i4: by node
    begin: np.ndarray  # (node + 1,) i4: where a node's visits begin in `order`
    score: np.ndarray  # (visit, slot) f8


class Best(NamedTuple):
    """The best candidate of each row so far."""

    score: np.ndarray  # (row,) f4
    label: np.ndarray  # (row,) i4
    visit: np.ndarray  # (row,) i4: where it was met; -1: nowhere yet
    some: np.ndarray  # (slot,) f8: room for the scores of one row at one node


LEAST = np.float32(-np.inf)


@inlined
def sort_by_node(nodes, n, n_nodes, begin, order):
    """Sort 0..n-1 by their nodes, those of a node in order; `begin` says where a node's begin. Mutates: begin, order.

    Cost: O(nodes + n).
    """
    for node in range(n_nodes + 1):
        begin[node] = 0
    for v in range(n):
        begin[nodes[v] + 1] += 1
    for node in range(n_nodes):
        begin[node + 1] += begin[node]
    for v in range(n):
        node = nodes[v]
        order[begin[node]] = v
        begin[node] += 1
    for node in range(n_nodes, 0, -1):  # each begin has moved to its end, the next one's begin
        begin[node] = begin[node - 1]
    begin[0] = 0


@inlined
def gather_rows(tree, router, batch, top, options, fan, visits, work):
    """Order the rows by the node that each reaches at level `top`, so that like rows are routed one after another.

    In a large tree the routers below are then read once for all of them, not from memory for each.
    Mutates: visits, fan, work. Cost: O(top x features) a row.
    """
    n_rows = work.shape[0]
    for r in range(n_rows):
        node = ROOT
        work[r, 2] = 0
        while has_children(tree, node) and tree.depth[node] < top:
            work[r, 2] += 1 if fan is None else options.arity
            if fan is not None:
                side = score_children(tree, router, node, batch, r, options, fan)
            else:
                side = np.int64(LEFT) if linear.score(router, node, batch, r) > 0.0 else np.int64(RIGHT)
            child = np.int64(tree.children[node, side])
            if child < 0:
                break
            node = child
        visits.node[r] = node
    sort_by_node(visits.node, n_rows, tree.n_nodes[0], visits.begin, visits.turn)


@inlined
def route_rows(tree, router, counts, candidates, table, batch, options, scratch, fan, gather, visits, work):
    """Follow the paths of all rows [RT Alg. 1 l.3-10] and sort the visits by node.

    Mutates: visits, work, scratch, fan. Cost: O(beam x depth x features) a row, and O(nodes).
    """
    n_rows = work.shape[0]
    if gather > 0:
        gather_rows(tree, router, batch, gather, options, fan, visits, work)
    else:
        for t in range(n_rows):
            visits.turn[t], work[t, 2] = t, 0
    at = np.int64(0)
    for t in range(n_rows):
        r = np.int64(visits.turn[t])
        n_paths, n_routers = follow_paths(
            tree, router, counts, candidates, table, batch, r, NOBODY, options, scratch, fan
        )  # fmt: skip
        visits.first[r] = at
        n_scored = np.int64(0)
        for p in range(n_paths):
            visits.node[at], visits.row[at] = scratch.node[p], r
            n_scored += candidates.size[scratch.node[p]]
            at += 1
        visits.last[r] = at
        asked = n_routers if fan is None else n_routers // options.arity
        work[r, 0], work[r, 1] = tree.depth[scratch.node[0]], asked + count_leaves(tree, n_paths, scratch)
        work[r, 2] += n_routers
        work[r, 3] = n_scored
    sort_by_node(visits.node, at, tree.n_nodes[0], visits.begin, visits.order)


@device
def score_four_by_two(weight, x, label0, label1, row0, row1, row2, row3):
    """Products of two predictors and four rows. Cost: O(features)."""
    a0, a1, a2, a3 = np.float32(0.0), np.float32(0.0), np.float32(0.0), np.float32(0.0)
    b0, b1, b2, b3 = np.float32(0.0), np.float32(0.0), np.float32(0.0), np.float32(0.0)
    for j in range(x.shape[1]):
        a, b = weight[label0, j], weight[label1, j]
        x0, x1, x2, x3 = x[row0, j], x[row1, j], x[row2, j], x[row3, j]
        a0 += a * x0
        a1 += a * x1
        a2 += a * x2
        a3 += a * x3
        b0 += b * x0
        b1 += b * x1
        b2 += b * x2
        b3 += b * x3
    return a0, a1, a2, a3, b0, b1, b2, b3


@inlined
def keep_better(visits, best, visit, score, label):
    """Keep a row's best candidate; of equal ones, the one that it met first. Mutates: best."""
    row = np.int64(visits.row[visit])
    better = best.visit[row] < 0 or score > best.score[row]
    if better or (score == best.score[row] and visit < best.visit[row]):
        best.score[row], best.label[row], best.visit[row] = score, label, visit


@inlined
def best_of_node(scorer, candidates, node, batch, visits, best):
    """Score all candidates of a node for all rows that stopped there, and keep the best of each.

    Mutates: best. Cost: O(rows x candidates x features).
    """
    order, row, weight, bias = visits.order, visits.row, scorer.weight, scorer.bias
    labels, n = candidates.label[node], np.int64(candidates.size[node])
    at, end = np.int64(visits.begin[node]), np.int64(visits.begin[node + 1])
    if n == 0:
        return
    while at + 4 <= end:
        v0, v1, v2, v3 = order[at], order[at + 1], order[at + 2], order[at + 3]
        r0, r1, r2, r3 = np.int64(row[v0]), np.int64(row[v1]), np.int64(row[v2]), np.int64(row[v3])
        s0, s1, s2, s3 = LEAST, LEAST, LEAST, LEAST
        c0, c1, c2, c3 = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
        for c in range(0, n, 2):
            d = min(c + 1, n - 1)  # an odd one out is scored with itself
            one, two = np.int64(labels[c]), np.int64(labels[d])
            a0, a1, a2, a3, b0, b1, b2, b3 = score_four_by_two(weight, batch.values, one, two, r0, r1, r2, r3)
            a0, a1, a2, a3 = a0 + bias[one], a1 + bias[one], a2 + bias[one], a3 + bias[one]
            b0, b1, b2, b3 = b0 + bias[two], b1 + bias[two], b2 + bias[two], b3 + bias[two]
            s0, c0 = (a0, one) if c == 0 or a0 > s0 else (s0, c0)
            s1, c1 = (a1, one) if c == 0 or a1 > s1 else (s1, c1)
            s2, c2 = (a2, one) if c == 0 or a2 > s2 else (s2, c2)
            s3, c3 = (a3, one) if c == 0 or a3 > s3 else (s3, c3)
            s0, c0 = (b0, two) if b0 > s0 else (s0, c0)
            s1, c1 = (b1, two) if b1 > s1 else (s1, c1)
            s2, c2 = (b2, two) if b2 > s2 else (s2, c2)
            s3, c3 = (b3, two) if b3 > s3 else (s3, c3)
        keep_better(visits, best, v0, s0, c0)
        keep_better(visits, best, v1, s1, c1)
        keep_better(visits, best, v2, s2, c2)
        keep_better(visits, best, v3, s3, c3)
        at += 4
    while at < end:
        v = order[at]
        linear.score_rows(scorer, labels, np.int64(0), n, batch, np.int64(row[v]), best.some)
        top = np.int64(0)
        for c in range(1, n):
            if best.some[c] > best.some[top]:
                top = np.int64(c)
        keep_better(visits, best, v, np.float32(best.some[top]), np.int64(labels[top]))
        at += 1


@kernel
def best_by_node(
    tree, router, scorer, counts, candidates, table,
    batch, n_classes, options, scratch, fan, gather, visits, best, labels, scores, work,
):  # fmt: skip
    """The best label of many rows: `predict_by_node` for one answer, which needs no room for scores.

    `gather`: the level at which like rows are put together, or 0. Mutates: visits, best, labels, scores, work.
    Cost: O((beam x depth + candidates) x features) a row.
    """
    route_rows(tree, router, counts, candidates, table, batch, options, scratch, fan, gather, visits, work)
    for r in range(labels.shape[0]):
        best.score[r], best.visit[r] = LEAST, -1
    for node in range(tree.n_nodes[0]):
        best_of_node(scorer, candidates, node, batch, visits, best)
    for r in range(labels.shape[0]):
        size = np.int64(0)
        if best.visit[r] >= 0:
            labels[r, 0], scores[r, 0], size = best.label[r], best.score[r], np.int64(1)
        if size < 1:
            home = np.int64(visits.node[visits.first[r]])
            scratch.stamp[0] += 1
            fill_up(
                tree, candidates, home, n_classes, scratch.stamp[0], size, labels[r], scores[r], scratch.known
            )  # fmt: skip


@inlined
def score_node(scorer, candidates, node, batch, visits):
    """Score all candidates of a node for all rows that stopped there.

    Mutates: visits. Cost: O(rows x candidates x features).
    """
    order, score, row, weight, bias = visits.order, visits.score, visits.row, scorer.weight, scorer.bias
    labels, n = candidates.label[node], np.int64(candidates.size[node])
    at, end = np.int64(visits.begin[node]), np.int64(visits.begin[node + 1])
    while at + 4 <= end:
        v0, v1, v2, v3 = order[at], order[at + 1], order[at + 2], order[at + 3]
        r0, r1, r2, r3 = np.int64(row[v0]), np.int64(row[v1]), np.int64(row[v2]), np.int64(row[v3])
        for c in range(0, n, 2):
            d = min(c + 1, n - 1)  # an odd one out is scored with itself
            one, two = np.int64(labels[c]), np.int64(labels[d])
            a0, a1, a2, a3, b0, b1, b2, b3 = score_four_by_two(weight, batch.values, one, two, r0, r1, r2, r3)
            score[v0, d], score[v1, d] = b0 + bias[two], b1 + bias[two]
            score[v2, d], score[v3, d] = b2 + bias[two], b3 + bias[two]
            score[v0, c], score[v1, c] = a0 + bias[one], a1 + bias[one]
            score[v2, c], score[v3, c] = a2 + bias[one], a3 + bias[one]
        at += 4
    while at < end:
        v = order[at]
        linear.score_rows(scorer, labels, np.int64(0), n, batch, np.int64(row[v]), score[v])
        at += 1


@kernel
def predict_by_node(
    tree, router, scorer, counts, candidates, table,
    batch, n_classes, options, scratch, fan, gather, visits, labels, scores, work,
):  # fmt: skip
    """As `recall_answers.predict_batch`, for dense rows over plain weights: no path features, no start, no hashing.

    Mutates: visits, labels, scores, work. Cost: O((beam x depth + candidates) x features) a row.
    """
    route_rows(tree, router, counts, candidates, table, batch, options, scratch, fan, gather, visits, work)
    for node in range(tree.n_nodes[0]):
        score_node(scorer, candidates, node, batch, visits)
    for r in range(labels.shape[0]):
        scratch.stamp[0] += 1
        stamp, size = scratch.stamp[0], np.int64(0)
        for v in range(visits.first[r], visits.last[r]):
            node = visits.node[v]
            for c in range(candidates.size[node]):
                label = np.int64(candidates.label[node, c])
                if add_label(scratch.known, label, stamp):
                    size = offer(labels[r], scores[r], size, label, visits.score[v, c])
        if size < labels.shape[1]:
            home = np.int64(visits.node[visits.first[r]])
            fill_up(tree, candidates, home, n_classes, stamp, size, labels[r], scores[r], scratch.known)
