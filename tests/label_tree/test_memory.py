"""Memory of label trees: the limit of `fit`, and rows that are mapped from files."""

import errno
import os
import re
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

from manyclass import LabelTreeClassifier
from manyclass.core import columns
from manyclass.core.memory import as_bytes, held_bytes, mapped
from manyclass.label_tree import fit, memory, parts
from manyclass.label_tree import model as module
from manyclass.label_tree.memory import Limits, Problem, Size, limits, needed, needs_of
from tests.core.test_streams import bytes_of
from tests.reference.label_tree_states import configure


def wide_text(n_rows, n_labels, n_words, n_features):
    """Rows of words, half of them words of the label."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, n_labels, n_rows)
    own = rng.integers(0, n_features, (n_labels, n_words))[y]
    words = np.where(rng.random(own.shape) < 0.5, own, rng.integers(0, n_features, own.shape))
    where = np.repeat(np.arange(n_rows), n_words), words.ravel()
    X = sp.csr_matrix((np.ones(words.size, np.float32), where), shape=(n_rows, n_features))
    X.sum_duplicates()
    return X, y


CHILD = """
import re
from pathlib import Path
import numpy as np, scipy.sparse as sp
from manyclass import LabelTreeClassifier

def status(name):
    return 1024 * int(next(line for line in open("/proc/self/status") if line.startswith(name)).split()[1])

X, y = sp.load_npz("X.npz"), np.load("y.npy")
LabelTreeClassifier(random_state=0, n_epochs=1).fit(X[:3000], y[:3000])  # compiles
Path("/proc/self/clear_refs").write_text("5")  # the peak from now on
held, model = status("RssAnon"), LabelTreeClassifier(random_state=0, n_epochs=1, n_jobs=2, max_memory="1MB")
try:
    model.fit(X, y)
except MemoryError as error:
    limit = re.search(r"max_memory='(\\w+)'", str(error))[1]
model.set_params(max_memory=limit).fit(X, y)
print(held, status("VmHWM") - status("RssFile"), limit)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux reports the memory in use")
def test_the_peak_is_below_the_limit(tmp_path):
    X, y = wide_text(12_000, 3000, 60, 50_000)
    sp.save_npz(tmp_path / "X.npz", X)
    np.save(tmp_path / "y.npy", y)

    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", CHILD]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    held, peak, limit = map(as_bytes, [f"{word}B" if word.isdigit() else word for word in done.stdout.split()])
    assert peak <= limit
    assert peak - held > 0.2 * (limit - held)  # what it asks for is not far from what it takes


def test_a_refused_fit_changes_nothing(text):
    X, y = text
    model = LabelTreeClassifier(random_state=0, n_epochs=1, max_memory="100GB").fit(X, y)
    assert bytes_of(model) == bytes_of(LabelTreeClassifier(random_state=0, n_epochs=1).fit(X, y))
    before = bytes_of(model)
    with pytest.raises(MemoryError, match=r"max_memory is 1MB\. To fit it: use max_memory='\d+MB'"):
        model.set_params(max_memory=1_000_000).fit(X, y)
    assert bytes_of(model) == before
    for wrong in ("8", "much", 0, -5, 1.5, True):
        with pytest.raises(ValueError, match="max_memory must be a number of bytes, text such as"):
            LabelTreeClassifier(max_memory=wrong).fit(X, y)


def test_the_threshold_is_learned_within_the_limit_or_stays_one_half(monkeypatch):
    X, y = wide_text(2000, 30, 20, 500)
    Y, given = np.eye(30, dtype=int)[y], []

    def no_room(options, problem, n_jobs, max_memory):
        given.append(max_memory)
        if len(given) > 1:
            raise MemoryError("fit would take about 9GB")
        return limits(options, problem, n_jobs, max_memory)

    monkeypatch.setattr(module, "limits", no_room)
    with pytest.warns(RuntimeWarning, match="The threshold stays 0.5, it could not be learned: fit would take"):
        model = LabelTreeClassifier(random_state=0, n_epochs=1, max_memory="8GB").fit(X, Y)
    assert given == [8 * 10**9] * 2
    monkeypatch.undo()
    fixed = LabelTreeClassifier(random_state=0, n_epochs=1, threshold=0.5).fit(X, Y)
    assert model.threshold_ == 0.5 and np.array_equal(model.predict(X), fixed.predict(X))


PROBLEM = Problem(136_000, 670_000, Size(490_000, 75.0, 5.5), True, 136_000)  # as Amazon-670K


def test_fewer_threads_take_less_memory():
    options, held = configure(arity=16, beam=10, n_trees=1), held_bytes()
    needed = [needs_of(options, PROBLEM).peak(n_jobs) for n_jobs in (1, 4, 64)]
    assert needed[0] <= needed[1] < needed[2]
    assert limits(options, PROBLEM, 64, None) == (64, np.inf, False)
    assert limits(options, PROBLEM, 64, held + needed[2] + 10**8).n_jobs == 64
    assert limits(options, PROBLEM, 64, held + needed[1] + 10**8).n_jobs < 64


