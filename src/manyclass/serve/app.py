"""The application: plain endpoints, administration and the page."""

import errno
import logging
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from .. import __version__
from ..core.base import algorithm_of
from . import annif, explore, open_inference
from .gate import Gate, Keys, Limits, Problem
from .metrics import numbers_of
from .model import CannotLearn, Prediction, ServedModel
from .rows import BadRow, of_each
from .service import (
    ERRORS,
    Error,
    Service,
    Several,
    Strict,
    as_bytes,
    checked,
    described,
    first_error,
    parse,
    reply,
    within,
)

log = logging.getLogger("manyclass.serve")
_TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".txt": "text/plain"}
_RELOAD_SECONDS = 600.0
Vector = dict[str, Any] | list[Any]


class RowIn(Strict):
    """A row: a text, or features."""

    text: str | None = Field(None, description="Raw text, for a model that was trained on a column of text.")
    features: Vector | None = Field(
        None, description='Cells by column, values by feature name, {"indices": [...], "values": [...]}, or all values.'
    )

    def row(self) -> Any:
        """The text or the features."""
        if (self.text is None) == (self.features is None):
            raise BadRow("pass either text or features.")
        return self.features if self.text is None else self.text


class LabelledIn(RowIn):
    """A row with its label or labels."""

    label: str | int | None = Field(None, description="The label, if rows have one each.")
    labels: Several[str | int] | None = Field(None, description="The labels, if rows may have several.")

    def pair(self) -> tuple[Any, list]:
        """The row and its labels."""
        if (self.label is None) == (self.labels is None):
            raise BadRow("pass either label or labels.")
        return self.row(), [self.label] if self.labels is None else self.labels


class PredictIn(RowIn):
    """One row, or several in `rows`."""

    rows: Several[RowIn] | None = Field(None, description="Several rows, instead of text or features.")
    k: int = Field(5, ge=1, description="Number of labels.")
    model: str | None = Field(None, description="Name of the model; default: the first one.")
    version: int | None = Field(None, ge=1, description="Version of the model; default: the one that learns.")
    path: bool = Field(False, description="Add the nodes of the tree that the row reaches.")
    explanation: bool = Field(False, description="Add what the features of a row contribute to the best score.")
    words: bool = Field(False, description="Add the words of a text and what each adds to the score of the best label.")


class LearnIn(LabelledIn):
    """One row with its label, or several in `rows`."""

    rows: Several[LabelledIn] | None = Field(None, description="Several rows, instead of one.")
    model: str | None = Field(None, description="Name of the model; default: the first one.")
    id: str | None = Field(
        None, min_length=1, max_length=200, description="Idempotency key: a request with a known id is learned once."
    )
    wait: bool = Field(False, description="Respond when the rows are part of the published model.")


class WordOut(BaseModel):
    """A word, where it is in the text, and by how much the score of the best label drops without it."""

    word: str
    begin: int
    end: int
    change: float


class RowOut(BaseModel):
    """The best labels of a row, best first. Labels that were not scored are left out, so there may be fewer than k."""

    labels: list[str | int | float | bool]
    scores: list[float]
    probabilities: list[float]
    path: list[int] | None = None
    explanation: dict[str, Any] | None = None
    words: list[WordOut] | None = None


class PredictOut(RowOut):
    """The prediction of a row, or those of several rows."""

    model: str
    version: int
    labels: list[str | int | float | bool] | None = None  # type: ignore[assignment]
    scores: list[float] | None = None  # type: ignore[assignment]
    probabilities: list[float] | None = None  # type: ignore[assignment]
    rows: list[RowOut] | None = None


class LearnOut(BaseModel):
    """Where the rows are in the journal."""

    seq: int
    duplicate: bool
    model: str


class ModelOut(BaseModel):
    """A model, and what it has learned."""

    model: str
    version: int
    versions: list[int]
    classes: int
    features: int
    algorithm: str
    text: bool
    labels: str
    learns: bool
    learned: int
    backlog: int
    error: str | None


