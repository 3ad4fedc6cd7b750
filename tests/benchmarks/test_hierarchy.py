"""Made-up rows of a tree of classes."""

import hashlib
import inspect
import itertools
import os
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare, kstest, norm

from benchmarks import hierarchy_kernels as kernel
from benchmarks.hierarchy import Hierarchy

both_kinds = pytest.mark.parametrize("sparse", [False, True])


def as_bytes(X, y) -> bytes:
    arrays = (X.indptr.astype(np.int64), X.indices.astype(np.int64), X.data) if sp.issparse(X) else (X,)
    return b"".join(np.ascontiguousarray(array).tobytes() for array in (*arrays, y))


def digest(sparse: bool) -> str:
    """A name for the bytes of some rows."""
    stream = Hierarchy(12_345, 96, sparse=sparse, exponent=1.3, seed=2**63 - 1)
    return hashlib.sha256(as_bytes(*stream.rows(50, first=2**40))).hexdigest()[:16]


@both_kinds
@pytest.mark.parametrize("n_classes", [2, 1000, 1_000_000, 2**31 - 1])
def test_types_and_ranges(sparse, n_classes):
    X, y = Hierarchy(n_classes, sparse=sparse).rows(50)
    assert X.dtype == np.float32 and y.dtype == np.int32
    assert X.shape == (50, 131_072 if sparse else 64) and y.shape == (50,)
    assert sp.issparse(X) == sparse
    assert y.min() >= 0 and y.max() < n_classes


@both_kinds
@given(cut=st.integers(0, 40), first=st.sampled_from([0, 17, 2**40]))
def test_any_split_gives_the_same_rows(sparse, cut, first):
    stream = Hierarchy(1_000_000, sparse=sparse, seed=3)
    X, y = stream.rows(40, first=first)
    parts = [stream.rows(cut, first=first), stream.rows(40 - cut, first=first + cut)]
    stack = sp.vstack if sparse else np.vstack
    joined = stack([part[0] for part in parts])
    assert as_bytes(joined, np.concatenate([part[1] for part in parts])) == as_bytes(X, y)


@both_kinds
def test_batches_are_the_rows(sparse):
    stream = Hierarchy(1000, sparse=sparse)
    X, y = stream.rows(25, first=5)
    batches = list(stream.batches(25, batch_size=10, first=5))
    assert [len(labels) for _, labels in batches] == [10, 10, 5]
    joined = (sp.vstack if sparse else np.vstack)([inputs for inputs, _ in batches])
    assert as_bytes(joined, np.concatenate([labels for _, labels in batches])) == as_bytes(X, y)


@both_kinds
def test_no_rows(sparse):
    X, y = Hierarchy(10, sparse=sparse).rows(0)
    assert X.shape[0] == 0 and len(y) == 0
    assert list(Hierarchy(10, sparse=sparse).batches(0, batch_size=3)) == []


@both_kinds
def test_a_seed_is_a_set_of_its_own(sparse):
    one, same, other = (Hierarchy(1000, sparse=sparse, seed=seed) for seed in (1, 1, 2))
    assert as_bytes(*one.rows(100)) == as_bytes(*same.rows(100))
    assert (one.rows(100)[1] != other.rows(100)[1]).mean() > 0.5
    assert as_bytes(*one.rows(100)) != as_bytes(*one.rows(100, first=2**40))


@pytest.mark.parametrize(("sparse", "known"), [(False, "897f32f1c4fc09a5"), (True, "96f4a034f24cedcb")])
def test_bytes_are_the_known_ones(sparse, known):
    assert digest(sparse) == known


