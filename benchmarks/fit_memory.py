"""Memory of `LabelTreeClassifier.fit` on sparse rows, in memory and mapped from files. See --help.

Each line is a process of its own. Held: what it has allocated before `fit`, with the rows if they are not mapped.
Peak: the most during `fit`, looked up every few milliseconds. Asked: what `fit` says that it needs when `max_memory` is
too small. Mapped files are not counted. Model: its size, and the estimate of `estimate_memory`.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

ROOT = Path(__file__).resolve().parents[1]
if __name__ == "__main__":
    sys.path[0] = str(ROOT)  # of the repository: `benchmarks` is not installed

from benchmarks.large import SETS as LARGE  # noqa: E402
from benchmarks.origin import when  # noqa: E402
from benchmarks.sets import SETS, SetUnavailable, prepare  # noqa: E402
from benchmarks.tables import markdown_table  # noqa: E402
from manyclass import LabelTreeClassifier  # noqa: E402
from manyclass.core.memory import as_bytes, held_bytes  # noqa: E402

KNOWN = {**SETS, **LARGE}
DEFAULT = ("wordnet-hypernym", "eurlex-4k", "big-text-0.05", "big-text-0.25")
PAGE = ROOT / "benchmarks" / "large" / "memory.md"
ARRAYS = ("data", "indices", "indptr")
HEAD = ["set", "rows", "held MB", "peak MB", "asked MB", "peak / asked", "model MB", "estimate / model"]
FEW = 2000  # rows to compile on


def child(folder: Path, mapped: bool, threads: int) -> dict[str, Any]:
    """Fit the rows in a folder, and return numbers of bytes."""
    facts = json.loads((folder / "facts.json").read_text())
    arrays = [np.load(folder / f"{name}.npy", mmap_mode="c" if mapped else None) for name in ARRAYS]
    X = sp.csr_matrix(tuple(arrays), shape=facts["shape"])
    y = sp.load_npz(folder / "y.npz").tocsr() if (folder / "y.npz").exists() else np.load(folder / "y.npy")
    LabelTreeClassifier(random_state=0, n_epochs=1, n_jobs=threads).fit(X[:FEW], y[:FEW])  # compiles
    held, peak, done = held_bytes(), [0], threading.Event()
    try:
        LabelTreeClassifier(random_state=0, max_memory=1).fit(X, y)
    except MemoryError as error:
        asked = as_bytes(re.findall(r"max_memory='(\w+)'", str(error))[0])

    def look() -> None:
        while not done.wait(0.005):
            peak[0] = max(peak[0], held_bytes())

    watch = threading.Thread(target=look)
    watch.start()
    model = LabelTreeClassifier(random_state=0, n_jobs=threads).fit(X, y)
    done.set()
    watch.join()
    several, n_rows = sp.issparse(y), X.shape[0]
    estimate = model.estimate_memory(
        X.shape[1], len(model.classes_), sparse=True, multilabel=several, n_rows=n_rows, n_nonzero=X.nnz / n_rows,
        n_labels=y.sum() / n_rows if several else 1.0,
    )  # fmt: skip
    return {"held": held, "peak": peak[0], "asked": asked, "model": model.n_bytes_, "estimate": estimate}


def write_rows(folder: Path, X: Any, y: Any) -> None:
    """Put rows where a child can map them."""
    X = sp.csr_matrix(X)
    for name in ARRAYS:
        np.save(folder / f"{name}.npy", getattr(X, name))
    (folder / "facts.json").write_text(json.dumps({"shape": X.shape}))
    if sp.issparse(y):
        sp.save_npz(folder / "y.npz", y, compressed=False)
    else:
        np.save(folder / "y.npy", y)


def measure(name: str, threads: int) -> list[list[str]]:
    """The lines of a set."""
    lines = []
    with tempfile.TemporaryDirectory(prefix="manyclass-memory-") as folder:
        write_rows(Path(folder), *prepare(KNOWN[name])[:2])
        for kind in ("in memory", "mapped"):
            words = [sys.executable, __file__, "--child", folder, "--threads", str(threads)]
            if kind == "mapped":
                words.append("--mapped")
            found = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
            numbers = [f"{found[key] / 1e6:.0f}" for key in ("held", "peak", "asked")]
            ratio, estimate = found["peak"] / found["asked"], found["estimate"] / found["model"]
            lines.append([name, kind, *numbers, f"{ratio:.2f}", f"{found['model'] / 1e6:.1f}", f"{estimate:.2f}"])
            print(lines[-1], file=sys.stderr, flush=True)
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the sets, and print the table; without `--sets`, write it to benchmarks/large/memory.md."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sets", nargs="+", choices=list(KNOWN), metavar="SET")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--mapped", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.child is not None:
        print(json.dumps(child(options.child, options.mapped, options.threads)))
        return 0
    lines = []
    for name in options.sets or DEFAULT:
        try:
            lines += measure(name, options.threads)
        except SetUnavailable as error:
            print(f"{name}: left out, {error}", file=sys.stderr)
    if not lines:
        return 1
    about = " ".join(__doc__.split("\n\n", 1)[1].split())
    table = markdown_table(HEAD, lines)
    page = f"# Memory of training\n\n`python benchmarks/fit_memory.py` writes this page; {when()}. {about}\n\n{table}\n"
    print(page)
    if options.sets is None:
        PAGE.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
