"""The Open Inference Protocol, version 2 (KServe, Triton, MLServer), with its extension for binary tensors."""

import json
import math
from typing import Any, Literal

import numpy as np
from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool

from .. import __version__
from .explore import MOST_ROWS
from .gate import Problem
from .model import Copy, Prediction
from .service import Service, described, parse, reply

_TYPES = {"FP32": "<f4", "FP64": "<f8", "INT32": "<i4", "INT64": "<i8"}
_OUTPUTS = ("labels", "scores", "probabilities", "path")
_LENGTH = "inference-header-content-length"
_DEFAULT_K = 5


class Tensor(BaseModel):
    """An input."""

    name: str
    shape: list[int] = Field(min_length=1, max_length=2)
    datatype: Literal["BYTES", "FP32", "FP64", "INT32", "INT64"]
    parameters: dict[str, Any] = {}
    data: list[Any] | None = None


class Wanted(BaseModel):
    """An output that is asked for."""

    name: str
    parameters: dict[str, Any] = {}


class InferIn(BaseModel):
    """A request for inference."""

    id: str | None = None
    parameters: dict[str, Any] = {}
    inputs: list[Tensor] = Field(min_length=1, max_length=1000)
    outputs: list[Wanted] = []


def router(service: Service) -> APIRouter:
    """The endpoints."""
    out = APIRouter(prefix="/v2")

    @out.get("")
    async def server() -> Response:
        """Name and version of the service."""
        return reply({"name": "manyclass", "version": __version__, "extensions": ["binary_tensor_data"]})

    @out.get("/health/live")
    async def live() -> Response:
        """The process runs."""
        return reply({"live": True})

    @out.get("/health/ready")
    async def ready() -> Response:
        """All models can predict: each one has predicted a row before the service began to respond."""
        return reply({"ready": True})

    async def metadata(name: str, version: str | None = None) -> Response:
        """Inputs and outputs of a model."""
        with service.published(name, version) as copy:
            return reply(_metadata(name, copy, service.model(name).versions))

    async def model_ready(name: str, version: str | None = None) -> Response:
        """A model can predict."""
        with service.published(name, version):
            return reply({"name": name, "ready": True})

    async def infer(name: str, request: Request, version: str | None = None) -> Response:
        """Predict rows: BYTES are texts, numbers are features, `indices` and `values` are sparse features.

        A model that was trained on several columns takes a tensor for each column.
        """
        return await _infer(service, name, version, request)

    for path in ("/models/{name}", "/models/{name}/versions/{version}"):
        out.get(path)(metadata)
        out.get(f"{path}/ready")(model_ready)
        out.post(f"{path}/infer", openapi_extra=described(InferIn))(infer)
    return out


def _metadata(name: str, copy: Copy, versions: list[int]) -> dict[str, Any]:
    width = copy.estimator.n_features_in_
    inputs = [{"name": "features", "datatype": "FP32", "shape": [-1, width]}]
    if copy.features.table:
        numeric, columns = copy.trained.reading.numeric, _columns(copy) or ["text"]
        inputs = [{"name": one, "datatype": "FP64" if one in numeric else "BYTES", "shape": [-1]} for one in columns]
    kinds = {"labels": "BYTES", "scores": "FP32", "probabilities": "FP32", "path": "BYTES"}
    outputs = [{"name": one, "datatype": kind, "shape": [-1, -1]} for one, kind in kinds.items()]
    numbers = [str(version) for version in versions]
    return {"name": name, "versions": numbers, "platform": "manyclass", "inputs": inputs, "outputs": outputs}


async def _infer(service: Service, name: str, version: str | None, request: Request) -> Response:
    body, tail = _split(await request.body(), request.headers.get(_LENGTH))
    ask = parse(InferIn, body)
    arrays = []
    for tensor in ask.inputs:
        values, tail = _values(tensor, tail)
        arrays.append(values)
    with service.published(name, version) as copy:
        columns = _columns(copy)
    rows = _rows(ask.inputs, arrays, columns)
    k = ask.parameters.get("k", _DEFAULT_K)
    if type(k) is not int:
        raise Problem(422, "parameters.k must be an integer.")
    wanted = {one.name: one for one in ask.outputs} or {one: Wanted(name=one) for one in _OUTPUTS[:3]}
    if unknown := [one for one in wanted if one not in _OUTPUTS]:
        raise Problem(422, f"there is no output {unknown[0][:100]!r}: {', '.join(_OUTPUTS)}.")
    if "path" in wanted and len(rows) > MOST_ROWS:
        raise Problem(413, f"the output path: at most {MOST_ROWS} rows per request.")
    found = await service.predict(name, version, rows, k)
    paths = None
    if "path" in wanted:
        paths = await run_in_threadpool(_paths, service, name, version, rows)
    head: dict[str, Any] = {"model_name": name, "model_version": str(found[0].version), "outputs": []}
    if ask.id is not None:
        head["id"] = ask.id
    binary = b""
    for one in wanted.values():
        output, raw = _output(one, found, paths, ask.parameters.get("binary_data_output") is True)
        head["outputs"].append(output)
        binary += raw
    if not binary:
        return reply(head)
    text = json.dumps(head).encode()
    return Response(text + binary, headers={_LENGTH: str(len(text))}, media_type="application/octet-stream")


def _paths(service: Service, name: str, version: str | None, rows: list[Any]) -> list[str]:
    with service.published(name, version) as copy:
        return [json.dumps(copy.path(row)) for row in rows]


def _split(body: bytes, length: str | None) -> tuple[bytes, bytes]:
    """The JSON of a request and the bytes of its tensors."""
    if length is None:
        return body, b""
    if not length.isdecimal() or len(length) > 10 or int(length) > len(body):
        raise Problem(400, f"the header {_LENGTH} is not a length within the body.")
    return body[: int(length)], body[int(length) :]


