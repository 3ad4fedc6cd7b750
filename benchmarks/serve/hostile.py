"""Hostile requests: bad bodies, odd encodings and headers, deep JSON, huge numbers, slow clients. None gets a 500.

    python benchmarks/serve/hostile.py --requests 100000
    python benchmarks/serve/hostile.py --requests 0 --schemathesis 200    only schemathesis, 200 examples each

All requests go to a service that this script starts on 127.0.0.1.
"""

import argparse
import json
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.serve.running import LOCAL, ask, memory, running, train

_PATHS = ("/predict", "/learn", "/v2/models/things/infer", "/v1/projects/things/suggest",
          "/v1/projects/things/suggest-batch", "/v1/projects/things/learn", "/models/things/label?label=x",
          "/models/things/tree?node=1", "/admin/models/things/versions/1/restore", "/stats", "/metrics")  # fmt: skip
_BODIES = (
    {"text": "w1x1 w1x2", "k": 3, "words": True, "path": True},
    {"text": "w1x1", "label": "class 1", "id": "a"},
    {"rows": [{"text": "w1x1", "label": "class 2"}, {"features": {"text": "w2x1"}, "labels": ["class 1"]}]},
    {"inputs": [{"name": "text", "shape": [1], "datatype": "BYTES", "data": ["w1x1"]}], "parameters": {"k": 2}},
    {"documents": [{"text": "w1x1", "document_id": "1"}]},
    [{"text": "w1x1", "subjects": [{"uri": "class 1"}]}],
)
_VALUES = (None, True, -1, 0, 2**31, 2**63, 2**64, 10**400, 1e308, -1e-320, "", "\x00", "a" * 5000, "\u202e", "🦆" * 50,
           [], {}, [[]], {"a": {"b": [1]}}, ["x"] * 300, [1e39] * 50, {"indices": [1], "values": [1e400]})  # fmt: skip
_HEADERS = (
    b"X-API-Key: \xff\x00",
    b"Authorization: Bearer " + b"a" * 9000,
    b"Host: evil",
    b"Inference-Header-Content-Length: -1",
    b"Inference-Header-Content-Length: " + b"9" * 30,
    b"Inference-Header-Content-Length: 3",
    b"Transfer-Encoding: chunked",
    b"Expect: 100-continue",
    b"Cookie: " + b"a=b;" * 500,
)
_TYPES = (b"application/json", b"text/plain", b"application/x-www-form-urlencoded", b"", b"\xff\xfe", b"a/b;" * 50)


def mutated(rng: random.Random, value: object) -> object:
    """The value with something changed somewhere."""
    if rng.random() < 0.2:
        return rng.choice(_VALUES)
    if isinstance(value, dict) and value:
        out = dict(value)
        name = rng.choice(list(out))
        if rng.random() < 0.15:
            del out[name]
        elif rng.random() < 0.15:
            out[rng.choice(["", "x", "text", "k", "\x00", "__proto__"])] = rng.choice(_VALUES)
        else:
            out[name] = mutated(rng, out[name])
        return out
    if isinstance(value, list) and value:
        out = list(value)
        place = rng.randrange(len(out))
        out[place] = mutated(rng, out[place])
        return out * rng.choice([1, 1, 1, 40])
    return rng.choice(_VALUES)


def body_of(rng: random.Random) -> bytes:
    """A body, more or less damaged."""
    kind = rng.random()
    if kind < 0.05:
        return rng.choice([b"[", b'{"text":', b'{"a":']) * rng.choice([10, 1000, 100_000])
    if kind < 0.08:
        return bytes(rng.randrange(256) for _ in range(rng.randrange(200)))
    if kind < 0.10:
        return b'{"text": "a", "k": ' + b"9" * rng.choice([20, 400, 5000]) + b"}"
    text = json.dumps(mutated(rng, rng.choice(_BODIES)), ensure_ascii=rng.random() < 0.5)
    raw = bytearray(text.encode(rng.choice(["utf-8", "utf-8", "utf-8", "utf-16", "utf-32"]), "surrogatepass"))
    for _ in range(rng.choice([0, 0, 0, 1, 3])):
        if raw:
            raw[rng.randrange(len(raw))] = rng.randrange(256)
    return bytes(raw[: rng.randrange(len(raw) + 1)] if rng.random() < 0.05 else raw)


