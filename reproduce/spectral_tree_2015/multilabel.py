"""The spectral tree with several labels a row, beside PECOS, napkinXC and omikuji in the same run [ST §5.3-5.4]."""

import json
import resource
import subprocess
import sys
import tempfile
import time

import numpy as np
from report import load_or_skip, parse, publish
from sklearn.preprocessing import normalize

from manyclass import SpectralTreeClassifier
from manyclass.bench.peers import run_peer
from manyclass.bench.vw import PeerUnavailable
from manyclass.datasets import available
from manyclass.metrics import precision_at_k

SETS = {"eurlex-4k": "EURLex-4K", "bibtex": "Bibtex", "delicious": "Delicious", "rcv1-topics": "RCV1 topics"}
EXTRA = {
    "folder": {"help": "where the rivals' environments are made (a temporary folder by default)"},
    "rivals": {"nargs": "*", "default": ["pecos", "napkinxc", "omikuji"], "help": "which rivals to run"},
    "sets": {"nargs": "*", "default": list(SETS), "help": "which sets to run"},
    "one": {"choices": list(SETS), "help": "run our side of one set, print JSON (the script calls itself)"},
}


def rows_of(name: str, quick: bool):
    """Rows of length 1, thinned out for a quick look."""
    X, Y, X_test, Y_test = load_or_skip(name)
    step = 20 if quick else 1
    X, X_test = normalize(X).astype(np.float32), normalize(X_test).astype(np.float32)
    return X[::step], Y[::step], X_test[::step], Y_test[::step]


def recall_of_frequent(Y, Y_test, k: int) -> float:
    """Share of the test labels that are among the k most frequent training labels."""
    frequent = np.argsort(-np.asarray(Y.sum(axis=0)).ravel(), kind="stable")[:k]
    return float(Y_test[:, frequent].sum() / Y_test.sum())


def run_one(name: str, quick: bool) -> dict:
    """Our side, code compiled on a few rows."""
    X, Y, X_test, Y_test = rows_of(name, quick)
    few = min(1000, X.shape[0])
    SpectralTreeClassifier(random_state=0, n_jobs=2).fit(X[:few], Y[:few]).predict_topk(X_test[:few], 1)
    clf = SpectralTreeClassifier(random_state=0, n_jobs=2)
    begun = time.perf_counter()
    clf.fit(X, Y)
    train = time.perf_counter() - begun
    seconds = []
    for _ in range(3):
        begun = time.perf_counter()
        top, _ = clf.predict_topk(X_test, 5)
        seconds.append(time.perf_counter() - begun)
    told = clf.diagnose(X_test, Y_test)
    return {
        "precision": [float(100 * precision_at_k(Y_test, top, k)) for k in (1, 3, 5)],
        "train": train,
        "predict": min(seconds),
        "MB": clf.n_bytes_ / 1e6,
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "frequent": 100 * recall_of_frequent(Y, Y_test, round(told["candidates_scored"])),
        **told,
    }


def cells(title, who, precision, train, predict, size, recall=None, frequent=None, work=None, peak=None) -> dict:
    """One row of the table."""
    return {
        "set": title,
        "who": who,
        "P@1": f"{precision[0]:.2f}",
        "P@3": f"{precision[1]:.2f}",
        "P@5": f"{precision[2]:.2f}",
        "recall": recall,
        "of the most frequent": frequent,
        "routers + labels": work,
        "train s": f"{train:.2f}",
        "predict s": f"{predict:.3f}",
        "MB": f"{size:.1f}",
        "peak MB": peak,
    }


def main() -> None:
    """Print the table."""
    args = parse(__doc__, **EXTRA)
    if args.one:
        print(json.dumps(run_one(args.one, args.quick)))
        return
    rows, notes = [], []
    with tempfile.TemporaryDirectory() as temporary:
        for name in args.sets:
            if not available(name):
                notes.append(f"{name} skipped: not in the folder named by MANYCLASS_DATA.")
                continue
            command = [sys.executable, __file__, "--one", name] + ["--quick"] * args.quick
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            ours = json.loads(done.stdout)
            work = f"{ours['routers_scored']:.0f} + {ours['candidates_scored']:.0f}"
            rows.append(
                cells(
                    SETS[name], "manyclass", ours["precision"], ours["train"], ours["predict"], ours["MB"],
                    f"{100 * ours['recall']:.1f}", f"{ours['frequent']:.1f}", work, f"{ours['peak']:.0f}",
                )
            )  # fmt: skip
            print(rows[-1], flush=True)
            for rival in args.rivals:
                try:
                    got = run_peer(
                        rival, *rows_of(name, args.quick), folder=args.folder or temporary, threads=2, timeout=900
                    )
                except PeerUnavailable as error:
                    print(f"{name}, {rival}: {error}", file=sys.stderr)
                    notes.append(f"{SETS[name]}, {rival}: could not be installed or run, or not in time.")
                    continue
                precision = [100 * got.precision[k] for k in (1, 3, 5)]
                who = f"{rival} {got.version}"
                rows.append(
                    cells(SETS[name], who, precision, got.train_seconds, got.predict_seconds, got.model_bytes / 1e6)
                )
                print(rows[-1], flush=True)
    notes.append(
        "Defaults of all; two threads. recall: true labels of test rows among the labels scored, beside what as many "
        "of the most frequent labels would hold. MB: ours in memory with all that learning needs, the rivals' file. "
        "peak MB: of the whole process with the data."
    )
    if not rows:
        print("skipped: none of the sets is in the folder that MANYCLASS_DATA names")
        return
    if not args.rivals:  # a table of its own, so that one with rivals is not lost
        notes.append(
            "Paper, Table 6 and §5.4, on LSHTC, other data: depth 14, 3,998 labels, recall 72 % beside 33.7 % of the "
            "4,000 most frequent, P@1 54.0 % (flat, rank 800: 53.4 %), 1,058 examples a second (60)."
        )
    publish("multilabel" if args.rivals else "table_6", "Spectral tree, several labels a row", rows, notes, args.quick)


if __name__ == "__main__":
    main()
