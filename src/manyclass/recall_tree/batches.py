"""Predictions for many dense rows at once, node by node: those of `predict_batch` up to rounding, but faster.

All rows are routed first. Then the rows that stopped at the same node are scored together, four rows by two candidates
at a time, so that each weight is read once for four rows. "Conditional execution frustrates vectorization" [RT §4.2]
does not apply here. A label in the lists of several nodes of a row is scored, and counted, once per node.
"""

from typing import NamedTuple

import numpy as np

from ..core import linear
from ..core.labels import add_label, fill_up
from ..core.topk import offer
from ..core.trees import LEFT, RIGHT, ROOT, has_children
from ..jit import device, inlined, kernel
from .kernels import NO_LABEL, count_work, follow_paths, score_children

LEAST = np.float32(-np.inf)


class Visits(NamedTuple):
    """Where the rows of a batch stopped, row after row, and the scores of the candidates there.

    For a single label per row, only the best candidate so far is kept, not all scores.
    """

    turn: np.ndarray  # (row,) i4: the order in which rows are routed
    first: np.ndarray  # (row,) i8: where a row's visits begin
    last: np.ndarray  # (row,) i8: and end
    node: np.ndarray  # (visit,) i4
    row: np.ndarray  # (visit,) i4
    order: np.ndarray  # (visit,) i4: visits sorted by node
    begin: np.ndarray  # (node + 1,) i4: where a node's visits begin in `order`
    score: np.ndarray  # (visit, slot) f8; for a single label (1, slot), scratch
    best_score: np.ndarray  # (row,) f4
    best_label: np.ndarray  # (row,) i4
    best_visit: np.ndarray  # (row,) i4: where the best candidate was found; -1: nowhere yet


def make_visits(n_rows: int, k: int, beam: int, n_nodes: int, n_slots: int) -> Visits:
    """Arrays for some rows of which the k best labels are predicted."""
    n = n_rows * beam
    return Visits(
        turn=np.empty(n_rows, np.int32),
        first=np.empty(n_rows, np.int64),
        last=np.empty(n_rows, np.int64),
        node=np.empty(n, np.int32),
        row=np.empty(n, np.int32),
        order=np.empty(n, np.int32),
        begin=np.empty(n_nodes + 1, np.int32),
        score=np.empty((n if k > 1 else 1, n_slots)),
        best_score=np.full(n_rows, LEAST),
        best_label=np.empty(n_rows, np.int32),
        best_visit=np.full(n_rows, -1, np.int32),
    )


@inlined
def sort_by_node(nodes, n, n_nodes, begin, order):
    """Sort 0..n-1 by their nodes, stably; `begin` gets the first place of each node. Mutates: begin, order.

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
    for node in range(n_nodes, 0, -1):  # each begin has moved to the begin of the next node
        begin[node] = begin[node - 1]
    begin[0] = 0


@inlined
def group_rows(nodes, batch, level, options, fan, visits, work):
    """Order the rows by the node that each reaches at a level, so that similar rows are routed one after another.

    In a large tree the routers below are then read from memory once for all of them, not for each row.
    Mutates: visits, fan, work. Cost: O(level x features) per row.
    """
    tree, n_rows = nodes.tree, work.shape[0]
    for r in range(n_rows):
        node = ROOT
        while has_children(tree, node) and tree.depth[node] < level:
            work[r, 2] += 1 if fan is None else options.arity
            if fan is not None:
                side = score_children(nodes, node, batch, r, options, fan)
            else:
                side = np.int64(LEFT) if linear.score(nodes.router, node, batch, r) > 0.0 else np.int64(RIGHT)
            child = np.int64(tree.children[node, side])
            if child < 0:
                break
            node = child
        visits.node[r] = node
    sort_by_node(visits.node, n_rows, tree.n_nodes[0], visits.begin, visits.turn)


@inlined
def route_rows(nodes, batch, options, scratch, level, visits, work):
    """Follow the paths of all rows [RT Alg. 1 l.3-10] and sort the visits by node.

    Mutates: visits, work, scratch. Cost: O(beam x depth x features) per row, and O(nodes).
    """
    tree, n_rows = nodes.tree, work.shape[0]
    for t in range(n_rows):
        visits.turn[t], work[t, 2] = t, 0
    if level > 0:
        group_rows(nodes, batch, level, options, scratch.fan, visits, work)
    at = np.int64(0)
    for t in range(n_rows):
        r = np.int64(visits.turn[t])
        n_paths, n_routers = follow_paths(nodes, batch, r, NO_LABEL, options, scratch, scratch.fan)
        visits.first[r] = at
        n_scored, n_before = np.int64(0), work[r, 2]
        for p in range(n_paths):
            visits.node[at], visits.row[at] = scratch.node[p], r
            n_scored += nodes.candidates.size[scratch.node[p]]
            at += 1
        visits.last[r] = at
        count_work(tree, n_paths, n_routers, n_scored, options, scratch, work[r])
        work[r, 2] += n_before
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
def keep_better(visits, visit, score, label):
    """Keep a row's best candidate; of equal ones, the first on its paths. Mutates: visits."""
    row = np.int64(visits.row[visit])
    better = visits.best_visit[row] < 0 or score > visits.best_score[row]
    if better or (score == visits.best_score[row] and visit < visits.best_visit[row]):
        visits.best_score[row], visits.best_label[row], visits.best_visit[row] = score, label, visit


