"""Sources: passes, chunks, compressed files, standard input, and files that change or break."""

import gzip
import io
import os
import pickle
import subprocess
import sys
import threading

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
import scipy.sparse
import zstandard

from manyclass.io import DataError, Reading, Source, known_format, lines
from manyclass.io import source as source_module
from manyclass.io.errors import Fault

N_ROWS = 5_000


def big_file(kind: str) -> str:
    """A file of some blocks, some of its lines bad."""
    rng = np.random.default_rng(0)
    parts = {"csv": ["l,t,n\n"], "xmc": [f"{N_ROWS} 1000 50\n"]}.get(kind, [])
    for i in range(N_ROWS):
        label, index, value = i % 50, rng.integers(1, 999), rng.random()
        if i % 997 == 5:
            parts.append("{bad\n")
        filler = "x" * int(rng.integers(0, 300))
        parts.append(
            {
                "svm": f"{label} {index}:{value} 999:2 # {filler}\n",
                "xmc": f"{label},{(label + 1) % 50} {index}:{value} {' ' * len(filler)}\n",
                "vw": f"{label} {1 + i % 3} |f w{index}:{value} {filler}\n",
                "csv": f'{label},"some words {index}\n{filler}",{value}\n',
                "jsonl": f'{{"l": [{label}, {index}], "t": "some words {index} {filler}", "n": {value}}}\n',
            }[kind]
        )
    return "".join(parts)


@pytest.mark.parametrize("kind", ["svm", "xmc", "vw", "csv", "jsonl"])
def test_cutting_changes_nothing(make, kind, monkeypatch):
    """The same rows whatever the length of chunks and of the blocks behind them."""
    path = make(f"a.{kind}", big_file(kind))
    reading = Reading(label="l", feature_bits=14) if kind in ("csv", "jsonl") else Reading(feature_bits=14)
    reference = None
    for rows, block in ((4096, 2**20), (7, 2**16), (N_ROWS, 1000)):
        monkeypatch.setattr(lines, "BLOCK", block)
        source = Source(path, reading, skip_bad_lines=True)
        chunks = list(source.chunks(rows))
        assert {chunk.X.shape[0] for chunk in chunks[:-1]} <= {rows} and chunks[-1].X.shape[0] <= rows
        assert (source.n_rows, source.n_skipped) == (N_ROWS, 6) and chunks[-1].n_skipped == 6
        weights = [np.ones(chunk.X.shape[0]) if chunk.weights is None else chunk.weights for chunk in chunks]
        whole = (
            scipy.sparse.vstack([chunk.X for chunk in chunks]),
            np.concatenate([chunk.labels for chunk in chunks]),
            np.concatenate([[1] if chunk.pointer is None else np.diff(chunk.pointer) for chunk in chunks]),
            np.concatenate(weights),
        )
        if reference is None:
            reference = whole
        assert (whole[0] != reference[0]).nnz == 0
        assert np.array_equal(whole[1], reference[1]) and np.array_equal(whole[3], reference[3])
        assert kind not in ("xmc", "jsonl") or np.array_equal(whole[2], reference[2])


def test_one_row_at_a_time(make):
    path = make("a.svm", "bad\n" + "".join(f"{i} 1:{i}\n" for i in range(50)))
    chunks = list(Source(path, skip_bad_lines=True).chunks(1))
    assert [chunk.labels.tolist() for chunk in chunks] == [[i] for i in range(50)]
    assert [chunk.X.toarray()[0, 0] for chunk in chunks] == list(range(50))
    assert {chunk.n_skipped for chunk in chunks} == {1}


def test_rows_before_an_error_come_first(make):
    path = make("a.svm", "1 1:1\n2 1:1\n3 1:1\nbad\n")
    seen = []
    with pytest.raises(DataError):
        for chunk in Source(path).chunks(2):
            seen += chunk.labels.tolist()
    assert seen == [1, 2]


PACKINGS = {"gz": gzip.compress, "zst": zstandard.ZstdCompressor().compress}


@pytest.mark.parametrize("packing", PACKINGS)
def test_packed_files(make, read, packing):
    text = b"".join(b"%d %d:1\n" % (i, i + 1) for i in range(2000))
    pack = PACKINGS[packing]
    path = make(f"a.svm.{packing}", pack(text[:5000]) + pack(text[5000:]))  # two parts, one file
    chunk = read(path)
    assert chunk.labels.tolist() == list(range(2000))
    source = Source(path)
    list(source.chunks())
    assert source.position == (path.stat().st_size, path.stat().st_size)


@pytest.mark.parametrize("packing", PACKINGS)
def test_packed_files_cut_anywhere_are_refused(make, packing):
    packed = PACKINGS[packing](b"".join(b"%d %d:1\n" % (i * i, i + 1) for i in range(30)))
    for end in range(len(packed)):
        path = make(f"a.svm.{packing}", packed[:end])
        with pytest.raises(DataError, match="line"):
            list(Source(path, Reading(labels="one")).chunks())