def as_json(found: Prediction) -> dict[str, Any]:
    """A prediction as it is sent."""
    return {"labels": found.labels, "scores": found.scores, "probabilities": found.probabilities}


def make_app(
    models: Sequence[ServedModel],
    limits: Limits = Limits(),
    keys: Keys | None = None,
    hosts: tuple[str, ...] = (),
    access_log: bool = False,
) -> Gate:
    """The ASGI application of some models. They start to learn with it, and are saved when it ends."""
    service = Service(models, limits)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        for model in models:
            model.start()
        log.info("ready")
        yield
        for model in models:
            await run_in_threadpool(model.stop)

    app = FastAPI(
        title="manyclass", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None, responses=ERRORS
    )
    app.state.service = service

    @app.exception_handler(Problem)
    async def problem(request: Request, error: Problem) -> Response:
        return reply({"error": error.message}, error.status, error.headers)

    @app.exception_handler(HTTPException)
    async def not_found(request: Request, error: HTTPException) -> Response:
        return reply({"error": str(error.detail)}, error.status_code, error.headers)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        return reply({"error": first_error(error)}, 422)

    look = explore.Explorer()
    direct = _plain_routes(app, service, look)
    _admin_routes(app, service)
    _page_routes(app)
    app.include_router(explore.router(service, look))
    app.include_router(open_inference.router(service))
    app.include_router(annif.router(service))
    gate = Gate(app, limits, keys, hosts, service.metrics, access_log)
    gate.direct = direct
    return gate


def _plain_routes(app: FastAPI, service: Service, look: explore.Explorer) -> dict[str, Any]:
    """Add the endpoints; the result are those that need no routing."""

    async def predict(body: bytes) -> bytes:
        ask = parse(PredictIn, body)
        if ask.rows is not None and (ask.text is not None or ask.features is not None):
            raise Problem(422, "pass either rows, or text, or features.")
        rows = checked(lambda: of_each([ask] if ask.rows is None else ask.rows, RowIn.row))
        if not rows:
            raise Problem(422, "rows is empty.")
        predictions = await service.predict(ask.model, ask.version, rows, ask.k)
        found = [as_json(one) for one in predictions]
        if ask.path or ask.words or ask.explanation:
            await run_in_threadpool(look.add_details, service, ask, rows, found)
        about = {"model": service.model(ask.model).name, "version": predictions[0].version}
        return as_bytes({**about, **found[0]} if ask.rows is None else {**about, "rows": found})

    async def learn(body: bytes) -> bytes:
        ask = parse(LearnIn, body)
        alone = ask.text is ask.features is ask.label is ask.labels is None
        if ask.rows is not None and not alone:
            raise Problem(422, "pass either rows, or a single row.")
        rows = checked(lambda: of_each([ask] if ask.rows is None else ask.rows, LabelledIn.pair))
        if not rows:
            raise Problem(422, "rows is empty.")
        stored = await service.learn(ask.model, rows, ask.id, ask.wait)
        return as_bytes({"seq": stored.seq, "duplicate": stored.duplicate, "model": service.model(ask.model).name})

    @app.post("/predict", responses={200: {"model": PredictOut}}, openapi_extra=described(PredictIn))
    async def predict_route(request: Request) -> Response:
        """Predict the best labels of a row, or of several."""
        return Response(await predict(await request.body()), media_type="application/json")

    @app.post("/learn", responses={200: {"model": LearnOut}}, openapi_extra=described(LearnIn))
    async def learn_route(request: Request) -> Response:
        """Learn a row, or several, in their order. The response means that they are on disk and will not be lost."""
        return Response(await learn(await request.body()), media_type="application/json")

    @app.get("/models", response_model=list[ModelOut])
    async def list_models() -> Response:
        """All models."""
        return reply([_described(model) for model in service.models.values()])

    @app.get("/health", responses={503: {"model": Error}})
    async def health() -> Response:
        """Whether the service predicts (otherwise there is no response) and learns (otherwise 503), model by model."""
        found = {name: numbers_of(model) for name, model in service.models.items()}
        broken = {name: numbers["error"] for name, numbers in found.items() if numbers["error"]}
        if broken:
            return reply({"error": "; ".join(f"{name}: {why}" for name, why in broken.items()), "models": found}, 503)
        return reply({"models": found})

    @app.get("/stats")
    async def stats(model: Annotated[str | None, Query(max_length=200)] = None) -> Response:
        """The numbers that the page shows."""
        return reply(service.metrics.summary(service.model(model)))

    @app.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
    async def metrics() -> Response:
        """Metrics for Prometheus."""
        return Response(service.metrics.text(), media_type="text/plain; version=0.0.4")

    return {"/predict": predict, "/learn": learn}