def _values(tensor: Tensor, tail: bytes) -> tuple[list, bytes]:
    """The values of a tensor in one list, and the bytes of the tensors after it."""
    size, n_bytes = math.prod(tensor.shape), tensor.parameters.get("binary_data_size")
    if any(length < 0 for length in tensor.shape) or size > 1 << 24:
        raise Problem(422, f"{tensor.name}: the shape is not possible.")
    if n_bytes is None:
        values = _flat(tensor.data or [])
    elif type(n_bytes) is not int or not 0 <= n_bytes <= len(tail):
        raise Problem(400, f"{tensor.name}: binary_data_size does not fit the body.")
    else:
        raw, tail = tail[:n_bytes], tail[n_bytes:]
        values = _texts(raw) if tensor.datatype == "BYTES" else _numbers(tensor, raw)
    if len(values) != size:
        raise Problem(422, f"{tensor.name}: the shape has {size} values, the data {len(values)}.")
    if tensor.datatype == "BYTES" and not all(isinstance(value, str) for value in values):
        raise Problem(422, f"{tensor.name}: BYTES must be texts.")
    return values, tail


def _flat(data: list[Any]) -> list[Any]:
    """The values of nested lists."""
    if any(isinstance(one, list) for one in data):
        return [value for one in data for value in (one if isinstance(one, list) else [one])]
    return data


def _texts(raw: bytes) -> list[str]:
    """Texts, each after its length."""
    out, at = [], 0
    while at < len(raw):
        end = at + 4 + int.from_bytes(raw[at : at + 4], "little")
        if end > len(raw):
            raise Problem(400, "the lengths of the texts do not fit the body.")
        try:
            out.append(raw[at + 4 : end].decode())
        except UnicodeDecodeError:
            raise Problem(422, "a text is not in UTF-8.") from None
        at = end
    return out


def _numbers(tensor: Tensor, raw: bytes) -> list:
    kind = np.dtype(_TYPES[tensor.datatype])
    if len(raw) % kind.itemsize:
        raise Problem(400, f"{tensor.name}: the data are not whole numbers of {kind.itemsize} bytes.")
    return np.frombuffer(raw, kind).tolist()


def _columns(copy: Copy) -> list[str]:
    """The columns of a model that was trained on several; empty for other models."""
    columns = list(copy.trained.reading.columns) if copy.features.table else []
    return columns if len(columns) > 1 or not copy.trained.reading.text else []


def _rows(inputs: list[Tensor], arrays: list[list], columns: list[str]) -> list[Any]:
    """The rows of one tensor, of two that hold indices and values, or of a tensor for each column."""
    names = {tensor.name: place for place, tensor in enumerate(inputs)}
    if columns:
        if len(names) < len(inputs) or len(set(map(len, arrays))) > 1:
            raise Problem(422, "pass a tensor for each column, all with the same number of values.")
        if not arrays[0]:
            raise Problem(422, "there are no values.")
        return [dict(zip(names, cells, strict=True)) for cells in zip(*arrays, strict=True)]
    if len(inputs) > 1:
        if set(names) != {"indices", "values"} or len(inputs) > 2 or inputs[0].shape != inputs[1].shape:
            raise Problem(422, "two tensors must be indices and values, of the same shape.")
        width = inputs[0].shape[-1]
        pairs = zip(_cut(arrays[names["indices"]], width), _cut(arrays[names["values"]], width), strict=True)
        rows = [{"indices": indices, "values": values} for indices, values in pairs]
        return [_unpadded(row) for row in rows]
    if inputs[0].datatype == "BYTES":
        if not arrays[0]:
            raise Problem(422, "there are no values.")
        return arrays[0]
    return _cut(arrays[0], inputs[0].shape[-1])


def _cut(values: list, width: int) -> list[list]:
    if not width or not values:
        raise Problem(422, "there are no values.")
    return [values[begin : begin + width] for begin in range(0, len(values), width)]


def _unpadded(row: dict[str, list]) -> dict[str, list]:
    """Rows of a tensor are equally long: an index of -1 is no feature."""
    kept = [place for place, index in enumerate(row["indices"]) if index != -1]
    return {name: [values[place] for place in kept] for name, values in row.items()}


def _output(
    wanted: Wanted, found: list[Prediction], paths: list[str] | None, binary: bool
) -> tuple[dict[str, Any], bytes]:
    """A tensor of the response and its bytes. Rows with fewer labels end with empty texts and zeros."""
    if wanted.name == "path":
        values: list[list] = [[path] for path in paths or []]
    else:
        values = [getattr(one, wanted.name) for one in found]
        width, empty = max(map(len, values), default=0), "" if wanted.name == "labels" else 0.0
        values = [[*row, *[empty] * (width - len(row))] for row in values]
    shape = [len(values), len(values[0]) if values else 0]
    flat = [value for row in values for value in row]
    text = wanted.name in ("labels", "path")
    flat = [str(value) for value in flat] if text else flat
    tensor: dict[str, Any] = {"name": wanted.name, "datatype": "BYTES" if text else "FP32", "shape": shape}
    if not wanted.parameters.get("binary_data", binary):
        return {**tensor, "data": flat}, b""
    raw = _bytes(flat) if text else np.array(flat, "<f4").tobytes()
    return {**tensor, "parameters": {"binary_data_size": len(raw)}}, raw


def _bytes(texts: list[str]) -> bytes:
    encoded = [text.encode() for text in texts]
    return b"".join(len(one).to_bytes(4, "little") + one for one in encoded)
