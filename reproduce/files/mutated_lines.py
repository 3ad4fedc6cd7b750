"""Mutated data lines: each is read or refused with its line and column, and skipping counts exactly the refused.

Every line is read alone, in a file of its own, and then all together: with bad lines skipped, whose number must be
that of the lines refused alone, and without, which must stop at the first of them and name the same column.
With NUMBA_DISABLE_JIT=1 the kernels run as plain Python, where an index out of bounds raises.
"""

import argparse
import random
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from manyclass.io import DataError, Reading, Source


@dataclass(frozen=True)
class Case:
    """A format: how it is read, what its files begin with, and some good lines."""

    reading: Reading
    lines: list[str]
    header: str = ""
    tokens: list[str] = field(default_factory=list)
    header_rows: int = 0  # rows that the header itself is


_COLUMNS = {"label": "label", "text": ("title",), "numeric": ("price",), "categorical": ("colour",), "feature_bits": 8,
            "decimal_comma": ()}  # fmt: skip
_NOT_LINES = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff", b"\x1f\x8b")  # how UTF-8, UTF-16 and gzip files may begin
CASES = {
    "svmlight": Case(
        Reading("svmlight", labels="one", label_kind="int", index_base=1, feature_bits=6),
        ["3 1:0.5 17:1e-3 4:2", "-1 qid:7 5:16777217.0000000000001 5:3.4e38 # a comment", "+2.0 9:1", "7", "# nothing",
         "12 1:0.30000000000000004 2:1e-46 3:340282356779733661637539395458142568447"],
        tokens=["1:3e38 1:3e38", "0:1", "qid:3", "1e0", "4611686018427387904:1", "4611686018427387905:1"],
    ),
    "several labels": Case(
        Reading("svmlight", labels="several", label_kind="text", index_base=0, feature_bits=6),
        ["a,b 1:0.5 17:1e-3", " 3:1 4:1 # none", "\u00e4pfel,birnen 0:1", "x"],
        tokens=["\u00e4", "\xff", ",,"],
    ),
    "xmc": Case(
        Reading("xmc"),
        ["1,2,3 0:0.5 9:1", " 3:1", "9 1:1 2:2 3:3 4:4", "0,0 7:0.25"],
        header="{n_rows} 10 10\n",
        tokens=["10:1", "10", "-1"],
    ),
    "vw": Case(
        Reading("vw", labels="one", label_kind="int", feature_bits=8),
        ["3 |title a:0.5 b c | 17:2", "1 0.5 'tag|f x:1 y:-2.5e-1", "2 1 0.1 tag|f:2 word other | more", "7 |", "5| x"],
        tokens=["|", "'", ":", "x:3e38 x:3e38", "-1"],
    ),
    "csv": Case(
        Reading("csv", labels="one", label_kind="text", **_COLUMNS),
        ['a,some words here,1.5,red', 'b,"quoted, with comma",2,blue', 'c,"a ""word"" here",,', 'd,\u00e4,-3e-2,green'],
        header="label,title,price,colour\n",
        tokens=['"', ",", '""'],
    ),
    "tsv": Case(
        Reading("tsv", labels="several", label_kind="int", label_separator=";", **_COLUMNS),
        ["1;2\tsome words here\t1.5\tred", "3\tb\t2\t", "4; 5\tx y\t\tblue"],
        header="label\ttitle\tprice\tcolour\n",
        tokens=["\t", ";"],
    ),
    "jsonl": Case(
        Reading("jsonl", labels="several", label_kind="text", **_COLUMNS),
        ['{"label": "a", "title": "some words", "price": 1.5, "colour": "red"}',
         '{"label": ["a", 3], "title": null, "price": "2", "colour": true}',
         '{"label": [], "title": "\\u00e4 \\ud83d\\ude00", "price": -1e3}'],
        header='{{"label": "a", "title": "all columns", "price": 1, "colour": "red"}}\n',  # each must be somewhere
        header_rows=1,
        tokens=["NaN", "-Infinity", "\\ud800", "[" * 3000, "1" * 5000, "null", "[", "{"],
    ),
}  # fmt: skip
_ANY_TOKENS = [
    "nan",
    "inf",
    "1e999",
    "-",
    "e",
    ".",
    "#",
    ":",
    ",",
    " ",
    "\t",
    "\r",
    "9" * 30,
    "1e-400",
    "0",
    "\0",
    "\x1a",
]


