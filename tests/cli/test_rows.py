"""Rows of a file, shuffled as a whole in memory or through a temporary file."""

import mmap
import os
from pathlib import Path

import numpy as np
import pytest

from manyclass.cli import rows as module
from manyclass.cli.rows import Features, RowStore, SortedLabels, held_out, read_rows
from manyclass.io import Chunk, Reading, Source
from manyclass.trained import LabelColumns

N = 3000


@pytest.fixture
def table(tmp_path, monkeypatch):
    """A CSV file sorted by its 30 labels; each text contains the number of its row."""
    monkeypatch.setattr(module, "WINDOW", 256)
    path = tmp_path / "sorted.csv"
    path.write_text("t,n,l\n" + "".join(f"row{i} word{i // 100},{i},class {i // 100}\n" for i in range(N)))
    return path


def store(path, max_bytes, seed=0, shuffle=True, at_once=False, **options):
    source = Source(path, Reading(label="l", text=("t",), numeric=("n",), weighted=True, idf=True, **options))
    found = RowStore(source, Features(source.reading), str(path.parent), seed, shuffle, max_bytes, at_once)
    found.read(lambda n: None)
    return found


def contents(chunks):
    """Each row as a comparable value."""
    out = []
    for chunk in chunks:
        for i in range(chunk.X.shape[0]):
            part = slice(chunk.X.indptr[i], chunk.X.indptr[i + 1])
            labels = chunk.labels[i] if chunk.pointer is None else tuple(chunk.labels[slice(*chunk.pointer[i : i + 2])])
            out.append((labels, tuple(chunk.X.indices[part]), tuple(chunk.X.data[part])))
    return out


@pytest.mark.parametrize("options", [{}, {"label_separator": " "}])
def test_a_temporary_file_holds_the_same_rows(table, options):
    memory, disk = store(table, 1 << 30, **options), store(table, 20_000, **options)
    assert memory.in_memory and not disk.in_memory and os.listdir(table.parent) == ["sorted.csv"]
    assert memory.n_rows == disk.n_rows == N and 0 < memory.n_rows - memory.n_learned < 100
    expected = sorted(contents(memory.windows(0)))
    for epoch in range(2):
        assert sorted(contents(disk.windows(epoch))) == expected
    assert contents([memory.held_out()]) == contents([disk.held_out()])


@pytest.mark.parametrize("max_bytes", [1 << 30, 20_000])
def test_every_epoch_has_all_rows_in_another_random_order(table, max_bytes):
    rows = store(table, max_bytes)
    orders = [contents(rows.windows(epoch)) for epoch in (0, 1)] + [contents(store(table, max_bytes).windows(0))]
    assert orders[0] == orders[2] != orders[1] and sorted(orders[0]) == sorted(orders[1])
    assert contents(store(table, max_bytes, seed=1).windows(0)) != orders[0]
    labels = [row[0] for row in orders[0]]
    assert len(set(labels[:300])) > 25  # of 30, although the file is sorted
    assert len(set(labels)) == 30


@pytest.mark.parametrize("max_bytes", [1 << 30, 20_000])
def test_without_shuffle_the_order_of_the_file_is_kept(table, max_bytes):
    rows = store(table, max_bytes, shuffle=False)
    labels = [row[0] for row in contents(rows.windows(3))]
    assert labels == sorted(labels, key=lambda label: int(label.split()[1])) and rows.labels.found


def test_held_out_rows_of_a_sorted_file_are_shuffled(table):
    labels = store(table, 1 << 30).held_out().labels.tolist()
    assert len(set(labels)) > 10 and labels != sorted(labels, key=lambda label: int(label.split()[1]))


def test_all_rows_at_once_include_those_held_out(table):
    whole = store(table, 1 << 30).whole()
    assert whole.X.shape[0] == N and len(set(whole.labels)) == 30


@pytest.mark.parametrize("options", [{}, {"label_separator": " "}, {"shuffle": False}])
def test_all_rows_at_once_may_be_mapped_from_a_file(table, options):
    memory, disk = (store(table, max_bytes, at_once=True, **options) for max_bytes in (1 << 30, 20_000))
    assert memory.has_whole and disk.has_whole and memory.in_memory and not disk.in_memory
    expected, whole = memory.whole(), disk.whole()
    assert contents([whole]) == contents([expected])
    assert whole.X.shape == expected.X.shape and whole.X.indices.dtype == expected.X.indices.dtype
    for memory_of in (whole.X.data, whole.X.indices):
        while isinstance(memory_of, np.ndarray):
            memory_of = memory_of.base
        assert isinstance(memory_of, mmap.mmap)
    assert whole.X.indices.dtype == np.int32 and os.listdir(table.parent) == ["sorted.csv"]


