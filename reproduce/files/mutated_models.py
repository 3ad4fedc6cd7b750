"""Broken and hostile model files: each must give a ModelFormatError or a model that works, never anything else.

    python reproduce/files/mutated_models.py [--n 20000] [--seed 0]

Three kinds of mutation: bytes of the file; one number of one array, with the checksums made right again; one value of
the metadata, the same. Truncation at every byte of a small file comes on top. What loads must answer and learn.
"""

import argparse
import copy
import json
import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from manyclass import (
    LabelTreeClassifier,
    LomTreeClassifier,
    MlomTreeClassifier,
    OneAgainstAllClassifier,
    RecallTreeClassifier,
    SpectralTreeClassifier,
    load_model,
)
from manyclass.core import model_file

EXTREMES = [-(2**62), -(2**31), -65536, -2, -1, 0, 1, 2, 3, 15, 16, 17, 255, 2**31 - 1, 2**40, 2**62]
VALUES = [None, True, False, "SGD", "AdaGrad", -1, 0, 1, 7, 10**9, 2**70, 0.5, -1e300, "", "x", [], [1], {}]
VALUES += [{"a": 1}, {"dtype": "O"}]

WAYS = {
    "": {"slim": False},
    " slim": {"slim": True},
    " float16": {"slim": True, "precision": "float16"},
    " int8": {"slim": True, "precision": "int8"},
}  # to save a model


