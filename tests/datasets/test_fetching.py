"""From a web server on this machine into the cache, and from there through `load`."""

import hashlib
import io
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from manyclass.datasets import PUBLIC_SETS, DataNotFound, DownloadError, PublicFile, PublicSet, available, fetch, load
from manyclass.datasets import fetching as fetching_module
from manyclass.datasets.packed import pack_split, read_packed, unpack_split, write_packed
from tests.datasets.server import Served

TEXT = b"0 0 1\n1 2 0\n"
DOCUMENT = (Path(__file__).resolve().parents[2] / "docs" / "datasets.md").read_text(encoding="utf-8")


def parse(folder: Path) -> dict[str, np.ndarray]:
    """A set made for these tests: a line is a label and two counts; the last line is the test row."""
    rows = np.loadtxt(folder / "rows.txt", dtype=np.int64, ndmin=2)
    X, y = sp.csr_matrix(rows[:, 1:]), rows[:, 0].astype(np.int32)
    return pack_split(X[:-1], y[:-1], "train") | pack_split(X[-1:], y[-1:], "test")


@pytest.fixture
def toy(server, monkeypatch):
    """A public set `toy` on the server."""
    server.files["/rows.txt"] = Served(TEXT)
    file = PublicFile("rows.txt", (server.address("/rows.txt"),), hashlib.sha256(TEXT).hexdigest())
    entry = PublicSet("toy", "two rows", "http://origin.example", "free", "last row", (file,), parse, (1, 1))
    monkeypatch.setitem(PUBLIC_SETS, "toy", entry)
    return entry


@pytest.fixture
def change(toy, monkeypatch):
    """Change attributes of the file of the set."""

    def change(**of_file):
        monkeypatch.setitem(PUBLIC_SETS, "toy", replace(toy, files=(replace(toy.files[0], **of_file),)))

    return change


def test_fetch_then_load(server, toy, cache, capsys):
    with pytest.raises(DataNotFound, match=r"manyclass data toy$"):
        load("toy")
    assert server.requests == []  # load never downloads
    assert fetch("toy") == cache / "toy.npz.xz" and available("toy")
    X_train, y_train, X_test, y_test = load("toy")
    assert X_train.toarray().tolist() == [[0, 1]] and X_test.toarray().tolist() == [[2, 0]]
    assert y_train.tolist() == [0] and y_test.tolist() == [1]
    assert list((cache / "downloads").iterdir()) == []
    printed = capsys.readouterr()
    assert f"toy: downloading rows.txt from {server.address('/rows.txt')}" in printed.err
    assert "toy: 1 training and 1 test rows" in printed.err and printed.out == ""
    fetch("toy")
    assert server.requests == ["/rows.txt"]
    fetch("toy", again=True, keep=True, quiet=True)
    assert server.requests == ["/rows.txt"] * 2 and capsys.readouterr() == ("", "")
    assert (cache / "downloads" / "toy" / "rows.txt").read_bytes() == TEXT


def test_wrong_hash(server, toy, cache):
    server.files["/rows.txt"] = Served(b"1 0 1\n1 2 0\n")
    with pytest.raises(DownloadError, match=r"toy was not fetched.*does not match the known hash"):
        fetch("toy", quiet=True)
    assert not available("toy") and list((cache / "downloads" / "toy").iterdir()) == []


def test_plain_http_without_a_checksum_is_refused_unless_asked(server, change, cache):
    change(hash=None)
    with pytest.raises(DownloadError, match=r"rows.txt has no checksum.*not encrypted.*manyclass data toy --insecure"):
        fetch("toy", quiet=True)
    assert server.requests == [] and not available("toy")
    fetch("toy", quiet=True, insecure=True)
    assert available("toy")


def test_public_sets_need_no_insecure_download():
    for entry in PUBLIC_SETS.values():
        for file in entry.files:
            assert file.hash is not None or all(url.startswith("https:") for url in file.urls)


def test_interrupted(server, toy, cache):
    server.files["/rows.txt"] = Served(TEXT, cuts=[5])
    with pytest.raises(DownloadError, match=r"(?s)toy was not fetched.*5 bytes read.*save it as .*manyclass data toy"):
        fetch("toy", quiet=True)
    assert not available("toy") and list((cache / "downloads" / "toy").iterdir()) == []
    fetch("toy", quiet=True)
    assert load("toy")[1].tolist() == [0]


def test_an_interrupted_download_is_tried_again(server, toy, monkeypatch):
    monkeypatch.setattr(fetching_module, "_RETRIES", 1)
    server.files["/rows.txt"] = Served(TEXT, cuts=[5])
    fetch("toy", quiet=True)
    assert len(server.requests) == 2 and available("toy")


def test_the_second_address_is_tried(server, change):
    change(urls=(server.address("/gone.txt"), server.address("/rows.txt")))
    fetch("toy", quiet=True)
    assert server.requests == ["/gone.txt", "/rows.txt"]


def test_no_address_works(server, change, cache):
    change(urls=(server.address("/gone.txt"), server.address("/away.txt")))
    with pytest.raises(DownloadError) as caught:
        fetch("toy", quiet=True)
    for part in ("/gone.txt: 404", "/away.txt: 404", "http://origin.example", str(cache / "downloads/toy/rows.txt")):
        assert part in str(caught.value)


