"""kill -9 under learning load: nothing that was acknowledged is lost or learned twice, and the bytes are the same.

    python benchmarks/serve/kills.py --kills 500

One service after the other is started on the same state folder and killed at a random moment while a client sends rows,
each with an idempotency key. Services are forked from this process, which has imported all modules and run nothing. A
row whose response did not come is sent again to the next service. In the end the model is compared with that of a
service that was never killed and got the same rows in the order of the journal.
"""

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import threading
import time
from http.client import HTTPException
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.serve.running import ask, free_port, running, texts, train
from manyclass.serve.start import Options
from manyclass.serve.start import run as serve


def forked(model: Path, state: Path, checkpoint_every: int) -> tuple[int, int]:
    """Start a service and wait until it is ready; returns its process and port."""
    port, begun = free_port(), time.perf_counter()
    child = os.fork()
    if child == 0:
        with open(state.parent / "service.log", "ab") as log:
            os.dup2(log.fileno(), 2)
        options = Options([("things", str(model))], port=port, state=str(state), checkpoint_every=checkpoint_every)
        serve(options)
        os._exit(0)
    while time.perf_counter() - begun < 300:
        try:
            ask(port, "/v2/health/ready")
            return child, port
        except OSError:
            time.sleep(0.01)
    raise RuntimeError(f"the service did not start: see {state.parent / 'service.log'}")


def main() -> None:
    """Kill, restart, compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--classes", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=600, help="fewer kills if they take longer")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng, began = random.Random(options.seed), time.perf_counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = train(folder, options.classes)
        rows = list(texts(200_000, 2 * options.classes, 1))  # half of the labels are new
        sent = acknowledged = duplicates = n_kills = 0
        while n_kills < options.kills and time.perf_counter() - began < 60 * options.minutes:
            n_kills += 1
            if n_kills % 50 == 0:
                print(f"{n_kills} kills, {acknowledged} rows", file=sys.stderr, flush=True)
            child, port = forked(model, folder / "killed", rng.randrange(5, 200))
            timer = threading.Timer(rng.uniform(0.02, 0.6), os.kill, (child, signal.SIGKILL))
            timer.start()
            try:
                while True:
                    text, label = rows[sent]
                    found = ask(port, "/learn", {"text": text, "label": label, "id": str(sent)})
                    duplicates += found["duplicate"]
                    acknowledged, sent = sent + 1, sent + 1
            except (OSError, HTTPException, ValueError):
                pass  # it was killed: the next one gets the same row again
            timer.join()
            os.waitpid(child, 0)
        with running(model, folder / "killed") as (_, port):
            n_rows = ask(port, "/learn", {"text": "last", "label": "class 0"})["seq"]
        expected = n_rows - 1
        lost, twice = max(0, acknowledged - expected), max(0, expected - acknowledged - 1)
        with running(model, folder / "quiet") as (_, port):
            for begin in range(0, expected, 500):
                part = [{"text": t, "label": y} for t, y in rows[begin : min(begin + 500, expected)]]
                ask(port, "/learn", {"rows": part})
            ask(port, "/learn", {"text": "last", "label": "class 0"})
        files = [(folder / state / "things" / "1.model").read_bytes() for state in ("killed", "quiet")]
        result = {
            "kills": n_kills,
            "rows acknowledged": acknowledged,
            "responses that did not come, sent again": duplicates,
            "lost": lost,
            "learned twice": twice,
            "same bytes as without kills": files[0] == files[1],
            "seconds": round(time.perf_counter() - began),
        }
        print(json.dumps(result, indent=1))
        assert lost == twice == 0 and files[0] == files[1]


if __name__ == "__main__":
    main()
