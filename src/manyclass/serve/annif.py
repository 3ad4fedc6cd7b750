"""The REST interface of Annif 1.x, so that its `http` backend and its clients work with this service unchanged."""

from datetime import UTC, datetime
from typing import Annotated, Any
from urllib.parse import parse_qs

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field, RootModel, ValidationError

from .. import __version__
from .gate import Problem
from .model import Prediction, ServedModel
from .service import Service, Several, described, first_error, parse, reply

_DEFAULT_LIMIT, _MOST_DOCUMENTS = 10, 32
_FORM = "application/x-www-form-urlencoded"


class SuggestIn(BaseModel):
    """A document. Further fields, such as metadata, are ignored."""

    text: str
    limit: int = Field(_DEFAULT_LIMIT, ge=0)
    threshold: float = Field(0.0, ge=0, le=1)


class Document(BaseModel):
    """A document of a batch."""

    text: str
    document_id: str | None = None


class BatchIn(BaseModel):
    """Several documents."""

    documents: Several[Document] = Field(max_length=_MOST_DOCUMENTS)


class Subject(BaseModel):
    """A label of a document: its URI, which is the label of the model."""

    uri: str
    label: str | None = None


class Indexed(BaseModel):
    """A document with its subjects."""

    text: str
    subjects: Several[Subject]


class Documents(RootModel[Annotated[Several[Indexed], Field(max_length=1000)]]):
    """Documents to learn."""


def project(model: ServedModel) -> dict[str, Any]:
    """A model as Annif describes a project."""
    changed = datetime.fromtimestamp(model.modified, UTC)
    return {
        "project_id": model.name,
        "name": model.name,
        "language": "en",
        "backend": {"backend_id": "manyclass"},
        "is_trained": True,
        "modification_time": changed.isoformat(timespec="seconds").replace("+00:00", "Z"),
    }


def _results(found: Prediction, limit: int, threshold: float) -> dict[str, Any]:
    pairs = list(zip(found.labels, found.probabilities, strict=True))[:limit]
    hits = [
        {"uri": str(label), "label": str(label), "notation": None, "score": chance}
        for label, chance in pairs
        if chance >= threshold and chance > 0
    ]
    return {"results": hits}


def router(service: Service) -> APIRouter:
    """The endpoints."""
    out = APIRouter(prefix="/v1")

    @out.get("/")
    async def info() -> Response:
        """Title and version of the service."""
        return reply({"title": "manyclass, with the REST API of Annif", "version": __version__})

    @out.get("/projects")
    async def projects() -> Response:
        """All models."""
        return reply({"projects": [project(model) for model in service.models.values()]})

    @out.get("/projects/{name}")
    async def show(name: str) -> Response:
        """A model."""
        return reply(project(service.model(name)))

    @out.post("/projects/{name}/suggest", openapi_extra=described(SuggestIn.model_json_schema(), _FORM))
    async def suggest(name: str, request: Request) -> Response:
        """Subjects of a document, which is a form."""
        body = await request.body()
        try:
            form = parse_qs(body.decode(), keep_blank_values=True, max_num_fields=100)
            ask = SuggestIn.model_validate({field: values[-1] for field, values in form.items()})
        except ValidationError as error:
            raise Problem(400, first_error(error)) from None
        except ValueError:
            raise Problem(400, "the body is not a form in UTF-8.") from None
        limit = min(ask.limit, service.limits.k)
        found = await service.predict(name, None, [ask.text], max(1, limit))
        return reply(_results(found[0], limit, ask.threshold))

    @out.post("/projects/{name}/suggest-batch", openapi_extra=described(BatchIn))
    async def suggest_batch(
        name: str,
        request: Request,
        limit: Annotated[int, Query(ge=0, lt=2**31)] = _DEFAULT_LIMIT,
        threshold: Annotated[float, Query(ge=0, le=1)] = 0.0,
    ) -> Response:
        """Subjects of up to 32 documents."""
        service.model(name)
        documents = parse(BatchIn, await request.body()).documents
        most = min(limit, service.limits.k)
        found = await service.predict(name, None, [one.text for one in documents], max(1, most)) if documents else []
        results = [_results(one, most, threshold) for one in found]
        pairs = zip(results, documents, strict=True)
        return reply([{**result, "document_id": document.document_id} for result, document in pairs])

    @out.post("/projects/{name}/learn", status_code=204, response_class=Response, openapi_extra=described(Documents))
    async def learn(name: str, request: Request) -> Response:
        """Learn documents with their subjects. The URI of a subject is its label."""
        model, body = service.model(name), await request.body()
        documents = parse(Documents, body).root
        with model.published() as copy:
            several = copy.labels.several
        rows = [(one.text, [subject.uri for subject in one.subjects]) for one in documents]
        if not several:  # a document with several subjects is a row for each
            rows = [(text, [uri]) for text, uris in rows for uri in uris]
        if rows:
            await service.learn(name, rows)
        return Response(status_code=204)

    return out
