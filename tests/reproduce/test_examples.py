"""The examples in docstrings of modules outside the package."""

import doctest
from importlib import import_module

import pytest

MODULES = [f"reproduce.theory.{name}" for name in ("boosting", "bounds", "gains", "path_weights", "splits")]


@pytest.mark.parametrize("module", [*MODULES, "benchmarks.hierarchy", "benchmarks.sets"])
def test_examples(module):
    failed, tried = doctest.testmod(import_module(module))
    assert tried > 0 and failed == 0
