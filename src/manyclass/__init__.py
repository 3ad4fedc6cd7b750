"""Classification into thousands to millions of classes, in time logarithmic in the number of classes."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .estimators import (
        Hellinger,
        LabelTreeClassifier,
        LomTreeClassifier,
        MlomTreeClassifier,
        OneAgainstAllClassifier,
        RecallTreeClassifier,
        SpectralFilter,
        SpectralTreeClassifier,
        load_model,
    )
    from .io import DataError
    from .io.model_file import ModelFormatError
    from .models.learners import SGD, AdaGrad, NormalizedAdaGrad

__version__ = "0.1.0"

__all__ = [
    "SGD",
    "AdaGrad",
    "DataError",
    "Hellinger",
    "LabelTreeClassifier",
    "LomTreeClassifier",
    "MlomTreeClassifier",
    "ModelFormatError",
    "NormalizedAdaGrad",
    "OneAgainstAllClassifier",
    "RecallTreeClassifier",
    "SpectralFilter",
    "SpectralTreeClassifier",
    "__version__",
    "load_model",
]

_HOMES = {
    "DataError": ".io",
    "ModelFormatError": ".io.model_file",
    "load_model": ".estimators",
    "SGD": ".models.learners",
    "AdaGrad": ".models.learners",
    "NormalizedAdaGrad": ".models.learners",
    "LabelTreeClassifier": ".estimators",
    "LomTreeClassifier": ".estimators",
    "MlomTreeClassifier": ".estimators",
    "OneAgainstAllClassifier": ".estimators",
    "RecallTreeClassifier": ".estimators",
    "SpectralFilter": ".estimators",
    "SpectralTreeClassifier": ".estimators",
    "Hellinger": ".estimators",
}


def __getattr__(name: str) -> object:
    """Import public names when first used: the command line must not wait for the compiler to show its help."""
    if name not in _HOMES:
        raise AttributeError(f"module 'manyclass' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name], __name__), name)


def __dir__() -> list[str]:
    return __all__
