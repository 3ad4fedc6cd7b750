"""`manyclass --help`, installation without the extra, and errors on the command line."""

import os
import subprocess
import sys
from typing import get_args

import pytest

from manyclass.cli import options
from manyclass.estimators import ESTIMATORS
from manyclass.io import FORMATS

ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


def python(program, *args):
    return subprocess.run(
        [sys.executable, "-c", program, *args], capture_output=True, text=True, env=ENVIRONMENT, check=False
    )


def test_help_does_not_import_numpy_or_numba():
    program = """
import sys
from typer.testing import CliRunner
from manyclass.cli.main import app
for words in ([], ["train"], ["predict"], ["tune"]):
    assert CliRunner().invoke(app, [*words, "--help"]).exit_code == 0
heavy = {"numba", "sklearn", "scipy", "numpy", "pyarrow"} & set(sys.modules)
assert not heavy, heavy
"""
    done = python(program)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("package", ["typer", "rich"])
def test_without_the_extra_one_line_says_what_to_install(package):
    done = python(f"import sys; sys.modules[{package!r}] = None; from manyclass.cli import run; run()")
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr == "The command line requires: pip install 'manyclass[cli]'\n"


@pytest.mark.parametrize("module", ["rich", "manyclass.cli.main", "manyclass.cli.data"])
def test_an_interrupt_while_modules_are_imported(module):
    program = """
import sys

class Interrupting:
    def find_spec(self, name, *_):
        if name == sys.argv[2]:
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupting())
from manyclass.cli import run
run()
"""
    done = python(program, "data", module)
    assert done.returncode == 130 and "Traceback" not in done.stderr


def test_import_changes_no_setting():
    program = """
import importlib, os, pkgutil, signal, warnings
import numba, rich.progress, scipy.stats, sklearn.pipeline, typer  # dependencies first

def settings():
    mask = os.umask(0o077)
    os.umask(mask)
    signals = [repr(signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM)]
    return mask, signals, list(map(repr, warnings.filters)), dict(os.environ)

before = settings()
import manyclass.cli
for found in pkgutil.iter_modules(manyclass.cli.__path__, "manyclass.cli."):
    importlib.import_module(found.name)
assert settings() == before
"""
    done = python(program)
    assert done.returncode == 0, done.stderr


def test_choices_match_the_library():
    assert get_args(options.Algorithm) == tuple(ESTIMATORS)
    assert get_args(options.InputFormat) == FORMATS


@pytest.mark.parametrize(
    "words",
    [
        ("magic",),
        ("train", "x.svm"),
        ("train", "x.svm", "--model", "m", "--epochs", "0"),
        ("train", "x.svm", "--model", "m", "--threads", "0"),
        ("train", "x.svm", "--model", "m", "--algorithm", "magic"),
        ("train", "x.svm", "--model", "m", "--input-format", "magic"),
        ("train", "x.svm", "--model", "m", "--labels", "many"),
        ("train", "x.svm", "--model", "m", "--label-kind", "magic"),
        ("predict", "m", "x.svm", "--format", "magic"),
        ("convert", "m", "x", "--slim", "--precision", "int4"),
    ],
)
def test_an_invalid_command_line_is_exit_code_2(call, words):
    result = call(*words)
    assert result.code == 2 and result.err.startswith("Usage: manyclass")


def test_tracebacks_are_shown_on_request(call, monkeypatch):
    assert call("inspect", "none").err == "manyclass: error: none: No such file or directory\n"
    monkeypatch.setenv("MANYCLASS_TRACEBACK", "1")
    with pytest.raises(FileNotFoundError):
        call("inspect", "none")


@pytest.mark.parametrize("words", [("train", "-", "--input-format", "svmlight", "--model", "m"), ("client",)])
def test_a_closed_standard_input_is_reported(call, monkeypatch, words):
    monkeypatch.setattr(sys, "stdin", None)
    result = call(*words)
    assert result.code == 1 and result.err.startswith("manyclass: error: standard input") and "closed" in result.err


def test_warmup_lists_what_it_compiled(call, monkeypatch):
    from manyclass.cli import warmup

    tasks = []
    monkeypatch.setattr(warmup, "_compile_in_process", lambda task: tasks.append(task) or 1.25)
    result = call("warmup", "recall-tree", "lom-tree", "--threads", "2")
    assert result.code == 0 and "recall-tree, sparse inputs: 1.2 s" in result.out
    assert sorted(tasks) == [(name, kind) for name in ("lom-tree", "recall-tree") for kind in ("dense", "sparse")]
    assert "unknown algorithm oak; choose from recall-tree" in call("warmup", "oak").err


def test_warmup_reports_a_failed_compilation(call, monkeypatch):
    from manyclass.cli import warmup

    monkeypatch.setattr(warmup, "INPUTS", ("wooden",))
    assert "compiling lom-tree for wooden inputs failed" in call("warmup", "lom-tree").err


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_warmup_calls_the_main_methods(kind):
    from manyclass.cli import warmup

    warmup.compile_one("one-against-all", kind)
