"""`manyclass data`: list and download public data sets."""

import json
from pathlib import Path

import numpy as np
import pytest

from manyclass.datasets import PUBLIC_SETS, PublicFile, PublicSet, fetching, load
from tests.datasets.server import Served, Server


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MANYCLASS_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("MANYCLASS_DATA", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(fetching, "_RETRIES", 0, raising=False)


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
    result = call("data")
    assert result.code == 0 and result.err == ""
    for name, entry in PUBLIC_SETS.items():
        assert f"{name} [" in result.out and entry.home in result.out and entry.licence in result.out
    assert "toy [not downloaded]: four words\n  from http://origin.example, 4 MB to download\n" in result.out


def test_list_as_json(call, toy):
    listed = {entry["name"]: entry for entry in json.loads(call("data", "--json").out)}
    assert set(listed) == set(PUBLIC_SETS) and listed["toy"]["bytes"] == 4_000_000 and not listed["toy"]["available"]


def test_fetch(call, toy, server):
    result = call("data", "toy", "--insecure")
    path = Path("cache/toy.npz.xz").resolve()
    assert result.code == 0 and f"toy: {path}" in result.out
    assert "free for all" in result.err and "http://origin.example" in result.err
    assert [part.tolist() for part in load("toy")] == [[97, 98], [99], [100]]
    assert "toy [available]" in call("data").out
    assert json.loads(call("data", "toy", "--json").out)["path"] == str(path)
    assert len(server.requests) == 1
    assert call("data", "toy", "--again", "--keep", "--insecure").code == 0
    assert len(server.requests) == 2 and Path("cache/downloads/toy/words").exists()


def test_errors_are_reported(call, toy, server):
    result = call("data", "toy", "nonesuch")
    assert result.code == 1 and "manyclass: error: unknown data set nonesuch; known sets: aloi" in result.err
    assert server.requests == []
    server.files.clear()
    result = call("data", "toy", "--insecure")
    assert result.code == 1 and "404" in result.err and "Traceback" not in result.err
