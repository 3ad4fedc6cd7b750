"""CSV, TSV, JSON lines and Parquet: features of columns, and positions of errors."""

import contextlib
import csv
import json
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow
import pyarrow.parquet
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction import FeatureHasher
from sklearn.feature_extraction.text import HashingVectorizer

from manyclass.io import DataError, Reading, Source, lines, tables
from manyclass.io.tables import cell_place

COLUMNS = Reading(label="label", text=("title", "body"), numeric=("price",), categorical=("colour",), feature_bits=12)
ROWS = [
    {"label": "a", "title": "red shoes, two", "body": 'shoes "for" men', "price": 1.5, "colour": "red"},
    {"label": "b", "title": "hat", "body": "", "price": -2, "colour": "blue"},
    {"label": "a", "title": "line\nbreak here", "body": "\u00e4pfel", "price": None, "colour": None},
]


def expected_matrix(rows):
    """The features of rows, made by scikit-learn."""
    words = HashingVectorizer(n_features=2**12, alternate_sign=False)
    body = HashingVectorizer(
        n_features=2**12,
        alternate_sign=False,
        analyzer=lambda text: [f"body={w}" for w in words.build_analyzer()(text)],
    )
    pairs = []
    for row in rows:
        pair = {"price": row["price"] or 0}
        if row["colour"]:
            pair["colour"] = row["colour"]  # a text value becomes "colour=value"
        pairs.append(pair)
    X = words.transform([row["title"] for row in rows]) + body.transform([row["body"] for row in rows])
    return (X + FeatureHasher(2**12, alternate_sign=False).transform(pairs)).toarray().astype(np.float32)


def as_csv(path, rows, delimiter=",", line_end="\r\n"):
    """Write rows by the csv module."""
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter=delimiter, lineterminator=line_end)
        writer.writeheader()
        writer.writerows(rows)


def written(tmp_path, kind, rows=ROWS):
    """The rows as a file of this kind."""
    path = tmp_path / f"rows.{kind}"
    if kind == "jsonl":
        path.write_text("\n".join(map(json.dumps, rows)))
    elif kind == "parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    else:
        as_csv(path, rows, {"csv": ",", "tsv": "\t"}[kind])
    return path


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl", "parquet"])
def test_every_table_gives_the_features_of_scikit_learn(tmp_path, read, kind):
    chunk = read(written(tmp_path, kind), COLUMNS)
    assert chunk.labels.tolist() == ["a", "b", "a"] and chunk.labels.dtype == object and chunk.pointer is None
    assert np.array_equal(chunk.X.toarray(), expected_matrix(ROWS))


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_columns_are_found_and_stored(tmp_path, kind):
    rows = [{"y": 3, "words": "one two three four", "n": 1, "c": "x y", "flag": "yes"}] * 5
    path = written(tmp_path, kind, rows)
    reading = Source(path, Reading(label="y")).reading
    assert (reading.text, reading.numeric, reading.categorical) == (("words",), ("n",), ("c", "flag"))
    assert reading.labels == "one" and reading.label_kind == ("text" if kind == "csv" else "int")
    again = Source(path, Reading.from_dict(reading.to_dict()))
    assert again.reading == reading


def test_the_second_text_column_has_other_features(make, read):
    X = read(make("a.csv", "l,t,u\na,word,word\n"), Reading(label="l", text=("t", "u"))).X
    assert X.nnz == 2


def test_characters_of_very_long_cells_are_not_used(make, read):
    reading = Reading(label="l", text=("t",), weighted=True, chars=(2, 4), feature_bits=20)
    start = " ".join(f"w{i}" for i in range(2000))[:10_000]
    assert len(start) == 10_000
    words, n = HashingVectorizer(n_features=2**20, norm=None), 2**20
    characters = HashingVectorizer(analyzer="char_wb", ngram_range=(2, 4)).build_analyzer()
    for cell in (start, start + "ab" * 100_000):
        X = read(make("a.csv", f"l,t\na,{cell}\n"), reading).X
        assert X[:, :n].nnz == words.transform([cell]).nnz
        assert X[:, n : 2 * n].sum() == len(characters(start))


