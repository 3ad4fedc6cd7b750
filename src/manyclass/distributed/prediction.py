"""Predictions on many machines: blocks of Dask arrays, and one function of Arrow tables for Dask, Ray and Spark."""

import os
from collections.abc import Iterable, Iterator
from functools import lru_cache
from os import PathLike, fspath
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..core.options import check_integer
from ..estimators import load_model

try:
    import pyarrow as pa
except ImportError as error:
    raise ImportError("Predictions of tables require pyarrow: pip install 'manyclass[dask]'.") from error


def predict_blocks(model: Any, X: Any) -> Any:
    """The best label of each row of a Dask array."""
    if model._multilabel:
        raise ValueError("predict returns one label per row; the model has several: use predict_topk.")
    from dask import delayed

    X = _whole_rows(X, model)
    return X.map_blocks(_predict, delayed(model), dtype=model.classes_.dtype, drop_axis=1, meta=model.classes_[:0])


def topk_blocks(model: Any, X: Any, k: int | None) -> tuple[Any, Any]:
    """The k best labels and their scores, as two Dask arrays."""
    import dask.array as da
    from dask import delayed

    X = _whole_rows(X, model)
    k = model._check_k(min(5, model._index.n_current) if k is None else k)
    shared, found = delayed(model), []
    blocks = [delayed(_topk, nout=2)(block, shared, k) for block in X.to_delayed().ravel()]
    for item, dtype in ((0, model.classes_.dtype), (1, np.dtype(float))):
        parts = [da.from_delayed(block[item], (n, k), dtype) for block, n in zip(blocks, X.chunks[0], strict=True)]
        found.append(da.concatenate(parts))
    return found[0], found[1]


def _whole_rows(X: Any, model: Any) -> Any:
    """A Dask array whose blocks contain whole rows of the model's width."""
    if not hasattr(X, "map_blocks") or not hasattr(X, "numblocks"):
        raise TypeError(
            f"X must be a Dask array, got {type(X).__name__}. Use frame.to_dask_array() for a data frame, TopK for "
            "tables, and to_local().predict for data in memory."
        )
    if X.ndim != 2:
        raise ValueError(f"X must have two dimensions, got {X.ndim}.")
    if X.shape[1] != model.n_features_in_ and not np.isnan(X.shape[1]):
        raise ValueError(f"X has {X.shape[1]} features, the model has {model.n_features_in_}.")
    return X if X.numblocks[1] == 1 else X.rechunk({1: -1})


def _predict(block: Any, model: Any) -> np.ndarray:
    return model.predict(block)


def _topk(block: Any, model: Any, k: int) -> tuple[np.ndarray, np.ndarray]:
    return model.predict_topk(block, k)


def _model_at(path: str) -> Any:
    """The model of a file, mapped once per process; processes of one machine share its memory."""
    found = os.stat(path)
    return _mapped(path, (found.st_ino, found.st_mtime_ns, found.st_size))


@lru_cache(maxsize=4)
def _mapped(path: str, state: tuple[int, ...]) -> Any:
    """The model of a file; a file that was replaced has another `state`, so it is loaded again."""
    return load_model(path)


