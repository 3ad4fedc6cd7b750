"""The command line in this process, as a user would call it."""

import sys
from typing import NamedTuple

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file, load_digits

from manyclass.cli.main import run


class Told(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def call(monkeypatch, capsys, tmp_path):
    """`call("train", ...)` in an empty folder: exit code, standard output, standard error."""
    monkeypatch.chdir(tmp_path)

    def call(*words: object) -> Told:
        monkeypatch.setattr(sys, "argv", ["manyclass", *map(str, words)])
        capsys.readouterr()
        try:
            run()
            code = 0
        except SystemExit as end:
            code = 0 if end.code is None else int(end.code)
        return Told(code, *capsys.readouterr())

    return call


@pytest.fixture
def digits(tmp_path):
    """train.svm and test.svm with 64 features from 1."""
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X[order], y[order]
    dump_svmlight_file(X[:700], y[:700], str(tmp_path / "train.svm"), zero_based=False)
    dump_svmlight_file(X[700:900], y[700:900], str(tmp_path / "test.svm"), zero_based=False)
    return X.astype(np.float32), y
