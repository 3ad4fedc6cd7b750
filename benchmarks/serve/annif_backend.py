"""Annif's own `http` backend against the service: a suggestion, a correction, another suggestion.

    python benchmarks/serve/annif_backend.py --annif PATH/TO/bin/annif
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.serve.running import LOCAL, ask, running, texts

URI = "http://example.org/"


def main() -> None:
    """Train on labels that are URIs, as Annif's are, and ask Annif."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--annif", default="annif")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = [(text, URI + label.replace(" ", "-")) for text, label in texts(2000, 50, 0)]
        (folder / "rows.jsonl").write_text("".join(json.dumps({"text": t, "label": y}) + "\n" for t, y in rows))
        model = folder / "subjects.model"
        command = ["train", str(folder / "rows.jsonl"), "--label", "label", "--text", "text", "--model", str(model)]
        subprocess.run([sys.executable, "-m", "manyclass", *command], check=True, stdout=sys.stderr)
        labels = sorted({label for _, label in rows} | {URI + "new"})
        (folder / "subjects.tsv").write_text("".join(f"<{uri}>\t{uri.rsplit('/')[-1]}\n" for uri in labels))
        with running(model, folder / "state") as (_, port):
            endpoint = f"http://{LOCAL}:{port}/v1/projects/things/suggest"
            (folder / "projects.cfg").write_text(
                f"[mc]\nname=mc\nlanguage=en\nbackend=http\nvocab=subjects\nlimit=3\nendpoint={endpoint}\n"
            )

            def annif(*words: str, text: str | None = None) -> str:
                done = subprocess.run([options.annif, *words], input=text, cwd=folder, text=True, capture_output=True)
                if done.returncode:
                    raise SystemExit(done.stderr)
                return done.stdout

            annif("load-vocab", "-L", "en", "subjects", "subjects.tsv")
            print(annif("show-project", "mc"))
            text, label = rows[0]
            found = annif("suggest", "mc", text=text)
            print(found)
            assert found.startswith(f"<{label}>"), label
            document = [{"text": "quasar pulsar", "subjects": [{"uri": URI + "new"}]}]
            try:
                ask(port, "/v1/projects/things/learn", document)
            except json.JSONDecodeError:
                pass  # 204 has no body
            ask(port, "/learn", {"text": "quasar", "label": URI + "new", "wait": True})
            found = annif("suggest", "mc", text="quasar pulsar")
            print(found)
            assert found.startswith(f"<{URI}new>")


if __name__ == "__main__":
    main()
