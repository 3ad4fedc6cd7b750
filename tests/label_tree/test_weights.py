"""Tables of (node, feature) equal a dict; scores and steps equal dense products."""

import itertools
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from manyclass.core.inputs import Csr, Dense
from manyclass.core.state import make, resize
from manyclass.label_tree import weights as kernel
from manyclass.label_tree.weights import Blocks, make_scratch
from tests.reference.label_tree_states import as_batch

N_NODES, N_FEATURES = 4, 40
WIDTHS = pytest.mark.parametrize("width", [16, 32])


def empty_blocks(n_entries=64, n_records=512, width=16):
    return make(Blocks, node=N_NODES, entry=n_entries, record=n_records, place=width, table_size=kernel.SIZES)


def find(blocks, node, f):
    """As the kernels call it; a node without a table has no features."""
    return -1 if blocks.mask[node] < 0 else kernel.find(blocks, np.int64(node), np.int32(f))


def enter(blocks, node, f, n_more=1):
    """Find or make a block, with longer arrays where they are too short. Returns (blocks, record)."""
    while not kernel.reserve(blocks, np.int64(node), np.int64(n_more)):
        blocks = resize(blocks, entry=2 * len(blocks.feature))
    return blocks, kernel.find_or_make(blocks, np.int64(node), np.int32(f))


@pytest.mark.parametrize("bits", [10, 14, 18])
def test_chosen_features_have_different_searches(bits):
    """Features below 2**25 whose searches begin at the same entry: their steps differ, as far as they can."""
    found = []
    for first in range(0, 1 << 25, 1 << 20):
        at, step = kernel.search_of(np.arange(first, first + (1 << 20)), (1 << bits) - 1)
        found.append(step[at == 5])
    steps = np.concatenate(found)
    assert len(steps) == pytest.approx(1 << 25 - bits, rel=0.5)
    n, most = len(steps), 1 << bits - 1
    expected = most * (1 - (1 - 1 / most) ** n)  # different ones of n random numbers
    assert len(np.unique(steps)) > 0.9 * expected and (steps % 2 == 1).all()


# -- tables ----------------------------------------------------------------------------------------------------

# small numbers meet often; multiples of large powers of two share their low bits, and the places these choose
features = st.integers(0, 20) | st.integers(0, 30).map(lambda f: f << 20) | st.integers(0, 2**31 - 2)
pairs = st.tuples(st.integers(0, N_NODES - 1), features)


@settings(max_examples=60)
@given(st.lists(st.tuples(pairs, st.integers(1, 5)), max_size=150), st.lists(pairs, max_size=20))
def test_tables_equal_a_dict(stream, strangers):
    blocks, expected = empty_blocks(n_entries=16), {}
    for (node, f), n_more in stream:
        known = expected.get((node, f), -1)
        assert find(blocks, node, f) == known
        blocks, record = enter(blocks, node, f, n_more)
        assert record == (known if known >= 0 else len(expected))  # blocks are handed out one after the other
        expected[node, f] = record
        blocks.weight[record, 0] = 1000 * node + record
    assert blocks.n_records[0] == len(expected)
    for (node, f), record in expected.items():
        assert find(blocks, node, f) == record
        assert blocks.weight[record, 0] == 1000 * node + record
    for node, f in strangers:
        assert find(blocks, node, f) == expected.get((node, f), -1)
    check_tables(blocks, expected)


def check_tables(blocks, expected):
    """Tables and free tables cover all entries handed out, each once; no table is more than two thirds full."""
    covered = np.zeros(blocks.n_entries[0], int)
    for node in range(N_NODES):
        own = [f for other, f in expected if other == node]
        size = int(blocks.mask[node]) + 1
        table = slice(int(blocks.first[node]), int(blocks.first[node]) + size)
        assert blocks.n_used[node] == len(own)
        assert 3 * len(own) <= 2 * size
        assert sorted(f for f in blocks.feature[table] if f >= 0) == sorted(own)
        covered[table] += 1
    for log, first in enumerate(blocks.free):
        while first >= 0:
            covered[first : first + 2**log] += 1
            first = blocks.record[first]
    assert np.all(covered == 1)


