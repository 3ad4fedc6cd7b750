"""Judging answers: whether a difference of two error rates could be chance."""

from .significance import n_minus_1_chi_squared

__all__ = ["n_minus_1_chi_squared"]
