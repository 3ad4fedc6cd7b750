"""Compiled code is cached where it may be written, and where nobody else may plant some."""

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from manyclass.kernels import jit

SOURCE = Path(jit.__file__).parents[1]

# A copy of the package that takes its own folder and the home for read-only: as root, a mode does not bind.
PROGRAM = """
import pathlib, tempfile
writable = pathlib.Path(tempfile.gettempdir()).resolve()
import importlib.util
import numba
spec = importlib.util.find_spec("manyclass.kernels.jit")
source = pathlib.Path(spec.origin).read_text()
guard = '''
_really = _writable
def _writable(folder, mode=0o700):
    return {test} and _really(folder)
'''.format(test="pathlib.Path(folder).resolve().is_relative_to(pathlib.Path({!r}))".format(str(writable)))
source = source.replace("_choose_cache()\\n\\n", "import pathlib\\n" + guard + "_choose_cache()\\n\\n", 1)
assert "_really" in source
pathlib.Path(spec.origin).write_text(source)
import numpy as np
from manyclass.kernels.losses import probabilities_batch
probabilities_batch(np.ones((2, 3)), np.array([3, 3]), 0)
print(numba.config.CACHE_DIR)
"""


def run(tmp_path, temp, program=PROGRAM, **env):
    room = tmp_path / "installed" / "manyclass"
    kernels = room / "kernels"
    shutil.copytree(SOURCE / "kernels", kernels, ignore=shutil.ignore_patterns("__pycache__"))
    (room / "__init__.py").touch()
    temp.mkdir(exist_ok=True)
    hidden = {"HOME", "NUMBA_CACHE_DIR", "XDG_CACHE_HOME"}
    clean = {name: value for name, value in os.environ.items() if name not in hidden}
    done = subprocess.run(
        [sys.executable, "-B", "-c", program],
        env=clean | {"PYTHONPATH": str(room.parent), "TMPDIR": str(temp)} | env,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.splitlines()[-1]), kernels


def test_without_a_home_the_cache_is_private(tmp_path):
    cache, kernels = run(tmp_path, tmp_path / "temp")
    folder = cache.parent  # the cache itself is named by the sources' digest
    assert folder.parent == tmp_path / "temp"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert list(folder.rglob("*.nbi"))
    assert not list(kernels.rglob("*.nb*"))


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="modes are of POSIX")
def test_a_folder_that_others_may_write_is_not_trusted(tmp_path):
    temp = tmp_path / "temp"
    temp.mkdir()
    planted = temp / f"manyclass-cache-{os.getuid()}"
    planted.mkdir()
    planted.chmod(0o777)
    folder = run(tmp_path, temp)[0].parent
    assert folder != planted
    assert folder.parent == temp
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert not list(planted.iterdir())


@pytest.mark.skipif(not hasattr(os, "symlink"), reason="needs links")
def test_a_link_is_not_trusted(tmp_path, monkeypatch):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    (tmp_path / f"manyclass-cache-{os.getuid()}").symlink_to(elsewhere)
    monkeypatch.setattr(jit.tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(jit.tempfile, "tempdir", str(tmp_path))
    folder = jit._private_folder()
    assert not folder.is_symlink()
    assert folder.parent == tmp_path
    assert not list(elsewhere.iterdir())


def test_the_second_process_finds_the_same_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(jit.tempfile, "tempdir", str(tmp_path))
    assert jit._private_folder() == jit._private_folder()


def test_other_sources_have_another_cache(tmp_path, monkeypatch):
    """Numba does not look at the files that a cached function calls, so a pull could leave old code running."""
    (tmp_path / "jit.py").write_text("one")
    monkeypatch.setattr(jit, "__file__", str(tmp_path / "jit.py"))
    before = jit._digest()
    (tmp_path / "called.py").write_text("two")
    assert jit._digest() != before


def test_a_stated_cache_is_left_alone(monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", "stated")
    monkeypatch.setattr(jit, "_writable", lambda folder, mode=0: pytest.fail("looked for another folder"))
    jit._choose_cache()


def test_a_writable_package_keeps_its_cache(monkeypatch):
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    before = jit.numba.config.CACHE_DIR
    monkeypatch.setattr(jit, "_writable", lambda folder, mode=0: folder == Path(jit.__file__).parent / "__pycache__")
    monkeypatch.setattr(jit, "_private_folder", lambda: pytest.fail("not needed"))
    jit._choose_cache()
    assert jit.numba.config.CACHE_DIR == before


def test_a_home_comes_before_the_temporary_folder(monkeypatch, tmp_path):
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(jit.numba.config, "CACHE_DIR", "")
    monkeypatch.setattr(jit, "_writable", lambda folder, mode=0: folder.is_relative_to(tmp_path))
    jit._choose_cache()
    assert Path(jit.numba.config.CACHE_DIR).is_relative_to(tmp_path)
