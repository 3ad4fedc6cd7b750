"""Figures in pages come from the committed results."""

import json

import pytest

from reproduce.figures import ROOT, fill, pages, race_table

TABLE = 'data,model,error %\naloi,"tree, ours",9.0649\naloi,flat,12.5\nisolet,flat,1234.5\nisolet,tree,–\n'


@pytest.fixture
def root(tmp_path):
    """A repository with one table and one cell of the race."""
    results = tmp_path / "reproduce" / "a_paper" / "results"
    results.mkdir(parents=True)
    (results / "table_1.csv").write_text(TABLE, encoding="utf-8")
    cells = tmp_path / "benchmarks" / "race" / "cells"
    cells.mkdir(parents=True)
    for name, cell in {"good": {"state": "done", "precision": {"1": 0.98765}}, "late": {"state": "late"}}.items():
        (cells / f"aloi.{name}.json").write_text(json.dumps(cell))
    return tmp_path


@pytest.mark.parametrize("page", list(pages()), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_pages_have_the_figures_of_the_results(page):
    """`python reproduce/all.py --page-only` fills them in."""
    text = page.read_text(encoding="utf-8")
    assert fill(text) == text
    assert text.count("<!-- figure ") == text.count("<!-- end -->")


@pytest.mark.parametrize(
    ("where", "written", "expected"),
    [
        ("a_paper/table_1; tree, ours; error %", "8.1", "9.1"),
        ("a_paper/table_1; tree, ours; error %", "8.12", "9.06"),
        ("a_paper/table_1; aloi; flat; error %", "3", "13"),
        ("a_paper/table_1; isolet; flat; error %", "0", "1,235"),
        ("a_paper/table_1; isolet; tree; error %", "5.0", "–"),
        ("race; aloi; good", "0.0", "98.8"),
    ],
)
def test_a_figure_is_filled_in_with_the_decimals_it_had(root, where, written, expected):
    page = "Before <!-- figure {} -->{}<!-- end --> after."
    assert fill(page.format(where, written), root) == page.format(where, expected)


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("a_paper/table_2; flat; error %", "expected FOLDER/TABLE"),
        ("a_paper/table_1; flat; error %", "has 2 rows with these cells"),
        ("a_paper/table_1; bush; error %", "has 0 rows with these cells"),
        ("a_paper/table_1; tree, ours; accuracy", "has no column 'accuracy'"),
        ("race; aloi; late", "has no result"),
        ("race; aloi; never", "there is no benchmarks/race/cells/aloi.never.json"),
    ],
)
def test_a_figure_that_is_not_there_is_named(root, where, message):
    with pytest.raises(ValueError, match=message):
        fill(f"<!-- figure {where} -->1<!-- end -->", root)


def test_the_table_of_the_race_has_a_line_for_each_real_set():
    lines = race_table(ROOT)
    assert len(lines) == 10 and len({line.count("|") for line in lines}) == 1
    assert any(line.startswith("| revdict | 52,862 |") for line in lines)
