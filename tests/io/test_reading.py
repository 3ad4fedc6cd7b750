"""How a file is read, as plain values."""

import json

import pytest

from manyclass.io import Reading


def test_a_reading_survives_json():
    reading = Reading("csv", "several", "text", None, 100, 10, None, "l", ("a", "b"), ("c",), ("d",), ";")
    assert Reading.from_dict(json.loads(json.dumps(reading.to_dict()))) == reading
    reading = Reading(numeric=("a", "b"), date=("d",), decimal_comma=("a",), mixed=(), month_first=("d",))
    assert Reading.from_dict(json.loads(json.dumps(reading.to_dict()))) == reading
    assert Reading.from_dict({}) == Reading()


def test_width():
    assert Reading().width == 2**18 and Reading(n_features=7).width == 7 and Reading(feature_bits=3).width == 8


@pytest.mark.parametrize(
    "values",
    [
        {"format": "xml"}, {"format": 3}, {"labels": "two"}, {"label_kind": "float"}, {"index_base": 2},
        {"index_base": True}, {"n_features": 0}, {"n_features": 1.0}, {"n_features": 2**31}, {"n_features": True},
        {"feature_bits": 0}, {"feature_bits": 31}, {"feature_bits": "18"}, {"feature_bits": None}, {"n_labels": -1},
        {"label": ""}, {"label": 3}, {"text": "title"}, {"text": [3]}, {"numeric": None}, {"label_separator": ""},
        {"text": ["a"], "numeric": ["a"]}, {"label": "a", "text": ["a"]}, {"text": ["a", "a"]}, {"unknown": 1}, {1: 2},
        {"decimal_comma": ["a"]}, {"numeric": ["a"], "mixed": "a"}, {"date": ["d"], "month_first": [["d"]]},
        {"hashed": 0},
    ],
)  # fmt: skip
def test_bad_values_are_refused(values):
    with pytest.raises(ValueError):
        Reading.from_dict(values)


def test_only_a_dict_is_taken():
    with pytest.raises(ValueError, match="must be a dict"):
        Reading.from_dict([])
