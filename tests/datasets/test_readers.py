"""Readers of the public sets, each on a small file in the format of the set."""

import bz2
import gzip
import hashlib
import io

import numpy as np
import pytest

from manyclass.datasets import readers, running_text
from manyclass.datasets.packed import unpack_names, unpack_split


def write(folder, **texts):
    for name, text in texts.items():
        (folder / name).write_bytes(text)


def test_aloi(tmp_path):
    write(tmp_path, **{"aloi_train.vw.gz": gzip.compress(b"796 | 1:4 6:4 128:6 \n1 | 7:1 \n")})
    write(tmp_path, **{"aloi_test.vw.gz": gzip.compress(b"1000 | 2:3 \n")})
    arrays = readers.aloi(tmp_path)
    X, y = unpack_split(arrays, "train")
    assert X.shape == (2, 128) and y.tolist() == [795, 0] and y.dtype == np.int32
    assert X[0].indices.tolist() == [0, 5, 127] and X[0].data.tolist() == [4, 4, 6] and X[1, 6] == 1
    X, y = unpack_split(arrays, "test")
    assert X.shape == (1, 128) and X[0, 1] == 3 and y.tolist() == [999]


def test_isolet(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.integers(-10_000, 10_001, (7_797, 3)), rng.integers(1, 27, 7_797)])
    lines = [f"{a / 1e4:.4f},{b / 1e4:.4f},{c / 1e4:.4f},{letter}.\n" for a, b, c, letter in rows.tolist()]
    (tmp_path / "isolet.csv").write_text("attribute1,attribute2,attribute3,class\n" + "".join(lines))
    with pytest.raises(ValueError, match="train rows are not those of the published split"):
        readers.isolet(tmp_path)
    rows[:, -1] -= 1
    for split, part in (("train", rows[:6_238]), ("test", rows[6_238:])):
        content = b"".join(sorted(row.tobytes() for row in part.astype("<i2")))
        monkeypatch.setitem(readers._ISOLET, split, hashlib.sha256(content).hexdigest())
    arrays = readers.isolet(tmp_path)
    X, y = unpack_split(arrays, "train")
    np.testing.assert_allclose(X, rows[:6_238, :-1] / 1e4, atol=1e-7)
    assert X.dtype == np.float32 and y.tolist() == rows[:6_238, -1].tolist()
    assert unpack_split(arrays, "test")[0].shape == (1_559, 3)


def test_mnist(tmp_path):
    for name, n in zip(readers.MNIST_FILES, (3, 3, 2, 2), strict=True):
        header, values = (bytes(16), np.arange(n * 784) % 256) if "images" in name else (bytes(8), np.arange(n))
        (tmp_path / name).write_bytes(gzip.compress(header + values.astype(np.uint8).tobytes()))
    arrays = readers.mnist(tmp_path)
    X, y = unpack_split(arrays, "train")
    np.testing.assert_allclose(X, np.arange(3 * 784).reshape(3, 784) % 256 / 255, rtol=1e-6)
    assert X.dtype == np.float32 and y.tolist() == [0, 1, 2]
    assert unpack_split(arrays, "test")[0].shape == (2, 784)


def test_repository(tmp_path):
    folder = tmp_path / "Eurlex"
    folder.mkdir()
    write(folder, **{"eurlex_train.txt": b"2 3 4\n3,0 0:1.5 2:2\n 1:1\n", "eurlex_test.txt": b"1 3 4\n1,1 2:0.25\n"})
    write(folder, **{"._eurlex_train.txt": b"of macOS"})
    arrays = readers.repository(tmp_path)
    X, Y = unpack_split(arrays, "train")
    assert X.toarray().tolist() == [[1.5, 0, 2], [0, 1, 0]] and Y.toarray().tolist() == [[1, 0, 0, 1], [0, 0, 0, 0]]
    X, Y = unpack_split(arrays, "test")
    assert X.toarray().tolist() == [[0, 0, 0.25]] and Y.toarray().tolist() == [[0, 1, 0, 0]]


@pytest.mark.parametrize(
    "text, reason",
    [(b"2 3 4\n1 0:1\n", "has 1 rows, but its first line says 2"), (b"1 3 4\n4 0:1\n", "indices"), (b"1\n", "unpack")],
)
def test_a_repository_file_that_contradicts_its_header(tmp_path, text, reason):
    write(tmp_path, **{"train.txt": text, "test.txt": text})
    with pytest.raises(ValueError, match=reason):
        readers.repository(tmp_path)


