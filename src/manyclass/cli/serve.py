"""`manyclass serve`: predict and learn over HTTP, with a web page. Without a model, the demo model is trained first."""

import json
import os
import re
import socket
import tempfile
from pathlib import Path
from typing import Any

from ..datasets import cache_folder, load_wordnet
from .main import train
from .messages import CommandError, stderr


def run(models: list[str] | None, insecure: bool, **options: Any) -> None:
    """Check the options, train the demo model if there is none, and serve."""
    try:
        from ..serve.gate import Keys
        from ..serve.start import LOCAL, Options
        from ..serve.start import run as serve
    except ImportError as error:
        raise CommandError(f"the service requires {error.name}: pip install 'manyclass[serve]'") from error
    _check_address(options["host"], options["port"])
    if options["host"] not in LOCAL and options["keys"] is None and not insecure:
        raise CommandError(
            f"--host {options['host']}: others could train the model. Pass --keys FILE, or --insecure if the network "
            "is trusted."
        )
    if options["keys"] is not None:
        Keys.read(Path(options["keys"]))
    named = [_named(model) for model in models or [_demo_model()]]
    names = [name for name, _ in named]
    for name, path in named:
        if names.count(name) > 1:
            raise CommandError(f"two models are called {name}: write NAME=FILE.")
        if not os.path.isfile(path):
            raise CommandError(f"{path}: {'a folder, not a model file' if os.path.isdir(path) else 'no such file'}.")
    host = "127.0.0.1" if options["host"] == "0.0.0.0" else options["host"]
    stderr.print(f"Loading {', '.join(names)} (the first start compiles, up to a minute)")
    stderr.print(f'The page will be at http://{host}:{options["port"]}/ after the line with "ready"')
    serve(Options(models=named, **options))


def _check_address(host: str, port: int) -> None:
    """Refuse an address that is in use before models are loaded."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as one:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            one.bind(address)
    except OSError as error:
        raise CommandError(f"{host}, port {port}: {error.strerror}. Choose others with --host and --port.") from error


def _named(model: str) -> tuple[str, str]:
    """The name and the file of MODEL or NAME=MODEL."""
    name, equals, path = model.partition("=")
    if not equals:
        name, path = re.sub(r"[^A-Za-z0-9_-]", "-", Path(model).name.split(".")[0]), model
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,100}", name):
        raise CommandError(f"{model}: the name {name!r} must have letters, digits, - and _ only. Write NAME=FILE.")
    return name, path


def _demo_model() -> str:
    """A model of WordNet's definitions, trained once and kept in the cache."""
    path = cache_folder() / "demo.model"
    if path.exists():
        return str(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    stderr.print("Training the demo model: 4,796 kinds of things, from their definitions in WordNet")
    data, names = load_wordnet(), []
    seen: dict[str, int] = {}
    for label in data.label_names:
        word = str(label).split(".")[0].replace("_", " ")
        seen[word] = seen.get(word, 0) + 1
        names.append(word if seen[word] == 1 else f"{word} ({seen[word]})")
    words = data.feature_names
    with tempfile.TemporaryDirectory() as folder:
        table = os.path.join(folder, "wordnet.jsonl")
        with open(table, "w", encoding="utf-8") as file:
            for row, label in zip(data.X_train, data.y_train, strict=True):
                text = " ".join(words[row.indices])
                file.write(json.dumps({"text": text, "label": names[label]}) + "\n")
        train(data=table, model=str(path), label="label", text=["text"], threads=-1)
    return str(path)
