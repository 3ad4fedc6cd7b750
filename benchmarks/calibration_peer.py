"""Labels and probabilities of a peer: ``python calibration_peer.py FOLDER PEER``; see `benchmarks.calibration`.

It runs under the peer's Python, without manyclass. FOLDER holds `X_train.npz`, `Y_train.npz` and `X_test.npz`. The
options of fastText and of logistic regression are those with the highest accuracy on a tenth of the training rows.
"""

import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from runners.scikit import form_of
from runners.task import Task, best

K = 5
HELD_OUT = 0.1
MOST_FOR_SOFTMAX = 1000  # classes; above, fastText has hierarchical softmax
PASSES, RATES = (10, 30), (0.2, 0.5, 1.0)  # of fastText
STRENGTHS = (1.0, 10.0, 100.0)  # option C of logistic regression
MOST_TO_CHOOSE = 20_000  # rows that a logistic regression learns when its C is chosen

Found = tuple[np.ndarray, np.ndarray]  # the best labels of each row, and their probabilities


def pecos(task: Task) -> Found:
    """XR-Linear with its defaults; its scores are products of transformed margins along the path."""
    from runners.label_trees import pecos as train

    scores = train(task).predict(task.X_test)
    labels, values = np.full((scores.shape[0], K), -1), np.zeros((scores.shape[0], K))
    for row in range(scores.shape[0]):
        span = slice(scores.indptr[row], scores.indptr[row + 1])
        order = np.argsort(-scores.data[span], kind="stable")[:K]
        labels[row, : len(order)], values[row, : len(order)] = scores.indices[span][order], scores.data[span][order]
    return labels, values


def fasttext(task: Task) -> Found:
    """Word vectors of 100 numbers."""
    from runners.fast_text import fast_text as train

    trained = train(task)
    predictions = trained.predict(trained.form(task.X_test))
    labels = trained.read(predictions)
    probabilities = np.zeros(labels.shape)
    for row, values in enumerate(predictions[1]):
        probabilities[row, : len(values)] = values
    return labels, probabilities


def scikit_learn(task: Task) -> Found:
    """Logistic regression, softmax over all classes."""
    from sklearn.linear_model import LogisticRegression

    form = form_of(task.X)
    model = LogisticRegression(max_iter=200, **task.options).fit(form(task.X), task.Y.indices)
    scores = model.predict_proba(form(task.X_test))
    labels = best(scores, K)
    return model.classes_[labels], np.take_along_axis(scores, labels, axis=1)


PEERS: dict[str, Callable[[Task], Found]] = {"pecos": pecos, "fasttext": fasttext, "scikit-learn": scikit_learn}


def options_of(peer: str, Y: Any) -> list[dict[str, Any]]:
    """The options to choose from."""
    if peer == "fasttext":
        loss = "softmax" if Y.shape[1] <= MOST_FOR_SOFTMAX else "hs"
        return [{"loss": loss, "minCount": 1, "epoch": n, "lr": rate} for n, rate in product(PASSES, RATES)]
    return [{"C": strength} for strength in STRENGTHS] if peer == "scikit-learn" else [{}]


def chosen_options(peer: str, task: Task) -> dict[str, Any]:
    """Those with the highest accuracy (P@1) on a tenth of the training rows, which is not learned for this."""
    choices = options_of(peer, task.Y)
    order = np.random.default_rng(0).permutation(task.X.shape[0])
    held, learned = np.split(order, [int(HELD_OUT * len(order))])
    if peer == "scikit-learn":
        learned = learned[:MOST_TO_CHOOSE]
    accuracy = []
    for number, options in enumerate(choices if len(choices) > 1 else []):
        folder = task.folder / str(number)
        folder.mkdir()
        trial = task._replace(X=task.X[learned], Y=task.Y[learned], X_test=task.X[held], folder=folder, options=options)
        try:
            labels = PEERS[peer](trial)[0][:, 0]
            accuracy.append(float(np.mean((labels >= 0) & (task.Y[held, np.maximum(labels, 0)].A1 > 0))))
        except RuntimeError as error:  # of fastText, if its weights are no longer finite
            print(options, error, file=sys.stderr)
            accuracy.append(-1.0)
        print(options, accuracy[-1], file=sys.stderr, flush=True)
    return choices[int(np.argmax(accuracy))] if accuracy else choices[0]


def main(folder: Path, peer: str) -> None:
    """Choose the options of the peer, train it and write its predictions."""
    X, Y, X_test = (sp.load_npz(folder / f"{name}.npz").tocsr() for name in ("X_train", "Y_train", "X_test"))
    several = bool((np.diff(Y.indptr) != 1).any())
    task = Task(X, Y, folder, {}, 1, K, several, X_test)
    options = chosen_options(peer, task)
    labels, probabilities = PEERS[peer](task._replace(options=options))
    shown = ", ".join(f"{name}={value}" for name, value in options.items())
    np.savez(folder / "predictions.npz", labels=labels, probabilities=probabilities, options=shown)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
