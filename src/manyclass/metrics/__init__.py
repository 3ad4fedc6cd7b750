"""Judging answers, and trees: rankings of labels, whether two error rates differ by chance, the theory of splits."""

from .boosting import entropy_after_splits, error_after_splits, error_after_splits_of, splits_needed
from .gains import (
    leaf_entropy,
    leaf_error,
    split_gain,
    split_gain_bound,
    two_class_gain,
    weak_hypothesis_gamma,
    weak_learning_gamma,
    worst_right_share,
)
from .path_weights import path_weights
from .per_label import macro_at_k, recall_by_frequency
from .ranking import coverage_at_k, ndcg_at_k, precision_at_k, propensities, psp_at_k, recall_at_k
from .significance import difference_interval, n_minus_1_chi_squared
from .splits import (
    class_split_objective,
    purity_bound,
    purity_factor,
    right_share,
    right_share_bounds,
    split_objective,
    split_objective_by_class,
    split_objective_of_margins,
    split_objective_of_rows,
)

__all__ = [
    "class_split_objective",
    "coverage_at_k",
    "difference_interval",
    "entropy_after_splits",
    "error_after_splits",
    "error_after_splits_of",
    "leaf_entropy",
    "leaf_error",
    "macro_at_k",
    "n_minus_1_chi_squared",
    "ndcg_at_k",
    "path_weights",
    "precision_at_k",
    "propensities",
    "psp_at_k",
    "purity_bound",
    "purity_factor",
    "recall_at_k",
    "recall_by_frequency",
    "right_share",
    "right_share_bounds",
    "split_gain",
    "split_gain_bound",
    "split_objective",
    "split_objective_by_class",
    "split_objective_of_margins",
    "split_objective_of_rows",
    "splits_needed",
    "two_class_gain",
    "weak_hypothesis_gamma",
    "weak_learning_gamma",
    "worst_right_share",
]
