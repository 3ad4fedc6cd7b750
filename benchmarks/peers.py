"""Other programs as peers: label trees, Vowpal Wabbit, fastText, scikit-learn, River, each in its own environment.

`run_peer` makes a virtual environment for the peer on first use, hands the data over in files, and has the peer's
Python run `peer_runner.py`. What the times cover:

- training: the peer's own training call, with the rows in memory in the form it takes. Writing and reading files is
  not timed, neither the exchange of data nor omikuji's text file, but napkinXC writes its model while it trains;
  Training of less than 10 seconds is done three times, and the median counts;
- prediction: one call for all test rows with all threads, the model being loaded; the median of up to three passes
  (none is begun after 10 seconds). omikuji has no such call: its rows are shared between threads;
- prediction of one row: the median of single calls with one thread, for up to 200 rows spread over the test set.

The times are wall clock inside one process, so that starting it does not count. Rows are put in the form that the
peer takes beforehand. Vowpal Wabbit is measured as `vw.py` says. `peak_bytes` is the most that the peer's process
held from the start of training to the end of prediction, rows included; `loaded_bytes` what it held before.
"""

import json
import shlex
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import index
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.vw import PeerUnavailable, peer_environment, run_command
from manyclass.metrics import precision_at_k

RUNNER = Path(__file__).with_name("peer_runner.py")


@dataclass(frozen=True)
class Peer:
    """A peer: what to install, and its options where they are not its own defaults."""

    peer: str  # as `peer_runner.py` calls it, and its environment's folder
    installs: tuple[str, ...]  # words after `pip install`
    options: Mapping[str, Any]


OMIKUJI = ("omikuji scipy",)
# XR-Linear needs none of the neural networks (gigabytes) that pip would install beside it.
PECOS = ("--no-deps libpecos", "'numpy<2' 'scipy<1.14' scikit-learn")
NAPKINXC = ("napkinxc scipy",)
VOWPAL = ("vowpalwabbit scipy",)
FASTTEXT = ("fasttext-wheel 'numpy<2' scipy",)  # its `predict` does not know numpy 2
SCIKIT = ("scikit-learn",)
RIVER = ("river scipy",)
# As many words and passes as fastText's own tutorial for texts with tags takes.
TUTORIAL = {"epoch": 25, "lr": 0.5, "dim": 100, "minCount": 1}
# The last settings of its tutorial on classification.
TWO_WORDS = {"lr": 1.0, "epoch": 25, "wordNgrams": 2}
LOGISTIC = {"loss_function": "logistic", "passes": 10}
PEERS: Mapping[str, Peer] = MappingProxyType(
    {
        # Omikuji's defaults are like Parabel's: 3 trees, balanced 2-means.
        "omikuji": Peer("omikuji", OMIKUJI, {}),
        # As its README compares it with Bonsai.
        "omikuji-bonsai": Peer("omikuji", OMIKUJI, {"cluster_balanced": False, "cluster_k": 100, "max_depth": 3}),
        "pecos": Peer("pecos", PECOS, {"beam_size": 10}),
        "napkinxc": Peer("napkinxc", NAPKINXC, {"seed": 0}),
        "vw-recall-tree": Peer("vowpalwabbit", VOWPAL, {"learner": "recall_tree", **LOGISTIC}),
        # Better so than by logistic loss: 83.5 against 82.3 % on CLINC150.
        "vw-log-multi": Peer(
            "vowpalwabbit", VOWPAL, {"learner": "log_multi", "loss_function": "quantile", "passes": 10}
        ),
        "vw-oaa": Peer("vowpalwabbit", VOWPAL, {"learner": "oaa", "loss_function": "squared", "passes": 10}),
        "vw-plt": Peer("vowpalwabbit", VOWPAL, {"learner": "plt", **LOGISTIC}),
        "fasttext-hs": Peer("fasttext", FASTTEXT, {"loss": "hs", **TUTORIAL}),
        "fasttext-softmax": Peer("fasttext", FASTTEXT, {"loss": "softmax", **TUTORIAL}),
        "fasttext-ova": Peer("fasttext", FASTTEXT, {"loss": "ova", **TUTORIAL}),
        "fasttext": Peer("fasttext", FASTTEXT, {}),
        "fasttext-two-words": Peer("fasttext", FASTTEXT, TWO_WORDS),
        "sklearn-sgd": Peer("scikit-learn", SCIKIT, {"learner": "sgd", "loss": "log_loss", "random_state": 0}),
        "sklearn-logistic": Peer("scikit-learn", SCIKIT, {"learner": "logistic", "random_state": 0}),
        "sklearn-extra-trees": Peer("scikit-learn", SCIKIT, {"learner": "extra-trees", "random_state": 0}),
        "sklearn-neighbours": Peer("scikit-learn", SCIKIT, {"learner": "neighbours", "n_neighbors": 10}),
        "sklearn-logistic-1000": Peer("scikit-learn", SCIKIT, {"learner": "logistic", "max_iter": 1000}),
        "sklearn-linear-svc": Peer("scikit-learn", SCIKIT, {"learner": "linear-svc", "random_state": 0}),
        "sklearn-10-neighbours": Peer("scikit-learn", SCIKIT, {"learner": "k-neighbours", "n_neighbors": 10}),
        "sklearn-10-cosine": Peer(
            "scikit-learn", SCIKIT, {"learner": "k-neighbours", "n_neighbors": 10, "metric": "cosine"}
        ),
        "river-one-vs-rest": Peer("river", RIVER, {"learner": "one-vs-rest"}),
        "river-hoeffding-tree": Peer("river", RIVER, {"learner": "hoeffding-tree"}),
    }
)