def test_only_named_columns_are_used(make, read):
    text = "l,t,n\na,some word,nan\n"
    assert read(make("a.csv", text), Reading(label="l", text=("t",))).X.nnz == 2
    assert Source(make("a.csv", text), Reading(label="l", text=("t",))).reading.ignored == ("n",)


def test_several_labels_in_a_cell(make, read):
    path = make("a.tsv", "l\tn\na; b\t1\nc\t2\n")
    chunk = read(path, Reading(label="l", label_separator=";"))
    assert chunk.labels.tolist() == ["a", "b", "c"] and chunk.pointer.tolist() == [0, 2, 3]
    path = make("b.csv", "l,n\n1;2,1\n3,2\n")
    assert read(path, Reading(label="l", label_separator=";", label_kind="int")).labels.tolist() == [1, 2, 3]


def test_several_labels_in_json(make, read):
    chunk = read(make("a.jsonl", '{"l": [1, 2], "n": 1}\n\n{"l": [], "n": 2}\n{"l": 3.0}\n'), Reading(label="l"))
    assert chunk.labels.tolist() == [1, 2, 3] and chunk.pointer.tolist() == [0, 2, 2, 3]


def test_several_labels_in_parquet(tmp_path, read):
    path = tmp_path / "a.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"l": [["a"], ["b", "c"]], "n": [1.0, 2.0]}), path)
    chunk = read(path, Reading(label="l"))
    assert chunk.labels.tolist() == ["a", "b", "c"] and chunk.pointer.tolist() == [0, 1, 3]


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_booleans_are_text_labels(tmp_path, read, kind):
    path, rows = tmp_path / f"a.{kind}", [{"l": True, "n": 1}, {"l": False, "n": 2}]
    if kind == "jsonl":
        path.write_text("\n".join(map(json.dumps, rows)))
    else:
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    assert read(path, Reading(label="l")).labels.tolist() == ["true", "false"]


def test_decimals_in_parquet_are_numbers(tmp_path, read):
    path = tmp_path / "a.parquet"
    table = pyarrow.table({"l": [Decimal(3), Decimal(-4)], "n": [Decimal("1.50"), None], "m": [1, 2]})
    pyarrow.parquet.write_table(table, path)
    source = Source(path, Reading(label="l"))
    assert source.reading.numeric == ("n", "m") and source.reading.label_kind == "int"
    chunk = read(path, Reading(label="l", numeric=("n",)))
    assert chunk.labels.tolist() == [3, -4] and chunk.X.data.tolist() == [1.5]


def test_the_index_of_pandas_is_ignored_unless_it_is_named(tmp_path):
    frame = pd.DataFrame({"l": ["a", "b"] * 20, "n": [1.5, 2] * 20}).sample(frac=1, random_state=0)
    frame.to_parquet(tmp_path / "a.parquet")
    frame.to_csv(tmp_path / "a.csv")
    index = "__index_level_0__"
    reading = Source(tmp_path / "a.parquet", Reading(label="l")).reading
    assert (reading.numeric, reading.ignored) == (("n",), (index,))
    reading = Source(tmp_path / "a.parquet", Reading(label="l", numeric=(index,))).reading
    assert (reading.numeric, reading.ignored) == ((index,), ("n",))
    reading = Source(tmp_path / "a.csv", Reading(label="l", weighted=True)).reading
    assert (reading.numeric, reading.ignored) == (("n",), ("Unnamed: 0",))


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_without_labels(tmp_path, read, kind):
    rows = [{name: row[name] for name in row if name != "label"} for row in ROWS]
    chunk = read(written(tmp_path, kind, rows), COLUMNS, labelled=False)
    assert chunk.labels is None and np.array_equal(chunk.X.toarray(), expected_matrix(ROWS))