@pytest.mark.parametrize("packing", PACKINGS)
def test_damaged_packed_files(make, packing):
    packed = bytearray(PACKINGS[packing](b"".join(b"%d %d:1\n" % (i * i, i + 1) for i in range(30))))
    for i in range(len(packed)):
        changed = bytearray(packed)
        changed[i] ^= 0x55
        path = make(f"a.svm.{packing}", bytes(changed))
        try:
            list(Source(path).chunks())
        except DataError as error:
            assert error.line is not None and error.column is not None


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_errors_can_be_pickled(refused, make, protocol):
    errors = [refused(make("a.svm", "1 1:2\n2 1:nan\n")), DataError("a.parquet", "no", 3, place="row"),
              Fault("no", 7, line=2, cell="price")]  # fmt: skip
    for error in errors:
        error.add_note("more")
        copy = pickle.loads(pickle.dumps(error, protocol))
        assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))


def test_what_only_pretends_to_be_packed(make, refused):
    assert "gzip" in str(refused(make("a.svm.gz", "1 1:1\n")))
    assert "zstd" in str(refused(make("a.svm.zst", "1 1:1\n")))


@pytest.mark.parametrize("pack", PACKINGS.values())
def test_packed_files_are_recognised_without_their_extension(make, read, pack):
    assert read(make("a.csv", pack(b"l,n\na,1\n")), Reading(label="l")).labels.tolist() == ["a"]
    assert read(make("a.svm", pack(b"3 1:1\n"))).labels.tolist() == [3]


TEXTS = {"a.csv": "l,n\na,1\n", "a.jsonl": '{"l": "a", "n": 1}\n', "a.svm": "3 1:1\n"}


@pytest.mark.parametrize("name", TEXTS)
def test_other_kinds_of_text_files_are_named(make, refused, read, name):
    text, reading = TEXTS[name], Reading(label="l") if name != "a.svm" else Reading()
    for encoding in ("utf-16-le", "utf-16-be"):
        error = refused(make(name, f"\ufeff{text}".encode(encoding)), reading)
        assert error.line == 1 and "the file is UTF-16 text; convert it to UTF-8" in str(error)
    error = refused(make(name, (2 * text).replace("\n", "\r")), reading)
    assert error.line == 1 and "the lines end with CR only" in str(error)
    assert read(make(name, text.replace("\n", "\r\n")), reading).X.shape[0] == 1


def test_damage_is_named_where_it_is(make):
    rng = np.random.default_rng(0)
    text = b"".join(b"%d %d:1\n" % tuple(rng.integers(1, 10**6, 2)) for _ in range(150_000))
    path = make("a.svm.gz", gzip.compress(text, 1)[:-1000])
    source, seen = Source(path), 0
    with pytest.raises(DataError, match="end too early") as caught:
        for chunk in source.chunks(1000):
            seen += chunk.X.shape[0]
    assert seen > 120_000 and 0 < caught.value.line - seen <= 1001


class _Input:
    def __init__(self, content: bytes) -> None:
        self.buffer = io.BytesIO(content)


@pytest.mark.parametrize("pack", [bytes, *PACKINGS.values()])
def test_standard_input_is_read_once(monkeypatch, pack):
    text = b"".join(b"%d %d:1\n" % (i, i + 1) for i in range(200_000))
    monkeypatch.setattr(sys, "stdin", _Input(pack(text)))
    source = Source("-", Reading("svmlight"))
    assert sum(chunk.X.shape[0] for chunk in source.chunks()) == 200_000
    with pytest.raises(DataError, match=r"standard input.*once"):
        source.chunks()


