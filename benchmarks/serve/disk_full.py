"""A disk that fills up: learning is refused with 507, predictions go on, and learning too when there is space again.

    python benchmarks/serve/disk_full.py --episodes 50        (as root: it mounts a tmpfs of a few MB)
"""

import argparse
import json
import subprocess
import sys
import tempfile
import urllib.error
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.serve.running import ask, running, texts, train


def main() -> None:
    """Fill the disk, look, make space, look again."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=50)
    options = parser.parse_args()
    refused = failed = acknowledged = predicted = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = train(folder, 50)
        size = 4 * model.stat().st_size + (6 << 20)
        disk = folder / "disk"
        disk.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(disk)], check=True)
        try:
            with running(model, disk / "state", "--checkpoint-every", "40") as (_, port):
                rows = texts(100_000, 100, 1)
                for _ in range(options.episodes):
                    filler = disk / "filler"
                    with open(filler, "wb", buffering=0) as file:
                        try:
                            while True:
                                file.write(b"x" * 4096)
                        except OSError:
                            pass
                    seen = 0
                    for _ in range(200):  # what the journal's file has left is used up first
                        text, label = next(rows)
                        try:
                            ask(port, "/learn", {"text": text + " x" * 2000, "label": label})
                            acknowledged += 1
                        except urllib.error.HTTPError as error:
                            refused, seen = refused + (error.code == 507), seen + 1
                            failed += error.code != 507
                            error.close()
                        predicted += bool(ask(port, "/predict", {"text": text})["labels"])
                        if seen >= 3:
                            break
                    failed += seen == 0
                    filler.unlink()
                    text, label = next(rows)
                    acknowledged += bool(ask(port, "/learn", {"text": text, "label": label, "wait": True}))
            with running(model, disk / "state") as (_, port):
                written = ask(port, "/learn", {"text": "last", "label": "class 0"})["seq"] - 1
        finally:
            subprocess.run(["umount", str(disk)], check=True)
    result = {
        "episodes": options.episodes,
        "refused with 507": refused,
        "other errors": failed,
        "predictions meanwhile": predicted,
        "rows acknowledged": acknowledged,
        "rows in the journal": written,
    }
    print(json.dumps(result, indent=1))
    assert not failed and written == acknowledged and refused >= options.episodes


if __name__ == "__main__":
    main()