@settings(max_examples=60)
@given(
    st.lists(st.tuples(*[st.text(st.characters(codec="utf-8", exclude_characters="\0"))] * 2), min_size=1, max_size=8)
)
def test_csv_cells_are_those_of_the_csv_module(tmp_path_factory, cells):
    rows = [{"label": "x", "a": a, "b": b} for a, b in cells]
    path = tmp_path_factory.mktemp("cells") / "a.csv"
    as_csv(path, rows)
    reading = Reading("csv", label="label", categorical=("a", "b"), feature_bits=20)
    with open(path, newline="") as file:
        kept = list(csv.DictReader(file))
    hasher = FeatureHasher(2**20, input_type="string", alternate_sign=False)
    names = [[f"{name}={row[name]}" for name in "ab" if row[name].strip()] for row in kept]
    (chunk,) = Source(path, reading).chunks()
    assert (scipy.sparse.csr_matrix(chunk.X) != hasher.transform(names).astype(np.float32)).nnz == 0


def test_byte_order_mark_and_blank_lines(make, read):
    chunk = read(make("a.csv", b"\xef\xbb\xbfl,n\r\n\r\na,1\r\n\n"), Reading(label="l"))
    assert chunk.labels.tolist() == ["a"]


def test_the_first_lines_may_end_within_a_record(make, monkeypatch):
    path = make("a.csv", 'l,t,n\na,x,1\nb,"y\nfoo,bar,baz\n",2\n')
    for n_lines in range(2, 6):
        monkeypatch.setattr(lines, "LOOK_AHEAD_LINES", n_lines)
        reading = Source(path, Reading(label="l")).reading
        assert (reading.categorical, reading.numeric) == (("t",), ("n",))
    # A quote that is not closed in the whole file breaks only its line.
    reading = Source(make("b.csv", 'l,t,n\na,x,1\n"b,y,z\nc,z,3\nd,z,w\n'), Reading(label="l")).reading
    assert reading.categorical == ("t", "n")


def test_names_of_columns_have_no_spaces_around_them(make, read):
    path = make("a.csv", "l, t ,n\na,some words,1\n")
    reading = Source(path, Reading(label="l")).reading
    assert (reading.categorical, reading.numeric) == (("t",), ("n",))
    # Models of earlier versions have names with spaces.
    assert read(path, Reading(label="l", text=(" t ",))).X.nnz == 2


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_columns_to_ignore_must_exist(tmp_path, refused, kind):
    path = written(tmp_path, kind)
    error = refused(path, Reading(label="label", ignored=("pricee",)))
    assert "there is no column 'pricee'; the columns are 'label'" in str(error)
    model = Reading(label="label", text=("title",), ignored=("gone",))
    assert Source(path, model).reading.ignored == ("body", "price", "colour")


def test_a_column_to_ignore_may_come_late_in_json_lines(make):
    path = make("a.jsonl", '{"l": "a", "t": "some words here"}\n{"l": "b", "t": "other words", "late": 1}\n')
    assert Source(path, Reading(label="l", ignored=("late", "never"))).reading.ignored == ("late", "never")


def test_names_of_a_data_frame_may_have_spaces():
    """As pandas reads a header with spaces, which are no part of names for the command line."""
    reading = Reading(format="csv", label="l", text=("t",))
    frame = pd.DataFrame({" t ": ["some words"], "n": [1]})
    assert tables.table_rows(frame, reading).nnz == 2


