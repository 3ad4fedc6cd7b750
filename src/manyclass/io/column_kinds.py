"""What the columns of a table are, found from their first cells."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any

from .values import is_number

_NO_NUMBER = ("na", "n/a", "nan", "null", "none", "-", "?", "<na>")
_BOOLEANS = ({"true", "false"}, {"yes", "no"}, {"y", "n"}, {"t", "f"}, {"on", "off"})
_LONG_TEXT = 40  # cells of this many characters are text, even if they have only one or two words
_FEW = 20  # cells: with fewer, nothing can be said about how they repeat
_CODE = re.compile(r"[0-9a-fA-F]{8}-?(?:[0-9a-fA-F]{4}-?){2,}[0-9a-fA-F]{8,}")  # UUIDs, checksums
_ID_NAME = re.compile(r"(?:.*[_\s.-])?(?:id|uuid|guid|index|rowid)|unnamed: 0|[a-z]+Id|ID", re.IGNORECASE)
_FORMATS = ("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%d %b %Y", "%a, %d %b %Y %H:%M:%S %z")


def is_missing(value: Any) -> bool:
    """Whether a cell is empty."""
    return value is None or (isinstance(value, str) and not value.strip())


def no_number(value: Any) -> bool:
    """Whether a cell of a column of numbers says that there is none."""
    if isinstance(value, str):
        return value.strip().lower() in _NO_NUMBER
    return isinstance(value, float) and value != value


def parse_date(value: Any) -> datetime | None:
    """A date in ISO format or a common other one, in UTC if it has no zone; None if it is no date from 1 to 9999."""
    if isinstance(value, date):  # also a datetime or a Timestamp of pandas
        moment = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    text = str(value).strip()
    if len(text) < 8 or text.isdecimal():
        return None
    for parse in (datetime.fromisoformat, *map(_by_format, _FORMATS)):
        try:
            moment = parse(text)
            return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        except ValueError:
            continue
    return None


def _by_format(pattern: str) -> Any:
    return lambda text: datetime.strptime(text, pattern)


def find_kinds(columns: Mapping[str, Sequence[Any]], weighted: bool) -> tuple[dict[str, list[str]], list[str]]:
    """The names of the columns by kind, and those text columns whose cells are short, such as names.

    Without `weighted`, there are only the kinds text, numeric and categorical.
    """
    kinds: dict[str, list[str]] = {"text": [], "numeric": [], "categorical": [], "date": [], "ignored": []}
    short = []
    for name, cells in columns.items():
        values = [value for value in cells if not is_missing(value)]
        kind = _kind(values) if not weighted else _detailed_kind(name, values)
        if kind == "short text":
            short.append(name)
        kinds["text" if kind == "short text" else kind].append(name)
    return kinds, short


def _is_numeric(value: Any) -> bool:
    return is_number(value.strip()) if isinstance(value, str) else isinstance(value, int | float)


def _kind(values: list[Any]) -> str:
    """Whether the cells of a column are "numeric", "text" or "categorical"."""
    if values and not any(isinstance(value, bool) for value in values) and all(map(_is_numeric, values)):
        return "numeric"
    n_texts = sum(isinstance(value, str) and (len(value.split()) > 2 or len(value) >= _LONG_TEXT) for value in values)
    return "text" if 2 * n_texts > len(values) else "categorical"


def _detailed_kind(name: str, values: list[Any]) -> str:
    """The same, or "short text", "date" or "ignored"."""
    numbers = [value for value in values if not no_number(value)]
    if not numbers or any(isinstance(value, list | dict | bytes) for value in values):
        return "ignored"
    kind = _kind(numbers)
    if kind == "numeric":
        return "ignored" if _is_id(name, numbers) else "numeric"
    if all(parse_date(value) is not None for value in values):
        return "date"
    n, n_distinct = len(values), len(set(map(str, values)))
    words = {str(value).strip().lower() for value in values[: 10 * _FEW]}
    if n < _FEW or any(words <= pair for pair in _BOOLEANS):
        return kind
    if n_distinct == n and all(_CODE.fullmatch(str(value).strip()) for value in values):
        return "ignored"
    if kind == "text":
        return "categorical" if 20 * n_distinct <= n else "text"
    return "short text" if 5 * n_distinct > n else "categorical"


def _is_id(name: str, values: list[Any]) -> bool:
    """Whether numbers only count the rows, or are different in every row of a column that is called id."""
    if len(values) < _FEW or len(set(map(str, values))) < len(values):
        return False
    try:
        numbers = sorted(int(str(value)) for value in values)
    except ValueError:
        return False
    return numbers[-1] - numbers[0] == len(numbers) - 1 or _ID_NAME.fullmatch(name) is not None
