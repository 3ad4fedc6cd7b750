"""Ask for memory before it is needed: with many classes, waiting for it takes most of the time."""

from typing import Any

import numba
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

ir: Any = cgutils.ir
_LINE = 64  # bytes that come together
_MOST = 256  # bytes of a row to ask for; from there on the machine sees where it goes


def _build(context, builder, signature, args):
    """Code that asks for the first lines of a row of a matrix, or for the line of an element."""
    kind = signature.args[0]
    array = context.make_array(kind)(context, builder, args[0])
    stride = cgutils.unpack_tuple(builder, array.strides, kind.ndim)[0]
    byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
    start = builder.gep(builder.bitcast(array.data, byte), [builder.mul(args[1], stride)])
    kinds = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
    ask = cgutils.get_or_insert_function(builder.module, kinds, "llvm.prefetch.p0")
    for offset in range(0, _MOST if kind.ndim > 1 else _LINE, _LINE):
        place = builder.gep(start, [ir.Constant(ir.IntType(64), offset)])
        builder.call(ask, [place, *(ir.Constant(number, n) for n in (0, 3, 1))])
    return context.get_dummy_value()


@intrinsic
def _prefetch(typingctx, matrix, row):
    return types.void(matrix, row), _build


def _nothing(matrix, row):
    """Without a compiler there is nothing to ask for."""


# prefetch_row(matrix, row): ask for a row of a matrix that will be read soon. Cost: a few instructions.
prefetch_row: Any = _nothing if numba.config.DISABLE_JIT else _prefetch  # type: ignore[attr-defined]
