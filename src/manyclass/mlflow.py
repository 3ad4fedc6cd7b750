"""Models in MLflow: `save_model`, `log_model` and `load_model`. The model is our own safetensors file, without pickle.

As a `pyfunc`, a model takes what the estimator takes (texts or a table, if it was trained by the command line) and
returns a table with the columns `label_1`, `score_1`, `label_2`, ..., best first.

Examples
--------
>>> import manyclass.mlflow                                      # doctest: +SKIP
>>> info = manyclass.mlflow.log_model(model, name="topics")      # doctest: +SKIP
>>> manyclass.mlflow.load_model(info.model_uri).predict(X)       # doctest: +SKIP
"""

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

from . import __version__
from .estimators import load_model as load_file

FLAVOR = "manyclass"
_FILE = "model.safetensors"
_DEFAULT_K = 5


def save_model(model: Any, path: str | os.PathLike, mlflow_model: Any = None, k: int = _DEFAULT_K) -> None:
    """Write a fitted estimator to a folder in the format of MLflow.

    Parameters
    ----------
    model : estimator
        A fitted classifier of this package.
    path : str or path-like
        The folder; it must be empty, or not exist.
    mlflow_model : mlflow.models.Model, optional
        The description to add to.
    k : int, default=5
        Number of labels that the `pyfunc` returns.

    Examples
    --------
    >>> manyclass.mlflow.save_model(model, "topics")                 # doctest: +SKIP
    """
    from mlflow import pyfunc
    from mlflow.models import Model, ModelSignature
    from mlflow.models.model import MLMODEL_FILE_NAME
    from mlflow.types.schema import ParamSchema, ParamSpec
    from mlflow.utils.environment import _mlflow_conda_env

    if not hasattr(model, "save"):
        raise TypeError(f"model must be a fitted estimator of this package, got {model!r:.100}; see load_model.")
    folder = Path(path)
    if folder.exists() and any(folder.iterdir()):
        raise FileExistsError(f"{folder} is not empty: choose another folder.")
    folder.mkdir(parents=True, exist_ok=True)
    model.save(folder / _FILE)
    described = mlflow_model or Model()
    if described.signature is None:  # without one, MLflow ignores `params`; 0: as saved, or as `model_config` says
        described.signature = ModelSignature(params=ParamSchema([ParamSpec("k", "long", 0)]))
    described.add_flavor(FLAVOR, manyclass_version=__version__, data=_FILE)
    environment = _mlflow_conda_env(additional_pip_deps=[f"manyclass=={__version__}"])
    pyfunc.add_to_model(
        described, loader_module=__name__, data=_FILE, conda_env=environment, model_config={"k": int(k)}
    )
    described.save(str(folder / MLMODEL_FILE_NAME))


def log_model(model: Any, name: str, k: int = _DEFAULT_K, registered_model_name: str | None = None) -> Any:
    """Log a fitted estimator as a model of the current run; returns MLflow's `ModelInfo`.

    Examples
    --------
    >>> info = manyclass.mlflow.log_model(model, name="topics")      # doctest: +SKIP
    """
    from mlflow.models import Model

    return Model.log(
        artifact_path=None,
        name=name,
        flavor=sys.modules[__name__],
        model=model,
        k=k,
        registered_model_name=registered_model_name,
    )


def load_model(model_uri: str) -> Any:
    """Load the estimator of a saved or logged model.

    Examples
    --------
    >>> manyclass.mlflow.load_model("topics").predict(X)             # doctest: +SKIP
    """
    from mlflow.artifacts import download_artifacts

    return load_file(Path(download_artifacts(artifact_uri=model_uri)) / _FILE)


class _TopK:
    """What MLflow calls for predictions."""

    def __init__(self, estimator: Any, k: int):
        self.estimator, self.k = estimator, k

    def predict(self, data: Any, params: dict[str, Any] | None = None) -> Any:
        """The k best labels of each row and their scores; `params={"k": 3}` changes k."""
        import pandas as pd

        k = int((params or {}).get("k", 0)) or self.k
        rows: Any = data
        reading = self.estimator._extra.get("reading")
        if isinstance(data, pd.DataFrame) and not (reading is not None and reading.columns):
            names = getattr(self.estimator, "feature_names_in_", None)  # an error if one of them is missing
            rows = data.to_numpy(np.float32) if names is None else data[list(names)].astype(np.float32)
        labels, scores = self.estimator.predict_topk(rows, min(k, self.estimator._index.n_current))
        names = self.estimator.label_names_
        shown = labels if names is None else np.array(names, dtype=object)[labels]
        columns: dict[str, Any] = {}
        for place in range(labels.shape[1]):
            columns |= {f"label_{place + 1}": shown[:, place], f"score_{place + 1}": scores[:, place]}
        return pd.DataFrame(columns)


def _load_pyfunc(path: str, model_config: dict[str, Any] | None = None) -> _TopK:
    """The function that MLflow's `pyfunc` flavour calls."""
    return _TopK(load_file(path), (model_config or {}).get("k", _DEFAULT_K))