def test_narrow_rows_are_not_mapped(table):
    narrow = store(table, 20_000, at_once=True, feature_bits=8)
    assert not narrow.has_whole and len(contents(narrow.windows(0))) == narrow.n_learned


def test_a_share_of_a_window_is_held_out():
    chunk = Chunk(np.zeros((5000, 1), np.float32), np.arange(5000), None, None, 0)
    learned, (held,) = held_out(chunk, 0, 1, 0.02)
    assert 50 < len(held.labels) < 150 and sorted([*learned.labels, *held.labels]) == list(range(5000))
    assert held_out(chunk, 0, 1, 0.0)[1] == []


@pytest.mark.parametrize("max_bytes", [1 << 30, 20_000])
def test_at_most_some_rows_of_the_whole_file_are_held_out(table, monkeypatch, max_bytes):
    monkeypatch.setattr(module, "_HELD_OUT_SHARE", 0.5)
    monkeypatch.setattr(module, "_MOST_HELD_OUT", 200)
    rows = store(table, max_bytes)
    held = rows.held_out()
    assert 50 < held.X.shape[0] <= 200 and len(set(held.labels)) > 20  # of 30, although the file is sorted
    assert len(contents(rows.windows(0))) + held.X.shape[0] == N == rows.n_learned + held.X.shape[0]
    assert len({row[1] for row in contents([*rows.windows(0), held])}) == N
    in_order = store(table, max_bytes, shuffle=False)
    labels = [int(label.split()[1]) for label in in_order.held_out().labels]
    assert labels == sorted(labels) and max(labels) < 10
    assert [row[0] for row in contents(in_order.windows(0))] == sorted(
        (row[0] for row in contents(in_order.windows(0))), key=lambda label: int(label.split()[1])
    )


def test_a_small_file_is_learned_completely(table, monkeypatch):
    monkeypatch.setattr(module, "WINDOW", N)
    rows = store(table, 1 << 30)
    assert rows.held_out() is None and rows.n_learned == N


@pytest.mark.parametrize(
    ("labels", "is_sorted"),
    [
        (np.repeat(np.arange(50), 20), True),
        (np.repeat([0, 1], 500), True),
        (np.repeat(np.arange(500), 2), False),  # too few of each to say
        (np.zeros(1000), False),
        (np.random.default_rng(0).integers(0, 50, 1000), False),
        (np.random.default_rng(0).random(1000) < 0.05, False),
    ],
)
def test_sorted_labels_are_recognised(labels, is_sorted):
    found = SortedLabels()
    for first in range(0, len(labels), 100):
        part = labels[first : first + 100]
        found.add(Chunk(np.zeros((len(part), 1)), part, None, None, 0))
    assert found.found == is_sorted


def test_nothing_is_left_if_reading_fails(table):
    with Path(table).open("a") as file:
        file.write("row,x,y\n")
    with pytest.raises(ValueError, match="not a number"):
        store(table, 20_000)
    assert os.listdir(table.parent) == ["sorted.csv"]


@pytest.mark.parametrize("options", [{}, {"label_separator": " "}])
def test_some_rows_are_the_first_ones_or_a_sample(table, options):
    def some(max_rows, seed=None):
        source = Source(table, Reading(label="l", text=("t",), numeric=("n",), weighted=True, idf=True, **options))
        columns = LabelColumns([]) if options else None
        X, y, weights = read_rows(source, columns, max_rows, seed)
        assert X.shape[0] == y.shape[0] == len(weights) == min(N, max_rows)
        return X, (y[:, 1:].toarray().argmax(axis=1) if options else [int(label.split()[1]) for label in y])

    assert set(some(300)[1]) == {0, 1, 2}
    (X, y), (same, _), (other, _) = (some(300, seed) for seed in (0, 0, 1))
    assert len(set(y)) == 30 and list(y) == sorted(y)
    assert (X != same).nnz == 0 < (X != other).nnz
    for all_rows in (some(N, 0), some(2 * N, 0)):
        assert (all_rows[0] != some(N)[0]).nnz == 0 and list(all_rows[1]) == [i // 100 for i in range(N)]