def test_a_table_in_memory_has_each_column_once_and_is_a_list():
    reading = Reading(format="csv", label="l", text=("t",), numeric=("n",))
    frame = pd.DataFrame([["words", 1, 2, 0, 0]], columns=["t", "n", "n", "other", "other"])
    for X in (frame, pyarrow.table([["words"], [1], [2]], names=["t", "n", "n"])):
        with pytest.raises(ValueError, match="X has several columns that are called 'n'; rename or remove them"):
            tables.table_rows(X, reading)
    assert tables.is_table({"t": "words"})
    with pytest.raises(ValueError, match=r"X is a dictionary, not a list: pass a list of rows, \[X\]"):
        tables.table_rows({"t": "words", "n": 1}, reading)
    with pytest.warns(UserWarning, match="not unique"):  # of pandas; these columns are not used
        assert tables.table_rows(frame, replace(reading, numeric=())).nnz == 1


def test_places_of_cells():
    text = 'a,"b\nc",d\n'
    assert [cell_place(text, ",", cell) for cell in (0, 1, 2, 3, -1)] == [(0, 1), (0, 3), (1, 4), (1, 4), (1, 4)]
    assert cell_place("\n", ",", 0) == (0, 1) == cell_place("", ",", 0)


def test_a_table_with_many_columns_takes_linear_time(make, read, monkeypatch):
    """Columns are looked up in sets, and the features of text columns are added in pairs."""
    n = 20_000
    compared = []

    class Name(str):
        __slots__ = ()
        __hash__ = str.__hash__

        def __eq__(self, other):
            compared.append(1)
            return str.__eq__(self, other)

    names = [Name(f"c{i}") for i in range(n)]
    tables._check_columns("a.csv", Reading(numeric=tuple(map(str, names))), names, False)
    assert len(compared) < 10 * n
    header, row = ",".join(["l", *names]), ",".join(["a", *("1" * n)])
    assert read(make("a.csv", f"{header}\n{row}\n".encode()), Reading(label="l")).X.nnz > n / 2
    added = []
    real = scipy.sparse.csr_array.__add__
    monkeypatch.setattr(
        scipy.sparse.csr_array, "__add__", lambda self, other: added.append(self.nnz + other.nnz) or real(self, other)
    )
    texts = [f"t{i}" for i in range(128)]
    path = make("b.csv", ("l," + ",".join(texts) + "\na," + ",".join(f"word{i}" for i in range(128)) + "\n").encode())
    assert read(path, Reading(label="l", text=tuple(texts))).X.nnz > 100
    assert sum(added) < 128 * 10


CSV = Reading(label="l", text=("t",), numeric=("n",), labels="one", label_kind="text")
BAD_CSV = [
    ("a,b", 0, 3, "2 cells"),
    ("a,b,1,x", 0, 7, "4 cells"),
    ("a,b,nan", 0, 5, "nan and inf"),
    ("a,b,x", 0, 5, "not a number"),
    ("a,b,1e39", 0, 5, "32-bit"),
    ("a,b,1_0", 0, 5, "not a number"),
    (",b,1", 0, 1, "missing"),
    ('a,"b\nc",inf', 1, 4, "nan and inf"),
    ('a,"b"x,1', 0, 3, "invalid CSV"),
    ('a,"b,1', 0, 3, "invalid CSV"),
    ("a,\xff,1", 0, 3, "UTF-8"),
    ('a,"b\n\u20ac\xff",1', 1, 2, "UTF-8"),
]


def raw(text: str) -> bytes:
    """UTF-8, but \xff as an invalid byte."""
    return b"\xff".join(part.encode() for part in text.split("\xff"))


@pytest.mark.parametrize("record, line, column, what", BAD_CSV)
def test_csv_errors_name_line_and_column(make, refused, record, line, column, what):
    path = make("a.csv", raw(f'l,t,n\nx,"a\nb",1\n{record}\ny,c,2\n'))
    error = refused(path, CSV)
    assert (error.line, error.column) == (4 + line, column), error
    assert what in str(error)
    source = Source(path, CSV, skip_bad_lines=True)
    assert [chunk.labels.tolist() for chunk in source.chunks()] == [["x", "y"]] and source.n_skipped == 1


