"""The classifier of a spectral tree (A Hierarchical Spectral Method for Extreme Classification, 2015), tagged [ST ...].

H(x, C) of Alg. 1 -> score_candidates; its training §3.5 -> learn_batch, at the end of a random path a row. Routes are
in `spectral_paths.py`, answers in `spectral_answers.py`, the rows of a leaf together in `spectral_blocks.py`.

The classifier of a leaf [ST §3.5] is the sum of what all leaves share (`scorer`, a predictor a class) and what a leaf
has of its own (`own`, a predictor for each of its candidates); either may be missing. In the low-rank form both see a
few numbers, a learned map of the row, instead of the row.
"""

import numpy as np

from ..core import linear
from ..core.inputs import Dense, squared_length
from ..core.labels import add_label, remember
from ..core.losses import SOFTMAX, probabilities, sigmoid
from ..core.projection import learn_projection, project
from ..core.updates import ADAGRAD, NEGLIGIBLE, Pace, observe_scale, pace
from ..jit import device, inlined, kernel
from .paths import OWN_BIAS, OWN_WEIGHTS, choose_leaf, make_scratch, take_leaf


@inlined
def score_candidates(scorer, own, n, batch, i, options, scratch):
    """Scores of n candidates [ST §3.5]. Mutates: scratch. Cost: O(candidates x non-zeros)."""
    if options.shared:
        linear.score_rows(scorer, scratch.label, np.int64(0), n, batch, i, scratch.score)
    else:
        for c in range(n):
            scratch.score[c] = 0.0
    if options.own == OWN_BIAS:
        for c in range(n):
            if scratch.own[c] >= 0:
                scratch.score[c] += own.bias[scratch.own[c]]
    elif options.own == OWN_WEIGHTS:
        n_own = n
        while n_own > 0 and scratch.own[n_own - 1] < 0:  # labels that no leaf brought come last
            n_own -= 1
        linear.score_rows(own, scratch.own, np.int64(0), n_own, batch, i, scratch.own_score)
        for c in range(n_own):
            scratch.score[c] += scratch.own_score[c]


# -- learning ------------------------------------------------------------------------------------------------------


@inlined
def add_truth(labels, first, last, stamp, n, scratch):
    """Join the true labels that the leaf lacks; return how many there are now. Mutates: scratch.

    DIFFERS [ST §3.5]: what all leaves share learns from every label, also where the path was wrong.
    """
    remember(scratch.label, n, stamp, scratch.known)
    for p in range(first, last):
        label = np.int64(labels[p])
        if add_label(scratch.known, label, stamp):
            scratch.label[n], scratch.own[n] = label, -1
            n += 1
    return n


@inlined
def take_gradients(labels, first, last, n_met, n, options, scratch):
    """Gradients of n scores: (whether there is anything to learn, whether the best score was right). Mutates: scratch.

    The first n_met are the leaf's candidates, the only ones that an answer on this path could give.

    Softmax over the candidates, which needs the true label among them; or each candidate on its own.
    """
    gradient, best, found, right = scratch.gradient, np.int64(0), False, False
    for c in range(1, n_met):
        if scratch.score[c] > scratch.score[best]:
            best = np.int64(c)
    if options.loss == SOFTMAX:
        probabilities(scratch.score, n, options.loss, gradient)
    else:
        for c in range(n):
            gradient[c] = sigmoid(scratch.score[c])
    for p in range(first, last):
        for c in range(n):
            if scratch.label[c] == labels[p]:
                gradient[c] -= 1.0
                found = True
                right = right or (c == best and c < n_met)
                break
    return found or options.loss != SOFTMAX, right


@inlined
def learn_candidates(scorer, own, n, batch, i, weight, step, scale, options, scratch):
    """One step of n candidates against their gradients. Mutates: scorer, own. Cost: O(candidates x non-zeros)."""
    for c in range(n):
        if abs(scratch.gradient[c]) < NEGLIGIBLE:
            continue
        gradient = scratch.gradient[c] * weight
        if options.shared:
            linear.learn(scorer, scratch.label[c], batch, i, gradient, step, scale)
        if scratch.own[c] >= 0:
            if options.own == OWN_BIAS:
                linear.learn_bias(own, scratch.own[c], gradient, step)
            elif options.own == OWN_WEIGHTS:
                linear.learn(own, scratch.own[c], batch, i, gradient, step, scale)


@inlined
def pull_back(bank, row, gradient, out):
    """Add a predictor's weights times its gradient: what its input should change by. Mutates: out. Cost: O(rank)."""
    mask = bank.mask[0]
    for r in range(out.shape[0]):
        weight = bank.weight[row, r] if mask == 0 else bank.weight[0, linear.slot(row, r, mask)]
        out[r] += np.float32(gradient) * weight


@inlined
def steps(options, scale, sq_norm):
    """How far a row's steps go."""
    step = pace(options.update, options.rate, scale, sq_norm)
    return Pace(step.update, step.step, step.size, step.bias_step * options.bias_rate)


