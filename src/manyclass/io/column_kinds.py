"""What the columns of a table are, found from their first cells."""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cache
from itertools import islice
from typing import Any

from .values import is_number

_NO_VALUE = {"na", "n/a", "n.a.", "#n/a", "nan", "nat", "<na>", "null", "none", "unknown", "missing", "-", "--", "?"}
_BOOLEANS = ({"true", "false"}, {"yes", "no"}, {"y", "n"}, {"t", "f"}, {"on", "off"})
_LONG_TEXT = 40  # cells of this many characters are text, even if they have only one or two words
_FEW = 20  # cells: with fewer, nothing can be said about how they repeat
_ODD_SHARE = 0.01  # of the cells in a column of numbers may be something else, or one cell
_CODE = re.compile(r"[0-9a-fA-F]{8}-?(?:[0-9a-fA-F]{4}-?){2,30}[0-9a-fA-F]{8,64}")  # UUIDs, checksums
_DIGITS = re.compile(r"[0-9]+")
_LONGEST_NAME = 200  # characters of a column that may be called id
# id, ID, user_id, id_user, userId and userID, but not paid or grid
_ID_NAME = re.compile(r"(?i:(?:.*[_\s.-])?(?:uuid|guid|index|rowid|id(?:[_\s.-].*)?)|unnamed: 0)|.*[a-z0-9]I[dD]")
_PANDAS_INDEX = re.compile(r"__index_level_[0-9]+__|Unnamed: 0")  # in Parquet and in CSV files
_E_MAIL = "%d %b %Y %H:%M:%S %z"
_DAYS = ("%d.%m.%Y", "%Y/%m/%d", "%d %b %Y")
_LONGEST_DATE = 64  # characters; searching a time in a long text of spaces would take quadratic time
_ORDERS = {None: ("%d/%m/%Y", "%m/%d/%Y"), False: ("%d/%m/%Y",), True: ("%m/%d/%Y",)}  # by `month_first`
_SLASHES = re.compile(r"([0-9]{1,2})/([0-9]{1,2})/[0-9]{4}(?:,? .*)?")
_WITH_TIME = re.compile(r"(.+?),? +([0-9]{1,2}(?::[0-9]{2}){1,2})(?: ?([AaPp][Mm]))?")  # 14:05, 14:05:30 or 2:05 PM
_COMMA_AND_POINT = str.maketrans(",.", ".,")
_THOUSANDS = re.compile(r"[+-]?[1-9][0-9]{0,2}[.,][0-9]{3}")  # or three decimals
_GROUPED = re.compile(r"[+-]?[1-9][0-9]{0,2}(?:\.[0-9]{3})+(?:,[0-9]*)?")  # 1.234 or 1.234.567,8
_KINDS = ("text", "numeric", "categorical", "date", "ignored", "short", "mixed", "mixed dates")
_PART_OF = {"short": "text", "mixed": "numeric", "mixed dates": "date"}


def is_missing(value: Any) -> bool:
    """Whether a cell is empty."""
    return value is None or (isinstance(value, str) and not value.strip())


def no_value(value: Any) -> bool:
    """Whether a cell of a column of numbers or dates says that there is none."""
    if isinstance(value, str):
        return value.strip().lower() in _NO_VALUE
    return isinstance(value, float | Decimal | date) and value != value  # nan, or NaT of pandas


def parse_date(value: Any, month_first: bool | None = None) -> datetime | None:
    """A date in ISO format or a common other one, possibly with a time; in UTC if it has no zone.

    None if it is no date from 1 to 9999. `month_first` is the order of dates such as 3/4/2024; None: day first, or
    month first if that is no date.
    """
    if isinstance(value, date):  # also a datetime or a Timestamp of pandas
        moment = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    text = str(value).strip()
    if not 8 <= len(text) <= _LONGEST_DATE or text.isdecimal():
        return None
    time = ""  # its format, with or without seconds
    if found := _WITH_TIME.fullmatch(text):
        text = " ".join(filter(None, found.groups()))
        time = (" %I:%M:%S" if found[3] else " %H:%M:%S")[: 3 * len(found[2].split(":"))] + (" %p" if found[3] else "")
    days = (f"{day}{time}" for day in (*_ORDERS[month_first], *_DAYS))
    for pattern in (None, *days, f"%a, {_E_MAIL}", _E_MAIL):  # None: ISO
        try:
            moment = datetime.fromisoformat(text) if pattern is None else datetime.strptime(text, pattern)
            return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        except ValueError:
            continue
    return None


def is_month_first(cells: Iterable[Any]) -> bool:
    """Whether dates such as 12/31/2024 in a column require the month first, and none requires the day first."""
    found = [match for cell in cells if isinstance(cell, str) and (match := _SLASHES.fullmatch(cell.strip()))]
    return any(int(match[2]) > 12 for match in found) and all(int(match[1]) <= 12 for match in found)


