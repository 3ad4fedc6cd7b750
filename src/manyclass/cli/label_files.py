"""`manyclass train --label-text` and `--hierarchy`: files of two columns that say more about labels."""

import csv
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ..core.classes import label_array
from ..core.taxonomy import Taxonomy
from ..io import Reading
from ..io.weighting import weigh
from ..trained import Trained
from .messages import CommandError

_OPTIONS = {"label_text": "--label-text", "hierarchy": "--hierarchy"}
_SECOND = {"label_text": ("description",), "hierarchy": ("parent", "path")}  # names of the second column


class LabelFile(NamedTuple):
    """What a file says about labels."""

    path: str
    second: str  # the name of the second column
    pairs: dict[str, str]  # label: cell of the second column


def read_label_files(paths: dict[str, str], algorithm: str, reading: Reading, online: bool) -> dict[str, LabelFile]:
    """The files by option, read once because they may be pipes; CommandError if they cannot be used."""
    if not paths:
        return {}
    name = " and ".join(_OPTIONS[option] for option in paths)
    if online or algorithm != "label-tree":
        raise CommandError(
            f"{name}: only for label trees that are trained on all rows at once: use --algorithm label-tree and "
            "--in-memory, and omit --online, --checkpoint-every and --start-from."
        )
    if reading.labels == "several":
        raise CommandError(f"{name}: only for data with one label per row.")
    if "label_text" in paths and not reading.text:
        raise CommandError("--label-text: the data have no text column (choose one with --text).")
    return {option: _read(option, path) for option, path in paths.items()}


def label_arguments(files: dict[str, LabelFile], trained: Trained, y: np.ndarray) -> dict[str, Any]:
    """The arguments of `fit` for the files.

    The words of descriptions become known: `trained.reading` changes.
    """
    out: dict[str, Any] = {}
    if "hierarchy" in files:
        path, second, pairs = files["hierarchy"]
        try:
            out["hierarchy"] = (Taxonomy.from_paths if second == "path" else Taxonomy.from_parents)(pairs)
        except ValueError as error:
            raise CommandError(f"{path}: {error}") from error
    if "label_text" in files:
        from ..io.tables import layout_of, table_rows  # scikit-learn's vectorizers take a while to import

        path, _, pairs = files["label_text"]
        labels, reading = _as_labels(list(pairs), y, path), trained.reading
        empty, layout = dict.fromkeys(reading.columns), layout_of(reading)
        rows = [{**empty, reading.text[0]: text} for text in pairs.values()]
        raw = table_rows(rows, replace(reading, weighting=None))
        assert reading.weighting is not None  # `train` counts the words of all tables
        weighting = reading.weighting.with_rows(raw, layout, reading.idf)
        trained.reading = replace(reading, weighting=weighting)
        out["label_features"] = labels, weigh(raw, layout, weighting)
    return out


def _as_labels(labels: list[str], y: np.ndarray, path: str) -> np.ndarray:
    """Labels of the type of y."""
    if y.dtype.kind not in "biuf":
        return label_array(labels, "U")
    try:
        return np.array([int(label) for label in labels])
    except ValueError as error:
        raise CommandError(f"{path}: the labels of the data are integers, but this file has others: {error}.") from None


def _read(option: str, path: str) -> LabelFile:
    """The rows of a file."""
    lines, first = list[list[str]](), 1  # the first line of a record
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file, strict=True)
            for line in reader:
                lines.append(line)
                first = reader.line_num + 1
    except UnicodeDecodeError:
        raise CommandError(f"{path}: not UTF-8 text; convert the file to UTF-8.") from None
    except csv.Error as error:  # such as a quote that is not closed, or a cell of more than 131,072 characters
        raise CommandError(f"{path}: line {first}: invalid CSV ({error}); correct or shorten it.") from None
    if not lines or len(lines[0]) != 2 or lines[0][0] != "label" or lines[0][1] not in _SECOND[option]:
        names = " or ".join(f"'label,{name}'" for name in _SECOND[option])
        raise CommandError(f"{path}: the first line must be {names}.")
    pairs: dict[str, str] = {}
    for number, line in enumerate(lines[1:], 1):
        if not line:
            continue
        if len(line) != 2 or not line[0]:
            raise CommandError(f"{path}: row {number} must be a label and a {lines[0][1]}, it has {len(line)} fields.")
        if option == "label_text" and not line[1].strip():
            raise CommandError(f"{path}: row {number} has no description of the label {line[0]!r}: leave it out.")
        if line[0] in pairs:
            raise CommandError(f"{path}: row {number} has the label {line[0]!r} again.")
        pairs[line[0]] = line[1]
    if not pairs:
        raise CommandError(f"{path}: there are no rows.")
    return LabelFile(path, lines[0][1], pairs)