def test_finished_trees_count_while_the_next_one_is_made():
    dense = Problem(2000, 50_000, Size(60_000, 2000.0, 1.0), False, 2000)
    one, four = (needs_of(configure(arity=16, beam=10, n_trees=n_trees), dense) for n_trees in (1, 4))
    assert one.finished == 0 and four.finished == pytest.approx(3 * one.weights, rel=0.01)
    assert four.grouping == one.grouping and four.peak(1) > four.grouping + 3 * one.weights


def test_pairs_go_to_temporary_files_before_fit_refuses():
    options, held = configure(arity=16, beam=10, n_trees=1), held_bytes()
    many_rows = PROBLEM._replace(n_classes=10_000, size=Size(10_000_000, 30.0, 1.0))
    within, spilled = (needs_of(options, many_rows, spill).peak(1) for spill in (False, True))
    assert spilled < 0.6 * within
    assert not limits(options, many_rows, 1, held + within + 10**8).spill
    assert limits(options, many_rows, 1, held + spilled + 10**8).spill


@pytest.mark.parametrize("several", [False, True])
def test_pairs_in_temporary_files_give_the_same_model(monkeypatch, several):
    X, y = wide_text(7000, 300, 400, 2000)
    if several:
        y = sp.csr_array((np.ones(7000, np.int8), (np.arange(7000), y)), shape=(7000, 300)).tolil()
        y[3] = 0  # a row without labels
        y[4, :50] = 1
        y = y.tocsr()
    expected = bytes_of(LabelTreeClassifier(random_state=0, n_epochs=1).fit(X, y))
    monkeypatch.setattr(parts, "ROWS_SORTED", parts.ALIGNED)
    for spill in (False, True):
        monkeypatch.setattr(module, "limits", lambda *given, spill=spill: Limits(2, np.inf, spill))
        assert bytes_of(LabelTreeClassifier(random_state=0, n_epochs=1).fit(X, y)) == expected


def test_rows_of_zeros_need_little_memory():
    model = LabelTreeClassifier(random_state=0, n_epochs=1, max_memory="8GB")
    X = sp.csr_array((60, 300), dtype=np.float32)
    assert model.fit(X, np.arange(60) % 30).predict(X[:1])[0] < 30


def test_features_that_no_row_has_change_nothing():
    """Their numbers matter neither where labels are grouped nor later."""
    X, y = wide_text(3000, 600, 30, 900)
    wider = sp.csr_array((X.data, 3 * X.indices + 1, X.indptr), shape=(3000, 3 * 900))
    a, b = (LabelTreeClassifier(random_state=0, n_epochs=1).fit(rows, y) for rows in (X, wider))
    np.testing.assert_array_equal(a._state["tree"].leaf_of, b._state["tree"].leaf_of)
    np.testing.assert_array_equal(a.predict(X), b.predict(wider))


def test_arrays_in_temporary_files(monkeypatch):
    for size in (0, 5):
        array = mapped(size, np.int32)
        array[:] = 7
        assert array.tolist() == [7] * size and array.flags.writeable

    def full(*given):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    with pytest.raises(OSError, match=r"no space for 8MB; TMPDIR names another folder"):
        mapped(2_000_000, np.float32)


def test_a_refusal_says_how_many_rows_fit():
    options = configure(arity=16, beam=10, n_trees=2)
    limit = held_bytes() + int(0.8 * needs_of(options, PROBLEM, spill=True).peak(1))
    with pytest.raises(MemoryError, match=r"or use fewer trees \(n_trees\)") as refused:
        limits(options, PROBLEM, 2, limit)
    n_rows = int(re.search(r"load about ([\d,]+) of the 490,000 rows", str(refused.value))[1].replace(",", ""))
    assert 49_000 <= n_rows < 490_000
    fewer = PROBLEM._replace(size=PROBLEM.size._replace(n_rows=int(0.9 * n_rows)))
    assert limits(options, fewer, 2, limit).n_jobs >= 1


def test_rows_that_are_not_loaded_take_no_memory(monkeypatch):
    """Memory in use counted in full for fewer rows, so that few seemed to fit."""
    options = configure(arity=16, beam=10, n_trees=1)
    row_bytes = 10 * needs_of(options, PROBLEM, spill=True).peak(1)  # rows are most of what is needed
    held = row_bytes + 10**8
    monkeypatch.setattr(memory, "held_bytes", lambda: held)
    limit = held + needs_of(options, PROBLEM, spill=True).peak(1) - row_bytes // 20
    with pytest.raises(MemoryError, match=r"load about 4[67]0,000 of the 490,000 rows"):
        limits(options, PROBLEM._replace(row_bytes=row_bytes), 1, limit)
    with pytest.raises(MemoryError) as refused:
        limits(options, PROBLEM, 1, held + 10**6)
    assert str(refused.value).endswith("B'.")  # a handful of rows is no advice


