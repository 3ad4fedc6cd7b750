"""Kinds of columns, found from their first cells."""

from datetime import UTC, date, datetime

import pytest

from manyclass.io import Reading, Source
from manyclass.io.column_kinds import find_kinds, parse_date

N = 200
NUMBERS = [str(i * i % 37) for i in range(N)]
COLUMNS = {
    "number": (NUMBERS, "numeric"),
    "some numbers": (["NA" if i % 3 else "2.5" for i in range(N)], "numeric"),
    "row": ([str(i + 17) for i in range(N)], "ignored"),
    "customer_id": ([str(i * 7919 % 100_003) for i in range(N)], "ignored"),
    "amount": ([str(i * 7919 % 100_003) for i in range(N)], "numeric"),
    "uuid": ([f"{i:08x}-0000-4000-8000-{i:012x}" for i in range(N)], "ignored"),
    "empty": ([""] * N, "ignored"),
    "tags": ([["a", "b"]] * N, "ignored"),
    "flag": (["yes", "no"] * (N // 2), "categorical"),
    "truth": ([True, False] * (N // 2), "categorical"),
    "colour": (["red", "green", "dark blue"] * (N // 3), "categorical"),
    "day": ([f"2024-{i % 12 + 1:02}-11" for i in range(N)], "date"),
    "moment": ([f"2024-05-11T10:{i % 60:02}:00Z" for i in range(N)], "date"),
    "german": ([f"{i % 28 + 1:02}.11.2024" for i in range(N)], "date"),
    "name": ([f"lib{i}-perl" for i in range(N)], "text"),
    "title": ([f"the red book number {i}" for i in range(N)], "text"),
    "phrase": (["one of three phrases", "two of three phrases", "all of three phrases"] * (N // 3), "categorical"),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_kinds(name):
    cells, kind = COLUMNS[name]
    kinds, short = find_kinds({name: cells}, True)
    assert {kind: names for kind, names in kinds.items() if names} == {kind: [name]}
    assert short == (["name"] if name == "name" else [])


def test_without_weights_there_are_three_kinds():
    kinds, short = find_kinds({name: cells for name, (cells, _) in COLUMNS.items()}, False)
    assert not kinds["date"] and not kinds["ignored"] and not short
    assert "some numbers" in kinds["categorical"]


def test_few_rows_have_no_ids():
    assert find_kinds({"n": ["1", "2", "3"]}, True)[0]["numeric"] == ["n"]


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("2024-02-29", datetime(2024, 2, 29, tzinfo=UTC)),
        ("2024-02-29 12:30", datetime(2024, 2, 29, 12, 30, tzinfo=UTC)),
        ("2024-02-29T12:30:00+00:00", datetime(2024, 2, 29, 12, 30, tzinfo=UTC)),
        ("29.02.2024", datetime(2024, 2, 29, tzinfo=UTC)),
        ("12/31/2024", datetime(2024, 12, 31, tzinfo=UTC)),
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


def test_a_table_without_a_usable_column(make, refused):
    error = refused(make("a.csv", "id,y\n" + "".join(f"{i},a\n" for i in range(30))), Reading(label="y", weighted=True))
    assert "no column can be used as it is ('id')" in str(error)
