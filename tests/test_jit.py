"""Compiled code is cached where it may be written, and importing the package changes nothing for others."""

import os
import stat
import subprocess
import sys

import pytest

from manyclass import jit

# All modules, then a kernel; the settings of the process before and after.
IMPORT = """
import gc, logging, os, random, signal, sys, warnings
import numba, numpy, sklearn
from numba.core import event

def settings():
    mask = os.umask(0o077)
    os.umask(mask)
    return {
        "numba.config": {name: repr(getattr(numba.config, name)) for name in dir(numba.config) if name.isupper()},
        "listeners": {kind: len(found) for kind, found in event._registered.items() if found},
        "umask": mask,
        "gc": (gc.isenabled(), gc.get_threshold(), gc.get_freeze_count()),
        "gc callbacks": len(gc.callbacks),
        "warnings": list(map(repr, warnings.filters)),
        "random": (hash(random.getstate()), numpy.random.get_state()[1].tobytes()),
        "errstate": numpy.geterr(),
        "sklearn": sklearn.get_config(),
        "environment": dict(os.environ),
        "recursion": sys.getrecursionlimit(),
        "path": list(sys.path),
        "folder": os.getcwd(),
        "sigint": signal.getsignal(signal.SIGINT),
        "logging": (logging.root.level, len(logging.root.handlers)),
    }

import importlib, pkgutil
import scipy.sparse, scipy.stats, sklearn.feature_extraction.text, sklearn.utils.metaestimators  # dependencies first
before = settings()
import manyclass
for found in pkgutil.walk_packages(manyclass.__path__, "manyclass."):
    # The command line and the service are programs; Dask, PyTorch and MLflow have settings of their own.
    others = ("cli", "serve", "distributed", "torch", "mlflow")
    if not found.name.endswith("__main__") and found.name.split(".")[1] not in others:
        importlib.import_module(found.name)
imported = settings()
from manyclass.core.losses import probabilities_batch
probabilities_batch(numpy.ones((2, 3)), numpy.array([3, 3]), 0)
for name, after in (("import", imported), ("compilation", settings())):
    changed = [key for key in before if before[key] != after[key]]
    assert not changed, f"{name} changed {changed}"
"""


def run(program, **env):
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **env},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_and_compilation_change_no_setting(tmp_path):
    run(IMPORT, NUMBA_CACHE_DIR=str(tmp_path))


def test_a_compilation_that_fails_restores_the_settings():
    @jit.kernel
    def wrong(x):
        return x.no_such_attribute

    before = jit.numba.config.SLP_VECTORIZE, jit.gc.isenabled()
    with pytest.raises(jit.numba.TypingError):
        wrong(1)
    assert (jit.numba.config.SLP_VECTORIZE, jit.gc.isenabled()) == before


@pytest.fixture
def folder(monkeypatch):
    """`cache_folder` where no folder was chosen before."""
    monkeypatch.setattr(jit.numba.config, "CACHE_DIR", "")
    for cached in (jit.cache_folder, jit._private_folder):
        cached.cache_clear()
    yield jit.cache_folder
    for cached in (jit.cache_folder, jit._private_folder):
        cached.cache_clear()


def allow(monkeypatch, root):
    """Only folders below `root` can be written."""
    really = jit._writable
    monkeypatch.setattr(jit, "_writable", lambda path, mode=0o700: path.is_relative_to(root) and really(path, mode))


def test_a_stated_folder_is_used(folder, monkeypatch, tmp_path):
    monkeypatch.setattr(jit.numba.config, "CACHE_DIR", str(tmp_path))
    assert folder(jit.PACKAGE / "core").parent == tmp_path


def test_a_writable_package_keeps_its_cache(folder, tmp_path):
    assert folder(tmp_path) == tmp_path / "__pycache__"


def test_the_user_cache_comes_before_the_temporary_folder(folder, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    allow(monkeypatch, tmp_path)
    assert folder(jit.PACKAGE / "core").parent == tmp_path / "manyclass"


def test_without_a_home_the_cache_is_private(folder, monkeypatch, tmp_path):
    monkeypatch.setattr(jit.tempfile, "tempdir", str(tmp_path))
    allow(monkeypatch, tmp_path)
    private = folder(jit.PACKAGE / "core").parent
    assert private.parent == tmp_path
    assert stat.S_IMODE(private.stat().st_mode) == 0o700
    jit._private_folder.cache_clear()
    assert private == jit._private_folder()  # the next process finds it


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="modes are of POSIX")
@pytest.mark.parametrize("attack", ["open", "link"])
def test_a_folder_of_others_is_not_trusted(monkeypatch, tmp_path, attack):
    monkeypatch.setattr(jit.tempfile, "tempdir", str(tmp_path))
    planted, elsewhere = tmp_path / f"manyclass-cache-{os.getuid()}", tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    if attack == "open":
        planted.mkdir()
        planted.chmod(0o777)
    else:
        planted.symlink_to(elsewhere)
    jit._private_folder.cache_clear()
    private = jit._private_folder()
    jit._private_folder.cache_clear()
    assert private != planted and private.parent == tmp_path
    assert stat.S_IMODE(private.stat().st_mode) == 0o700
    assert not list(elsewhere.iterdir())


