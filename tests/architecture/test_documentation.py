"""The pages of the site, its gallery and the files of a release. `make docs` and `make release-check` build them."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

import manyclass
from scripts.check_site import broken_links
from scripts.prose import sentences

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = {path.relative_to(DOCS).with_suffix("").as_posix() for path in DOCS.glob("*.md")} | {
    path.relative_to(DOCS).with_suffix("").as_posix() for path in (DOCS / "algorithms").glob("*.md")
}
GALLERY = sorted((DOCS / "gallery").glob("*.py"))


def listed() -> list[str]:
    """The pages in all tables of contents."""
    texts = [page.read_text(encoding="utf-8") for page in DOCS.glob("*.md")]
    blocks = [block for text in texts for block in re.findall(r"```\{toctree\}\n(.*?)```", text, re.S)]
    lines = [line.strip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if line and not line.startswith(":")]


def test_every_page_is_in_one_table_of_contents():
    assert sorted(listed()) == sorted(PAGES - {"index"} | {"api", "auto_gallery/index"})


@pytest.mark.parametrize("script", GALLERY, ids=lambda path: path.stem)
def test_examples_of_the_gallery_are_short(script):
    text = script.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 60
    assert re.match(r"[\w ,]+\n=+\n", (ast.get_docstring(ast.parse(text)) or "")) and "plt.show()" in text


def test_public_names_are_in_the_reference():
    reference = set(re.findall(r"^   (\w+)$", (DOCS / "api.rst").read_text(encoding="utf-8"), re.M))
    assert set(manyclass.__all__) - {"__version__"} <= reference


def test_versions_agree():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert manyclass.__version__ == version
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f'version: "{version}"' in (ROOT / "conda" / "recipe.yaml").read_text(encoding="utf-8")
    assert f"\n## [{version}] - " in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_conda_recipe_has_the_same_requirements():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    recipe = (ROOT / "conda" / "recipe.yaml").read_text(encoding="utf-8").replace(" ", "")
    assert not [needed for needed in project["dependencies"] if f"-{needed}\n" not in recipe]


def test_scripts_start_as_the_pages_say():
    """`benchmarks` is not installed: a script that is started by its path has to find it."""
    pages = [*DOCS.rglob("*.md"), *(ROOT / "benchmarks").rglob("*.md")]
    named = {path for page in pages for path in re.findall(r"python (benchmarks/[\w/]+\.py)", page.read_text("utf-8"))}
    sources = {path: (ROOT / path).read_text(encoding="utf-8") for path in named}
    assert "benchmarks/race.py" in sources
    finds = re.compile(r"sys\.path|^from report import", re.M)  # report.py extends the path
    assert [path for path, text in sources.items() if "from benchmarks" in text and not finds.search(text)] == []


def test_broken_links_are_found(tmp_path):
    (tmp_path / "a.html").write_text('<a href="b.html#there"></a><a href="https://example.org/x"></a><h1 id="x"></h1>')
    (tmp_path / "b.html").write_text('<h1 id="there"></h1><a href="a.html#x"></a><a href="a.html#y"></a><img src="c">')
    assert broken_links(tmp_path) == ["b.html: a.html#y", "b.html: c"]


def test_sentences_are_divided():
    page = "# Title\n\nOne two. Three\nfour:\n\n- five [six](seven.md)\n- eight\n\n```\ncode. code\n```\n| a | b |\n"
    assert [part for part in sentences(page) if part] == ["One two.", "Three four:", "five [six]", "eight"]
