"""Readers of the public sets, each on a small file in the set's own format."""

import bz2
import gzip
import hashlib
import io
import shutil
import subprocess
import zipfile
from pathlib import Path

import numpy as np
import pytest

from manyclass.datasets import PUBLIC_SETS, dense_sets, running_text, sparse_sets
from manyclass.datasets.lzw import unpack_lzw
from manyclass.datasets.packed import unpack_names, unpack_split

DOCUMENT = (Path(__file__).resolve().parents[2] / "docs" / "datasets.md").read_text(encoding="utf-8")


def zip_of(**members: bytes) -> bytes:
    """A zip file of these members."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return buffer.getvalue()


def compress(data: bytes, longest: int = 16) -> bytes:
    """What the old Unix compress makes: growing codes in groups of eight, and a clear code when the table is full."""
    out, bits, n_bits, in_group, width = bytearray([0x1F, 0x9D, 0x80 | longest]), 0, 0, 0, 9
    table = {bytes([value]): value for value in range(256)}
    following = 257

    def put(code):
        nonlocal bits, n_bits, in_group
        bits |= code << n_bits
        n_bits += width
        in_group = (in_group + 1) % 8
        while n_bits >= 8:
            out.append(bits & 255)
            bits >>= 8
            n_bits -= 8

    def fill_group():
        while in_group:
            put(0)

    word = b""
    for value in data:
        if word + bytes([value]) in table:
            word += bytes([value])
            continue
        put(table[word])
        if following < 1 << longest:
            table[word + bytes([value])] = following
            following += 1
        else:
            # The reader is one entry behind, so the clear code has the present width.
            put(256)
            fill_group()
            table, following, width = {bytes([value]): value for value in range(256)}, 257, 9
        if following > 1 << width and width < longest:
            fill_group()
            width += 1
        word = bytes([value])
    if word:
        put(table[word])
    if n_bits:
        out.append(bits & 255)
    return bytes(out)


def texts() -> list[bytes]:
    rng = np.random.default_rng(0)
    numbers = " ".join(map(str, rng.integers(0, 10_000, 50_000).tolist())).encode()
    return [b"a", b"a" * 5000, b"abc" * 999, rng.integers(0, 256, 9000, dtype=np.uint8).tobytes(), numbers]


@pytest.mark.parametrize("longest", [10, 12, 16])
def test_compress_is_read(longest):
    assert unpack_lzw(compress(b"", longest)) == b""
    for text in texts():
        assert unpack_lzw(compress(text, longest)) == text


@pytest.mark.skipif(shutil.which("gzip") is None, reason="needs the program gzip, which reads .Z files")
@pytest.mark.parametrize("longest", [10, 12, 16])
def test_what_these_tests_compress_is_what_gzip_reads(longest):
    for text in texts():
        answer = subprocess.run(["gzip", "-dc"], input=compress(text, longest), capture_output=True, check=True)
        assert answer.stdout == text


@pytest.mark.parametrize("data", [b"", b"\x1f\x9d", b"\x1f\x8b\x90a", b"\x1f\x9d\x81a", b"\x1f\x9d\x90\xff\xff\xff"])
def test_what_compress_did_not_make(data):
    with pytest.raises(ValueError, match=r"\.Z"):
        unpack_lzw(data)


def vw(folder, name, text):
    (folder / name).write_bytes(gzip.compress(text.encode()))


def test_aloi(tmp_path):
    vw(tmp_path, "aloi_train.vw.gz", "796 | 1:4 6:4 128:6 \n1 | 7:1 \n")
    vw(tmp_path, "aloi_test.vw.gz", "1000 | 2:3 \n")
    arrays = sparse_sets.aloi(tmp_path)
    X, y = unpack_split(arrays, "train")
    assert X.shape == (2, 128) and y.tolist() == [795, 0]
    assert X[0].indices.tolist() == [0, 5, 127] and X[0].data.tolist() == [4, 4, 6] and X[1, 6] == 1
    X, y = unpack_split(arrays, "test")
    assert X.shape == (1, 128) and X[0, 1] == 3 and y.tolist() == [999]


@pytest.mark.parametrize("line, what", [("0 | 1:4", "label"), ("1001 | 1:4", "label"), ("5 | 0:4", "number 0")])
def test_aloi_counts_from_one(tmp_path, line, what):
    vw(tmp_path, "aloi_train.vw.gz", line + "\n")
    vw(tmp_path, "aloi_test.vw.gz", "1 | 2:3\n")
    with pytest.raises(ValueError, match=what):
        sparse_sets.aloi(tmp_path)


def test_odp(tmp_path):
    vw(tmp_path, "odp_train.vw.gz", "105033 | 17:0.5 300000:1\n2 | 4:2\n")
    vw(tmp_path, "odp_test.vw.gz", "1 | 421704:0.25\n")
    arrays = sparse_sets.odp(tmp_path)
    X, y = unpack_split(arrays, "train")
    assert X.shape == (2, 421_705) and y.tolist() == [105_032, 1]
    assert (X[0, 17], X[0, 300_000], X[1, 4]) == (0.5, 1, 2)
    X, y = unpack_split(arrays, "test")
    assert X.shape == (1, 421_705) and X[0, 421_704] == 0.25 and y.tolist() == [0]


def test_odp_with_words_is_refused(tmp_path):
    vw(tmp_path, "odp_train.vw.gz", "1 | word another\n")
    vw(tmp_path, "odp_test.vw.gz", "1 | 1\n")
    with pytest.raises(ValueError, match="small numbers"):
        sparse_sets.odp(tmp_path)


@pytest.mark.parametrize("names", [("Eurlex/eurlex_train.txt", "Eurlex/eurlex_test.txt"), ("train.txt", "test.txt")])
def test_the_repository_with_two_files(tmp_path, names):
    train, test = b"2 5 3\n0,2 0:0.084556 4:1.5\n 1:1\n", b"1 5 3\n1 3:0.5\n"
    extra = {"__MACOSX/Eurlex/._eurlex_train.txt": b"", "Eurlex/readme.md": b"text"}
    (tmp_path / "eurlex-4k.zip").write_bytes(zip_of(**{names[0]: train, names[1]: test}, **extra))
    arrays = sparse_sets.two_file_zip(tmp_path)
    X, Y = unpack_split(arrays, "train")
    np.testing.assert_array_equal(X.toarray(), np.float32([[0.084556, 0, 0, 0, 1.5], [0, 1, 0, 0, 0]]))
    np.testing.assert_array_equal(Y.toarray(), [[1, 0, 1], [0, 0, 0]])
    X, Y = unpack_split(arrays, "test")
    assert X.shape == (1, 5) and Y.toarray().tolist() == [[0, 1, 0]]
    assert [path.name for path in tmp_path.iterdir()] == ["eurlex-4k.zip"]


def test_a_member_that_climbs_out_is_only_read(tmp_path):
    folder = tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    content = b"1 2 2\n0 0:1\n"
    (folder / "x.zip").write_bytes(zip_of(**{"../../train.txt": content, "/test.txt": content}))
    X, _ = unpack_split(sparse_sets.two_file_zip(folder), "train")
    assert X.shape == (1, 2)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a", "b", "x.zip"]


def test_a_zip_without_the_file(tmp_path):
    (tmp_path / "x.zip").write_bytes(zip_of(**{"a_train.txt": b"", "b_train.txt": b""}))
    with pytest.raises(ValueError, match=r"x\.zip must hold one file \*train\.txt, but has 2; it holds a_train"):
        sparse_sets.two_file_zip(tmp_path)


def test_a_page_in_place_of_a_zip(tmp_path):
    (tmp_path / "x.zip").write_bytes(b"<html>")
    with pytest.raises(ValueError, match=r"x\.zip is not a whole zip file"):
        sparse_sets.two_file_zip(tmp_path)


SPLIT_DATA = b"4 3 2\n0 0:1.000000\n0,1 1:1.000000\n1 2:1.000000\n 0:1.000000 2:1.000000\n"


def test_the_repository_with_splits(tmp_path):
    members = {
        "Bibtex/Bibtex_data.txt": SPLIT_DATA,
        "Bibtex/bibtex_trSplit.txt": b"4 1 2\n2 3 1\n1 2 3\n",
        "Bibtex/bibtex_tstSplit.txt": b"3 4 4\n",
    }
    (tmp_path / "bibtex.zip").write_bytes(zip_of(**members))
    arrays = sparse_sets.one_file_zip(tmp_path)
    X, Y = unpack_split(arrays, "train")
    assert X.toarray().tolist() == [[1, 0, 1], [0, 1, 0], [1, 0, 0]]
    assert Y.toarray().tolist() == [[0, 0], [1, 1], [1, 0]]
    X, Y = unpack_split(arrays, "test")
    assert X.toarray().tolist() == [[0, 0, 1]] and Y.toarray().tolist() == [[0, 1]]


@pytest.mark.parametrize("train, test", [(b"0\n", b"1\n"), (b"5\n", b"1\n"), (b"1\n2\n", b"2\n")])
def test_splits_that_do_not_fit(tmp_path, train, test):
    members = {"B_data.txt": SPLIT_DATA, "b_trSplit.txt": train, "b_tstSplit.txt": test}
    (tmp_path / "bibtex.zip").write_bytes(zip_of(**members))
    with pytest.raises(ValueError, match="not there, or that are in both"):
        sparse_sets.one_file_zip(tmp_path)


def test_rcv1(tmp_path):
    parts = {
        "lyrl2004_vectors_train.dat.gz": "2286  864:0.049 47236:0.5\n2287  1:0.25\n",
        "lyrl2004_vectors_test_pt0.dat.gz": "26151  2:1\n",
        "lyrl2004_vectors_test_pt1.dat.gz": "26152  3:1\n",
        "lyrl2004_vectors_test_pt2.dat.gz": "26153  4:1\n",
        "lyrl2004_vectors_test_pt3.dat.gz": "26154  5:1\n",
        "rcv1v2.topics.qrels.gz": "M11 2286 1\nE11 2286 1\nE11 26153 1\nCCAT 26154 1\nCCAT 2287 1\n",
    }
    for name, text in parts.items():
        vw(tmp_path, name, text)
    arrays = sparse_sets.rcv1(tmp_path)
    assert unpack_names(arrays, "labels").tolist() == ["CCAT", "E11", "M11"]
    X, Y = unpack_split(arrays, "train")
    assert X.shape == (2, 47_236) and X[0, 863] == np.float32(0.049) and X[0, 47_235] == 0.5 and X[1, 0] == 0.25
    assert Y.toarray().tolist() == [[0, 1, 1], [1, 0, 0]]
    X, Y = unpack_split(arrays, "test")
    assert X.indices.tolist() == [1, 2, 3, 4] and Y.toarray().tolist() == [[0, 0, 0], [0, 0, 0], [0, 1, 0], [1, 0, 0]]


def test_rcv1_samples(tmp_path):
    samples = {
        "train": ["33,70 1:0.5\n1 2:0.5\n", "33,2 1:0.5\n", " 3:1\n", "1 2:0.5\n", "0 4:1\n"],
        "test": ["1 5:1\n0 1:0.5\n", "100 5:1\n", "1 2:0.5\n", "3 6:1\n", "3 7:1\n"],
    }
    for split, texts in samples.items():
        for number, text in enumerate(texts, 1):
            (tmp_path / f"rcv1subset_topics_{split}_{number}.svm.bz2").write_bytes(bz2.compress(text.encode()))
    arrays = sparse_sets.rcv1_samples(tmp_path)
    X, Y = unpack_split(arrays, "train")
    assert X.shape == (4, 47_236) and Y.shape == (4, 101) and X.indices.tolist() == [0, 1, 2, 3]
    assert [row.indices.tolist() for row in Y] == [[2, 33, 70], [1], [], [0]]
    X, Y = unpack_split(arrays, "test")  # less the two that are training rows
    assert X.indices.tolist() == [4, 5, 6] and [row.indices.tolist() for row in Y] == [[1, 100], [3], [3]]


def test_lshtc(tmp_path):
    lines = [f"{900 - row % 7}, 32 {row}:1 5000:2" for row in range(200)]
    (tmp_path / "train.csv").write_text("Data\n" + "\n".join(lines) + "\n")
    arrays = sparse_sets.lshtc(tmp_path)
    assert unpack_names(arrays, "labels").tolist() == ["32", *map(str, range(894, 901))]
    (X, Y), (X_test, Y_test) = unpack_split(arrays, "train"), unpack_split(arrays, "test")
    test = np.random.default_rng(0).random(200) < 0.1
    assert X_test.shape == (test.sum(), 5001) and X.shape == (200 - test.sum(), 5001) and 0 < test.sum() < 40
    first = int(np.flatnonzero(test)[0])
    assert X_test[0, first] == 1 and X_test[0, 5000] == 2
    assert Y_test[0].indices.tolist() == [0, 1 + 6 - first % 7] and Y.sum() == 2 * X.shape[0]
    assert [path.name for path in tmp_path.iterdir()] == ["train.csv"]


def test_isolet(tmp_path):
    train = b"-0.4394, -0.0930, 0.1718, 1.\n0.5, 1.0000, -1.0000, 26.\n"
    members = {"isolet1+2+3+4.data.Z": compress(train), "isolet5.data.Z": compress(b"0.0000, 0.2500, 0.5000, 2.\n")}
    (tmp_path / "isolet.zip").write_bytes(zip_of(**members, **{"isolet.info": b"", "isolet.names": b""}))
    arrays = dense_sets.isolet(tmp_path)
    X, y = unpack_split(arrays, "train")
    np.testing.assert_allclose(X, [[-0.4394, -0.093, 0.1718], [0.5, 1, -1]], atol=1e-7)
    assert X.dtype == np.float32 and y.tolist() == [0, 25]
    assert unpack_split(arrays, "test")[1].tolist() == [1]


@pytest.mark.parametrize("row, what", [(b"0.12345, 1.", "four decimals"), (b"2.0, 1.", "-1 to 1"), (b"0, 27.", "26")])
def test_isolet_with_other_numbers(tmp_path, row, what):
    members = {"isolet1+2+3+4.data.Z": compress(row), "isolet5.data.Z": compress(row)}
    (tmp_path / "isolet.zip").write_bytes(zip_of(**members))
    with pytest.raises(ValueError, match=what):
        dense_sets.isolet(tmp_path)


def idx(array: np.ndarray) -> bytes:
    sizes = b"".join(size.to_bytes(4, "big") for size in array.shape)
    return gzip.compress(bytes([0, 0, 8, array.ndim]) + sizes + array.astype(np.uint8).tobytes())


def write_mnist(folder):
    folder.mkdir(parents=True, exist_ok=True)
    for prefix, n in (("train", 3), ("t10k", 2)):
        pictures = np.arange(n * 784).reshape(n, 28, 28) % 256
        (folder / f"{prefix}-images-idx3-ubyte.gz").write_bytes(idx(pictures))
        (folder / f"{prefix}-labels-idx1-ubyte.gz").write_bytes(idx(np.arange(n)))


def test_mnist(tmp_path):
    write_mnist(tmp_path)
    arrays = dense_sets.mnist(tmp_path)
    X, y = unpack_split(arrays, "train")
    np.testing.assert_allclose(X, np.arange(3 * 784).reshape(3, 784) % 256 / 255, rtol=1e-6)
    assert X.dtype == np.float32 and y.tolist() == [0, 1, 2]
    assert unpack_split(arrays, "test")[0].shape == (2, 784)


@pytest.mark.parametrize(
    "data", [b"", b"\0\0\x08", b"\0\0\x0d\1\0\0\0\0", b"\0\0\x08\1\0\0\0\2a", b"\0\0\x08\2\0\0\0\2a"]
)
def test_no_idx_file(tmp_path, data):
    (tmp_path / "x.gz").write_bytes(gzip.compress(data))
    with pytest.raises(ValueError, match=r"x\.gz (is not an IDX|ends at another)"):
        dense_sets.read_idx(tmp_path / "x.gz")


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
    class Drip(io.BytesIO):
        def read(self, n=-1):
            return super().read(min(n, size))

    articles = list(running_text.article_words(running_text.records_of(Drip(DUMP))))
    assert [word.decode() for article in articles for word in article] == WORDS
    assert len(articles) == 2


def test_words_are_numbered_by_frequency_then_by_appearance():
    text, vocabulary = running_text.numbered([[b"b", b"a"], [b"c", b"a", b"d", b"c"]], 3)
    assert vocabulary == ["<unk>", "a", "c", "b"]
    assert text.tolist() == [3, 1, 2, 1, 0, 2] and text.dtype == np.uint16
    assert running_text.numbered([[b"a"]], 80_000)[0].dtype == np.uint32
    assert running_text.numbered([], 3)[1] == ["<unk>"]


def test_wikipedia(tmp_path):
    (tmp_path / "enwik8.zip").write_bytes(zip_of(enwik8=DUMP))
    arrays = running_text.wikipedia(tmp_path, "enwik8", 3, hashlib.sha1(DUMP).hexdigest())
    vocabulary = unpack_names(arrays, "vocab").tolist()
    assert vocabulary == ["<unk>", "the", "a", "idea"]
    whole = np.concatenate([arrays["train"], arrays["valid"], arrays["test"]])
    assert [vocabulary[number] for number in whole] == [word if word in vocabulary else "<unk>" for word in WORDS]
    assert [len(arrays[part]) for part in ("train", "valid", "test")] == [18, 1, 2]
    with pytest.raises(ValueError, match=r"holds another text: SHA-1 .*, published 00"):
        running_text.wikipedia(tmp_path, "enwik8", 3, "00")


def test_the_table_is_sound():
    for name, entry in PUBLIC_SETS.items():
        assert entry.name == name and entry.files and entry.home.startswith("http") and entry.licence and entry.split
        assert bool(entry.by_hand) == any(not file.urls for file in entry.files)
        assert len({file.name for file in entry.files}) == len(entry.files)
        assert f"`manyclass data {name}`" in DOCUMENT and entry.home in DOCUMENT
        for n_rows in entry.rows or ():
            assert f"{n_rows:,}" in DOCUMENT
        for file in entry.files:
            assert all(url.startswith(("https://", "http://")) for url in file.urls)
            assert file.sha256 is None or (len(file.sha256) == 64 and int(file.sha256, 16) >= 0)
            assert "/" not in file.name and file.name not in (".", "..")
