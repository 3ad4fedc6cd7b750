"""The benchmark of large sets: folders of matrices, and the page of the results that are committed."""

import numpy as np
import pytest
import scipy.sparse as sp

from benchmarks import large
from benchmarks.race_run import read_cells
from benchmarks.sets import SetUnavailable, prepare

TEXT, CONTENTS = large.SETS["big-text-0.05"], large.SETS["debian-contents"]


def write(folder, **matrices):
    folder.mkdir()
    for name, matrix in matrices.items():
        sp.save_npz(folder / f"{name}.npz", sp.csr_matrix(matrix))


def test_rows_of_a_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("MANYCLASS_DATA", str(tmp_path))
    X, Y = np.eye(4), np.eye(4)[:, :3]
    write(tmp_path / TEXT.name, X=X, Y=Y, Xt=X[:2], Yt=Y[:2])
    found = prepare(TEXT, n_train=3, n_test=1)
    assert [matrix.shape for matrix in found] == [(3, 4), (3, 3), (1, 4), (1, 3)]
    write(tmp_path / CONTENTS.name, X=X, Xt=X[:2])
    np.savez(tmp_path / CONTENTS.name / "y.npz", y=np.arange(4), yt=np.arange(2))
    assert prepare(CONTENTS)[1].tolist() == [0, 1, 2, 3]


def test_a_missing_folder_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("MANYCLASS_DATA", str(tmp_path))
    with pytest.raises(SetUnavailable, match=r"big-text-0\.05.X\.npz does not exist"):
        prepare(TEXT)


def test_the_page_is_that_of_the_committed_cells():
    cells = read_cells(large.HOME / "cells", large.SETS, large.ENTRANTS)
    assert {cell["entrant"] for cell in cells} >= {"label-tree", "pecos"}
    assert (large.HOME / "results.md").read_text(encoding="utf-8") == large.page(cells)