def test_without_the_compiler_the_bytes_are_the_same():
    source = "\n".join([
        "import hashlib, warnings", "import numpy as np", "import scipy.sparse as sp",
        "from benchmarks.hierarchy import Hierarchy", inspect.getsource(as_bytes), inspect.getsource(digest),
        "warnings.simplefilter('error')", "print(digest(False), digest(True))",
    ])  # fmt: skip
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run([sys.executable, "-c", source], env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == [digest(False), digest(True)]


@given(n_classes=st.integers(2, 3000), seed=st.integers(0, 2**63 - 1))
def test_shuffles_are_bijections(n_classes, seed):
    stream = Hierarchy(n_classes, seed=seed)
    every = np.arange(n_classes)
    for shuffle in (stream._classes.numbers, stream._classes.positions):
        moved = kernel.shuffle_all(shuffle, every, False)
        np.testing.assert_array_equal(np.sort(moved), every)
        np.testing.assert_array_equal(kernel.shuffle_all(shuffle, moved, True), every)


def test_class_numbers_tell_nothing():
    stream = Hierarchy(100_000)
    every = np.arange(100_000)
    positions, log_share = stream.positions(every), np.log(stream.frequencies(every))
    for told in (positions, log_share):
        assert abs(np.corrcoef(every, told)[0, 1]) < 0.015  # nearly 5 deviations
    assert abs(np.corrcoef(positions, log_share)[0, 1]) < 0.015
    # Next to each other in number, next to each other in the tree: as often as by chance, 1 in 10,000.
    assert (np.diff(positions // 10) == 0).mean() < 0.0004


@both_kinds
@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0, 1.0 + 1e-9, 2.5])
def test_frequencies_follow_zipf(sparse, exponent):
    stream = Hierarchy(50, 8, sparse=sparse, exponent=exponent)
    n = 20_000
    expected = n * stream.frequencies(np.arange(50))
    assert expected.sum() == pytest.approx(n)
    ranked = np.sort(expected)[::-1]
    np.testing.assert_allclose(ranked, ranked[0] * np.arange(1.0, 51.0) ** -exponent)
    counts = np.bincount(stream.rows(n)[1], minlength=50)
    often = expected >= 5
    pooled = np.append(counts[often], counts[~often].sum()), np.append(expected[often], expected[~often].sum())
    kept = pooled[1] > 0
    assert chisquare(pooled[0][kept], pooled[1][kept]).pvalue > 0.001


def test_a_million_classes_follow_zipf():
    stream = Hierarchy(1_000_000, 1)
    every = stream.frequencies(np.arange(1_000_000))
    rank = every.max() / stream.frequencies(stream.rows(50_000)[1])  # at an exponent of 1
    edges = np.array([0.5, 1.5, 2.5, 10.5, 100.5, 1000.5, 10_000.5, 100_000.5, 1_000_000.5])
    shares = np.histogram(every.max() / every, edges, weights=every)[0]
    assert chisquare(np.histogram(rank, edges)[0], 50_000 * shares).pvalue > 0.001


def test_nothing_of_the_size_of_the_classes_is_kept():
    small, large = Hierarchy(1000, 1000), Hierarchy(2**31 - 1, 1000)
    assert held(large) - held(small) < 1000
    large.rows(1)
    tracemalloc.start()
    Hierarchy(2**31 - 1, 1000).rows(10)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10 * 1000 * 4 + 100_000


def held(what) -> int:
    """Bytes of an object with all that it refers to."""
    if isinstance(what, np.ndarray):
        return what.nbytes
    if isinstance(what, tuple):
        return sum(held(part) for part in what)
    return sum(held(part) for part in vars(what).values()) if isinstance(what, Hierarchy) else sys.getsizeof(what)


def relatives(stream: Hierarchy, n: int) -> list[np.ndarray]:
    """Pairs of classes whose nearest shared node is the parent, the grandparent, ..., the root."""
    every = np.arange(stream.n_classes)
    class_at = np.argsort(stream.positions(every))
    steps = [stream.branching**height for height in range(len(stream._tree.spans))]
    positions = np.random.default_rng(0).integers(0, stream.n_classes, n)
    return [np.stack([class_at[positions], class_at[moved(positions, step, stream.branching)]]) for step in steps]


def moved(positions: np.ndarray, step: int, branching: int) -> np.ndarray:
    digit = positions // step % branching
    return positions + ((digit + 1) % branching - digit) * step


@pytest.mark.parametrize("n_classes", [1000, 100_000])
def test_the_nearer_in_the_tree_the_nearer_the_centres(n_classes):
    stream = Hierarchy(n_classes)
    distances = []
    for one, other in relatives(stream, 300):
        distances.append(np.linalg.norm(stream.centres(one) - stream.centres(other), axis=1).mean())
    assert all(near * 1.2 < far for near, far in itertools.pairwise(distances))


def test_the_nearer_in_the_tree_the_more_words_are_shared():
    stream = Hierarchy(1000, sparse=True, noise=0.0)
    shared = []
    for one, other in relatives(stream, 300):
        shared.append(stream.centres(one).multiply(stream.centres(other) > 0).sum() / 300)
    # Siblings share all but their own quarter; cousins lose three sixteenths more.
    np.testing.assert_allclose(shared, [3 / 4, 9 / 16, 0], atol=0.03)


def test_noise_is_normal_and_as_large_as_told():
    stream = Hierarchy(1000, noise=0.3)
    X, y = stream.rows(500)
    residue = (X - stream.centres(y)).ravel()
    one, other = relatives(stream, 300)[0]
    distance = np.sqrt(((stream.centres(one) - stream.centres(other)) ** 2).sum(axis=1).mean())
    assert residue.std() == pytest.approx(0.3 * distance, rel=0.02)
    assert kstest(residue / residue.std(), norm.cdf).statistic < 0.01
    assert abs(np.corrcoef((X - stream.centres(y))[:, :2].T)[0, 1]) < 0.2
    assert X.var() == pytest.approx(1, rel=0.2)


def test_without_noise_rows_are_centres():
    stream = Hierarchy(1000, noise=0.0)
    X, y = stream.rows(20)
    np.testing.assert_array_equal(X, stream.centres(y))


@pytest.mark.parametrize("n_classes", [1000, 1_000_000])
def test_nearest_centre_is_right_but_not_always(n_classes):
    stream = Hierarchy(n_classes)
    X, y = stream.rows(500, first=2**40)
    class_at = np.argsort(stream.positions(np.arange(n_classes)))
    strangers = np.random.default_rng(0).choice(n_classes, 1000, replace=False)
    right = 0
    for row, label, position in zip(X, y, stream.positions(y), strict=True):
        subtree = class_at[position // 100 * 100 : position // 100 * 100 + 100]
        rivals = np.union1d(subtree, strangers)
        right += rivals[((stream.centres(rivals) - row) ** 2).sum(axis=1).argmin()] == label
    assert 0.90 < right / 500 < 0.98


def test_sparse_rows_are_canonical_and_of_unit_length():
    X, _ = Hierarchy(1_000_000, 5000, sparse=True).rows(1000)
    fresh = sp.csr_matrix((X.data, X.indices, X.indptr), shape=X.shape)
    assert fresh.has_canonical_format
    assert X.indices.min() >= 0 and X.indices.max() < 5000 and X.data.min() > 0
    np.testing.assert_allclose(X.multiply(X).sum(axis=1), 1, rtol=1e-6)
    counts = np.diff(X.indptr)
    assert counts.max() <= 40 and counts.mean() > 15


def test_words_come_as_often_as_told():
    """Without background, all words are those of the centre, by its shares; with nothing else, none need be."""
    stream = Hierarchy(2, sparse=True, noise=0.0)
    X, y = stream.rows(4000)
    for label in (0, 1):
        centre = stream.centres([label])
        seen = np.asarray(X[y == label].sum(axis=0)).ravel()
        assert set(np.flatnonzero(seen)) <= set(centre.indices)
        assert np.corrcoef(seen[centre.indices], centre.data)[0, 1] > 0.98
    X, y = Hierarchy(2, sparse=True, noise=1.0).rows(1000)
    assert np.unique(X.indices).size > 1000
    shares = [np.asarray(X[y == label].mean(axis=0)).ravel() for label in (0, 1)]
    assert np.corrcoef(shares)[0, 1] > 0.9


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"n_classes": 1}, "n_classes must be a whole number in 2"),
        ({"n_classes": 2**31}, "n_classes"),
        ({"n_classes": 10.0}, "n_classes"),
        ({"n_classes": True}, "n_classes"),
        ({"n_features": 0}, "n_features must be a whole number in 1"),
        ({"branching": 1}, "branching must be a whole number in 2"),
        ({"exponent": -0.1}, r"exponent must be a number in 0\.\.10, got -0\.1"),
        ({"exponent": float("nan")}, "exponent"),
        ({"exponent": "1"}, "exponent"),
        ({"noise": -1}, r"noise must be a number in 0\.\.100"),
        ({"noise": 1.1, "sparse": True}, r"noise must be a number in 0\.\.1, got 1\.1"),
        ({"sparse": 1}, "sparse must be True or False"),
        ({"seed": -1}, "seed"),
        ({"seed": 2**63}, "seed"),
    ],
)
def test_bad_options_are_named(options, said):
    with pytest.raises(ValueError, match=said):
        Hierarchy(**{"n_classes": 10, **options})


def test_bad_arguments_are_named():
    stream = Hierarchy(10)
    with pytest.raises(ValueError, match="n must be"):
        stream.rows(-1)
    with pytest.raises(ValueError, match="first must be"):
        stream.rows(1, first=-1)
    with pytest.raises(ValueError, match="batch_size must be"):
        stream.batches(10, batch_size=0)
    for classes in ([10], [-1], [0.5], 3, [[1]]):
        with pytest.raises(ValueError, match="classes must be"):
            stream.centres(classes)


def test_repr_makes_the_same():
    stream = Hierarchy(77, 12, sparse=True, branching=3, exponent=0.5, noise=0.25, seed=9)
    assert as_bytes(*eval(repr(stream)).rows(5)) == as_bytes(*stream.rows(5))
