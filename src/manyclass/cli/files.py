"""Model files and data files. A model stores how its training data were read, so that later files need no options."""

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import scipy.sparse as sp

from ..core import model_file
from ..core.model_file import ModelFormatError, check_target, lock
from ..estimators import load_model
from ..io import COLUMN_KINDS, DELIMITERS, TABLES, Chunk, Reading, Source, known_format
from .messages import CommandError

_FAMILIES = (TABLES, ("svmlight", "xmc"), ("vw",))  # formats with the same features
_FEATURE_OPTIONS = ("ignore", "ngrams", "chars", "idf")  # of training: a model stores them
_TABLE_OPTIONS = ("label", *COLUMN_KINDS, "label_separator", "delimiter", *_FEATURE_OPTIONS)
_NEW_TABLE = Reading(weighted=True, idf=True, feature_bits=20)  # characters of names and pairs of words are many
MAX_COLUMNS = 4_000_000  # limit of a label matrix whose columns are the label numbers in the file


@dataclass
class Trained:
    """An estimator and how its data were read."""

    estimator: Any
    reading: Reading
    names: list[str] | None = None  # several labels per row: the label of each column; None: labels are column numbers
    training: dict[str, Any] = field(default_factory=dict)  # progress and options of the training run
    label_counts: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))  # training rows of each class
    n_counted: int = 0  # training rows counted there; 0: unknown

    def count(self, y: Any) -> None:
        """Count the labels of rows that were learned, each row once."""
        classes = y.indices if sp.issparse(y) else self.estimator._index.find(y)
        missing = len(self.estimator.classes_) - len(self.label_counts)
        if missing > 0:
            self.label_counts = np.pad(self.label_counts, (0, missing))
        np.add.at(self.label_counts, classes, 1)
        self.n_counted += y.shape[0]

    def save(self, path: str, slim: bool = False, prune: float = 0.0, precision: str = "float32") -> None:
        """Write the model with its reading and training record."""
        self.estimator._extra = {"reading": self.reading, "training": self.training}
        if self.n_counted:
            self.estimator._extra["labels"] = {"n_rows": self.n_counted, "counts": self.label_counts.tolist()}
        self.estimator._names = self.names
        self.estimator.save(path, slim, prune, precision)

    @cached_property
    def label_numbers(self) -> np.ndarray:
        """A number for each class: the label if all are non-negative integers, otherwise its position in the model."""
        classes = self.estimator.classes_
        if self.names and all(name.isdecimal() for name in self.names):
            return np.array([int(name) for name in self.names])
        integers = self.names is None and classes.dtype.kind in "iu" and classes.min() >= 0
        return classes if integers else np.arange(len(classes))

    def labels(self, indices: Any) -> list:
        """The labels of some classes, as in the data file."""
        classes = self.estimator.classes_[indices].tolist()
        return classes if self.names is None else [self.names[column] for column in classes]


def open_model(path: str, threads: int | None = None) -> Trained:
    """Load a model file. A model saved from Python has no reading: it reads svmlight, xmc and VW files of its width."""
    estimator = load_model(path)
    if threads is not None:
        estimator.n_jobs = threads
    extra = estimator._extra
    reading = extra.get("reading")
    if reading is None:
        several = bool(getattr(estimator, "_multilabel", False))
        text = not several and isinstance(estimator.classes_[0], str)
        reading = Reading(
            n_features=estimator.n_features_in_,
            labels="several" if several else "one",
            label_kind="text" if text else "int",
        )
    training = extra.get("training", {})
    if not isinstance(training, dict):
        raise ModelFormatError(f"{path}: the record of the training run is invalid.")
    try:
        counts, n_counted = _label_counts(extra.get("labels", {"n_rows": 0, "counts": []}), len(estimator.classes_))
    except (TypeError, ValueError, KeyError) as error:
        raise ModelFormatError(f"{path}: the description of the training data is invalid ({error}).") from error
    return Trained(estimator, reading, estimator._names, training, counts, n_counted)


def _label_counts(values: Any, n_classes: int) -> tuple[np.ndarray, int]:
    """The number of training rows of each class and of all, as stored in a model."""
    counts, n_rows = values["counts"], values["n_rows"]
    sound = type(n_rows) is int and isinstance(counts, list) and len(counts) <= n_classes
    if not sound or not all(type(count) is int and 0 <= count <= n_rows < 2**62 for count in counts):
        raise ValueError("the number of training rows of the labels is wrong")
    return np.pad(np.array(counts, np.int64), (0, n_classes - len(counts))), n_rows


