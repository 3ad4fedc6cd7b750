"""Rules of the code base: imports, file names, no pickle, no paths of one machine."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
PACKAGES = re.findall(r"\w+", " ".join(CONTRACTS[0]["layers"]))
TEXT = {".py", ".md", ".toml", ".cfg", ".ini", ".txt", ".yml", ".yaml", ".sh", ".ipynb", ".rst", ".cff"}


def named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def lint_imports(source: Path) -> subprocess.CompletedProcess:
    """Check the contracts of pyproject.toml on the package in a folder."""
    command = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    config = str(ROOT / "pyproject.toml")
    return subprocess.run(
        [sys.executable, "-c", command, "--no-cache", "--config", config],
        cwd=source,
        env=os.environ | {"PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
    )


def test_contracts_hold():
    run = lint_imports(ROOT / "src")
    assert run.returncode == 0, run.stdout + run.stderr


def test_contracts_name_what_exists():
    found = {path.stem for path in (ROOT / "src" / "manyclass").iterdir() if path.suffix == ".py" or path.is_dir()}
    assert set(PACKAGES) == found - {"__init__", "__main__", "__pycache__"}


@pytest.mark.parametrize(
    ("package", "line", "held"),
    [
        ("core", "import numpy, numba", True),
        ("core", "import manyclass.recall_tree", False),
        ("lom_tree", "import manyclass.core", True),
        ("lom_tree", "import manyclass.recall_tree", False),
        ("metrics", "import manyclass.io", False),
        ("io", "import manyclass.core", False),
        ("attic", "import numpy", False),
    ],
)
def test_contracts_catch_a_wrong_import(tmp_path, package, line, held):
    for name in [*PACKAGES, package]:
        folder = tmp_path / "manyclass" / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "__init__.py").touch()
    (tmp_path / "manyclass" / "__init__.py").touch()
    (tmp_path / "manyclass" / package / "rule.py").write_text(line)
    run = lint_imports(tmp_path)
    assert "Contracts: " in run.stdout, run.stdout + run.stderr
    assert (run.returncode == 0) == held, run.stdout


def test_every_algorithm_has_the_same_files():
    algorithms = CONTRACTS[1]["modules"]
    assert len(algorithms) == 6
    for name in algorithms:
        folder = ROOT / "src" / name.replace(".", "/")
        assert {"__init__.py", "estimator.py", "model.py", "kernels.py"} <= {path.name for path in folder.iterdir()}


def test_names_say_something():
    vague = {"utils", "util", "common", "misc", "helpers"}
    assert not [named(path) for path in SOURCES if vague & {path.stem, *path.relative_to(ROOT).parts}]


def test_nothing_is_pickled():
    modules = {"pickle", "cPickle", "cloudpickle", "dill", "shelve", "marshal"}
    for path in SOURCES:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        assert not modules & {name.split(".")[0] for name in imported(tree)}, named(path)
        for node in ast.walk(tree):
            if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
                assert isinstance(node.value, ast.Constant) and node.value.value is False, named(path)


def test_only_one_file_uses_private_parts_of_numba():
    private = re.compile(r"numba\.(core|_dynfunc)|from numba import .*_|numba\.config\.\w+\s*=")
    allowed = {"src/manyclass/jit.py", "src/manyclass/core/prefetch.py"}  # the latter: code builders for an intrinsic
    assert {named(path) for path in SOURCES if private.search(path.read_text(encoding="utf-8"))} <= allowed


def test_light_import():
    """Importing the package and its estimators requires nothing but the required dependencies."""
    program = """
import sys
for name in ("typer", "rich", "pyarrow", "zstandard", "pooch", "matplotlib", "pandas", "safetensors"):
    sys.modules[name] = None
import manyclass
for name in manyclass.__all__:
    getattr(manyclass, name)
import manyclass.datasets, manyclass.io, manyclass.metrics
manyclass.datasets.load_wordnet
"""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=env)
    assert run.returncode == 0, run.stderr


def imported(tree: ast.AST) -> set[str]:
    """Full names of all modules that a file imports, anywhere in the file."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module if node.level == 0 and node.module else "manyclass")
    return found


def project_texts() -> list[Path]:
    """All texts of the project, without build products."""
    folders = ["src", "tests", "scripts", "docs", "reproduce", "benchmarks", "conda", ".ci", ".github"]
    built = [ROOT / "docs" / name for name in ("_build", "auto_gallery", "generated")]
    found = [path for folder in folders for path in (ROOT / folder).rglob("*")]
    inside = [path for path in found if not any(path.is_relative_to(folder) for folder in built)]
    return sorted(
        path
        for path in [*inside, *ROOT.iterdir()]
        if path.is_file() and (path.suffix in TEXT or path.name in {"Makefile", "run", "NOTICE"})
    )


def test_no_path_of_one_machine():
    pattern = re.compile(r"(?<![\w.*}])/(?:work|tmp|root|home|Users|opt)(?![\w-])")
    found = [
        f"{named(path)}:{number}: {line.strip()}"
        for path in project_texts()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if pattern.search(line)
    ]
    assert not found


def test_links_between_pages_lead_somewhere():
    broken = []
    for page in (path for path in project_texts() if path.suffix == ".md"):
        for link in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            if not link.startswith("http") and not (page.parent / link).exists():
                broken.append(f"{named(page)}: {link}")
    assert not broken


def test_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) < 100
