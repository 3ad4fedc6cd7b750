"""Time and memory of training on a cluster of this machine beside `fit` in one process. Requires an idle machine.

    MANYCLASS_DATA=... python benchmarks/dask/speed.py --set big-text-0.25
    MANYCLASS_DATA=... python benchmarks/dask/speed.py --set big-text-1.0 --ways dask-2 --memory 6GB

Prints seconds and the peak memory of the largest worker for `fit` with as many threads as workers, and for clusters of
1 and 2 workers with one thread each. Code is compiled before. Every fit runs in fresh processes. `--memory` limits a
worker: Dask moves results to disk before it is reached, and restarts a worker that exceeds 95 % of it.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from dask import delayed

ROOT = Path(__file__).resolve().parents[2]
sys.path[0] = str(ROOT)  # of the repository: `benchmarks` is not installed

from benchmarks.dask.running import digest, read_partition, running, write_partitions  # noqa: E402
from manyclass import LabelTreeClassifier  # noqa: E402
from manyclass.distributed import DaskLabelTreeClassifier  # noqa: E402

WAYS = ("local-1", "local-2", "dask-1", "dask-2")
_FEW = 2000  # rows that compile the code


def peak() -> int:
    """The most memory of this process so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def local(folder: Path, n_jobs: int) -> dict:
    """`fit` in this process on the rows of all partitions."""
    X, y = zip(*(read_partition(*paths)[:2] for paths in _paths(folder)), strict=True)
    X = sp.vstack(X, format="csr")
    y = sp.vstack(y, format="csr") if sp.issparse(y[0]) else np.concatenate(y)
    model = LabelTreeClassifier(random_state=0, n_jobs=n_jobs)
    model.fit(X[:_FEW], y[:_FEW])
    begun = time.perf_counter()
    model.fit(X, y)
    seconds = time.perf_counter() - begun
    return {"seconds": seconds, "peak": peak(), "digest": digest(model.set_params(n_jobs=1))}


def distributed(folder: Path, n_workers: int, memory: str) -> dict:
    """The same on a cluster."""
    parts = [delayed(read_partition, nout=3)(*paths) for paths in _paths(folder)]
    with running(n_workers, memory) as (_, client):
        pids = set(client.run(os.getpid).values())
        few = [delayed(_first_rows, nout=3)(part) for part in parts]  # several, so that every worker gets some of them
        for _ in range(2):
            DaskLabelTreeClassifier(client, random_state=0).fit(few)
        begun = time.perf_counter()
        model = DaskLabelTreeClassifier(client, random_state=0).fit(parts).to_local()
        seconds = time.perf_counter() - begun
        restarted = len(set(client.run(os.getpid).values()) - pids)
        found = {"seconds": seconds, "peak": max(client.run(peak).values()), "restarted": restarted, "client": peak()}
        return {**found, "digest": digest(model)}


def _first_rows(part: tuple) -> tuple:
    return part[0][:_FEW], part[1][:_FEW], None


def _paths(folder: Path) -> list[list[str]]:
    n = len(list(folder.glob("X*")))
    return [[str(folder / f"{what}{number}") for what in "Xy"] for number in range(n)]


def main() -> None:
    """Write the partitions, then measure each way in its own process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", default="big-text-0.25")
    parser.add_argument("--parts", type=int, default=8)
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=WAYS)
    parser.add_argument("--memory", default="0", help="limit of each worker, such as 6GB; 0: none")
    parser.add_argument("--child", nargs=3, metavar=("WAY", "N", "FOLDER"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        way, n, folder = options.child
        found = local(Path(folder), int(n)) if way == "local" else distributed(Path(folder), int(n), options.memory)
        print(json.dumps(found))
        return
    with tempfile.TemporaryDirectory() as folder:
        write_partitions(options.set, options.parts, Path(folder))
        found = {}
        for name in options.ways:
            command = [sys.executable, __file__, "--memory", options.memory, "--child", *name.split("-"), folder]
            out = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
            found[name] = one = json.loads(out.splitlines()[-1])
            more = f", client {one['client'] / 2**20:.0f} MB, {one['restarted']} restarted" if "client" in one else ""
            line = f"{name}: {one['seconds']:.1f} s, peak {one['peak'] / 2**20:.0f} MB{more}, {one['digest'][:16]}"
            print(line, flush=True)
    print(f"all models the same: {len({one['digest'] for one in found.values()}) == 1}")
    if len(found) < len(WAYS):
        return
    seconds = {name: one["seconds"] for name, one in found.items()}
    print(f"speed-up from 1 to 2 workers: {seconds['dask-1'] / seconds['dask-2']:.2f} (wanted: 1.6)")
    print(f"2 workers beside fit with 2 threads: {seconds['dask-2'] / seconds['local-2']:.2f} (wanted: at most 1.3)")
    share = found["dask-2"]["peak"] / found["local-2"]["peak"]
    print(f"peak of a worker beside one process: {share:.2f} (wanted: at most 1.3 / 2)")


if __name__ == "__main__":
    main()
