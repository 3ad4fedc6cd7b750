"""Vowpal Wabbit as a peer: run in its own environment, as a separate process.

The text files are first parsed into Vowpal Wabbit's binary cache, which is not timed. Then

- training time is the wall clock of one training run over the cache (all passes), less that of a run which
  loads the model, reads nothing and writes it again (the loading is a little in Vowpal Wabbit's favour);
- prediction time, for one pass over the test rows, is the wall clock of `predict_passes` + 1 passes in test
  mode over the cache, less that of one pass, divided by `predict_passes`: process start and loading of the
  model cancel out, and nothing is written. A further run writes the predictions, for the accuracy.

Both include reading rows from the cache, which a second thread does beside the learner (4 µs for a row of 31
features): nearly free with two idle cores. All but training is timed `trials` times, and the fastest counts.
"""

import os
import re
import shlex
import shutil
import statistics
import subprocess
import time
import venv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp


class PeerUnavailable(RuntimeError):
    """The peer could not be found, installed or run; catch this to go on without it."""


@dataclass(frozen=True)
class VwResult:
    """One run of Vowpal Wabbit; the module's docstring says what the times cover."""

    accuracy: float
    train_seconds: float  # all passes
    predict_seconds: float  # one pass over the test rows
    train_examples_per_second: float
    predict_examples_per_second: float
    model_bytes: int  # on disk, with the step sizes that further training would need
    commands: tuple[str, ...]  # training, loading and writing, testing often, testing once


@dataclass(frozen=True)
class VwRun:
    """What one run of a learner gave, before it is judged."""

    predictions: tuple[str, ...]  # a line for each test row, as Vowpal Wabbit writes it
    train_seconds: float
    n_trainings: int
    predict_seconds: float
    model_bytes: int
    use: tuple[str, ...]  # options that the model needs again when it is loaded
    commands: tuple[str, ...]


def peer_environment(
    folder: str | Path, package: str = "vowpalwabbit", *more: str, timeout: float | None = None
) -> Path:
    """Return the Python of a virtual environment in `folder` that has `package`, making it on first use.

    `package` and `more` are each the words that follow `pip install`, such as ``"--no-deps libpecos"``. `timeout` is
    the seconds that one such command may take.
    """
    folder = Path(folder).absolute()
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    installed, wanted = folder / "installed.txt", "\n".join((package, *more))
    if not installed.exists() or installed.read_text() != wanted:
        try:
            venv.create(folder, with_pip=True)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            raise PeerUnavailable(f"could not make a virtual environment in {folder}: {error}") from error
        for words in (package, *more):
            run_command([str(python), "-m", "pip", "install", "--quiet", *shlex.split(words)], timeout=timeout)
        installed.write_text(wanted)
    return python


def find_vw(folder: str | Path | None = None) -> list[str]:
    """Return the command that runs Vowpal Wabbit, or raise PeerUnavailable.

    The environment variable MANYCLASS_VW (a command line) comes first, then a program `vw` on the path, then,
    if `folder` is given, a virtual environment there, made on first use with Vowpal Wabbit from PyPI.
    """
    if command := shlex.split(os.environ.get("MANYCLASS_VW", "")):
        return command
    if program := shutil.which("vw"):
        return [program]
    if folder is None:
        raise PeerUnavailable("no Vowpal Wabbit: set MANYCLASS_VW, put vw on the path or give a folder")
    return [str(peer_environment(folder)), "-m", "vowpalwabbit"]