def test_an_outgrown_table_is_given_to_the_next_node():
    blocks = empty_blocks()
    for f in range(5):
        blocks, _ = enter(blocks, 0, f)
    assert (blocks.first[0], blocks.mask[0], blocks.n_entries[0]) == (0, 7, 8)
    blocks, _ = enter(blocks, 0, 5)
    assert (blocks.first[0], blocks.mask[0], blocks.n_entries[0]) == (8, 15, 24)
    blocks, record = enter(blocks, 1, 3)
    assert (blocks.first[1], blocks.mask[1], blocks.n_entries[0]) == (0, 7, 24)
    assert record == 6
    assert [find(blocks, 1, f) for f in range(6)] == [-1, -1, -1, 6, -1, -1]  # nothing of node 0 is left in it
    assert [find(blocks, 0, f) for f in range(7)] == [0, 1, 2, 3, 4, 5, -1]


def test_reserve_without_space_changes_nothing():
    blocks = empty_blocks(n_entries=12)
    for f in range(5):
        blocks, _ = enter(blocks, 0, f)
    before = [array.copy() for array in blocks]
    assert not kernel.reserve(blocks, np.int64(0), np.int64(1))
    for array, old in zip(blocks, before, strict=True):
        np.testing.assert_array_equal(array, old)


@given(st.integers(0, 10_000))
def test_table_size_is_the_smallest_that_is_two_thirds_full(n):
    size = kernel.table_size(n)
    assert size >= 8
    assert 3 * n <= 2 * size
    assert size == 8 or 3 * n > size
    assert 2 ** kernel.size_class(size) == size


def test_nodes_entered_at_once_equal_nodes_entered_one_by_one():
    own = {0: [3, 1, 2], 2: list(range(0, 40, 3)), 3: [7]}
    at_once, one_by_one = empty_blocks(), empty_blocks()
    nodes = np.array(list(own))
    counts = np.array([len(own[node]) for node in own])
    kernel.enter_nodes(at_once, nodes, counts, np.concatenate(list(own.values())).astype(np.int32))
    for node, listed in own.items():
        kernel.reserve(one_by_one, np.int64(node), np.int64(len(listed)))
        for f in listed:
            one_by_one, _ = enter(one_by_one, node, f, n_more=0)
    for array, other in zip(at_once, one_by_one, strict=True):
        np.testing.assert_array_equal(array, other)


# -- scores and steps ------------------------------------------------------------------------------------------


def random_blocks(width, seed=0):
    """Blocks with random weights, and the same as dense arrays (node, feature, place)."""
    rng = np.random.default_rng(seed)
    blocks = empty_blocks(n_entries=1024, width=width)
    weight, total = np.zeros((2, N_NODES, N_FEATURES, width))
    for node in range(N_NODES - 1):  # the last one has no table
        for f in rng.permutation(N_FEATURES)[: 6 * node + 3]:
            blocks, record = enter(blocks, node, f)
            blocks.weight[record], blocks.total[record] = rng.standard_normal((2, width))
            weight[node, f], total[node, f] = blocks.weight[record], blocks.total[record]
    blocks.total[:, 1], total[:, :, 1] = 0.0, 0.0  # an output that has no rows
    blocks.bias[:] = rng.standard_normal(blocks.bias.shape)
    blocks.sq_norm[:] = (total**2).sum(axis=1)
    return blocks, weight, total


