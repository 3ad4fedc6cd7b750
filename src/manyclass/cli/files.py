"""Models and data as the commands see them: a model remembers how its data were read."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from .. import load_model
from ..core.model_file import ModelFormatError
from ..io import FORMATS, Chunk, Reading, Source, known_format
from .errors import CommandError

_TABLES = ("csv", "tsv", "jsonl", "parquet")
_FAMILIES = (_TABLES, ("svmlight", "xmc"), ("vw",))  # formats whose features mean the same
_TABLE_OPTIONS = ("label", "text", "numeric", "categorical", "label_separator")
MOST_COLUMNS = 4_000_000  # of a label matrix that are made without having been seen
# The names of options on the command line and in a Reading.
_RENAMED = {"input_format": "format", "features": "n_features"}


@dataclass
class Trained:
    """An estimator with what its data were like."""

    estimator: Any
    reading: Reading
    names: list[str] | None = None  # several labels a row: the label of each column; None: columns are labels
    training: dict[str, Any] = field(default_factory=dict)  # how far training came, and with which options

    def save(self, path: str, slim: bool = False, prune: float = 0.0, precision: str = "float32") -> None:
        """Write it with all that is known."""
        self.estimator._extra = {"reading": self.reading.to_dict(), "training": self.training}
        self.estimator._names = self.names
        self.estimator.save(path, slim, prune, precision)

    @cached_property
    def numbers(self) -> np.ndarray:
        """A number for each class: the label itself where all are numbers from 0, else its place in the model."""
        classes = self.estimator.classes_
        if self.names and all(name.isdecimal() for name in self.names):
            return np.array([int(name) for name in self.names])
        numbers = self.names is None and classes.dtype.kind in "iu" and classes.min() >= 0
        return classes if numbers else np.arange(len(classes))

    def label(self, column: Any) -> Any:
        """What the user calls a label of `classes_`."""
        return column if self.names is None else self.names[column]


def open_model(path: str, verify: bool = True) -> Trained:
    """A model file; one saved from Python reads svmlight, xmc and VW files with as many features as it has."""
    estimator = load_model(path, verify=verify)
    extra = estimator._extra
    try:
        several = bool(getattr(estimator, "_multilabel", False))
        text = not several and isinstance(estimator.classes_[0], str)
        made_here = Reading(
            n_features=estimator.n_features_in_,
            labels="several" if several else "one",
            label_kind="text" if text else "int",
        )
        reading = Reading.from_dict(extra["reading"]) if "reading" in extra else made_here
        names, training = estimator._names, extra.get("training", {})
        if not isinstance(training, dict) or reading.width != estimator.n_features_in_:
            raise ValueError("labels, features or training do not fit the model")
    except (TypeError, ValueError, KeyError) as error:
        raise ModelFormatError(f"{path}: what the model remembers of its data is broken ({error}).") from error
    return Trained(estimator, reading, names, training)


def asked_reading(asked: dict[str, Any], base: Reading | None = None) -> Reading:
    """A Reading from the options given, on top of what the model remembers."""
    given = {_RENAMED.get(name, name): value for name, value in asked.items() if name != "skip_bad_lines"}
    given = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
    base = base or Reading()
    if "format" in given and given["format"] not in FORMATS:
        raise CommandError(f"--input-format must be one of {', '.join(FORMATS)}, got {given['format']!r}.")
    if given.get("labels", "one") not in ("one", "several"):
        raise CommandError(f"--labels must be one or several, got {given['labels']!r}.")
    if given.get("label_kind", "int") not in ("int", "text"):
        raise CommandError(f"--label-kind must be int or text, got {given['label_kind']!r}.")
    if {"text", "numeric", "categorical"} & set(given):  # columns named now replace those remembered
        base = replace(base, text=(), numeric=(), categorical=())
    return replace(base, **given)


def open_source(path: str, asked: dict[str, Any], base: Reading | None = None, labelled: bool = True) -> Source:
    """A data file; with a model's own reading as the base, only the format may be another."""
    reading = asked_reading(asked, base)
    if base is not None:
        if reading.width != base.width:
            raise CommandError(
                f"{path}: the model was trained with {base.width} features, the options given make it {reading.width}."
            )
        if "input_format" not in asked:
            by_name = None if path == "-" else known_format(path)
            reading = replace(reading, format=by_name or base.format)
    source = Source(path, reading, labelled=labelled, skip_bad_lines=bool(asked.get("skip_bad_lines")))
    _check_fit(path, source.reading.format, asked, base)
    return source


