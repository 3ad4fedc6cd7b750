"""What all protocols share: finding a model, predicting, learning, and JSON."""

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Annotated, Any, NamedTuple, TypeVar

from fastapi import Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import PydanticSerializationError, to_json
from starlette.concurrency import run_in_threadpool

from .gate import Limits, Problem
from .journal import JournalFull, KeyReused, Stored
from .metrics import Metrics
from .model import Busy, CannotLearn, Copy, Prediction, ServedModel
from .rows import BadRow

_INLINE = 4  # rows that are predicted without handing them to another thread, which takes longer than predicting them
_SHORT = 10_000  # characters or values of these rows
_TOGETHER = 64  # rows of several requests that are predicted in one call
_LONGEST_WAIT = 30.0  # seconds for a request that waits until its rows are learned
Body = TypeVar("Body", bound=BaseModel)
T = TypeVar("T")
# A list of which only the first error is looked for: a body of a million errors would take seconds.
Several = Annotated[list[T], Field(fail_fast=True)]


class Strict(BaseModel):
    """A request: unknown names are errors."""

    model_config = ConfigDict(extra="forbid")


class Error(BaseModel):
    """An error."""

    error: str


ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": Error, "description": text}
    for status, text in {
        400: "The body is not JSON, or the client went away.",
        401: "A valid API key is required.",
        403: "The API key lacks the scope.",
        404: "There is no such model, version or label.",
        408: "The body came too slowly.",
        409: "The model only predicts, or the id was used for another request.",
        413: "The body has too many bytes, or too many rows.",
        415: "The content type is not application/json.",
        421: "Without keys, the service has the names of this machine only.",
        422: "A value is invalid.",
        429: "Too many requests of this client at a time.",
        503: "Too many requests at a time, or learning has stopped.",
        507: "The disk is full: nothing was learned. Predictions go on.",
    }.items()
}


def described(body: type[BaseModel] | dict[str, Any], media: str = "application/json") -> dict[str, Any]:
    """The description of a body that the route reads itself, which is several times faster than FastAPI's way."""
    schema = body if isinstance(body, dict) else inlined(body.model_json_schema())
    return {"requestBody": {"required": True, "content": {media: {"schema": schema}}}}


def inlined(schema: dict[str, Any]) -> dict[str, Any]:
    """A JSON schema with its definitions where they are used."""
    definitions = schema.pop("$defs", {})

    def resolve(value: Any) -> Any:
        if isinstance(value, dict):
            if "$ref" in value:
                return resolve(definitions[value["$ref"].rpartition("/")[2]])
            return {name: resolve(one) for name, one in value.items()}
        return [resolve(one) for one in value] if isinstance(value, list) else value

    return resolve(schema)


def parse(kind: type[Body], body: bytes) -> Body:
    """The body of a request, or a Problem that says what is wrong."""
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise Problem(400 if first["type"] == "json_invalid" else 422, _as_text(first)) from None
    except RecursionError:
        raise Problem(400, "the JSON is nested too deeply") from None


def first_error(error: ValidationError | RequestValidationError) -> str:
    """Where the first error of a request is, and what is wrong."""
    return _as_text(error.errors()[0])


def _as_text(first: Mapping[str, Any]) -> str:
    where = ".".join(map(str, first["loc"]))[:200]
    what = "unknown field" if first["type"] == "extra_forbidden" else first["msg"]
    return f"{where}: {what}" if where else what


