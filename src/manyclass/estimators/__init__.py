"""The scikit-learn surface: one class an algorithm."""

from .label_tree import LabelTreeClassifier
from .one_against_all import OneAgainstAllClassifier
from .recall_tree import RecallTreeClassifier

__all__ = ["LabelTreeClassifier", "OneAgainstAllClassifier", "RecallTreeClassifier"]
