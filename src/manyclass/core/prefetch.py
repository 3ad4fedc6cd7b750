"""Prefetch memory before it is needed: with many classes, waiting for it takes most of the time."""

from typing import Any

import numba
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

ir: Any = cgutils.ir
_LINE = 64  # bytes of a cache line
_MOST = 256  # bytes of a row to prefetch; the processor prefetches the rest by itself


def _build(context, builder, signature, args):
    """Code that prefetches the first cache lines of a row of a matrix, or the line of an element."""
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
    """Without a compiler there is nothing to prefetch."""


# prefetch_row(matrix, row): prefetch a row of a matrix that will be read soon. Cost: a few instructions.
prefetch_row: Any = _nothing if numba.config.DISABLE_JIT else _prefetch  # type: ignore[attr-defined]
