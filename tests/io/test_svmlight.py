"""svmlight files: round trips with scikit-learn, and positions of errors."""

import io

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from manyclass.io import DataError, Reading, Source
from manyclass.io.lines import Block
from manyclass.io.parser import hashed_index
from manyclass.io.sparse_text import SvmlightReader

ONE = Reading("svmlight", labels="one", label_kind="int", index_base=1)


def rows_of(text: bytes, reading: Reading = ONE, labelled: bool = True):
    """Rows of some lines, without a file."""
    return SvmlightReader("lines", reading, labelled, False).read(Block(text, 1))


def value_of(token: str) -> np.float32:
    """The value that a token is read as."""
    piece = rows_of(f"1 1:{token}\n".encode())
    assert piece.error is None, piece.error
    return piece.X.data[0]


@settings(max_examples=60)
@given(st.data(), st.integers(1, 12), st.integers(1, 9), st.booleans(), st.booleans())
def test_files_of_scikit_learn(data, n_rows, n_columns, zero_based, several):
    finite = st.floats(width=32, allow_nan=False, allow_infinity=False)
    X = np.array(data.draw(st.lists(finite, min_size=n_rows * n_columns, max_size=n_rows * n_columns)), np.float32)
    X = scipy.sparse.csr_matrix(X.reshape(n_rows, n_columns))
    if several:
        y = np.array(data.draw(st.lists(st.booleans(), min_size=n_rows * 3, max_size=n_rows * 3)), int).reshape(-1, 3)
    else:
        y = np.array(data.draw(st.lists(st.integers(-1000, 1000), min_size=n_rows, max_size=n_rows)))
    file = io.BytesIO()
    dump_svmlight_file(X, y, file, zero_based=zero_based, multilabel=several)
    text = file.getvalue()
    labels = "several" if several else "one"
    piece = rows_of(text, Reading("svmlight", labels, "int", int(not zero_based), n_features=n_columns))
    file.seek(0)
    expected, targets = load_svmlight_file(
        file, n_features=n_columns, zero_based=zero_based, multilabel=several, dtype=np.float32
    )
    assert (scipy.sparse.csr_matrix(piece.X) != expected).nnz == 0
    if several:
        bounds = zip(piece.pointer[:-1], piece.pointer[1:], strict=True)
        lists = [tuple(piece.labels[start:stop]) for start, stop in bounds]
        assert lists == [tuple(map(int, target)) for target in targets]
    else:
        assert np.array_equal(piece.labels, targets.astype(int))


@settings(max_examples=200)
@given(
    st.from_regex(r"[+-]?([0-9]{1,30}\.?[0-9]{0,30}|\.[0-9]{1,30})([eE][+-]?[0-9]{1,2})?", fullmatch=True)
    .filter(str.isascii)
)  # fmt: skip
def test_numbers_are_rounded_as_python_and_numpy_do(token):
    with np.errstate(over="ignore"):
        expected = np.float32(float(token))
    if np.isinf(expected):
        assert "too large for 32-bit floats" in str(rows_of(f"1 1:{token}\n".encode()).error)
    else:
        assert value_of(token) == expected


@settings(max_examples=200)
@given(st.floats(width=32, allow_nan=False, allow_infinity=False), st.integers(-3, 3), st.integers(0, 40))
def test_numbers_near_halfway_are_rounded_right(value, steps, digits):
    """Just between two float32 numbers, where a shortcut would fail first."""
    halfway = (float(np.float32(value)) + float(np.nextafter(np.float32(value), np.float32(0)))) / 2
    for token in (repr(halfway), f"{halfway:.{digits}e}", repr(float(np.nextafter(halfway, halfway + steps)))):
        with np.errstate(over="ignore"):
            expected = np.float32(float(token))
        if np.isfinite(expected):
            assert value_of(token) == expected


@pytest.mark.parametrize("token", ["16777217", "16777217.000000000000000000000", "16777217.00000000000000000000000001",
                                   "1677721700000000000000000000e-20", "3.40282356779733623858607532500980858881e38",
                                   "0." + "0" * 60 + "1", "1" + "0" * 30 + "e-30", "7.006492321624085e-46",
                                   "7.006492321624086e-46", "1e-999999999999", "0e999999999999", "5."])  # fmt: skip