def as_bytes(content: Any) -> bytes:
    """A value as JSON."""
    try:
        return to_json(content, inf_nan_mode="null")
    except PydanticSerializationError:  # half of a surrogate pair, which UTF-8 cannot represent
        return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def reply(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A JSON response."""
    return Response(as_bytes(content), status, headers, "application/json")


class _What(NamedTuple):
    """What small requests must have in common to be predicted together."""

    name: str | None
    version: int | str | None
    k: int
    probabilities: bool


class _Waiting(NamedTuple):
    rows: Sequence[Any]
    done: "asyncio.Future[list[Prediction]]"


class Service:
    """The models of a process; the first one is used where a request names none."""

    def __init__(self, models: Sequence[ServedModel], limits: Limits):
        self.models = {model.name: model for model in models}
        self.limits, self.metrics = limits, Metrics(list(models))
        self._waiting: dict[_What, list[_Waiting]] = {}

    def model(self, name: str | None = None) -> ServedModel:
        """A model by name, or a 404."""
        if name is None:
            return next(iter(self.models.values()))
        if name not in self.models:
            raise Problem(404, f"there is no model {name[:100]!r}; the service has {', '.join(self.models)}.")
        return self.models[name]

    @contextmanager
    def published(self, name: str | None, version: int | str | None = None) -> Iterator[Copy]:
        """The copy of a model that predicts, or a 404."""
        model = self.model(name)
        if isinstance(version, str) and not (version.isascii() and version.isdecimal() and len(version) < 10):
            raise Problem(404, f"there is no version {version[:100]!r} of {model.name!r}.")
        with ExitStack() as stack:
            try:
                copy = stack.enter_context(model.published(None if version is None else int(version)))
            except KeyError:
                known = ", ".join(map(str, model.versions))
                raise Problem(404, f"there is no version {version} of {model.name!r}; it has {known}.") from None
            yield copy

    async def predict(
        self, name: str | None, version: int | str | None, rows: Sequence[Any], k: int, probabilities: bool = True
    ) -> list[Prediction]:
        """The best labels of rows. Small requests that arrive together are predicted together."""
        self.check_size(len(rows), k)
        what = _What(name, version, k, probabilities)
        if not _is_small(rows):
            found = await run_in_threadpool(self._predict, what, rows)
            self.metrics.predicted(prediction.work for prediction in found)
            return found
        loop = asyncio.get_running_loop()
        own = _Waiting(rows, loop.create_future())
        waiting = self._waiting.setdefault(what, [])
        waiting.append(own)
        if len(waiting) == 1:
            loop.call_soon(self._predict_waiting, what)  # after all requests that have been read by now
        return await own.done

    def _predict(self, what: "_What", rows: Sequence[Any]) -> list[Prediction]:
        with self.published(what.name, what.version) as copy:
            return checked(lambda: copy.predict(rows, what.k, what.probabilities))

    def _predict_waiting(self, what: "_What") -> None:
        waiting, n_rows = self._waiting.pop(what), 0
        for place, one in enumerate(waiting):
            n_rows += len(one.rows)
            if n_rows > _TOGETHER and place:  # the others next, so that new requests are read in between
                waiting, self._waiting[what] = waiting[:place], waiting[place:]
                asyncio.get_running_loop().call_soon(self._predict_waiting, what)
                break
        self._predict_requests(what, [one for one in waiting if not one.done.cancelled()])

    def _predict_requests(self, what: "_What", requests: list["_Waiting"]) -> None:
        try:
            predictions = self._predict(what, [row for one in requests for row in one.rows])
        except Exception as error:
            if len(requests) == 1:
                requests[0].done.set_exception(error)
            else:  # one of them is to blame
                for one in requests:
                    self._predict_requests(what, [one])
            return
        self.metrics.predicted(prediction.work for prediction in predictions)
        found = iter(predictions)
        for one in requests:
            one.done.set_result([next(found) for _ in one.rows])

    def check_size(self, n_rows: int, k: int = 1) -> None:
        """Refuse requests that ask for too much."""
        if n_rows > self.limits.rows:
            raise Problem(413, f"{n_rows} rows; at most {self.limits.rows} per request.")
        if not 1 <= k <= self.limits.k:
            raise Problem(422, f"k must be from 1 to {self.limits.k}.")

    async def learn(
        self, name: str | None, rows: Sequence[tuple[Any, Sequence[Any]]], key: str | None = None, wait: bool = False
    ) -> Stored:
        """Write rows to the journal; with `wait`, also wait until they are learned."""
        model = self.model(name)
        self.check_size(len(rows))
        try:
            check = partial(checked, lambda: model.check(rows))
            bodies = check() if _is_small([row for row, _ in rows]) else await run_in_threadpool(check)
            stored = await asyncio.wrap_future(model.add(bodies, key))
            if wait:
                await within(model.when_learned(stored.seq), _LONGEST_WAIT)
        except CannotLearn as error:
            raise Problem(503 if model.error else 409, str(error)) from None
        except Busy as error:
            raise Problem(503, str(error), {"Retry-After": "5"}) from None
        except JournalFull as error:
            raise Problem(507, f"the journal cannot be written ({error}); nothing was learned.") from None
        except KeyReused as error:
            raise Problem(409, f"{error}.") from None
        return stored


async def within(future: "Future[T]", seconds: float, goes_on: str = "the rows are in the journal") -> T:
    """The result of a future of another thread, or a 503; `goes_on` says what happens meanwhile."""
    try:
        return await asyncio.wait_for(asyncio.wrap_future(future), seconds)
    except TimeoutError:
        raise Problem(503, f"the learner is busy; {goes_on}.", {"Retry-After": "5"}) from None


def _is_small(rows: Sequence[Any]) -> bool:
    """Whether rows take so little time that other requests can wait for them."""
    return len(rows) <= _INLINE and sum(map(_size, rows)) <= _SHORT


def _size(row: Any) -> int:
    if isinstance(row, dict):
        return len(row) + sum(len(cell) for cell in row.values() if isinstance(cell, str | list))
    return len(row)


def checked(work: Callable[[], T]) -> T:
    """Rows that a model refuses are a 422."""
    try:
        return work()
    except BadRow as error:
        raise Problem(422, str(error)) from None
    except ValueError as error:  # of the estimator
        raise Problem(422, str(error)[:500]) from None
