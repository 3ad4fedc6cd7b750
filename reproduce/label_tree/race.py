"""The label tree beside PECOS, napkinXC and omikuji: the same rows in one run, each with its defaults, two threads.

A set runs in a process of its own for us as for each peer, one at a time. Peers are installed from PyPI into
environments of their own under `--folder`; one that cannot be installed is reported and left out.
"""

import json
import subprocess
import sys
import tempfile
import time

import numpy as np
from report import at_hand, parse, publish

from manyclass import LabelTreeClassifier
from manyclass.bench.peers import run_peer
from manyclass.bench.sets import rows_of
from manyclass.bench.vw import PeerUnavailable
from manyclass.metrics import precision_at_k

# name: (title, what to reach: P@1, P@3, P@5)
SETS = {
    "clinc150": ("CLINC150", (91.3,)),
    "wordnet-hypernym": ("WordNet", (55.4,)),
    "revdict": ("revdict", (8.1,)),
    "bibtex": ("Bibtex", (64.4,)),
    "delicious": ("Delicious", (66.9,)),
    "rcv1-topics": ("RCV1 topics", (96.0,)),
    "eurlex-4k": ("EURLex-4K", (82.9, 69.4, 58.1)),
}
EXTRA = {
    "folder": {"help": "where the peers' environments are made (a temporary folder by default)"},
    "peers": {"nargs": "*", "default": ["pecos", "napkinxc", "omikuji"], "help": "which peers to run"},
    "sets": {"nargs": "*", "default": list(SETS), "help": "which sets to run"},
    "timeout": {"type": float, "default": 900.0, "help": "seconds for one peer on one set (900)"},
    "one": {"choices": list(SETS), "help": "run our side of one set, print JSON (the script calls itself)"},
}


def thinned(name: str, quick: bool):
    """Rows of unit length, as in the race of all (reproduce/race); some of them for a quick look."""
    step = 20 if quick else 1
    X, y, X_test, y_test = rows_of(name)
    return X[::step], y[::step], X_test[::step], y_test[::step]


def run_one(name: str, quick: bool) -> dict:
    """Our side: compile on a few rows, then train and answer all."""
    X, y, X_test, y_test = thinned(name, quick)
    few = min(2000, X.shape[0])
    LabelTreeClassifier(random_state=0, n_jobs=2).fit(X[:few], y[:few]).predict_topk(X_test[:few], 1)
    model = LabelTreeClassifier(random_state=0, n_jobs=2)
    start = time.perf_counter()
    model.fit(X, y)
    train = time.perf_counter() - start
    k = min(5, len(model.classes_))
    predict = []
    for _ in range(3):
        start = time.perf_counter()
        top, _ = model.predict_topk(X_test, k)
        predict.append(time.perf_counter() - start)
    model.n_jobs = 1
    singles = [X_test[i : i + 1] for i in range(min(200, X_test.shape[0]))]
    model.predict_topk(singles[0], k)
    one = []
    for row in singles:
        start = time.perf_counter()
        model.predict_topk(row, k)
        one.append(time.perf_counter() - start)
    told = model.diagnose(X_test, y_test)
    return {
        "precision": [100 * precision_at_k(y_test, top, j) for j in (1, 3, 5)],
        "train": train,
        "predict": float(np.median(predict)),
        "one": float(np.median(one)),
        "bytes": model.n_bytes_,
        "work": told["work"],
        "classes": len(model.classes_),
        "recall": told["recall"],
    }


def cells(title: str, who: str, precision, train, predict, one, size, work=None) -> dict:
    """One row of the table."""
    return {
        "set": title,
        "who": who,
        "P@1": f"{precision[0]:.2f}",
        "P@3": f"{precision[1]:.2f}",
        "P@5": f"{precision[2]:.2f}",
        "train s": f"{train:.2f}",
        "predict s": f"{predict:.3f}",
        "one row µs": f"{1e6 * one:.0f}",
        "MB": f"{size / 1e6:.1f}",
        "work": work,
    }


def main() -> None:
    """Print the table."""
    args = parse(__doc__, **EXTRA)
    if args.one:
        print(json.dumps(run_one(args.one, args.quick)))
        return
    rows, notes = [], []
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.folder or temporary
        for name in at_hand(args.sets):
            title, bar = SETS[name]
            command = [sys.executable, __file__, "--one", name] + ["--quick"] * args.quick
            ours = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            share = f"{ours['work']:.0f} ({100 * ours['work'] / ours['classes']:.1f} %)"
            rows.append(
                cells(
                    title,
                    "manyclass",
                    ours["precision"],
                    ours["train"],
                    ours["predict"],
                    ours["one"],
                    ours["bytes"],
                    share,
                )
            )
            print(rows[-1], flush=True)
            reached = " / ".join(f"{got:.2f} against {want}" for got, want in zip(ours["precision"], bar, strict=False))
            notes.append(f"{title}: {reached}; recall of the labels scored {100 * ours['recall']:.1f} %.")
            data = thinned(name, args.quick)
            for peer in args.peers:
                try:
                    result = run_peer(peer, *data, folder=folder, threads=2, timeout=args.timeout)
                except PeerUnavailable as error:
                    late = "timed out" in str(error)
                    why = f"not done in {args.timeout:g} s" if late else "could not be installed or run"
                    print(f"{title}, {peer}: {error}", file=sys.stderr)
                    notes.append(f"{title}, {peer}: {why}.")
                    continue
                precision = [100 * result.precision[k] for k in (1, 3, 5)]
                rows.append(
                    cells(
                        title,
                        f"{peer} {result.version}",
                        precision,
                        result.train_seconds,
                        result.predict_seconds,
                        result.predict_one_seconds,
                        result.model_bytes,
                    )
                )
                print(rows[-1], flush=True)
    notes += [
        "Defaults of LabelTreeClassifier with n_jobs=2; peers with two threads. train: the fit call, data in memory, "
        "code compiled; predict: the whole test set, top 5; one row: median of 200 calls with one row, checks of the "
        "input included. MB: ours in memory with all that further training needs; the peers' file, pruned. work: "
        "routers and labels scored for a row, and its share of the number of classes.",
    ]
    publish("race", "Label tree and peers", rows, notes, args.quick)


if __name__ == "__main__":
    main()
