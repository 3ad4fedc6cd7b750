"""Predictions of tables with Dask, Ray and Spark: those of the model itself."""

import os
import sys

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from manyclass import LabelTreeClassifier
from manyclass.distributed import DaskLabelTreeClassifier, TopK


@pytest.fixture(scope="module")
def model(text):
    X, y = text
    return LabelTreeClassifier(random_state=0, n_epochs=2, beam=3).fit(X[:3000], y[:3000])


@pytest.fixture(scope="module")
def path(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "slim.model"
    model.save(path, slim=True)
    return path


@pytest.fixture(scope="module")
def frame(text):
    """Rows as a table: a number, and lists of features and values."""
    X = text[0][:50]
    lists = {name: np.split(array, X.indptr[1:-1]) for name, array in (("indices", X.indices), ("values", X.data))}
    return pd.DataFrame({"id": np.arange(50), **{name: [one.tolist() for one in own] for name, own in lists.items()}})


def assert_same(frame, model, text, k=3):
    labels, scores = model.predict_topk(text[0][:50], k)
    frame = frame.sort_values("id")
    assert np.stack(frame["labels"].to_list()).tolist() == labels.tolist()
    np.testing.assert_array_equal(np.stack(frame["scores"].to_list()), scores)


def test_arrow_tables_and_batches(model, path, frame, text):
    predict, table = TopK(path, k=3, keep=["id"]), pa.Table.from_pandas(frame)
    assert_same(predict(table).to_pandas(), model, text)
    parts = table.to_batches(max_chunksize=20)
    assert len(parts) == 3
    assert_same(pa.Table.from_batches(predict.batches(iter(parts))).to_pandas(), model, text)
    empty = predict(table.slice(0, 0))
    assert empty.schema.equals(predict(table).schema) and empty.num_rows == 0


def test_dask_data_frames(client, model, path, frame, text):
    predict = TopK(path, k=3, keep=["id"])
    with dask.config.set({"dataframe.convert-string": False}):  # else lists become text
        parts = dd.from_pandas(frame, npartitions=3)
    assert_same(parts.map_partitions(predict, meta=predict(frame.iloc[:0])).compute(), model, text)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"indices": [[1, 2]], "values": [[0.5]]}, "lists of different length"),
        ({"features": [[0.5, 1.0]]}, "Row 0 of the column features has 2 values, not 400"),
        ({"indices": [[1, None]], "values": [[0.5, 1.0]]}, "contain nulls"),
        ({"values": ["text"], "indices": [[1]]}, "must contain a list"),
        ({"title": ["some text"]}, "has the columns title"),
    ],
)
def test_tables_that_do_not_fit(path, columns, message):
    with pytest.raises(ValueError, match=message):
        TopK(path)(pa.table(columns))


def test_arrays_that_do_not_fit(client, model, text):
    trained = DaskLabelTreeClassifier(client, random_state=0, n_epochs=2, beam=3)
    trained._local = model
    X = da.from_array(text[0][:50].toarray(), chunks=(20, 100))  # blocks of columns are joined
    np.testing.assert_array_equal(trained.predict(X).compute(), model.predict(text[0][:50]))
    np.testing.assert_array_equal(trained.predict_topk(X, 2)[0].compute(), model.predict_topk(text[0][:50], 2)[0])
    for rows, kind, message in (
        ([X], TypeError, "X must be a Dask array, got list"),
        (X[:, 0], ValueError, "must have two dimensions"),
        (X[:, :300], ValueError, "X has 300 features, the model has 400"),
    ):
        for method in (trained.predict, trained.predict_topk):
            with pytest.raises(kind, match=message):
                method(rows)


def test_options_of_tables(path, frame):
    with pytest.raises(ValueError, match="k must be"):
        TopK(path, k=0)
    with pytest.raises(ValueError, match="keep has columns that the table does not have: name"):
        TopK(path, keep=["id", "name"])(pa.Table.from_pandas(frame))
    assert TopK(path, keep="id")(pa.Table.from_pandas(frame)).column_names == ["id", "labels", "scores"]


@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
def test_spark(model, path, frame, text, monkeypatch):
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)  # else the first python3 of the system
    pyspark = pytest.importorskip("pyspark.sql", reason="requires: pip install pyspark, and a Java runtime")
    try:
        builder = pyspark.SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
        session = builder.config("spark.sql.shuffle.partitions", "1").getOrCreate()
    except Exception as error:
        pytest.skip(f"Spark does not start: {error}")
    try:
        records = list(frame.itertuples(index=False, name=None))
        rows = session.createDataFrame(records, "id long, indices array<int>, values array<float>").repartition(2)
        schema = "id long, labels array<string>, scores array<double>"
        found = rows.mapInArrow(TopK(path, k=3, keep=["id"]).batches, schema).collect()
    finally:
        session.stop()
    assert_same(pd.DataFrame(found, columns=["id", "labels", "scores"]), model, text)


@pytest.mark.filterwarnings("ignore")  # Ray warns of its own functions
def test_ray(model, path, frame, text):
    ray = pytest.importorskip("ray", reason="requires: pip install 'ray[data]'")
    data = pytest.importorskip("ray.data", reason="requires: pip install 'ray[data]'")
    try:
        environment = {"env_vars": {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}}
        ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, runtime_env=environment)
    except Exception as error:
        pytest.skip(f"Ray does not start: {error}")
    try:
        rows = data.from_arrow(pa.Table.from_pandas(frame))
        found = rows.map_batches(TopK(path, k=3, keep=["id"]), batch_format="pyarrow", batch_size=20).to_pandas()
    finally:
        ray.shutdown()
    assert_same(found, model, text)


def test_a_file_that_was_replaced(tmp_path):
    X, path = np.eye(8, dtype=np.float32), tmp_path / "m.model"
    table = pa.table({"features": X.tolist()})
    for names in ("abcdefgh", "stuvwxyz"):
        LabelTreeClassifier(random_state=0).fit(X, list(names)).save(path)
        assert [labels[0] for labels in TopK(path, k=1)(table)["labels"].to_pylist()] == list(names)


def test_names_of_several_labels_per_row(tmp_path):
    X = np.eye(8, dtype=np.float32)
    LabelTreeClassifier(random_state=0).fit(X, pd.DataFrame(X, columns=list("abcdefgh"))).save(tmp_path / "m.model")
    found = TopK(tmp_path / "m.model", k=1)(pa.table({"features": X.tolist()}))
    assert [labels[0] for labels in found["labels"].to_pylist()] == list("abcdefgh")
    assert TopK(tmp_path / "m.model")(found.slice(0, 0))["labels"].type == pa.list_(pa.string())