def test_memory_in_use_may_be_unknown(monkeypatch):
    """Rows were subtracted from nothing, so that a number of rows was recommended that does not fit."""
    monkeypatch.setattr(memory, "held_bytes", lambda: 0)
    options, rows = configure(arity=16, beam=10, n_trees=1), PROBLEM._replace(row_bytes=10**10)
    limit = int(0.95 * needs_of(options, PROBLEM, spill=True).peak(1))
    with pytest.raises(MemoryError) as refused:
        limits(options, rows, 1, limit)
    n_rows = int(re.search(r"load about ([\d,]+) of the 490,000 rows", str(refused.value))[1].replace(",", ""))
    assert limits(options, rows._replace(size=rows.size._replace(n_rows=n_rows)), 1, limit).n_jobs == 1


def test_a_refusal_because_of_the_threshold_says_so():
    options, held = configure(arity=16, beam=10, n_trees=1), held_bytes()
    several = PROBLEM._replace(n_classes=20, size=Size(100_000, 3000.0, 2.0), threshold=True)
    without, with_threshold = (needed(options, several._replace(threshold=one), 1, True) for one in (False, True))
    with pytest.raises(MemoryError, match=r"or do not learn the threshold \(threshold=0.5\)\."):
        limits(options, several, 1, held + (without + with_threshold) // 2)
    with pytest.raises(MemoryError) as refused:
        limits(options, several, 1, held + without // 2)
    assert "threshold" not in str(refused.value)


def test_memory_of_the_threshold_is_part_of_the_estimate():
    """Copies of rows are made beside the model, after training."""
    options, rows = configure(arity=16, beam=10, n_trees=1), Size(100_000, 3000.0, 2.0)
    several = PROBLEM._replace(n_classes=20, size=rows, threshold=True)
    without, with_threshold = (needed(options, several._replace(threshold=one), 1, True) for one in (False, True))
    assert with_threshold > 8 * 0.2 * 100_000 * 3000 > without
    few = several._replace(size=rows._replace(n_rows=150))  # it is not learned
    assert needed(options, few, 1, True) == needed(options, few._replace(threshold=False), 1, True)


@pytest.mark.parametrize(("threshold", "learned"), [("auto", [True, False]), (0.4, [False])])
def test_fit_says_whether_it_learns_a_threshold(monkeypatch, threshold, learned):
    X, y = wide_text(2000, 30, 20, 500)
    problems = []

    def seen(options, problem, n_jobs, max_memory):
        problems.append(problem)
        return limits(options, problem, n_jobs, max_memory)

    monkeypatch.setattr(module, "limits", seen)
    LabelTreeClassifier(random_state=0, n_epochs=1, threshold=threshold).fit(X, np.eye(30, dtype=int)[y])
    assert [one.threshold for one in problems] == learned
    assert problems[0].row_bytes >= 8 * X.nnz


def test_unpacked_weights_have_room_for_the_first_rows():
    """They were doubled at the first new feature of a node."""
    X, y = wide_text(3000, 100, 30, 3000)
    model = LabelTreeClassifier(random_state=0, n_epochs=1).fit(X, y).partial_fit(X[:5], y[:5][::-1])
    blocks = model._state["blocks"]
    assert blocks.n_records[0] <= len(blocks.weight) < 1.2 * blocks.n_records[0]


def test_mapped_rows_are_not_copied(tmp_path, monkeypatch):
    X, y = wide_text(12_000, 600, 150, 2000)
    for name in ("data", "indices", "indptr"):
        np.save(tmp_path / f"{name}.npy", getattr(X, name))
    arrays = [np.load(tmp_path / f"{name}.npy", mmap_mode="c") for name in ("data", "indices", "indptr")]
    from_files = sp.csr_matrix(tuple(arrays), shape=X.shape)
    small = ((columns, "_AT_A_TIME", 1 << 12), (parts, "VALUES_AT_A_TIME", 1 << 14), (parts, "_ROWS_AT_A_TIME", 1 << 7))
    for where, name, value in (
        *small, (fit, "MOST_RECORDS", 1 << 8), (fit, "MOST_SUMMED", 1 << 14), (fit, "N_SAMPLE", 1 << 9)
    ):  # fmt: skip
        monkeypatch.setattr(where, name, value)  # temporary arrays must be small beside X
    model = LabelTreeClassifier(random_state=0, n_epochs=1, beam=2).fit(X[:1000], y[:1000])  # compiles
    tracemalloc.start()
    try:
        model.fit(from_files, y)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak - model.n_bytes_ < X.data.nbytes
    assert bytes_of(model) == bytes_of(LabelTreeClassifier(random_state=0, n_epochs=1, beam=2).fit(X, y))
