"""Numba decorators for all kernels. This is the only file that uses private parts of Numba.

`kernel` is for functions that Python calls; they may allocate. `device` is for functions that kernels call, and Python
rarely; they must not allocate. `inlined` is a device function that is always inlined, and so is `ordered`, which adds
terms in their order. The `exact_` variants allow no change of floating-point operations.

What the public `numba.njit` does not offer, and what it is worth:

- Device functions without reference counting (`_nrt=False`): passing a group of arrays is then free (a score of 32
  non-zeros takes 62 ns instead of 226).
- Device functions that are compiled only as a part of their callers: the first `fit` and `predict` of a Recall Tree
  takes 12 s instead of 19.
- SLP vectorization for our kernels only (3.4 times faster block scores in the label tree). Numba reads this setting
  from `numba.config`; it is changed while one of our kernels is compiled, under Numba's compiler lock, and restored.
- Kernels that do not share code (`_KernelLibrary`): results do not depend on what was used before.
- A disk cache that notices changes in all source files that a function may use, not only in its own file.
"""

import gc
import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import numba
from llvmlite.binding import Linkage

from .interrupts import uninterrupted

# The range that the tests were run with; pyproject.toml has the same one.
OLDEST, NEWEST = (0, 68), (0, 68)
_VERSION = tuple(int(part) for part in numba.__version__.split(".")[:2] if part.isdigit())
if not OLDEST <= _VERSION <= NEWEST:
    raise ImportError(
        f"manyclass requires Numba {OLDEST[0]}.{OLDEST[1]} to {NEWEST[0]}.{NEWEST[1]}, found {numba.__version__}. "
        f"Install a supported version: pip install 'numba>={OLDEST[0]}.{OLDEST[1]},<{NEWEST[0]}.{NEWEST[1] + 1}'"
    )

from numba import _dynfunc  # type: ignore[attr-defined]  # noqa: E402
from numba.core import caching, compiler, event, typed_passes  # noqa: E402
from numba.core.codegen import JITCodeLibrary  # noqa: E402
from numba.core.compiler_lock import global_compiler_lock  # noqa: E402
from numba.core.compiler_machinery import register_pass  # noqa: E402
from numba.core.registry import CPUDispatcher  # noqa: E402

# -- disk cache ----------------------------------------------------------------------------------------------------

PACKAGE = Path(__file__).parent


def _writable(folder: Path, mode: int = 0o700) -> bool:
    try:
        folder.mkdir(mode=mode, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


@lru_cache(maxsize=1)
def _private_folder() -> Path:
    """A temporary folder that only this user may write: the cache contains code that will be executed."""
    folder = Path(tempfile.gettempdir()) / f"manyclass-cache-{os.getuid() if hasattr(os, 'getuid') else 'user'}"
    if _writable(folder):
        status = folder.lstat()
        ours = not hasattr(os, "getuid") or status.st_uid == os.getuid()
        if ours and not folder.is_symlink() and (os.name == "nt" or status.st_mode & 0o077 == 0):
            return folder
    return Path(tempfile.mkdtemp(prefix="manyclass-cache-"))


@lru_cache(maxsize=64)
def cache_folder(source_folder: Path) -> Path:
    """The folder for compiled code of one source folder.

    The first that can be written of: `NUMBA_CACHE_DIR` if set, `__pycache__` beside the sources, the user's cache
    folder, a private temporary folder.
    """
    name = f"{source_folder.name}-{hashlib.sha256(str(source_folder).encode()).hexdigest()[:12]}"
    if numba.config.CACHE_DIR:  # type: ignore[attr-defined]
        return Path(numba.config.CACHE_DIR) / name  # type: ignore[attr-defined]
    if _writable(source_folder / "__pycache__", 0o777):
        return source_folder / "__pycache__"
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path(os.path.expanduser("~")) / ".cache") / "manyclass" / name
    if home.is_absolute() and _writable(home):
        return home
    return _private_folder() / name


@lru_cache(maxsize=64)
def source_digest(folder: Path) -> str:
    """A digest of all sources that the kernels in a folder may use: those in it, in `core`, and this file.

    Algorithms never use each other's, so a change of one leaves the compiled code of the others valid.
    """
    sources = [PACKAGE / "jit.py", *sorted((PACKAGE / "core").rglob("*.py")), *sorted(folder.rglob("*.py"))]
    return hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()


