"""Label tree: the rules in reading order.

    options, arrays and scratch
    beam search               follow_paths: the best `beam` paths from the root to leaves
    prediction                predict_batch: labels of the leaves reached; merge_batch: several trees
    online learning           learn_batch: one step per row
    new labels                enter_labels: in the leaf of the best path

Other files: `growth.py` splits full nodes, `weights.py` has the weights of nodes, `fit.py` and `fit_kernels.py` train
in batch, node by node.
"""

import math
from typing import Annotated, NamedTuple

import numpy as np

from ..core.inputs import Batch, span, squared_length
from ..core.labels import LabelSet, add_label, has_label
from ..core.losses import SOFTMAX, log_sigmoid, log_sum, sigmoid
from ..core.state import Array, Field, Scale, Seen
from ..core.topk import offer
from ..core.updates import LONGEST_ROW, LONGEST_STEP, count_prediction
from ..jit import device, inlined, kernel
from .growth import MAX_LEVELS, Halves, adopt, can_split, split
from .weights import (
    OpenNode,
    Scratch,
    add_to_total,
    close_node,
    learn_node,
    make_open_node,
    make_scratch,
    n_known,
    number_features,
    open_outputs,
    plain,
    reserve,
    score_node,
    score_numbered,
    score_outputs,
    score_row,
)

BLOCK_ROWS = 1 << 14  # searched together: the more rows, the more of them share the weights of a node
MOST_SCORES = 1 << 22  # per block of rows
MIN_ROWS = 64  # fewer rows open no node: it would take time for every feature
OPENED = 3  # values of the rows at a node, per feature of the node, above which it is opened
NUMBERED = 8  # features of a node per value, below which they are numbered
SHORTEST_ROW = 1e-74  # squared length: 1 / the length of a longer row is finite
SMALLEST_GRADIENT = 0.01  # smaller ones take no step: it would fill memory with blocks close to zero
SHORT_RUN = 8  # rows of one label in succession that may be corrections
SORTED = 0.001  # a run of one label less likely than this in shuffled rows means that they are sorted
NOBODY = -1e30  # log of a sum over nothing


class Options(NamedTuple):
    """The options of a label tree, "auto" replaced by numbers."""

    arity: int  # most outputs per node
    beam: int  # paths followed
    loss: int  # a code of core/losses.py
    multilabel: bool  # rows may have several labels
    prior: float  # weight of the path's log-probability in the score of a label
    start: float  # weight of the cosine to the running sum of a label; -1: calibrated by `fit`
    router_start: float  # the same for routers
    bias: float  # of a label that has learned nothing
    router_bias: float
    C: float  # weight of the loss against the distance to the start, in `fit`; -1: chosen by `fit`
    margin: float  # of the squared hinge loss of leaves, in `fit`; 0: the log loss
    rate: float  # of online learning
    bias_rate: float  # times the rate: the bias as a feature of that squared size
    normalize: bool  # scale rows to length 1; else divide them by the typical length
    n_epochs: int
    n_trees: int
    neighbors: bool  # keep training rows if they help
    seed: int


class LabelTree(NamedTuple):
    """A wide tree: the outputs of an inner node are its children, those of a leaf are labels. Node 0 is the root."""

    outputs: Annotated[Array, Field("i4", ("node", "output"), -1)]
    size: Annotated[Array, Field("i4", ("node",))]
    is_leaf: Annotated[Array, Field("i1", ("node",), 1)]
    parent: Annotated[Array, Field("i4", ("node",), -1)]
    place: Annotated[Array, Field("i4", ("node",), -1)]  # which output of its parent a node is
    leaf_of: Annotated[Array, Field("i4", ("class",), -1)]
    place_of: Annotated[Array, Field("i4", ("class",), -1)]
    mass: Annotated[Array, Field("f8", ("class",), 0)]  # of the rows that had the label
    n_nodes: Annotated[Array, Field("i8", ("one",), 1)]


class Run(NamedTuple):
    """The label that came last, and how many times in succession."""

    label: Annotated[Array, Field("i8", ("one",), -1)]
    length: Annotated[Array, Field("i8", ("one",))]
    mass: Annotated[Array, Field("f8", ("one",), 0)]  # of all labels so far


