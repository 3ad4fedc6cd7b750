"""`manyclass predict`: formats, columns that are carried along, thresholds, rows that the model knows nothing about."""

import csv
import gzip
import io
import json
import os
import signal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from manyclass import load_model
from manyclass.cli import messages
from manyclass.core.model_file import lock
from manyclass.io import Reading, Source
from manyclass.io.lines import ByteStream

COLOURS = {"red": "warm", "orange": "warm", "blue": "cold", "green": "cold"}


@pytest.fixture
def model(call):
    rows = [f"{word} paint,{label}\n" for word, label in COLOURS.items()]
    Path("train.csv").write_text("text,kind\n" + 5 * "".join(rows))
    lines = ["id,text,price", "7,red paint,1234567.25", "8,xyzzy plugh,2", "9,,3", '"=1+1","a blue ""one"", eh",4']
    Path("new.csv").write_text("\n".join(lines) + "\n")
    words = ("--label", "kind", "--text", "text", "--feature-bits", 16)
    assert call("train", "train.csv", *words, "--model", "m", "--epochs", 9).code == 0


def test_csv_has_a_header_and_the_columns_to_keep(call, model):
    words = ("predict", "m", "new.csv", "--format", "csv", "--keep", "id", "--keep", "price", "--top-k", 1)
    result = call(*words)
    rows = list(csv.DictReader(io.StringIO(result.out)))
    assert list(rows[0]) == ["id", "price", "predicted", "score", "note"]
    assert [row["id"] for row in rows] == ["7", "8", "9", "=1+1"] and rows[0]["price"] == "1234567.25"
    assert rows[0]["predicted"] == "warm" and rows[3]["predicted"] == "cold"
    assert result.out.split("\n", 1)[1] == call(*words, "--no-header").out
    safe = call("predict", "m", "new.csv", "--format", "csv", "--keep", "id", "--spreadsheet-safe")
    assert list(csv.DictReader(io.StringIO(safe.out)))[3]["id"] == "'=1+1"


def test_rows_without_a_known_word_are_marked(call, model):
    result = call("predict", "m", "new.csv", "--format", "jsonl")
    notes = [json.loads(line).get("note") for line in result.out.splitlines()]
    assert notes == [None, "no known word", "no known word", None]
    assert "2 of 4 rows have no known word" in result.err
    lines = call("predict", "m", "new.csv").out.splitlines()
    assert [line.split("\t")[-1] for line in lines] == ["note", "", "no known word", "no known word", ""]


def test_leaves_of_online_trees_do_not_mark_rows(call):
    Path("d.svm").write_text("0 1:1\n1 2:1\n")
    assert call("train", "d.svm", "--features", 3, "--algorithm", "lom-tree", "--model", "m").code == 0
    Path("new.svm").write_text("0 1:1\n0\n0 2:1\n")
    assert "1 of 3 rows have no known feature" in call("predict", "m", "new.svm").err


def test_threshold_leaves_out_unlikely_labels(call, model):
    words = ("predict", "m", "new.csv", "--top-k", 2)
    every = [json.loads(line) for line in call(*words, "--probabilities", "--format", "jsonl").out.splitlines()]
    likely = [json.loads(line) for line in call(*words, "--threshold", 0.6, "--format", "jsonl").out.splitlines()]
    for one, other in zip(every, likely, strict=True):
        assert other["scores"] == [score for score in one["scores"] if score > 0.6]
        assert other["labels"] == one["labels"][: len(other["labels"])]
    assert [len(row["labels"]) for row in likely] == [1, 0, 0, 1]
    lines = [line.split("\t") for line in call(*words, "--threshold", 0.6).out.splitlines()]
    assert lines[0] == ["predicted_1", "probability_1", "predicted_2", "probability_2", "note"]
    assert lines[1][0] == "warm" and lines[1][2:] == ["", "", ""] and lines[2][:4] == [""] * 4
    assert call(*words, "--threshold", 1.5).code == 2


