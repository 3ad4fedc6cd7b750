"""Metrics for ranked predictions and for classes, and significance tests."""

from .classification import ClassCounts, Confusions, Reliability, ThresholdSearch
from .hierarchy import accuracy_by_depth, hierarchical_scores, path_accuracy
from .ranking import (
    coverage_at_k,
    macro_at_k,
    ndcg_at_k,
    precision_at_k,
    propensities,
    psp_at_k,
    recall_at_k,
    recall_by_frequency,
)
from .significance import difference_interval, n_minus_1_chi_squared

__all__ = [
    "ClassCounts",
    "Confusions",
    "Reliability",
    "ThresholdSearch",
    "accuracy_by_depth",
    "coverage_at_k",
    "difference_interval",
    "hierarchical_scores",
    "macro_at_k",
    "n_minus_1_chi_squared",
    "ndcg_at_k",
    "path_accuracy",
    "precision_at_k",
    "propensities",
    "psp_at_k",
    "recall_at_k",
    "recall_by_frequency",
]
