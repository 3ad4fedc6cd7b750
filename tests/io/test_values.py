"""Integer labels: Python and the kernel agree."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyclass.io import Reading
from manyclass.io.lines import Block
from manyclass.io.sparse_text import SvmlightReader
from manyclass.io.values import finite, is_number, whole

NUMBERS = st.from_regex(r"[+-]?([0-9]{1,22}\.?[0-9]{0,3}|\.[0-9]{1,3})([eE][+-]?[0-9]{1,2})?", fullmatch=True)


def by_the_kernel(token: str) -> int | None:
    """The label that the kernel reads."""
    reader = SvmlightReader("lines", Reading("svmlight", "one", "int", 1), True, True)
    labels = reader.read(Block(f"{token}\n".encode(), 1)).labels
    return int(labels[0]) if len(labels) else None


@given(NUMBERS.filter(str.isascii))
def test_whole_numbers(token):
    exact = Fraction(token)
    expected = int(exact) if exact.denominator == 1 and abs(exact) < 2**63 else None
    assert whole(token) == expected == by_the_kernel(token)


@pytest.mark.parametrize("token", ["1e9999999999999999999", "1e-9999999999999999999", "9" * 5000, "1." + "1" * 5000,
                                   "", ".", "+", "e5", ".e5", "1e", "1_0", "\u0663", "nan", " 3"])  # fmt: skip
def test_tokens_that_are_not_integers(token):
    assert whole(token) is None
    assert token.strip() != token or not token or by_the_kernel(token) is None


@pytest.mark.parametrize("token", ["0e99999999", "-0", "0." + "0" * 5000, "000"])
def test_zeros(token):
    assert whole(token) == 0 == by_the_kernel(token)


@pytest.mark.parametrize("end", ["x", ".x", ".5x", "e", "e5x"])
def test_long_tokens(end):
    """Quadratic time would take hours."""
    token = "1" * 1_000_000 + end
    assert whole(token) is None and finite(token) is None and not is_number(token)