def message(rng: random.Random) -> bytes:
    """A whole request."""
    body, path = body_of(rng), rng.choice(_PATHS).encode()
    if rng.random() < 0.1:
        path += rng.choice([b"/../../etc/passwd", b"?k=" + b"1" * 3000, b"%00", b"%ff%fe", b"//", b"?search=%F0%9F"])
    usual = b"POST" if path.startswith((b"/predict", b"/learn", b"/v", b"/admin")) else b"GET"
    method = rng.choice([usual] * 20 + [b"GET", b"PUT", b"DELETE", b"OPTIONS", b"HEAD", b"BREW"])
    headers = [b"Host: 127.0.0.1", b"Content-Type: " + rng.choice(_TYPES), b"Connection: close"]
    if rng.random() < 0.9:
        headers.append(b"Content-Length: %d" % (len(body) if rng.random() < 0.95 else rng.choice([0, 1, 10**12])))
    if rng.random() < 0.1:
        headers.append(rng.choice(_HEADERS))
    return method + b" " + path + b" HTTP/1.1\r\n" + b"\r\n".join(headers) + b"\r\n\r\n" + body


def send(port: int, raw: bytes) -> int:
    """The status of the response; 0 if there is none, as for a request that is not complete."""
    head, _, body = raw.partition(b"\r\n\r\n")
    complete = b"Content-Length: %d" % len(body) in head and b"chunked" not in head
    try:
        with socket.create_connection((LOCAL, port), timeout=20 if complete else 0.05) as connection:
            connection.sendall(raw)
            response = connection.recv(64)
            return int(response[9:12]) if response.startswith(b"HTTP/1.1 ") else 0
    except (OSError, ValueError):
        return 0


def slow_clients(port: int, n: int) -> bool:
    """Connections that send a byte and wait; meanwhile others get their responses."""
    slow = [socket.create_connection((LOCAL, port)) for _ in range(n)]
    begun = b"POST /predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 50\r\n\r\n{"
    for i, one in enumerate(slow):
        one.sendall(begun[: 10 if i % 2 else None])
    start = time.perf_counter()
    good = bool(ask(port, "/predict", {"text": "w1x1"})["labels"]) and time.perf_counter() - start < 5
    for one in slow:
        one.close()
    return good


def main() -> None:
    """Send all of them and count the responses."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--schemathesis", type=int, default=0, metavar="EXAMPLES")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng, statuses, failed = random.Random(options.seed), Counter(), 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with running(train(folder, 50), folder / "state", "--max-body", "200000") as (child, port):
            ask(port, "/predict", {"text": "w1x1"})
            before = memory(child.pid)
            for i in range(options.requests):
                raw = message(rng)
                status = send(port, raw)
                statuses[status] += 1
                if status >= 500 and status not in (503, 507):
                    failed += 1
                    print(f"{status}: {raw[:500]!r}", file=sys.stderr)
                if i % 10_000 == 9999:
                    print(f"{i + 1:,}: {dict(statuses)}", file=sys.stderr)
            patient = slow_clients(port, 60)
            if options.schemathesis:
                command = [shutil.which("schemathesis", path=str(Path(sys.executable).parent)) or "schemathesis", "run"]
                settings = folder / "schemathesis.toml"
                # Bodies that are too large are refused with 413, which schemathesis does not expect by itself.
                refused = "[checks.negative_data_rejection]\nexpected-statuses = ['4xx', '5xx']\n"
                settings.write_text(f'[parameters]\n"path.name" = "things"\n"path.version" = 1\n{refused}')
                # A body may fit the schema and not the model, whose columns and labels the schema does not know.
                limits = ["--max-examples", str(options.schemathesis), "--exclude-checks", "positive_data_acceptance"]
                command[1:1] = ["--config-file", str(settings)]
                url = f"http://{LOCAL}:{port}/openapi.json"
                failed += subprocess.run([*command, url, *limits, "--workers", "1", "--no-color"]).returncode != 0
            alive = bool(ask(port, "/predict", {"text": "w1x1"})["labels"]) and child.poll() is None
            after = memory(child.pid)
    result = {
        "requests": options.requests,
        "responses by status (0: the connection was closed)": dict(sorted(statuses.items())),
        "failures": failed,
        "responds to others while 60 clients are slow": patient,
        "alive": alive,
        "memory before and after, MB": [round(before), round(after)],
    }
    print(json.dumps(result, indent=1))
    assert alive and patient and not failed


if __name__ == "__main__":
    main()
