"""Train and ask one rival inside its own environment: ``python peer_runner.py FOLDER``; see `manyclass.bench.peers`.

This file runs under the rival's Python, without manyclass: it imports numpy, scipy and the rival only. FOLDER holds
`request.json` (peer, options, k, threads) and the sparse matrices `X_train.npz`, `Y_train.npz` and `X_test.npz`. It
gets the rival's model in `model`, its answers in `answers.npz` and the measured numbers in `answers.json`.
"""

import json
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

ONE_BY_ONE = 200  # rows asked one at a time
PASSES, ENOUGH_SECONDS = 3, 10.0  # passes over the test rows; none is begun after so many seconds


class Task(NamedTuple):
    """What to learn and how."""

    X: Any  # CSR, float32, rows x features, indices in order
    Y: Any  # CSR, float32, rows x labels, ones
    folder: Path  # for the model and for files the rival reads
    options: dict[str, Any]
    threads: int
    k: int


class Trained(NamedTuple):
    """A rival that has learned."""

    version: str
    train_seconds: float
    answer: Callable[[Any], Any]  # rows to answers in the rival's own form, with all threads
    answer_one: Callable[[Any], Any]  # the same for one row, with one thread
    read: Callable[[Any], np.ndarray]  # the rival's form to top labels


def main(folder: Path) -> None:
    """Do what `request.json` in the folder asks for."""
    request = json.loads((folder / "request.json").read_text())
    X_train, Y_train, X_test = (_load(folder / f"{name}.npz") for name in ("X_train", "Y_train", "X_test"))
    task = Task(X_train, Y_train, folder, request["options"], request["threads"], request["k"])
    trained = {"napkinxc": napkinxc, "omikuji": omikuji, "pecos": pecos}[request["peer"]](task)

    seconds: list[float] = []
    while len(seconds) < PASSES and sum(seconds) < ENOUGH_SECONDS:
        start = time.perf_counter()
        answers = trained.answer(X_test)
        seconds.append(time.perf_counter() - start)
    places = np.unique(np.linspace(0, X_test.shape[0] - 1, ONE_BY_ONE).astype(int))
    rows = [_in_order(X_test[place]) for place in places.tolist()]
    trained.answer_one(rows[0])  # whatever is set up on first use
    one_by_one = []
    for row in rows:
        start = time.perf_counter()
        trained.answer_one(row)
        one_by_one.append(time.perf_counter() - start)

    np.savez(folder / "answers.npz", top_labels=trained.read(answers))
    files = [path for path in (folder / "model").rglob("*") if path.is_file()]
    numbers = {
        "version": trained.version,
        "train_seconds": trained.train_seconds,
        "predict_seconds": min(seconds),
        "predict_one_seconds": float(np.median(one_by_one)),
        "model_bytes": sum(path.stat().st_size for path in files),
    }
    (folder / "answers.json").write_text(json.dumps(numbers))


def omikuji(task: Task) -> Trained:
    """Omikuji: trees of linear classifiers over clustered labels (Parabel, Bonsai).

    Options: the fields of its HyperParam, `beam_size` (10) and `max_sparse_density` (0.1, of its `test` command: above
    it, weights are made dense before answering). The library is called below its Python wrapper, which would load the
    data file as part of training, and which copies a row value by value. It answers one row a call; many rows are
    shared between threads of Python, which the library lets run side by side.
    """
    import omikuji
    from omikuji._libomikuji import ffi, lib

    options = dict(task.options)
    beam_size, density = options.pop("beam_size", 10), options.pop("max_sparse_density", 0.1)
    hyper = omikuji.Model.default_hyper_param()
    for name, value in options.items():
        setattr(hyper, name, value)
    pool = ffi.gc(lib.init_omikuji_thread_pool(task.threads), lib.free_omikuji_thread_pool)
    write_xmc_text(task.folder / "train.txt", task.X, task.Y)
    pointer = lib.load_omikuji_data_set(str(task.folder / "train.txt").encode(), pool)
    if pointer == ffi.NULL:
        raise RuntimeError("omikuji could not load its data file")
    data = ffi.gc(pointer, lib.free_omikuji_data_set)
    start = time.perf_counter()
    pointer = lib.train_omikuji_model(data, hyper, pool)
    train_seconds = time.perf_counter() - start
    if pointer == ffi.NULL:
        raise RuntimeError("omikuji could not train; its options are wrong")
    model = omikuji.Model(pointer)
    model.save(str(task.folder / "model"))
    model.densify_weights(density, task.threads)

    def answer_rows(X: Any, rows: range, top: np.ndarray) -> None:
        indices, values = X.indices.astype(np.uint32, copy=False), X.data
        labels, scores = np.empty(task.k, np.uint32), np.empty(task.k, np.float32)
        to_labels = ffi.from_buffer("uint32_t[]", labels, require_writable=True)
        to_scores = ffi.from_buffer("float[]", scores, require_writable=True)
        for row in rows:
            span = slice(X.indptr[row], X.indptr[row + 1])
            features = ffi.from_buffer("uint32_t[]", indices[span]), ffi.from_buffer("float[]", values[span])
            n = lib.omikuji_predict(
                model._model_ptr, beam_size, span.stop - span.start, *features, task.k, to_labels, to_scores, ffi.NULL
            )
            top[row, :n] = labels[:n]

    def answer_one(X: Any) -> np.ndarray:
        top = np.full((X.shape[0], task.k), -1)
        answer_rows(X, range(X.shape[0]), top)
        return top

    def answer(X: Any) -> np.ndarray:
        top = np.full((X.shape[0], task.k), -1)
        shares = [range(first, X.shape[0], task.threads) for first in range(task.threads)]
        with ThreadPoolExecutor(task.threads) as executor:
            list(executor.map(lambda rows: answer_rows(X, rows, top), shares))
        return top

    return Trained(version("omikuji"), train_seconds, answer, answer_one, lambda top: top)


