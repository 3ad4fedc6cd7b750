"""Vowpal Wabbit: its command line for all rows, as `vw.py` measures it, and its Python package for one row."""

import sys
from importlib import import_module
from importlib.metadata import version
from typing import Any

import numpy as np

from .task import Task, Trained, pad, spans

# Its command line, which also notes the most memory that it held; see `measure.peak_bytes`.
COMMAND = """
import sys, vowpalwabbit
vowpalwabbit.Workspace(arg_list=sys.argv[3:]).finish()
sys.path.insert(0, sys.argv[1])
import measure
print(measure.peak_bytes() or 0, file=open(sys.argv[2], "a"))
"""


def vowpal(task: Task) -> Trained:
    """One of Vowpal Wabbit's learners for many classes.

    Options: `learner`, one of recall_tree, log_multi, oaa, plt; `passes`, `bits`, `learning_rate`, `loss_function`,
    `extra`. Training and prediction of all rows are measured from outside over its binary cache (see `vw.py`); one row
    is a call of `predict` of its Python package on an example that is parsed already.
    """
    import vowpalwabbit

    from . import measure

    vw = import_module(f"{__package__.removesuffix('runners')}vw")
    options = dict(task.options)
    learner = options.pop("learner")
    plt = learner == "plt"
    train, test, peaks = (task.folder / name for name in ("train.txt", "test.txt", "peaks.txt"))
    labels = task.Y if plt else task.Y.indices
    vw.write_vw_text(train, task.X, labels)
    vw.write_vw_text(test, task.X_test)
    ask = ["--top_k", str(task.k)] if plt else []
    folder = str(measure.__file__).removesuffix("measure.py")
    run = vw.run_learner(
        f"--{learner}", ask, train, test, task.Y.shape[1], task.folder / "model_and_caches",
        command=[sys.executable, "-c", COMMAND, folder, str(peaks)], repeat_under=measure.ENOUGH_SECONDS, **options,
    )  # fmt: skip
    model = task.folder / "model_and_caches" / "model.vw"
    workspace = vowpalwabbit.Workspace(arg_list=["-i", str(model), "-t", "--quiet", *run.use])

    def form(X: Any) -> list[Any]:
        if X.shape[0] > 1:
            return []  # all rows were predicted from files
        words = (f"{i}:{value:.9g}" for a, b in spans(X) for i, value in zip(X.indices[a:b], X.data[a:b], strict=True))
        return [workspace.example(f"|f {' '.join(words)}")]

    def read(predictions: Any) -> np.ndarray:
        offset = 0 if plt else 1
        return pad(([int(word) - offset for word in line.split(",") if word.strip()] for line in predictions), task.k)

    return Trained(
        version("vowpalwabbit"),
        run.train_seconds,
        lambda rows: run.predictions,
        lambda rows: workspace.predict(rows[0]),
        read,
        form,
        model.stat().st_size,
        run.predict_seconds,
        run.n_trainings,
        max(map(int, peaks.read_text().split())) or None,
        "one label per prediction" if not plt else "",
    )
