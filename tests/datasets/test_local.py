"""Data sets read from the user's folder, with small files made here."""

import io
import lzma

import numpy as np
import pytest

from manyclass.datasets import DataNotFound, available, cache_folder, load, names
from manyclass.datasets.packed import pack_matrix, pack_names

TRAIN = np.array([[0, 2, 0, 1], [0, 0, 0, 0], [7, 0, 0, 3]], dtype=np.float32)
TEST = np.array([[0, 0, 5, 0], [1, 0, 0, 0]], dtype=np.float32)


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write a packed set into a folder that MANYCLASS_DATA names."""
    monkeypatch.setenv("MANYCLASS_DATA", str(tmp_path))

    def write(name, **arrays):
        buffer = io.BytesIO()
        np.savez(buffer, **arrays)
        (tmp_path / f"{name}.npz.xz").write_bytes(lzma.compress(buffer.getvalue()))

    return write


def test_one_label_per_row(write):
    y_train, y_test = np.array([4, 0, 9]), np.array([1, 0])
    write("small", **pack_matrix(TRAIN, "X_train"), **pack_matrix(TEST, "X_test"), y_train=y_train, y_test=y_test)
    parts = load("small")
    np.testing.assert_array_equal(parts[0].toarray(), TRAIN)
    np.testing.assert_array_equal(parts[1], y_train)
    np.testing.assert_array_equal(parts[2].toarray(), TEST)
    np.testing.assert_array_equal(parts[3], y_test)
    assert [part.dtype for part in parts] == [np.float32, np.int32, np.float32, np.int32]
    assert parts[0].format == parts[2].format == "csr"


def test_many_labels_per_row(write):
    Y_train, Y_test = np.array([[1, 0, 1], [0, 0, 0], [0, 1, 0]]), np.array([[0, 0, 1], [1, 1, 1]])
    write(
        "tags",
        **pack_matrix(TRAIN > 0, "X_train"),
        **pack_matrix(Y_train, "Y_train"),
        **pack_matrix(TEST > 0, "X_test"),
        **pack_matrix(Y_test, "Y_test"),
    )
    parts = load("tags")
    np.testing.assert_array_equal(parts[0].toarray(), TRAIN > 0)
    np.testing.assert_array_equal(parts[1].toarray(), Y_train)
    np.testing.assert_array_equal(parts[3].toarray(), Y_test)
    assert [part.dtype for part in parts] == [np.float32, np.int8, np.float32, np.int8]


def test_dense_inputs_are_scaled(write):
    stored = np.array([[2, -4], [0, 8]], np.int16)
    labels = np.array([0, 25], np.int16)
    write("letters", X_train=stored, y_train=labels, X_test=stored, y_test=labels, scale=np.float32(0.25))
    X_train, y_train, _, _ = load("letters")
    np.testing.assert_array_equal(X_train, [[0.5, -1], [0, 2]])
    assert X_train.dtype == np.float32 and y_train.dtype == np.int32


def test_running_text(write):
    train, valid, test = (np.array(part, np.uint16) for part in ([1, 2, 1], [2], [0, 1]))
    write("pages", train=train, valid=valid, test=test, vocab=pack_names(["?", "the", "né"]))
    for part, stored in zip(load("pages"), (train, valid, test), strict=True):
        np.testing.assert_array_equal(part, stored)
        assert part.dtype == np.uint16
    assert names("pages", "vocab").tolist() == ["?", "the", "né"]


def test_unknown_kind_of_names(write):
    write("pages", train=np.arange(3), vocab=pack_names(["a", "b"]))
    with pytest.raises(ValueError, match=r"no names of 'labels'; it has \['vocab'\]"):
        names("pages", "labels")


def test_shipped_set_needs_no_folder(monkeypatch):
    monkeypatch.delenv("MANYCLASS_DATA", raising=False)
    assert available("wordnet-hypernym")
    assert load("wordnet-hypernym")[0].shape == (54_992, 38_102)
    assert len(names("wordnet-hypernym", "labels")) == 4_796


def test_folder_not_set(monkeypatch):
    monkeypatch.delenv("MANYCLASS_DATA", raising=False)
    assert not available("aloi")
    with pytest.raises(DataNotFound, match=r"Set .* MANYCLASS_DATA to .* with aloi\.npz\.xz.*: manyclass data aloi$"):
        load("aloi")


def test_no_command_for_a_set_that_is_not_public():
    with pytest.raises(DataNotFound) as caught:
        load("revdict")
    assert "manyclass data" not in str(caught.value)


def test_folder_missing(tmp_path, monkeypatch):
    monkeypatch.setenv("MANYCLASS_DATA", str(tmp_path / "nowhere"))
    assert not available("aloi")
    with pytest.raises(DataNotFound, match="nowhere, which is not a folder"):
        load("aloi")


def test_set_missing_from_the_folder(write):
    write("other", train=np.arange(3))
    assert available("other") and not available("aloi")
    with pytest.raises(DataNotFound, match=r"has no aloi\.npz\.xz; it has other\. .*: manyclass data aloi$"):
        load("aloi")


@pytest.mark.parametrize("name", ["../secret", "/secret", "a/b", "", ".", ".."])
def test_name_cannot_leave_the_folder(write, name):
    write("secret", train=np.arange(3))
    assert not available(name)
    with pytest.raises(DataNotFound, match="not the name of a data set"):
        load(name)


@pytest.mark.parametrize("content", [b"", b"not xz", lzma.compress(b""), lzma.compress(b"not npz")])
def test_broken_file(tmp_path, monkeypatch, content):
    monkeypatch.setenv("MANYCLASS_DATA", str(tmp_path))
    (tmp_path / "broken.npz.xz").write_bytes(content)
    with pytest.raises(ValueError, match=r"broken\.npz\.xz is not a packed data set"):
        load("broken")


def test_cut_off_file(write, tmp_path):
    write("cut", train=np.arange(1000))
    file = tmp_path / "cut.npz.xz"
    file.write_bytes(file.read_bytes()[:-40])
    with pytest.raises(ValueError, match=r"cut\.npz\.xz is not a packed data set"):
        load("cut")


def test_pickled_objects_are_refused(write):
    write("objects", train=np.array([{}], dtype=object))
    with pytest.raises(ValueError, match="not a packed data set"):
        load("objects")


def test_array_missing(write):
    write("half", **pack_matrix(TRAIN, "X_train"), y_train=np.array([4, 0, 9]))
    with pytest.raises(ValueError, match=r"half\.npz\.xz is not a packed data set: 'X_test"):
        load("half")


def test_column_out_of_range(write):
    packed = pack_matrix(TRAIN, "X_train") | pack_matrix(TEST, "X_test")
    packed["X_train.delta"][-1] += 5
    write("wide", **packed, y_train=np.zeros(3), y_test=np.zeros(2))
    with pytest.raises(ValueError, match=r"wide\.npz\.xz is not a packed data set"):
        load("wide")


def test_arrays_of_another_kind(write, tmp_path):
    packed = pack_matrix(TRAIN, "X_train") | pack_matrix(TEST, "X_test")
    for name, array in (("X_train.shape", np.array(3)), ("X_train.counts", np.array(["2", "0", "2"]))):
        write("odd", **(packed | {name: array}), y_train=np.zeros(3), y_test=np.zeros(2))
        with pytest.raises(ValueError, match=r"odd\.npz\.xz is not a packed data set"):
            load("odd")
    buffer = io.BytesIO()
    np.save(buffer, TRAIN)
    (tmp_path / "one.npz.xz").write_bytes(lzma.compress(buffer.getvalue()))
    with pytest.raises(ValueError, match=r"one\.npz\.xz is not a packed data set"):
        load("one")


def test_cache_folder(monkeypatch, tmp_path):
    monkeypatch.delenv("MANYCLASS_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "manyclass" / "datasets"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    assert cache_folder() == tmp_path / "me" / ".cache" / "manyclass" / "datasets"
