"""Classification into thousands to millions of classes, in time logarithmic in the number of classes."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .core.learners import SGD, AdaGrad, NormalizedAdaGrad
    from .core.model_file import ModelFormatError
    from .estimators import load_model, save_pipeline
    from .io import DataError
    from .label_tree.estimator import LabelTreeClassifier
    from .lom_tree.estimator import LomTreeClassifier
    from .many_class import ManyClassClassifier
    from .mlom_tree.estimator import MlomTreeClassifier
    from .one_against_all.estimator import OneAgainstAllClassifier
    from .recall_tree.estimator import RecallTreeClassifier
    from .spectral_tree.estimator import Hellinger, SpectralFilter, SpectralTreeClassifier

__version__ = "0.1.0"

# Public names and their modules. They are imported when first used, so that `manyclass --help` is fast.
_MODULES = {
    "AdaGrad": ".core.learners",
    "DataError": ".io",
    "Hellinger": ".spectral_tree.estimator",
    "LabelTreeClassifier": ".label_tree.estimator",
    "LomTreeClassifier": ".lom_tree.estimator",
    "ManyClassClassifier": ".many_class",
    "MlomTreeClassifier": ".mlom_tree.estimator",
    "ModelFormatError": ".core.model_file",
    "NormalizedAdaGrad": ".core.learners",
    "OneAgainstAllClassifier": ".one_against_all.estimator",
    "RecallTreeClassifier": ".recall_tree.estimator",
    "SGD": ".core.learners",
    "SpectralFilter": ".spectral_tree.estimator",
    "SpectralTreeClassifier": ".spectral_tree.estimator",
    "Taxonomy": ".core.taxonomy",
    "load_model": ".estimators",
    "save_pipeline": ".estimators",
}

__all__ = [
    "SGD",
    "AdaGrad",
    "DataError",
    "Hellinger",
    "LabelTreeClassifier",
    "LomTreeClassifier",
    "ManyClassClassifier",
    "MlomTreeClassifier",
    "ModelFormatError",
    "NormalizedAdaGrad",
    "OneAgainstAllClassifier",
    "RecallTreeClassifier",
    "SpectralFilter",
    "SpectralTreeClassifier",
    "Taxonomy",
    "__version__",
    "load_model",
    "save_pipeline",
]


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'manyclass' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name], __name__), name)


def __dir__() -> list[str]:
    return __all__
