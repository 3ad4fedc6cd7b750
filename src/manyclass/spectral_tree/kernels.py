"""The spectral tree (A Hierarchical Spectral Method for Extreme Classification, 2015), tagged [ST ...].

In the order of the paper: Algorithm 1 is `visit`, a filter F (`gather`) followed by a classifier H
(`score_candidates`). The routing probability of §3.4 is `chance_right`. The training of H (§3.5) is `choose_leaves`,
the random paths, and `learn_batch`, stochastic gradient descent at their ends; `batches.py` has a faster form for the
rows of one leaf together. The filter is trained in `filter.py` [ST §3.4] and `node.py` [ST §3.3].

The classifier of a leaf [ST §3.5] is the sum of a predictor per class that all leaves share (`scorer`) and of a
predictor for each candidate of the leaf (`own`); either may be missing. In the low-rank form, both see a few numbers,
a learned linear map of the row, in place of the row.
"""

import math
from typing import Annotated, Any, NamedTuple

import numpy as np

from ..core import linear
from ..core.inputs import Dense, feature, first_not_below, span, squared_length, value
from ..core.labels import LabelSet, add_label, top_labels
from ..core.losses import SOFTMAX, probabilities, sigmoid
from ..core.projection import learn_projection, project
from ..core.rng import uniform
from ..core.state import Array, Candidates, Counts, Field, Linear, Tree
from ..core.trees import DEEPEST, LEFT, RIGHT, is_leaf
from ..core.updates import NEGLIGIBLE, Pace, count_prediction, limited, observe_scale, pace
from ..jit import device, inlined, kernel

OWN_NOTHING, OWN_BIAS, OWN_WEIGHTS = 0, 1, 2
# DIFFERS [ST §3.4]: several paths. One with e^-5 of the best path's probability is not followed.
UNLIKELY = 5.0
ZERO = np.int64(0)


class Options(NamedTuple):
    """Resolved options."""

    max_depth: int
    validate: bool  # keep the depth with the best recall on held-out rows, at most max_depth
    n_candidates: int  # of a leaf, and of a row, besides the head labels
    n_head: int  # the most frequent labels, which are candidates everywhere
    n_trees: int
    beam: int
    spread: float  # factor on the paper's sigma while the tree is built; 0: every row goes one way
    normalize: bool  # scale rows to length 1
    shared: bool  # whether leaves share a predictor per class
    own: int  # what a leaf has for each of its candidates: OWN_NOTHING, OWN_BIAS or OWN_WEIGHTS
    rank: int  # of the low-rank form; 0: predictors see the row itself
    loss: int
    multilabel: bool
    start: float  # shared predictors start at the mean row of their class times this
    randomized: bool  # train at the end of a random path, not of the likeliest
    table_bits: int
    n_epochs: int
    update: int
    rate: float
    decay: float  # factor on the rate after each epoch
    bias_rate: float  # factor on the steps of biases
    seed: int
    as_printed: bool = False  # [ST §3.5] to the letter: only candidates learn, and rows come in random order


class Routers(NamedTuple):
    """Routers of a binary tree: the sorted features of each node with their weights, its bias and its sigma."""

    first: Annotated[Array, Field("i8", ("node_end",))]  # where the features of a node begin; they end at the next
    feature: Annotated[Array, Field("i4", ("entry",), -1)]
    weight: Annotated[Array, Field("f4", ("entry",), rounds="entry")]
    bias: Annotated[Array, Field("f4", ("node",))]
    spread: Annotated[Array, Field("f4", ("node",))]  # standard deviation of the margin of a row


class Forest(NamedTuple):
    """Several trees whose nodes are numbered together: their roots, and the first row in `own` of each leaf."""

    root: Annotated[Array, Field("i4", ("tree",))]
    own_row: Annotated[Array, Field("i4", ("node",), -1)]


class Nodes(NamedTuple):
    """The filter F."""

    tree: Tree
    routers: Routers
    forest: Forest
    counts: Counts
    candidates: Candidates
    n_features: int