def test_numbers_at_the_edges(token):
    with np.errstate(over="ignore"):
        assert value_of(token) == np.float32(float(token))


def test_the_grammar():
    text = b"3 1:0.5 7:1e-3 # c\n\n   \n#only\n+1 qid:3 5:2 5:3 2:1\r\n-1#x\n2.0\t9:1 \n1e2 3:1"
    piece = rows_of(text + b"\n")
    assert piece.labels.tolist() == [3, 1, -1, 2, 100]
    assert piece.X.indptr.tolist() == [0, 2, 4, 4, 5, 6]
    assert piece.X.indices.tolist() == [0, 6, 1, 4, 8, 2]
    assert piece.X.data.tolist() == [0.5, np.float32(1e-3), 1, 5, 1, 1]


def test_large_indices_are_hashed():
    reading = Reading("svmlight", "one", "int", 0, feature_bits=10)
    piece = rows_of(b"1 5:1 1023:2 1024:3 4611686018427387904:4\n", reading)
    hashes = [hashed_index(index, 1024) for index in (1024, 2**62)]
    found = dict(zip(piece.X.indices.tolist(), piece.X.data.tolist(), strict=True))
    assert found == {5: 1, 1023: 2, hashes[0]: 3, hashes[1]: 4}
    spread = [hashed_index(index, 1000) for index in range(10_000, 110_000)]
    assert np.bincount(spread).max() < 160  # 100 each on average


def test_large_indices_are_ignored_and_counted(make):
    reading = Reading("svmlight", "one", "int", 1, n_features=3, hashed=False)
    path = make("a.svm", "1 3:2 4:1\n2 4611686018427387904:0.1 2:5 9:7 # 9:9\n3 4:1 5:x\n4 4:1 0:1\n5\n")
    source = Source(path, reading, skip_bad_lines=True)
    for _ in range(2):
        (chunk,) = source.chunks()
        assert chunk.X.toarray().tolist() == [[0, 0, 2], [0, 5, 0], [0, 0, 0]] and chunk.labels.tolist() == [1, 2, 5]
        assert (source.n_beyond, source.n_skipped) == (3, 2)
    with pytest.raises(DataError, match="line 3, column 9: value 'x'"):
        list(Source(path, reading).chunks())


BAD = [
    ("x 1:1", 1, "whole number"),
    ("2.5 1:1", 1, "whole number"),
    ("1.00000000000000000000001 1:1", 1, "whole number"),
    ("99999999999999999999 1:1", 1, "larger than 2**63"),
    ("nan 1:1", 1, "whole number"),
    ("9223372036854775808 1:1", 1, "larger than 2**63"),
    ("1, 1:1", 3, "whole number"),
    ("1,2 1:1", 3, "several labels"),
    ("1:1 2:1", 1, "no label"),
    (" 1:1", 2, "no label"),
    ("1 2", 3, "colon"),
    ("1 2 3:4", 3, "colon"),
    ("1 a:1", 3, "index 'a'"),
    ("1 -3:1", 3, "index '-3'"),
    ("1 1.5:1", 3, "index '1.5'"),
    ("1 :1", 3, "index ''"),
    ("1 1:1 0:1", 7, "index_base=0"),
    ("1 1:1 4611686018427387906:1", 7, "2**62"),
    ("1 99999999999999999999999:1", 3, "2**62"),
    ("1 1:", 5, "not a number"),
    ("1 1:x", 5, "value 'x'"),
    ("1 1:1 2:nan", 9, "nan and inf"),
    ("1 1:-inf", 5, "nan and inf"),
    ("1 1:0,5", 5, "value '0,5'"),
    ("1 1:1_0", 5, "value '1_0'"),
    ("1 1:1e", 5, "not a number"),
    ("1 1:0x10", 5, "not a number"),
    ("1 1:1:2", 5, "not a number"),
    ("1 1:3.5e38", 5, "32-bit"),
    ("1 1:1e999", 5, "32-bit"),
    ("1 1:340282356779733661637539395458142568448", 5, "32-bit"),
    ("1 1:3402823567797336616375393954581425684479.9e-1", 5, "32-bit"),
    ("1 1:3e38 2:1 1:3e38", 16, "32-bit"),
    ("1 qid:x 1:1", 3, "index 'qid'"),
    ("1 1:1 qid:3", 7, "index 'qid'"),
    ("1\u00e4 1:1", 1, "whole number"),
    ("1 1:\0", 5, "not a number"),
]