def random_rows(n_rows=5, seed=1):
    """The same rows dense and sparse; the last has no values."""
    rng = np.random.default_rng(seed)
    X = (rng.standard_normal((n_rows, N_FEATURES)) * (rng.random((n_rows, N_FEATURES)) < 0.3)).astype(np.float32)
    X[-1] = 0.0
    rows = sp.csr_array(X)
    return X, (Dense(X), Csr(rows.indptr.astype(np.int64), rows.indices.astype(np.int32), rows.data))


def expected_scores(blocks, weight, total, node, x, scale, start):
    lengths = np.linalg.norm(total[node], axis=0)
    direction = np.divide(total[node], lengths, out=np.zeros_like(total[node]), where=lengths > 0)
    return blocks.bias[node] + scale * x @ (weight[node] + start * direction)


@WIDTHS
def test_score_of_a_node_is_a_dense_product(width):
    blocks, weight, total = random_blocks(width)
    X, batches = random_rows()
    scratch = make_scratch(np.int64(N_FEATURES), np.int64(width))
    for batch in batches:
        for node in range(N_NODES):
            for i, x in enumerate(X):
                out = np.full(width, np.nan, np.float32)
                kernel.score_node(blocks, np.int64(node), batch, i, np.float32(0.5), 3.0, scratch, out)
                expected = expected_scores(blocks, weight, total, node, x, 0.5, 3.0)
                np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-5)


@WIDTHS
def test_score_at_an_open_node_is_a_dense_product(width):
    blocks, weight, total = random_blocks(width)
    X, batches = random_rows()
    opened = kernel.make_open_node(np.int64(N_FEATURES), blocks.n_used.max(), np.int64(width))
    for batch in batches:
        for node in (2, 0, 3, 1):  # one after the other: none must see what another left
            n = kernel.open_node(blocks, np.int64(node), 3.0, opened)
            assert n == blocks.n_used[node]
            for i, x in enumerate(X):
                out = np.full(width, np.nan, np.float32)
                kernel.score_row(batch, i, np.float32(0.5), opened.local, opened.weight, blocks.bias[node], out)
                expected = expected_scores(blocks, weight, total, node, x, 0.5, 3.0)
                np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-5)
            kernel.close_node(opened, np.int64(n))
            assert not opened.local.any()


def dense(blocks, node, array):
    """A node's blocks as (feature, place)."""
    out = np.zeros((N_FEATURES, array.shape[1]))
    for f in range(N_FEATURES):
        record = find(blocks, node, f)
        if record >= 0:
            out[f] = array[record]
    return out


@WIDTHS
@pytest.mark.parametrize("kind", [0, 1], ids=["dense", "sparse"])
def test_a_step_and_a_sum_change_one_node_only(width, kind):
    blocks, weight, total = random_blocks(width)
    X, batches = random_rows()
    batch, bias = batches[kind], blocks.bias.copy()
    scratch = make_scratch(np.int64(N_FEATURES), np.int64(width))
    gradient = np.random.default_rng(2).standard_normal(width).astype(np.float32)
    for node, i in ((1, 0), (3, 1), (1, 4)):  # node 3 begins with no table, row 4 has no values
        assert kernel.reserve(blocks, np.int64(node), np.int64(N_FEATURES))
        kernel.learn_node(blocks, np.int64(node), batch, i, np.float32(0.5), gradient, 0.7, 0.07, scratch)
        kernel.add_to_total(blocks, np.int64(node), np.int64(2), batch, i, np.float32(1.5))
        weight[node] -= 0.7 * 0.5 * np.outer(X[i], gradient)
        bias[node] -= 0.07 * gradient
        total[node, :, 2] += 1.5 * X[i]
    for node in range(N_NODES):
        np.testing.assert_allclose(dense(blocks, node, blocks.weight), weight[node], atol=1e-5)
        np.testing.assert_allclose(dense(blocks, node, blocks.total), total[node], atol=1e-5)
    np.testing.assert_allclose(blocks.bias, bias, atol=1e-6)
    np.testing.assert_allclose(blocks.sq_norm, (total**2).sum(axis=1), rtol=1e-5, atol=1e-6)


