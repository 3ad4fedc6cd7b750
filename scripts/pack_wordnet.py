"""Check a packed WordNet set and put it, with its licence still beside it, into the package.

    python scripts/pack_wordnet.py wordnet-hypernym.npz.xz

The set is made from the data.noun and data.verb of Debian's wordnet-base (WordNet 3.0): one row for each
synset, the words of its lemmas and gloss in lower case (tokens of two letters or more; words of a single row
dropped), its class the first hypernym (or instance hypernym); hypernyms with fewer than five synsets dropped;
split within each class.
"""

import sys
from pathlib import Path

import numpy as np

from manyclass.datasets.packed import read_packed, unpack_names, unpack_split

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "manyclass" / "datasets"


def check(source: Path) -> None:
    """Fail unless the set is whole: every class in both splits, unique names, counts above zero."""
    arrays = read_packed(source)
    labels, features = unpack_names(arrays, "labels"), unpack_names(arrays, "features")
    assert len(set(labels)) == len(labels) and len(set(features)) == len(features), "names repeat"
    for split in ("train", "test"):
        inputs, classes = unpack_split(arrays, split)
        assert inputs.shape == (len(classes), len(features)), "shapes disagree"
        assert inputs.data.min() >= 1, "a count below one"
        assert np.array_equal(np.unique(classes), np.arange(len(labels))), "a class is missing"
        print(f"{split}: {inputs.shape[0]:,} rows, {inputs.nnz:,} counts, {len(labels):,} classes")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    source = Path(sys.argv[1])
    check(source)
    assert (PACKAGE / "WORDNET_LICENSE.txt").is_file(), "the licence must ship with the data"
    target = PACKAGE / "wordnet-hypernym.npz.xz"
    target.write_bytes(source.read_bytes())
    print(f"wrote {target.relative_to(PACKAGE.parents[2])}, {target.stat().st_size:,} bytes")
