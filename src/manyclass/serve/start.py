"""Starting the service: models, keys, uvicorn and worker processes."""

import asyncio
import gc
import json
import logging
import multiprocessing
import os
import signal
import sys
import threading
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from .app import make_app
from .gate import Gate, JsonLines, Keys, Limits
from .model import ServedModel, Settings

_VARIABLE = "MANYCLASS_SERVE"  # how worker processes get their options
LOCAL = ("127.0.0.1", "localhost", "::1")
_SWITCH = 0.0001  # seconds that the learner may keep the interpreter from the thread that handles requests
_HEADER_SECONDS = 10.0
_GRACE = 30  # seconds for running requests when the service ends


@dataclass(frozen=True)
class Options:
    """The options of the command."""

    models: list[tuple[str, str]]  # name and file
    host: str = "127.0.0.1"
    port: int = 8000
    workers: int = 1
    keys: str | None = None
    state: str | None = None
    checkpoint_every: int = 50_000
    max_body: int = 1 << 20
    access_log: bool = False


class Impatient(HttpToolsProtocol):
    """Closes connections whose request has no complete header in time, which uvicorn would keep for ever."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Wait for a header."""
        super().connection_made(transport)
        self._timer = self.loop.call_later(_HEADER_SECONDS, self.transport.close)

    def data_received(self, data: bytes) -> None:
        """Wait for the rest of the header of a further request."""
        if self._timer is None and (self.cycle is None or self.cycle.response_complete):
            self._timer = self.loop.call_later(_HEADER_SECONDS, self.transport.close)
        super().data_received(data)

    def on_headers_complete(self) -> None:
        """The header is complete."""
        self._cancel()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection has ended."""
        self._cancel()
        super().connection_lost(exc)

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def run(options: Options) -> None:
    """Serve until a signal ends it."""
    config: dict[str, Any] = {
        "host": options.host,
        "port": options.port,
        "http": Impatient,
        "log_config": None,
        "access_log": False,
        "server_header": False,
        "timeout_keep_alive": 30,
        "timeout_graceful_shutdown": _GRACE,
        "backlog": 2048,
        "timeout_worker_healthcheck": 600,  # a process that loads a model does not respond
    }
    os.environ[_VARIABLE] = json.dumps(asdict(options))
    if options.workers > 1:
        _log_as_json()  # of the process that starts the others
        uvicorn.run("manyclass.serve.start:make", factory=True, workers=options.workers, **config)
    else:
        uvicorn.run(make(), **config)


def _log_as_json() -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.captureWarnings(True)
    warnings.filterwarnings("ignore", "X does not have valid feature names")  # requests have been checked by name
    for name in ("manyclass.serve", "uvicorn.error", "py.warnings"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.INFO if name == "manyclass.serve" else logging.WARNING)


def _end_with_parent() -> None:
    """End this worker if the process that started it was killed: it would keep the port."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)


def make() -> Gate:
    """The application of a process; its options are in the environment."""
    values = json.loads(os.environ[_VARIABLE])
    options = Options(**{**values, "models": [(name, path) for name, path in values["models"]]})
    keys = None if options.keys is None else Keys.read(Path(options.keys))
    if options.workers > 1:
        threading.Thread(target=_end_with_parent, daemon=True).start()
    _log_as_json()
    sys.setswitchinterval(_SWITCH)
    settings = Settings(checkpoint_rows=options.checkpoint_every, poll=0.05 if options.workers > 1 else 0.5)
    models = []
    for name, path in options.models:
        state = Path(options.state) / name if options.state else Path(f"{path}.state")
        models.append(ServedModel(name, Path(path), state, settings))
    gc.collect()
    gc.freeze()  # the models stay: looking for garbage in them would stop the service for a tenth of a second
    hosts = LOCAL if options.host in LOCAL and keys is None else ()
    return make_app(models, Limits(body=options.max_body), keys, hosts, options.access_log)
