"""Arguments held by the compiler: unpacking the arrays of a model takes longer than answering a row.

A kernel called from Python looks at every array of every group it is given, a third of a microsecond each. `hold` does
that once; what it returns is passed on as one pointer (measured on ALOI: 28 to 7 microseconds for a row).
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
    """Arguments that the compiler has unpacked: `args` is a tuple of groups, arrays and numbers."""


structref.define_boxing(HeldType, Held)
structref.define_constructor(Held, HeldType, ["args"])


@kernel
def _hold(args):
    return Held(args)


def hold(args):
    """Hold a tuple of arguments for a kernel that takes them as one: `held.args`."""
    return _Plain(args) if numba.config.DISABLE_JIT else _hold(args)  # type: ignore[attr-defined]


class _Plain:
    """The same without a compiler."""

    def __init__(self, args):
        self.args = args