def write_vw_text(path: str | Path, X: Any, y: Any = None) -> None:
    """Write rows as Vowpal Wabbit text, a line `label |f index:value index:value ...` for each.

    Parameters
    ----------
    path : path
        The file to write.
    X : array or sparse matrix of shape (n_rows, n_features)
        Zeros are left out.
    y : array of int of shape (n_rows,), or sparse matrix of shape (n_rows, n_labels), optional
        Classes counted from 0; they are written counted from 1. The labels of a matrix, which may be several, are
        written counted from 0, as `--plt` wants them. Without y the lines have no label.
    """
    X = sp.csr_matrix(X, copy=True)
    X.eliminate_zeros()
    labels = [""] * X.shape[0]
    if sp.issparse(y):
        y = sp.csr_matrix(y)
        if y.shape[0] != X.shape[0]:
            raise ValueError(f"y has {y.shape[0]} rows and X {X.shape[0]}; both need the same")
        rows = zip(y.indptr[:-1], y.indptr[1:], strict=True)
        labels = [f"{','.join(map(str, y.indices[start:end].tolist()))} " for start, end in rows]
    elif y is not None:
        y = np.asarray(y)
        if y.shape != X.shape[:1] or y.dtype.kind not in "iu" or y.min(initial=0) < 0:
            raise ValueError("y must hold one integer, 0 or more, for every row of X")
        labels = [f"{label + 1} " for label in y.tolist()]
    with open(path, "w", encoding="ascii", newline="\n") as file:
        for label, start, end in zip(labels, X.indptr[:-1], X.indptr[1:], strict=True):
            words = zip(X.indices[start:end].tolist(), X.data[start:end].tolist(), strict=True)
            file.write(f"{label}|f{''.join([f' {index}:{value:.9g}' for index, value in words])}\n")


def run_recall_tree(
    train_path: Path, test_path: Path, y_test: Any, n_classes: int, workdir: Path, **options: Any
) -> VwResult:
    r"""Train and test Vowpal Wabbit's Recall Tree.

    Parameters
    ----------
    train_path, test_path : path
        Files made by `write_vw_text`.
    y_test, n_classes : array of int, int
        The classes of the test rows, counted from 0, and the number of classes.
    workdir : path
        Folder for caches, model and predictions; it is made if needed, and they stay there.
    **options
        For learning: `passes` (1), `bits` (24: 2^24 weights of 16 bytes), `learning_rate` (1.0), `bern_hyper`
        (1.0, the penalty on depth), `loss_function` ("logistic"), and in `extra` more training options, as
        ``["-q", r"\x88:"]``, which crosses path features with all others. For running: `command` (default:
        what `find_vw` finds), `predict_passes` (10), `trials` (3), `timeout` (seconds for one process; none).

    Raises
    ------
    PeerUnavailable
        If Vowpal Wabbit is missing, fails, or takes longer than `timeout`.
    """
    tree = ["--bern_hyper", str(options.pop("bern_hyper", 1.0))]  # the model does not keep it
    options = {"loss_function": "logistic", **options}
    return _run_learner("--recall_tree", tree, train_path, test_path, y_test, n_classes, workdir, **options)


def run_oaa(train_path: Path, test_path: Path, y_test: Any, n_classes: int, workdir: Path, **options: Any) -> VwResult:
    """Train and test one-against-all: as `run_recall_tree`, but without `bern_hyper` and with squared loss.

    Squared loss skips the classes that are right already: several times faster than logistic loss.
    """
    options = {"loss_function": "squared", **options}
    return _run_learner("--oaa", [], train_path, test_path, y_test, n_classes, workdir, **options)


def _run_learner(
    learner: str, learner_options: list[str], train_path: Path, test_path: Path, y_test: Any, n_classes: int,
    workdir: Path, **options: Any,
) -> VwResult:  # fmt: skip
    run = run_learner(learner, learner_options, train_path, test_path, n_classes, workdir, **options)
    predicted = np.array([int(line) for line in run.predictions], dtype=np.int64) - 1
    if len(predicted) != len(y_test):
        raise PeerUnavailable(f"Vowpal Wabbit wrote {len(predicted)} predictions for {len(y_test)} rows")
    n_examples = options.get("passes", 1) * Path(train_path).read_bytes().count(b"\n")
    return VwResult(
        accuracy=float(np.mean(predicted == np.asarray(y_test))),
        train_seconds=run.train_seconds,
        predict_seconds=run.predict_seconds,
        train_examples_per_second=n_examples / run.train_seconds,
        predict_examples_per_second=len(y_test) / run.predict_seconds,
        model_bytes=run.model_bytes,
        commands=run.commands,
    )