class TopK:
    """A function that adds the k best labels to tables, for Dask, Ray and Spark.

    Only the name of the model file is sent to the workers. They map the file when they get their first rows. Save the
    model with `slim=True` in a folder that all workers can read.

    Parameters
    ----------
    path : str or path-like
        A model file.
    k : int, default=5
        Number of labels.
    keep : str or sequence of str, default=()
        Columns of the input that the result keeps, such as a row number.

    Notes
    -----
    A table has either the columns `indices` and `values`, lists with the features of a sparse row, or the column
    `features`, a list with a dense row. For a model of the command line, it has the columns of its training table.

    The result has the columns in `keep`, `labels` (a list of texts, or of numbers if the labels are) and `scores`, best
    first.

    Examples
    --------
    >>> import os, tempfile
    >>> import pyarrow as pa
    >>> from sklearn.datasets import load_digits
    >>> from manyclass import LabelTreeClassifier
    >>> from manyclass.distributed import TopK
    >>> X, y = load_digits(return_X_y=True)
    >>> path = os.path.join(tempfile.mkdtemp(), "digits.model")
    >>> LabelTreeClassifier(random_state=0).fit(X, y).save(path, slim=True)
    >>> table = TopK(path, k=2)(pa.table({"features": X[:3].tolist()}))
    >>> table.column_names, [labels[0] for labels in table["labels"].to_pylist()]
    (['labels', 'scores'], [0, 1, 2])

    With Dask, Ray and Spark::

        frame.map_partitions(TopK(path), meta={"labels": object, "scores": object})         # a Dask data frame
        dataset.map_batches(TopK(path), batch_format="pyarrow")               # Ray Data
        frame.mapInArrow(TopK(path).batches, "labels array<long>, scores array<double>")    # Spark
    """

    def __init__(self, path: str | PathLike, k: int = 5, keep: str | Iterable[str] = ()) -> None:
        self.path, self.k = fspath(path), check_integer("k", k)
        self.keep = (keep,) if isinstance(keep, str) else tuple(keep)

    def __call__(self, table: Any) -> Any:
        """The predictions of a table: Arrow for an Arrow table or batch, else a pandas data frame."""
        arrow = isinstance(table, (pa.Table, pa.RecordBatch))
        out = self._predict(table if arrow else pa.Table.from_pandas(table, preserve_index=False))
        return out if arrow else out.to_pandas().set_axis(table.index)

    def batches(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The predictions of record batches, for `mapInArrow` of Spark."""
        for batch in batches:
            yield from self._predict(batch).to_batches()

    def _predict(self, table: pa.Table | pa.RecordBatch) -> pa.Table:
        model = _model_at(self.path)
        missing = [name for name in self.keep if name not in table.schema.names]
        if missing:
            raise ValueError(f"keep has columns that the table does not have: {', '.join(missing)}.")
        kept = {name: table.column(name) for name in self.keep}
        names = model.label_names_  # of several labels per row
        n, number = table.num_rows, names is None and model.classes_.dtype.kind in "iu"
        kind = pa.int64() if number else pa.string()
        labels, scores = np.empty((0, self.k), object), np.empty((0, self.k))
        if n:
            labels, scores = model.predict_topk(_rows(table, model), min(self.k, model._index.n_current))
            labels = labels if names is None else np.array(names, object)[labels]
        ends = np.arange(n + 1) * labels.shape[1]
        flat = pa.array(labels.ravel() if number or not n else [str(label) for label in labels.ravel()], kind)
        columns = {
            "labels": pa.ListArray.from_arrays(pa.array(ends, pa.int32()), flat),
            "scores": pa.ListArray.from_arrays(pa.array(ends, pa.int32()), pa.array(scores.ravel(), pa.float64())),
        }
        return pa.table({**kept, **columns})


def _rows(table: pa.Table | pa.RecordBatch, model: Any) -> Any:
    """The rows of a table as the model takes them."""
    names, n, width = table.schema.names, table.num_rows, model.n_features_in_
    if "indices" in names and "values" in names:
        ends, indices = _lists(table, "indices")
        other, values = _lists(table, "values")
        if not np.array_equal(ends, other):
            raise ValueError("The columns indices and values have lists of different length in some row.")
        return sp.csr_array((values.astype(np.float32), indices, ends), shape=(n, width))
    if "features" in names:
        ends, values = _lists(table, "features")
        if (np.diff(ends) != width).any():
            row = int(np.flatnonzero(np.diff(ends) != width)[0])
            raise ValueError(f"Row {row} of the column features has {ends[row + 1] - ends[row]} values, not {width}.")
        return values.reshape(n, width)
    if model._extra.get("reading") is None:
        raise ValueError(
            f"The table has the columns {', '.join(names)}: this model takes indices and values (sparse rows) or "
            "features (dense rows). Only models of the command line and of save_pipeline take texts."
        )
    return (table if isinstance(table, pa.Table) else pa.Table.from_batches([table])).to_pandas()


def _lists(table: pa.Table | pa.RecordBatch, name: str) -> tuple[np.ndarray, np.ndarray]:
    """(where each list begins and the last one ends, all values) of a column of lists."""
    column = table.column(name)
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if column.null_count or not (pa.types.is_list(column.type) or pa.types.is_large_list(column.type)):
        raise ValueError(
            f"The column {name} must contain a list in every row, without nulls; it is {column.type}. Dask converts "
            "lists to text unless its option dataframe.convert-string is False."
        )
    values = column.flatten()
    if values.null_count:
        raise ValueError(f"The lists of the column {name} contain nulls.")
    ends = np.asarray(column.offsets)
    return ends - ends[0], values.to_numpy(zero_copy_only=False)
