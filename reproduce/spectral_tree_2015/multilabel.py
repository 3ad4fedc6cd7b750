"""The spectral tree with several labels a row, beside PECOS, napkinXC and omikuji in the same run [ST §5.3-5.4]."""

import json
import subprocess
import sys
import tempfile

from models import recall_of_frequent
from report import at_hand, compare, load_unit, parse, publish

from benchmarks.peers import run_peer
from benchmarks.runners import measure
from benchmarks.timing import fit_seconds
from benchmarks.vw import PeerUnavailable
from manyclass import SpectralTreeClassifier
from manyclass.metrics import precision_at_k

SETS = {"eurlex-4k": "EURLex-4K", "bibtex": "Bibtex", "delicious": "Delicious", "rcv1-topics": "RCV1 topics"}
EXTRA = {
    "folder": {"help": "where the peers' environments are made (a temporary folder by default)"},
    "peers": {"nargs": "*", "default": ["pecos", "napkinxc", "omikuji"], "help": "which peers to run"},
    "sets": {"nargs": "*", "default": list(SETS), "help": "which sets to run"},
    "one": {"choices": list(SETS), "help": "run our side of one set, print JSON (the script calls itself)"},
}


def rows_of(name: str, quick: bool):
    """Rows of length 1, thinned out for a quick look."""
    X, Y, X_test, Y_test = load_unit(name)
    step = 20 if quick else 1
    return X[::step], Y[::step], X_test[::step], Y_test[::step]


def run_one(name: str, quick: bool) -> dict:
    """Our side, code compiled on a few rows."""
    X, Y, X_test, Y_test = rows_of(name, quick)
    few = min(1000, X.shape[0])
    SpectralTreeClassifier(random_state=0, n_jobs=2).fit(X[:few], Y[:few]).predict_topk(X_test[:few], 1)
    clf = SpectralTreeClassifier(random_state=0, n_jobs=2)
    train = fit_seconds(clf, X, Y)
    predict, (top, _) = measure.median_of_passes(lambda: clf.predict_topk(X_test, 5))
    told = clf.diagnose(X_test, Y_test)
    return {
        "precision": [float(100 * precision_at_k(Y_test, top, k)) for k in (1, 3, 5)],
        "train": train,
        "predict": predict,
        "n": len(Y_test.indptr) - 1,
        "MB": clf.n_bytes_ / 1e6,
        "peak": (measure.peak_bytes() or 0) / 2**20,
        "frequent": recall_of_frequent(Y, Y_test, round(told["candidates_scored"])),
        **told,
    }


def cells(
    title,
    who,
    precision,
    train=None,
    predict=None,
    size=None,
    recall=None,
    frequent=None,
    work=None,
    peak=None,
    gap=None,
) -> dict:
    """One row of the table; `gap` is what `compare` says of our P@1 beside this one."""
    return {
        "set": title,
        "who": who,
        **{f"P@{k}": share and f"{share:.2f}" for k, share in zip((1, 3, 5), precision, strict=True)},
        **(gap or compare(0.0, 1, None, 1, "this")),
        "recall": recall,
        "of the most frequent": frequent,
        "routers + labels": work,
        "train s": train and f"{train:.2f}",
        "predict s": predict and f"{predict:.3f}",
        "MB": size and f"{size:.1f}",
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
        for name in at_hand(args.sets):
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
            for peer in args.peers:
                try:
                    got = run_peer(
                        peer, *rows_of(name, args.quick), folder=args.folder or temporary, threads=2, timeout=900
                    )
                except PeerUnavailable as error:
                    print(f"{name}, {peer}: {error}", file=sys.stderr)
                    notes.append(f"{SETS[name]}, {peer}: could not be installed or run, or not in time.")
                    continue
                precision = [100 * got.precision[k] for k in (1, 3, 5)]
                who = f"{peer} {got.version}"
                gap = compare(ours["precision"][0], ours["n"], precision[0], ours["n"], "this")
                times, size = (got.train_seconds, got.predict_seconds), got.model_bytes / 1e6
                rows.append(cells(SETS[name], who, precision, *times, size, gap=gap))
                print(rows[-1], flush=True)
    notes.append(
        "Defaults of all; two threads. recall: true labels of test rows among the labels scored, beside what as many "
        "of the most frequent labels would hold. MB: ours in memory with all that learning needs, the peers' file. "
        "peak MB: of the whole process with the data. p: N - 1 chi-squared test of P@1."
    )
    if not rows:
        return
    publish("multilabel", "Spectral tree and other libraries, several labels per row", rows, notes, args.quick)


if __name__ == "__main__":
    main()