def with_point(token: str) -> str:
    """A number with a decimal comma, and points between thousands, as Python writes it; 1.5 becomes no number."""
    return (token.replace(".", "") if _GROUPED.fullmatch(token) else token).translate(_COMMA_AND_POINT)


def with_decimal_comma(columns: Mapping[str, Iterable[Any]]) -> list[str]:
    """The columns whose numbers have a decimal comma.

    Cells such as 12,5 or 1.234.567 require it, and one such as 1.5 requires a point. A column that has neither, but
    cells such as 1.234, is as the other columns are.
    """
    comma, point, unclear = [], [], []
    for name, cells in columns.items():
        tokens = [cell.strip() for cell in cells if isinstance(cell, str) and not no_value(cell)]
        with_mark = [token for token in tokens if "," in token or "." in token]
        clear = [token for token in with_mark if not _THOUSANDS.fullmatch(token)]
        if any(map(is_number, clear)):
            point.append(name)
        elif any(is_number(with_point(token)) for token in clear):
            comma.append(name)
        elif any(map(is_number, with_mark)):
            unclear.append(name)
    return comma if point or not comma else [name for name in columns if name in {*comma, *unclear}]


def find_kinds(columns: Mapping[str, Sequence[Any]], weighted: bool) -> dict[str, list[str]]:
    """The names of the columns by kind. Without `weighted`, only text, numeric and categorical are distinguished.

    "short" are those of "text" whose cells are short, such as names; "mixed" and "mixed dates" are those of "numeric"
    and "date" that have a few other cells.
    """
    kinds: dict[str, list[str]] = {kind: [] for kind in _KINDS}
    commas = set(with_decimal_comma(columns)) if weighted else set()
    for name, cells in columns.items():
        values = [value for value in cells if not is_missing(value)]
        kind = _kind(values) if not weighted else _detailed_kind(name, values, name in commas)
        if _PANDAS_INDEX.fullmatch(name):
            kind = "ignored"
        kinds[kind].append(name)
        if kind in _PART_OF:
            kinds[_PART_OF[kind]].append(name)
    return kinds


def _is_numeric(value: Any, comma: bool = False) -> bool:
    if isinstance(value, str):
        return is_number(with_point(value.strip()) if comma else value.strip())
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _kind(values: list[Any]) -> str:
    """Whether the cells of a column are "numeric", "text" or "categorical"."""
    if values and all(map(_is_numeric, values)):
        return "numeric"
    n_texts = sum(isinstance(value, str) and (len(value.split()) > 2 or len(value) >= _LONG_TEXT) for value in values)
    return "text" if 2 * n_texts > len(values) else "categorical"


def _detailed_kind(name: str, values: list[Any], comma: bool) -> str:
    """The same, or "short", "mixed", "date", "mixed dates" or "ignored"."""
    known = [value for value in values if not no_value(value)]
    if not known or any(isinstance(value, list | dict | bytes) for value in values):
        return "ignored"
    numbers = [value for value in known if _is_numeric(value, comma)]
    n_odd = len(known) - len(numbers)
    most = max(1, _ODD_SHARE * len(known)) if len(known) >= _FEW else 0
    if n_odd <= most:
        return "ignored" if _is_id(name, numbers) else "mixed" if n_odd else "numeric"
    month_first = is_month_first(known)
    is_odd = cache(lambda text: parse_date(text, month_first) is None)  # a text may be in many cells
    odd = (value for value in known if not isinstance(value, date) and is_odd(str(value)))
    n_odd = len(list(islice(odd, int(most) + 1)))  # no more are needed to know whether this is a column of dates
    if n_odd <= most:
        return "mixed dates" if n_odd else "date"
    kind = _kind(known)
    n, n_distinct = len(values), len(set(map(str, values)))
    words = {str(value).strip().lower() for value in values[: 10 * _FEW]}
    if n < _FEW or any(words <= pair for pair in _BOOLEANS):
        return kind
    if n_distinct == n and (all(_CODE.fullmatch(str(value).strip()) for value in values) or _is_code(name, values)):
        return "ignored"
    if kind == "text":
        return "categorical" if 20 * n_distinct <= n else "text"
    return "short" if 5 * n_distinct > n else "categorical"


def _is_called_id(name: str) -> bool:
    return len(name) <= _LONGEST_NAME and _ID_NAME.fullmatch(name) is not None


def _is_code(name: str, values: list[Any]) -> bool:
    """Whether a column that is called id has the same text around numbers in all rows, such as A-1042 and A-977."""
    return _is_called_id(name) and len({_DIGITS.sub("0", str(value).strip()) for value in values}) == 1


def _is_id(name: str, values: list[Any]) -> bool:
    """Whether numbers only count the rows, or are different in every row of a column that is called id."""
    if len(values) < _FEW or len(set(map(str, values))) < len(values):
        return False
    try:
        numbers = sorted(int(str(value)) for value in values)
    except ValueError:
        return False
    return numbers[-1] - numbers[0] == len(numbers) - 1 or _is_called_id(name)