@dataclass(frozen=True)
class PeerResult:
    """One run of a peer; the module's docstring says what the times cover."""

    name: str
    version: str
    settings: Mapping[str, Any]  # what differs from the peer's own defaults
    top_labels: np.ndarray  # (n_test, k) label ids, best first; -1 where the peer gave fewer
    precision: Mapping[int, float]  # P@1, P@3, P@5, as far as k goes
    train_seconds: float
    predict_seconds: float  # all test rows
    predict_one_seconds: float  # one row
    model_bytes: int | None  # on disk, as the peer saves it; of its arrays where it only pickles; None: not known
    threads: int
    n_trainings: int = 1
    loaded_bytes: int | None = None  # held in memory before training
    peak_bytes: int | None = None  # the most held, from training to prediction
    note: str = ""


def run_peer(
    name: str, X_train: Any, Y_train: Any, X_test: Any, Y_test: Any, folder: str | Path,
    options: Mapping[str, Any] | None = None, *, k: int = 5, threads: int = 2, timeout: float | None = None,
    command: Sequence[str] | None = None,
) -> PeerResult:  # fmt: skip
    """Train a peer on some rows and ask it about others.

    Parameters
    ----------
    name : str
        The peer and its settings, one of `PEERS`.
    X_train, X_test : array or sparse matrix of shape (n_rows, n_features)
        Given to the peer as float32. For fastText also arrays of texts without line breaks, of type object.
    Y_train, Y_test : array of int of shape (n_rows,), or sparse matrix of shape (n_rows, n_labels)
        Classes counted from 0, or an indicator matrix of labels.
    folder : path
        Where the peers' environments are, each in a folder of its own; made on first use from PyPI.
    options : mapping, optional
        More settings by the peer's own names, as the functions in `runners` list them, over those of `PEERS`.
    k : int
        How many labels to ask for.
    threads : int
        For training, and for predicting many rows.
    timeout : float, optional
        Seconds for the peer's whole process.
    command : sequence of str, optional
        The words that start the peer's Python, instead of making an environment in `folder`.

    Returns
    -------
    PeerResult
        Predictions, their precision, times and size.

    Raises
    ------
    PeerUnavailable
        If the peer cannot be installed, fails, or takes longer than `timeout`; the reason is in the message.
    ValueError
        If the data are not as described, or there is no such peer.
    """
    if name not in PEERS:
        raise ValueError(f"There is no peer {name!r}; there are {', '.join(PEERS)}.")
    k, threads = index(k), index(threads)
    if k < 1 or threads < 1:
        raise ValueError(f"k and threads must be 1 or more, got {k} and {threads}.")
    text = isinstance(X_train, np.ndarray) and X_train.dtype.kind == "O"
    if not text:
        X_train, X_test = (sp.csr_matrix(X, dtype=np.float32) for X in (X_train, X_test))
    labels_train, labels_test = _indicators(Y_train, Y_test)
    for part, X, Y in (("train", X_train, labels_train), ("test", X_test, labels_test)):
        if X.shape[0] != Y.shape[0] or X.shape[0] == 0:
            raise ValueError(f"X_{part} has {X.shape[0]} rows and Y_{part} {Y.shape[0]}; both need the same, above 0.")
    if not text and X_train.shape[1] != X_test.shape[1]:
        raise ValueError(f"X_train has {X_train.shape[1]} columns and X_test {X_test.shape[1]}; they must be the same.")
    peer = PEERS[name]
    settings = {**peer.options, **(options or {})}
    if command is None:
        command = [str(peer_environment(Path(folder) / peer.peer, *peer.installs))]

    with tempfile.TemporaryDirectory(prefix="manyclass-peer-") as exchange:
        work = Path(exchange)
        for file, rows in (("X_train", X_train), ("Y_train", labels_train), ("X_test", X_test)):
            if sp.issparse(rows):
                sp.save_npz(work / f"{file}.npz", rows, compressed=False)
            else:
                (work / f"{file}.txt").write_text("\n".join(rows), encoding="utf-8")
        request = {"peer": peer.peer, "options": settings, "k": k, "threads": threads}
        request["several"] = np.ndim(Y_train) == 2 or sp.issparse(Y_train)
        (work / "request.json").write_text(json.dumps(request))
        words = [*command, str(RUNNER), str(work)]
        run_command(words, timeout=timeout)
        top, numbers = _read_results(work, shlex.join(words), (X_test.shape[0], k), labels_train.shape[1])
    precision = {places: precision_at_k(labels_test, top, places) for places in (1, 3, 5) if places <= k}
    return PeerResult(name, settings=settings, top_labels=top, precision=precision, threads=threads, **numbers)


