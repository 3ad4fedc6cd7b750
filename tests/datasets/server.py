"""A web server on this machine that can break off in the middle of a file."""

import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Served:
    """The content of a path; each element of `cuts` ends one response after so many bytes."""

    content: bytes
    cuts: list[int] = field(default_factory=list)


class Server:
    """Files by path; the path of every request is recorded."""

    def __init__(self) -> None:
        self.files: dict[str, Served] = {}
        self.requests: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.requests.append(self.path)
                served = outer.files.get(self.path)
                if served is None:
                    self.send_error(404)
                    return
                self.send_response(200)
                self.send_header("Content-Length", str(len(served.content)))
                self.end_headers()
                self.wfile.write(served.content[: served.cuts.pop(0) if served.cuts else None])

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
