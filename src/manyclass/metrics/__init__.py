"""Judging answers: rankings of labels, and whether a difference of two error rates could be chance."""

from .ranking import coverage_at_k, ndcg_at_k, precision_at_k, propensities, psp_at_k, recall_at_k
from .significance import n_minus_1_chi_squared

__all__ = [
    "coverage_at_k",
    "n_minus_1_chi_squared",
    "ndcg_at_k",
    "precision_at_k",
    "propensities",
    "psp_at_k",
    "recall_at_k",
]