@inlined
def meet(forest, candidates, node, labels, first, last, stamp, options, scratch):
    """The candidates of the leaf a row learns at; return how many. Mutates: scratch."""
    n = take_leaf(forest, candidates, node, scratch)
    return add_truth(labels, first, last, stamp, n, scratch) if options.shared else n


@inlined
def count_answer(seen, right, weight):
    """Note a row and how its answer fared. Mutates: seen."""
    seen.n_rows[0] += 1
    seen.mass[0] += weight
    seen.wrong_mass[0] += 0.0 if right else weight


@inlined
def learn_rows(
    tree, routers, forest, candidates, scorer, own, scale, seen, batch, pointer, labels, weights, order, options,
    scratch,
):  # fmt: skip
    """The loop of learn_batch."""
    for o in range(order.shape[0]):
        i = order[o]
        first, last, weight = pointer[i], pointer[i + 1], weights[i]
        node = choose_leaf(tree, routers, forest, batch, i, np.int64(seen.n_rows[0]), options)
        n = meet(forest, candidates, node, labels, first, last, seen.n_rows[0], options, scratch)
        score_candidates(scorer, own, n, batch, i, options, scratch)
        learns, right = take_gradients(labels, first, last, np.int64(candidates.size[node]), n, options, scratch)
        count_answer(seen, right, weight)
        step = steps(options, scale, squared_length(batch, i))
        if learns:
            learn_candidates(scorer, own, n, batch, i, weight, step, scale, options, scratch)


@kernel
def learn_batch(
    tree, routers, forest, candidates, scorer, own, scale, seen, batch, pointer, labels, weights, order, options
):  # fmt: skip
    """Teach the classifier the rows in their order, each at the end of a random path [ST §3.5].

    Mutates: scorer, own, scale, seen. Cost: O((depth + candidates) x non-zeros) a row.
    """
    learn_rows(
        tree, routers, forest, candidates, scorer, own, scale, seen, batch, pointer, labels, weights, order, options,
        make_scratch(forest, candidates, options, most_labels(pointer)),
    )  # fmt: skip


@inlined
def learn_low_rank_rows(
    tree, routers, forest, candidates, scorer, own, projection, scale, seen, batch, pointer, labels, weights, order,
    options, hidden, pull, scratch,
):  # fmt: skip
    """The loop of learn_low_rank_batch."""
    zero = np.int64(0)
    step = Pace(ADAGRAD, options.rate, 1.0, options.rate)
    for o in range(order.shape[0]):
        i = order[o]
        first, last, weight = pointer[i], pointer[i + 1], weights[i]
        node = choose_leaf(tree, routers, forest, batch, i, np.int64(seen.n_rows[0]), options)
        n = meet(forest, candidates, node, labels, first, last, seen.n_rows[0], options, scratch)
        project(projection, zero, batch, i, 1.0, hidden.values)
        score_candidates(scorer, own, n, hidden, zero, options, scratch)
        learns, right = take_gradients(labels, first, last, np.int64(candidates.size[node]), n, options, scratch)
        count_answer(seen, right, weight)
        if not learns:
            continue
        pull[:] = np.float32(0.0)
        for c in range(n):
            if abs(scratch.gradient[c]) >= NEGLIGIBLE:
                if options.shared:
                    pull_back(scorer, scratch.label[c], scratch.gradient[c] * weight, pull)
                if options.own == OWN_WEIGHTS and scratch.own[c] >= 0:
                    pull_back(own, scratch.own[c], scratch.gradient[c] * weight, pull)
        learn_candidates(scorer, own, n, hidden, zero, weight, step, scale, options, scratch)
        learn_projection(projection, zero, batch, i, 1.0, pull, options.rate)


@kernel
def learn_low_rank_batch(
    tree, routers, forest, candidates, scorer, own, projection, scale, seen, batch, pointer, labels, weights, order,
    options,
):  # fmt: skip
    """As learn_batch, over a learned map of each row to a few numbers [ST §5.2]. Mutates: projection too."""
    rank = projection.weight.shape[1]
    learn_low_rank_rows(
        tree, routers, forest, candidates, scorer, own, projection, scale, seen, batch, pointer, labels, weights, order,
        options, Dense(np.zeros((1, rank), np.float32)), np.zeros(rank, np.float32),
        make_scratch(forest, candidates, options, most_labels(pointer)),
    )  # fmt: skip


@device
def most_labels(pointer):
    """The most labels of a row."""
    most = np.int64(0)
    for i in range(pointer.shape[0] - 1):
        most = max(most, pointer[i + 1] - pointer[i])
    return most


@kernel
def observe_rows(scale, batch, n):
    """Take all rows into the sizes of the features. Mutates: scale."""
    for i in range(n):
        observe_scale(scale, batch, i)