@pytest.mark.parametrize(
    ("name", "output_format"),
    [
        ("out.tsv", "tsv"),
        ("out.csv", "csv"),
        ("out.jsonl", "jsonl"),
        ("out.ndjson", "jsonl"),
        ("out.CSV.gz", "csv"),
        ("out.tsv.zst", "tsv"),
        ("out.txt", "tsv"),
    ],
)
def test_a_file_has_what_standard_output_has(call, model, name, output_format):
    words = ("predict", "m", "new.csv", "--keep", "text")
    assert call(*words, "--output", name).err.endswith(f"Wrote {name}\n")
    stream = ByteStream(name)
    assert stream.read(2**20).decode() == call(*words, "--format", output_format).out
    stream.close()
    assert not list(Path().glob("*.part"))


@pytest.mark.parametrize(("name", "delimiter"), [("out.tsv", "\t"), ("out.csv", ",")])
def test_tables_are_read_back(call, name, delimiter):
    labels = ["a\tb", 'say "hi"', '"', "two\nlines", "a\rb", "c\r\nd", " spaces ", "back\\slash", r"a\tb", "'", ",;|"]
    rows = [(f"word{i} {label}", label) for i, label in enumerate(labels)]
    with open("d.csv", "w", newline="") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows([("text", "kind"), *rows, *rows])
    assert call("train", "d.csv", "--label", "kind", "--text", "text", "--model", "m").code == 0
    words = ("predict", "m", "d.csv", "--keep", "text", "--keep", "kind", "--top-k", 1)
    found = [json.loads(line) for line in call(*words, "--format", "jsonl").out.splitlines()]
    expected = [(row["text"], row["kind"], row["labels"][0]) for row in found]
    assert [row[:2] for row in expected] == rows + rows and {row[2] for row in expected} == set(labels)
    assert call(*words, "--output", name).code == 0
    with open(name, newline="") as file:
        assert [tuple(cells[:3]) for cells in csv.reader(file, delimiter=delimiter)][1:] == expected
    source = Source(name, Reading(label="predicted", text=("text",)), keep=("text", "kind", "predicted"))
    assert [cells for chunk in source.chunks() for cells in chunk.kept] == expected
    assert [label for chunk in source.chunks() for label in chunk.labels] == [row[2] for row in expected]