def open_training_source(path: str, options: dict[str, Any], base: Reading | None = None) -> Source:
    """Open a file for training, with the features that are best for new models, or those of the model to go on with."""
    named = [name for name in (*COLUMN_KINDS, *_FEATURE_OPTIONS) if name in options]
    if base is None:
        table = (options.get("input_format") or known_format(path)) in TABLES
        return open_source(path, options, defaults=_NEW_TABLE if table else Reading())
    if named:
        raise CommandError(f"--start-from uses the columns and features of the model: omit --{named[0]}.")
    return open_source(path, options, replace(base, weighting=None))


def open_source(
    path: str,
    options: dict[str, Any],
    base: Reading | None = None,
    labelled: bool = True,
    defaults: Reading = Reading(),  # noqa: B008  (frozen)
    keep: Sequence[str] | None = (),
) -> Source:
    """Open a data file with the given options, on top of the reading of a model if there is one.

    `keep` names columns that are returned as they are; None: those that describe a row, if the file is a table.
    """
    renamed = {"input_format": "format", "features": "n_features", "ignore": "ignored"}
    values = {renamed.get(name, name): value for name, value in options.items() if name != "skip_bad_lines"}
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
    if "chars" in values:
        values["chars"] = _sizes(values["chars"])
    if "delimiter" in values:
        values["delimiter"] = _ESCAPES.get(values["delimiter"], values["delimiter"])
    if base is not None and (wrong := [name for name in _FEATURE_OPTIONS if name in options]):
        raise CommandError(f"--{wrong[0]} applies to training only: the model stores it.")
    if base is not None and base.weighting is not None and values.keys() & set(COLUMN_KINDS):
        raise CommandError("the columns to use are stored in the model: omit --text, --numeric, --categorical, --date.")
    if values.keys() & set(COLUMN_KINDS):  # named columns replace those of the model
        values = {**dict.fromkeys((*COLUMN_KINDS, "chars_of"), ()), **values}
    if base is not None and "format" not in values:
        values["format"] = (None if path == "-" else known_format(path)) or base.format
    if base is not None and (values["format"] != base.format or (base.delimiter or ",") in DELIMITERS):
        values.setdefault("delimiter", None)  # found again: the next export may have another one
    reading = replace(base or defaults, **values)
    if base is not None and reading.width != base.width:
        raise CommandError(
            f"{path}: the model was trained with {base.width} features, but the options specify {reading.width}."
        )
    columns = keep if keep is not None else (reading.text or reading.columns) if reading.format in TABLES else ()
    source = Source(path, reading, labelled=labelled, skip_bad_lines="skip_bad_lines" in options, keep=columns)
    _check_format(path, source.reading.format, options, base)
    return source


def _check_format(path: str, found: str | None, options: dict[str, Any], base: Reading | None) -> None:
    """Reject options that do not apply to the format, and a format with other features than those of the model."""
    for name in options:
        if (name in _TABLE_OPTIONS and found not in TABLES) or (name == "index_base" and found != "svmlight"):
            raise CommandError(f"{path} is read as {found}, where --{name.replace('_', '-')} does not apply.")
    if base is None or "input_format" in options:
        return
    known = base.format or "svmlight"  # a model saved from Python has numbered features
    if not any(found in family and known in family for family in _FAMILIES):
        raise CommandError(
            f"{path}: {found} files do not have the features of a model trained on "
            f"{known if base.format else 'arrays in Python'}. If this file does, specify --input-format {found}."
        )


_ESCAPES = {"\\t": "\t", "tab": "\t"}


def _sizes(text: str) -> tuple[int, int]:
    """The shortest and the longest character n-grams: 3-5."""
    shortest, dash, longest = text.partition("-")
    if not shortest.isdecimal() or (dash and not longest.isdecimal()):
        raise CommandError(f"--chars {text}: write two sizes, such as 3-5.")
    return int(shortest), int(longest or shortest)


def can_read_once(path: str) -> bool:
    """Whether the data cannot be read twice: standard input or a pipe."""
    return path == "-" or (os.path.exists(path) and not stat.S_ISREG(os.stat(path).st_mode))


