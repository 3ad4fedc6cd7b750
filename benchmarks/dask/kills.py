"""A worker is killed (SIGKILL) at a random moment of each run; every model must have the same bytes.

    MANYCLASS_DATA=... python benchmarks/dask/kills.py --set eurlex-4k --runs 100
"""

import argparse
import os
import random
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[2])  # of the repository: `benchmarks` is not installed

from benchmarks.dask.running import digest, running, write_partitions  # noqa: E402
from manyclass import LabelTreeClassifier  # noqa: E402
from manyclass.distributed import DaskLabelTreeClassifier  # noqa: E402


def main() -> None:
    """Print a line for each run; exit with 1 if a digest differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", default="eurlex-4k")
    parser.add_argument("--rows", type=int, default=0, help="only the first rows; 0: all")
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as folder, running(options.workers) as (cluster, client):
        X, y, parts = write_partitions(options.set, 4, Path(folder), options.rows or None)
        expected = digest(LabelTreeClassifier(random_state=0).fit(X, y))
        begun = time.perf_counter()
        DaskLabelTreeClassifier(client, random_state=0).fit(parts)
        seconds, wrong, n_killed = time.perf_counter() - begun, 0, 0
        print(f"{options.set}: {expected[:16]}, {seconds:.1f} s without a kill", flush=True)
        for number in range(options.runs):
            try:
                client.wait_for_workers(options.workers, timeout=60)
            except TimeoutError:  # a nanny has given up its worker
                client.restart()
            running_now = sorted(nanny.pid for nanny in cluster.workers.values() if nanny.pid)
            victim, moment = rng.choice(running_now), rng.uniform(0, seconds)
            killer = threading.Timer(moment, os.kill, (victim, signal.SIGKILL))
            begun = time.perf_counter()
            killer.start()
            model = DaskLabelTreeClassifier(client, random_state=0).fit(parts).to_local()
            in_time = not killer.is_alive()
            killer.cancel()
            seconds = min(seconds, time.perf_counter() - begun)  # the first run loads the compiled code
            n_killed += in_time
            found = digest(model)
            wrong += found != expected
            print(
                f"run {number + 1}: worker killed after {moment:.1f} s"
                f"{'' if in_time else ' (not: the run was over)'}, {'same' if found == expected else 'DIFFERENT'}",
                flush=True,
            )
    same = options.runs - wrong
    print(f"{same} of {options.runs} models have the same bytes; a worker was killed in {n_killed} runs")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