def packed_blocks(width, *known):
    """Packed blocks of random weights for nodes that know some features, and the weights of all these features."""
    rng, first = np.random.default_rng(0), np.cumsum([0, *map(len, known)])
    dense = rng.standard_normal((first[-1], width)).astype(np.float32)
    dense[rng.random(dense.shape) < 0.6] = 0
    bits = (dense != 0).reshape(first[-1], -1, kernel.LANES) << np.arange(kernel.LANES, dtype=np.uint16)
    parts = [dense[begin:end] for begin, end in itertools.pairwise(first)]
    steps, step = zip(*(kernel.in_steps(part[part != 0]) for part in parts), strict=True)
    bias = rng.standard_normal((len(known), width)).astype(np.float32)
    features, lanes = np.concatenate(known).astype(np.int32), bits.sum(2, dtype=np.uint16)
    counts, features = kernel.in_pages(np.diff(first), features, *kernel.pages_for(kernel.n_features_of([features])))
    return kernel.packed(counts, bias, np.array(step), features, lanes, np.concatenate(steps)), dense


@WIDTHS
def test_numbered_features_give_the_same_scores(width):
    known = np.arange(0, N_FEATURES, 3), np.arange(5, N_FEATURES), np.array([7])
    blocks, _ = packed_blocks(width, *known)
    X, batches = random_rows()
    opened = kernel.make_open_node(np.int64(N_FEATURES), np.int64(N_FEATURES), np.int64(width))
    for batch in batches:
        for node in (1, 2, 0):
            n = kernel.number_packed(blocks, np.int64(node), opened)
            assert n == len(known[node])
            for i in range(len(X)):
                expected, out = np.full((2, width), np.nan, np.float32)
                kernel.score_packed(blocks, np.int64(node), batch, i, np.float32(0.5), expected)
                kernel.score_numbered_packed(blocks, np.int64(node), batch, i, np.float32(0.5), opened, out)
                np.testing.assert_array_equal(out, expected)
            kernel.close_node(opened, np.int64(n))
            assert not opened.local.any()


@WIDTHS
def test_weights_and_squares_of_packed_blocks(width):
    blocks, dense = packed_blocks(width, [1, 5, 9], [0, 2, 5, 8])
    found = np.zeros((4, width), np.float32)
    kernel.find_weights(blocks, 1, np.array([8, 5, 3, 0], np.int32), found)
    rounded = {"rtol": 0, "atol": 1e-4}  # half a step
    np.testing.assert_allclose(found, [dense[6], dense[5], np.zeros(width), dense[3]], **rounded)
    squares = np.zeros(width)
    kernel.square_sums(blocks, 1, squares)
    np.testing.assert_allclose(squares, (dense[3:].astype(float) ** 2).sum(axis=0), rtol=1e-3)
    np.testing.assert_allclose(kernel.weights_of(blocks, 1), dense[3:], **rounded)
    assert np.abs(blocks.value).max() == kernel.STEPS