class Classifier(NamedTuple):
    """The classifier H."""

    scorer: Linear
    own: Linear
    projection: Any  # Projection, or None without the low-rank form


class Rows(NamedTuple):
    """Training rows with their labels."""

    batch: Any
    pointer: Array  # (row + 1) where the labels of a row begin
    label: Array
    weight: Array  # (row)
    most_labels: int  # of one row


class Found(NamedTuple):
    """Candidates of several rows."""

    leaf: Array  # (row, tree x beam) leaves reached, the likeliest of each tree first; -1: none
    label: Array  # (row, candidate)
    score: Array  # (row, candidate)
    size: Array  # (row) number of candidates


class Paths(NamedTuple):
    """Scratch for the paths of one row."""

    node: Array  # (2 x tree x beam) current node of each path; then how many of a leaf's candidates were read
    log_chance: Array  # (2 x tree x beam) log-probability of each path; then the factor of a leaf's masses
    leaf: Array  # (tree x beam) where the paths ended
    leaf_chance: Array  # (tree x beam) their log-probabilities
    known: LabelSet


class Scratch(NamedTuple):
    """Scratch for the candidates of one row."""

    label: Array  # (candidate)
    own: Array  # (candidate) row in `own`, or -1
    score: Array  # (candidate)
    own_score: Array  # (candidate)
    gradient: Array  # (candidate)
    hidden: Dense  # (1, rank) the low-rank representation of the row
    pull: Array  # (rank) gradient of the loss with respect to `hidden`


@kernel
def make_paths(nodes, options, width):
    """Scratch for paths whose leaves have up to `width` different candidates."""
    n_paths = nodes.forest.root.shape[0] * options.beam
    n_set = 4
    while n_set < 2 * width:
        n_set *= 2
    return Paths(
        np.empty(2 * n_paths, np.int64),
        np.empty(2 * n_paths),
        np.empty(n_paths, np.int64),
        np.empty(n_paths),
        LabelSet(np.empty(n_set, np.int32), np.full(n_set, -1, np.int64)),
    )


@kernel
def make_scratch(width, rank):
    """Scratch for up to `width` candidates."""
    return Scratch(
        np.empty(width, np.int64),
        np.empty(width, np.int64),
        np.empty(width, np.float32),
        np.empty(width, np.float32),
        np.empty(width, np.float32),
        Dense(np.zeros((1, max(1, rank)), np.float32)),
        np.zeros(max(1, rank), np.float32),
    )


@device
def most_candidates(nodes, options):
    """The most candidates of one row."""
    return max(options.n_candidates + options.n_head, nodes.candidates.label.shape[1])


# -- routing [ST §3.4] -----------------------------------------------------------------------------------------------


@device
def margin(routers, node, batch, i, n_features):
    """How far row i lies on the right side of a router. Cost: O(non-zeros x log features of the node)."""
    first, end = np.int64(routers.first[node]), np.int64(routers.first[node + 1])
    begin, stop = span(batch, i)
    total = np.float32(0.0)
    if end - first == n_features:  # every feature has a weight at its place
        for j in range(begin, stop):
            total += routers.weight[first + feature(batch, j)] * value(batch, i, j)
    else:
        at, before = first, np.int64(-1)
        for j in range(begin, stop):  # the features of row and node are sorted: each search continues from the last
            f = np.int64(feature(batch, j))
            at = first_not_below(routers.feature, at if f > before else first, end, f)
            before = f
            if at < end and routers.feature[at] == f:
                total += routers.weight[at] * value(batch, i, j)
    return np.float64(total) - routers.bias[node]


@device
def chance_right(routers, node, margin):
    """Probability that a row like this one goes to the right [ST §3.4]."""
    return 0.5 * math.erfc(-margin / (math.sqrt(2.0) * routers.spread[node]))


