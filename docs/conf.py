"""Settings of the documentation: `make docs`. The build needs no network; a warning is an error."""

import os
import re
import tomllib
from pathlib import Path

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent

project = "manyclass"
author = "the manyclass authors"
copyright = author
release = version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "numpydoc",
    "myst_parser",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "gallery", "tutorial"]
templates_path = ["_templates"]

# Markdown. Headings get anchors as on GitHub, so that links between pages work in both places.
myst_enable_extensions = ["dollarmath", "attrs_block"]
myst_heading_anchors = 3

# Docstrings use single backticks for code. Doctests in pages end with an empty line, which is not shown.
default_role = "literal"
highlight_options = {"python": {"stripnl": True}}
autosummary_generate = True
autodoc_mock_imports = ["torch", "triton", "mlflow"]
autodoc_typehints = "none"
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False

# Committed lists of the names that the pages use, instead of inventories from the network.
intersphinx_mapping = {
    "python": ("https://docs.python.org/3/", "inventories/python.inv"),
    "sklearn": ("https://scikit-learn.org/stable/", "inventories/scikit-learn.inv"),
}

os.environ.setdefault("MPLBACKEND", "agg")
sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "auto_gallery",
    "filename_pattern": r"\.py$",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "show_signature": False,
    "show_memory": False,
    "abort_on_example_error": True,
    "image_scrapers": ("matplotlib",),
    "reference_url": {"manyclass": None},
    "backreferences_dir": None,
    "min_reported_time": 1e9,
    "write_computation_times": False,
    "plot_gallery": os.environ.get("GALLERY", "1") != "0",
}

html_theme = "pydata_sphinx_theme"
html_title = "manyclass"
html_static_path = ["_static"]
html_css_files = ["manyclass.css"]
html_show_sourcelink = False
html_theme_options = {
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "default",
    "pygments_dark_style": "github-dark",
}
html_sidebars = {"index": [], "getting_started": [], "changelog": []}

# -- pages outside this folder -------------------------------------------------------------------------------------

_INCLUDE = re.compile(r"\A<!-- the text of (\S+) -->\s*\Z")
_LINK = re.compile(r"(!?)\[([^\]]+)\]\(([^)#\s]+)(#[^)\s]*)?\)")


def included() -> dict[Path, str]:
    """Files outside this folder that are pages of the site, and the names of these pages."""
    found = {}
    for page in DOCS.rglob("*.md"):
        match = _INCLUDE.match(page.read_text(encoding="utf-8"))
        if match:
            found[(page.parent / match[1]).resolve()] = page.relative_to(DOCS).with_suffix("").as_posix()
    return found


def read_page(app, name: str, source: list[str]) -> None:
    """Insert the text of a file outside this folder, and point links to such files to something on the site."""
    page = Path(app.env.doc2path(name))
    if page.suffix != ".md":
        return
    base = page.parent
    match = _INCLUDE.match(source[0])
    if match:
        file = (base / match[1]).resolve()
        source[0], base = file.read_text(encoding="utf-8"), file.parent
    pages = included()

    def link(match: re.Match) -> str:
        image, text, target, anchor = match.groups(default="")
        file = (base / target).resolve()
        if file.parent == DOCS / "gallery":  # the page that the gallery makes of a script
            file = DOCS / "auto_gallery" / f"{file.stem}.rst"
            return f"[{text}]({os.path.relpath(file, page.parent)})"
        if text.endswith(".md") and (file in pages or file.is_relative_to(DOCS)):
            text = ""  # the title of the page instead of its file name
        if "://" in target:
            return match[0]
        here = os.path.relpath(file, page.parent)
        if file in pages:
            here = os.path.relpath(DOCS / f"{pages[file]}.md", page.parent)
        elif not image and not file.is_relative_to(DOCS):
            return f"{{download}}`{text.replace('`', '')} <{here}>`" if file.is_file() else text
        return f"{image}[{text}]({here}{anchor})"

    source[0] = _LINK.sub(link, source[0])


def link_docstring(app, what, name, obj, options, lines: list[str]) -> None:
    """Turn names of pages in docstrings, such as docs/services.md, into links."""
    lines[:] = [re.sub(r"docs/([\w/]+)\.md", r":doc:`/\1`", line) for line in lines]


def setup(app) -> None:
    """Connect the above."""
    app.connect("source-read", read_page)
    app.connect("autodoc-process-docstring", link_docstring)