def test_parquet_keeps_types(call, model):
    rows = [{"id": 1, "text": "red paint", "tags": ["a", "b"], "none": None}, {"id": 2, "text": "xyzzy", "tags": []}]
    Path("new.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    keep = [word for name in ("id", "tags", "none") for word in ("--keep", name)]
    assert call("predict", "m", "new.jsonl", *keep, "--top-k", 1, "--output", "out.parquet").code == 0
    assert "no row has a value of ids." in call("predict", "m", "new.jsonl", "--keep", "id", "--keep", "ids").err
    table = pq.read_table("out.parquet").to_pylist()
    assert [row["id"] for row in table] == [1, 2] and table[0]["tags"] == ["a", "b"] and table[0]["none"] is None
    assert table[0]["predicted"] == "warm" and isinstance(table[0]["score"], float)
    assert [row["note"] for row in table] == [None, "no known word"]
    Path("mixed.jsonl").write_text('{"text": "red", "id": 1}\n{"text": "red", "id": "x"}\n')
    result = call("predict", "m", "mixed.jsonl", "--keep", "id", "--output", "mixed.parquet")
    assert result.code == 1 and "does not have one type" in result.err and not Path("mixed.parquet").exists()
    assert call("predict", "m", "out.parquet", "--keep", "id", "--text", "tags").code == 1


def test_json_lines_have_no_numbers_that_are_not_finite(call, model):
    cell = '{"text": "red paint, NaN", "id": [1e400, {"a": -1e400, "b": 0.1}], "price": 1e400, "word": "Infinity"}'
    Path("new.jsonl").write_text(f"{cell}\n")
    words = ("predict", "m", "new.jsonl", "--format", "jsonl", "--top-k", 1)
    result = call(*words, "--keep", "text", "--keep", "id", "--keep", "price", "--keep", "word")
    assert result.code == 0, result.err
    row = json.loads(result.out, parse_constant=pytest.fail)
    assert row["id"] == [None, {"a": None, "b": 0.1}] and row["price"] is None
    assert row["text"] == "red paint, NaN" and row["labels"] == ["warm"] and row["scores"][0] is not None
    pq.write_table(pa.table({"text": ["red"] * 3, "n": [1.5, float("nan"), float("inf")]}), "new.parquet")
    result = call("predict", "m", "new.parquet", "--format", "jsonl", "--keep", "n")
    assert [json.loads(line, parse_constant=pytest.fail)["n"] for line in result.out.splitlines()] == [1.5, None, None]


def test_parquet_is_read_and_written_without_the_used_columns_twice(call, model):
    words = ("predict", "m", "new.csv", "--keep", "text", "--keep", "id", "--top-k", 1)
    assert call(*words, "--output", "a.parquet").code == 0
    assert call(*words, "--output", "a.parquet.gz").code == 0
    packed = gzip.decompress(Path("a.parquet.gz").read_bytes())
    assert pq.read_table(io.BytesIO(packed)).equals(pq.read_table("a.parquet"))
    first = pq.read_table("a.parquet").rename_columns(["text", "id", "old", "old_score", "old_note"])
    pq.write_table(first, "again.parquet")
    result = call("predict", "m", "again.parquet", "--keep", "text", "--keep", "old", "--format", "csv", "--top-k", 1)
    rows = list(csv.DictReader(io.StringIO(result.out)))
    assert [row["old"] for row in rows] == [row["predicted"] for row in rows]
    assert [row["text"] for row in rows] == ["red paint", "xyzzy plugh", "", 'a blue "one", eh']


def test_sets_are_those_of_the_model(call, model):
    words = ("predict", "m", "new.csv", "--set", "--format", "jsonl")
    assert "--set: This" in call(*words).err and call(*words).code == 1
    trained = load_model("m")
    trained.conformal([f"{word} paint" for word in COLOURS] * 5, list(COLOURS.values()) * 5, coverage=0.8).save("m")
    found = [json.loads(line) for line in call(*words).out.splitlines()]
    sets = trained.predict_set(["red paint", "xyzzy plugh", "", 'a blue "one", eh'])
    expected = [sorted(trained.classes_[sets[[row]].indices]) for row in range(4)]
    assert [sorted(one["labels"]) for one in found] == expected and expected[0] == ["warm"]
    assert all(one["scores"] == sorted(one["scores"], reverse=True) for one in found)


def test_options_that_do_not_fit_are_refused(call, model):
    def error(*words):
        result = call("predict", "m", "new.csv", *words)
        assert result.code == 1
        return result.err

    assert "requires --output" in error("--format", "parquet")
    assert "there is no column 'ids'; the columns are 'id', 'text', 'price'" in error("--keep", "ids")
    assert "two columns id" in error("--keep", "id", "--keep", "id")
    assert "would replace new.csv" in error("--output", "new.csv")
    assert "would replace m" in error("--output", "m")
    assert "svmlight files have no columns" in error("--format", "svmlight", "--keep", "id")
    assert "omit --threshold" in error("--path", 0.5, "--threshold", 0.5)
    assert "svmlight files have no place for paths" in error("--path", 0.5, "--format", "svmlight")
    assert "only JSON lines" in error("--set", "--format", "tsv")
    assert "no threshold for sets" in error("--set")
    assert "omit --threshold and --path" in error("--set", "--path", 0.5)
    assert "no such folder" in error("--output", "nowhere/out.csv")
    assert "tsv, csv, jsonl, parquet, svmlight: add --format" in error("--output", "out.vw.gz")
    Path("named.csv").write_text("text,predicted\nred,1\n")
    assert "two columns predicted" in call("predict", "m", "named.csv", "--keep", "predicted", "--top-k", 1).err
    Path("bad.csv").write_text("id,text\n1,red\n2\n")
    assert call("predict", "m", "bad.csv", "--output", "out.csv").code == 1 and not Path("out.csv").exists()
    assert load_model("m").classes_.tolist() == ["cold", "warm"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_no_temporary_file(call, model, monkeypatch, number):
    real = Source.chunks

    def chunks(self, *args):
        yield from real(self, *args)
        assert [name for name in os.listdir() if name.endswith(".part")]
        os.kill(os.getpid(), number)

    monkeypatch.setattr(Source, "chunks", chunks)
    before = signal.signal(number, signal.SIG_DFL)  # nohup ignores SIGHUP
    try:
        assert call("predict", "m", "new.csv", "--output", "out.csv").code == 128 + number
        assert not [name for name in os.listdir() if "out.csv" in name]
        assert signal.getsignal(number) == signal.SIG_DFL
    finally:
        signal.signal(number, before)


def test_a_signal_that_is_ignored_stays_ignored(call, model, monkeypatch):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        real = Source.chunks
        monkeypatch.setattr(Source, "chunks", lambda self: os.kill(os.getpid(), signal.SIGHUP) or real(self))
        assert call("predict", "m", "new.csv", "--output", "out.csv").code == 0
    finally:
        signal.signal(signal.SIGHUP, before)


def test_temporary_files_of_killed_commands_are_removed(call, model):
    Path(".out.csv.abcdefg0.part").write_text("a killed command wrote this")
    Path(".out.csv.abcdefg1.part").touch()  # perhaps a command that has not locked it yet
    Path(".out.csv.abcdefg2.part").write_text("locked")
    with open(".out.csv.abcdefg2.part", "rb") as file:
        assert lock(file)
        assert call("predict", "m", "new.csv", "--output", "out.csv").code == 0
    left = sorted(name for name in os.listdir() if name.endswith(".part"))
    assert left == [".out.csv.abcdefg1.part", ".out.csv.abcdefg2.part"]


def test_the_name_of_the_data_is_printable_on_a_terminal(call, model, monkeypatch):
    Path("new\x1b.csv").write_text("text\nred\nblue,2\n")
    monkeypatch.setattr(messages, "is_terminal", lambda file: True)
    err = call("predict", "m", "new\x1b.csv", "--skip-bad-lines", "--output", "out\x1b.csv").err
    assert "skipped 1 bad lines of new\\u001b.csv" in err and "Wrote out\\u001b.csv" in err and "\x1b" not in err


def test_kept_cells_stay_with_their_rows(call, model):
    lines = ["id,text"] + [f"{i},{'red' if i % 3 else 'blue'} paint" for i in range(9000)]
    lines[4000] += ",surplus"
    Path("long.csv").write_text("\n".join(lines) + "\n")
    result = call("predict", "m", "long.csv", "--keep", "id", "--top-k", 1, "--format", "csv", "--skip-bad-lines")
    rows = list(csv.DictReader(io.StringIO(result.out)))
    assert [int(row["id"]) for row in rows] == [i for i in range(9000) if i != 3999]
    assert all(row["predicted"] == ("warm" if int(row["id"]) % 3 else "cold") for row in rows)


def test_probabilities_have_the_order_of_python(call, digits):
    """The probability of merged classes is a sum, but classes are ranked by their best score."""
    words = ("train", "train.svm", "--features", 64, "--algorithm", "one-against-all", "--model", "m")
    assert call(*words, "--epochs", 1).code == 0
    load_model("m").merge_classes({1: 7, 3: 7, 5: 7, 8: 7, 9: 7}).save("merged")
    lines = call("predict", "merged", "test.svm", "--probabilities", "--top-k", 3).out.splitlines()[1:]
    labels, probabilities = load_model("merged").predict_topk(digits[0][700:900], k=3, probabilities=True)
    assert (np.diff(probabilities) > 0).any()
    assert [[int(cell) for cell in line.split("\t")[::2]] for line in lines] == labels.tolist()