class _Locator(caching._CacheLocator):
    """Where the compiled code of a function is kept, and when it is out of date."""

    def __init__(self, function: Callable, source: str):
        self._line, self._source = function.__code__.co_firstlineno, Path(source)

    def get_cache_path(self) -> str:
        return str(cache_folder(self._source.parent))

    def get_source_stamp(self) -> str:
        return source_digest(self._source.parent) + hashlib.sha256(self._source.read_bytes()).hexdigest()

    def get_disambiguator(self) -> str:
        return str(self._line)

    @classmethod
    def from_function(cls, function: Callable, source: str) -> "_Locator":
        locator = cls(function, source)
        locator.ensure_cache_path()
        return locator


class _CacheImpl(caching.CompileResultCacheImpl):
    _locator_classes = [_Locator]


class _Index(caching.IndexDataCacheFile):
    """The index of a function's compiled variants."""

    def _load_index(self) -> dict:
        try:
            return super()._load_index()
        except Exception:  # written by another version, whose classes may no longer exist: compile again
            return {}


class _Cache(caching.FunctionCache):
    _impl_class = _CacheImpl

    def __init__(self, function: Callable):
        super().__init__(function)
        self._cache_file = _Index(self._cache_path, self._impl.filename_base, self._impl.locator.get_source_stamp())

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The compiled code; None if there is none, or if a file is damaged: it is then written again."""
        try:
            return super().load_overload(sig, target_context)
        except Exception:
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        with suppress(OSError):  # a full disk, a folder that was removed: the next process compiles again
            super().save_overload(sig, data)


# -- compilation ---------------------------------------------------------------------------------------------------


@contextmanager
def _compiling() -> Iterator[None]:
    """Settings while one of our functions is compiled; the lock keeps other compilations of the process out.

    Garbage collection takes a tenth of the time of a compilation and frees next to nothing.
    """
    with global_compiler_lock:
        slp, collecting = numba.config.SLP_VECTORIZE, gc.isenabled()  # type: ignore[attr-defined]
        numba.config.SLP_VECTORIZE = 1  # type: ignore[attr-defined]
        gc.disable()
        try:
            yield
        finally:
            numba.config.SLP_VECTORIZE = slp  # type: ignore[attr-defined]
            if collecting:
                gc.enable()


# A process that is forked while another thread compiles would wait for ever for the lock, which nobody could release.
if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(
        before=global_compiler_lock.acquire,
        after_in_parent=global_compiler_lock.release,
        after_in_child=global_compiler_lock.release,
    )


def compilations() -> Any:
    """A context manager; its `buffer` lists what was compiled since."""
    return event.install_recorder("numba:compile")


class Kernel(CPUDispatcher):
    """A compiled function that Python calls."""

    def compile(self, sig: Any) -> Any:
        """Compile the function for the given types; an interrupt comes after it: Numba might never work again."""

        def work(check: Callable[[], None]) -> Any:
            with _compiling():
                return super(Kernel, self).compile(sig)

        # Another thread would wait for ever for a lock that this one has.
        return work(lambda: None) if global_compiler_lock.is_locked() else uninterrupted(work)

    def enable_caching(self) -> None:
        self._cache = _Cache(self.py_func)


class _KernelLibrary(JITCodeLibrary):
    """The code of a kernel, which has its own copy of every function that it calls.

    Otherwise a function is shared with the kernel that was loaded first. Every kernel optimises it in another way, and
    the last bits of results would depend on what a process has used before.
    """

    def _optimize_final_module(self) -> None:
        for function in self._final_module.functions:
            if not function.is_declaration and function.linkage == Linkage.linkonce_odr:
                function.linkage = Linkage.internal
        super()._optimize_final_module()


class _RawLibrary(JITCodeLibrary):
    """Code that stays in the compiler's intermediate form; its callers optimise it with their own."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


class _OptimizedLibrary(_RawLibrary):
    """The same, optimised by itself first: its loops are vectorised before anything surrounds them."""

    def _optimize_final_module(self) -> None:
        JITCodeLibrary._optimize_final_module(self)


@register_pass(mutates_CFG=True, analysis_only=False)
class _KernelLowering(typed_passes.NativeLowering):
    """Numba's last pass with another kind of library."""

    _name: Any = "manyclass_kernel_lowering"

    def run_pass(self, state: Any) -> bool:
        state.library = _KernelLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        super().run_pass(state)
        return True