def test_a_file_saved_by_hand_is_used(server, change, cache):
    change(hash=None)
    folder = cache / "downloads" / "toy"
    folder.mkdir(parents=True)
    (folder / "rows.txt").write_bytes(b"1 5 5\n0 0 7\n")
    fetch("toy", quiet=True)
    assert load("toy")[1].tolist() == [1] and server.requests == []


def test_zip_files_are_unpacked(server, change):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr("rows.txt", TEXT)
    server.files["/rows.zip"] = Served(buffer.getvalue())
    change(name="rows.zip", urls=(server.address("/rows.zip"),), hash=None)
    fetch("toy", quiet=True, insecure=True)
    assert load("toy")[1].tolist() == [0]
    server.files["/rows.zip"] = Served(b"<html>Sign in</html>")
    with pytest.raises(DownloadError, match="not a zip file, perhaps a web page"):
        fetch("toy", again=True, quiet=True, insecure=True)


@pytest.mark.parametrize("text, reason", [(b"rubbish\n", "could not convert"), (b"0 0 1\n" * 3, r"expected \(1, 1\)")])
def test_unexpected_content(server, change, text, reason):
    change(hash=None)
    server.files["/rows.txt"] = Served(text)
    with pytest.raises(ValueError, match=rf"Cannot read the files of toy.*{reason}.*--again.*origin\.example"):
        fetch("toy", quiet=True, insecure=True)
    assert not available("toy")
    server.files["/rows.txt"] = Served(TEXT)
    fetch("toy", again=True, quiet=True, insecure=True)
    assert available("toy")


def test_the_folder_of_the_user_comes_first(server, toy, tmp_path, monkeypatch):
    fetch("toy", quiet=True)
    monkeypatch.setenv("MANYCLASS_DATA", str(tmp_path))
    assert load("toy")[1].tolist() == [0]  # not in the folder: from the cache
    (tmp_path / "rows.txt").write_bytes(b"1 0 1\n1 2 0\n")
    write_packed(tmp_path / "toy.npz.xz", parse(tmp_path))
    assert load("toy")[1].tolist() == [1]
    assert fetch("toy") == tmp_path / "toy.npz.xz"


def test_a_cache_that_cannot_be_created(toy, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("MANYCLASS_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(DownloadError, match="MANYCLASS_CACHE names another folder"):
        fetch("toy", quiet=True)


def test_without_pooch(toy, monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(ImportError, match=r"pip install 'manyclass\[data\]'"):
        fetch("toy")


@pytest.mark.parametrize("name", ["aloi2", "../aloi", ""])
def test_no_such_set(name):
    with pytest.raises(ValueError, match="known sets: aloi, amazoncat-13k"):
        fetch(name)


def test_the_table_of_public_sets():
    for name, entry in PUBLIC_SETS.items():
        assert entry.name == name and entry.files and entry.licence and entry.split
        assert f"| {name} |" in DOCUMENT and entry.home in DOCUMENT
        assert all(f"{n_rows:,}" in DOCUMENT for n_rows in entry.rows or ())
        assert len({file.name for file in entry.files}) == len(entry.files)
        for file in entry.files:
            assert "/" not in file.name and all(url.startswith(("https://", "http://")) for url in file.urls)
            assert file.hash is None or len(bytes.fromhex(file.hash.removeprefix("md5:"))) in (16, 32)
        without = any(file.hash is None for file in entry.files)
        assert without == (name in ("isolet", "rcv1-topics", "wiki10-31k", "amazoncat-13k"))  # as the page says


@pytest.mark.parametrize("values", [[1, 1, 1], [2, 255, 1], [-3, 4, 300], [0.25, 1e9, 2], [40_000, 1, 2], [1e30, 1, 2]])
@pytest.mark.parametrize("width", [3, 200, 70_000])
def test_packing_keeps_every_number(tmp_path, values, width):
    X = sp.csr_matrix((np.float32(values), ([0, 0, 2], [width - 1, 0, 1])), shape=(4, width))
    Y = sp.csr_matrix(np.array([[0, 1], [1, 1], [0, 0], [0, 1]], np.int8))
    write_packed(tmp_path / "x.npz.xz", pack_split(X, Y, "train"))
    X_read, Y_read = unpack_split(read_packed(tmp_path / "x.npz.xz"), "train")
    assert (X_read != X).nnz == 0 and X_read.dtype == np.float32 and X_read.shape == X.shape
    assert (Y_read != Y).nnz == 0 and Y_read.dtype == np.int8
    assert [path.name for path in tmp_path.iterdir()] == ["x.npz.xz"]


def test_packing_is_atomic(tmp_path):
    class Unsaveable:
        nbytes = 0

        def __array__(self, *_: object, **__: object) -> np.ndarray:
            raise TypeError

    with pytest.raises(TypeError):
        write_packed(tmp_path / "x.npz.xz", {"a": np.zeros(3), "b": Unsaveable()})
    assert list(tmp_path.iterdir()) == []