def small_models(seed: int = 0) -> dict[str, object]:
    """A little model of every kind."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 5)).astype(np.float32)
    y, names = rng.integers(0, 12, 60), np.array([f"class {i}" for i in range(12)])
    several = (rng.random((60, 12)) < 0.2).astype(np.int8)
    several[0, 0] = 1
    return {
        "one-against-all": OneAgainstAllClassifier(n_epochs=1, random_state=0).fit(X, y),
        "random state": RecallTreeClassifier(n_epochs=1, random_state=np.random.RandomState(0)).fit(X, y),
        "low rank": OneAgainstAllClassifier(rank=2, n_epochs=1, random_state=0).fit(X, y),
        "recall tree": RecallTreeClassifier(n_epochs=1, random_state=0).fit(X, names[y]),
        "path features": RecallTreeClassifier(path_features="crossed", n_epochs=1, random_state=0).fit(X, y),
        "lom tree": LomTreeClassifier(nodes_per_class=2, split_mass=0, n_epochs=2, random_state=0).fit(X, names[y]),
        "mlom tree": MlomTreeClassifier(n_epochs=2, random_state=0).fit(X, names[y]),
        "mlom tree, no guests": MlomTreeClassifier(guests=False, n_epochs=2, random_state=0).fit(X, names[y]),
        "label tree": LabelTreeClassifier(arity=4, n_epochs=1, random_state=0).fit(X, y),
        "label tree, several": LabelTreeClassifier(arity=4, n_epochs=1, random_state=0).fit(X, several),
        "label tree, online": LabelTreeClassifier(arity=4, random_state=0).partial_fit(X, y),
        "label tree, many features": LabelTreeClassifier(arity=4, random_state=0).fit(_far_apart(X), y),
        "spectral tree": SpectralTreeClassifier(n_candidates=3, n_epochs=1, random_state=0).fit(X, names[y]),
        "spectral tree, several": SpectralTreeClassifier(
            n_candidates=4, n_trees=2, beam=2, leaf="bias", n_epochs=1, random_state=0
        ).fit(X, several),
        "spectral tree, low rank": SpectralTreeClassifier(
            n_candidates=4, n_head=2, rank=3, n_epochs=1, random_state=0
        ).fit(X, y),
    }


def _far_apart(X: np.ndarray) -> sp.csr_array:
    """The same columns among so many that a label tree stores their numbers in pages."""
    columns = np.tile(np.arange(X.shape[1], dtype=np.int32) * 40_000, len(X))
    return sp.csr_array((X.ravel(), columns, np.arange(len(X) + 1) * X.shape[1]), shape=(len(X), 40_000 * X.shape[1]))


def use(model) -> None:
    """Do everything that runs a kernel."""
    X = np.random.default_rng(1).normal(size=(9, model.n_features_in_)).astype(np.float32)
    with np.errstate(all="ignore"):
        model.predict(X)
        model.predict_topk(X, min(3, len(model.classes_)))
        model.candidates(X)
        model.decision_path(X)
        if hasattr(model, "tree_table"):
            model.tree_table()
        if hasattr(model, "topics"):
            model.topics(distinctive=True)
        if model._slim or not hasattr(model, "partial_fit"):
            return
        if getattr(model, "_multilabel", False):
            model.partial_fit(X, np.eye(9, max(9, len(model.classes_)), dtype=np.int8))
        else:
            model.partial_fit(X, np.resize(model.classes_, 9))
        if isinstance(model.random_state, np.random.RandomState):
            model.random_state.random_sample()


def mutate_bytes(raw: bytes, rng) -> bytes:
    """Some bytes changed, cut out, put in, or the end cut off."""
    data = bytearray(raw)
    for _ in range(rng.integers(1, 5)):
        at, kind = int(rng.integers(len(data))), rng.integers(5)
        if kind == 0:
            data[at] = int(rng.integers(256))
        elif kind == 1:
            data[at] ^= 1 << int(rng.integers(8))
        elif kind == 2:
            del data[at : at + int(rng.integers(1, 9))]
        elif kind == 3:
            data[at:at] = bytes(rng.integers(0, 256, int(rng.integers(1, 9)), dtype=np.uint8))
        else:
            del data[at:]
        if not data:
            break
    return bytes(data)


def mutate_array(arrays: dict, rng) -> dict:
    """A few numbers of one array set to something extreme, or its shape changed."""
    arrays = dict(arrays)
    name = list(arrays)[int(rng.integers(len(arrays)))]
    array = arrays[name].copy()
    kind = rng.integers(6)
    if array.size and kind < 5:
        flat = array.reshape(-1)
        for _ in range(int(rng.integers(1, 4))):
            value = EXTREMES[int(rng.integers(len(EXTREMES)))] if kind < 3 else int(flat[rng.integers(len(flat))])
            with np.errstate(all="ignore"):
                flat[rng.integers(len(flat))] = np.array(value).astype(array.dtype)
    elif array.ndim == 1:
        array = array[: int(rng.integers(len(array) + 1))]
    else:
        array = array.T.copy() if kind == 5 else array[:, : int(rng.integers(array.shape[1] + 1))]
    arrays[name] = array
    if rng.integers(30) == 0:
        del arrays[name]
    return arrays


def mutate_metadata(metadata: dict, rng) -> dict:
    """One value somewhere in the metadata replaced or left out."""
    metadata = copy.deepcopy(metadata)
    place: object = metadata
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))  # type: ignore[call-overload]
        key = keys[int(rng.integers(len(keys)))]
        inner = place[key]  # type: ignore[index]
        if isinstance(inner, (dict, list)) and inner and rng.integers(5):
            place = inner
            continue
        if rng.integers(8) == 0:
            del place[key]  # type: ignore[attr-defined]
        else:
            place[key] = VALUES[int(rng.integers(len(VALUES)))]  # type: ignore[index]
        return metadata


def mutant(raw: bytes, path: Path, rng) -> None:
    """Write one mutated copy of a file."""
    kind = int(rng.integers(3))
    if kind == 0:
        path.write_bytes(mutate_bytes(raw, rng))
        return
    path.write_bytes(raw)
    arrays, metadata = model_file.read(path, mmap=False)
    if kind == 1:
        arrays = mutate_array(arrays, rng)
    else:
        metadata = mutate_metadata(metadata, rng)
    path.unlink()
    model_file.write(path, arrays, metadata)


def judge(path: Path, verify: bool) -> str:
    """`refused`, also if its use is, or `works`; anything but a ValueError raises."""
    try:
        use(load_model(path, verify=verify))
    except ValueError:
        return "refused"
    return "works"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--n", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    counts: Counter = Counter()
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for name, model in small_models().items():
            for kind, how in WAYS.items():
                path = Path(folder) / f"{name}{kind}"
                model.save(path, **how)
                files.append((path.name, path.read_bytes()))
        smallest = min((raw for _, raw in files), key=len)
        path = Path(folder) / "mutant"
        for end in range(len(smallest)):
            path.write_bytes(smallest[:end])
            counts["truncated", judge(path, True)] += 1
        for number in range(asked.n):
            rng = np.random.default_rng([asked.seed, number])
            name, raw = files[number % len(files)]
            try:
                mutant(raw, path, rng)
                counts[name, judge(path, bool(rng.integers(2)))] += 1
            except Exception:
                print(f"mutant {number} of {name!r} with seed {asked.seed}:", file=sys.stderr)
                raise
            path.unlink()
    print(json.dumps({" ".join(key): count for key, count in sorted(counts.items())}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
