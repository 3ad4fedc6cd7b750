"""A client of the service for Python, without further packages. Requests are repeated if the service is busy."""

import json
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from http.client import HTTPException
from typing import Any

_AGAIN = (429, 502, 503, 504)  # worth another try
_LONGEST_PAUSE = 30.0


class ServiceError(Exception):
    """The service refused a request. `status` is the HTTP status.

    Examples
    --------
    >>> from manyclass.serve.client import ServiceError
    >>> ServiceError(413, "the body is too large").status
    413
    """

    def __init__(self, status: int, message: str):
        super().__init__(f"{status}: {message}")
        self.status = status


class Client:
    """A client of `manyclass serve`.

    Parameters
    ----------
    url : str
        Address of the service, such as "http://127.0.0.1:8000".
    key : str, optional
        API key.
    model : str, optional
        Name of the model; default: the first one of the service.
    retries : int, default=5
        Number of further tries if the service cannot be reached or is busy. A row is still learned only once.
    timeout : float, default=30.0
        Seconds to wait for a response.

    Examples
    --------
    These need a running service, `manyclass serve`:

    >>> from manyclass.serve.client import Client
    >>> client = Client("http://127.0.0.1:8000")
    >>> client.predict("a bird that eats fish", k=3)["labels"]      # doctest: +SKIP
    >>> client.learn("gull", "a bird that eats fish")               # doctest: +SKIP
    >>> client.request("/health")                                   # doctest: +SKIP
    """

    def __init__(
        self, url: str, key: str | None = None, model: str | None = None, retries: int = 5, timeout: float = 30.0
    ):
        if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
            raise ValueError(f"the address must begin with http:// or https://, got {url!r}.")
        self.url, self.key, self.model, self.retries, self.timeout = url.rstrip("/"), key, model, retries, timeout

    def predict(self, text: str | None = None, features: Any = None, k: int = 5) -> dict[str, Any]:
        """The k best labels of a text, or of features: `labels`, `scores`, `probabilities`."""
        return self.request("/predict", {**self._row(text, features), "k": k})

    def learn(
        self, label: Any, text: str | None = None, features: Any = None, id: str | None = None, wait: bool = False
    ) -> dict[str, Any]:
        """Learn a row; `label` is a label, or a list of labels. `id` is an idempotency key, by default a new one."""
        labels = {"labels" if isinstance(label, list) else "label": label}
        more = {**labels, "id": id or uuid.uuid4().hex, "wait": wait}
        return self.request("/learn", {**self._row(text, features), **more})

    def _row(self, text: str | None, features: Any) -> dict[str, Any]:
        given = {"text": text, "features": features, "model": self.model}
        return {name: value for name, value in given.items() if value is not None}

    def request(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """The JSON that the service returns; ServiceError if it refuses, OSError if it cannot be reached."""
        headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {self.key}"} if self.key else {})}
        data = None if body is None else json.dumps(body).encode()
        for attempt in range(self.retries + 1):
            pause = min(0.1 * 2**attempt, _LONGEST_PAUSE)
            try:
                asked = urllib.request.Request(self.url + path, data, headers)
                with urllib.request.urlopen(asked, timeout=self.timeout) as response:
                    return json.load(response)
            except urllib.error.HTTPError as error:
                with error:
                    message = _message(error.read())
                if error.code not in _AGAIN or attempt == self.retries:
                    raise ServiceError(error.code, message) from None
                asked_for = error.headers.get("Retry-After", "")
                pause = min(float(asked_for), _LONGEST_PAUSE) if asked_for.isdecimal() else pause
            except (OSError, HTTPException) as error:  # the second one: the service ended within its response
                if attempt == self.retries:
                    raise error if isinstance(error, OSError) else OSError(f"no complete response: {error!r}") from None
            time.sleep(pause)
        raise AssertionError("unreachable")


def _message(body: bytes) -> str:
    try:
        return str(json.loads(body)["error"])
    except (ValueError, KeyError, TypeError):
        return body.decode("utf-8", "replace")[:200]
