"""`manyclass predict`: the best labels of each row, as lines on standard output or as a file."""

import json
import math
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError

from ..core.base import algorithm_of
from ..core.protocol import Predictions
from ..core.taxonomy import JOINT
from ..io import Source
from ..io.errors import optional_module
from ..trained import Trained, open_model
from .files import check_writable, named_format, open_source, replaced_data, table_text, unknown_features
from .messages import CommandError, note, note_written, notice_if_slow, printable, warn

_FORMATS = ("tsv", "csv", "jsonl", "parquet", "svmlight")
_TABLES = ("tsv", "csv", "parquet")
_FORMULAS = ("=", "+", "-", "@")
_NONLINEAR = ("lom-tree", "mlom-tree")  # scores depend on the leaf only, and many rows have the same


class Plan(SimpleNamespace):
    """The options of the command, as `predict` in `main.py` declares them."""

    @property
    def format(self) -> str:
        """The format of the output."""
        return self.output_format or named_format(self.output or "") or ("jsonl" if self.sets else "tsv")


class Row(NamedTuple):
    """The predictions of a row."""

    kept: tuple  # cells of the data file
    classes: Any  # class numbers; with --path, the text of the path
    scores: np.ndarray
    note: str


def run(**options: Any) -> None:
    """Predict all rows."""
    plan = Plan(**options)
    _check(plan)
    trained = open_model(plan.model, plan.threads)
    source = open_source(plan.data, plan.reading, trained.reading, labelled=False, keep=plan.keep or ())
    layout = Layout(plan, trained, source)
    n_noted, n_full, empty = 0, 0, dict(enumerate(layout.kept))  # columns without a cell so far
    with _writer(plan, layout) as write:
        for chunk in source.chunks():
            rows = list(_rows(trained, chunk, plan, layout.note))
            n_noted += sum(bool(row.note) for row in rows)
            n_full += sum(len(row.scores) == layout.k < layout.n_classes for row in rows)
            empty = {place: name for place, name in empty.items() if all(row.kept[place] is None for row in rows)}
            write(rows)
    if source.n_skipped:
        note(f"manyclass: skipped {source.n_skipped} bad lines of {plan.data}")
    warn(unknown_features(source))
    if empty and source.n_rows:
        note(f"manyclass: no row has a value of {', '.join(empty.values())}.")
    if n_full and plan.threshold is not None:
        more = f"have {layout.k} labels above the threshold, and perhaps more: use a larger --top-k"
        warn([f"{n_full:,} of {source.n_rows:,} rows {more}."])
    if n_noted:
        rest = "They are predicted as an empty row is."
        note(f"manyclass: {n_noted:,} of {source.n_rows:,} rows have {layout.note}. {rest}")
    note_written(plan.output)


def _check(plan: Plan) -> None:
    """Reject options that do not fit together before any work is done."""
    if plan.format not in _FORMATS:
        raise CommandError(f"--output {plan.output}: predictions are written as {', '.join(_FORMATS)}: add --format.")
    if plan.spreadsheet_safe and plan.format not in ("tsv", "csv"):
        raise CommandError("--spreadsheet-safe applies to --format tsv and csv only.")
    if plan.keep and plan.format == "svmlight":
        raise CommandError("svmlight files have no columns: use another --format, or omit --keep.")
    if plan.path is not None:
        if plan.threshold is not None:
            raise CommandError("--path has a confidence of its own: omit --threshold.")
        if plan.format == "svmlight":
            raise CommandError("svmlight files have no place for paths: use another --format, or omit --path.")
    if plan.sets:
        if plan.threshold is not None or plan.path is not None:
            raise CommandError("--set has a threshold of its own: omit --threshold and --path.")
        if plan.format != "jsonl":
            raise CommandError("sets have any number of labels, which only JSON lines can hold: use --format jsonl.")
    if plan.output is None:
        if plan.format == "parquet":
            raise CommandError("--format parquet requires --output FILE.")
        return
    check_writable(plan.output, plan.data, plan.model)


# -- predictions ---------------------------------------------------------------------------------------------------