@pytest.mark.parametrize(("distance", "pages", "kind"), [(1, 1, "u2"), (9_000, 6, "u2"), (10**7, 1, "i4")])
def test_features_in_pages_and_with_32_bits_give_the_same_scores(distance, pages, kind):
    """Features 0, 1, 2, ... of the rows and of the nodes become 0, `distance`, 2 x `distance`, ..."""
    known = np.arange(0, N_FEATURES, 3), np.arange(5, N_FEATURES), np.zeros(0, int), np.array([7])
    near, dense = packed_blocks(16, *known)
    far, same = packed_blocks(16, *(distance * own for own in known))
    assert (kernel.n_pages(far), far.feature.dtype) == (pages, np.dtype(kind))
    np.testing.assert_array_equal(same, dense)
    X = random_rows()[0]
    X[:, 3::4] = 0  # the rows do not have all features
    X = sp.csr_array(np.vstack([X, X[::-1]]))
    moved = sp.csr_array((X.data, X.indices * distance, X.indptr), shape=(X.shape[0], N_FEATURES * distance))
    unsorted = moved[:1].copy()
    unsorted.data, unsorted.indices = unsorted.data[::-1].copy(), unsorted.indices[::-1].copy()
    opened = kernel.make_open_node(np.int64(X.shape[1]), np.int64(N_FEATURES), np.int64(16))
    for node, own in enumerate(known):
        assert kernel.n_known(far, node) == len(own)
        np.testing.assert_array_equal(kernel.features_of(far, np.array([node])), distance * own)
        found, expected = np.zeros((2, N_FEATURES, 16), np.float32)
        kernel.find_weights(far, node, (distance * np.arange(N_FEATURES)).astype(np.int32), found)
        expected[own] = kernel.weights_of(near, node)
        np.testing.assert_array_equal(found, expected)
        assert kernel.number_packed(near, np.int64(node), opened) == len(own)
        for i in range(X.shape[0]):
            expected, numbered, out = np.full((3, 16), np.nan, np.float32)
            kernel.score_packed(near, np.int64(node), as_batch(X, True), i, np.float32(0.5), expected)
            kernel.score_numbered_packed(
                near, np.int64(node), as_batch(X, True), i, np.float32(0.5), opened, numbered
            )
            kernel.score_packed(far, np.int64(node), as_batch(moved, True), i, np.float32(0.5), out)
            np.testing.assert_array_equal(out, expected)
            np.testing.assert_array_equal(numbered, expected)
        kernel.score_packed(far, np.int64(node), as_batch(unsorted, True), 0, np.float32(0.5), out)
        kernel.score_packed(near, np.int64(node), as_batch(X, True), 0, np.float32(0.5), expected)
        np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-5)  # another order of the terms
        kernel.close_node(opened, np.int64(len(own)))
    everything = np.concatenate([distance * own for own in known])
    np.testing.assert_array_equal(kernel.features_of(far, np.arange(len(known))), everything)


def test_features_that_are_not_sorted_are_found():
    first = np.array([0, 2, 3, 5, 5])  # two nodes of two pages
    good, n_features = np.array([4, 9, 1, 4, 65535], np.uint16), 65536 + 2
    assert kernel.first_unsorted(first, good, 2, n_features) == -1
    for at, wrong in ((1, 4), (2, 2), (4, 4), (4, 3)):
        features = good.copy()
        features[at] = wrong
        assert kernel.first_unsorted(first, features, 2, n_features) == at


def test_weights_too_small_for_a_step_are_zero():
    """A step of few bits would make multiples that do not fit into 16 bits: their signs changed."""
    for largest in (1e-45, 1e-42, 5e-41, 2e-40, 1e-34, 1e-20, 1.0):
        weights = np.array([largest, -largest, largest / 3], np.float32)
        values, step = kernel.in_steps(weights)
        assert np.abs(values.astype(int)).max() <= kernel.STEPS and (values * weights.astype(float) >= 0).all()
        np.testing.assert_allclose(values * step, weights, atol=largest / kernel.STEPS if largest > 1e-33 else 1e-33)


def test_counting_weights_takes_little_memory():
    """It converted the counts of all features at once, so that `fit` took more than `max_memory` at its end."""
    rng = np.random.default_rng(0)
    lanes = rng.integers(0, 1 << 16, ((1 << 22) + 5, 1)).astype(np.uint16)
    tracemalloc.start()
    begins = kernel.begins_of(lanes)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * lanes.nbytes + begins.nbytes
    ends = np.cumsum(np.bitwise_count(lanes[:, 0]).astype(np.int64))
    np.testing.assert_array_equal(begins, np.append(0, ends)[: len(lanes) : kernel.EVERY])
    assert not len(kernel.begins_of(lanes[:0]))