def check_writable(path: str) -> None:
    """Raise an OSError if no file can be written at this path, before any work is done."""
    folder = os.path.dirname(os.path.realpath(path))
    if not os.path.isdir(folder):
        raise FileNotFoundError(errno.ENOENT, "cannot write there: no such folder", folder)
    check_target(path)
    if not os.access(folder, os.W_OK):
        raise PermissionError(errno.EACCES, "the folder is not writable", folder)


def check_model_name(path: str) -> None:
    """Refuse to write a model over a file that is none, or to a name of a data file."""
    check_writable(path)
    if known_format(path) is not None:
        raise CommandError(f"--model {path}: this is the name of a data file; choose another one, such as my.model.")
    if os.path.exists(path) and os.path.getsize(path):
        try:
            model_file.read(path, verify=False)
        except ModelFormatError as error:
            raise CommandError(f"--model {path}: this file is not a model and would be overwritten.") from error


@contextmanager
def replaced(path: str) -> Iterator[BinaryIO]:
    """A new file that gets its name when it is complete; an error leaves an existing file unchanged."""
    part = f"{path}.part"
    try:
        with open(part, "wb") as file:
            yield file
        os.replace(part, path)
    except OSError as error:
        error.filename = error.filename or path
        raise
    finally:
        if os.path.exists(part):
            os.unlink(part)


@contextmanager
def only_writer(path: str) -> Iterator[None]:
    """Refuse to run while another process writes the same file; the lock of a killed process is void."""
    name = Path(os.path.realpath(path))
    beside = name.with_name(f".{name.name}.lock")
    while True:
        with open(beside, "ab") as file:
            if not lock(file):
                raise CommandError(f"{path} is being written by another process: wait for it, or choose another name.")
            if not beside.exists() or not os.path.samestat(os.fstat(file.fileno()), beside.stat()):
                continue  # its owner removed it in the meantime
            try:
                yield
            finally:
                beside.unlink(missing_ok=True)
            return


class LabelColumns:
    """Label matrices for several labels per row.

    With `names`, each name is a column, in order of appearance. Without, labels are the column numbers themselves.
    """

    def __init__(self, names: list[str] | None, n_columns: int = 0):
        self.names = names
        self.n_columns = max(1, n_columns if names is None else len(names))
        self._columns = {name: column for column, name in enumerate(names or [])}

    @classmethod
    def of_model(cls, trained: Trained) -> "LabelColumns | None":
        """The columns of a model; None for one label per row."""
        if trained.reading.labels != "several":
            return None
        n_known = len(trained.estimator.classes_) if hasattr(trained.estimator, "_index") else 0
        return cls(trained.names, max(n_known, min(trained.reading.n_labels or 0, MAX_COLUMNS)))

    def matrix(self, chunk: Chunk, learn: bool) -> sp.csr_array:
        """The labels of the rows as zeros and ones. New labels get new columns, which are kept if `learn`."""
        labels, pointer = chunk.labels, chunk.pointer
        assert labels is not None and pointer is not None
        if self.names is None:
            if labels.dtype.kind != "i" or (labels < 0).any() or (labels >= MAX_COLUMNS).any():
                raise CommandError(f"the labels must be column numbers from 0 to {MAX_COLUMNS - 1:,}.")
            columns = labels.astype(np.int64)
            n_columns = max(self.n_columns, int(columns.max(initial=-1)) + 1)
        else:
            known = self._columns if learn else dict(self._columns)
            columns = np.array([known.setdefault(str(label), len(known)) for label in labels.tolist()], np.int64)
            n_columns = max(1, len(known))
            if learn:
                self.names += list(known)[len(self.names) :]
        if learn:
            self.n_columns = n_columns
        out = sp.csr_array((np.ones(len(columns), np.int8), columns, pointer), shape=(len(pointer) - 1, n_columns))
        out.sum_duplicates()
        out.data[:] = 1
        return out


def initial_names(reading: Reading) -> list[str] | None:
    """The column names before training: None if labels are column numbers (xmc) or rows have one label."""
    numbered = reading.format == "xmc" and (reading.n_labels or 0) <= MAX_COLUMNS
    return None if numbered or reading.labels != "several" else []


def escape(label: Any) -> str:
    r"""A label as one field of a line: backslash, tab and line ends become \\, \t, \n and \r."""
    return str(label).replace("\\", r"\\").replace("\t", r"\t").replace("\n", r"\n").replace("\r", r"\r")