def _indicators(Y_train: Any, Y_test: Any) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """Both truths as matrices of zeros and ones, with the same number of columns."""
    parts = [Y if sp.issparse(Y) else np.asarray(Y) for Y in (Y_train, Y_test)]
    if parts[0].ndim != parts[1].ndim or parts[0].ndim not in (1, 2):
        raise ValueError("Y_train and Y_test must both be vectors of classes or both be matrices of labels.")
    if parts[0].ndim == 2:
        if parts[0].shape[1] != parts[1].shape[1]:
            raise ValueError(f"Y_train has {parts[0].shape[1]} labels and Y_test {parts[1].shape[1]}; name them alike.")
        matrices = [sp.csr_matrix(Y, dtype=np.float32, copy=True) for Y in parts]
        for Y in matrices:
            Y.sum_duplicates()
            Y.eliminate_zeros()
        if any(np.any(Y.data != 1) for Y in matrices):
            raise ValueError("A matrix of labels must hold zeros and ones only.")
        return matrices[0], matrices[1]
    if any(Y.dtype.kind not in "iu" or Y.min(initial=0) < 0 for Y in parts):
        raise ValueError("A vector of classes must hold integers, 0 or more; turn names into ids first.")
    n_labels = max(int(Y.max(initial=0)) for Y in parts) + 1
    train, test = (
        sp.csr_matrix((np.ones(len(Y), np.float32), Y, np.arange(len(Y) + 1)), shape=(len(Y), n_labels)) for Y in parts
    )
    return train, test


def _read_results(work: Path, line: str, shape: tuple[int, int], n_labels: int) -> tuple[np.ndarray, dict[str, Any]]:
    """Read what the runner left in its folder, or raise PeerUnavailable."""
    kinds: dict[str, Callable[[Any], Any]] = {
        "version": str,
        "train_seconds": float,
        "n_trainings": int,
        "predict_seconds": float,
        "predict_one_seconds": float,
        "model_bytes": _whole,
        "loaded_bytes": _whole,
        "peak_bytes": _whole,
        "note": str,
    }
    try:
        found = json.loads((work / "figures.json").read_text())
        numbers: dict[str, Any] = {key: kind(found[key]) for key, kind in kinds.items()}
        with np.load(work / "predictions.npz", allow_pickle=False) as arrays:
            top = arrays["top_labels"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise PeerUnavailable(f"{line} left no predictions that can be read: {error!r}") from error
    if top.shape != shape or top.dtype.kind not in "iu":
        raise PeerUnavailable(f"{line} left predictions of shape {top.shape} and type {top.dtype} instead of {shape}")
    if top.min() < -1 or top.max() >= n_labels:
        raise PeerUnavailable(f"{line} predicted label {top.min()} or {top.max()}, but there are {n_labels}")
    return top.astype(np.int64), numbers


def _whole(number: Any) -> int | None:
    """A number of bytes, or None where the peer could not tell."""
    return None if number is None else int(number)