@inlined
def keep_likely(where, log_chance, n, beam):
    """Sort paths by probability, keep the best `beam` that are not UNLIKELY; return how many. Cost: O(n^2)."""
    for p in range(1, n):
        node, chance = where[p], log_chance[p]
        q = p
        while q > 0 and log_chance[q - 1] < chance:
            where[q], log_chance[q] = where[q - 1], log_chance[q - 1]
            q -= 1
        where[q], log_chance[q] = node, chance
    kept = np.int64(1)
    while kept < min(n, beam) and log_chance[kept] > log_chance[0] - UNLIKELY:
        kept += 1
    return kept


@inlined
def follow(nodes, root, batch, i, options, paths, n_leaves):
    """Append the leaves of the best `beam` paths through one tree: (leaves so far, routers scored) [ST Alg. 1 l.1].

    DIFFERS [ST §3.4]: the paper follows one path, by the sign of the margin; so does a beam of 1.
    Mutates: paths. Cost: O(beam x depth x non-zeros).
    """
    tree, where, log_chance = nodes.tree, paths.node, paths.log_chance
    where[0], log_chance[0] = root, 0.0
    n, n_scored, moved = np.int64(1), np.int64(0), True
    while moved:
        moved = False
        for p in range(n):
            node = where[p]
            if is_leaf(tree, node):
                continue
            moved = True
            m = margin(nodes.routers, node, batch, i, nodes.n_features)
            n_scored += 1
            side = RIGHT if m > 0.0 else LEFT
            where[p] = tree.children[node, side]
            if options.beam > 1:
                other = chance_right(nodes.routers, node, -abs(m))
                if other > 1e-9:
                    where[n], log_chance[n] = tree.children[node, 1 - side], log_chance[p] + math.log(other)
                    n += 1
                log_chance[p] += math.log1p(-other)
        if n > 1:
            n = keep_likely(where, log_chance, n, options.beam)
    for p in range(n):
        paths.leaf[n_leaves + p], paths.leaf_chance[n_leaves + p] = where[p], log_chance[p]
    return n_leaves + n, n_scored


# -- Algorithm 1 -----------------------------------------------------------------------------------------------------


@inlined
def take_leaf(nodes, node, scratch):
    """The candidates of one leaf; return how many. Mutates: scratch. Cost: O(candidates)."""
    n = np.int64(nodes.candidates.size[node])
    for s in range(n):
        scratch.label[s] = nodes.candidates.label[node, s]
        scratch.own[s] = nodes.forest.own_row[node] + s
    return n


@inlined
def merge_leaves(nodes, n_leaves, stamp, options, paths, scratch):
    """The likeliest candidates of several leaves; return how many. Mutates: paths, scratch.

    The probability of a label is the largest of (probability of the path) x (share of the label in its leaf). The
    lists are sorted, so the next best label is always the next one of some list. Cost: O(candidates x leaves).
    """
    candidates, read, factor = nodes.candidates, paths.node, paths.log_chance
    for p in range(n_leaves):
        read[p] = 0
        factor[p] = math.exp(paths.leaf_chance[p]) / max(nodes.counts.total[paths.leaf[p]], 1e-300)
    n = np.int64(0)
    while n < options.n_candidates + options.n_head:
        likeliest, chosen = -1.0, np.int64(-1)
        for p in range(n_leaves):
            node, at = paths.leaf[p], read[p]
            if at < candidates.size[node]:
                chance = factor[p] * candidates.mass[node, at]
                if chance > likeliest:
                    likeliest, chosen = chance, np.int64(p)
        if chosen < 0:
            break
        node, at = paths.leaf[chosen], read[chosen]
        read[chosen] += 1
        label = np.int64(candidates.label[node, at])
        if add_label(paths.known, label, stamp):
            scratch.label[n] = label
            scratch.own[n] = nodes.forest.own_row[node] + at
            n += 1
    return n


