"""From a home on this machine into the cache, and out of it by `load`."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from manyclass.datasets import (
    PUBLIC_SETS,
    DataNotFound,
    DownloadError,
    PublicFile,
    PublicSet,
    available,
    cache_folder,
    fetch,
    load,
    names,
)
from manyclass.datasets.packed import pack_names, pack_split, read_packed, unpack_split, write_packed
from tests.datasets.server import Served

TEXT = b"0 0 1\n1 2 0\n"


def parse(folder: Path) -> dict[str, np.ndarray]:
    """A set made for these tests: a line is a label and two counts; the last line is the test."""
    rows = np.loadtxt(folder / "rows.txt", dtype=np.int64, ndmin=2)
    if rows.shape[1] != 3:
        raise ValueError("a row without three numbers")
    X, y = sp.csr_matrix(rows[:, 1:]), rows[:, 0].astype(np.int32)
    parts = pack_split(X[:-1], y[:-1], "train") | pack_split(X[-1:], y[-1:], "test")
    return parts | {"labels": pack_names(["no", "yes"])}


@pytest.fixture
def toy(server, monkeypatch):
    """A public set `toy` at the server."""
    server.files["/rows.txt"] = Served(TEXT)
    file = PublicFile("rows.txt", (server.address("/rows.txt"),))
    entry = PublicSet("toy", "two rows", "http://origin.example", "free", "last row", (file,), parse, (1, 1))
    monkeypatch.setitem(PUBLIC_SETS, "toy", entry)
    return entry


@pytest.fixture
def change(toy, monkeypatch):
    """Change facts of the set, or of its file."""

    def change(**facts):
        entry = PUBLIC_SETS["toy"]
        of_file = {key: value for key, value in facts.items() if key in ("urls", "sha256")}
        of_set = {key: value for key, value in facts.items() if key not in of_file}
        monkeypatch.setitem(PUBLIC_SETS, "toy", replace(entry, files=(replace(entry.files[0], **of_file),), **of_set))

    return change


def test_fetch_then_load(server, toy, cache):
    assert not available("toy")
    path = fetch("toy")
    assert path == cache / "toy.npz.xz" and available("toy")
    X_train, y_train, X_test, y_test = load("toy")
    assert X_train.toarray().tolist() == [[0, 1]] and X_test.toarray().tolist() == [[2, 0]]
    assert y_train.tolist() == [0] and y_test.tolist() == [1] and names("toy", "labels").tolist() == ["no", "yes"]
    assert sorted(file.name for file in cache.iterdir()) == ["downloads", "toy.checksums.json", "toy.npz.xz"]
    assert list((cache / "downloads").iterdir()) == []


def test_load_never_downloads(server, toy):
    with pytest.raises(DataNotFound, match=r"manyclass data toy$"):
        load("toy")
    assert server.requests == []


def test_what_is_there_is_not_fetched_again(server, toy):
    fetch("toy")
    fetch("toy")
    assert len(server.requests) == 1
    fetch("toy", again=True)
    assert len(server.requests) == 2


def test_the_folder_of_the_user_comes_first(server, toy, tmp_path, monkeypatch):
    fetch("toy")
    monkeypatch.setenv("MANYCLASS_DATA", str(tmp_path))
    assert load("toy")[1].tolist() == [0]  # not in the folder: from the cache
    other = parse_text(tmp_path, b"1 0 1\n1 2 0\n")
    write_packed(tmp_path / "toy.npz.xz", other)
    assert load("toy")[1].tolist() == [1]
    assert fetch("toy") == tmp_path / "toy.npz.xz"


def parse_text(folder, text):
    (folder / "rows.txt").write_bytes(text)
    return parse(folder)


def test_downloads_may_be_kept(server, toy, cache):
    fetch("toy", keep=True)
    assert (cache / "downloads" / "toy" / "rows.txt").read_bytes() == TEXT
    fetch("toy", again=True)
    assert len(server.requests) == 2


def test_a_file_put_there_by_hand_is_used(server, toy, cache):
    folder = cache / "downloads" / "toy"
    folder.mkdir(parents=True)
    (folder / "rows.txt").write_bytes(b"1 5 5\n0 0 7\n")
    fetch("toy")
    assert load("toy")[1].tolist() == [1] and server.requests == []
    assert not (cache / "toy.checksums.json").exists()  # nothing came from an address


def test_a_file_by_hand_must_have_the_known_checksum(change, cache):
    change(sha256="0" * 64)
    folder = cache / "downloads" / "toy"
    folder.mkdir(parents=True)
    (folder / "rows.txt").write_bytes(TEXT)
    with pytest.raises(DownloadError, match=r"rows\.txt has the SHA-256 .*, not the known 00.*; delete it"):
        fetch("toy")


def test_the_first_checksum_is_remembered(server, toy, cache):
    fetch("toy")
    (entry,) = json.loads((cache / "toy.checksums.json").read_text()).values()
    assert entry == {"file": "rows.txt", "sha256": hashlib.sha256(TEXT).hexdigest(), "bytes": len(TEXT)}
    server.files["/rows.txt"] = Served(b"1 0 1\n1 2 0\n")
    with pytest.raises(DownloadError, match=r"when it was first fetched\. If the change is meant, delete .*checksums"):
        fetch("toy", again=True)
    assert load("toy")[1].tolist() == [0]  # the old one is still there
    (cache / "toy.checksums.json").unlink()
    fetch("toy", again=True)
    assert load("toy")[1].tolist() == [1]


def test_what_could_not_be_read_is_not_trusted(server, toy, cache):
    server.files["/rows.txt"] = Served(b"rubbish\n")
    with pytest.raises(ValueError, match=r"The files of toy in .* cannot be read: .*origin\.example have changed"):
        fetch("toy")
    assert not available("toy") and not (cache / "toy.checksums.json").exists()
    server.files["/rows.txt"] = Served(TEXT)
    with pytest.raises(ValueError, match="manyclass data toy --again"):
        fetch("toy")  # what was downloaded is still there
    fetch("toy", again=True)
    assert available("toy")


def test_a_broken_list_of_checksums(toy, cache):
    cache.mkdir()
    (cache / "toy.checksums.json").write_text('{"http://x": 3}')
    with pytest.raises(DownloadError, match=r"checksums\.json is not a list of checksums; delete it"):
        fetch("toy")


def test_a_known_checksum(change, cache):
    change(sha256=hashlib.sha256(TEXT).hexdigest())
    fetch("toy")
    assert not (cache / "toy.checksums.json").exists()
    change(sha256="0" * 64)
    with pytest.raises(DownloadError, match="not the known 00"):
        fetch("toy", again=True)


def test_the_second_address_is_tried(server, change):
    change(urls=(server.address("/gone.txt"), server.address("/rows.txt")))
    fetch("toy")
    assert [path for path, _ in server.requests] == ["/gone.txt", "/rows.txt"]


def test_no_address_answers(server, change, cache, capsys):
    change(urls=(server.address("/gone.txt"), server.address("/away.txt")))
    with pytest.raises(DownloadError) as caught:
        fetch("toy")
    for part in ("/gone.txt: the server answered 404", "/away.txt", "http://origin.example", str(cache), "as rows.txt"):
        assert part in str(caught.value)
    assert "gone.txt: the server answered 404" in capsys.readouterr().err


def test_other_numbers_of_rows_are_refused(change):
    change(rows=(1, 2))
    with pytest.raises(ValueError, match="1 training and 1 test rows, but 1 and 2 are known"):
        fetch("toy")
    assert not available("toy")


def test_a_set_that_needs_a_login(cache):
    with pytest.raises(DataNotFound) as caught:
        fetch("lshtc")
    assert "kaggle.com/c/lshtc" in str(caught.value) and str(cache / "downloads" / "lshtc") in str(caught.value)
    (cache / "downloads" / "lshtc" / "train.csv").write_text("Data\n" + "7, 9 1:2 3:1\n" * 60)
    fetch("lshtc", quiet=True)
    X_train, Y_train, X_test, _ = load("lshtc")
    assert X_train.shape[0] + X_test.shape[0] == 60 and Y_train.shape[1] == 2
    assert (cache / "downloads" / "lshtc" / "train.csv").exists()  # what came by hand is not ours to delete


def test_progress_is_said_and_can_be_silenced(toy, capsys):
    fetch("toy")
    said = capsys.readouterr()
    assert "rows.txt: 0.0 of 0.0 MB, 100 %" in said.err and "toy: 1 training and 1 test rows" in said.err
    assert said.out == ""
    fetch("toy", again=True, quiet=True)
    assert capsys.readouterr() == ("", "")


def test_a_cache_that_cannot_be_made(toy, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("MANYCLASS_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(DownloadError, match=r"Cannot make the folder .* Set MANYCLASS_CACHE"):
        fetch("toy")


def test_where_the_cache_is(monkeypatch, tmp_path):
    monkeypatch.delenv("MANYCLASS_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "manyclass" / "datasets"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    assert cache_folder() == tmp_path / "me" / ".cache" / "manyclass" / "datasets"


@pytest.mark.parametrize("name", ["aloi2", "../aloi", ""])
def test_no_such_set(name):
    with pytest.raises(ValueError, match="is no public data set; known: aloi, amazoncat-13k"):
        fetch(name)


@pytest.mark.parametrize("values", [[1, 1, 1], [2, 255, 1], [-3, 4, 300], [0.25, 1e9, 2], [40_000, 1, 2]])
@pytest.mark.parametrize("width", [3, 200, 70_000])
def test_packing_keeps_every_number(tmp_path, values, width):
    X = sp.csr_matrix((np.float32(values), ([0, 0, 2], [width - 1, 0, 1])), shape=(4, width))
    Y = sp.csr_matrix(np.array([[0, 1], [1, 1], [0, 0], [0, 1]], np.int8))
    write_packed(tmp_path / "x.npz.xz", pack_split(X, Y, "train"))
    X_read, Y_read = unpack_split(read_packed(tmp_path / "x.npz.xz"), "train")
    assert (X_read != X).nnz == 0 and X_read.dtype == np.float32 and X_read.shape == X.shape
    assert (Y_read != Y).nnz == 0 and Y_read.dtype == np.int8
    assert [path.name for path in tmp_path.iterdir()] == ["x.npz.xz"]


def test_packing_is_whole_or_not_at_all(tmp_path):
    with pytest.raises(TypeError):
        write_packed(tmp_path / "x.npz.xz", {"a": np.zeros(3), "b": Unsaveable()})
    assert list(tmp_path.iterdir()) == []


class Unsaveable:
    nbytes = 0

    def __array__(self, *_: object, **__: object) -> np.ndarray:
        raise TypeError