@pytest.mark.parametrize(
    "text, column, what",
    [
        ("", 1, "empty"),
        ("l,,n\n", 3, "without a name"),
        ("l,n,l\n", 5, "two columns"),
        ("a,t,n\n", 1, "the columns are 'a', 't', 'n'"),
        ('l,"t\n', 3, "invalid CSV"),
    ],
)
def test_header_errors_are_never_skipped(make, refused, text, column, what):
    error = refused(make("a.csv", text), CSV, skip_bad_lines=True)
    assert (error.line, error.column) == (1, column) and what in str(error)


@pytest.fixture
def parsed(monkeypatch):
    """A list with the length of every line that the csv module gets."""
    lengths, real = [], csv.reader

    def reader(texts, **options):
        return real((lengths.append(len(text)) or text for text in texts), **options)

    monkeypatch.setattr(tables.csv, "reader", reader)
    return lengths


def test_wrong_quotes_in_every_line_take_linear_time(make, refused, parsed):
    n = 8000
    path = make("a.csv", "label,text\n" + "c0,aa bb cc\n" * 5 + 'x","y\n' * n)
    error = refused(path, Reading(label="label"))
    assert (error.line, "invalid CSV" in str(error)) == (7, True)
    error = refused(path, Reading(label="label"), skip_bad_lines=True)
    assert error.line > 20 and "too many records with wrong quotes" in str(error)
    assert len(parsed) < 200 * n
    # In a small file, all are skipped.
    path = make("b.csv", "label,text\n" + "c0,aa bb cc\n" * 5 + 'x","y\n' * 400)
    source = Source(path, Reading(label="label"), skip_bad_lines=True)
    assert sum(len(chunk.labels) for chunk in source.chunks()) == 5 and source.n_skipped == 400


@pytest.mark.parametrize("skip", [False, True])
def test_a_quote_that_is_never_closed_takes_linear_time(make, parsed, monkeypatch, skip):
    monkeypatch.setattr(lines, "BLOCK", 1000)
    monkeypatch.setattr(lines, "LOOK_AHEAD_BYTES", 1000)
    text = "l,t\n" + "a,some words\n" * 50 + 'a,"more words\n' + "b,other words\n" * 20_000
    source = Source(make("a.csv", text), Reading(label="l"), skip_bad_lines=skip)
    with contextlib.nullcontext() if skip else pytest.raises(DataError, match="line 52, column 3: invalid CSV"):
        assert sum(len(chunk.labels) for chunk in source.chunks()) == 20_050
    assert sum(parsed) < 6 * len(text)


def test_a_header_that_is_too_long_is_refused(make, refused, monkeypatch):
    for module in (lines, tables):
        monkeypatch.setattr(module, "LONGEST_LINE", 5000)
    monkeypatch.setattr(lines, "LOOK_AHEAD_BYTES", 1000)
    for header in ("x" * 5001, "x" * 9000, f'"{"x" * 4990}\n{"x" * 4990}"'):
        error = refused(make("a.csv", f"{header},l\nsome words,a\n"), Reading(label="l"), skip_bad_lines=True)
        assert (error.line, error.column) == (1, 1)


EMPTY = [("a.csv", "l,n\n"), ("a.csv", "l,n\na\nb\n"), ("a.jsonl", ""), ("a.jsonl", "{\n")]


@pytest.mark.parametrize("name, content", EMPTY)
def test_a_table_without_rows(make, refused, name, content):
    assert "the table has no rows, or none of" in str(refused(make(name, content), Reading(label="l", weighted=True)))