@inlined
def gather(nodes, batch, i, stamp, options, paths, scratch):
    """F: the candidates of row i [ST Alg. 1 l.1]: (leaves, routers scored, candidates). Mutates: paths, scratch."""
    n_leaves, n_scored = np.int64(0), np.int64(0)
    for t in range(nodes.forest.root.shape[0]):
        n_leaves, scored = follow(nodes, np.int64(nodes.forest.root[t]), batch, i, options, paths, n_leaves)
        n_scored += scored
    if n_leaves == 1:
        return n_leaves, n_scored, take_leaf(nodes, paths.leaf[0], scratch)
    return n_leaves, n_scored, merge_leaves(nodes, n_leaves, stamp, options, paths, scratch)


@inlined
def score_candidates(classifier, n, batch, i, options, scratch):
    """H: the scores of n candidates [ST Alg. 1 l.2]. Mutates: scratch. Cost: O(candidates x non-zeros)."""
    if options.shared:
        linear.score_rows(classifier.scorer, scratch.label, ZERO, n, batch, i, scratch.score)
    else:
        for c in range(n):
            scratch.score[c] = 0.0
    if options.own == OWN_BIAS:
        for c in range(n):
            if scratch.own[c] >= 0:
                scratch.score[c] += classifier.own.bias[scratch.own[c]]
    elif options.own == OWN_WEIGHTS:
        n_own = n
        while n_own > 0 and scratch.own[n_own - 1] < 0:  # labels that are not in the leaf's list come last
            n_own -= 1
        linear.score_rows(classifier.own, scratch.own, ZERO, n_own, batch, i, scratch.own_score)
        for c in range(n_own):
            scratch.score[c] += scratch.own_score[c]


@inlined
def score_row(projection, classifier, n, batch, i, options, scratch):
    """The scores of n candidates for row i, or for its low-rank form if there is one [ST §5.2]. Mutates: scratch."""
    if projection is None:
        score_candidates(classifier, n, batch, i, options, scratch)
    else:
        project(projection, ZERO, batch, i, 1.0, scratch.hidden.values)
        score_candidates(classifier, n, scratch.hidden, ZERO, options, scratch)


@inlined
def visit(nodes, classifier, batch, i, options, paths, scratch):
    """Predict(F, H, x) [ST Alg. 1]: (leaves, routers scored, candidates), with scores. Mutates: paths, scratch."""
    n_leaves, n_routers, n = gather(nodes, batch, i, i, options, paths, scratch)
    score_row(classifier.projection, classifier, n, batch, i, options, scratch)
    return n_leaves, n_routers, n


@inlined
def predict_rows(nodes, classifier, batch, n_classes, options, out, paths, scratch):
    """The loop of predict_batch."""
    for r in range(out.labels.shape[0]):
        n_leaves, n_routers, n = visit(nodes, classifier, batch, r, options, paths, scratch)
        top_labels(
            nodes.tree, nodes.candidates, paths.leaf[0], n_classes, scratch.label, scratch.score, n, r, out.labels[r],
            out.scores[r], paths.known,
        )  # fmt: skip
        out.work[r, 0], out.work[r, 1] = nodes.tree.depth[paths.leaf[0]], n_routers + n_leaves
        out.work[r, 2], out.work[r, 3] = n_routers, n


@kernel
def predict_batch(nodes, classifier, batch, n_classes, options, out):
    """The best labels of all rows with their scores and the work: depth, nodes, routers, candidates.

    Mutates: out. Cost: O((beam x depth + candidates) x non-zeros) per row.
    """
    width = most_candidates(nodes, options) + out.labels.shape[1]
    paths, scratch = make_paths(nodes, options, width), make_scratch(width, options.rank)
    predict_rows(nodes, classifier, batch, n_classes, options, out, paths, scratch)


