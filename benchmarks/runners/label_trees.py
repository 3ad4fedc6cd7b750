"""Peers made for many labels, which take sparse matrices: omikuji, PECOS and napkinXC."""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from .task import Task, Trained, best_sparse, pad, spans


def omikuji(task: Task) -> Trained:
    """Omikuji: trees of linear classifiers over clustered labels (Parabel, Bonsai).

    Options: the fields of its HyperParam, `beam_size` (10) and `max_sparse_density` (0.1, of its `test` command: above
    it, weights are made dense before predicting). The library is called below its Python wrapper, which would load the
    data file as part of training, and which copies a row value by value. It predicts one row per call; many rows are
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

    def predict_rows(X: Any, rows: range, top: np.ndarray) -> None:
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

    def predict_one(X: Any) -> np.ndarray:
        top = np.full((X.shape[0], task.k), -1)
        predict_rows(X, range(X.shape[0]), top)
        return top

    def predict(X: Any) -> np.ndarray:
        top = np.full((X.shape[0], task.k), -1)
        shares = [range(first, X.shape[0], task.threads) for first in range(task.threads)]
        with ThreadPoolExecutor(task.threads) as executor:
            list(executor.map(lambda rows: predict_rows(X, rows, top), shares))
        return top

    return Trained(version("omikuji"), train_seconds, predict, predict_one, lambda top: top)


def pecos(task: Task) -> Trained:
    """PECOS: XR-Linear on labels clustered by the mean of their rows (PIFA) with hierarchical k-means.

    Options: those of its indexer and of `XLinearModel.train`, and `beam_size` (10). Training time covers the label
    features, the clustering and the classifiers. Predictions come from the model loaded again for prediction only, its
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

    return Trained(
        version("libpecos"),
        train_seconds,
        lambda X: model.predict(X, threads=task.threads, **asked),
        lambda X: model.predict(X, threads=1, **asked),
        lambda scores: best_sparse(scores, task.k),
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

    def predict_one(X: Any) -> Any:
        if model.get_params()["threads"] != 1:
            model.set_params(threads=1)
        return model.predict(X, top_k=task.k)

    return Trained(
        version("napkinxc"),
        train_seconds,
        lambda X: model.predict(X, top_k=task.k),
        predict_one,
        lambda predictions: pad(predictions, task.k),
    )


def write_xmc_text(path: Path, X: Any, Y: Any) -> None:
    """Write rows in the extreme classification repository's text, which omikuji reads.

    The first line holds the numbers of rows, features and labels; then each row has a line `label,label feature:value
    feature:value ...`, all counted from 0. A row without labels begins with a space.
    """
    with open(path, "w", encoding="ascii", newline="\n") as file:
        file.write(f"{X.shape[0]} {X.shape[1]} {Y.shape[1]}\n")
        for (start, end), (first, last) in zip(spans(X), spans(Y), strict=True):
            labels = ",".join(map(str, Y.indices[first:last].tolist()))
            words = zip(X.indices[start:end].tolist(), X.data[start:end].tolist(), strict=True)
            file.write(f"{labels}{''.join([f' {feature}:{value:.9g}' for feature, value in words])}\n")
