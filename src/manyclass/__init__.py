"""Classification into thousands to millions of classes, in time logarithmic in the number of classes."""

from .estimators import OneAgainstAllClassifier, RecallTreeClassifier
from .models.learners import SGD, AdaGrad, NormalizedAdaGrad

__version__ = "0.1.0"

__all__ = [
    "SGD",
    "AdaGrad",
    "NormalizedAdaGrad",
    "OneAgainstAllClassifier",
    "RecallTreeClassifier",
    "__version__",
]