def mutated(case: Case, rng: random.Random) -> bytes:
    """A good line with one to three small changes, in one line still and not empty."""
    while True:
        line = rng.choice(case.lines).encode()
        for _ in range(rng.randint(1, 3)):
            at = rng.randint(0, len(line))
            stop = min(at + rng.randint(0, 3), len(line))
            kind = rng.randrange(5)
            if kind == 0:
                new = b""
            elif kind == 1:
                new = bytes([rng.randrange(256)])
            elif kind == 2:
                new = rng.choice(case.tokens + _ANY_TOKENS).encode("latin-1", "ignore")
            elif kind == 3:
                new = line[at : at + rng.randint(1, 8)] * 2
            else:
                new = rng.choice(" :,|#0123456789").encode()
            line = line[:at] + new + line[stop:]
        line = line.replace(b"\n", b"")
        if line.strip() and not line.startswith(_NOT_LINES):
            return line


def read_all(path: Path, case: Case, lines: list[bytes], skip: bool) -> tuple[int, int]:
    """Rows and skipped lines of a file made of these lines."""
    path.write_bytes(case.header.format(n_rows=len(lines)).encode() + b"".join(line + b"\n" for line in lines))
    source = Source(path, case.reading, skip_bad_lines=skip)
    for chunk in source.chunks(rows=64):
        assert np.isfinite(chunk.X.data).all()
        assert chunk.X.nnz == 0 or 0 <= chunk.X.indices.min() <= chunk.X.indices.max() < source.reading.width
    return source.n_rows - case.header_rows, source.n_skipped


def refusal(path: Path, case: Case, lines: list[bytes]) -> DataError | None:
    """The error that reading these lines raises."""
    try:
        read_all(path, case, lines, skip=False)
    except DataError as error:
        return error
    return None


def check(case: Case, n_lines: int, seed: int, folder: Path) -> tuple[int, int]:
    """Numbers of lines read and refused; an AssertionError if they are not what they must be."""
    rng, path = random.Random(seed), folder / "lines.txt"
    n_header = case.header.count("\n")
    lines = [mutated(case, rng) for _ in range(n_lines)]
    good = case.lines[0].encode()
    errors, n_rows, joinable = [], 0, []
    for line in lines:
        error = refusal(path, case, [line])
        errors.append(error)
        rows, skipped = read_all(path, case, [line], skip=True)
        assert skipped == (error is not None), (line, skipped, error)
        if error is not None:
            assert error.line == n_header + 1, (line, error)
            assert error.column is not None and 1 <= error.column <= len(line) + 1, (line, error)
            assert rows == 0, (line, error)
        if case.reading.format in ("csv", "tsv") and b'"' in line:
            # An open quote may end in the next line that holds one, so these lines meet only good ones.
            alone = read_all(path, case, [good, line, good, good], skip=True)
            assert alone == (3 + rows, skipped), (line, alone)
        else:
            joinable.append((line, error))
            n_rows += rows
    together = [line for line, _ in joinable]
    refused = [(i, error) for i, (_, error) in enumerate(joinable) if error is not None]
    found = read_all(path, case, together, skip=True)
    assert found == (n_rows, len(refused)), (found, n_rows, len(refused))
    error = refusal(path, case, together)
    if refused:
        assert error is not None and (error.line, error.column) == (n_header + 1 + refused[0][0], refused[0][1].column)
    n_refused = sum(error is not None for error in errors)
    return n_lines - n_refused, n_refused


def main() -> None:
    """Print a line for each format."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=20_000, help="mutated lines for each format (20000)")
    parser.add_argument("--format", choices=list(CASES), action="append", help="only these formats (all)")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, np.errstate(over="ignore"):
        for name in args.format or CASES:
            n_read, n_refused = check(CASES[name], args.lines, args.seed, Path(folder))
            print(f"{name}: {n_read} lines read, {n_refused} refused with line and column, all counted", flush=True)


if __name__ == "__main__":
    main()
