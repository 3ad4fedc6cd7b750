"""The rules of the house: imports, size and names of files, no pickle, no paths of one machine."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
ROOMS = ["cli", "serve", "bench", "torch", "distributed", "estimators", "datasets", "models", "io", "metrics"]
TEXT = {".py", ".md", ".toml", ".cfg", ".ini", ".txt", ".yml", ".yaml", ".sh", ".ipynb", ".rst"}


def named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


each_source = pytest.mark.parametrize("path", SOURCES, ids=named)


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


@pytest.mark.parametrize(
    ("room", "line", "held"),
    [
        ("kernels", "import numpy, numba", True),
        ("kernels", "import manyclass.models", False),
        ("kernels", "import scipy.sparse", False),
        ("metrics", "import manyclass.io", False),
        ("attic", "import numpy", False),
    ],
)
def test_contracts_catch_a_wrong_import(tmp_path, room, line, held):
    for name in [*ROOMS, "kernels", room]:
        folder = tmp_path / "manyclass" / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "__init__.py").touch()
    (tmp_path / "manyclass" / "__init__.py").touch()
    (tmp_path / "manyclass" / room / "rule.py").write_text(line)
    run = lint_imports(tmp_path)
    assert "Contracts: " in run.stdout, run.stdout + run.stderr
    assert (run.returncode == 0) == held, run.stdout


@pytest.mark.parametrize("path", [path for path in SOURCES if "kernels" in path.parts], ids=named)
def test_kernels_import_numpy_and_numba_only(path):
    allowed = {"numpy", "numba", "manyclass"} | sys.stdlib_module_names
    assert {name.split(".")[0] for name in imported(path)} <= allowed


@each_source
def test_file_is_short(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 400


@each_source
def test_name_says_something(path):
    assert not {"utils", "util", "common", "misc", "helpers"} & {path.stem, *path.relative_to(ROOT).parts}


@each_source
def test_nothing_is_pickled(path):
    assert not {"pickle", "cPickle", "cloudpickle", "dill", "joblib", "shelve", "marshal"} & {
        name.split(".")[0] for name in imported(path)
    }
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
            assert isinstance(node.value, ast.Constant) and node.value.value is False


def imported(path: Path) -> set[str]:
    """Full names of all modules that a file imports, wherever in the file."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module if node.level == 0 and node.module else "manyclass")
    return found


def project_texts() -> list[Path]:
    """All texts of the project: not what make, git or an editor keep in the same folder."""
    folders = ["src", "tests", "scripts", "docs", "reproduce", ".ci"]
    inside = [path for folder in folders for path in (ROOT / folder).rglob("*")]
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
