"""Metrics for ranked predictions, for probabilities and for classes, and significance tests."""

from .calibration import (
    RiskCoverage,
    brier_at_k,
    ece_at_k,
    log_loss_with_other,
    precision_threshold,
    reliability_plot,
    risk_coverage,
    risk_coverage_plot,
)
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
from .significance import difference_interval, mcnemar, n_minus_1_chi_squared

__all__ = [
    "ClassCounts",
    "Confusions",
    "Reliability",
    "RiskCoverage",
    "ThresholdSearch",
    "accuracy_by_depth",
    "brier_at_k",
    "coverage_at_k",
    "difference_interval",
    "ece_at_k",
    "hierarchical_scores",
    "log_loss_with_other",
    "macro_at_k",
    "mcnemar",
    "n_minus_1_chi_squared",
    "ndcg_at_k",
    "path_accuracy",
    "precision_at_k",
    "precision_threshold",
    "propensities",
    "psp_at_k",
    "recall_at_k",
    "recall_by_frequency",
    "reliability_plot",
    "risk_coverage",
    "risk_coverage_plot",
]
