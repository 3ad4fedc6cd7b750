"""Other programs as peers: the files exchanged and what happens when one fails. Runs none of them."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from benchmarks import peer_runner, peers, vw
from benchmarks.peers import PEERS, run_peer
from benchmarks.runners import label_trees, task
from benchmarks.vw import PeerUnavailable, peer_environment

X = sp.csr_matrix(np.array([[0, 2.5, 0], [0, 0, 0], [1, 0, -0.125]], dtype=np.float32))
Y = sp.csr_matrix(np.array([[0, 1, 1, 0], [1, 0, 0, 0], [0, 0, 0, 0]], dtype=np.float32))
NUMBERS = {
    "version": "1.2",
    "train_seconds": 3.5,
    "n_trainings": 3,
    "predict_seconds": 0.25,
    "predict_one_seconds": 0.001,
    "model_bytes": 12,
    "loaded_bytes": 40,
    "peak_bytes": None,
    "note": "",
}


def script(path, text):
    """A command whose program does what the text says; its arguments are the runner and the folder of exchange."""
    (path / "program.py").write_text(f"import sys\nfrom pathlib import Path\nwork = Path(sys.argv[2])\n{text}\n")
    return [sys.executable, str(path / "program.py")]


def test_text_of_the_extreme_classification_repository(tmp_path):
    label_trees.write_xmc_text(tmp_path / "rows.txt", X, Y)
    assert (tmp_path / "rows.txt").read_bytes() == b"3 3 4\n1,2 1:2.5\n0\n 0:1 2:-0.125\n"


def test_single_precision_survives_the_text(tmp_path):
    values = sp.csr_matrix(np.random.default_rng(0).standard_normal((20, 3)).astype(np.float32))
    label_trees.write_xmc_text(tmp_path / "rows.txt", values, sp.csr_matrix((20, 1)))
    words = [line.split() for line in (tmp_path / "rows.txt").read_text().splitlines()[1:]]
    again = np.array([[word.split(":")[1] for word in row] for row in words], dtype=np.float32)
    np.testing.assert_array_equal(again, values.toarray())


def test_short_predictions_are_filled_up():
    top = task.pad([[4, 2, 1], np.array([3], dtype=np.uint32), []], 2)
    np.testing.assert_array_equal(top, [[4, 2], [3, -1], [-1, -1]])
    assert task.pad([], 3).shape == (0, 3)


def test_files_go_to_the_runner_and_back(tmp_path, monkeypatch):
    tasks = []

    def fixed(given):
        """No peer: labels 2 and 0 for every row, to follow the files."""
        tasks.append(given)
        (given.folder / "model" / "layers").mkdir(parents=True)
        (given.folder / "model" / "layers" / "weights").write_bytes(b"12345")
        (given.folder / "model" / "settings").write_bytes(b"123")
        rows = lambda X: [[2, 0]] * X.shape[0]  # noqa: E731
        seconds = (1.5, 4.0, 2.5)[len(tasks) - 1]
        return task.Trained("9.9", seconds, rows, rows, lambda predictions: task.pad(predictions, given.k), note="odd")

    monkeypatch.setattr(label_trees, "napkinxc", fixed)

    def in_this_process(words, timeout=None):
        assert (words[:2], timeout) == (["python", str(peers.RUNNER)], 60)
        peer_runner.main(Path(words[2]))

    monkeypatch.setattr(peers, "run_command", in_this_process)
    shuffled = sp.csr_matrix((X.data[[0, 2, 1]], X.indices[[0, 2, 1]], X.indptr), shape=X.shape)
    run = {"options": {"arity": 16}, "k": 3, "threads": 1, "timeout": 60, "command": ["python"]}
    result = run_peer("napkinxc", shuffled, Y, X.toarray(), Y, tmp_path, **run)
    assert len({given.folder for given in tasks}) == 3  # short training is done three times, each in its own folder
    given = tasks[0]
    np.testing.assert_array_equal(given.X.toarray(), X.toarray())
    np.testing.assert_array_equal(given.Y.toarray(), Y.toarray())
    assert given.X.has_sorted_indices and given.X.dtype == given.Y.dtype == np.float32
    assert (given.options, given.k, given.threads, given.several) == ({"seed": 0, "arity": 16}, 3, 1, True)
    np.testing.assert_array_equal(result.top_labels, [[2, 0, -1]] * 3)
    assert result.precision == {1: pytest.approx(1 / 3), 3: pytest.approx(2 / 9)}
    assert (result.name, result.version, result.model_bytes, result.threads) == ("napkinxc", "9.9", 8, 1)
    assert (result.train_seconds, result.n_trainings, result.note) == (2.5, 3, "odd")
    assert result.settings == {"seed": 0, "arity": 16}
    assert result.predict_seconds >= 0.0 and result.predict_one_seconds >= 0.0


def test_predictions_are_read(tmp_path):
    (tmp_path / "figures.json").write_text(json.dumps(NUMBERS))
    np.savez(tmp_path / "predictions.npz", top_labels=np.array([[3, -1], [0, 1]], dtype=np.int32))
    top, numbers = peers._read_results(tmp_path, "line", (2, 2), 4)
    assert top.dtype == np.int64 and top.tolist() == [[3, -1], [0, 1]]
    assert numbers == NUMBERS


@pytest.mark.parametrize(
    ("numbers", "top", "message"),
    [
        (None, [[0, 1]], "no predictions that can be read"),
        ("not json", [[0, 1]], "no predictions that can be read"),
        ("{}", [[0, 1]], "version"),
        (json.dumps(NUMBERS | {"train_seconds": "long"}), [[0, 1]], "no predictions that can be read"),
        (json.dumps(NUMBERS), None, "no predictions that can be read"),
        (json.dumps(NUMBERS), [[0]], r"shape \(1, 1\)"),
        (json.dumps(NUMBERS), [[0.0, 1.0]], "float64"),
        (json.dumps(NUMBERS), [[0, 4]], "4, but there are 4"),
        (json.dumps(NUMBERS), [[-2, 1]], "label -2"),
    ],
)
def test_predictions_that_do_not_fit_are_said_clearly(tmp_path, numbers, top, message):
    if numbers is not None:
        (tmp_path / "figures.json").write_text(numbers)
    if top is not None:
        np.savez(tmp_path / "predictions.npz", top_labels=np.array(top))
    with pytest.raises(PeerUnavailable, match=message):
        peers._read_results(tmp_path, "line", (1, 2), 4)


@pytest.mark.parametrize("name", ["pecos", "vw-plt"])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("raise SystemExit('out of memory')", "out of memory"),
        ("import os; os.abort()", "failed with status -6"),
        ("sys.stderr.write('no space\\n' + 'bar\\r' * 1000); sys.exit(1)", "no space\n$"),
        ("import time; time.sleep(60)", "timed out"),
        ("pass", "no predictions that can be read"),
        ("work.joinpath('figures.json').write_text('')", "no predictions that can be read"),
    ],
)
def test_a_peer_that_fails_is_said_clearly(tmp_path, name, text, message):
    timeout = 0.5 if message == "timed out" else None
    with pytest.raises(PeerUnavailable, match=message):
        run_peer(name, X, Y, X, Y, tmp_path, timeout=timeout, command=script(tmp_path, text))


def test_a_program_that_is_not_there(tmp_path):
    with pytest.raises(PeerUnavailable, match="could not run"):
        run_peer("pecos", X, Y, X, Y, tmp_path, command=[str(tmp_path / "python")])


def test_the_runner_without_the_peer(tmp_path):
    """The real runner under a Python without the peer: the reason is in the message."""
    with pytest.raises(PeerUnavailable, match="No module named 'napkinxc'"):
        run_peer("napkinxc", X, Y, X, Y, tmp_path, command=[sys.executable])


def test_what_the_peer_is_asked(tmp_path):
    keep = f"Path({str(tmp_path / 'request.json')!r}).write_text((work / 'request.json').read_text())\nsys.exit(1)"
    with pytest.raises(PeerUnavailable):
        run_peer("omikuji-bonsai", X, Y, X, Y, tmp_path, {"max_depth": 2, "n_trees": 1}, command=script(tmp_path, keep))
    assert json.loads((tmp_path / "request.json").read_text()) == {
        "peer": "omikuji",
        "options": {"cluster_balanced": False, "cluster_k": 100, "max_depth": 2, "n_trees": 1},
        "k": 5,
        "threads": 2,
        "several": True,
    }
    assert PEERS["omikuji-bonsai"].options["max_depth"] == 3


def test_every_peer_has_a_function():
    assert {peer.peer for peer in PEERS.values()} == set(peer_runner.LEARNERS)
    for name in peer_runner.LEARNERS:
        assert callable(peer_runner.learner(name))


def test_an_environment_is_made_once(tmp_path, monkeypatch):
    made, lines = [], []
    monkeypatch.setattr(vw.venv, "create", lambda folder, with_pip: made.append(folder) or folder.mkdir())
    monkeypatch.setattr(vw, "run_command", lambda words, timeout: lines.append([*words[1:]]))
    for _ in range(2):
        peer_environment(tmp_path / "pecos", *PEERS["pecos"].installs)
    assert made == [tmp_path / "pecos"]
    assert [line[:4] for line in lines] == [["-m", "pip", "install", "--quiet"]] * 2
    assert [line[4:] for line in lines] == [["--no-deps", "libpecos"], ["numpy<2", "scipy<1.14", "scikit-learn"]]


def test_an_environment_that_cannot_be_made_is_said_clearly(tmp_path):
    (tmp_path / "taken").write_text("a file, not a folder")
    with pytest.raises(PeerUnavailable, match="virtual environment"):
        run_peer("pecos", X, Y, X, Y, tmp_path / "taken")


def test_classes_become_labels():
    train, test = peers._indicators([0, 2, 2], np.array([1], dtype=np.uint8))
    np.testing.assert_array_equal(train.toarray(), [[1, 0, 0], [0, 0, 1], [0, 0, 1]])
    np.testing.assert_array_equal(test.toarray(), [[0, 1, 0]])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "no-such-peer"}, "omikuji-bonsai, pecos"),
        ({"k": 0}, "1 or more"),
        ({"threads": 0}, "1 or more"),
        ({"X_train": X[:2]}, "X_train has 2 rows and Y_train 3"),
        ({"X_test": X[:, :2]}, "3 columns and X_test 2"),
        ({"X_test": X[:0], "Y_test": Y[:0]}, "above 0"),
        ({"Y_test": Y[:, :2]}, "4 labels and Y_test 2"),
        ({"Y_test": [0, 1, 2]}, "both be vectors"),
        ({"Y_train": 2 * Y}, "zeros and ones"),
        ({"Y_train": [0.0, 1.0, 2.0], "Y_test": [0, 1, 2]}, "integers, 0 or more"),
        ({"Y_train": [0, 1, 2], "Y_test": [0, 1, -1]}, "integers, 0 or more"),
    ],
)
def test_data_that_do_not_fit_are_refused(tmp_path, change, message):
    given = {"name": "pecos", "X_train": X, "Y_train": Y, "X_test": X, "Y_test": Y, "folder": tmp_path, **change}
    with pytest.raises(ValueError, match=message):
        run_peer(**given, command=["never run"])
