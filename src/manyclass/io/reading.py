"""How a file is read. A model stores these values, so that its later files need no options."""

from dataclasses import asdict, dataclass, fields
from typing import Any

FORMATS = ("svmlight", "xmc", "vw", "csv", "tsv", "jsonl", "parquet")
TABLES = ("csv", "tsv", "jsonl", "parquet")
_CHOICES: dict[str, tuple] = {
    "format": FORMATS,
    "labels": ("one", "several"),
    "label_kind": ("int", "text"),
    "index_base": (0, 1),
}
_COLUMNS = ("text", "numeric", "categorical")
_LARGEST = {"n_features": 2**31 - 1, "n_labels": 2**62, "feature_bits": 30}


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
        Names, and indices beyond the number of features, are hashed into this many bits, 1 to 30.
    n_labels : int or None
        The number of labels; xmc only, from the header.
    label : str or None
        The column that contains the label; tables only.
    text, numeric, categorical : tuple of str
        The columns to use, by kind; tables only. If all are empty, the first rows decide.
    label_separator : str or None
        The separator between several labels in one cell, such as ";" in "a;b"; CSV and TSV only.

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

    def __post_init__(self) -> None:
        """Check all values."""
        for name, allowed in _CHOICES.items():
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or value not in allowed):
                raise ValueError(f"{name} must be one of {', '.join(map(str, allowed))} or None, got {value!r}")
        for name, largest in _LARGEST.items():
            value = getattr(self, name)
            optional = name != "feature_bits"
            if not (optional and value is None) and (type(value) is not int or not 1 <= value <= largest):
                or_none = " or None" if optional else ""
                raise ValueError(f"{name} must be an integer from 1 to {largest}{or_none}, got {value!r}")
        for name in ("label", "label_separator"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, str) or not value):
                raise ValueError(f"{name} must be a non-empty text or None, got {value!r}")
        kinds: dict[str, str] = {} if self.label is None else {self.label: "label"}
        for name in _COLUMNS:
            value = getattr(self, name)
            if not isinstance(value, tuple) or not all(isinstance(column, str) for column in value):
                raise ValueError(f"{name} must be a tuple of column names, got {value!r}")
            for column in value:
                if column in kinds:
                    raise ValueError(f"column {column!r} is named twice, as {kinds[column]} and as {name}")
                kinds[column] = name

    @property
    def width(self) -> int:
        """The number of features per row."""
        return self.n_features if self.n_features is not None else 2**self.feature_bits

    @property
    def columns(self) -> tuple[str, ...]:
        """The table columns to use as features."""
        return self.text + self.numeric + self.categorical

    def to_dict(self) -> dict[str, Any]:
        """Values that can be stored as JSON."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Reading":
        """The Reading with the values of `to_dict`; a ValueError if they are invalid."""
        if not isinstance(values, dict):
            raise ValueError(f"a reading must be a dict, got {type(values).__name__}")
        if unknown := sorted(str(name) for name in values if name not in {field.name for field in fields(cls)}):
            raise ValueError(f"unknown fields of a reading: {', '.join(unknown)}")
        plain: dict[str, Any] = {k: tuple(value) if isinstance(value, list) else value for k, value in values.items()}
        return cls(**plain)
