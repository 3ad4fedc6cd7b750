"""How a file is read: plain values that a model remembers, so that its files need no options later."""

from dataclasses import asdict, dataclass, fields
from typing import Any

FORMATS = ("svmlight", "xmc", "vw", "csv", "tsv", "jsonl", "parquet")
_CHOICES: dict[str, tuple] = {
    "format": FORMATS,
    "labels": ("one", "several"),
    "label_kind": ("int", "text"),
    "index_base": (0, 1),
}
_NAMES = ("text", "numeric", "categorical")
_LARGEST = {"n_features": 2**31 - 1, "n_labels": 2**62}


@dataclass(frozen=True)
class Reading:
    """How a file is read. None means: found out from the file's name or its first lines.

    Parameters
    ----------
    format : {"svmlight", "xmc", "vw", "csv", "tsv", "jsonl", "parquet"} or None
        None: by the extension.
    labels : {"one", "several"} or None
        Labels of a row.
    label_kind : {"int", "text"} or None
        Whether labels are whole numbers.
    index_base : {0, 1} or None
        The index of the first feature, svmlight only.
    n_features : int or None
        The number of features. None: `2**feature_bits`, and for xmc the header's.
    feature_bits : int
        Features that fit no declared number are hashed into this many bits, 1 to 30.
    n_labels : int or None
        The number of labels, xmc only: from the header.
    label : str or None
        Tables: the column of the label.
    text, numeric, categorical : tuple of str
        Tables: the columns to use, by kind. None named: found out from the first rows.
    label_separator : str or None
        CSV and TSV: a cell "a;b" holds several labels, separated by this.

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
        """Refuse what no file can be read with, at once."""
        for name, allowed in _CHOICES.items():
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or value not in allowed):
                raise ValueError(f"{name} must be one of {', '.join(map(str, allowed))} or None, not {value!r}")
        for name, largest in _LARGEST.items():
            value = getattr(self, name)
            if value is not None and (not _is_whole(value) or not 1 <= value <= largest):
                raise ValueError(f"{name} must be a whole number from 1 to {largest} or None, not {value!r}")
        if not _is_whole(self.feature_bits) or not 1 <= self.feature_bits <= 30:
            raise ValueError(f"feature_bits must be a whole number from 1 to 30, not {self.feature_bits!r}")
        for name in ("label", "label_separator"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, str) or not value):
                raise ValueError(f"{name} must be a text or None, not {value!r}")
        seen: dict[str, str] = {} if self.label is None else {self.label: "label"}
        for name in _NAMES:
            value = getattr(self, name)
            if not isinstance(value, tuple) or not all(isinstance(column, str) for column in value):
                raise ValueError(f"{name} must be a tuple of column names, not {value!r}")
            for column in value:
                if column in seen:
                    raise ValueError(f"column {column!r} is named twice, as {seen[column]} and as {name}")
                seen[column] = name

    @property
    def width(self) -> int:
        """The number of features of a row."""
        return self.n_features if self.n_features is not None else 2**self.feature_bits

    @property
    def names_columns(self) -> bool:
        """Whether any column to learn from is named."""
        return bool(self.text or self.numeric or self.categorical)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, which JSON can hold."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "Reading":
        """The Reading that `to_dict` gave these values; a ValueError if they are not such values."""
        if not isinstance(values, dict):
            raise ValueError(f"a reading must be a dict, not {type(values).__name__}")
        names = {field.name for field in fields(cls)}
        if unknown := sorted(str(name) for name in values if name not in names):
            raise ValueError(f"unknown parts of a reading: {', '.join(unknown)}")
        plain = dict(values)
        for name in _NAMES:
            if name in plain:
                if not isinstance(plain[name], list | tuple):
                    raise ValueError(f"{name} must be a list of column names, not {plain[name]!r}")
                plain[name] = tuple(plain[name])
        return cls(**plain)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
