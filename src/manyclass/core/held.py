"""Kernel arguments that are unpacked once: unpacking the arrays of a model takes longer than predicting a row.

A kernel called from Python unpacks every array of its arguments, a third of a microsecond each. `hold` does it once and
returns an object that is passed as one pointer (measured on ALOI: 7 instead of 28 microseconds per row).
"""

import numba
from numba import types
from numba.experimental import structref

from ..jit import kernel


@structref.register
class HeldType(types.StructRef):
    """The compiler's type of held arguments."""

    def preprocess_fields(self, fields):
        return tuple((name, types.unliteral(kind)) for name, kind in fields)


class Held(structref.StructRefProxy):
    """Unpacked arguments: `args` is a tuple of groups, arrays and numbers."""


structref.define_boxing(HeldType, Held)
structref.define_constructor(Held, HeldType, ["args"])


@kernel
def _hold(args):
    return Held(args)


def hold(args):
    """Unpack a tuple of arguments for a kernel, which reads them as `held.args`."""
    return _Plain(args) if numba.config.DISABLE_JIT else _hold(args)  # type: ignore[attr-defined]


class _Plain:
    """The same without a compiler."""

    def __init__(self, args):
        self.args = args