class Rows(NamedTuple):
    """Rows, the factor that each is multiplied with, and their weights in training."""

    batch: Batch
    factor: Array  # (row,) f4
    weight: Array  # (row,) f8


class Search(NamedTuple):
    """The best paths of a block of rows, and scratch to find them."""

    node: Array  # (row, beam) i4: where each path ends
    log_prob: Array  # (row, beam) f8
    size: Array  # (row,) number of paths
    output: Array  # (row, beam x place) f4: log-probabilities of children, or scores of labels
    order: Array  # (row x beam,) paths grouped by node
    n_at: Array  # (node + 1,) for sorting
    next_node: Array  # (beam,)
    next_log_prob: Array  # (beam,)
    touched: Array  # (node,) i8: where a row learns
    true: LabelSet  # the labels of the row, by `key_of`, and the nodes above them
    work: Array  # (row of the batch, 4) i8: depth, nodes visited, routers scored, labels scored
    scratch: Scratch
    opened: OpenNode


class Found(NamedTuple):
    """What a search should return; arrays without columns are left out."""

    leaves: Array  # (row, beam) i4, best first; -1: fewer
    labels: Array  # (row, k) i4; -1: fewer
    scores: Array  # (row, k) f8; -inf: fewer
    work: Array  # (row, 4) i8, added to

    @classmethod
    def empty(cls, n_rows: int, n_leaves: int = 0, n_labels: int = 0) -> "Found":
        """Arrays for a search to fill."""
        labels, scores = np.empty((n_rows, n_labels), np.int32), np.empty((n_rows, n_labels))
        return cls(np.empty((n_rows, n_leaves), np.int32), labels, scores, np.zeros((n_rows, 4), np.int64))


class Stream(NamedTuple):
    """What online learning counts over all rows."""

    scale: Scale
    seen: Seen
    run: Run
    replay: bool  # earlier rows are learned again while the rows look sorted


@plain
def make_search(rows, beam, width, most_labels, n_nodes, most_nodes, work, scratch, opened):
    """Scratch for searching `rows` rows at a time, which learn at the leaves of up to `most_labels` labels each."""
    n_true = np.int64(1)
    while n_true < 2 * (most_labels + min(most_nodes, most_labels * (MAX_LEVELS + 1))):
        n_true *= 2
    return Search(
        np.empty((rows, beam), np.int32),
        np.empty((rows, beam)),
        np.empty(rows, np.int64),
        np.empty((rows, (beam + most_labels) * width), np.float32),
        np.empty(rows * beam, np.int64),
        np.empty(n_nodes + 1, np.int64),
        np.empty(beam, np.int32),
        np.empty(beam),
        np.empty(beam + most_labels * (MAX_LEVELS + 1) + 1, np.int64),
        LabelSet(np.empty(n_true, np.int64), np.zeros(n_true, np.int64)),
        work,
        scratch,
        opened,
    )


@device
def longest_row(batch, n_rows):
    """The largest number of non-zeros of a row. Cost: O(rows)."""
    longest = np.int64(0)
    for i in range(n_rows):
        begin, stop = span(batch, i)
        longest = max(longest, np.int64(stop - begin))
    return longest


@device
def row_factor(scale, batch, i, options):
    """What to multiply row i with: 1 / its length, or 1 / the typical length. Cost: O(non-zeros)."""
    sq_norm = squared_length(batch, i)
    if not options.normalize and scale.n_rows[0] > 0.0:
        # A row far longer than usual must not ruin the model.
        sq_norm = max(scale.sq_norm[0] / scale.n_rows[0], sq_norm / LONGEST_ROW)
    return np.float32(1.0 / math.sqrt(sq_norm)) if sq_norm > SHORTEST_ROW else np.float32(0.0)


@kernel
def row_factors(scale, batch, out, options):
    """The factors of all rows. Mutates: out."""
    for i in range(len(out)):
        out[i] = row_factor(scale, batch, i, options)


@kernel
def squared_lengths(batch, out):
    """The squared lengths of all rows. Mutates: out."""
    for i in range(len(out)):
        out[i] = squared_length(batch, i)


@plain
def start_of(options, leaf):
    """Weight of the cosine to the running sums, at a leaf or at a router."""
    return options.start if leaf else options.router_start


