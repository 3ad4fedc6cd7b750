"""How a file is read. A model stores these values, so that its later files need no options."""

from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from .weighting import Weighting

FORMATS = ("svmlight", "xmc", "vw", "csv", "tsv", "jsonl", "parquet")
TABLES = ("csv", "tsv", "jsonl", "parquet")
_CHOICES: dict[str, tuple] = {
    "format": FORMATS,
    "labels": ("one", "several"),
    "label_kind": ("int", "text"),
    "index_base": (0, 1),
}
DELIMITERS = ",;\t|"  # of CSV files, found from the first lines
COLUMN_KINDS = ("text", "numeric", "categorical", "date")
CELL_FORMATS = {"decimal_comma": ("numeric",), "mixed": ("numeric", "date"), "month_first": ("date",)}  # and the kinds
_LARGEST = {"n_features": 2**31 - 1, "n_labels": 2**62, "feature_bits": 30, "ngrams": 5}
_REQUIRED = ("feature_bits", "ngrams")
_LONGEST_CHARS = 8


def vectorizers() -> Any:
    """The module, imported when a model has a vectorizer: those of scikit-learn take a while to import."""
    from . import vectorizers

    return vectorizers


@dataclass(frozen=True)
class Reading:
    """How a file is read. None means that the value is found from the file's name or its first lines.

    Parameters
    ----------
    format : {"svmlight", "xmc", "vw", "csv", "tsv", "jsonl", "parquet"} or None
        The file format. None: from the extension.
    labels : {"one", "several"} or None
        The number of labels per row.
    label_kind : {"int", "text"} or None
        Whether labels are integers.
    index_base : {0, 1} or None
        The index of the first feature; svmlight only.
    n_features : int or None
        The number of features. None: `2**feature_bits`; in xmc files the number in the header.
    feature_bits : int
        Without `n_features`, names and large indices are hashed into this many bits, 1 to 30.
    hashed : bool
        svmlight and xmc: indices beyond the number of features are hashed. False: they are ignored, as unknown features
        of a model that was trained without any. `Source.n_beyond` counts them.
    n_labels : int or None
        The number of labels; xmc only, from the header.
    label : str or None
        The column that contains the label; tables only.
    text, numeric, categorical, date : tuple of str
        The columns to use, by kind; tables only. If all are empty, the first rows decide.
    ignored : tuple of str
        Columns that are not used. If columns are named by kind, all others.
    decimal_comma : tuple of str or None
        The numeric columns whose numbers have a decimal comma, such as 3,14 or 1.234,5.
    mixed : tuple of str or None
        The numeric and date columns in which cells that are no numbers or dates count as missing.
    month_first : tuple of str or None
        The date columns in which 3/4/2024 is in March.
    label_separator : str or None
        The separator between several labels in one cell, such as ";" in "a;b"; CSV and TSV only.
    delimiter : str or None
        The separator between cells; CSV only. None: "," ";" "|" or tab, found from the first lines.
    ngrams : int
        Text columns become all sequences of 1 to `ngrams` words, at most 5.
    chars : tuple of int
        (shortest, longest) character n-grams of the columns in `chars_of`, within words; at most 8 characters.
    chars_of : tuple of str
        The text columns that become character n-grams in addition to words.
    weighted : bool
        Words, numbers and categories are weighted by `weighting`. False: counts of words scaled to length 1, numbers
        as they are.
    idf : bool
        With `weighted`, words have inverse document frequencies as in scikit-learn's `TfidfVectorizer`.
    weighting : Weighting or None
        What was counted in the training rows. Not part of `to_dict`, see `arrays`.
    vectorizer : object or None
        A fitted vectorizer of scikit-learn, which turns the only column, a text, into features.

    Examples
    --------
    >>> Reading(feature_bits=10).width
    1024
    >>> Reading.from_dict(Reading(text=("title",)).to_dict()).text
    ('title',)
    """

    format: str | None = None
    labels: str | None = None
    label_kind: str | None = None
    index_base: int | None = None
    n_features: int | None = None
    feature_bits: int = 18
    n_labels: int | None = None
    label: str | None = None
    text: tuple[str, ...] = ()
    numeric: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    label_separator: str | None = None
    date: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    decimal_comma: tuple[str, ...] | None = None
    mixed: tuple[str, ...] | None = None
    month_first: tuple[str, ...] | None = None
    delimiter: str | None = None
    ngrams: int = 1
    chars: tuple[int, ...] = ()
    chars_of: tuple[str, ...] = ()
    weighted: bool = False
    idf: bool = False
    hashed: bool = True
    weighting: Weighting | None = field(default=None, compare=False, repr=False)
    vectorizer: Any = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Check all values."""
        for name, allowed in _CHOICES.items():
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or value not in allowed):
                raise ValueError(f"{name} must be one of {', '.join(map(str, allowed))} or None, got {value!r}")
        for name, largest in _LARGEST.items():
            value = getattr(self, name)
            optional = name not in _REQUIRED
            if not (optional and value is None) and (type(value) is not int or not 1 <= value <= largest):
                or_none = " or None" if optional else ""
                raise ValueError(f"{name} must be an integer from 1 to {largest}{or_none}, got {value!r}")
        for name in ("label", "label_separator"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, str) or not value):
                raise ValueError(f"{name} must be a non-empty text or None, got {value!r}")
        if self.delimiter is not None and (not isinstance(self.delimiter, str) or len(self.delimiter) != 1):
            raise ValueError(f"delimiter must be one character or None, got {self.delimiter!r}")
        if self.delimiter is not None and self.delimiter in '"\r\n':
            raise ValueError(f"delimiter must not be a quote or the end of a line, got {self.delimiter!r}")
        for name in ("weighted", "idf", "hashed"):
            if type(getattr(self, name)) is not bool:
                raise ValueError(f"{name} must be True or False, got {getattr(self, name)!r}")
        self._check_chars()
        if self.vectorizer is not None and (len(self.text) != 1 or self.columns != self.text):
            raise ValueError("a vectorizer requires one text column and no others")
        kinds: dict[str, str] = {} if self.label is None else {self.label: "label"}
        for name in (*COLUMN_KINDS, "ignored"):
            value = getattr(self, name)
            if not isinstance(value, tuple) or not all(isinstance(column, str) for column in value):
                raise ValueError(f"{name} must be a tuple of column names, got {value!r}")
            for column in value:
                if column in kinds:
                    raise ValueError(f"column {column!r} is named twice, as {kinds[column]} and as {name}")
                kinds[column] = name
        for name, allowed in CELL_FORMATS.items():
            value = getattr(self, name)
            if value is not None and not (
                isinstance(value, tuple) and all(isinstance(one, str) and kinds.get(one) in allowed for one in value)
            ):
                raise ValueError(f"{name} must be a tuple of {' or '.join(allowed)} columns or None, got {value!r}")

    def _check_chars(self) -> None:
        chars, columns = self.chars, self.chars_of
        sizes = isinstance(chars, tuple) and len(chars) in (0, 2) and all(type(size) is int for size in chars)
        if not sizes or (chars and not 1 <= chars[0] <= chars[1] <= _LONGEST_CHARS):
            raise ValueError(f"chars must be two sizes from 1 to {_LONGEST_CHARS} such as (3, 5), or (), got {chars!r}")
        if not isinstance(columns, tuple) or not set(columns) <= set(self.text) or (columns and not chars):
            raise ValueError(f"chars_of must be text columns and requires chars, got {columns!r}")

    @property
    def width(self) -> int:
        """The number of features per row."""
        return self.n_features if self.n_features is not None else 2**self.feature_bits

    @property
    def columns(self) -> tuple[str, ...]:
        """The table columns to use as features."""
        return self.text + self.numeric + self.categorical + self.date

    @property
    def numbers(self) -> tuple[str, ...]:
        """The columns with a number: numeric ones and dates."""
        return self.numeric + self.date

    def to_dict(self) -> dict[str, Any]:
        """Values that can be stored as JSON; those of the weighting that are arrays are in `arrays`."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        values["weighting"] = None if self.weighting is None else self.weighting.to_dict()
        vectorizer = values.pop("vectorizer")
        if vectorizer is not None:
            values["vectorizer"] = vectorizers().to_values(vectorizer)
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays of the weighting and of the vectorizer, by name."""
        words = {} if self.vectorizer is None else vectorizers().to_arrays(self.vectorizer)
        return words if self.weighting is None else self.weighting.arrays() | words

    @classmethod
    def from_dict(cls, values: dict[str, Any], arrays: dict[str, np.ndarray] | None = None) -> "Reading":
        """The Reading with the values of `to_dict` and `arrays`; a ValueError if they are invalid."""
        if not isinstance(values, dict):
            raise ValueError(f"a reading must be a dict, got {type(values).__name__}")
        if unknown := sorted(str(name) for name in values if name not in {field.name for field in fields(cls)}):
            raise ValueError(f"unknown fields of a reading: {', '.join(unknown)}")
        plain: dict[str, Any] = {k: tuple(value) if isinstance(value, list) else value for k, value in values.items()}
        weighting, plain["weighting"] = plain.get("weighting"), None
        if plain.get("vectorizer") is not None:
            plain["vectorizer"] = vectorizers().from_file(plain["vectorizer"], arrays or {})
            if plain.get("n_features") != vectorizers().width_of(plain["vectorizer"]):
                raise ValueError("the vectorizer makes another number of features")
        reading = cls(**plain)
        if weighting is None:
            return reading
        found = Weighting.from_dict(weighting, arrays or {}, reading.width, reading.numbers)
        return replace(reading, weighting=found)
