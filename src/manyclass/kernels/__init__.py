"""Numba loops over plain arrays: the inner loops of every algorithm, and nothing else."""