def test_late_columns_of_json_lines_are_known(make, monkeypatch):
    monkeypatch.setattr(lines, "LOOK_AHEAD_LINES", 2)
    rows = ['{"l": "a", "n": 1}', '{"l": "a", "m": 2}', '{"l": "a", "late": 1, "\\ud800": 1}', '{"later": 2, "l": "b"}']
    path = make("a.jsonl", "\n".join(rows))
    source = Source(path, Reading(label="l"))
    assert sum(chunk.X.shape[0] for chunk in source.chunks()) == 4
    assert source.reading.columns == ("n", "m") and source.late_columns == ["late", "later"]
    named = Source(path, Reading(label="l", numeric=("n", "late")))
    assert [chunk.X.indptr.tolist() for chunk in named.chunks()] == [[0, 1, 1, 2, 2]]
    assert named.late_columns == []


def test_the_label_has_to_be_named(make, refused):
    message = str(refused(make("a.csv", "a,b\n1,2\n")))
    assert "name the column of the label (label=, --label); the columns are 'a', 'b'" in message


JSON = Reading(label="l", text=("t",), numeric=("n",), labels="one", label_kind="int")
BAD_JSON = [
    ('{"l": 1', 8, "invalid JSON"),
    ("[1]", 1, "not a JSON object"),
    ('{"t": "x"}', 1, "missing"),
    ('{"n": 1, "l": null}', 10, "missing"),
    ('{"n": 1, "l": "x"}', 10, "whole number"),
    ('{"n": 1, "l": 1.5}', 10, "neither"),
    ('{"n": 1, "l": true}', 10, "'true' is not a 64-bit whole number"),
    ('{"n": 1, "l": [1, 2]}', 10, "several labels"),
    ('{"l": 1, "n": NaN}', 15, "NaN"),
    ('{"l": 1, "n": -Infinity}', 16, "Infinity"),
    ('{"l": 1, "n": 1e999}', 10, "nan and inf"),
    ('{"l": 1, "n": 1e39}', 10, "32-bit"),
    ('{"l": 1, "n": [1]}', 10, "not a number"),
    ('{"l": 1, "t": {}}', 10, "dict"),
    ('{"l": 1, "t": "\\ud800"}', 10, "character"),
    ('{"l": 1, "n": ' + "9" * 400 + "}", 10, "32-bit"),
    ("[" * 100_000, 1, "JSON that cannot be read"),
    ('{"l": 1, "n": 1, "n": 2}', 10, "the name 'n' appears twice"),
    ('{"l": 1, "t": {"NaN": 1, "a": 1, "a": 1}}', 26, "appears twice"),
    ('{"l": "\xff"}', 8, "UTF-8"),
]


@pytest.mark.parametrize("line, column, what", BAD_JSON)
def test_json_errors_name_line_and_column(make, refused, line, column, what):
    path = make("a.jsonl", raw(f'{{"l": 1, "t": "x", "n": 1}}\n\n{line}\n{{"l": 2}}\n'))
    error = refused(path, JSON)
    assert (error.line, error.column) == (3, column), error
    assert what in str(error)
    source = Source(path, JSON, skip_bad_lines=True)
    assert [chunk.labels.tolist() for chunk in source.chunks()] == [[1, 2]] and source.n_skipped == 1


def test_parquet_errors_name_the_row(tmp_path, refused):
    path = tmp_path / "a.parquet"
    table = pyarrow.table({"l": ["a", None, "b", "c"], "n": [1.0, 2.0, float("nan"), 3.0]})
    pyarrow.parquet.write_table(table, path)
    error = refused(path, Reading(label="l"))
    assert (error.line, error.column) == (2, None) and "row 2: the label" in str(error)
    source = Source(path, Reading(label="l"), skip_bad_lines=True)
    assert [chunk.labels.tolist() for chunk in source.chunks()] == [["a", "c"]] and source.n_skipped == 2
    assert source.position == (path.stat().st_size, path.stat().st_size)
    assert "the columns are 'l', 'n'" in str(refused(path, Reading(label="x")))


def test_broken_parquet_files_are_refused(tmp_path, refused):
    path = tmp_path / "a.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"l": ["a"] * 99, "n": [1.0] * 99}), path)
    content = path.read_bytes()
    for end in range(0, len(content), 37):
        path.write_bytes(content[:end])
        assert "Parquet" in str(refused(path, Reading(label="l")))


