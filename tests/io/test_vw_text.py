"""Vowpal Wabbit's text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.utils import murmurhash3_32

from manyclass.io import Reading, Source, sparse_text
from manyclass.io.lines import Block
from manyclass.io.sparse_text import VwReader

ONE = Reading("vw", labels="one", label_kind="int")


def hashed(name: str, namespace: str, width: int) -> int:
    """The feature of a name."""
    reader = VwReader("lines", Reading("vw", n_features=width), False, False)
    (index,) = reader.read(Block(f"|{namespace} {name}\n".encode(), 1)).X.indices
    return int(index)


def features(chunk, row: int) -> dict[int, float]:
    """Features of a row."""
    part = chunk.X[[row]]
    return dict(zip(part.indices.tolist(), part.data.tolist(), strict=True))


def test_the_grammar(make, read):
    text = "3 | 7:0.5 8\n1 2.5 'tag|f:2 a:3 b |g a\n2 1 0.1 tag|f x x:2\n\n5| 1\n 4 |\n6 'x|\r\n"
    chunk = read(make("a.vw", text), ONE)
    assert chunk.labels.tolist() == [3, 1, 2, 5, 4, 6]
    assert chunk.weights.tolist() == [1, 2.5, 1, 1, 1, 1]
    assert features(chunk, 0) == {7: 0.5, 8: 1}
    assert features(chunk, 1) == {hashed("a", "f", 2**18): 6, hashed("b", "f", 2**18): 2, hashed("a", "g", 2**18): 1}
    assert features(chunk, 2) == {hashed("x", "f", 2**18): 3}
    assert features(chunk, 3) == {1: 1} and features(chunk, 4) == {} == features(chunk, 5)


def test_names_are_hashed_as_vowpal_wabbit_does():
    seed = murmurhash3_32("f", seed=0, positive=True)
    assert hashed("word", "f", 2**18) == murmurhash3_32("word", seed=seed, positive=True) % 2**18
    assert hashed("word", "", 2**18) == murmurhash3_32("word", seed=0, positive=True) % 2**18
    assert hashed("17", "", 2**18) == 17 and hashed("17", "f", 2**18) == (17 + seed) % 2**18
    assert hashed("300000", "", 2**18) not in (300000 % 2**18, 300000)
    assert 0 <= hashed("9" * 30, "", 1000) < 1000


@given(
    st.text(st.characters(codec="utf-8", exclude_characters="\n\r\t :|"), min_size=1)
    .filter(lambda name: not (name.isascii() and name.isdigit())),
    st.sampled_from(["", "f", "\u00e4b"]),
)
def test_any_name_is_hashed_as_murmur3(name, namespace):
    seed = murmurhash3_32(namespace, seed=0, positive=True) if namespace else 0
    assert hashed(name, namespace, 2**20) == murmurhash3_32(name, seed=seed, positive=True) % 2**20


def test_weights_only_where_there_are_some(make):
    path = make("a.vw", "1 | a\n2 | a\n3 2 | a\n4 1 | a\n")
    chunks = list(Source(path, ONE).chunks(2))
    assert chunks[0].weights is None and chunks[1].weights.tolist() == [2, 1]


@pytest.mark.parametrize(
    "text, expected",
    [("1 | a\n", ("one", "int")), ("1,2 | a\n3 | a\n", ("several", "int")), ("x | a\n\ny |\n", ("one", "text"))],
)
def test_the_first_lines_decide(make, text, expected):
    reading = Source(make("a.vw", text)).reading
    assert (reading.labels, reading.label_kind) == expected


def test_several_labels(make, read):
    chunk = read(make("a.vw", "1,2 | a\n| b\n3 | c\n"))
    assert chunk.labels.tolist() == [1, 2, 3] and chunk.pointer.tolist() == [0, 2, 2, 3]


def test_without_labels(make, read):
    chunk = read(make("a.vw", "| a\nany thing at all here | a\n'tag| a\n|f a\n"), labelled=False)
    assert chunk.X.shape[0] == 4 and chunk.labels is None and chunk.weights is None


BAD = [
    ("no bar here", 1, "no |"),
    ("| a", 1, "no label"),
    ("'tag| a", 1, "no label"),
    ("x | a", 1, "whole number"),
    ("1,2 | a", 1, "several labels"),
    ("1,,2 | a", 1, "empty label"),
    ("1 x | a", 3, "weight 'x'"),
    ("1 -1 | a", 3, "negative"),
    ("1 nan | a", 3, "nan and inf"),
    ("1 1 y | a", 5, "base 'y'"),
    ("1 1 1 1 | a", 7, "too many"),
    ("1 | a:x", 7, "value 'x'"),
    ("1 | a:1:2", 7, "value '1:2'"),
    ("1 | a:", 7, "value ''"),
    ("1 | :3", 5, "without a name"),
    ("1 |:2 a", 4, "without a name"),
    ("1 |f:x a", 6, "weight 'x'"),
    ("1 |f b:inf", 8, "nan and inf"),
    ("1 |f b:1e39", 8, "32-bit"),
    ("1 |f:1e30 b:1e30", 11, "32-bit"),
    ("1 |f b:3e38 c b:3e38", 15, "32-bit"),
    ("1 |f \u00e4:x", 8, "value 'x'"),
]


@pytest.mark.parametrize("line, column, what", BAD)
def test_errors_name_line_and_column(make, refused, line, column, what):
    error = refused(make("a.vw", f"1 | a\n\n{line}\n2 | b\n"), ONE)
    assert (error.line, error.column) == (3, column), error
    assert what in str(error)


def test_words_before_the_bar_are_not_collected(make, refused, monkeypatch):
    words, real = [], sparse_text._WORD

    class Counted:
        def finditer(self, *arguments):
            for word in real.finditer(*arguments):
                words.append(word)
                yield word

    monkeypatch.setattr(sparse_text, "_WORD", Counted())
    for head in ("1 1 1 x 'tag", "1 1 1 x tag", "1 1 1 x y ", "1 1 1 x y 'tag", "1 1 1 " + "x " * 1000):
        error = refused(make("a.vw", f"1 | a\n{head}| b\n"), ONE)
        assert (error.line, error.column) == (2, 7) and "'x' is one word too many" in str(error)
    assert len(words) <= 5 * 2 * 5  # each line is read twice


def test_bytes_that_are_not_utf8(make, refused):
    error = refused(make("a.vw", b"1 | a\n1 | \xc3\xa4 \xff\n"), ONE)
    assert (error.line, error.column) == (2, 7)


def test_skipping_counts_each_bad_line_once(make):
    source = Source(make("a.vw", "".join(f"{line}\n1 | a\n" for line, _, _ in BAD)), ONE, skip_bad_lines=True)
    assert sum(chunk.X.shape[0] for chunk in source.chunks(3)) == source.n_rows == len(BAD) == source.n_skipped
