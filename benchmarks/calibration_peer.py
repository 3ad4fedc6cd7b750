"""Labels and probabilities of a peer: ``python calibration_peer.py FOLDER PEER``; see `benchmarks.calibration`.

It runs under the peer's Python, without manyclass. FOLDER holds `X_train.npz`, `Y_train.npz` and `X_test.npz`.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from runners.task import Task, best

K = 5


def pecos(task: Any) -> tuple[np.ndarray, np.ndarray]:
    """XR-Linear; its scores are products of sigmoids along the path."""
    from runners.label_trees import pecos as train

    return _best(train(task).predict(task.X_test))


def fasttext(task: Any) -> tuple[np.ndarray, np.ndarray]:
    """Hierarchical softmax, with fastText's other defaults."""
    from runners.fast_text import fast_text as train

    trained = train(task)
    predictions = trained.predict(trained.form(task.X_test))
    labels = trained.read(predictions)
    probabilities = np.zeros(labels.shape)
    for row, values in enumerate(predictions[1]):
        probabilities[row, : len(values)] = values
    return labels, probabilities


def scikit_learn(task: Any) -> tuple[np.ndarray, np.ndarray]:
    """Logistic regression, softmax over all classes."""
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(max_iter=200).fit(task.X, task.Y.indices)
    scores = model.predict_proba(task.X_test)
    labels = best(scores, task.k)
    return model.classes_[labels], np.take_along_axis(scores, labels, axis=1)


def _best(scores: Any) -> tuple[np.ndarray, np.ndarray]:
    """The best entries of a sparse matrix of probabilities, best first."""
    labels, values = np.full((scores.shape[0], K), -1), np.zeros((scores.shape[0], K))
    for row in range(scores.shape[0]):
        span = slice(scores.indptr[row], scores.indptr[row + 1])
        order = np.argsort(-scores.data[span], kind="stable")[:K]
        labels[row, : len(order)], values[row, : len(order)] = scores.indices[span][order], scores.data[span][order]
    return labels, values


def main(folder: Path, peer: str) -> None:
    """Train the peer and write its predictions."""
    X, Y, X_test = (sp.load_npz(folder / f"{name}.npz").tocsr() for name in ("X_train", "Y_train", "X_test"))
    options = {"loss": "hs"} if peer == "fasttext" else {}
    several = bool((np.diff(Y.indptr) != 1).any())
    task = Task(X, Y, folder, options, 1, K, several, X_test)
    labels, probabilities = {"pecos": pecos, "fasttext": fasttext, "scikit-learn": scikit_learn}[peer](task)
    np.savez(folder / "predictions.npz", labels=labels, probabilities=probabilities)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
