"""MLflow, pickle, joblib and skops."""

import pickle

import joblib
import numpy as np
import pandas as pd
import pytest

from manyclass import LabelTreeClassifier, load_model
from manyclass.core.state import flatten
from manyclass.mlflow import _TopK


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 10)).astype(np.float32)
    y = np.arange(200) % 4
    X[np.arange(200), y] += 4
    return LabelTreeClassifier(random_state=0).fit(X, y), X


@pytest.mark.filterwarnings("ignore")  # of MLflow's own modules
def test_mlflow(model_file, tmp_path):
    pytest.importorskip("mlflow", reason="requires: pip install 'manyclass[mlflow]'")
    import mlflow

    import manyclass.mlflow

    model = load_model(model_file)
    manyclass.mlflow.save_model(model, tmp_path / "saved", k=2)
    assert sorted(path.name for path in (tmp_path / "saved").iterdir() if path.suffix == ".safetensors")
    assert not [path for path in (tmp_path / "saved").rglob("*") if path.suffix in (".pkl", ".pickle", ".joblib")]
    again = manyclass.mlflow.load_model(str(tmp_path / "saved"))
    assert again.predict(["dog cat"]).tolist() == ["animal"]
    loaded = mlflow.pyfunc.load_model(str(tmp_path / "saved"))
    table = loaded.predict(["dog cat", "piano"])
    assert list(table.columns) == ["label_1", "score_1", "label_2", "score_2"]
    assert table["label_1"].tolist() == ["animal", "music"]
    assert list(loaded.predict(["dog cat"], params={"k": 1}).columns) == ["label_1", "score_1"]
    other = mlflow.pyfunc.load_model(str(tmp_path / "saved"), model_config={"k": 1})
    assert list(other.predict(["dog cat"]).columns) == ["label_1", "score_1"]
    with pytest.raises(FileExistsError, match="not empty"):
        manyclass.mlflow.save_model(model, tmp_path / "saved")


def test_mlflow_finds_columns_by_name():
    """Those of a table may come in another order."""
    X, y = np.eye(4, dtype=np.float32).repeat(10, axis=0), np.arange(4).repeat(10)
    table = pd.DataFrame(X, columns=list("abcd"))
    loaded = _TopK(LabelTreeClassifier(random_state=0).fit(table, y), 1)
    assert loaded.predict(table[list("dbca")])["label_1"].tolist() == y.tolist()
    with pytest.raises(KeyError, match="'a'"):
        loaded.predict(table[list("bcd")])


def test_pickle_and_joblib(fitted, tmp_path):
    model, X = fitted
    expected = model.predict_topk(X, 2)
    joblib.dump(model, tmp_path / "m.joblib")
    before = (tmp_path / "m.joblib").read_bytes()
    mapped = joblib.load(tmp_path / "m.joblib", mmap_mode="r")
    assert all(array.flags.writeable for array in flatten(mapped._state).values())  # as arrays that are not mapped
    for again in (pickle.loads(pickle.dumps(model)), joblib.load(tmp_path / "m.joblib"), mapped):
        assert all(np.array_equal(a, b) for a, b in zip(again.predict_topk(X, 2), expected, strict=True))
        again.partial_fit(X[:5], np.full(5, 9))
        assert 9 in again.classes_
    assert (tmp_path / "m.joblib").read_bytes() == before


def test_skops(fitted, tmp_path):
    skops = pytest.importorskip("skops.io", reason="requires: pip install skops")
    model, X = fitted
    skops.dump(model, tmp_path / "m.skops")
    unknown = skops.get_untrusted_types(file=tmp_path / "m.skops")
    assert all(name.startswith("manyclass.") for name in unknown), unknown
    assert np.array_equal(skops.load(tmp_path / "m.skops", trusted=unknown).predict(X), model.predict(X))
