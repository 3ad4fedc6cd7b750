"""A tiny text model that the tests of the service share, and a client of a running service."""

import threading
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def model_file(tmp_path_factory) -> Path:
    """The tiny model."""
    from tests.serve.tiny import train_model

    return train_model(tmp_path_factory.mktemp("model"))


@pytest.fixture
def served(model_file, tmp_path):
    """`served(**settings)` is a model with a journal of its own that learns; all are stopped in the end."""
    from manyclass.serve.model import ServedModel, Settings

    made = []

    def make(folder: str = "state", start: bool = True, path: Path = model_file, name: str = "things", **settings):
        model = ServedModel(name, path, tmp_path / folder, Settings(publish_every=0.0, poll=0.02, **settings))
        made.append(model)
        if start:
            model.start()
        return model

    yield make
    for model in made:
        if not model.stopped:
            model.stop()


@pytest.fixture
def client(served, model_file):
    """`client(**options)` is an HTTP client of a service with the tiny model, or the one in `path`, and one `also`."""
    import uvicorn

    from manyclass.serve.app import make_app

    httpx = pytest.importorskip("httpx", reason="the tests of the service require httpx")
    opened = []

    def make(path: Path = model_file, also: Path | None = None, **options):
        model = served(start=False, path=path)
        others = [served("also", False, also, "also")] if also else []
        gate = make_app([model, *others], **options)
        server = uvicorn.Server(uvicorn.Config(gate, port=0, log_config=None, timeout_graceful_shutdown=5))
        thread = threading.Thread(target=server.run)
        thread.start()
        while not server.started and thread.is_alive():
            thread.join(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60)
        client.model, client.gate = model, gate
        opened.append((client, server, thread))
        return client

    yield make
    for client, server, thread in opened:
        client.close()
        server.should_exit = True
        thread.join()
