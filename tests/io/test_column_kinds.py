"""Kinds of columns, found from their first cells."""

from datetime import UTC, date, datetime
from decimal import Decimal

import pandas as pd
import pytest

from manyclass.io import Reading, Source, column_kinds
from manyclass.io.column_kinds import find_kinds, is_month_first, parse_date, with_decimal_comma, with_point
from manyclass.io.tables import table_rows
from manyclass.io.values import is_number

N = 200
NUMBERS = [str(i * i % 37) for i in range(N)]
DIFFERENT = [str(i * 7919 % 100_003) for i in range(N)]
DIFFERENT_WORDS = [f"word number {i}" for i in range(2000)]
COLUMNS = {
    "number": (NUMBERS, "numeric"),
    "some numbers": (["NA" if i % 3 else "2.5" for i in range(N)], "numeric"),
    "no numbers": (["-" if i % 3 else "unknown" for i in range(N)], "ignored"),
    "almost numbers": (["ca. 3", "many", *NUMBERS[2:]], "numeric"),
    "one text of 20": (["many", *NUMBERS[:19]], "numeric"),
    "one text of 19": (["many", *NUMBERS[:18]], "categorical"),
    "too many texts": (["ca. 3", "many", "few", *["1", "2"] * (N // 2 - 2)], "categorical"),
    "decimal": ([Decimal(i) / 4 for i in range(N)], "numeric"),
    "comma": ([f"{i % 9},5" if i % 2 else "7" for i in range(N)], "numeric"),
    "comma and point": (["1,5", "1.5"] * (N // 2), "categorical"),
    "thousands": (["1,500", "2,500", "700"] * (N // 3), "categorical"),
    "row": ([str(i + 17) for i in range(N)], "ignored"),
    **dict.fromkeys(["id", "ID", "user_id", "userId", "userID", "id_user", "Unnamed: 0"], (DIFFERENT, "ignored")),
    **dict.fromkeys(["amount", "paid", "bid", "grid", "valid"], (DIFFERENT, "numeric")),
    "uuid": ([f"{i:08x}-0000-4000-8000-{i:012x}" for i in range(N)], "ignored"),
    "order-id": ([f"A-{number}" for number in DIFFERENT], "ignored"),
    "order": ([f"A-{number}" for number in DIFFERENT], "text"),
    "package_id": ([f"{'ab'[i % 2]}{number}" for i, number in enumerate(DIFFERENT)], "text"),
    "empty": ([""] * N, "ignored"),
    "tags": ([["a", "b"]] * N, "ignored"),
    "flag": (["yes", "no"] * (N // 2), "categorical"),
    "truth": ([True, False] * (N // 2), "categorical"),
    "colour": (["red", "green", "dark blue"] * (N // 3), "categorical"),
    "day": ([f"2024-{i % 12 + 1:02}-11" for i in range(N)], "date"),
    "moment": ([f"2024-05-11T10:{i % 60:02}:00Z" for i in range(N)], "date"),
    "german": ([f"{i % 28 + 1:02}.11.2024" for i in range(N)], "date"),
    "american": ([f"{i % 12 + 1}/{i % 28 + 1}/2024" for i in range(N)], "date"),
    "british": ([f"{i % 28 + 1}/{i % 12 + 1}/2024" for i in range(N)], "date"),
    "with times": ([f"{i % 28 + 1:02}.11.2024 {i % 24}:05" for i in range(N)], "date"),
    "both orders": (["13/4/2024", "4/13/2024"] * (N // 2), "categorical"),
    "some days": (["2024-05-11", "NULL", "NaT", pd.NaT] * (N // 4), "date"),
    "name": ([f"lib{i}-perl" for i in range(N)], "text"),
    "title": ([f"the red book number {i}" for i in range(N)], "text"),
    "phrase": (["one of three phrases", "two of three phrases", "all of three phrases"] * (N // 3), "categorical"),
}
PARTS = {"name": "short", "order": "short", "package_id": "short", "almost numbers": "mixed", "one text of 20": "mixed"}


@pytest.mark.parametrize("name", COLUMNS)
def test_kinds(name):
    cells, kind = COLUMNS[name]
    kinds = find_kinds({name: cells}, True)
    expected = {kind: [name], PARTS.get(name, kind): [name]}
    assert {kind: names for kind, names in kinds.items() if names} == expected


def test_without_weights_there_are_three_kinds():
    kinds = find_kinds({name: cells for name, (cells, _) in COLUMNS.items()}, False)
    assert kinds.pop("ignored") == ["Unnamed: 0"]  # the index of pandas is never a feature
    assert {kind for kind, names in kinds.items() if names} == {"text", "numeric", "categorical"}
    assert "some numbers" in kinds["categorical"]


def test_few_rows_have_no_ids():
    assert find_kinds({"n": ["1", "2", "3"]}, True)["numeric"] == ["n"]


@pytest.mark.parametrize("weighted", [True, False])
def test_the_index_of_pandas_is_ignored(weighted):
    assert find_kinds({"__index_level_0__": NUMBERS}, weighted)["ignored"] == ["__index_level_0__"]


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("2024-02-29", datetime(2024, 2, 29, tzinfo=UTC)),
        ("2024-02-29 12:30", datetime(2024, 2, 29, 12, 30, tzinfo=UTC)),
        ("2024-02-29T12:30:00+00:00", datetime(2024, 2, 29, 12, 30, tzinfo=UTC)),
        ("29.02.2024", datetime(2024, 2, 29, tzinfo=UTC)),
        ("12/31/2024", datetime(2024, 12, 31, tzinfo=UTC)),
        ("31.12.2024 14:05", datetime(2024, 12, 31, 14, 5, tzinfo=UTC)),
        ("12/31/2024, 2:05:30 PM", datetime(2024, 12, 31, 14, 5, 30, tzinfo=UTC)),
        ("31 Dec 2024 2:05pm", datetime(2024, 12, 31, 14, 5, tzinfo=UTC)),
        ("31.12.2024 25:05", None),
        ("31.12.2024" + 1_000_000 * " " + "14:05 x", None),  # not in quadratic time, which would be hours
        ("31.12.2024 14:05 PM", None),
        ("Thu, 29 Feb 2024 12:30:00 +0000", datetime(2024, 2, 29, 12, 30, tzinfo=UTC)),
        (date(2024, 2, 29), datetime(2024, 2, 29, tzinfo=UTC)),
        ("20240229", None),
        ("2024-02-30", None),
        ("1.2.3", None),
        ("soon", None),
    ],
)
def test_dates(cell, expected):
    assert parse_date(cell) == expected


def test_the_order_of_dates_is_that_of_the_column():
    assert parse_date("3/4/2024", False) == datetime(2024, 4, 3, tzinfo=UTC)
    assert parse_date("3/4/2024", True) == datetime(2024, 3, 4, tzinfo=UTC)
    assert parse_date("13/4/2024", True) is None and parse_date("4/13/2024", False) is None
    assert is_month_first(["3/4/2024", None, "4/13/2024"])
    assert is_month_first(["3/4/2024 14:05", "4/13/2024, 2:05 PM"])
    for cells in (["3/4/2024", "2024-04-13"], ["3/4/2024", "13/4/2024"], ["4/13/2024", "13/4/2024"], []):
        assert not is_month_first(cells)


def test_decimal_commas():
    for cells in (["3,14"], ["1,234", "0,5"], ["0,125"], ["-1234,567", 2.5, None], ["1,5e3", "n/a"], ["1.234,5"],
                  ["1.234.567", "70.442"]):  # fmt: skip
        assert with_decimal_comma({"a": cells}) == ["a"], cells
    for cells in (["1,234", "12,345"], ["3,14", "3.14"], ["1,234,567"], ["a,b"], ["3"], ["70.442"], ["1.5", "1.234"]):
        assert with_decimal_comma({"a": cells}) == [], cells


def test_points_between_thousands_where_other_columns_have_decimal_commas():
    kilobytes, price, width = ["70.442", "9.780", "512"], ["3,5", "12,25", "1.234,5"], ["1.5", "2.25"]
    assert with_decimal_comma({"kB": kilobytes, "price": price}) == ["kB", "price"]
    assert with_decimal_comma({"kB": kilobytes, "price": price, "width": width}) == ["price"]
    assert [float(with_point(cell)) for cell in (*kilobytes, *price)] == [70442, 9780, 512, 3.5, 12.25, 1234.5]
    assert not is_number(with_point("1.5"))


def test_a_few_cells_that_are_no_dates_are_missing():
    dates = [f"2024-01-{day:02}" for day in range(1, 29)] * 10
    assert find_kinds({"when": dates}, True)["mixed dates"] == []
    kinds = find_kinds({"when": [*dates, "soon", "later"]}, True)
    assert kinds["date"] == kinds["mixed dates"] == ["when"]
    assert find_kinds({"when": [*dates, *["soon"] * 20]}, True)["date"] == []
    assert parse_date("21 Nov 1999 01:30:56 +0100").year == 1999


@pytest.mark.parametrize(
    ("cells", "most"),
    [(DIFFERENT_WORDS, 21), (["2024-01-01", "2024-01-02"] * 1000, 2), (["light-blue", "dark-blue"] * 1000, 2)],
)
def test_few_cells_are_parsed_to_find_dates(monkeypatch, cells, most):
    parsed = []

    def counted(value, month_first):
        parsed.append(value)
        return parse_date(value, month_first)

    monkeypatch.setattr(column_kinds, "parse_date", counted)
    find_kinds({"a": cells}, True)
    assert 0 < len(parsed) <= most


@pytest.mark.parametrize("options", [{"date": ("d",)}, {"weighted": True}])
def test_all_dates_of_a_column_have_one_order(make, read, options):
    reading = Reading(label="y", **options)
    for cells, months in ((("3/4/2024", "13/4/2024"), ()), (("4/3/2024", "4/13/2024"), ("d",))):
        days = [make(name, f"d,y\n{a},a\n{b},b\n") for name, (a, b) in
                (("a.csv", cells), ("b.csv", ("2024-04-03", "2024-04-13")))]  # fmt: skip
        found, expected = (read(path, reading).X for path in days)
        assert (found != expected).nnz == 0
        stored = Source(days[0], reading).reading
        assert (stored.date, stored.month_first) == (("d",), months)
        # A later file is read in the same order, whatever it contains.
        later = read(make("c.csv", f"d,y\n{cells[0]},a\n"), stored).X
        assert (later != expected[:1]).nnz == 0


def test_a_table_is_shown_by_kind(make):
    rows = [f"{i},lib{i}-x,{'red' if i % 2 else 'blue'},{i % 9},2024-01-{i % 28 + 1:02},{i % 3}\n" for i in range(60)]
    path = make("a.csv", f"id,name,colour,n,day,y\n{''.join(rows)}")
    reading = Source(path, Reading(label="y", weighted=True)).reading
    assert (reading.text, reading.categorical, reading.numeric) == (("name",), ("colour",), ("n",))
    assert (reading.date, reading.ignored) == (("day",), ("id",))
    assert (reading.chars, reading.chars_of) == ((2, 4), ("name",))


def test_a_bad_date_is_an_error(make, refused):
    reading = Reading(label="y", date=("d",), weighted=True)
    error = refused(make("a.csv", "d,y\n2024-01-01,a\nsoon,b\n"), reading)
    assert (error.line, error.column) == (3, 1) and "not a date such as" in str(error)
    error = refused(make("a.csv", "d,y\n1/31/2024,a\n31/1/2024,b\n1/13/2024,b\n"), reading)
    assert error.line == 2 and "such as 2024-12-31 or 31/12/2024" in str(error)


def test_a_missing_date_has_no_feature(make, read):
    reading = Reading(label="y", date=("d",))
    X = read(make("a.csv", "d,y\n2024-01-01,a\nNULL,b\nNaT,b\n,b\n"), reading).X
    assert X.indptr.tolist() == [0, 5, 5, 5, 5]
    frame = pd.DataFrame({"d": [pd.Timestamp("2024-01-01"), pd.NaT]})
    for table in (frame, [{"d": date(2024, 1, 1)}, {"d": pd.NaT}]):
        assert (table_rows(table, reading) != X[:2]).nnz == 0


def test_decimal_commas_are_read_as_such(make, read, refused):
    reading = Reading(label="y", numeric=("n",))
    path = make("a.csv", "n;y\n3,5;a\n-2;b\n1,234;b\n")
    assert read(path, reading).X.data.tolist() == pytest.approx([3.5, -2, 1.234])
    stored = Source(path, reading).reading
    assert stored.decimal_comma == ("n",)
    assert read(make("b.csv", "n;y\n1,234;a\n"), stored).X.data.tolist() == pytest.approx([1.234])
    assert table_rows([{"n": "3,5"}, {"n": 3.5}], stored).data.tolist() == [3.5, 3.5]
    assert read(make("b.csv", "n;y\n1.234;a\n"), stored).X.data.tolist() == [1234]
    assert "'1.5' in the numeric column" in str(refused(make("b.csv", "n;y\n1.5;a\n"), stored))
    plain = Source(make("b.csv", "n;y\n3.5;a\n"), reading).reading
    assert plain.decimal_comma == () and "'3,5' in the numeric column" in str(refused(path, plain))


def test_a_few_cells_that_are_no_numbers_are_missing(make, refused):
    text = "".join(f"{i % 7},{i % 3}\n" for i in range(300))
    path = make("a.csv", f"n,y\n{text}about 3,1\nunknown,2\n")
    source = Source(path, Reading(label="y", weighted=True))
    assert (source.reading.numeric, source.reading.mixed) == (("n",), ("n",))
    (chunk,) = source.chunks()
    assert chunk.X.shape[0] == 302 and chunk.X[[299, 300, 301]].indptr.tolist() == [0, 1, 1, 1]
    later = make("b.csv", "n,y\nlots,1\n2,1\n")
    assert next(Source(later, source.reading).chunks()).X.indptr.tolist() == [0, 0, 1]
    assert "too large" in str(refused(make("d.csv", "n,y\n1e39,1\n"), source.reading))
    # In a column that has only numbers at first, others are errors.
    clean = Source(make("c.csv", f"n,y\n{text}"), Reading(label="y", weighted=True)).reading
    assert clean.mixed == () and "'lots' in the numeric column 'n' is not a number" in str(refused(later, clean))


def test_a_table_without_a_usable_column(make, refused):
    error = refused(make("a.csv", "id,y\n" + "".join(f"{i},a\n" for i in range(30))), Reading(label="y", weighted=True))
    assert "no column can be used as it is ('id')" in str(error)


def test_long_names_and_cells():
    """Quadratic time would take hours."""
    name, cells = "_id" * 200_000 + "\n\nx", [f"{i:x}" + "a" * 200_000 + "g" for i in range(30)]
    found = find_kinds({name: DIFFERENT, "code": cells}, True)
    assert name in found["numeric"] and "code" not in found["ignored"]
