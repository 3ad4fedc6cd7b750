"""A cache of its own for every test, and a web server on this machine: no test needs a network."""

import pytest

from manyclass.datasets import download
from tests.datasets.server import Server


@pytest.fixture
def server():
    running = Server()
    yield running
    running.stop()


@pytest.fixture
def cache(tmp_path):
    """The folder of this test's cache."""
    return tmp_path / "cache"


@pytest.fixture(autouse=True)
def _own_cache(cache, monkeypatch):
    monkeypatch.setenv("MANYCLASS_CACHE", str(cache))
    monkeypatch.delenv("MANYCLASS_DATA", raising=False)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(download, "_WAITS", (0.0, 0.0))
