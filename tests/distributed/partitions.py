"""Partitions of small sets, and the bytes of models."""

import os
import tempfile
from itertools import pairwise

N_ROWS = 4500  # three aligned parts
EDGES = [0, 800, 801, 801, 3500, N_ROWS]  # one row, no row, and ends that are not aligned


def cut(rows, edges=EDGES):
    """The rows as a list of partitions."""
    return [rows[first:last] for first, last in pairwise(edges)]


def file_of(model) -> bytes:
    """The bytes of a model file."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model")
        model.save(path)
        with open(path, "rb") as file:
            return file.read()
