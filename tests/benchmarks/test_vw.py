"""Vowpal Wabbit as a peer: the files it reads and what happens when it is missing. Runs no Vowpal Wabbit."""

import shlex
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from benchmarks.vw import (
    PeerUnavailable,
    find_vw,
    peer_environment,
    run_learner,
    run_oaa,
    run_recall_tree,
    write_vw_text,
)

ROWS = np.array([[0, 2.5, 0], [0, 0, 0], [1, 0, -0.125]], dtype=np.float32)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix, sp.csr_array, sp.coo_matrix])
def test_rows_are_written_with_labels_from_one(tmp_path, form):
    write_vw_text(tmp_path / "rows.txt", form(ROWS), np.array([0, 4, 1]))
    assert (tmp_path / "rows.txt").read_bytes() == b"1 |f 1:2.5\n5 |f\n2 |f 0:1 2:-0.125\n"


def test_rows_of_several_labels_are_written_from_zero(tmp_path):
    labels = sp.csr_matrix(np.array([[1, 0, 1], [0, 0, 0], [0, 1, 0]]))
    write_vw_text(tmp_path / "rows.txt", ROWS, labels)
    assert (tmp_path / "rows.txt").read_bytes() == b"0,2 |f 1:2.5\n |f\n1 |f 0:1 2:-0.125\n"
    with pytest.raises(ValueError, match="y has 2 rows and X 3"):
        write_vw_text(tmp_path / "rows.txt", ROWS, labels[:2])


def test_rows_without_labels(tmp_path):
    write_vw_text(tmp_path / "rows.txt", ROWS)
    assert (tmp_path / "rows.txt").read_text() == "|f 1:2.5\n|f\n|f 0:1 2:-0.125\n"


def test_single_precision_survives_the_text(tmp_path):
    values = np.random.default_rng(0).standard_normal((20, 3)).astype(np.float32)
    write_vw_text(tmp_path / "rows.txt", values)
    words = [line.split()[1:] for line in (tmp_path / "rows.txt").read_text().splitlines()]
    again = np.array([[word.split(":")[1] for word in row] for row in words], dtype=np.float32)
    np.testing.assert_array_equal(again, values)


def test_stored_zeros_are_left_out_and_the_matrix_is_left_alone(tmp_path):
    X = sp.csr_matrix((np.array([0.0, 3.0]), np.array([0, 2]), np.array([0, 2])), shape=(1, 3))
    write_vw_text(tmp_path / "rows.txt", X, [0])
    assert (tmp_path / "rows.txt").read_text() == "1 |f 2:3\n"
    assert X.nnz == 2


@pytest.mark.parametrize("y", [[0, 1], [0, 1, -1], [0.0, 1.0, 2.0]])
def test_labels_that_do_not_fit_are_refused(tmp_path, y):
    with pytest.raises(ValueError, match="one integer"):
        write_vw_text(tmp_path / "rows.txt", ROWS, y)


def test_the_environment_variable_names_the_command(monkeypatch):
    monkeypatch.setenv("MANYCLASS_VW", "'a folder/python' -m vowpalwabbit")
    assert find_vw() == ["a folder/python", "-m", "vowpalwabbit"]


def test_nothing_to_run_is_said_clearly(monkeypatch):
    monkeypatch.delenv("MANYCLASS_VW", raising=False)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(PeerUnavailable, match="MANYCLASS_VW"):
        find_vw()


def test_an_environment_that_cannot_be_made_is_said_clearly(tmp_path):
    (tmp_path / "taken").write_text("a file, not a folder")
    with pytest.raises(PeerUnavailable, match="virtual environment"):
        peer_environment(tmp_path / "taken" / "peers")


@pytest.mark.parametrize("run", [run_recall_tree, run_oaa])
@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["/no/such/program"], "could not run"),
        ([sys.executable, "-c", "raise SystemExit('no good')"], "no good"),
        ([sys.executable, "-c", "import time; time.sleep(60)"], "timed out"),
    ],
)
def test_a_peer_that_fails_is_said_clearly(tmp_path, run, command, message):
    timeout = 0.2 if message == "timed out" else None
    with pytest.raises(PeerUnavailable, match=message):
        run(tmp_path / "train.txt", tmp_path / "test.txt", [0], 2, tmp_path, command=command, timeout=timeout)


STAND_IN = """
import sys
from pathlib import Path
options = dict(zip(sys.argv, sys.argv[1:] + [""]))
if "-f" in options:
    Path(options["-f"]).write_bytes(b"12345")
if "-p" in options:
    Path(options["-p"]).write_text("1\\n3\\n2\\n")
"""


def test_commands_and_accuracy_with_a_stand_in(tmp_path: Path):
    (tmp_path / "stand_in.py").write_text(STAND_IN)
    write_vw_text(tmp_path / "rows.txt", ROWS, [0, 2, 0])
    command = [sys.executable, str(tmp_path / "stand_in.py")]
    paths = (tmp_path / "rows.txt", tmp_path / "rows.txt")
    options = {"command": command, "trials": 1}
    crossed = ["-q", r"\x88:"]
    result = run_recall_tree(*paths, [0, 2, 0], 3, tmp_path, bern_hyper=0.5, extra=crossed, **options)
    assert result.accuracy == pytest.approx(2 / 3)
    assert result.model_bytes == 5
    lines = [shlex.split(line) for line in result.commands]
    assert lines[0][lines[0].index("-q") + 1] == r"\x88:"
    assert [line[line.index("--bern_hyper") + 1] for line in lines] == ["0.5"] * 4
    assert [line[line.index("--passes") + 1] for line in lines] == ["1", "1", "11", "1"]
    with pytest.raises(PeerUnavailable, match="3 predictions for 2 rows"):
        run_oaa(*paths, [0, 2], 3, tmp_path, **options)


def test_a_label_tree_is_asked_with_its_loss(tmp_path: Path):
    (tmp_path / "stand_in.py").write_text(STAND_IN)
    write_vw_text(tmp_path / "rows.txt", ROWS, sp.csr_matrix(np.eye(3)))
    paths = (tmp_path / "rows.txt", tmp_path / "rows.txt")
    command = [sys.executable, str(tmp_path / "stand_in.py")]
    run = run_learner(
        "--plt", ["--top_k", "2"], *paths, 3, tmp_path, loss_function="logistic", command=command, trials=1,
        repeat_under=float("inf"),
    )  # fmt: skip
    assert run.use == ("--top_k", "2", "--loss_function", "logistic")
    assert (run.predictions, run.n_trainings, run.model_bytes) == (("1", "3", "2"), 3, 5)
    train, _, often, _ = (shlex.split(line) for line in run.commands)
    assert train[train.index("--plt") + 1] == "3"
    assert often[often.index("--loss_function") + 1] == "logistic"