def test_an_archive_without_the_file(tmp_path):
    write(tmp_path, **{"a_train.txt": b"", "b_train.txt": b""})
    with pytest.raises(ValueError, match=r"expected one file \*train\.txt, found 2"):
        readers.repository(tmp_path)


def test_repository_with_splits(tmp_path):
    data = b"4 3 2\n0 0:1.000000\n0,1 1:1.000000\n1 2:1.000000\n 0:1.000000 2:1.000000\n"
    splits = {"bibtex_trSplit.txt": b"4 1 2\n2 3 1\n1 2 3\n", "bibtex_tstSplit.txt": b"3 4 4\n"}
    write(tmp_path, **{"Bibtex_data.txt": data}, **splits)
    arrays = readers.repository_with_splits(tmp_path)
    X, Y = unpack_split(arrays, "train")
    assert X.toarray().tolist() == [[1, 0, 1], [0, 1, 0], [1, 0, 0]]
    assert Y.toarray().tolist() == [[0, 0], [1, 1], [1, 0]]
    X, Y = unpack_split(arrays, "test")
    assert X.toarray().tolist() == [[0, 0, 1]] and Y.toarray().tolist() == [[0, 1]]


def test_rcv1_topics(tmp_path):
    train = ["33,70 1:0.5\n1 2:0.5\n", "33,2 1:0.5\n", " 3:1\n", "1 2:0.5\n", "0 4:1\n"]
    test = ["1 5:1\n0 1:0.5\n", "100 5:1\n", "1 2:0.5\n", "3 6:1\n", "3 7:1\n"]
    for name, text in zip(readers.RCV1_FILES, train + test, strict=True):
        (tmp_path / name).write_bytes(bz2.compress(text.encode()))
    arrays = readers.rcv1_topics(tmp_path)
    X, Y = unpack_split(arrays, "train")
    assert X.shape == (4, 47_236) and Y.shape == (4, 101) and X.indices.tolist() == [0, 1, 2, 3]
    assert [row.indices.tolist() for row in Y] == [[2, 33, 70], [1], [], [0]]
    X, Y = unpack_split(arrays, "test")  # without the two that are training rows
    assert X.indices.tolist() == [4, 5, 6] and [row.indices.tolist() for row in Y] == [[1, 100], [3], [3]]


DUMP = b"""<mediawiki>
  <page>
    <title>Not shown</title>
    <text xml:space="preserve">'''Anarchism''' is a [[political philosophy|political]]
&lt;ref name=x&gt;gone&lt;/ref&gt; idea
{{gone|x}} of 1984 {| gone |} &amp;nbsp; [http://gone.example kept] [[Image:gone.png|thumb|right|200px|a caption]]
[[Category:Ideas|gone]] [[de:gone]] [[Plain]] &lt;b&gt;B\xc3\xb6ld&lt;/b&gt;</text>
  </page>
  <page><text xml:space="preserve">#REDIRECT [[gone]]</text></page>
  <page><text xml:space="preserve">The the THE idea</text></page>
</mediawiki>"""
WORDS = (
    "anarchism is a political idea of one nine eight four kept a caption ideas plain b ld the the the idea".split()
)


@pytest.mark.parametrize("size", [1, 7, 10**6])
def test_the_words_that_a_reader_sees(size):
    class Slow(io.BytesIO):
        def read(self, n=-1):
            return super().read(min(n, size))

    articles = list(running_text.article_words(running_text.split_records(Slow(DUMP))))
    assert [word.decode() for article in articles for word in article] == WORDS
    assert len(articles) == 2


def test_words_are_numbered_by_frequency_then_by_appearance():
    text, vocabulary = running_text.number_words([[b"b", b"a"], [b"c", b"a", b"d", b"c"]], 3)
    assert vocabulary == ["<unk>", "a", "c", "b"]
    assert text.tolist() == [3, 1, 2, 1, 0, 2] and text.dtype == np.uint16
    assert running_text.number_words([[b"a"]], 80_000)[0].dtype == np.uint32
    assert running_text.number_words([], 3)[1] == ["<unk>"]


def test_wikipedia(tmp_path):
    (tmp_path / "enwik8").write_bytes(DUMP)
    arrays = running_text.wikipedia(tmp_path, "enwik8", 3)
    vocabulary = unpack_names(arrays, "vocab").tolist()
    assert vocabulary == ["<unk>", "the", "a", "idea"]
    whole = np.concatenate([arrays["train"], arrays["valid"], arrays["test"]])
    assert [vocabulary[number] for number in whole] == [word if word in vocabulary else "<unk>" for word in WORDS]
    assert [len(arrays[part]) for part in ("train", "valid", "test")] == [18, 1, 2]