def _described(model: ServedModel) -> dict[str, Any]:
    with model.published() as copy:
        return {
            "model": model.name,
            "version": model.version,
            "versions": model.versions,
            "classes": len(copy.estimator._index),
            "features": copy.estimator.n_features_in_,
            "algorithm": algorithm_of(copy.estimator),
            "text": len(copy.trained.reading.text) == 1 and copy.trained.reading.columns == copy.trained.reading.text,
            "labels": "several" if copy.labels.several else "one",
            "learns": model.learns,
            "learned": model.n_learned,
            "backlog": model.backlog,
            "error": model.error or None,
        }


def _admin_routes(app: FastAPI, service: Service) -> None:
    async def done(future: Any) -> Any:
        try:
            return await within(future, _RELOAD_SECONDS, "the request will be carried out")
        except CannotLearn as error:
            raise Problem(503, str(error)) from None
        except (OSError, ValueError, sqlite3.Error) as error:
            full = isinstance(error, sqlite3.Error) or getattr(error, "errno", None) == errno.ENOSPC
            where = "the model file: " if isinstance(error, FileNotFoundError) else ""
            raise Problem(507 if full else 409, where + str(getattr(error, "strerror", None) or error)) from None

    @app.post("/admin/models/{name}/reload")
    async def reload(name: str) -> Response:
        """Read the model file again, as the next version. Predictions go on all the time."""
        return reply({"model": name, "version": await done(service.model(name).reload())})

    @app.post("/admin/models/{name}/versions/{version}/restore")
    async def restore(name: str, version: int) -> Response:
        """Make an older version the next one."""
        model = service.model(name)
        if version not in model.versions[:-1]:
            older = ", ".join(map(str, model.versions[:-1])) or "none"
            raise Problem(404, f"there is no older version {version} of {name!r}; older versions: {older}.")
        return reply({"model": name, "version": await done(model.restore(version))})

    @app.post("/admin/models/{name}/checkpoint")
    async def checkpoint(name: str) -> Response:
        """Save the model and truncate the journal."""
        model = service.model(name)
        await done(model.save_now())
        return reply({"model": name, "version": model.version, "applied": model.applied})


def _page_routes(app: FastAPI) -> None:
    folder = files(__package__) / "page"
    pages = {
        name.name: (name.read_bytes(), _TYPES["." + name.name.rpartition(".")[2]])
        for name in folder.iterdir()
        if "." + name.name.rpartition(".")[2] in _TYPES
    }

    @app.get("/", include_in_schema=False)
    async def index() -> Response:
        return Response(*_page(pages["index.html"]))

    @app.get("/favicon.ico", include_in_schema=False)
    async def icon() -> Response:
        return Response(status_code=204)

    @app.get("/page/{name}", include_in_schema=False)
    async def page(name: str) -> Response:
        if name not in pages:
            raise Problem(404, "there is no such file.")
        return Response(*_page(pages[name]))


def _page(found: tuple[bytes, str]) -> tuple[bytes, int, dict[str, str], str]:
    content, kind = found
    return content, 200, {"Cache-Control": "no-cache"}, f"{kind}; charset=utf-8"
