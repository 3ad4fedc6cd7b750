"""Leaves: functions that only kernels call, compiled into their callers and into nothing else.

Numba makes machine code of every function by itself, with a wrapper for calls from Python, and then once more inside
each kernel that calls it. A Recall Tree has some sixty leaves, so most of its first compilation was for code that
nobody runs. Here a leaf stays in the compiler's intermediate form until a kernel takes it in (measured: 18.6 to 12 s
for the first `fit` and `predict`). Called from Python, as tests do, it is compiled as a kernel of its own.

This leans on Numba's inner parts. Where a version of Numba lacks them, leaves are compiled the ordinary, slower way.
"""

import gc
from collections.abc import Callable
from typing import Any

import numba
from numba.core import event

try:
    from numba import _dynfunc  # type: ignore[attr-defined]
    from numba.core import compiler, typed_passes
    from numba.core.codegen import JITCodeLibrary
    from numba.core.compiler_machinery import register_pass
    from numba.core.registry import CPUDispatcher
except ImportError:  # pragma: no cover
    SUPPORTED = False
else:
    _NEEDED = {
        JITCodeLibrary: ("_optimize_final_module", "_finalize_dynamic_globals", "_finalize_final_module"),
        compiler: ("_LowerResult",),
        _dynfunc: ("make_function",),
    }
    SUPPORTED = all(hasattr(home, name) for home, names in _NEEDED.items() for name in names)


class _NoCollection(event.Listener):
    """No garbage is collected while something is compiled: there is next to none; looking takes a tenth of the time.

    The compiler has one lock for all threads, so the depth needs none of its own.
    """

    def __init__(self) -> None:
        self.depth, self.was_on = 0, False

    def on_start(self, told: Any) -> None:
        if self.depth == 0:
            self.was_on = gc.isenabled()
            gc.disable()
        self.depth += 1

    def on_end(self, told: Any) -> None:
        self.depth -= 1
        if self.depth == 0 and self.was_on:
            gc.enable()


event.register("numba:compile", _NoCollection())

if SUPPORTED:

    class _RawLibrary(JITCodeLibrary):
        """Code that stays in intermediate form, as it was written; its callers optimise it with their own."""

        def _optimize_final_module(self) -> None:
            pass

        def _finalize_final_module(self) -> None:
            self._finalize_dynamic_globals()
            self._finalized = True

    class _OptimizedLibrary(_RawLibrary):
        """The same, optimised by itself first: its loops become vector instructions before anything surrounds them."""

        def _optimize_final_module(self) -> None:
            JITCodeLibrary._optimize_final_module(self)

    class _LeafLowering(typed_passes.NativeLowering):
        """Numba's last pass, less the machine code."""

        library: type

        def run_pass(self, state: Any) -> bool:
            codegen = state.targetctx.codegen()
            state.library = self.library(codegen, state.func_id.func_qualname)
            state.library.enable_object_caching()
            state.flags.no_compile = True
            super().run_pass(state)
            lowered = state["cr"]
            name = lowered.fndesc.qualname.split(".")[-1]
            # Numba knows a compiled function by an object of this kind; nobody calls it, so it has no address.
            entry = _dynfunc.make_function(
                lowered.fndesc.lookup_module(), name, "a leaf", 0, lowered.env, (state.library,)
            )  # fmt: skip
            state.targetctx.insert_user_function(entry, lowered.fndesc, [state.library])
            state.reload_init.extend(state.library._reload_init)
            state["cr"] = compiler._LowerResult(lowered.fndesc, lowered.call_helper, cfunc=entry, env=lowered.env)
            return True

    @register_pass(mutates_CFG=True, analysis_only=False)
    class _RawLowering(_LeafLowering):
        _name: Any = "raw_leaf_lowering"
        library = _RawLibrary

    @register_pass(mutates_CFG=True, analysis_only=False)
    class _OptimizedLowering(_LeafLowering):
        _name: Any = "optimized_leaf_lowering"
        library = _OptimizedLibrary

    class _LeafCompiler(compiler.CompilerBase):
        lowering: type

        def define_pipelines(self) -> list:
            passes = compiler.DefaultPassBuilder.define_nopython_pipeline(self.state)
            passes.passes = [
                (self.lowering if kind is typed_passes.NativeLowering else kind, told) for kind, told in passes.passes
            ]
            passes._finalized = False
            passes.finalize()
            return [passes]

    class RawCompiler(_LeafCompiler):
        lowering = _RawLowering

    class OptimizedCompiler(_LeafCompiler):
        lowering = _OptimizedLowering

    class Leaf(CPUDispatcher):
        """A leaf as kernels see it; a call from Python makes a kernel of it."""

        _as_kernel: Any

        def __call__(self, *args: Any) -> Any:
            return self._as_kernel(*args)


def leaf_of(kernel: Callable, options: dict[str, Any], raw: bool) -> Callable[[Callable], Any]:
    """A decorator that makes leaves: `kernel` makes kernels, for calls from Python; `raw`: not optimised by itself."""

    def decorate(function: Callable) -> Any:
        if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
            return function
        if not SUPPORTED:
            return numba.njit(cache=True, **options)(function)  # pragma: no cover
        out = Leaf(
            function,
            {},
            {"nopython": True, "boundscheck": None, "no_cpython_wrapper": True, "no_cfunc_wrapper": True, **options},
            pipeline_class=RawCompiler if raw else OptimizedCompiler,
        )
        out._as_kernel = kernel(function)
        return out

    return decorate


def overload_options(options: dict[str, Any]) -> Any:
    """The options by which `overload` makes leaves: never called from Python, so nothing but the code itself."""
    if not SUPPORTED:
        return options  # pragma: no cover
    return {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "pipeline_class": RawCompiler, **options}
