"""Write the hypernym tree and the definitions of the labels of the WordNet set into the package.

    python scripts/pack_wordnet_labels.py FOLDER

FOLDER has the data.noun and data.verb of Debian's wordnet-base (WordNet 3.0). The tree has the labels of the set and
all nodes above them; the parent of a synset is its first hypernym (or instance hypernym), as for the rows of the set.
A description is the words of a synset and its definition, without examples.
"""

import sys
from pathlib import Path

import numpy as np

from manyclass.datasets import load_wordnet
from manyclass.datasets.packed import pack_names, write_packed

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "manyclass" / "datasets"
NO_PARENT = ""


def synsets(path: Path, part_of_speech: str) -> dict[str, tuple[str, str]]:
    """For each synset, "word.n.number": the number of its hypernym, or "", and its description."""
    found = {}
    for line in path.read_text("utf-8").splitlines():
        if line.startswith("  "):  # the licence
            continue
        data, gloss = line.split(" | ")
        fields = data.split()
        n_words = int(fields[3], 16)
        words = [word.replace("_", " ") for word in fields[4 : 4 + 2 * n_words : 2]]
        pointers = fields[5 + 2 * n_words :]
        above = [pointers[at + 1] for at, field in enumerate(pointers) if field in ("@", "@i")]
        definition = gloss.split('; "')[0].strip()
        found[fields[0]] = (
            f"{words[0]}.{part_of_speech}.{fields[0]}",
            above[0] if above else NO_PARENT,
            " ".join([*words, definition]),
        )
    return {name: (found[above][0] if above else NO_PARENT, text) for name, above, text in found.values()}


def main(folder: Path) -> None:
    known = synsets(folder / "data.noun", "n") | synsets(folder / "data.verb", "v")
    labels = load_wordnet().label_names.tolist()
    nodes, at = list(labels), 0
    seen = set(nodes)
    while at < len(nodes):
        above = known[nodes[at]][0]
        if above and above not in seen:
            seen.add(above)
            nodes.append(above)
        at += 1
    number = {name: at for at, name in enumerate(nodes)}
    parent = np.array([number.get(known[name][0], -1) for name in nodes], np.int32)
    arrays = {
        "parent": parent,
        "nodes": pack_names(nodes),
        "descriptions": pack_names(known[name][1] for name in labels),
    }
    target = PACKAGE / "wordnet-labels.npz.xz"
    write_packed(target, arrays)
    print(f"wrote {target.name}: {len(nodes):,} nodes, {len(labels):,} labels, {target.stat().st_size:,} bytes")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
