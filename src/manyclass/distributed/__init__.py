"""Training and prediction on several machines with Dask; predictions also with Ray and Spark. docs/distributed.md."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .estimator import DaskLabelTreeClassifier
    from .files import read_files
    from .prediction import TopK

# Dask is imported only by what requires it: Ray and Spark do without.
_MODULES = {"DaskLabelTreeClassifier": ".estimator", "TopK": ".prediction", "read_files": ".files"}

__all__ = ["DaskLabelTreeClassifier", "TopK", "read_files"]


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'manyclass.distributed' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name], __name__), name)


def __dir__() -> list[str]:
    return __all__