def run_learner(
    learner: str, learner_options: list[str], train_path: Path, test_path: Path, n_classes: int, workdir: Path, *,
    loss_function: str, passes: int = 1, bits: int = 24, learning_rate: float = 1.0, extra: Sequence[str] = (),
    command: Sequence[str] | None = None, predict_passes: int = 10, trials: int = 3, timeout: float | None = None,
    repeat_under: float = 0.0,
) -> VwRun:  # fmt: skip
    """Train and ask any of Vowpal Wabbit's learners for many classes; the module's docstring says what is timed.

    Parameters
    ----------
    learner, learner_options : str, list of str
        The option that takes the number of classes, as ``"--recall_tree"``, and those that the model does not keep.
    train_path, test_path, n_classes, workdir
        As for `run_recall_tree`.
    loss_function, passes, bits, learning_rate, extra, command, predict_passes, trials, timeout
        As for `run_recall_tree`.
    repeat_under : float
        Training that takes fewer seconds is done three times, and the median counts.

    Raises
    ------
    PeerUnavailable
        If Vowpal Wabbit is missing, fails, or takes longer than `timeout`.
    """
    command = find_vw() if command is None else command
    workdir = Path(workdir)
    workdir.mkdir(parents=True, exist_ok=True)
    model, nothing, predictions = workdir / "model.vw", workdir / "nothing.txt", workdir / "predictions.txt"
    nothing.write_text("")
    # --plt wants its loss again when the model is loaded.
    options = [*learner_options, "--loss_function", loss_function] if learner == "--plt" else learner_options
    cache = {name: ["--cache_file", str(workdir / f"{name}.cache")] for name in ("train", "test", "nothing")}
    # An untrained tree in test mode reads the labels as classes, and has nothing else to do.
    reader = ["--plt", str(n_classes), *options] if learner == "--plt" else ["--recall_tree", str(n_classes)]
    for name, path in zip(cache, (train_path, test_path, nothing), strict=True):
        words = [*command, *reader, "-b", str(bits), "-t", "-k", "-d", str(path), "--quiet", *cache[name]]
        run_command(words, timeout=timeout)

    # --passes always: without it Vowpal Wabbit's Python package does not look at the cache.
    train = [*command, learner, str(n_classes), *learner_options, "--loss_function", loss_function, *extra]
    train += ["-b", str(bits), "-l", str(learning_rate), "--passes", str(passes), "--holdout_off", "--quiet"]
    train += [*cache["train"], "-f", str(model)]
    use = [*command, "-i", str(model), *options, "--holdout_off", "--quiet", "--passes"]
    rewrite = [*use, "1", *cache["nothing"], "-f", str(workdir / "again.vw")]
    test_often, test_once = ([*use, str(n), *cache["test"], "-t"] for n in (1 + predict_passes, 1))

    seconds = [run_command(train, timeout=timeout)]
    seconds += [run_command(train, timeout=timeout) for _ in range(2 if seconds[0] < repeat_under else 0)]
    # The start of a process varies by milliseconds: few rows may come out as less than nothing.
    train_seconds = max(statistics.median(seconds) - run_command(rewrite, trials, timeout), 1e-3)
    often, once = (run_command(test, trials, timeout) for test in (test_often, test_once))
    run_command([*test_once, "-p", str(predictions)], timeout=timeout)
    return VwRun(
        predictions=tuple(predictions.read_text().splitlines()),
        train_seconds=train_seconds,
        n_trainings=len(seconds),
        predict_seconds=max(often - once, 1e-3) / predict_passes,
        model_bytes=model.stat().st_size,
        use=tuple(options),
        commands=tuple(shlex.join(line) for line in (train, rewrite, test_often, test_once)),
    )


def run_command(command: Sequence[str], trials: int = 1, timeout: float | None = None) -> float:
    """Run a command `trials` times and return the shortest wall clock in seconds."""
    seconds = []
    for _ in range(trials):
        start = time.perf_counter()
        try:
            done = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, timeout=timeout)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise PeerUnavailable(f"could not run {shlex.join(command)}: {error}") from error
        seconds.append(time.perf_counter() - start)
        if done.returncode:
            # A progress bar writes over its own line many times; the reason is in what it leaves.
            message = re.sub(r"[^\n]*\r(?!\n)", "", done.stderr.decode(errors="replace"))[-2000:]
            raise PeerUnavailable(f"{shlex.join(command)} failed with status {done.returncode}:\n{message}")
    return min(seconds)
