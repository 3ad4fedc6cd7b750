"""`manyclass client`: predict and learn through a running service."""

import json
import os
import sys
from collections.abc import Iterator

from ..serve.client import Client, ServiceError
from .files import escape
from .messages import CommandError, printable


def run(texts: list[str] | None, url: str, label: str | None, model: str | None, top_k: int, as_json: bool) -> None:
    """Predict each text, or learn it if there is a label."""
    client = Client(url, os.environ.get("MANYCLASS_KEY"), model)
    if not texts and sys.stdin is None:
        raise CommandError("standard input is closed: pass texts, or redirect a file or a pipe to it.")
    rows = texts if texts else _lines()
    try:
        for text in rows:
            if label is not None:
                found = client.learn(label, text)
                line = f"learned as row {found['seq']}"
            else:
                found = client.predict(text, k=top_k)
                pairs = zip(found["labels"], found["probabilities"], strict=True)
                line = "\t".join(cell for name, chance in pairs for cell in (escape(name), f"{chance:.6g}"))
            print(json.dumps(found) if as_json else printable(line, sys.stdout), flush=True)
    except ServiceError as error:
        raise CommandError(f"{url}: {error}") from error
    except OSError as error:
        why = getattr(error, "reason", error)
        raise CommandError(f"{url} cannot be reached: {why}. Is `manyclass serve` running there?") from error


def _lines() -> Iterator[str]:
    for number, line in enumerate(sys.stdin, 1):
        try:
            line.encode()
        except UnicodeEncodeError:
            raise CommandError(f"standard input, line {number}: not UTF-8.") from None
        yield line.rstrip("\n")
