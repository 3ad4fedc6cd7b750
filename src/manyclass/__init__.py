"""Classification into thousands to millions of classes, in time logarithmic in the number of classes."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # "as": type checkers take these names as public
    from .core.learners import SGD as SGD
    from .core.learners import AdaGrad as AdaGrad
    from .core.learners import NormalizedAdaGrad as NormalizedAdaGrad
    from .core.model_file import ModelFormatError as ModelFormatError
    from .core.taxonomy import Taxonomy as Taxonomy
    from .estimators import load_model as load_model
    from .estimators import save_pipeline as save_pipeline
    from .io import DataError as DataError
    from .label_tree.estimator import LabelTreeClassifier as LabelTreeClassifier
    from .lom_tree.estimator import LomTreeClassifier as LomTreeClassifier
    from .many_class import ManyClassClassifier as ManyClassClassifier
    from .mlom_tree.estimator import MlomTreeClassifier as MlomTreeClassifier
    from .one_against_all.estimator import OneAgainstAllClassifier as OneAgainstAllClassifier
    from .recall_tree.estimator import RecallTreeClassifier as RecallTreeClassifier
    from .spectral_tree.estimator import Hellinger as Hellinger
    from .spectral_tree.estimator import SpectralFilter as SpectralFilter
    from .spectral_tree.estimator import SpectralTreeClassifier as SpectralTreeClassifier

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

__all__ = ["__version__", *_MODULES]


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'manyclass' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name], __name__), name)


def __dir__() -> list[str]:
    return __all__