@plain
def first_bias(options, leaf):
    """Bias of an output that has learned nothing, at a leaf or at a router."""
    return np.float32(options.bias if leaf else options.router_bias)


# -- beam search ---------------------------------------------------------------------------------------------------


@device
def follow_paths(tree, blocks, rows, first, n_rows, beam, options, search):
    """The best `beam` paths of rows first.. from the root to leaves, best first. Mutates: search.

    Cost: O(beam x depth) nodes of `arity` outputs per row.
    """
    for r in range(n_rows):
        search.node[r, 0], search.log_prob[r, 0], search.size[r] = 0, 0.0, 1
    while score_nodes(tree, blocks, rows, first, n_rows, np.bool_(False), options, search) > 0:
        for r in range(n_rows):
            keep_best(tree, blocks.bias.shape[1], first, r, beam, search)


@inlined
def keep_best(tree, width, first, r, beam, search):
    """Replace the paths of a row that end at inner nodes by their children; keep the best `beam`. Mutates: search."""
    size = np.int64(0)
    moved = False
    for b in range(search.size[r]):
        node, log_prob = search.node[r, b], search.log_prob[r, b]
        if tree.is_leaf[node] != 0:
            size = offer(search.next_node[:beam], search.next_log_prob[:beam], size, node, log_prob)
        else:
            moved = True
            for c in range(tree.size[node]):
                child, below = tree.outputs[node, c], log_prob + search.output[r, b * width + c]
                size = offer(search.next_node[:beam], search.next_log_prob[:beam], size, child, below)
    for b in range(size):
        search.node[r, b], search.log_prob[r, b] = search.next_node[b], search.next_log_prob[b]
    search.size[r] = size
    if moved:
        search.work[first + r, 0] += 1


