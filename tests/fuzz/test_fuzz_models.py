"""A small run of the fuzzer, with every index checked."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "fuzz_models.py"


def counts(*arguments):
    """The table that the script prints, by estimator."""
    done = subprocess.run([sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    head, *rows = [line.split() for line in done.stdout.splitlines()]
    return {row[0]: dict(zip(head[1:], map(int, row[1:]), strict=True)) for row in rows}


@pytest.mark.slow
def test_hostile_files_of_every_estimator_are_refused_or_work():
    for name, row in counts("--n", "720").items():
        assert row["refused"] > 20 and row["used"] > 10, name


@pytest.mark.slow
def test_no_index_is_out_of_bounds(tmp_path):
    """Of the label tree alone: other kernels would take minutes to compile."""
    found = counts("--n", "300", "--boundscheck", "--cache", str(tmp_path), "--models", "label-tree, online")
    assert found["label-tree"]["refused"] > 50 and found["label-tree"]["used"] > 50
