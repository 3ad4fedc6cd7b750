"""Every row of the paper map, and every name in the list of checks, names something that exists."""

import importlib
import itertools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAPER_MAP = ROOT / "docs" / "paper_map.md"
SCRIPT = re.compile(r"\b(?:reproduce|benchmarks)/[\w/]+\.py\b")
NAME = re.compile(r"`((?:manyclass|reproduce|benchmarks)(?:\.\w+)+)(?:\(\))?`")


def resolve(name: str) -> object:
    """Import the longest module that a dotted name starts with and look the rest up in it."""
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError as error:
            if error.name is None or not name.startswith(error.name):
                raise
            continue
        for part in parts[cut:]:
            found = getattr(found, part)
        return found
    raise ModuleNotFoundError(name)


def rows() -> list[str]:
    """The rows of all tables, without their heads."""
    if not PAPER_MAP.exists():
        return []
    lines = PAPER_MAP.read_text(encoding="utf-8").splitlines()
    table = [line for line in lines if line.startswith("|")]
    heads = {above for above, below in itertools.pairwise(lines) if re.match(r"^\|[\s:|-]+\|?$", below)}
    return [line for line in table if line not in heads and not re.match(r"^\|[\s:|-]+\|?$", line)]


def test_the_map_is_there():
    assert PAPER_MAP.is_file(), "docs/paper_map.md is missing"
    assert rows()


def test_every_row_names_something_that_exists():
    for row in rows():
        names, scripts = NAME.findall(row), SCRIPT.findall(row)
        assert names or scripts or "not yet" in row, row
        assert all((ROOT / script).is_file() for script in scripts), row
        for name in names:
            resolve(name)


@pytest.mark.parametrize("name", ["manyclass.recall_tree.kernels.no_such_rule", "manyclass.no_such_package.rule"])
def test_a_wrong_name_is_found(name):
    with pytest.raises((AttributeError, ModuleNotFoundError)):
        resolve(name)


def test_the_list_of_checks_names_what_exists():
    names = set(re.findall(r"`(\w+)`", (ROOT / "docs" / "invariants.md").read_text(encoding="utf-8")))
    sources = {word for path in (ROOT / "src").rglob("*.py") for word in re.findall(r"\w+", path.read_text("utf-8"))}
    assert len(names) > 50
    assert not names - sources