@device
def score_nodes(tree, blocks, rows, first, n_rows, leaves, options, search):
    """Score the outputs of the leaves, or of the inner nodes, at which paths end; return the number of such paths.

    `search.output` gets the scores of labels, or the log-probabilities of children. Mutates: search.
    """
    n = group_by_node(tree, n_rows, leaves, search)
    beam, width, scratch, opened = search.node.shape[1], blocks.bias.shape[1], search.scratch, search.opened
    start = start_of(options, leaves)
    q = np.int64(0)
    while q < n:
        node = np.int64(search.node[search.order[q] // beam, search.order[q] % beam])
        last, n_values = paths_to_node(rows.batch, first, q, n, search)
        n_features, n_open, n_numbered = n_known(blocks, node), np.int64(-1), np.int64(-1)
        if len(opened.feature) > n_features > 0:
            if n_values > OPENED * n_features:
                n_open = np.int64(open_outputs(blocks, node, start, opened))
            elif NUMBERED * n_values > n_features:
                n_numbered = np.int64(number_features(blocks, node, opened))
        while q < last:
            r, b = search.order[q] // beam, search.order[q] % beam
            i = first + r
            if n_open >= 0:
                score_row(rows.batch, i, rows.factor[i], opened.local, opened.weight, blocks.bias[node], scratch.score)
            elif n_numbered >= 0:
                score_numbered(blocks, node, rows.batch, i, rows.factor[i], opened, scratch.score)
            else:
                score_outputs(blocks, node, rows.batch, i, rows.factor[i], start, scratch, scratch.score)
            size = tree.size[node]
            if leaves:
                for c in range(size):
                    search.output[r, b * width + c] = scratch.score[c]
                search.work[i, 3] += size
            else:
                log_probabilities(scratch.score, size, options.loss, search.output[r], b * width)
                search.work[i, 2] += size
            search.work[i, 1] += 1
            q += 1
        close_node(opened, max(n_open, n_numbered))
    return n


@device
def group_by_node(tree, n_rows, leaves, search):
    """List the paths that end at a leaf (or at an inner node), grouped by node; return their number.

    One row needs no sorting; for many, the weights of a node are then read once. Mutates: search.
    """
    beam = search.node.shape[1]
    n = np.int64(0)
    if n_rows == 1:
        for b in range(search.size[0]):
            if (tree.is_leaf[search.node[0, b]] != 0) == leaves:
                search.order[n] = b
                n += 1
        return n
    n_nodes = tree.n_nodes[0]
    for node in range(n_nodes + 1):
        search.n_at[node] = 0
    for r in range(n_rows):
        for b in range(search.size[r]):
            node = search.node[r, b]
            if (tree.is_leaf[node] != 0) == leaves:
                search.n_at[node + 1] += 1
                n += 1
    for node in range(n_nodes):
        search.n_at[node + 1] += search.n_at[node]
    for r in range(n_rows):
        for b in range(search.size[r]):
            node = search.node[r, b]
            if (tree.is_leaf[node] != 0) == leaves:
                search.order[search.n_at[node]] = r * beam + b
                search.n_at[node] += 1
    return n


@device
def paths_to_node(batch, first, q, n, search):
    """End of the group of paths that begins at search.order[q], and the number of values of their rows."""
    beam = search.node.shape[1]
    node = np.int64(search.node[search.order[q] // beam, search.order[q] % beam])
    last, n_values = q, np.int64(0)
    while last < n and search.node[search.order[last] // beam, search.order[last] % beam] == node:
        begin, stop = span(batch, first + search.order[last] // beam)
        n_values += stop - begin
        last += 1
    return last, n_values


@device
def log_probabilities(scores, n, loss, out, first):
    """Log-probabilities of n outputs. Mutates: out. Cost: O(n)."""
    if loss == SOFTMAX:
        norm = log_sum(scores, n)
        for c in range(n):
            out[first + c] = scores[c] - norm
    else:
        for c in range(n):
            out[first + c] = log_sigmoid(np.float64(scores[c]))


# -- prediction ----------------------------------------------------------------------------------------------------


@inlined
def final_score(score, log_prob, options):
    """What labels are ranked by: their own score and, with weight `prior`, the log-probability of the path."""
    if options.loss == SOFTMAX:
        return score + options.prior * log_prob
    return log_sigmoid(np.float64(score)) + options.prior * log_prob


@kernel
def predict_batch(tree, blocks, scale, batch, options, found, ranked):
    """Search all rows. Labels are the k best ones, best first, or with ranked=False all that were reached, unsorted.

    Mutates: found. Cost: O(beam x depth) nodes per row.
    """
    width, n_rows = blocks.bias.shape[1], np.int64(len(found.work))
    block = min(np.int64(BLOCK_ROWS), n_rows, max(np.int64(1), MOST_SCORES // (options.beam * width)))
    most = np.int64(0)  # features of the largest node
    if block >= MIN_ROWS:
        for node in range(len(blocks.bias)):
            most = max(most, np.int64(n_known(blocks, node)))
    opened = make_open_node(np.int64(len(scale.inverse)) if most > 0 else np.int64(0), most, width)
    scratch = make_scratch(longest_row(batch, n_rows), width)
    n_nodes = tree.n_nodes[0] if block > 1 else np.int64(0)
    search = make_search(block, options.beam, width, np.int64(0), n_nodes, np.int64(0), found.work, scratch, opened)
    rows = Rows(batch, np.empty(n_rows, np.float32), np.empty(0))
    _predict_rows(tree, blocks, scale, rows, options, search, found, ranked)


@device
def _predict_rows(tree, blocks, scale, rows, options, search, found, ranked):
    width, n_rows, most = blocks.bias.shape[1], len(found.work), search.node.shape[0]
    k = found.labels.shape[1]
    for i in range(n_rows):
        rows.factor[i] = row_factor(scale, rows.batch, i, options)
    for first in range(0, n_rows, most):
        n = min(most, n_rows - first)
        follow_paths(tree, blocks, rows, first, n, options.beam, options, search)
        for r in range(n):
            for b in range(found.leaves.shape[1]):
                found.leaves[first + r, b] = search.node[r, b] if b < search.size[r] else -1
        if k == 0:
            continue
        score_nodes(tree, blocks, rows, first, n, np.bool_(True), options, search)
        for r in range(n):
            labels, scores = found.labels[first + r], found.scores[first + r]
            for rank in range(rank_labels(tree, width, r, options, search, labels, scores, ranked), k):
                labels[rank], scores[rank] = -1, -math.inf


@device
def rank_labels(tree, width, r, options, search, labels, scores, ranked):
    """The best labels of the leaves that row r reached, or all of them unsorted; return their number.

    Mutates: labels, scores.
    """
    size = np.int64(0)
    for b in range(search.size[r]):
        node = search.node[r, b]
        for c in range(tree.size[node]):
            label = tree.outputs[node, c]
            score = final_score(search.output[r, b * width + c], search.log_prob[r, b], options)
            if ranked:
                size = offer(labels, scores, size, label, score)
            elif size < len(labels):
                labels[size], scores[size] = label, score
                size += 1
    return size


@kernel
def merge_batch(labels, scores, joint, best, best_scores):
    """Join all labels (tree, row, label) that several trees reached; scores become logarithms of mean probabilities.

    A probability is exp(score), with `joint` divided by the sum over the labels of the tree. A label that a tree did
    not reach has probability 0 there. Mutates: best, best_scores. Cost: O(trees x labels) per row.
    """
    size = np.int64(16)
    while size < 2 * labels.shape[0] * labels.shape[2]:
        size *= 2
    table, place, total = np.full(size, -1, np.int32), np.empty(size, np.int32), np.empty(size)
    for r in range(len(best)):
        _merge_row(labels, scores, r, joint, best[r], best_scores[r], table, place, total)


@device
def _merge_row(labels, scores, r, joint, best, best_scores, table, place, total):
    n_trees, _, most = labels.shape
    mask, n_found = len(table) - 1, np.int64(0)
    for t in range(n_trees):
        n = np.int64(0)  # `most` depends on the capacity of the arrays, and the sum must not, to the last bit
        while n < most and labels[t, r, n] >= 0:
            n += 1
        norm = log_sum(scores[t, r], n) if joint and n > 0 else 0.0
        for c in range(n):
            label = labels[t, r, c]
            at = (label * 40503) & mask
            while table[at] >= 0 and table[at] != label:
                at = (at + 1) & mask
            if table[at] < 0:
                table[at], total[at] = label, 0.0
                place[n_found] = at
                n_found += 1
            total[at] += math.exp(scores[t, r, c] - norm) / n_trees
    size = np.int64(0)
    for k in range(n_found):  # not in the order of the table, whose size depends on `most`: it decides between equals
        at = place[k]
        size = offer(best, best_scores, size, table[at], total[at])
        table[at] = -1
    for rank in range(len(best)):
        if rank < size:
            best_scores[rank] = math.log(max(best_scores[rank], 1e-300))
        else:
            best[rank], best_scores[rank] = -1, -math.inf


# -- online learning -----------------------------------------------------------------------------------------------


@kernel
def learn_batch(tree, blocks, stream, rows, labels, begin, options):
    """Learn rows begin.. in order; return the first row for which an array is too short, or the number of rows.

    Mutates: tree, blocks, stream, rows.factor.
    """
    n_rows, width, outputs = np.int64(len(rows.weight)), blocks.bias.shape[1], tree.outputs.shape[1]
    most_labels = np.int64(0)
    for i in range(n_rows):
        most_labels = max(most_labels, labels.pointer[i + 1] - labels.pointer[i])
    opened = make_open_node(np.int64(0), np.int64(0), width)  # single rows open no node
    scratch, work = make_scratch(longest_row(rows.batch, n_rows), width), np.zeros((n_rows, 4), np.int64)
    most_nodes = np.int64(len(tree.parent))
    search = make_search(np.int64(1), options.beam, width, most_labels, np.int64(0), most_nodes, work, scratch, opened)
    gram, side = np.empty((outputs, outputs)), np.empty(outputs, np.int64)
    halves = Halves(gram, side, np.empty(outputs), np.empty(outputs, np.int64))
    return _learn_rows(tree, blocks, stream, rows, labels, begin, options, search, halves)


@device
def _learn_rows(tree, blocks, stream, rows, labels, begin, options, search, halves):
    batch, scale, seen, run = rows.batch, stream.scale, stream.seen, stream.run
    best, best_score = search.next_node[:1], search.next_log_prob[:1]
    for i in range(begin, len(rows.weight)):
        weight, own = rows.weight[i], labels.label[labels.pointer[i] : labels.pointer[i + 1]]
        if weight == 0.0:
            continue
        for label in own:
            if label >= len(tree.leaf_of):
                return i
        rows.factor[i] = row_factor(scale, batch, i, options)
        if not enter_labels(tree, blocks, rows, i, own, options, search, halves):
            return i
        follow_paths(tree, blocks, rows, i, np.int64(1), options.beam, options, search)
        stamp = np.int64(i + 1)
        n_leaves, n = touched_nodes(tree, own, search, stamp)
        row_begin, row_end = span(batch, i)
        if not reserve_all(blocks, search.touched, n, np.int64(row_end - row_begin)):
            return i
        score_nodes(tree, blocks, rows, i, np.int64(1), np.bool_(True), options, search)
        right, score = False, 0.0
        if rank_labels(tree, blocks.bias.shape[1], np.int64(0), options, search, best, best_score, True) > 0:
            score = best_score[0]
            for label in own:
                right = right or (label == best[0] and tree.mass[label] > 0.0)
        seen.n_rows[0] += 1
        count_prediction(seen, right, weight, score)
        step = min(weight, LONGEST_STEP) if takes_step(tree, stream, own, options) else 0.0
        for label in own:
            seen.n_labels[0] = max(seen.n_labels[0], label + 1)
            tree.mass[label] += weight
            run.mass[0] += weight
        if step > 0.0:
            learn_row(tree, blocks, rows, i, stamp, options.rate * step, (n_leaves, n), options, search)
        for label in own:
            node, place = np.int64(tree.leaf_of[label]), tree.place_of[label]
            while node >= 0:
                add_to_total(blocks, node, place, batch, i, rows.factor[i] * np.float32(weight))
                node, place = np.int64(tree.parent[node]), tree.place[node]
        longest = LONGEST_ROW * scale.sq_norm[0] / scale.n_rows[0] if scale.sq_norm[0] > 0.0 else np.inf
        scale.n_rows[0] += 1.0
        scale.sq_norm[0] += min(longest, squared_length(batch, i))
    return len(rows.weight)


@device
def touched_nodes(tree, labels, search, stamp):
    """List where a row learns: the leaves reached and the leaves of its labels, then the routers above its labels.

    `search.true` gets the labels and the nodes above them. Returns (number of leaves, number of all nodes).
    Mutates: search. Cost: O(beam + labels x depth).
    """
    nodes, true, n_reached = search.touched, search.true, search.size[0]
    for b in range(n_reached):
        nodes[b] = search.node[0, b]
    n = np.int64(n_reached)
    for label in labels:
        leaf = np.int64(tree.leaf_of[label])
        add_label(true, key_of(label), stamp)
        if add_label(true, leaf, stamp):
            at = np.int64(0)
            while at < n_reached and nodes[at] != leaf:
                at += 1
            if at == n_reached:
                nodes[n] = leaf
                n += 1
    n_leaves = n
    if tree.is_leaf[0] == 0:
        nodes[n] = 0  # the root also learns from a row without labels
        n += 1
    for label in labels:
        add_label(true, np.int64(0), stamp)
        node = np.int64(tree.parent[tree.leaf_of[label]])
        while node > 0 and add_label(true, node, stamp):
            nodes[n] = node
            n += 1
            node = np.int64(tree.parent[node])
    return n_leaves, n


@inlined
def key_of(label):
    """The number of a label in a set that also has nodes."""
    return np.int64(-1) - np.int64(label)


@device
def reserve_all(blocks, nodes, n, length):
    """Make space for what a row may add at its nodes; False if the arrays are too short. Mutates: blocks."""
    if blocks.n_records[0] + n * length > len(blocks.weight):
        return False
    for q in range(n):
        if not reserve(blocks, nodes[q], length):
            return False
    return True


@device
def takes_step(tree, stream, labels, options):
    """Whether a row corrects weights: not the first row of a label, nor in a run of one label too long for chance.

    If rows are sorted by label, each step would undo what earlier labels have learned: only the running sums learn. If
    earlier rows are learned again, the first rows of a run take steps all the same: somebody may correct predictions.
    With `start=0` the sums have no weight, so that every row takes a step. Mutates: stream.run. Cost: O(1).
    """
    run = stream.run
    label = np.int64(labels[0]) if len(labels) == 1 else np.int64(-1)
    run.length[0] = run.length[0] + 1 if label >= 0 and label == run.label[0] else np.int64(1)
    run.label[0] = label
    if start_of(options, np.bool_(True)) == 0.0:
        return True
    if label >= 0 and tree.mass[label] == 0.0:
        return False  # its running sum is this very row: there is nothing to correct yet
    if run.length[0] == 1 or (stream.replay and run.length[0] <= SHORT_RUN):
        return True
    share = tree.mass[label] / run.mass[0] if run.mass[0] > 0.0 else 1.0
    return share ** (run.length[0] - 1) >= SORTED


@device
def learn_row(tree, blocks, rows, i, stamp, rate, sizes, options, search):
    """One step at the nodes that a row touches; `sizes` are the numbers of leaves and of all. Mutates: blocks, search.

    Cost: O(beam + labels x depth) nodes.
    """
    nodes, (n_leaves, n) = search.touched, sizes
    width, scratch, batch, factor = blocks.bias.shape[1], search.scratch, rows.batch, rows.factor[i]
    # Softmax runs over the labels of all leaves together. The scores of the leaves reached are known already.
    norm = NOBODY
    for q in range(n_leaves):
        scores = search.output[0, q * width : (q + 1) * width]
        if q >= search.size[0]:
            score_node(blocks, nodes[q], batch, i, factor, start_of(options, True), scratch, scores)
        if options.loss == SOFTMAX:
            norm = log_add(norm, log_sum(scores, tree.size[nodes[q]]))
    for q in range(n):
        node = nodes[q]
        scores = search.output[0, q * width : (q + 1) * width] if q < n_leaves else scratch.score
        if q >= n_leaves:
            score_node(blocks, node, batch, i, factor, start_of(options, False), scratch, scores)
            norm = log_sum(scores, tree.size[node]) if options.loss == SOFTMAX else 0.0
        for c in range(tree.size[node], width):
            scratch.gradient[c] = np.float32(0.0)
        largest = gradient_of(tree, node, scores, search.true, stamp, norm, options.loss, scratch.gradient)
        if largest > SMALLEST_GRADIENT:
            learn_node(blocks, node, batch, i, factor, scratch.gradient, rate, rate * options.bias_rate, scratch)


@device
def log_add(a, b):
    """log(exp(a) + exp(b))."""
    top = max(a, b)
    return top + math.log(math.exp(a - top) + math.exp(b - top))


@inlined
def output_probability(score, norm, loss):
    """softmax: exp(score - norm); logistic: sigmoid(score)."""
    if loss == SOFTMAX:
        return np.float32(math.exp(score - norm))
    return np.float32(sigmoid(np.float64(score)))


@device
def gradient_of(tree, node, scores, true, stamp, norm, loss, out):
    """Gradients of the outputs of a node, and the largest absolute value. Mutates: out. Cost: O(outputs).

    The gradient is the probability, less 1 for an output that leads to labels of the row, however many they are.
    """
    largest, leads = np.float32(0.0), has_label(true, np.int64(node), stamp)
    for c in range(tree.size[node]):
        out[c] = output_probability(scores[c], norm, loss)
        output = np.int64(tree.outputs[node, c])
        if leads and has_label(true, key_of(output) if tree.is_leaf[node] else output, stamp):
            out[c] -= np.float32(1.0)
        largest = max(largest, abs(out[c]))
    return largest


@device
def enter_labels(tree, blocks, rows, i, labels, options, search, halves):
    """Place the labels of a row that are new; False if the arrays are too short. Mutates: tree, blocks, search.

    A new label enters the leaf of the best single path of its first row; a full leaf is split before. The loop ends:
    each split makes one full leaf less, and no label enters meanwhile.
    """
    for label in labels:
        while tree.leaf_of[label] < 0:
            follow_paths(tree, blocks, rows, i, np.int64(1), np.int64(1), options, search)
            node = np.int64(search.node[0, 0])
            place = tree.size[node]
            if place < tree.outputs.shape[1]:
                tree.size[node] += np.int32(1)
                adopt(tree, node, place, np.int32(label))
            elif can_split(tree, blocks, node):
                split(tree, blocks, node, (first_bias(options, False), first_bias(options, True)), halves)
            else:
                return False
    return True
