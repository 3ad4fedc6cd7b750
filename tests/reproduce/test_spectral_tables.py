"""Tables 5 and 6 of the spectral paper take the paper's own sets if they are here: small slices in the same format."""

import csv
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from manyclass.datasets.packed import pack_split, write_packed

ROOT = Path(__file__).resolve().parents[2]


def rows_of(seed: int, several: bool):
    """Counts of 300 words, where each of 12 labels has words of its own, and the labels."""
    rng = np.random.default_rng(seed)
    Y = np.zeros((400, 12), np.int8)
    for row in Y:
        row[rng.choice(12, 2 if several else 1, replace=False)] = 1
    X = rng.poisson(Y @ np.repeat(np.eye(12), 25, axis=1) * 0.5 + 0.02)
    return sp.csr_matrix(X), sp.csr_matrix(Y) if several else Y.argmax(axis=1)


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """{number: (rows, results of each test row)} of both tables, run with odp and lshtc in MANYCLASS_DATA."""
    folder = tmp_path_factory.mktemp("spectral")
    for name, several in (("odp", False), ("lshtc", True)):
        arrays = pack_split(*rows_of(0, several), "train") | pack_split(*rows_of(1, several), "test")
        write_packed(folder / f"{name}.npz.xz", arrays)
    script = ROOT / "reproduce" / "spectral_tree_2015" / "tables_5_and_6.py"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "MANYCLASS_DATA": str(folder)}
    command = [sys.executable, str(script), "--quick", "--results", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "data: odp\n" in done.stdout and "data: lshtc\n" in done.stdout
    found = {}
    for number in (5, 6):
        with open(folder / f"table_{number}.csv", newline="", encoding="utf-8") as file:
            found[number] = list(csv.DictReader(file)), np.load(folder / f"table_{number}.npz")
    return found


@pytest.mark.parametrize(("number", "data", "rank"), [(5, "ODP", 300), (6, "LSHTC", 800)])
def test_the_papers_own_sets_are_taken(tables, number, data, rank):
    rows, correct = tables[number]
    assert [row["model"] for row in rows if not row["model"].startswith("paper: ")] == [
        f"flat, rank {rank}", "tree, the paper's algorithm", "tree, our defaults",
    ]  # fmt: skip
    assert all(row["data"].startswith(data) for row in rows)
    for row in rows[2:]:
        stored = correct[f"{row['data']}: {row['model']}"]
        assert len(stored) == 400 and row["P@1"] == f"{100 * stored.mean():.2f}"
    assert float(rows[-1]["P@1"]) > 80


def test_paired_tests_compare_with_the_flat_model(tables):
    for rows, _ in tables.values():
        told = [row["p, vs flat, low rank"] for row in rows]
        assert told[:3] == ["–", "–", "–"] and "–" not in told[3:]