@pytest.mark.parametrize("line, column, what", BAD)
def test_errors_name_line_and_column(make, refused, line, column, what):
    error = refused(make("a.svm", f"1 1:1\n# comment\n\n{line}\n2 1:1\n"), ONE)
    assert (error.line, error.column) == (4, column), error
    assert what in str(error) and f"line 4, column {column}: " in str(error)


def test_skipping_counts_each_bad_line_once(make):
    lines = [line for line, _, _ in BAD]
    path = make("a.svm", "".join(f"1 1:1\n{line}\n" for line in lines))
    source = Source(path, ONE, skip_bad_lines=True)
    for _ in range(2):
        assert [chunk.labels.tolist() for chunk in source.chunks(10**6)] == [[1] * len(lines)]
        assert (source.n_rows, source.n_skipped) == (len(lines), len(lines))


def test_chunks_count_the_bad_lines_up_to_their_end(make):
    path = make("a.svm", "bad\n1 1:1\n2 1:1\nbad\nbad\n3 1:1\n4 1:1\nbad\n")
    counts = [chunk.n_skipped for chunk in Source(path, ONE, skip_bad_lines=True).chunks(2)]
    assert counts == [3, 4]


@pytest.mark.parametrize(
    "text, expected",
    [
        ("1 1:1\n", ("one", "int", 1)),
        ("1 1:1\n2 0:1\n", ("one", "int", 0)),
        ("1 1:1 # 0:1\n2 0:nan\n", ("one", "int", 1)),  # comments and bad lines do not count
        ("1,2 1:1\n", ("several", "int", 1)),
        ("1 1:1\n 0:1\n", ("several", "int", 0)),
        ("cat 1:1\ndog 2:1\n", ("one", "text", 1)),
        ("1.5 1:1\n2.5 2:1\n", ("one", "int", 1)),  # numbers that are not integers stay errors
        ("1 1:1\n2 1:1\nx 2:1\n", ("one", "int", 1)),
        ("", ("one", "int", 1)),
    ],
)
def test_the_first_lines_decide(text, expected):
    found = SvmlightReader.resolve("lines", Reading("svmlight"), Block(text.encode(), 1), True)
    assert (found.labels, found.label_kind, found.index_base) == expected


def test_given_values_are_kept():
    given = Reading("svmlight", "several", "text", 1)
    assert SvmlightReader.resolve("lines", given, Block(b"1 0:1\n", 1), True) == given


def test_several_labels_and_text(make, read):
    chunk = read(make("a.svm", "a,b 1:1\n 2:1\n\u00e4 3:1\n"))
    assert chunk.labels.tolist() == ["a", "b", "\u00e4"]
    assert chunk.pointer.tolist() == [0, 2, 2, 3]


def test_labels_that_are_not_utf8(make, refused):
    error = refused(make("a.svm", b"a 1:1\na,b,\xff 1:1\n"), Reading(labels="several", label_kind="text"))
    assert (error.line, error.column) == (2, 5) and "UTF-8" in str(error)


def test_without_labels(make, read):
    path = make("a.svm", "3:0.5 4:1\nwhat,ever 3:1\n 1:1\n5\n# no row\n")
    chunk = read(path, labelled=False)
    assert chunk.labels is None and chunk.pointer is None
    assert np.diff(chunk.X.indptr).tolist() == [2, 1, 1, 0]


def test_many_sums_that_are_too_large():
    """Quadratic time would take many minutes. The error is at the first value that makes a sum too large."""
    n = 300_000
    once = " ".join(f"{index}:3e38" for index in range(1, n + 1))
    long = f"2 {once} {once}\n".encode()
    several = b"3 1:3e38 2:3e38 2:3e38 1:3e38\n"
    piece = SvmlightReader("lines", ONE, True, skip=True).read(Block(b"1 1:1\n" + long + several + b"4 1:2\n", 1))
    assert piece.labels.tolist() == [1, 4] and piece.bad.tolist() == [1, 1]
    assert rows_of(several).error.column == several.index(b"3e38 1:3e38\n") + 1
