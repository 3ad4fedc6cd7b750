"""One cell of the race, in a process of its own: ``python -m benchmarks.cell FOLDER``; see `benchmarks.race_run`.

FOLDER holds `request.json` and gets `result.json`. The rows are in the folder that the request names.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import manyclass
from benchmarks.peers import run_peer
from benchmarks.runners import measure
from benchmarks.sets import Rows
from manyclass.core.state import flatten
from manyclass.metrics import precision_at_k, propensities, psp_at_k, recall_by_frequency

PARTS = ("X_train", "y_train", "X_test", "y_test")
TEXTS = ("text_train.txt", "text_test.txt")
K = 5
FEW = 2000  # rows to compile on


def write_rows(folder: Path, rows: Rows) -> None:
    """Put the rows of a set where the cells' processes find them."""
    folder.mkdir(parents=True)
    for part, matrix in zip(PARTS, rows, strict=True):
        if sp.issparse(matrix):
            sp.save_npz(folder / f"{part}.npz", matrix, compressed=False)
        else:
            np.save(folder / f"{part}.npy", matrix)


def read_rows(folder: Path) -> Rows:
    """Read what `write_rows` wrote."""
    found = []
    for part in PARTS:
        path = folder / f"{part}.npz"
        found.append(sp.load_npz(path) if path.exists() else np.load(folder / f"{part}.npy", allow_pickle=False))
    return found[0], found[1], found[2], found[3]


def write_texts(folder: Path, texts: tuple[np.ndarray, np.ndarray]) -> None:
    """Put the texts of the rows beside them."""
    for part, lines in zip(TEXTS, texts, strict=True):
        (folder / part).write_text("\n".join(lines), encoding="utf-8")


def read_texts(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Read what `write_texts` wrote."""
    found = [(folder / part).read_text(encoding="utf-8").split("\n") for part in TEXTS]
    return np.array(found[0], object), np.array(found[1], object)


def main(folder: Path) -> None:
    """Do what `request.json` asks for."""
    request = json.loads((folder / "request.json").read_text()) | {"folder": str(folder)}
    _limit_memory(request["memory_bytes"])
    X, y, X_test, y_test = read_rows(Path(request["rows"]))
    if request["text"]:
        X, X_test = read_texts(Path(request["rows"]))
    if request["n_test"] is not None and request["n_test"] < X_test.shape[0]:
        asked = np.linspace(0, X_test.shape[0] - 1, request["n_test"]).astype(int)  # spread: tests come sorted too
        X_test, y_test = X_test[asked], y_test[asked]
    run = _run_ours if request["estimator"] else _run_peer
    result = run(request, (X, y, X_test, y_test))
    result["n_test"] = X_test.shape[0]
    (folder / "result.json").write_text(json.dumps(result))


def _limit_memory(n_bytes: int | None) -> None:
    """A process that asks for more gets an error instead of bringing the machine down; children inherit it."""
    if n_bytes is None or sys.platform != "linux":
        return
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (n_bytes, n_bytes))


def _run_ours(request: dict[str, Any], rows: Rows) -> dict[str, Any]:
    X, y, X_test, y_test = rows
    kind = getattr(manyclass, request["estimator"])

    def new() -> Any:
        return kind(n_jobs=request["threads"], **request["settings"])

    few = min(FEW, X.shape[0])
    new().fit(X[:few], y[:few]).predict_topk(X_test[:few], 1)  # compiles

    def train() -> tuple[float, Any]:
        model = new()
        start = time.perf_counter()
        model.fit(X, y)
        return time.perf_counter() - start, model

    loaded = measure.held_bytes()
    measure.forget_peak()
    first, model = train()
    k = min(K, len(model.classes_))
    predict_seconds, (top, _) = measure.median_of_passes(lambda: model.predict_topk(X_test, k))
    peak = measure.peak_bytes()
    model.n_jobs = 1
    alone = [X_test[place : place + 1] for place in measure.places(X_test.shape[0])]
    one_seconds = measure.median_one_by_one(lambda row: model.predict_topk(row, k), alone)
    held_seconds = measure.median_one_by_one(model.predictor(k), alone)
    model.n_jobs = request["threads"]
    full, slim = _sizes(model, Path(request["folder"]) / "sizes.model")
    train_seconds, n_trainings = measure.median_of_training(first, lambda: train()[0])
    arrays = flatten(getattr(model, "estimator_", model)._state)
    return {
        "version": manyclass.__version__,
        "precision": {str(j): precision_at_k(y_test, top, j) for j in (1, 3, 5) if j <= k},
        **rare_labels(y, y_test, top),
        "train_seconds": train_seconds,
        "n_trainings": n_trainings,
        "predict_seconds": predict_seconds,
        "predict_one_seconds": one_seconds,
        "predictor_seconds": held_seconds,
        "model_bytes": full,
        "slim_bytes": slim,
        "array_bytes": {name: array.nbytes for name, array in arrays.items()},
        "loaded_bytes": loaded,
        "peak_bytes": peak,
        "note": "",
    }


def rare_labels(y: Any, y_test: Any, top: np.ndarray) -> dict[str, Any]:
    """With several labels per row: PSP@k, and the recall of labels with fewer than 10, 10 to 99, and more rows."""
    if not sp.issparse(y):
        return {}
    weights, places = propensities(y), top.shape[1]
    groups = recall_by_frequency(y_test, top, places, y)
    return {
        "psp": {str(k): psp_at_k(y_test, top, k, weights) for k in (1, 3, 5) if k <= places},
        "recall": [group["recall"] if group["true"] else None for group in groups],
    }


def _sizes(model: Any, path: Path) -> tuple[int, int]:
    """Bytes of the model's file, whole and for predictions only."""
    sizes = []
    for slim in (False, True):
        model.save(path, slim=slim)
        sizes.append(path.stat().st_size)
        path.unlink()
    return sizes[0], sizes[1]


def _run_peer(request: dict[str, Any], rows: Rows) -> dict[str, Any]:
    result = run_peer(
        request["entrant"], *rows, folder="", options=request["settings"], k=K, threads=request["threads"],
        command=request["command"],
    )  # fmt: skip
    return {
        "version": result.version,
        "precision": {str(j): value for j, value in result.precision.items()},
        **rare_labels(rows[1], rows[3], result.top_labels),
        "train_seconds": result.train_seconds,
        "n_trainings": result.n_trainings,
        "predict_seconds": result.predict_seconds,
        "predict_one_seconds": result.predict_one_seconds,
        "predictor_seconds": None,
        "model_bytes": result.model_bytes,
        "slim_bytes": None,
        "loaded_bytes": result.loaded_bytes,
        "peak_bytes": result.peak_bytes,
        "note": result.note,
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]))
