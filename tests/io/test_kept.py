"""Cells of tables that are returned as they are."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from manyclass.io import DataError, Reading, Source

N = 3000
ROWS = [{"id": f"r{i}", "text": f"word{i % 7} and\nmore", "kind": "ab"[i % 2]} for i in range(N)]


@pytest.fixture(params=["csv", "tsv", "jsonl", "parquet"])
def path(request, tmp_path):
    path = tmp_path / f"d.{request.param}"
    if request.param == "parquet":
        pq.write_table(pa.Table.from_pylist(ROWS), path)
    elif request.param == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    else:
        delimiter = "," if request.param == "csv" else "\t"
        lines = [delimiter.join(f'"{cell}"' for cell in row.values()) for row in ROWS]
        path.write_text("\n".join([delimiter.join(ROWS[0]), *lines]) + "\n")
    return path


@pytest.mark.parametrize("size", [1, 700, 10_000])
def test_cells_stay_with_their_rows(path, size):
    reading = Reading(label="kind", text=("text",), feature_bits=8)
    source = Source(path, reading, keep=["id", "text"])
    chunks = list(source.chunks(size)) if size > 1 else [next(source.chunks(size))]
    assert all(len(chunk.kept) == chunk.X.shape[0] == len(chunk.labels) for chunk in chunks)
    kept = [cells for chunk in chunks for cells in chunk.kept]
    assert kept == [(row["id"], row["text"]) for row in ROWS[: len(kept)]] and len(kept) in (1, N)
    assert [label for chunk in chunks for label in chunk.labels] == [row["kind"] for row in ROWS[: len(kept)]]
    assert next(Source(path, reading).chunks()).kept == ()


def test_columns_to_keep_must_exist(path):
    source = Source(path, Reading(label="kind", text=("text",)), keep=["nothing"])
    if path.suffix == ".jsonl":  # a missing key is an empty cell
        assert next(source.chunks()).kept[0] == (None,)
    else:
        with pytest.raises(DataError, match="there is no column 'nothing'"):
            next(source.chunks())


def test_only_tables_have_columns(tmp_path):
    Path(tmp_path / "d.svm").write_text("1 1:1\n")
    with pytest.raises(DataError, match="svmlight files have no columns to keep"):
        Source(tmp_path / "d.svm", keep=["id"])
