"""Train and ask one peer inside its own environment: ``python peer_runner.py FOLDER``; see `benchmarks.peers`.

This file and `runners/` run under the peer's Python, without manyclass: they import numpy, scipy and the peer only.
FOLDER holds `request.json` (peer, options, k, threads, several) and the sparse matrices `X_train.npz`, `Y_train.npz`
and `X_test.npz`. It gets the peer's model in `model`, its predictions in `predictions.npz` and the measured numbers in
`figures.json`.
"""

import json
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

# As a script, this file's folder is where Python looks for modules, and there is no package around it.
ROOM = f"{__package__}.runners" if __package__ else "runners"
measure = import_module(f"{ROOM}.measure")
# peer: (file in `runners`, its function, Task -> Trained)
LEARNERS = {
    "fasttext": ("fast_text", "fast_text"),
    "napkinxc": ("label_trees", "napkinxc"),
    "omikuji": ("label_trees", "omikuji"),
    "pecos": ("label_trees", "pecos"),
    "river": ("river_stream", "river_stream"),
    "scikit-learn": ("scikit", "scikit"),
    "vowpalwabbit": ("vowpal", "vowpal"),
}


def learner(peer: str) -> Callable[[Any], Any]:
    """The function that trains a peer."""
    file, function = LEARNERS[peer]
    return getattr(import_module(f"{ROOM}.{file}"), function)


def main(folder: Path) -> None:
    """Do what `request.json` in the folder asks for."""
    request = json.loads((folder / "request.json").read_text())
    X_train, Y_train, X_test = (_load(folder, name) for name in ("X_train", "Y_train", "X_test"))
    asked = [request[key] for key in ("options", "threads", "k", "several")]
    train = learner(request["peer"])
    task_type = import_module(f"{ROOM}.task").Task
    loaded = measure.held_bytes()
    measure.forget_peak()
    trained = train(task_type(X_train, Y_train, folder, *asked, X_test))
    rows = trained.form(X_test)
    predict_seconds, predictions = measure.median_of_passes(lambda: trained.predict(rows))
    peak = trained.peak_bytes or measure.peak_bytes()
    alone = [trained.form(X_test[place : place + 1]) for place in measure.places(X_test.shape[0])]
    one_seconds = measure.median_one_by_one(trained.predict_one, alone)
    np.savez(folder / "predictions.npz", top_labels=trained.read(predictions))
    files = [path for path in (folder / "model").rglob("*") if path.is_file()]

    def again() -> float:
        place = folder / f"again_{len(list(folder.glob('again_*')))}"
        place.mkdir()
        return train(task_type(X_train, Y_train, place, *asked, X_test)).train_seconds

    train_seconds, n_trainings = trained.train_seconds, trained.n_trainings
    outside = trained.predict_seconds is not None  # such a peer has measured its training often enough itself
    if not outside:
        train_seconds, n_trainings = measure.median_of_training(train_seconds, again)
    numbers = {
        "version": trained.version,
        "train_seconds": train_seconds,
        "n_trainings": n_trainings,
        "predict_seconds": trained.predict_seconds if outside else predict_seconds,
        "predict_one_seconds": one_seconds,
        "model_bytes": sum(path.stat().st_size for path in files) if files else trained.model_bytes,
        "loaded_bytes": None if trained.peak_bytes else loaded,  # of this process, not of the further one
        "peak_bytes": peak,
        "note": trained.note,
    }
    (folder / "figures.json").write_text(json.dumps(numbers))


def _load(folder: Path, name: str) -> Any:
    """A matrix, its indices in order, or an array of texts."""
    path = folder / f"{name}.txt"
    if path.exists():
        return np.array(path.read_text(encoding="utf-8").split("\n"), object)
    X = sp.csr_matrix(sp.load_npz(folder / f"{name}.npz"), dtype=np.float32)
    X.sum_duplicates()
    X.eliminate_zeros()
    return X


if __name__ == "__main__":
    main(Path(sys.argv[1]))
