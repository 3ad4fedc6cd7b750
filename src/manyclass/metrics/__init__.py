"""Metrics of rankings and of single labels, and significance tests."""

from .per_label import macro_at_k, recall_by_frequency
from .ranking import coverage_at_k, ndcg_at_k, precision_at_k, propensities, psp_at_k, recall_at_k
from .significance import difference_interval, n_minus_1_chi_squared

__all__ = [
    "coverage_at_k",
    "difference_interval",
    "macro_at_k",
    "n_minus_1_chi_squared",
    "ndcg_at_k",
    "precision_at_k",
    "propensities",
    "psp_at_k",
    "recall_at_k",
    "recall_by_frequency",
]
