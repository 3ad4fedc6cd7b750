"""The scikit-learn surface: one class an algorithm."""

from .one_against_all import OneAgainstAllClassifier
from .recall_tree import RecallTreeClassifier

__all__ = ["OneAgainstAllClassifier", "RecallTreeClassifier"]