def _rows(trained: Trained, chunk: Any, plan: Plan, remark: str) -> Iterator[Row]:
    clf, X = trained.estimator, chunk.X
    k = min(plan.top_k, clf._index.n_current)
    with notice_if_slow():
        found = clf._predict(X, k)
        unknown = _is_unknown(clf, X, found)
        if plan.path is not None:
            pairs: Any = _paths(clf, X, plan.path)
        elif plan.sets:
            pairs = _sets(clf, X)
        elif plan.probabilities or plan.threshold is not None:
            pairs = _with_probabilities(clf, X, found, plan.threshold)
        else:
            pairs = zip(found.labels, found.scores, strict=True)
    for number, (classes, scores) in enumerate(pairs):
        yield Row(chunk.kept[number] if chunk.kept else (), classes, scores, remark if unknown[number] else "")


def _with_probabilities(
    clf: Any, X: Any, found: Predictions, threshold: float | None
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Classes and probabilities of the predictions of each row that were scored, above the threshold."""
    probabilities = clf._probabilities_of(X, found.labels)
    kept = found.scores > -np.inf
    if threshold is not None:
        kept &= probabilities > threshold
    for classes, values, own in zip(found.labels, probabilities, kept, strict=True):
        yield classes[own], values[own]


def _sets(clf: Any, X: Any) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Classes and probabilities before calibration of the set of each row, best first."""
    try:
        for scored in clf._sets(X):
            ends = np.cumsum(scored.sizes)
            for begin, end in zip(ends - scored.sizes, ends, strict=True):
                best = begin + np.argsort(-scored.probabilities[begin:end], kind="stable")
                yield scored.labels[best], scored.probabilities[best]
    except NotFittedError as error:
        raise CommandError(f"--set: {error}") from error


def _paths(clf: Any, X: Any, confidence: float) -> Iterator[tuple[list[str], np.ndarray]]:
    """The path of each row as a text, and its probability."""
    try:
        found = clf.predict_path(X, confidence)
    except (AttributeError, ValueError) as error:  # no taxonomy, or several labels per row
        raise CommandError(f"--path: {error}") from error
    for path, probability in zip(found.paths, found.probabilities, strict=True):
        yield ([JOINT.join(path)], np.array([probability])) if path else ([], np.empty(0))


def _is_unknown(clf: Any, X: Any, found: Any) -> np.ndarray:
    """Whether a row has no feature that the model knows: it gets the same scores as a row without features."""
    out = np.diff(X.indptr) == 0
    if algorithm_of(clf) not in _NONLINEAR:
        empty = clf._predict(sp.csr_array((1, X.shape[1]), dtype=np.float32), found.labels.shape[1])
        out |= (found.labels == empty.labels).all(axis=1) & (found.scores == empty.scores).all(axis=1)
    return out


# -- output --------------------------------------------------------------------------------------------------------


class Layout:
    """The columns of the output."""

    def __init__(self, plan: Plan, trained: Trained, source: Source) -> None:
        self.trained, self.paths = trained, plan.path is not None
        self.n_classes = trained.estimator._index.n_current
        self.k = 1 if self.paths else min(plan.top_k, self.n_classes)
        self.note = "no known word" if source.reading.text else "no known feature"
        self.kept, self.safe = list(plan.keep or []), plan.spreadsheet_safe
        self.notes = ["note"] if source.reading.text else []  # its column
        plain = plan.threshold is None and not plan.probabilities and not self.paths
        score = "score" if plain else "probability"
        places = [""] if self.k == 1 else [f"_{place}" for place in range(1, self.k + 1)]
        predicted = [f"{name}{place}" for place in places for name in ("predicted", score)]
        own = [*predicted, *self.notes] if plan.format in _TABLES else ["labels", "scores", "note"]
        for name in self.kept:
            if name in own or self.kept.count(name) > 1:
                raise CommandError(f"--keep {name}: the output would have two columns {name}; rename it in the data.")
        self.names = [*self.kept, *own]

    def labels(self, row: Row) -> list[Any]:
        """The labels of a row, or its path."""
        return row.classes if self.paths else self.trained.labels(row.classes)

    def cells(self, row: Row) -> list[Any]:
        """The cells of a row of a table; None where there is no label."""
        pairs = zip(self.labels(row), row.scores.tolist(), strict=True)
        predicted = [cell for pair in pairs for cell in pair]
        predicted += [None] * (2 * self.k - len(predicted))
        return [*row.kept, *predicted, *(row.note or None for _ in self.notes)]

    def texts(self, row: Row) -> list[str]:
        """The cells as texts, scores with six digits."""
        out = [self._text(cell) for cell in self.cells(row)]
        for place, score in enumerate(row.scores.tolist()):
            out[len(self.kept) + 2 * place + 1] = f"{score:.6g}"
        return out

    def _text(self, cell: Any) -> str:
        if cell is None:
            return ""
        text = json.dumps(cell, default=str) if isinstance(cell, bool | list | dict) else str(cell)
        return f"'{text}" if self.safe and text.startswith(_FORMULAS) else text


@contextmanager
def _writer(plan: Plan, layout: Layout) -> Iterator[Callable[[Sequence[Row]], None]]:
    """A function that writes rows. A file appears under its name when it is complete."""
    with nullcontext() if plan.output is None else replaced_data(plan.output) as file:
        if plan.format == "parquet":
            with _parquet_writer(layout, file) as write:
                yield write
            return

        def put(text: str) -> None:
            text = text.encode(errors="backslashreplace").decode()  # half characters of JSON cells
            if file is not None:
                file.write(text.encode())
            else:
                sys.stdout.write(printable(text, sys.stdout))
                sys.stdout.flush()

        try:
            if plan.header and plan.format in ("tsv", "csv"):
                put(table_text([layout.names], plan.format))
            if plan.format in ("tsv", "csv"):
                yield lambda rows: put(table_text(map(layout.texts, rows), plan.format))
            else:
                line = _jsonl if plan.format == "jsonl" else _svmlight
                yield lambda rows: put("".join(line(layout, row) for row in rows))
        except BrokenPipeError:  # the reader, such as head, has closed the pipe
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _jsonl(layout: Layout, row: Row) -> str:
    found = {"labels": layout.labels(row), "scores": row.scores.tolist(), **({"note": row.note} if row.note else {})}
    kept = dict(zip(layout.kept, row.kept, strict=True))
    text = json.dumps({**kept, **found}, ensure_ascii=False, default=str)
    if "NaN" in text or "Infinity" in text:  # JSON has no such numbers
        text = json.dumps(json.loads(text, parse_constant=lambda _: None), ensure_ascii=False)
    return text + "\n"


def _svmlight(layout: Layout, row: Row) -> str:
    numbers = layout.trained.label_numbers[row.classes].tolist()
    pairs = sorted((number, score) for number, score in zip(numbers, row.scores, strict=True) if math.isfinite(score))
    return " ".join([*map(str, numbers[:1]), *(f"{number}:{score:.6g}" for number, score in pairs)]) + "\n"


@contextmanager
def _parquet_writer(layout: Layout, file: Any) -> Iterator[Callable[[Sequence[Row]], None]]:
    """A function that writes rows; the first ones determine the types of the columns."""
    arrow, parquet = optional_module("pyarrow"), optional_module("pyarrow.parquet")
    numbers = not layout.paths and layout.trained.names is None and layout.trained.estimator.classes_.dtype.kind in "iu"
    label = arrow.int64() if numbers else arrow.string()
    types = [None] * len(layout.kept) + [label, arrow.float64()] * layout.k + [arrow.string()] * len(layout.notes)
    writer: Any = None

    def write(rows: Sequence[Row]) -> None:
        nonlocal writer
        columns = list(zip(*map(layout.cells, rows), strict=True)) or [()] * len(types)
        try:
            kinds = writer.schema.types if writer else types
            arrays = [arrow.array(cells, kind) for cells, kind in zip(columns, kinds, strict=True)]
        except (arrow.ArrowException, OverflowError) as error:
            raise CommandError(f"--keep: a column does not have one type ({error}); use --format jsonl.") from error
        arrays = [array.cast(arrow.string()) if arrow.types.is_null(array.type) else array for array in arrays]
        batch = arrow.RecordBatch.from_arrays(arrays, names=layout.names)
        if writer is None:
            writer = parquet.ParquetWriter(file, batch.schema)
        writer.write_batch(batch)

    yield write
    if writer is None:
        write([])
    writer.close()
