"""Blocks of `label index:value ...` lines through the kernel, and what to say about those it refuses."""

import re

import numpy as np

from . import line_parser as kernel
from .errors import DataError, shown
from .feature_merge import merge_features
from .lines import Block
from .numbers import FLOAT32_END, why_not_finite
from .pieces import Piece

NO_TOKENS = np.zeros(0, dtype=np.int64)


def room(n_lines: int, n_features: int, n_labels: int) -> kernel.Parsed:
    """Arrays for all that a block can hold at most."""
    return kernel.Parsed(
        size=np.zeros(7, dtype=np.int64),
        indptr=np.zeros(n_lines + 1, dtype=np.int64),
        indices=np.empty(n_features, dtype=np.int32),
        values=np.empty(n_features, dtype=np.float32),
        places=np.empty(n_features, dtype=np.int32),
        pointer=np.zeros(n_lines + 1, dtype=np.int64),
        labels=np.empty(n_labels, dtype=np.int64),
        spans=np.empty((n_labels, 2), dtype=np.int32),
        bad=np.empty((n_lines, 4), dtype=np.int64),
        slow=np.empty((n_features, 3), dtype=np.int64),
    )


def _settle_slow(block: bytes, parsed: kernel.Parsed) -> list[int]:
    """Let Python round the numbers that the kernel could not: places of those beyond float32. Mutates: values."""
    too_large = []
    for feature, start, stop in parsed.slow[: parsed.size[kernel.SLOW]].tolist():
        number = float(block[start:stop])
        if abs(number) >= FLOAT32_END:
            too_large.append(start)
        else:
            parsed.values[feature] = number
    return too_large


def _texts(block: bytes, parsed: kernel.Parsed) -> tuple[np.ndarray, list[int]]:
    """Labels as text, and the places of those that are not UTF-8."""
    spans = parsed.spans[: parsed.size[kernel.LABELS]].tolist()
    labels = np.empty(len(spans), dtype=object)
    refused = []
    for i, (start, stop) in enumerate(spans):
        try:
            labels[i] = block[start:stop].decode()
        except UnicodeDecodeError:
            refused.append(start)
    return labels, refused


def parse_block(block: bytes, ends: np.ndarray, rules: kernel.Rules) -> tuple[Piece, kernel.Parsed]:
    """The rows of a block, and the kernel's own account with the bad lines in it.

    Few tokens turn out wrong only after the kernel: a sum or a number just beyond float32, a label that is no text.
    Then the block is read again with these refused, which at most three times finds them all.
    """
    data = np.frombuffer(block, dtype=np.uint8)
    n_colons = int(np.count_nonzero(data == ord(":")))  # every feature has one
    n_commas = int(np.count_nonzero(data == ord(",")))  # they divide labels
    refused = NO_TOKENS
    while True:
        parsed = room(len(ends), n_colons, n_commas + len(ends))
        kernel.parse_lines(data, ends, rules, parsed, refused)
        n_rows, n_features, n_labels = parsed.size[[kernel.ROWS, kernel.FEATURES, kernel.LABELS]].tolist()
        wrong = _settle_slow(block, parsed)
        labels: np.ndarray | None = None
        if rules.labelled and rules.text_labels:
            labels, no_text = _texts(block, parsed)
            wrong += no_text
        elif rules.labelled:
            labels = parsed.labels[:n_labels]
        indptr, too_large = parsed.indptr[: n_rows + 1], np.empty(n_rows, dtype=np.int64)
        indices, values = parsed.indices[:n_features], parsed.values[:n_features]
        n_features, n_too_large = merge_features(indptr, indices, values, parsed.places, too_large)
        wrong += too_large[:n_too_large].tolist()
        if not wrong:
            break
        refused = np.union1d(refused, np.array(wrong, dtype=np.int64))
    pointer = parsed.pointer[: n_rows + 1] if rules.labelled and rules.several else None
    bad = parsed.bad[: parsed.size[kernel.BAD], 3].copy()
    return Piece(indptr, indices[:n_features], values[:n_features], labels, pointer, bad=bad), parsed


def _token(block: bytes, where: int, why: int) -> bytes:
    """The token at a place of the block, as much of it as is at fault."""
    ends = {kernel.BAD_LABEL: rb"#,", kernel.LABEL_TOO_LARGE: rb"#,", kernel.REFUSED_LABEL: rb"#,"}
    indices = (kernel.BAD_INDEX, kernel.INDEX_BEYOND, kernel.INDEX_TOO_LARGE)
    end = rb"#:" if why in indices else ends.get(why, rb"#")
    return re.compile(rb"[^\s%b]{0,200}" % end).match(block, where).group()  # type: ignore[union-attr]


def _what(why: int, raw: bytes, svmlight: bool) -> str:
    """What is wrong with a token, and what to do."""
    token, not_finite = shown(raw), why_not_finite(raw.decode("utf-8", "replace"))
    return {
        kernel.NO_LABEL: "the line has no label; begin it with one",
        kernel.BAD_LABEL: f"label {token} is not a whole number; correct it"
        + (" or read the labels as text" if svmlight else ""),
        kernel.ONE_LABEL_ONLY: "a second label, but the rows before had one each; read the file with several labels",
        kernel.LABEL_TOO_LARGE: f"label {token} is "
        + ("beyond 2**63 - 1" if svmlight else "not below the header's number of labels"),
        kernel.NO_COLON: f"{token} is not index:value; write a colon between them",
        kernel.BAD_INDEX: f"index {token} is not a whole number from 0; correct it",
        kernel.INDEX_ZERO: "index 0, but the indices before begin with 1; give index_base=0 (--index-base 0)",
        kernel.INDEX_TOO_LARGE: f"index {token} is beyond 2**62; number the features anew",
        kernel.INDEX_BEYOND: f"index {token} is not below the header's number of features",
        kernel.BAD_VALUE: f"value {token} is {not_finite}",
        kernel.TOO_LARGE: f"value {token}, or a sum with it, is beyond 32-bit floats; scale it down",
        kernel.REFUSED_LABEL: f"label {token} is not UTF-8 text; convert the file",
    }[why]


def complaint(path: str, block: Block, ends: np.ndarray, bad: np.ndarray, svmlight: bool) -> DataError:
    """The error for one line that the kernel refused."""
    line, where, why, _ = bad.tolist()
    start = int(ends[line - 1]) + 1 if line else 0
    what = _what(why, _token(block.data, where, why), svmlight)
    return DataError(path, what, block.first_line + line, where - start + 1)
