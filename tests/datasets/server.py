"""A web server on this machine that can be told to misbehave."""

import threading
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Served:
    """What the server answers for a path."""

    content: bytes
    ranges: bool = True
    etag: str | None = '"one"'
    kind: str = "application/octet-stream"
    length: bool = True  # say Content-Length
    chunked: bool = False
    cuts: list[int] = field(default_factory=list)  # bytes after which the next answers break off
    statuses: list[int] = field(default_factory=list)  # of the next answers, before the content is given


class Server:
    """Files by path; every request is remembered as (path, headers)."""

    def __init__(self) -> None:
        self.files: dict[str, Served] = {}
        self.requests: list[tuple[str, dict[str, str]]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                outer.requests.append((self.path, dict(self.headers)))
                outer.answer(self)

            def log_message(self, *_: object) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def address(self, path: str) -> str:
        return f"http://127.0.0.1:{self._http.server_port}{path}"

    def stop(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        served = self.files.get(request.path)
        status = 404 if served is None else served.statuses.pop(0) if served.statuses else 200
        if served is None or status != 200:
            request.send_response(status)
            request.send_header("Content-Length", "0")
            request.end_headers()
            return
        start = self._start(request, served)
        if start >= len(served.content) > 0:
            request.send_response(416)
            request.send_header("Content-Range", f"bytes */{len(served.content)}")
            request.send_header("Content-Length", "0")
            request.end_headers()
            return
        self._send(request, served, start)

    def _start(self, request: BaseHTTPRequestHandler, served: Served) -> int:
        wanted, condition = request.headers.get("Range"), request.headers.get("If-Range")
        if wanted is None or not served.ranges or (condition is not None and condition != served.etag):
            return 0
        return int(wanted.removeprefix("bytes=").removesuffix("-"))

    def _send(self, request: BaseHTTPRequestHandler, served: Served, start: int) -> None:
        body = served.content[start:]
        request.send_response(206 if start else 200)
        if start:
            last, total = len(served.content) - 1, len(served.content)
            request.send_header("Content-Range", f"bytes {start}-{last}/{total}")
        if served.etag is not None:
            request.send_header("ETag", served.etag)
        request.send_header("Content-Type", served.kind)
        if served.chunked:
            request.send_header("Transfer-Encoding", "chunked")
        elif served.length:
            request.send_header("Content-Length", str(len(body)))
        request.send_header("Connection", "close")
        request.close_connection = True
        request.end_headers()
        cut = served.cuts.pop(0) if served.cuts else None
        if served.chunked:
            body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
        with suppress(ConnectionError):  # the other side may have had enough
            request.wfile.write(body[:cut])
