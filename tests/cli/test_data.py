"""`manyclass data`: the list of public sets, and fetching."""

import json
from pathlib import Path

import numpy as np
import pytest

from manyclass.datasets import PUBLIC_SETS, PublicFile, PublicSet, load
from tests.datasets.server import Served, Server


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MANYCLASS_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("MANYCLASS_DATA", raising=False)
    monkeypatch.delenv("http_proxy", raising=False)


@pytest.fixture
def server():
    running = Server()
    yield running
    running.stop()


def parse(folder: Path) -> dict[str, np.ndarray]:
    words = np.frombuffer((folder / "words").read_bytes(), np.uint8).astype(np.uint16)
    return {"train": words[:-2], "valid": words[-2:-1], "test": words[-1:]}


@pytest.fixture
def toy(server, monkeypatch):
    server.files["/words"] = Served(b"abcd")
    file = PublicFile("words", (server.address("/words"),), None, 4_000_000)
    entry = PublicSet("toy", "four words", "http://origin.example", "free for all", "in order", (file,), parse)
    monkeypatch.setitem(PUBLIC_SETS, "toy", entry)


def test_list(call, toy):
    told = call("data")
    assert told.code == 0 and told.err == ""
    for name, entry in PUBLIC_SETS.items():
        assert f"{name} [" in told.out and entry.home in told.out and entry.licence in told.out
    assert "toy [not fetched]: four words\n  from http://origin.example, 4 MB to download\n  licence: free" in told.out
    assert "lshtc [by hand]" in told.out


def test_list_as_json(call, toy):
    listed = {entry["name"]: entry for entry in json.loads(call("data", "--json").out)}
    assert set(listed) == set(PUBLIC_SETS) and listed["toy"]["bytes"] == 4_000_000 and not listed["toy"]["available"]


def test_fetch(call, toy, server):
    told = call("data", "toy")
    path = Path("cache/toy.npz.xz").resolve()
    assert told.code == 0 and f"toy: {path}" in told.out
    assert "free for all" in told.err and "http://origin.example" in told.err
    assert [part.tolist() for part in load("toy")] == [[97, 98], [99], [100]]
    assert "toy [here]" in call("data").out
    assert json.loads(call("data", "toy", "--json").out)["path"] == str(path)
    assert len(server.requests) == 1
    assert call("data", "toy", "--again", "--keep").code == 0
    assert len(server.requests) == 2 and Path("cache/downloads/toy/words").exists()


def test_mistakes_are_told_in_a_line(call, toy, server):
    told = call("data", "toy", "nonesuch")
    assert told.code == 1 and "manyclass: error: no public data set nonesuch; known: aloi" in told.err
    assert server.requests == []
    server.files.clear()
    told = call("data", "toy")
    assert told.code == 1 and "the server answered 404" in told.err and "Traceback" not in told.err
    told = call("data", "lshtc")
    assert told.code == 1 and "kaggle.com" in told.err and "put train.csv into" in told.err
