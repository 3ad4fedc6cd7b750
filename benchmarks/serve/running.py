"""A model of made-up texts, and a service that runs in a process of its own."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

LOCAL = "127.0.0.1"


def texts(n: int, n_classes: int, seed: int) -> Iterator[tuple[str, str]]:
    """Texts of eight words: four of a class, two of its group of 50 classes, two that all have."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(n_classes, size=n)
    own, group, common = rng.integers(5, size=(n, 4)), rng.integers(20, size=(n, 2)), rng.zipf(1.5, size=(n, 2)) % 5000
    for label, a, b, c in zip(labels.tolist(), own.tolist(), group.tolist(), common.tolist(), strict=True):
        words = [f"w{label}x{i}" for i in a] + [f"g{label // 50}x{i}" for i in b] + [f"c{i}" for i in c]
        yield " ".join(words), f"class {label}"


def train(folder: Path, n_classes: int, rows_per_class: int = 4) -> Path:
    """A label tree, trained by the command line; kept for the next time."""
    model = folder / f"texts{n_classes}.model"
    if not model.exists():
        folder.mkdir(parents=True, exist_ok=True)
        data = folder / "rows.jsonl"
        with open(data, "w", encoding="utf-8") as file:
            for label in range(n_classes):  # every class at least once
                text = f"w{label}x0 w{label}x1 g{label // 50}x0"
                file.write(json.dumps({"text": text, "label": f"class {label}"}) + "\n")
            for text, name in texts(n_classes * (rows_per_class - 1), n_classes, 0):
                file.write(json.dumps({"text": text, "label": name}) + "\n")
        command = ["train", str(data), "--label", "label", "--text", "text", "--model", str(model)]
        subprocess.run([sys.executable, "-m", "manyclass", *command], check=True, stdout=sys.stderr)
        data.unlink()
    return model


def free_port() -> int:
    """A port that nobody uses."""
    with socket.socket() as one:
        one.bind((LOCAL, 0))
        return one.getsockname()[1]


def wait_for(port: int) -> None:
    """Wait until somebody listens."""
    while True:
        try:
            socket.create_connection((LOCAL, port)).close()
            return
        except OSError:
            time.sleep(0.05)


def ask(port: int, path: str, body: Any = None, timeout: float = 30) -> Any:
    """The JSON that the service returns; an exception if it refuses."""
    data = None if body is None else json.dumps(body).encode()
    asked = urllib.request.Request(f"http://{LOCAL}:{port}{path}", data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(asked, timeout=timeout) as response:
        return json.load(response)


def start(model: Path, state: Path, *options: str, **more: Any) -> tuple[subprocess.Popen, int]:
    """Start `manyclass serve` and wait until it is ready."""
    port = free_port()
    serve = ["serve", f"things={model}", "--port", str(port), "--state", str(state)]
    command = [sys.executable, "-m", "manyclass", *serve]
    log = open(state.parent / "service.log", "ab")
    child = subprocess.Popen([*command, *options], stdout=log, stderr=log, **more)
    log.close()
    for _ in range(6000):
        if child.poll() is not None:
            raise RuntimeError(f"the service ended: see {state.parent / 'service.log'}")
        try:
            ask(port, "/v2/health/ready")
            return child, port
        except OSError:
            time.sleep(0.05)
    raise RuntimeError("the service did not start within five minutes")


@contextmanager
def running(model: Path, state: Path, *options: str) -> Iterator[tuple[subprocess.Popen, int]]:
    """A service that is stopped in the end."""
    child, port = start(model, state, *options)
    try:
        yield child, port
    finally:
        stop(child)


def stop(child: subprocess.Popen) -> None:
    """End a service as a signal of the system would, so that it saves its model."""
    if child.poll() is None:
        child.send_signal(signal.SIGTERM)
        child.wait(300)


def memory(pid: int) -> float:
    """Resident memory of a process in MB."""
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