def test_a_closed_standard_input_is_an_error(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(DataError, match="standard input: it is closed"):
        Source("-", Reading("svmlight"))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_pipes_are_read_once(tmp_path):
    path = tmp_path / "a.svm"
    os.mkfifo(path)
    text = b"".join(b"%d %d:1\n" % (i, i + 1) for i in range(200_000))
    writer = threading.Thread(target=path.write_bytes, args=(text,))
    writer.start()
    source = Source(path)
    assert sum(chunk.X.shape[0] for chunk in source.chunks()) == 200_000
    writer.join()
    with pytest.raises(DataError, match="only once"):
        source.chunks()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_with_the_name_of_a_text_file_is_not_opened_for_its_format(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    os.mkfifo(path)
    with monkeypatch.context() as patch:
        patch.setattr(source_module, "ByteStream", None)
        assert known_format(path) is None
    writer = threading.Thread(target=path.write_bytes, args=(b"2 3 2\n0 1:1\n1 2:1\n",))
    writer.start()
    source = Source(path)
    writer.join()
    assert source.reading.format == "xmc" and [chunk.X.shape for chunk in source.chunks()] == [(2, 3)]


def test_standard_input_needs_a_format(monkeypatch):
    monkeypatch.setattr(sys, "stdin", _Input(b"1 1:1\n"))
    with pytest.raises(DataError, match=r"specify one of svmlight"):
        Source("-")


def test_parquet_from_standard_input_and_packed(monkeypatch, make):
    file = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table({"l": ["a", "b"], "n": [1.0, 2.0]}), file)
    reading = Reading("parquet", label="l")
    monkeypatch.setattr(sys, "stdin", _Input(file.getvalue()))
    assert [chunk.labels.tolist() for chunk in Source("-", reading).chunks()] == [["a", "b"]]
    source = Source(make("a.parquet.gz", gzip.compress(file.getvalue())), Reading(label="l"))
    for _ in range(2):
        assert [chunk.labels.tolist() for chunk in source.chunks()] == [["a", "b"]]


def test_formats_by_name(make):
    names = {"a.svm": "svmlight", "a.LIBSVM": "svmlight", "b.svmlight.gz": "svmlight", "a.xmc.zst": "xmc", "a.vw": "vw",
             "a.csv": "csv", "a.tsv": "tsv", "a.jsonl": "jsonl", "a.ndjson.gz": "jsonl", "a.parquet": "parquet",
             "a": None, "a.gz": None, "-": None}  # fmt: skip
    assert {name: known_format(name) for name in names} == names
    assert known_format(make("a.txt.gz", gzip.compress(b"3 4 5\n"))) == "xmc"


def test_missing_files_and_folders(tmp_path):
    with pytest.raises(FileNotFoundError):
        Source(tmp_path / "none.svm")
    with pytest.raises(IsADirectoryError):
        Source(tmp_path, Reading("svmlight"))
    with pytest.raises(FileNotFoundError):
        Source(tmp_path / "none.parquet", Reading(label="l"))


def test_a_file_that_goes_away_between_passes(make):
    path = make("a.svm", "1 1:1\n")
    source = Source(path)
    assert len(list(source.chunks())) == 1
    path.unlink()
    with pytest.raises(FileNotFoundError):
        list(source.chunks())


def test_a_file_that_shrinks(make):
    path = make("a.svm", "1 1:1\n" * 1_000_000)
    passing = Source(path).chunks(1000)
    next(passing)
    os.truncate(path, 2_000_000)
    with pytest.raises(DataError, match="shorter"):
        list(passing)


def test_long_lines(make, monkeypatch):
    monkeypatch.setattr(lines, "LONGEST_LINE", 5000)
    monkeypatch.setattr(lines, "BLOCK", 1000)
    monkeypatch.setattr(lines, "LOOK_AHEAD_BYTES", 1000)
    fits = "2 2:1 #" + "x" * 4993
    for text, labels, bad in (
        (f"1 1:1\n{fits}\n{fits}x\n3 3:1\n{fits}y", [1, 2, 3], [3, 5]),
        (f"{fits}x\n1 1:1", [1], [1]),
        (fits + "y" * 9000, [], [1]),
    ):
        path = make("a.svm", text)
        source = Source(path, skip_bad_lines=True)
        assert [label for chunk in source.chunks() for label in chunk.labels] == labels
        assert source.n_skipped == len(bad)
        with pytest.raises(DataError, match=f"line {bad[0]}, column 1: the line is longer"):
            list(Source(path).chunks())


def test_empty_files_have_no_rows(make):
    source = Source(make("a.svm", ""))
    assert list(source.chunks()) == [] and source.n_rows == 0
    assert list(Source(make("a.svm", "# nothing\n\n")).chunks()) == []
    assert list(Source(make("a.jsonl", ""), Reading(label="l", text=("t",))).chunks()) == []


def test_the_position_moves(make):
    path = make("a.svm", "1 1:1\n" * 1_000_000)
    source = Source(path)
    positions = [source.position for _ in source.chunks(100_000)]
    assert {total for _, total in positions} == {path.stat().st_size}
    assert sorted(positions) == positions and positions[0][0] < positions[-1][0] == path.stat().st_size


def test_chunks_need_rows(make):
    with pytest.raises(ValueError, match="at least 1"):
        Source(make("a.svm", "1 1:1\n")).chunks(0)


def test_importing_io_is_cheap():
    """The command line shows its help without waiting for a compiler."""
    heavy = "{'numba', 'sklearn', 'pyarrow', 'zstandard'}"
    code = f"import sys, manyclass.io; sys.exit(bool({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("name, package", [("a.parquet", "pyarrow"), ("a.svm.zst", "zstandard")])
def test_optional_packages_are_named_if_missing(make, monkeypatch, name, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=rf"requires {package}: pip install 'manyclass\[cli\]'"):
        Source(make(name, b""), Reading(label="l"))