def pecos(task: Task) -> Trained:
    """PECOS: XR-Linear on labels clustered by the mean of their rows (PIFA) with hierarchical k-means.

    Options: those of its indexer and of `XLinearModel.train`, and `beam_size` (10). Training time covers the label
    features, the clustering and the classifiers. Answers come from the model loaded again for prediction only, its
    fastest form.
    """
    from pecos.xmc.base import HierarchicalKMeans, HierarchicalMLModel, Indexer, LabelEmbeddingFactory, MLModel
    from pecos.xmc.xlinear.model import XLinearModel

    options = dict(task.options)
    asked = {"beam_size": options.pop("beam_size", 10), "only_topk": task.k}
    groups = (HierarchicalKMeans, HierarchicalMLModel, MLModel, XLinearModel)
    known = {field.name for group in groups for field in fields(group.TrainParams)} | {"negative_sampling_scheme"}
    if unknown := sorted(set(options) - known):
        raise ValueError(f"PECOS has no options {unknown}; it has {sorted(known)}")
    columns = task.Y.tocsc()
    start = time.perf_counter()
    label_features = LabelEmbeddingFactory.create(task.Y, task.X, method="pifa", threads=task.threads)
    chain = Indexer.gen(label_features, indexer_type="hierarchicalkmeans", threads=task.threads, **options)
    model = XLinearModel.train(task.X, columns, C=chain, threads=task.threads, **options)
    train_seconds = time.perf_counter() - start
    model.save(str(task.folder / "model"))
    model = XLinearModel.load(str(task.folder / "model"), is_predict_only=True)

    def read(scores: Any) -> np.ndarray:
        scores = scores.tocsr()
        best = (scores.indices[a:b][np.argsort(-scores.data[a:b], kind="stable")] for a, b in _spans(scores))
        return pad(best, task.k)

    return Trained(
        version("libpecos"),
        train_seconds,
        lambda X: model.predict(X, threads=task.threads, **asked),
        lambda X: model.predict(X, threads=1, **asked),
        read,
    )


def napkinxc(task: Task) -> Trained:
    """napkinXC: a probabilistic label tree.

    Options: those of its class PLT. Training time covers `fit`, which also writes the model.
    """
    from napkinxc.models import PLT

    model = PLT(str(task.folder / "model"), threads=task.threads, **task.options)
    start = time.perf_counter()
    model.fit(task.X, task.Y)
    train_seconds = time.perf_counter() - start
    model.load()

    def answer_one(X: Any) -> Any:
        if model.get_params()["threads"] != 1:
            model.set_params(threads=1)
        return model.predict(X, top_k=task.k)

    return Trained(
        version("napkinxc"),
        train_seconds,
        lambda X: model.predict(X, top_k=task.k),
        answer_one,
        lambda answers: pad(answers, task.k),
    )


def write_xmc_text(path: Path, X: Any, Y: Any) -> None:
    """Write rows in the extreme classification repository's text, which omikuji reads.

    The first line holds the numbers of rows, features and labels; then each row has a line `label,label feature:value
    feature:value ...`, all counted from 0. A row without labels begins with a space.
    """
    with open(path, "w", encoding="ascii", newline="\n") as file:
        file.write(f"{X.shape[0]} {X.shape[1]} {Y.shape[1]}\n")
        for (start, end), (first, last) in zip(_spans(X), _spans(Y), strict=True):
            labels = ",".join(map(str, Y.indices[first:last].tolist()))
            words = zip(X.indices[start:end].tolist(), X.data[start:end].tolist(), strict=True)
            file.write(f"{labels}{''.join([f' {feature}:{value:.9g}' for feature, value in words])}\n")


def pad(answers: Any, k: int) -> np.ndarray:
    """Turn rows of labels, best first, into an array of k columns, with -1 where a row has fewer."""
    top = [[*list(row)[:k], *[-1] * (k - len(row))] for row in answers]
    return np.array(top, dtype=np.int64).reshape(-1, k)


def _load(path: Path) -> Any:
    return _in_order(sp.csr_matrix(sp.load_npz(path), dtype=np.float32))


def _in_order(X: Any) -> Any:
    X.sum_duplicates()
    X.eliminate_zeros()
    return X


def _spans(X: Any) -> list[tuple[int, int]]:
    """Where each row of a CSR matrix begins and ends."""
    return list(pairwise(X.indptr.tolist()))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
