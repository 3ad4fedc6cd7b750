"""Data files, and the files that commands write. A model stores how its data were read: later files need no options."""

import csv
import errno
import gzip
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO

from ..core import model_file
from ..core.model_file import ModelFormatError, check_target, lock, part_of, remove_leftovers
from ..core.model_file import replaced as replaced
from ..io import COLUMN_KINDS, DELIMITERS, TABLES, Reading, Source, known_format
from ..io.errors import optional_module, shown
from ..io.lines import compression
from ..io.reading import CELL_FORMATS
from ..io.source import named_format as named_format
from .messages import CommandError, warn

_FAMILIES = (TABLES, ("svmlight", "xmc"), ("vw",))  # formats with the same features
_FEATURE_OPTIONS = ("ignore", "ngrams", "chars", "idf")  # of training: a model stores them
_TABLE_OPTIONS = ("label", *COLUMN_KINDS, "label_separator", "delimiter", *_FEATURE_OPTIONS)
_COLUMNS_SHOWN = 5
_NEW_TABLE = Reading(weighted=True, idf=True, feature_bits=20)  # characters of names and pairs of words are many


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
    defaults: Reading = Reading(),
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
        values = {**dict.fromkeys((*COLUMN_KINDS, "chars_of"), ()), **dict.fromkeys(CELL_FORMATS), **values}
    if base is not None:
        values["ignored"] = ()  # another file may have other columns, and one of them may be the label
    if base is not None and "format" not in values:
        values["format"] = (None if path == "-" else known_format(path)) or base.format
    if base is not None and "input_format" not in options:
        _check_family(path, values["format"], base)
        _check_label_lists(path, values["format"], base, options)
    if base is not None and (values["format"] != base.format or (base.delimiter or ",") in DELIMITERS):
        values.setdefault("delimiter", None)  # found again: the next export may have another one
    reading = replace(base or defaults, **values)
    if base is not None and reading.width != base.width:
        raise CommandError(
            f"{path}: the model was trained with {base.width} features, but the options specify {reading.width}."
        )
    columns = keep if keep is not None else (reading.text or reading.columns) if reading.format in TABLES else ()
    source = Source(path, reading, labelled=labelled, skip_bad_lines="skip_bad_lines" in options, keep=columns)
    _check_format(path, source.reading.format, options)
    if base is not None and reading.index_base is None and source.reading.index_base == 1:
        # Trained in Python or on an xmc file: the first feature is column 0, and the file does not say which that is.
        what = "none of the first rows has an index 0, so the first feature is taken to have index 1"
        warn([f"{path}: {what}. Specify --index-base 0 if it has index 0, or --index-base 1 to be sure."])
    return source


def unknown_features(source: Source) -> list[str]:
    """Warnings if the rows that were read lack columns, or have features that the model does not know."""
    if absent := source.absent_columns:
        return [f"{source.path}: no row has the columns {', '.join(map(shown, absent))}, which the model uses."]
    if source.reading.hashed or not source.n_beyond:
        return []
    what = f"{source.n_beyond:,} values have indices beyond the {source.reading.width:,} features of the model"
    return [f"{source.path}: {what}; they were ignored."]


def _check_format(path: str, found: str | None, options: dict[str, Any]) -> None:
    """Reject options that do not apply to the format."""
    for name in options:
        if (name in _TABLE_OPTIONS and found not in TABLES) or (name == "index_base" and found != "svmlight"):
            raise CommandError(f"{path} is read as {found}, where --{name.replace('_', '-')} does not apply.")


def _check_family(path: str, found: str | None, base: Reading) -> None:
    """Reject a file whose rows cannot have the features of the model, before it is read with the model's options."""
    known = base.format or "svmlight"  # a model saved from Python has numbered features
    if found is None or any(found in family and known in family for family in _FAMILIES):
        return
    trained = f"on {known}" if base.format else "on arrays in Python"
    if columns := ", ".join(map(shown, base.columns[:_COLUMNS_SHOWN])):
        trained += f" with the columns {columns}{', ...' if base.columns[_COLUMNS_SHOWN:] else ''}"
    raise CommandError(
        f"{path} is read as {found}, but the model was trained {trained}: {found} files do not have its features. If "
        f"this file does, specify --input-format {found}."
    )


def _check_label_lists(path: str, found: str | None, base: Reading, options: dict[str, Any]) -> None:
    """Reject an xmc file, which has lists of integer labels, if the model has others."""
    labels = "one label per row" if base.labels == "one" else "text labels" if base.label_kind == "text" else None
    if found == "xmc" and labels and not options.keys() & {"labels", "label_kind"}:
        raise CommandError(
            f"{path} is an xmc file, which has lists of integer labels, but the model was trained with {labels}: write "
            "the rows as svmlight."
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


def check_writable(path: str, *inputs: str) -> None:
    """Raise an error if no file can be written at this path, or if an input is there, before any work is done."""
    for name in inputs:
        # Links to the same file count, too.
        if os.path.exists(path) and os.path.exists(name) and os.path.samefile(path, name):
            raise CommandError(f"{path} would replace {name}: choose another name.")
    folder = os.path.dirname(os.path.realpath(path))
    if not os.path.isdir(folder):
        raise FileNotFoundError(errno.ENOENT, "cannot write there: no such folder", folder)
    check_target(path)
    if not os.access(folder, os.W_OK):
        raise PermissionError(errno.EACCES, "the folder is not writable", folder)
    try:
        part_of(path).lstat()
    except FileNotFoundError:
        pass
    except OSError as error:
        raise OSError(error.errno, "no temporary file can be beside it: choose a shorter name", path) from None
    remove_leftovers(path, also_empty=False)


@contextmanager
def replaced_data(path: str) -> Iterator[BinaryIO]:
    """`replaced` for a data file: compressed if the name ends in .gz or .zst."""
    with replaced(path) as raw:
        packed: Any = nullcontext(raw)
        if compression(path) == "gzip":
            # Without a name and a time in the header, the same rows always result in the same bytes.
            packed = gzip.GzipFile("", "wb", 6, raw, 0)
        elif compression(path) == "zstd":
            packed = optional_module("zstandard").ZstdCompressor().stream_writer(raw, closefd=False)
        with packed as file:
            yield file


def table_text(lines: Iterable[Sequence[Any]], file_format: str) -> str:
    """Lines of a CSV or TSV file that Python's csv module and `Source` read as the same cells."""
    written: list[str] = []
    target: Any = SimpleNamespace(write=written.append)  # gets whole lines
    # Before Python 3.13, cells with a return are quoted only if it is a part of the line end.
    writer = csv.writer(target, delimiter="\t" if file_format == "tsv" else ",", lineterminator="\r\n")
    writer.writerows(lines)
    return "".join(f"{line[:-2]}\n" for line in written)


def check_model_name(path: str) -> None:
    """Refuse to write a model over a file that is none, or to a name of a data file."""
    check_writable(path)
    if named_format(path) is not None:
        raise CommandError(f"{path} is the name of a data file: choose another one for the model, such as my.model.")
    if os.path.exists(path) and os.path.getsize(path):
        try:
            model_file.read(path, verify=False)
        except ModelFormatError as error:
            raise CommandError(f"{path} is not a model and would be overwritten: choose another name.") from error


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


def escape(label: Any) -> str:
    r"""A label as one field of a line: backslash, tab and line ends become \\, \t, \n and \r."""
    return str(label).replace("\\", r"\\").replace("\t", r"\t").replace("\n", r"\n").replace("\r", r"\r")
