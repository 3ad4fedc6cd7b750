"""What runs under a peer's Python: the forms rows are put in, top labels, medians; and scikit-learn, which is here."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from benchmarks import peer_runner
from benchmarks.runners import fast_text, measure, river_stream
from benchmarks.runners.scikit import scikit
from benchmarks.runners.task import Task, best, best_sparse

X = sp.csr_matrix(np.array([[0, 2.5, 0], [0, 0, 0], [1, 0, -0.125]], dtype=np.float32))
Y = sp.csr_matrix(np.array([[0, 1, 1, 0], [1, 0, 0, 0], [0, 0, 0, 0]], dtype=np.float32))


def test_best_columns_come_first():
    scores = np.array([[0.1, 0.9, 0.5], [3.0, -1.0, 2.0]])
    np.testing.assert_array_equal(best(scores, 2), [[1, 2], [0, 2]])
    np.testing.assert_array_equal(best(scores, 4), [[1, 2, 0, -1], [0, 2, 1, -1]])
    np.testing.assert_array_equal(best_sparse(sp.csr_matrix(scores[:, [1, 1, 2]]), 2), [[0, 1], [2, 0]])


def test_words_of_fasttext(tmp_path):
    fast_text._write_text(tmp_path / "rows.txt", X, Y)
    assert (tmp_path / "rows.txt").read_text() == "__label__1 __label__2 f1\n__label__0 \n f0 f2\n"


def test_rows_of_river():
    assert river_stream._dictionaries(X) == [{1: 2.5}, {}, {0: 1.0, 2: -0.125}]


def test_medians(monkeypatch):
    clock = iter([0.0, 5.0, 10.0, 11.0, 20.0, 23.0])
    monkeypatch.setattr(measure.time, "perf_counter", lambda: next(clock))
    assert measure.median_of_passes(lambda: "predictions") == (3.0, "predictions")
    clock = iter([0.0, 11.0])
    assert measure.median_of_passes(lambda: "predictions") == (11.0, "predictions")  # long enough: once
    again = iter([7.0, 2.0])
    assert measure.median_of_training(3.0, lambda: next(again)) == (3.0, 3)
    assert measure.median_of_training(10.0, lambda: pytest.fail("again")) == (10.0, 1)


def test_rows_alone_are_spread():
    assert measure.places(3) == [0, 1, 2]
    assert measure.places(1) == [0]
    places = measure.places(10_000)
    assert len(places) == len(set(places)) == measure.ONE_BY_ONE and (places[0], places[-1]) == (0, 9_999)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_peak_is_that_of_the_process_itself():
    """Not that of the process that started it, which getrusage tells."""
    held = np.ones(2**25)  # 256 MiB
    room = Path(measure.__file__).parent
    words = [sys.executable, "-c", "import measure; print(measure.peak_bytes())"]
    told = subprocess.run(words, cwd=room, capture_output=True)
    assert 0 < int(told.stdout) < held.nbytes < measure.peak_bytes()


def learned(learner, Y, several, **options):
    """Rows around as many centres as there are labels, learned by scikit-learn; and their top labels."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((Y.shape[1], 40))
    rows = sp.csr_matrix(Y @ centres + 0.01 * rng.standard_normal((Y.shape[0], 40)), dtype=np.float32)
    trained = scikit(Task(rows, Y, Path(), {"learner": learner, **options}, 1, 2, several, rows))
    form = trained.form(rows)
    np.testing.assert_array_equal(trained.read(trained.predict_one(form[:1])), trained.read(trained.predict(form))[:1])
    assert trained.model_bytes > 0
    return trained.read(trained.predict(form))


@pytest.mark.parametrize(
    ("learner", "options"),
    [
        ("sgd", {"random_state": 0}),
        ("logistic", {}),
        ("linear-svc", {"random_state": 0}),
        ("extra-trees", {"n_estimators": 5, "random_state": 0}),
        ("k-neighbours", {"n_neighbors": 3, "metric": "cosine"}),
        ("neighbours", {"n_neighbors": 3}),
    ],
)
@pytest.mark.parametrize("several", [False, True])
def test_scikit_learn_predicts_in_our_labels(learner, options, several):
    labels = np.arange(60) % 6 * 2  # 0, 2, ..., 10; the odd ones have no rows
    Y = sp.csr_matrix((np.ones(60, np.float32), labels, np.arange(61)), shape=(60, 12))
    top = learned(learner, Y, several, **options)
    assert top.shape == (60, 2)
    assert np.mean(top[:, 0] == labels) > 0.9


def test_more_than_127_labels_are_not_mixed_up():
    """In int8, scikit-learn's one-against-rest predicts other labels."""
    rng = np.random.default_rng(1)
    Y = sp.csr_matrix((np.arange(150) == rng.integers(0, 150, 600)[:, None]).astype(np.float32))
    Y = sp.csr_matrix(((Y + Y[::-1]) > 0).astype(np.float32))
    top = learned("sgd", Y, True, random_state=0)
    assert np.mean(Y.toarray()[np.arange(600), top[:, 0]]) > 0.8


def test_the_runner_needs_nothing_of_manyclass(tmp_path):
    """Under a Python that finds no manyclass, all runners can be imported."""
    lines = "import peer_runner, sys; [peer_runner.learner(name) for name in peer_runner.LEARNERS]"
    lines += "; print([name for name in sys.modules if 'manyclass' in name])"
    room = Path(peer_runner.__file__).parent
    told = subprocess.run([sys.executable, "-c", lines], cwd=room, capture_output=True, text=True)
    assert told.stdout == "[]\n", told.stderr
