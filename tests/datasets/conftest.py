"""Each test has its own cache and a local web server; no test needs a network."""

import pytest

from manyclass.datasets import fetching
from tests.datasets.server import Server


@pytest.fixture
def server():
    running = Server()
    yield running
    running.stop()


@pytest.fixture
def cache(tmp_path):
    """The cache folder of this test."""
    return tmp_path / "cache"


@pytest.fixture(autouse=True)
def _own_cache(cache, monkeypatch):
    monkeypatch.setenv("MANYCLASS_CACHE", str(cache))
    monkeypatch.delenv("MANYCLASS_DATA", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(fetching, "_RETRIES", 0)