def test_a_change_in_any_file_makes_the_cache_stale(tmp_path):
    """Numba looks only at the file of the cached function: an update could leave old code running."""
    (tmp_path / "called.py").write_text("one")
    before = jit.source_digest(tmp_path)
    (tmp_path / "called.py").write_text("two")
    jit.source_digest.cache_clear()
    assert jit.source_digest(tmp_path) != before
    kernels = jit.PACKAGE / "recall_tree" / "kernels.py"
    stamp = jit._Locator(jit.source_digest.__wrapped__, str(kernels)).get_source_stamp()
    assert jit.source_digest(kernels.parent) in stamp
    assert jit.source_digest(jit.PACKAGE / "label_tree") not in stamp


def test_a_second_process_compiles_nothing(tmp_path):
    program = """
import numpy as np
from manyclass.core.losses import probabilities_batch as f
f(np.ones((2, 3)), np.array([3, 3]), 0)
print(sum(f.stats.cache_hits.values()), sum(f.stats.cache_misses.values()))
"""
    assert run(program, NUMBA_CACHE_DIR=str(tmp_path)).split() == ["0", "1"]
    assert run(program, NUMBA_CACHE_DIR=str(tmp_path)).split() == ["1", "0"]


def test_an_unreadable_cache_is_compiled_again(tmp_path):
    """The index of an older version may refer to classes that no longer exist."""
    program = """
import numpy as np
from manyclass.core.losses import probabilities_batch as f
f(np.ones((2, 3)), np.array([3, 3]), 0)
"""
    run(program, NUMBA_CACHE_DIR=str(tmp_path))
    (index,) = tmp_path.rglob("*.probabilities_batch-*.nbi")
    index.write_bytes(index.read_bytes()[:-20])
    before = index.stat().st_size
    run(program, NUMBA_CACHE_DIR=str(tmp_path))
    assert index.stat().st_size > before


KERNEL = """
import numpy as np
from manyclass.core.losses import probabilities_batch as f
arguments = np.ones((2, 3)), np.array([3, 3]), 0
"""


@pytest.mark.parametrize("damaged", ["nbi", "nbc"])  # the index, the code
def test_a_damaged_cache_is_compiled_again(tmp_path, damaged):
    program = KERNEL + "f(*arguments); print(sum(f.stats.cache_hits.values()))"
    run(program, NUMBA_CACHE_DIR=str(tmp_path))
    (path,) = tmp_path.rglob(f"*.probabilities_batch-*.{damaged}")
    path.write_bytes(path.read_bytes()[:-20])
    assert run(program, NUMBA_CACHE_DIR=str(tmp_path)).split() == ["0"]
    assert run(program, NUMBA_CACHE_DIR=str(tmp_path)).split() == ["1"]


def test_a_cache_that_cannot_be_written(tmp_path):
    folder = tmp_path / "cache"
    no_folder = f"import shutil; shutil.rmtree({str(folder)!r}); open({str(folder)!r}, 'w').close()\n"
    run(f"{KERNEL}{no_folder}f(*arguments)", NUMBA_CACHE_DIR=str(folder))


INTERRUPTED = """
import signal
from numba.core.typing.templates import BaseRegistryLoader

usual, interrupted = BaseRegistryLoader.new_registrations, set()

def interrupt(self, name):
    for item in usual(self, name):
        if self not in interrupted:
            interrupted.add(self)
            signal.raise_signal(signal.SIGINT)
        yield item

BaseRegistryLoader.new_registrations = interrupt
signal.signal(signal.SIGINT, signal.default_int_handler)
while True:
    try:
        f(*arguments)
        break
    except KeyboardInterrupt:
        pass
assert interrupted
"""


def test_an_interrupt_waits_for_the_compilation(tmp_path):
    """Numba does not register again what an interrupt kept it from registering: it could compile nothing any more."""
    run(KERNEL + INTERRUPTED, NUMBA_CACHE_DIR=str(tmp_path))


FORKED = """
import os, signal, threading
from numba.core import event

class Begin(event.Listener):
    def on_start(self, event):
        compiles.set()

    def on_end(self, event):
        pass

compiles = threading.Event()
event.register("numba:compile", Begin())
thread = threading.Thread(target=f, args=arguments)
thread.start()
compiles.wait()
child = os.fork()
if not child:
    signal.alarm(60)
    f(np.ones((2, 3), np.float32), *arguments[1:])
    os._exit(0)
thread.join()
assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="requires fork")
def test_a_process_that_is_forked_while_another_thread_compiles(tmp_path):
    run(KERNEL + FORKED, NUMBA_CACHE_DIR=str(tmp_path))


def test_another_version_of_numba_is_refused():
    program = "import numba; numba.__version__ = '0.99.1'; import manyclass.jit"
    with pytest.raises(AssertionError, match=r"requires Numba 0\.\d+ to 0\.\d+, found 0\.99\.1"):
        run(program)


@jit.device
def twice(x):
    return 2 * x


@jit.kernel
def four_times(x):
    return twice(twice(x))


def test_kernels_share_no_code():
    """A function shared with another kernel would be the copy of the kernel that was loaded first, rounded as there."""
    assert four_times(1.5) == 6.0
    (compiled,) = four_times.overloads.values()
    functions = [one for one in compiled.library._final_module.functions if not one.is_declaration]
    assert functions
    assert {one.linkage for one in functions} <= {jit.Linkage.external, jit.Linkage.internal}