@pytest.mark.parametrize("weighted", [False, True])
def test_unused_columns_of_parquet_are_not_read(tmp_path, monkeypatch, weighted):
    path = tmp_path / "a.parquet"
    struct = pyarrow.StructArray.from_arrays([pyarrow.array([1]), pyarrow.array([2])], names=["x", "x"])
    columns = {"l": ["a"], "t": ["some words here"], "list": [[1]], "bytes": [b"x"], "struct": struct, "n": [2.5]}
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    read, real = [], tables.ParquetFile._rows
    monkeypatch.setattr(
        tables.ParquetFile, "_rows", lambda self, batch, row: read.append(batch.schema.names) or real(self, batch, row)
    )
    reading = Source(path, Reading(label="l", weighted=weighted)).reading
    assert reading.text == ("t",) and reading.numeric == ("n",)
    assert (reading.ignored if weighted else reading.categorical) == ("list", "bytes", "struct")
    reading = Source(path, Reading(label="l", text=("t",))).reading
    assert reading.ignored == ("list", "bytes", "struct", "n")
    Source(path, Reading(label="list", ignored=("n",)))
    assert read == [["l", "t", "n"], ["l", "t"], ["l", "t", "list"]]
    # Without any other column, rows are there, but no column can be used.
    with pytest.raises(DataError, match=r"no column can be used as it is \('list', 'bytes', 'struct'\)"):
        Source(path, Reading(label="l", ignored=("t", "n"), weighted=True))


@pytest.mark.parametrize(
    "values",
    [
        pyarrow.array([0, 0, 2**60, 0]).cast(pyarrow.timestamp("us")),
        pyarrow.array([0, 0, 2**60, 0]).cast(pyarrow.duration("s")),
        pyarrow.array([None, None, 1, 2]).cast(pyarrow.timestamp("us", tz="No/Where")),
    ],
)
def test_parquet_values_that_python_does_not_have(tmp_path, refused, monkeypatch, values):
    monkeypatch.setattr(tables, "_PARQUET_BATCH", 2)
    path = tmp_path / "a.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"l": list("abcd"), "t": ["some words"] * 4, "when": values}), path)
    error = refused(path, Reading(label="l"))
    assert error.line == 3 and "column 'when' has a value that cannot be read (" in str(error)
    assert sum(len(chunk.labels) for chunk in Source(path, Reading(label="l", ignored=("when",))).chunks()) == 4


def test_repeated_columns_of_parquet_are_refused_before_reading(tmp_path, refused, monkeypatch):
    names = ["l", *(f"c{i}" for i in range(50)), "c7"]
    path = tmp_path / "a.parquet"
    pyarrow.parquet.write_table(pyarrow.table([pyarrow.array(["a"])] * len(names), names=names), path)
    monkeypatch.setattr(tables.ParquetFile, "_rows", None)  # nothing is read
    assert "two columns are called 'c7'" in str(refused(path, Reading(label="l")))


def test_json_keys_that_are_not_utf8_are_not_columns(make):
    path = make("a.jsonl", '{"l": "a", "n": 1, "\\ud800": 2}\n')
    source = Source(path, Reading(label="l"))
    assert source.reading.columns == ("n",) and [chunk.X.nnz for chunk in source.chunks()] == [1]


def test_rows_that_have_hardly_a_key_in_common(make):
    """Time and memory would grow with rows x keys: gigabytes for a file of one megabyte."""
    rows = [json.dumps({"label": "ab"[i % 2], **{f"k{i}_{j}": 1 for j in range(5)}}) for i in range(6000)]
    path = make("wide.jsonl", "\n".join(rows))
    with pytest.raises(DataError, match="6000 rows have 30001 different keys, 6 per row: this is no table"):
        Source(path, Reading(label="label", weighted=True))