class _DeviceLowering(typed_passes.NativeLowering):
    """Numba's last pass without the machine code."""

    library: type

    def run_pass(self, state: Any) -> bool:
        codegen = state.targetctx.codegen()
        state.library = self.library(codegen, state.func_id.func_qualname)
        state.library.enable_object_caching()
        state.flags.no_compile = True
        super().run_pass(state)
        lowered = state["cr"]
        name = lowered.fndesc.qualname.split(".")[-1]
        # Numba identifies a compiled function by such an object. Nothing calls it, so it has no address.
        entry = _dynfunc.make_function(
            lowered.fndesc.lookup_module(), name, "device function", 0, lowered.env, (state.library,)
        )
        state.targetctx.insert_user_function(entry, lowered.fndesc, [state.library])
        state.reload_init.extend(state.library._reload_init)
        state["cr"] = compiler._LowerResult(lowered.fndesc, lowered.call_helper, cfunc=entry, env=lowered.env)
        return True


@register_pass(mutates_CFG=True, analysis_only=False)
class _RawLowering(_DeviceLowering):
    _name: Any = "manyclass_raw_lowering"
    library = _RawLibrary


@register_pass(mutates_CFG=True, analysis_only=False)
class _OptimizedLowering(_DeviceLowering):
    _name: Any = "manyclass_optimized_lowering"
    library = _OptimizedLibrary


class _Compiler(compiler.CompilerBase):
    """Numba's compiler with another last pass."""

    lowering: type

    def define_pipelines(self) -> list:
        passes = compiler.DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.passes = [
            (self.lowering if kind is typed_passes.NativeLowering else kind, reason) for kind, reason in passes.passes
        ]
        passes._finalized = False
        passes.finalize()
        return [passes]


class _KernelCompiler(_Compiler):
    lowering = _KernelLowering


class _RawCompiler(_Compiler):
    lowering = _RawLowering


class _OptimizedCompiler(_Compiler):
    lowering = _OptimizedLowering


class Device(CPUDispatcher):
    """A function that is compiled into its callers; a call from Python, as in tests, compiles it as a kernel."""

    as_kernel: Kernel

    def __call__(self, *args: Any) -> Any:
        return self.as_kernel(*args)


# -- decorators ----------------------------------------------------------------------------------------------------

_COMMON: dict[str, Any] = {"nopython": True, "boundscheck": None, "nogil": True, "error_model": "numpy"}
_NO_WRAPPER: dict[str, Any] = {"no_cfunc_wrapper": True}
_DEVICE: dict[str, Any] = {"_nrt": False, "no_cpython_wrapper": True, **_NO_WRAPPER}
# Lets a dot product use vector registers; NaN and infinity keep their meaning.
_FAST: dict[str, Any] = {"fastmath": {"reassoc", "contract", "nsz", "arcp"}}


def _make_kernel(function: Callable, options: dict[str, Any]) -> Any:
    out = Kernel(function, {}, {**_COMMON, **_NO_WRAPPER, **options}, pipeline_class=_KernelCompiler)
    out.enable_caching()
    return out


def _kernel(options: dict[str, Any]) -> Callable[[Callable], Any]:
    def decorate(function: Callable) -> Any:
        if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
            return function
        return _make_kernel(function, options)

    return decorate


def _device(options: dict[str, Any], raw: bool) -> Callable[[Callable], Any]:
    def decorate(function: Callable) -> Any:
        if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
            return function
        pipeline = _RawCompiler if raw else _OptimizedCompiler
        out = Device(function, {}, {**_COMMON, **_DEVICE, **options}, pipeline_class=pipeline)
        out.as_kernel = _make_kernel(function, {name: options[name] for name in options if name != "forceinline"})
        return out

    return decorate


def python_of(function: Any) -> Callable:
    """A kernel or device function as plain Python, which takes arrays where the compiled one takes numbers."""
    return getattr(function, "py_func", function)


kernel = _kernel(_FAST)
device = _device(_FAST, raw=False)
# For functions with one or two callers and many groups: passing the groups costs more than most of the work.
inlined = _device({"forceinline": True, **_FAST}, raw=True)
# For sums that stay in registers: terms are added in their order. Otherwise the compiler computes several terms at a
# time, and collects their factors from memory one by one (on processors with AVX-512, 8 times slower).
ordered = _device({"forceinline": True, "fastmath": _FAST["fastmath"] - {"reassoc"}}, raw=True)
# For numbers that must be rounded as Python rounds them. Said explicitly, or a device function inherits its caller's.
_EXACT: dict[str, Any] = {"fastmath": False}
exact_kernel = _kernel(_EXACT)
exact_device = _device(_EXACT, raw=False)

# For `numba.extending.overload`, which takes options and not a decorator.
DEVICE_OPTIONS: Any = {**_COMMON, **_DEVICE, **_FAST, "pipeline_class": _RawCompiler}
DEVICE_OPTIONS = {name: value for name, value in DEVICE_OPTIONS.items() if name not in ("nopython", "boundscheck")}
