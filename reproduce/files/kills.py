"""Kill `manyclass train --checkpoint-every` at random moments, resume, and compare with an undisturbed run.

    python reproduce/files/kills.py [--kills 200] [--seed 0]

Every run is killed by SIGKILL again and again until it ends by itself; its model must then be, byte for byte, that of a
run nobody disturbed. Runs follow one another until so many kills have been dealt out.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np


def write_data(path: Path, n_rows: int, n_classes: int, seed: int) -> None:
    """Rows of 20 features, half of them told by the class."""
    rng = np.random.default_rng(seed)
    own = rng.integers(1, 50_000, (n_classes, 40))
    with open(path, "w") as file:
        for _ in range(n_rows):
            label = int(n_classes * rng.random() ** 2)
            features = np.unique(np.concatenate([rng.choice(own[label], 10), rng.integers(1, 50_000, 10)]))
            file.write(f"{label} " + " ".join(f"{f}:{rng.random():.3f}" for f in features) + "\n")


def command(data: Path, model: Path, extra: list[str]) -> list[str]:
    program = [sys.executable, "-m", "manyclass", "train", str(data), "--model", str(model), "--epochs", "2"]
    return [*program, "--checkpoint-every", "1500", *extra]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    chance, counts = random.Random(asked.seed), Counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = folder / "data.svm"
        write_data(data, asked.rows, 300, asked.seed)
        for algorithm in ("recall-tree", "label-tree"):
            options = ["--algorithm", algorithm, "--features", "4096", "--json"]
            calm = folder / f"calm-{algorithm}"
            subprocess.run(command(data, calm, options), check=True, capture_output=True)  # compiles
            begun = time.perf_counter()
            again = folder / "again"
            told = subprocess.run(command(data, again, options), check=True, capture_output=True, text=True).stdout
            whole = time.perf_counter() - begun
            assert again.read_bytes() == calm.read_bytes(), "two undisturbed runs differ"
            examples = json.loads(told)["examples"]
            wanted = asked.kills // 2
            while counts[algorithm, "kills"] < wanted:
                model = folder / f"model-{algorithm}-{counts[algorithm, 'runs']}"
                run_and_kill(data, model, options, whole, chance, counts, algorithm, wanted)
                same = model.read_bytes() == calm.read_bytes()
                left = sorted(path.name for path in folder.iterdir() if model.name in path.name and path != model)
                counts[algorithm, "same bytes" if same else "OTHER BYTES"] += 1
                counts[algorithm, "files left behind"] += len(left)
                model.unlink()
            done = {key[1]: count for key, count in counts.items() if key[0] == algorithm}
            print(f"{algorithm}: {examples:,} examples a run, {whole:.1f} s undisturbed: {done}", flush=True)
    return int(any(key[1] == "OTHER BYTES" for key in counts))


def run_and_kill(data, model, options, whole, chance, counts, algorithm, wanted) -> None:
    """One run, killed at random moments until it comes to its end."""
    counts[algorithm, "runs"] += 1
    while True:
        process = subprocess.Popen(
            command(data, model, [*options, "--resume"]), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        enough = counts[algorithm, "kills"] >= wanted
        try:
            process.wait(None if enough else whole * (0.35 + 0.65 * chance.random()))
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            counts[algorithm, "kills"] += 1
            counts[algorithm, "kills with a checkpoint there"] += Path(f"{model}.checkpoint").exists()
            continue
        finally:
            assert process.stderr is not None
            errors = process.stderr.read()
            process.stderr.close()
        if process.returncode:
            raise SystemExit(f"train failed:\n{errors}")
        return


if __name__ == "__main__":
    sys.exit(main())
