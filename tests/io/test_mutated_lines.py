"""Mutated lines: refused with line and column or read, counted exactly, never a crash."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from reproduce.files.mutated_lines import CASES, check

SCRIPT = Path(__file__).parents[2] / "reproduce" / "files" / "mutated_lines.py"


@pytest.mark.parametrize("name", CASES)
def test_mutated_lines(name, tmp_path):
    n_read, n_refused = check(CASES[name], 300, 1, tmp_path)
    assert n_read > 20 and n_refused > 80


def test_no_position_out_of_bounds():
    """The kernels as plain Python, where a wrong position raises."""
    formats = ["--format", "svmlight", "--format", "several labels", "--format", "xmc", "--format", "vw"]
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--lines", "120", "--seed", "2", *formats],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("all counted") == 4