def _check_fit(path: str, file_format: str | None, asked: dict[str, Any], base: Reading | None) -> None:
    """Refuse options that the format has no use for, and a format whose features are not those of the model."""
    table = file_format in _TABLES
    strangers = [name for name in asked if name in _TABLE_OPTIONS and not table]
    strangers += [name for name in asked if name == "index_base" and file_format != "svmlight"]
    if strangers:
        flag = strangers[0].replace("_", "-")
        raise CommandError(f"{path} is read as {file_format}, which has no use for --{flag}: leave it out.")
    if base is None or "input_format" in asked:
        return
    known = base.format or "svmlight"  # a model saved from Python: its features are numbers
    if not any(file_format in family and known in family for family in _FAMILIES):
        from_python = "" if base.format else " (it was saved from Python, its features have numbers only)"
        raise CommandError(
            f"{path}: {file_format} does not have the features of a model trained from {known}{from_python}. If it "
            f"does, say so by --input-format {file_format}."
        )


def first_names(reading: Reading) -> list[str] | None:
    """The names of columns to start with: none yet; None where labels are columns already (xmc), or rows have one."""
    are_columns = reading.format == "xmc" and (reading.n_labels or 0) <= MOST_COLUMNS
    return None if are_columns or reading.labels != "several" else []


class Columns:
    """Columns of a label matrix: for labels by name in the order they first come; without names, labels are columns."""

    def __init__(self, names: list[str] | None, n_columns: int):
        self.names = names
        self._columns = {name: column for column, name in enumerate(names or [])}
        self.n_columns = max(1, n_columns)

    def matrix(self, chunk: Chunk, learn: bool) -> sp.csr_array:
        """The rows' labels as zeros and ones; labels not met before get columns of their own, for good if `learn`."""
        labels, pointer = chunk.labels, chunk.pointer
        assert labels is not None and pointer is not None
        if self.names is None:
            if labels.dtype.kind != "i" or (labels < 0).any() or (labels >= MOST_COLUMNS).any():
                raise CommandError(f"labels are columns here, from 0 to {MOST_COLUMNS - 1:,}, and some are not.")
            columns = labels.astype(np.int64)
            n_columns = max(self.n_columns, int(columns.max(initial=-1)) + 1)
        else:
            listed = [str(label) for label in labels.tolist()]
            new = dict.fromkeys(name for name in listed if name not in self._columns)
            places = {name: len(self.names) + at for at, name in enumerate(new)}
            n_columns = max(1, len(self.names) + len(places))
            if learn:
                self._columns.update(places)
                self.names += places
            columns = np.array([places.get(name, self._columns.get(name, 0)) for name in listed], np.int64)
        if learn:
            self.n_columns = n_columns
        out = sp.csr_array((np.ones(len(columns), np.int8), columns, pointer), shape=(len(pointer) - 1, n_columns))
        out.sum_duplicates()
        out.data[:] = 1
        return out


def columns_of(trained: Trained) -> Columns | None:
    """What makes label matrices for a model; None where rows have one label."""
    if trained.reading.labels != "several":
        return None
    known = len(trained.estimator.classes_) if hasattr(trained.estimator, "_index") else 0
    if trained.names is None:
        return Columns(None, max(known, min(trained.reading.n_labels or 0, MOST_COLUMNS)))
    return Columns(trained.names, len(trained.names))


def stacked(chunks: list[Chunk], columns: Columns | None) -> tuple[Any, Any, np.ndarray]:
    """All rows of some chunks: inputs, labels as an estimator wants them, weights."""
    X = sp.vstack([chunk.X for chunk in chunks], format="csr")
    weights = np.concatenate([np.ones(c.X.shape[0]) if c.weights is None else c.weights for c in chunks])
    if columns is None:
        return X, np.concatenate([chunk.labels for chunk in chunks]), weights
    parts = [columns.matrix(chunk, learn=True) for chunk in chunks]
    for part in parts:
        part.resize(part.shape[0], columns.n_columns)
    return X, sp.vstack(parts, format="csr"), weights


def cell(label: Any) -> str:
    """A label in one cell of one line."""
    text = str(label)
    for letter, escape in (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r")):
        text = text.replace(letter, escape)
    return text