@inlined
def candidates_rows(nodes, classifier, batch, options, out, paths, scratch):
    """The loop of candidates_batch."""
    for r in range(out.label.shape[0]):
        if classifier is None:
            n_leaves, _, n = gather(nodes, batch, r, r, options, paths, scratch)
        else:
            n_leaves, _, n = visit(nodes, classifier, batch, r, options, paths, scratch)
        for p in range(n_leaves):
            out.leaf[r, p] = paths.leaf[p]
        out.size[r] = n
        for c in range(n):
            out.label[r, c], out.score[r, c] = scratch.label[c], scratch.score[c]


@kernel
def candidates_batch(nodes, classifier, batch, options, out):
    """All candidates of all rows, with their scores unless `classifier` is None. Mutates: out."""
    width = most_candidates(nodes, options)
    paths, scratch = make_paths(nodes, options, width), make_scratch(width, options.rank)
    candidates_rows(nodes, classifier, batch, options, out, paths, scratch)


# -- training of the classifier [ST §3.5] ----------------------------------------------------------------------------


@kernel
def observe_rows(scale, batch, n):
    """Take n rows into the sizes of the features. Mutates: scale."""
    for i in range(n):
        observe_scale(scale, batch, i)


@inlined
def random_leaf(nodes, batch, i, counter, options):
    """The leaf at the end of a path through one tree, drawn by its routing probabilities [ST §3.5].

    Cost: O(depth x non-zeros).
    """
    tree, n_trees = nodes.tree, nodes.forest.root.shape[0]
    node = np.int64(nodes.forest.root[np.int64(uniform(options.seed + 1, counter) * n_trees)])
    while not is_leaf(tree, node):
        m = margin(nodes.routers, node, batch, i, nodes.n_features)
        side = RIGHT if m > 0.0 else LEFT
        if options.randomized:
            draw = uniform(options.seed, counter * DEEPEST + tree.depth[node])
            side = RIGHT if draw < chance_right(nodes.routers, node, m) else LEFT
        node = np.int64(tree.children[node, side])
    return node


@kernel
def choose_leaves(nodes, batch, order, counter, options, out):
    """The leaf at which each row of `order` is trained. Mutates: out. Cost: O(depth x non-zeros) per row."""
    for o in range(order.shape[0]):
        out[o] = random_leaf(nodes, batch, order[o], counter + o, options)


@inlined
def add_truth(rows, i, n_leaf, scratch):
    """Append the true labels that the leaf lacks; return the number of candidates. Mutates: scratch.

    Cost: O(labels of the row x candidates of the leaf).

    DIFFERS [ST §3.5]: shared predictors learn from every label, also where the path led to the wrong leaf.
    """
    n = n_leaf
    for p in range(rows.pointer[i], rows.pointer[i + 1]):
        label = np.int64(rows.label[p])
        if place_of(scratch, label, n_leaf) == n_leaf:
            scratch.label[n], scratch.own[n] = label, -1
            n += 1
    return n


@inlined
def place_of(scratch, label, n):
    """Where a label is among the first n candidates, or n."""
    at = ZERO
    while at < n and scratch.label[at] != label:
        at += 1
    return at


@inlined
def take_gradients(rows, i, n_leaf, n, options, scratch):
    """Gradients of n scores: (whether there is anything to learn, whether the best was right). Mutates: scratch.

    Softmax over the candidates, which requires a true label among them; or each candidate on its own. Only the first
    n_leaf candidates, those of the leaf, could be predicted on this path.
    """
    gradient, best, found, right = scratch.gradient, ZERO, False, False
    for c in range(1, n_leaf):
        if scratch.score[c] > scratch.score[best]:
            best = np.int64(c)
    if options.loss == SOFTMAX:
        probabilities(scratch.score, n, options.loss, gradient)
    else:
        for c in range(n):
            gradient[c] = sigmoid(scratch.score[c])
    added = np.int64(n_leaf)  # where the next of the labels is that `add_truth` has added
    for p in range(rows.pointer[i], rows.pointer[i + 1]):
        at = place_of(scratch, np.int64(rows.label[p]), n_leaf)
        if at < n_leaf:
            right = right or at == best
        elif added < n and scratch.label[added] == rows.label[p]:
            at = added
            added += 1
        else:
            continue
        gradient[at] -= 1.0
        found = True
    return found or options.loss != SOFTMAX, right