@inlined
def score_node(scorer, candidates, node, batch, visits, single):
    """Score all candidates of a node for all rows that stopped there; keep all scores, or only the best (`single`).

    Mutates: visits. Cost: O(rows x candidates x features).
    """
    order, score, row, weight, bias = visits.order, visits.score, visits.row, scorer.weight, scorer.bias
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
            d = min(c + 1, n - 1)  # the last of an odd number is scored twice
            one, two = np.int64(labels[c]), np.int64(labels[d])
            a0, a1, a2, a3, b0, b1, b2, b3 = score_four_by_two(weight, batch.values, one, two, r0, r1, r2, r3)
            a0, a1, a2, a3 = a0 + bias[one], a1 + bias[one], a2 + bias[one], a3 + bias[one]
            b0, b1, b2, b3 = b0 + bias[two], b1 + bias[two], b2 + bias[two], b3 + bias[two]
            if single:
                s0, c0 = (a0, one) if c == 0 or a0 > s0 else (s0, c0)
                s1, c1 = (a1, one) if c == 0 or a1 > s1 else (s1, c1)
                s2, c2 = (a2, one) if c == 0 or a2 > s2 else (s2, c2)
                s3, c3 = (a3, one) if c == 0 or a3 > s3 else (s3, c3)
                s0, c0 = (b0, two) if b0 > s0 else (s0, c0)
                s1, c1 = (b1, two) if b1 > s1 else (s1, c1)
                s2, c2 = (b2, two) if b2 > s2 else (s2, c2)
                s3, c3 = (b3, two) if b3 > s3 else (s3, c3)
            else:
                score[v0, c], score[v1, c], score[v2, c], score[v3, c] = a0, a1, a2, a3
                score[v0, d], score[v1, d], score[v2, d], score[v3, d] = b0, b1, b2, b3
        if single:
            keep_better(visits, v0, s0, c0)
            keep_better(visits, v1, s1, c1)
            keep_better(visits, v2, s2, c2)
            keep_better(visits, v3, s3, c3)
        at += 4
    while at < end:
        v = order[at]
        out = score[0] if single else score[v]
        linear.score_rows(scorer, labels, np.int64(0), n, batch, np.int64(row[v]), out)
        if single:
            top = np.int64(0)
            for c in range(1, n):
                if out[c] > out[top]:
                    top = np.int64(c)
            keep_better(visits, v, np.float32(out[top]), np.int64(labels[top]))
        at += 1


@kernel
def predict_by_node(nodes, scorer, batch, n_classes, options, scratch, level, visits, out):
    """As `predict_batch`, for dense rows over weights that are not hashed, without path features.

    `level`: where similar rows are grouped, or 0. Mutates: visits, out.
    Cost: O((beam x depth + candidates) x features) per row.
    """
    candidates, labels, scores, single = nodes.candidates, out.labels, out.scores, out.labels.shape[1] == 1
    route_rows(nodes, batch, options, scratch, level, visits, out.work)
    for node in range(nodes.tree.n_nodes[0]):
        score_node(scorer, candidates, node, batch, visits, single)
    for r in range(labels.shape[0]):
        scratch.stamp[0] += 1
        stamp, size = scratch.stamp[0], np.int64(0)
        if single:
            if visits.best_visit[r] >= 0:
                labels[r, 0], scores[r, 0], size = visits.best_label[r], visits.best_score[r], np.int64(1)
        else:
            for v in range(visits.first[r], visits.last[r]):
                node = visits.node[v]
                for c in range(candidates.size[node]):
                    label = np.int64(candidates.label[node, c])
                    if add_label(scratch.known, label, stamp):
                        size = offer(labels[r], scores[r], size, label, visits.score[v, c])
        if size < labels.shape[1]:
            home = np.int64(visits.node[visits.first[r]])
            fill_up(nodes.tree, candidates, home, n_classes, stamp, size, labels[r], scores[r], scratch.known)
