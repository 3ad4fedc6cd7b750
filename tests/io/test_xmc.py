"""Files of the extreme-classification repository."""

import numpy as np
import pytest

from manyclass.io import Reading, Source, known_format


def test_sizes_come_from_the_header(make, read):
    path = make("a.txt", "4 5 3\n0,2 0:1 4:0.5\n 1:1\n1 \n \n")
    assert known_format(path) == "xmc"
    source = Source(path)
    expected = Reading("xmc", "several", "int", n_features=5, n_labels=3, hashed=False)
    assert source.reading == expected
    chunk = read(path)
    assert chunk.X.shape == (4, 5)
    assert chunk.labels.tolist() == [0, 2, 1] and chunk.pointer.tolist() == [0, 2, 2, 3, 3]
    assert np.array_equal(chunk.X.toarray()[0], [1, 0, 0, 0, 0.5])


def test_a_text_file_without_header_is_not_known(make, refused):
    path = make("a.txt", "3 1:1\n")
    assert known_format(path) is None
    assert "--input-format" in str(refused(path))


def test_fewer_features_may_be_declared(make, read):
    path = make("a.xmc", "1 1000 3\n0 999:1\n")
    X = read(path, Reading(n_features=10)).X
    assert X.shape == (1, 10) and X.nnz == 1
    assert read(path, Reading(n_features=10, hashed=False)).X.nnz == 0


@pytest.mark.parametrize(
    "text, line, column, what",
    [
        ("", 1, 1, "first line"),
        ("1 2\n", 1, 1, "first line"),
        ("1 1:1\n", 1, 1, "first line"),
        ("1 0 3\n1\n", 1, 1, "at least one"),
        ("1 5 3\n3 0:1\n", 2, 1, "number of labels"),
        ("1 5 3\n0,-1 0:1\n", 2, 3, "number of labels"),
        ("1 5 3\n0 1:1 5:1\n", 2, 7, "number of features"),
        ("1 5 3\n0 1:1 # no\n", 2, 7, "colon"),
        ("1 5 3\n1:1\n", 2, 1, "no label"),
        ("1 5 3\n0,,1 1:1\n", 2, 3, "whole number"),
        ("3 5 3\n0 1:1\n1 1:1\n\n", 3, 1, "has 2 rows, but its header says 3; download it again"),
        ("1 5 3\n0 1:1\n1 1:1\n", 3, 1, "has 2 rows, but its header says 1; correct the header"),
    ],
)
def test_errors_name_line_and_column(make, refused, text, line, column, what):
    error = refused(make("a.xmc", text))
    assert (error.line, error.column) == (line, column), error
    assert what in str(error)


@pytest.mark.parametrize(("n_rows", "n_skipped"), [(1, 1), (2, 1), (3, 2), (50, 49)])
def test_missing_rows_count_as_skipped_lines(make, n_rows, n_skipped):
    source = Source(make("a.xmc", f"{n_rows} 5 3\n0 1:1\n7 1:1\n"), skip_bad_lines=True)
    assert [chunk.X.shape[0] for chunk in source.chunks()] == [1] and source.n_skipped == n_skipped


def test_a_broken_header_cannot_be_skipped(make, refused):
    assert refused(make("a.xmc", "x\n0 1:1\n"), skip_bad_lines=True).line == 1
