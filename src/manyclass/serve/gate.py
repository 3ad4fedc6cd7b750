"""What every request passes before its route: limits, API keys, security headers, logs and metrics."""

import asyncio
import hashlib
import hmac
import json
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

log = logging.getLogger("manyclass.serve")

SCOPES = ("read", "learn", "admin")  # each includes the ones before it
_PUBLIC = ("/page/", "/v2/health/")
_PUBLIC_PATHS = ("/", "/favicon.ico", "/v2")
_CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = [
    (b"content-security-policy", _CSP.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
]


@dataclass(frozen=True)
class Limits:
    """Limits of a request."""

    body: int = 1 << 20  # bytes
    rows: int = 1000  # per request
    k: int = 1000
    seconds: float = 10.0  # until the body must be complete
    requests: int = 2048  # concurrent requests; more get 503
    per_client: int = 1024  # concurrent requests, about two seconds of 500 per second; more get 429


class Problem(Exception):
    """An error response."""

    def __init__(self, status: int, message: str, headers: dict[str, str] | None = None):
        super().__init__(message)
        self.status, self.message, self.headers = status, message, headers or {}


class Keys:
    """API keys and what each may do: lines of a scope (read, learn or admin) and a key. `#` begins a comment."""

    def __init__(self, lines: Iterable[str]):
        self._digests: list[tuple[bytes, int]] = []
        for number, line in enumerate(lines, 1):
            words = line.split()
            if not words or words[0].startswith("#"):
                continue
            if len(words) != 2 or words[0] not in SCOPES or len(words[1]) < 16:
                raise ValueError(
                    f"line {number}: write a scope ({', '.join(SCOPES)}), a space and a key of at least 16 characters."
                )
            self._digests.append((_digest(words[1].encode()), SCOPES.index(words[0])))
        if not self._digests:
            raise ValueError("there is no API key.")

    @classmethod
    def read(cls, path: Path) -> "Keys":
        """The keys in a file."""
        try:
            return cls(path.read_text(encoding="utf-8").splitlines())
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None

    def level(self, key: bytes) -> int:
        """The number of the scope of a key, -1 if it is unknown. All keys are compared, in constant time."""
        given, found = _digest(key), -1
        for digest, level in self._digests:
            if hmac.compare_digest(given, digest):
                found = max(found, level)
        return found


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()


def scope_of(method: str, path: str) -> str | None:
    """What a request requires; None: nothing. Unknown paths require a key, too."""
    if method in ("GET", "HEAD") and (path in _PUBLIC_PATHS or path.startswith(_PUBLIC)):
        return None
    if path.startswith("/admin/"):
        return "admin"
    return "learn" if path.endswith("/learn") else "read"


class Gate:
    """ASGI middleware."""

    def __init__(
        self,
        app: Any,
        limits: Limits,
        keys: Keys | None,  # None: everybody may do everything
        # Accepted names in the Host header; empty: all. They protect a service on this machine, which requires no keys,
        # from pages that a browser on this machine has loaded from elsewhere.
        hosts: tuple[str, ...],
        metrics: Any,
        access_log: bool,  # log each request, not only errors
    ):
        self.app, self.limits, self.keys, self.hosts = app, limits, keys, hosts
        self.metrics, self.access_log = metrics, access_log
        self.n_requests, self._clients = 0, Counter[str]()
        self.direct: dict[str, Callable[[bytes], Awaitable[bytes]]] = {}  # POST by path, without FastAPI's way to it

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        start, response = time.perf_counter(), _Response(send)
        headers = dict(scope["headers"])
        client = str((scope.get("client") or ("",))[0])
        try:
            key = self._check(scope, headers)
            client = hashlib.sha256(key).hexdigest()[:12] if key else client
            await self._limited(scope, headers, client, receive, response)
        except Problem as problem:
            await response.problem(problem)
        except Exception:
            log.exception("internal error", extra={"path": scope["path"][:200]})
            await response.problem(Problem(500, "internal error; see the log of the service"))
        seconds = time.perf_counter() - start
        path = scope["path"]
        route = path if path in self.direct else getattr(scope.get("route"), "path", "other")
        self.metrics.request(route, response.status, seconds)
        if self.access_log or response.status >= 500:
            what = {"method": scope["method"], "route": route, "status": response.status, "client": client}
            log.info("request", extra={**what, "ms": round(1e3 * seconds, 3)})

    def _check(self, scope: dict[str, Any], headers: dict[bytes, bytes]) -> bytes:
        """Check the host, the origin and the key; return the key."""
        if self.hosts:
            host = headers.get(b"host", b"").decode("latin-1").rpartition("]")[2].partition(":")[0] or "::1"
            if host.lower() not in self.hosts:
                raise Problem(421, f"this service does not serve that host: use {self.hosts[0]}.")
        key = headers.get(b"x-api-key", b"")
        given = headers.get(b"authorization", b"")
        if not key and given[:7].lower() == b"bearer ":
            key = given[7:].strip()
        needed = scope_of(scope["method"], scope["path"])
        if needed in SCOPES[1:]:  # browsers let foreign pages send requests, though not read the responses
            if headers.get(b"sec-fetch-site", b"none") not in (b"none", b"same-origin"):
                raise Problem(403, "requests of other pages are refused.")
            kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
            if needed == "learn" and scope["method"] == "POST" and kind != b"application/json":
                raise Problem(415, "the body must have the content type application/json.")
        if self.keys is None or needed is None:
            return b""
        level = self.keys.level(key)
        if level < 0:
            raise Problem(401, "a valid API key is required.", {"WWW-Authenticate": "Bearer"})
        if level < SCOPES.index(needed):
            raise Problem(403, f"this API key does not have the scope {needed!r}.")
        return key

    async def _limited(self, scope: Any, headers: dict[bytes, bytes], client: str, receive: Any, response: Any) -> None:
        if self.n_requests >= self.limits.requests:
            raise Problem(503, "too many requests at a time.", {"Retry-After": "1"})
        if self._clients[client] >= self.limits.per_client:
            raise Problem(429, "too many requests of this client at a time.", {"Retry-After": "1"})
        self.n_requests += 1
        self._clients[client] += 1
        try:
            if scope["method"] in ("GET", "HEAD"):
                await self.app(scope, receive, response)
                return
            body = await self._body(headers, receive)
            if scope["method"] == "POST" and scope["path"] in self.direct:
                await response.json(200, await self.direct[scope["path"]](body))
            else:
                await self.app(scope, _replay(body, receive), response)
        finally:
            self.n_requests -= 1
            self._clients[client] -= 1
            if not self._clients[client]:
                del self._clients[client]

    async def _body(self, headers: dict[bytes, bytes], receive: Any) -> bytes:
        """The whole body, if it is small enough and comes soon enough."""
        length = headers.get(b"content-length", b"0")
        too_large = Problem(413, f"the body must have at most {self.limits.body} bytes.")
        if length.isdigit() and int(length[:20]) > self.limits.body:
            raise too_large
        try:
            async with asyncio.timeout(self.limits.seconds):
                parts, size, more = [], 0, True
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Problem(400, "the client went away.")
                    parts.append(message.get("body", b""))
                    size, more = size + len(parts[-1]), message.get("more_body", False)
                    if size > self.limits.body:
                        raise too_large
        except TimeoutError:
            raise Problem(408, f"the body was not complete after {self.limits.seconds:g} seconds.") from None
        return b"".join(parts)


def _replay(body: bytes, receive: Any) -> Callable[[], Any]:
    """A `receive` that begins with a body that was read before."""
    first = True

    async def again() -> Any:
        nonlocal first
        if first:
            first = False
            return {"type": "http.request", "body": body, "more_body": False}
        return await receive()

    return again


class _Response:
    """A `send` that adds headers and remembers the status."""

    def __init__(self, send: Any):
        self._send, self.status = send, 0

    async def __call__(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message = {**message, "headers": [*message.get("headers", ()), *_HEADERS]}
        await self._send(message)

    async def problem(self, problem: Problem) -> None:
        """Send an error, unless a response has begun."""
        if self.status:
            return
        given = [(name.lower().encode(), value.encode()) for name, value in problem.headers.items()]
        await self.json(problem.status, json.dumps({"error": problem.message}).encode(), given)

    async def json(self, status: int, body: bytes, more: Iterable[tuple[bytes, bytes]] = ()) -> None:
        """Send a whole response."""
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body)), *more]
        await self({"type": "http.response.start", "status": status, "headers": headers})
        await self({"type": "http.response.body", "body": body})


class JsonLines(logging.Formatter):
    """Log records as JSON objects, one per line."""

    _usual = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        when = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        known = {"time": f"{when}.{int(record.msecs):03d}Z", "level": record.levelname, "event": record.getMessage()}
        more = {name: value for name, value in vars(record).items() if name not in self._usual}
        if record.exc_info:
            more["traceback"] = self.formatException(record.exc_info)
        return json.dumps({**known, **more}, default=str)
