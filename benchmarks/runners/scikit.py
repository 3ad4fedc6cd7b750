"""scikit-learn's classifiers: linear ones, extremely randomised trees, nearest neighbours."""

import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import numpy as np
import scipy.sparse as sp

from .task import Task, Trained, best, best_sparse

DENSE = 0.2  # from this share of values that are not zero, rows are given as dense arrays


def scikit(task: Task) -> Trained:
    """One of scikit-learn's classifiers.

    Options: `learner`, one of sgd, logistic, linear-svc, extra-trees, k-neighbours, neighbours (weighted by nearness),
    and the options of the class. With several labels per row, the linear ones are one-against-rest; the trees learn all
    labels at once; neighbours vote. scikit-learn saves models by pickling only: the size is that of the model's arrays.
    """
    options = dict(task.options)
    learner = options.pop("learner")
    train = neighbours if learner == "neighbours" else classifier
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        trained = train(task, learner, options)
    if any(warning.category.__name__ == "ConvergenceWarning" for warning in told):
        trained = trained._replace(note="; ".join(filter(None, [trained.note, "not converged"])))
    return trained


def classifier(task: Task, learner: str, options: dict[str, Any]) -> Trained:
    """Linear models, trees or neighbours with equal votes."""
    from sklearn.ensemble import ExtraTreesClassifier
    from sklearn.linear_model import LogisticRegression, SGDClassifier
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.svm import LinearSVC

    linear = learner in ("sgd", "logistic", "linear-svc")
    if learner == "sgd":
        model = SGDClassifier(n_jobs=None if task.several else task.threads, **options)
    elif learner == "logistic":
        model = LogisticRegression(solver="liblinear" if task.several else "lbfgs", **options)
    elif learner == "linear-svc":
        model = LinearSVC(**options)
    else:
        kind = ExtraTreesClassifier if learner == "extra-trees" else KNeighborsClassifier
        model = kind(n_jobs=task.threads, **options)
    form, X = form_of(task.X), form_of(task.X)(task.X)
    y: Any = task.Y.indices.copy()
    if task.several:
        if linear:
            model = OneVsRestClassifier(model, n_jobs=task.threads)
        used = np.flatnonzero(np.asarray(task.Y.sum(axis=0)).ravel())
        y = task.Y[:, used].toarray().astype(np.int32)  # in int8, more than 127 labels are mixed up
    start = time.perf_counter()
    model.fit(X, y)
    train_seconds = time.perf_counter() - start
    classes = used if task.several else model.classes_

    def predict(X: Any) -> np.ndarray:
        if linear:
            scores = model.decision_function(X)
        elif task.several:
            scores = np.column_stack([shares[:, -1] for shares in model.predict_proba(X)])
        else:
            scores = model.predict_proba(X)
        return scores

    def predict_one(X: Any) -> np.ndarray:
        if getattr(model, "n_jobs", None) not in (None, 1):
            model.n_jobs = None
        return predict(X)

    def read(scores: Any) -> np.ndarray:
        if scores.ndim == 1:  # two classes
            scores = np.column_stack([-scores, scores])
        top = best(scores, task.k)
        return np.where(top >= 0, np.asarray(classes)[top], -1)

    sizes = {"extra-trees": _forest_bytes, "k-neighbours": lambda model: _matrix_bytes(task.X)}
    size = sizes.get(learner, _linear_bytes)(model)
    # One-against-rest starts a process for each thread.
    note = "memory without that of its workers" if task.several and linear and task.threads > 1 else ""
    return Trained(version("scikit-learn"), train_seconds, predict, predict_one, read, form, size, note=note)


def neighbours(task: Task, learner: str, options: dict[str, Any]) -> Trained:
    """Nearest neighbours by cosine, their labels weighted by nearness."""
    from sklearn.neighbors import NearestNeighbors

    n = min(options.get("n_neighbors", 10), task.X.shape[0])
    model = NearestNeighbors(n_neighbors=n, metric="cosine", algorithm="brute", n_jobs=task.threads)
    form, X = form_of(task.X), form_of(task.X)(task.X)
    start = time.perf_counter()
    model.fit(X)
    train_seconds = time.perf_counter() - start

    def predict(X: Any) -> Any:
        distances, found = model.kneighbors(X)
        votes = sp.csr_matrix(
            (np.maximum(1 - distances, 1e-9).ravel(), found.ravel(), np.arange(0, found.size + 1, n)),
            shape=(X.shape[0], task.X.shape[0]),
        )
        return votes @ task.Y

    def predict_one(X: Any) -> Any:
        model.n_jobs = None
        return predict(X)

    size = _matrix_bytes(task.X)
    read = lambda scores: best_sparse(scores, task.k)  # noqa: E731
    return Trained(version("scikit-learn"), train_seconds, predict, predict_one, read, form, size)


def form_of(X: Any) -> Callable[[Any], Any]:
    """What gives rows to scikit-learn: dense if few of their values are 0."""
    dense = X.nnz > DENSE * X.shape[0] * X.shape[1]
    return (lambda rows: rows.toarray()) if dense else (lambda rows: rows)


def _matrix_bytes(X: Any) -> int:
    return X.data.nbytes + X.indices.nbytes + X.indptr.nbytes


def _linear_bytes(model: Any) -> int:
    parts = getattr(model, "estimators_", [model])
    return sum(part.coef_.nbytes + part.intercept_.nbytes for part in parts if hasattr(part, "coef_"))


def _forest_bytes(model: Any) -> int:
    states = (tree.tree_.__getstate__() for tree in model.estimators_)
    return sum(state["nodes"].nbytes + state["values"].nbytes for state in states)
