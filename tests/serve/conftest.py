"""A tiny text model that the tests of the service share, and a client of an application in this process."""

from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the service requires: pip install 'manyclass[serve]'")
pytest.importorskip("httpx", reason="the tests of the service require httpx")

from manyclass.serve.app import make_app
from manyclass.serve.model import ServedModel, Settings
from tests.serve.tiny import train_model


@pytest.fixture(scope="session")
def model_file(tmp_path_factory) -> Path:
    """The tiny model."""
    return train_model(tmp_path_factory.mktemp("model"))


@pytest.fixture
def served(model_file, tmp_path):
    """`served(**settings)` is a model with a journal of its own that learns; all are stopped in the end."""
    made = []

    def make(folder: str = "state", start: bool = True, path: Path = model_file, **settings) -> ServedModel:
        model = ServedModel("things", path, tmp_path / folder, Settings(publish_every=0.0, poll=0.02, **settings))
        made.append(model)
        if start:
            model.start()
        return model

    yield make
    for model in made:
        if not model.stopped:
            model.stop()


@pytest.fixture
def client(served):
    """`client(**options)` is an HTTP client of an application with the tiny model; client.model is the model."""
    from starlette.testclient import TestClient

    opened = []

    def make(**options):
        model = served(start=False)
        client = TestClient(make_app([model], **options), raise_server_exceptions=False)
        client.__enter__()
        client.model = model
        opened.append(client)
        return client

    yield make
    for one in opened:
        one.__exit__(None, None, None)