@inlined
def step_of(options, scale, batch, i):
    """The step of row i."""
    step = pace(options.update, options.rate, scale, squared_length(batch, i))
    return Pace(step.update, step.step, step.size, step.bias_step * options.bias_rate)


@inlined
def learn_candidates(classifier, n, batch, i, weight, step, scale, options, scratch):
    """One step of n candidates against their gradients. Mutates: classifier. Cost: O(candidates x non-zeros)."""
    for c in range(n):
        if abs(scratch.gradient[c]) < NEGLIGIBLE:
            continue
        gradient = scratch.gradient[c] * weight
        if options.shared:
            linear.learn(classifier.scorer, scratch.label[c], batch, i, gradient, step, scale)
        if scratch.own[c] >= 0:
            if options.own == OWN_BIAS:
                linear.learn_bias(classifier.own, scratch.own[c], gradient, step)
            elif options.own == OWN_WEIGHTS:
                linear.learn(classifier.own, scratch.own[c], batch, i, gradient, step, scale)


@inlined
def pull_back(bank, row, gradient, out):
    """Add a predictor's weights times its gradient. Mutates: out. Cost: O(rank)."""
    mask = bank.mask[0]
    for r in range(out.shape[0]):
        weight = bank.weight[row, r] if mask == 0 else bank.weight[0, linear.slot(row, r, mask)]
        out[r] += np.float32(gradient) * weight


@inlined
def learn_row(projection, classifier, n, rows, i, scale, options, scratch):
    """One step of n candidates and, in the low-rank form, of the map [ST §5.2]. Mutates: classifier, scratch."""
    weight, step = limited(rows.weight[i], options.update), step_of(options, scale, rows.batch, i)
    if projection is None:
        learn_candidates(classifier, n, rows.batch, i, weight, step, scale, options, scratch)
    else:
        scratch.pull[:] = np.float32(0.0)
        for c in range(n):
            if abs(scratch.gradient[c]) >= NEGLIGIBLE:
                if options.shared:
                    pull_back(classifier.scorer, scratch.label[c], scratch.gradient[c] * weight, scratch.pull)
                if options.own == OWN_WEIGHTS and scratch.own[c] >= 0:
                    pull_back(classifier.own, scratch.own[c], scratch.gradient[c] * weight, scratch.pull)
        learn_candidates(classifier, n, scratch.hidden, ZERO, weight, step, scale, options, scratch)
        learn_projection(projection, ZERO, rows.batch, i, 1.0, scratch.pull, options.rate)


@inlined
def learn_rows(nodes, classifier, scale, seen, rows, order, leaves, options, scratch):
    """The loop of learn_batch."""
    for o in range(order.shape[0]):
        i = order[o]
        n_leaf = take_leaf(nodes, leaves[o], scratch)
        n = add_truth(rows, i, n_leaf, scratch) if options.shared and not options.as_printed else n_leaf
        score_row(classifier.projection, classifier, n, rows.batch, i, options, scratch)
        learns, right = take_gradients(rows, i, n_leaf, n, options, scratch)
        seen.n_rows[0] += 1
        count_prediction(seen, right, rows.weight[i], 0.0)
        if learns:
            learn_row(classifier.projection, classifier, n, rows, i, scale, options, scratch)


@kernel
def learn_batch(nodes, classifier, scale, seen, rows, order, leaves, options):
    """Train the classifier on the rows in `order`, each at the leaf that was drawn for it [ST §3.5].

    Mutates: classifier, seen. Cost: O(candidates x non-zeros) per row.
    """
    scratch = make_scratch(nodes.candidates.label.shape[1] + rows.most_labels, options.rank)
    learn_rows(nodes, classifier, scale, seen, rows, order, leaves, options, scratch)
