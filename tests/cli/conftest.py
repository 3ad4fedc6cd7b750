"""Run the command line in this process."""

import sys
from typing import NamedTuple

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file, load_digits

from manyclass.cli.main import run


class Result(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def call(monkeypatch, capsys, tmp_path):
    """`call("train", ...)` runs a command in an empty folder and returns exit code, standard output and error."""
    monkeypatch.chdir(tmp_path)

    def call(*words: object) -> Result:
        monkeypatch.setattr(sys, "argv", ["manyclass", *map(str, words)])
        capsys.readouterr()
        try:
            run()
            code = 0
        except SystemExit as end:
            code = 0 if end.code is None else int(end.code)
        return Result(code, *capsys.readouterr())

    return call


@pytest.fixture
def digits(tmp_path):
    """Write train.svm (700 rows) and test.svm (200 rows) with 64 features."""
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X[order], y[order]
    dump_svmlight_file(X[:700], y[:700], str(tmp_path / "train.svm"), zero_based=False)
    dump_svmlight_file(X[700:900], y[700:900], str(tmp_path / "test.svm"), zero_based=False)
    return X.astype(np.float32), y
